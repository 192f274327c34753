"""If this fails, the better of two candidates is called the worse, or a tie a win."""

import math
from typing import Any, ClassVar

import numpy as np
import pytest

import foreclick as fc
from foreclick.estimation.fits import Slope
from tests.answers import repeated
from tests.cases.plain import drawn, half_new
from tests.cases.tables import lists_table, log_table, marginals_table
from tests.questions.scenes import SMALL, joined, shop_of, two_lists


@pytest.fixture(scope="module")
def shop():
    return shop_of(SMALL, 3)


def row_of(result, candidate, against):
    (found,) = [r for r in result if (r["candidate"], r["against"]) == (candidate, against)]
    return found


def test_a_candidate_never_shown_is_not_judged():
    """Its items were shown, but in the other context."""
    shown = [*repeated(((1, 2), (1, 0))), *repeated(((3, 4), (0, 1)), context="r")]
    log = fc.read_log(log_table(shown * 4, day=[1, 2, 3, 4] * 6), period="day")
    both = {"plain": {"q": [1, 2], "r": [3, 4]}, "strange": {"q": [3, 4], "r": [1, 2]}}
    found = fc.compare(log, both, metrics="clicks@2", estimators="ip")
    row = row_of(found, "strange", "production")
    assert (row["value"], row["verdict"]) == (None, "cannot tell")
    assert any("Nothing of strange was ever shown" in note for note in found.notes)
    assert {row["candidate"] for row in found} == {*both}  # and the other one has its row


class TestLogging:
    """Known logging probabilities weigh as in `evaluate`, where one candidate is the baseline."""

    CASE = drawn(21, records=600, contexts=4, periods=8, propensity="slot")
    PI = fc.Lists(lists_table(CASE.shown))
    POLICIES: ClassVar = {"new": fc.Lists(lists_table(half_new(CASE))), "old": PI}

    @pytest.mark.parametrize("logging", [PI, "propensity"])
    def test_the_pair_is_that_of_evaluate(self, logging):
        asked: Any = {"metrics": "clicks@3", "estimators": "ip:3", "logging": logging}
        found = fc.compare(self.CASE.log, self.POLICIES, **asked)
        row = row_of(found, "new", "old")
        new, old = self.POLICIES.values()
        right = fc.evaluate(self.CASE.log, new, baseline=old, **asked).to_dicts()[0]
        assert row["value"] == pytest.approx(right["value"], rel=1e-12)
        assert row["change"] == pytest.approx(right["change"], rel=1e-12)
        ends = [right["change_low"], right["change_high"]]
        assert [row["low"], row["high"]] == pytest.approx(ends, rel=1e-9)
        by_frequency = fc.compare(self.CASE.log, self.POLICIES, **asked | {"logging": "frequency"})
        assert row["value"] != pytest.approx(row_of(by_frequency, "new", "old")["value"], rel=1e-6)

    def test_by_default_the_estimators_that_use_it_answer(self):
        new, old = self.POLICIES.values()
        found = fc.evaluate(self.CASE.log, new, metrics="dcg@2", logging=old)
        assert found["estimator"] == ["ip", "list"]
        assert fc.compare(self.CASE.log, self.POLICIES, logging=old)["estimator"] == ["ip"] * 3


def test_candidates_that_know_the_clicks_are_not_judged(shop, monkeypatch):
    _, log, candidates = shop
    both = {"best": candidates["better"], "other": candidates["worse"]}
    asked: Any = {"metrics": "clicks@3", "estimators": "ladder"}
    alone = fc.compare(log, both, **asked)
    assert row_of(alone, "best", "production")["verdict"] == "better"
    assert row_of(alone, "best", "other")["verdict"] == "better"
    tests = [(Slope(0.5, 20.0), Slope()), (Slope(), Slope())]
    monkeypatch.setattr(
        "foreclick.ladder.fit.counted_clicks", lambda _, own, __: tests[: len(own[0])]
    )
    again = log.with_rows(log.stored)  # of which no fit is kept
    found = fc.compare(again, both, **asked)
    for against in ("production", "other"):
        assert row_of(found, "best", against)["verdict"] == "cannot tell"
    assert row_of(found, "other", "production") == row_of(alone, "other", "production")
    assert fc.evaluate(again, both["best"], **asked)["verdict"] == ["cannot tell"]
    assert any(note.startswith("best seems to have been trained") for note in found.notes)
    assert not any(note.startswith("Cannot tell for best") for note in found.notes)  # said once


@pytest.mark.parametrize(
    ("estimator", "metric"),
    [("ladder", "clicks@3"), ("ladder", "clicks@3/clicks@1"), ("ladder-ip", "clicks@3")],
)
def test_a_candidate_and_itself_do_not_differ(shop, estimator, metric):
    """Nor where the log has seen some of it only."""
    _, log, candidates = shop
    names = {"one": "similar", "same": "similar", "other": "worse"}
    three = {name: candidates[of] for name, of in names.items()}
    result = fc.compare(log, three, metrics=metric, estimators=estimator)
    row = row_of(result, "one", "same")
    assert (row["change"], row["se"]) == (0, 0)
    assert row["covered"] < 1
    assert row_of(result, "same", "other")["se"] > 0


# --- one estimator answers and one checks it; where they contradict each other nobody can tell ----


CONTEXTS = [f"q{i}" for i in range(40)]
LISTS = {"context": CONTEXTS, "items": [[2, 1]] * 40}
AS_ITEM = fc.Ladder("ip", examination=[1.0, 1.0])
WEIGHED = fc.Metric([1, 0.5])


def position_log(records=4000):
    """Two equally good items; the first position is examined ten times as often as the second.

    Item 1 mostly stands first; in forty contexts, so that a ladder is sure of what it assumes.
    """
    rng = np.random.default_rng(2)
    turned = rng.random(records) < 0.2
    clicks = rng.random((records, 2)) < [0.5, 0.05]
    day = rng.integers(0, 8, records)
    return two_lists(turned, clicks, day=day, context=CONTEXTS * (records // 40))


def ask(candidate=LISTS, **options):
    log = fc.read_log(position_log(), period="day")
    return fc.evaluate(log, candidate, **{"metrics": WEIGHED} | options)


def test_without_whole_lists_it_is_the_ladder_of_positions():
    marginals = fc.Marginals(marginals_table({x: {(2, 1): 1.0} for x in CONTEXTS}))
    assert ask(marginals)["estimator"] == ["ladder-ip", "ip"]


@pytest.mark.parametrize("metrics", ["revenue@1", ["clicks@1", "revenue/clicks@1"]])
def test_of_prices_ip_answers_only_if_they_are_paid_without_a_click(metrics):
    table = position_log()
    table["paid"] = [[2.5 * click for click in clicks] for clicks in table["clicks"]]
    for by in (["ladder", "ip"], ["ip", "ladder"]):
        log = fc.read_log(table, period="day", rewards={"revenue": "paid"})
        found = fc.evaluate(log, LISTS, metrics=metrics)
        assert list(dict.fromkeys(found["estimator"])) == by
        said = any(note.startswith("revenue is also earned without clicks") for note in found.notes)
        assert said == (by[0] == "ip")
        table["paid"][table["clicks"].index([0, 0])] = [3.0, 0.0]


@pytest.mark.parametrize("each", [1, 8])
def test_propensities_answer_where_contexts_hardly_repeat(each):
    table = position_log(records=200)
    table["context"] = [f"q{i // each}" for i in range(200)]
    table["chance"] = [0.8 if items == [1, 2] else 0.2 for items in table["items"]]
    log = fc.read_log(table, period="day", propensity="chance")
    candidate = {"context": sorted(set(table["context"])), "items": [[2, 1]] * (200 // each)}
    found = fc.evaluate(log, candidate, metrics="clicks@1")
    assert found["estimator"] == (["list"] if each == 1 else ["ladder", "ip"])


def test_all_of_them_on_request_with_the_examination_that_was_learnt():
    found = ask(estimators="all")
    assert found["estimator"] == ["ladder", "ip", "list", "prefix", "item", "pbm", "rctr"]
    values = dict(zip(found["estimator"], found["value"], strict=True))
    # Both items are equally good: by the curve 1/k, `pbm` would say that item 2 is not.
    assert values["pbm"] == pytest.approx(values["ip"], rel=0.1)
    assert ask(estimators="pbm")["value"] == [values["pbm"]]
    plain = ask(estimators=fc.Weighted("pbm", examination="1/k"))["value"][0]
    assert abs(plain - values["ip"]) > 3 * abs(values["pbm"] - values["ip"])


class TestContradiction:
    @pytest.fixture(autouse=True)
    def _positions_have_no_rates(self, monkeypatch):
        monkeypatch.setattr(
            "foreclick.ladder.fit.finer_strengths",
            lambda parts, slots, *_: (math.inf,) * (1 + len(slots[0].finer)),
        )

    def test_is_no_answer(self):
        alone = ask(estimators=AS_ITEM)
        assert alone["verdict"] == ["worse"]  # if a click rate went with its item, as it does not
        found = ask(estimators=[AS_ITEM, "ip"])
        assert found["verdict"] == ["cannot tell", "cannot tell"]
        assert found.notes[0].startswith(
            "Cannot tell: the ladder and its cautious check disagree on "
        )

    def test_is_none_where_one_of_them_has_not_seen_enough(self):
        new = {"context": CONTEXTS, "items": [[3, 1]] * 40}
        some = [table | {"probability": [p] * 40} for table, p in ((LISTS, 0.8), (new, 0.2))]
        found = ask(fc.Lists(joined(*some)), estimators=[AS_ITEM, "ip"])
        assert max(found["covered"]) < 0.9
        assert not any("disagree" in note for note in found.notes)

    def test_of_a_comparison_is_no_answer_either(self, monkeypatch):
        """Of a candidate and production, and of two candidates."""
        log = fc.read_log(position_log(), period="day")
        both = {"new": LISTS, "old": LISTS | {"items": [[1, 2]] * 40}}
        alone = fc.compare(log, both, metrics=WEIGHED, estimators=AS_ITEM)
        for against in ("production", "old"):
            assert row_of(alone, "new", against)["verdict"] == "worse"
        usual = "foreclick.questions.asked.usual_estimators"
        monkeypatch.setattr(usual, lambda *_, **__: (AS_ITEM, "ip"))
        found = fc.compare(log, both, metrics=WEIGHED)
        assert found["estimator"] == ["ladder-ip"] * 3
        assert found["verdict"] == ["cannot tell"] * 3
        assert found.notes[0].startswith("The ladder and its cautious check disagree on new ")

    def test_of_a_guardrail_is_no_answer_either(self):
        """Whether clicks fall is disputed, so what should rise beside them is open too."""
        table = position_log()
        table["liked"] = [[int(item == 2) for item in items] for items in table["items"]]
        log = fc.read_log(table, period="day", rewards={"likes": "liked"})
        asked: Any = {"metrics": "likes@1", "estimators": [AS_ITEM, "ip"]}
        assert fc.evaluate(log, LISTS, **asked)["verdict"] == ["better"] * 2
        found = fc.evaluate(log, LISTS, **asked, guardrails={"clicks@1": 0.01})
        assert found["verdict"] == ["cannot tell"] * 4
        assert "the ladder and its cautious check disagree" in found.notes[0]
