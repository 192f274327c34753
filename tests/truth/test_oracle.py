"""If this fails, the oracle is wrong, and all that was held against it."""

import math
from collections.abc import Callable

import numpy as np
import pytest

import foreclick as fc
from foreclick.estimators import parse_estimators
from foreclick.metrics import parse_any
from foreclick.question import Question
from foreclick.run.estimate import estimate
from tests.cases import plain, tables
from tests.truth import firsts, oracle, spread
from tests.truth.oracle import Record
from tests.truth.paper import paper

pytestmark = pytest.mark.filterwarnings("ignore::foreclick.errors.ForeclickWarning")

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


# --- covariances are those of what the weight of each record moves --------------------------------


STEP = 1e-5


class Log:
    """A random log with clicks and revenue: what a click is worth is random."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        case = plain.drawn(seed, records=30, contexts=3, ragged=True, missing=True)
        self.clicks, self.candidate = case.records * 2, case.candidate
        self.revenue = [
            r._replace(clicks=tuple(c * rng.choice([0.5, 2.0, 7.0]) for c in r.clicks))
            for r in self.clicks
        ]
        self.first = firsts.only_first(self.clicks)
        self.days = rng.integers(0, 4, len(self.clicks))
        self.days[:4] = [0, 1, 2, 3]

    def ask(self, metrics, clusters, models):
        """The estimates of these models."""
        table = tables.log_table(self.clicks, day=self.days.tolist())
        table = table.append_column("revenue", [[list(r.clicks) for r in self.revenue]])
        log = fc.read_log(table, period="day", rewards={"revenue": "revenue"})
        question = Question(
            [fc.Lists(tables.lists_table(self.candidate))],
            parse_estimators(paper(models)),
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


def values_of(log, theta, model):
    """The value and production of first clicks, as functions of the weights of records."""

    def value(weights):
        return firsts.estimate(model, weighed(log.first, weights), log.candidate, theta)

    return value, lambda weights: oracle.production(weighed(log.first, weights), theta)


@pytest.mark.parametrize(("clusters", "seed"), [("record", 940), ("period", 943)])
def test_a_product_of_hazards_moves_as_its_records_do(clusters, seed):
    thetas = {"success@3": firsts.success_at(3), "mrr@3": firsts.mrr_at(3)}
    log = Log(seed)
    for found in log.ask(list(thetas), clusters, firsts.SLOTS):
        values = values_of(log, thetas[found.metric.name], found.estimator)
        right = log.covariance(values, clusters)
        # The difference quotient is good to 1e-9 of a weight of up to 100.
        shown = found.covariance - found.hidden
        assert shown == pytest.approx(right, rel=1e-6, abs=1e-9), found.estimator


def test_what_small_cells_hide_is_shared_as_far_as_the_parts_of_a_ratio_move_together():
    """Of the same reward twice, all of it: then the ratio hides nothing more than it shows."""
    log = Log(12)
    log.revenue = [r._replace(clicks=tuple(3 * c for c in r.clicks)) for r in log.clicks]
    hidden = spread.covariance("ip", log.clicks, log.candidate, oracle.clicks_at(4), math.inf)
    assert hidden[0, 0] > 0  # so there was something to share
    for found in log.ask("revenue@4/clicks@4", "record", ("ip", "item")):
        assert found.value == pytest.approx(3.0)
        assert found.covariance[0, 0] == pytest.approx(0.0, abs=1e-14)
