"""Some contexts of a log: whole ones, the same ones in any batches."""

import numpy as np
import pytest

import foreclick as fc
from foreclick.batches import batches_of, some_contexts
from tests.batches.sizes import in_batches


@pytest.fixture(scope="module")
def tally():
    rng = np.random.default_rng(4)
    table = {
        "context": [f"q{x}" for x in rng.integers(0, 200, 2000)],
        "items": [rng.permutation(5)[:3].tolist() for _ in range(2000)],
        "clicks": rng.integers(0, 2, (2000, 3)).tolist(),
        "day": rng.integers(0, 4, 2000).tolist(),
    }
    return fc.tally(fc.read_log(table, period="day"))


def records_of(batches):
    return {
        context: n
        for batch in batches
        for context, n in zip(batch.contexts.to_pylist(), batch.context_n.tolist(), strict=True)
    }


def test_they_are_whole_and_about_as_many_as_asked(tally):
    everything = records_of(batches_of(tally))
    some = some_contexts(batches_of(tally), "clicks", 0.3)
    drawn = records_of(some)
    assert 0.2 < len(drawn) / len(everything) < 0.4
    assert all(everything[context] == n for context, n in drawn.items())
    assert records_of(some) == drawn  # gone through again
    fewer = records_of(some_contexts(batches_of(tally), "clicks", 0.1))
    assert set(fewer) < set(drawn)


@pytest.mark.parametrize("slots", [1, 40])
def test_they_are_the_same_in_any_batches(tally, slots):
    drawn = records_of(some_contexts(batches_of(tally), "clicks", 0.3))
    assert records_of(some_contexts(batches_of(in_batches(tally, slots)), "clicks", 0.3)) == drawn


def test_the_whole_log_is_not_copied(tally):
    assert some_contexts(batches_of(tally), "clicks", 1.0) is batches_of(tally)
