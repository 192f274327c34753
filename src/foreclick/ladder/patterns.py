"""Click patterns of records: what they say of rates, and of how lists are read, by class.

Rates α are those of the ladder, by the exposures of each class: α = (C + a) / (E + a / m). They
decide exposures in turn. Contexts are independent given what classes share, so rates and the
probabilities of classes follow from a context's own records, whatever else is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from foreclick.batches import EMPTY, Batch, Bools, Floats, Ints, ratio, sums
from foreclick.batches.arrays import taken
from foreclick.kept import kept
from foreclick.ladder.features import (
    WITH_RISE,
    bounded_rates,
    expected_by_production,
    pair_days,
    production_powers,
)
from foreclick.ladder.rates import RateParameters
from foreclick.ladder.readers import MixedLists, ReaderClasses, class_exposure

INNER_ROUNDS = 8
"""Rounds of rates and exposures, which depend on each other, for one context's records."""

LEVEL_STEPS = 3
"""Newton's steps of levels in each of them."""

OTHERWISE = 0.01
"""The share of records of the class "choice" that are clicked by position: more than one click."""

LEAST_RATE, MOST_RATE = 1e-6, 0.97
"""Bounds of click rates in likelihoods: no record excludes a class."""

_LONGEST = 0.5
_MOST_VARIANCE = 1.0  # of a rate, over its square; a correction of second order holds no further
_MOST_AGAIN = 0.9  # of a change of exposures that comes back as another one


class Patterns(NamedTuple):
    """The click patterns of the records of X contexts, as far as likelihoods need them.

    Attributes:
        pair_context: Shape (P,); `clicks`: Shape (P,): C.
        features: Shape (P, 5): powers of production's, and its rise.
        lists: Shape (L, K): the pair of each slot; P where nothing is shown.
        list_context, n: Shape (L,): context, and records.
        hits: Shape (L, K): clicks.
        last, only: Shape (L, K): records whose last click, and whose only click, is there.
        contexts: X.
    """

    pair_context: Ints
    clicks: Floats
    features: Floats
    lists: Ints
    list_context: Ints
    n: Floats
    hits: Floats
    last: Floats
    only: Floats
    contexts: int

    def expected(self, beta: Floats) -> Floats:
        """Shape (P,): exp(β x)."""
        return bounded_rates(self.features[:, : len(beta)] @ beta)

    def mean_over_records(self, values: Floats) -> Floats:
        """Shape (X,): the mean over the records of each context, of values of lists, (L,)."""
        n, context = self.n, self.list_context
        total = sums(context, values * n, self.contexts)
        return np.asarray(ratio(total, sums(context, n, self.contexts)))


class Competition(NamedTuple):
    """How the items of lists compete: exposures fall as 1 / (1 + S), with S = Σ p α of a list.

    Attributes:
        weights: Shape (J, L): the probability of each class of choice.
        p: Shape (J, K): its examination.
    """

    weights: Floats
    p: Floats

    def totals(self, data: Patterns, rate: Floats) -> Floats:
        """Shape (X,): the mean of log(1 + S) over the records of contexts, by rates (L, K)."""
        return data.mean_over_records((self.weights * np.log1p(self.p @ rate.T)).sum(axis=0))

    def slope(self, data: Patterns, rate: Floats, moved: Floats) -> Floats:
        """Shape (X,): how far these means move if rates move by `moved`, (L, K)."""
        each = self.weights * (self.p @ moved.T) / (1 + self.p @ rate.T)
        return data.mean_over_records(each.sum(axis=0))


@kept
def pair_clicks(batch: Batch, reward: str) -> Floats:
    """Shape (P,): C."""
    row, position, _ = batch.reward(reward)
    return sums(batch.lists[batch.row_list[row], position], batch.n[row], batch.pair_count)


def patterns(batch: Batch, reward: str) -> Patterns:
    """Those of a batch."""
    row, position, _ = batch.reward(reward)
    size, k = len(batch.lists), batch.depth
    slot, n = batch.row_list[row].astype(np.int64) * k + position, batch.n[row]
    first, last = np.ones((2, len(row)), dtype=np.bool_)
    first[1:] = last[:-1] = row[1:] != row[:-1]

    def by_slot(some: Bools) -> Floats:
        return sums(slot[some], n[some], size * k).reshape(size, k)

    hits = by_slot(np.ones(len(row), dtype=np.bool_))
    lists = np.where(batch.lists == EMPTY, batch.pair_count, batch.lists)
    return Patterns(
        batch.pair_context.astype(np.intp),
        pair_clicks(batch, reward),
        production_powers(batch, WITH_RISE).T,
        lists.astype(np.intp),
        batch.list_context.astype(np.intp),
        batch.list_n,
        hits,
        by_slot(last),
        by_slot(first & last),
        batch.context_count,
    )


def joined(parts: Sequence[Patterns]) -> Patterns:
    """The patterns of several batches."""
    pairs = np.cumsum([0, *(len(part.clicks) for part in parts)])
    contexts = np.cumsum([0, *(part.contexts for part in parts)])
    moved = [
        part._replace(
            pair_context=part.pair_context + context,
            lists=np.where(part.lists == len(part.clicks), pairs[-1], part.lists + pair),
            list_context=part.list_context + context,
        )
        for part, pair, context in zip(parts, pairs, contexts, strict=False)
    ]
    each = (np.concatenate(arrays) for arrays in zip(*(part[:-1] for part in moved), strict=True))
    return Patterns._make([*each, int(contexts[-1])])


class ClassRates(NamedTuple):
    """Rates of pairs in one class, or in all.

    Attributes:
        alpha: Shape (P + 1,): α; the last is 0, of empty slots.
        level: Shape (X,): L.
    """

    alpha: Floats
    level: Floats


def start_rates(data: Patterns, parameters: RateParameters) -> ClassRates:
    """Those that features expect."""
    expected = data.expected(parameters.beta)
    return ClassRates(np.append(expected, 0.0), np.ones(data.contexts))


def exposures(data: Patterns, classes: ReaderClasses, number: int, alpha: Floats) -> Floats:
    """Shape (P,): the exposure of pairs in one class."""
    exposure = class_exposure(classes, number, alpha[data.lists])
    return sums(data.lists, exposure * data.n[:, None], len(alpha))[:-1]


def class_rates(
    data: Patterns, classes: ReaderClasses, number: int, start: ClassRates, rounds: int
) -> ClassRates:
    """Rates by the exposures of one class, which these rates decide."""
    base = data.expected(classes.parameters.beta) * np.exp(classes.log_level[number])
    found, chosen = start, classes.choice[[number]]
    competition = Competition(np.ones((1, len(data.n)))[chosen], classes.p[[number]][chosen])
    if not classes.choice[number] and not classes.kappa[number]:
        rounds = 1
    for _ in range(rounds):
        exposure = class_exposure(classes, number, found.alpha[data.lists])
        found = _next_rates(data, exposure, base, classes.parameters, found, competition)
    return found


def _next_rates(
    data: Patterns,
    exposure: Floats,
    base: Floats,
    at: RateParameters,
    before: ClassRates,
    competition: Competition,
) -> ClassRates:
    """Rates by the exposures (L, K) of those before.

    Where items compete, these rates change exposures, which would change rates again. All of that
    is foreseen: if log E falls by d, and each fall brings the share s of it again, it falls by
    d / (1 − s) in the end.
    """
    a, context, level = at.a, data.pair_context, before.level
    exposed = sums(data.lists, exposure * data.n[:, None], len(before.alpha))[:-1]
    due = exposed * base
    spread = due * (1 + data.clicks / a)
    for _ in range(LEVEL_STEPS):  # Newton's, as of `rates.rates`
        share = a / (a + due * taken(level, context))
        residual = data.clicks * share - (a - a * share)  # share (C − E m)
        residual = sums(context, residual, data.contexts) + at.t * (1 - level)
        slope = sums(context, share * share * spread, data.contexts) + at.t
        level = level + np.maximum(residual / slope, -0.9 * level)
    prior = a / (base * taken(level, context))
    alpha = (data.clicks + a) / (exposed + prior)
    if len(competition.p):
        by_level = 1 - at.t / slope  # of log L, as log E falls
        by_rate = 1 - prior / (exposed + prior) * taken(at.t / slope, context)  # of log α
        rate = np.append(alpha, 0.0)[data.lists]
        moved = np.append(alpha * by_rate, 0.0)[data.lists]
        fall = competition.totals(data, rate)
        fall -= competition.totals(data, before.alpha[data.lists])
        again = np.minimum(competition.slope(data, rate, moved), _MOST_AGAIN)
        fall = np.clip(fall / (1 - again), -_LONGEST, _LONGEST)
        level = level * np.exp(by_level * fall)
        alpha = alpha * np.exp(by_rate * taken(fall, context))
    return ClassRates(np.append(alpha, 0.0), level)


def log_likelihood(data: Patterns, classes: ReaderClasses, number: int, alpha: Floats) -> Floats:
    """Shape (X,): the log likelihood of the patterns of each context in one class."""
    p, rate = classes.p[number], alpha[data.lists]
    if classes.choice[number]:
        found = _choice_likelihood(data, p, rate)
    elif classes.kappa[number] > 0:
        kappa = float(classes.kappa[number])
        found = _stop_likelihood(data, p, kappa, np.minimum(rate, MOST_RATE))
    else:
        found = _position_likelihood(np.minimum(p * rate, MOST_RATE), data.n, data.hits)
    return sums(data.list_context, found, data.contexts)


def _position_likelihood(q: Floats, n: Floats, hits: Floats) -> Floats:
    """Shape (L,): of independent clicks of rates q, (L, K)."""
    none = np.log1p(-q)
    odds = np.log(np.maximum(q, LEAST_RATE)) - none
    return np.asarray(n * none.sum(axis=1) + (hits * odds).sum(axis=1))


def _choice_likelihood(data: Patterns, p: Floats, rate: Floats) -> Floats:
    """Shape (L,): where one item of a list is clicked, or none; others click by position."""
    weight = p * rate
    total = np.log1p(weight.sum(axis=1))
    q = np.minimum(weight / np.exp(total)[:, None], MOST_RATE)
    none = np.log1p(-q)
    odds = np.log(np.maximum(q, LEAST_RATE)) - none
    unread = none.sum(axis=1)
    one = np.log(np.maximum(weight, LEAST_RATE)) - total[:, None]
    one = np.logaddexp(one, np.log(OTHERWISE) + unread[:, None] + odds)
    several, more = (data.last - data.only).sum(axis=1), data.hits - data.only
    found = -(data.n - data.last.sum(axis=1)) * total + (data.only * one).sum(axis=1)
    return np.asarray(found + several * (np.log(OTHERWISE) + unread) + (more * odds).sum(axis=1))


class Stops(NamedTuple):
    """Patterns of readers who go on with g = p_{k+1} / p_k, and stop at clicks with κ.

    Attributes:
        unclicked: Shape (L, K): the probability of no click further down, given that it is read.
        reaching: Shape (L, K): log probability of no click above, and of reading as far.
    """

    unclicked: Floats
    reaching: Floats

    @classmethod
    def of(cls, p: Floats, rate: Floats) -> Stops:
        """By rates (L, K)."""
        goes_on = np.minimum(p[1:] / p[:-1], 1.0)
        below, reaching = np.ones(rate.shape), np.zeros(rate.shape)
        for k in range(len(p) - 2, -1, -1):
            none = (1 - rate[:, k + 1]) * below[:, k + 1]
            below[:, k] = 1 - goes_on[k] + goes_on[k] * none
        np.cumsum(np.log1p(-rate[:, :-1]) + np.log(goes_on), axis=1, out=reaching[:, 1:])
        return cls(below, reaching)


def _stop_likelihood(data: Patterns, p: Floats, kappa: float, rate: Floats) -> Floats:
    """Shape (L,): where readers stop at clicks."""
    stops, clicked = Stops.of(p, rate), data.last.sum(axis=1)
    none = np.log1p(-rate)
    none_at_all = np.log(np.maximum((1 - rate[:, 0]) * stops.unclicked[:, 0], 1e-300))
    odds = np.log(np.maximum(rate, LEAST_RATE)) - none
    ends = np.log(kappa + (1 - kappa) * stops.unclicked) + stops.reaching + none
    found = (data.n - clicked) * none_at_all + (data.hits * odds).sum(axis=1)
    found += (data.last * ends).sum(axis=1)
    return np.asarray(found + (data.hits.sum(axis=1) - clicked) * np.log(1 - kappa))


def posterior(likelihood: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Shape (X, J): the probabilities of classes by likelihoods (J, X); and (X,): of contexts."""
    joint = likelihood + np.log(np.maximum(share, 1e-300))[:, None]
    most = joint.max(axis=0)
    each = np.exp(joint - most)
    total = each.sum(axis=0)
    return (each / total).T, most + np.log(total)


@kept
def class_weights(batch: Batch, reward: str, classes: ReaderClasses) -> Floats:
    """Shape (X, J): the probability of each class for each context, by its own records."""
    if len(classes.p) == 1:
        return np.ones((batch.context_count, 1))
    data, each = patterns(batch, reward), []
    start = start_rates(data, classes.parameters)
    for j in range(len(classes.p)):
        alpha = class_rates(data, classes, j, start, INNER_ROUNDS).alpha
        each.append(log_likelihood(data, classes, j, alpha))
    return posterior(np.stack(each), classes.share)[0]


def lists_read(
    batch: Batch,
    reward: str,
    found: ReaderClasses,
    classes: ReaderClasses,
    lists: Ints,
    context: Ints,
    rate: Floats,
) -> MixedLists:
    """How lists are read.

    Args:
        batch: the records of their contexts.
        reward: what is counted.
        found: the classes, by which contexts have their probabilities.
        classes: these, or with another κ.
        lists: Shape (A, K): pairs, of Q.
        context: Shape (A,).
        rate: Shape (Q,): of pairs.
    """
    weights = class_weights(batch, reward, found)
    clicks = np.zeros(len(rate))
    clicks[: batch.pair_count] = pair_clicks(batch, reward)
    variance = np.minimum(1 / (found.parameters.a + clicks), _MOST_VARIANCE)  # of Γ(C + a, ·)
    # Nothing has the rate 0: `EMPTY` is the number of the last.
    return MixedLists(
        classes.down_to(lists.shape[1]),
        weights[context].T,
        np.append(rate, 0.0)[lists],
        np.append(variance, 0.0)[lists],
    )


@kept
def mixed_rates(
    batch: Batch, reward: str, classes: ReaderClasses, parameters: RateParameters
) -> ClassRates:
    """Rates of pairs, by exposures which these rates decide."""
    data = patterns(batch, reward)
    base, found = data.expected(parameters.beta), start_rates(data, parameters)
    weights = class_weights(batch, reward, classes)[data.list_context].T
    competition = Competition(weights[classes.choice], classes.p[classes.choice])
    for _ in range(INNER_ROUNDS):
        rate = found.alpha[data.lists]
        exposure = MixedLists(classes, weights, rate).readers() * parameters.p
        found = _next_rates(data, exposure, base, parameters, found, competition)
    return found


@kept
def readers_before(
    batch: Batch,
    reward: str,
    found: ReaderClasses,
    classes: ReaderClasses,
    parameters: RateParameters,
) -> Floats:
    """Shape (Z, K): readers of lists on each day, by the clicks of the days before.

    Rates by all clicks know those of the day, and exposures by them would, too.

    Args:
        batch: the records, with days.
        reward: what is counted.
        found: the classes, by which contexts have their probabilities.
        classes: these, or with another κ.
        parameters: β, p and strengths.
    """
    days, at = pair_days(batch, dated=True), parameters
    lists, count = days.lists, len(days.pair_day)
    row, position, _ = batch.reward(reward)
    clicks = sums(days.cell[lists.of_row[row], position], batch.n[row], count + 1)[:count]
    clicks = days.before(days.by_pair_day(clicks))
    whole = mixed_rates(batch, reward, found, parameters)
    m = expected_by_production(batch, at.beta) * taken(whole.level, batch.pair_context)
    strength = (at.a / m)[days.pair]
    number = np.append(days.pair_day, len(days.pair))[days.cell]
    weights = class_weights(batch, reward, found)[batch.list_context[lists.list]].T
    shown = batch.lists[lists.list]
    rate = whole.alpha[shown]  # nothing has the rate 0: `EMPTY` is the number of the last
    for _ in range(2):
        readers = MixedLists(classes, weights, rate).readers()
        exposed = (readers * at.p * lists.n[:, None]).ravel()
        exposure = days.before(
            days.by_pair_day(sums(days.cell.ravel(), exposed, count + 1)[:count])
        )
        rate = np.append((clicks + at.a) / (exposure + strength), 0.0)[number]
    return MixedLists(classes, weights, rate).readers()
