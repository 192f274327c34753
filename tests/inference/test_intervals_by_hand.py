"""Intervals of `evaluate` on logs so small that they can be worked out by hand."""

import math

import numpy as np
import pytest
from scipy.special import stdtrit

import foreclick as fc

pytestmark = pytest.mark.filterwarnings("ignore::foreclick.errors.ForeclickWarning")

NORMAL = 1.959963984540054
A, B = [1, 2], [2, 1]
ONLY_A = {"context": ["q"], "items": [A]}


def shown(*rows):
    """A log of (list, clicks on the first position, day), in one context."""
    lists, clicks, days = zip(*rows, strict=True)
    return fc.read_log(
        {
            "context": ["q"] * len(rows),
            "items": list(lists),
            "clicks": [[c, 0] for c in clicks],
            "day": list(days),
        },
        period="day",
    )


def ask(log, candidate=ONLY_A, estimators="list", **options):
    (row,) = fc.evaluate(log, candidate, metrics="clicks@1", estimators=estimators, **options)
    return row


def half_and_half(days=(1, 1, 1, 1)):
    """A with clicks 1, 1, 0, 0 and B with 1, 0, 0, 0, both on the same four days."""
    rows = [(A, c, d) for c, d in zip((1, 1, 0, 0), days, strict=True)]
    return shown(*rows, *((B, c, d) for c, d in zip((1, 0, 0, 0), days, strict=True)))


class TestIndependentRecords:
    def test_a_list_varies_as_the_mean_of_its_records(self):
        row = ask(half_and_half(), confidence=fc.Confidence(clusters="record"))
        # ψ = (h/π̂)(f − f̄_A) = 2 · (± ½) on four of eight records, 0 on the others.
        influence = 4 * 1 / (8 * 7)
        # S = 1 over four records, s² = ⅓: S̃ = 4 (1 + ⅔) / 5 = 4/3, times W² / n².
        small = 2**2 * (4 / 3 - 1) / 8**2
        assert row["value"] == 0.5
        assert row["se"] == pytest.approx(math.sqrt(influence + small), abs=1e-12)
        # 1.96 standard errors reach below 0, where no click rate is.
        assert row["low"] == 0
        assert row["high"] == pytest.approx(0.5 + NORMAL * row["se"], abs=1e-12)

    def test_confidence_is_how_far_it_reaches(self):
        rows = [ask(half_and_half(), confidence=fc.Confidence(c, "record")) for c in (0.5, 0.95)]
        reach = [(row["high"] - row["value"]) / row["se"] for row in rows]
        assert reach == pytest.approx([0.6744897501960817, NORMAL])


class TestDays:
    DAYS = (1, 2, 3, 4)

    def test_production_varies_as_its_days_do(self):
        """By day 2, 1, 0 and 0 clicks of 2 records; the mean is 3/8."""
        row = ask(half_and_half(self.DAYS), estimators="rctr")
        off = np.array([2, 1, 0, 0]) - 2 * 3 / 8
        se = math.sqrt(4 / 3 * np.sum((off / 8) ** 2))
        assert row["se"] == pytest.approx(se, abs=1e-12)
        assert row["high"] == pytest.approx(3 / 8 + stdtrit(3, 0.975) * se, abs=1e-12)
        assert (row["change_low"], row["change_high"]) == (0, 0)

    def test_a_known_logging_policy(self):
        """ψ = W c − V, with W = 1 / π whatever the frequencies are; φ = f − F."""
        even = fc.Lists({"context": ["q"] * 2, "items": [A, B], "probability": [0.4, 0.6]})
        row = ask(half_and_half(self.DAYS), logging=even)
        value, mean = 2 / 0.4 / 8, 3 / 8
        psi = np.array([1, 1, 0, 0]) / 0.4 - 2 * value
        phi = np.array([2, 1, 0, 0]) - 2 * mean
        reach = stdtrit(3, 0.975)
        assert row["value"] == pytest.approx(value)
        assert row["se"] == pytest.approx(math.sqrt(4 / 3 * np.sum((psi / 8) ** 2)), abs=1e-12)
        change = math.sqrt(4 / 3 * np.sum(((psi - phi) / 8) ** 2))
        assert row["change_high"] == pytest.approx(value - mean + reach * change, abs=1e-12)
        assert row["change_low"] == pytest.approx(value - mean - reach * change, abs=1e-12)
        slope = (psi - value / mean * phi) / mean  # of V / F
        lift = math.sqrt(4 / 3 * np.sum((slope / 8) ** 2))
        assert row["lift_low"] == pytest.approx(value / mean - 1 - reach * lift, abs=1e-12)

    def test_a_list_of_one_day_hides_how_days_differ_but_not_how_records_do(self):
        """Its rate is fitted to that day alone, so ψ sums to 0 on every day; s² / n_A is left."""
        first = [(A, c, 1) for c in (1, 1, 0, 0)]
        rest = [(B, c, d) for d in (2, 3, 4) for c in (1, 0, 0, 0)]
        row = ask(shown(*first, *rest))
        assert row["se"] == pytest.approx(math.sqrt((1 / 3) / 4), abs=1e-12)


class TestMargin:
    HALF = fc.Lists({"context": ["q"] * 2, "items": [A, [9, 8]], "probability": [0.5, 0.5]})

    def test_is_the_exposure_never_shown_times_the_best_rate(self):
        row = ask(half_and_half(), self.HALF, confidence=fc.Confidence(clusters="record"))
        assert row["covered"] == 0.5
        assert row["margin"] == pytest.approx(0.5 * 3 / 8)
