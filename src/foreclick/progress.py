"""Progress of long work: a bar on a terminal, sparse lines in logs and notebooks.

A verb opens `working`; the work within it calls `report_step` with each step, and with the share of
the step that is done where it is known. `report_share` gives the share of the log that the step is
done for. Short work prints nothing.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import TypeAlias

from foreclick.secrets import printable

WriteLine: TypeAlias = Callable[[str], None]
"""A function of one line of text."""

PATIENCE = 20.0
"""Seconds before the first line in a log; the next ones come ever more seldom."""


class Progress:
    """Writes the step that is being done, its share, and how long the rest will take.

    Args:
        write: is called with the line.
        draw: is called with the step, its share and the rest of the line, instead of `write`.
        announce: is called with a line that is not to be missed, instead of `write`.

    Attributes:
        detail: is called with what only somebody who looks for a mistake wants to know.
    """

    def __init__(
        self,
        write: WriteLine,
        draw: Callable[[str, float, str], None] | None = None,
        announce: WriteLine | None = None,
    ) -> None:
        self._write, self._draw = write, draw
        self.announce = announce or write
        self.detail: WriteLine = lambda _: None
        self.step, self._start = "", 0.0

    def __call__(self, step: str, share: float | None = None, of: str = "") -> None:
        """Report a step.

        Args:
            step: what is being done, such as "Reading the log".
            share: how much of the step is done, from 0 to 1; None where that is not known.
            of: what it is a share of, with a blank before it.
        """
        now, step = time.monotonic(), printable(step)
        if step != self.step:
            self.step, self._start = step, now
        if share is None:
            self._write(step)
            return
        left = time_left(now - self._start, share)
        if self._draw is None:
            self._write(f"{step}, {share:.0%}{of}{left and f', {left} left'}")
        else:
            self._draw(step, share, left and f"{left} left")


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


_current: ContextVar[Progress | None] = ContextVar("progress", default=None)
_output: list[WriteLine | str] = ["auto"]


def set_output(output: WriteLine | str) -> None:
    """Set where all verbs show their progress from now on; see `options.settings`."""
    _output[0] = output


@contextmanager
def working(write: WriteLine | None = None) -> Iterator[Progress]:
    """Give the `Progress` of the work within. A verb that another one calls shares its progress.

    Args:
        write: a function of one line, or a `Progress`; None: as `settings` was called.
    """
    outer, output = _current.get(), _output[0]
    if write is None and outer is not None:
        yield outer
        return
    if write is None and output != "auto":
        write = (lambda _: None) if isinstance(output, str) else output
    with ExitStack() as stack:
        if isinstance(write, Progress):
            progress = write
        elif write is not None:
            progress = Progress(write)
        else:
            progress = stack.enter_context(_bar()) if _redraws() else _lines()
        before = _current.set(progress)
        try:
            yield progress
        finally:
            _current.reset(before)


def report_step(step: str, share: float | None = None) -> None:
    """Report what is being done; see `Progress`."""
    progress = _current.get()
    if progress is not None:
        progress(step, share)


def report_share(share: float) -> None:
    """Report for which share of the log the present step is done."""
    progress = _current.get()
    if progress is not None and progress.step:
        progress(progress.step, share, " of the log")


def announce(line: str) -> None:
    """Write before long work what to expect of it; the line appears at once, and stays."""
    progress = _current.get()
    if progress is not None:
        progress.announce(printable(line))


def report_detail(line: str) -> None:
    """Report what only somebody who looks for a mistake wants to know: `--debug` prints it."""
    progress = _current.get()
    if progress is not None:
        progress.detail(printable(line))


def _redraws() -> bool:
    """Whether a line on stderr can change: frames of a spinner would fill a notebook or a log.

    Some notebooks and machines of CI call their output a terminal.
    """
    plain = os.environ.get("TERM", "") in ("", "dumb", "unknown") and sys.platform != "win32"
    notebook = "ipykernel" in sys.modules or "google.colab" in sys.modules
    return sys.stderr.isatty() and not (plain or notebook or os.environ.get("CI"))


@contextmanager
def _bar() -> Iterator[Progress]:
    """A line on a terminal that changes: a spinner, the step, a bar where the share is known."""
    # Rich takes long to import, and most runs have no terminal.
    from rich.console import Console  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415
    from rich.progress_bar import ProgressBar  # noqa: PLC0415
    from rich.spinner import Spinner  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    spinner = Spinner("dots", style="status.spinner")
    with Live(
        spinner, console=Console(stderr=True), refresh_per_second=12.5, transient=True
    ) as live:

        def write(step: str) -> None:
            spinner.update(text=Text(f"{step} …"))
            live.refresh()  # so that a short step is seen, too

        def draw(step: str, share: float, left: str) -> None:
            grid = Table.grid(padding=(0, 1))
            grid.add_row(Text(step), ProgressBar(1, share, 24), f"{share:4.0%}", left)
            spinner.update(text=grid)

        yield Progress(write, draw, announce=lambda line: live.console.print(Text(line)))


def _lines() -> Progress:
    """Lines on stderr: none for the first seconds, then ever fewer, so that a log stays short."""
    start = time.monotonic()
    next_report = PATIENCE

    def write(line: str) -> None:
        nonlocal next_report
        elapsed = time.monotonic() - start
        if elapsed >= next_report:
            next_report = 1.5 * elapsed
            announce(f"[{elapsed:.0f} s] {line}")

    def announce(line: str) -> None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    return Progress(write, announce=announce)
