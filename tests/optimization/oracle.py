"""The best policy within limits, over all lists of a small context: dense, and slow."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from foreclick.optimization.solvers import Limits

Floats = NDArray[np.float64]

CLOSE = 1e-9
_EXACT: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


# --- instances ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Log:
    """A context: L items, K positions, what was shown of it and clicked."""

    q: Floats  # (K,)
    shown: Floats  # (L, K)
    rates: Floats  # (L, K)
    clip: float

    @property
    def shape(self) -> tuple[int, int]:
        L, K = self.shown.shape
        return L, K


def some_log(
    rng: np.random.Generator, items: int = 8, positions: int = 5, at_least: int = 1
) -> Log:
    L, K = int(rng.integers(2, items + 1)), int(rng.integers(at_least, positions + 1))
    shown = np.zeros((L, K))
    for mass in rng.dirichlet(np.ones(rng.integers(1, 7))):
        for k, a in enumerate(some_list(rng, L, K)):
            if a >= 0:
                shown[a, k] += mass
    rates = rng.random((L, K)) * (rng.random((L, K)) < 0.8)
    if rng.random() < 0.3:
        rates = np.round(rates, 1)  # ties
    clip = float(rng.choice([1.0, 2.0, 5.0, np.inf]))
    return Log(some_exposure(rng, K), shown, rates, clip)


def some_list(rng: np.random.Generator, L: int, K: int) -> NDArray[np.integer[Any]]:
    """A list that is as full as can be, with holes anywhere."""
    return rng.permutation(np.append(np.arange(L), np.full(max(K - L, 0), -1)))[:K]


def some_exposure(rng: np.random.Generator, K: int) -> Floats:
    dcg = 1 / np.log2(2 + np.arange(K))
    some = rng.random(K)
    zeros = some * (rng.random(K) < 0.6)
    ties = np.round(some, 1)
    return [dcg, np.ones(K), some, zeros, ties, dcg * some][rng.integers(6)]


# --- the program ----------------------------------------------------------------------------------


def best_of_lists(
    w: Floats, lists: NDArray[np.integer[Any]], L: int, limits: Limits
) -> float | None:
    """The largest w · masses of lists within limits; None if no masses are within them."""
    m, K = lists.shape
    h, (production, change) = marginals_of_each(lists, L), limits.near
    differ = np.concatenate([np.zeros(m), np.ones(L * K)])
    found = linprog(
        -np.concatenate([w, np.zeros(L * K)]),
        np.vstack([np.hstack([h.reshape(m, -1).T, -np.eye(L * K)]), differ]),
        np.append(production.ravel(), change * K),
        np.concatenate([np.ones(m), np.zeros(L * K)])[None],
        [1.0],
        bounds=(0.0, None),
        options=_EXACT,
    )
    assert found.status in {0, 2}, found.message
    return None if found.fun is None else -found.fun


# --- lists ----------------------------------------------------------------------------------------


def fullest_lists(
    L: int, K: int, forbidden: NDArray[np.bool_] | None = None
) -> NDArray[np.integer[Any]]:
    """All lists with as many positions filled as can be, -1 where none is."""
    entries = [*range(L), *[-1] * K]
    fits = {
        one
        for one in set(permutations(entries, K))
        if forbidden is None or not any(a >= 0 and forbidden[a, k] for k, a in enumerate(one))
    }
    most = max(sum(a >= 0 for a in one) for one in fits)
    return np.array(sorted(one for one in fits if sum(a >= 0 for a in one) == most))


def marginals_of_each(lists: NDArray[np.integer[Any]], L: int) -> Floats:
    """Shape (m, L, K): which item is where."""
    return np.where(lists[:, None, :] == np.arange(L)[None, :, None], 1.0, 0.0)
