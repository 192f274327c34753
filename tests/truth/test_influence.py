"""Covariances are those of what the weight of each record moves, also of ratios and first clicks.

The derivative by a record's weight is a difference quotient of an oracle's value. What small cells
hide is an addition to it, and left out.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest

import foreclick as fc
from foreclick.estimate.work import estimate
from foreclick.estimators import parse_estimators
from foreclick.metrics import parse_any
from foreclick.question import Question
from tests import drawn
from tests.answers import clipped
from tests.truth import firsts, oracle, spread
from tests.truth.paper import paper

pytestmark = pytest.mark.filterwarnings("ignore::foreclick.errors.ForeclickWarning")

MODELS = ("list", "prefix", "ip", "item", "pbm")
STEP = 1e-5


class Log:
    """A random log with clicks and revenue: what a click is worth is random."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        case = drawn.drawn(seed, records=30, contexts=3, ragged=True, missing=True)
        self.clicks, self.candidate = case.records * 2, case.candidate
        self.revenue = [
            r._replace(clicks=tuple(c * rng.choice([0.5, 2.0, 7.0]) for c in r.clicks))
            for r in self.clicks
        ]
        self.first = firsts.only_first(self.clicks)
        self.days = rng.integers(0, 4, len(self.clicks))
        self.days[:4] = [0, 1, 2, 3]

    def ask(self, metrics, clusters, models=MODELS, clips=math.inf):
        """The estimates of these models."""
        table = drawn.log_table(self.clicks, day=self.days.tolist())
        table = table.append_column("revenue", [[list(r.clicks) for r in self.revenue]])
        log = fc.read_log(table, period="day", rewards={"revenue": "revenue"})
        question = Question(
            [fc.Lists(drawn.lists_table(self.candidate))],
            parse_estimators(clipped(paper(models), clips)),
            parse_any(metrics),
            clusters=(clusters,),
            missing="production",
        )
        return estimate(fc.tally(log), question).of_candidate(0)

    def moved(self, function: Callable[..., float]) -> np.ndarray:
        """n ∂/∂(weight of a record) of a function of weights."""
        n = len(self.clicks)
        steps = STEP * np.eye(n)
        return np.array([n * (function(1 + d) - function(1 - d)) / (2 * STEP) for d in steps])

    def covariance(self, functions, clusters):
        """Of a value and production."""
        both = np.stack([self.moved(function) for function in functions], axis=1)
        return spread.added_up(
            both, [1.0] * len(both), None if clusters == "record" else self.days.tolist()
        )


def weighed(records, weights):
    return [r._replace(weight=w) for r, w in zip(records, weights, strict=True)]


def values_of(log, part, model, clip):
    """The value and production of one metric, as functions of the weights of records."""
    name, theta = part
    records = log.clicks if name == "shown" else getattr(log, name)
    if name == "shown":  # one cell a context, of which all is clicked
        records = [r._replace(clicks=(1.0,) * len(r.items)) for r in records]
        model, clip = "rcm", math.inf

    def value(weights):
        own = weighed(records, weights)
        if name == "first":
            return firsts.estimate(model, own, log.candidate, theta)
        # Unknown contexts count as production.
        there = oracle.frequencies(own) | log.candidate
        return oracle.value(model, own, there, theta, clip)

    return value, lambda weights: oracle.production(weighed(records, weights), theta)


@pytest.mark.parametrize(("clusters", "seed"), [("record", 940), ("period", 943)])
def test_a_product_of_hazards_moves_as_its_records_do(clusters, seed):
    thetas = {"success@3": firsts.success_at(3), "mrr@3": firsts.mrr_at(3)}
    log, compared = Log(seed), 0
    for found in log.ask(list(thetas), clusters):
        if found.value is not None:
            part = ("first", thetas[found.metric.name])
            right = log.covariance(values_of(log, part, found.estimator, math.inf), clusters)
            # The difference quotient is good to 1e-9 of a weight of up to 100.
            shown = found.covariance - found.hidden
            assert shown == pytest.approx(right, rel=1e-6, abs=1e-9), found.estimator
            compared += found.estimator in firsts.SLOTS
    assert compared


def test_what_small_cells_hide_is_shared_as_far_as_the_parts_of_a_ratio_move_together():
    """Of the same reward twice, all of it: then the ratio hides nothing more than it shows."""
    log = Log(12)
    log.revenue = [r._replace(clicks=tuple(3 * c for c in r.clicks)) for r in log.clicks]
    hidden = spread.covariance("ip", log.clicks, log.candidate, oracle.clicks_at(4), math.inf)
    assert hidden[0, 0] > 0  # so there was something to share
    for found in log.ask("revenue@4/clicks@4", "record", ("ip", "item")):
        assert found.value == pytest.approx(3.0)
        assert found.covariance[0, 0] == pytest.approx(0.0, abs=1e-14)
