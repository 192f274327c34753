"""If this fails, learnt examination curves are not the maximum of their likelihood."""

import numpy as np

from foreclick.batches import batches_of
from foreclick.curves.errors import examine
from tests.cases import plain
from tests.truth import swaps
from tests.truth.swaps import Slot

# Both are converged; what is left is the order of a few hundred sums, times a condition number.
SAME = 1e-10
# Differences of two logarithms, 1e-4 apart.
DERIVATIVE = 1e-6


CASE = plain.drawn(1, records=600, contexts=6, periods=3)
SLOTS = [
    Slot(row.context, item, k, 1, click, row.day)
    for row in CASE.rows
    for k, (item, click) in enumerate(zip(row.items, row.clicks, strict=True), start=1)
]


def ask(**options):
    """The curve and its errors."""
    return examine(batches_of(CASE.tally()), reward="clicks", places=range(4), **options)[()]


def test_a_curve_and_its_errors_are_the_oracles():
    counts = swaps.counts_of(SLOTS, 4)
    found = ask(clusters=["period"])
    p = swaps.alternating(counts, 4)
    assert found.converged
    assert np.allclose(found.p, p, rtol=SAME)
    moved = swaps.moved_by(SLOTS, 4, swaps.alternating)
    error, floor = found.errors
    assert np.allclose(error.covariance, 3 / 2 * moved.T @ moved, atol=DERIVATIVE)
    assert (error.freedom, floor.freedom) == (2, np.inf)
    assert np.allclose(floor.covariance[1:, 1:], swaps.joint_covariance(counts, p), rtol=1e-9)
    assert np.all(floor.covariance[0] == 0)
    (alone,) = ask().errors
    assert np.allclose(alone.covariance, floor.covariance, rtol=SAME)
