"""If this fails, learnt examination curves are not the maximum of their likelihood."""

import numpy as np

import foreclick as fc
from foreclick.batches import batches_of
from foreclick.curves.errors import examine
from tests.truth import swaps
from tests.truth.swaps import Slot

# Both are converged; what is left is the order of a few hundred sums, times a condition number.
SAME = 1e-10
# Differences of two logarithms, 1e-4 apart.
DERIVATIVE = 1e-6


def random_slots(seed, depth=4, contexts=6, items=5, clusters=3):
    """Slots at random positions, with clicks that follow no model."""
    rng = np.random.default_rng(seed)
    return [
        Slot(f"q{x}", f"i{a}", k, int(rng.integers(1, 30)), int(rng.integers(0, 9)), int(g))
        for x in range(contexts)
        for a in range(items)
        for k in rng.choice(np.arange(1, depth + 1), size=rng.integers(1, depth + 1), replace=False)
        for g in rng.choice(clusters, size=rng.integers(1, clusters + 1), replace=False)
    ]


def tally_of(slots):
    """A log with a list for each slot, which shows nothing else."""
    return fc.tally(
        fc.read_log(
            {
                "context": [s.context for s in slots],
                "list_id": list(range(len(slots))),
                "item": [s.item for s in slots],
                "position": [int(s.position) for s in slots],
                "click": [s.w / s.n for s in slots],
                "n": [s.n for s in slots],
                "day": [s.cluster for s in slots],
                "half": [s.cluster for s in slots],
            },
            long=("list_id", "position"),
            count="n",
            period="day",
            segments=("half",),
        )
    )


def ask(slots, depth=4, **options):
    return examine(batches_of(tally_of(slots)), reward="clicks", places=range(depth), **options)


def test_a_curve_and_its_errors_are_the_oracles():
    slots = random_slots(1)
    counts = swaps.counts_of(slots, 4)
    found = ask(slots, clusters=["period"])[()]
    p = swaps.alternating(counts, 4)
    assert found.converged
    assert np.allclose(found.p, p, rtol=SAME)
    moved = swaps.moved_by(slots, 4, swaps.alternating)
    error, floor = found.errors
    assert np.allclose(error.covariance, 3 / 2 * moved.T @ moved, atol=DERIVATIVE)
    assert (error.freedom, floor.freedom) == (2, np.inf)
    assert np.allclose(floor.covariance[1:, 1:], swaps.joint_covariance(counts, p), rtol=1e-9)
    assert np.all(floor.covariance[0] == 0)
    (alone,) = ask(slots)[()].errors
    assert np.allclose(alone.covariance, floor.covariance, rtol=SAME)
