"""The covariance from the tally equals the one computed record by record, on every engine."""

import math

import numpy as np
import pytest

import foreclick as fc
from foreclick.estimate.work import estimate
from foreclick.estimators import parse_estimators
from foreclick.metrics import parse_metrics
from foreclick.policies import as_policy
from foreclick.question import Question
from tests.answers import clipped
from tests.truth import oracle, random_logs, spread

pytestmark = pytest.mark.filterwarnings("ignore::foreclick.errors.ForeclickWarning")

SAME = 1e-12
METRICS = {"dcg@4": oracle.dcg_at(4)}
CLIPS = (1.37, math.inf)  # no ratio of small numbers, so none stands at the edge


def make(seed):
    """A random log with a day for each record, and a candidate."""
    rng = np.random.default_rng(seed)
    case = random_logs.random_case(f"{seed}", rng, text=seed % 2 == 0)
    records = case.records * 2  # so that there is something to vary
    days = rng.integers(0, 4, len(records)).tolist()
    days[:2] = [0, 1]
    return records, days, case.candidate


def ask(
    table, candidate, clusters, load=lambda x: x, models=oracle.MODELS, logging=None, **options
):
    log = fc.read_log(load(table), period="day")
    question = Question(
        candidates=[as_policy(fc.Lists(load(random_logs.lists_table(candidate))))],
        loggings=[logging] * len(models),
        estimators=parse_estimators(clipped(models, CLIPS)),
        metrics=parse_metrics(METRICS),
        clusters=(clusters,),
        **({"missing": "production"} | options),
    )
    return estimate(fc.tally(log), question).of_candidate(0)


def assert_same(estimates, records, candidate, **options):
    compared = 0
    for found in estimates:
        if found.value is None:
            assert not found.told
            continue
        right = spread.covariance(
            found.estimator, records, candidate, METRICS[found.metric.name], found.clip, **options
        )
        where = f"{found.estimator}, {found.metric.name}, M={found.clip}"
        # Weights reach 100; the covariance is a sum of their squares.
        assert found.covariance == pytest.approx(right, rel=1e-10, abs=SAME), where
        compared += 1
    assert compared


def table_of(records, days):
    return random_logs.log_table(records, day=days)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("missing", ["production", "drop"])
def test_clusters_of_days(seed, missing):
    records, days, candidate = make(seed)
    found = ask(table_of(records, days), candidate, "period", missing=missing)
    if missing == "drop":
        kept = [i for i, r in enumerate(records) if r.context in candidate]
        records, days = [records[i] for i in kept], [days[i] for i in kept]
    assert_same(found, records, candidate, clusters=days)


@pytest.mark.parametrize("seed", range(10, 12))
def test_independent_records(seed):
    records, days, candidate = make(seed)
    found = ask(table_of(records, days), candidate, "record")
    assert_same(found, records, candidate)


@pytest.mark.parametrize("clusters", ["period", "record"])
def test_a_known_logging_policy(clusters):
    records, days, candidate = make(21)
    pi = oracle.frequencies(records)
    known = {x: draws for x, draws in candidate.items() if x in pi}
    logging = fc.Lists(random_logs.lists_table(pi))
    found = ask(table_of(records, days), candidate, clusters, logging=logging)
    assert_same(found, records, known, logging=pi, clusters=days if clusters == "period" else None)


@pytest.mark.parametrize("clusters", ["period", "record"])
def test_every_engine(engine, clusters):
    if clusters == "record" and engine.name == "spark":
        pytest.skip("half a minute, for what the other engines say")
    records, days, candidate = make(30)
    models = ("list", "ip", "pbm")
    found = ask(table_of(records, days), candidate, clusters, load=engine.load, models=models)
    assert_same(found, records, candidate, clusters=days if clusters == "period" else None)
