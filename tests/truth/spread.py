"""The spread of an estimate, record by record, from STATISTICS section 2; knows no library.

ψ_t = Σ_g W_g (c_g(t) − u_g r_g e_g(t)) − Σ_g (1 − u_g) M C_g + (V_x − V), and φ_t = f_t − F. Every
record has its own ψ and φ, written out from the cells it shows.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.truth import oracle
from tests.truth.oracle import Policy, Record, Theta

Floats = NDArray[np.float64]
FEW = 10
STEP = 1e-5


class _Context:
    """The cells of one context: exposures, credits, weights W_g and rates r_g."""

    def __init__(
        self,
        model: str,
        records: Sequence[Record],
        draws: oracle.Draws,
        theta: Theta,
        clip: float,
        logged: oracle.Draws | None,
    ) -> None:
        self.model, self.theta = model, theta
        self.p = oracle.reciprocal_ranks(len(theta))
        self.known = logged is not None
        n = oracle.count(records)
        self.credit: dict[Any, float] = defaultdict(float)
        self.exposed: dict[Any, float] = defaultdict(float)
        for r in records:
            for g, (c, e) in self.slots(r).items():
                self.credit[g] += r.weight * c / n
                self.exposed[g] += r.weight * e / n
        self.wanted = oracle.exposures(model, draws, theta, self.p)
        base = self.exposed if logged is None else oracle.exposures(model, logged, theta, self.p)
        sides = {g: oracle.Ratio(self.wanted.get(g, 0), base.get(g, 0)) for g in self.credit}
        self.weight = {g: each.clipped(clip) for g, each in sides.items()}
        self.rate = {g: c / self.exposed[g] for g, c in self.credit.items()}
        self.clipped = {g for g, each in sides.items() if each.candidate > clip * each.logged}
        self.cut = 0.0 if self.known else sum(clip * self.credit[g] for g in self.clipped)
        self.value = sum(c * self.weight[g] for g, c in self.credit.items())

    def slots(self, record: Record) -> dict[Any, tuple[float, float]]:
        """cell → (credit, exposure) of one record; a slot that counts nothing is in no cell."""
        found: dict[Any, tuple[float, float]] = {}
        for k, click in enumerate(record.clicks, start=1):
            if t := oracle.at(self.theta, k):
                g = oracle.cell(self.model, record.items, k, self.theta)
                c, e = found.get(g, (0.0, 0.0))
                found[g] = (c + t * click, e + t * oracle.examined(self.model, self.p, k))
        return found

    def size(self, record: Record) -> float:
        """The sum of the terms of ψ without their signs, of which rounding is a part."""
        slots = self.slots(record).items()
        terms = [self.weight[g] * (c + self.rate[g] * e) for g, (c, e) in slots]
        return self.value + self.cut + sum(terms)

    def psi(self, record: Record) -> float:
        """Without V_x − V."""
        total = -self.value if self.known else -self.cut
        for g, (c, e) in self.slots(record).items():
            expected = 0.0 if self.known or g in self.clipped else self.rate[g] * e
            total += self.weight[g] * (c - expected)
        return total


class Influence(NamedTuple):
    """How far each record that is used moves V̂ and F̂.

    Attributes:
        used: the numbers of these records.
        moves: Shape (used, 2): ψ and φ.
        values: V̂ and F̂.
        worlds: the cells of each context that the candidate has lists for.
        by_context: the records that are used.
    """

    used: list[int]
    moves: Floats
    values: tuple[float, float]
    worlds: dict[Any, _Context]
    by_context: dict[Any, list[Record]]


def influence(
    model: str,
    records: Sequence[Record],
    candidate: Policy,
    theta: Theta,
    clip: float = math.inf,
    *,
    logging: Policy | None = None,
    missing: str = "production",
) -> Influence:
    """ψ and φ of every record."""
    used = [i for i, r in enumerate(records) if missing != "drop" or r.context in candidate]
    heard = [records[i] for i in used]
    by_context = oracle.by_context(heard)
    worlds = {
        x: _Context(model, mine, candidate[x], theta, clip, None if logging is None else logging[x])
        for x, mine in by_context.items()
        if x in candidate
    }
    means = {x: oracle.production(mine, theta) for x, mine in by_context.items()}
    production = oracle.production(heard, theta)
    values = means | {x: world.value for x, world in worlds.items()}
    value = sum(oracle.count(mine) * values[x] for x, mine in by_context.items())
    value /= oracle.count(heard)
    moves = []
    for r in heard:
        x, f = r.context, oracle.reward(r, theta)
        own = worlds[x].psi(r) if x in worlds else f - means[x]
        moves.append((own + values[x] - value, f - production))
    return Influence(used, np.array(moves), (value, production), worlds, by_context)


def added_up(moves: Floats, weights: Sequence[float], clusters: Sequence[Any] | None) -> Floats:
    """The covariance of what records move; `clusters` has a label for each, None: independent."""
    n = sum(weights)
    if clusters is None:
        squares = sum(w * np.outer(both, both) for w, both in zip(weights, moves, strict=True))
        return np.asarray(squares / (n * (n - 1)))
    sums: dict[Any, Floats] = defaultdict(lambda: np.zeros(moves.shape[1]))
    for label, w, both in zip(clusters, weights, moves, strict=True):
        sums[label] += w * both
    stacked = np.array(list(sums.values())) / n
    count = len(stacked)
    return np.asarray(stacked.T @ stacked * count / (count - 1))


def by_quotients(
    value: Callable[[list[Record]], float],
    records: Sequence[Record],
    theta: Theta,
    clusters: Sequence[Any] | None = None,
) -> Floats:
    """The covariance of any V̂, and of F̂: ψ and φ are n ∂/∂(weight of a record)."""
    n = len(records)

    def of(weights: Floats) -> Floats:
        some = [r._replace(weight=w) for r, w in zip(records, weights, strict=True)]
        return np.array([value(some), oracle.production(some, theta)])

    moves = [n * (of(1 + d) - of(1 - d)) / (2 * STEP) for d in STEP * np.eye(n)]
    return added_up(np.array(moves), [1.0] * n, clusters)


def covariance(
    model: str,
    records: Sequence[Record],
    candidate: Policy,
    theta: Theta,
    clip: float = math.inf,
    *,
    clusters: Sequence[Any] | None = None,
    logging: Policy | None = None,
    part: Sequence[bool] | None = None,
    **options: Any,  # noqa: ANN401 - those of `influence`
) -> Floats:
    """The covariance of V̂ and F̂; `clusters` has a label for each record, None: independent.

    Of a part of the answer (`part` says which records), records vary around the means of the part;
    of what a context hides, the part has its share of the records.
    """
    told = influence(model, records, candidate, theta, clip, logging=logging, **options)
    inside = [number for number, i in enumerate(told.used) if part is None or part[i]]
    used = [told.used[number] for number in inside]
    weights = [records[i].weight for i in used]
    labels = None if clusters is None else [clusters[i] for i in used]
    moves = told.moves[inside]
    if part is not None:
        own = moves + np.array(told.values)
        moves = own - np.average(own, axis=0, weights=weights)
    found = added_up(moves, weights, labels)
    if logging is None and model not in oracle.BLIND:
        whole, mine = told.by_context, oracle.by_context(records[i] for i in used)
        share = {x: oracle.count(mine.get(x, ())) / oracle.count(whole[x]) for x in whole}
        hidden = CellErrors.of(told, records, clusters, share).hidden()
        if part is not None and clusters is None:  # a part has nothing less than 0 of it
            values, vectors = np.linalg.eigh(hidden)
            hidden = (vectors * np.maximum(values, 0.0)) @ vectors.T
        found = found + hidden / sum(weights) ** 2
    return found


class CellErrors(NamedTuple):
    """What cells hide of one candidate: how much the error of each varies.

    Attributes:
        worlds: the cells of each context.
        share: by context, which share of its records is asked about.
        variance: by context and cell, the variance of its error.
        entries: by context and cluster: of each cell, r e and 1 − h; empty for records.
        shock: τ².
    """

    worlds: dict[Any, _Context]
    share: dict[Any, float]
    variance: dict[tuple[Any, Any], float]
    entries: dict[tuple[Any, Any], dict[Any, tuple[float, float]]]
    shock: float

    @classmethod
    def of(
        cls,
        told: Influence,
        records: Sequence[Record],
        clusters: Sequence[Any] | None,
        share: dict[Any, float] | None = None,
    ) -> CellErrors:
        """Of records, as if two more of the usual variance had been seen; or of few clusters."""
        share = dict.fromkeys(told.by_context, 1.0) if share is None else share
        squares, counts = _residuals(told)
        total: dict[Any, float] = defaultdict(float)  # by context, and its degrees of freedom
        freedom: dict[Any, float] = defaultdict(float)
        for x, g in squares:
            total[x] += squares[x, g]
            freedom[x] += max(counts[x, g] - 1, 0)
        free = sum(share[x] * freedom[x] for x in freedom)
        pooled = sum(share[x] * total[x] for x in total) / free if free > 0 else 0.0
        variance = {}
        for (x, g), n in counts.items():
            usual = total[x] / freedom[x] if freedom[x] >= FEW else pooled
            seen = -1 if clusters is None else n  # n − (n + 1), as records show theirs themselves
            variance[x, g] = (2 * n * usual + seen * squares[x, g]) / (n + 1)
        found = cls(told.worlds, share, variance, {}, 0.0)
        if clusters is None:
            return found
        chosen = [(records[i], clusters[i]) for i in told.used if records[i].context in told.worlds]
        return found._among(chosen)

    def _among(self, records: Sequence[tuple[Record, Any]]) -> CellErrors:
        """Σ n σ² h² of each cell, and shocks τ² of all, as `weighting.small_cells` says."""
        credit: dict[Any, float] = defaultdict(float)
        exposed: dict[Any, float] = defaultdict(float)
        wholes: dict[Any, float] = defaultdict(float)
        for r, label in records:
            for g, (c, e) in self.worlds[r.context].slots(r).items():
                if (r.context, g) in self.variance:
                    credit[r.context, g, label] += r.weight * c
                    exposed[r.context, g, label] += r.weight * e
                    wholes[r.context, g] += r.weight * e
        over = under = 0.0  # what residuals have left over, and what the shock is over
        squares: dict[Any, float] = defaultdict(float)
        entries: dict[Any, dict[Any, tuple[float, float]]] = defaultdict(dict)
        for (x, g, label), e in exposed.items():
            expected, whole = self.worlds[x].rate[g] * e, wholes[x, g]
            h = e / whole if whole > 0 else 0.0
            rest = max(whole - e, 0.0) / whole if whole > 0 else 1.0  # 1 − h, without rounding
            left = (credit[x, g, label] - expected) ** 2
            if left < (1e-14 * expected) ** 2:  # the rounding of their difference
                left = 0.0
            over += self.share[x] * (left - self.variance[x, g] * h * rest)
            under += self.share[x] * expected**2 * rest
            squares[x, g] += h * h
            entries[x, label][g] = (expected, rest)
        return self._replace(
            variance={cell: v * squares[cell] for cell, v in self.variance.items()},
            entries=entries,
            shock=max(over, 0.0) / under if under > 0 else 0.0,
        )

    def _both(self, x: Any, g: Any) -> Floats:  # noqa: ANN401
        """How far the error of a cell moves V̂ and F̂."""
        w = self.worlds[x].weight[g]
        return np.array([w, 1.0 if w > 0 else 0.0])

    def _shocked(self, x: Any, label: Any) -> Floats:  # noqa: ANN401
        """A and B: how far a shock of a cluster moves V̂ and F̂, and how far that is seen."""
        cells = self.entries.get((x, label), {}).items()
        each = (np.outer((e, e * math.sqrt(rest)), self._both(x, g)) for g, (e, rest) in cells)
        return sum(each, np.zeros((2, 2)))

    def hidden(self) -> Floats:
        """Σ (W, 1)(W, 1)ᵀ of the errors of cells, and τ² Σ (A Aᵀ − B Bᵀ), by shares."""
        found = np.zeros((2, 2))
        for (x, g), variance in self.variance.items():
            w = self._both(x, g)
            found += self.share[x] * variance * np.outer(w, w)
        for x, label in self.entries:
            a, b = self._shocked(x, label)
            found += self.share[x] * self.shock * (np.outer(a, a) - np.outer(b, b))
        return found

    def hidden_between(self, other: CellErrors) -> float:
        """What the difference of two candidates hides: Σ h (W − W')², and shocks alike.

        Of a cell that both show, h is the mean of what each of them tells; else that of the one.
        """
        found, sides = 0.0, (self, other)
        for x, g in self.variance.keys() | other.variance.keys():
            w = [side.worlds[x].weight.get(g, 0.0) if x in side.worlds else 0.0 for side in sides]
            told = [side.variance.get((x, g), 0.0) for side in sides]
            found += _mean_of_those(told, w) * (w[0] - w[1]) ** 2
        for key in self.entries.keys() | other.entries.keys():
            a, b = np.stack([side._shocked(*key)[:, 0] for side in sides], axis=1).tolist()
            shock = _mean_of_those([side.shock for side in sides], a)
            found += shock * ((a[0] - a[1]) ** 2 - (b[0] - b[1]) ** 2)
        return found


def _mean_of_those(values: Sequence[float], moved: Sequence[float]) -> float:
    """The mean of those of the values that move something."""
    some = [value for value, by in zip(values, moved, strict=True) if by > 0]
    return sum(some) / len(some) if some else 0.0


def _residuals(told: Influence) -> tuple[dict[Any, float], dict[Any, float]]:
    """By context and cell of the candidate: Σ (c − r e)² over records, and their number."""
    squares: dict[Any, float] = defaultdict(float)
    counts: dict[Any, float] = defaultdict(float)
    for x, world in told.worlds.items():
        for r in told.by_context[x]:
            for g, (c, e) in world.slots(r).items():
                if world.wanted.get(g, 0.0) > 0:
                    squares[x, g] += r.weight * (c - world.rate[g] * e) ** 2
                    counts[x, g] += r.weight
    return squares, counts
