"""The subtleties of STATISTICS.md, section 3, items 2 to 5: each with tests that name it."""

import math
from typing import Any, ClassVar

import pytest

import foreclick as fc
from foreclick.errors import ForeclickWarning
from tests import drawn
from tests.answers import IBIS, SAME, answer, assert_as_oracle, clipped, log_of, repeated
from tests.truth import oracle
from tests.truth.paper import paper


def ask(log, candidate, **options):
    return fc.evaluate(log, candidate, **({"metrics": "clicks@2", "confidence": None} | options))


class TestItem2ALoggedCellOfProbability0:
    """Weight M if it is finite, else dropped; either way reported. 0/0 = 0."""

    LOG = log_of(repeated(((1, 2), (1, 0)), ((2, 1), (1, 1))))
    LOGGING = fc.Lists(
        {"context": ["q", "q"], "items": [[2, 1], [3, 4]], "probability": [0.5, 0.5]}
    )
    CANDIDATE = fc.Lists(
        {"context": ["q", "q"], "items": [[1, 2], [2, 1]], "probability": [0.75, 0.25]}
    )

    def test_weighs_m_or_is_left_out_and_is_counted_once(self):
        by = clipped("list", [10, math.inf])
        asked: dict[str, Any] = {"estimators": by, "metrics": ["clicks@2", "dcg@2"]}
        found = ask(self.LOG, self.CANDIDATE, logging=self.LOGGING, **asked)
        # (1, 2) was logged 3 times with 1 click though it is called impossible: weight 10.
        # (2, 1) was logged 3 times with 2 clicks: weight .25 / .5.
        expected = [(3 * 1 * 10 + 3 * 2 * 0.5) / 6, 3 * 2 * 0.5 / 6]
        assert found["value"][:2] == pytest.approx(expected, rel=SAME)
        (note,) = [note for note in found.notes if "would never show" in note]
        assert ": list 3." in note
        assert "weight M where the estimator is clipped" in note
        plain = ask(self.LOG, self.CANDIDATE, **asked)  # frequencies never meet it
        assert not any("probability 0" in note for note in plain.notes)


class TestItem3MassOnUnloggedCells:
    """It counts as no clicks, so it is reported, always, and never silently."""

    LOG = log_of(repeated(((1, 2), (1, 1)), ((2, 1), (1, 1)), ((1, 3), (1, 1))))
    PARTLY: ClassVar[Any] = {"context": ["q"], "items": [[1, 9]]}

    def test_covered_is_the_share_of_exposure_that_was_logged(self):
        found = ask(self.LOG, self.PARTLY, estimators=paper(["list", "ip", "pbm"]))
        assert found["covered"] == pytest.approx([0, 1 / 2, 2 / 3], rel=SAME)
        assert found["value"][:2] == [None, pytest.approx(1.0)]
        (note,) = ask(self.LOG, self.PARTLY, estimators=["ip", "rctr"]).notes
        assert note == "ip counts the 50% that it never saw as no clicks."
        whole = ask(self.LOG, {"context": ["q"], "items": [[2, 3]]}, estimators=["ip", "item"])
        assert (whole["covered"], whole.notes) == ([1.0, 1.0], ())

    def test_clipped_is_the_share_of_exposure_that_m_cut_off(self):
        candidate = {"context": ["q"], "items": [[2, 1]]}  # each slot was logged once in three
        found = ask(self.LOG, candidate, estimators=clipped("ip", [1, 2, 3, math.inf]))
        assert found["clipped"] == pytest.approx([2 / 3, 1 / 3, 0, 0], rel=SAME, abs=SAME)
        assert found["covered"] == [1.0] * 4


class TestItem5FrequenciesOrPropensities:
    """By default frequencies where contexts repeat, propensities where they do not."""

    ONCE: ClassVar[Any] = [  # context, items, clicks, propensity of the list, of each slot
        ("a", [1, 2], [1.0, 0.0], 0.5, [0.6, 0.5]),
        ("b", [2, 1], [1.0, 1.0], 0.25, [0.3, 0.25]),
        ("b", [2, 1], [0.0, 1.0], 0.2, [0.4, 0.2]),
        ("c", [1, 3], [1.0, 1.0], 0.1, [0.8, 0.125]),
        ("d", [3, 1], [1.0, 0.0], 0.7, [0.9, 0.7]),
    ]
    OFTEN: ClassVar[Any] = [row for row in ONCE for _ in range(5)]
    POLICY: ClassVar[Any] = {
        "a": {(1, 2): 0.5, (2, 1): 0.5},
        "b": {(2, 1): 0.25, (3, 1): 0.75},
        "c": {(1, 3): 1.0},
        "d": {(1, 3): 1.0},
    }
    CANDIDATE = fc.Lists(drawn.lists_table(POLICY))
    SIDES: ClassVar[Any] = {
        "list": lambda draws, items, k: draws.get(items, 0.0),
        "prefix": lambda draws, items, k: oracle.probability(
            draws, lambda other: other[:k] == items[:k]
        ),
        "ip": lambda draws, items, k: oracle.shows(draws, items[k - 1], k),
    }

    @staticmethod
    def read(rows, propensity=None):
        names = ("context", "items", "clicks", "of_list", "of_slot")
        table = dict(zip(names, zip(*rows, strict=True), strict=True))
        return fc.read_log(table, propensity=propensity)

    def ips(self, model, clip=math.inf):
        """1/n Σ Σ_k w_k min(h / propensity, M), from the raw rows."""
        total = 0.0
        for context, items, clicks, of_list, of_slot in self.ONCE:
            for k, click in enumerate(clicks, 1):
                h = self.SIDES[model](self.POLICY[context], tuple(items), k)
                total += click * min(h / (of_list if model == "list" else of_slot[k - 1]), clip)
        return total / len(self.ONCE)

    def test_frequencies_are_used_where_contexts_repeat_or_where_they_are_asked_for(self):
        often = self.read(self.OFTEN, "of_list")
        records = [oracle.Record(c, tuple(i), tuple(w)) for c, i, w, _, _ in self.OFTEN]
        assert_as_oracle(
            ask(often, self.CANDIDATE, estimators=["list", "ip"]), records, self.POLICY
        )
        row = answer(often, self.CANDIDATE, "list", logging="propensity")
        assert row["value"] == pytest.approx(self.ips("list"), rel=SAME)

    @pytest.mark.filterwarnings(IBIS)
    def test_frequencies_of_contexts_that_do_not_repeat_are_warned_of(self):
        """Models that propensities cannot answer for use them all the same."""
        once = self.read(self.ONCE, "of_list")
        records = [oracle.Record(c, tuple(i), tuple(w)) for c, i, w, _, _ in self.ONCE]
        with pytest.warns(ForeclickWarning, match="hardly repeat"):
            found = ask(once, self.CANDIDATE, estimators=["item", "list"])
        expected = oracle.value("item", records, self.POLICY, (1, 1)), self.ips("list")
        assert found["value"] == pytest.approx(expected, rel=SAME)
        with pytest.warns(ForeclickWarning, match="hardly repeat"):
            found = ask(once, self.CANDIDATE, estimators="list", logging="frequency")
        assert_as_oracle(found, records, self.POLICY)
