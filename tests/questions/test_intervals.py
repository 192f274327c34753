"""Which interval can be had of a log, and its ends against records."""

import math

import numpy as np
import pytest

import foreclick as fc
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
