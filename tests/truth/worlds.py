"""Tiny worlds in which a click model holds, with exact expectations by enumerating every list.

A world is all K-permutations of L items with the expected click of each slot. Because estimators
are linear in clicks, the expectation of an estimator whose logging policy is known needs no
sampling:

    E[V̂] = Σ_A π(A) Σ_k θ_k w̄(A, k) min{ratio(A, k), M}

Policies are vectors over the lists. Like the oracle, this module knows nothing of the library.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

HOLDS = {
    "list": ("list",),
    "cascade": ("list", "prefix"),
    "ip": ("list", "prefix", "ip"),
    "item": ("list", "prefix", "ip", "item"),
    "pbm": ("list", "prefix", "ip", "pbm"),
    "rctr": ("list", "prefix", "ip", "rctr"),
    "rcm": ("list", "prefix", "ip", "item", "rctr", "rcm"),
}
"""The models that hold in each kind of world.

The list model looks no further than the last position that counts (`Instance.holds`).
"""

FINER = (
    ("list", "prefix"),
    ("prefix", "ip"),
    ("ip", "item"),
    ("ip", "pbm"),
    ("ip", "rctr"),
    ("item", "rcm"),
    ("rctr", "rcm"),
)
"""Pairs of models of which the first splits the cells of the second."""


@dataclass(frozen=True)
class World:
    """Every list of `length` out of `items` items, and how often each of its slots is clicked."""

    kind: str
    items: int
    length: int
    clicks: Floats  # (lists, length)
    examination: Floats  # (length,), right where the kind is pbm

    @property
    def lists(self) -> Ints:
        """The K-permutations, one a row."""
        return all_lists(self.items, self.length)

    def value(self, policy: Floats, theta: Floats) -> float:
        """V(h): the expected reward of a list drawn from the policy."""
        return float(policy @ self.clicks @ theta)

    def expectation(
        self, model: str, candidate: Floats, logging: Floats, theta: Floats, clip: float
    ) -> float:
        """E[V̂] of the clipped estimator when the logging policy is known."""
        weight = np.minimum(self.ratio(model, candidate, logging, theta), clip)
        credit = logging[:, None] * theta * self.clicks
        earns = credit > 0
        return float(credit[earns] @ weight[earns])

    def ratio(self, model: str, candidate: Floats, logging: Floats, theta: Floats) -> Floats:
        """The unclipped importance weight of every slot; 0/0 = 0, and ∞ where only h shows it."""
        cells = self.cells(model, theta)
        exposure = theta * (self.examination if model == "pbm" else np.ones(self.length))
        h = np.bincount(cells.ravel(), weights=(candidate[:, None] * exposure).ravel())
        p = np.bincount(cells.ravel(), weights=(logging[:, None] * exposure).ravel())
        with np.errstate(divide="ignore"):
            ratio = np.divide(h, p, out=np.zeros_like(h), where=h > 0)
        slots: Floats = ratio[cells]
        return slots

    def cells(self, model: str, theta: Floats) -> Ints:
        """The number of each slot's cell; slots of one cell have one number."""
        return cell_numbers(model, self.items, self.length, int(np.flatnonzero(theta)[-1]) + 1)


@functools.cache
def all_lists(items: int, length: int) -> Ints:
    """All K-permutations of the items 0 … L−1, in lexicographic order."""
    return np.array(list(itertools.permutations(range(items), length)), dtype=np.int64)


@functools.cache
def cell_numbers(model: str, items: int, length: int, end: int) -> Ints:
    """Cells by name, numbered as they are met; `end` is the last position that counts."""
    numbers: dict[object, int] = {}
    found = []
    for shown in all_lists(items, length).tolist():
        for k in range(length):
            name = {
                "list": tuple(shown[:end]),
                "prefix": tuple(shown[: k + 1]),
                "ip": (shown[k], k),
                "item": shown[k],
                "pbm": shown[k],
                "rctr": k,
                "rcm": None,
            }[model]
            found.append(numbers.setdefault(name, len(numbers)))
    return np.array(found, dtype=np.int64).reshape(-1, length)


# --- random instances -----------------------------------------------------------------------------


def random_world(kind: str, rng: np.random.Generator, length: int = 3) -> World:
    """A world of 3 or 4 items in which the model `kind` holds."""
    items = int(rng.integers(3, 5))
    p = rng.uniform(0.2, 1) / np.arange(1, length + 1)  # 1/k, as in the library, up to a scale
    lists = all_lists(items, length)
    positions = np.arange(length)
    attraction = rng.uniform(0, 1, items)
    match kind:
        case "list":
            clicks = rng.uniform(0, 1, lists.shape)
        case "cascade":  # the user stops at the first click
            passed = np.cumprod(1 - attraction[lists], axis=1)
            clicks = attraction[lists] * np.hstack([np.ones((len(lists), 1)), passed[:, :-1]])
        case "ip":
            clicks = rng.uniform(0, 1, (items, length))[lists, positions]
        case "item":
            clicks = attraction[lists]
        case "pbm":
            clicks = attraction[lists] * p
        case "rctr":
            clicks = np.broadcast_to(rng.uniform(0, 1, length), lists.shape)
        case "rcm":
            clicks = np.full(lists.shape, rng.uniform())
        case _:
            raise KeyError(kind)
    return World(kind, items, length, np.array(clicks, dtype=np.float64), p)


def random_policy(rng: np.random.Generator, lists: int, *, full: bool = False) -> Floats:
    """Probabilities of the lists: all of them, or some, unevenly, as production rankers are."""
    if full:
        return rng.dirichlet(np.ones(lists))
    shown = rng.choice(lists, size=int(rng.integers(1, lists + 1)), replace=False)
    policy = np.zeros(lists)
    policy[shown] = rng.dirichlet(np.full(len(shown), 0.5))
    return policy


@dataclass(frozen=True)
class Instance:
    """A world, the policy that logged it, a candidate and a metric."""

    world: World
    logging: Floats
    candidate: Floats
    theta: Floats

    @property
    def holds(self) -> tuple[str, ...]:
        """The models that hold.

        The list estimator compares lists up to the last position with θ > 0. That assumes that
        what stands further down moves no click above, so it is not true of a list-specific world
        in which the last positions do not count.
        """
        if self.world.kind == "list" and self.theta[-1] == 0:
            return ()
        return HOLDS[self.world.kind]

    @property
    def value(self) -> float:
        """V(h)."""
        return self.world.value(self.candidate, self.theta)

    def expectation(self, model: str, clip: float) -> float:
        """E[V̂] of the model's estimator."""
        return self.world.expectation(model, self.candidate, self.logging, self.theta, clip)


def random_instance(
    kind: str, rng: np.random.Generator, theta: Floats, *, full: bool = False
) -> Instance:
    """An instance; the candidate is now unlike the logging policy, now close to it."""
    world = random_world(kind, rng, len(theta))
    logging, far = (random_policy(rng, len(world.lists), full=each) for each in (full, False))
    mix = float(rng.choice([0.1, 0.5, 1.0]))
    return Instance(world, logging, mix * far + (1 - mix) * logging, theta)
