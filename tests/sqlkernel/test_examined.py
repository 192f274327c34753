"""The relational core of examination curves, beside loops over the same slots."""

import numpy as np
import pyarrow as pa

from foreclick.engines import engine_of
from foreclick.sqlkernel.examined import examine_slots
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


def ask(engine, slots, depth=4, places=None, clustered=False, by=()):
    columns = {
        "context": [s.context for s in slots],
        "item": [s.item for s in slots],
        "position": [int(s.position) for s in slots],
        "n": [s.n for s in slots],
        "clicks": [s.w for s in slots],
        "cluster": [s.cluster for s in slots],
    }
    columns |= {b: [f"={s.cluster}" for s in slots] for b in by}
    table = engine.load(pa.table(columns))
    home = engine_of(engine.connection)
    with home.scratch() as keep:
        return examine_slots(
            home,
            keep,
            table,
            reward="clicks",
            places=range(depth) if places is None else places,
            keys=["context"],
            by=by,
            clusters=["cluster"] if clustered else [],
        )


def test_both_curves_and_their_errors_are_the_oracles(engine):
    slots = random_slots(1)
    counts = swaps.counts_of(slots, 4)
    found = ask(engine, slots, clustered=True)[()]
    p, other = swaps.alternating(counts, 4), swaps.allpairs(counts, 4)
    assert found.converged
    assert np.allclose(found.p, p, rtol=SAME)
    assert np.allclose(found.allpairs, other, rtol=SAME)
    moved = swaps.moved_by(slots, 4, swaps.alternating)
    beside = swaps.moved_by(slots, 4, swaps.allpairs) - moved
    spread, floor = found.spreads
    assert np.allclose(spread.covariance, 3 / 2 * moved.T @ moved, atol=DERIVATIVE)
    assert np.allclose(found.apart, np.sqrt(3 / 2 * (beside**2).sum(axis=0)), atol=DERIVATIVE)
    assert (spread.freedom, floor.freedom) == (2, np.inf)
    assert np.allclose(floor.covariance[1:, 1:], swaps.joint_covariance(counts, p), rtol=1e-9)
    assert np.all(floor.covariance[0] == 0)
    (alone,) = ask(engine, slots)[()].spreads
    assert np.allclose(alone.covariance, floor.covariance, rtol=SAME)


def test_strata_are_fitted_each_on_its_own(engine):
    slots = random_slots(2, contexts=8)
    found = ask(engine, slots, by=("by_0",))
    assert set(found) == {("=0",), ("=1",), ("=2",)}
    for g in range(3):
        counts = swaps.counts_of([s for s in slots if s.cluster == g], 4)
        assert np.allclose(found[f"={g}",].p, swaps.alternating(counts, 4), rtol=SAME)
