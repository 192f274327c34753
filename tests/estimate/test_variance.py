"""Candidates that are frequencies of another log, and sums over cells that tell little."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.estimate.estimates import ENOUGH_PERIODS
from foreclick.estimate.work import estimate
from foreclick.estimators import parse_estimators
from foreclick.metrics import parse_metrics
from foreclick.question import Question
from tests.answers import NOT_ON_SPARK, answer

METRIC = fc.Metric([1.0, 0.5])


def records(rng, size, contexts=2):
    items = np.array([[1, 2], [2, 1], [1, 3]])[rng.integers(0, 3, size)]
    return {
        "context": rng.integers(0, contexts, size),
        "items": items.tolist(),
        "clicks": (rng.random((size, 2)) < 0.4).astype(int).tolist(),
    }


def score(log, context, shown):
    """Σ_k θ_k r(a_k, k), with r the item-position click rate of the log's context."""
    found = 0.0
    for k, (item, theta) in enumerate(zip(shown, METRIC.theta, strict=True)):
        clicks = [
            c[k]
            for x, a, c in zip(log["context"], log["items"], log["clicks"], strict=True)
            if x == context and a[k] == item
        ]
        found += theta * float(np.mean(clicks))
    return found


def added(log, other):
    """Σ_x (n_x / n)² Var_s(score) / m_x, over the records s of the other log."""
    total = 0.0
    for context in np.unique(log["context"]):
        share = np.mean(np.asarray(log["context"]) == context)
        scores = [
            score(log, context, a)
            for x, a in zip(other["context"], other["items"], strict=True)
            if x == context
        ]
        total += share**2 * np.var(scores, ddof=1) / len(scores)
    return total


def se_of(log, candidate):
    return fc.evaluate(
        log, candidate, metrics=METRIC, estimators="ip", confidence=fc.Confidence(clusters="record")
    )["se"][0]


def exactly(log):
    """The same lists with the same probabilities, which are said to be exact."""
    shown = Counter((int(x), *a) for x, a in zip(log["context"], log["items"], strict=True))
    of = Counter(int(x) for x in log["context"])
    return fc.Lists(
        {
            "context": [x for x, *_ in shown],
            "items": [list(a) for _, *a in shown],
            "probability": [n / of[x] for (x, *_), n in shown.items()],
        }
    )


@NOT_ON_SPARK
def test_the_other_sample_adds_its_variance(engine):
    rng = np.random.default_rng(4)
    log, other = records(rng, 400), records(rng, 60)
    mine, theirs = (engine.load(pa.table(t)) for t in (log, other))
    more = se_of(mine, fc.Observed(theirs)) ** 2 - se_of(mine, exactly(other)) ** 2
    assert more == pytest.approx(added(log, other), rel=1e-9)


def test_the_log_itself_adds_nothing():
    rows = records(np.random.default_rng(5), 200)
    log = fc.read_log(rows)
    assert se_of(log, fc.Observed(log)) == pytest.approx(se_of(log, exactly(rows)), rel=1e-9)


def test_a_context_with_one_record_takes_the_usual_spread():
    """Otherwise the fewest records would look the surest."""
    rng = np.random.default_rng(6)
    log, other = fc.read_log(records(rng, 400)), records(rng, 40)
    several = {name: [*column] for name, column in other.items()}
    keep = [i for i, x in enumerate(other["context"]) if x == 0]
    keep.append(next(i for i, x in enumerate(other["context"]) if x == 1))
    once = {name: [column[i] for i in keep] for name, column in several.items()}
    assert se_of(log, fc.Observed(once)) > 1.3 * se_of(log, fc.Observed(several))


def test_two_samples_of_one_policy_differ_by_chance_only():
    rng = np.random.default_rng(7)
    log = records(rng, 600) | {"day": rng.integers(0, 10, 600)}
    some, more = fc.Observed(records(rng, 50)), fc.Observed(records(rng, 50))
    found = fc.compare(
        fc.read_log(log, period="day"), {"a": some, "b": more}, metrics=METRIC, estimators="ip"
    )
    between = next(r for r in found if (r["candidate"], r["against"]) == ("a", "b"))
    assert between["se"] ** 2 > 0.9 * 2 * added(log, records(rng, 50)) / 1.5
    assert between["low"] < 0 < between["high"]


def test_a_cell_without_weight_hides_nothing():
    """Item 2 is shown by the candidate only where nobody looks: its clicks tell nothing."""
    clicks = np.random.default_rng(8).integers(0, 2, 20).tolist()
    candidate = {"context": ["q"], "items": [[1, 2]]}
    pbm = fc.Weighted("pbm", examination=(1.0, 0.0))

    def asked(of_2):
        log = {
            "context": ["q"] * 40,
            "items": [[1, 3]] * 20 + [[2, 1]] * 20,
            "clicks": [[c, 0] for c in clicks] + [[c, 0] for c in of_2],
        }
        return answer(log, candidate, pbm, "clicks@2", confidence=fc.Confidence(clusters="record"))

    one, other = asked([0] * 20), asked([0, 1] * 10)
    assert one["se"] == other["se"] > 0
    assert one["value"] == other["value"]


def test_what_was_never_logged_is_not_covered():
    """Nor was it seen in several periods: the share is of what was."""
    days = {("a", 1): ENOUGH_PERIODS, ("a", 2): ENOUGH_PERIODS - 1, ("b", 1): ENOUGH_PERIODS}
    rows = [(x, i, day) for (x, i), count in days.items() for day in range(count)]
    rows += [("a", 1, 0)] * 91  # 100 records of a, 5 of b
    log = {
        "context": [x for x, _, _ in rows],
        "items": [[i] for _, i, _ in rows],
        "clicks": [[day % 2] for _, _, day in rows],
        "day": [day for _, _, day in rows],
    }
    candidate = fc.Lists(
        {
            "context": ["a", "a", "a", "b"],
            "items": [[1], [2], [3], [1]],
            "probability": [0.4, 0.3, 0.3, 1.0],
        }
    )
    question = Question(
        [candidate], parse_estimators("ip"), parse_metrics("clicks@1"), clusters=("period",)
    )
    (found,) = estimate(fc.tally(fc.read_log(log, period="day")), question).of_candidate()
    assert found.covered == pytest.approx((100 * 0.7 + 5) / 105)
    assert found.repeated == pytest.approx((100 * 0.4 + 5) / (100 * 0.7 + 5))
