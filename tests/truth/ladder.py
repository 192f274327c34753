"""The ladder's oracle: rates that fit all counts best, found by solving for them all at once.

The library climbs up and down; here the same rates are the least squares

    Σ_l n_l (c_l/n_l − r_l)² / e  +  Σ_l s (r_l − r_g)² / e  +  Σ_g s' (r_g − e r_ak)² / e
        +  Σ_ak s'' (r_ak − μ_a)²  +  Σ_a s''' (μ_a − m_x)²  +  Σ_x s'''' (m_x − m)²

over the rates of every rung: slots of lists, prefixes, items at positions, items, contexts, the
log. The division by e, how much the slot is examined, says that clicks vary as Poisson's do: of a
slot that is examined half as much, half as much.

The examination of a slot, e = p_k Π (1 − κ μ) over what stands above it, needs the rates of items,
which are solved for so many times, beginning with e = p_k.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from tests.truth.oracle import Policy, Record

FINE = {"list": ("list", "prefix"), "ip": ()}
Examination = Mapping[tuple[Any, tuple[Any, ...]], float]
"""How much the last slot of a list's beginning is examined, by context and beginning."""


@dataclass(frozen=True)
class Truth:
    """A ladder over some records, as slowly as it can be said.

    Attributes:
        strengths: from the top to the context.
        p: how much positions are examined.
        stopping: κ.
        base: what the rates of contexts are tied to while the examination is found.
        rounds: how often rates and examination are found in turn.
        own_base: whether that is the rate of these records' own log, instead.
        examination: that of slots, where it is not to be found from the records.
    """

    top: str
    strengths: Sequence[float]
    p: Sequence[float]
    stopping: float = 0.0
    base: float = 0.0
    rounds: int = 0
    own_base: bool = False
    examination: Examination | None = None

    def cells(self, context: Any, items: tuple[Any, ...], k: int) -> list[Any]:  # noqa: ANN401
        """The cells of position k of a list, finest first."""
        names = {"list": (context, items, k), "prefix": (context, items[:k])}
        path: list[Any] = [(name, *names[name]) for name in FINE[self.top]]
        item = items[k - 1]
        path += [("position", context, item, k), ("item", context, item), ("context", context)]
        return [*path, ("log",)]

    def examined(self, records: Sequence[Record], candidate: Policy) -> Examination:
        """How much every slot of the log and of the candidate is examined."""
        lists = {(r.context, r.items) for r in records}
        logged = {context for context, _ in lists}
        lists |= {(x, items) for x in candidate if x in logged for items in candidate[x]}
        begins = {(x, items[:k]) for x, items in lists for k in range(1, len(items) + 1)}
        found = {(x, begin): self.p[len(begin) - 1] for x, begin in begins}
        for _ in range(self.rounds if self.stopping else 0):
            tied = replace(self, examination=found)
            solved = tied.solve(records, candidate, tied_to=None if self.own_base else self.base)
            mu = {(x, item): solved.rate["item", x, item] for x, begin in begins for item in begin}
            found = {
                (x, begin): self.p[len(begin) - 1]
                * math.prod(
                    max(1 - self.stopping * min(max(mu[x, item], 0.0), 1.0), 0.02)
                    for item in begin[:-1]
                )
                for x, begin in begins
            }
        return found

    def solve(
        self, records: Sequence[Record], candidate: Policy, *, tied_to: float | None = None
    ) -> Solved:
        """The rates of all cells, of the log and of the candidate, that fit best."""
        examination = self.examination or self.examined(records, candidate)
        exposing = "position" if self.top == "ip" else "prefix"
        terms: list[tuple[float, dict[Any, float], float]] = []  # weight, coefficients, target
        priors: dict[int, tuple[Any, Any, float, float]] = {}
        tied: set[Any] = set()

        def tie(context: Any, items: tuple[Any, ...], k: int) -> None:  # noqa: ANN401
            path, e = self.cells(context, items, k), examination[context, items[:k]]
            for s, cell, below in zip(self.strengths, path, path[1:], strict=False):
                factor = e if cell[0] == exposing else 1.0
                scale = e if cell[0] in ("list", "prefix", exposing) else 1.0
                if cell not in tied:
                    tied.add(cell)
                    priors[len(terms)] = (cell, below, factor, s)
                    if below == ("log",) and tied_to is not None:
                        terms.append((s / scale, {cell: 1.0}, factor * tied_to))
                    else:
                        terms.append((s / scale, {cell: 1.0, below: -factor}, 0.0))

        n: dict[Any, float] = defaultdict(float)
        c: dict[Any, float] = defaultdict(float)
        scales: dict[Any, float] = {}
        for record in records:
            for k in range(1, len(record.items) + 1):
                tie(record.context, record.items, k)
                cell = self.cells(record.context, record.items, k)[0]
                n[cell] += record.weight
                c[cell] += record.weight * record.clicks[k - 1]
                scales[cell] = examination[record.context, record.items[:k]]
        for context in {record.context for record in records} & set(candidate):
            for items in candidate[context]:
                for k in range(1, len(items) + 1):
                    tie(context, items, k)
        terms += [(n[cell] / scales[cell], {cell: 1.0}, c[cell] / n[cell]) for cell in n]
        return Solved.of(terms, priors)

    def value(self, records: Sequence[Record], candidate: Policy, theta: Sequence[float]) -> float:
        """Σ_x n_x/n Σ_A h(A) Σ_k θ_k r; contexts that the candidate does not know are left out."""
        rate = self.solve(records, candidate).rate
        return sum(h * rate[cell] for cell, h in self._shown(records, candidate, theta).items())

    def unsettled(
        self, records: Sequence[Record], candidate: Policy, theta: Sequence[float]
    ) -> float:
        """The variance of V̂ because cells differ from what they are tied to.

        Were it known by how much, it would be the target of that row, and V̂ would move accordingly.
        """
        return self.unsettled_between(records, candidate, {}, theta)

    def unsettled_between(
        self, records: Sequence[Record], one: Policy, other: Policy, theta: Sequence[float]
    ) -> float:
        """The same variance of the difference of two candidates, the contexts of both known.

        The rates are solved for with the slots of both among the unknowns.
        """
        lists = {
            x: dict.fromkeys((*one.get(x, {}), *other.get(x, {})), 1.0) for x in {*one, *other}
        }
        solved = self.solve(records, lists)
        shown = defaultdict(float, self._shown(records, one, theta))
        for cell, mass in self._shown(records, other, theta).items():
            shown[cell] -= mass
        moves = solved.moves(shown)
        return float(
            sum(
                moves[row] ** 2 * factor * solved.rate[below] / s
                for row, (_, below, factor, s) in solved.priors.items()
            )
        )

    def _shown(
        self, records: Sequence[Record], candidate: Policy, theta: Sequence[float]
    ) -> dict[Any, float]:
        """How much of each rate the candidate's value holds."""
        n: dict[Any, float] = defaultdict(float)
        for record in records:
            n[record.context] += record.weight
        known = {context: count for context, count in n.items() if context in candidate}
        shown: dict[Any, float] = defaultdict(float)
        for context, count in known.items():
            for items, mass in candidate[context].items():
                for k in range(1, min(len(items), len(theta)) + 1):
                    cell = self.cells(context, items, k)[0]
                    shown[cell] += count * mass * theta[k - 1] / sum(known.values())
        return shown


@dataclass(frozen=True)
class Solved:
    """Rates that fit best, and the rows of the system that tie a cell to the one below it.

    Attributes:
        rate: by cell.
        priors: by row: the cell, the one below, its factor, and the strength.
    """

    rate: dict[Any, float]
    priors: dict[int, tuple[Any, Any, float, float]]
    matrix: Any
    weights: Any
    number: dict[Any, int]

    @classmethod
    def of(cls, terms: list[tuple[float, dict[Any, float], float]], priors: Any) -> Solved:  # noqa: ANN401
        """Solve the normal equations of the weighted terms."""
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
        best = splu(_normal(matrix, weights)).solve(matrix.T @ (weights * target))
        rate = {cell: float(best[j]) for cell, j in number.items()}
        return cls(rate, priors, matrix, weights, number)

    def moves(self, shown: Mapping[Any, float]) -> Any:  # noqa: ANN401
        """By row, how far Σ shown · rate moves with its target."""
        h = np.zeros(len(self.number))
        for cell, mass in shown.items():
            h[self.number[cell]] += mass
        return self.weights * (self.matrix @ splu(_normal(self.matrix, self.weights)).solve(h))


def _normal(matrix: Any, weights: Any) -> Any:  # noqa: ANN401
    return sparse.csc_array(matrix.T @ sparse.diags_array(weights) @ matrix)
