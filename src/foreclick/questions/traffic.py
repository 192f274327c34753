"""Whether two arms of an A/B test can be compared: their sizes, days and contexts.

Shares are compared by buckets of users, because records of one user vary together.
"""

from __future__ import annotations

import math

import numpy as np

from foreclick.batches import Floats, Ints
from foreclick.engines import BUCKETS
from foreclick.inference import student
from foreclick.logs import BUCKET, CONTEXT, PERIOD, N
from foreclick.tallies.base import Tally, counts
from foreclick.words import few, number_of

PLANNED = sorted({n / 20 for n in range(1, 20)} | {1 / 3, 2 / 3, 0.01, 0.02, 0.98, 0.99})
"""Shares of an arm that are planned; of others, the nearest of these is taken to be meant."""

SURE = 1e-4
"""The chance that an alarm is false."""

CLASSES = 100
"""Contexts whose share is looked at; the others count as one."""


def traffic_notes(both: Tally, variant: str, names: tuple[str, str]) -> list[str]:
    """What is odd about two arms: their sizes, their days, their contexts."""
    shape = both.shape
    keys = [variant, CONTEXT, *[PERIOD] * shape.period, *[BUCKET] * shape.unit]
    table = counts(both, keys)
    n = table[N].to_numpy().astype(float)
    arm = (table[variant].to_numpy(zero_copy_only=False) == names[1]).astype(np.int64)
    bucket = table[BUCKET].to_numpy() if shape.unit else np.zeros(len(n), np.int64)
    sizes = np.zeros((2, BUCKETS))
    np.add.at(sizes, (arm, bucket), n)
    total, share = sizes.sum(), sizes[1].sum() / sizes.sum()
    planned = min(PLANNED, key=lambda each: abs(each - share))
    spread = ((sizes[1] - share * sizes.sum(axis=0)) ** 2).sum() * BUCKETS / (BUCKETS - 1)
    se = math.sqrt(max(spread * shape.unit, total * share * (1 - share))) / total
    freedom = BUCKETS - 1 if shape.unit else math.inf
    found = []
    if 2 * float(student.beyond(abs(share - planned) / se, freedom)) < SURE:
        found.append(
            f"sample-ratio mismatch: {names[1]!r} has {share:.2%} of the records, "
            f"{abs(share - planned) / se:.0f} standard errors from {planned:.3g}. Unless that was "
            "planned, look at how users were assigned and which records are lost."
        )
    if shape.period:
        days, day = np.unique(np.array(table[PERIOD].to_pylist(), str), return_inverse=True)
        there = np.zeros((2, len(days)), bool)
        there[arm, day] = True
        if alone := [str(d) for d in days[there.sum(axis=0) == 1]]:
            found.append(
                f"the arms were not shown on the same days: {number_of(len(alone), 'day')} have "
                f"one of them alone ({few(alone)}). What days do is then taken for what the arm "
                "does; leave these days out with where=."
            )
        elif odd := _odd(day, arm, bucket, n, freedom):
            found.append(
                f"the share of {names[1]!r} changed from day to day, most on {days[odd[0]]} "
                f"({odd[1]:.1%} of its records, {odd[2]:.1%} of those of {names[0]!r}). Compare "
                "days on which the shares were alike."
            )
    contexts, context = np.unique(np.array(table[CONTEXT].to_pylist(), str), return_inverse=True)
    order = np.argsort(-np.bincount(context, n), kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.minimum(np.arange(len(order)), CLASSES)
    if odd := _odd(place[context], arm, bucket, n, freedom):
        which = "rare contexts" if odd[0] == CLASSES else repr(str(contexts[order[odd[0]]]))
        found.append(
            f"the arms have other traffic: {which} is {odd[1]:.2%} of the records of "
            f"{names[1]!r} and {odd[2]:.2%} of those of {names[0]!r}. Look at how users were "
            "assigned."
        )
    return found


def _odd(
    kind: Ints, arm: Ints, bucket: Ints, n: Floats, freedom: float
) -> tuple[int, float, float] | None:
    """The kind of record whose shares in both arms differ most, if by more than chance."""
    sizes = np.zeros((2, int(kind.max()) + 1, BUCKETS))
    np.add.at(sizes, (arm, kind, bucket), n)
    records = sizes.sum(axis=1)  # (arm, bucket)
    total = records.sum(axis=1)[:, None]
    share = sizes.sum(axis=2) / total  # (arm, kind)
    spread = ((sizes - share[:, :, None] * records[:, None]) ** 2).sum(axis=2)
    spread = np.maximum(spread * (freedom < math.inf), total * share * (1 - share)) / total**2
    z = np.abs(share[1] - share[0]) / np.sqrt(np.maximum(spread.sum(axis=0), 1e-300))
    most = int(z.argmax())
    chance = 2 * float(student.beyond(z[most], freedom)) * len(z)
    return (most, float(share[1, most]), float(share[0, most])) if chance < SURE else None
