"""The documentation, run: every block of code and every command of README.md and docs/.

    python -m tests.docs               run all pages, show what differs
    python -m tests.docs --write       rewrite what the pages say is printed, and what is generated
    python -m tests.docs --write docs/guide/log.md     only this page
    python tests/docs.py --follow README.md            with nothing but an installed foreclick
    python tests/docs.py --extras README.md            the extras that a page tells to install

Blocks of a page run in order, in a new directory. ``python`` blocks share their names. ``sh``
blocks are commands. A ``text`` block is what the block above it prints. Comments in front of a
block, or anywhere on a page, say what a reader need not see:

    <!-- docs: not run, needs a search engine -->   the next block is only compiled
    <!-- docs: on spark -->                         the next block runs where there is Spark
    <!-- docs: an example -->                       the next text block is not compared
    <!-- docs: raises LogError -->                  the next block ends with this error, printed
    <!-- docs: given shop -->                       files, `log` and `candidate` are there
    <!-- docs: setup
    code that readers need not see
    -->

Only the standard library is imported at the top: the last two commands run in an environment
that has foreclick and nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[1]
_FENCE = re.compile(
    r"<!-- docs: setup\n(?P<hidden>.*?)-->"
    r"|(?:^ *<!-- docs: (?P<mark>[^\n]*) -->\n+)?"
    r"^(?P<indent> *)```(?P<language>[\w-]*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_GIVEN = re.compile(r"<!-- docs: given (\w+) -->")
_OUTPUT = ("text", "")
_RUN = ("python", "sh")


def pages() -> list[Path]:
    """README.md and all pages of docs/, in order."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


# --- what stands on a page ------------------------------------------------------------------------


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str
    mark: str
    line: int
    start: int
    """Where its text begins on the page, and below where it ends."""
    end: int
    indent: str = ""

    @property
    def engine(self) -> str | None:
        """The engine that a block needs."""
        return self.mark.removeprefix("on ") if self.mark.startswith("on ") else None

    @property
    def runs(self) -> bool:
        """Whether it is run at all."""
        return self.language in _RUN and not self.mark.startswith("not run")


def blocks(page: str) -> Iterator[Block]:
    """The blocks of a page's text, hidden ones among them."""
    for found in _FENCE.finditer(page):
        line = page.count("\n", 0, found.start()) + 1
        if found["hidden"] is not None:
            yield Block("python", found["hidden"], "", line, *found.span("hidden"))
        else:
            text = re.sub(f"^{found['indent']}", "", found["text"], flags=re.MULTILINE)
            span = found.span("text")
            yield Block(
                found["language"], text, found["mark"] or "", line, *span, indent=found["indent"]
            )


# --- running it -----------------------------------------------------------------------------------


class Differs(AssertionError):
    """A page does not say what is so."""


def _python(page: Path, block: Block, names: dict[str, Any]) -> str:
    """What a block of code prints; with its error, if it is to end with one."""
    code = compile("\n" * block.line + block.text, str(page), "exec")
    expected = block.mark.removeprefix("raises ") if block.mark.startswith("raises ") else None
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            exec(code, names)  # noqa: S102 - our own text
        except Exception as error:
            if type(error).__name__ != expected:
                raise
            return f"{out.getvalue()}{expected}: {error}\n"
    if expected:
        raise Differs(f"{page.name}, line {block.line}: no {expected} was raised")
    return out.getvalue()


def run_page(
    page: Path,
    directory: Path,
    *,
    shell: Callable[[str], str],
    engine: str | None = None,
    names: dict[str, Any] | None = None,
) -> str:
    """Run a page in `directory`; gives its text with the output that was printed now.

    With `engine`, only the blocks that need it.
    """
    text, names = page.read_text(), {"__name__": "page"} | (names or {})
    changes: list[tuple[Block, str]] = []
    last: str | None = None  # what the last block printed
    with contextlib.chdir(directory):
        for block in blocks(text):
            if block.language == "python" and not block.runs:
                compile(block.text, str(page), "exec")
            if block.runs and block.engine == engine:
                try:
                    python = block.language == "python"
                    last = _python(page, block, names) if python else shell(block.text)
                except Exception as error:
                    error.add_note(f"in {page.name}, line {block.line}")
                    raise
            elif block.runs or block.language not in _OUTPUT:
                last = None
            elif last is not None and block.mark != "an example":
                changes.append((block, last.rstrip() + "\n"))
                last = None
    for block, printed in reversed(changes):
        shown = textwrap.indent(printed, block.indent)
        text = text[: block.start] + shown + text[block.end :]
    return text


# --- commands -------------------------------------------------------------------------------------


def commands(text: str) -> Iterator[list[str]]:
    """The commands of a block, in words; lines may go on after a backslash."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words:
            yield words


def in_process(text: str) -> str:
    """Run commands without starting a process for each."""
    from foreclick.cli import main  # noqa: PLC0415 - commands only

    out = io.StringIO()
    for words in commands(text):
        if words[0] == "foreclick":
            command, *then = _parted(words)
            with contextlib.redirect_stdout(out):
                code = called(main, command[1:])
            if code and then[:1] != ["||"]:
                raise Differs(f"{shlex.join(command)} exits with {code}\n{out.getvalue()}")
            if then and (then[0] == "||") == bool(code):
                out.write(then[1].replace("$?", str(code)) + "\n")
        else:
            known(words)
    return out.getvalue()


def _parted(words: list[str]) -> tuple[list[str], *tuple[str, ...]]:
    """A command; and, if it goes on with ``|| echo`` or ``&& echo``, that and the text."""
    for sign in ("||", "&&"):
        if sign in words:
            place = words.index(sign)
            echo, text = words[place + 1 :]
            if echo != "echo":
                raise Differs(f"only echo may stand after {sign}")
            return words[:place], sign, text
    return (words,)


def called(main: Callable[[list[str]], int | None], words: list[str]) -> int:
    """The exit code of a command that runs in this process."""
    try:
        return main(words) or 0
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)


def in_shell(text: str) -> str:
    """Run commands as a reader would, but for those that install, and studies that take hours."""
    skipped = ("pip install", "make ")
    kept = "\n".join(line for line in text.splitlines() if not line.startswith(skipped))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", kept],
        env=os.environ | {"PATH": path},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Differs(f"exit code {done.returncode}\n{kept}\n{done.stdout}")
    return done.stdout


def known(words: list[str]) -> None:
    """Commands that are not run here must at least exist."""
    match words:
        case ["pip", "install", *what]:
            there = set(re.findall(r"^(\w+) = \[", _section("optional-dependencies"), re.MULTILINE))
            asked = {extra for one in what for extra in extras_of(one)}
            if asked - there:
                raise Differs(f"no such extra: {sorted(asked - there)}")
        case ["make", target, *_]:
            if not re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE):
                raise Differs(f"no target {target!r} in the Makefile")
        case _:
            raise Differs(f"what is {' '.join(words)!r}? Mark its block `docs: not run, because …`")


def _section(name: str) -> str:
    text = (ROOT / "pyproject.toml").read_text()
    return text.split(f"[project.{name}]")[1].split("\n[")[0]


def extras_of(requirement: str) -> list[str]:
    """The extras of ``foreclick[charts,spark]``."""
    found = re.fullmatch(r"foreclick(?:\[([\w,]+)\])?", requirement)
    return found[1].split(",") if found and found[1] else []


def extras(page: Path) -> list[str]:
    """The extras that a page tells to install, in blocks of commands that run."""
    words = (
        word
        for block in blocks(page.read_text())
        if block.language == "sh" and block.runs
        for command in commands(block.text)
        if command[:2] == ["pip", "install"]
        for word in command[2:]
    )
    return sorted({extra for word in words for extra in extras_of(word)})


# --- all of it ------------------------------------------------------------------------------------


def given(page: Path, directory: Path) -> dict[str, Any]:
    """Put the files that a page starts with into `directory`; gives the names it starts with."""
    found = _GIVEN.search(page.read_text())
    if not found:
        return {}
    if str(ROOT) not in sys.path:  # run as a file, this module is not part of `tests`
        sys.path.append(str(ROOT))
    from tests import docs_files  # noqa: PLC0415 - needs foreclick

    names: dict[str, Any] = getattr(docs_files, found[1])(directory)
    return names


def now(page: Path, shell: Callable[[str], str] | None = None, **options: Any) -> str:  # noqa: ANN401 - those of run_page
    """The text that a page should have."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        names = given(page, directory) | options.pop("names", {})
        return run_page(page, directory, shell=shell or in_process, names=names, **options)


def main() -> int:
    """The commands of the docstring above."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument("--write", action="store_true", help="rewrite the pages")
    parser.add_argument("--follow", action="store_true", help="commands in a real shell")
    parser.add_argument("--extras", action="store_true", help="print what is to be installed")
    args = parser.parse_args()
    chosen = [page.resolve() for page in args.pages] or pages()
    if args.extras:
        sys.stdout.write(",".join(sorted({name for page in chosen for name in extras(page)})))
        return 0
    shell = in_shell if args.follow else in_process
    wrong = 0
    for page in chosen:
        if not any(block.runs for block in blocks(page.read_text())):
            continue
        if args.follow and shutil.which("foreclick", path=str(Path(sys.executable).parent)) is None:
            raise SystemExit("no foreclick is installed beside this Python")
        text = now(page, shell=shell)
        if text != page.read_text():
            wrong += not args.write
            sys.stdout.write(
                f"{page.relative_to(ROOT)}: {'rewritten' if args.write else 'differs'}\n"
            )
            if args.write:
                page.write_text(text)
    if args.write:
        from tests import docs_made  # noqa: PLC0415 - needs foreclick

        docs_made.write()
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
