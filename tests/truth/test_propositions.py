"""The paper's propositions, by exact enumeration: not once violated where the click model holds.

Twice: from the formulas, over thousands of random worlds, policies, metrics and clips; and through
`evaluate`, over hundreds. The library is exercised exactly, without sampling: a log with one row a
list, weighted by π(A) and carrying the expected click of each slot, has π for its frequencies and
the expectation of the estimator for its estimate.
"""

import functools
import itertools
import math

import numpy as np
import pytest

from tests.answers import clipped
from tests.tries import tries
from tests.truth import oracle, random_logs, worlds
from tests.truth.oracle import Record
from tests.truth.paper import paper

# Both sides of an inequality are sums of at most 60 × 3 products of size 1.
ROUNDING = 1e-12

INSTANCES = tries(250, 1000)
"""Of each kind of world, for the formulas."""

THROUGH_EVALUATE = tries(12, 40)
"""Of each kind of world, through the library."""

CLIPS = (0.5, 1, 2, 10, math.inf)


def rng_for(kind, *salt):
    return np.random.default_rng([*salt, *kind.encode()])


@functools.cache
def instances(kind):
    rng = rng_for(kind, 10)
    return [worlds.random_instance(kind, rng) for _ in range(INSTANCES)]


def at_most(left, right):
    return left <= right + ROUNDING * max(1.0, abs(right))


def nested(kind):
    """Pairs of models that both hold in a kind of world, the finer first."""
    holds = {*worlds.HOLDS[kind]}
    return [(finer, coarser) for finer, coarser in worlds.FINER if {finer, coarser} <= holds]


# --- from the formulas ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", worlds.HOLDS)
def test_unbiased_without_clipping_where_everything_is_logged(kind):
    rng = rng_for(kind, 20)
    for _ in range(INSTANCES):
        instance = worlds.random_instance(kind, rng, full=True)
        for model in instance.holds:
            found = instance.expectation(model, math.inf)
            assert math.isclose(found, instance.value, rel_tol=ROUNDING, abs_tol=ROUNDING)


@pytest.mark.parametrize("kind", worlds.HOLDS)
def test_proposition_1_coarser_models_are_unbiased_for_more_policies(kind):
    """H_L ⊆ H_IP ⊆ H_Y: a candidate that one model does not clip, no coarser one does either.

    And without a clipped weight an estimator is unbiased, whatever was not logged.
    """
    inside = dict.fromkeys(worlds.HOLDS[kind], 0)
    for instance in instances(kind):
        largest = {model: instance.largest_ratio(model) for model in instance.holds}
        for finer, coarser in nested(kind):
            assert at_most(largest[coarser], largest[finer])
        for model, ratio in largest.items():
            # the candidate just fits into the class of the smallest possible M, and of all larger
            if math.isfinite(ratio) and ratio <= instance.clip:
                inside[model] += 1
                for clip in (ratio, instance.clip):
                    found = instance.expectation(model, clip)
                    assert math.isclose(found, instance.value, rel_tol=ROUNDING, abs_tol=ROUNDING)
    assert min(inside.values()) > INSTANCES / 20  # the statement is not empty
    for finer, coarser in nested(kind):
        assert inside[finer] <= inside[coarser]


@pytest.mark.parametrize("kind", worlds.HOLDS)
def test_propositions_2_to_4_coarser_models_have_less_downside_bias(kind):
    """E[V̂_L] ≤ E[V̂_prefix] ≤ E[V̂_IP] ≤ E[V̂_I], E[V̂_PBM] ≤ V(h)."""
    strictly = dict.fromkeys(nested(kind), 0)
    for instance in instances(kind):
        found = {model: instance.expectation(model) for model in instance.holds}
        assert all(at_most(estimate, instance.value) for estimate in found.values())
        for finer, coarser in strictly:
            assert at_most(found[finer], found[coarser])
            strictly[finer, coarser] += found[finer] < found[coarser] - 1e-6
    if strictly:
        assert max(strictly.values()) > INSTANCES / 20


@pytest.mark.parametrize("kind", worlds.HOLDS)
def test_larger_clips_have_less_downside_bias(kind):
    for instance in instances(kind)[: INSTANCES // 5]:
        for model in oracle.MODELS:
            found = [instance.expectation(model, clip) for clip in CLIPS]
            assert all(at_most(a, b) for a, b in itertools.pairwise(found))


def test_the_propositions_need_their_click_model():
    """The tests above can fail: where users stop at the first click, ip may overestimate."""
    assert not all(at_most(i.expectation("ip"), i.value) for i in instances("cascade"))
    assert not all(at_most(i.expectation("item"), i.value) for i in instances("pbm"))
    assert not all(at_most(i.expectation("prefix"), i.value) for i in instances("list"))


def test_what_cutting_the_list_assumes():
    """Cut at the last θ > 0, the list estimator is biased if users look ahead, and only then."""
    for kind in worlds.HOLDS:
        rng = rng_for(kind, 40)
        ahead = kind == "list"
        for _ in range(20):
            world = worlds.random_world(kind, rng, items=4, length=3)
            logging, candidate = (worlds.random_policy(rng, 24, full=True) for _ in range(2))
            theta = np.array([1.0, 1.0, 0.0])
            found = world.expectation("list", candidate, logging, theta, math.inf)
            assert math.isclose(found, world.value(candidate, theta), rel_tol=1e-9) != ahead


@pytest.mark.parametrize("kind", worlds.HOLDS)
def test_the_oracle_obeys_the_propositions(kind):
    """The same, through the record sums of the oracle with π known."""
    for instance in instances(kind)[:40]:
        records = expected_records(instance, 0)
        h = policy_of(instance.world, instance.candidate)
        pi = policy_of(instance.world, instance.logging)
        theta, p = instance.theta.tolist(), instance.world.examination.tolist()
        found = {
            model: oracle.value(model, records, {0: h}, theta, instance.clip, logging={0: pi}, p=p)
            for model in instance.holds
        }
        assert all(at_most(estimate, instance.value) for estimate in found.values())
        assert all(at_most(found[finer], found[coarser]) for finer, coarser in nested(kind))


# --- through the library --------------------------------------------------------------------------


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


def library_instance(kind, rng, theta, *, full):
    """As `random_instance`, but three positions deep, with the library's p and a common θ."""
    examination = rng.uniform(0.2, 1) / np.arange(1, 4)  # 1/k up to a scale, which must not matter
    world = worlds.random_world(
        kind, rng, items=int(rng.integers(3, 5)), length=3, examination=examination
    )
    lists = len(world.lists)
    logging = worlds.random_policy(rng, lists, full=full)
    far = worlds.random_policy(rng, lists)
    mix = float(rng.choice([0.1, 0.5, 1.0]))
    return worlds.Instance(world, logging, mix * far + (1 - mix) * logging, theta, math.inf)


@pytest.mark.filterwarnings("ignore::foreclick.errors.ForeclickWarning")
@pytest.mark.parametrize("full", [True, False], ids=["everything logged", "some lists logged"])
@pytest.mark.parametrize(
    "theta", [(1.0, 1.0, 1.0), (0.3, 0.0, 1.7), (0.9, 1.1, 0.0)], ids=["ones", "gap", "two"]
)
def test_the_library_obeys_the_propositions(theta, full):
    """Every kind of world in one log: one context and one segment an instance."""
    import foreclick as fc  # noqa: PLC0415 - the formulas above are tested without the library

    made = {}
    for kind in worlds.HOLDS:
        rng = rng_for(kind, 30, int(full))
        for number in range(THROUGH_EVALUATE):
            name = f"{kind} {number}"
            made[name] = library_instance(kind, rng, np.array(theta), full=full)
    records = [record for name, i in made.items() for record in expected_records(i, name)]
    log = fc.read_log(
        random_logs.weighted_log_table(records, world=[record.context for record in records]),
        count="weight",
        segments=("world",),
    )
    candidate = fc.Lists(
        random_logs.lists_table({name: policy_of(i.world, i.candidate) for name, i in made.items()})
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
