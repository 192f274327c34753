"""What a click is worth: the reward per click of an item, for rewards that only clicks earn.

With R reward of C clicks on a pair i of context and item j, in units of the log's reward per click,

    log μ_i = γ · (1, g_i, g_j),    m_i = μ_i L_j,   L_j ~ Γ(s, s),   w_i = m_i G_i,  G_i ~ Γ(b, b)
    ŵ_i = (R_i + φ b) / (C_i + φ b / m_i),

where φ is the variance of the reward of a click over its mean, and g = (h − n) / (h + n) says how
much more or less a candidate has a pair, or an item of all contexts, examined than production has.
So a candidate of dear items is known by what the items earn that it shows more often. It is the
prior of click rates (`coefficients`) with clicks for readers, and an item in place of a context.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.allowances import COEFFICIENT_PRECISION
from foreclick.batches import Batch, Floats, Ints, ratio, sums
from foreclick.estimation.fits import FitReport
from foreclick.ladder.coefficients import RateParameters, rates
from foreclick.ladder.features import expected_rates
from foreclick.ladder.shrinkage import best_strength, of_counts
from foreclick.metrics import CLICKS

UNFITTED = FitReport(converged=True, iterations=0)
"""Of what has nothing to be fitted yet."""

_ALL_ALIKE = 1e18  # a strength that leaves nothing to items
_LEARNING, _ROUNDS = 4, 30  # rounds in which strengths are learnt, and all
_LEAST, _ROUNDING = 1e-300, 1e-12


class Worths(NamedTuple):
    """The worth of a click on each pair of a batch, those that candidates alone show too.

    Attributes:
        item: Shape (Q,): the number of the item.
        x: Shape (Q, F): 1, and how much more candidates have it examined.
        clicks: Shape (Q,): C.
        m, prior_share: Shape (Q,): what is expected, and the share of ŵ that it is.
        weight: Shape (Q,): C + φ b / m.
        w: Shape (Q,): ŵ.
    """

    item: Ints
    x: Floats
    clicks: Floats
    m: Floats
    prior_share: Floats
    weight: Floats
    w: Floats


@dataclass(frozen=True, eq=False)
class Worth:
    """What clicks are worth in a log, by item.

    Attributes:
        reward: of which; `mean`: the log's reward per click, in which all else is measured.
        noise: φ.
        strengths: of the rungs that know a position, as those of `LadderFit`.
        slope: δ, by which a click at position k is worth k^δ; `slope_sd`: of it.
        theta: γ, and φ b and φ s in the place of a and t.
        items: I values; `more`: Shape (V, I): how much more candidates have them examined.
        level: Shape (I,): L; `due`: what log L is divided by.
        centre: Shape (I, F): how γ moves log L, downwards.
        inverse: Shape (F, F): how the score moves γ.
        pull: Shape (E, I): how log L moves each column; `by_score`: Shape (E, F): how the score
            of γ does.
        report: how the fit of γ ended.
    """

    reward: str
    mean: float
    noise: float
    strengths: tuple[float, ...]
    slope: float = 0.0
    slope_sd: float = 0.0
    theta: Any = None
    items: Any = None
    more: Any = None
    level: Any = None
    due: Any = None
    centre: Any = None
    inverse: Any = None
    pull: Any = None
    by_score: Any = None
    report: FitReport = UNFITTED

    def at(self, position: Ints) -> Floats:
        """How much more a click is worth at positions, counted from 0."""
        return np.asarray((1.0 + position) ** self.slope)

    def of(self, items: pa.Array, examined: Floats, c: Floats, r: Floats) -> Worths:
        """The worths of pairs of these items, which are examined so often; the log's come first.

        Args:
            items: Shape (Q,): of pairs.
            examined: Shape (1 + V, Q): how often production and candidates have them examined.
            c: Shape (P,): C of the log's pairs.
            r: Shape (P,): R.
        """
        item: Any = np.asarray(pc.index_in(items, value_set=self.items), dtype=np.int64)
        c, r = (np.append(each, np.zeros(len(item) - len(each))) for each in (c, r))
        x = _design(examined, self.more[:, item])
        m, a = expected_rates(x, self.theta.beta) * self.level[item], self.theta.a
        weight = c + a / m
        return Worths(item, x, c, m, a / m / weight, weight, (r + a) / weight)

    def pulled(self, at: Worths, by_log: Floats) -> Floats:
        """Shape (E, I + F): how log L and γ move columns, which log ŵ moves by so much."""
        leans = by_log * at.prior_share
        by_item = np.stack([sums(at.item, own, len(self.items)) for own in leans])
        return np.hstack([by_item, leans @ at.x])

    def with_pull(self, pulled: Floats) -> Worth:
        """With the sums of `pulled` over the log."""
        pull, by_beta = np.split(pulled, [len(self.items)], axis=1)
        return replace(self, pull=pull, by_score=(by_beta - pull @ self.centre) @ self.inverse)

    def errors(self, at: Worths, by_log: Floats) -> tuple[Floats, Floats]:
        """Shape (E, Q) each: what pairs put columns off by, and how a reward there moves them."""
        further = (self.pull / self.due)[:, at.item]
        further += self.by_score @ (at.x - self.centre[at.item]).T
        by_worth, spread = by_log / at.w, np.sqrt(self.noise / self.theta.a)
        error = (by_worth - further * at.clicks) * (at.prior_share * at.m * spread)
        return error, by_worth / at.weight + further * at.prior_share

    def unexplained(self) -> Floats:
        """Shape (E, E): the covariance that no record shows of what items and γ are off by."""
        error = self.pull / self.due - self.by_score @ self.centre.T
        error *= np.sqrt(self.noise * self.theta.t)
        known = COEFFICIENT_PRECISION * self.noise**2 * self.by_score @ self.by_score.T
        return np.asarray(error @ error.T + known)


def _design(examined: Floats, of_items: Floats) -> Floats:
    """Shape (Q, 1 + 2 V): of pairs that production and V candidates have examined so often."""
    return np.concatenate([np.ones_like(examined[:1]), _more_of(examined), of_items]).T


def _more_of(examined: Floats) -> Floats:
    """Shape (V, Q): (h − n) / (h + n), of how often production and V candidates show something."""
    return ratio(examined[1:] - examined[:1], examined[1:] + examined[:1])


class Clicked(NamedTuple):
    """The slots of rows that were clicked, S of them.

    Attributes:
        row, position, pair: Shape (S,).
        c, r: Shape (S,): clicks and reward of one record.
    """

    row: Ints
    position: Ints
    pair: Ints
    c: Floats
    r: Floats


def clicked(batch: Batch, reward: str) -> Clicked:
    """The clicks of a batch, and what they earned."""
    clicks = batch.reward(CLICKS)
    some = clicks.value > 0
    row, position = clicks.row[some].astype(np.int64), clicks.position[some].astype(np.int64)
    pair = batch.lists[batch.row_list[row], position].astype(np.int64)
    earned = batch.reward_table(reward)[row, position]
    return Clicked(row, position, pair, clicks.value[some], earned)


def mean_and_noise(reward: str, batches: Sequence[Batch]) -> tuple[float, float]:
    """The reward of a click, and φ in its units, by clicks on the same pair.

    And by one more, which varies as those of all items do: no pair may have been clicked twice.
    """
    counts = []
    for batch in batches:
        at = clicked(batch, reward)
        each = (batch.n[at.row] * values for values in (at.c, at.r, at.r**2 / at.c))
        counts.append([sums(at.pair, values, batch.pair_count) for values in each])
    c, r, q = np.concatenate(counts, axis=1)
    whole = max(c.sum(), _LEAST)
    mean = float(r.sum() / whole)
    if not mean:
        return 0.0, 0.0
    r, q = r / mean, q / mean**2
    varies = (q - ratio(r**2, c)).sum() + q.sum() / whole - 1
    noise = float(varies / (np.maximum(c - 1, 0).sum() + 1))
    return mean, noise if noise > _ROUNDING else 0.0


def learn_worth(worth: Worth, parts: Sequence[tuple[pa.Array, Floats, Floats, Floats]]) -> Worth:
    """What clicks are worth, by item.

    Args:
        worth: what is known of it.
        parts: of each batch, what `Worth.of` takes.
    """
    noise = worth.noise
    every = pa.chunked_array([items for items, *_ in parts]).combine_chunks().dictionary_encode()
    items, item = every.dictionary, np.asarray(every.indices, dtype=np.int64)
    examined = np.concatenate([each for _, each, *_ in parts], axis=1)
    count = len(items)
    more = _more_of(np.stack([sums(item, own, count) for own in examined]))
    c, r = (
        np.concatenate([np.append(p[j], np.zeros(len(p[0]) - len(p[j]))) for p in parts])
        for j in (2, 3)
    )
    some = np.flatnonzero(c > 0)
    c, r, item, x = c[some], r[some], item[some], _design(examined, more[:, item])[some]
    theta = RateParameters(np.zeros(x.shape[1]), np.ones(1), _ALL_ALIKE, _ALL_ALIKE)
    ridge = COEFFICIENT_PRECISION * (noise or 1.0) * np.eye(x.shape[1])
    size = np.inf
    for turn in range(_ROUNDS):
        if noise and turn < _LEARNING:
            theta = _strengths(item, count, r, c, x, theta, noise)
        found = rates(item, count, r, c, expected_rates(x, theta.beta), theta)
        due = found.prior_share * c * found.m
        centre = np.stack([sums(item, due * own, count) for own in x.T], axis=1)
        centre /= found.weight[:, None]
        inverse = np.linalg.inv((x * due[:, None]).T @ (x - centre[item]) + ridge)
        step = inverse @ (x.T @ (found.prior_share * (r - c * found.m)) - ridge @ theta.beta)
        size = float(np.abs(step).max())
        if turn >= _LEARNING and size < _ROUNDING:
            break
        theta = theta.moved(step * min(1.0, 0.5 / max(size, _LEAST)))
    return replace(
        worth,
        theta=theta,
        items=items,
        more=more,
        level=found.level,
        due=found.weight,
        centre=centre,
        inverse=inverse,
        report=FitReport(size < _ROUNDING, turn + 1),
    )


def _strengths(
    item: Ints, count: int, r: Floats, c: Floats, x: Floats, theta: RateParameters, noise: float
) -> RateParameters:
    """φ b and φ s by the negative binomial distribution of rewards in units of φ.

    Of pairs, by what other contexts say of the item, where there are any.
    """
    due = c * expected_rates(x, theta.beta)
    t = noise * best_strength(of_counts(*(sums(item, v, count) / noise for v in (r, due))))
    lean = 1 / (1 + due / theta.a)
    others = [sums(item, lean * v, count)[item] - lean * v + t for v in (r, due)]
    some = np.bincount(item, minlength=count)[item] > 1
    b = best_strength(of_counts((r / noise)[some], (due * others[0] / others[1] / noise)[some]))
    return RateParameters(theta.beta, theta.p, noise * b, t)
