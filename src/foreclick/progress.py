"""Progress of long work: a bar on a terminal, sparse lines in logs and notebooks.

A verb opens `working`; the work within it calls `report_step` with each step, and with the share of
the step that is done where it is known. A verb that knows its work beforehand opens `planned`: then
shares and the time that is left are those of all of it. Short work prints nothing.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import NamedTuple, TypeAlias

from foreclick.secrets import printable

WriteLine: TypeAlias = Callable[[str], None]
"""A function of one line of text."""

PATIENCE = 5.0
"""Seconds before the first line in a log; the next ones come ever more seldom."""


READ, MAP, BETWEEN = "read", "map", "between"
"""Kinds of stages: a pass that reads a log, one that does the work of an answer, and no pass."""


class Stage(NamedTuple):
    """A part of some work.

    Attributes:
        kind: `READ`, `MAP` or `BETWEEN`.
        work: how much it is, beside the others: about its seconds.
        label: of a stage that the work itself says it has reached.
    """

    kind: str
    work: float
    label: str = ""


class Plan:
    """Work that is known beforehand, and how much of it is done.

    Args:
        stages: in the order in which they begin.
    """

    def __init__(self, stages: Sequence[Stage]) -> None:
        self.stages, self.start, self._next = list(stages), time.monotonic(), 0
        self.done, self._reached = [0.0] * len(self.stages), {""}

    def begin(self, kind: str) -> int | None:
        """The number of the next stage of a kind; what stands between, or was left out, is done."""
        for at in range(self._next, len(self.stages)):
            if self.stages[at].label not in self._reached:
                return None  # more passes than were planned are part of what goes on
            if self.stages[at].kind == kind:
                self.done[self._next : at] = [1.0] * (at - self._next)
                self._next = at + 1
                return at
        return None

    def reach(self, label: str) -> None:
        """That a stage comes next; what stands before it is done, or was left out."""
        for at in range(self._next, len(self.stages)):
            if self.stages[at].label == label:
                self.done[self._next : at] = [1.0] * (at - self._next)
                self._next = at
                self._reached.add(label)
                return

    def report(self, at: int | None, share: float) -> None:
        """That a share of a stage is done: never less than before."""
        if at is not None:
            self.done[at] = min(max(self.done[at], share), 1.0)

    def finish(self) -> None:
        """That all is done."""
        self.done = [1.0] * len(self.stages)

    @property
    def share(self) -> float:
        """Of all work."""
        whole = sum(stage.work for stage in self.stages)
        pairs = zip(self.stages, self.done, strict=True)
        return sum(stage.work * done for stage, done in pairs) / whole if whole else 0.0


class Progress:
    """Writes the step that is being done, its share, and how long the rest will take.

    Args:
        write: is called with the line.
        draw: is called with the step, its share and the rest of the line, instead of `write`.
        announce: is called with a line that is not to be missed, instead of `write`.

    Attributes:
        detail: is called with what only somebody who looks for a mistake wants to know.
        plan: the work that is known beforehand, if it is.
    """

    plan: Plan | None = None

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
        start = self._start
        if self.plan is not None:
            share, start, of = self.plan.share, self.plan.start, ""
        if share is None:
            self._write(step)
            return
        left = time_left(now - start, share)
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


@contextmanager
def planned(stages: Sequence[Stage]) -> Iterator[None]:
    """Show shares of all this work, and the time that all of it takes, while it is done.

    What a verb plans that another one calls is part of the plan of the other.
    """
    progress = _current.get()
    if progress is None or progress.plan is not None or not stages:
        yield
        return
    progress.plan = Plan(stages)
    try:
        if progress.step:
            progress(progress.step)
        yield
        progress.plan.finish()
        if progress.step:
            progress(progress.step)
    finally:
        progress.plan = None


def report_pass(kind: str) -> Callable[[float], None]:
    """Report that a pass over a log begins: a function of the share that is done of it."""
    progress = _current.get()
    if progress is None:
        return lambda _: None
    plan = progress.plan
    at = None if plan is None else plan.begin(kind)

    def report(share: float) -> None:
        if plan is not None:
            plan.report(at, share)
        if progress.step and (plan is progress.plan):
            progress(progress.step, share, " of the log")

    if plan is not None:
        report(0.0)
    return report


def report_reached(label: str) -> None:
    """Report that the stage with this label comes next, if one was planned."""
    progress = _current.get()
    if progress is not None and progress.plan is not None:
        progress.plan.reach(label)


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
            next_report = 2.0 * elapsed
            announce(f"[{elapsed:.0f} s] {line}")

    def announce(line: str) -> None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    return Progress(write, announce=announce)
