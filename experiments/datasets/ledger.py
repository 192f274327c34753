"""What is odd in a dataset: counted by name, with an example, and what was done about it."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from foreclick.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from experiments.datasets.source import Source

_FEW = 1_000
"""Malformed lines, from which on a conversion stops if they are most lines."""
_SHOWN = 60  # characters of a malformed line in an example

Click = tuple[int, bytes]
"""The number of its line, and the item."""


def ids(texts: list[bytes]) -> list[bytes]:
    """The texts, if all are whole numbers; else a ValueError.

    They stay texts, because making them numbers one by one would take most of the time that a
    conversion takes. Arrow does it for many at once.
    """
    if not all(map(bytes.isdigit, texts)):
        raise ValueError("not a number")
    return texts


class Oddity(Enum):
    """Something that a clean log would not have, and what becomes of it."""

    MALFORMED = "malformed lines", "left out"
    WITHHELD = "test queries, whose clicks are withheld", "left out"
    NO_SESSION = "queries of a session without its M line", "left out"
    LEFT_OUT = "clicks on lists that are left out", "left out"
    NO_LIST = "clicks on no list of their session", "left out"
    EARLY = "clicks before their query", "left out"
    WRITTEN_EARLY = "clicks written before their query", "counted, by their SERP"
    EARLIER_LIST = "clicks on another list than the last one", "counted, on that list"
    OFF_LIST = "clicks on items not in the list", "left out"
    REPEATED = "repeated clicks", "counted once"
    DUPLICATE = "lists with an item twice", "only its first place is kept, the others are empty"

    def __init__(self, label: str, done: str) -> None:
        self.label, self.done = label, done


class Ledger:
    """Counts of lines and oddities while a source is read.

    Args:
        source: knows which file is being read.
        unit: what numbers in examples count: lines, rows or records.
    """

    def __init__(self, source: Source, unit: str) -> None:
        self.lines = 0
        self.counts: dict[Oddity, int] = {}
        self.examples: dict[Oddity, str] = {}
        self._source, self._unit = source, unit

    def note(self, oddity: Oddity, number: int, what: str | bytes = "") -> None:
        """Count one, and remember the first: `what` (an item, a text) in line `number`."""
        self.counts[oddity] = self.counts.get(oddity, 0) + 1
        if oddity not in self.examples:
            file = f"{self._source.file.name}, " if len(self._source.files) > 1 else ""
            item = f"item {what.decode()}" if isinstance(what, bytes) else what
            self.examples[oddity] = f"{file}{self._unit} {number:,}" + (f": {item}" if item else "")

    def malformed(self, number: int, text: str | bytes) -> None:
        """Count a line that cannot be read, and stop if most cannot."""
        if isinstance(text, bytes):
            text = text.decode(errors="replace")
        if not text.strip():  # a blank line says nothing
            return
        shown = text.strip()
        cut = f"{shown[:_SHOWN]} …" if len(shown) > _SHOWN else shown
        self.note(Oddity.MALFORMED, number, repr(cut))
        if self.counts[Oddity.MALFORMED] >= _FEW:
            self.judge(self.lines + number)

    def judge(self, lines: int) -> None:
        """Refuse a source most lines of which cannot be read: it is something else."""
        wrong = self.counts.get(Oddity.MALFORMED, 0)
        if 2 * wrong > lines:
            raise SourceError(
                f"{self._source.path!r} is not in this format: {wrong:,} of {lines:,} "
                f"{self._unit}s so far cannot be read, for example "
                f"{self.examples[Oddity.MALFORMED]}. Check the path and the name of the dataset."
            )

    def mark(
        self, items: list[bytes], clicked: Iterable[Click], number: int
    ) -> tuple[Sequence[bytes | None], list[int | None]]:
        """The list with a click (0 or 1) for each place.

        An item that stands twice keeps its first place. The others become empty, rather than
        close up, because all other items must stay at the position where they were seen.
        """
        places: Sequence[bytes | None] = items
        clicks: list[int | None] = [0] * len(items)
        if len(set(items)) != len(items):
            self.note(Oddity.DUPLICATE, number)
            first = [items.index(item) == k for k, item in enumerate(items)]
            places = [i if kept else None for i, kept in zip(items, first, strict=True)]
            clicks = [0 if kept else None for kept in first]
        for line, item in clicked:
            if item not in items:
                self.note(Oddity.OFF_LIST, line, item)
                continue
            place = items.index(item)
            if clicks[place]:
                self.note(Oddity.REPEATED, line, item)
            clicks[place] = 1
        return places, clicks
