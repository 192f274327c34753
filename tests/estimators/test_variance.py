"""Candidates that are frequencies of another log, and sums over cells that tell little."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.estimators import variance
from tests.answers import NOT_ON_SPARK

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
    return fc.evaluate(log, candidate, metrics=METRIC, estimators="ip", clusters="record")["se"][0]


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
        fc.read_log(log, period="day"), {"a": some, "b": more}, metric=METRIC, estimator="ip"
    )
    between = next(r for r in found if (r["candidate"], r["against"]) == ("a", "b"))
    assert between["se"] ** 2 > 0.9 * 2 * added(log, records(rng, 50)) / 1.5
    assert between["low"] < 0 < between["high"]


def cells_of(context, contexts, **columns):
    """Cells with nothing but some columns."""
    cells = SimpleNamespace(batch=SimpleNamespace(context_count=contexts))
    return SimpleNamespace(context=np.array(context), cells=cells, **columns)


def test_a_cell_without_weight_hides_nothing():
    """One that the candidate shows only where nobody looks."""
    weighed = cells_of([0, 0, 1], 2, weights=[np.array([2.0, 0.0, 3.0])])
    found = variance._weighted(weighed, np.array([1.0, 10.0, 4.0]), np.array([5.0, 10.0, 6.0]))
    assert {key: values.tolist() for key, values in found.items()} == {
        (0, "ww"): [4, 36],
        (0, "w"): [2, 12],
        (0, "d"): [1, 4],
        (0, "ww s²"): [20, 54],
        (0, "w s²"): [10, 18],
        (0, "d s²"): [5, 6],
    }


def test_what_was_never_logged_is_not_covered():
    weighed = cells_of(
        [0, 0, 0, 1],
        2,
        logged=np.array([0.5, 0.2, 0.0, 0.1]),
        records=np.array([100.0, 100.0, 100.0, 10.0]),
        wanted=np.array([0.4, 0.3, 0.3, 0.6]),
        share=np.array([1.0, 1.0, 1.0, 0.5]),
    )
    enough = variance.ENOUGH_PERIODS
    found = variance.repeated(weighed, np.array([enough, enough - 1, 0, enough]))
    assert found["covered"] == pytest.approx([70, 3])
    assert found["often"] == pytest.approx([40, 3])
