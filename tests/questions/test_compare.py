"""If this fails, the better of two candidates is called the worse, or a tie a win."""

import itertools
import math
from typing import Any, ClassVar

import numpy as np
import pytest

import foreclick as fc
from foreclick import simulate
from foreclick.estimation.fits import Slope
from tests.cases.plain import drawn, half_new
from tests.cases.tables import lists_table

CONTEXTS, ITEMS, POSITIONS = 30, 5, 4


@pytest.fixture(scope="module")
def simulation():
    """A world in which `ip` holds, and a ranker that shows items in any order."""
    rng = np.random.default_rng(5)
    world = simulate.PBM(rng.uniform(0.05, 0.6, (CONTEXTS, ITEMS)), 1 / np.arange(1, POSITIONS + 1))
    orders = np.array(list(itertools.permutations(range(ITEMS), POSITIONS)))
    shown = simulate.Stationary(
        np.repeat(np.arange(CONTEXTS), len(orders)),
        np.tile(orders, (CONTEXTS, 1)),
        np.full(CONTEXTS * len(orders), 1 / len(orders)),
        days=12,
    )
    return simulate.Simulation(world, shown, records=60_000, user_sd=0.3)


@pytest.fixture(scope="module")
def log(simulation):
    table = simulation.sample(seed=5)
    return fc.tally(fc.read_log(table, context="query", period="day", unit="user"))


def ranking(swapped=(), swap=(1, 2)):
    """The first items in their order, with two of them exchanged in some contexts."""
    orders = np.tile(np.arange(POSITIONS), (CONTEXTS, 1))
    for x in swapped:
        orders[x, list(swap)] = orders[x, list(swap[::-1])]
    items = orders + 1000 * np.arange(CONTEXTS)[:, None]
    return fc.Ranking({"context": list(range(CONTEXTS)), "items": items.tolist()})


@pytest.fixture(scope="module")
def compared(log):
    candidates = {
        "plain": ranking(),
        "swapped": ranking(range(CONTEXTS // 5)),
        "strange": {  # an item of the next context
            "context": list(range(CONTEXTS)),
            "items": [[1000 * ((x + 1) % CONTEXTS), -2, -3, -4] for x in range(CONTEXTS)],
        },
    }
    return fc.compare(log, candidates, metrics="clicks@4", estimators="ip")


def row_of(result, candidate, against):
    (found,) = [r for r in result if (r["candidate"], r["against"]) == (candidate, against)]
    return found


def test_all_together_are_wider_than_one(compared):
    for row in compared:
        if row["se"] is not None:
            assert row["all_low"] <= row["low"] <= row["change"] <= row["high"] <= row["all_high"]
            assert row["lift_low"] <= row["lift"] <= row["lift_high"]


def test_a_candidate_never_shown_is_not_judged(compared):
    row = row_of(compared, "strange", "production")
    assert (row["value"], row["verdict"]) == (None, "cannot tell")
    assert any("Nothing of strange was ever shown" in note for note in compared.notes)


class TestLogging:
    """Known logging probabilities weigh as in `evaluate`, where one candidate is the baseline."""

    CASE = drawn(21, records=600, contexts=4, periods=8, propensity="slot")
    POLICIES: ClassVar = {
        name: fc.Lists(lists_table(own))
        for name, own in {"new": half_new(CASE), "old": CASE.shown}.items()
    }

    @pytest.mark.parametrize("logging", [fc.Lists(lists_table(CASE.shown)), "propensity"])
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
        pi = fc.Lists(lists_table(self.CASE.shown))
        assert fc.compare(self.CASE.log, self.POLICIES, logging=pi)["estimator"] == ["ip"] * 3


def test_candidates_that_know_the_clicks_are_not_judged(log, monkeypatch):
    best, other = ranking(range(CONTEXTS)), ranking(range(CONTEXTS // 2))
    asked: Any = {"metrics": "clicks@4", "estimators": "ladder"}
    assert fc.compare(log, {"best": best}, **asked)["verdict"] != ["cannot tell"]
    alone = fc.compare(log, {"best": best, "other": other}, **asked)
    tests = [(Slope(0.5, 20.0), Slope()), (Slope(), Slope())]
    monkeypatch.setattr(
        "foreclick.ladder.fit.counted_clicks", lambda _, own, __: tests[: len(own[0])]
    )
    again = log.with_rows(log.stored)  # of which no fit is kept
    found = fc.compare(again, {"best": best, "other": other}, **asked)
    verdicts = {row["candidate"] + row["against"]: row["verdict"] for row in found}
    assert verdicts["bestproduction"] == verdicts["bestother"] == "cannot tell"
    assert row_of(found, "other", "production") == row_of(alone, "other", "production")
    assert fc.evaluate(log, best, **asked)["verdict"] == ["cannot tell"]
    assert any(note.startswith("best seems to have been trained") for note in found.notes)


@pytest.mark.parametrize(
    ("estimator", "metric"),
    [
        ("ip", "clicks@4"),
        ("ladder", "clicks@4"),
        ("ladder", "clicks@4/clicks@1"),
        ("ladder-ip", "clicks@4"),
    ],
)
def test_a_candidate_and_itself_do_not_differ(log, estimator, metric):
    """Nor where the log has seen some of it only."""
    one = {
        "context": list(range(CONTEXTS)),
        "items": [[1000 * x, 99, 1000 * x + 1, None] for x in range(CONTEXTS)],
    }
    both = {"one": one, "same": one, "other": ranking([3])}
    result = fc.compare(log, both, metrics=metric, estimators=estimator)
    row = row_of(result, "one", "same")
    assert (row["change"], row["se"]) == (0, 0)
    assert row_of(result, "same", "other")["se"] > 0


# --- one estimator answers and one checks it; where they contradict each other nobody can tell ----


def position_log(records=4000, seed=2, days=8):
    """Two items that are equally good, at positions of which the first is looked at ten times more.

    Item 1 mostly stands first.
    """
    rng = np.random.default_rng(seed)
    swapped = rng.random(records) < 0.2
    clicks = rng.random((records, 2)) < [0.5, 0.05]
    return {
        "context": ["q"] * records,
        "items": np.where(swapped[:, None], [[2, 1]], [[1, 2]]).tolist(),
        "clicks": clicks.astype(int).tolist(),
        "day": rng.integers(0, days, records),
    }


LISTS = {"context": ["q"], "items": [[2, 1]]}
AS_ITEM = fc.Ladder("ip", examination=[1.0, 1.0])


def ask(candidate=LISTS, **options):
    log = fc.read_log(position_log(), period="day")
    return fc.evaluate(log, candidate, metrics=fc.Metric([1, 0.5]), **options)


def test_the_ladder_answers_and_ip_checks_it():
    assert ask()["estimator"] == ["ladder", "ip"]
    log = fc.read_log(position_log(), period="day")
    assert fc.compare(log, {"new": LISTS})["estimator"] == ["ladder"]


@pytest.mark.parametrize("metrics", ["revenue@1", ["clicks@1", "revenue/clicks@1"]])
def test_of_prices_ip_answers_only_if_they_are_paid_without_a_click(metrics):
    table = position_log()
    table["paid"] = [[2.5 * click for click in clicks] for clicks in table["clicks"]]

    def found():
        log = fc.read_log(table, period="day", rewards={"revenue": "paid"})
        return fc.evaluate(log, LISTS, metrics=metrics)

    assert list(dict.fromkeys(found()["estimator"])) == ["ladder", "ip"]
    assert not any("without clicks" in note for note in found().notes)
    table["paid"][table["clicks"].index([0, 0])] = [3.0, 0.0]
    assert list(dict.fromkeys(found()["estimator"])) == ["ip", "ladder"]
    assert any(note.startswith("revenue is also earned without clicks") for note in found().notes)


def test_without_whole_lists_it_is_the_ladder_of_positions():
    marginals = {
        "context": ["q"] * 2,
        "item": [2, 1],
        "position": [1, 2],
        "probability": [1.0, 1.0],
    }
    assert ask(fc.Marginals(marginals))["estimator"] == ["ladder-ip", "ip"]


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

    LISTS: ClassVar = {"context": [f"q{i}" for i in range(40)], "items": [[2, 1]] * 40}

    def table(self):
        """In forty contexts, so that a ladder is sure of what it takes for granted."""
        found = position_log()
        return found | {"context": [f"q{i % 40}" for i in range(len(found["context"]))]}

    def ask(self, candidate=LISTS, **options):
        log = fc.read_log(self.table(), period="day")
        return fc.evaluate(log, candidate, metrics=fc.Metric([1, 0.5]), **options)

    def test_is_no_answer(self):
        alone = self.ask(estimators=AS_ITEM)
        assert alone["verdict"] == ["worse"]  # if a click rate went with its item, as it does not
        found = self.ask(estimators=[AS_ITEM, "ip"])
        assert found["verdict"] == ["cannot tell", "cannot tell"]
        assert found.notes[0].startswith(
            "Cannot tell: the ladder and its cautious check disagree on "
        )

    def test_is_none_where_one_of_them_has_not_seen_enough(self):
        rows = {"context": [f"q{i // 2}" for i in range(80)], "items": [[2, 1], [3, 1]] * 40}
        new = fc.Lists(rows | {"probability": [0.8, 0.2] * 40})
        found = self.ask(new, estimators=[AS_ITEM, "ip"])
        assert max(found["covered"]) < 0.9
        assert not any("disagree" in note for note in found.notes)

    def test_of_a_comparison_is_no_answer_either(self, monkeypatch):
        """Of a candidate and production, and of two candidates."""
        log = fc.read_log(self.table(), period="day")
        both = {"new": self.LISTS, "old": self.LISTS | {"items": [[1, 2]] * 40}}
        metric = fc.Metric([1, 0.5])
        alone = fc.compare(log, both, metrics=metric, estimators=AS_ITEM)
        words = {(row["candidate"], row["against"]): row["verdict"] for row in alone}
        assert words["new", "production"] == words["new", "old"] == "worse"
        usual = "foreclick.questions.asked.usual_estimators"
        monkeypatch.setattr(usual, lambda *_, **__: (AS_ITEM, "ip"))
        found = fc.compare(log, both, metrics=metric)
        assert found["estimator"] == ["ladder-ip"] * 3
        assert found["verdict"] == ["cannot tell"] * 3
        assert found.notes[0].startswith("The ladder and its cautious check disagree on new ")

    def test_of_a_guardrail_is_no_answer_either(self):
        """Whether clicks fall is disputed, so what should rise beside them is open too."""
        table = self.table()
        table["liked"] = [[int(item == 2) for item in items] for items in table["items"]]
        log = fc.read_log(table, period="day", rewards={"likes": "liked"})
        both: list[str | fc.Ladder] = [AS_ITEM, "ip"]
        alone = fc.evaluate(log, self.LISTS, metrics="likes@1", estimators=both)
        assert alone["verdict"] == ["better"] * 2
        found = fc.evaluate(
            log, self.LISTS, metrics="likes@1", estimators=both, guardrails={"clicks@1": 0.01}
        )
        assert found["verdict"] == ["cannot tell"] * 4
        assert "the ladder and its cautious check disagree" in found.notes[0]


def test_a_known_logging_policy_is_used():
    lists = {"context": ["q"] * 2, "items": [[1, 2], [2, 1]], "probability": [0.8, 0.2]}
    assert ask(logging=fc.Lists(lists))["estimator"] == ["ip", "list"]
