"""The shape of the tail, of samples whose shape is known."""

import numpy as np
import pytest
from scipy.stats import genpareto

from foreclick.inference import pareto_k

N = 20_000


@pytest.mark.parametrize("shape", [-0.3, 0.2, 0.5, 0.7, 1.2])
def test_a_known_shape_is_found(shape):
    """The tail has 3 √n = 424 records: k is known to about (1 + k) / √424, averaged over ten."""
    rng = np.random.default_rng(int(100 * (shape + 1)))
    draws = [1 + genpareto.rvs(shape, size=N, random_state=rng) for _ in range(10)]
    found = [pareto_k(weights, np.ones(N)) for weights in draws]
    assert np.mean([k for k in found if k is not None]) == pytest.approx(shape, abs=0.07)


def test_counts_stand_for_repeats():
    rng = np.random.default_rng(1)
    weights, counts = rng.pareto(2, 3000), rng.integers(1, 5, 3000)
    repeated = np.repeat(weights, counts)
    assert pareto_k(weights, counts) == pytest.approx(pareto_k(repeated, np.ones(len(repeated))))


def test_the_largest_weights_are_enough():
    weights = np.sort(np.random.default_rng(2).pareto(2, N))[::-1]
    top = pareto_k(weights[:1000], np.ones(1000), records=N)
    assert top == pytest.approx(pareto_k(weights, np.ones(N)))


def test_the_unit_of_the_weights_does_not_matter():
    weights = np.random.default_rng(3).pareto(1.5, N)
    assert pareto_k(1000 * weights, np.ones(N)) == pytest.approx(pareto_k(weights, np.ones(N)))


def test_big_cells_make_the_tail_longer():
    """Cells of 1,000 records: 3 √n of them is less than a cell, so a fifth is looked at."""
    weights = np.random.default_rng(4).pareto(2, 200)
    assert pareto_k(weights, np.full(200, 1000.0)) == pytest.approx(0.5, abs=0.3)


@pytest.mark.parametrize("weights", [[], [2.0], [1.0, 2.0, 3.0, 4.0], [3.0] * 500])
def test_too_few_different_weights_say_nothing(weights):
    assert pareto_k(weights, np.ones(len(weights))) is None


def test_a_short_tail_is_drawn_to_one_half():
    """A fifth of 50 even weights has shape −1, and ten records more at 0.5 in the estimate."""
    assert pareto_k(np.arange(50), np.ones(50)) == pytest.approx(-0.25, abs=0.2)
