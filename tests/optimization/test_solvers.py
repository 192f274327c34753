from __future__ import annotations

import numpy as np
import pytest

from foreclick.batches import EMPTY
from foreclick.optimization.solvers import assign
from tests.optimization.oracle import fullest_lists, marginals_of_each


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
