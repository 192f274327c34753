"""If this fails, a few cells by chance get rates of their own, and widen all intervals."""

import numpy as np
import pytest

from foreclick.ladder import strengths
from foreclick.ladder.shrinkage import GAIN


def entries(gaining: int, others: int, clicks: float):
    """Cells that earn as often as on the days before, though coarser cells expect half of it."""
    c = np.append(np.full(gaining, clicks), np.full(others, 0.1))
    n = np.append(np.full(gaining, 2 * clicks), np.full(others, 0.2))
    expected = np.append(np.full(gaining, 0.4), np.full(others, 0.5))
    return strengths.EntryCounts(c, n, c, n), expected


@pytest.mark.parametrize(("gaining", "clicks", "found"), [(1, 300.0, False), (60, 5.0, True)])
def test_one_cell_is_not_enough_however_much_it_gains(gaining, clicks, found):
    given, coarser = entries(gaining, 1000, clicks)
    gain = strengths._loss(given, coarser, np.inf) - strengths._loss(given, coarser, 20.0)
    assert gain > GAIN
    assert (gain > strengths.GAIN_Z * strengths._gain_sd(given, coarser, 20.0)) is found


@pytest.mark.parametrize("dated", [False, True])
def test_the_gain_is_the_sum_of_what_cells_gain(dated):
    rng = np.random.default_rng(1)
    c, n = rng.poisson(3.0, 50) * np.ones(50), (rng.poisson(9.0, 50) + 1) * np.ones(50)
    one = None if dated else np.ones(50)
    at, x = strengths.EntryCounts(c, n, c, n, one), rng.random(50)
    rate = (c + 7 * x) / (n + 7)
    each = n * rate - c * np.log(n * rate)
    if not dated:  # each record from the others
        clicked = (np.maximum(c - 1, 0) + 7 * x) / (n - 1 + 7)
        each = c * (clicked - np.log(clicked))
        each += np.maximum(n - c, 0) * (c + 7 * x) / (n - 1 + 7)
    assert strengths._loss(at, x, 7.0) == pytest.approx(each.sum())


def test_entries_without_earlier_records_are_left_out():
    c, n = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
    before = np.array([0.0, 7.0, 8.0])
    rung = strengths.EntryRung(strengths.EntryCounts(c, n, before, before), np.arange(3), 1.0)
    told, x = strengths._told([rung], [np.array([0.1, 0.2, 0.3])])
    assert [told.c.tolist(), told.n_before.tolist(), x.tolist()] == [[2, 3], [7, 8], [0.2, 0.3]]
