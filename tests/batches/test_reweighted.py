"""Tallies whose clusters count several times or not: their batches are made, not read."""

from typing import Any

import numpy as np
import pytest

import foreclick as fc
from foreclick.analysis.resample import _altered, _clusters
from foreclick.batches import Batches, batches_of


@pytest.fixture(scope="module")
def tally():
    rng = np.random.default_rng(1)
    count = 300
    lengths = rng.integers(1, 4, count)
    day = rng.integers(0, 6, count)
    table = {
        "context": [f"q{x}" for x in day // 2 * 10 + rng.integers(0, 12, count)],
        "items": [rng.permutation(9)[:k].tolist() for k in lengths],
        "clicks": [(rng.random(k) < 0.5).astype(int).tolist() for k in lengths],
        "orders": [rng.integers(0, 3, k).tolist() for k in lengths],
        "day": [None if d == 5 else int(d) for d in day],
        "user": rng.integers(0, 12, count).tolist(),
        "shop": [None if d == 1 else f"shop {d}" for d in day],
        "weight": rng.choice([0.5, 1.0, 3.25], count).tolist(),
    }
    roles: Any = {"period": "day", "unit": "user", "segments": ("shop",), "weight": "weight"}
    return fc.tally(fc.read_log(table, rewards={"orders": "orders"}, **roles))


def same(one, other):
    """Whether two batches have the same arrays."""
    assert one.contexts.equals(other.contexts)
    assert one.items.equals(other.items)
    names = ["context_value", "pair_context", "pair_item", "lists", "list_context", "row_list"]
    for name in [*names, "n", "stratum", "shown", "slot"]:
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    for name in ("clusters", "segments"):
        mine, theirs = getattr(one, name), getattr(other, name)
        assert list(mine) == list(theirs)
        assert all(np.array_equal(mine[key], theirs[key]) for key in mine)
    for reward, expected in other.rewards.items():
        assert all(map(np.array_equal, one.rewards[reward], expected))
    assert one.cluster_count == other.cluster_count


@pytest.mark.parametrize("kind", ["period", "unit"])
@pytest.mark.parametrize("seed", range(3))
def test_they_are_those_of_the_altered_tally(tally, kind, seed):
    clusters = _clusters(tally, kind)
    often = np.random.default_rng(seed).choice([0, 0, 1, 3], len(clusters))
    altered = _altered(tally, kind, clusters, often.tolist())
    made, read = batches_of(altered), Batches(altered)
    assert made.rows == read.rows > 0
    assert made.codebook.periods is not None
    assert read.codebook.periods is not None
    assert made.codebook.periods.values.equals(read.codebook.periods.values)
    assert made.codebook.segments["shop"].values.equals(read.codebook.segments["shop"].values)
    (one,), (other,) = made, read
    same(one, other)


def test_a_batch_that_loses_all_its_records_is_gone(tally):
    clusters = _clusters(tally, "period")
    some = fc.tally(tally)
    some.learnt.clear()
    some.learnt["batches", id(some.stored.op())] = Batches(some, slots=1)
    altered = _altered(some, "period", clusters, [1, 0, 0, 0, 0, 0])
    found = list(batches_of(altered))
    assert len(found) == len(list(Batches(altered, slots=1))) < len(list(batches_of(some)))
    some.learnt.clear()
