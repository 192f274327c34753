"""The ladder's oracle: rates that fit all counts best, found by solving for them all at once.

The library climbs up and down; here the same rates are the least squares

    Σ_g (n_g (c_g/n_g − r_g)² + s (r_g − r_ak)²) / p_k  +  Σ_ak s' (r_ak − p_k μ_a)² / p_k
        +  Σ_a s'' (μ_a − m_x)²  +  Σ_x s''' (m_x − m)²         (or its class's m, and so on)

over the rates of every rung, written down as a matrix. The division by p_k says that clicks vary as
Poisson's do: at a position that is examined half as much, half as much.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tests.truth.oracle import Policy, Record


def cell_of(top: str, items: tuple[Any, ...], k: int, depth: int) -> Any:  # noqa: ANN401
    """What names the top's cell of position k, besides item and position."""
    return {"prefix": items[:k], "list": items[:depth], "ip": None}[top]


class System(NamedTuple):
    """Best rates are `solution @ target`; `priors` are the rows that tie a node to its parent.

    Attributes:
        priors: by row of the system: the parent, its factor, and the strength, p_k left out.
    """

    nodes: dict[Any, int]
    finest: dict[Any, int]
    solution: Any
    target: Any
    priors: dict[int, tuple[int, float, float]]


def system(  # noqa: C901 - one loop over the slots, in the open
    top: str,
    records: Sequence[Record],
    candidate: Policy,
    strengths: Sequence[float],
    p: Sequence[float],
    depth: int,
    classes: Mapping[Any, Any] | None = None,
) -> System:
    """The least squares over the rates of all cells, of the log and of the candidate."""
    n: dict[Any, float] = defaultdict(float)
    c: dict[Any, float] = defaultdict(float)
    for record in records:
        for k, item in enumerate(record.items[:depth], start=1):
            slot = (record.context, item, k, cell_of(top, record.items, k, depth))
            n[slot] += record.weight
            c[slot] += record.weight * record.clicks[k - 1]
    asked = {
        (context, item, k, cell_of(top, items, k, depth))
        for context in {record.context for record in records} & set(candidate)
        for items in candidate[context]
        for k, item in enumerate(items[:depth], start=1)
    }
    slots = sorted(set(n) | asked, key=repr)
    s_class = strengths[-1] if classes else 0.0
    *s_top, s_position, s_item, s_context = strengths[:-1] if classes else strengths
    nodes: dict[Any, int] = {}

    def node(*name: Any) -> int:  # noqa: ANN401
        return nodes.setdefault(name, len(nodes))

    terms: list[tuple[float, dict[int, float], float]] = []  # weight, coefficients, target
    once: set[Any] = set()
    priors: dict[int, tuple[int, float, float]] = {}

    def between(
        s: float, child: int, parent: int, factor: float = 1.0, examined: float = 1.0
    ) -> None:
        if (child, parent) not in once:
            once.add((child, parent))
            priors[len(terms)] = (parent, factor, s)
            terms.append((s / examined, {child: 1.0, parent: -factor}, 0.0))

    for slot in slots:
        context, item, k, _ = slot
        examined = p[k - 1]
        position = node("position", context, item, k)
        own = node("top", *slot) if s_top else position
        if slot in n:
            terms.append((n[slot] / examined, {own: 1.0}, c[slot] / n[slot]))
        if s_top:
            between(s_top[0], own, position, 1.0, examined)
        between(s_position, position, node("item", context, item), examined, examined)
        between(s_item, node("item", context, item), node("context", context))
        above = node("class", classes[context]) if classes else node("log")
        between(s_context, node("context", context), above)
        if classes:
            between(s_class, above, node("log"))
    matrix = np.zeros((len(terms), len(nodes)))
    target = np.zeros(len(terms))
    for row, (weight, coefficients, value) in enumerate(terms):
        for column, factor in coefficients.items():
            matrix[row, column] = np.sqrt(weight) * factor
        target[row] = np.sqrt(weight) * value
    weights = np.sqrt([weight for weight, _, _ in terms])
    finest = {s: nodes["top", *s] if s_top else nodes["position", *s[:3]] for s in slots}
    return System(nodes, finest, np.linalg.pinv(matrix) * weights, target / weights, priors)


def rates(
    top: str,
    records: Sequence[Record],
    candidate: Policy,
    strengths: Sequence[float],
    p: Sequence[float],
    depth: int,
) -> dict[Any, float]:
    """(context, item, position, cell) → the rate that fits best, for the log and the candidate."""
    found = system(top, records, candidate, strengths, p, depth)
    best = found.solution @ found.target
    return {slot: float(best[node]) for slot, node in found.finest.items()}


def value(
    top: str,
    records: Sequence[Record],
    candidate: Policy,
    theta: Sequence[float],
    strengths: Sequence[float],
    p: Sequence[float],
    depth: int,
    classes: Mapping[Any, Any] | None = None,
) -> float:
    """Σ_x n_x/n Σ_A h(A) Σ_k θ_k r; contexts that the candidate does not know are left out."""
    found = system(top, records, candidate, strengths, p, depth, classes)
    shown = _shown(found, top, records, candidate, theta, depth)
    return float(shown @ found.solution @ found.target)


def unsettled(
    top: str,
    records: Sequence[Record],
    candidate: Policy,
    theta: Sequence[float],
    strengths: Sequence[float],
    p: Sequence[float],
    depth: int,
    classes: Mapping[Any, Any] | None = None,
) -> float:
    """The variance of V̂ because cells differ from what they are tied to.

    Were it known by how much, it would be the target of that row, and V̂ would move accordingly.
    """
    found = system(top, records, candidate, strengths, p, depth, classes)
    moves = _shown(found, top, records, candidate, theta, depth) @ found.solution
    best = found.solution @ found.target
    return float(
        sum(
            moves[row] ** 2 * factor * best[parent] / s
            for row, (parent, factor, s) in found.priors.items()
        )
    )


def _shown(
    found: System,
    top: str,
    records: Sequence[Record],
    candidate: Policy,
    theta: Sequence[float],
    depth: int,
) -> Any:  # noqa: ANN401
    """How much of each rate the candidate's value holds."""
    n: dict[Any, float] = defaultdict(float)
    for record in records:
        n[record.context] += record.weight
    known = {context: count for context, count in n.items() if context in candidate}
    shown = np.zeros(len(found.nodes))
    for context, count in known.items():
        for items, mass in candidate[context].items():
            for k, item in enumerate(items[: len(theta)], start=1):
                slot = context, item, k, cell_of(top, items, k, depth)
                shown[found.finest[slot]] += count * mass * theta[k - 1]
    return shown / sum(known.values())
