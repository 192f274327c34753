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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from foreclick.batches import EMPTY, Batch, Bools, Floats, Ints, sums, text_draws
from foreclick.batches.arrays import numbered, value_of_each
from foreclick.learn.overlap import Alike
from foreclick.learn.shrinkage import readers
from foreclick.policies.base import PolicyTable

RIDGE = 1.0
"""The precision of what is known of a coefficient beforehand."""

SHARPNESS = 1.0
"""The precision of what is known beforehand of the logarithm of examination: k^-.7."""

LEAST_KNOWN = 1e-3
"""The same of the intercept: nothing, unless there are no clicks at all."""

CALM = -12.0, 2.0
"""Bounds of the logarithm of a rate."""

_ROUNDS = 60
_LONGEST = 0.5  # step of a coefficient
_SAME = 1e-11
_LEVELS = 6
_LINES = 2048


def steps(depth: int) -> Floats:
    """Shape (K,): the normal score of each rank, of four times as many, above that of the last."""
    from scipy.special import ndtri  # noqa: PLC0415 - slow to import

    z = ndtri(1 - (np.arange(1, depth + 1) - 0.375) / (4 * depth + 0.25))
    return np.asarray(z - z[-1])


# --- what a batch shows, by pair and day ----------------------------------------------------------


class Seen:
    """The pairs of a batch on each day: R *turns* in the order of pair and day, of U cells.

    Args:
        batch: the records.
        dated: whether periods say what came before what.

    Attributes:
        cell: Shape (rows, K): the cell (pair, day, position) of every slot; U where it is empty.
        turn: Shape (U,): the turn of each cell; `position`: its position.
        pair: Shape (R,); `n`: records; `word`: Shape (R, 2), production's word up to the day.
        whole: Shape (P, 2): production's word of all days.
    """

    def __init__(self, batch: Batch, *, dated: bool) -> None:
        k, rows = batch.depth, len(batch.n)
        self.batch, self.dated = batch, dated
        days = batch.cluster_count["period"] if dated else 1
        day = batch.clusters["period"].astype(np.int64) if dated else np.zeros(rows, np.int64)
        lists = batch.lists[batch.row_list]
        row, at = np.nonzero(lists != EMPTY)
        key = (lists[row, at].astype(np.int64) * days + day[row]) * k + at
        cells, number = numbered(key, batch.pair_count * days * k)
        self.cell = np.full((rows, k), len(cells))
        self.cell[row, at] = number
        self.position = cells % k
        turns, self.turn = numbered(cells // k, batch.pair_count * days)
        self.pair, self.day, self.days = turns // days, turns % days, days
        self.starts = np.flatnonzero(np.diff(self.pair, prepend=-1))
        self.shown = self.pair[self.starts]
        cell_n = sums(number, batch.n[row], len(cells))
        self.n = sums(self.turn, cell_n, len(turns))
        self.height = sums(self.turn, cell_n * steps(k)[self.position], len(turns))
        # Records of the context up to and with the day.
        here, of_row = numbered(
            batch.row_context * np.int64(days) + day, batch.context_count * days
        )
        until = self.until(here // days, sums(of_row, batch.n, len(here)))
        asked = batch.pair_context[self.pair] * np.int64(days) + turns % days
        self.records = until[np.searchsorted(here, asked)]
        both = np.column_stack([self.n, self.height])
        self.word = np.column_stack([self.so_far(one) for one in both.T]) / self.records[:, None]
        self.whole = production_words(batch)

    @staticmethod
    def until(group: Ints, values: Floats) -> Floats:
        """Running sums of values within groups, which come one after the other."""
        running = np.cumsum(values)
        first = np.flatnonzero(np.diff(group, prepend=-1))
        size = np.diff(np.append(first, len(group)))
        return np.asarray(running - np.repeat((running - values)[first], size))

    @cached_property
    def first_cell(self) -> Ints:
        """Shape (R,): the first cell of each turn, whose cells stand together."""
        return np.flatnonzero(np.diff(self.turn, prepend=-1))

    @cached_property
    def first_turn(self) -> Ints:
        """Shape (P + 1,): the first turn of each pair, whose turns stand together."""
        return np.asarray(np.searchsorted(self.pair, np.arange(self.batch.pair_count + 1)))

    def so_far(self, values: Floats) -> Floats:
        """Shape (R,): sums over a pair's turns up to and with each."""
        return self.until(self.pair, values)

    def by_pair(self, values: Floats) -> Floats:
        """Shape (P, …): sums over the turns of each pair."""
        found = np.zeros((self.batch.pair_count, *values.shape[1:]))
        if len(self.starts):
            found[self.shown] = np.add.reduceat(values, self.starts, axis=0)
        return found

    def by_turn(self, values: Floats) -> Floats:
        """Shape (R,): sums over the cells of each turn."""
        return np.add.reduceat(values, self.first_cell) if len(values) else np.zeros(0)


def seen(batch: Batch, *, dated: bool) -> Seen:
    """The pairs of a batch by day, kept with it."""
    return batch.cached(("seen", dated), lambda: Seen(batch, dated=dated))


def design(own: Floats, others: Floats) -> Floats:
    """Shape (N, F): an intercept, production's word, and the words of C candidates.

    Args:
        own: Shape (N, 2): production's.
        others: Shape (C, N, 2).
    """
    share, height = own.T
    columns = [np.ones(len(own)), share, height, share**2]
    for word in others:
        columns += [*word.T, word[:, 0] * share, word[:, 1] * height]
    table = np.empty((len(own), len(columns)))
    for start in range(0, len(own), _LINES):  # so few that they stay in the processor's cache
        part = slice(start, start + _LINES)
        for j, column in enumerate(columns):
            table[part, j] = column[part]
    return table


def production_words(batch: Batch) -> Floats:
    """Shape (P, 2): production's word of the whole log."""
    counts = np.stack([batch.shown.sum(axis=1), batch.shown @ steps(batch.depth)], axis=1)
    return np.asarray(counts / np.maximum(batch.context_n, 1e-300)[batch.pair_context][:, None])


def expected_rates(words: Floats, beta: Floats) -> Floats:
    """Shape (N,): what β expects of pairs, or turns, with these words, shape (N, F)."""
    return np.asarray(np.exp(np.clip(words @ beta, *CALM)))


def production_expects(batch: Batch, beta: Floats) -> Floats:
    """Shape (P,): what β expects of the pairs of a batch by production's word alone."""
    none = np.zeros((0, batch.pair_count, 2))
    return expected_rates(design(production_words(batch), none), beta)


# --- rates given coefficients ---------------------------------------------------------------------


class Rates(NamedTuple):
    """What the prior says of the pairs of a batch.

    Attributes:
        exposure: Shape (P,): E.
        m: Shape (P,): the prior's mean; `lean`: the share of α̂ that it is; `alpha`: α̂.
        level: Shape (X,): L; `weight`: what log L is divided by.
    """

    exposure: Floats
    m: Floats
    lean: Floats
    alpha: Floats
    level: Floats
    weight: Floats


def rates(
    context: Ints,
    count: int,
    clicks: Floats,
    exposure: Floats,
    expected: Floats,
    theta: Theta,
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
    level = np.ones(count)
    for _ in range(_LEVELS):
        lean = 1 / (1 + exposure * expected * level[context] / a)
        due = sums(context, lean * exposure * expected, count)
        level = (sums(context, lean * clicks, count) + t) / (due + t)
    m = expected * level[context]
    lean = 1 / (1 + exposure * m / a)
    alpha = (clicks + a) / (exposure + a / m)
    weight = sums(context, lean * exposure * m, count) + t * level
    return Rates(exposure, m, lean, alpha, level, weight)


def moved_rates(
    context: Ints, count: int, r: Rates, x: Floats, by_position: Floats, theta: Theta
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
    share = (r.lean * r.m)[:, None]
    exposed = by_position[:, 1:] * theta.p[1:]

    def at_level(values: Floats) -> Floats:
        found = np.zeros((count, values.shape[1]))
        for own, column in zip(found.T, values.T, strict=True):
            own[:] = sums(context, column, count)
        return np.asarray((found / r.weight[:, None])[context])

    moved = x - at_level(share * r.exposure[:, None] * x)
    by_word = (r.alpha * r.lean)[:, None] * moved
    fell = (r.alpha / (r.exposure + theta.a / r.m))[:, None] * exposed
    by_place = -fell - (r.alpha * r.lean)[:, None] * at_level(share * exposed)
    return np.hstack([by_word, by_place])


class Pairs:
    """The pairs of a batch with what is known of them: what coefficients are found by.

    Args:
        of: the pairs by day.
        reward: what is counted.
        unit: what a click is worth.
        exposed: Shape (L, K): the readers of each slot, times what upper rungs pass on; None: 1.
        passed: Shape (L, K): what upper rungs pass on of clicks; None: 1.
        taken: Shape (X,): the contexts that take part.
        others: Shape (C, P, 2): the words of candidates.
    """

    def __init__(
        self,
        of: Seen,
        reward: str,
        unit: float,
        taken: Bools,
        others: Floats,
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
        depth = batch.depth
        each = (
            np.repeat(use, depth)
            if exposed is None
            else (use[:, None] * exposed[batch.row_list]).ravel()
        )
        self.d = sums(of.cell.ravel(), each, count + 1)[:count]
        self.cell_n = sums(of.cell.ravel(), np.repeat(use, depth), count + 1)[:count]
        self.turn_c = of.by_turn(self.c)
        self.clicks = of.by_pair(self.turn_c)
        self.z, self.x = design(of.word, others[:, of.pair]), design(of.whole, others)
        self._last: tuple[Theta, Rates] | None = None

    @cached_property
    def by_position(self) -> Floats:
        """Shape (P, K): Σ d of each pair at each position."""
        of, k = self.of, self.of.batch.depth
        at = of.pair[of.turn] * np.int64(k) + of.position
        return sums(at, self.d, of.batch.pair_count * k).reshape(-1, k)

    def d_of(self, at: Any) -> Floats:  # noqa: ANN401 - slots of rows
        """Shape (S,): the readers of one record at each slot."""
        return np.asarray((self.d / np.maximum(self.cell_n, 1e-300))[at.cell])

    def rates(self, theta: Theta) -> Rates:
        """Rates of all pairs; those of the last θ are kept."""
        if self._last is None or self._last[0] is not theta:
            exposure, expected = self.by_position @ theta.p, expected_rates(self.x, theta.beta)
            batch = self.of.batch
            where = batch.pair_context, batch.context_count
            found = rates(*where, self.clicks, exposure, expected, theta)
            self._last = theta, found
        return self._last[1]

    def turn_e(self, theta: Theta) -> Floats:
        """Shape (R,): the exposure of each turn."""
        return self.of.by_turn(self.d * theta.p[self.of.position])

    def due(self, theta: Theta) -> Floats:
        """Shape (U,): the clicks that are expected of each cell."""
        of = self.of
        alpha = self.rates(theta).alpha[of.pair[of.turn]]
        return np.asarray(self.d * theta.p[of.position] * alpha)

    def score(self, theta: Theta) -> Floats:
        """Shape (F + K − 1,): Σ z (c − e α̂), of words and of positions below the first."""
        of, k = self.of, self.of.batch.depth
        left = self.c - self.due(theta)
        return np.append(of.by_turn(left) @ self.z, sums(of.position, left, k)[1:])

    def spans(self, theta: Theta) -> Floats:
        """Shape (P, F + K − 1): Σ z e, by which the score answers to the rate of each pair."""
        from scipy import sparse  # noqa: PLC0415 - slow to import

        of, e = self.of, self.turn_e(theta)
        shape = of.batch.pair_count, len(e)
        turns = sparse.csr_array((e, np.arange(len(e)), of.first_turn), shape=shape)
        by_word = np.asarray(turns @ self.z)
        return np.hstack([by_word, self.by_position[:, 1:] * theta.p[1:]])

    def moves(self, theta: Theta) -> Floats:
        """Shape (P, F + K − 1): how β and log p move the rate of each pair."""
        batch, r = self.of.batch, self.rates(theta)
        where = batch.pair_context, batch.context_count
        return moved_rates(*where, r, self.x, self.by_position, theta)

    def spread(self, theta: Theta) -> Floats:
        """Shape (N, N): the variance of the score, by contexts."""
        of, k, batch = self.of, self.of.batch.depth, self.of.batch
        left, count = self.c - self.due(theta), batch.context_count
        context = batch.pair_context[of.pair]
        words = (self.z * of.by_turn(left)[:, None]).T
        at = context[of.turn] * np.int64(k) + of.position
        places = sums(at, left, count * k).reshape(count, k)[:, 1:]
        score = np.hstack([np.stack([sums(context, own, count) for own in words], axis=1), places])
        return np.asarray(score.T @ score)

    def slope(self, theta: Theta) -> Floats:
        """Shape (N, N): by how much the score falls with β and log p."""
        from scipy import sparse  # noqa: PLC0415 - slow to import

        of, f, k = self.of, self.x.shape[1], self.of.batch.depth
        found, due = self.spans(theta).T @ self.moves(theta), self.due(theta)
        at = np.append(of.first_cell, len(due))
        by_turn = sparse.csr_array((due, of.position, at), shape=(len(of.pair), k))
        found[:f, f:] += (by_turn.T @ self.z).T[:, 1:]
        found[f:, f:] += np.diag(sums(of.position, due, k)[1:])
        return found


@dataclass(frozen=True, eq=False)
class Theta:
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

    def moved(self, step: Floats) -> Theta:
        """With β and log p a step further."""
        f = len(self.beta)
        p = self.p * np.exp(np.append(0.0, step[f:]))
        return replace(self, beta=self.beta + step[:f], p=p)


class Earlier(NamedTuple):
    """What records before the log say.

    Attributes:
        rates: pairs by the values of context and item, with log α̂ above its mean.
        log_p: Shape (K − 1,): log p of positions below the first; `sharpness`: its precision.
    """

    rates: PolicyTable
    log_p: Floats
    sharpness: Floats


def solved(
    parts: Sequence[Pairs],
    theta: Theta,
    *,
    given: bool,
    close: float = 1e-11,
    slope_there: Floats | None = None,
    earlier: Earlier | None = None,
) -> tuple[Theta, Floats, Floats]:
    """β and p that solve the score; its slope J, shape (N, N), and the precision known beforehand.

    Args:
        parts: the pairs of each batch.
        theta: where to start.
        given: whether p is given.
        close: a step so small ends the search; J is of its start unless this is the last word.
        slope_there: J near the start, if it is known.
        earlier: what earlier records say of p.
    """
    f, k = len(theta.beta), len(theta.p)
    usual, sharpness = -0.7 * np.log(np.arange(2, k + 1)), np.full(k - 1, SHARPNESS)
    if earlier is not None:
        usual, sharpness = earlier.log_p, earlier.sharpness
    known = np.append(np.full(f, RIDGE), sharpness)
    known[0] = LEAST_KNOWN
    free = np.ones(f + k - 1, dtype=np.bool_)
    free[f:] = not given

    def slope(theta: Theta) -> Floats:
        return np.asarray(sum(part.slope(theta) for part in parts) + np.diag(known))

    jacobian = slope(theta) if slope_there is None else slope_there
    before = np.inf
    for _ in range(_ROUNDS):
        pull = np.append(-theta.beta, usual - np.log(theta.p[1:])) * known
        score = np.asarray(sum(part.score(theta) for part in parts)) + pull
        step = np.zeros(f + k - 1)
        step[free] = np.linalg.solve(jacobian[np.ix_(free, free)], score[free])
        size = float(np.abs(step).max())
        theta = theta.moved(step * min(1.0, _LONGEST / max(size, 1e-300)))
        if size < close:
            break
        if size > 0.5 * before or size > _LONGEST / 5:
            jacobian = slope(theta)
        before = size
    if close <= _SAME:
        jacobian = slope(theta)
    jacobian[~free], jacobian[:, ~free] = 0.0, 0.0
    jacobian[~free, ~free] = 1.0
    return theta, jacobian, np.where(free, known, 0.0)


def inverse_of(jacobian: Floats, known: Floats) -> Floats:
    """Shape (N, N): J⁻¹; what is given, or what records do not tell apart, they do not move."""
    scale = (known > 0) / np.sqrt(np.maximum(np.abs(np.diag(jacobian)), 1e-300))
    return np.asarray(np.linalg.pinv(jacobian * np.outer(scale, scale)) * np.outer(scale, scale))


# --- strengths ------------------------------------------------------------------------------------

_GRID: Floats = np.linspace(-2.0, 7.0, 28)


def least(loss: Callable[[int], float], size: int) -> tuple[int, dict[int, float]]:
    """The number below `size` with the least loss, of a loss with one valley; and all that it saw.

    Every fourth is tried first, then those around the best.
    """
    seen = {j: loss(j) for j in range(0, size, 4)}
    at = min(seen, key=lambda j: seen[j])
    for j in range(max(at - 3, 0), min(at + 4, size)):
        if j not in seen:
            seen[j] = loss(j)
    return min(seen, key=lambda j: seen[j]), seen


def _best(loss: Any) -> float:  # noqa: ANN401 - a function of the logarithm
    """The number whose logarithm has the least loss, between the points of a grid."""
    at, seen = least(lambda j: loss(_GRID[j]), len(_GRID))
    j = min(max(at, 1), len(_GRID) - 2)
    left, mid, right = (seen[i] if i in seen else loss(_GRID[i]) for i in (j - 1, j, j + 1))
    bend = left - 2 * mid + right
    shift = np.clip((left - right) / (2 * bend), -1, 1) if bend > 0 else np.sign(left - right)
    return float(np.exp(_GRID[j] + shift * (_GRID[1] - _GRID[0])))


def strengths(parts: Sequence[Pairs], theta: Theta) -> Theta:
    """The strengths a and t that predict the clicks of a day best from the days before.

    By Σ c log μ − μ, which is largest for the right mean, however clicks vary around it; a on the
    later half of the days, when words have become what they are. Without days, by the negative
    binomial distribution of clicks, scaled to vary as clicks of 0 and 1 do.
    """
    pairs, contexts, spare = [], [], np.zeros(2)
    for part in parts:
        of, r = part.of, part.rates(theta)
        batch, e, due = of.batch, part.turn_e(theta), part.due(theta)
        spare += (due**2 / np.maximum(part.d, 1e-300)).sum(), due.sum()
        m = expected_rates(part.z, theta.beta)
        ripe = of.day >= of.days // 2 if of.dated else np.ones(len(e), dtype=np.bool_)
        told = np.stack([part.turn_c, e, of.so_far(part.turn_c), of.so_far(e), m])
        pairs.append(told[:, ripe])
        lean, context = r.lean[of.pair], batch.pair_context[of.pair].astype(np.int64)
        # Turns of a context are in the order of pairs: bring those of a day together.
        found, at = numbered(context * of.days + of.day, batch.context_count * of.days)
        each = [sums(at, values, len(found)) for values in (lean * part.turn_c, lean * e * m)]
        owner = value_of_each(at, context)
        contexts.append(np.stack([*each, *(Seen.until(owner, one) for one in each)]))
    c, e, c_all, e_all, m = np.concatenate(pairs, axis=1)
    took, due, took_all, due_all = np.concatenate(contexts, axis=1)
    if not any(part.of.dated for part in parts):
        free = max(1 - spare[0] / spare[1], 0.01) if spare[1] > 0 else 1.0
        return replace(
            theta, a=_best(_of_counts(c / free, e * m / free)), t=_best(_of_counts(took, due))
        )

    def of_pair(log_a: float) -> float:
        a = np.exp(log_a)
        return loss_of(c, e * (c_all - c + a) / (e_all - e + a / m))

    def of_context(log_t: float) -> float:
        t = np.exp(log_t)
        return loss_of(took, due * (took_all - took + t) / (due_all - due + t))

    return replace(theta, a=_best(of_pair), t=_best(of_context))


def loss_of(c: Floats, mean: Floats) -> float:
    """Σ μ − c log μ, which is least for the right mean μ of clicks c."""
    hit = c > 0
    return float(mean.sum() - (c[hit] * np.log(np.maximum(mean[hit], 1e-300))).sum())


def _of_counts(c: Floats, mean: Floats) -> Any:  # noqa: ANN401 - a function of the logarithm
    from scipy.special import gammaln  # noqa: PLC0415 - slow to import

    c, mean = c[mean > 0], mean[mean > 0]

    def loss(log_s: float) -> float:
        s = np.exp(log_s)
        each = gammaln(c + s) - gammaln(s) - s * np.log1p(mean / s) - c * np.log1p(s / mean)
        return float(-each.sum())

    return loss


# --- the whole ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Prior:
    """A ladder on the prior, fitted to a log and its candidates.

    Attributes:
        ladder: what was asked for.
        reward: what is counted; `unit`: what of it counts as one click.
        theta: β, examination and strengths; `inverse`: Shape (N, N): J⁻¹, by which the score moves
            β and log p; `known`: Shape (N,): the precision of what was known of them beforehand.
        strengths: of the rungs that know a position: list, prefix and position; position alone if
            what stands above a slot does not matter.
        stopping: κ, with its standard deviation; `by_stopping`: Shape (N,): how it moves θ.
        alike: how alike each candidate and production are.
        bare: for each candidate, coefficients of its own word alone.
        dated: whether periods say what came before what.
        share: of the contexts that the fit looked at; `few`: of those for strengths and κ.
        voices: the candidates that say something that no one before them says.
        earlier: what records before the log say.
        base: what production alone says; `reacting`: z of its reacting to clicks; `leaking`: of a
            candidate's knowing them.
    """

    ladder: Any
    reward: str
    unit: float
    theta: Theta
    inverse: Floats
    known: Floats
    strengths: tuple[float, ...]
    stopping: float = 0.0
    stopping_sd: float = 0.0
    by_stopping: Floats = field(default_factory=lambda: np.zeros(0))
    alike: tuple[Alike, ...] = ()
    bare: tuple[Floats, ...] = ()
    dated: bool = True
    share: float = 1.0
    few: float = 1.0
    voices: tuple[int, ...] = ()
    earlier: Earlier | None = None
    base: Theta | None = None
    reacting: float = 0.0
    leaking: float = 0.0

    @property
    def top(self) -> str:
        """The finest cells: "list" or "ip"."""
        return "ip" if len(self.strengths) == 1 else "list"

    def taken(self, batch: Batch, known: Bools | None = None) -> Bools:
        """Shape (X,): the contexts that took part in the fit, of those (X, C) that are known."""
        found = batch.context_n > 0
        if known is not None:
            found = found & known.all(axis=1)
        if self.share < 1:
            draws: Any = batch.cache.get(("draws", self.reward))
            found = found & ((text_draws(batch) if draws is None else draws) < self.share)
        return found

    def attraction_of(self, batch: Batch) -> Floats:
        """Shape (P,): μ of each pair, by which fewer examine what stands below it."""

        def make() -> Floats:
            base = self.base
            assert base is not None  # noqa: S101 - nobody stops before it is known
            earned = batch.reward(self.reward)
            value = earned.value * batch.n[earned.row] / self.unit
            clicks = batch.by_slot(batch.earned_slot(earned), value).sum(axis=1)
            expected = production_expects(batch, base.beta)
            where = batch.pair_context, batch.context_count
            return rates(*where, clicks, batch.shown @ base.p, expected, base).alpha

        return batch.cached(("attraction", self.base), make)

    def readers_of(self, batch: Batch) -> Floats | None:
        """Shape (L, K): which share of readers gets as far as each slot; None: all."""
        if not self.stopping:
            return None
        return readers(self.attraction_of(batch), batch.lists, self.stopping)
