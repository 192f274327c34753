"""Files of the documentation that are made: the notebook, the command line, the reference."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
import os
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import foreclick
from foreclick.cli import commands, main  # noqa: F401 - they register commands
from foreclick.cli.app import CANDIDATE, COMMANDS, LOG, OUTPUT, READING
from foreclick.options import OPTIONS, Option
from foreclick.results import Result
from foreclick.rules import Choice, Flag
from tests import docs


def made() -> dict[Path, Callable[[], str]]:
    """What these files should hold, worked out when it is asked for."""
    pages = docs.ROOT / "docs"
    return {
        pages / "cli.md": command_line,
        pages / "reference.md": reference,
        pages / "tutorial.ipynb": lambda: as_notebook((pages / "tutorial.md").read_text()),
    }


def write() -> None:
    """Write all of them."""
    for path, text in made().items():
        path.write_text(text())


# --- the command line -----------------------------------------------------------------------------

_INTRODUCTION = """\
# The command line

Every command with its examples, then every option once.

"""
_OPTIONS = """
## Options

Where an option belongs to one or two commands, they stand in brackets.
"""
_FEW = 2  # commands that are named beside an option
_SHARED = {"Output": OUTPUT, "Reading": READING, "Log": LOG, "Candidate": CANDIDATE}
_PANELS = {option: panel for panel, options in _SHARED.items() for option in options.split()}


def command_line() -> str:
    """A page of all commands: what each is for, with examples; and every option once."""
    overview = helped()
    names = command_names(overview)
    parts = [_INTRODUCTION, _block(overview)]
    parts += [f"\n## {name}\n\n{_block(_prose(helped(name)))}" for name in names]
    meanings: dict[tuple[str, str], str] = {}
    users: dict[tuple[str, str], list[str]] = {}
    for name in names:
        for key, _, entry in (option.partition(":") for option in COMMANDS[name].options):
            row = OPTIONS[entry or key]
            spelt = _PANELS.get(entry or key, "Questions"), _spelling(key, row)
            meanings.setdefault(spelt, row.help)
            users.setdefault(spelt, []).append(name)
    parts.append(_OPTIONS)
    for panel in ("Questions", *dict.fromkeys(_PANELS.values())):
        parts.append(f"\n### {panel}\n\n| option | meaning |\n|---|---|\n")
        for spelt, by in users.items():
            if spelt[0] == panel:
                alone = f" ({', '.join(by)})" if len(by) <= _FEW else ""
                option, meaning = (text.replace("|", "\\|") for text in (spelt[1], meanings[spelt]))
                parts.append(f"| `{option}` | {meaning}{alone} |\n")
    return "".join(parts)


def _spelling(key: str, row: Option) -> str:
    """An option as help shows it, with what stands for its value."""
    flags = row.flags or f"--{key.replace('_', '-')}"
    if isinstance(row.rule, Flag):
        return flags
    return f"{flags} {'CHOICE' if isinstance(row.rule, Choice) else row.rule.metavar}"


def _prose(text: str) -> str:
    """What a help says before its options, and its examples."""
    examples = text.partition("Examples (")[2].partition("\n")[2].strip()
    return f"{text.partition('╭─')[0].partition('Examples (')[0].rstrip()}\n\n{examples}\n"


def command_names(overview: str) -> list[str]:
    """The commands, in the order in which the help lists them."""
    return re.findall(r"^│ ([a-z]+) ", overview, re.MULTILINE)


@functools.cache
def helped(*words: str) -> str:
    """What ``foreclick … --help`` prints."""
    plain = {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}
    out = io.StringIO()
    with mock.patch.dict(os.environ, plain), contextlib.redirect_stdout(out):
        code = docs.called(main, [*words, "--help"])
    if code:
        raise docs.Differs(f"foreclick {' '.join(words)} --help exits with {code}")
    return "\n".join(line.rstrip() for line in out.getvalue().strip().splitlines()) + "\n"


def _block(text: str) -> str:
    return f"```text\n{text}```\n"


# --- the reference --------------------------------------------------------------------------------

_REFERENCE = {
    "Functions": "Everything here is imported as `import foreclick as fc`.",
    "Inputs": "What functions take: policies, logs, metrics, estimators.",
    "Results": "What functions return.",
    "Events": "How an action finds its list, and readers of the events of well-known trackers.",
    "Public logs": "`from foreclick import datasets`",
    "Simulated worlds": "`from foreclick import simulate`",
    "Errors": "All errors are children of `ForeclickError`.",
}


def reference() -> str:
    """A page of every public name; the site's builder writes their docstrings."""
    public = {name: getattr(foreclick, name) for name in foreclick.__all__}
    classes = {name: one for name, one in public.items() if isinstance(one, type)}
    results = [name for name, one in classes.items() if issubclass(one, Result)]
    events, readers = foreclick.events.READERS, foreclick.datasets.READERS
    worlds = ("yandex_like", "pbm_drift", "Simulation", "shop.Shop", "shop.draw")
    names = {
        "Functions": [n for n, one in public.items() if callable(one) and n not in classes],
        "Inputs": [name for name in classes if name not in results],
        "Results": results,
        "Events": [f"events.{name}" for name in ("Match", *events)],
        "Public logs": [f"datasets.{name}" for name in readers],
        "Simulated worlds": [f"simulate.{name}" for name in worlds],
        "Errors": ["errors.ForeclickError"],
    }
    parts = ["# Reference\n"]
    for part, words in _REFERENCE.items():
        parts.append(f"\n## {part}\n\n{words}\n")
        parts += [f"\n::: foreclick.{name}\n" for name in names[part]]
    return "".join(parts)


# --- the notebook ---------------------------------------------------------------------------------


def as_notebook(page: str) -> str:
    """A page as a notebook: text, code, and what the code prints, as the page says it."""
    cells: list[dict[str, Any]] = []
    for kind, text in _pieces(page):
        if kind == "text" and cells and cells[-1]["cell_type"] == "code":
            shown = {"name": "stdout", "output_type": "stream", "text": _lines(text)}
            cells[-1]["outputs"] = [shown]
        else:
            cells.append(_cell(kind, text, len(cells)))
    content = {
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def _pieces(page: str) -> Iterator[tuple[str, str]]:
    """Prose and blocks in turn, by kind."""
    start = 0
    for block in docs.blocks(page):
        fence = page.rindex("```", 0, block.start)
        line = page.rindex("\n", 0, fence) + 1
        if prose := _for_notebooks(page[start:line]):
            yield "markdown", prose
        yield block.language, block.text
        start = page.index("```", block.end) + 3
    if prose := _for_notebooks(page[start:]):
        yield "markdown", prose


def _for_notebooks(text: str) -> str:
    """Prose without what only the site understands."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r'^\?\?\? \w+ "([^"(]*?) ?(?:\(.*\))?"$', r"*\1*", text, flags=re.MULTILINE)
    return text.strip()


def _cell(kind: str, text: str, number: int) -> dict[str, Any]:
    identity = hashlib.md5(f"{number} {text}".encode(), usedforsecurity=False).hexdigest()[:8]
    if kind == "markdown":
        return {"cell_type": kind, "id": identity, "metadata": {}, "source": _lines(text)}
    if kind == "sh":  # a notebook runs commands behind an exclamation mark
        commands = textwrap.dedent(text).replace("\\\n", " ").splitlines()
        install = [re.sub("^pip install", "%pip install", line) for line in commands]
        text = "\n".join(line if line.startswith("%") else f"!{line}" for line in install)
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": identity,
        "metadata": {},
        "outputs": [],
        "source": _lines(text),
    }


def _lines(text: str) -> list[str]:
    return text.rstrip("\n").splitlines(keepends=True)
