"""Click worlds: how users click on a list, with the exact value V(h) of any policy.

A world has contexts 0 … C−1, in each of them items 0 … L−1, and K positions. Two kinds of worlds
share everything but a few lines:

- *slots on their own*: a click does not depend on the clicks above it (`PBM`, `DCTR`,
  `ItemPosition`, `ListSpecific`);
- *users who read downwards*: at each position the user clicks or not, then goes on or stops
  (`Cascade`, `DCM`, `DBN`). These differ only in how likely it is to go on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foreclick.engines.base import GOLDEN, mixed
from foreclick.errors import SimulationError
from foreclick.policies import PolicyLike
from foreclick.simulate.truth import value_of

if TYPE_CHECKING:
    from foreclick.metrics import Metric

Floats = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]
Booleans = NDArray[np.bool_]

EMPTY = -1
"""Marks a position of a list that shows nothing."""

_TEN = 10


class Size(NamedTuple):
    """How many contexts (C), items in each of them (L) and positions (K) a world has."""

    contexts: int
    items: int
    positions: int


class World:
    """How lists are clicked.

    A new world is a child of `_Slots` (say `_rates`) or of `_Readers` (say `_steps`).
    """

    by_slot = True
    """Whether the expected click of a slot depends on its item and position alone."""

    @property
    def size(self) -> Size:
        """C, L and K."""
        return self._size()

    def _size(self) -> Size:
        raise NotImplementedError

    def clicks(self, contexts: Integers, lists: Integers, effect: Floats | float = 1.0) -> Floats:
        """The exact click probability of every slot.

        Args:
            contexts: Shape (n,).
            lists: Shape (n, K): items, `EMPTY` (-1) where there is none. Fewer columns stand for
                lists that end there.
            effect: Shape (n,), or a number for all: multiplies the attraction (in `ItemPosition`
                and `ListSpecific` the click rate); what exceeds 1 is cut to 1.
        """
        raise NotImplementedError

    def first_clicks(self, contexts: Integers, lists: Integers) -> Floats:
        """The exact probability that a slot is clicked and none above it; as in `clicks`."""
        raise NotImplementedError

    def sample(
        self,
        contexts: Integers,
        lists: Integers,
        rng: np.random.Generator,
        effect: Floats | float = 1.0,
    ) -> Booleans:
        """One user's clicks on each list; arguments and shape as in `clicks`."""
        raise NotImplementedError

    def value(
        self,
        policy: PolicyLike,
        metric: str | Metric,
        frequencies: ArrayLike | None = None,
    ) -> float:
        """V(h) = Σ_x q(x) Σ_A h(A | x) Σ_k θ_k P(click on slot k of A | x), without sampling.

        It is the value in the undisturbed world: day shocks and user effects are 1.

        Args:
            policy: any policy over the ids of `item_ids`, or a table that `Ranking` accepts.
                `Marginals` only have a value where a click depends on item and position alone, and
                then none of first clicks, which depend on the whole list.
            metric: such as ``"clicks@3"`` or ``"success@3"``. Positions below K earn nothing.
            frequencies: Shape (C,): q(x), how often each context occurs; evenly by default.

        Raises:
            PolicyError: the policy has no list for a context that occurs, shows an item that the
                world does not have, or does not say how likely whole lists are where that matters.
            MetricError: the metric is of another reward than clicks.

        Examples:
            >>> world = PBM(attraction=[[0.5, 0.2]], examination=[1.0, 0.5])
            >>> world.value({"context": [0], "items": [[1, 0]]}, "clicks@2")
            0.45
        """
        return value_of(self, policy, metric, frequencies)


def _probabilities(world: World, **dimensions: int) -> None:
    """Take the named fields as arrays of probabilities, with so many dimensions."""
    for name, wanted in dimensions.items():
        found = np.array(getattr(world, name), dtype=np.float64)
        if found.ndim != wanted:
            raise SimulationError(
                f"{name} of {type(world).__name__} has {found.ndim} dimensions and needs {wanted}; "
                "the order is context, item, position, as far as they apply."
            )
        wrong = found[~((found >= 0) & (found <= 1))]
        if wrong.size:
            raise SimulationError(
                f"{name} of {type(world).__name__} holds {wrong.size:,} numbers that are not "
                f"between 0 and 1, for example {wrong[0]}. Give probabilities."
            )
        found.flags.writeable = False  # a world is a value; nobody may change its truth
        object.__setattr__(world, name, found)


def _size_of(attraction: ArrayLike, positions: int) -> Size:
    contexts, items = np.shape(attraction)
    return Size(contexts, items, positions)


def _at(table: Floats, contexts: Integers, lists: Integers) -> Floats:
    """table[context, item] of every slot, 0 where it is empty."""
    # One flat gather is several times faster than a gather by two indices.
    flat = contexts[:, None].astype(np.int64) * table.shape[1] + lists
    found: Floats = np.take(table, flat, mode="wrap")
    found[lists == EMPTY] = 0.0
    return found


def _above(chances: Floats) -> Floats:
    """The product of the chances at all positions above, 1 at the first."""
    found = np.ones_like(chances)
    np.cumprod(chances[:, :-1], axis=1, out=found[:, 1:])
    return found


def _times(rates: Floats, effect: Floats | float) -> Floats:
    """Probabilities under a multiplicative effect, and still probabilities."""
    disturbed: Floats = np.minimum(rates * np.reshape(effect, (-1, 1)), 1.0)
    return disturbed


# --- slots on their own ---------------------------------------------------------------------------


class _Slots(World):
    """A slot is clicked by a coin of its own."""

    def _rates(self, contexts: Integers, lists: Integers, effect: Floats | float) -> Floats:
        """The click probability of every filled slot."""
        raise NotImplementedError

    def clicks(self, contexts: Integers, lists: Integers, effect: Floats | float = 1.0) -> Floats:
        return np.where(lists == EMPTY, 0.0, self._rates(contexts, lists, effect))

    def first_clicks(self, contexts: Integers, lists: Integers) -> Floats:
        clicks = self.clicks(contexts, lists)
        return clicks * _above(1 - clicks)

    def sample(
        self,
        contexts: Integers,
        lists: Integers,
        rng: np.random.Generator,
        effect: Floats | float = 1.0,
    ) -> Booleans:
        return rng.random(lists.shape) < self.clicks(contexts, lists, effect)


@dataclass(frozen=True, eq=False)
class DCTR(_Slots):
    """Document-based: P(click) = attraction[x, a], wherever the item stands.

    Args:
        attraction: Shape (C, L).
        positions: K.
    """

    attraction: ArrayLike
    positions: int = _TEN

    def __post_init__(self) -> None:
        _probabilities(self, attraction=2)

    def _size(self) -> Size:
        return _size_of(self.attraction, self.positions)

    def _rates(self, contexts: Integers, lists: Integers, effect: Floats | float) -> Floats:
        return _times(_at(np.asarray(self.attraction), contexts, lists), effect)


@dataclass(frozen=True, eq=False)
class PBM(_Slots):
    """Position-based: P(click) = attraction[x, a] · examination[k].

    Args:
        attraction: Shape (C, L).
        examination: Shape (K,).
    """

    attraction: ArrayLike
    examination: ArrayLike

    def __post_init__(self) -> None:
        _probabilities(self, attraction=2, examination=1)

    def _size(self) -> Size:
        return _size_of(self.attraction, np.size(self.examination))

    def _rates(self, contexts: Integers, lists: Integers, effect: Floats | float) -> Floats:
        attracted = _times(_at(np.asarray(self.attraction), contexts, lists), effect)
        examined: Floats = np.asarray(self.examination)[: lists.shape[1]]
        return attracted * examined


@dataclass(frozen=True, eq=False)
class ItemPosition(_Slots):
    """The paper's item-position model: P(click) = table[x, a, k], any table.

    Args:
        table: Shape (C, L, K).
    """

    table: ArrayLike

    def __post_init__(self) -> None:
        _probabilities(self, table=3)

    def _size(self) -> Size:
        return Size(*np.shape(self.table))

    def _rates(self, contexts: Integers, lists: Integers, effect: Floats | float) -> Floats:
        positions = np.arange(lists.shape[1])
        rates: Floats = np.asarray(self.table)[contexts[:, None], lists, positions]
        return _times(rates, effect)


@dataclass(frozen=True, eq=False)
class ListSpecific(_Slots):
    """No click model holds: each slot of each list has a click rate of its own.

    The rate is a hash of (seed, context, whole list, position), spread evenly over 0 … `highest`:
    nothing that one list tells helps to predict another.

    Args:
        contexts: C.
        items: L.
        highest: Shape (K,): the largest click rate at each position.
        seed: another seed is another world.
    """

    contexts: int
    items: int
    highest: ArrayLike
    seed: int = 0
    by_slot = False

    def __post_init__(self) -> None:
        _probabilities(self, highest=1)

    def _size(self) -> Size:
        return Size(self.contexts, self.items, *np.shape(self.highest))

    def _rates(self, contexts: Integers, lists: Integers, effect: Floats | float) -> Floats:
        state = _mixed(np.full(len(lists), self.seed, dtype=np.uint64), contexts)
        for k in range(self.size.positions):  # a list that ends early is filled up with EMPTY
            state = _mixed(state, lists[:, k] if k < lists.shape[1] else np.array([EMPTY]))
        positions = np.arange(lists.shape[1])
        bits = _mixed(state[:, None], positions[None, :]) >> np.uint64(11)
        highest: Floats = np.asarray(self.highest)[positions]
        return _times(bits * 2.0**-53 * highest, effect)


def _mixed(state: NDArray[np.uint64], values: Integers) -> NDArray[np.uint64]:
    """A 64-bit hash of `values` on top of `state`."""
    return mixed(state * GOLDEN + values.astype(np.int64).astype(np.uint64))


# --- users who read downwards ---------------------------------------------------------------------


class _Readers(World):
    """At each position the user clicks or not, and then goes on or leaves.

    E_1 = 1, P(click at k) = E_k α_k, E_{k+1} = E_k (α_k · on_click_k + (1 − α_k) · on_skip_k).
    """

    by_slot = False

    def _steps(self, contexts: Integers, lists: Integers) -> tuple[Floats, Any, Any]:
        """α, and the chance to go on after a click and after none; each broadcasts to (n, K)."""
        raise NotImplementedError

    def clicks(self, contexts: Integers, lists: Integers, effect: Floats | float = 1.0) -> Floats:
        attraction, on_click, on_skip = self._steps(contexts, lists)
        attraction = _times(attraction, effect)
        return attraction * _above(attraction * on_click + (1 - attraction) * on_skip)

    def first_clicks(self, contexts: Integers, lists: Integers) -> Floats:
        attraction, _, on_skip = self._steps(contexts, lists)
        return attraction * _above((1 - attraction) * on_skip)

    def sample(
        self,
        contexts: Integers,
        lists: Integers,
        rng: np.random.Generator,
        effect: Floats | float = 1.0,
    ) -> Booleans:
        attraction, on_click, on_skip = self._steps(contexts, lists)
        attraction = _times(attraction, effect)
        # One number u decides a position: [0, α) is a click, of which the first part goes on; the
        # rest is a skip, of which the first part goes on.
        u = rng.random(lists.shape)
        clicked = u < attraction
        goes_on = u < np.where(
            clicked, attraction * on_click, attraction + (1 - attraction) * on_skip
        )
        clicked[:, 1:] &= np.logical_and.accumulate(goes_on[:, :-1], axis=1)
        return clicked


@dataclass(frozen=True, eq=False)
class Cascade(_Readers):
    """The user reads downwards and stops at the first click.

    Args:
        attraction: Shape (C, L).
        positions: K.
    """

    attraction: ArrayLike
    positions: int = _TEN

    def __post_init__(self) -> None:
        _probabilities(self, attraction=2)

    def _size(self) -> Size:
        return _size_of(self.attraction, self.positions)

    def _steps(self, contexts: Integers, lists: Integers) -> tuple[Floats, Any, Any]:
        return _at(np.asarray(self.attraction), contexts, lists), 0.0, 1.0


@dataclass(frozen=True, eq=False)
class DCM(_Readers):
    """Dependent click model: after a click at position k the user goes on with probability λ_k.

    Args:
        attraction: Shape (C, L).
        continuation: Shape (K,): λ. The last one has no effect.
    """

    attraction: ArrayLike
    continuation: ArrayLike

    def __post_init__(self) -> None:
        _probabilities(self, attraction=2, continuation=1)

    def _size(self) -> Size:
        return _size_of(self.attraction, np.size(self.continuation))

    def _steps(self, contexts: Integers, lists: Integers) -> tuple[Floats, Any, Any]:
        after_click = np.asarray(self.continuation)[: lists.shape[1]]
        return _at(np.asarray(self.attraction), contexts, lists), after_click, 1.0


@dataclass(frozen=True, eq=False)
class DBN(_Readers):
    """Dynamic Bayesian network: a click satisfies or not; the unsatisfied go on with probability γ.

    Args:
        attraction: Shape (C, L).
        satisfaction: Shape (C, L): the chance that a click on the item ends the search.
        continuation: γ.
        positions: K.
    """

    attraction: ArrayLike
    satisfaction: ArrayLike
    continuation: float
    positions: int = _TEN

    def __post_init__(self) -> None:
        _probabilities(self, attraction=2, satisfaction=2, continuation=0)
        if np.shape(self.attraction) != np.shape(self.satisfaction):
            raise SimulationError(
                f"attraction has shape {np.shape(self.attraction)} and satisfaction "
                f"{np.shape(self.satisfaction)}; both are by context and item."
            )

    def _size(self) -> Size:
        return _size_of(self.attraction, self.positions)

    def _steps(self, contexts: Integers, lists: Integers) -> tuple[Floats, Any, Any]:
        satisfied = _at(np.asarray(self.satisfaction), contexts, lists)
        attraction = _at(np.asarray(self.attraction), contexts, lists)
        return attraction, (1 - satisfied) * self.continuation, self.continuation
