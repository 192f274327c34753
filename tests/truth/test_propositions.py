"""The paper's propositions, by exact enumeration: not once violated where the click model holds.

The library is exercised exactly, without sampling: a log with one row a list, weighted by π(A) and
carrying the expected click of each slot, has π for its frequencies and the expectation of the
estimator for its estimate.
"""

import math

import numpy as np
import pytest

import foreclick as fc
from tests import drawn
from tests.answers import clipped
from tests.tries import tries
from tests.truth import oracle, worlds
from tests.truth.oracle import Record
from tests.truth.paper import paper

# Both sides of an inequality are sums of at most 60 × 3 products of size 1.
ROUNDING = 1e-12
THROUGH_EVALUATE = tries(12, 40)
"""Of each kind of world."""

CLIPS = (0.5, 1, 2, 10, math.inf)


def rng_for(kind, *salt):
    return np.random.default_rng([*salt, *kind.encode()])


def at_most(left, right):
    return left <= right + ROUNDING * max(1.0, abs(right))


def nested(kind):
    """Pairs of models that both hold in a kind of world, the finer first."""
    holds = {*worlds.HOLDS[kind]}
    return [(finer, coarser) for finer, coarser in worlds.FINER if {finer, coarser} <= holds]


def policy_of(world, probabilities):
    lists = map(tuple, world.lists.tolist())
    return {a: p for a, p in zip(lists, probabilities.tolist(), strict=True) if p > 0}


def expected_records(instance, context):
    """One record a list: weighted by π(A), clicked as often as expected."""
    world = instance.world
    rows = zip(world.lists.tolist(), world.clicks.tolist(), instance.logging.tolist(), strict=True)
    return [
        Record(context, tuple(items), tuple(clicks), weight)
        for items, clicks, weight in rows
        if weight > 0
    ]


@pytest.mark.filterwarnings("ignore::foreclick.errors.ForeclickWarning")
@pytest.mark.parametrize("full", [True, False], ids=["everything logged", "some lists logged"])
@pytest.mark.parametrize(
    "theta", [(1.0, 1.0, 1.0), (0.3, 0.0, 1.7), (0.9, 1.1, 0.0)], ids=["ones", "gap", "two"]
)
def test_the_library_obeys_the_propositions(theta, full):
    """Every kind of world in one log: one context and one segment an instance."""
    made = {}
    for kind in worlds.HOLDS:
        rng = rng_for(kind, 30, int(full))
        for number in range(THROUGH_EVALUATE):
            name = f"{kind} {number}"
            made[name] = worlds.random_instance(kind, rng, np.array(theta), full=full)
    records = [record for name, i in made.items() for record in expected_records(i, name)]
    log = fc.read_log(
        drawn.weighted_log_table(records, world=[record.context for record in records]),
        count="weight",
        segments=("world",),
    )
    candidate = fc.Lists(
        drawn.lists_table({name: policy_of(i.world, i.candidate) for name, i in made.items()})
    )
    rows = fc.evaluate(
        log,
        candidate,
        estimators=clipped(paper(oracle.MODELS), list(CLIPS)),
        metrics=[fc.Metric(theta)],
        by="world",
        confidence=None,
    ).to_dicts()
    found = {(row["world"], row["estimator"], row["clip"]): row["value"] or 0.0 for row in rows}
    assert len(found) == len(made) * len(oracle.MODELS) * len(CLIPS)

    for name, instance in made.items():
        for clip in CLIPS:
            values = {model: found[name, model, clip] for model in oracle.MODELS}
            for model, value in values.items():
                expected = instance.expectation(model, clip)
                assert math.isclose(value, expected, rel_tol=ROUNDING, abs_tol=ROUNDING)
            for finer, coarser in nested(instance.world.kind):
                assert at_most(values[finer], values[coarser])
            for model in instance.holds:
                assert at_most(values[model], instance.value)
                if full and math.isinf(clip):
                    assert at_most(instance.value, values[model])
