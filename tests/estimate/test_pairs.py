"""Two candidates: what cells hide of their difference, in any order and whoever else is asked."""

import numpy as np
import pytest

import foreclick as fc
from foreclick.estimate.work import estimate
from foreclick.estimators import parse_estimators
from foreclick.metrics import parse_any
from foreclick.question import Question
from tests.truth import oracle, spread
from tests.truth.oracle import Record

LISTS = [(1, 2), (2, 1), (3, 1), (1, 3)]
ONE = {"q": {(1, 2): 1.0}, "r": {(1, 2): 1.0}}
OTHER = {"q": {(1, 2): 0.9, (3, 1): 0.1}, "r": {(2, 1): 1.0}}
THIRD = {"q": {(1, 2): 0.5, (3, 1): 0.5}, "r": {(3, 1): 1.0}}
KINDS = [("record",), ("period",), ("unit",), ("period", "unit")]


def make(seed=1, count=60):
    """Records, days and users; item 3 is clicked three times as often as item 1."""
    rng = np.random.default_rng(seed)
    records = []
    for x, number in zip(rng.integers(0, 2, count), rng.integers(0, 4, count), strict=True):
        items = LISTS[number]
        clicks = tuple(float(rng.random() < 0.1 * item) for item in items)
        records.append(Record("qr"[x], items, clicks))
    return records, rng.integers(0, 6, count).tolist(), rng.integers(0, 9, count).tolist()


def lists(policy):
    rows = [(x, list(items), p) for x, of in policy.items() for items, p in of.items()]
    names = "context", "items", "probability"
    return fc.Lists(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def ask(policies, kinds, models=("ip", "list", "item"), seed=1):
    """By estimator: what is said of each candidate."""
    records, days, users = make(seed)
    table = {
        "context": [r.context for r in records],
        "items": [list(r.items) for r in records],
        "clicks": [list(r.clicks) for r in records],
        "day": days,
        "user": users,
    }
    tally = fc.tally(fc.read_log(table, period="day", unit="user"))
    question = Question(
        [lists(policy) for policy in policies],
        parse_estimators(models),
        parse_any("clicks@2"),
        clusters=kinds,
    )
    found = estimate(tally, question)
    each = [found.of_candidate(c) for c in range(len(policies))]
    return {of[0].estimator: of for of in zip(*each, strict=True)}


def variance(pair, i=0, j=1, **options):
    joint = pair[0].of.joint(list(pair), **options)
    return joint[i, i] + joint[j, j] - 2 * joint[i, j]


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_the_variance_of_a_difference_is_that_of_the_pair_alone(kinds, seed):
    """It was another in another order: the cells of one candidate said how much both vary."""
    there = ask([ONE, OTHER], kinds, seed=seed)
    back = ask([OTHER, ONE], kinds, seed=seed)
    three = ask([THIRD, ONE, OTHER, ONE], kinds, seed=seed)
    for name, pair in there.items():
        right = variance(pair)
        assert right > 0
        assert variance(back[name]) == pytest.approx(right, rel=1e-9), name
        # And so it is beside production, with or without others.
        assert variance(pair, production=True) == pytest.approx(right, rel=1e-9), name
        assert variance(three[name], 1, 2, production=True) == pytest.approx(right, rel=1e-9), name
        alone = pair[0].covariance
        against = alone[0, 0] + alone[1, 1] - 2 * alone[0, 1]
        for of, i in ((pair, 0), (three[name], 1), (three[name], 3)):
            assert variance(of, i, -1, production=True) == pytest.approx(against, rel=1e-9), name
        same = variance(three[name], 1, 3, production=True)
        assert same == pytest.approx(0.0, abs=1e-15), name


@pytest.mark.parametrize("kinds", KINDS[:2])
@pytest.mark.parametrize("model", ["ip", "list", "item"])
def test_what_a_difference_hides_is_what_weights_differ_by(kinds, model):
    records, days, _ = make()
    labels = days if kinds == ("period",) else None
    (pair,) = ask([ONE, OTHER], kinds, [model]).values()
    errors = [
        spread.CellErrors.of(
            spread.influence(model, records, policy, oracle.clicks_at(2)), records, labels
        )
        for policy in (ONE, OTHER)
    ]
    right = errors[0].hidden_between(errors[1]) / len(records) ** 2
    moves = [
        spread.influence(model, records, policy, oracle.clicks_at(2)).moves[:, 0]
        for policy in (ONE, OTHER)
    ]
    shown = spread.added_up((moves[0] - moves[1])[:, None], [1.0] * len(records), labels)
    assert right != 0
    assert variance(pair) == pytest.approx(float(shown[0, 0]) + right, rel=1e-9)


def test_where_two_candidates_show_the_same_their_difference_hides_nothing():
    """Though their other contexts tell different usual variances."""
    records, _, _ = make()
    policies = [{"q": {(1, 2): 1.0}, "r": {items: 1.0}} for items in ((1, 2), (3, 1))]
    (pair,) = ask(policies, KINDS[0], ["ip"]).values()
    told = [
        spread.CellErrors.of(
            spread.influence("ip", records, policy, oracle.clicks_at(2)), records, None
        )
        for policy in ({"r": {(1, 2): 1.0}}, {"r": {(3, 1): 1.0}})
    ]
    right = told[0].hidden_between(told[1]) / len(records) ** 2
    of = pair[0].of
    i, j = (e.columns[0] for e in pair)
    hidden = [of.of_small_cells(0, *which)[0, 0] for which in ((i,), (j,), (i, j))]
    assert hidden[0] + hidden[1] - 2 * hidden[2] == pytest.approx(right, rel=1e-9)
