"""If this fails, the first lines of an answer mislead, or do not fit a terminal."""

import re
from typing import Any

import numpy as np
import pytest

import foreclick as fc
from foreclick.results.text import WIDTH
from tests.questions.scenes import counted, joined, two_lists

SHOES = [[1, 2, 3], [2, 1, 3], [1, 3, 2], [3, 2, 1]]


def log(days=12):
    """Queries whose item 2 is the best, by chance at every position."""
    day, query, order, _ = np.indices((days, 2, 4, 20)).reshape(4, -1)
    items = np.array(SHOES)[order]
    rates = np.array([0.2, 0.8, 0.1])[items - 1] * [0.6, 0.3, 0.1]
    clicks = np.random.default_rng(3).random(items.shape) < rates
    found = {"context": np.array(["shoes", "boots"])[query], "items": items, "day": day}
    return {name: each.tolist() for name, each in (found | {"clicks": clicks.astype(int)}).items()}


def ranking(*items):
    return {"context": ["shoes", "boots"], "items": [list(items)] * 2}


@pytest.fixture(scope="module")
def tally():
    return fc.tally(fc.read_log(log(), period="day"))


def wide(text):
    """Lines beyond 80 columns that have a blank to break at."""
    return [line for line in text.splitlines() if len(line) > WIDTH and " " in line.strip()]


class TestEvaluation:
    def test_the_answer_comes_first(self, tally):
        e = fc.evaluate(tally, ranking(2, 1, 3), metrics=["clicks@3", "dcg@3"])
        told = str(e).splitlines()
        assert told[0].startswith("Candidate against production, by ladder (1,920 records")
        assert told[2].split()[:2] == ["clicks@3", "better"]
        assert told[3].split()[:2] == ["dcg@3", "better"]
        assert f"{100 * e['lift'][0]:+.1f}%" in told[2]
        assert "The log saw all that the candidate would show (same item, any position)." in told
        assert "\nThe cautious check (same item, same position) agrees: +" in str(e)
        assert not wide(str(e))

    def test_who_saw_next_to_nothing_shows_no_number(self):
        table = log()
        table["items"][0] = [7, 8, 9]
        items = [[7, 8, 9], [31, 32, 33], [31, 32, 33]]
        lists = {"context": ["shoes", "shoes", "boots"], "items": items}
        rare = fc.Lists(lists | {"probability": [0.01, 0.99, 1.0]})
        poor = fc.evaluate(table, rare, metrics="clicks@3", estimators=["ip", "list"])
        assert poor["value"][0] is not None
        assert "%" not in str(poor).splitlines()[2].split("saw")[0]
        assert "no number: the log saw 0.5% of what the candidate would show" in str(poor)
        assert str(poor.table).count("–") >= 8

    def test_segments_have_a_line_each_and_at_most_twenty(self):
        site = [f"site {i % 30:02}" for i in range(1920)]
        told = fc.read_log(log() | {"site": site}, period="day", segments="site")
        e = fc.evaluate(told, ranking(2, 1, 3), metrics="clicks@3", by="site")
        text = str(e)
        assert sum(line.startswith("  clicks@3 site") for line in text.splitlines()) == 20
        assert "The first 20 of 30; the table has them all." in text
        assert " of 30. The verdicts allow for 30 segments at once" in e.notes[0]
        assert not wide(text)

    def test_the_same_as_production_is_no_difference(self):
        rows = counted(*(([1, 2], [i % 2, 0], 1) for i in range(40)))
        table = fc.read_log(rows | {"day": [i // 4 for i in range(40)]}, period="day")
        new = {"context": ["q"], "items": [[1, 2]]}
        e = fc.evaluate(table, new, metrics="clicks@2", estimators=["ip", "rctr"])
        assert e["verdict"] == ["no difference", "cannot tell"]
        assert "e-" not in str(e)
        assert "e-" not in str(e.table)
        assert "times as many" not in str(e)

    def test_an_optimised_policy_says_so_on_its_log(self, tally, tmp_path):
        best = fc.optimize(tally, metrics="clicks@3")
        best.write(tmp_path / "policy.parquet")
        for policy in (best.policy, fc.Lists(tmp_path / "policy.parquet")):
            e = fc.evaluate(tally, policy, metrics="clicks@3", estimators="ip", confidence=None)
            assert any("`optimize` chose this policy" in note for note in e.notes)
        plain = fc.evaluate(tally, ranking(2, 1, 3), metrics="clicks@3", confidence=None)
        assert not any("optimize" in note for note in plain.notes)
        assert not any("optimize" in note for note in best.notes)
        assert str(best).startswith("The policy chosen by ladder")


class TestOthers:
    def test_compare_names_its_metric_and_estimator_everywhere(self, tally):
        c = fc.compare(tally, {"new": ranking(2, 1, 3), "old": ranking(1, 3, 2)})
        title = f"{c['metric'][0]} by {c['estimator'][0]} (95% confidence for all pairs)"
        assert title in str(c)
        assert title in str(c.table)
        assert title in c.to_html()
        assert c.to_csv().startswith("estimator,metric,candidate,")
        told = str(c).splitlines()
        assert told[2].split()[0] == "new"  # the best first
        assert "new is better than old." in told
        assert not wide(str(c))

    def test_a_backtest_never_crowns_who_cannot_see_a_change(self):
        """Where nothing depends on the items, `rctr` is nearest, and still does not win."""
        table = log(days=8)
        clicks = np.random.default_rng(3).random((len(table["day"]), 3)) < 0.3
        table["clicks"] = clicks.astype(int).tolist()
        paper = ("list", "ip", "item", "pbm", "rctr")
        b = fc.backtest(fc.read_log(table, period="day"), metrics="clicks@3", estimators=paper)
        rmse = dict(zip(b["estimator"], b["rmse"], strict=True))
        assert min(rmse, key=lambda name: rmse[name]) == "rctr"
        assert any("no estimator predicted better than 'nothing changes'" in n for n in b.notes)
        assert not any("rctr predicted best" in note for note in b.notes)
        assert "the one to beat" in str(b)
        assert not wide(str(b))


# --- an evaluation as trackers of experiments log it ----------------------------------------------


def test_keys_are_what_mlflow_takes_and_values_are_numbers():
    table = counted(*(([1, 2], [1, 0], 1), ([2, 1], [0, 0], 1)) * 20)
    table |= {"price": [[2.5, 0], [0, 0]] * 20, "land": ["NL", "NL", "B/E", "B/E"] * 10}
    log = fc.read_log(table, segments=["land"], rewards={"price": "price"})
    by: list[Any] = [fc.Weighted("ip", [1, 5.5]), "ladder"]
    new = {"context": ["q"], "items": [[1, 2]]}
    e = fc.evaluate(log, new, metrics=["price@1/clicks@1", "dcg@2"], by="land", estimators=by)
    found = e.metrics()
    assert all(re.fullmatch(r"[\w .\-/]+", key) for key in found)
    assert all(type(value) is float for value in found.values())
    assert "dcg_at_2/clip_inf/land_B_E/lift" in found
    assert "dcg_at_2/ip/clip_5.5/land_B_E/lift" in found
    assert any(key.startswith("price_at_1_per_clicks_at_1/") for key in found)


# --- verdicts by segment --------------------------------------------------------------------------


SWAPPED = {"context": ["q"], "items": [[2, 1]]}


def test_no_segment_speaks_for_all_of_them():
    """Two of them have as many records each, one goes up and one down."""
    clicks, parts = [0, 1] * 100 + [1, 0] * 100, ["a"] * 200 + ["b"] * 200
    log = fc.read_log(two_lists([0, 1] * 200, clicks, seg=parts), segments="seg")
    found = fc.evaluate(log, SWAPPED, metrics="clicks@1", estimators="ip", by="seg")
    assert found["verdict"] == ["better", "worse"]
    assert found.notes[0] == (
        "clicks@1 by ip: better in a; worse in b. The verdicts allow for 2 segments at once; "
        "each interval holds on its own."
    )


@pytest.mark.parametrize("segments", [1, 20])
def test_a_verdict_of_one_of_many_asks_for_more(segments):
    """A change of 2.4 standard errors decides alone, and not among twenty."""
    rng, n = np.random.default_rng(1), 40_000
    shown = rng.integers(0, 2, n)
    clicked = rng.random(n) < np.array([0.5, 0.5125])[shown]
    # Of the others each has a few records, so that there are many.
    others = [f"s{i}" for i in range(1, segments) for _ in range(2)]
    few = two_lists([1, 0] * (segments - 1), [0] * len(others), seg=others)
    log = fc.read_log(joined(two_lists(shown, clicked, seg=["all"] * n), few), segments="seg")
    row = fc.evaluate(log, SWAPPED, metrics="clicks@1", estimators="ip", by="seg").to_dicts()[0]
    assert row["seg"] == "all"
    errors = 1.96 * row["change"] / (row["change_high"] - row["change"])
    assert 2 < errors < 3
    assert row["verdict"] == ("better" if segments == 1 else "cannot tell")
