"""Do the intervals of `judgments` hold the attraction of items? Logs of worlds with a known one.

python -m benchmarks.judgments --logs 100
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import pyarrow as pa

import foreclick as fc

P = np.array([1.0, 0.6, 0.4, 0.3, 0.2])
CONTEXTS, ITEMS = 10, 8


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
    clicks = rng.random(lists.shape) < attraction[context[:, None], lists] * P
    return pa.table(
        {
            "context": context,
            "items": pa.array(list(lists)),
            "clicks": pa.array(list(clicks.astype(np.int8))),
        }
    )


def covered(logs: int, records: int, seed: int, *, swaps: bool, given: bool) -> dict[str, Any]:
    """How often intervals hold the attraction, over the items of all logs."""
    rng = np.random.default_rng(seed)
    attraction = rng.beta(1, 6, (CONTEXTS, ITEMS)) + 0.005
    inside, few, right, graded = [], [], 0, 0
    for _ in range(logs):
        log = drawn(rng, attraction, records, swaps=swaps)
        found = fc.judgments(log, examination=P.tolist() if given else None).items
        rows = found.filter(found["rate"].is_valid())
        truth = attraction[np.asarray(rows["context"]), np.asarray(rows["item"])]
        low, high = np.asarray(rows["low"]), np.asarray(rows["high"].fill_null(np.inf))
        inside.append((low <= truth) & (truth <= high))
        few.append(np.asarray(rows["clicks"]) < 10)
        some = np.asarray(rows["grade"].is_valid())
        grade = np.asarray(rows["grade"].fill_null(0))[some]
        best = attraction.max(axis=1)[np.asarray(rows["context"])][some]
        wanted = np.floor(3 * truth[some] / best + 0.5)
        right += int((np.abs(grade - wanted) <= 1).sum())
        graded += int(some.sum())
    hit, rare = np.concatenate(inside), np.concatenate(few)
    return {
        "lists": "swaps" if swaps else "any order",
        "examination": "given" if given else "learnt",
        "records": records,
        "covered": hit.mean(),
        "few": hit[rare].mean() if rare.any() else np.nan,
        "many": hit[~rare].mean() if (~rare).any() else np.nan,
        "graded": graded / len(hit),
        "within": right / graded if graded else np.nan,
    }


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000, 10_000])
    options = parser.parse_args()
    print("| lists | examination | records | covered | < 10 clicks | more | graded | within 1 |")
    print("|---|---|---|---|---|---|---|---|")
    for given in (True, False):
        for swaps in (False, True):
            for records in options.sizes:
                row = covered(options.logs, records, options.seed, swaps=swaps, given=given)
                shares = [f"{row[c]:.1%}" for c in ("covered", "few", "many", "graded", "within")]
                words = [row["lists"], row["examination"], f"{records:,}", *shares]
                print(f"| {' | '.join(words)} |")


if __name__ == "__main__":
    main()
