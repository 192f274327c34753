"""If this fails, an error that STATISTICS.md section 3 derives is left out."""

import math
from typing import Any, ClassVar

import pytest

import foreclick as fc
from tests.answers import SAME, clipped, log_of, repeated
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
        assert not any("would never show" in note for note in plain.notes)


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
