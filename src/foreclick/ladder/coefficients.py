"""The prior: what both rankers say of an item is what its rate leans on.

A ranker's *word* on a (context, item) pair i is the share s of its lists that have the item, and u,
the mean normal score of its rank above that of the last position (0 where it is not listed). With
production's word p and the candidates' words c,

    log m_i = β · (1, s_p, u_p, s_p², s_c, u_c, s_c s_p, u_c u_p) + log L_x,    L_x ~ Γ(t, t)
    α_i = m_i G_i,  G_i ~ Γ(a, a),       α̂_i = (C_i + a) / (E_i + a / m_i),

of C clicks in E examined records. So the rate of a pair is a rung of strength a / m on top of a
rung of contexts of strength t, whose cells are exposed by m / L.

**Production learns from its clicks.** An item stands high because it was lucky, so the plain score
counts luck twice. But whatever z was known before the clicks of a day, Σ z (c − e α̂) = 0 on
average, if α̂ is what the whole log says of the pair. So β and the examination p of positions are
found by the words as they stood on each day, and by the position. Without days, z is the word of
the whole log: the plain score.

**A candidate was trained on earlier records.** Then all is learnt from later ones. What earlier
records say of a pair, log α̂, is one more word with a coefficient of its own, and what they say of
p is known beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from foreclick.allowances import (
    COEFFICIENT_PRECISION,
    EXAMINATION_PRECISION,
    INTERCEPT_PRECISION,
)
from foreclick.batches import Bools, Floats, Ints, sums
from foreclick.batches.arrays import numbered, value_of_each
from foreclick.estimation.fits import FitReport
from foreclick.ladder.features import (
    CALM,
    Seen,
    Words,
    by_row,
    expected_rates,
)
from foreclick.ladder.shrinkage import best_strength, loss_of, of_counts
from foreclick.policies.base import PolicyTable

ROUNDS = 60
"""Newton's steps that a fit may take: one that needs more has not converged."""

LEVEL_ROUNDS = 60
"""The same for the levels of contexts, given the coefficients."""

_PATIENCE = 20
"""Steps by the slope that clicks have on average; where few clicks decide, it converges slowly."""

_LONGEST = 0.5  # step of a coefficient
_SAME = 1e-11


# --- rates given coefficients ---------------------------------------------------------------------


class Rates(NamedTuple):
    """What the prior says of the pairs of a batch.

    Attributes:
        exposure: Shape (P,): E.
        m: Shape (P,): the prior's mean; `prior_share`: the share of α̂ that it is; `alpha`: α̂.
        level: Shape (X,): L; `weight`: what log L is divided by; `settled`: whether all are found.
    """

    exposure: Floats
    m: Floats
    prior_share: Floats
    alpha: Floats
    level: Floats
    weight: Floats
    settled: bool


def rates(
    context: Ints,
    count: int,
    clicks: Floats,
    exposure: Floats,
    expected: Floats,
    theta: RateParameters,
) -> Rates:
    """The rates of pairs.

    Args:
        context: Shape (P,): the context of each.
        count: how many contexts there are.
        clicks: Shape (P,): C.
        exposure: Shape (P,): E.
        expected: Shape (P,): what β expects.
        theta: a and t.
    """
    a, t = theta.a, theta.t
    level, exposed = np.ones(count), exposure * expected
    settled = False
    for _ in range(LEVEL_ROUNDS):  # Newton's steps: what is left of clicks falls with the level
        prior_share = 1 / (1 + exposed * level[context] / a)
        due = exposed * level[context]
        left = sums(context, prior_share * (clicks - due), count) + t * (1 - level)
        fall = sums(context, prior_share**2 * exposed * (1 + clicks / a), count) + t
        step = np.maximum(left / fall, -0.9 * level)
        level = level + step
        settled = bool((np.abs(step) <= _SAME * level).all())
        if settled:
            break
    m = expected * level[context]
    prior_share = 1 / (1 + exposure * m / a)
    alpha = (clicks + a) / (exposure + a / m)
    weight = sums(context, prior_share * exposure * m, count) + t * level
    return Rates(exposure, m, prior_share, alpha, level, weight, settled)


def moved_rates(
    context: Ints, count: int, r: Rates, x: Floats, by_position: Floats, theta: RateParameters
) -> Floats:
    """Shape (P, F + K − 1): how β and log p move the rate of each pair.

    Args:
        context: Shape (P,): the context of each.
        count: how many contexts there are.
        r: the rates.
        x: Shape (P, F): the words.
        by_position: Shape (P, K): records at each position, as far as they count.
        theta: by which the rates were found.
    """
    from scipy import sparse  # noqa: PLC0415 - slow to import

    share = (r.prior_share * r.m)[:, None]
    exposed = by_position[:, 1:] * theta.p[1:]

    one_each = np.ones(len(context)), context, np.arange(len(context) + 1)
    contexts = sparse.csc_array(one_each, shape=(count, len(context)))

    def at_level(values: Floats) -> Floats:
        return np.asarray((np.asarray(contexts @ values) / r.weight[:, None])[context])

    moved = x - at_level(share * r.exposure[:, None] * x)
    by_word = (r.alpha * r.prior_share)[:, None] * moved
    fell = (r.alpha / (r.exposure + theta.a / r.m))[:, None] * exposed
    by_place = -fell - (r.alpha * r.prior_share)[:, None] * at_level(share * exposed)
    return np.hstack([by_word, by_place])


class Pairs:
    """The pairs of a batch with what is known of them: what coefficients are found by.

    `shown` is Σ d of each pair and position by power of production's word, sparse, shape (P, K),
    and `clicked` Σ c, shape (P, 4); `by_position` is the first of `shown` in full.

    Args:
        of: the pairs by day.
        reward: what is counted.
        unit: what a click is worth.
        exposed: Shape (L, K): the readers of each slot, times what upper rungs pass on; None: 1.
        passed: Shape (L, K): what upper rungs pass on of clicks; None: 1.
        taken: Shape (X,): the contexts that take part.
    """

    def __init__(
        self,
        of: Seen,
        reward: str,
        unit: float,
        taken: Bools,
        exposed: Floats | None = None,
        passed: Floats | None = None,
    ) -> None:
        self.of, batch = of, of.batch
        earned, count = batch.reward(reward), len(of.turn)
        use = batch.n * taken[batch.row_context]
        value = use[earned.row] * earned.value / unit
        line = batch.row_list[earned.row]
        if passed is not None:
            value = value * passed[line, earned.position]
        self.c = sums(of.cell[earned.row, earned.position], value, count + 1)[:count]
        self._use = use
        self.d = self.cell_n
        if exposed is not None:
            self.d = self._by_cell(use[:, None] * exposed[batch.row_list])
        self.turn_c = of.by_turn(self.c)
        self.clicked = of.by_pair(self.turn_c[:, None] * of.word)
        self.clicks = self.clicked[:, 0].copy()
        self.places = sums(of.position, self.c, batch.depth)
        self.words: Words
        self._last: tuple[RateParameters, Rates, Floats] | None
        self._shown()

    def with_words(self, others: Floats) -> Pairs:
        """The same pairs with the words of candidates, shape (C, P, 2), beside production's."""
        pairs = copy(self)
        pairs.words = Words.of(others)
        pairs._last = None  # noqa: SLF001 - of the same class
        return pairs

    def _by_cell(self, values: Floats) -> Floats:
        """Shape (U,): sums of values of slots of rows."""
        of, count = self.of, len(self.of.turn)
        return sums(of.cell.ravel(), values.ravel(), count + 1)[:count]

    @cached_property
    def cell_n(self) -> Floats:
        """Shape (U,): records of each cell."""
        return self._by_cell(np.repeat(self._use, self.of.batch.depth))

    def _shown(self) -> None:
        from scipy import sparse  # noqa: PLC0415 - slow to import

        of, k = self.of, self.of.batch.depth
        first = np.append(of.first_cell, len(self.d))[of.first_turn]
        self.shown: list[Any] = []
        for power in of.word.T:
            # Copies, since the matrix adds up its entries in place.
            each = self.d * power[of.turn], of.position.astype(np.int32), first.astype(np.int32)
            matrix = sparse.csr_array(each, shape=(of.batch.pair_count, k))
            matrix.sum_duplicates()
            self.shown.append(matrix)
        self.by_position = np.asarray(self.shown[0].toarray())

    def rates(self, theta: RateParameters) -> Rates:
        """Rates of all pairs; those of the last θ are kept."""
        return self._at(theta)[0]

    def exposures(self, theta: RateParameters) -> Floats:
        """Shape (P, 4): Σ e of each pair, times the powers of production's word."""
        return self._at(theta)[1]

    def _at(self, theta: RateParameters) -> tuple[Rates, Floats]:
        if self._last is None or self._last[0] is not theta:
            exposures = np.column_stack([shown @ theta.p for shown in self.shown])
            batch, expected = (
                self.of.batch,
                expected_rates(self.of.whole * self.words.weighted(theta.beta), np.ones(4)),
            )
            where = batch.pair_context, batch.context_count
            pair_rates = rates(*where, self.clicks, exposures[:, 0].copy(), expected, theta)
            self._last = theta, pair_rates, exposures
        return self._last[1], self._last[2]

    def turn_e(self, theta: RateParameters) -> Floats:
        """Shape (R,): the exposure of each turn."""
        return self.of.by_turn(self.d * theta.p[self.of.position])

    def turn_m(self, theta: RateParameters) -> Floats:
        """Shape (R,): what β expects of each turn, by production's word up to its day."""
        of = self.of
        return expected_rates(of.word * self.words.weighted(theta.beta)[of.pair], np.ones(4))

    def score(self, theta: RateParameters) -> Floats:
        """Shape (F + K − 1,): Σ z (c − e α̂), of words and of positions below the first."""
        alpha = self.rates(theta).alpha
        left = self.clicked - self.exposures(theta) * alpha[:, None]
        by_word = self.words.sums(left)
        places = self.places - (alpha @ self.by_position) * theta.p
        return np.append(by_word, places[1:])

    def scores(self, left: Floats, turn: Ints) -> Floats:
        """Shape (F, rows): Σ z left, of slots (rows, K) that belong to these turns, or to none."""
        of = self.of
        pair, blocks = np.append(of.pair, of.batch.pair_count)[turn], []
        each = [left * np.append(word, 0.0)[turn] for word in of.word.T]
        for power, _, own in self.words.factors():
            blocks.append(by_row(each[power], pair, own))
        return np.concatenate(blocks)

    def spans(self, theta: RateParameters) -> Floats:
        """Shape (P, F + K − 1): Σ z e, by which the score answers to the rate of each pair."""
        by_word = self.words.columns(self.exposures(theta))
        return np.hstack([by_word, self.by_position[:, 1:] * theta.p[1:]])

    def moves(self, theta: RateParameters) -> Floats:
        """Shape (P, F + K − 1): how β and log p move the rate of each pair."""
        batch, r, x = self.of.batch, self.rates(theta), self.words.columns(self.of.whole)
        where = batch.pair_context, batch.context_count
        return moved_rates(*where, r, x, self.by_position, theta)

    def spread(self, theta: RateParameters) -> Floats:
        """Shape (N, N): the variance of the score, by contexts."""
        of, k, batch = self.of, self.of.batch.depth, self.of.batch
        alpha, context, count = self.rates(theta).alpha, batch.pair_context, batch.context_count
        words = self.words.columns(self.clicked - self.exposures(theta) * alpha[:, None])
        pair = of.pair[of.turn]
        left = self.c - self.d * theta.p[of.position] * alpha[pair]
        places = sums(context[pair] * np.int64(k) + of.position, left, count * k)
        by_word = np.stack([sums(context, own, count) for own in words.T], axis=1)
        score = np.hstack([by_word, places.reshape(count, k)[:, 1:]])
        return np.asarray(score.T @ score)

    def slope(self, theta: RateParameters) -> Floats:
        """Shape (N, N): by how much the score falls with β and log p."""
        f, r, batch, alpha = (
            len(theta.beta),
            self.rates(theta),
            self.of.batch,
            self.rates(theta).alpha,
        )
        where, x = (batch.pair_context, batch.context_count), self.words.columns(self.of.whole)
        jacobian = self.spans(theta).T @ moved_rates(*where, r, x, self.by_position, theta)
        for power, columns, own in self.words.factors():
            due = (self.shown[power].T @ (own * alpha[:, None])).T * theta.p
            jacobian[columns, f:] += due[:, 1:]
        jacobian[f:, f:] += np.diag(((alpha @ self.by_position) * theta.p)[1:])
        return jacobian


@dataclass(frozen=True, eq=False)
class RateParameters:
    """What the prior's pairs share.

    Attributes:
        beta: Shape (F,).
        p: Shape (K,): examination.
        a, t: the strength of a pair, and of a context.
    """

    beta: Floats
    p: Floats
    a: float
    t: float

    def moved(self, step: Floats) -> RateParameters:
        """With β and log p a step further."""
        f = len(self.beta)
        p, beta = self.p * np.exp(np.append(0.0, step[f:])), self.beta + step[:f]
        beta[0] = np.clip(beta[0], *CALM)  # beyond them it moves no rate
        return replace(self, beta=beta, p=p)


@dataclass(frozen=True, eq=False)
class Solution:
    """Coefficients that solve a score.

    Attributes:
        parameters: β and p, with the strengths that they were found with.
        slope: Shape (N, N): J, by how much the score falls with β and log p.
        known: Shape (N,): the precision of what was known of them beforehand; 0 of what is given.
        report: how the search ended.
    """

    parameters: RateParameters
    slope: Floats
    known: Floats
    report: FitReport

    @cached_property
    def inverse(self) -> Floats:
        """Shape (N, N): J⁻¹; what is given, or what records do not tell apart, they do not move."""
        scale = (self.known > 0) / np.sqrt(np.maximum(np.abs(np.diag(self.slope)), 1e-300))
        both = np.outer(scale, scale)
        return np.asarray(np.linalg.pinv(self.slope * both) * both)


class Earlier(NamedTuple):
    """What records before the log say.

    Attributes:
        rates: pairs by the values of context and item, with log α̂ above its mean.
        log_p: Shape (K − 1,): log p of positions below the first; `precision`: its precision.
    """

    rates: PolicyTable
    log_p: Floats
    precision: Floats


def solved(
    parts: Sequence[Pairs],
    theta: RateParameters,
    *,
    given: bool,
    close: float = 1e-11,
    slope_there: Floats | None = None,
    earlier: Earlier | None = None,
) -> Solution:
    """β and p that solve the score.

    Args:
        parts: the pairs of each batch.
        theta: where to start.
        given: whether p is given.
        close: a step so small ends the search; J is of its start unless this is the last word.
        slope_there: J near the start, if it is known.
        earlier: what earlier records say of p.
    """
    f, k = len(theta.beta), len(theta.p)
    usual, precision = -0.7 * np.log(np.arange(2, k + 1)), np.full(k - 1, EXAMINATION_PRECISION)
    if earlier is not None:
        usual, precision = earlier.log_p, earlier.precision
    known = np.append(np.full(f, COEFFICIENT_PRECISION), precision)
    known[0] = INTERCEPT_PRECISION
    free = np.ones(f + k - 1, dtype=np.bool_)
    free[f:] = not given

    def slope(theta: RateParameters) -> Floats:
        return np.asarray(sum(part.slope(theta) for part in parts) + np.diag(known))

    def score_at(theta: RateParameters) -> Floats:
        pull = np.append(-theta.beta, usual - np.log(theta.p[1:])) * known
        return np.asarray(sum(part.score(theta) for part in parts) + pull)

    jacobian = slope(theta) if slope_there is None else slope_there
    before, size, iterations = np.inf, np.inf, 0
    score = score_at(theta)
    while iterations < ROUNDS and not size < close:
        iterations += 1
        step = np.zeros(f + k - 1)
        step[free] = np.linalg.solve(jacobian[np.ix_(free, free)], score[free])
        longest = float(np.abs(step).max(initial=0))
        moved, last = theta.moved(step * min(1.0, _LONGEST / max(longest, 1e-300))), score
        # What it moved: an intercept at its bound stays there, and moves no rate.
        step = np.append(moved.beta - theta.beta, np.log(moved.p[1:] / theta.p[1:]))
        size = float(np.abs(step).max(initial=0))
        theta, score = moved, score_at(moved)
        if iterations > _PATIENCE:  # Broyden (1965): what the step has shown of the slope
            missed = last - score - jacobian @ step
            jacobian = jacobian + np.outer(missed, step) / max(float(step @ step), 1e-300)
        elif size >= close and (size > 0.5 * before or size > _LONGEST / 5):
            jacobian = slope(theta)
        before = size
    if close <= _SAME:
        jacobian = slope(theta)
    jacobian[~free], jacobian[:, ~free] = 0.0, 0.0
    jacobian[~free, ~free] = 1.0
    converged = size < close and all(part.rates(theta).settled for part in parts)
    report = FitReport.of(iterations, score * free, jacobian, converged=converged)
    return Solution(theta, jacobian, np.where(free, known, 0.0), report)


# --- strengths ------------------------------------------------------------------------------------


def strengths(parts: Sequence[Pairs], theta: RateParameters) -> RateParameters:
    """The strengths a and t that predict the clicks of a day best from the days before.

    By Σ c log μ − μ, which is largest for the right mean, however clicks vary around it; a on the
    later half of the days, when words have become what they are. Without days, by the negative
    binomial distribution of clicks, scaled to vary as clicks of 0 and 1 do.
    """
    pairs, contexts, spare = [], [], np.zeros(2)
    for part in parts:
        of, r = part.of, part.rates(theta)
        batch, e, m = of.batch, part.turn_e(theta), part.turn_m(theta)
        spare += r.alpha**2 @ (part.shown[0] @ theta.p**2), r.alpha @ r.exposure
        ripe = of.day >= of.days // 2 if of.dated else np.ones(len(e), dtype=np.bool_)
        turns = np.stack([part.turn_c, e, of.so_far(part.turn_c), of.so_far(e), m])
        pairs.append(turns[:, ripe])
        prior_share, context = r.prior_share[of.pair], batch.pair_context[of.pair].astype(np.int64)
        # Turns of a context are in the order of pairs: bring those of a day together.
        days_of_contexts, at = numbered(context * of.days + of.day, batch.context_count * of.days)
        each = [
            sums(at, values, len(days_of_contexts))
            for values in (prior_share * part.turn_c, prior_share * e * m)
        ]
        owner = value_of_each(at, context)
        contexts.append(np.stack([*each, *(Seen.until(owner, one) for one in each)]))
    c, e, c_all, e_all, m = np.concatenate(pairs, axis=1)
    took, due, took_all, due_all = np.concatenate(contexts, axis=1)
    if not any(part.of.dated for part in parts):
        free = max(1 - spare[0] / spare[1], 0.01) if spare[1] > 0 else 1.0
        return replace(
            theta,
            a=best_strength(of_counts(c / free, e * m / free)),
            t=best_strength(of_counts(took, due)),
        )

    def of_pair(log_a: float) -> float:
        a = np.exp(log_a)
        return loss_of(c, e * (c_all - c + a) / (e_all - e + a / m))

    def of_context(log_t: float) -> float:
        t = np.exp(log_t)
        return loss_of(took, due * (took_all - took + t) / (due_all - due + t))

    return replace(theta, a=best_strength(of_pair), t=best_strength(of_context))
