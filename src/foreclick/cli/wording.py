"""The library's messages in the words of the command line: `period='day'` is `--period day`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Container, Mapping

_CALL = re.compile(r"\b(?:fc\.)?(?:read_log|evaluate)\((?:…,\s+)?([^()]*)\)")
_VERB = re.compile(r"\bfc\.([a-z]+)(?:\(log\)|(?![\w(]|\.\w))")
_NAMED = re.compile(r"\b(\w+)=\{'(\w+)': (?:'([^']*)'|(…))\}")
_PAIR = re.compile(r"\b(long)=\('([^']*)', '([^']*)'\)")
_OPTION = re.compile(r"(?<!example )\b(\w+)=(?:'([^']*)'|\"([^\"]*)\"|(…)|(?=[\s,;.)]))")
_PLAIN = re.compile(r"[\w.,:=…/+-]+")


def in_options(text: str, flags: Mapping[str, str], commands: Container[str]) -> str:
    """A message with the options of a command where the library names its parameters.

    Args:
        text: what the library says.
        flags: the command's options by their names in the library.
        commands: the names of commands, which are those of verbs.
    """

    def option(match: re.Match[str]) -> str:
        key, *values = match.groups()
        if key not in flags:
            return match[0]
        if match.re is not _OPTION:  # a pair: NAME=COLUMN or COLUMN,COLUMN
            values = ["=,"[match.re is _PAIR].join(filter(None, values))]
        value = next((each for each in values if each is not None), "")
        plain = not value or _PLAIN.fullmatch(value)
        return f"{flags[key]} {value if plain else shlex.quote(value)}".rstrip()

    text = _CALL.sub(lambda m: m[1] if _OPTION.match(m[1]) else m[0], text)
    text = _VERB.sub(lambda m: f"foreclick {m[1]}" if m[1] in commands else m[0], text)
    for pattern in (_NAMED, _PAIR, _OPTION):
        text = pattern.sub(option, text)
    return text
