"""The fit's oracle: its equations as a textbook has them, on dense arrays, solved by SciPy.

Pair i, an item in context x, was shown to n_idk readers at position k on day d and clicked c_idk
times. C_i and E_i = Σ_dk p_k n_idk are its clicks and its examined readers, and x_i (z_id) the
features that the log until its end (until day d) says of it.

**Rates: empirical Bayes.** α_i = m_i L_x G_i with m_i = exp(β · x_i) and G_i ~ Γ(a, a), so C_i is
negative binomial with mean μ_i = E_i m_i L_x and shape a, and given C_i the mean of α_i is

    α̂_i = (C_i + a) / (E_i + a / (m_i L_x)).

**Levels: penalised maximum likelihood.** L_x ~ Γ(t, t); the score of the negative binomial
likelihood in log L_x, plus that of the prior, is

    Σ_i (C_i − μ_i) / (1 + μ_i / a) + t (1 − L_x) = 0.

**β and p: estimating equations with instruments and a ridge.** A day's clicks beyond those that are
expected are uncorrelated with whatever was known before them: z_id, and the position. So

    Σ_id z_id (Σ_k c_idk − p_k n_idk α̂_i) − ρ β = 0,
    Σ_id (c_idk − p_k n_idk α̂_i) − (log p_k + .7 log k) = 0    for k = 2 … K,

with p_1 = 1, and ρ = .001 for the intercept and 1 for the rest. `root` solves all of these at once.

**Production's rise** is one more feature if its rankers got better: the mean height of a pair with
days weighed by 4^(d / D), less that with all days alike, of the log until its end (until day d). It
is, if the estimate by one of Newton's steps from 0 is above two standard errors by contexts.

**Strengths a and t: predictive Poisson likelihood**, a day's clicks from the days before; without
days the negative binomial likelihood of all. They and the equations take turns.

**A candidate alone: negative binomial regression** with the same ridge, on its own features.

**Readers who stop: a ratio of Mantel and Haenszel**, clicks below a clicked first result over those
due, which contexts and pairs are shrunk to (Γ-Poisson, negative binomial likelihood).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize
from scipy.special import gammaln

Floats = np.ndarray[Any, np.dtype[np.float64]]
Pair = tuple[Any, Any]
Slot = tuple[Any, tuple[Any, ...], int]
"""A context, a list and a position, from 0."""

GRID = np.linspace(-2, 7, 28)
"""Logarithms of strengths."""

ENOUGH = 4.0
"""A strength is kept if it gains so much log-likelihood."""


class Record(NamedTuple):
    """What was shown, what each position earned, and on which day."""

    context: Any
    items: tuple[Any, ...]
    earned: tuple[float, ...]
    day: int


class Stop(NamedTuple):
    """1 − κ of the log, strengths of contexts and of pairs, and how many clicks count as one."""

    goes_on: float
    context: float
    pair: float
    spread: float


@dataclass(frozen=True)
class Found:
    """What is learnt: β, p, a and t, the level of each context, and the rate of each pair."""

    beta: Floats
    p: Floats
    a: float
    t: float
    level: Floats
    alpha: Floats


def height(k: int, depth: int) -> float:
    """The normal score of rank k of four times `depth`, above that of rank `depth`."""
    at, last = (1 - (j - 0.375) / (4 * depth + 0.25) for j in (k, depth))
    return NormalDist().inv_cdf(at) - NormalDist().inv_cdf(last)


class Log:
    """Records as dense arrays: n and c of shape (P, D, K), z of (P, D, F), x of (P, F).

    Args:
        records: their days are numbered from 0.
        depth: K.
        days: D; 1 if days do not matter, and all are 0.
        unit: what of the reward counts as one click.
        candidates: by pair, (share of lists that have it, mean height) of each candidate.
        given: p, if it is not learnt.
        rise: whether production's rise is a feature.
    """

    def __init__(
        self,
        records: Sequence[Record],
        depth: int,
        days: int,
        unit: float = 1.0,
        candidates: Sequence[Mapping[Pair, tuple[float, float]]] = (),
        given: Floats | None = None,
        *,
        rise: bool = False,
    ) -> None:
        self.records, self.days, self.unit, self.given = records, days, unit, given
        self.depth = depth
        self.pairs = sorted({(r.context, item) for r in records for item in r.items})
        self.contexts = sorted({r.context for r in records})
        self.number = {pair: i for i, pair in enumerate(self.pairs)}
        self.owner = np.array([self.contexts.index(x) for x, _ in self.pairs])
        shown, seen = np.zeros((len(self.pairs), days, 2)), np.zeros((len(self.contexts), days))
        for r in records:
            seen[self.contexts.index(r.context), r.day] += 1
            for k, item in enumerate(r.items, start=1):
                at = self.number[r.context, item], r.day
                shown[at] += 1, height(k, self.depth)
        until = np.maximum(seen.cumsum(axis=1), 1)[self.owner]
        own = shown.cumsum(axis=1) / until[:, :, None]
        late = 4.0 ** (np.arange(days) / days)
        of_late = (late * shown[:, :, 1]).cumsum(axis=1)
        of_late /= np.maximum((late * seen).cumsum(axis=1), 1e-300)[self.owner]
        # 1, s, u, s² and production's rise; s', u', s' s and u' u of all candidates.
        others = [[w.get(i, (0, 0)) for w in candidates] for i in self.pairs]
        self.others = np.array(others, np.float64).reshape(len(self.pairs), 1, -1, 2)
        s, u = np.split(own, 2, axis=2)
        v, w = (self.others[..., j] + np.zeros_like(s) for j in (0, 1))
        risen = [of_late[:, :, None] - u] if rise else []
        self.z = np.concatenate([np.ones_like(s), s, u, s * s, *risen, v, w, v * s, w * u], axis=2)
        self.x = self.z[:, -1]
        self.ridge = np.ones(self.x.shape[1])
        self.ridge[0] = 1e-3
        self.count()

    def by_context(self, values: Floats) -> Floats:
        """Sums of values of pairs."""
        return np.asarray(np.equal.outer(range(len(self.contexts)), self.owner) @ values)

    def count(
        self,
        read: Callable[[Slot], float] = lambda slot: 1.0,
        passed: Callable[[Slot], float] = lambda slot: 1.0,
    ) -> Log:
        """Count readers who get to a slot, and what finer cells pass on of readers and clicks."""
        self.n, self.c = np.zeros((2, len(self.pairs), self.days, self.depth))
        for r in self.records:
            for k, item in enumerate(r.items):
                at, slot = (self.number[r.context, item], r.day, k), (r.context, r.items, k)
                self.n[at] += read(slot) * passed(slot)
                self.c[at] += r.earned[k] / self.unit * passed(slot)
        self.clicks = self.c.sum(axis=(1, 2))
        return self

    # --- the equations --------------------------------------------------------------------------

    def start(self) -> Floats:
        """β, log p and log L that expect as many clicks as there were: where `root` begins."""
        p = np.arange(1, self.depth + 1) ** -0.7
        beta = np.zeros(self.x.shape[1])
        beta[0] = math.log(max(self.c.sum(), 0.5) / max((self.n @ p).sum(), 1))
        return np.concatenate([beta, np.log(p[1:]), np.zeros(len(self.contexts))])

    def split(self, unknown: Floats) -> tuple[Floats, Floats, Floats]:
        """β, p and L."""
        beta, log_p, log_level = np.split(
            unknown, [len(self.ridge), len(self.ridge) + self.depth - 1]
        )
        p = np.append(1.0, np.exp(log_p)) if self.given is None else self.given
        return beta, p, np.exp(log_level)

    def rates(self, unknown: Floats, a: float) -> tuple[Floats, Floats]:
        """α̂ and μ of all pairs."""
        beta, p, level = self.split(unknown)
        m = np.exp(np.clip(self.x @ beta, -12, 2)) * level[self.owner]
        exposure = (self.n @ p).sum(axis=1)
        return (self.clicks + a) / (exposure + a / m), exposure * m

    def scores(self, unknown: Floats, a: float) -> Floats:
        """Shape (X, N): what each context has of the equations of β and log p, without priors."""
        _, p, _ = self.split(unknown)
        residual = self.c - self.n * p * self.rates(unknown, a)[0][:, None, None]
        by_feature = np.einsum("idf,idk->if", self.z, residual)
        return self.by_context(np.hstack([by_feature, residual.sum(axis=1)[:, 1:]]))

    def score(self, unknown: Floats, a: float) -> Floats:
        """The estimating equations of β and log p."""
        beta, p, _ = self.split(unknown)
        usual = -0.7 * np.log(np.arange(2, self.depth + 1))
        prior = np.append(self.ridge * beta, np.log(p[1:]) - usual)
        left: Floats = self.scores(unknown, a).sum(axis=0) - prior
        if self.given is not None:
            left[len(beta) :] = unknown[len(beta) : len(left)]  # nothing to learn
        return left

    def level_score(self, unknown: Floats, a: float, t: float, clicks: Floats) -> Floats:
        """The score of log L, of clicks as they are or as they are expected."""
        level = self.split(unknown)[2]
        mean = self.rates(unknown, a)[1]
        own = (clicks - mean) / (1 + mean / a)
        return self.by_context(own) + t * (1 - level)

    def found(self, unknown: Floats, a: float, t: float) -> Found:
        """What these unknowns say."""
        beta, p, level = self.split(unknown)
        return Found(beta, p, a, t, level, self.rates(unknown, a)[0])

    def root(self, a: float, t: float) -> Found:
        """What solves all equations, given the strengths."""

        def left(v: Floats) -> Floats:
            return np.append(self.score(v, a), self.level_score(v, a, t, self.clicks))

        return self.found(root(left, self.start()), a, t)

    def at(self, beta: Floats, p: Floats, a: float, t: float) -> Found:
        """Levels and rates where β and p are given."""
        fixed, start = np.append(beta, np.log(p[1:])), np.zeros(len(self.contexts))
        level = root(lambda v: self.level_score(np.append(fixed, v), a, t, self.clicks), start)
        return self.found(np.append(fixed, level), a, t)

    def slope(self, found: Found) -> Floats:
        """J, by how much the score falls with β and log p: a difference quotient.

        The levels answer to β and p as they do on average (Fisher's scoring): in their equation,
        clicks are those that are expected, and 1 is the level that was found.
        """
        fixed, start = np.append(found.beta, np.log(found.p[1:])), np.log(found.level)
        expected = self.rates(np.append(fixed, start), found.a)[1]

        def score(theta: Floats) -> Floats:
            def left(log_level: Floats) -> Floats:
                at = self.level_score(np.append(theta, log_level), found.a, found.t, expected)
                return at + found.t * (found.level - 1)

            return self.score(np.append(theta, root(left, start)), found.a)

        step = 1e-5
        each = [
            (score(fixed - one) - score(fixed + one)) / (2 * step)
            for one in step * np.eye(len(fixed))
        ]
        return np.stack(each, axis=1)

    def alone(self, candidate: int, found: Found) -> Floats:
        """Negative binomial regression of clicks on 1, s' and u' of a candidate."""
        x = np.column_stack([np.ones(len(self.pairs)), self.others[:, 0, candidate]])
        exposure = (self.n @ found.p).sum(axis=1)

        def score(b: Floats) -> Floats:
            mean = exposure * np.exp(np.clip(x @ b, -12, 2))
            return np.asarray(
                ((self.clicks - mean) / (1 + mean / found.a)) @ x - self.ridge[:3] * b
            )

        return root(score, np.array([found.beta[0], 0.0, 0.0]))

    # --- strengths ------------------------------------------------------------------------------

    def strengths(self, found: Found) -> tuple[float, float]:
        """a and t with the largest likelihood."""
        c, e = self.c.sum(axis=2), self.n @ found.p
        m, m_last = (np.exp(np.clip(x @ found.beta, -12, 2)) for x in (self.z, self.x))
        mean = e.sum(axis=1) * m_last * found.level[self.owner]
        weight = (1 / (1 + mean / found.a))[:, None]
        took, due = self.by_context(weight * c), self.by_context(weight * e * m)
        if self.days == 1:  # clicks are 0 or 1, so they vary less than Poisson's do
            binary = (found.alpha**2 @ (self.n[:, 0] @ found.p**2)) / (found.alpha @ e.sum(axis=1))
            vary = max(1 - binary, 0.01)
            return (
                best(lambda s: negative_binomial(c / vary, e * m / vary, s)),
                best(lambda s: negative_binomial(took, due, s)),
            )

        def of_pairs(s: float) -> float:
            later = np.arange(self.days) >= self.days // 2
            expected = e * (before(c) + s) / (before(e) + s / m)
            return poisson(c[:, later], expected[:, later])

        def of_contexts(s: float) -> float:
            return poisson(took, due * (before(took) + s) / (before(due) + s))

        return best(of_pairs), best(of_contexts)

    def fit(self) -> Found:
        """Equations and strengths in turn, from a = 5 and t = 20, until they move by < 20 %."""
        a, t, settled = 5.0, 20.0, 0
        while True:
            found, old = self.root(a, t), (a, t)
            a, t = self.strengths(found)
            if settled and max(abs(math.log(a / old[0])), abs(math.log(t / old[1]))) < 0.2:
                return replace(found, a=a, t=t)
            settled += 1

    # --- readers who stop -----------------------------------------------------------------------

    def below_first(self, found: Found) -> tuple[Floats, Floats, Floats, Floats]:
        """Clicks below first results, and those due if no click ended the reading.

        By the pair that stands first where that was clicked, then by context where it was not.
        """
        took, due = np.zeros((2, len(self.pairs)))
        level, other = np.zeros((2, len(self.contexts)))
        for r in self.records:
            first, x = self.number[r.context, r.items[0]], self.contexts.index(r.context)
            numbers = [self.number[r.context, item] for item in r.items[1:]]
            clicks, expected, at = (took, due, first) if r.earned[0] > 0 else (level, other, x)
            clicks[at] += sum(r.earned[1:])
            expected[at] += found.alpha[numbers] @ found.p[1 : len(r.items)]
        return took, due, level, other

    def first_clicks(self, found: Found) -> tuple[Floats, Floats]:
        """Those below clicked first results, by pair, with the weights of Mantel and Haenszel."""
        took, due, level, other = self.below_first(found)
        both = np.maximum(other + self.by_context(due), 1e-300)[self.owner]
        return took * other[self.owner] / both, due * level[self.owner] / both

    def stopping(self, found: Found) -> Stop | None:
        """How readers stop; None if the test of Mantel and Haenszel does not see that they do."""
        below = np.array([sum(r.earned[1:]) for r in self.records if r.earned[0] > 0])
        spread = max((below**2).sum() / below.sum(), 1.0) if below.sum() else 1.0
        took, due = (each / spread for each in self.first_clicks(found))
        if not due.sum():
            return None
        mean = float(np.clip(took.sum() / due.sum(), 1e-3, 1))
        stop = Stop(mean, kept(*map(self.by_context, (took, mean * due))), math.inf, spread)
        stop = stop._replace(pair=kept(took, self.going_on(stop, found) * due))
        kappa = np.clip(1 - self.going_on(stop, found), 0, 1) @ due / due.sum()
        clear = self.mantel_haenszel(found) / math.sqrt(spread) > math.sqrt(2 * ENOUGH)
        return stop if clear and kappa >= 0.05 else None

    def going_on(self, stop: Stop, found: Found) -> Floats:
        """1 − κ by pair: shrunk to its context's, which is shrunk to that of the log."""
        took, due = (each / stop.spread for each in self.first_clicks(found))
        whole = shrunk(self.by_context(took), self.by_context(due), stop.goes_on, stop.context)
        return shrunk(took, due, whole[self.owner], stop.pair)

    def mantel_haenszel(self, found: Found) -> float:
        """z of fewer clicks below clicked first results, if each click was one by itself.

        Given all N clicks of a context below first results, those below clicked ones are binomial,
        with the share q of what is expected there: Σ (N q − C) / √(Σ N q (1 − q)).
        """
        took, due, level, other = self.below_first(found)
        c, expected = self.by_context(took), self.by_context(due)
        n, q = c + level, expected / (expected + other)
        return float((n * q - c).sum() / math.sqrt(max((n * q * (1 - q)).sum(), 1e-300)))

    def readers(self, stop: Stop, found: Found, more: float = 1.0) -> Callable[[Slot], float]:
        """Which share of readers gets to a slot, where κ is `more` times as large."""
        kappa = np.clip(more * (1 - self.going_on(stop, found)), 0, 1)
        leaves = kappa * np.clip(found.alpha, 0, 1)

        def read(slot: Slot) -> float:
            x, items, k = slot
            return math.prod(max(1 - leaves[self.number[x, item]], 0.02) for item in items[:k])

        return read

    def passes(
        self, strengths: Sequence[float], p: Floats, read: Callable[[Slot], float]
    ) -> Callable[[Slot], float]:
        """What list, prefix and position pass on: Π s / (n + s), n what has come from above."""
        cells: list[Callable[[Slot], Any]] = [lambda s: s, lambda s: (s[0], s[1][: s[2] + 1])]
        cells = [*cells, lambda s: (s[0], s[1][s[2]], s[2])][-len(strengths) :]
        slots = [(r.context, r.items, k) for r in self.records for k in range(len(r.items))]
        weight = dict.fromkeys(slots, 0.0)
        share = dict.fromkeys(slots, 1.0)
        for slot in slots:
            weight[slot] += 1.0
        for j, (s, cell) in enumerate(zip(strengths, cells, strict=True)):
            n: dict[Any, float] = defaultdict(float)
            for slot, w in weight.items():
                examined = p[slot[2]] * read(slot) if len(strengths) == 3 and j == 2 else 1.0
                n[cell(slot)] += w * share[slot] * examined
            for slot in share:
                share[slot] *= 1.0 if math.isinf(s) else s / (n[cell(slot)] + s)
        return lambda slot: share[slot]


# --- likelihoods ----------------------------------------------------------------------------------


def root(function: Callable[[Floats], Floats], start: Floats) -> Floats:
    """Where a function is 0."""
    found = optimize.root(function, start, tol=1e-13)
    if np.abs(function(found.x)).max() > 1e-8:
        found = optimize.root(function, start, method="lm", tol=1e-14)
    assert np.abs(function(found.x)).max() < 1e-7, found.message
    return np.asarray(found.x)


def before(values: Floats) -> Floats:
    """Sums over the days before each."""
    return np.asarray(values.cumsum(axis=1) - values)


def poisson(c: Floats, mean: Floats) -> float:
    """−log-likelihood of Poisson counts, but for what c alone decides."""
    some = c > 0
    return float(mean.sum() - (c[some] * np.log(mean[some])).sum())


def negative_binomial(c: Floats, mean: Floats, s: float) -> float:
    """−log-likelihood of Poisson counts whose means vary by Γ(s, s), on the same scale."""
    c, mean = c[mean > 0], mean[mean > 0]
    each = gammaln(c + s) - gammaln(s) + s * np.log(s) - (c + s) * np.log(mean + s)
    return -float((each + c * np.log(mean)).sum())


def best(loss: Callable[[float], float]) -> float:
    """The strength with the least loss: a parabola through the best of the grid and neighbours."""
    values = [loss(math.exp(each)) for each in GRID]
    at = min(max(int(np.argmin(values)), 1), len(GRID) - 2)
    near = slice(at - 1, at + 2)
    bend, slope, _ = np.polyfit(GRID[near] - GRID[at], values[near], 2)
    step = GRID[1] - GRID[0]
    shift = np.clip(-slope / (2 * bend), -step, step) if bend > 0 else -step * np.sign(slope)
    return float(np.exp(GRID[at] + shift))


def kept(c: Floats, mean: Floats) -> float:
    """The strength of counts around their means; infinite if that says as much."""
    c, mean = c[mean > 0], mean[mean > 0]
    s = best(lambda s: negative_binomial(c, mean, s))
    return s if poisson(c, mean) - negative_binomial(c, mean, s) > ENOUGH else math.inf


def shrunk(c: Floats, due: Floats, mean: Floats | float, s: float) -> Floats:
    """c / due, shrunk to a mean by Γ(s, s)."""
    return np.broadcast_to(mean, c.shape) if math.isinf(s) else (c + s) / (due + s / mean)
