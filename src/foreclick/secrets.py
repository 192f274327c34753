"""Text without secrets: passwords in URLs, signatures, and those of the environment."""

from __future__ import annotations

import os
import re

_SECRET = re.compile(r"SECRET|KEY|TOKEN|PASSWORD|CONNECTION_STRING", re.IGNORECASE)
_SHORTEST = 6  # characters of a secret; a shorter value may be any word
_QUERY = re.compile(r"(\w+://[^\s?'\"]+)\?[^\s'\"]*=[^\s'\"]*")
_USER = re.compile(r"(\w+://[^\s/:@'\"]*):[^\s/@'\"]*@")
_GIVEN = re.compile(r"\b(password|passwd|pwd|secret|token)=[^\s&;'\"]+", re.IGNORECASE)


def masked(text: str) -> str:
    """Text without passwords, signatures of URLs and the secrets of this process's environment.

    Examples:
        >>> masked("postgres://me:secret@host/db and password=secret")
        'postgres://me:***@host/db and password=***'
    """
    for name, value in os.environ.items():
        if _SECRET.search(name) and len(value) >= _SHORTEST:
            text = text.replace(value, "***")
    text = _USER.sub(r"\1:***@", _QUERY.sub(r"\1?***", text))
    return _GIVEN.sub(r"\1=***", text)


def unsigned(url: str) -> str:
    """A URL without its query, which may be a signature, and without a password."""
    return _USER.sub(r"\1:***@", _QUERY.sub(r"\1", url))
