"""Records weighed by their own propensities, record by record; knows no library.

V̂ = 1/n Σ_t Σ_k θ_k w_k min(h / p_t, M), with p_t the probability that the log gives for the list or
the slot of record t. A record stands for its part of the exposure of its cell, by which `covered`
and `clipped` are defined.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from tests.truth import oracle
from tests.truth.oracle import Policy, Record, Theta, at


def value(
    model: str,
    records: Sequence[Record],
    chances: Sequence[Sequence[float]],
    candidate: Policy,
    theta: Theta,
    clip: float = math.inf,
) -> float:
    """V̂; contexts that the candidate lacks count as they were logged.

    Args:
        model: "list", "prefix" or "ip".
        records: the log.
        chances: of each record, the probability of every slot; of "list", that of the list.
        candidate: by context, lists and their probabilities.
        theta: the weight of each position.
        clip: M.
    """
    total = 0.0
    for record, given in zip(records, chances, strict=True):
        draws = candidate.get(record.context)
        for k, click in enumerate(record.clicks, start=1):
            weight = 1.0
            if draws is not None:
                weight = min(over(model, draws, record.items, k, theta) / given[k - 1], clip)
            total += record.weight * at(theta, k) * click * weight
    return total / sum(record.weight for record in records)


def over(model: str, draws: oracle.Draws, items: tuple[Any, ...], k: int, theta: Theta) -> float:
    """The candidate's exposure of the cell of slot k, per exposure of the slot.

    A list is the whole list. An item counts wherever the candidate shows it, and so the log can
    only have had one position.
    """
    if model == "list":
        return draws.get(items, 0.0)
    p = oracle.reciprocal_ranks(max(len(theta), k))
    own = at(theta, k) if model in ("item", "pbm") else 1.0
    return oracle._SIDES[model](draws, items, k, theta, p) / own if own else 0.0


def shares(
    model: str,
    records: Sequence[Record],
    chances: Sequence[Sequence[float]],
    candidate: Policy,
    theta: Theta,
    clip: float = math.inf,
) -> tuple[float, float]:
    """`covered` and `clipped`: Σ n H 1{shown} and Σ n s_t (H − M e p_t)₊, both over Σ n H.

    s_t is the part of its cell's records that a record stands for. Where the candidate is silent,
    it shows what the log did.
    """
    size: defaultdict[Any, float] = defaultdict(float)
    rows: defaultdict[Any, list[tuple[float, float]]] = defaultdict(list)
    mass = covered = cut = 0.0
    for record, given in zip(records, chances, strict=True):
        size[record.context] += record.weight
        for k in range(1, len(record.items) + 1):
            if record.context not in candidate:
                mass += record.weight * at(theta, k)
                covered += record.weight * at(theta, k)
            elif at(theta, k) > 0:
                g = record.context, _cell(model, record.items, k)
                rows[g].append((record.weight, at(theta, k) * given[k - 1]))
    for x, n in size.items():
        for g, wanted in _exposures(model, candidate.get(x, {}), theta).items():
            shown = rows[x, g]
            whole = sum(weight for weight, _ in shown)
            mass += n * wanted
            covered += n * wanted if shown else 0.0
            if math.isfinite(clip):
                cut += sum(n * w / whole * max(wanted - clip * logged, 0.0) for w, logged in shown)
    return (covered / mass, cut / mass) if mass else (0.0, 0.0)


def _cell(model: str, items: tuple[Any, ...], k: int) -> Any:  # noqa: ANN401
    return {"list": (items, k), "prefix": items[:k], "ip": (items[k - 1], k)}[model]


def _exposures(model: str, draws: oracle.Draws, theta: Theta) -> dict[Any, float]:
    found: defaultdict[Any, float] = defaultdict(float)
    for items, chance in draws.items():
        for k in range(1, len(items) + 1):
            if chance * at(theta, k) > 0:
                found[_cell(model, items, k)] += chance * at(theta, k)
    return dict(found)
