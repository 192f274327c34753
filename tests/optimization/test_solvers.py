"""If this fails, lists within limits break a limit, or are not the best of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import optimize
from scipy.special import ndtri

import foreclick as fc
from foreclick.batches import EMPTY
from foreclick.inference import margins, sample_size
from foreclick.ladder.behaviour import Reading
from foreclick.ladder.fitted import LadderFit, LadderSpec
from foreclick.ladder.rates import RateParameters
from foreclick.optimization.choice import LadderRates
from foreclick.optimization.explore import Traffic
from foreclick.optimization.solvers import Cells, Limits, assign, best_choices, decode
from tests.answers import close
from tests.optimization.oracle import (
    CLOSE,
    best_of_lists,
    fullest_lists,
    marginals_of_each,
    some_log,
)
from tests.tries import tries


def some_limits(rng, log, whole=False):
    """Each limit is there half of the time."""
    L, K = log.shape
    forbidden, near = np.zeros((L, K), dtype=bool), (log.shown, 1.0)
    if rng.random() < 0.5:
        forbidden = rng.random((L, K)) < 0.3
    if rng.random() < 0.5:
        near = (log.shown, float(rng.random()))
    return Limits(forbidden, near, whole)


def assert_kept(limits, h):
    L, K = h.shape
    assert h.min() >= 0
    assert max(h.sum(axis=0).max(), h.sum(axis=1).max()) <= 1 + CLOSE
    filled = np.sum(fullest_lists(L, K, limits.forbidden)[0] != EMPTY)
    assert h.sum() == pytest.approx(filled, abs=CLOSE)
    assert h[limits.forbidden].sum() == 0
    production, change = limits.near
    assert np.maximum(h - production, 0).sum() <= change * K + CLOSE
    if limits.whole:
        assert set(np.unique(h)) <= {0.0, 1.0}


def worth_of(log, model):
    """What each slot is worth; some of it is negative."""
    rates = log.rates if model == "ip" else log.rates.mean(axis=1, keepdims=True)
    return ((rates - 0.3) * log.q).ravel()


def solved(worth, limits):
    """The best marginals, where each slot has its own worth."""
    h = best_choices(Cells.of_choices(worth, worth), limits)
    return None if h is None else h.reshape(limits.forbidden.shape)


@pytest.mark.parametrize("model", ["ip", "item"])
def test_marginals_within_limits_are_the_linear_program_over_all_lists(model):
    rng, times = np.random.default_rng(len(model)), tries(60, 200)
    possible = 0
    for _ in range(times):
        log = some_log(rng, items=5, positions=3)
        L, K = log.shape
        limits, w = some_limits(rng, log), worth_of(log, model)
        h = solved(w, limits)
        lists = fullest_lists(L, K, limits.forbidden)
        by_list = marginals_of_each(lists, L).reshape(len(lists), -1) @ w
        best = best_of_lists(by_list, lists, L, limits)
        assert (h is None) == (best is None)
        if h is not None:
            possible += 1
            assert_kept(limits, h)
            assert w @ h.ravel() == pytest.approx(best, abs=CLOSE)
            shown, masses = decode(h)
            again = np.einsum("m,mak->ak", masses, marginals_of_each(shown, L))
            np.testing.assert_allclose(again, h, atol=1e-8)
    assert possible > times / 2


@pytest.mark.parametrize("model", ["ip", "item"])
def test_one_list_within_limits_is_the_best_of_all(model):
    rng, times = np.random.default_rng(10 + len(model)), tries(50, 150)
    possible = 0
    for _ in range(times):
        log = some_log(rng, items=5, positions=3)
        L, K = log.shape
        limits, w = some_limits(rng, log, whole=True), worth_of(log, model)
        h = solved(w, limits)
        best = -np.inf
        for one in marginals_of_each(fullest_lists(L, K, limits.forbidden), L):
            if np.maximum(one - limits.near[0], 0).sum() <= limits.near[1] * K:
                best = max(best, float(w @ one.ravel()))
        assert (h is None) == (best == -np.inf)
        if h is not None:
            possible += 1
            assert_kept(limits, h)
            assert w @ h.ravel() == pytest.approx(best, abs=CLOSE)
    assert possible > times / 3


def assert_decoded(h):
    lists, masses = decode(h)
    again = np.zeros(h.shape)
    for one, mass in zip(lists, masses, strict=True):
        shown = one[one != EMPTY]
        assert len(set(shown.tolist())) == len(shown)
        again[shown, np.flatnonzero(one != EMPTY)] += mass
    np.testing.assert_allclose(again, h, atol=1e-10)
    assert masses.min() > 0
    assert masses.sum() == pytest.approx(1)
    full = h.sum(axis=0) > 1 - 1e-9
    assert EMPTY not in lists[:, full]
    assert len(lists) <= h.size + len(h)
    return lists, masses


def test_lists_have_the_marginals():
    rng = np.random.default_rng(0)
    for _ in range(tries(300, 1_000)):
        log = some_log(rng)
        assert_decoded(log.shown)
        near = Limits(np.zeros(log.shape, dtype=bool), near=(log.shown, float(rng.random())))
        assert_decoded(solved((log.rates * log.q).ravel(), near))


def test_holes_are_where_columns_do_not_sum_to_one():
    lists, _ = assert_decoded(np.array([[0.5, 0.0], [0.5, 0.25]]))
    assert {tuple(one) for one in lists.tolist()} == {(0, EMPTY), (0, 1), (1, EMPTY)}
    assert_decoded(np.zeros((3, 2)))
    assert_decoded(np.array([[0.25, 0.25]]))


@pytest.mark.parametrize("h", [[[0.6, 0.6]], [[0.6], [0.6]], [[1.0, -0.1], [0.0, 1.0]]])
def test_what_is_no_policy_is_refused(h):
    with pytest.raises(ValueError, match="sum to at most 1 by item and by position"):
        decode(h)


def test_the_best_list_is_the_best_of_all_lists():
    rng = np.random.default_rng(7)
    for _ in range(300):
        L, K = int(rng.integers(1, 6)), int(rng.integers(1, 4))
        worth = rng.normal(size=(L, K)) * 10.0 ** rng.integers(-6, 6)
        allowed = None if rng.random() < 0.3 else rng.random((L, K)) < rng.random()
        found = assign(worth, allowed)
        lists = fullest_lists(L, K, None if allowed is None else ~allowed)
        values = np.einsum("mak,ak->m", marginals_of_each(lists, L), worth)
        where = np.flatnonzero((lists == found).all(axis=1))
        assert len(where) == 1
        assert values[where[0]] == pytest.approx(values.max(), rel=1e-9)


# --- traffic dealt to contexts, against a search over all shares ----------------------------------


def overlapping(rng, count):
    """Contexts with up to four lists, which both policies may show."""
    context = np.repeat(np.arange(count), 4)
    h, pi = rng.dirichlet(np.full(4, 0.5), (2, count)).reshape(2, -1)
    noise, weight = rng.uniform(0.1, 2.0, len(h)), rng.dirichlet(np.ones(count))
    return Traffic(context, h, pi, noise, weight, 0.5)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("budget", [0.02, 0.2, 0.9])
def test_no_other_shares_of_the_same_traffic_are_better(seed, budget):
    count = 6
    traffic = overlapping(np.random.default_rng(seed), count)
    weight, shares = traffic.weight, traffic.best(budget)
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


def test_the_size_of_a_sample_is_the_textbooks():
    z = ndtri(0.975) + ndtri(0.8)
    assert sample_size(2.0, 0.1, margins(0.95, 0.8)) == pytest.approx(2 * z**2 / 0.01)


# --- the ladder's rates of items at positions: how they move with what contexts share -------------


def ladder_of(s: float, a: float, t: float, p: tuple[float, ...]) -> LadderRates:
    """A ladder that is given."""
    parameters = RateParameters(np.array([-1.0, 0.4, 0.3, -0.2]), np.array(p), a, t)
    spec = LadderSpec(fc.Ladder("ip"), "clicks", unit=1.0)
    fit = LadderFit(spec, parameters, (s,), Reading("clicks", 1.0))
    return LadderRates(fit, np.diag(np.zeros(3 + len(p))))


def test_pessimism_lowers_rates_by_what_they_may_be_off():
    """One item at one position, by hand: three rungs, each with its own doubt."""
    ladder = ladder_of(4.0, 3.0, 2.0, (1.0,))
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
