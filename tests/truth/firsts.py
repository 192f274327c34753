"""First clicks, slowly: at least one click and the rank of the first, from their definitions.

Like the oracle, it loops over records and knows nothing of the library. Records are first turned
into their first clicks (`only_first`); whoever has the first clicks knows who was at risk.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from tests.truth import oracle
from tests.truth.oracle import Cell, Mass, Policy, Record, Row, Theta, at, examined

SLOTS = ("ip", "item", "pbm")
"""The models whose estimate is a product of hazards; the others are linear in first clicks."""


success_at, mrr_at = oracle.clicks_at, oracle.reciprocal_ranks  # θ of first clicks


def only_first(records: Sequence[Record]) -> list[Record]:
    """The same records with a 1 at their first click and nothing else."""
    return [
        r._replace(
            clicks=tuple(float(c > 0 and not any(r.clicks[:k])) for k, c in enumerate(r.clicks))
        )
        for r in records
    ]


def at_risk(
    model: str, records: Sequence[Record], theta: Theta, p: Sequence[float]
) -> tuple[dict[Cell, float], dict[Cell, float]]:
    """By cell of one context: first clicks, and examined records without a click above."""
    clicked: defaultdict[Cell, float] = defaultdict(float)
    exposed: defaultdict[Cell, float] = defaultdict(float)
    for record in records:
        for k, click in enumerate(record.clicks[: len(theta)], start=1):
            g = oracle.cell(model, record.items, k, theta)
            clicked[g] += record.weight * click
            exposed[g] += record.weight * examined(model, p, k)
            if click:
                break
    return clicked, exposed


def rates(
    model: str, records: Sequence[Record], theta: Theta, p: Sequence[float]
) -> dict[Cell, float]:
    clicked, exposed = at_risk(model, records, theta, p)
    return {g: clicked[g] / exposed[g] for g in exposed if exposed[g] > 0}


def hazards(
    model: str, items: Sequence[Any], rate: dict[Cell, float], theta: Theta, p: Sequence[float]
) -> list[float]:
    """The chance of a click at each position of a list, given none above."""
    return [
        min(
            examined(model, p, k) * rate.get(oracle.cell(model, tuple(items), k, theta), 0.0),
            1.0,
        )
        for k in range(1, min(len(items), len(theta)) + 1)
    ]


def worth(chances: Sequence[float], theta: Theta) -> float:
    """Σ_k θ_k h_k Π_{j<k} (1 − h_j)."""
    total, passed = 0.0, 1.0
    for k, h in enumerate(chances, start=1):
        total += at(theta, k) * h * passed
        passed *= 1 - h
    return total


def value(
    model: str,
    records: Sequence[Record],
    candidate: Policy,
    theta: Theta,
    clip: float = math.inf,
    *,
    p: Sequence[float] | None = None,
) -> float:
    """V̂ of first clicks; contexts that the candidate lacks get none. As `oracle.value`."""
    if model not in SLOTS:
        return oracle.value(model, records, candidate, theta, clip)
    assert math.isinf(clip)
    looks = oracle.reciprocal_ranks(len(theta)) if p is None else p
    total = 0.0
    for context, mine in oracle.by_context(records).items():
        rate = rates(model, mine, theta, looks)
        total += oracle.count(mine) * sum(
            chance * worth(hazards(model, items, rate, theta, looks), theta)
            for items, chance in candidate.get(context, {}).items()
        )
    return total / oracle.count(records)


def estimate(
    model: str, records: Sequence[Record], candidate: Policy, theta: Theta, clip: float = math.inf
) -> float:
    """`value`, and production's own where the candidate has no list."""
    own = value(model, records, candidate, theta, clip)
    return own + oracle.unchanged(records, candidate, theta)


def evaluate(
    model: str,
    records: Sequence[Record],
    candidate: Policy,
    theta: Theta,
    *,
    missing: str = "production",
) -> Row:
    """All columns of an evaluation, from records that are first clicks."""
    if model not in SLOTS:
        return oracle.evaluate(model, records, candidate, theta, missing=missing)
    absent = oracle.by_context(records).keys() - set(candidate)
    used = [r for r in records if missing != "drop" or r.context not in absent]
    sums = _mass(model, used, candidate, theta)
    guess = estimate(model, used, candidate, theta)
    return oracle.row_of(used, theta, guess, sums, len(absent))


def _mass(model: str, records: Sequence[Record], candidate: Policy, theta: Theta) -> Mass:
    """As `oracle.mass`: what the candidate shows, and what was at risk in the log."""
    p, alike = oracle.reciprocal_ranks(len(theta)), (1.0,) * len(theta)
    lists, total = oracle.frequencies(records) | dict(candidate), Mass()
    for x, mine in oracle.by_context(records).items():
        n, (_, exposed) = oracle.count(mine), at_risk(model, mine, theta, p)
        wanted = oracle.exposures(model, lists[x], alike, p)
        seen = {g: e for g, e in exposed.items() if e > 0}
        covered, weight = wanted, dict.fromkeys(seen, 1.0)
        if x in candidate:
            covered = {g: h for g, h in wanted.items() if g in seen}
            slope = slopes(model, mine, candidate[x], theta, p)
            weight = {g: slope.get(g, 0.0) * n / e for g, e in seen.items()}
        total = total.plus(
            n * sum(wanted.values()),
            n * sum(covered.values()),
            0.0,
            sum(seen.values()),
            sum(e * weight[g] for g, e in seen.items()),
            sum(e * weight[g] ** 2 for g, e in seen.items()),
        )
    return total


def slopes(
    model: str, records: Sequence[Record], draws: oracle.Draws, theta: Theta, p: Sequence[float]
) -> dict[Cell, float]:
    """∂V_x/∂r_g: a list's worth is linear in each hazard, so its slope is that from 0 to 1."""
    rate = rates(model, records, theta, p)
    found: defaultdict[Cell, float] = defaultdict(float)
    for items, chance in draws.items():
        chances = hazards(model, items, rate, theta, p)
        for k in range(1, len(chances) + 1):
            g = oracle.cell(model, items, k, theta)
            if examined(model, p, k) * rate.get(g, 0.0) > 1 + 1e-9:
                continue  # beyond its end, and not only by rounding
            ends = [worth([*chances[: k - 1], h, *chances[k:]], theta) for h in (0.0, 1.0)]
            found[g] += chance * (ends[1] - ends[0]) * examined(model, p, k)
    return found
