"""If this fails, an interval of a difference, or of several at once, is too short."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr, stdtr, stdtrit

import foreclick as fc
from foreclick.inference import anytime, contrasts, mean_difference, quantile, slope, widening
from tests.questions.scenes import clicked, counted

pytestmark = pytest.mark.filterwarnings("ignore::foreclick.errors.ForeclickWarning")

COVARIANCE = np.array([[4.0, 3.0, 1.0], [3.0, 4.0, 1.0], [1.0, 1.0, 2.0]])


def test_by_hand():
    found = contrasts([1.0, 3.0, 2.0], COVARIANCE, [(0, 2), (0, 1)], 0.95, math.inf)
    assert found.change == pytest.approx([-1.0, -2.0])
    assert found.se == pytest.approx([2.0, math.sqrt(2)])  # 4 + 2 − 2·1, 4 + 4 − 2·3
    assert found.reach == pytest.approx(1.959964, abs=1e-6)


@pytest.mark.parametrize("freedom", [8, math.inf])
def test_joint_intervals_hold_together(freedom):
    pairs = [(0, 2), (1, 2), (0, 1)]
    found = contrasts([0.0, 0.0, 0.0], COVARIANCE, pairs, 0.9, freedom)
    assert found.joint > found.reach == quantile(0.9, freedom)
    rng = np.random.default_rng(1)
    draws = rng.multivariate_normal(np.zeros(3), COVARIANCE, 50_000)
    if math.isfinite(freedom):
        draws /= np.sqrt(rng.chisquare(freedom, (50_000, 1)) / freedom)
    differences = np.stack([draws[:, a] - draws[:, b] for a, b in pairs], axis=1)
    held = (np.abs(differences) <= found.joint * found.se).all(axis=1).mean()
    assert held == pytest.approx(0.9, abs=0.01)


def test_many_estimates_need_no_matrix_of_their_pairs():
    """Of independent estimates with equal errors: Tukey's range of 60, a t value of it over √2."""
    count = 60
    pairs = list(itertools.combinations(range(count), 2))
    found = contrasts([0.0] * count, np.eye(count), pairs, 0.95, math.inf)
    assert found.se == pytest.approx([math.sqrt(2)] * len(pairs))
    ranges = np.ptp(np.random.default_rng(5).standard_normal((20_000, count)), axis=1)
    assert found.joint == pytest.approx(np.quantile(ranges, 0.95) / math.sqrt(2), rel=0.01)


def test_estimates_of_different_sizes_keep_their_differences():
    """The error of one estimate is a million times that of two which are nearly equal."""
    small = np.array([[1.0, 1 - 1e-9], [1 - 1e-9, 1.0]])
    whole = np.zeros((3, 3))
    whole[:2, :2], whole[2, 2] = small, 1e12
    found = contrasts([0.0] * 3, whole, [(0, 1), (0, 2)], 0.95, math.inf)
    assert found.se[0] == pytest.approx(math.sqrt(2e-9), rel=1e-6)
    assert found.joint == pytest.approx(2.2365, abs=0.03)  # Šidák: two independent ones


# --- intervals that hold at every look ------------------------------------------------------------


@pytest.mark.parametrize("later", [0.25, 1, 4])
def test_by_hand_anytime(later):
    """ρ² = (6 + ln 7) / t*, nearly, at α = e^−3; at t = later t* it is the formula of the paper."""
    confidence = 1 - math.exp(-3)
    u = later * (6 + math.log(7))
    expected = math.sqrt(2 * (u + 1) / u * (0.5 * math.log(u + 1) + 3))
    assert anytime(confidence, math.inf, 50 * later, 50) == pytest.approx(expected)


@pytest.mark.parametrize("freedom", [3, 29])
def test_of_few_clusters_the_tail_is_as_rare(freedom):
    reach = anytime(0.95, freedom, 14, 14)
    same = anytime(0.95, math.inf, 14, 14)
    assert stdtr(freedom, -reach) == pytest.approx(ndtr(-same))
    assert anytime(0.95, 1e6, 14, 14) == pytest.approx(anytime(0.95, math.inf, 14, 14), rel=1e-4)


@pytest.mark.parametrize("few", [False, True])
def test_all_looks_together_hold_the_truth(few):
    """Means of normal days, looked at every day from the fourth; with known or estimated spread."""
    rng = np.random.default_rng(few)
    days = rng.standard_normal((4000, 200))
    count = np.arange(1, 201)
    mean = days.cumsum(axis=1) / count
    left = (days**2).cumsum(axis=1) - count * mean**2
    sd = np.sqrt(left / np.maximum(count - 1, 1))
    distance = (np.abs(mean) * np.sqrt(count))[:, 3:] / (sd[:, 3:] if few else 1.0)
    freedom = [k - 1 if few else math.inf for k in count[3:]]
    reach = [anytime(0.95, f, k, 14) for f, k in zip(freedom, count[3:], strict=True)]
    once = [quantile(0.95, f) for f in freedom]
    assert (distance <= reach).all(axis=1).mean() >= 0.95
    assert (distance <= once).all(axis=1).mean() < 0.75  # whoever peeks


# --- predicted beside measured --------------------------------------------------------------------


@pytest.mark.parametrize("factor", [1.0, 2.0, 5.0])
def test_the_widening_is_found_as_often_as_it_says(factor):
    held = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        own, rest = rng.uniform(0.5, 2, (2, 30))
        drawn = rng.normal(size=30) * np.sqrt(factor**2 * own + rest)
        found: Any = widening(drawn, own, rest, confidence=0.95)
        held += found.low <= factor <= found.high
    assert 180 <= held <= 200


def test_predictions_without_errors_cannot_be_widened():
    assert widening(np.ones(3), np.zeros(3), np.ones(3), 0.95) is None


def test_the_slope_is_not_flattened_by_errors_of_predictions():
    rng = np.random.default_rng(1)
    truth = rng.normal(size=2000)
    x, y = truth + rng.normal(size=2000), 1 + 2 * truth + rng.normal(size=2000)
    variances = np.stack([np.ones(2000), np.ones(2000), np.zeros(2000)])
    found: Any = slope(x, y, variances, 0.95)
    assert np.polyfit(x, y, 1)[0] < 1.2  # as least squares would have it
    assert found.low < 2 < found.high < 2.4


def test_a_mean_difference_is_wider_where_differences_are_beyond_chance():
    """Its variance is theirs by chance times χ² over its degrees of freedom, as of Birge (1932)."""
    found: Any = mean_difference(np.array([0.0, 0.0, 9.0]), np.ones(3), 0.95)
    assert found.value == pytest.approx(3)
    chi = (9 + 9 + 36) / 2
    assert found.high - 3 == pytest.approx(quantile(0.95, math.inf) * math.sqrt(chi / 3))


def test_the_mean_difference_weighs_by_certainty():
    found = mean_difference(np.array([0.0, 10.0]), np.array([1e-6, 100.0]), 0.95)
    assert found.value == pytest.approx(0, abs=1e-3)


# --- intervals of `evaluate` on logs so small that they can be worked out by hand -----------------


NORMAL = 1.959963984540054
A, B = [1, 2], [2, 1]


def ask(**options):
    """Of A alone, on a log of A with clicks 1, 1, 0, 0 and B with 1, 0, 0, 0, each on four days."""
    table = counted(*clicked(A, 2, 4), *clicked(B, 1, 4)) | {"day": [1, 2, 3, 4] * 2}
    new = {"context": ["q"], "items": [A]}
    log = fc.read_log(table, period="day")
    (row,) = fc.evaluate(log, new, metrics="clicks@1", estimators="list", **options)
    return row


def test_of_independent_records_a_list_varies_as_the_mean_of_its_records():
    row = ask(confidence=fc.Confidence(clusters="record"))
    # ψ = (h/π̂)(f − f̄_A) = 2 · (± ½) on four of eight records, 0 on the others.
    influence = 4 * 1 / (8 * 7)
    # S = 1 over four records, s² = ⅓: S̃ = 4 (1 + ⅔) / 5 = 4/3, times W² / n².
    small = 2**2 * (4 / 3 - 1) / 8**2
    assert row["value"] == 0.5
    assert row["se"] == pytest.approx(math.sqrt(influence + small), abs=1e-12)
    # 1.96 standard errors reach below 0, where no click rate is.
    assert row["low"] == 0
    assert row["high"] == pytest.approx(0.5 + NORMAL * row["se"], abs=1e-12)


def test_of_days_with_a_known_logging_policy_the_mean_of_a_day_varies():
    """ψ = W c − V, with W = 1 / π whatever the frequencies are; φ = f − F."""
    row = ask(logging=fc.Lists({"context": ["q"] * 2, "items": [A, B], "probability": [0.4, 0.6]}))
    value, mean = 2 / 0.4 / 8, 3 / 8
    psi = np.array([1, 1, 0, 0]) / 0.4 - 2 * value
    phi = np.array([2, 1, 0, 0]) - 2 * mean
    slopes = (psi - value / mean * phi) / mean  # of V / F
    se, change, lift = (math.sqrt(4 / 3 * np.sum((z / 8) ** 2)) for z in (psi, psi - phi, slopes))
    reach = stdtrit(3, 0.975)
    assert row["value"] == pytest.approx(value)
    assert row["se"] == pytest.approx(se, abs=1e-12)
    assert row["change_high"] == pytest.approx(value - mean + reach * change, abs=1e-12)
    assert row["change_low"] == pytest.approx(value - mean - reach * change, abs=1e-12)
    assert row["lift_low"] == pytest.approx(value / mean - 1 - reach * lift, abs=1e-12)
