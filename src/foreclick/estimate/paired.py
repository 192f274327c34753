"""Questions to several logs at once: their clusters are the same days and the same users.

An error is a sum over clusters. What one day does to two logs is one error, so it cancels in their
difference; of buckets of users and of both kinds alike.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from foreclick.batches import Floats, batches_of
from foreclick.engines import BUCKETS
from foreclick.estimate.covariance import BOTH, Covariance
from foreclick.tallies.base import Tally

Errors: TypeAlias = dict[str, dict[Any, float]]
"""By kind of cluster and by cluster."""


def errors_of(of: Covariance, s: int, design: Floats, tally: Tally) -> Errors:
    """By kind of cluster: the error of a question in each, by the period, bucket, or both."""
    codes, found = batches_of(tally).codebook.periods, {}
    periods = [] if codes is None else codes.values.to_pylist()
    for kind, (numbers, errors) in of.by_cluster(s, design).items():
        keys: list[Any] = numbers.tolist()
        if kind != "unit":
            size = BUCKETS if kind == BOTH else 1
            keys = [(periods[key // size], key % size) for key in keys]
        found[kind] = dict(zip(keys, errors.tolist(), strict=True))
    return found


def minus(one: Errors, other: Errors) -> Errors:
    """The errors of a difference: what both have of a cluster is together."""
    return {
        kind: {
            key: mine.get(key, 0.0) - other[kind].get(key, 0.0) for key in {**mine, **other[kind]}
        }
        for kind, mine in one.items()
    }


def variance_of(errors: Errors) -> float:
    """As `Covariance` has it; of two kinds of clusters, not below that of both together."""
    found = {}
    for kind, each in errors.items():
        squares = sum(error**2 for error in each.values())
        found[kind] = squares * len(each) / max(len(each) - 1, 1)
    both = found.pop(BOTH, 0.0)
    return max(sum(found.values()) - both, both, 0.0) if both else sum(found.values())
