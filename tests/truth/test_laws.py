"""Laws that hold whatever was logged, and truths of first clicks in worlds that are enumerated."""

import math

import numpy as np
import pytest

import foreclick as fc
from tests import drawn
from tests.answers import clipped
from tests.simulate import small
from tests.tries import tries
from tests.truth import firsts, oracle, worlds
from tests.truth.oracle import Record
from tests.truth.paper import paper

pytestmark = pytest.mark.filterwarnings("ignore::foreclick.errors.ForeclickWarning")

EXACT = 1e-12  # probabilities instead of counts: a few thousand terms below 1


@pytest.mark.parametrize("seed", range(3))
def test_what_was_logged_is_worth_what_production_is(seed):
    """For every model, with any M ≥ 1: no weight differs from one, also of a policy that is known.

    Of first clicks that is true of lists and prefixes.
    """
    records = drawn.drawn(seed, records=40, ragged=True, text=seed == 1).records
    log = fc.read_log(drawn.log_table(records))
    for logging in (None, fc.Observed(log)):
        for metric, models in (("dcg@3", oracle.MODELS), ("mrr@3", ("list", "prefix"))):
            for row in fc.evaluate(
                log,
                fc.Observed(log),
                estimators=clipped(paper(models), [2, math.inf]),
                metrics=metric,
                logging=logging,
                confidence=None,
            ):
                assert row["value"] == pytest.approx(row["production"], rel=EXACT)
                assert (row["covered"], row["clipped"]) == pytest.approx((1, 0), abs=EXACT)
                assert row["ess"] == pytest.approx(len(records), rel=EXACT)


HOLDS = {
    "pbm": ("list", "prefix", "ip", "pbm"),
    "dctr": ("list", "prefix", "ip", "item"),
    "ip": ("list", "prefix", "ip"),
    "cascade": ("list", "prefix", "ip", "item"),
    "dcm": ("list", "prefix", "ip", "item"),
    "dbn": ("list", "prefix"),
}
"""Where the estimate has no bias; DBN users also leave without a click, which bends hazards."""


@pytest.mark.parametrize("name", sorted(HOLDS))
def test_an_infinite_log_tells_the_truth_where_the_hazards_are_right(name):
    """A log in which every outcome stands with its probability is what an infinite log would be."""
    records = [
        oracle.Record(x, tuple(1000 * x + a for a in shown), clicks, 1e6 * chance * (1 + i % 3))
        for x in range(small.CONTEXTS)
        for i, shown in enumerate(small.every_list())
        for chance, clicks in small.outcomes(name, x, shown)
        if chance > 0
    ]
    log = fc.read_log(drawn.weighted_log_table(records), count="weight")
    shown = {(0, (2, 0, 3)): 0.4, (0, (3, 2, 1)): 0.6, (1, (1, 3, 0)): 1.0}
    policy: dict[int, dict[tuple[int, ...], float]] = {0: {}, 1: {}}
    for (x, items), mass in shown.items():
        policy[x][tuple(1000 * x + a for a in items)] = mass
    candidate = fc.Lists(drawn.lists_table(policy))
    sizes = [sum(r.weight for r in records if r.context == x) for x in range(small.CONTEXTS)]
    curve = small.EXAMINATION.tolist()
    models = [
        fc.Weighted(model, examination=curve if model == "pbm" else None) for model in HOLDS[name]
    ]
    for metric, theta in (("success@3", firsts.success_at(3)), ("mrr@3", firsts.mrr_at(3))):
        truth = sum(
            sizes[x] * mass * chance * next((t for t, c in zip(theta, got, strict=True) if c), 0.0)
            for (x, items), mass in shown.items()
            for chance, got in small.outcomes(name, x, items)
        ) / sum(sizes)
        exact = small.WORLDS[name].value(candidate, metric, sizes)
        assert exact == pytest.approx(truth, abs=EXACT)
        found = fc.evaluate(log, candidate, metrics=metric, estimators=models, confidence=None)
        assert found["value"] == pytest.approx([truth] * len(models), abs=EXACT)


# --- the paper's propositions, by exact enumeration -----------------------------------------------


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
