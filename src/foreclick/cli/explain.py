"""`--explain`: each step with its seconds, and the statements that were sent to the engine."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from foreclick.engines.base import listeners
from foreclick.progress import Progress
from foreclick.secrets import printable

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def explained(say: Progress) -> Iterator[Progress]:
    """Steps and statements go to stderr as they end, steps also to `say`."""
    steps = _Steps(say)
    listeners.append(steps.statement)
    try:
        yield steps
    finally:
        listeners.remove(steps.statement)
        steps.end()


class _Steps(Progress):
    """The step that is being done, since when, and what was sent meanwhile.

    A statement whose rows are read in batches takes as long as it takes to work on them.
    """

    def __init__(self, say: Progress) -> None:
        super().__init__(say)
        self.say = say
        self.begun = self.start = time.perf_counter()
        self.reported = "Starting"

    def __call__(self, step: str, share: float | None = None, of: str = "") -> None:
        step = printable(step)
        if step != self.reported:
            self._ended()
            self.reported, self.start = step, time.perf_counter()
        super().__call__(step)  # for `report_share`, which needs the step
        self.say(step, share, of)

    def statement(self, engine: str, step: str | None, sql: str, seconds: float) -> None:
        """A statement was answered."""
        name = f"{engine}, {step}" if step else engine
        lines = "\n".join(f"    {line}" for line in printable(sql, lines=True).splitlines())
        sys.stderr.write(f"  {seconds:7.3f} s  {name}\n{lines}\n")

    def _ended(self) -> None:
        sys.stderr.write(f"{time.perf_counter() - self.start:9.3f} s  {self.reported}\n")

    def end(self) -> None:
        """The last step has ended, and all of them."""
        self._ended()
        sys.stderr.write(f"{time.perf_counter() - self.begun:9.3f} s  in all\n")
