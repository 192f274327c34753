"""Ratio metrics in the verbs: spellings, verdicts, what was never shown, refusals."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick.cli import main

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
    with pytest.raises(fc.errors.ForeclickError, match="no row for"):
        fc.evaluate(
            log, NEW, confidence=fc.Confidence(past=fc.backtest(log, metrics="clicks@2")), **asked
        )
