"""How often each note is printed under an answer: of shops, and of worlds that nobody tuned for.

    python -m benchmarks.notes --logs 5 --records 30000

Numbers and names are left out of a note, so that all of its forms are one.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import foreclick as fc
from foreclick.simulate import shop

SHARED = Path(__file__).parents[2] / "shared" / "benchmarks"
REGIMES = ("shop", "tail", "feedback .5", "dbn", "deep pool")
WORLDS = ("pbm", "mnl", "trust", "kinds")


def answers(logs: int, records: int) -> Iterator[tuple[str, Any]]:
    """The worlds' families, each with an answer."""
    for regime in REGIMES:
        for seed in range(logs):
            drawn = shop.draw(replace(shop.REGIMES[regime], records=records), seed=61000 + seed)
            log = fc.read_log(drawn.log, context="query", period="day", unit="user")
            for table in drawn.candidates.values():
                yield "shop", fc.evaluate(log, fc.Ranking(table, context="query"))
    sys.path.insert(0, str(SHARED))
    import exam  # type: ignore[import-not-found]

    for world in WORLDS:
        for seed in range(logs):
            table, candidates, _ = exam.draw(world, records, 61000 + seed)
            log = fc.read_log(table, context="query", period="day", unit="user")
            for candidate in candidates.values():
                yield "exam", fc.evaluate(log, candidate)


def plain(note: str) -> str:
    """A note without what differs from answer to answer."""
    return re.sub(r"[+-]?\d[\d,.]*%?", "#", note)[:90]


def main() -> None:
    """Count the notes, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=5)
    parser.add_argument("--records", type=int, default=30_000)
    options = parser.parse_args()
    counts: Counter[tuple[str, str]] = Counter()
    asked: Counter[str] = Counter()
    for family, answer in answers(options.logs, options.records):
        asked[family] += 1
        printed = " ".join(str(answer).split())
        notes: Any = {plain(note) for note in answer.notes if " ".join(note.split()) in printed}
        counts.update((family, note) for note in notes)
    families = list(asked)
    print("| note | " + " | ".join(f"{name} ({asked[name]})" for name in families) + " |")
    print("|---" * (1 + len(families)) + "|")
    for note in sorted(
        {note for _, note in counts}, key=lambda n: -sum(counts[f, n] for f in asked)
    ):
        print(
            f"| {note} | "
            + " | ".join(f"{counts[f, note] / asked[f]:.0%}" for f in families)
            + " |"
        )


if __name__ == "__main__":
    main()
