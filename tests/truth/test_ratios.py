"""Ratio metrics against a literal ratio of two oracles, and the delta method against weights."""

import math

import numpy as np
import pytest

import foreclick as fc
from foreclick.errors import ForeclickWarning
from foreclick.estimate.work import estimate
from foreclick.estimators import parse_estimators
from foreclick.metrics import parse_any
from foreclick.policies import as_policy
from foreclick.question import Question
from tests.answers import clipped
from tests.batches.sizes import in_batches
from tests.truth import oracle, random_logs, spread

pytestmark = pytest.mark.filterwarnings(f"ignore::{ForeclickWarning.__module__}.ForeclickWarning")

MODELS = ("list", "prefix", "ip", "item", "pbm", "rctr", "rcm")
SPELLINGS = ("revenue@3/clicks@4", "dcg@3/clicks@3", "ctr@4")
CLIPS = (1.37, math.inf)


def make(seed):
    """A log with clicks and revenue: the same lists twice, what a click is worth is random."""
    rng = np.random.default_rng(seed)
    case = random_logs.random_case(f"{seed}", rng, text=seed % 2 == 0)
    clicked = case.records * 2
    worth = [
        r._replace(clicks=tuple(c * rng.choice([0.5, 2.0, 7.0]) for c in r.clicks)) for r in clicked
    ]
    days = rng.integers(0, 4, len(clicked))
    days[:4] = [0, 1, 2, 3]
    return clicked, worth, days, case.candidate


def shown(records):
    """The same records, where everything that is shown counts 1."""
    return [r._replace(clicks=tuple(1.0 for _ in r.items)) for r in records]


def parts_of(spelling, clicked, worth):
    """Numerator and denominator: the records and θ of each; None: what a policy shows, by θ."""
    return {
        "revenue@3/clicks@4": ((worth, oracle.clicks_at(3)), (clicked, oracle.clicks_at(4))),
        "dcg@3/clicks@3": ((clicked, oracle.dcg_at(3)), (clicked, oracle.clicks_at(3))),
        "ctr@4": ((clicked, oracle.clicks_at(4)), (None, oracle.clicks_at(4))),
    }[spelling]


def ask(clicked, worth, days, candidate, clusters, models=MODELS):
    table = random_logs.log_table(clicked, day=days.tolist())
    table = table.append_column("revenue", [[list(r.clicks) for r in worth]])
    log = fc.read_log(table, period="day", rewards={"revenue": "revenue"})
    question = Question(
        candidates=[as_policy(fc.Lists(random_logs.lists_table(candidate)))],
        estimators=parse_estimators(clipped(models, CLIPS)),
        metrics=parse_any(SPELLINGS),
        clusters=clusters,
        missing="production",
    )
    return estimate(fc.tally(log), question).of_candidate(0)


def shows(records, candidate, theta):
    """The mean number of positions that a candidate fills; unknown contexts as they were."""
    total = 0.0
    for r in records:
        draws = candidate.get(r.context, {r.items: 1.0})
        total += r.weight * sum(p * sum(theta[: len(items)]) for items, p in draws.items())
    return total / sum(r.weight for r in records)


def value(model, records, part, candidate, clip):
    """The value of one part, with the weights of `records`."""
    own, theta = part
    if own is None:
        return shows(records, candidate, theta)
    counted = [r._replace(weight=w.weight) for r, w in zip(own, records, strict=True)]
    there = oracle.frequencies(counted)  # unknown contexts count as production
    return oracle.value(model, counted, there | candidate, theta, clip)


def produced(records, part):
    own, theta = part
    counted = shown(records) if own is None else own
    return oracle.production(
        [r._replace(weight=w.weight) for r, w in zip(counted, records, strict=True)], theta
    )


@pytest.mark.parametrize("seed", range(6))
def test_the_value_is_the_ratio_of_two_oracles(seed):
    clicked, worth, days, candidate = make(seed)
    compared = 0
    for found in ask(clicked, worth, days, candidate, ()):
        if found.value is None:
            continue
        over, under = parts_of(found.metric.name, clicked, worth)
        right = [value(found.estimator, clicked, p, candidate, found.clip) for p in (over, under)]
        assert found.value == pytest.approx(right[0] / right[1], rel=1e-12), found.estimator
        right = [produced(clicked, p) for p in (over, under)]
        assert found.production == pytest.approx(right[0] / right[1], rel=1e-12)
        compared += 1
    assert compared


def moved(function, records, step=1e-5):
    """n ∂/∂(weight of a record), for each record: how far it moves what is computed."""
    found = []
    for i, record in enumerate(records):
        ends = []
        for sign in (1, -1):
            others = list(records)
            others[i] = record._replace(weight=record.weight + sign * step)
            ends.append(function(others))
        found.append(len(records) * (ends[0] - ends[1]) / (2 * step))
    return np.array(found)


@pytest.mark.parametrize(("clusters", "seed"), [("record", 11), ("period", 12)])
def test_the_spread_is_that_of_what_the_weight_of_a_record_moves(clusters, seed):
    """Without what small cells hide, which is an addition to it."""
    clicked, worth, days, candidate = make(seed)
    n, compared = len(clicked), 0
    for found in ask(clicked, worth, days, candidate, (clusters,), ("list", "ip", "pbm")):
        if found.value is None:
            continue
        over, under = parts_of(found.metric.name, clicked, worth)

        def ratio(records, found=found, over=over, under=under):
            return value(found.estimator, records, over, candidate, found.clip) / value(
                found.estimator, records, under, candidate, found.clip
            )

        def production(records, over=over, under=under):
            return produced(records, over) / produced(records, under)

        both = np.stack([moved(ratio, clicked), moved(production, clicked)], axis=1)
        if clusters == "record":
            right = both.T @ both / (n * (n - 1))
        else:
            sums = np.array([both[days == day].sum(axis=0) for day in set(days.tolist())]) / n
            right = sums.T @ sums * len(sums) / (len(sums) - 1)
        where = found.estimator, found.metric.name, found.clip
        shown = found.covariance - found.hidden
        assert shown == pytest.approx(right, rel=1e-6, abs=1e-8), where
        compared += 1
    assert compared > 10


def test_what_small_cells_hide_is_shared_as_far_as_the_parts_move_together():
    """Of the same reward twice, all of it: then the ratio hides nothing more than it shows."""
    clicked, _, days, candidate = make(12)
    same = [r._replace(clicks=tuple(3 * c for c in r.clicks)) for r in clicked]
    table = random_logs.log_table(clicked, day=days.tolist())
    table = table.append_column("revenue", [[list(r.clicks) for r in same]])
    log = fc.read_log(table, rewards={"revenue": "revenue"})
    policy = fc.Lists(random_logs.lists_table(candidate))
    e = fc.evaluate(
        log, policy, metrics="revenue@4/clicks@4", estimators=["ip", "item"], missing="production"
    )
    assert e["value"] == pytest.approx([3.0, 3.0])
    assert e["se"] == pytest.approx([0.0, 0.0], abs=1e-7)
    hidden = spread.covariance("ip", clicked, candidate, oracle.clicks_at(4), math.inf)
    assert hidden[0, 0] > 0  # so there was something to share


def test_what_production_shows_differs_from_it_by_nothing():
    rng = np.random.default_rng(13)
    clicks = rng.integers(0, 2, (60, 3))
    table = {
        "context": [f"q{i}" for i in range(6)] * 10,
        "items": [[1, 2, 3], [3, 1, 2]] * 30,
        "clicks": clicks.tolist(),
        "revenue": (clicks * rng.uniform(1, 5, (60, 3))).tolist(),
        "day": sorted([1, 2, 3, 4, 5] * 12),
    }
    log = fc.read_log(table, period="day", rewards={"revenue": "revenue"})
    same = {"context": table["context"][:6], "items": table["items"][:6]}
    for clusters in ("record", "auto"):
        e = fc.evaluate(
            log,
            same,
            metrics=SPELLINGS,
            estimators=MODELS,
            confidence=fc.Confidence(clusters=clusters),
        )
        assert min(e["se"][:-1]) > 0
        for column in ("change", "change_low", "change_high"):
            assert e[column] == pytest.approx([0.0] * len(e.rows), abs=1e-7), column


def assert_alike(row, other):
    """The same answer, but for rounding; a verdict allows for how many metrics are asked."""
    assert row.keys() == other.keys()
    for column in row.keys() - {"verdict"}:
        if isinstance(row[column], float):
            size = 1e-9 * (abs(row["value"]) + row["se"])
            assert other[column] == pytest.approx(row[column], rel=1e-9, abs=size), column
        else:
            assert other[column] == row[column], column


def test_the_answer_does_not_depend_on_what_else_is_asked():
    clicked, worth, days, candidate = make(14)
    table = random_logs.log_table(clicked, day=days.tolist())
    table = table.append_column("revenue", [[list(r.clicks) for r in worth]])
    log = fc.read_log(table, period="day", rewards={"revenue": "revenue"})
    policy = fc.Lists(random_logs.lists_table(candidate))

    def rows(metrics, clusters):
        e = fc.evaluate(
            log, policy, metrics=metrics, missing="production", estimators=["ip", "ladder"],
            confidence=fc.Confidence(clusters=clusters),
        )  # fmt: skip
        return {(r["estimator"], r["metric"]): r for r in e.rows}

    for clusters in ("record", "auto"):
        many = rows(["clicks@2", *SPELLINGS, "revenue:dcg@4"], clusters)
        for metric in ("clicks@2", *SPELLINGS):
            for key, row in rows(metric, clusters).items():
                assert_alike(row, many[key])


@pytest.mark.parametrize("clusters", ["record", "auto"])
def test_the_answer_does_not_depend_on_the_size_of_batches(clusters):
    clicked, worth, days, candidate = make(0)
    table = random_logs.log_table(clicked, day=days.tolist())
    table = table.append_column("revenue", [[list(r.clicks) for r in worth]])
    tally = fc.tally(fc.read_log(table, period="day", rewards={"revenue": "revenue"}))
    policy = fc.Lists(random_logs.lists_table(candidate))
    rows = [
        fc.evaluate(
            in_batches(tally, slots),
            policy,
            metrics=SPELLINGS,
            estimators=["ip", "ladder"],
            missing="production",
            confidence=fc.Confidence(clusters=clusters),
        ).rows
        for slots in (1, 1_000_000)
    ]
    for one, other in zip(*rows, strict=True):
        assert_alike(one, other)
