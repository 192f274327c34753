"""If this fails, an interval counts records as independent that are not."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick.cli import main
from foreclick.inference import anytime, t_quantile
from foreclick.questions.intervals import TUNED_PERIODS, TUNED_RECORDS
from tests.questions.scenes import counted, two_lists

LISTS = [["a", "b"], ["b", "a"], ["c", "a"]]
PI = [0.5, 0.3, 0.2]
H = [0.1, 0.3, 0.6]


def table(probability):
    return fc.Lists({"context": ["q"] * 3, "items": LISTS, "probability": probability})


def records(n=60, days=6):
    rng = np.random.default_rng(1)
    lists = [LISTS[i] for i in rng.choice(3, n, p=PI)]
    found = {"context": ["q"] * n, "items": lists, "clicks": rng.integers(0, 2, (n, 2)).tolist()}
    return found | {"day": np.arange(n) % days, "user": np.arange(n) * 7 % 20}


def ask(log, read, **options):
    asked: Any = {"metrics": fc.Metric([1, 0.5]), "estimators": "list"} | options
    (row,) = fc.evaluate(fc.read_log(log, **read), table(H), **asked).to_dicts()
    return row


def buckets_of(log):
    """Where each of the users of a log is counted."""
    rows = fc.tally(fc.read_log(log, period="user", unit="user")).to_arrow().to_pylist()
    bucket = {row["period"]: row["bucket"] for row in rows}
    return [bucket[user] for user in log["user"]]


@pytest.mark.parametrize(
    ("read", "freedom", "time", "tuned"),
    [
        ({}, math.inf, 60, TUNED_RECORDS),
        ({"period": "day"}, 5, 6, TUNED_PERIODS),
        ({"unit": "user"}, None, 60, TUNED_RECORDS),  # as many buckets as its users fall into
    ],
)
def test_the_time_of_an_anytime_interval(read, freedom, time, tuned):
    log = records()
    row = ask(log, read, confidence=fc.Confidence(anytime=True))
    freedom = len(set(buckets_of(log))) - 1 if freedom is None else freedom
    reach = anytime(0.95, freedom, time, tuned)
    assert row["high"] == pytest.approx(row["value"] + reach * row["se"])
    once = ask(log, read)
    share = (row["change_high"] - row["change_low"]) / (once["change_high"] - once["change_low"])
    assert share == pytest.approx((row["high"] - row["value"]) / (once["high"] - once["value"]))
    assert row["lift_high"] > once["lift_high"]


def test_a_value_remembers_the_days_before():
    """Periods and units at once: Σ over pairs of records that share something, from ψ = X − V."""
    log = records(600, days=12)
    weight = {tuple(a): h / p for a, h, p in zip(LISTS, H, PI, strict=True)}
    x = np.array(log["clicks"]) @ [1, 0.5] * [weight[tuple(a)] for a in log["items"]]
    psi, day, user = (x - x.mean()) / len(x), log["day"], np.array(buckets_of(log))

    def of(code):
        sums = np.bincount(np.unique(code, return_inverse=True)[1], psi)
        return sums @ sums * len(sums) / (len(sums) - 1)

    lag = np.abs(np.subtract.outer(np.arange(12), np.arange(12)))
    days = np.bincount(day, psi)
    centred = days - days.mean()
    lasting = centred @ np.maximum(1 - lag / 5, 0) @ centred * 12 / 11 / (1 - 2 / 3 * 5 / 12)
    variance = of(user) - of(day * 1000 + user) + lasting  # in place of what days do by themselves
    t = t_quantile(0.975, 1.5 * 12 / 5 - 1)
    row = ask(log, {"period": "day", "unit": "user"}, logging=table(PI))
    assert row["se"] == pytest.approx(math.sqrt(variance))
    assert row["high"] - row["value"] == pytest.approx(t * math.sqrt(variance))


# --- what the log cannot see is on both ends of what is printed and judged ------------------------


EXAMINED = 1 / np.arange(1, 6)
SHOWN = 7  # of the items of a context; the others are new
THETA = 1 / np.log2(np.arange(2, 7))


def pbm_log(attraction, seed):
    """Lists of the first seven items, in an order that follows attraction with some noise."""
    rng = np.random.default_rng(seed)
    x, day = rng.integers(0, 10, 6000), rng.integers(0, 14, 6000)
    score = np.log(attraction[x, :SHOWN]) + 0.4 * rng.gumbel(size=(6000, SHOWN))
    lists = np.argsort(-score, axis=1)[:, :5]
    rates = attraction[x[:, None], lists] * EXAMINED
    clicks = (rng.random(lists.shape) < rates).astype(int)
    log = {"context": x, "items": lists.tolist(), "clicks": clicks.tolist(), "day": day}
    return fc.read_log(log, period="day"), float((rates @ THETA).mean())


def everywhere(items):
    return fc.Ranking({"context": list(range(10)), "items": [list(items)] * 10})


@pytest.fixture(scope="module")
def duds():
    """Items of which the new ones would get next to no clicks; a log, and what it earned."""
    known = np.sort(np.random.default_rng(41).uniform(0.2, 0.6, (10, SHOWN)), axis=1)[:, ::-1]
    attraction = np.concatenate([known, np.full((10, 5), 0.005)], axis=1)
    return attraction, *pbm_log(attraction, 42)


@pytest.mark.parametrize("items", [(2, 3, 4, 7, 8), (0, 1, 7, 8, 9), (0, 7, 8, 9, 10)])
def test_no_candidate_is_better_for_items_that_nobody_has_seen(duds, items):
    attraction, log, production = duds
    truth = float((attraction[:, list(items)] * EXAMINED @ THETA).mean())
    assert truth < production
    row = fc.evaluate(log, everywhere(items), metrics="dcg@5", estimators="ladder").to_dicts()[0]
    assert row["verdict"] != "better"
    assert row["low"] <= truth <= row["high"]
    assert row["change_low"] <= truth - production <= row["change_high"]
    assert row["lift_low"] <= truth / production - 1 <= row["lift_high"]


@pytest.mark.parametrize("estimator", ["ladder", "ip", "item", "pbm"])
def test_no_candidate_is_worse_while_something_new_may_be_a_star(estimator):
    rng = np.random.default_rng(43)
    known = np.sort(rng.uniform(0.2, 0.4, (10, SHOWN)), axis=1)[:, ::-1]
    log, _ = pbm_log(np.concatenate([known, np.full((10, 2), 0.95)], axis=1), 44)
    star = everywhere((8, 3, 4, 5, 6))
    found = fc.evaluate(log, star, metrics="dcg@5", estimators=estimator)
    assert found["verdict"] == ["cannot tell"]


def test_a_weighted_estimate_can_only_be_too_low():
    """By hand: of two items one was never shown, and half of the records clicked the other.

    So what was never shown is worth 1/2 at most, and half of what the candidate shows is new.
    """
    log = counted(*(([1], [c], 1) for c in (1, 0) * 40)) | {"day": [i // 2 % 10 for i in range(80)]}
    half = fc.Lists({"context": ["q"] * 2, "items": [[1], [2]], "probability": [0.5, 0.5]})
    read = fc.read_log(log, period="day")
    (row,) = fc.evaluate(read, half, metrics="clicks@1", estimators="ip").to_dicts()
    assert (row["value"], row["borrowed"], row["margin"]) == (0.25, 0.0, 0.25)
    assert row["high"] - row["value"] == pytest.approx(row["value"] - row["low"] + 0.25)
    for column, more in (("change", 0.25), ("lift", 0.25 / 0.5)):
        middle = (row[f"{column}_low"] + row[f"{column}_high"]) / 2
        assert middle - row[column] == pytest.approx(more / 2)  # chance is even


# --- ratio metrics in the verbs: spellings, verdicts, what was never shown, refusals --------------


NEW = {"context": ["q"], "items": [[2, 1]]}


def shop(worth=(2.0, 2.4), *, records=6000, clicked=(0.4, 0.4)):
    """Lists [1, 2] and [2, 1] are clicked as often, but a click on [2, 1] is worth more."""
    rng = np.random.default_rng(1)
    shown = rng.integers(0, 2, records)
    clicks = rng.random((records, 2)) < np.array([clicked, [0.2, 0.2]]).T[shown]
    revenue = clicks * rng.exponential(np.array(worth)[shown])[:, None]
    return two_lists(shown, clicks, revenue=revenue.tolist(), day=rng.integers(0, 12, records))


def read(table):
    return fc.read_log(table, rewards={"revenue": "revenue"}, period="day")


def test_revenue_per_click_rises_by_a_tenth():
    """Half of the traffic is worth 20 % more a click, so all of it would be 9 % more."""
    e = fc.evaluate(read(shop(records=40_000)), NEW, metrics=["revenue@2/clicks@2", "clicks@2"])
    assert e["metric"] == ["revenue@2/clicks@2", "clicks@2"] * 2
    assert e["verdict"][:2] == ["better", "cannot tell"]
    assert e["value"][0] == pytest.approx(2.4, rel=0.03)
    assert e["lift"][0] == pytest.approx(2.4 / 2.2 - 1, abs=0.02)
    assert e["lift_low"][0] < 2.4 / 2.2 - 1 < e["lift_high"][0]
    assert "changes by +" in e.verdicts[0].because


def test_what_was_never_shown_is_bought_by_all_or_by_none():
    """Item 3 may be clicked and never bought, or bought by those who would have clicked anyway."""
    log, new = read(shop()), {"context": ["q"], "items": [[2, 3]]}
    parts = fc.evaluate(log, new, metrics=["revenue@2", "clicks@2"], estimators="ip")
    e = fc.evaluate(log, new, metrics="revenue@2/clicks@2", estimators="ip")
    n, d = parts["value"]
    more_n, more_d = parts["margin"]
    assert e["value"] == pytest.approx([n / d])
    assert e["margin"] == pytest.approx([(n + more_n) / d - n / d])
    assert e["borrowed"] == pytest.approx([n / d - n / (d + more_d)])
    assert e["low"][0] < n / (d + more_d)
    assert e["high"][0] > (n + more_n) / d
    assert e["verdict"] == ["cannot tell"]
    assert "never shown" in e.notes[0]


def test_a_guardrail_on_a_ratio(tmp_path):
    table = shop(worth=(2.4, 2.0), clicked=(0.3, 0.6), records=30_000)
    rails: Any = {"revenue@2/clicks@2": 0.02}
    e = fc.evaluate(read(table), NEW, metrics="clicks@2", estimators="ip", guardrails=rails)
    assert e["verdict"] == ["worse", "broken"]
    files = [str(tmp_path / name) for name in ("log.parquet", "new.parquet")]
    for path, rows in zip(files, (table, NEW), strict=True):
        pq.write_table(pa.table(rows), path)
    words = ["gate", *files, "--period", "day", "--reward", "revenue=revenue", "--metric"]
    assert main([*words, "ctr@2"]) == 0
    assert main([*words, "revenue@2/clicks@2"]) == 1
    assert main([*words, "ctr@2", "--guardrail", "revenue/clicks@2=2%"]) == 1


def test_a_backtest_of_the_parts_tells_how_far_the_ratio_may_be_off():
    log = read(shop())
    checked = fc.backtest(log, metrics=["revenue@2", "clicks@2"], estimators="ip")
    asked: dict[str, Any] = {"metrics": "revenue@2/clicks@2", "estimators": "ip"}
    e = fc.evaluate(log, NEW, confidence=fc.Confidence(past=checked), **asked)
    over, under = (checked.error("ip", m, math.inf) for m in ("revenue@2", "clicks@2"))
    clicks = fc.evaluate(log, NEW, metrics="clicks@2", estimators="ip")["value"][0]
    assert e.evidence[0].error == pytest.approx((over + e["value"][0] * under) / clicks)
