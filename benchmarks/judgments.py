"""Do the intervals of `judgments` hold the attraction of items? Logs of worlds with a known one.

python -m benchmarks judgments --logs 100
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import foreclick as fc
from benchmarks.study import Column, Row, Rows, study
from benchmarks.worlds import clicked

P = np.array([1.0, 0.6, 0.4, 0.3, 0.2])
CONTEXTS, ITEMS = 10, 8


def share(name: str, of: str, where: int) -> Column:
    """The share of some rows that have something."""

    def found(rows: Rows) -> float | None:
        some = rows.of(of) == where
        return float(rows.of(name)[some].mean()) if some.any() else None

    return Column(f"{name}, {of} {where}", found, ".1%")


@study(
    "judgments",
    ["lists", "examination", "records"],
    "held:.1%",
    share("held", "few", 1),
    share("held", "few", 0),
    "graded:.1%",
    share("right", "graded", 1),
    examinations=["given", "learnt"],
    kinds=["any order", "swaps"],
    sizes=[100, 1000, 10_000],
)
def judgments(examination: str, kind: str, size: int, logs: int = 100, seed: int = 1) -> list[Row]:
    """Do intervals hold the attraction? Few: fewer than ten clicks; right: off by 1 at most."""
    key = {"lists": kind, "examination": examination, "records": size}
    rows = covered(logs, size, seed, swaps=kind == "swaps", given=examination == "given")
    return [key | row for row in rows]


def covered(logs: int, records: int, seed: int, *, swaps: bool, given: bool) -> list[Row]:
    """A row for each item of each log."""
    rng = np.random.default_rng(seed)
    attraction = rng.beta(1, 6, (CONTEXTS, ITEMS)) + 0.005
    found: list[Row] = []
    for _ in range(logs):
        log = drawn(rng, attraction, records, swaps=swaps)
        for row in fc.judgments(log, examination=P.tolist() if given else None).items.to_pylist():
            if row["rate"] is None:
                continue
            rates = attraction[row["context"]]
            truth, grade = rates[row["item"]], row["grade"]
            wanted = np.floor(3 * truth / rates.max() + 0.5)
            own = {
                "held": row["low"] <= truth <= (np.inf if row["high"] is None else row["high"]),
                "few": row["clicks"] < 10,
                "graded": grade is not None,
                "right": grade is not None and abs(grade - wanted) <= 1,
            }
            found.append({name: int(value) for name, value in own.items()})
    return found


def drawn(
    rng: np.random.Generator, attraction: np.ndarray, records: int, *, swaps: bool
) -> pa.Table:
    """So many records of each context, of a position-based world.

    Lists are in any order, or always the same but for two neighbours that are exchanged, as by
    rankers that hardly change.
    """
    context = np.repeat(np.arange(CONTEXTS), records)
    if swaps:
        lists = np.tile(np.arange(ITEMS), (len(context), 1))
        rows, at = np.arange(len(context)), rng.integers(0, ITEMS - 1, len(context))
        lists[rows, at], lists[rows, at + 1] = at + 1, at
    else:
        lists = np.argsort(rng.random((len(context), ITEMS)), axis=1)
    lists = lists[:, : len(P)]
    return clicked(context, lists, attraction[context[:, None], lists] * P, rng)
