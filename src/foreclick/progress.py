"""How far a long piece of work is: a bar on a terminal, sparse lines in logs and notebooks.

A verb opens `working`; the work within it calls `say` with each step, and with the share of the
step that is done where it is known. `passed` gives the share of the log that the step is done for.
Short work says nothing.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, TypeAlias

from foreclick.errors import OptionError
from foreclick.secrets import printable

Say: TypeAlias = Callable[[str], None]
"""Who is told what is being done, in a line of text."""

PATIENCE = 20.0
"""Seconds before the first line in a log; the next ones come ever more seldom."""


class Voice:
    """Says what is being done, how much of it is done, and how long the rest will take.

    Args:
        tell: is called with the line.
        draw: is called with the step, its share and the rest of the line, instead of `tell`.
        announce: is called with a line that is not to be missed, instead of `tell`.
    """

    def __init__(
        self,
        tell: Say,
        draw: Callable[[str, float, str], None] | None = None,
        announce: Say | None = None,
    ) -> None:
        self._tell, self._draw = tell, draw
        self.announce = announce or tell
        self._step, self._start = "", 0.0

    def __call__(self, step: str, share: float | None = None, of: str = "") -> None:
        """Say it.

        Args:
            step: what is being done, such as "Reading the log".
            share: how much of the step is done, from 0 to 1; None where that is not known.
            of: what it is a share of, with a blank before it.
        """
        now, step = time.monotonic(), printable(step)
        if step != self._step:
            self._step, self._start = step, now
        if share is None:
            self._tell(step)
            return
        left = time_left(now - self._start, share)
        if self._draw is None:
            self._tell(f"{step}, {share:.0%}{of}{left and f', {left} left'}")
        else:
            self._draw(step, share, left and f"{left} left")

    def passed(self, share: float) -> None:
        """Say for which share of the log the present step is done."""
        if self._step:
            self(self._step, share, " of the log")


def time_left(elapsed: float, share: float) -> str:
    """How long the rest will take at the speed so far; nothing while that is a guess.

    Examples:
        >>> time_left(30, 0.25), time_left(600, 0.5), time_left(0.1, 0.5)
        ('90 s', '10 min', '')
    """
    if elapsed < 1 or not 0 < share < 1:
        return ""
    return duration(elapsed / share * (1 - share))


def duration(seconds: float) -> str:
    """Seconds, or minutes if there are many."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


_voice: ContextVar[Voice | None] = ContextVar("voice", default=None)
_shown: list[Say | str] = ["auto"]  # what `settings` was last told


def show_progress(to: Say | Literal["auto", "never"] = "auto") -> None:
    """Where all verbs show how far they are, from now on; see `options.settings`."""
    if to not in ("auto", "never") and not callable(to):
        raise OptionError(
            f"progress={to!r}: say 'auto' or 'never', or give a function of one line of text, such "
            "as print."
        )
    _shown[0] = to


@contextmanager
def working(progress: Say | None = None) -> Iterator[Voice]:
    """Gives the function to call with what is being done.

    A verb that is called by another one says it where that one does.

    Args:
        progress: who is told; None: as `settings` was told.
    """
    outer, shown = _voice.get(), _shown[0]
    if progress is None and outer is None and shown != "auto":
        progress = silent() if isinstance(shown, str) else shown
    if progress is None and outer is not None:
        yield outer
    elif progress is not None:
        with _heard(progress if isinstance(progress, Voice) else Voice(progress)) as voice:
            yield voice
    else:
        with _bar() if _redraws() else _lines() as made, _heard(made) as voice:
            yield voice


def _redraws() -> bool:
    """Whether a line on stderr can change: frames of a spinner would fill a notebook or a log.

    Some notebooks and machines of CI call their output a terminal.
    """
    plain = os.environ.get("TERM", "") in ("", "dumb", "unknown") and sys.platform != "win32"
    notebook = "ipykernel" in sys.modules or "google.colab" in sys.modules
    return sys.stderr.isatty() and not (plain or notebook or os.environ.get("CI"))


@contextmanager
def _heard(voice: Voice) -> Iterator[Voice]:
    """Make a voice the one that speaks for all work within."""
    before = _voice.set(voice)
    try:
        yield voice
    finally:
        _voice.reset(before)


def silent() -> Voice:
    """A voice that nobody hears, for ``working(silent())``."""
    return Voice(lambda _: None)


def say(step: str, share: float | None = None) -> None:
    """Say what is being done, to whoever listens; see `Voice`."""
    voice = _voice.get()
    if voice is not None:
        voice(step, share)


def announce(line: str) -> None:
    """Say before long work what to expect of it; it is said at once, and stays on a terminal."""
    voice = _voice.get()
    if voice is not None:
        voice.announce(printable(line))


def passed(share: float) -> None:
    """Say for which share of the log the present step is done."""
    voice = _voice.get()
    if voice is not None:
        voice.passed(share)


@contextmanager
def _bar() -> Iterator[Voice]:
    """A line on a terminal that changes: a spinner, the step, a bar where the share is known."""
    # Rich takes long to import, and most runs have no terminal.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress_bar import ProgressBar  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    with Console(stderr=True).status("") as status:

        def draw(step: str, share: float, left: str) -> None:
            grid = Table.grid(padding=(0, 1))
            grid.add_row(Text(step), ProgressBar(1, share, 24), f"{share:4.0%}", left)
            status.update(grid)

        yield Voice(
            lambda step: status.update(Text(f"{step} …")),
            draw,
            announce=lambda line: status.console.print(Text(line)),
        )


@contextmanager
def _lines() -> Iterator[Voice]:
    """Lines on stderr: none for the first seconds, then ever fewer, so that a log stays short."""
    start = time.monotonic()
    due = PATIENCE

    def tell(line: str) -> None:
        nonlocal due
        elapsed = time.monotonic() - start
        if elapsed >= due:
            due = 1.5 * elapsed
            announce(f"[{elapsed:.0f} s] {line}")

    def announce(line: str) -> None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    yield Voice(tell, announce=announce)
