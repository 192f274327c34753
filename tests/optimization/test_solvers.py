"""If this fails, lists within limits break a limit, or are not the best of them."""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from scipy import optimize

import foreclick as fc
from foreclick.batches import EMPTY
from foreclick.ladder.behaviour import Reading
from foreclick.ladder.fitted import LadderFit, LadderSpec
from foreclick.ladder.rates import RateParameters
from foreclick.optimization.choice import LadderRates
from foreclick.optimization.explore import Traffic
from foreclick.optimization.solvers import Cells, Limits, best_choices, decode, marginals
from tests.answers import close
from tests.tries import tries

CLOSE = 1e-9
EXACT: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def some_log(rng, items=8, positions=5):
    """Two of shape (L, K): what slots are worth, with ties and negative ones; what was shown."""
    L, K = int(rng.integers(2, items + 1)), int(rng.integers(1, positions + 1))
    shares = rng.dirichlet(np.ones(rng.integers(1, 7)))
    entries = np.append(np.arange(L), np.full(max(K - L, 0), EMPTY))
    lists = np.array([rng.permutation(entries)[:K] for _ in shares])
    rates = rng.random((L, K)) * (rng.random((L, K)) < 0.8)
    rates = np.round(rates, 1) if rng.random() < 0.3 else rates
    rates = rates.mean(axis=1, keepdims=True) if rng.random() < 0.5 else rates
    zeros = rng.random(K) * (rng.random(K) < 0.6)
    q = [1 / np.log2(2 + np.arange(K)), np.ones(K), zeros, np.round(zeros, 1)][rng.integers(4)]
    return (rates - 0.3) * q, marginals(lists, shares, L)


def fullest_lists(forbidden):
    """All lists with as many positions filled as can be, by what is where: shape (m, L, K)."""
    L, K = forbidden.shape
    lists = np.array(sorted({*permutations([*range(L), *[EMPTY] * K], K)}))
    each = lists[:, None] == np.arange(L)[:, None]
    each = each[~(each & forbidden).any(axis=(1, 2))]
    filled = each.sum(axis=(1, 2))
    return each[filled == filled.max()].astype(float)


def best_of_lists(worth, limits):
    """The most that a mix of lists within limits is worth, or one; None if none is within them."""
    lists, (production, change) = fullest_lists(limits.forbidden), limits.near
    (m, _, K), slots = lists.shape, production.size
    if limits.whole:
        moved = np.maximum(lists - production, 0).sum(axis=(1, 2))
        return max((lists[moved <= change * K] * worth).sum(axis=(1, 2)), default=None)
    differ = np.append(np.zeros(m), np.ones(slots))
    found = optimize.linprog(
        -np.append((lists * worth).sum(axis=(1, 2)), np.zeros(slots)),
        np.vstack([np.hstack([lists.reshape(m, -1).T, -np.eye(slots)]), differ]),
        np.append(production.ravel(), change * K),
        1 - differ[None],
        [1.0],
        options=EXACT,
    )
    assert found.status in {0, 2}, found.message
    return None if found.fun is None else -found.fun


def assert_kept(limits, h):
    (production, change), (_, K) = limits.near, h.shape
    assert h.min() >= 0
    assert max(h.sum(axis=0).max(), h.sum(axis=1).max()) <= 1 + CLOSE
    assert h.sum() == pytest.approx(fullest_lists(limits.forbidden)[0].sum(), abs=CLOSE)
    assert h[limits.forbidden].sum() == 0
    assert np.maximum(h - production, 0).sum() <= change * K + CLOSE
    assert not limits.whole or set(np.unique(h)) <= {0.0, 1.0}


def assert_decoded(h):
    lists, masses = decode(h)
    assert all(len({*one}) == len(one) for one in (x[x != EMPTY].tolist() for x in lists))
    np.testing.assert_allclose(marginals(lists, masses, len(h)), h, atol=1e-10)
    assert masses.min() > 0
    assert masses.sum() == pytest.approx(1)
    assert EMPTY not in lists[:, h.sum(axis=0) > 1 - CLOSE]
    assert len(lists) <= h.size + len(h)
    return lists, masses


@pytest.mark.parametrize("whole", [False, True])
def test_within_limits_it_is_the_best_of_all_lists_or_of_all_mixes_of_them(whole):
    """However large numbers are; each limit is there half of the time."""
    rng, times, possible = np.random.default_rng(2 + whole), tries(160, 500), 0
    for _ in range(times):
        worth, shown = some_log(rng, items=5, positions=3)
        forbidden = rng.random(worth.shape) < rng.choice([0.0, rng.random()])
        limits = Limits(forbidden, (shown, rng.choice([1.0, rng.random()])), whole)
        scaled = worth.ravel() * 10.0 ** rng.integers(-6, 6)
        h, best = (
            best_choices(Cells.of_choices(scaled, scaled), limits),
            best_of_lists(worth, limits),
        )
        assert (h is None) == (best is None)
        if h is not None:
            possible += 1
            h = h.reshape(worth.shape)
            assert_kept(limits, h)
            assert (worth * h).sum() == pytest.approx(best, abs=CLOSE)
            assert_decoded(h)
    assert possible > times / 2


def test_lists_have_the_marginals():
    rng = np.random.default_rng(0)
    for _ in range(tries(300, 1_000)):
        worth, shown = some_log(rng)
        assert_decoded(shown)
        near = Limits(np.zeros(shown.shape, dtype=bool), (shown, float(rng.random())))
        h = best_choices(Cells.of_choices(worth.ravel(), worth.ravel()), near)
        assert h is not None
        assert_decoded(h.reshape(shown.shape))


def test_holes_are_where_columns_do_not_sum_to_one():
    lists, _ = assert_decoded(np.array([[0.5, 0.0], [0.5, 0.25]]))
    assert {tuple(one) for one in lists.tolist()} == {(0, EMPTY), (0, 1), (1, EMPTY)}
    assert_decoded(np.zeros((3, 2)))
    assert_decoded(np.array([[0.25, 0.25]]))


@pytest.mark.parametrize("h", [[[0.6, 0.6]], [[0.6], [0.6]], [[1.0, -0.1], [0.0, 1.0]]])
def test_what_is_no_policy_is_refused(h):
    with pytest.raises(ValueError, match="sum to at most 1 by item and by position"):
        decode(h)


# --- traffic dealt to contexts, against a search over all shares ----------------------------------


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("budget", [0.02, 0.2, 0.9])
def test_no_other_shares_of_the_same_traffic_are_better(seed, budget):
    """Contexts have up to four lists, which both policies may show."""
    rng, count = np.random.default_rng(seed), 6
    h, pi = rng.dirichlet(np.full(4, 0.5), (2, count)).reshape(2, -1)
    noise, weight = rng.uniform(0.1, 2.0, len(h)), rng.dirichlet(np.ones(count))
    traffic = Traffic(np.repeat(np.arange(count), 4), h, pi, noise, weight, 0.5)
    shares = traffic.best(budget)
    assert weight @ shares <= budget * (1 + 1e-6)
    search: Any = optimize.minimize
    right = search(
        lambda share: float(weight @ traffic.variances(share)),
        np.full(count, budget),
        bounds=[(1e-7, 0.5)] * count,
        constraints=optimize.LinearConstraint(weight, 0.0, budget),
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    assert weight @ traffic.variances(shares) <= right.fun * 1.001


# --- the ladder's rates of items at positions: how they move with what contexts share -------------


def test_pessimism_lowers_rates_by_what_they_may_be_off():
    """One item at one position, by hand: three rungs, each with its own doubt."""
    parameters = RateParameters(np.array([-1.0, 0.4, 0.3, -0.2]), np.ones(1), 3.0, 2.0)
    spec = LadderSpec(fc.Ladder("ip"), "clicks", unit=1.0)
    ladder = LadderRates(
        LadderFit(spec, parameters, (4.0,), Reading("clicks", 1.0)), np.zeros((4, 4))
    )
    counts = np.array([0]), np.array([[12.0]]), np.array([[6.0]]), np.array([12.0])
    rate, off, step, *_ = ladder.rates(*counts)
    n, c = 12 * 4 / 16, 6 * 4 / 16
    expected, level = math.exp(-1.0 + 0.4 - 0.2), 1.0
    for _ in range(6):
        lean = 1 / (1 + n * expected * level / 3)
        level = (lean * c + 2) / (lean * n * expected + 2)
    m = expected * level
    lean = 1 / (1 + n * m / 3)
    item = (c + 3) / (n + 3 / m)
    top = (6 + 4 * item) / 16
    doubt = item / (n + 3 / m) + (item * lean) ** 2 / (lean * n * m + 2 * level)
    doubt = top / 16 + (4 / 16) ** 2 * doubt
    assert close(rate[0, 0], top, 1e-12)
    assert close(off[0, 0], doubt, 1e-12)
    assert close(step[0, 0], 1 / 16 + (4 / 16) / (n + 3 / m), 1e-12)  # of one click
