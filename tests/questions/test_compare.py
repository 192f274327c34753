"""`compare`: paired differences, corrections, verdicts and refusals."""

import itertools

import numpy as np
import pytest

import foreclick as fc
from foreclick import simulate

CONTEXTS, ITEMS, POSITIONS = 30, 5, 4


@pytest.fixture(scope="module")
def simulation():
    """A world in which `ip` holds, and a ranker that shows items in any order."""
    rng = np.random.default_rng(5)
    world = simulate.PBM(rng.uniform(0.05, 0.6, (CONTEXTS, ITEMS)), 1 / np.arange(1, POSITIONS + 1))
    orders = np.array(list(itertools.permutations(range(ITEMS), POSITIONS)))
    shown = simulate.Stationary(
        np.repeat(np.arange(CONTEXTS), len(orders)),
        np.tile(orders, (CONTEXTS, 1)),
        np.full(CONTEXTS * len(orders), 1 / len(orders)),
        days=12,
    )
    return simulate.Simulation(world, shown, records=60_000, user_sd=0.3)


@pytest.fixture(scope="module")
def log(simulation):
    table = simulation.sample(seed=5)
    return fc.tally(fc.read_log(table, context="query", period="day", unit="user"))


def ranking(swapped=(), swap=(1, 2)):
    """The first items in their order, with two of them exchanged in some contexts."""
    orders = np.tile(np.arange(POSITIONS), (CONTEXTS, 1))
    for x in swapped:
        orders[x, list(swap)] = orders[x, list(swap[::-1])]
    items = orders + 1000 * np.arange(CONTEXTS)[:, None]
    return fc.Ranking({"context": list(range(CONTEXTS)), "items": items.tolist()})


@pytest.fixture(scope="module")
def compared(log):
    candidates = {
        "plain": ranking(),
        "swapped": ranking(range(CONTEXTS // 5)),
        "strange": {  # an item of the next context
            "context": list(range(CONTEXTS)),
            "items": [[1000 * ((x + 1) % CONTEXTS), -2] for x in range(CONTEXTS)],
        },
    }
    return fc.compare(log, candidates, metrics="clicks@4", estimators="ip")


def row_of(result, candidate, against):
    (found,) = [r for r in result if (r["candidate"], r["against"]) == (candidate, against)]
    return found


def test_all_together_are_wider_than_one(compared):
    for row in compared:
        if row["se"] is not None:
            assert row["all_low"] <= row["low"] <= row["change"] <= row["high"] <= row["all_high"]
            assert row["lift_low"] <= row["lift"] <= row["lift_high"]


def test_a_candidate_never_shown_is_not_judged(compared):
    row = row_of(compared, "strange", "production")
    assert (row["value"], row["verdict"]) == (None, "cannot tell")
    assert "Nothing of strange was ever shown" in compared.notes[-1]


@pytest.mark.parametrize(
    ("estimator", "metric"),
    [
        ("ip", "clicks@4"),
        ("ladder", "clicks@4"),
        ("ladder", "clicks@4/clicks@1"),
        ("ladder-ip", "clicks@4"),
    ],
)
def test_a_candidate_and_itself_do_not_differ(log, estimator, metric):
    """Nor where the log has seen some of it only."""
    one = {
        "context": list(range(CONTEXTS)),
        "items": [[1000 * x, 99, 1000 * x + 1] for x in range(CONTEXTS)],
    }
    both = {"one": one, "same": one, "other": ranking([3])}
    result = fc.compare(log, both, metrics=metric, estimators=estimator)
    row = row_of(result, "one", "same")
    assert (row["change"], row["se"]) == (0, 0)
    assert row_of(result, "same", "other")["se"] > 0
