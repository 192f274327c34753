"""Which interval can be had of a log, and its ends against records."""

import math

import numpy as np
import pytest

import foreclick as fc
from foreclick.analysis.intervals import TUNED_PERIODS, TUNED_RECORDS
from foreclick.errors import MetricError, ModelError, OptionError
from foreclick.inference import anytime, bounded, student

GUARANTEES = ["bernstein", "hoeffding"]
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


def assert_ends(row, expected, name=""):
    """The ends by chance, and at the upper one what the clip cut off."""
    found = row[f"{name}low"], row[f"{name}high"] - row["margin"]
    assert found == pytest.approx(expected[1:], rel=1e-10)


@pytest.mark.parametrize("kind", GUARANTEES)
@pytest.mark.parametrize("clip", [math.inf, 2.0])
def test_guarantees_against_records(kind, clip):
    log = records()
    x, f = weighed(log, clip=clip)
    row = ask(log, interval=kind, clip=clip)
    most = min(3.0, clip) * 1.5
    n = len(x)
    assert row["value"] == pytest.approx(x.mean())
    assert row["se"] == pytest.approx(x.std(ddof=1) / math.sqrt(n))
    assert_ends(row, bounded(kind, x.mean(), x.std(ddof=1) / math.sqrt(n), n, (0, most), 0.95))
    d, limits = x - f, (-1.5, most - 1.5)
    expected = bounded(kind, d.mean(), d.std(ddof=1) / math.sqrt(n), n, limits, 0.95)
    assert_ends(row, expected, "change_")
    assert (row["lift_low"], row["lift_high"]) == (None, None)


def test_the_range_is_of_all_that_might_have_been_shown():
    """The list of weight 3 was never shown, but the policy might have."""
    log = records()
    kept = [i for i, items in enumerate(log["items"]) if items[0] != "c"]
    log = {name: [column[i] for i in kept] for name, column in log.items()}
    x, _ = weighed(log)
    expected = bounded("hoeffding", x.mean(), 0, len(x), (0, 4.5), 0.95)
    assert_ends(ask(log, interval="hoeffding"), expected)


@pytest.mark.parametrize("kind", GUARANTEES)
def test_a_baseline_is_bounded_on_its_own_at_half_the_risk(kind):
    log, other = records(), [0.2, 0.2, 0.6]
    n = len(log["items"])
    mine, theirs = (weighed(log, h)[0] for h in (H, other))
    ends = [
        bounded(kind, x.mean(), x.std(ddof=1) / math.sqrt(n), n, (0, 4.5), 0.975)
        for x in (mine, theirs)
    ]
    row = ask(log, interval=kind, baseline=table(other))
    expected = (None, ends[0].low - ends[1].high, ends[0].high - ends[1].low)
    assert_ends(row, expected, "change_")


def test_contexts_without_a_list_weigh_one():
    log = records()
    log["context"] = ["q" if i < 40 else "other" for i in range(60)]
    names = ["q"] * 3 + ["other"] * 3
    pi = fc.Lists({"context": names, "items": LISTS * 2, "probability": PI * 2})
    asked = {"missing": "production", "logging": pi, "interval": "hoeffding", "clip": 0.5}
    row = ask(log, **asked)
    x, f = weighed(log, clip=0.5)
    value = np.concatenate([x[:40], f[40:]]).mean()
    assert_ends(row, bounded("hoeffding", value, 0, 60, (0, 1.5), 0.95))


@pytest.mark.parametrize("kind", GUARANTEES)
def test_propensities_need_a_clip(kind):
    log = records()
    chance = {tuple(a): p for a, p in zip(LISTS, PI, strict=True)}
    log["propensity"] = [chance[tuple(a)] for a in log["items"]]
    asked = {"logging": "propensity", "interval": kind, "read": {"propensity": "propensity"}}
    with pytest.raises(ModelError, match="clip=100"):
        ask(log, **asked)
    row = ask(log, clip=10, **asked)
    x, _ = weighed(log)
    se = x.std(ddof=1) / math.sqrt(60)
    assert_ends(row, bounded(kind, x.mean(), se, 60, (0, 15), 0.95))


@pytest.mark.parametrize("kind", GUARANTEES)
@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"logging": "frequency"}, "logging policy is estimated"),
        ({"logging": fc.Observed(fc.read_log(records()))}, "logging policy is estimated"),
        ({"read": {"period": "day"}}, "clusters='record'"),
        ({"read": {"unit": "user"}, "clusters": "unit"}, "independent records"),
        ({"mix": "fixed"}, "Leave mix= out"),
        ({"clusters": None}, "no intervals"),
        (
            {"read": {"rewards": {"score": "score"}}, "metrics": "score@2"},
            "'score' reaches 4",
        ),
    ],
)
def test_what_cannot_be_guaranteed_is_refused(kind, options, match):
    with pytest.raises((ModelError, MetricError), match=match):
        ask(records(), interval=kind, **options)


def test_no_such_interval():
    with pytest.raises(OptionError, match="'sampling', 'anytime', 'bernstein' or 'hoeffding'"):
        ask(records(), interval="bayes")


@pytest.mark.parametrize(
    ("clusters", "freedom", "time", "tuned"),
    [
        ("record", math.inf, 60, TUNED_RECORDS),
        ("period", 5, 6, TUNED_PERIODS),
        ("unit", None, 60, TUNED_RECORDS),  # as many buckets as its users fall into
    ],
)
def test_the_time_of_an_anytime_interval(clusters, freedom, time, tuned):
    log, read = records(), {"period": "day", "unit": "user"}
    row = ask(log, read=read, clusters=clusters, interval="anytime", logging=None)
    if freedom is None:
        counted = fc.tally(fc.read_log(log, period="day", unit="user"))
        buckets = counted.engine.rows(counted.table.aggregate(n=counted.table["bucket"].nunique()))
        freedom = buckets[0]["n"] - 1
    reach = anytime(0.95, freedom, time, tuned)
    assert row["high"] == pytest.approx(row["value"] + reach * row["se"])
    once = ask(log, read=read, clusters=clusters, logging=None)
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

    def test_a_change_counts_pairs_that_share_a_day_or_a_user_once(self):
        log = records(seed=9, n=400)
        covariance, freedom, _ = self.by_hand(log)
        row = ask(log, read={"period": "day", "unit": "user"})
        wide = math.sqrt(covariance[0, 0] - 2 * covariance[0, 1] + covariance[1, 1])
        t = student.quantile(0.975, freedom)
        assert (row["change_high"] - row["change_low"]) / 2 == pytest.approx(t * wide)
        assert row["se"] == pytest.approx(math.sqrt(covariance[0, 0]))

    def test_a_value_remembers_the_days_before(self):
        log = records(seed=10, n=600)
        log["day"] = np.arange(600) % 12
        covariance, _, days = self.by_hand(log)
        row = ask(log, read={"period": "day", "unit": "user"})
        lag = np.abs(np.subtract.outer(np.arange(12), np.arange(12)))
        centred = days - days.mean()
        lasting = centred @ np.maximum(1 - lag / 5, 0) @ centred * 12 / 11 / (1 - 2 / 3 * 5 / 12)
        variance = covariance[0, 0] - days @ days * 12 / 11 + lasting
        t = student.quantile(0.975, 1.5 * 12 / 5 - 1)
        assert row["se"] == pytest.approx(math.sqrt(variance))
        assert row["high"] - row["value"] == pytest.approx(t * math.sqrt(variance))
