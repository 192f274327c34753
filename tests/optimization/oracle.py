"""The linear program of the paper, written down as it stands there: dense, and slow."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag
from scipy.optimize import linprog

from foreclick.optimization.constraints import Limits

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


def capped(clip: float, exposed: Floats) -> Floats:
    """M P, where infinity times nothing is nothing: what was never shown says nothing."""
    return np.where(exposed > 0, clip * np.where(exposed > 0, exposed, 1.0), 0.0)


# --- the program ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Context:
    """The cells of a context, and how much marginals expose them."""

    w: Floats  # (G,)
    cap: Floats  # (G,)
    E: Floats  # (G, L · K)
    shape: tuple[int, int]


def best_of_marginals(contexts: list[Context]) -> float:
    """max Σ w c over marginals h and c: c ≤ E h, 0 ≤ c ≤ cap, rows and columns of h at most 1.

    Of all contexts together, as in the paper. No policy is worth more in any of them than its best
    one, so policies with this sum are best in each.
    """
    gain, A, b, top = [], [], [], []
    for context in contexts:
        (L, K), G = context.shape, len(context.w)
        one_item, one_position = np.eye(L).repeat(K, axis=1), np.tile(np.eye(K), L)
        gain.append(np.append(np.zeros(L * K), context.w))
        A.append(
            np.block(
                [
                    [-context.E, np.eye(G)],
                    [one_item, np.zeros((L, G))],
                    [one_position, np.zeros((K, G))],
                ]
            )
        )
        b.append(np.append(np.zeros(G), np.ones(L + K)))
        top.append(np.append(np.full(L * K, np.inf), context.cap))
    found = linprog(
        -np.concatenate(gain),
        block_diag(*A),
        np.concatenate(b),
        bounds=[(0.0, most) for most in np.concatenate(top).tolist()],
        options=_EXACT,
    )
    assert found.fun is not None, found.message
    return -found.fun


def best_of_lists(
    w: Floats, cap: Floats, E: Floats, lists: NDArray[np.integer[Any]], L: int, limits: Limits
) -> float | None:
    """The same over the masses of lists, within limits; uncapped cells count as they are."""
    m, K = lists.shape
    free = np.isinf(cap)
    direct = w[free] @ E[free]
    w, cap, E = w[~free], cap[~free], E[~free]
    G, h = len(w), marginals_of_each(lists, L)
    A, b = [np.hstack([-E, np.eye(G), np.zeros((G, L * K))])], [np.zeros(G)]
    for members, least in limits.groups:
        got = np.einsum("a,mak->m", members.astype(float), h)
        A.append(np.concatenate([-got, np.zeros(G + L * K)])[None])
        b.append(np.array([-least * K]))
    if limits.near is not None:
        production, change = limits.near
        A.append(np.hstack([h.reshape(m, -1).T, np.zeros((L * K, G)), -np.eye(L * K)]))
        b.append(production.ravel())
        A.append(np.concatenate([np.zeros(m + G), np.ones(L * K)])[None])
        b.append(np.array([change * K]))
    found = linprog(
        -np.concatenate([direct, w, np.zeros(L * K)]),
        np.vstack(A),
        np.concatenate(b),
        np.concatenate([np.ones(m), np.zeros(G + L * K)])[None],
        [1.0],
        bounds=[(0.0, most) for most in [np.inf] * m + cap.tolist() + [np.inf] * (L * K)],
        options=_EXACT,
    )
    assert found.status in {0, 2}, found.message
    return None if found.fun is None else -found.fun


def no_limits(L: int, K: int) -> Limits:
    return Limits(np.zeros((L, K), dtype=np.bool_))


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


def by_item(L: int, q: Floats) -> Floats:
    """How much marginals expose items: Σ_k q_k h(a, k)."""
    return np.asarray(np.kron(np.eye(L), q), dtype=np.float64)


def earned(w: Floats, cap: Floats, H: Floats) -> float:
    """Σ w min(H, cap)."""
    return float(np.sum(w * np.minimum(H, cap)))
