"""How far a long piece of work is: said to whoever asked for it, or on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import TypeAlias

Say: TypeAlias = Callable[[str], None]
"""Who is told what is being done, in a line of text."""


class _Voice:
    """Says what is being done, and how much of the log that was done for."""

    def __init__(self, say: Say) -> None:
        self._say, self._step = say, ""

    def __call__(self, step: str) -> None:
        self._step = step
        self._say(step)

    def passed(self, share: float) -> None:
        if self._step:
            self._say(f"{self._step}, {share:.0%} of the log")


_voice: ContextVar[_Voice | None] = ContextVar("voice", default=None)


@contextmanager
def working(progress: Say | None = None) -> Iterator[Say]:
    """Gives the function to call with what is being done.

    A verb that is called by another one says it where that one does.

    Args:
        progress: who is told; None: a spinner on stderr, if somebody is watching.
    """
    outer = _voice.get()
    if progress is None and outer is not None:
        yield outer
        return
    with _spinner() if progress is None else nullcontext(progress) as say:
        voice = _Voice(say)
        before = _voice.set(voice)
        try:
            yield voice
        finally:
            _voice.reset(before)


def say(step: str) -> None:
    """Say what is being done, to whoever listens."""
    voice = _voice.get()
    if voice is not None:
        voice(step)


def passed(share: float) -> None:
    """Say for which share of the log the present step is done."""
    voice = _voice.get()
    if voice is not None:
        voice.passed(share)


@contextmanager
def _spinner() -> Iterator[Say]:
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    # Rich takes long to import, and most runs have no terminal.
    from rich.console import Console  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    with Console(stderr=True).status("") as status:
        yield lambda step: status.update(Text(f"{step} …"))
