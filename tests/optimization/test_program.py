from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from foreclick.batches import EMPTY
from foreclick.optimization.solvers import Limits, assign, decode, marginals, program
from tests.optimization.oracle import (
    CLOSE,
    best_of_lists,
    fullest_lists,
    marginals_of_each,
    no_limits,
    some_log,
)
from tests.tries import tries


def some_limits(rng, log, whole=False):
    """Each limit is there half of the time."""
    L, K = log.shape
    forbidden, groups, near = np.zeros((L, K), dtype=bool), [], None
    if rng.random() < 0.5:
        forbidden = rng.random((L, K)) < 0.3
    while rng.random() < 0.5:
        groups.append((rng.random(L) < 0.5, float(rng.random()) * 0.6))
    if rng.random() < 0.5:
        near = (log.shown, float(rng.random()))
    return Limits(forbidden, tuple(groups), near, whole)


def assert_kept(limits, h):
    L, K = h.shape
    assert h.min() >= 0
    assert max(h.sum(axis=0).max(), h.sum(axis=1).max()) <= 1 + CLOSE
    filled = np.sum(fullest_lists(L, K, limits.forbidden)[0] != EMPTY)
    assert h.sum() == pytest.approx(filled, abs=CLOSE)
    assert h[limits.forbidden].sum() == 0
    for members, least in limits.groups:
        assert h[members].sum() >= least * K - CLOSE
    if limits.near is not None:
        production, change = limits.near
        assert np.maximum(h - production, 0).sum() <= change * K + CLOSE
    if limits.whole:
        assert set(np.unique(h)) <= {0.0, 1.0}


def worth_of(log, model):
    """What each slot is worth; some of it is negative."""
    rates = log.rates if model == "ip" else log.rates.mean(axis=1, keepdims=True)
    return ((rates - 0.3) * log.q).ravel()


@pytest.mark.parametrize("model", ["ip", "item"])
def test_marginals_within_limits_are_the_linear_program_over_all_lists(model):
    rng, times = np.random.default_rng(len(model)), tries(60, 200)
    possible = 0
    for _ in range(times):
        log = some_log(rng, items=5, positions=3)
        L, K = log.shape
        limits, w = some_limits(rng, log), worth_of(log, model)
        h = program(w, limits)
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


def test_masses_of_lists_within_limits():
    rng, times = np.random.default_rng(7), tries(60, 200)
    possible = 0
    for _ in range(times):
        log = some_log(rng, items=5, positions=3)
        L, K = log.shape
        limits = some_limits(rng, log)
        lists = fullest_lists(L, K)
        lists = lists[rng.random(len(lists)) < 0.5]
        if not len(lists):
            continue
        if rng.random() < 0.3:
            lists[0, rng.integers(K)] = EMPTY
        w = rng.random(len(lists))
        masses = program(w, limits, lists)
        h = marginals_of_each(lists, L)
        fits = ~np.any((h > 0) & limits.forbidden, axis=(1, 2))
        best = None
        if fits.any():
            best = best_of_lists(w[fits], lists[fits], L, limits)
        assert (masses is None) == (best is None)
        if masses is not None:
            possible += 1
            assert masses.shape == (len(lists),)
            assert masses.sum() == pytest.approx(1)
            assert masses[~fits].sum() == 0
            assert w @ masses == pytest.approx(best, abs=CLOSE)
    assert possible > times / 3


@pytest.mark.parametrize("model", ["ip", "item"])
def test_one_list_within_limits_is_the_best_of_all(model):
    rng, times = np.random.default_rng(10 + len(model)), tries(50, 150)
    possible = 0
    for _ in range(times):
        log = some_log(rng, items=5, positions=3)
        L, K = log.shape
        limits, w = some_limits(rng, log, whole=True), worth_of(log, model)
        h = program(w, limits)
        best = -np.inf
        for one in marginals_of_each(fullest_lists(L, K, limits.forbidden), L):
            fair = all(one[g].sum() >= least * K for g, least in limits.groups)
            near = limits.near is None or (
                np.maximum(one - limits.near[0], 0).sum() <= limits.near[1] * K
            )
            if fair and near:
                best = max(best, float(w @ one.ravel()))
        assert (h is None) == (best == -np.inf)
        if h is not None:
            possible += 1
            assert_kept(limits, h)
            assert w @ h.ravel() == pytest.approx(best, abs=CLOSE)
    assert possible > times / 3


def test_without_limits_it_is_the_best_list():
    rng = np.random.default_rng(8)
    for _ in range(50):
        log = some_log(rng)
        w = log.rates * log.q
        h = program(w.ravel(), no_limits(*log.shape))
        assert h is not None
        best = marginals(assign(w)[None], np.ones(1), len(w))
        assert np.sum(w * h) == pytest.approx(np.sum(w * best), abs=CLOSE)


def test_a_pinned_item_stays():
    forbidden = np.zeros((4, 3), dtype=bool)
    forbidden[2], forbidden[:, 1] = True, True
    forbidden[2, 1] = False
    worth = np.arange(12.0)[::-1]
    h = program(worth, Limits(forbidden))
    assert h is not None
    assert h[2].tolist() == [0, 1, 0]
    assert h.sum(axis=0).tolist() == [1, 1, 1]


def test_no_change_is_production():
    log = some_log(np.random.default_rng(9))
    limits = replace(no_limits(*log.shape), near=(log.shown, 0.0))
    h = program(log.rates.ravel(), limits)
    assert h is not None
    np.testing.assert_allclose(h, log.shown, atol=CLOSE)


def test_limits_that_nobody_can_keep_to():
    both = ((np.array([True, False]), 0.6), (np.array([False, True]), 0.6))
    limits = replace(no_limits(2, 2), groups=both)
    assert program(np.ones(4), limits) is None
