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
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu
from scipy.special import log_ndtr

from tests.truth.oracle import Policy, Record

FINE = {"list": ("list", "prefix"), "ip": ()}
LEVEL = ("level",)
LEVELS = 3000
NORMAL = NormalDist()
Lists = Mapping[tuple[Any, ...], float]


@dataclass(frozen=True)
class Alike:
    """The pool, the correlation and the share out of reach, and a rate by the candidate alone."""

    pool: float
    correlation: float
    outside: float
    bare: Sequence[float]


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
        alike: how alike both rankers are.
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
    alike: Alike | None = None
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
        overlap, alone = fit.overlaps[0], fit.candidate_only[0].coefficients.tolist()
        return replace(found, alike=Alike(overlap[0], overlap[1], overlap[2], alone))

    # --- words ------------------------------------------------------------------------------------

    def step(self, k: int) -> float:
        """The normal score of a rank, of four times as many, above that of the last."""
        score = [NORMAL.inv_cdf(1 - (j - 0.375) / (4 * self.depth + 0.25)) for j in (k, self.depth)]
        return score[0] - score[1]

    def word(self, lists: Lists, item: Any) -> tuple[float, float]:  # noqa: ANN401
        """Which share of lists has an item, and how high, as far down as the log's lists go."""
        at = [(m, k) for m, k in _ranks(lists, item) if k <= self.depth]
        return sum(m for m, _ in at), sum(m * self.step(k) for m, k in at)

    def expected(self, own: tuple[float, float], other: tuple[float, float]) -> float:
        """What β expects of an item."""
        (s, u), (v, w) = own, other
        x = [1.0, s, u, s * s, v, w, v * s, w * u][: len(self.beta)]
        return math.exp(min(max(sum(b * y for b, y in zip(self.beta, x, strict=True)), -12), 2))

    def never_shown(self, lists: Lists, item: Any) -> float:  # noqa: ANN401
        """What is expected of an item that the log never showed."""
        assert self.alike is not None
        pool, rho, w = self.alike.pool, self.alike.correlation, self.alike.outside
        word, beta = self.word(lists, item), self.alike.bare
        ranks = _ranks(lists, item)
        own = pool / (1 - w)  # what the candidate ranks
        z = sum(m * NORMAL.inv_cdf(1 - (min(k, own) - 0.375) / (own + 0.25)) for m, k in ranks)
        z /= sum(m for m, _ in ranks)
        cut, rest = NORMAL.inv_cdf(1 - self.depth / pool), math.sqrt(1 - rho**2)
        h = (cut - rho * z) / rest
        less = math.exp(-h * h / 2 - math.log(2 * math.pi) / 2 - log_ndtr(h))
        gap = max(cut - (rho * z - rest * less), 0.0)
        deep = self.expected((0.0, 0.0), word) * math.exp(-max(self.beta[2], 0.0) * gap)
        reach = NORMAL.cdf(-h)
        log_alone = beta[0] + beta[1] * word[0] + beta[2] * word[1]
        alone = math.exp(min(max(log_alone, -12), 2))
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
        due, below, per_item = [0.0, 0.0], 0.0, []
        for r in records:
            some = list(zip(r.items, r.clicks, self.base.p, strict=False))[1:]
            expected = r.weight * sum(attraction[i] * p for i, _, p in some)
            clicked = bool(r.items) and r.clicks[0] > 0
            earned = r.weight * sum(c for _, c, _ in some)
            due[clicked] += expected
            below += 0.0 if clicked else earned
            if clicked:
                per_item.append((r.items[0], earned, expected))
        counts: dict[Any, list[float]] = {i: [0.0, 0.0] for i in attraction}
        for item, earned, expected in per_item:
            counts[item][0] += earned * due[0] / sum(due) / spread if sum(due) else 0.0
            counts[item][1] += expected * below / sum(due) / spread if sum(due) else 0.0

        def leaning(clicks: float, due: float, mean: float, strength: float) -> float:
            return mean if math.isinf(strength) else (clicks + strength) / (due + strength / mean)

        whole = [sum(each) for each in zip(*counts.values(), strict=True)]
        own = leaning(whole[0], whole[1], mean, of_context)
        every = {i: leaning(c, d, own, of_item) for i, (c, d) in counts.items()}
        return {i: min(max(1 - r, 0.0), 1.0) for i, r in every.items()}, min(max(1 - own, 0.0), 1.0)

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
        lists, level = _lists(records), 1.0
        m = {item: base.expected(base.word(lists, item), (0.0, 0.0)) for item in n}
        for _ in range(LEVELS):
            lean = {i: 1 / (1 + n[i] * m[i] * level / base.a) for i in n}
            due = sum(lean[i] * n[i] * m[i] for i in n)
            before, level = level, (sum(lean[i] * c[i] for i in n) + base.t) / (due + base.t)
            if math.isclose(before, level, rel_tol=1e-13):
                break
        return {i: (c[i] + base.a) / (n[i] + base.a / (m[i] * level)) for i in n}

    def solve(self, records: Sequence[Record], shown: Lists) -> Solved:
        """The rates of a context, of the log's slots and of those that a candidate shows."""
        lists, stops = _lists(records), self.stops(records)
        logged = {item for items in lists for item in items}
        items = logged | {item for each in shown for item in each}
        m = {
            i: self.expected(self.word(lists, i), self.word(shown, i))
            if i in logged
            else self.never_shown(shown, i)
            for i in items
        }
        level, solved = 1.0, None
        for _ in range(LEVELS):
            solved = self._fitted(records, {}, m, level, stops, None)
            before, level = level, solved.rate[LEVEL]
            if math.isclose(before, level, rel_tol=1e-13):
                break
        rates = self._fitted(records, {}, m, level, stops, level).rate
        alpha = {i: rates.get(("item", i), m[i] * level) for i in items}
        return self._fitted(records, shown, m, level, stops, level, self.stops(records, alpha))

    def held_out(
        self, whole: Sequence[Record], others: Sequence[Record], shown: Lists
    ) -> dict[Any, float]:
        """The rates by other records than those that are predicted.

        Words, and by them the strength of an item, are those of the whole; L is not.
        """
        lists, stops = _lists(whole), self.stops(whole)
        items = {item for each in lists for item in each}
        m = {i: self.expected(self.word(lists, i), (0.0, 0.0)) for i in items}
        level = 1.0
        for _ in range(LEVELS):
            before, level = level, self._fitted(whole, {}, m, level, stops, None).rate[LEVEL]
            if math.isclose(before, level, rel_tol=1e-13):
                break
        own = self._fitted(others, {}, m, level, stops, None).rate[LEVEL]
        return self._fitted(others, shown, m, level, stops, own, stops).rate

    def _fitted(
        self,
        records: Sequence[Record],
        shown: Lists,
        m: Mapping[Any, float],
        level: float,
        stops: Mapping[Any, float],
        fixed: float | None,
        shown_stops: Mapping[Any, float] | None = None,
    ) -> Solved:
        """The least squares, with strengths of items by `level`, and L free unless it is fixed."""
        terms: list[tuple[float, dict[Any, float], float]] = [(self.t, {LEVEL: 1.0}, 1.0)]
        if fixed is not None:
            terms = [(1.0, {LEVEL: 1.0}, fixed)]
        tied: set[Any] = set()
        same: dict[Any, tuple[Any, float]] = {}
        n: dict[Any, float] = defaultdict(float)
        c: dict[Any, float] = defaultdict(float)
        scale: dict[Any, float] = {}

        def tie(items: tuple[Any, ...], k: int, e: float) -> Any:  # noqa: ANN401
            item = items[k - 1]
            path: list[Any] = [("list", items, k), ("prefix", items[:k])]
            path = [cell for cell in path if cell[0] in FINE[self.top]]
            path += [("position", item, k), ("item", item)]
            first = "prefix" if "prefix" in FINE[self.top] else "position"
            for s, cell, below in zip(self.strengths, path, path[1:], strict=False):
                examined = cell[0] in ("list", "prefix", first)
                factor = e if cell[0] == first else 1.0
                if cell not in tied and math.isinf(s):  # no rate of its own
                    tied.add(cell)
                    same[cell] = below, factor
                elif cell not in tied:
                    tied.add(cell)
                    weight = s / (((e or 1.0) if examined else 1.0) * m[item])
                    terms.append((weight, {cell: 1.0, below: -factor}, 0.0))
            if path[-1] not in tied:
                tied.add(path[-1])
                weight = self.a / (m[item] * level) / m[item]
                ties = {path[-1]: 1.0, LEVEL: -m[item]}
                if fixed is not None:  # then only the rate matters, not what it says of L
                    terms.append((weight, {path[-1]: 1.0}, m[item] * fixed))
                else:
                    terms.append((weight, ties, 0.0))
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
        return Solved.of(terms, same)

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
        total = 0.0
        for context in {r.context for r, _ in known}:
            own = [(r, e) for r, e in known if r.context == context]
            shown, records = candidate[context], [r for r, _ in own]
            rate, count = self.solve(records, shown).rate, sum(r.weight for r in records)
            total += sum(r.weight * t * w for r, e in own for t, w in zip(theta, e, strict=False))
            w = None if worths is None else partial(worths, context)
            total += count * self.worth(rate, shown, theta, w)
            total -= count * self.worth(rate, _lists(records), theta, w)
        return total / sum(r.weight for r, _ in known)

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
    """The lists of records, by their shares."""
    found: dict[tuple[Any, ...], float] = defaultdict(float)
    whole = sum(r.weight for r in records)
    for r in records:
        found[r.items] += r.weight / whole
    return dict(found)


@dataclass(frozen=True)
class Solved:
    """Rates that fit best, by cell."""

    rate: dict[Any, float]

    @classmethod
    def of(
        cls,
        terms: list[tuple[float, dict[Any, float], float]],
        same: Mapping[Any, tuple[Any, float]],
    ) -> Solved:
        """Solve the normal equations of the weighted terms; some rates are multiples of others."""

        def root(cell: Any, factor: float) -> tuple[Any, float]:  # noqa: ANN401
            while cell in same:
                cell, times = same[cell]
                factor *= times
            return cell, factor

        terms = [
            (weight, dict(root(*each) for each in parts.items()), target)
            for weight, parts, target in terms
        ]
        number: dict[Any, int] = {}
        for _, coefficients, _ in terms:
            for cell in coefficients:
                number.setdefault(cell, len(number))
        entries = [
            (factor, row, number[cell])
            for row, (_, coefficients, _) in enumerate(terms)
            for cell, factor in coefficients.items()
        ]
        values, rows, columns = zip(*entries, strict=True)
        matrix = sparse.csc_array((values, (rows, columns)), shape=(len(terms), len(number)))
        weights = np.array([weight for weight, _, _ in terms])
        target = np.array([value for _, _, value in terms])
        normal = sparse.csc_array(matrix.T @ sparse.diags_array(weights) @ matrix)
        best = splu(normal).solve(matrix.T @ (weights * target))
        rate = {cell: float(best[j]) for cell, j in number.items()}
        for cell in same:
            below, factor = root(cell, 1.0)
            rate[cell] = factor * rate[below]
        return cls(rate)


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
        n, h, contexts = (defaultdict[Any, float](float) for _ in range(3))
        names = ("list", "prefix", "position")[-len(self.strengths) :]
        rungs = list(zip(self.strengths, names, strict=True))
        counts: Any = {name: defaultdict(lambda: [0.0, 0.0]) for name in (*names, "pair")}
        top = rungs[0][1]
        for record, rewards in zip(records, earned, strict=True):
            contexts[record.context] += record.weight
            for k, item in enumerate(record.items, start=1):
                n[record.context, item] += record.weight * self.p[k - 1]
                at = counts[top][self._cell(top, record.context, record.items, k)]
                at[0] += record.weight * record.clicks[k - 1]
                at[1] += record.weight * rewards[k - 1] / self.mean
        below: dict[Any, Any] = {}
        for (s, name), coarser in zip(rungs, [*(r for _, r in rungs[1:]), "pair"], strict=True):
            for record in records:
                for k in range(1, len(record.items) + 1):
                    fine, coarse = (
                        self._cell(each, record.context, record.items, k)
                        for each in (name, coarser)
                    )
                    below[name, fine] = coarse, k**self.slope if self._examined(name) else 1.0
            for cell, (clicks, reward) in counts[name].items():
                coarse, e = below[name, cell]
                share = 1.0 if math.isinf(s) else s / (clicks + s)
                counts[coarser][coarse][0] += clicks * share * e
                counts[coarser][coarse][1] += reward * share
        for context, weight in contexts.items():
            for items, mass in candidate[context].items():
                for k, item in enumerate(items):
                    h[context, item] += weight * mass * self.p[k]
        pairs = {*n, *h}
        c: dict[Any, float] = {pair: counts["pair"][pair][0] for pair in pairs}
        r: dict[Any, float] = {pair: counts["pair"][pair][1] for pair in pairs}
        more = {pair: _more(h[pair], n[pair]) for pair in pairs}
        of_item = {
            j: _more(*(sum(each[pair] for pair in pairs if pair[1] == j) for each in (h, n)))
            for _, j in pairs
        }
        x = {pair: (1.0, more[pair], of_item[pair[1]]) for pair in pairs}
        mu = {i: math.exp(sum(g * y for g, y in zip(self.gamma, x[i], strict=True))) for i in pairs}
        level = dict.fromkeys((item for _, item in pairs), 1.0)
        for _ in range(LEVELS):
            lean = {i: 1 / (1 + c[i] * mu[i] * level[i[1]] / self.a) for i in pairs}
            for j in level:
                own = [i for i in pairs if i[1] == j]
                due = sum(lean[i] * c[i] * mu[i] for i in own)
                level[j] = (sum(lean[i] * r[i] for i in own) + self.t) / (due + self.t)
        m = {i: mu[i] * level[i[1]] for i in pairs}
        lean = {i: 1 / (1 + c[i] * m[i] / self.a) for i in pairs}
        score = [sum(lean[i] * x[i][f] * (r[i] - c[i] * m[i]) for i in pairs) for f in range(3)]

        def worth(context: Any, items: tuple[Any, ...], k: int) -> float:  # noqa: ANN401
            pair = context, items[k - 1]
            found = (r[pair] + self.a) / (c[pair] + self.a / m[pair])
            for s, name in reversed(rungs):
                found *= k**self.slope if self._examined(name) else 1.0
                own = counts[name].get(self._cell(name, context, items, k), [0.0, 0.0])
                found = found if math.isinf(s) else (own[1] + s * found) / (own[0] + s)
            return self.mean * found

        return worth, score

    def _examined(self, rung: str) -> bool:
        """Whether a rung, seen from below, is the first that tells positions from each other."""
        return rung == ("position" if len(self.strengths) == 1 else "prefix")

    @staticmethod
    def _cell(rung: str, context: Any, items: tuple[Any, ...], k: int) -> Any:  # noqa: ANN401
        """The cell of a slot."""
        if rung == "pair":
            return context, items[k - 1]
        fine = {"list": items, "prefix": items[:k], "position": items[k - 1]}[rung]
        return context, fine, k


def _more(h: float, n: float) -> float:
    return (h - n) / (h + n) if h + n else 0.0
