"""The production ranker: which lists are shown, and how often, on each day.

All is done to an *order* of a context's whole pool of items, of which the first K are shown. A
change of the ranker and a variant of a list are then the same thing, a few swaps in the order, and
no list ever shows an item twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foreclick.errors import SimulationError
from foreclick.simulate.worlds import Floats, Integers, stream

Orders = NDArray[np.int16]

_ORDERS, _VARIANTS, _LASTING = range(3)  # purposes of random numbers


class DayLists(NamedTuple):
    """What is shown on a day: lists with their probabilities, given the context."""

    contexts: Integers  # (m,)
    lists: Integers  # (m, K), -1 where a list has ended
    probabilities: Floats  # (m,), sum to 1 in each context


class Production(Protocol):
    """A logging policy that may change from day to day."""

    @property
    def days(self) -> int:
        """How many days are logged."""

    def on(self, day: int) -> DayLists:
        """What is shown on a day, counted from 1. The same day always gives the same answer."""


@dataclass(frozen=True, eq=False)
class Stationary:
    """A policy that is the same on every day.

    Args:
        contexts: Shape (m,): the context of each list.
        lists: Shape (m, K): items; -1 where a list has ended.
        probabilities: Shape (m,): of each list, given its context.
        days: how many days are logged.
    """

    contexts: ArrayLike
    lists: ArrayLike
    probabilities: ArrayLike
    days: int = 1

    def on(self, day: int) -> DayLists:  # noqa: ARG002 - all days are alike
        """The lists as they were given."""
        probabilities = np.asarray(self.probabilities, np.float64)
        return DayLists(np.asarray(self.contexts), np.asarray(self.lists), probabilities)


@dataclass(frozen=True, eq=False)
class Drifting:
    """A ranker whose base list changes now and then, with variants around it every day.

    Items are numbered by the first day's order: on day 1 the base list is 0, 1, …, K − 1. The
    defaults are those of `yandex_like`.

    Args:
        contexts: how many contexts.
        items: the pool of each context.
        positions: K, how many items a list shows.
        seed: another seed is another history.
        days: how many days are logged.
        events: changes of the base list a day, on average over contexts; at most one a day.
        unevenness: the squared coefficient of variation of that rate over contexts (gamma).
        reverts: the share of changes that go back to the list before.
        new_items: the share of changes that bring an item that was never in the base list.
        variants: the fewest and most variants of a day (log-uniform).
        zipf: the exponent of the variants' weights.
        fresh: the share of variants that are drawn anew each day; the others last.
        base_mass: the least and largest probability of the base list itself.
        swaps: how many swaps make a variant, at most; each is made with an even chance, one surely.
        depth: how steeply swaps prefer lower positions: position k has weight k^depth.
        reach: the mean distance of a swap.
        event_depth: as `depth`, for changes of the base list.
        event_reach: as `reach`, for changes of the base list.
    """

    contexts: int
    items: int
    positions: int = 10
    seed: int = 0
    days: int = 27
    events: float = 0.2
    unevenness: float = 1.0
    reverts: float = 0.6
    new_items: float = 0.11
    variants: tuple[int, int] = (3, 60)
    zipf: float = 0.7
    fresh: float = 0.87
    base_mass: tuple[float, float] = (0.23, 0.35)
    swaps: int = 2
    depth: float = -1.0
    reach: float = 5.0
    event_depth: float = 3.0
    event_reach: float = 1.5

    def __post_init__(self) -> None:
        if self.positions >= self.items:
            raise SimulationError(
                f"a pool of {self.items} items leaves nothing to change in lists of "
                f"{self.positions}. Give at least {self.positions + 1} items."
            )
        shares = (self.reverts, self.new_items, self.reverts + self.new_items, self.fresh)
        right = all(0 <= share <= 1 for share in (*shares, *self.base_mass))
        right &= self.variants[0] <= self.variants[1] and self.events >= 0 < self.unevenness
        sizes = (self.days, self.swaps, self.variants[0], self.reach, self.event_reach)
        if not right or min(sizes) < 1:
            raise SimulationError(
                f"{self} is no drift: shares and masses are from 0 to 1, days, variants, swaps and "
                "reaches at least 1, events at least 0 and unevenness above 0."
            )

    def on(self, day: int) -> DayLists:
        """The base list of each context, and its variants."""
        if not 1 <= day <= self.days:
            raise SimulationError(f"day {day} is not logged; days are from 1 to {self.days}.")
        rng, (few, many) = stream(self.seed, _VARIANTS, day), self.variants
        counts = np.exp(rng.uniform(np.log(few), np.log(many + 1), self.contexts)).astype(np.int64)
        variant = np.arange(many) < counts[:, None]  # (contexts, many)
        contexts, number = np.nonzero(variant)
        swaps = self._swaps(rng, (len(contexts),))
        lasts = rng.random(len(contexts)) >= self.fresh
        swaps[lasts] = self._lasting[contexts[lasts], number[lasts]]
        base = self.orders[:, day - 1]
        lists = _swapped(base[contexts], swaps)[:, : self.positions]
        weights = variant * np.arange(1, many + 1) ** -self.zipf
        base_mass = rng.uniform(*self.base_mass, self.contexts)
        weights *= ((1 - base_mass) / weights.sum(axis=1))[:, None]
        return DayLists(
            np.concatenate([np.arange(self.contexts), contexts]),
            np.concatenate([base[:, : self.positions], lists]),
            np.concatenate([base_mass, weights[variant]]),
        )

    @cached_property
    def orders(self) -> Orders:
        """Shape (contexts, days, items): the order of the whole pool; its first K are shown."""
        rng, n = stream(self.seed, _ORDERS), self.contexts
        rates = self.events * rng.gamma(1 / self.unevenness, self.unevenness, n)
        now = np.tile(np.arange(self.items, dtype=np.int16), (n, 1))
        before, shown = now.copy(), now < self.positions
        orders = np.empty((n, self.days, self.items), dtype=np.int16)
        for day in range(self.days):
            kind = rng.random(n)
            # One change for each context, a swap with an item further down, or with a new one.
            place, other = self._places(rng, n, self.event_depth, self.event_reach)
            unseen = ~np.take_along_axis(shown, now.astype(np.int64), axis=1)
            newcomer = np.argmax(unseen * rng.random(unseen.shape), axis=1)
            new = (kind >= self.reverts) & (kind < self.reverts + self.new_items)
            other = np.where(new & unseen.any(axis=1), newcomer, other)
            changed = _swapped(now, np.stack([place, other], axis=1)[:, None].astype(np.int16))
            # Where there is nothing to go back to, two items change places.
            back = (kind < self.reverts) & (before != now).any(axis=1)
            after = np.where(back[:, None], before, changed)
            happens = (rng.random(n) < -np.expm1(-rates)) & (day > 0)
            before = np.where(happens[:, None], now, before)
            now = np.where(happens[:, None], after, now)
            np.put_along_axis(shown, now[:, : self.positions].astype(np.int64), True, axis=1)
            orders[:, day] = now
        return orders

    def _swaps(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Orders:
        """Shape (…, swaps, 2): which places of the order change hands; twice the same is none."""
        size = (*shape, self.swaps)
        place, other = self._places(rng, size, self.depth, self.reach)
        made = rng.random(size) < 0.5
        made[..., 0] = True
        return np.stack([place, np.where(made, other, place)], axis=-1).astype(np.int16)

    @cached_property
    def _lasting(self) -> Orders:
        """The variants that come back on other days."""
        return self._swaps(stream(self.seed, _LASTING), (self.contexts, self.variants[1]))

    def _places(
        self, rng: np.random.Generator, size: int | tuple[int, ...], power: float, reach: float
    ) -> tuple[Integers, Integers]:
        """Positions, in proportion to k^power, and for each a place further down the order."""
        weights = np.arange(1, self.positions + 1) ** float(power)
        cumulative = np.cumsum(weights) / weights.sum()
        place = np.minimum(np.searchsorted(cumulative, rng.random(size)), self.positions - 1)
        distance = rng.geometric(1 / reach, np.shape(place))
        return place, place + 1 + (distance - 1) % (self.items - 1 - place)


def _swapped(orders: Orders, swaps: Orders) -> Orders:
    """Orders (n, L) after their swaps (n, s, 2)."""
    orders, rows = orders.copy(), np.arange(len(orders))
    for step in range(swaps.shape[1]):
        here, there = swaps[:, step, 0], swaps[:, step, 1]
        orders[rows, here], orders[rows, there] = orders[rows, there], orders[rows, here]
    return orders
