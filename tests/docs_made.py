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
from foreclick.cli import main
from foreclick.results import Result
from tests import docs

NOTEBOOKS = {"docs/tutorial.ipynb": "docs/tutorial.md"}


def made() -> dict[Path, Callable[[], str]]:
    """What these files should hold, worked out when it is asked for."""
    files: dict[Path, Callable[[], str]] = {
        docs.ROOT / "docs" / "cli.md": command_line,
        docs.ROOT / "docs" / "reference.md": reference,
    }
    for notebook, page in NOTEBOOKS.items():
        files[docs.ROOT / notebook] = functools.partial(_notebook_of, docs.ROOT / page)
    return files


def write() -> None:
    """Write all of them."""
    for path, text in made().items():
        path.write_text(text())


def _notebook_of(page: Path) -> str:
    return as_notebook(page.read_text())


# --- the command line -----------------------------------------------------------------------------

_INTRODUCTION = """\
# The command line

Every command with its examples, then every option once.

"""
_OPTIONS = """
## Options

Where an option belongs to one or two commands, they stand in brackets.
"""
_BOX = re.compile(r"^╭─ (?P<title>[^─]+) ─+╮\n(?P<rows>.*?)^╰─+╯$", re.MULTILINE | re.DOTALL)
_FEW = 2  # commands that are named beside an option


def command_line() -> str:
    """A page of all commands: what each is for, with examples; and every option once."""
    overview = helped()
    names = command_names(overview)
    parts = [_INTRODUCTION, _block(overview)]
    parts += [f"\n## {name}\n\n{_block(_prose(helped(name)))}" for name in names]
    found: dict[tuple[str, str], tuple[str, list[str]]] = {}
    for name in names:
        for title, option, meaning in options(_all_help(name)):
            found.setdefault((title, option), (meaning, []))[1].append(name)
    parts.append(_OPTIONS)
    for title in dict.fromkeys(title for title, _ in found):
        heading = "Questions" if title == "Options" else title
        parts.append(f"\n### {heading}\n\n| option | meaning |\n|---|---|\n")
        for (panel, option), (meaning, users) in found.items():
            if panel == title:
                alone = f" ({', '.join(users)})" if len(users) <= _FEW else ""
                spelt = option.replace("|", "\\|")
                parts.append(f"| `{spelt}` | {meaning.replace('|', chr(92) + '|')}{alone} |\n")
    return "".join(parts)


def _prose(text: str) -> str:
    """What a help says before its options, and its examples."""
    examples = text.partition("Examples (")[2].partition("\n")[2].strip()
    return f"{text.partition('╭─')[0].partition('Examples (')[0].rstrip()}\n\n{examples}\n"


def _all_help(name: str) -> str:
    """The help of a command with all of its options."""
    with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(docs.Differs):
        return helped(name, "--help-all")
    return helped(name)


def options(text: str) -> Iterator[tuple[str, str, str]]:
    """The options of a help: in which box they stand, how they are spelt, and what they mean."""
    for box in _BOX.finditer(text):
        option, meaning = "", [""]
        for line in [*box["rows"].splitlines(), "│ --"]:
            row = line.strip("│")
            start = re.match(r"^ (?:\*  | {3})?(--\S*(?: \S+)*)(?: {2,}(\S.*))?$", row.rstrip())
            if start:
                if option:
                    yield box["title"].strip(), option, _short(" ".join(meaning))
                option, meaning = start[1], [start[2] or ""]
            elif option:
                meaning.append(row.strip())


def _short(meaning: str) -> str:
    """A meaning without its choices and defaults, which `--help` has."""
    return re.sub(r" ?\[(?:choices|default|required)[^]]*\]", "", " ".join(meaning.split())).strip()


def command_names(overview: str) -> list[str]:
    """The commands, in the order in which the help lists them."""
    found = re.findall(r"^(?:│ | {4})([a-z][a-z-]+)(?: {2,}.*| *│?)$", overview, re.MULTILINE)
    return [name for name in dict.fromkeys(found) if _explains_itself(name)]


def _explains_itself(name: str) -> bool:
    with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(docs.Differs):
        helped(name)
        return True
    return False


@functools.cache
def helped(*words: str) -> str:
    """What ``foreclick … --help`` prints."""
    plain = {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}
    out = io.StringIO()
    asked = words if words[-1:] == ("--help-all",) else (*words, "--help")
    with mock.patch.dict(os.environ, plain), contextlib.redirect_stdout(out):
        code = docs.called(main, list(asked))
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
    names: dict[str, list[str]] = {part: [] for part in _REFERENCE}
    for name in foreclick.__all__:
        one = getattr(foreclick, name)
        if isinstance(one, type):
            part = "Results" if issubclass(one, Result) else "Inputs"
            names[part].append(f"foreclick.{name}")
        elif callable(one):
            names["Functions"].append(f"foreclick.{name}")
    names["Events"] = [
        f"foreclick.events.{name}" for name in ("Match", "ubi", "ga4", "snowplow", "algolia")
    ]
    readers = ("yandex", "relevance_prediction", "pyclick", "trivago", "open_bandit")
    names["Public logs"] = [f"foreclick.datasets.{name}" for name in readers]
    worlds = (
        "yandex_like",
        "pbm_drift",
        "Simulation",
        "shop.Shop",
        "shop.draw",
    )
    names["Simulated worlds"] = [f"foreclick.simulate.{name}" for name in worlds]
    names["Errors"] = ["foreclick.errors.ForeclickError"]
    parts = ["# Reference\n"]
    for part, words in _REFERENCE.items():
        parts.append(f"\n## {part}\n\n{words}\n")
        parts += [f"\n::: {name}\n" for name in names[part]]
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
