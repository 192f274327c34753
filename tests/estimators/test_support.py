"""The largest weights."""

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.estimators import Question, estimate, parse_estimators, support
from foreclick.inference import pareto_k
from foreclick.metrics import parse_metrics
from foreclick.policies import as_policy
from tests.answers import NOT_ON_SPARK


def ask(log, candidate, by=(), models=("list", "ip")):
    policy, metrics = as_policy(candidate), parse_metrics(["clicks@1", "clicks@2"])
    question = Question(policy, parse_estimators(models), metrics, by=by, top=1)
    return estimate(fc.tally(log), question).sums


LOG = {
    "context": ["q"] * 6 + ["r"] * 3,
    "items": [[1, 2], [1, 2], [2, 1], [2, 1], [2, 1], [1, 3], [1, 2], [2, 1], [2, 3]],
    "clicks": [[0, 1]] * 9,
    "shop": ["x", "y"] * 4 + ["y"],
}
CANDIDATE = {"context": ["q", "r"], "items": [[2, 1], [1, 2]]}


@NOT_ON_SPARK
def test_weights_with_how_many_have_them(engine):
    """In q, [2, 1] is half of the lists and in r a third of them [1, 2]."""
    log, candidate = (engine.load(pa.table(t)) for t in (LOG, CANDIDATE))
    found = {(s.model.name, s.metric.name): s.sight.tail for s in ask(log, candidate)}
    for name in (("list", "clicks@1"), ("ip", "clicks@1"), ("list", "clicks@2")):
        weights, counts, shown = found[name].weights, found[name].counts, found[name].shown
        assert (list(weights), list(counts), shown) == ([3.0, 2.0], [1.0, 3.0], 4.0)
    slots = found["ip", "clicks@2"]
    assert list(slots.weights) == [3.0, 3.0, 2.0, 2.0]
    assert list(slots.counts) == [1.0, 1.0, 3.0, 3.0]


def test_segments_are_kept_apart():
    log = fc.read_log(LOG, segments="shop")
    found = [s for s in ask(log, CANDIDATE, by=("shop",), models="ip") if s.metric.depth == 1]
    assert [s.stratum.segment["shop"] for s in found] == ["x", "y"]
    x, y = (
        s.sight.tail for s in found
    )  # q begins with 1, 2, 2 in x and with 1, 2, 1 in y; r with 1 in x, not in y
    assert (list(x.weights), list(x.counts)) == ([1.5, 1.0], [2.0, 1.0])
    assert (list(y.weights), list(y.counts)) == ([3.0], [1.0])


def test_the_fit_needs_no_more_than_the_tail(monkeypatch):
    rng = np.random.default_rng(1)
    contexts = np.repeat(np.arange(400), 25)
    first = rng.random(len(contexts)) < np.repeat(rng.beta(0.7, 2, 400), 25)
    log = {"context": contexts, "items": np.where(first, 1, 2)[:, None].tolist()}
    log["clicks"] = [[1]] * len(contexts)
    candidate = {"context": np.arange(400), "items": [[1]] * 400}
    whole = ask(fc.read_log(log), candidate, models="ip")[0].sight.tail
    monkeypatch.setattr(support, "TAIL", 300)
    top = ask(fc.read_log(log), candidate, models="ip")[0].sight.tail
    assert len(top.weights) == 300 < len(whole.weights)
    assert top.shown == whole.shown == whole.counts.sum()
    fits = [pareto_k(t.weights, t.counts, t.shown) for t in (whole, top)]
    assert fits[0] is not None
    assert fits[0] == pytest.approx(fits[1])
    found = fc.support(log, candidate, estimators="ip", metrics="clicks@1")
    assert found["pareto_k"] == [pytest.approx(fits[0])]
