"""Click worlds: how users click on a list, with the exact value V(h) of any policy.

A world has contexts 0 … C−1, in each of them items 0 … L−1, and K positions. The user reads
downwards. At position k the user clicks with probability α_k x_k (attraction of the item there,
examination of the position), and then goes on or leaves:

    E_1 = 1,    c_k = α_k x_k,    P(click at k) = E_k c_k,
    E_{k+1} = E_k (c_k · on_click_k + (1 − c_k) · on_skip_k).

In `PBM`, `DCTR`, `ItemPosition` and `ListSpecific` all users go on, so that a click does not depend
on the clicks above it; in `Cascade`, `DCM` and `DBN` it does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from foreclick.engines.base import GOLDEN, mixed
from foreclick.errors import MetricError, PolicyError, SimulationError
from foreclick.metrics import CLICKS, Metric
from foreclick.policies import NO_ITEM, LogView, PolicyLike, as_policy

Floats = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]
Booleans = NDArray[np.bool_]

EMPTY = -1
"""Marks a position of a list that shows nothing."""

NAMES = {"context": "query"}
"""What columns of simulated logs and their candidates are called."""

ITEMS_APART = 1000
"""Item a of context x has the id 1000 x + a, so that no two contexts share an item."""


def item_ids(contexts: Integers, items: Integers) -> NDArray[np.int64]:
    """The ids of items in logs and policies: 1000 · context + item, in the shape of both.

    Examples:
        >>> item_ids(np.array([0, 3]), np.array([7, 7])).tolist()
        [7, 3007]
    """
    ids: NDArray[np.int64] = np.asarray(contexts, dtype=np.int64) * ITEMS_APART + items
    return ids


def stream(seed: int, *purpose: int) -> np.random.Generator:
    """Random numbers; each purpose has a stream of its own."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=purpose))


def list_column(values: NDArray[Any], lists: Integers | None = None) -> pa.ListArray:
    """Rows of a matrix as an Arrow column of lists, without slots that are `EMPTY` in `lists`."""
    filled = np.ones(values.shape, np.bool_) if lists is None else lists != EMPTY
    offsets = np.append(np.int32(0), np.cumsum(filled.sum(axis=1), dtype=np.int32))
    return pa.ListArray.from_arrays(offsets, values.ravel() if filled.all() else values[filled])


class Size(NamedTuple):
    """How many contexts (C), items in each of them (L) and positions (K) a world has."""

    contexts: int
    items: int
    positions: int


class World:
    """The base of simulated click models, with the exact click probability of every slot.

    A subclass defines `_steps`.
    """

    by_slot = True
    """Whether the expected click of a slot depends on its item and position alone."""

    attraction: ArrayLike
    positions: int
    _probabilities: ClassVar[tuple[tuple[str, int], ...]] = (("attraction", 2),)  # with dimensions

    def __post_init__(self) -> None:
        for name, dimensions in self._probabilities:
            values = np.array(getattr(self, name), dtype=np.float64)
            if values.ndim != dimensions:
                raise SimulationError(
                    f"{name} of {type(self).__name__} has {values.ndim} dimensions and needs "
                    f"{dimensions}; the order is context, item, position, as far as they apply."
                )
            wrong = values[~((values >= 0) & (values <= 1))]
            if wrong.size:
                raise SimulationError(
                    f"{name} of {type(self).__name__} holds {wrong.size:,} numbers that are not "
                    f"between 0 and 1, for example {wrong[0]}. Give probabilities."
                )
            values.flags.writeable = False  # a world is a value; nobody may change its truth
            object.__setattr__(self, name, values)

    @property
    def size(self) -> Size:
        """The numbers C of contexts, L of items and K of positions."""
        contexts, items = np.shape(self.attraction)
        return Size(contexts, items, self.positions)

    def _steps(self, contexts: Integers, lists: Integers) -> tuple[Floats, Any, Any, Any]:
        """α, x, on_click and on_skip of every slot; each broadcasts to (n, K)."""
        raise NotImplementedError

    def _at(self, table: ArrayLike, contexts: Integers, lists: Integers) -> Floats:
        """table[context, item] of every slot; any number where it is empty."""
        # One flat gather is several times faster than a gather by two indices.
        flat = contexts[:, None].astype(np.int64) * self.size.items + lists
        return np.take(np.asarray(table), flat, mode="wrap")

    def _chances(
        self, contexts: Integers, lists: Integers, effect: Floats | float
    ) -> tuple[Floats, Any, Any]:
        """c, on_click and on_skip of every slot, where attraction is multiplied by an effect."""
        attraction, examination, on_click, on_skip = self._steps(contexts, lists)
        attraction = np.where(lists == EMPTY, 0.0, attraction)
        attraction = np.minimum(attraction * np.reshape(effect, (-1, 1)), 1.0)
        return attraction * examination, on_click, on_skip

    def clicks(self, contexts: Integers, lists: Integers, effect: Floats | float = 1.0) -> Floats:
        """The exact click probability of every slot.

        Args:
            contexts: Shape (n,).
            lists: Shape (n, K): items, `EMPTY` (-1) where there is none. Fewer columns stand for
                shorter lists.
            effect: Shape (n,), or a number for all: multiplies the attraction (in `ItemPosition`
                and `ListSpecific` the click rate); products above 1 are cut to 1.

        Returns:
            Shape (n, K).
        """
        chance, on_click, on_skip = self._chances(contexts, lists, effect)
        return chance * _above(chance * on_click + (1 - chance) * on_skip)

    def first_clicks(self, contexts: Integers, lists: Integers) -> Floats:
        """Shape (n, K): the exact probability that a slot has the first click of its list."""
        chance, _, on_skip = self._chances(contexts, lists, 1.0)
        return chance * _above((1 - chance) * on_skip)

    def sample(
        self,
        contexts: Integers,
        lists: Integers,
        rng: np.random.Generator,
        effect: Floats | float = 1.0,
    ) -> Booleans:
        """Shape (n, K), boolean: one user's clicks on each list; arguments as in `clicks`."""
        chance, on_click, on_skip = self._chances(contexts, lists, effect)
        # One number u decides a position: [0, c) is a click, of which the first part goes on; the
        # rest is a skip, of which the first part goes on.
        u = rng.random(lists.shape)
        clicked = u < chance
        goes_on = u < np.where(clicked, chance * on_click, chance + (1 - chance) * on_skip)
        clicked[:, 1:] &= np.logical_and.accumulate(goes_on[:, :-1], axis=1)
        return clicked

    def value(
        self, policy: PolicyLike, metric: str | Metric, frequencies: ArrayLike | None = None
    ) -> float:
        """V(h) = Σ_x q(x) Σ_A h(A | x) Σ_k θ_k P(click on slot k of A | x), without sampling.

        It is the value in the undisturbed world: day shocks and user effects are 1.

        Args:
            policy: a policy with the ids of `item_ids`, or a table that `Ranking` accepts.
                `Marginals` have a value only in worlds where a click depends on item and position
                alone, and none for metrics of first clicks.
            metric: such as ``"clicks@3"`` or ``"success@3"``. Positions below K earn nothing.
            frequencies: Shape (C,): q(x), the frequency of each context; uniform by default.

        Returns:
            The mean of the metric per list.

        Raises:
            PolicyError: the policy has no list for a context that occurs, shows an item that the
                world does not have, or is `Marginals` where whole lists are needed.
            MetricError: the metric weighs another reward than clicks.

        Examples:
            >>> world = PBM(attraction=[[0.5, 0.2]], examination=[1.0, 0.5])
            >>> world.value({"context": [0], "items": [[1, 0]]}, "clicks@2")
            0.45
        """
        metric, policy = Metric(metric), as_policy(policy, NAMES)
        if metric.source != CLICKS:
            raise MetricError(f"metric {str(metric)!r}: simulated users click and do nothing else.")
        count, items, depth = self.size
        weights = context_shares(frequencies, count)
        ids = item_ids(np.arange(count)[:, None], np.arange(items)).ravel()
        view = LogView(pa.array(np.arange(count)), pa.array(ids), depth)
        missing = np.flatnonzero((weights > 0) & ~policy.known(view))
        if missing.size:
            raise PolicyError(
                f"the policy has no list for {missing.size:,} contexts that occur in the world, "
                f"for example {missing[0]}. Add them, or give them frequency 0."
            )
        if self.by_slot and not metric.first:
            # A list that shows a single item at its position has all expected clicks there.
            contexts, item, position, mass = policy.slot_rows(view)
            shown = np.full((len(contexts), depth), NO_ITEM)
            shown[np.arange(len(contexts)), position] = item
        else:
            contexts, shown, mass = policy.list_rows(view)
        local = np.where(shown == NO_ITEM, EMPTY, shown - (contexts * items)[:, None])
        unknown = (shown != NO_ITEM) & ((local < 0) | (local >= items)) & (mass > 0)[:, None]
        if unknown.any():
            row, k = np.argwhere(unknown)[0]
            raise PolicyError(
                f"the policy shows item {view.values[int(shown[row, k])]} in context "
                f"{contexts[row]}, which the world does not have ({unknown.sum():,} such slots): "
                f"item a of context x has the id {ITEMS_APART} x + a, with a from 0 to {items - 1}."
            )
        some = mass > 0
        clicks = self.first_clicks if metric.first else self.clicks
        theta = np.zeros(depth)
        theta[: metric.depth] = metric.theta[:depth]
        worth = clicks(contexts[some], local[some]) @ theta
        return float(np.sum(weights[contexts[some]] * mass[some] * worth))


def context_shares(frequencies: ArrayLike | None, contexts: int) -> Floats:
    """Shape (C,): how often each context occurs, as shares of all records."""
    weights = np.ones(contexts) if frequencies is None else np.asarray(frequencies, np.float64)
    if weights.shape != (contexts,) or not (weights >= 0).all() or not weights.sum() > 0:
        raise SimulationError(
            f"frequencies must be {contexts:,} numbers, one a context, at least 0 and not all 0."
        )
    shares: Floats = weights / weights.sum()
    return shares


def _above(chances: Floats) -> Floats:
    """The product of the chances at all positions above, 1 at the first."""
    product = np.ones_like(chances)
    np.cumprod(chances[:, :-1], axis=1, out=product[:, 1:])
    return product


@dataclass(frozen=True, eq=False)
class DCTR(World):
    """Document-based: P(click) = attraction[x, a], wherever the item stands.

    Args:
        attraction: Shape (C, L).
        positions: K.
    """

    attraction: ArrayLike
    positions: int = 10

    def _steps(self, contexts: Integers, lists: Integers) -> tuple[Floats, Any, Any, Any]:
        return self._at(self.attraction, contexts, lists), 1.0, 1.0, 1.0


@dataclass(frozen=True, eq=False)
class PBM(World):
    """Position-based: P(click) = attraction[x, a] · examination[k].

    Args:
        attraction: Shape (C, L).
        examination: Shape (K,).
    """

    attraction: ArrayLike
    examination: ArrayLike
    _probabilities = (("attraction", 2), ("examination", 1))

    @property
    def positions(self) -> int:  # type: ignore[override]
        """K."""
        return np.size(self.examination)

    def _steps(self, contexts: Integers, lists: Integers) -> tuple[Floats, Any, Any, Any]:
        examined = np.asarray(self.examination)[: lists.shape[1]]
        return self._at(self.attraction, contexts, lists), examined, 1.0, 1.0


@dataclass(frozen=True, eq=False)
class ItemPosition(World):
    """The paper's item-position model: P(click) = table[x, a, k], any table.

    Args:
        table: Shape (C, L, K).
    """

    table: ArrayLike
    _probabilities = (("table", 3),)

    @property
    def size(self) -> Size:
        """C, L and K."""
        return Size(*np.shape(self.table))

    def _steps(self, contexts: Integers, lists: Integers) -> tuple[Floats, Any, Any, Any]:
        positions = np.arange(lists.shape[1])
        return np.asarray(self.table)[contexts[:, None], lists, positions], 1.0, 1.0, 1.0


@dataclass(frozen=True, eq=False)
class ListSpecific(World):
    """A world in which no click model holds: each slot of each list has its own click rate.

    The rate is a hash of (seed, context, whole list, position), uniform on 0 to `highest`: the
    clicks of one list say nothing about another.

    Args:
        contexts: C.
        items: L.
        highest: Shape (K,): the largest click rate at each position.
        seed: the seed of the world.
    """

    contexts: int
    items: int
    highest: ArrayLike
    seed: int = 0
    by_slot = False
    _probabilities = (("highest", 1),)

    @property
    def size(self) -> Size:
        """C, L and K."""
        return Size(self.contexts, self.items, *np.shape(self.highest))

    def _steps(self, contexts: Integers, lists: Integers) -> tuple[Floats, Any, Any, Any]:
        def hashed(state: NDArray[np.uint64], values: Integers) -> NDArray[np.uint64]:
            return mixed(state * GOLDEN + values.astype(np.int64).astype(np.uint64))

        state = hashed(np.full(len(lists), self.seed, dtype=np.uint64), contexts)
        for k in range(self.size.positions):  # a list that ends early is filled up with EMPTY
            state = hashed(state, lists[:, k] if k < lists.shape[1] else np.array([EMPTY]))
        positions = np.arange(lists.shape[1])
        bits = hashed(state[:, None], positions[None, :]) >> np.uint64(11)
        return bits * 2.0**-53 * np.asarray(self.highest)[positions], 1.0, 1.0, 1.0


@dataclass(frozen=True, eq=False)
class Cascade(World):
    """The user reads downwards and stops at the first click.

    Args:
        attraction: Shape (C, L).
        positions: K.
    """

    attraction: ArrayLike
    positions: int = 10
    by_slot = False

    def _steps(self, contexts: Integers, lists: Integers) -> tuple[Floats, Any, Any, Any]:
        return self._at(self.attraction, contexts, lists), 1.0, 0.0, 1.0


@dataclass(frozen=True, eq=False)
class DCM(World):
    """Dependent click model: after a click at position k the user goes on with probability λ_k.

    Args:
        attraction: Shape (C, L).
        continuation: Shape (K,): λ. The last value has no effect.
    """

    attraction: ArrayLike
    continuation: ArrayLike
    by_slot = False
    _probabilities = (("attraction", 2), ("continuation", 1))

    @property
    def positions(self) -> int:  # type: ignore[override]
        """K."""
        return np.size(self.continuation)

    def _steps(self, contexts: Integers, lists: Integers) -> tuple[Floats, Any, Any, Any]:
        on_click = np.asarray(self.continuation)[: lists.shape[1]]
        return self._at(self.attraction, contexts, lists), 1.0, on_click, 1.0


@dataclass(frozen=True, eq=False)
class DBN(World):
    """Dynamic Bayesian network: a click may satisfy; the unsatisfied go on with probability γ.

    Args:
        attraction: Shape (C, L).
        satisfaction: Shape (C, L): the probability that a click on the item ends the search.
        continuation: γ, the probability of going on to the next position.
        positions: K.
    """

    attraction: ArrayLike
    satisfaction: ArrayLike
    continuation: float
    positions: int = 10
    by_slot = False
    _probabilities = (("attraction", 2), ("satisfaction", 2), ("continuation", 0))

    def __post_init__(self) -> None:
        super().__post_init__()
        if np.shape(self.attraction) != np.shape(self.satisfaction):
            raise SimulationError(
                f"attraction has shape {np.shape(self.attraction)} and satisfaction "
                f"{np.shape(self.satisfaction)}; both are by context and item."
            )

    def _steps(self, contexts: Integers, lists: Integers) -> tuple[Floats, Any, Any, Any]:
        satisfied = self._at(self.satisfaction, contexts, lists)
        on_click = (1 - satisfied) * self.continuation
        return self._at(self.attraction, contexts, lists), 1.0, on_click, self.continuation
