from __future__ import annotations

import numpy as np
import pytest

from foreclick.batches import EMPTY
from foreclick.optimization.solvers import Limits, decode, program
from tests.optimization.oracle import some_log
from tests.tries import tries


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
        assert_decoded(program((log.rates * log.q).ravel(), near))


def test_many_items_and_long_lists():
    rng = np.random.default_rng(2)
    for _ in range(10):
        lists = rng.permuted(np.tile(np.arange(50), (60, 1)), axis=1)[:, :10]
        h = np.zeros((50, 10))
        for one, mass in zip(lists, rng.dirichlet(np.ones(60)), strict=True):
            h[one, np.arange(10)] += mass
        assert_decoded(h)


def test_holes_are_where_columns_do_not_sum_to_one():
    lists, _ = assert_decoded(np.array([[0.5, 0.0], [0.5, 0.25]]))
    assert {tuple(one) for one in lists.tolist()} == {(0, EMPTY), (0, 1), (1, EMPTY)}
    assert_decoded(np.zeros((3, 2)))
    assert_decoded(np.array([[0.25, 0.25]]))


def test_an_item_that_is_always_shown_is_in_every_list():
    lists, _ = assert_decoded(np.array([[0.5, 0.5], [0.3, 0.2], [0.2, 0.3]]))
    assert (lists == 0).any(axis=1).all()


def test_one_list_is_read_off(monkeypatch):
    monkeypatch.setattr("scipy.optimize.linear_sum_assignment", None)
    lists, masses = decode(np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]))
    assert lists.tolist() == [[1, 0, EMPTY]]
    assert masses.tolist() == [1.0]


@pytest.mark.parametrize("h", [[[0.6, 0.6]], [[0.6], [0.6]], [[1.0, -0.1], [0.0, 1.0]]])
def test_what_is_no_policy_is_refused(h):
    with pytest.raises(ValueError, match="sum to at most 1 by item and by position"):
        decode(h)
