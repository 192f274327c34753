"""The ladder's oracle: rates that fit all counts best, found by solving for them all at once.

The library climbs up and down; here the same rates are the least squares

    Σ_l n_l (c_l/n_l − r_l)² / e m  +  Σ_l s (r_l − r_g)² / e m  +  Σ_g s' (r_g − e r_ak)² / e m
        +  Σ_ak s'' (r_ak − α_a)² / m  +  Σ_a a/(m L) (α_a − m_a L)² / m  +  t (L − 1)²

over the rates of every rung of a context: slots of lists, prefixes, items at positions, items, and
the level L, with m what β expects of an item by the words of both rankers. The division by e, how
much the slot is examined, and by m says that clicks vary as Poisson's do. The strength a/(m L)
needs L, which is solved for as often as the library does, beginning with 1.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu
from scipy.special import log_ndtr

from tests.truth.fit import Floats, height, shrunk
from tests.truth.oracle import Policy, Record, by_context, count, frequencies

LEVEL = ("level",)
LEVELS = 3000
NORMAL = NormalDist()
Lists = Mapping[tuple[Any, ...], float]


class Overlap(NamedTuple):
    """The pool, the correlation and the unreachable share, and β of the candidate alone."""

    pool: float
    correlation: float
    unreachable: float
    candidate_only: Sequence[float]


class Solved(NamedTuple):
    """Rates that fit best, by cell."""

    rate: dict[Any, float]


@dataclass(frozen=True)
class Truth:
    """A ladder on the prior, as slowly as it can be said.

    Attributes:
        strengths: of the rungs that know a position, finest first.
        beta: of (1, s, u, s²) of production, and of (s', u', s' s, u' u) of the candidate.
        p: how much positions are examined.
        a, t: the strength of an item, and of a context.
        depth: of the log's longest list.
        stopping: 1 − κ, the strengths of contexts and items in it, and how many clicks are one.
        base: the ladder before, by whose rates readers of the log's lists stop.
        overlap: how much both rankers retrieve alike.
        unit: how much of a reward counts as one click.
    """

    top: str
    strengths: Sequence[float]
    beta: Sequence[float]
    p: Sequence[float]
    a: float
    t: float
    depth: int
    stopping: tuple[float, float, float, float] | None = None
    base: Truth | None = None
    overlap: Overlap | None = None
    unit: float = 1.0

    @classmethod
    def of(cls, fit: Any) -> Truth:  # noqa: ANN401
        """With the numbers that the library found: of a log, or of a candidate too."""
        log, never = getattr(fit, "log", fit), [0.0] * 20  # further down than any list of the log
        stops, found = log.stopping and log.stopping[:4], None
        for at in (*log.reading.rounds, fit.parameters):
            found = cls(
                beta=at.beta.tolist(),
                p=[*at.p.tolist(), *never],
                a=at.a,
                t=at.t,
                stopping=stops if found else None,
                base=found,
                unit=log.spec.unit,
                top=log.top,
                strengths=log.strengths,
                depth=len(at.p),
            )
        assert found is not None
        if log is fit:
            return found
        pool, rho, unreachable, *_ = fit.overlaps[0]
        own = fit.candidate_only[0].coefficients.tolist()
        return replace(found, overlap=Overlap(pool, rho, unreachable, own))

    # --- features ---------------------------------------------------------------------------------

    def features(self, lists: Lists, item: Any) -> tuple[float, float]:  # noqa: ANN401
        """Which share of lists has an item, and how high, as far down as the log's lists go."""
        at = [(m, k) for m, k in _ranks(lists, item) if k <= self.depth]
        return sum(m for m, _ in at), sum(m * height(k, self.depth) for m, k in at)

    def expected(self, own: tuple[float, float], other: tuple[float, float]) -> float:
        """What β expects of an item."""
        (s, u), (v, w) = own, other
        x = [1.0, s, u, s * s, v, w, v * s, w * u][: len(self.beta)]
        return math.exp(min(max(sum(b * y for b, y in zip(self.beta, x, strict=True)), -12), 2))

    def never_shown(self, lists: Lists, item: Any) -> float:  # noqa: ANN401
        """What is expected of an item that the log never showed."""
        assert self.overlap is not None
        pool, rho, w, beta = self.overlap
        (s, u), ranks = self.features(lists, item), _ranks(lists, item)
        own = pool / (1 - w)  # what the candidate ranks
        z = sum(m * NORMAL.inv_cdf(1 - (min(k, own) - 0.375) / (own + 0.25)) for m, k in ranks)
        z /= sum(m for m, _ in ranks)
        cut, rest = NORMAL.inv_cdf(1 - self.depth / pool), math.sqrt(1 - rho**2)
        h = (cut - rho * z) / rest
        less = math.exp(-h * h / 2 - math.log(2 * math.pi) / 2 - log_ndtr(h))
        gap = max(cut - (rho * z - rest * less), 0.0)
        deep = self.expected((0.0, 0.0), (s, u)) * math.exp(-max(self.beta[2], 0.0) * gap)
        reach = NORMAL.cdf(-h)
        alone = math.exp(min(max(beta[0] + beta[1] * s + beta[2] * u, -12), 2))
        any_ = max(reach * alone + (1 - reach) * deep, deep)
        out = w / max(w + (1 - w) * (1 - reach), 1e-12)
        return out * any_ + (1 - out) * deep

    # --- rates ------------------------------------------------------------------------------------

    def read(self, items: tuple[Any, ...], k: int, stops: Mapping[Any, float]) -> float:
        """How much a slot is examined, where items stop so many of their readers."""
        return self.p[k - 1] * math.prod(max(1 - stops[i], 0.02) for i in items[: k - 1])

    def stops(
        self, records: Sequence[Record], rates: Mapping[Any, float] | None = None
    ) -> dict[Any, float]:
        """How many readers each item stops, κ α; by the rates of the log's items, or by these."""
        attraction = self.attraction(records)
        if self.stopping is None:
            return defaultdict(float)
        kappa, other = self.kappa(records, attraction)
        given = attraction if rates is None else rates
        return {i: kappa.get(i, other) * min(max(rate, 0.0), 1.0) for i, rate in given.items()}

    def kappa(
        self, records: Sequence[Record], attraction: Mapping[Any, float]
    ) -> tuple[dict[Any, float], float]:
        """How often a click ends the reading: by item that stood first, and of others."""
        assert self.stopping is not None
        assert self.base is not None
        mean, of_context, of_item, spread = self.stopping
        took = dict.fromkeys(attraction, 0.0)  # below clicked first results
        due = took.copy()
        level = other = 0.0  # below the others
        for r in records:
            some = list(zip(r.items, r.clicks, self.base.p, strict=False))[1:]
            expected = r.weight * sum(attraction[i] * p for i, _, p in some)
            earned = r.weight * sum(c for _, c, _ in some)
            if r.items and r.clicks[0] > 0:
                took[r.items[0]] += earned
                due[r.items[0]] += expected
            else:
                level, other = level + earned, other + expected
        both = max(other + sum(due.values()), 1e-300) * spread
        c, d = np.array([*took.values()]) * other / both, np.array([*due.values()]) * level / both
        own = shrunk(c.sum(keepdims=True), d.sum(keepdims=True), mean, of_context)
        every = np.clip(1 - np.append(shrunk(c, d, own, of_item), own), 0, 1).tolist()
        return dict(zip(attraction, every, strict=False)), every[-1]

    def attraction(self, records: Sequence[Record]) -> dict[Any, float]:
        """The rates of items by the ladder before, by which readers of the log's lists stop."""
        if self.base is None:
            return defaultdict(float)
        base, stops = self.base, self.base.stops(records)
        n: dict[Any, float] = defaultdict(float)
        c: dict[Any, float] = defaultdict(float)
        for r in records:
            for k, item in enumerate(r.items, start=1):
                n[item] += r.weight * base.read(r.items, k, stops)
                c[item] += r.weight * r.clicks[k - 1] / self.unit
        lists = _lists(records)
        m = {item: base.expected(base.features(lists, item), (0.0, 0.0)) for item in n}

        level = level_of(np.array([(n[i], c[i], m[i]) for i in n]), base.a, base.t)
        return {i: (c[i] + base.a) / (n[i] + base.a / (m[i] * level)) for i in n}

    def solve(self, records: Sequence[Record], shown: Lists) -> Solved:
        """The rates of a context, of the log's slots and of those that a candidate shows."""
        lists, stops = _lists(records), self.stops(records)
        logged = {item for items in lists for item in items}
        items = logged | {item for each in shown for item in each}
        m = {
            i: self.expected(self.features(lists, i), self.features(shown, i))
            if i in logged
            else self.never_shown(shown, i)
            for i in items
        }
        level = settled(lambda level: self._fitted(records, {}, m, level, stops, None)[LEVEL])
        rates = self._fitted(records, {}, m, level, stops, level)
        alpha = {i: rates.get(("item", i), m[i] * level) for i in items}
        left = self.stops(records, alpha)
        return Solved(self._fitted(records, shown, m, level, stops, level, left))

    def held_out(
        self, whole: Sequence[Record], others: Sequence[Record], shown: Lists
    ) -> dict[Any, float]:
        """The rates by other records than those that are predicted.

        Words, and by them the strength of an item, are those of the whole; L is not.
        """
        lists, stops = _lists(whole), self.stops(whole)
        items = {item for each in lists for item in each}
        m = {i: self.expected(self.features(lists, i), (0.0, 0.0)) for i in items}
        level = settled(lambda level: self._fitted(whole, {}, m, level, stops, None)[LEVEL])
        own = self._fitted(others, {}, m, level, stops, None)[LEVEL]
        return self._fitted(others, shown, m, level, stops, own, stops)

    def _fitted(
        self,
        records: Sequence[Record],
        shown: Lists,
        m: Mapping[Any, float],
        level: float,
        stops: Mapping[Any, float],
        fixed: float | None,
        shown_stops: Mapping[Any, float] | None = None,
    ) -> dict[Any, float]:
        """The least squares, with strengths of items by `level`, and L free unless it is fixed."""
        terms: list[tuple[float, dict[Any, float], float]] = [(self.t, {LEVEL: 1.0}, 1.0)]
        if fixed is not None:
            terms = [(1.0, {LEVEL: 1.0}, fixed)]
        tied: set[Any] = set()
        same: dict[Any, tuple[Any, float]] = {}
        n: dict[Any, float] = defaultdict(float)
        c: dict[Any, float] = defaultdict(float)
        scale: dict[Any, float] = {}

        listed = self.top == "list"
        first = "prefix" if listed else "position"  # the first, from below, that knows examination

        def tie(items: tuple[Any, ...], k: int, e: float) -> Any:  # noqa: ANN401
            item, fine = items[k - 1], [("list", items, k), ("prefix", items[:k])]
            path: list[Any] = [*(fine if listed else []), ("position", item, k), ("item", item)]
            for s, cell, below in zip(self.strengths, path, path[1:], strict=False):
                if cell in tied:
                    continue
                tied.add(cell)
                factor = e if cell[0] == first else 1.0
                if math.isinf(s):  # no rate of its own
                    same[cell] = below, factor
                else:
                    examined = (e or 1.0) if cell[0] in ("list", first) else 1.0
                    terms.append((s / (examined * m[item]), {cell: 1.0, below: -factor}, 0.0))
            if path[-1] not in tied:
                tied.add(path[-1])
                weight = self.a / (m[item] * level) / m[item]
                if fixed is None:
                    terms.append((weight, {path[-1]: 1.0, LEVEL: -m[item]}, 0.0))
                else:  # then only the rate matters, not what it says of L
                    terms.append((weight, {path[-1]: 1.0}, m[item] * fixed))
            scale.setdefault(path[0], (e or 1.0) * m[item])
            return path[0]

        for r in records:
            for k in range(1, len(r.items) + 1):
                cell = tie(r.items, k, self.read(r.items, k, stops))
                n[cell] += r.weight
                c[cell] += r.weight * r.clicks[k - 1] / self.unit
        for items in shown:
            for k in range(1, len(items) + 1):
                tie(items, k, self.read(items, k, shown_stops or stops))
        terms += [(n[cell] / scale[cell], {cell: 1.0}, c[cell] / n[cell]) for cell in n]
        return least_squares(terms, same)

    def value(
        self,
        records: Sequence[Record],
        candidate: Policy,
        theta: Sequence[float],
        earned: Sequence[Sequence[float]] | None = None,
        worths: Callable[..., float] | None = None,
    ) -> float:
        """What production earned, and Σ (h − n) r w; contexts that it does not know are left out.

        What clicks earned is clicks themselves, and w = 1, unless they are given.
        """
        rewards = [r.clicks for r in records] if earned is None else earned
        known = [(r, e) for r, e in zip(records, rewards, strict=True) if r.context in candidate]
        total = sum(r.weight * t * w for r, e in known for t, w in zip(theta, e, strict=False))
        for x, own in by_context(r for r, _ in known).items():
            rate, w = self.solve(own, candidate[x]).rate, worths and partial(worths, x)
            new, old = (self.worth(rate, h, theta, w) for h in (candidate[x], _lists(own)))
            total += count(own) * (new - old)
        return total / count(r for r, _ in known)

    def worth(
        self,
        rate: Mapping[Any, float],
        lists: Lists,
        theta: Sequence[float],
        worths: Callable[..., float] | None = None,
    ) -> float:
        """Σ_A h(A) Σ_k θ_k r w."""
        top = "list" if self.top == "list" else "position"
        return self.unit * sum(
            mass
            * theta[k - 1]
            * (1.0 if worths is None else worths(items, k))
            * rate[(top, items, k) if top == "list" else (top, items[k - 1], k)]
            for items, mass in lists.items()
            for k in range(1, min(len(items), len(theta)) + 1)
        )


def _ranks(lists: Lists, item: Any) -> list[tuple[float, int]]:  # noqa: ANN401
    """The probability and the rank of every list that has an item."""
    return [(mass, items.index(item) + 1) for items, mass in lists.items() if item in items]


def _lists(records: Sequence[Record]) -> dict[tuple[Any, ...], float]:
    """The lists of the records of a context, by their shares."""
    (lists,) = frequencies(records).values()
    return lists


def settled(step: Callable[[float], float]) -> float:
    """Where a step leads to itself, beginning with 1."""
    level = 1.0
    for _ in range(LEVELS):
        before, level = level, step(level)
        if math.isclose(before, level, rel_tol=1e-13):
            break
    return level


def level_of(counts: Floats, a: float, t: float) -> float:
    """L, where counts (n, c, m) have the mean n m L and vary by Γ(a, a), and L by Γ(t, t)."""
    n, c, m = counts.T

    def step(level: float) -> float:
        lean = 1 / (1 + n * m * level / a)
        return float((lean @ c + t) / (lean @ (n * m) + t))

    return settled(step)


def least_squares(
    terms: list[tuple[float, dict[Any, float], float]], same: Mapping[Any, tuple[Any, float]]
) -> dict[Any, float]:
    """Rates by the normal equations of weighted terms; some rates are multiples of others."""

    def root(cell: Any, factor: float) -> tuple[Any, float]:  # noqa: ANN401
        while cell in same:
            cell, times = same[cell]
            factor *= times
        return cell, factor

    number: dict[Any, int] = {}
    entries = []
    for row, (_, parts, _) in enumerate(terms):
        for cell, factor in dict(root(*each) for each in parts.items()).items():
            entries.append((factor, row, number.setdefault(cell, len(number))))
    values, rows, columns = zip(*entries, strict=True)
    matrix = sparse.csc_array((values, (rows, columns)), shape=(len(terms), len(number)))
    weights, target = (np.array([term[i] for term in terms]) for i in (0, 2))
    normal = sparse.csc_array(matrix.T @ sparse.diags_array(weights) @ matrix)
    best = splu(normal).solve(matrix.T @ (weights * target))
    rate = {cell: float(best[j]) for cell, j in number.items()}
    for cell in same:
        below, factor = root(cell, 1.0)
        rate[cell] = factor * rate[below]
    return rate


@dataclass(frozen=True)
class Worths:
    """What a click on an item is worth in a context, as slowly as it can be said.

    Attributes:
        gamma: of 1, of how much more the candidate has a pair examined, and of the same of items.
        a, t: φ times the strength of a pair, and of an item.
        mean: the reward of a click, in which all is measured.
        p: how much positions are examined.
        strengths: of list, prefix and position, or of position alone.
        slope: δ.
    """

    gamma: Sequence[float]
    a: float
    t: float
    mean: float
    p: Sequence[float]
    strengths: Sequence[float]
    slope: float

    def of(
        self, records: Sequence[Record], earned: Sequence[Sequence[float]], candidate: Policy
    ) -> tuple[Callable[..., float], list[float]]:
        """By context, items and position; and the score of γ, which is what is known beforehand."""
        names = ("list", "prefix", "position")[-len(self.strengths) :]
        rungs = list(zip(self.strengths, names, strict=True))
        counts: Any = {name: defaultdict(lambda: np.zeros(2)) for name in (*names, "pair")}
        n, h = (defaultdict[Any, float](float) for _ in range(2))
        for record, rewards in zip(records, earned, strict=True):
            y, w = record.context, record.weight
            for k, item in enumerate(record.items, start=1):
                n[y, item] += w * self.p[k - 1]
                told = record.clicks[k - 1], rewards[k - 1] / self.mean
                counts[names[0]][self._cell(names[0], y, record.items, k)] += w * np.array(told)
            for items, mass in candidate[y].items():
                for k, item in enumerate(items):
                    h[y, item] += w * mass * self.p[k]
        for (s, name), coarser in zip(rungs, (*names[1:], "pair"), strict=True):
            for (y, fine, k), (clicks, reward) in counts[name].items():
                coarse = (y, fine) if coarser == "pair" else self._cell(coarser, y, fine, k)
                e = k**self.slope if self._examined(name) else 1.0
                share = 1.0 if math.isinf(s) else s / (clicks + s)
                counts[coarser][coarse] += share * np.array([clicks * e, reward])
        pairs = list({*n, *h})
        c, r = np.array([counts["pair"][pair] for pair in pairs]).T
        seen = np.array([(h[pair], n[pair]) for pair in pairs])
        same = np.array([[item == other for _, other in pairs] for _, item in pairs])
        more = [
            (by[:, 0] - by[:, 1]) / np.maximum(by.sum(axis=1), 1e-300) for by in (seen, same @ seen)
        ]
        x = np.stack([np.ones(len(pairs)), *more], axis=1)
        mu = np.exp(x @ self.gamma)
        counts_of = np.stack([c, r, mu], axis=1)
        m = mu * [level_of(counts_of[own], self.a, self.t) for own in same]
        lean = 1 / (1 + c * m / self.a)
        rate = dict(zip(pairs, (r + self.a) / (c + self.a / m), strict=True))

        def worth(context: Any, items: tuple[Any, ...], k: int) -> float:  # noqa: ANN401
            found = float(rate[context, items[k - 1]])
            for s, name in reversed(rungs):
                found *= k**self.slope if self._examined(name) else 1.0
                own = counts[name][self._cell(name, context, items, k)]
                found = found if math.isinf(s) else (own[1] + s * found) / (own[0] + s)
            return self.mean * found

        return worth, ((lean * (r - c * m)) @ x).tolist()

    def _examined(self, rung: str) -> bool:
        """Whether a rung, seen from below, is the first that tells positions from each other."""
        return rung == ("position" if len(self.strengths) == 1 else "prefix")

    @staticmethod
    def _cell(rung: str, context: Any, items: tuple[Any, ...], k: int) -> Any:  # noqa: ANN401
        """The cell of a slot."""
        return context, {"list": items, "prefix": items[:k], "position": items[k - 1]}[rung], k
