"""Jackknife and bootstrap of plain numbers, against textbook formulas."""

import numpy as np
import pytest
from scipy import stats

from foreclick.inference import bootstrap, draws, jackknife

NUMBERS = np.random.default_rng(3).gamma(2.0, size=12)
EXACT = 1e-12


def leave_one_out(statistic):
    return [statistic(np.delete(NUMBERS, i)) for i in range(len(NUMBERS))]


def test_the_jackknife_of_a_mean_is_the_textbook_formula():
    found = jackknife(NUMBERS.mean(), leave_one_out(np.mean), 0.9)
    right = NUMBERS.std(ddof=1) / np.sqrt(len(NUMBERS))
    assert found.se == pytest.approx(right, rel=EXACT)
    assert found.bias == pytest.approx(0, abs=EXACT)
    ends = stats.t.interval(0.9, len(NUMBERS) - 1, NUMBERS.mean(), right)
    assert (found.low, found.high) == pytest.approx(ends, rel=EXACT)


def test_the_jackknife_takes_all_bias_off_the_plug_in_variance():
    plug_in, unbiased = NUMBERS.var(), NUMBERS.var(ddof=1)
    found = jackknife(plug_in, leave_one_out(np.var), 0.95)
    assert plug_in - found.bias == pytest.approx(unbiased, rel=EXACT)
    # Around the mean of the replicates, which is not the value where there is bias.
    spread = np.var(leave_one_out(np.var), ddof=0) * (len(NUMBERS) - 1)
    assert found.se == pytest.approx(np.sqrt(spread), rel=EXACT)


def test_the_bootstrap_of_a_mean_is_what_it_is_in_the_limit():
    replicates = 20_000
    times = draws(len(NUMBERS), replicates, seed=0)
    found = bootstrap(NUMBERS.mean(), (times @ NUMBERS / len(NUMBERS)).tolist(), 0.95)
    right = NUMBERS.std() / np.sqrt(len(NUMBERS))
    # The relative error of an se from R draws is about 1 / √(2 R); four of them.
    assert found.se == pytest.approx(right, rel=4 / np.sqrt(2 * replicates))
    assert abs(found.bias) < 4 * right / np.sqrt(replicates)
    assert found.low < NUMBERS.mean() < found.high
    assert (found.high - found.low) / found.se == pytest.approx(2 * 1.96, rel=0.03)


def test_draws_depend_on_the_seed_alone():
    assert (draws(7, 5, seed=1) == draws(7, 5, seed=1)).all()
    assert (draws(7, 5, seed=1) != draws(7, 5, seed=2)).any()
