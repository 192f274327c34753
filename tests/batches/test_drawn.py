"""Some contexts of a log: whole ones, the same ones in any batches, whatever they are called."""

import numpy as np
import pytest

import foreclick as fc
from foreclick.batches import batches_of, only_contexts, some_contexts, source
from tests.batches.sizes import in_batches


def columns():
    rng = np.random.default_rng(4)
    return {
        "context": [f"q{x}" for x in rng.integers(0, 200, 2000)],
        "items": [rng.permutation(5)[:3].tolist() for _ in range(2000)],
        "clicks": rng.integers(0, 2, (2000, 3)).tolist(),
        "day": rng.integers(0, 4, 2000).tolist(),
    }


@pytest.fixture(scope="module")
def tally():
    return fc.tally(fc.read_log(columns(), period="day"))


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
    assert some_contexts(batches_of(tally), "clicks", 1.0) is batches_of(tally)  # not copied


@pytest.mark.parametrize("slots", [1, 10**9])
def test_periods_of_contexts_that_take_no_part_are_gone(slots):
    """As if the log had never had them: of days 2 to 5, and of no day, two are left."""
    table = {
        "context": ["a", "a", "a", "b", "b", "c"],
        "items": [[1, 2]] * 6,
        "clicks": [[1, 0]] * 6,
        "day": [3, 5, 5, 2, 4, None],
    }
    batches = batches_of(in_batches(fc.tally(fc.read_log(table, period="day")), slots))
    taken = [np.array([x == "a" for x in batch.contexts.to_pylist()]) for batch in batches]
    some = only_contexts(batches, taken)
    assert some.codebook.periods is not None
    assert some.codebook.periods.values.to_pylist() == [3, 5]
    (batch,) = some
    assert batch.cluster_count["period"] == 2
    assert np.bincount(batch.clusters["period"], batch.n).tolist() == [1, 2]


def test_of_a_log_that_does_not_stay_in_memory_they_are_drawn_by_their_text(tally, monkeypatch):
    """Which takes no pass over it; and the same ones whatever else it has."""
    monkeypatch.setattr(source, "KEPT_SLOTS", 0)
    other = fc.tally(fc.read_log(columns(), period="day"))
    drawn = records_of(some_contexts(batches_of(other), "clicks", 0.3))
    assert 0.2 < len(drawn) / 200 < 0.4
    half = {name: values[:1000] for name, values in columns().items()}
    fewer = records_of(some_contexts(batches_of(fc.tally(fc.read_log(half))), "clicks", 0.3))
    assert set(fewer) <= set(drawn)
