"""The programs of the paper (section 4.3), as they are printed: over all lists, with auxiliary c.

    max_{h, c} Σ_{(x, A, w) ∈ S} Σ_k θ_k w(a_k, k) c(g)
    such that  c(g) P_g ≤ H_g,  0 ≤ c(g) ≤ M,  h(· | x) a distribution of all lists of the items,

where g is the cell of the slot, and P_g and H_g are the sides of its importance weight. With the
propensities of records, every record has a c and a P_g of its own. It knows no library.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from tests.truth import oracle
from tests.truth.oracle import ItemList, Policy, Record, Theta

Floats = NDArray[np.float64]
_EXACT: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}

Allowed = Callable[[Any, ItemList], bool]


def best_value(
    model: str,
    records: Sequence[Record],
    theta: Theta,
    clip: float = math.inf,
    *,
    logging: Policy | None = None,
    chances: Sequence[Sequence[float]] | None = None,
    p: Sequence[float] | None = None,
    allowed: Allowed = lambda *_: True,
    whole: bool = False,
    change: float | None = None,
) -> float | None:
    """The largest V̂ of all policies; None if a context has no list that is allowed.

    Args:
        model: "list", "ip", "item" or "pbm".
        records: the logged dataset S; all lists have as many items.
        theta: the weight of each position.
        clip: M.
        logging: π where it is known; otherwise the frequencies of `records`.
        chances: of each record, the propensity of every slot, or of the list at each.
        p: the examination of each position, for `pbm`; 1/k unless given.
        allowed: whether a context may show a list.
        whole: whether a context has one list.
        change: the share of slots that may differ from the log's: Σ_ak (h − π̂)⁺ ≤ change · K.
    """
    shown = oracle.frequencies(records) if logging is None else logging
    examined = oracle.reciprocal_ranks(len(theta)) if p is None else p
    side, total = partial(oracle.side, model), 0.0
    for context in oracle.by_context(records):
        its = [t for t, r in enumerate(records) if r.context == context]
        size = len(records[its[0]].items)
        items = sorted({a for t in its for a in records[t].items})
        lists = [a for a in itertools.permutations(items, size) if allowed(context, a)]
        slots = np.array([[[float(a == b) for b in items] for a in one] for one in lists])
        near = np.mean([[[float(a == b) for b in items] for a in records[t].items] for t in its], 0)
        limit = (slots, near, math.inf if change is None else change * size)
        if whole:
            fits = [np.maximum(one - near, 0).sum() <= limit[2] + 1e-9 for one in slots]
            lists = list(itertools.compress(lists, fits))
        if not lists:
            return None
        credit: dict[Any, float] = {}  # by auxiliary variable
        logged: dict[Any, float] = {}
        exposed: dict[Any, list[float]] = {}
        for t in its:
            record = records[t]
            for k in range(1, size + 1):
                g: Any = oracle.cell(model, record.items, k, theta)
                g = g if chances is None else (t, g)
                if g not in logged:
                    own = (record.items, k, theta, examined)
                    logged[g] = side(shown[context], *own) if chances is None else chances[t][k - 1]
                    exposed[g] = [side({a: 1.0}, *own) for a in lists]
                earned = record.weight * oracle.at(theta, k) * record.clicks[k - 1]
                credit[g] = credit.get(g, 0.0) + earned
        c, p_g, h = (np.array([*each.values()]) for each in (credit, logged, exposed))
        total += _solved(c, p_g, h, clip, None if whole else limit)
    return total / oracle.count(records)


def _solved(
    credit: Floats,
    logged: Floats,
    exposed: Floats,
    clip: float,
    limit: tuple[Any, Any, float] | None,
) -> float:
    """The program of one context; its best list, if nothing limits a mix, which is then none.

    Args:
        credit, logged: Shape (G,), by auxiliary variable.
        exposed: Shape (G, L): also by list.
        clip: M.
        limit: what each list shows where, what the log does, and by how much a mix may differ.
    """
    cells, lists = exposed.shape
    if limit is None:
        wanted = exposed > 0
        ratio = np.divide(exposed, logged[:, None], out=np.zeros_like(exposed), where=wanted)
        return float((credit @ np.minimum(ratio, clip)).max())
    slots, near, most = limit
    at, count = slots.reshape(lists, -1).T, near.size  # what each list shows where
    moved = np.hstack([at, np.zeros((count, cells)), -np.eye(count)])
    total = np.append(np.zeros(lists + cells), np.ones(count))
    found = linprog(
        -np.concatenate([np.zeros(lists), credit, np.zeros(count)]),
        np.vstack([np.hstack([-exposed, np.diag(logged), np.zeros((cells, count))]), moved, total]),
        np.concatenate([np.zeros(cells), near.ravel(), [min(most, 1e3)]]),
        np.append(np.ones(lists), np.zeros(cells + count))[None],
        [1.0],
        bounds=[(0, None)] * lists + [(0, clip)] * cells + [(0, None)] * count,
        method="highs",
        options=_EXACT,
    )
    assert found.fun is not None, found.message
    return -float(found.fun)
