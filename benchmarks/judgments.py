"""Do the intervals of `judgments` hold the attraction of items? Logs of worlds with a known one.

python -m benchmarks judgments --logs 100
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

import foreclick as fc
from benchmarks.replications import clicked
from benchmarks.study import Column, Row, Rows, Task, mean, study

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
    mean("held", form=".1%"),
    share("held", "few", 1),
    share("held", "few", 0),
    mean("graded", form=".1%"),
    share("right", "graded", 1),
)
def judgments(
    logs: int = 100, seed: int = 1, sizes: list[int] = [100, 1000, 10_000]
) -> Iterator[Task]:
    """Do intervals hold the attraction? Few: fewer than ten clicks; right: off by 1 at most."""
    for given, swaps, records in itertools.product((True, False), (False, True), sizes):
        yield partial(covered, logs, records, seed, swaps=swaps, given=given)


def covered(logs: int, records: int, seed: int, *, swaps: bool, given: bool) -> list[Row]:
    """A row for each item of each log."""
    rng = np.random.default_rng(seed)
    attraction = rng.beta(1, 6, (CONTEXTS, ITEMS)) + 0.005
    key = {
        "lists": "swaps" if swaps else "any order",
        "examination": "given" if given else "learnt",
        "records": records,
    }
    found: list[Row] = []
    for _ in range(logs):
        log = drawn(rng, attraction, records, swaps=swaps)
        for row in fc.judgments(log, examination=P.tolist() if given else None).items.to_pylist():
            if row["rate"] is None:
                continue
            truth, best = attraction[row["context"], row["item"]], attraction[row["context"]].max()
            grade, high = row["grade"], np.inf if row["high"] is None else row["high"]
            wanted = np.floor(3 * truth / best + 0.5)
            found.append(
                key
                | {
                    "held": int(row["low"] <= truth <= high),
                    "few": int(row["clicks"] < 10),
                    "graded": int(grade is not None),
                    "right": grade is not None and int(abs(grade - wanted) <= 1),
                }
            )
    return found


def drawn(
    rng: np.random.Generator, attraction: np.ndarray, records: int, *, swaps: bool
) -> pa.Table:
    """So many records of each context, of a position-based world.

    Args:
        rng: where chance comes from.
        attraction: Shape (CONTEXTS, ITEMS).
        records: of each context.
        swaps: whether lists are one order in which two neighbours are exchanged now and then, as
            production does; else any order.
    """
    context = np.repeat(np.arange(CONTEXTS), records)
    if swaps:
        lists = np.tile(np.arange(ITEMS), (len(context), 1))
        rows, at = np.arange(len(context)), rng.integers(0, ITEMS - 1, len(context))
        lists[rows, at], lists[rows, at + 1] = at + 1, at
    else:
        lists = np.argsort(rng.random((len(context), ITEMS)), axis=1)
    lists = lists[:, : len(P)]
    return pa.table(clicked(context, lists, attraction[context[:, None], lists] * P, rng))
