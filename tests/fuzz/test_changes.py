"""If this fails, an answer depends on the order of rows, on names, files or other columns."""

import numpy as np
import pytest

import foreclick as fc
from foreclick.inference import contrasts
from tests.cases.plain import drawn
from tests.fuzz.changes import CHANGES
from tests.fuzz.unchanged import compared, contradictions
from tests.tries import tries


@pytest.mark.parametrize("change", CHANGES)
def test_what_does_not_matter_does_not_count(change):
    number = list(CHANGES).index(change)
    seeds = range(11 * number, 11 * number + tries(1, 10))
    found = [compared(seed, change, "thin" if seed % 4 == 3 else "small") for seed in seeds]
    assert [wrong for _, wrong in found if wrong] == []
    assert sum(count for count, _ in found) > 0


def test_a_verdict_does_not_contradict_its_interval():
    found = [contradictions(seed) for seed in range(tries(3, 100))]
    assert [wrong for _, wrong in found if wrong] == []
    assert sum(count for count, _ in found) > 5


# --- found by longer runs -------------------------------------------------------------------------


def test_first_clicks_are_learnt_from_a_sample(monkeypatch):
    """There was no such reward to draw contexts by."""
    monkeypatch.setattr("foreclick.ladder.sample.FIT_SLOTS", 150)
    case = drawn(3, records=400, contexts=40, items=4, depth=2)
    found = fc.evaluate(case.log, case.policy, metrics="success@2", estimators="ladder")
    assert 0 < found["value"][0] < 1


def test_what_equal_candidates_share_is_not_rounding():
    """The root of an eigenvalue that is 0 but for rounding is not: ends differed by 10⁻⁹."""
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(6, 3))
    rows = np.column_stack([rows, rows[:, 0]])
    covariance = rows.T @ rows
    pairs = [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3)]
    wide = [
        contrasts([1.0, 2.0, 3.0, 1.0], covariance * (1 + noise), pairs, 0.95, 5.0).joint
        for noise in rng.normal(0, 1e-15, (5, 4, 4))
    ]
    assert np.ptp(wide) < 1e-9


@pytest.mark.parametrize("seed", [98000060, 98000061])
def test_what_clicks_earn_is_learnt_from_records_and_not_from_rows(seed):
    """In a log without days, a row had made itself expected, whatever records it stood for."""
    assert [compared(seed, change)[1] for change in ("a segment more", "a reward more")] == [[], []]
