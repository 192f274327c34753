"""Readers who stop: which share κ of the clicks on an item ends the reading.

Everybody who looks at a list looks at its first result. Records of a context in which it was
clicked have C clicks below, the others C', where the rates of what stands there expect m and m'. If
a click ended no reading,

    D = C' m / m'

clicks would be expected below the first results that were clicked, so C / D estimates 1 − κ. With
the weights of Mantel and Haenszel, contexts with few records do no harm, and their test says
whether κ may be 0. Lists that react to clicks do not disturb it, and readers who differ make κ
smaller, never larger. Further down, those who have left already would be taken for readers who did
not click.

1 − κ differs between contexts, and between the items of a context, as far as the log shows:
Γ-distributed around that of the log, and around that of the context. Where contexts differ much, or
nearly every click ends the reading, lists may be read in several ways, or items may compete
(`readers`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from foreclick.allowances import STOPPING_ERROR
from foreclick.batches import EMPTY, Batch, Floats, Ints, ratio, sums
from foreclick.estimation.fits import ALARM
from foreclick.kept import kept
from foreclick.ladder.features import expected_by_production
from foreclick.ladder.patterns import lists_read, mixed_rates, readers_before
from foreclick.ladder.rates import RateParameters, rates
from foreclick.ladder.readers import ListReading, ReaderClasses
from foreclick.ladder.shrinkage import (
    GAIN,
    best_strength,
    negative_binomial_loss,
    poisson_loss,
)

FEWEST = 0.02
"""The least share of readers who go on below an item, so that no examination is 0."""

LEAST_STOPPING = 0.05
"""A smaller κ counts as 0."""


VARIED = 5.0
"""Contexts hold to κ by a smaller strength where they are read in several ways: 3 in `kinds` of the
exam; 8 in a simulated log whose readers all stop. Chosen between the two;
whether classes help there was not measured."""

FEW_GO_ON = 0.2
"""Where a smaller share of clicks is followed by others, items may compete for one click."""


class FirstClicks(NamedTuple):
    """What follows clicks on first results.

    Attributes:
        clicks: Shape (P,): C, clicks below, of the pair that stands first.
        expected: Shape (P,): D, those expected if no click ends the reading.
        spread: Σ b and Σ b², of the clicks b below a first result that was clicked.
        variance: of Σ C − Σ D if no click ends the reading and clicks do not come together.
    """

    clicks: Floats
    expected: Floats
    spread: Floats
    variance: float


def first_clicks(batch: Batch, reward: str, rate: Floats) -> FirstClicks:
    """What follows clicks on first results; `rate`, (L, K), is what each slot is expected to earn.

    Whatever a record earns at its first position counts as one click there.
    """
    row, position, value = batch.reward(reward)
    top, rows = position == 0, len(batch.n)
    clicked = (sums(row[top], value[top] > 0, rows) > 0).astype(np.float64)
    below = sums(row[~top], value[~top], rows)

    def by_list(values: Floats) -> Floats:
        return sums(batch.row_list, batch.n * values, len(batch.lists))

    def by_context(values: Floats) -> Floats:
        return sums(batch.list_context, values, batch.context_count)

    of_list, after = rate[:, 1:].sum(axis=1), by_list(clicked)
    clicked_mean, other_mean = (
        by_context(after * of_list),
        by_context((batch.list_n - after) * of_list),
    )
    share = ratio(other_mean, clicked_mean + other_mean)
    level = ratio(by_context(by_list((1 - clicked) * below)), clicked_mean + other_mean)
    first = batch.lists[:, 0]
    some = first != EMPTY
    clicks, expected = (
        sums(first[some], values[some], batch.pair_count)
        for values in (
            by_list(clicked * below) * share[batch.list_context],
            after * of_list * level[batch.list_context],
        )
    )
    records, other = batch.n * clicked, share[batch.pair_context]
    spread = np.array([records @ below, records @ below**2])
    return FirstClicks(clicks, expected, spread, float(clicks @ (1 - other) + expected @ other))


class Stopping(NamedTuple):
    """How readers stop.

    Attributes:
        goes_on: 1 − κ of the whole log.
        context, pair: the strengths by which contexts and pairs hold to it; infinite if all do.
        spread: how many clicks count as one, since those of a record come together.
        sd: the standard deviation of κ, of itself.
    """

    goes_on: float
    context: float = math.inf
    pair: float = math.inf
    spread: float = 1.0
    sd: float = 0.0

    @property
    def mean(self) -> float:
        """κ of the whole log."""
        return 1 - self.goes_on

    @property
    def uniform(self) -> bool:
        """Whether all contexts and pairs have the same κ."""
        return math.isinf(self.context) and math.isinf(self.pair)

    @property
    def differs(self) -> bool:
        """Whether lists may be read in several ways: contexts differ, or hardly anyone goes on."""
        return self.context < VARIED or self.goes_on < FEW_GO_ON

    def kappa(self, firsts: FirstClicks, owner: Ints, count: int) -> tuple[Floats, Floats]:
        """κ of pairs that belong to these of `count` contexts, (P,); and of the contexts, (X,)."""
        clicks, expected = firsts.clicks / self.spread, firsts.expected / self.spread
        of_log = np.full(count, self.goes_on)
        of_context = _shrunk(
            sums(owner, clicks, count), sums(owner, expected, count), of_log, self.context
        )
        of_pair = _shrunk(clicks, expected, of_context[owner], self.pair)
        return np.clip(1 - of_pair, 0.0, 1.0), np.clip(1 - of_context, 0.0, 1.0)


def _shrunk(clicks: Floats, expected: Floats, mean: Floats, strength: float) -> Floats:
    """Clicks over those expected, shrunk to a mean by a strength."""
    return mean if math.isinf(strength) else (clicks + strength) / (expected + strength / mean)


def learnt_stopping(firsts: Sequence[FirstClicks], owners: Sequence[Ints]) -> Stopping | None:
    """How readers stop, by the first clicks of all batches; None if the test does not find it.

    Args:
        firsts: of each batch.
        owners: Shape (P,) each: the contexts of its pairs.
    """
    spread = _clicks_at_once(firsts)
    clicks = np.concatenate([each.clicks for each in firsts]) / spread
    expected = np.concatenate([each.expected for each in firsts]) / spread
    if not expected.sum() > 0:
        return None
    sizes = [int(owner.max(initial=-1)) + 1 for owner in owners]
    starts = np.cumsum([0, *sizes])
    owner = np.concatenate([each + at for each, at in zip(owners, starts[:-1], strict=True)])
    mean = float(np.clip(clicks.sum() / expected.sum(), 1e-3, 1.0))
    whole = [sums(owner, each, int(starts[-1])) for each in (clicks, expected)]
    context = _strength(whole[0], mean * whole[1])
    of_context = _shrunk(whole[0], whole[1], np.full(len(whole[0]), mean), context)[owner]
    pair = _strength(clicks, of_context * expected)
    stop = np.clip(1 - _shrunk(clicks, expected, of_context, pair), 0.0, 1.0)
    kappa = float(stop @ expected / expected.sum())
    variance = sum(each.variance for each in firsts) / spread
    fewer = max(float(expected.sum() - clicks.sum()), 0.0)
    if fewer**2 <= 2 * GAIN * variance or kappa < LEAST_STOPPING:
        return None
    error = mean * math.sqrt(1 / max(clicks.sum(), 1.0) + 1 / expected.sum())
    return Stopping(mean, context, pair, spread, math.hypot(STOPPING_ERROR, error / kappa))


def clicks_together(firsts: Sequence[FirstClicks]) -> float:
    """By which share more clicks follow first ones than expected; 0 where it may be chance.

    Readers differ, or a click leads them on: no log tells which, and only the second moves answers.
    """
    clicks, expected, variance = (
        sum(float(np.sum(each)) for each in values)
        for values in zip(*((f.clicks, f.expected, f.variance) for f in firsts), strict=True)
    )
    sd = math.sqrt(variance * _clicks_at_once(firsts))
    return clicks / expected - 1 if clicks - expected > ALARM * sd > 0 else 0.0


def _clicks_at_once(firsts: Sequence[FirstClicks]) -> float:
    """How many clicks count as one, since those of a record come together."""
    total, square = np.sum([each.spread for each in firsts], axis=0)
    return max(float(square / total), 1.0) if total > 0 else 1.0


def _strength(clicks: Floats, mean: Floats) -> float:
    """The strength by which counts hold to their means; infinite if all do.

    Counts have no information where nothing is expected, because nobody clicked below other first
    results.
    """
    clicks, mean = clicks[mean > 0], mean[mean > 0]
    loss = negative_binomial_loss(clicks, mean)
    strength = best_strength(loss)
    return math.inf if poisson_loss(clicks, mean) - loss(math.log(strength)) <= GAIN else strength


@dataclass(frozen=True, eq=False)
class StoppedLists:
    """Lists of readers who stop at items, as `ListReading`.

    Attributes:
        lists: Shape (L, K): the item at each position, `EMPTY` where nothing is shown.
        mu: Shape (Q,): the rate of each item.
        kappa: Shape (Q,): how often a click on each item ends the reading.
    """

    lists: Ints
    mu: Floats
    kappa: Floats

    def readers(self) -> Floats:
        """Shape (L, K): which share of those who look at a list get as far as each position."""
        going_on = np.maximum(1 - self.kappa * np.clip(self.mu, 0, 1), FEWEST)
        share = np.ones(self.lists.shape)
        # Nobody stops at nothing: `EMPTY` is the number of the last.
        np.cumprod(np.append(going_on, 1.0)[self.lists[:, :-1]], axis=1, out=share[:, 1:])
        return share

    def by_kappa(self) -> Floats:
        """Shape (L, K): the derivative of the logarithm of readers by that of κ."""
        stop = self.kappa * np.clip(self.mu, 0, 1)
        lost = np.append(stop / np.maximum(1 - stop, FEWEST), 0.0)[self.lists[:, :-1]]
        slope = np.zeros(self.lists.shape)
        slope[:, 1:] = -np.cumsum(lost, axis=1)
        return slope

    def by_rate(self, values: Floats) -> Floats:
        """Shape (L, K): the derivative of Σ values by the rate of the item at each position."""
        lost = self.kappa / np.maximum(1 - self.kappa * np.clip(self.mu, 0, 1), FEWEST)
        below = np.cumsum(values[:, ::-1], axis=1)[:, ::-1] - values
        return np.asarray(-below * np.append(lost, 0.0)[self.lists])


# --- readers of the log's lists -------------------------------------------------------------------


@dataclass(frozen=True)
class Reading:
    """How far readers of the log's lists get: they stop at items by the rates of earlier rounds.

    Attributes:
        reward: what is counted.
        unit: what of the reward counts as one click.
        stopping: how readers stop; None if they do not, or by class.
        rounds: the parameters of the rounds of the fit before, the last one last.
        classes: in which ways contexts are read; None: all in one, without choice.
    """

    reward: str
    unit: float
    stopping: Stopping | None = None
    rounds: tuple[RateParameters, ...] = ()
    classes: ReaderClasses | None = None

    @property
    def mixed(self) -> bool:
        """Whether contexts are read in several ways, or items compete."""
        return self.classes is not None

    @property
    def choice(self) -> bool:
        """Whether items compete in any class."""
        return self.classes is not None and bool(self.classes.choice.any())

    @property
    def by_list(self) -> bool:
        """Whether readers depend on what stands above, or on all of the list."""
        return self.stopping is not None or self.classes is not None

    @property
    def before(self) -> Reading:
        """That of the round before."""
        rounds = self.rounds[:-1]
        return replace(self, rounds=rounds, stopping=self.stopping if rounds else None)

    @property
    def kappa_sd(self) -> float:
        """The standard deviation of κ, of itself."""
        if self.classes is not None:
            return STOPPING_ERROR if self.classes.kappa.any() else 0.0
        return 0.0 if self.stopping is None else self.stopping.sd

    def attraction(self, batch: Batch) -> Floats:
        """Shape (P,): the rates of pairs by the last round, by which readers stop at them."""
        if self.classes is not None:
            return mixed_rates(batch, self.reward, self.classes, self.rounds[-1]).alpha[:-1]
        return pair_rates(batch, self.before, self.rounds[-1])

    def kappa(self, batch: Batch) -> tuple[Floats, Floats]:
        """κ of pairs, (P,), and of contexts, (X,)."""
        stopping, owner, count = self.stopping, batch.pair_context, batch.context_count
        if stopping is None:
            return np.zeros(len(owner)), np.zeros(count)
        if stopping.uniform:
            return np.full(len(owner), stopping.mean), np.full(count, stopping.mean)
        return _kappa(batch, self, stopping)

    def of_log(self, batch: Batch, kappa_factor: float = 1.0) -> ListReading:
        """How the log's lists are read, where that depends on them; κ times a factor."""
        rate = self.attraction(batch)
        return self.of_lists(
            batch, batch.lists, batch.list_context, rate, self.kappa(batch)[0], kappa_factor
        )

    def of_lists(
        self,
        batch: Batch,
        lists: Ints,
        context: Ints,
        rate: Floats,
        kappa: Floats,
        kappa_factor: float = 1.0,
    ) -> ListReading:
        """How lists are read, where that depends on them.

        Args:
            batch: the records of their contexts.
            lists: Shape (A, K): pairs, of Q.
            context: Shape (A,).
            rate: Shape (Q,): of pairs.
            kappa: Shape (Q,): of pairs, if there are no classes.
            kappa_factor: κ is taken to be so many times as large.
        """
        if self.classes is not None:
            of_classes = self.classes.with_kappa(kappa_factor)
            return lists_read(batch, self.reward, self.classes, of_classes, lists, context, rate)
        return StoppedLists(lists, rate, np.minimum(kappa_factor * kappa, 1.0))

    def readers(self, batch: Batch, kappa_factor: float = 1.0) -> Floats | None:
        """Shape (L, K): which share of readers gets as far as each slot; None: all.

        Args:
            batch: the records.
            kappa_factor: κ is taken to be so many times as large.
        """
        return self.of_log(batch, kappa_factor).readers() if self.by_list else None

    def readers_by_day(self, batch: Batch, kappa_factor: float = 1.0) -> Floats | None:
        """Shape (Z, K): that of lists on each day, by what was known before it.

        None without classes, and where items compete: there levels of the whole log decide most.

        Args:
            batch: the records, with days.
            kappa_factor: κ is taken to be so many times as large.
        """
        if self.classes is None or self.choice:
            return None
        classes = self.classes.with_kappa(kappa_factor)
        return readers_before(batch, self.reward, self.classes, classes, self.rounds[-1])


@kept
def pair_rates(batch: Batch, reading: Reading, parameters: RateParameters) -> Floats:
    """Shape (P,): the rates of pairs by production's rank features."""
    earned = batch.reward(reading.reward)
    value = earned.value * batch.n[earned.row] / reading.unit
    clicks = batch.by_slot(batch.earned_slot(earned), value).sum(axis=1)
    read, p = reading.readers(batch), parameters.p
    if read is None:
        exposure = batch.shown @ p
    else:
        shown = batch.lists != EMPTY
        examined = (read * p * batch.list_n[:, None])[shown]
        exposure = sums(batch.lists[shown], examined, batch.pair_count)
    expected = expected_by_production(batch, parameters.beta)
    where = batch.pair_context, batch.context_count
    return rates(*where, clicks, exposure, expected, parameters).alpha


@kept
def first_clicks_of(batch: Batch, reading: Reading, parameters: RateParameters) -> FirstClicks:
    """What follows first clicks, beside what these rates expect."""
    alpha = np.append(pair_rates(batch, reading, parameters), 0.0)
    return first_clicks(batch, reading.reward, alpha[batch.lists] * parameters.p)


@kept
def _kappa(batch: Batch, reading: Reading, stopping: Stopping) -> tuple[Floats, Floats]:
    firsts = first_clicks_of(batch, reading.before, reading.rounds[-1])
    return stopping.kappa(firsts, batch.pair_context, batch.context_count)
