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
from foreclick.questions.verdicts import TUNED_PERIODS, TUNED_RECORDS

METRIC = fc.Metric([1, 0.5])
LISTS = [["a", "b"], ["b", "a"], ["c", "a"]]
PI = [0.5, 0.3, 0.2]
H = [0.1, 0.3, 0.6]


def table(probability, context="q"):
    return fc.Lists({"context": [context] * len(LISTS), "items": LISTS, "probability": probability})


def records(n=60, seed=1):
    rng = np.random.default_rng(seed)
    lists = [LISTS[i] for i in rng.choice(3, n, p=PI)]
    return {
        "context": ["q"] * n,
        "items": lists,
        "clicks": rng.integers(0, 2, (n, 2)).tolist(),
        "day": np.arange(n) % 6,
        "user": np.arange(n) * 7 % 20,
        "score": (5 * rng.random((n, 2))).tolist(),
    }


def weighed(log, h=H, pi=PI, clip=math.inf):
    """X_t by the list estimator, and f_t."""
    weight = {tuple(a): min(x / p, clip) for a, x, p in zip(LISTS, h, pi, strict=True)}
    f = np.array(log["clicks"]) @ [1, 0.5]
    return f * [weight[tuple(a)] for a in log["items"]], f


def ask(log, candidate=None, read=None, **options):
    asked = {"metrics": METRIC, "estimators": "list", "logging": table(PI)} | options
    source = fc.read_log(log, **(read or {}))
    return fc.evaluate(source, table(H) if candidate is None else candidate, **asked).to_dicts()[0]


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
    row = ask(log, read=read, confidence=fc.Confidence(anytime=True), logging=None)
    if freedom is None:
        counted = fc.tally(fc.read_log(log, unit="user"))
        freedom = len(set(counted.to_arrow()["bucket"].to_pylist())) - 1
    reach = anytime(0.95, freedom, time, tuned)
    assert row["high"] == pytest.approx(row["value"] + reach * row["se"])
    once = ask(log, read=read, logging=None)
    share = (row["change_high"] - row["change_low"]) / (once["change_high"] - once["change_low"])
    assert share == pytest.approx((row["high"] - row["value"]) / (once["high"] - once["value"]))
    assert row["lift_high"] > once["lift_high"]


class TestTwoWay:
    """Periods and units at once, and days with memory, from the records of a known policy."""

    @staticmethod
    def by_hand(log):
        """Σ over pairs of records that share something, from ψ = X − V and φ = f − F."""
        x, f = weighed(log)
        z = np.stack([x - x.mean(), f - f.mean()], axis=1) / len(x)
        day = np.array(log["day"])
        rows = fc.tally(fc.read_log(log, period="user", unit="user")).to_arrow().to_pylist()
        bucket = {row["period"]: row["bucket"] for row in rows}
        user = np.array([bucket[u] for u in log["user"]])

        def of(code):
            number = np.unique(code, return_inverse=True)[1]
            sums = np.stack([np.bincount(number, column) for column in z.T], axis=1)
            return sums.T @ sums * len(sums) / (len(sums) - 1), len(sums)

        (days, g), (users, h), (both, _) = of(day), of(user), of(day * 1000 + user)
        return days + users - both, min(g, h) - 1, np.bincount(day, z[:, 0])

    def test_a_value_remembers_the_days_before(self):
        log = records(seed=10, n=600)
        log["day"] = np.arange(600) % 12
        covariance, _, days = self.by_hand(log)
        row = ask(log, read={"period": "day", "unit": "user"})
        lag = np.abs(np.subtract.outer(np.arange(12), np.arange(12)))
        centred = days - days.mean()
        lasting = centred @ np.maximum(1 - lag / 5, 0) @ centred * 12 / 11 / (1 - 2 / 3 * 5 / 12)
        variance = covariance[0, 0] - days @ days * 12 / 11 + lasting
        t = t_quantile(0.975, 1.5 * 12 / 5 - 1)
        assert row["se"] == pytest.approx(math.sqrt(variance))
        assert row["high"] - row["value"] == pytest.approx(t * math.sqrt(variance))


# --- what the log cannot see is on both ends of what is printed and judged ------------------------


EXAMINED = 1 / np.arange(1, 6)
SHOWN = 7  # of the items of a context; the others are new
THETA = 1 / np.log2(np.arange(2, 7))


def pbm_log(attraction, seed, *, contexts=10, records=6000, days=14):
    """Lists of the first seven items, in an order that follows attraction with some noise."""
    rng = np.random.default_rng(seed)
    x, day = rng.integers(0, contexts, records), rng.integers(0, days, records)
    score = np.log(attraction[x, :SHOWN]) + 0.4 * rng.gumbel(size=(records, SHOWN))
    lists = np.argsort(-score, axis=1)[:, :5]
    clicks = rng.random(lists.shape) < attraction[x[:, None], lists] * EXAMINED
    log = {"context": x, "items": lists.tolist(), "clicks": clicks.astype(int).tolist(), "day": day}
    truth = float((attraction[x[:, None], lists] * EXAMINED @ THETA).mean())
    return fc.read_log(log, period="day"), truth


def everywhere(items, contexts=10):
    return fc.Ranking({"context": list(range(contexts)), "items": [list(items)] * contexts})


@pytest.fixture(scope="module")
def duds():
    """A log whose new items would get next to no clicks."""
    rng = np.random.default_rng(41)
    known = np.sort(rng.uniform(0.2, 0.6, (10, SHOWN)), axis=1)[:, ::-1]
    return np.concatenate([known, np.full((10, 5), 0.005)], axis=1)


@pytest.fixture(scope="module")
def dud_log(duds):
    return pbm_log(duds, 42)


@pytest.mark.parametrize("items", [(2, 3, 4, 7, 8), (0, 1, 7, 8, 9), (0, 7, 8, 9, 10)])
def test_no_candidate_is_better_for_items_that_nobody_has_seen(duds, dud_log, items):
    log, production = dud_log
    truth = float((duds[:, list(items)] * EXAMINED @ THETA).mean())
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
    question = {"metrics": "dcg@5", "estimators": estimator}
    found = fc.evaluate(log, star, **question)
    assert found["verdict"] == ["cannot tell"]


def test_a_weighted_estimate_can_only_be_too_low():
    """By hand: of two items one was never shown, and half of the records clicked the other.

    So what was never shown is worth 1/2 at most, and half of what the candidate shows is new.
    """
    log = {"context": ["q"] * 80, "items": [[1]] * 80, "clicks": [[1], [0]] * 40}
    log["day"] = [i // 2 % 10 for i in range(80)]
    half = fc.Lists({"context": ["q"] * 2, "items": [[1], [2]], "probability": [0.5, 0.5]})
    read = fc.read_log(log, period="day")
    (row,) = fc.evaluate(read, half, metrics="clicks@1", estimators="ip").to_dicts()
    assert (row["value"], row["borrowed"], row["margin"]) == (0.25, 0.0, 0.25)
    middle = (row["change_low"] + row["change_high"]) / 2
    assert middle - row["change"] == pytest.approx(0.25 / 2)  # chance is even
    assert row["high"] - row["value"] == pytest.approx(row["value"] - row["low"] + 0.25)
    # Every day is as good as every other, and all cells are large: no chance but of clicks.
    assert row["change_high"] - row["change_low"] >= 0.25
    assert row["lift_high"] - row["lift_low"] >= 0.25 / 0.5


# --- ratio metrics in the verbs: spellings, verdicts, what was never shown, refusals --------------


NEW = {"context": ["q"], "items": [[2, 1]]}


def shop(worth=(2.0, 2.4), *, records=6000, seed=1, days=12, clicked=(0.4, 0.4)):
    """Lists [1, 2] and [2, 1] are clicked as often, but a click on [2, 1] is worth more."""
    rng = np.random.default_rng(seed)
    shown = rng.integers(0, 2, records)
    clicks = rng.random((records, 2)) < np.array([clicked, [0.2, 0.2]]).T[shown]
    revenue = clicks * rng.exponential(np.array(worth)[shown])[:, None]
    return {
        "context": ["q"] * records,
        "items": np.where(shown[:, None] == 1, [[2, 1]], [[1, 2]]).tolist(),
        "clicks": clicks.astype(int).tolist(),
        "revenue": revenue.tolist(),
        "day": rng.integers(0, days, records),
        "country": np.where(rng.random(records) < 0.5, "NL", "BE"),
    }


def read(table, **roles):
    roles = {"period": "day", "segments": ["country"]} | roles
    return fc.read_log(table, rewards={"revenue": "revenue"}, **roles)


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
    table = shop()
    new = {"context": ["q"], "items": [[2, 3]]}
    parts = fc.evaluate(read(table), new, metrics=["revenue@2", "clicks@2"], estimators="ip")
    e = fc.evaluate(read(table), new, metrics="revenue@2/clicks@2", estimators="ip")
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
    rails: dict[Any, float] = {"revenue@2/clicks@2": 0.02}
    e = fc.evaluate(read(table), NEW, metrics="clicks@2", estimators="ip", guardrails=rails)
    assert e["verdict"] == ["worse", "broken"]
    pq.write_table(pa.table(table), tmp_path / "log.parquet")
    pq.write_table(pa.table(NEW), tmp_path / "new.parquet")
    words = ["gate", str(tmp_path / "log.parquet"), str(tmp_path / "new.parquet")]
    words += ["--period", "day", "--reward", "revenue=revenue"]
    assert main([*words, "--metric", "ctr@2"]) == 0
    assert main([*words, "--metric", "revenue@2/clicks@2"]) == 1
    assert main([*words, "--metric", "ctr@2", "--guardrail", "revenue/clicks@2=2%"]) == 1


def test_a_backtest_of_the_parts_tells_how_far_the_ratio_may_be_off():
    log = read(shop())
    checked = fc.backtest(log, metrics=["revenue@2", "clicks@2"], estimators="ip")
    asked: dict[str, Any] = {"metrics": "revenue@2/clicks@2", "estimators": "ip"}
    e = fc.evaluate(log, NEW, confidence=fc.Confidence(past=checked), **asked)
    over, under = (checked.error("ip", m, math.inf) for m in ("revenue@2", "clicks@2"))
    clicks = fc.evaluate(log, NEW, metrics="clicks@2", estimators="ip")["value"][0]
    assert e.evidence[0].error == pytest.approx((over + e["value"][0] * under) / clicks)
