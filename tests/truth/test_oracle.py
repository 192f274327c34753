"""The oracle, held against hand calculation and against the enumeration of every possible log."""

import itertools
import math

import numpy as np
import pytest

from tests.truth import oracle, worlds
from tests.truth.oracle import Record

# Only the order of a few dozen additions differs between the two sides.
ROUNDING = 1e-12

RECORDS = [
    Record("q", ("a", "b"), (1, 0)),
    Record("q", ("a", "b"), (0, 1)),
    Record("q", ("b", "a"), (1, 1)),
    Record("q", ("b", "c"), (0, 1)),
]
CANDIDATE = {"q": {("b", "a"): 0.5, ("a", "c"): 0.5}}


def close(expected):
    return pytest.approx(expected, rel=ROUNDING, abs=ROUNDING)


@pytest.mark.parametrize(
    ("model", "unclipped", "clipped"),
    [
        # π̂ is ab 1/2, ba 1/4, bc 1/4. Only ba is in both: 2 clicks, weight 2.
        ("list", (2 * 2) / 4, (2 * 1) / 4),
        # a 1/2 : 1/2; b 1/2 : 1/2; ba 1/2 : 1/4; ab and bc are not the candidate's.
        ("prefix", (1 + 1 + 2) / 4, (1 + 1 + 1) / 4),
        # a@1 and b@1 weigh 1; a@2 and c@2 1/2 : 1/4; b@2 0.
        ("ip", (1 + 1 + 2 + 2) / 4, (1 + 1 + 1 + 1) / 4),
        # a 1 : 3/4, b 1/2 : 1, c 1/2 : 1/4, with 2, 2 and 1 clicks.
        ("item", (2 * 4 / 3 + 2 * 1 / 2 + 2) / 4, (2 * 1 + 2 * 1 / 2 + 1) / 4),
        # with p = (1, 1/2): a 3/4 : 5/8, b 1/2 : 3/4, c 1/4 : 1/8.
        ("pbm", (2 * 6 / 5 + 2 * 2 / 3 + 2) / 4, (2 * 1 + 2 * 2 / 3 + 1) / 4),
        ("rctr", 5 / 4, 5 / 4),
        ("rcm", 5 / 4, 5 / 4),
    ],
)
def test_values_by_hand(model, unclipped, clipped):
    theta = oracle.clicks_at(2)
    assert oracle.value(model, RECORDS, CANDIDATE, theta) == close(unclipped)
    assert oracle.value(model, RECORDS, CANDIDATE, theta, 1) == close(clipped)


def test_what_the_value_rests_on_by_hand():
    row = oracle.evaluate("ip", RECORDS, CANDIDATE, oracle.clicks_at(2))
    # E = 2, 2, 1, 2, 1 and W = 1, 1, 2, 0, 2 for a@1, b@1, a@2, b@2, c@2
    assert row == close(
        oracle.Row(
            value=1.5,
            production=1.25,
            change=0.25,
            lift=0.2,
            covered=1,
            clipped=0,
            ess=4 * 8**2 / (8 * 12),
            contexts=1,
            records=4,
            missing_contexts=0,
        )
    )
    assert oracle.evaluate("ip", RECORDS, CANDIDATE, oracle.clicks_at(2), 1).clipped == close(0.25)
    assert oracle.evaluate("list", RECORDS, CANDIDATE, oracle.clicks_at(2)).covered == close(0.5)
    assert oracle.evaluate("prefix", RECORDS, CANDIDATE, oracle.clicks_at(2)).covered == close(0.75)


def test_lists_of_unequal_length_by_hand():
    records = [Record(0, (1, 2), (1, 1)), Record(0, (1,), (0,))]
    candidate = {0: {(1, 2): 1.0}}
    theta = oracle.clicks_at(2)
    # position 2 is filled in half of the records: its click counts double
    assert oracle.value("rctr", records, candidate, theta) == close((1 + 2) / 2)
    # 2 filled positions against 3/2: each click counts 4/3
    assert oracle.value("rcm", records, candidate, theta) == close((4 / 3 + 4 / 3) / 2)
    # (1,) and (1, 2) are one list where only the first position counts, and two where both do
    assert oracle.value("list", records, candidate, oracle.clicks_at(1)) == close(0.5)
    assert oracle.value("list", records, candidate, theta) == close(2)


def test_contexts_missing_from_the_candidate_by_hand():
    records = [*RECORDS, Record("r", ("z",), (1,)), Record("r", ("y",), (1,))]
    theta = oracle.clicks_at(2)
    kept = oracle.evaluate("ip", records, CANDIDATE, theta)
    assert (kept.value, kept.production) == close(((4 * 1.5 + 2) / 6, (5 + 2) / 6))
    assert (kept.contexts, kept.records, kept.missing_contexts) == (2, 6, 1)
    assert kept.covered == 1
    dropped = oracle.evaluate("ip", records, CANDIDATE, theta, missing="drop")
    alone = oracle.evaluate("ip", RECORDS, CANDIDATE, theta)
    assert dropped == alone._replace(missing_contexts=1)


def test_a_logged_list_that_the_logging_policy_never_shows():
    logging = {"q": {("a", "b"): 0.5, ("a", "c"): 0.5}}
    theta = oracle.clicks_at(2)
    assert oracle.value("list", RECORDS, CANDIDATE, theta, 3, logging=logging) == close(2 * 3 / 4)
    assert oracle.value("list", RECORDS, CANDIDATE, theta, math.inf, logging=logging) == 0


def test_nothing_in_common_is_no_answer():
    row = oracle.evaluate("ip", RECORDS, {"q": {("x", "y"): 1.0}}, oracle.clicks_at(2))
    assert (row.value, row.change, row.lift, row.covered, row.ess) == (None, None, None, 0, 0)


def test_metrics():
    assert oracle.clicks_at(3) == (1, 1, 1)
    assert oracle.dcg_at(3) == close((1, 1 / math.log2(3), 0.5))


# --- against enumeration --------------------------------------------------------------------------


def expected_log(instance):
    """One record a list: weighted by π, with its expected clicks."""
    return [
        Record(0, tuple(items), tuple(clicks), weight)
        for items, clicks, weight in zip(
            instance.world.lists.tolist(),
            instance.world.clicks.tolist(),
            instance.logging.tolist(),
            strict=True,
        )
        if weight > 0
    ]


def as_policy(world, probabilities):
    lists = map(tuple, world.lists.tolist())
    return {0: {a: p for a, p in zip(lists, probabilities.tolist(), strict=True) if p > 0}}


@pytest.mark.parametrize("kind", worlds.HOLDS)
def test_the_expected_log_gives_the_expectation(kind):
    rng = np.random.default_rng([1, *kind.encode()])
    for _ in range(30):
        instance = worlds.random_instance(kind, rng)
        records = expected_log(instance)
        candidate = as_policy(instance.world, instance.candidate)
        logging = as_policy(instance.world, instance.logging)
        theta, p = instance.theta.tolist(), instance.world.examination.tolist()
        for model in oracle.MODELS:
            expected = close(instance.expectation(model))
            options = {"p": p, "clip": instance.clip}
            known = oracle.value(model, records, candidate, theta, logging=logging, **options)
            same = oracle.value(model, records, candidate, theta, **options)
            assert known == expected
            assert same == expected


def possible_records(world, logging):
    """Every record that independent clicks can produce, with its probability."""
    for items, rates, shown in zip(
        world.lists.tolist(), world.clicks.tolist(), logging.tolist(), strict=True
    ):
        for clicks in itertools.product((0, 1), repeat=world.length):
            chance = math.prod(r if c else 1 - r for r, c in zip(rates, clicks, strict=True))
            yield Record(0, tuple(items), clicks), shown * chance


def possible_logs(world, logging, n):
    for draws in itertools.product(list(possible_records(world, logging)), repeat=n):
        records, chances = zip(*draws, strict=True)
        yield records, math.prod(chances)


@pytest.mark.parametrize("clip", [0.5, 2, math.inf])
@pytest.mark.parametrize("model", oracle.MODELS)
def test_the_mean_over_all_possible_logs_is_the_expectation(model, clip):
    rng = np.random.default_rng(2)
    world = worlds.random_world("ip", rng, items=3, length=2)
    logging, candidate = (worlds.random_policy(rng, 6, full=True) for _ in range(2))
    theta = oracle.dcg_at(2)
    pi, h = as_policy(world, logging), as_policy(world, candidate)
    mean = sum(
        chance * oracle.value(model, log, h, theta, clip, logging=pi, p=world.examination.tolist())
        for log, chance in possible_logs(world, logging, n=2)
    )
    expected = world.expectation(model, candidate, logging, np.array(theta), clip)
    assert mean == close(expected)


@pytest.mark.parametrize("clip", [1, math.inf])
@pytest.mark.parametrize("kind", ["ip", "item", "pbm", "rctr", "rcm"])
def test_same_log_frequencies_never_overestimate_on_average(kind, clip):
    """One-sidedness: with π̂ from the log itself, E[V̂] ≤ V(h) for each model that holds."""
    rng = np.random.default_rng([3, *kind.encode()])
    world = worlds.random_world(kind, rng, items=3, length=2)
    logging, candidate = (worlds.random_policy(rng, 6, full=True) for _ in range(2))
    theta = oracle.dcg_at(2)
    h, p = as_policy(world, candidate), world.examination.tolist()
    logs = list(possible_logs(world, logging, n=2))
    for model in worlds.HOLDS[kind]:
        mean = sum(chance * oracle.value(model, log, h, theta, clip, p=p) for log, chance in logs)
        assert mean <= world.value(candidate, np.array(theta)) + ROUNDING
