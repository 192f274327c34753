"""The drifting ranker does what its parameters say."""

import numpy as np
import pytest

from foreclick.errors import SimulationError
from foreclick.simulate import Drifting, Simulation, Stationary
from tests.simulate.small import WORLDS

CONTEXTS, ITEMS, POSITIONS = 400, 40, 10


@pytest.fixture(scope="module")
def ranker():
    return Drifting(CONTEXTS, ITEMS, POSITIONS, seed=7)


def test_the_base_list_has_its_mass_and_the_variants_are_zipf(ranker):
    shown = ranker.on(3)
    mass = np.bincount(shown.contexts, shown.probabilities)
    np.testing.assert_allclose(mass, 1, atol=1e-12)
    base, variants = shown.probabilities[:CONTEXTS], shown.probabilities[CONTEXTS:]
    assert 0.23 <= base.min() < 0.24
    assert 0.34 < base.max() <= 0.35
    first = variants[shown.contexts[CONTEXTS:] == 5]
    np.testing.assert_allclose(first[1] / first[0], 2**-0.7, rtol=1e-12)
    np.testing.assert_allclose(first[2] / first[0], 3**-0.7, rtol=1e-12)


def test_variants_are_log_uniform_from_3_to_60(ranker):
    counts = np.concatenate([np.bincount(ranker.on(d).contexts) - 1 for d in (1, 2, 3)])
    assert counts.min() == 3
    assert 55 <= counts.max() <= 60
    # Half of a log-uniform number lies below the geometric mean of its ends.
    assert np.mean(counts < np.sqrt(3 * 61)) == pytest.approx(0.5, abs=0.06)


def test_few_variants_come_back(ranker):
    """87 % are drawn anew, so that most of yesterday's lists are gone today."""
    yesterday, today = (
        {(x, *a) for x, a in zip(s.contexts.tolist(), s.lists.tolist(), strict=True)}
        for s in (ranker.on(8), ranker.on(9))
    )
    assert 0.03 < len(yesterday & today) / len(today) < 0.25
    lasting = Drifting(CONTEXTS, ITEMS, POSITIONS, seed=7, fresh=0.0, events=0.0)
    first, second = lasting.on(8), lasting.on(9)
    both = (first.contexts == 3).sum(), (second.contexts == 3).sum()
    here = [s.lists[s.contexts == 3][: min(both)].tolist() for s in (first, second)]
    assert here[0] == here[1]


def test_base_lists_change_as_often_as_they_should():
    base = Drifting(4000, ITEMS, POSITIONS).orders[:, :, :POSITIONS]
    moved = (base[:, 1:] != base[:, :-1]).any(axis=2)
    # At most one event a day: E[1 − exp(−rate)] over exponential rates.
    expected = 1 - 1 / (1 + 0.2)
    assert moved.mean() == pytest.approx(expected, rel=0.06)  # over 4,000 uneven rates, 4 sigma
    per_context = moved.sum(axis=1)
    assert per_context.var() > 1.5 * per_context.mean()  # some queries hardly change, some often


def test_changes_are_reverted(ranker):
    orders = ranker.orders
    changes = reverts = 0
    for context in range(CONTEXTS):
        history = [orders[context, 0]]
        for day in range(1, 27):
            if (orders[context, day] != history[-1]).any():
                if len(history) > 1:
                    changes += 1
                    reverts += (orders[context, day] == history[-2]).all()
                history.append(orders[context, day])
    assert changes > 300
    assert reverts / changes == pytest.approx(0.6, abs=0.08)


def test_new_items_come_in():
    orders = Drifting(
        200, ITEMS, POSITIONS, events=5.0, unevenness=0.1, reverts=0.0, new_items=1.0, days=2
    ).orders
    came = np.array([len(set(o[1, :10]) - set(o[0, :10])) for o in orders])
    assert came.max() == 1
    assert came.mean() > 0.9
    # At the top only neighbours change places, so that an item can only come in as a new one.
    lists = np.sort(
        Drifting(
            200,
            ITEMS,
            POSITIONS,
            events=5.0,
            reverts=0.0,
            new_items=0.3,
            event_depth=-50.0,
            event_reach=1.0,
        ).orders[:, :9, :POSITIONS],
        axis=2,
    )
    events = 8 * (1 - 1 / (1 + 5.0))
    came = (lists[:, 1:] != lists[:, :-1]).any(axis=2).sum(axis=1)
    assert came.mean() / events == pytest.approx(0.3, abs=0.05)
    orders = Drifting(
        200, ITEMS, POSITIONS, events=5.0, new_items=0.0, event_reach=1.0, reverts=0.0, days=3
    ).orders
    assert orders[:, :, :POSITIONS].max() <= POSITIONS + 1  # only neighbours change places


def test_refusals(ranker):
    with pytest.raises(SimulationError, match="days are from 1 to 27"):
        ranker.on(0)
    with pytest.raises(SimulationError, match="at least 11 items"):
        Drifting(1, 10)
    with pytest.raises(SimulationError, match="is no drift"):
        Drifting(1, 11, fresh=1.2)
    half = Stationary([0], [[0]], [0.5])
    with pytest.raises(SimulationError, match=r"context 0 on day 1 sum to 0\.5"):
        Simulation(WORLDS["pbm"], half, 10).sample()
