"""If this fails, a round of EM does not make the classes of readers that its formulas make.

With w_xj the probability that context x is of class j, and in class j the exposure E_i of pair i
(records times e of its slots), its clicks C_i and m_i = exp(β x_i + l_j) L_x:

| what | formula |
|---|---|
| rates | α_i = (C_i + a) / (E_i + a / m_i) |
| levels of contexts | Σ_i a (C_i − E_i m_i) / (a + E_i m_i) + t (1 − L_x) = 0 |
| level of a class | exp l_j = Σ w C / Σ w E exp(β x) |
| p, with 20 clicks as expected | p_k (Σ w c_k + 20) / (Σ w n e_k α + 20), over that of the first |
| κ | a step of Newton on Σ_x w_x log P(patterns of x) |
| β | a step of Newton on Σ_j Σ_i w a (C − E m) / (a + E m) x − ridge β, levels profiled out |
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import foreclick as fc
from foreclick.batches import batches_of
from foreclick.batches.arrays import Floats
from foreclick.ladder import classes as em
from foreclick.ladder.patterns import (
    INNER_ROUNDS,
    ClassRates,
    Patterns,
    class_rates,
    lists_read,
    log_likelihood,
    posterior,
    start_rates,
)
from foreclick.ladder.rates import RateParameters
from foreclick.ladder.readers import MixedLists, ReaderClasses, class_exposure

A, T, K = 3.0, 4.0, 3
SETTLED = 400
"""Rounds of rates and exposures, each of which is a fixed function of the other."""


@pytest.fixture
def data() -> Patterns:
    """Two contexts of four pairs each, six lists of three, of which one is short."""
    rng = np.random.default_rng(8)
    lists = np.array([[0, 1, 2], [2, 3, 0], [1, 0, 8], [4, 5, 6], [7, 4, 5], [6, 7, 4]])
    n, context = np.array([40.0, 30, 25, 50, 20, 35]), np.array([0, 0, 0, 1, 1, 1])
    hits, last, only = np.zeros((3, 6, K))
    for number, shown in enumerate(lists):
        for _ in range(int(n[number])):
            clicked = np.flatnonzero((rng.random(K) < (0.3, 0.2, 0.15)) & (shown < 8))
            hits[number, clicked] += 1
            last[number, clicked[-1:]] += 1
            only[number, clicked[-1:]] += len(clicked) == 1
    clicks = np.array([hits[lists == pair].sum() for pair in range(8)])
    x = np.column_stack([np.ones(8), rng.normal(0, 0.4, (8, 3))])
    return Patterns(np.repeat([0, 1], 4), clicks, x, lists, context, n, hits, last, only, 2)


@pytest.fixture
def classes() -> ReaderClasses:
    """One by position, one that stops, one of choice."""
    p = np.array([[1.0, 0.7, 0.4], [1.0, 0.9, 0.8], [1.0, 0.8, 0.5]])
    return ReaderClasses(
        p,
        np.array([0, 0.6, 0]),
        np.array([False, False, True]),
        p[0],
        np.array([0.5, 0.3, 0.2]),
        np.array([0.1, -0.2, 0.3]),
        RateParameters(np.array([-1.0, 0.3, -0.2, 0.1]), p[0], A, T),
    )


@pytest.fixture
def weights() -> Floats:
    """Of two contexts and three classes."""
    return np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3]])


def read(classes: ReaderClasses, j: int, rates: list[float]) -> list[float]:
    """How much each position of a list is read in a class."""
    p, kappa = classes.p[j], classes.kappa[j]
    if classes.choice[j]:
        total = 1 + sum(p[k] * rates[k] for k in range(K))
        return [p[k] / total for k in range(K)]
    found, goes_on = [], 1.0
    for k in range(K):
        found.append(p[k] * goes_on)
        goes_on *= 1 - kappa * rates[k]
    return found


def exposure(data: Patterns, classes: ReaderClasses, j: int, alpha: Floats) -> list[float]:
    """E of each pair."""
    found = [0.0] * len(data.clicks)
    for shown, n in zip(data.lists, data.n, strict=True):
        e = read(classes, j, [float(alpha[pair]) for pair in shown])
        for pair, each in zip(shown, e, strict=True):
            if pair < len(found):
                found[pair] += n * each
    return found


def rates_of(data: Patterns, classes: ReaderClasses) -> list[ClassRates]:
    """The rates of every class, settled."""
    found = [start_rates(data, classes.parameters)] * 3
    for _ in range(2):  # of readers by position, levels alone have to settle
        found = [class_rates(data, classes, j, each, SETTLED) for j, each in enumerate(found)]
    return found


@pytest.mark.parametrize("j", range(3))
def test_rates_and_levels_solve_their_equations(data, classes, j):
    found = rates_of(data, classes)[j]
    e = exposure(data, classes, j, found.alpha)
    slope = np.array([T * (1 - level) for level in found.level])
    for i, x in enumerate(data.pair_context):
        expected = np.exp(data.features[i] @ classes.parameters.beta + classes.log_level[j])
        m = expected * found.level[x]
        assert found.alpha[i] == pytest.approx((data.clicks[i] + A) / (e[i] + A / m), rel=1e-9)
        slope[x] += A * (data.clicks[i] - e[i] * m) / (A + e[i] * m)
    assert slope == pytest.approx(0, abs=1e-9)
    assert found.alpha[-1] == 0  # of empty slots


@pytest.mark.parametrize("j", range(3))
def test_they_settle_in_as_many_rounds_as_are_made(data, classes, j):
    """Where items compete, levels once went up and down by half for ever."""
    right, start = rates_of(data, classes)[j], start_rates(data, classes.parameters)
    found = class_rates(data, classes, j, start, INNER_ROUNDS)
    assert found.alpha == pytest.approx(right.alpha, rel=1e-3)
    assert found.level == pytest.approx(right.level, rel=1e-3)


def test_probabilities_of_classes_are_those_of_bayes(classes):
    likelihood = np.log([[0.2, 0.01], [0.1, 0.05], [0.4, 0.02]])
    found, of_contexts = posterior(likelihood, classes.share)
    for x in range(2):
        joint = [float(classes.share[j] * np.exp(likelihood[j, x])) for j in range(3)]
        assert found[x] == pytest.approx([each / sum(joint) for each in joint])
        assert of_contexts[x] == pytest.approx(np.log(sum(joint)))


def test_levels_of_classes_are_clicks_over_those_expected(data, classes, weights):
    rates = rates_of(data, classes)
    found = em._log_levels(data, classes, weights, rates)
    for j in range(3):
        e, clicked, expected = exposure(data, classes, j, rates[j].alpha), 0.0, 0.0
        for i, x in enumerate(data.pair_context):
            clicked += weights[x, j] * data.clicks[i]
            base = np.exp(data.features[i] @ classes.parameters.beta)
            expected += weights[x, j] * e[i] * base
        assert found[j] == pytest.approx(np.log(clicked / expected))


def test_examination_is_moved_by_clicks_over_those_expected(data, classes, weights):
    rates = rates_of(data, classes)
    found = em._maximized(data, classes, weights, rates, accelerate=False)
    for j in range(3):
        clicked, expected = np.full(K, 20.0), np.full(K, 20.0)
        for number, shown in enumerate(data.lists):
            w, alpha = weights[data.list_context[number], j], rates[j].alpha[shown]
            clicked += w * data.hits[number]
            expected += w * data.n[number] * np.array(read(classes, j, list(alpha))) * alpha
        p = classes.p[j] * clicked / expected
        p /= p[0]
        right = np.minimum.accumulate(p) if classes.kappa[j] else p
        assert found.p[j] == pytest.approx(right)
    assert np.array_equal(found.kappa, classes.kappa)


def test_stopping_takes_a_step_of_newton_on_the_likelihood(data, classes, weights):
    """By difference quotients of the likelihood, whose patterns are enumerated elsewhere."""
    alpha, w, step = rates_of(data, classes)[1].alpha, weights[:, 1], 1e-4

    def likelihood(kappa: float) -> float:
        at = replace(classes, kappa=np.array([0, kappa, 0]))
        return float(w @ log_likelihood(data, at, 1, alpha))

    for kappa in (0.55, 0.6, 0.7):
        low, here, high = (likelihood(kappa + move) for move in (-step, 0, step))
        slope, bend = (high - low) / (2 * step), (high - 2 * here + low) / step**2
        right = kappa + np.clip(-slope / bend, -0.15, 0.15)
        at = replace(classes, kappa=np.array([0, kappa, 0]))
        found = em._next_kappa(data, at, 1, w, alpha)
        assert 0.03 < right < 0.999
        assert found == pytest.approx(right, rel=1e-4)


def test_coefficients_take_a_step_of_newton_with_levels_profiled_out(data, classes, weights):
    rates, beta = rates_of(data, classes), classes.parameters.beta
    ridge, contexts = np.array([1e-3, 1, 1, 1]), range(2)
    score, slope = -ridge * beta, np.diag(ridge)
    for j in range(3):
        e = exposure(data, classes, j, rates[j].alpha)
        total, by_level = np.full(2, T), np.zeros((2, 4))
        for i, x in enumerate(data.pair_context):
            z, w = data.features[i], weights[x, j]
            due = e[i] * np.exp(z @ beta + classes.log_level[j]) * rates[j].level[x]
            share = A / (A + due)
            score += w * share * (data.clicks[i] - due) * z
            slope += w * share * due * np.outer(z, z)
            by_level[x] += w * share * due * z
            total[x] += w * share * due
        slope -= sum(np.outer(by_level[x], by_level[x]) / total[x] for x in contexts)
    step = np.linalg.solve(slope, score)
    assert abs(step).max() > 0.01
    found = em._with_coefficients(data, classes, weights, rates).parameters
    assert found.beta == pytest.approx(beta + step * min(1, 0.5 / abs(step).max()))
    assert found.a != A
    assert found.t != T


def test_each_kind_of_class_starts_from_its_own():
    p = np.array([1.0, 0.6, 0.3])
    found = em.start_classes(RateParameters(np.zeros(4), p, A, T))
    assert found.p[0] == pytest.approx(p)
    assert found.p[3] == pytest.approx(p)
    assert list(found.choice) == [False, False, False, True]
    assert list(found.kappa) == [0, 0.7, 0.7, 0]
    assert found.share == pytest.approx(0.25)


# --- how lists are read by rates that are not known ---------------------------------------------


def test_competition_is_that_of_the_mean_over_uncertain_rates():
    """E α_k / (1 + S) over gamma-distributed rates, by a million draws of them."""
    rate, p, shape = np.array([[0.9, 0.5, 0.3]]), np.array([1.0, 0.6, 0.4]), np.array([4.0, 8, 20])
    drawn = np.random.default_rng(5).gamma(shape, rate / shape, (1_000_000, K))
    right = (drawn * p / (1 + drawn @ p)[:, None]).mean(axis=0)
    chooses = ReaderClasses(
        p[None],
        np.zeros(1),
        np.ones(1, bool),
        p,
        np.ones(1),
        np.zeros(1),
        RateParameters(p, p, A, T),
    )
    known = rate[0] * MixedLists(chooses, np.ones((1, 1)), rate).readers()[0] * p
    found = rate[0] * MixedLists(chooses, np.ones((1, 1)), rate, 1 / shape[None]).readers()[0] * p
    assert np.abs(known / right - 1).max() > 0.05
    assert found == pytest.approx(right, rel=0.01)
    assert np.allclose(known[None], class_exposure(chooses, 0, rate) * rate)


def test_rates_are_as_uncertain_as_their_clicks_leave_them():
    """Given C clicks, a rate of Γ(C + a, ·) has the variance 1 / (C + a) over its square."""
    items = [["u", "v", "w"], ["v", "u", "w"], ["u", "w", "v"]] * 2
    clicks = [[1, 0, 0], [1, 0, 0], [0, 0, 0], [0, 1, 0], [0, 0, 0], [1, 0, 0]]
    log = {"context": ["q"] * 6, "items": items, "clicks": clicks}
    (batch,) = batches_of(fc.tally(fc.read_log(log)))
    counted = dict.fromkeys("uvw", 0)
    for shown, row in zip(items, clicks, strict=True):
        for item, click in zip(shown, row, strict=True):
            counted[item] += click
    p = np.array([1.0, 0.6, 0.4])
    parameters = RateParameters(np.array([-1.0, 0, 0, 0]), p, A, T)
    chooses = ReaderClasses(
        p[None], np.zeros(1), np.ones(1, bool), p, np.ones(1), np.zeros(1), parameters
    )
    rate = np.array([0.9, 0.5, 0.3, 0.7])  # the last of an item that the log never showed
    lists = np.array([[0, 3, 1], [2, 1, 0]])
    found = lists_read(batch, "clicks", chooses, chooses, lists, np.zeros(2, int), rate)
    names = [batch.items[int(item)].as_py() for item in batch.pair_item]
    variance = np.array([1 / (A + counted[name]) for name in names] + [1 / A])
    right = MixedLists(chooses, np.ones((1, 2)), rate[lists], variance[lists])
    assert found.readers() == pytest.approx(right.readers())
