"""What became of every event: counted by cause, with an example."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from foreclick.results import Result

_COLUMNS = ("fact", "found", "done", "example")


@dataclass(frozen=True, repr=False)
class Ledger(Result):
    """What a log was made of, and what was left out: one row per fact.

    | column | meaning |
    |---|---|
    | fact | what was counted: events, lists and rewards first, then what was odd |
    | found | how many |
    | done | what became of them |
    | example | one of them |

    Every action is in it once: used, repeated, or left out for one cause.
    """

    @property
    def losses(self) -> dict[str, int]:
        """How many of everything that was not simply used, by the fact."""
        return {row["fact"]: row["found"] for row in self.rows if row["done"]}  # type: ignore[misc]


class Entries:
    """Facts as they are found."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.notes: list[str] = []

    def count(self, fact: str, found: int) -> None:
        """What there is."""
        self.rows.append(dict(zip(_COLUMNS, (fact, found, None, None), strict=True)))

    def less(self, fact: str, found: int) -> None:
        """So many fewer than were counted."""
        for row in self.rows:
            if row["fact"] == fact:
                row["found"] -= int(found)

    def odd(self, fact: str, found: int, done: str, example: str | None = None) -> None:
        """What is odd, if there is any."""
        if found:
            self.rows.append(dict(zip(_COLUMNS, (fact, int(found), done, example), strict=True)))

    def note(self, text: str) -> None:
        """What was decided."""
        self.notes.append(text)

    def closed(self) -> Ledger:
        """The ledger: what there is, then what is odd."""
        rows = sorted(self.rows, key=lambda row: row["done"] is not None)
        return Ledger(tuple(rows), _COLUMNS, tuple(self.notes))
