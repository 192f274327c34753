"""Traffic dealt to contexts, against Neyman's formula and a search over all shares."""

from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats

from foreclick.inference import margins, sample_size
from foreclick.optimization.traffic import Traffic


def apart(candidate, production, weight, most=0.5):
    """Contexts in which two policies share no list, with the variance of each one's rewards."""
    count = len(candidate)
    return Traffic(
        np.repeat(np.arange(count), 2),
        np.tile([1.0, 0.0], count),
        np.tile([0.0, 1.0], count),
        np.stack([candidate, production], axis=1).ravel(),
        weight,
        most,
    )


def overlapping(rng, count):
    """Contexts with up to four lists, which both policies may show."""
    context = np.repeat(np.arange(count), 4)
    h, pi = rng.dirichlet(np.full(4, 0.5), (2, count)).reshape(2, -1)
    noise, weight = rng.uniform(0.1, 2.0, len(h)), rng.dirichlet(np.ones(count))
    return Traffic(context, h, pi, noise, weight, 0.5)


def one(h, pi):
    """A context with two lists."""
    return Traffic(np.zeros(2, int), np.array(h), np.array(pi), np.ones(2), np.ones(1), 0.5)


def test_small_shares_follow_neyman():
    """Traffic in proportion to n_x · sd_x."""
    rng = np.random.default_rng(1)
    sd, weight = rng.uniform(0.1, 2, 40), rng.dirichlet(np.ones(40))
    spent = weight * apart(sd**2, sd**2, weight).best(0.001)
    assert spent / spent.sum() == pytest.approx(weight * sd / (weight @ sd), rel=0.005)
    assert spent.sum() == pytest.approx(0.001, rel=1e-6)


def test_with_room_for_all_each_context_takes_its_own_best():
    """a / ε + b / (1 − ε) is least at ε = √a / (√a + √b)."""
    a, b = np.array([1.0, 4.0, 0.01]), np.array([1.0, 1.0, 1.0])
    shares = apart(a, b, np.full(3, 1 / 3), most=0.99).best(0.9)
    assert shares == pytest.approx(np.sqrt(a) / (np.sqrt(a) + np.sqrt(b)), rel=0.01)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("budget", [0.02, 0.2])
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
    z = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    assert sample_size(2.0, 0.1, margins(0.95, 0.8)) == pytest.approx(2 * z**2 / 0.01)
