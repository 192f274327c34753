"""EM: classes of readers, found by the click patterns of records (Dempster, Laird and Rubin 1977).

E: the probability of each class given the patterns of a context (`patterns`). M: p times observed
over expected clicks, κ by a Newton's step, rates and their level by class, β and strengths in
common. It begins with one class by position, two that stop, and one of choice; small ones are
dropped, and what is left must foretell patterns better than one class alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from foreclick.batches import Batch, Floats, sums
from foreclick.batches.arrays import taken
from foreclick.estimation.fits import FitReport
from foreclick.ladder.patterns import (
    INNER_ROUNDS,
    MOST_RATE,
    ClassRates,
    Patterns,
    Stops,
    class_rates,
    exposures,
    joined,
    log_likelihood,
    patterns,
    posterior,
    start_rates,
)
from foreclick.ladder.rates import RateParameters
from foreclick.ladder.readers import ReaderClasses, class_exposure
from foreclick.ladder.sample import Sample, sampled
from foreclick.ladder.shrinkage import best_strength, negative_binomial_loss
from foreclick.metrics import first_of

LEAST_RECORDS = 5_000
"""Records that a log must have for more than one class."""

EM_RECORDS = 50_000
"""Records of the contexts that EM is fitted to."""

LEAST_SHARE = 0.15
"""A class of a smaller share of records is dropped."""

MOST_ROUNDS, LEAST_ROUNDS, SETTLED = 60, 11, 0.01
"""Rounds of EM, until shares and κ move by less."""

COEFFICIENT_ROUNDS = 1, 3, 5, 8, 11
"""The rounds of EM after which coefficients and strengths are fitted."""

CHOICE_STRENGTH = 5.0
"""t where many choose: a context's clicks move its level and its exposure against each other."""

MOST_CHOOSE = 0.3
"""The share of contexts of choice from which on t is given."""

KAPPA_BOUNDS = 0.03, 0.999
"""κ of a class that stops."""

_LONGEST = 0.5


def binary(batches: Sequence[Batch], reward: str) -> bool:
    """Whether a slot of a record earns 1 or nothing, by itself."""
    return first_of(reward) is None and all(
        bool((batch.reward(reward).value == 1).all()) for batch in batches
    )


class ClassFit(NamedTuple):
    """Classes that were fitted.

    Attributes:
        classes: these.
        weights: Shape (X, J).
        records: Shape (J,): the share of records of each.
        log_likelihood: of all records.
        report: how EM ended.
    """

    classes: ReaderClasses
    weights: Floats
    records: Floats
    log_likelihood: float
    report: FitReport


def class_patterns(batches: Sequence[Batch], reward: str, sample: Sample) -> Patterns:
    """The patterns of some contexts, with about `EM_RECORDS` records.

    Args:
        batches: the contexts of a sample.
        reward: what is counted.
        sample: how these contexts were drawn.
    """
    share = min(EM_RECORDS / max(sum(float(batch.n.sum()) for batch in batches), 1.0), 1.0)
    fewer = Sample(share * min(sample.probability, 1.0))
    return joined([patterns(sampled(batch, fewer).batch, reward) for batch in batches])


def learnt_classes(
    batches: Sequence[Batch], reward: str, at: RateParameters, sample: Sample
) -> ClassFit | None:
    """The classes of a log; None: all contexts are read in one way, without choice.

    Args:
        batches: the records.
        reward: what is counted.
        at: the parameters if all were read by position.
        sample: how their contexts were drawn.
    """
    records = sum(batch.n.sum() for batch in batches)
    if records < LEAST_RECORDS or not binary(batches, reward):
        return None
    data = class_patterns(batches, reward, sample)
    found = fit_classes(data, start_classes(at))
    large = found.records >= LEAST_SHARE
    found = found._replace(classes=found.classes.some(large), records=found.records[large])
    if len(found.records) > 1:
        found = _or_one_class(data, at, found)
    several = len(found.records) > 1 or bool(found.classes.choice[0])
    return found if several and not (len(found.records) == 1 and _all_stop(data, at)) else None


def _all_stop(data: Patterns, at: RateParameters) -> bool:
    """Whether one click a list is that of readers who stop there; a choice must be clearly better.

    Where few lists are shown often, as in dense logs, both have nearly the same likelihood.
    """
    stop, choose = (fit_classes(data, start_classes(at).some(np.arange(4) == j)) for j in (1, 3))
    return stop.log_likelihood > choose.log_likelihood - _price(data)


def _price(data: Patterns) -> float:
    """What a class costs by the criterion of Schwarz (1978)."""
    return float(data.lists.shape[1] * np.log(data.n.sum()) / 2)


def _or_one_class(data: Patterns, at: RateParameters, found: ClassFit) -> ClassFit:
    """What was found, or one of its kinds of class alone, by likelihood and price."""
    classes, start = found.classes, start_classes(at)
    kinds = [~classes.choice & (classes.kappa == 0), classes.kappa > 0, classes.choice]
    each = [found]
    for number, kind in zip((0, 1, 3), kinds, strict=True):
        if kind.any():
            each.append(fit_classes(data, start.some(np.arange(4) == number)))
    return max(each, key=lambda fit: fit.log_likelihood - _price(data) * len(fit.records))


def start_classes(at: RateParameters) -> ReaderClasses:
    """Where EM starts: one class by position, two that stop, one of choice."""
    p, k = at.p, np.arange(len(at.p))
    each = np.stack([p, 0.9**k, 0.75**k, p])
    kappa, choice = np.array([0, 0.7, 0.7, 0]), np.array([False, False, False, True])
    return ReaderClasses(each, kappa, choice, p, np.full(4, 0.25), np.zeros(4), at)


def fit_classes(data: Patterns, start: ReaderClasses) -> ClassFit:
    """EM from some classes."""
    classes, count = start, len(start.p)
    n = sums(data.list_context, data.n, data.contexts)
    found = [start_rates(data, start.parameters)] * count
    weights, likelihood = np.full((data.contexts, count), 1 / count), np.zeros(data.contexts)
    moved, iteration = np.inf, 0
    while iteration < MOST_ROUNDS and not (iteration >= LEAST_ROUNDS and moved < SETTLED):
        before = classes
        classes = replace(classes, log_level=_log_levels(data, classes, weights, found))
        inner = 2 if iteration else INNER_ROUNDS
        found = [class_rates(data, classes, j, found[j], inner) for j in range(count)]
        each = [log_likelihood(data, classes, j, of.alpha) for j, of in enumerate(found)]
        if iteration:
            weights, likelihood = posterior(np.stack(each), classes.share)
            share = weights.sum(axis=0) + 0.01
            classes = replace(classes, share=share / share.sum())
        classes = _maximized(data, classes, weights, found, accelerate=iteration > 1)
        if iteration in COEFFICIENT_ROUNDS:
            classes = _with_coefficients(data, classes, weights, found)
        moved = max(
            abs(classes.share - before.share).max(), abs(classes.kappa - before.kappa).max()
        )
        iteration += 1
    records = (weights * n[:, None]).sum(axis=0) / n.sum()
    report = FitReport(bool(moved < SETTLED), iteration)
    return ClassFit(classes, weights, records, float(likelihood.sum()), report)


def _log_levels(
    data: Patterns,
    classes: ReaderClasses,
    weights: Floats,
    found: Sequence[ClassRates],
) -> Floats:
    """Shape (J,): the level of the rates of each class, clicks over those expected."""
    levels, base = np.zeros(len(classes.p)), data.expected(classes.parameters.beta)
    for j, own in enumerate(found):
        exposed = exposures(data, classes, j, own.alpha)
        weight = taken(weights[:, j], data.pair_context)
        expected = max(float(weight @ (exposed * base)), 1e-9)
        levels[j] = np.log(max(float(weight @ data.clicks), 1e-9) / expected)
    return levels


def _maximized(
    data: Patterns,
    classes: ReaderClasses,
    weights: Floats,
    found: Sequence[ClassRates],
    *,
    accelerate: bool,
) -> ReaderClasses:
    """The M-step: p, times observed over expected clicks; κ, a Newton's step."""
    p, kappa = classes.p.copy(), classes.kappa.copy()
    for j, own in enumerate(found):
        rate, weight = own.alpha[data.lists], taken(weights[:, j], data.list_context)
        expected = (weight * data.n) @ (class_exposure(classes, j, rate) * rate)
        step = (weight @ data.hits + 20) / (expected + 20)
        plain = not classes.choice[j] and not kappa[j]
        p[j] *= step ** (1.8 if plain and accelerate else 1.0)
        p[j] = np.maximum(p[j] / p[j, 0], 1e-3)
        if kappa[j]:  # nobody comes back
            p[j] = np.minimum.accumulate(p[j])
        if kappa[j] and accelerate:
            kappa[j] = _next_kappa(data, replace(classes, p=p), j, weights[:, j], own.alpha)
    return replace(classes, p=p, kappa=kappa)


def _next_kappa(
    data: Patterns, classes: ReaderClasses, number: int, weight: Floats, alpha: Floats
) -> float:
    """κ, by a Newton's step: what follows last clicks, against clicks that others follow."""
    kappa, rate = float(classes.kappa[number]), np.minimum(alpha[data.lists], MOST_RATE)
    below = Stops.of(classes.p[number], rate).unclicked
    last = data.last * taken(weight, data.list_context)[:, None]
    more = float(taken(weight, data.list_context) @ (data.hits - data.last).sum(axis=1))
    each = (1 - below) / (kappa + (1 - kappa) * below)
    score = (last * each).sum() - more / (1 - kappa)
    slope = (last * each**2).sum() + more / (1 - kappa) ** 2
    return float(np.clip(kappa + np.clip(score / max(slope, 1e-9), -0.15, 0.15), *KAPPA_BOUNDS))


def _with_coefficients(
    data: Patterns,
    classes: ReaderClasses,
    weights: Floats,
    found: Sequence[ClassRates],
) -> ReaderClasses:
    """With a Newton's step of β by the score Σ x w (C − E m) / (1 + E m / a), and strengths.

    Here luck in features does no harm: what is asked is how lists are read.
    """
    at, context = classes.parameters, data.pair_context
    base, x = data.expected(at.beta), data.features[:, : len(at.beta)].T
    mean, score = np.zeros(len(base)), np.zeros(len(x))
    slope = np.diag([1e-3, *np.ones(len(x) - 1)])
    score -= np.diag(slope) * at.beta
    of_contexts = np.zeros((2, data.contexts))
    for j, own in enumerate(found):
        exposed = exposures(data, classes, j, own.alpha)
        weight, level = taken(weights[:, j], context), taken(own.level, context)
        due = exposed * base * np.exp(classes.log_level[j]) * level
        share = at.a / (at.a + due)
        mean += weight * due
        score += x @ (weight * share * (data.clicks - due))
        spread = weight * share * due
        by_level = np.stack([sums(context, spread * each, data.contexts) for each in x])
        total = by_level[0] + at.t
        slope += (x * spread) @ x.T - (by_level / total) @ by_level.T
        of_contexts += [
            sums(context, weight * share * data.clicks, data.contexts),
            sums(context, weight * share * due / level, data.contexts),
        ]
    step = np.linalg.solve(slope, score)
    beta = at.beta + step * min(1.0, _LONGEST / max(float(abs(step).max()), 1e-300))
    a = best_strength(negative_binomial_loss(data.clicks, mean))
    chosen = weights[:, classes.choice].sum() > MOST_CHOOSE * data.contexts
    t = CHOICE_STRENGTH if chosen else best_strength(negative_binomial_loss(*of_contexts))
    return replace(classes, parameters=replace(at, beta=beta, a=a, t=t))
