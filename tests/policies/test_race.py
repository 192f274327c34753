"""The race against enumeration of all lists, against itself, and at the extremes."""

from __future__ import annotations

import itertools
import time
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreclick.policies import race

EXACT = 1e-12
"""The accuracy the docstring promises."""

log_weights_of_few = st.lists(st.floats(-30, 30), min_size=1, max_size=6)
log_weights_of_many = st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=40)


def enumerated_marginals(log_weights, positions):
    items = len(log_weights)
    lists = np.array(list(itertools.permutations(range(items))))
    probabilities = race.list_probabilities(log_weights, lists)[:, -1]
    table = np.zeros((items, positions))
    for k in range(min(items, positions)):
        np.add.at(table[:, k], lists[:, k], probabilities)
    return table


def decimal_prefix_probabilities(log_weights, ranking):
    with localcontext() as context:
        context.prec = 60
        context.Emin = -(10**9)
        weights = [Decimal(float(value)).exp() for value in log_weights]
        placed, probability, result = set(), Decimal(1), []
        for item in ranking:
            rest = sum((w for i, w in enumerate(weights) if i not in placed), Decimal(0))
            probability *= weights[item] / rest
            placed.add(item)
            result.append(probability)
        return result


def half_step_marginals(log_weights, positions):
    order = np.argsort(-log_weights, kind="stable")
    descending = log_weights[order] - log_weights[order[0]]
    table = np.zeros((len(log_weights), positions))
    table[order] = race._integrate(descending, positions, race._step(positions) / 2)
    return table


class TestListProbabilities:
    def test_follows_the_definition(self):
        weights = np.array([5.0, 3.0, 2.0])
        expected = [[0.5, 0.5 * 0.6, 0.3], [0.2, 0.2 * 3 / 8, 0.075]]
        actual = race.list_probabilities(np.log(weights), [[0, 1, 2], [2, 1, 0]])
        np.testing.assert_allclose(actual, expected, rtol=1e-14)

    @given(log_weights_of_few)
    def test_all_lists_sum_to_one(self, log_weights):
        lists = list(itertools.permutations(range(len(log_weights))))
        total = race.list_probabilities(log_weights, lists)[:, -1].sum()
        assert total == pytest.approx(1, abs=EXACT)

    @given(st.lists(st.floats(-100, 100), min_size=2, max_size=12), st.randoms())
    def test_keeps_relative_accuracy(self, log_weights, random):
        ranking = random.sample(range(len(log_weights)), k=len(log_weights))
        actual = race.list_probabilities(log_weights, [ranking])[0]
        expected = decimal_prefix_probabilities(log_weights, ranking)
        for got, want in zip(actual, expected, strict=True):
            if want > Decimal("1e-300"):
                assert float(Decimal(float(got)) / want) == pytest.approx(1, rel=EXACT)

    def test_a_dominating_item_leaves_the_others_exact(self):
        # 1 - P(first) is far below the last bit of 1: subtraction would give 0/0.
        log_weights = [1e4, np.log(3.0), 0.0, -1e4]
        actual = race.list_probabilities(log_weights, [[0, 1, 2, 3], [0, 2, 1, 3], [3, 0, 1, 2]])
        np.testing.assert_allclose(actual[0], [1, 0.75, 0.75, 0.75], rtol=EXACT)
        np.testing.assert_allclose(actual[1], [1, 0.25, 0.25, 0.25], rtol=EXACT)
        assert (actual[2] == 0).all()

    def test_is_zero_from_the_first_unknown_item_on(self):
        log_weights = np.zeros(4)
        actual = race.list_probabilities(log_weights, [[0, -1, 2], [-1, 0, 1], [3, 2, -1]])
        expected = np.array([[3, 0, 0], [0, 0, 0], [3, 1, 0]]) / 12
        np.testing.assert_allclose(actual, expected, rtol=1e-14)

    def test_an_item_never_stands_twice(self):
        actual = race.list_probabilities(np.zeros(3), [[1, 1, 0], [0, 1, 0]])
        np.testing.assert_allclose(actual, [[1 / 3, 0, 0], [1 / 3, 1 / 6, 0]], rtol=1e-14)

    def test_chunks_do_not_show(self, monkeypatch):
        rng = np.random.default_rng(3)
        log_weights = rng.normal(size=9)
        lists = rng.permuted(np.tile(np.arange(9), (50, 1)), axis=1)[:, :4]
        whole = race.list_probabilities(log_weights, lists)
        monkeypatch.setattr(race, "_CELLS_PER_CHUNK", 70)
        np.testing.assert_array_equal(race.list_probabilities(log_weights, lists), whole)

    @pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
    def test_of_nothing_is_nothing(self, shape):
        assert race.list_probabilities([0.0], np.empty(shape)).shape == shape

    def test_without_items_every_list_is_impossible(self):
        assert race.list_probabilities([], [[-1, -1]]).tolist() == [[0, 0]]

    @pytest.mark.parametrize(
        ("log_weights", "lists", "message"),
        [
            ([0.0, np.inf], [[0]], "1 of 2 log-weights are not finite, for example inf of item 1"),
            ([[0.0]], [[0]], r"shape \(n,\)"),
            ([0.0], [0], r"shape \(m, d\)"),
            ([0.0], [[0.5]], "indices of items"),
            ([0.0], [[1]], "from -1 to 0, got 1 to 1"),
            ([0.0], [[-2]], "from -1 to 0"),
        ],
    )
    def test_says_what_is_wrong(self, log_weights, lists, message):
        with pytest.raises(ValueError, match=message):
            race.list_probabilities(log_weights, lists)


class TestMarginals:
    @given(log_weights_of_few)
    def test_equal_enumeration(self, log_weights):
        for positions in range(1, len(log_weights) + 2):
            actual = race.marginals(log_weights, positions)
            expected = enumerated_marginals(log_weights, positions)
            np.testing.assert_allclose(actual, expected, atol=EXACT)

    @pytest.mark.parametrize("temperature", [1e-4, 1e-2, 1, 1e2, 1e6])
    def test_equal_enumeration_at_any_temperature(self, temperature):
        scores = np.array([0.3, -1.0, 0.9, 0.3, 0.31, 0.0])
        actual = race.marginals(scores / temperature, 4)
        expected = enumerated_marginals(scores / temperature, 4)
        np.testing.assert_allclose(actual, expected, atol=EXACT)

    @given(log_weights_of_many, st.integers(1, 12))
    def test_are_probabilities(self, log_weights, positions):
        table = race.marginals(log_weights, positions)
        filled = min(len(log_weights), positions)
        assert (table >= 0).all()
        assert (table.sum(axis=1) <= 1 + EXACT).all()
        np.testing.assert_allclose(table[:, :filled].sum(axis=0), 1, atol=EXACT)
        assert (table[:, filled:] == 0).all()

    @given(log_weights_of_many)
    def test_first_position_is_the_softmax(self, log_weights):
        weights = np.exp(np.array(log_weights) - max(log_weights))
        first = race.marginals(log_weights, 1)[:, 0]
        # Large log-weights are only as accurate as their last digit.
        np.testing.assert_allclose(first, weights / weights.sum(), atol=1e-11)

    @given(log_weights_of_many, st.integers(1, 12), st.randoms())
    def test_do_not_depend_on_the_order_of_the_items(self, log_weights, positions, random):
        order = random.sample(range(len(log_weights)), k=len(log_weights))
        table = race.marginals(log_weights, positions)
        shuffled = race.marginals(np.array(log_weights)[order], positions)
        np.testing.assert_allclose(shuffled, table[order], atol=EXACT)

    @pytest.mark.parametrize(("items", "positions"), [(1, 1), (2, 2), (7, 3), (60, 60), (300, 10)])
    @pytest.mark.parametrize("level", [0.0, 9.9e3, -1e4])
    def test_equal_weights_are_uniform(self, items, positions, level):
        table = race.marginals(np.full(items, level), positions)
        np.testing.assert_allclose(table, 1 / items, rtol=EXACT, atol=0)

    @pytest.mark.parametrize(("items", "positions"), [(20, 20), (100, 10), (300, 5), (120, 60)])
    @pytest.mark.parametrize("spread", [0.1, 2.0, 40.0, 3e3])
    def test_half_the_step_gives_the_same(self, items, positions, spread):
        log_weights = np.random.default_rng(items).normal(scale=spread, size=items)
        actual = race.marginals(log_weights, positions)
        np.testing.assert_allclose(actual, half_step_marginals(log_weights, positions), atol=EXACT)

    def test_towards_temperature_zero_are_the_sorted_order(self):
        scores = np.random.default_rng(1).permutation(np.linspace(-1, 1, 200))
        table = race.marginals(scores / 1e-4, 30)
        expected = np.zeros((200, 30))
        expected[np.argsort(-scores)[:30], np.arange(30)] = 1
        np.testing.assert_allclose(table, expected, atol=EXACT)

    def test_ties_share_their_positions_at_temperature_zero(self):
        table = race.marginals(np.array([1.0, 0.0, 1.0, 0.0, 0.0]) * 1e4, 4)
        top, bottom = [1 / 2, 1 / 2, 0, 0], [0, 0, 1 / 3, 1 / 3]
        np.testing.assert_allclose(table, [top, bottom, top, bottom, bottom], atol=EXACT)

    def test_a_dominating_item_leaves_the_others_exact(self):
        others = np.log([3.0, 2.0, 1.0])
        table = race.marginals(np.append(others, 1e4), 4)
        np.testing.assert_allclose(table[3], [1, 0, 0, 0], atol=EXACT)
        # 1e4 + log 3 keeps only 12 digits of log 3.
        np.testing.assert_allclose(table[:3, 1:], race.marginals(others, 3), atol=1e-11)

    def test_many_items_cannot_hide_behind_a_strong_one(self):
        # 300 weak items together weigh as much as the strong one.
        table = race.marginals(np.append(np.zeros(300), np.log(300.0)), 1)
        np.testing.assert_allclose(table[-1, 0], 0.5, atol=EXACT)

    def test_one_item_is_first_and_nowhere_else(self):
        np.testing.assert_allclose(race.marginals([123.0], 3), [[1, 0, 0]], atol=EXACT)

    def test_without_items_or_positions_are_empty(self):
        assert race.marginals([], 3).shape == (0, 3)
        assert race.marginals([1.0, 2.0], 0).shape == (2, 0)

    @pytest.mark.parametrize("spread", [0.0, 1.0, 1e4])
    def test_hundreds_of_items_take_a_moment(self, spread):
        log_weights = np.random.default_rng(2).normal(scale=spread, size=300)
        took = []
        for _ in range(3):  # the best of them: a busy machine is slow at times
            start = time.process_time()
            race.marginals(log_weights, 10)
            took.append(time.process_time() - start)
        assert min(took) < 1.0  # about 0.05 s on a quiet one

    def test_rejects_what_is_no_policy(self):
        with pytest.raises(ValueError, match="not be negative"):
            race.marginals([0.0], -1)
        with pytest.raises(ValueError, match="not finite"):
            race.marginals([0.0, np.nan], 1)
