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
from tests.truth.oracle import Cell, Policy, Record, Row, Theta, at

SLOTS = ("ip", "item", "pbm")
"""The models whose estimate is a product of hazards; the others are linear in first clicks."""


def success_at(depth: int) -> tuple[float, ...]:
    """θ of `success@depth`, of first clicks."""
    return (1.0,) * depth


def mrr_at(depth: int) -> tuple[float, ...]:
    """θ of `mrr@depth`, of first clicks."""
    return tuple(1.0 / k for k in range(1, depth + 1))


def only_first(records: Sequence[Record]) -> list[Record]:
    """The same records with a 1 at their first click and nothing else."""
    found = []
    for record in records:
        clicks = [0.0] * len(record.clicks)
        for k, click in enumerate(record.clicks):
            if click > 0:
                clicks[k] = 1.0
                break
        found.append(record._replace(clicks=tuple(clicks)))
    return found


def examined(model: str, p: Sequence[float], k: int) -> float:
    return at(p, k) if model == "pbm" else 1.0


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
        min(examined(model, p, k) * rate.get(oracle.cell(model, tuple(items), k, theta), 0.0), 1.0)
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
    for context in {record.context for record in records} & set(candidate):
        mine = [record for record in records if record.context == context]
        rate = rates(model, mine, theta, looks)
        here = sum(
            chance * worth(hazards(model, items, rate, theta, looks), theta)
            for items, chance in candidate[context].items()
        )
        total += sum(record.weight for record in mine) * here
    return total / sum(record.weight for record in records)


def estimate(
    model: str, records: Sequence[Record], candidate: Policy, theta: Theta, clip: float = math.inf
) -> float:
    """`value`, and production's own where the candidate has no list."""
    silent = [record for record in records if record.context not in candidate]
    n = sum(record.weight for record in records)
    own = sum(record.weight * oracle.reward(record, theta) for record in silent) / n
    return value(model, records, candidate, theta, clip) + own


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
    used = [r for r in records if missing == "production" or r.context in candidate]
    found = oracle.evaluate(model, records, candidate, theta, missing=missing)
    guess = estimate(model, used, candidate, theta)
    covered, ess = _rests_on(model, used, candidate, theta)
    now = found.production
    seen = covered > 0
    return found._replace(
        value=guess if seen else None,
        change=guess - now if seen else None,
        lift=(guess - now) / now if seen and now > 0 else None,
        covered=covered,
        ess=ess,
    )


def _rests_on(
    model: str, records: Sequence[Record], candidate: Policy, theta: Theta
) -> tuple[float, float]:
    """The share of the candidate's exposure that was at risk in the log; and the ess."""
    p = oracle.reciprocal_ranks(len(theta))
    alike = (1.0,) * len(theta)
    mass = covered = logged = weighted = squared = 0.0
    for context in {record.context for record in records}:
        mine = [record for record in records if record.context == context]
        n = sum(record.weight for record in mine)
        _, exposed = at_risk(model, mine, theta, p)
        logged += sum(exposed.values())
        if context not in candidate:
            shown = oracle.exposures(model, oracle.frequencies(mine)[context], alike, p)
            mass += n * sum(shown.values())
            covered += n * sum(shown.values())
            weighted += sum(exposed.values())
            squared += sum(exposed.values())
            continue
        wanted = oracle.exposures(model, candidate[context], alike, p)
        mass += n * sum(wanted.values())
        covered += n * sum(h for g, h in wanted.items() if exposed.get(g, 0.0) > 0)
        for g, slope in slopes(model, mine, candidate[context], theta, p).items():
            if exposed.get(g, 0.0) > 0:
                w = slope / (exposed[g] / n)
                weighted += exposed[g] * w
                squared += exposed[g] * w * w
    n = sum(record.weight for record in records)
    ess = n * weighted**2 / (logged * squared) if logged * squared > 0 else 0.0
    return (covered / mass if mass else 0.0), (ess if covered > 0 else 0.0)


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
