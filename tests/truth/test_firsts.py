"""At least one click and the rank of the first: as the oracle has it, and true where it should be.

`tests.truth.firsts` is the slow and obvious version. The worlds are enumerated: a log in which
every outcome stands with its exact probability is what an infinite log would be.
"""

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import foreclick as fc
from foreclick.estimate.work import estimate
from foreclick.estimators import parse_estimators
from foreclick.metrics import parse_metrics
from foreclick.policies import as_policy
from foreclick.question import Question
from tests.answers import NOT_ON_SPARK
from tests.simulate import small
from tests.truth import firsts, oracle, protocol, random_logs
from tests.truth.paper import paper
from tests.truth.protocol import Dated
from tests.truth.test_backtest_against_protocol import random_dates, read
from tests.truth.test_evaluate_against_oracle import assert_row
from tests.truth.test_properties import few, lists, logs, policies

pytestmark = pytest.mark.filterwarnings("ignore::foreclick.errors.ForeclickWarning")

METRICS = {
    "success@1": firsts.success_at(1),
    "success@3": firsts.success_at(3),
    "mrr@7": firsts.mrr_at(7),  # further down than any list
}
SOME = ("prefix", "ip", "pbm")
SAME = 1e-12
EXACT = 1e-12  # probabilities instead of counts: a few thousand terms below 1


# --- the oracle -----------------------------------------------------------------------------------


def packed(seed, count=12, *, text=False):
    rng = np.random.default_rng(seed)
    return [random_logs.random_case(f"{seed}-{i}", rng, text=text) for i in range(count)]


def assert_packed(cases, log, candidate, missing, models=oracle.MODELS, metrics=tuple(METRICS)):
    log = fc.read_log(log, segments=("log",))
    found = fc.evaluate(
        log,
        candidate,
        by="log",
        missing=missing,
        estimators=paper(models),
        metrics=list(metrics),
        confidence=None,
    )
    assert len(found) == len(cases) * len(models) * len(metrics)
    by_name = {case.name: case for case in cases}
    for row in found.to_dicts():
        case = by_name[row["log"]]
        expected = firsts.evaluate(
            row["estimator"],
            firsts.only_first(case.records),
            case.candidate,
            METRICS[row["metric"]],
            missing=missing,
        )
        assert_row(row, expected, f"{row['estimator']}, {row['metric']}, {missing}, {case}")


def candidate_of(cases):
    return random_logs.lists_table(random_logs.merged(case.candidate for case in cases))


@pytest.mark.parametrize(("missing", "text"), [("production", False), ("drop", True)])
def test_random_logs_as_the_oracle_has_them(missing, text):
    """Ragged lists, graded rewards, contexts and items that only one side has."""
    cases = packed(910 + text, 25, text=text)
    table = random_logs.packed_log_table(cases)
    assert_packed(cases, table, fc.Lists(candidate_of(cases)), missing)


def test_every_engine(engine):
    cases = packed(922, 8, text=True)
    log = engine.load(random_logs.packed_log_table(cases))
    candidate = fc.Lists(engine.load(candidate_of(cases)))
    assert_packed(cases, log, candidate, "production", SOME, ("success@3",))


def test_a_model_of_your_own_with_its_own_examination():
    """A cell per item and fold of the page; examination may exceed what a rate allows."""
    case = random_logs.random_case("own", np.random.default_rng(931))
    p = (1.0, 0.9, 0.3, 0.2, 0.1, 0.05)
    own = fc.ClickModel("own", cell=lambda slot: slot.item, examination=p)
    (row,) = fc.evaluate(
        fc.read_log(random_logs.log_table(case.records)),
        fc.Lists(random_logs.lists_table(case.candidate)),
        estimators=own,
        metrics="mrr@5",
        missing="drop",
        confidence=None,
    ).to_dicts()
    kept = [r for r in firsts.only_first(case.records) if r.context in case.candidate]
    expected = firsts.value("pbm", kept, case.candidate, firsts.mrr_at(5), p=p)
    assert row["value"] == pytest.approx(expected, rel=SAME)


@pytest.mark.parametrize("forward", [False, True])
def test_a_backtest_by_the_papers_protocol(forward):
    log = random_dates(7, days=4)
    assert_backtest(log, read(log), forward=forward)


@NOT_ON_SPARK
def test_a_backtest_on_every_engine(engine):
    log = random_dates(8, days=3)
    assert_backtest(log, read(log, engine), models=SOME, metrics=("success@3",))


def assert_backtest(
    log, table, *, models=oracle.MODELS, metrics=("success@3", "mrr@7"), forward=False
):
    result = fc.backtest(table, estimators=paper(models), metrics=list(metrics), forward=forward)
    first = firsts.only_first([dated.record for dated in log])
    log = [Dated(dated.day, record) for dated, record in zip(log, first, strict=True)]
    assert len(result) == len(models) * len(metrics)
    for row in result:
        expected = protocol.backtest(
            log,
            row["estimator"],
            METRICS[row["metric"]],
            math.inf,
            forward=forward,
            predict=firsts.value,
        )
        for column in ("rmse", "bias", "floor", "pairs", "records"):
            right = getattr(expected, column)
            told = f"{column} of {row['estimator']}, {row['metric']}: {row[column]}, not {right}"
            assert row[column] == pytest.approx(right, rel=1e-9, abs=1e-9), told


# --- spread ---------------------------------------------------------------------------------------


def spreads(table, candidate, clusters, **options):
    """The estimates of every model and metric, with their spread."""
    question = Question(
        candidates=[as_policy(fc.Lists(random_logs.lists_table(candidate)))],
        estimators=parse_estimators(("list", "prefix", "ip", "item", "pbm")),
        metrics=parse_metrics(["success@3", "mrr@3"]),
        clusters=(clusters,),
        missing="production",
    )
    return estimate(fc.tally(fc.read_log(table, **options)), question).of_candidate(0)


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


@pytest.mark.parametrize("clusters", ["record", "period"])
@pytest.mark.parametrize("seed", [940, 941])
def test_the_influence_of_a_record_is_what_its_weight_moves(clusters, seed):
    """Without what small cells hide, which is an addition to it."""
    rng = np.random.default_rng(seed)
    case = random_logs.random_case("moved", rng)
    records = case.records * 2
    days = rng.integers(0, 4, len(records))
    days[:2] = [0, 1]
    table = random_logs.log_table(records, day=days.tolist())
    first, n, compared = firsts.only_first(records), len(records), 0
    for found in spreads(table, case.candidate, clusters, period="day"):
        theta = {"success@3": firsts.success_at(3), "mrr@3": firsts.mrr_at(3)}[found.metric.name]
        model = found.estimator
        if found.value is None:
            continue
        psi = moved(lambda r: firsts.estimate(model, r, case.candidate, theta), first)  # noqa: B023
        phi = moved(lambda r: oracle.production(r, theta), first)  # noqa: B023
        both = np.stack([psi, phi], axis=1)
        if clusters == "record":
            right = both.T @ both / (n * (n - 1))
        else:
            sums = np.array([both[days == day].sum(axis=0) for day in set(days.tolist())]) / n
            right = sums.T @ sums * len(sums) / (len(sums) - 1)
        # The difference quotient is good to 1e-9 of a weight of up to 100.
        shown = found.covariance - found.hidden
        assert shown == pytest.approx(right, rel=1e-6, abs=1e-9), model
        compared += model in firsts.SLOTS
    assert compared


def test_the_standard_error_is_the_jackknifes():
    """Delete one record after the other, in a log large enough for both to agree."""
    rng = np.random.default_rng(950)
    shown = [(1, 2, 3), (2, 1, 3), (3, 1, 2), (1, 3, 2)]
    records = [
        oracle.Record("q", shown[i], tuple((rng.random(3) < 0.3).astype(float)))
        for i in rng.integers(0, 4, 400)
    ]
    candidate = {"q": {(2, 3, 1): 0.7, (1, 2, 3): 0.3}}
    first = firsts.only_first(records)
    n = len(first)
    for found in spreads(random_logs.log_table(records), candidate, "record"):
        theta = {"success@3": firsts.success_at(3), "mrr@3": firsts.mrr_at(3)}[found.metric.name]
        if found.estimator not in firsts.SLOTS:
            continue
        without = np.array(
            [
                firsts.estimate(found.estimator, first[:i] + first[i + 1 :], candidate, theta)
                for i in range(n)
            ]
        )
        jackknife = math.sqrt((n - 1) / n * float(((without - without.mean()) ** 2).sum()))
        se = math.sqrt(found.covariance[0, 0])
        # About 100 records a cell: small cells add about 1 in 100, and so does 1/n.
        assert se == pytest.approx(jackknife, rel=0.03), found.estimator


# --- worlds ---------------------------------------------------------------------------------------

HOLDS = {
    "pbm": ("list", "prefix", "ip", "pbm"),
    "dctr": ("list", "prefix", "ip", "item"),
    "ip": ("list", "prefix", "ip"),
    "cascade": ("list", "prefix", "ip", "item"),
    "dcm": ("list", "prefix", "ip", "item"),
    "dbn": ("list", "prefix"),
}
"""Where the estimate has no bias; DBN users also leave without a click, which bends hazards."""


@pytest.mark.parametrize("name", sorted(HOLDS))
def test_an_infinite_log_tells_the_truth_where_the_hazards_are_right(name):
    rows = [
        (x, [1000 * x + a for a in shown], clicks, 1e6 * chance * (1 + i % 3))
        for x in range(small.CONTEXTS)
        for i, shown in enumerate(small.every_list())
        for chance, clicks in small.outcomes(name, x, shown)
        if chance > 0
    ]
    table = dict(
        zip(("context", "items", "clicks", "weight"), zip(*rows, strict=True), strict=True)
    )
    log = fc.read_log(pa.table({c: list(v) for c, v in table.items()}), count="weight")
    shown = {(0, (2, 0, 3)): 0.4, (0, (3, 2, 1)): 0.6, (1, (1, 3, 0)): 1.0}
    candidate = fc.Lists(
        pa.table(
            {
                "context": [x for x, _ in shown],
                "items": [[1000 * x + a for a in items] for x, items in shown],
                "probability": list(shown.values()),
            }
        )
    )
    sizes = {x: sum(weight for y, _, _, weight in rows if x == y) for x in range(small.CONTEXTS)}
    models = [fc.Weighted(model) for model in HOLDS[name] if model != "pbm"]
    if "pbm" in HOLDS[name]:
        models.append(fc.Weighted("pbm", examination=small.EXAMINATION.tolist()))
    for metric, theta in (("success@3", (1, 1, 1)), ("mrr@3", (1, 1 / 2, 1 / 3))):
        truth = sum(
            sizes[x] * mass * chance * _first(clicks, theta)
            for (x, items), mass in shown.items()
            for chance, clicks in small.outcomes(name, x, items)
        ) / sum(sizes.values())
        exact = small.WORLDS[name].value(candidate, metric, [sizes[0], sizes[1]])
        assert exact == pytest.approx(truth, abs=EXACT)
        found = fc.evaluate(log, candidate, metrics=metric, estimators=models, confidence=None)
        for model, value in zip(found["estimator"], found["value"], strict=True):
            assert value == pytest.approx(truth, abs=EXACT), (model, metric)


def _first(clicks, theta):
    return next((t for t, click in zip(theta, clicks, strict=True) if click), 0.0)


# --- laws -----------------------------------------------------------------------------------------


@few
@given(logs(), policies())
def test_a_chance_is_a_chance_and_a_rank_is_no_more_than_a_click(records, policy):
    found = fc.evaluate(
        fc.read_log(random_logs.log_table(records)),
        lists(policy),
        estimators=["ip", "item", "pbm"],
        metrics=["success@1", "success@2", "success@4", "mrr@4", "mrr@1"],
        confidence=None,
    )
    for model, mine in itertools.groupby(found.to_dicts(), key=lambda row: row["estimator"]):
        by_metric = {row["metric"]: row["value"] for row in mine}
        if by_metric["success@1"] is None:
            continue
        one, four, rank = (by_metric[m] for m in ("success@1", "success@4", "mrr@4"))
        assert 0 <= one <= 1, model
        assert 0 <= rank <= four + SAME, model
        assert four <= 1 + SAME, model
        assert by_metric["mrr@1"] == pytest.approx(one, abs=SAME), model
        if model == "ip":  # cells of one position: what is below changes nothing
            assert one <= by_metric["success@2"] + SAME <= four + 2 * SAME


@few
@given(logs(), policies())
def test_at_the_top_a_first_click_is_a_click(records, policy):
    plain = [r._replace(clicks=tuple(float(c > 0) for c in r.clicks)) for r in records]
    found = fc.evaluate(
        fc.read_log(random_logs.log_table(plain)),
        lists(policy),
        estimators=["list", "prefix", "ip"],
        metrics=["clicks@1", "success@1"],
        confidence=None,
    ).to_dicts()
    for clicks, success in itertools.pairwise(found):
        if clicks["metric"] == "clicks@1":
            for column in ("value", "production", "covered", "ess"):
                assert success[column] == pytest.approx(clicks[column], abs=SAME), column


@few
@given(logs())
def test_what_was_logged_is_worth_what_it_was_by_list_and_prefix(records):
    log = fc.read_log(random_logs.log_table(records))
    metrics = ["success@4", "mrr@2"]
    found = fc.evaluate(
        log, fc.Observed(log), estimators=["list", "prefix"], metrics=metrics, confidence=None
    )
    for row in found.to_dicts():
        theta = {"success@4": firsts.success_at(4), "mrr@2": firsts.mrr_at(2)}[row["metric"]]
        mean = oracle.production(firsts.only_first(records), theta)
        assert row["value"] == pytest.approx(mean, abs=SAME)
        assert row["production"] == pytest.approx(mean, abs=SAME)
