"""If this fails, `backtest` recommends an estimator that won by chance, or takes wrong periods."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import numpy as np
import pytest

import foreclick as fc
from foreclick.batches import batches_of
from foreclick.estimation.fits import ITEMS_CHANGE
from foreclick.inference import excess
from foreclick.ladder.trend import drift_by_positions
from foreclick.questions.backtest import backtest_by
from foreclick.run.holdout import Protocol
from tests.cases.plain import DEPTH, QUERIES, drawn, sorted_log
from tests.questions.scenes import joined, two_lists

LISTS = np.array([[1, 2, 3], [2, 1, 3], [3, 1, 2]])


def table(days, context="q", per_day=6, seed=0):
    """A context on every day, lists and clicks at random."""
    rng, period = np.random.default_rng(seed), [day for day in days for _ in range(per_day)]
    items, clicks = LISTS[rng.integers(3, size=len(period))], rng.random((len(period), 3)) < 0.4
    columns = {"items": items.tolist(), "clicks": clicks.astype(int).tolist()}
    return columns | {"context": [context] * len(period), "period": period}


def read(days, **options):
    return fc.read_log(table(days, **options), period="period")


def grid(*shape):
    """The numbers of all cells of an array of this shape, a row for each axis."""
    return np.indices(shape).reshape(len(shape), -1)


def backtest(log, **options):
    return fc.backtest(log, **({"metrics": "clicks@2", "estimators": ["ip", "rctr"]} | options))


class TestContexts:
    @pytest.fixture
    def log(self):
        """Contexts a, b, c and d with 2, 4, 6 and 8 records on each of three days."""
        parts = (table([1, 2, 3], c, 2 * i) for i, c in enumerate("abcd", start=1))
        return fc.read_log(joined(*parts), period="period")

    @pytest.mark.parametrize(
        ("which", "contexts", "records"),
        [
            ({}, 4, 60),
            ({"ranks": 2}, 2, 42),
            ({"ranks": (2, 3)}, 2, 30),
            ({"ranks": (4, 9)}, 1, 6),
        ],
    )
    def test_which_take_part(self, log, which, contexts, records):
        row = backtest(log, **which).to_dicts()[0]
        assert (row["contexts"], row["records"]) == (contexts, records)
        assert row["pairs"] == 3 * contexts


def test_several_m_are_rows_of_those_who_weigh():
    log, by = read(range(1, 5)), [fc.Weighted("ip", clip=[0.5, 1, math.inf]), "rctr"]
    found = backtest(log, estimators=by)
    assert [(row["estimator"], row["clip"]) for row in found] == [
        *(("ip", 0.5), ("ip", 1), ("ip", math.inf)),
        ("rctr", math.inf),
    ]
    asked = backtest(log, estimators=["ip:0.5", "ip:1", "ip", "rctr"])
    assert asked.to_dicts() == found.to_dicts()


class TestPeriods:
    def test_are_named_in_the_detail(self):
        result = backtest(read([3, 1, 2]))
        rows = [row for row in result.periods if row["estimator"] == "ip"]
        assert [row["period"] for row in rows] == [1, 2, 3]
        squared = sum(row["rmse"] ** 2 * row["pairs"] for row in rows)
        assert result["rmse"][0] == pytest.approx(math.sqrt(squared / 3))

    def test_blocks_are_named_by_their_first_period(self):
        days = [dt.date(2026, 3, day) for day in (1, 2, 3, 8, 9, 15)]
        result = backtest(read(days), block=7)
        first = [dt.date(2026, 3, day) for day in (1, 8, 15)]
        assert [row["period"] for row in result.periods][:3] == first

    def test_records_without_a_period_are_left_out_and_counted(self):
        rows = joined(table([1, 2]), table([None, None], per_day=2))
        result = backtest(fc.read_log(rows, period="period"))
        assert result["records"][0] == 12
        assert "Left out: 4 records without a period." in result.notes

    def test_forward_has_nothing_to_learn_the_first_from(self):
        result = backtest(read([1, 2, 3]), forward=True)
        assert result["folds"][0] == 2
        assert "1 without records in earlier periods" in result.notes[-1]


class TestWhatItSays:
    def test_a_clear_win(self):
        """The list alone decides over clicks at the top, and it changes from day to day."""
        day, turn = grid(10, 20)
        first = turn < 20 * (day % 5 + 1) / 6
        log = fc.read_log(two_lists(~first, first, period=day), period="period")
        result = backtest(log, metrics="clicks@1")
        assert result["rmse"][0] == pytest.approx(0, abs=1e-12)
        note = result.notes[0]
        assert note.startswith("clicks@1, levels of single contexts: ip predicted best, RMSE ")
        assert "100% below 'nothing changes'" in note
        assert "larger than its noise over 10 periods" in note

    def test_a_win_by_chance_over_nothing_changes(self):
        note = backtest(read(range(1, 9), per_day=40, seed=2)).notes[0]
        assert "below 'nothing changes'" in note
        assert "within its noise" in note

    def test_no_win_over_nothing_changes(self):
        note = backtest(read(range(1, 9), per_day=40)).notes[0]
        assert note.startswith("clicks@2, levels of single contexts: no estimator predicted better")

    def test_nobody_who_sees_a_change(self):
        note = backtest(read([1, 2]), estimators="rctr").notes[0]
        assert note.endswith("of single contexts: all estimators ignore which items are shown.")


class TestChanges:
    """Whether changes are predicted, which is what a candidate is."""

    def test_by_hand_from_the_errors_of_periods(self):
        log = drawn(3, records=600, periods=8, contexts=20).log
        found = fc.backtest(log, metrics="dcg@3", estimators=["ip", "item", "pbm", "rctr"])
        assert found.periods is not None
        bias: dict[str, list[float]] = {}
        for row in found.periods:
            bias.setdefault(row["estimator"], []).append(row["bias"])
        for row in found:
            # Each period counts its contexts alike, and so do these.
            actual = -np.array(bias["rctr"])
            predicted = np.array(bias[row["estimator"]]) + actual
            skill = 1 - np.sum((predicted - actual) ** 2) / np.sum(actual**2)
            assert row["skill"] == pytest.approx(skill)
            if row["estimator"] == "rctr":
                assert (row["skill"], row["slope"], row["slope_low"]) == (0, None, None)
                continue
            assert row["slope"] == pytest.approx(predicted @ actual / (predicted @ predicted))
            assert row["slope_low"] < row["slope"] < row["slope_high"]


class TestMeanError:
    """What a verdict allows for: the mean over a period's traffic, not that of single contexts."""

    def test_of_one_context_is_the_error_of_periods_beyond_the_noise(self):
        log = read(range(1, 9), per_day=40, seed=2)
        result = backtest_by(Protocol({}, weight="records"), log, "clicks@2", ["ip", "rctr"])
        for row in result:
            mine = [r for r in result.periods or () if r["estimator"] == row["estimator"]]
            n = np.array([r["records"] for r in mine])
            beyond = n @ [r["bias"] ** 2 - r["floor"] ** 2 for r in mine] / n.sum()
            assert row["mean_error"] == pytest.approx(math.sqrt(max(beyond, 0.0)), rel=1e-9)

    def test_errors_of_contexts_that_cancel_are_none(self):
        """Every day another half of the contexts is clicked: together they are as they were."""
        x, day, _ = grid(10, 6, 5)
        log = self.of_one_item(x, day, np.ones_like(x), (x + day) % 2)
        (row,) = backtest(log, metrics="clicks@1", estimators="ip")
        assert row["rmse"] > 0.5
        assert row["mean_error"] == pytest.approx(0, abs=1e-7)
        assert fc.backtest(log, metrics="clicks@1").error("ip", "clicks@1", math.inf) < 1e-7

    def test_an_estimator_that_counts_unseen_lists_as_nothing_is_off_by_how_new_they_are(self):
        """Every day has a list of its own in half of the contexts; every item is always clicked."""
        x, day, _ = grid(10, 6, 5)
        log = self.of_one_item(x, day, np.where(x % 2, day, -1), np.ones_like(x))
        past = fc.backtest(log, metrics="clicks@1", estimators=["ladder", "ip"])
        for new in (0.0, 0.3, 1.0):
            assert past.error("ip", "clicks@1", math.inf, new) == pytest.approx(new, abs=1e-9)
        candidate = {"context": list(range(10)), "items": [[-1]] * 5 + [[7]] * 5}
        sure = fc.Confidence(past=past)
        answer = fc.evaluate(log, candidate, metrics="clicks@1", confidence=sure)
        assert any("Periods whose lists were as new" in note for note in answer.notes)

    @staticmethod
    def of_one_item(x, day, item, click):
        lists = {"items": item[:, None].tolist(), "clicks": click[:, None].tolist()}
        return fc.read_log({"context": x, "period": day} | lists, period="period")


# --- logs whose click rates change over their periods ---------------------------------------------


P = np.array([1.0, 0.6])


def slots(seed: int, days: int, rate: Any) -> tuple[fc.Tally, Any]:  # noqa: ANN401
    """Lists of two of four items; the rate of an item is a function of item and day."""
    rng = np.random.default_rng(seed)
    x, day = rng.integers(0, [[3], [days]], (2, 6000))
    items = rng.permuted(np.tile(np.arange(4), (6000, 1)), axis=1)[:, :2]
    clicks = rng.random((6000, 2)) < rate(items, day[:, None]) * P
    columns = {"context": x, "day": day, "items": list(items), "clicks": list(clicks.astype(int))}
    return fc.tally(fc.read_log(columns, period="day")), (x, day, items, clicks)


def test_a_drift_is_that_of_a_loop_over_items():
    """Scores, information and what is left over, of every item of a context by itself."""

    def rate(item, day):
        return 0.4 * 1.1 ** ((day - 4) * (-1) ** item)

    tally, (x, day, items, clicks) = slots(61_004, 8, rate)
    scores, scores_of = [], []
    for context, item in grid(3, 4).T:
        at, k = np.nonzero((items == item) & (x == context)[:, None])
        e, w, t = P[k], clicks[at, k], day[at]
        mean = (e * t).sum() / e.sum()
        scores.append(((t - mean) * w).sum())
        scores_of.append(w.sum() / e.sum() * (e * (t - mean) ** 2).sum())
    s, i = np.array(scores), np.array(scores_of)
    common = s.sum() / i.sum()
    spread, z = excess(float(((s - common * i) ** 2).sum()), float(i.sum()), float(i @ i))
    found = drift_by_positions(batches_of(tally), "clicks", tuple(P))
    assert z > 3
    assert found.spread == pytest.approx(spread, rel=1e-9)
    assert found.spread == pytest.approx(np.log(1.1), rel=0.3)
    assert (found.common, found.ahead) == (0, 3.5)


@pytest.mark.parametrize("days", [2, 8])
def test_chance_is_no_drift(days: int):
    tally, _ = slots(61_008, days, lambda item, _: 0.2 + 0.1 * item)
    found = drift_by_positions(batches_of(tally), "clicks", tuple(P))
    assert (found.common, found.spread, found.notes()) == (0, 0, [])


def test_an_evaluation_says_that_items_change():
    """And that its interval does not allow for it."""
    log = sorted_log(61_006, trend=0.05, swaps=0.1)
    lists = {"context": list(range(QUERIES)), "items": [list(range(DEPTH))] * QUERIES}
    found = fc.evaluate(log, lists, metrics="dcg@5", estimators="ladder")
    (note,) = [note for note in found.notes if "each its own way" in note]
    assert "the intervals do not allow for what it may be at the end of the log" in note
    compared = fc.compare(log, {"new": lists}, metrics="dcg@5", estimators="ladder")
    assert note in compared.notes
    assert compared["low"] == pytest.approx(found["change_low"], rel=1e-9)
    plain = fc.evaluate(log, lists, metrics="dcg@5", estimators="ip")
    assert not any("each its own way" in note for note in plain.notes)


@pytest.mark.parametrize("stops", [0.0, 0.6])
def test_items_above_that_get_better_are_no_drift(stops: float):
    """Readers who stop see less of an item that stands below a better one: its rate is the same."""
    rng = np.random.default_rng(61_009)
    rates, day = np.array([0.05, 0.15, 0.5, 0.3, 0.3, 0.3]), rng.integers(0, 10, 30_000)
    drawn, ends = rng.random(len(day)), np.stack([10 - day, 15 - day]) / 16
    first = (drawn >= ends).sum(axis=0)  # better from day to day
    items = np.column_stack([first, rng.permuted(np.tile([3, 4, 5], (len(day), 1)), axis=1)])
    likes = rng.random(items.shape) < rates[items]
    gone = np.logical_or.accumulate(likes & (rng.random(items.shape) < stops), axis=1)
    likes[:, 1:] &= ~gone[:, :-1]
    shown = {"items": list(items), "clicks": list(likes.astype(int)), "day": day}
    log = fc.read_log({"context": rng.integers(0, 40, len(day)), **shown}, period="day")
    candidate = {"context": list(range(40)), "items": [[2, 3, 4, 5]] * 40}
    found = fc.evaluate(log, candidate, estimators="ladder")
    assert not any(ITEMS_CHANGE in note for note in found.notes)


def test_a_drift_of_all_items_alike():
    tally, _ = slots(61_007, 8, lambda item, day: 0.1 * (1 + item) * 1.1 ** (day - 4))
    found = drift_by_positions(batches_of(tally), "clicks", tuple(P))
    assert found.common == pytest.approx(np.log(1.1), rel=0.2)
    assert found.spread == 0
    (note,) = found.notes()
    assert "Click rates rise by" in note
    assert "all items alike" in note
