"""The parts of an answer, record by record; knows no library.

Rates and weights are those of the whole log. A record t of context x stands for ψ_t + V, which is
V_x and how far the record moves it; the value of a part is the mean over its records. Of what is
said of a context (how much of it is covered, and clipped), a part has its share of the records.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tests.truth import firsts, oracle, propensities, spread
from tests.truth.oracle import Mass, Policy, Record, Theta


class Own(NamedTuple):
    """What a record stands for, and the sum of the terms that it was, without their signs."""

    worth: float
    size: float


def of_cells(
    model: str,
    records: Sequence[Record],
    candidate: Policy,
    theta: Theta,
    clip: float = math.inf,
    *,
    logging: Policy | None = None,
) -> list[Own]:
    """Σ_g W_g (c_g(t) − u_g r_g e_g(t)) − Σ_g (1 − u_g) M C_g + V_x of each record."""
    told = spread.influence(model, records, candidate, theta, clip, logging=logging)
    found = []
    for record, (psi, _) in zip(records, told.moves.tolist(), strict=True):
        world = told.worlds.get(record.context)
        size = oracle.reward(record, theta) if world is None else world.size(record)
        found.append(Own(psi + told.values[0], size + told.values[0]))
    return found


def of_hazards(model: str, records: Sequence[Record], candidate: Policy, theta: Theta) -> list[Own]:
    """V_x + Σ_g W_g (c_g(t) − r_g e_g(t)), at risk, with W_g the slope of V_x over P_g."""
    p, contexts = oracle.reciprocal_ranks(len(theta)), oracle.by_context(records)
    found = []
    for record in records:
        if record.context not in candidate:
            f = oracle.reward(record, theta)
            found.append(Own(f, f))
            continue
        mine, draws = contexts[record.context], candidate[record.context]
        rate, n = firsts.rates(model, mine, theta, p), oracle.count(mine)
        _, exposed = firsts.at_risk(model, mine, theta, p)
        slopes = firsts.slopes(model, mine, draws, theta, p)
        # A slope is a product of 1 − h, of which little is left where nearly all have clicked.
        steepest = oracle.exposures(model, draws, [max(theta)] * len(theta), p)
        worth = size = firsts.value(model, mine, {record.context: draws}, theta)
        clicks, risks = firsts.at_risk(model, [record._replace(weight=1.0)], theta, p)
        for g, e in risks.items():
            if exposed[g] > 0:
                worth += slopes.get(g, 0.0) * n / exposed[g] * (clicks[g] - rate[g] * e)
                size += steepest.get(g, 0.0) * n / exposed[g] * (clicks[g] + rate[g] * e)
        found.append(Own(worth, size))
    return found


def of_propensities(
    model: str,
    records: Sequence[Record],
    chances: Sequence[Sequence[float]],
    candidate: Policy,
    theta: Theta,
    clip: float = math.inf,
) -> list[Own]:
    """Σ_k θ_k w_k min(h / p, M) of each record."""
    worth = [
        propensities.value(model, [record], [given], candidate, theta, clip)
        for record, given in zip(records, chances, strict=True)
    ]
    most: dict[Any, float] = defaultdict(float)  # by context: a sum is rounded as its terms are
    for record, each in zip(records, worth, strict=True):
        most[record.context] = max(most[record.context], each)
    return [Own(each, most[record.context]) for record, each in zip(records, worth, strict=True)]


def evaluate(
    model: str,
    records: Sequence[Record],
    inside: Sequence[bool],
    candidate: Policy,
    theta: Theta,
    clip: float = math.inf,
    *,
    logging: Policy | None = None,
) -> dict[str, float]:
    """`covered`, `clipped` and `ess` of a part, of estimators that sum over cells.

    Sums over the cells of a context, as far as the part has its records; but what the log exposed
    is what the part's records did, and so is what production goes on to show.
    """
    contexts = oracle.by_context(records)
    own = oracle.by_context(r for r, part in zip(records, inside, strict=True) if part)
    mass = partial(oracle.mass, model, candidate=candidate, theta=theta, clip=clip, logging=logging)
    total = Mass()
    for x, mine in own.items():
        here = mass(records=mine)
        if x in candidate:
            whole = mass(records=contexts[x])
            share = oracle.count(mine) / oracle.count(contexts[x])
            here = Mass(*(share * each for each in whole))._replace(logged=here.logged)
        total = total.plus(*here)
    if model in oracle.BLIND or logging is not None:
        there = [record for x in own for record in contexts[x]]
        if not oracle.in_sight(there, candidate, len(theta)):
            total = total._replace(covered=0.0)
    return total.shares(sum(map(oracle.count, own.values())))


def mean(own: Sequence[Own], records: Sequence[Record], inside: Sequence[bool]) -> Own:
    """What the records of a part stand for on average."""
    weights = [r.weight * part for r, part in zip(records, inside, strict=True)]
    return Own(*np.average(own, axis=0, weights=weights).tolist())
