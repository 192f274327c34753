"""If this fails, the oracle is wrong, and all that was held against it."""

import math

import pytest

from foreclick.estimators import parse_estimators
from foreclick.metrics import parse_any
from foreclick.question import Question
from foreclick.run.estimate import estimate
from tests.cases import plain
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


def asked(case, metrics, models, clusters="record"):
    """The estimates of these models."""
    question = Question(
        [case.policy],
        parse_estimators(paper(models)),
        parse_any(metrics),
        clusters=(clusters,),
        missing="production",
    )
    return estimate(case.tally(), question).of_candidate(0)


@pytest.mark.parametrize(("clusters", "seed"), [("record", 940), ("period", 943)])
def test_a_product_of_hazards_moves_as_its_records_do(clusters, seed):
    case = plain.drawn(seed, records=60, contexts=3, periods=4, ragged=True, missing=True)
    first = firsts.only_first(case.records)
    labels = {"record": None, "period": case.columns["day"]}[clusters]
    thetas = {"success@3": firsts.success_at(3), "mrr@3": firsts.mrr_at(3)}
    for found in asked(case, [*thetas], firsts.SLOTS, clusters):
        model, theta = found.estimator, thetas[found.metric.name]

        def value(records, model=model, theta=theta):
            return firsts.estimate(model, records, case.candidate, theta)

        right = spread.by_quotients(value, first, theta, labels)
        # The difference quotient is good to 1e-9 of a weight of up to 100.
        assert found.covariance - found.hidden == pytest.approx(right, rel=1e-6, abs=1e-9), model


def test_what_small_cells_hide_is_shared_as_far_as_the_parts_of_a_ratio_move_together():
    """Of the same reward twice, all of it: then the ratio hides nothing more than it shows."""
    case = plain.drawn(12, records=60, contexts=3, ragged=True, missing=True)
    case = case.having(price=[[3.0 * c for c in clicks] for clicks in case.columns["clicks"]])
    case.roles["rewards"] = {"revenue": "price"}
    hidden = spread.covariance("ip", case.records, case.candidate, oracle.clicks_at(4), math.inf)
    assert hidden[0, 0] > 0  # so there was something to share
    for found in asked(case, "revenue@4/clicks@4", ("ip", "item")):
        assert found.value == pytest.approx(3.0)
        assert found.covariance[0, 0] == pytest.approx(0.0, abs=1e-14)
