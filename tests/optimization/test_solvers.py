from __future__ import annotations

import numpy as np
import pytest

from foreclick.batches import EMPTY
from foreclick.optimization.solvers import assign, greedy, knapsack, to_marginals, transport
from tests.optimization.oracle import (
    CLOSE,
    Context,
    best_of_lists,
    best_of_marginals,
    by_item,
    capped,
    earned,
    fullest_lists,
    marginals_of_each,
    no_limits,
    some_exposure,
    some_log,
)
from tests.tries import tries

TIMES = tries(300, 1_000)


def assert_policy(h):
    """Marginals of a policy that fills as many positions as there are items for."""
    L, K = h.shape
    assert h.min() >= 0
    assert h.sum(axis=0).max() <= 1 + CLOSE
    assert h.sum(axis=1).max() <= 1 + CLOSE
    assert h.sum() == pytest.approx(min(L, K), abs=CLOSE)


# --- lists ----------------------------------------------------------------------------------------


def test_knapsack_is_the_linear_program():
    rng = np.random.default_rng(0)
    for _ in range(TIMES // 10):
        contexts, value = [], 0.0
        for _ in range(10):
            n = int(rng.integers(1, 9))
            worth = np.round(rng.random(n), int(rng.integers(1, 9)))
            shown = rng.dirichlet(np.ones(n)) * (rng.random(n) < 0.8)
            cap = capped(float(rng.choice([0.5, 1, 2, 5, np.inf])), shown)
            masses = knapsack(worth, cap)
            assert masses.min() >= 0
            assert masses.sum() == pytest.approx(1)
            value += earned(worth, cap, masses)
            # One position, and a list in the place of an item.
            contexts.append(Context(worth, cap, np.eye(n), (n, 1)))
        assert value == pytest.approx(best_of_marginals(contexts), abs=CLOSE)


def test_what_caps_leave_over_goes_to_the_best_list():
    np.testing.assert_allclose(knapsack([0.1, 0.9, 0.5], [0.2, 0.3, 0.1]), [0.2, 0.7, 0.1])
    np.testing.assert_allclose(knapsack([0.1, 0.9], [0.0, 0.0]), [0, 1])


# --- items ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["item", "pbm"])
def test_greedy_is_the_linear_program(model):
    rng = np.random.default_rng(2 if model == "item" else 3)
    for _ in range(TIMES // 10):
        contexts, value = [], 0.0
        for _ in range(10):
            log = some_log(rng)
            q = log.q * some_exposure(rng, len(log.q)) if model == "pbm" else log.q
            w, cap = log.rates.mean(axis=1), capped(log.clip, log.shown @ q)
            y = greedy(w, cap, q)
            assert np.all(y <= cap)
            h = to_marginals(y, q)
            assert_policy(h)
            assert np.all(h @ q >= y - 1e-12)
            value += earned(w, cap, y)
            contexts.append(Context(w, cap, by_item(len(w), q), log.shape))
        assert value == pytest.approx(best_of_marginals(contexts), abs=CLOSE)


def test_greedy_is_the_linear_program_over_all_lists():
    rng = np.random.default_rng(4)
    for _ in range(100):
        log = some_log(rng, items=5, positions=3)
        lists, (L, _) = fullest_lists(*log.shape), log.shape
        w, cap = log.rates[:, 0], capped(log.clip, log.shown @ log.q)
        exposed = marginals_of_each(lists, L) @ log.q
        best = best_of_lists(w, cap, exposed.T, lists, L, no_limits(*log.shape))
        y = greedy(w, cap, log.q)
        assert earned(w, cap, to_marginals(y, log.q) @ log.q) == pytest.approx(best, abs=CLOSE)


def test_without_caps_the_best_items_come_first():
    q = np.array([0.2, 1.0, 0.5])
    y = greedy([0.1, 0.9, 0.5, 0.3], [np.inf] * 4, q)
    np.testing.assert_allclose(y, [0, 1.0, 0.5, 0.2])
    np.testing.assert_array_equal(to_marginals(y, q).argmax(axis=0), [3, 1, 2])


def test_items_that_are_worth_nothing_are_shown_as_the_log_showed_them():
    y = greedy([0.0, 0.0, 0.0], [0.5, 0.0, 0.5], [1.0])
    np.testing.assert_array_equal(y, [0.5, 0, 0.5])


def test_to_marginals_takes_any_exposures_that_a_policy_has():
    rng = np.random.default_rng(5)
    for _ in range(TIMES):
        log = some_log(rng)
        y = log.shown @ log.q
        if rng.random() < 0.5:
            y *= rng.random(len(y))
        h = to_marginals(y, log.q)
        assert_policy(h)
        assert np.all(h @ log.q >= y - 1e-12)
        L, K = log.shape
        if y.sum() > log.q.sum() - 1e-12 and L >= K:
            np.testing.assert_allclose(h @ log.q, y, atol=1e-12)


def test_to_marginals_leaves_the_least_exposed_positions_empty():
    h = to_marginals([0.0, 0.3], [0.1, 0.5, 0.0, 0.4])
    np.testing.assert_allclose(h.sum(axis=0), [0, 1, 0, 1])


# --- items at positions ---------------------------------------------------------------------------


def test_transport_is_the_linear_program():
    rng = np.random.default_rng(6)
    for _ in range(TIMES // 10):
        contexts, value = [], 0.0
        for _ in range(10):
            log = some_log(rng)
            w, cap = log.rates * log.q, capped(log.clip, log.shown)
            h = transport(w, cap)
            assert_policy(h)
            value += earned(w, cap, h)
            contexts.append(Context(w.ravel(), cap.ravel(), np.eye(w.size), log.shape))
        assert value == pytest.approx(best_of_marginals(contexts), abs=CLOSE)


def test_transport_where_nothing_was_seen_shows_something():
    assert_policy(transport(np.ones((4, 2)), np.zeros((4, 2))))
    assert_policy(transport(np.zeros((2, 4)), np.zeros((2, 4))))


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


def test_positions_are_filled_even_at_a_loss():
    np.testing.assert_array_equal(assign([[-1.0, -5.0], [-9.0, -9.0]]), [0, 1])
    allowed = np.array([[True, True], [True, False]])
    np.testing.assert_array_equal(assign([[9.0, 0.0], [-9.0, 9.0]], allowed), [1, 0])
    np.testing.assert_array_equal(assign([[1.0, 1.0]], allowed[1:]), [0, EMPTY])
    np.testing.assert_array_equal(assign([[1.0]], np.array([[False]])), [EMPTY])
