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
        self.exposed = self._exposure(records)
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

    def _exposure(self, records: Sequence[Record]) -> dict[Any, float]:
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

    def size(self, record: Record) -> float:
        """The sum of the terms of ψ without their signs, of which rounding is a part."""
        cut = sum(self.clip * c for g, c in self.credit.items() if self.ratio[g] > self.clip)
        total = self.value + (0.0 if self.known else cut)
        for g, (c, e) in self.slots(record).items():
            rate = self.credit[g] / self.exposed[g] if self.exposed[g] > 0 else 0.0
            total += self.weight(g) * (c + rate * e)
        return total

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
    if logging is None and model not in ("rctr", "rcm"):
        errors = CellErrors.of(told, records, clusters)
        share = None if part is None else shares(records, told.used, used)
        hidden = errors.hidden(share)
        if part is not None and clusters is None:  # a part has nothing less than 0 of it
            values, vectors = np.linalg.eigh(hidden)
            hidden = (vectors * np.maximum(values, 0.0)) @ vectors.T
        found = found + hidden / sum(weights) ** 2
    return found


def shares(
    records: Sequence[Record], used: Sequence[int], inside: Sequence[int]
) -> dict[Any, float]:
    """By context, which share of the records that are used are inside a part."""
    whole: dict[Any, float] = defaultdict(float)
    own: dict[Any, float] = defaultdict(float)
    for sums, numbers in ((whole, used), (own, inside)):
        for i in numbers:
            sums[records[i].context] += records[i].weight
    return {x: own[x] / n for x, n in whole.items()}


class CellErrors(NamedTuple):
    """What cells hide of one candidate: how much the error of each varies.

    Attributes:
        worlds: the cells of each context.
        own: by context and cell, the variance of its error, but for s² of all contexts.
        pooled: by context and cell, a factor of it.
        usual: by context: Σ S_g, its freedom, and whether it has a variance of its own.
        entries: by context and cluster: of each cell, r e and 1 − h; empty for records.
        over: by context: what the residuals of its clusters have left over, and the s² in it.
        under: by context: what the shock is over.
    """

    worlds: dict[Any, _Context]
    own: dict[Any, dict[Any, float]]
    pooled: dict[Any, dict[Any, float]]
    usual: dict[Any, tuple[float, float, bool]]
    entries: dict[tuple[Any, Any], dict[Any, tuple[float, float]]]
    over: dict[Any, tuple[float, float]]
    under: dict[Any, float]

    @classmethod
    def of(
        cls, told: Influence, records: Sequence[Record], clusters: Sequence[Any] | None
    ) -> CellErrors:
        """Of records, as if two more of the usual variance had been seen; or of few clusters."""
        worlds, spreads = told.worlds, _spreads(told.worlds, told.by_context)
        usual = {}
        for x, cells in spreads.items():
            free = sum(max(count - 1, 0) for _, count in cells.values())
            usual[x] = (sum(s for s, _ in cells.values()), free, free >= FEW)
        own: dict[Any, dict[Any, float]] = defaultdict(dict)
        pooled: dict[Any, dict[Any, float]] = defaultdict(dict)
        for x, cells in spreads.items():
            squares, free, known = usual[x]
            for g, (s, count) in cells.items():
                more = squares / free if known else 0.0
                own[x][g] = count * (s + 2 * more) / (count + 1)
                pooled[x][g] = 0.0 if known else 2 * count / (count + 1)
        found = cls(worlds, own, pooled, usual, {}, {}, {})
        if clusters is None:
            for x, cells in spreads.items():
                for g, (s, _) in cells.items():
                    own[x][g] -= s
            return found
        chosen = [(records[i], clusters[i]) for i in told.used if records[i].context in worlds]
        return found._among(chosen)

    def _among(self, records: Sequence[tuple[Record, Any]]) -> CellErrors:
        """Σ n σ² h² of each cell, and shocks τ² of all, as `weighting.small_cells` says."""
        credit: dict[Any, float] = defaultdict(float)
        exposed: dict[Any, float] = defaultdict(float)
        wholes: dict[Any, float] = defaultdict(float)
        for r, label in records:
            for g, (c, e) in self.worlds[r.context].slots(r).items():
                if g in self.own[r.context]:
                    credit[r.context, g, label] += r.weight * c
                    exposed[r.context, g, label] += r.weight * e
                    wholes[r.context, g] += r.weight * e
        squares: dict[Any, float] = defaultdict(float)
        over: dict[Any, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
        under: dict[Any, float] = defaultdict(float)
        entries: dict[Any, dict[Any, tuple[float, float]]] = defaultdict(dict)
        for (x, g, label), e in exposed.items():
            world, whole = self.worlds[x], wholes[x, g]
            rate = world.credit[g] / world.exposed[g] if whole > 0 else 0.0
            h = e / whole if whole > 0 else 0.0
            rest = max(whole - e, 0.0) / whole if whole > 0 else 1.0  # 1 − h, without rounding
            left = (credit[x, g, label] - rate * e) ** 2
            if left < (1e-14 * rate * e) ** 2:  # the rounding of their difference
                left = 0.0
            before = over[x]
            over[x] = (
                before[0] + left - self.own[x][g] * h * rest,
                before[1] - self.pooled[x][g] * h * rest,
            )
            under[x] += (rate * e) ** 2 * rest
            squares[x, g] += h * h
            entries[x, label][g] = (rate * e, rest)
        own, pooled = (
            {x: {g: v * squares[x, g] for g, v in cells.items()} for x, cells in each.items()}
            for each in (self.own, self.pooled)
        )
        return self._replace(own=own, pooled=pooled, entries=entries, over=over, under=under)

    def scale(self, share: dict[Any, float] | None) -> tuple[float, float]:
        """s² of all contexts, and τ²."""

        def total(values: dict[Any, float]) -> float:
            return sum(v * (1.0 if share is None else share[x]) for x, v in values.items())

        free = total({x: f for x, (_, f, _) in self.usual.items()})
        squares = total({x: s for x, (s, _, _) in self.usual.items()})
        usual = squares / free if free > 0 else 0.0
        over = total({x: known + usual * more for x, (known, more) in self.over.items()})
        under = total(self.under)
        return usual, max(over, 0.0) / under if under > 0 else 0.0

    def cells(self, share: dict[Any, float] | None = None) -> dict[Any, float]:
        """By context and cell, the variance of its error."""
        usual, _ = self.scale(share)
        return {
            (x, g): known + usual * self.pooled[x][g]
            for x, cells in self.own.items()
            for g, known in cells.items()
        }

    def hidden(self, share: dict[Any, float] | None = None) -> Floats:
        """Σ (W, 1)(W, 1)ᵀ of the errors of cells, and τ² Σ (A Aᵀ − B Bᵀ); of a part, its share."""
        found = np.zeros((2, 2))
        for (x, g), variance in self.cells(share).items():
            part = 1.0 if share is None else share[x]
            found += part * variance * _outer(self.worlds[x].weight(g))
        shock = self.scale(share)[1]
        for (x, _), cells in self.entries.items():
            part = 1.0 if share is None else share[x]
            all_of, seen_of = np.zeros(2), np.zeros(2)
            for g, (expected, rest) in cells.items():
                w = self.worlds[x].weight(g)
                both = expected * np.array([w, 1.0 if w > 0 else 0.0])
                all_of += both
                seen_of += both * math.sqrt(rest)
            found += part * shock * (np.outer(all_of, all_of) - np.outer(seen_of, seen_of))
        return found

    def hidden_between(self, other: CellErrors) -> float:
        """What the difference of two candidates hides: Σ h (W − W')², and shocks alike.

        Of a cell that both show, h is the mean of what each of them tells; else that of the one.
        """
        mine, theirs = self.cells(), other.cells()
        found = 0.0
        for x, g in mine.keys() | theirs.keys():
            one, two = (
                e.worlds[x].weight(g) if x in e.worlds and g in e.worlds[x].ratio else 0.0
                for e in (self, other)
            )
            h = _mean_of(
                mine.get((x, g), 0.0) if one > 0 else None,
                theirs.get((x, g), 0.0) if two > 0 else None,
            )
            found += h * (one - two) ** 2
        shocks = self.scale(None)[1], other.scale(None)[1]
        for key in self.entries.keys() | other.entries.keys():
            sums = []
            for errors in (self, other):
                moved = [
                    (errors.worlds[key[0]].weight(g) * expected, rest)
                    for g, (expected, rest) in errors.entries.get(key, {}).items()
                ]
                sums.append(
                    (sum(v for v, _ in moved), sum(v * math.sqrt(rest) for v, rest in moved))
                )
            shock = _mean_of(
                *(tau if a > 0 else None for tau, (a, _) in zip(shocks, sums, strict=True))
            )
            (a, b), (c, d) = sums
            found += shock * ((a - c) ** 2 - (b - d) ** 2)
        return found


def _mean_of(*values: float | None) -> float:
    some = [value for value in values if value is not None]
    return sum(some) / len(some) if some else 0.0


def _outer(w: float) -> Floats:
    return np.array([[w * w, w], [w, 1.0 if w > 0 else 0.0]])


def _spreads(
    worlds: dict[Any, _Context], by_context: dict[Any, list[Record]]
) -> dict[Any, dict[Any, tuple[float, float]]]:
    """By context and cell of the candidate: Σ (c − r e)² over records, and their number."""
    found: dict[Any, dict[Any, tuple[float, float]]] = {}
    for x, world in worlds.items():
        cells: dict[Any, tuple[float, float]] = {}
        for r in by_context[x]:
            for g, (c, e) in world.slots(r).items():
                if world.wanted.get(g, 0.0) <= 0:
                    continue
                rate = world.credit[g] / world.exposed[g] if world.exposed[g] > 0 else 0.0
                s, count = cells.get(g, (0.0, 0.0))
                cells[g] = (s + r.weight * (c - rate * e) ** 2, count + r.weight)
        found[x] = cells
    return found
