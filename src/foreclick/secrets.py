"""Text that leaves the program: without secrets, and unable to steer a terminal.

Messages and warnings pass `masked` when they are made; titles and notes when a result is made;
whatever is printed, drawn or put on a page passes `printable`. Values of a log in CSV, JSON and
Parquet stay as they are.
"""

from __future__ import annotations

import os
import re
from functools import cache

_ENVIRONMENT = re.compile(r"SECRET|KEY|TOKEN|PASSW|_PWD|CONNECTION_STRING", re.IGNORECASE)
_SHORTEST = 6  # characters of a secret of the environment; a shorter value may be any word

# --- parts of the forms ---------------------------------------------------------------------------

_NAME = r"""(?:passw(?:or)?d|passphrase|pwd|(?<![a-z])pass|(?<![a-z])pw|secret|token|credentials?
    |signature|jwt|connection[_-]?string|secret[_-]?id|key[_-]?id|identified\s+by
    |(?:api|access|account|auth|encryption|master|private|sas|secret|shared|signing|storage)[_-]?key
    )\\{0,4}["'`\]]?"""
_QUOTED = r"""(?P<q>\\{0,4}["'])(?!\*\*\*)(?:(?P=q){2}|(?!(?P=q))(?:\\+.|[^\\\n]))*(?:(?P=q)|$)"""
_BARE = r"""(?!["']?\*\*\*)(?:(?![&;,][\w.%-]+=|%26|[.,;:!?)\]}>'"`\\]{0,8}(?:\s|$))\S)+"""
_VALUE = rf"(?:{_QUOTED}(?:{_BARE})?|{_BARE})"
_NOT_AT = r"""(?:[^\s@,;'"(]|[,;'"(](?!\w+://)){0,1024}+"""
_TO_LAST_AT = rf"(?:{_NOT_AT}@)*{_NOT_AT}(?=@)"
_PORT = r"\d{1,5}(?:[^\w@]|$)"
_NAMES = "pass pw secret token credential signature jwt string key ident"

# --- the forms ------------------------------------------------------------------------------------

_TABLE = {
    # URLs: https://TOKEN@host, postgres://me:p@SECRET@h, postgres://me:two words@h
    rf"\b((?:http|ws)s?://)(?:[^\s/:?#\[]*:(?!{_PORT}){_TO_LAST_AT}|[^\s/?#]+(?=@))": "@",
    rf"""((?<!http)(?<!https)://[^\s/:?#\[\]'"]*:)
        (?:{_TO_LAST_AT}|(?!\s|{_PORT})[^\n@]{{1,64}}(?=@))""": "@",
    # DSNs: me:SECRET@h:5432/db, me:SECRET@tcp(h), scott/SECRET@//h, jdbc:oracle:thin:scott/SECRET@h
    r"(?<![\w:/.@-])([\w.-]+:)(?!//|\*)[^\s/]+(?=@(?:[\w.-]+:\d+/|(?:tcp6?|unix)\())": "@",
    r"(\bthin:\w+/|\b\w+/(?=[^\s/@]+@(?://|\()))(?!\*)[^\s/@]+(?=@)": "@",
    # Parameters of URLs whose names are ordinary elsewhere: ?sig=SECRET
    rf"([?&](?:amp;)?(?:sig|key|code|auth|hmac)(?:=|%3D)){_BARE}": "? &",
    # Headers: Authorization: Bearer SECRET
    rf"""(authorization\\?["']?\s*[:=]\s*)(?:{_QUOTED}|(?![\s*])[^\n'"]+)""": "authorization",
    r"(bearer\s+)(?=\S*\d)[\w.~+/=-]{8,}": "bearer",
    # Names and values: password=SECRET, "token": "SECRET", PASSWORD 'SECRET', --token SECRET
    rf"""({_NAME}(?:
        \s+(?:[=!]?=|<>|:=|=>|(?:not\s+)?i?like)\s*|(?:[=!]?=|:=|=>)(?:\s*(?=\\*["']))?|%3D
        |\s*:\s*(?=\\*["'])|:(?!//|\s)|:[ ](?=\S+(?:$|(?<=["'])\s))|\s+(?=')
        )){_VALUE}""": _NAMES,
    rf"({_NAME}\s+(?:not\s+)?in\s*\()(?!\*)[^)\n]{{1,1024}}": _NAMES,
    rf"((?<!\S)--[\w-]*?{_NAME}\s+)(?!-){_VALUE}": "--",
    r"((?<!\S)-u\s+[^\s:]+:)\S+": "-u",
    # Values that tell by themselves: keys of clouds and services, JSON web tokens, private keys
    r"\b()(?:A[KS]IA[0-9A-Z]{16}|AIza[\w-]{35})": "akia asia aiza",
    r"\b()(?:(?:gh[opsru]|github_pat|hf)_\w{20,}|dapi[0-9a-f]{32})": "gh hf_ dapi",
    r"\b()(?:glpat-|xox[abprs]-|sk[-_]|ya29\.)[\w-]{16,}": "glpat- xox sk- sk_ ya29.",
    r"\b()eyJ[\w-]{8,}\.[\w-]+\.[\w-]*": "eyj",
    r"()-----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----[^-]*(?:-----END[A-Z ]+-----)?": "-----begin",
}
"""Forms of credentials, whose first group stays; and texts of which each needs one, to be quick."""

_FLAGS = re.IGNORECASE | re.MULTILINE | re.VERBOSE
_FORMS = [(re.compile(form, _FLAGS), hints.split()) for form, hints in _TABLE.items()]


def masked(text: str) -> str:
    """Text without passwords, keys, signatures and the secrets of this process's environment.

    Examples:
        >>> masked("postgres://me:secret@host/db and password=secret")
        'postgres://me:***@host/db and password=***'
    """
    for name in filter(_is_secret, os.environ):
        value = os.environ.get(name, "")
        if len(value) >= _SHORTEST:
            text = text.replace(value, "***")
    small = text.lower()
    for form, hints in _FORMS:
        if any(hint in small for hint in hints):
            text = form.sub(r"\1***", text)
    return text


@cache
def _is_secret(name: str) -> bool:
    """Whether a variable of the environment holds a secret."""
    return _ENVIRONMENT.search(name) is not None


def printable(text: str, *, lines: bool = False) -> str:
    r"""Text without secrets that stays on its line and cannot steer the terminal.

    Args:
        text: any text; queries of a log hold anything.
        lines: whether the text may have several lines.

    Examples:
        >>> print(printable("token=abc\x1b[2J\n"))
        token=***\n
        >>> print(printable("red: \x1b[31m"))
        red: \x1b[31m
    """
    return visible(masked(text), lines=lines)


def visible(text: str, *, lines: bool = False) -> str:
    """Text with its control characters spelt out."""
    if text.isprintable():
        return text
    stays = "\n" if lines else ""
    return "".join(
        c if c.isprintable() or c in stays else c.encode("unicode_escape").decode() for c in text
    )
