"""Trends of click rates over the periods of a log, from items compared with themselves."""

from __future__ import annotations

import numpy as np

from foreclick.batches import Batch, Batches, Floats, Totals, sums

_ENOUGH = 3  # periods in which an item must have been shown for its slope to be one


def item_trends(batches: Batches, reward: str, examined: Floats) -> Floats | None:
    """Shape (5,): sums over items for `inference.trend`; None where there are too few periods.

    An item of a context is compared with itself. Positions count by how much they are examined.

    Args:
        batches: the log.
        reward: what is counted as clicks.
        examined: Shape (K,): p_1, p_2, ….
    """
    periods = batches.codebook.periods
    if periods is None or periods.known < _ENOUGH:
        return None
    totals = Totals()
    for batch in batches:
        values, context = _of_items(batch, reward, examined, periods.known)
        by_context = np.stack([sums(context, v, batch.context_count) for v in values], axis=1)
        totals.add("trend", by_context, np.zeros(batch.context_count, dtype=np.int64))
    return np.asarray(totals.sum("trend")[0])


def _of_items(
    batch: Batch, reward: str, examined: Floats, known: int
) -> tuple[list[Floats], np.ndarray]:
    """S, I, S², S I and I² of every pair, shape (P,) each, and their contexts."""
    row_period = batch.clusters["period"]
    n = np.where(row_period < known, batch.n, 0.0)
    # Counted from the middle, so that squares of large numbers do not cancel.
    time = row_period - (known - 1) / 2
    pairs = np.where(batch.lists < 0, batch.pair_count, batch.lists)
    exposed = []
    for power in (0, 1, 2):
        of_list = sums(batch.row_list, n * time**power, len(batch.lists))
        weight = of_list[:, None] * examined[: batch.depth]
        exposed.append(sums(pairs, weight, batch.pair_count + 1)[:-1])
    e, et, ett = exposed
    earned = batch.rewards[reward]
    pair = pairs[batch.row_list[earned.row], earned.position]
    worth = earned.value * n[earned.row]
    clicks, moment = (
        sums(pair, worth * time[earned.row] ** power, batch.pair_count + 1)[:-1] for power in (0, 1)
    )
    some = (e > 0) & (clicks > 0)
    mean = np.divide(et, e, out=np.zeros_like(e), where=some)
    score = np.where(some, moment - clicks * mean, 0.0)
    rate = np.divide(clicks, e, out=np.zeros_like(e), where=some)
    information = np.where(some, np.maximum(rate * (ett - et * mean), 0.0), 0.0)
    score = np.where(information > 0, score, 0.0)
    return [score, information, score**2, score * information, information**2], batch.pair_context
