"""The spread of an estimate, record by record, from STATISTICS section 2; knows no library.

ψ_t = Σ_g W_g (c_g(t) − u_g r_g e_g(t)) − Σ_g (1 − u_g) M C_g + (V_x − V), and φ_t = f_t − F. Every
record has its own ψ and φ, written out from the cells it shows.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.truth import oracle
from tests.truth.oracle import Policy, Record, Theta

Floats = NDArray[np.float64]
FEW = 10


class _Context:
    """The cells of one context: exposures, credits, weights."""

    def __init__(
        self,
        model: str,
        records: Sequence[Record],
        draws: oracle.Draws,
        theta: Theta,
        clip: float,
        p: Sequence[float],
        logged: oracle.Draws | None,
    ) -> None:
        self.model, self.theta, self.p, self.clip = model, theta, p, clip
        self.n = sum(r.weight for r in records)
        self.known = logged is not None
        self.exposed = self._exposure({r.items: 0.0 for r in records}, records)
        self.credit: dict[Any, float] = defaultdict(float)
        for r in records:
            for g, (c, _) in self.slots(r).items():
                self.credit[g] += r.weight * c / self.n
        self.wanted = self._of_policy(draws)
        base = self.exposed if logged is None else self._of_policy(logged)
        self.ratio = {
            g: self._over(self.wanted.get(g, 0.0), base.get(g, 0.0))
            for g in self.credit.keys() | self.exposed.keys()
        }
        self.value = sum(self.credit[g] * self.weight(g) for g in self.credit)

    def _over(self, wanted: float, logged: float) -> float:
        """H/P; a logged cell that π never shows gets the weight M, if that is finite."""
        if logged > 0:
            return wanted / logged
        return math.inf if wanted > 0 and math.isfinite(self.clip) else 0.0

    def slots(self, record: Record) -> dict[Any, tuple[float, float]]:
        """cell → (credit, exposure) of one record."""
        found: dict[Any, tuple[float, float]] = {}
        for k, click in enumerate(record.clicks, start=1):
            if k > len(self.theta):
                break
            t = oracle.at(self.theta, k)
            if t == 0:
                continue  # a slot that counts nothing is in no cell
            g = oracle.cell(self.model, record.items, k, self.theta)
            c, e = found.get(g, (0.0, 0.0))
            examined = oracle.at(self.p, k) if self.model == "pbm" else 1.0
            found[g] = (c + t * click, e + t * examined)
        return found

    def _exposure(self, _: Any, records: Sequence[Record]) -> dict[Any, float]:  # noqa: ANN401
        found: dict[Any, float] = defaultdict(float)
        for r in records:
            for g, (_c, e) in self.slots(r).items():
                found[g] += r.weight * e / self.n
        return found

    def _of_policy(self, draws: oracle.Draws) -> dict[Any, float]:
        found: dict[Any, float] = defaultdict(float)
        for items, mass in draws.items():
            for g, (_c, e) in self.slots(Record("", items, (0.0,) * len(items))).items():
                found[g] += mass * e
        return found

    def weight(self, g: Any) -> float:  # noqa: ANN401 - cells are of any type
        return min(self.ratio[g], self.clip)

    def psi(self, record: Record) -> float:
        """Without V_x − V."""
        total = 0.0
        for g, (c, e) in self.slots(record).items():
            rate = self.credit[g] / self.exposed[g] if self.exposed[g] > 0 else 0.0
            unclipped = self.ratio[g] <= self.clip and not self.known
            total += self.weight(g) * (c - (rate * e if unclipped else 0.0))
        if self.known:
            return total - self.value
        return total - sum(
            self.clip * c for g, c in self.credit.items() if self.ratio[g] > self.clip
        )


class Influence(NamedTuple):
    """How far each record that is used moves V̂ and F̂.

    Attributes:
        used: the numbers of these records.
        moves: Shape (used, 2): ψ and φ.
        worlds: the cells of each context that the candidate has lists for.
        by_context: the records that are used.
    """

    used: list[int]
    moves: Floats
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
    p = oracle.reciprocal_ranks(len(theta))
    used = [i for i, r in enumerate(records) if missing == "production" or r.context in candidate]
    by_context: dict[Any, list[Record]] = defaultdict(list)
    for i in used:
        by_context[records[i].context].append(records[i])
    worlds = {
        x: _Context(
            model, mine, candidate[x], theta, clip, p, None if logging is None else logging[x]
        )
        for x, mine in by_context.items()
        if x in candidate
    }
    n = sum(records[i].weight for i in used)
    means = {x: oracle.production(mine, theta) for x, mine in by_context.items()}
    production = oracle.production([records[i] for i in used], theta)
    values = {x: worlds[x].value if x in worlds else means[x] for x in by_context}
    sizes = {x: sum(r.weight for r in mine) for x, mine in by_context.items()}
    value = sum(sizes[x] * values[x] for x in by_context) / n
    moves = []
    for i in used:
        r = records[i]
        f = oracle.reward(r, theta)
        own = worlds[r.context].psi(r) if r.context in worlds else f - means[r.context]
        moves.append((own + values[r.context] - value, f - production))
    return Influence(used, np.array(moves), worlds, by_context)


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


def covariance(
    model: str,
    records: Sequence[Record],
    candidate: Policy,
    theta: Theta,
    clip: float = math.inf,
    *,
    clusters: Sequence[Any] | None = None,
    small: bool = True,
    logging: Policy | None = None,
    **options: Any,  # noqa: ANN401 - those of `influence`
) -> Floats:
    """The covariance of V̂ and F̂; `clusters` has a label for each record, None: independent."""
    told = influence(model, records, candidate, theta, clip, logging=logging, **options)
    weights = [records[i].weight for i in told.used]
    labels = None if clusters is None else [clusters[i] for i in told.used]
    found = added_up(told.moves, weights, labels)
    if small and logging is None and model not in ("rctr", "rcm"):
        n = sum(weights)
        if clusters is None:
            found = found + _small_cells(told.worlds, told.by_context) / n**2
        else:
            chosen = [
                (records[i], clusters[i]) for i in told.used if records[i].context in told.worlds
            ]
            found = found + _few_clusters(told.worlds, told.by_context, chosen) / n**2
    return found


def _small_cells(worlds: dict[Any, _Context], by_context: dict[Any, list[Record]]) -> Floats:
    """Σ_g (W², W, 1) (S̃_g − S_g) over the candidate's cells."""
    total = np.zeros((2, 2))
    for (x, g), (s, count, usual) in _usual(worlds, by_context).items():
        extra = count * (s + 2 * usual) / (count + 1) - s
        total += extra * _outer(worlds[x].weight(g))
    return total


def _few_clusters(
    worlds: dict[Any, _Context],
    by_context: dict[Any, list[Record]],
    records: Sequence[tuple[Record, Any]],
) -> Floats:
    """Σ (W², W, 1) n σ² h² + τ² Σ_xc (A Aᵀ − B Bᵀ), as `foreclick.sqlkernel.hidden` says."""
    usual = _usual(worlds, by_context)
    credit: dict[Any, float] = defaultdict(float)
    exposed: dict[Any, float] = defaultdict(float)
    for r, label in records:
        for g, (c, e) in worlds[r.context].slots(r).items():
            if (r.context, g) in usual:
                credit[r.context, g, label] += r.weight * c
                exposed[r.context, g, label] += r.weight * e
    noise, over, under = np.zeros((2, 2)), 0.0, 0.0
    all_of: dict[Any, Floats] = defaultdict(lambda: np.zeros(2))
    seen_of: dict[Any, Floats] = defaultdict(lambda: np.zeros(2))
    wholes: dict[Any, float] = defaultdict(float)
    for (x, g, _), e in exposed.items():
        wholes[x, g] += e
    for (x, g, label), e in exposed.items():
        world, whole = worlds[x], wholes[x, g]
        rate = world.credit[g] / world.exposed[g] if whole > 0 else 0.0
        h = e / whole if whole > 0 else 0.0
        s, count, spread = usual[x, g]
        v = count * (s + 2 * spread) / (count + 1)
        rest = max(whole - e, 0.0) / whole if whole > 0 else 1.0  # 1 − h, without rounding
        over += (credit[x, g, label] - rate * e) ** 2 - v * h * rest
        under += (rate * e) ** 2 * rest
        w = world.weight(g)
        noise += v * h**2 * _outer(w)
        both = rate * e * np.array([w, 1.0 if w > 0 else 0.0])
        all_of[x, label] += both
        seen_of[x, label] += both * math.sqrt(rest)
    shock = max(over, 0.0) / under if under > 0 else 0.0
    hidden = np.zeros((2, 2))
    for key, a in all_of.items():
        hidden += np.outer(a, a) - np.outer(seen_of[key], seen_of[key])
    return noise + shock * hidden


def _outer(w: float) -> Floats:
    return np.array([[w * w, w], [w, 1.0 if w > 0 else 0.0]])


def _usual(
    worlds: dict[Any, _Context], by_context: dict[Any, list[Record]]
) -> dict[tuple[Any, Any], tuple[float, float, float]]:
    """(context, cell) → Σ (c − r e)² over records, their number, the usual spread of a record."""
    spreads: dict[Any, dict[Any, tuple[float, float]]] = {}
    for x, world in worlds.items():
        cells: dict[Any, tuple[float, float]] = {}
        for r in by_context[x]:
            for g, (c, e) in world.slots(r).items():
                if world.wanted.get(g, 0.0) <= 0:
                    continue
                rate = world.credit[g] / world.exposed[g] if world.exposed[g] > 0 else 0.0
                s, count = cells.get(g, (0.0, 0.0))
                cells[g] = (s + r.weight * (c - rate * e) ** 2, count + r.weight)
        spreads[x] = cells
    free = {x: sum(max(k - 1, 0) for _, k in cells.values()) for x, cells in spreads.items()}
    squares = {x: sum(s for s, _ in cells.values()) for x, cells in spreads.items()}
    everything = sum(free.values())
    pooled = sum(squares.values()) / everything if everything else 0.0
    return {
        (x, g): (s, count, squares[x] / free[x] if free[x] >= FEW else pooled)
        for x, cells in spreads.items()
        for g, (s, count) in cells.items()
    }
