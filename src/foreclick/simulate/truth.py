"""The exact value of a policy in a world: its lists (or slots) times their expected clicks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from foreclick.errors import MetricError, PolicyError, SimulationError
from foreclick.metrics import CLICKS, Metric
from foreclick.policies import NO_ITEM, LogView, Policy, PolicyLike, as_policy

if TYPE_CHECKING:
    from foreclick.simulate.worlds import World

Floats = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]

NAMES = {"context": "query"}
"""What columns of simulated logs and their candidates are called."""

ITEMS_APART = 1000
"""Item a of context x has the id 1000 x + a, so that no two contexts share an item."""


def item_ids(contexts: Integers, items: Integers) -> NDArray[np.int64]:
    """The ids under which items stand in logs and policies: 1000 · context + item.

    Examples:
        >>> item_ids(np.array([0, 3]), np.array([7, 7])).tolist()
        [7, 3007]
    """
    ids: NDArray[np.int64] = np.asarray(contexts, dtype=np.int64) * ITEMS_APART + items
    return ids


def value_of(
    world: World,
    policy: PolicyLike,
    metric: str | Metric,
    frequencies: ArrayLike | None,
) -> float:
    """V(h); see `World.value`."""
    metric = Metric(metric)
    if metric.source != CLICKS:
        raise MetricError(f"metric {str(metric)!r}: simulated users click and do nothing else.")
    weights = shares(frequencies, world.size.contexts)
    theta = np.zeros(world.size.positions)
    theta[: metric.depth] = metric.theta[: len(theta)]
    by_slot = world.by_slot and not metric.first
    contexts, lists, mass = _rows(world, as_policy(policy, NAMES), weights, by_slot=by_slot)
    clicks = world.first_clicks if metric.first else world.clicks
    return float(np.sum(weights[contexts] * mass * (clicks(contexts, lists) @ theta)))


def shares(frequencies: ArrayLike | None, contexts: int) -> Floats:
    """How often each context occurs, as shares of all records."""
    weights = np.ones(contexts) if frequencies is None else np.asarray(frequencies, np.float64)
    if weights.shape != (contexts,) or not (weights >= 0).all() or not weights.sum() > 0:
        raise SimulationError(
            f"frequencies must be {contexts:,} numbers, one a context, at least 0 and not all 0."
        )
    normed: Floats = weights / weights.sum()
    return normed


def _rows(
    world: World, policy: Policy, weights: Floats, *, by_slot: bool
) -> tuple[Integers, Integers, Floats]:
    """(contexts, lists, mass) of a policy, with the world's own numbers of contexts and items.

    Where slots are enough, a row is a list that shows a single item at its position: all its
    expected clicks are at that slot.
    """
    size = world.size
    own = item_ids(np.arange(size.contexts)[:, None], np.arange(size.items)).ravel()
    view = LogView(pa.array(np.arange(size.contexts)), pa.array(own), size.positions)
    known = np.flatnonzero(policy.known(view))
    _refuse_missing(known, weights)
    if by_slot:
        contexts, item, position, mass = policy.slot_rows(view)
        shown = np.full((len(contexts), view.depth), NO_ITEM)
        shown[np.arange(len(contexts)), position] = item
    else:
        contexts, shown, mass = policy.list_rows(view)
    here = mass > 0
    return contexts[here], _items(world, view, contexts[here], shown[here]), mass[here]


def _refuse_missing(known: Integers, weights: Floats) -> None:
    missing = np.setdiff1d(np.flatnonzero(weights), known)
    if missing.size:
        raise PolicyError(
            f"the policy has no list for {missing.size:,} contexts that occur in the world, for "
            f"example {missing[0]}. Add them, or give them frequency 0."
        )


def _items(world: World, view: LogView, contexts: Integers, shown: Integers) -> Integers:
    """The world's items of a policy's, -1 where there is none."""
    local = shown - (contexts * world.size.items)[:, None]
    strange = (shown != NO_ITEM) & ((local < 0) | (local >= world.size.items))
    if strange.any():
        row, k = np.argwhere(strange)[0]
        raise PolicyError(
            f"the policy shows item {view.values[int(shown[row, k])]} in context {contexts[row]}, "
            f"which the world does not have ({strange.sum():,} such slots): item a of context x "
            f"has the id {ITEMS_APART} x + a, with a from 0 to {world.size.items - 1}."
        )
    return np.where(shown == NO_ITEM, -1, local)
