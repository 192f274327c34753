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
from typing import Any

import numpy as np

from tests.truth.oracle import Policy, Record


def cell_of(top: str, items: tuple[Any, ...], k: int, depth: int) -> Any:  # noqa: ANN401
    """What names the top's cell of position k, besides item and position."""
    return {"prefix": items[:k], "list": items[:depth], "ip": None}[top]


def rates(  # noqa: C901 - one loop over the slots, in the open
    top: str,
    records: Sequence[Record],
    candidate: Policy,
    strengths: Sequence[float],
    p: Sequence[float],
    depth: int,
    classes: Mapping[Any, Any] | None = None,
) -> dict[Any, float]:
    """(context, item, position, cell) → the rate that fits best, for the log and the candidate."""
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

    def between(weight: float, child: int, parent: int, factor: float = 1.0) -> None:
        if (child, parent) not in once:
            once.add((child, parent))
            terms.append((weight, {child: 1.0, parent: -factor}, 0.0))

    for slot in slots:
        context, item, k, _ = slot
        examined = p[k - 1]
        position = node("position", context, item, k)
        own = node("top", *slot) if s_top else position
        if slot in n:
            terms.append((n[slot] / examined, {own: 1.0}, c[slot] / n[slot]))
        if s_top:
            between(s_top[0] / examined, own, position)
        between(s_position / examined, position, node("item", context, item), examined)
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
    best = np.linalg.lstsq(matrix, target, rcond=None)[0]
    finest = "top" if s_top else "position"
    return {s: best[nodes[(finest, *(s if s_top else s[:3]))]] for s in slots}


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
    found = rates(top, records, candidate, strengths, p, depth, classes)
    n: dict[Any, float] = defaultdict(float)
    for record in records:
        n[record.context] += record.weight
    known = {context: count for context, count in n.items() if context in candidate}
    total = sum(
        count
        * mass
        * sum(
            theta[k - 1] * found[context, item, k, cell_of(top, items, k, depth)]
            for k, item in enumerate(items[: len(theta)], start=1)
        )
        for context, count in known.items()
        for items, mass in candidate[context].items()
    )
    return total / sum(known.values())
