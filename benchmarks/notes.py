"""How often each note is printed under an answer: of shops, and of worlds that nobody tuned for.

    python -m benchmarks notes --logs 5 --records 30000

Numbers and names are left out of a note, so that all of its forms are one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import foreclick as fc
from benchmarks.shop import read
from benchmarks.study import Column, Row, Rows, Task, grid, study
from foreclick.simulate import shop

SHARED = Path(__file__).parents[2] / "shared" / "benchmarks"
REGIMES = ("shop", "tail", "feedback .5", "dbn", "deep pool")
WORLDS = ("pbm", "mnl", "trust", "kinds")


def often(family: str) -> Column:
    """The share of a family's answers that have a note."""

    def share(rows: Rows) -> float | None:
        of = [row["of"] for row in rows if row["family"] == family]
        return sum(1 / number for number in of) if of else None

    return Column(family, share, ".0%")


@study("notes", ["note"], often("shop"), often("exam"))
def notes(logs: int = 5, records: int = 30_000) -> Iterator[Task]:
    """How often each note stands under an answer."""
    return grid(standing, ("shop", "exam"), [logs], [records])


def standing(family: str, logs: int, records: int) -> list[Row]:
    """A row for each note of each answer, with the number of answers."""
    found = list({"shop": in_shops, "exam": in_worlds}[family](logs, records))
    return [
        {"family": family, "note": note, "of": len(found)}
        for answer in found
        for note in sorted(printed(answer))
    ]


def in_shops(logs: int, records: int) -> Iterator[Any]:
    """Answers in shops."""
    for regime in REGIMES:
        for seed in range(logs):
            drawn = shop.draw(replace(shop.REGIMES[regime], records=records), seed=61000 + seed)
            for table in drawn.candidates.values():
                yield fc.evaluate(read(drawn), fc.Ranking(table, context="query"))


def in_worlds(logs: int, records: int) -> Iterator[Any]:
    """Answers in the worlds beside this repository."""
    sys.path.insert(0, str(SHARED))
    import exam  # type: ignore[import-not-found]

    for world in WORLDS:
        for seed in range(logs):
            table, candidates, _ = exam.draw(world, records, 61000 + seed)
            log = fc.read_log(table, context="query", period="day", unit="user")
            for candidate in candidates.values():
                yield fc.evaluate(log, candidate)


def printed(answer: Any) -> set[str]:
    """The notes that stand under an answer where it is printed."""
    text = " ".join(str(answer).split())
    return {plain(note) for note in answer.notes if " ".join(note.split()) in text}


def plain(note: str) -> str:
    """A note without what differs from answer to answer."""
    return re.sub(r"[+-]?\d[\d,.]*%?", "#", note)[:90]
