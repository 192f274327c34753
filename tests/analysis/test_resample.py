"""`resample`: exact where the textbook is, close to influence functions, and what it refuses."""

import datetime as dt
import itertools
import math

import numpy as np
import pytest

import foreclick as fc
from foreclick import simulate
from foreclick.errors import ForeclickWarning, ModelError, OptionError
from foreclick.estimators import Question, estimate, parse_estimators
from foreclick.logs import N
from foreclick.metrics import parse_metrics
from tests.answers import IBIS
from tests.truth import random_logs
from tests.truth.oracle import Record

DAYS = [dt.date(2024, 5, day) for day in range(1, 9)]
PER_DAY = 6
EXACT = 1e-12


def records():
    rng = np.random.default_rng(7)
    rates = rng.uniform(0.1, 0.9, len(DAYS))
    return [
        Record("q", (1, 2), (float(rng.random() < rate), 0.0))
        for rate in rates
        for _ in range(PER_DAY)
    ]


RECORDS = records()
BY_DAY = np.array([r.clicks[0] for r in RECORDS]).reshape(len(DAYS), PER_DAY).mean(axis=1)
TABLE = random_logs.log_table(RECORDS, day=[day for day in DAYS for _ in range(PER_DAY)])


def click_rate(tally):
    table = tally.table
    n = table[N].cast("float64")
    (row,) = tally.engine.rows(
        table.aggregate(n=n.sum(), clicks=(n * table["clicks_1"]).sum(), rows=table.count())
    )
    return row["clicks"] / row["n"]


def test_the_jackknife_of_a_mean_is_exact_on_every_engine(engine):
    log = fc.read_log(engine.load(TABLE), period="day")
    (row,) = fc.resample(log, click_rate, clusters="period")
    assert row["value"] == pytest.approx(BY_DAY.mean(), rel=EXACT)
    assert row["se"] ** 2 == pytest.approx(BY_DAY.var(ddof=1) / len(DAYS), rel=EXACT)
    assert row["bias"] == pytest.approx(0, abs=EXACT)
    assert (row["name"], row["replicates"]) == ("value", len(DAYS))


def test_the_bootstrap_draws_whole_clusters_on_every_engine(engine):
    log = fc.read_log(engine.load(TABLE), period="day")
    seen = []

    def counting(tally):
        assert tally.table[N].type().is_integer()
        rows = tally.table.group_by("period").aggregate(n=tally.table[N].sum())
        seen.append({row["period"]: int(row["n"]) for row in tally.engine.rows(rows)})
        return click_rate(tally)

    found = fc.resample(log, counting, method="bootstrap", replicates=5, seed=3)
    assert found["replicates"] == [5]
    assert len(seen) == 1 + 5
    for drawn in seen:
        assert sum(drawn.values()) == len(RECORDS)
        assert all(n % PER_DAY == 0 for n in drawn.values())
    assert len({tuple(sorted(drawn.items())) for drawn in seen}) > 2


def test_the_bootstrap_agrees_with_the_jackknife_and_with_itself():
    log = fc.tally(fc.read_log(TABLE, period="day"))
    (left,) = fc.resample(log, click_rate)
    (drawn,) = fc.resample(log, click_rate, method="bootstrap", replicates=100, seed=4)
    shrunk = left["se"] * math.sqrt((len(DAYS) - 1) / len(DAYS))
    # The relative error of an se from R draws is about 1 / √(2 R); four of them.
    assert drawn["se"] == pytest.approx(shrunk, rel=4 / math.sqrt(2 * 100))
    assert drawn["low"] < drawn["value"] < drawn["high"]


def test_a_seed_is_a_bootstrap():
    log = fc.tally(fc.read_log(TABLE, period="day"))
    one, same, other = (
        fc.resample(log, click_rate, method="bootstrap", replicates=4, seed=seed).to_dicts()
        for seed in (4, 4, 5)
    )
    assert one == same != other


# --- an estimate ------------------------------------------------------------------------------

CONTEXTS, ITEMS, POSITIONS = 12, 4, 3


@pytest.fixture(scope="module")
def log():
    """Users who differ, and a ranker that shows items in any order."""
    rng = np.random.default_rng(5)
    world = simulate.PBM(rng.uniform(0.05, 0.6, (CONTEXTS, ITEMS)), 1 / np.arange(1, POSITIONS + 1))
    orders = np.array(list(itertools.permutations(range(ITEMS), POSITIONS)))
    shown = simulate.Stationary(
        np.repeat(np.arange(CONTEXTS), len(orders)),
        np.tile(orders, (CONTEXTS, 1)),
        np.full(CONTEXTS * len(orders), 1 / len(orders)),
        days=24,
    )
    table = simulate.Simulation(world, shown, records=40_000, user_sd=0.3).sample(seed=5)
    return fc.tally(fc.read_log(table, context="query", period="day", unit="user"))


@pytest.fixture(scope="module")
def candidate():
    items = [[1000 * x + i for i in range(POSITIONS)] for x in range(CONTEXTS)]
    return fc.Ranking({"context": list(range(CONTEXTS)), "items": items})


def estimates(candidate):
    def statistic(tally):
        found = fc.evaluate(tally, candidate, metrics="clicks@3", estimators=["ip"], clusters=None)
        return dict(zip(found["estimator"], found["value"], strict=True))

    return statistic


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["period", "unit"])
def test_the_jackknife_of_an_estimate_is_close_to_its_influence_function(log, candidate, kind):
    found = fc.resample(log, estimates(candidate), clusters=kind)
    right = fc.evaluate(log, candidate, metrics="clicks@3", estimators=["ip"], clusters=kind)
    assert found["name"] == right["estimator"]
    assert found["value"] == pytest.approx(right["value"], rel=EXACT)
    # Two linearisations of the same thing, which differ in the second order: by 1 / clusters. That
    # days may have memory is left out of both.
    asked = Question(candidate, parse_estimators("ip"), parse_metrics("clicks@3"), clusters=(kind,))
    (sums,) = estimate(fc.tally(log), asked).sums
    assert sums.spread is not None
    assert found["se"] == [pytest.approx(math.sqrt(sums.spread.covariance[0, 0]), rel=0.05)]
    if kind == "unit":
        assert found["low"] == pytest.approx(right["low"], rel=0.01)


def test_by_default_the_wider_of_both_counts(log):
    found, day, user = (
        fc.resample(log, click_rate, clusters=kind)["se"][0] for kind in ("auto", "period", "unit")
    )
    assert day != pytest.approx(user, rel=1e-3)
    assert found == pytest.approx(max(day, user), rel=1e-9)


# --- what has no answer -----------------------------------------------------------------------


def test_no_interval_where_the_answer_hangs_on_one_cluster():
    def fragile(tally):
        (row,) = tally.engine.rows(tally.table.aggregate(first=tally.table["period"].min()))
        return {"first day": 1.0 if row["first"] == DAYS[0] else None, "rate": click_rate(tally)}

    found = fc.resample(fc.read_log(TABLE, period="day"), fragile)
    assert [se is None for se in found["se"]] == [True, False]
    assert found["value"][0] == 1.0
    (note,) = found.notes
    assert "No interval of first day" in note


@pytest.mark.filterwarnings(IBIS)
def test_replicates_do_not_repeat_the_warnings_of_the_whole_log():
    days = [day for day in DAYS for _ in range(2)]
    scattered = random_logs.log_table(
        [Record(f"q{i}", (1, 2), (1.0, 0.0)) for i in range(len(days))], day=days
    )
    ranking = {"context": [f"q{i}" for i in range(len(days))], "items": [[1, 2]] * len(days)}
    with pytest.warns(ForeclickWarning) as caught:
        fc.resample(
            fc.read_log(scattered, period="day"),
            lambda t: fc.evaluate(t, ranking, metrics="clicks@1", estimators="ip", clusters=None)[
                "value"
            ][0],
        )
    assert sum(w.category is ForeclickWarning for w in caught) == 1


def test_refusals():
    log = fc.read_log(TABLE, period="day")
    bare = fc.read_log(TABLE)
    with pytest.raises(ModelError, match="period= or unit="):
        fc.resample(bare, click_rate)
    with pytest.raises(ModelError, match="unit='…'"):
        fc.resample(log, click_rate, clusters="unit")
    with pytest.raises(OptionError, match="say 'auto', 'unit' or 'period'"):
        fc.resample(log, click_rate, clusters="record")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="say 'jackknife' or 'bootstrap'"):
        fc.resample(log, click_rate, method="magic")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="replicates=1"):
        fc.resample(log, click_rate, method="bootstrap", replicates=1)
    with pytest.raises(OptionError, match="confidence=95"):
        fc.resample(log, click_rate, confidence=95)
    with pytest.raises(ModelError, match="returned str for 'value'"):
        fc.resample(log, lambda _: "much")  # type: ignore[arg-type, return-value]
    ranking = {"context": ["q"], "items": [[1, 2]]}
    with pytest.raises(ModelError, match="returned Evaluation"):
        fc.resample(log, lambda t: fc.evaluate(t, ranking))  # type: ignore[arg-type, return-value]
    one_day = fc.read_log(TABLE, period="day", where="day = DATE '2024-05-01'")
    with pytest.raises(ModelError, match="only one period"):
        fc.resample(one_day, click_rate, clusters="period")
