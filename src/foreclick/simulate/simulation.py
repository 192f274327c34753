"""Production rankers, and logs of what they show in a world, in memory or as Parquet; presets."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from foreclick.engines.files import local_path, whole_directory, whole_file
from foreclick.errors import SimulationError
from foreclick.metrics import Metric
from foreclick.policies import Lists, PolicyLike, Ranking
from foreclick.progress import working
from foreclick.simulate.worlds import (
    DBN,
    EMPTY,
    ITEMS_APART,
    PBM,
    Floats,
    Integers,
    World,
    context_shares,
    item_ids,
    list_column,
    stream,
)

BATCH = 250_000
"""Records that are drawn at once. Part of what a seed means: another size is another log."""

SCHEMA = pa.schema(
    {
        "query": pa.int32(),
        "day": pa.int32(),
        "user": pa.int32(),
        "items": pa.list_(pa.int32()),
        "clicks": pa.list_(pa.int8()),
    }
)
"""The columns of a simulated log."""

_LARGEST = int(np.iinfo(np.int32).max)
_TOLERANCE = 1e-6  # as for the probabilities of a policy
_DAYS, _SHOCKS, _USERS, _RECORDS, _CANDIDATE = range(5)  # purposes of random numbers

_RANKER_ERROR = 0.3
"""The spread of a candidate's errors, of the logarithm of how attractive an item is."""


# --- what is shown --------------------------------------------------------------------------------
#
# All is done to an order of a context's whole pool of items, of which the first K are shown. A
# change of the ranker and a variant of a list are then the same thing, a few swaps in the order,
# and no list ever shows an item twice. The numbers below were searched for `yandex_like`.

_UNEVEN = 1.0  # the squared coefficient of variation over contexts of how often lists change
_REVERTS, _NEW_ITEMS = 0.6, 0.11  # shares of changes that go back, or bring an item never in it
_EVENT_DEPTH, _EVENT_REACH = 3.0, 1.5  # of changes, as `depth` and `reach` of variants
_ZIPF = 0.7  # the exponent of the variants' weights
_BASE_MASS = (0.23, 0.35)  # the least and largest probability of the base list itself
_SWAPS = 2  # that make a variant, at most; each is made with an even chance, one surely

Orders = NDArray[np.int16]

_PLACES, _VARIANTS, _LASTING = range(3)  # purposes of a ranker's random numbers


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
    """A production policy that is the same on every day.

    Args:
        contexts: Shape (m,): the context of each list.
        lists: Shape (m, K): items; -1 below the end of a list.
        probabilities: Shape (m,): the probability of each list, given its context.
        days: the number of days.
    """

    contexts: ArrayLike
    lists: ArrayLike
    probabilities: ArrayLike
    days: int = 1

    def on(self, day: int) -> DayLists:  # noqa: ARG002 - all days are alike
        """The lists of a day and their probabilities, the same on every day."""
        probabilities = np.asarray(self.probabilities, np.float64)
        return DayLists(np.asarray(self.contexts), np.asarray(self.lists), probabilities)


@dataclass(frozen=True, eq=False)
class Drifting:
    """A production ranker whose base list changes now and then, with variants around it every day.

    Items are numbered by the first day's order: on day 1 the base list is 0, 1, …, K − 1. The
    defaults are those of `yandex_like`.

    Args:
        contexts: the number of contexts.
        items: the number of items that each context could show.
        positions: K, the length of lists.
        seed: the seed of the history.
        days: the number of days.
        events: the number of changes of the base list per day, on average over contexts; at most 1.
        variants: the smallest and largest number of variants per day (log-uniform).
        fresh: the share of variants that are drawn anew each day; the others stay.
        depth: how strongly swaps prefer lower positions: position k has weight k^depth.
        reach: the mean distance of a swap, in positions.
    """

    contexts: int
    items: int
    positions: int = 10
    seed: int = 0
    days: int = 27
    events: float = 0.2
    variants: tuple[int, int] = (3, 60)
    fresh: float = 0.87
    depth: float = -1.0
    reach: float = 5.0

    def __post_init__(self) -> None:
        if self.positions >= self.items:
            raise SimulationError(
                f"a pool of {self.items} items leaves nothing to change in lists of "
                f"{self.positions}. Give at least {self.positions + 1} items."
            )
        right = 0 <= self.fresh <= 1 and self.events >= 0 and min(self.days, self.reach) >= 1
        if not right or not 1 <= self.variants[0] <= self.variants[1]:
            raise SimulationError(
                f"{self} is no drift: fresh is from 0 to 1, days, variants and reach at least 1, "
                "and events at least 0."
            )

    def on(self, day: int) -> DayLists:
        """The base list of each context on a day, its variants, and their probabilities."""
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
        weights = variant * np.arange(1, many + 1) ** -_ZIPF
        base_mass = rng.uniform(*_BASE_MASS, self.contexts)
        weights *= ((1 - base_mass) / weights.sum(axis=1))[:, None]
        return DayLists(
            np.concatenate([np.arange(self.contexts), contexts]),
            np.concatenate([base[:, : self.positions], lists]),
            np.concatenate([base_mass, weights[variant]]),
        )

    @cached_property
    def orders(self) -> Orders:
        """Shape (contexts, days, items): the order of all items; the first K are shown."""
        rng, n = stream(self.seed, _PLACES), self.contexts
        rates = self.events * rng.gamma(1 / _UNEVEN, _UNEVEN, n)
        now = np.tile(np.arange(self.items, dtype=np.int16), (n, 1))
        before, shown = now.copy(), now < self.positions
        orders = np.empty((n, self.days, self.items), dtype=np.int16)
        for day in range(self.days):
            kind = rng.random(n)
            # One change for each context, a swap with an item further down, or with a new one.
            place, other = self._places(rng, n, _EVENT_DEPTH, _EVENT_REACH)
            unseen = ~np.take_along_axis(shown, now.astype(np.int64), axis=1)
            newcomer = np.argmax(unseen * rng.random(unseen.shape), axis=1)
            new = (kind >= _REVERTS) & (kind < _REVERTS + _NEW_ITEMS)
            other = np.where(new & unseen.any(axis=1), newcomer, other)
            changed = _swapped(now, np.stack([place, other], axis=1)[:, None].astype(np.int16))
            # Where there is nothing to go back to, two items change places.
            back = (kind < _REVERTS) & (before != now).any(axis=1)
            after = np.where(back[:, None], before, changed)
            happens = (rng.random(n) < -np.expm1(-rates)) & (day > 0)
            before = np.where(happens[:, None], now, before)
            now = np.where(happens[:, None], after, now)
            np.put_along_axis(shown, now[:, : self.positions].astype(np.int64), True, axis=1)
            orders[:, day] = now
        return orders

    def _swaps(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Orders:
        """Shape (…, swaps, 2): which places of the order change hands; twice the same is none."""
        size = (*shape, _SWAPS)
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


# --- logs -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Simulation:
    """A click model, the production ranker that shows lists, and what disturbs the clicks.

    Args:
        world: the click model.
        production: what is shown on each day.
        records: the default number of records of a log.
        frequencies: Shape (C,): the frequency of each context; uniform by default.
        shock_sd: the standard deviation of the shocks that multiply attraction, one per context and
            day. They are log-normal with mean 1; their logarithm is a stationary AR(1) process over
            days.
        shock_persistence: the correlation of the logarithm with that of the day before.
        user_sd: the standard deviation of each user's factor of attraction, log-normal with mean 1.
        records_per_user: the mean number of records per user.

    Examples:
        >>> from foreclick.simulate import PBM, Stationary
        >>> world = PBM(attraction=[[0.5, 0.2]], examination=[1.0, 0.5])
        >>> shown = Stationary([0, 0], [[0, 1], [1, 0]], [0.9, 0.1], days=2)
        >>> simulation = Simulation(world, shown, records=1000)
        >>> simulation.value({"context": [0], "items": [[1, 0]]}, "clicks@1")
        0.2
        >>> simulation.sample(seed=1).column_names
        ['query', 'day', 'user', 'items', 'clicks']
    """

    world: World
    production: Production
    records: int
    frequencies: ArrayLike | None = None
    shock_sd: float = 0.0
    shock_persistence: float = 0.0
    user_sd: float = 0.0
    records_per_user: float = 30.0

    def __post_init__(self) -> None:
        contexts, items, _ = self.world.size
        if items > ITEMS_APART or contexts * ITEMS_APART > _LARGEST:
            raise SimulationError(
                f"{contexts:,} contexts of {items:,} items do not fit a log's 32-bit ids: at most "
                f"{_LARGEST // ITEMS_APART:,} contexts of {ITEMS_APART:,} items."
            )
        spreads = (self.shock_sd, self.user_sd)
        if min(spreads) < 0 or abs(self.shock_persistence) > 1 or not self.records_per_user > 0:
            raise SimulationError(
                f"shock_sd={self.shock_sd}, user_sd={self.user_sd}, shock_persistence="
                f"{self.shock_persistence}, records_per_user={self.records_per_user}: spreads are "
                "at least 0, persistence is from -1 to 1, and users have records."
            )
        object.__setattr__(self, "frequencies", context_shares(self.frequencies, contexts))

    def value(self, policy: PolicyLike, metric: str | Metric) -> float:
        """V(h) without shocks and user effects, contexts weighted by frequency (`World.value`)."""
        return self.world.value(policy, metric, self.frequencies)

    def logging(self, day: int | None = None) -> Lists:
        """The production ranker as a policy: of one day, or of all days together.

        Args:
            day: from 1; None: all days.
        """
        days = range(1, self.production.days + 1) if day is None else [day]
        each = zip(*(self.production.on(d) for d in days), strict=True)
        contexts, lists, mass = map(np.concatenate, each)
        items = list_column(item_ids(contexts[:, None], lists), lists)
        table = {"query": contexts, "items": items, "probability": mass / len(days)}
        return Lists(pa.table(table), "query")

    def candidate(self, seed: int = 0) -> Ranking:
        """A ranking such as a new ranker gives: production's, with better items one higher.

        It starts with the most frequent list of the last day. From the top down, an item is swapped
        with the one above it if it seems more attractive, which is judged with errors.

        Args:
            seed: the seed of these errors.
        """
        shown = self.production.on(self.production.days)
        by_mass = np.lexsort((-shown.probabilities, shown.contexts))
        contexts, first = np.unique(shown.contexts[by_mass], return_index=True)
        lists = shown.lists[by_mass[first]].copy()
        alone = np.repeat(contexts, lists.shape[1])
        appeal = self.world.clicks(alone, lists.reshape(-1, 1)).reshape(lists.shape)
        noise = stream(seed, _CANDIDATE).normal(0, _RANKER_ERROR, lists.shape)
        appeal = np.where(lists == EMPTY, -np.inf, appeal * np.exp(noise))
        for above in range(lists.shape[1] - 1):
            rows = np.flatnonzero(appeal[:, above + 1] > appeal[:, above])[:, None]
            for array in (lists, appeal):
                array[rows, [above, above + 1]] = array[rows, [above + 1, above]]
        items = list_column(item_ids(contexts[:, None], lists), lists)
        return Ranking(pa.table({"query": contexts, "items": items}), "query")

    def sample(self, records: int | None = None, seed: int = 0) -> pa.Table:
        """Draw a log in memory, for ``read_log(…, context="query", period="day", unit="user")``.

        Args:
            records: the number of records; by default that of the simulation.
            seed: the seed of the draw.

        Returns:
            An Arrow table with the columns `query`, `day`, `user`, `items` and `clicks`.
        """
        batches = [batch for _, batch in self._batches(records, seed)]
        return pa.Table.from_batches(batches, schema=SCHEMA)

    def write_parquet(
        self, path: str | os.PathLike[str], records: int | None = None, seed: int = 0
    ) -> None:
        """Write a log to Parquet: the rows of `sample`, in memory that does not grow with them.

        Args:
            path: a file that ends in `.parquet`, or a directory for one file a day
                (`day-01.parquet`, …). It is written completely or not at all.
            records: the number of records; by default that of the simulation.
            seed: the seed of the draw.
        """
        target = local_path(path)
        single = target.suffix == ".parquet"
        target.parent.mkdir(parents=True, exist_ok=True)
        others = [] if single else sorted(target.glob("*.parquet"))
        if others:  # they would be read as part of this log
            raise SimulationError(
                f"{target} already holds {len(others):,} Parquet files, for example "
                f"{others[0].name}. Name a directory without any, or remove them."
            )
        digits = len(str(self.production.days))
        total = self.records if records is None else records
        complete = whole_file if single else whole_directory
        with working() as report, complete(target) as partial, ExitStack() as files:
            writer, file, done = None, None, 0
            for day, batch in self._batches(records, seed):
                name = partial if single else partial / f"day-{day:0{digits}}.parquet"
                if writer is None or name != file:
                    files.close()
                    writer = files.enter_context(pq.ParquetWriter(name, SCHEMA, compression="zstd"))
                    file = name
                writer.write_batch(batch)
                done += batch.num_rows
                report(f"Drawing {total:,} records", done / total)

    def shocks(self, seed: int) -> Floats:
        """Shape (C, days): the factors of attraction, with mean 1 in every context and day."""
        rho, size = self.shock_persistence, (self.world.size.contexts, self.production.days)
        z = stream(seed, _SHOCKS).standard_normal(size)
        for day in range(1, size[1]):
            z[:, day] = rho * z[:, day - 1] + np.sqrt(1 - rho**2) * z[:, day]
        return _mean_one(z, self.shock_sd)

    def _batches(self, records: int | None, seed: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The log, day by day: the day, and some of its records."""
        total = self.records if records is None else records
        if total < 1:
            raise SimulationError(f"records={total}: a log has at least one record.")
        users = max(1, round(total / self.records_per_user))
        user_effects = _mean_one(stream(seed, _USERS).standard_normal(users), self.user_sd)
        shocks, frequencies = self.shocks(seed), np.asarray(self.frequencies)
        even = np.full(self.production.days, 1 / self.production.days)
        per_day = stream(seed, _DAYS).multinomial(total, even)
        for day, count in enumerate(per_day.tolist(), start=1):
            shown = self.production.on(day)
            self._check(day, shown)
            ids = item_ids(shown.contexts[:, None], shown.lists).astype(np.int32)
            chances = frequencies[shown.contexts] * shown.probabilities
            chances /= chances.sum()
            for number, start in enumerate(range(0, count, BATCH)):
                size, rng = min(BATCH, count - start), stream(seed, _RECORDS, day, number)
                rows = np.repeat(np.arange(len(chances)), rng.multinomial(size, chances))
                rng.shuffle(rows)  # a log comes in the order of time, not of queries
                contexts, lists = shown.contexts[rows], shown.lists[rows]
                user = rng.integers(users, size=size)
                effect = shocks[contexts, day - 1] * user_effects[user]
                clicks = self.world.sample(contexts, lists, rng, effect)
                columns = [
                    pa.array(contexts.astype(np.int32)),
                    pa.array(np.full(size, day, dtype=np.int32)),
                    pa.array(user.astype(np.int32)),
                    list_column(ids[rows], lists),
                    list_column(clicks.view(np.int8), lists),
                ]
                yield day, pa.record_batch(columns, schema=SCHEMA)

    def _check(self, day: int, shown: DayLists) -> None:
        """Refuse lists that are no policy for this world.

        They would read another item's numbers, or stand at another position in the log.
        """
        (contexts, items, positions), lists = self.world.size, shown.lists
        wrong = (shown.contexts < 0) | (shown.contexts >= contexts) | (lists.shape[1] > positions)
        wrong |= ((lists < EMPTY) | (lists >= items)).any(axis=1)
        wrong |= ((lists[:, :-1] == EMPTY) & (lists[:, 1:] != EMPTY)).any(axis=1)
        rows = np.flatnonzero(wrong)
        if rows.size:
            raise SimulationError(
                f"production shows {lists[rows[0]].tolist()} in context {shown.contexts[rows[0]]} "
                f"({rows.size:,} such lists), but the world has contexts 0 to {contexts - 1}, "
                f"items 0 to {items - 1}, and lists of up to {positions}, with -1 only after the "
                "last item."
            )
        mass = np.bincount(shown.contexts, shown.probabilities, minlength=contexts)
        off = np.flatnonzero((np.abs(mass - 1) > _TOLERANCE) & (np.asarray(self.frequencies) > 0))
        if off.size:
            raise SimulationError(
                f"the probabilities of the lists shown in context {off[0]} on day {day} sum to "
                f"{mass[off[0]]:.6g} ({off.size:,} such contexts). In every context that occurs "
                "they must sum to 1."
            )


def _mean_one(z: Floats, sd: float) -> Floats:
    """Log-normal numbers with mean 1 and the given standard deviation, from standard normals."""
    log_variance = np.log1p(sd**2)
    effects: Floats = np.exp(np.sqrt(log_variance) * z - log_variance / 2)
    return effects


# --- simulations by name --------------------------------------------------------------------------

POOL, POSITIONS = 40, 10
_WORLD = 100  # the stream of a preset's world: none that production or a log uses

PERSISTENCE = 0.6
"""Of shocks by query and day: how much of a day's is left on the next."""

FALL = 0.74
"""The exponent of the queries' frequencies: the paper's most frequent query has 455k records, its
100th 15k and its 1,000th 3k, and 9 million records over 1,000 queries then have about these too."""


def yandex_like(records: int = 9_000_000, queries: int = 1000, seed: int = 0) -> Simulation:
    """A simulated search log that resembles the paper's, as far as the paper describes it.

    Clicks follow a `DBN` (continuation .66, satisfaction U(.5, .95)); attractions are .01 + .6 ·
    Beta(.30, .78), and 85 % of queries have one navigational item at U(.6, .9), which is first on
    day 1. The ranker drifts over 27 days as `Drifting` describes. Shocks by query and day have a
    standard deviation of 10 % and a persistence of .6. These constants were searched.

    Queries are numbered by falling frequency, so the paper's "100 most frequent queries" are
    ``where="query < 100"``. With the default size they have the paper's number of records; more
    records make every query larger.

    Args:
        records: the number of records of a log.
        queries: the number of queries; the 1,000 most frequent ones in the paper.
        seed: the seed of the world and its history.

    Returns:
        A `Simulation`.

    Examples:
        >>> simulation = yandex_like(records=1000, queries=20)
        >>> simulation.sample().num_rows
        1000
    """
    world = preset_dbn(*attractions(queries, seed))
    return preset(world, Drifting(queries, POOL, POSITIONS, seed), records)


def pbm_drift(records: int = 9_000_000, queries: int = 1000, seed: int = 0) -> Simulation:
    """The ranker and the attractions of `yandex_like`, clicked as a `PBM` with examination 1/k.

    The models `ip` and `pbm` hold exactly in this world.

    Args:
        records: the number of records of a log.
        queries: the number of queries.
        seed: the seed of the world and its history.

    Returns:
        A `Simulation`.
    """
    world = PBM(attractions(queries, seed)[0], examination=1 / np.arange(1, POSITIONS + 1))
    return preset(world, Drifting(queries, POOL, POSITIONS, seed), records)


PRESETS: dict[str, Callable[..., Simulation]] = {
    "yandex-like": yandex_like,
    "pbm-drift": pbm_drift,
}
"""By the name that the command line gives them."""


def attractions(queries: int, seed: int, pool: int = POOL) -> tuple[Floats, np.random.Generator]:
    """Attractions in the order in which the ranker shows items on day 1, and the stream they use.

    The ranker knows attraction up to some noise; the navigational item it knows for sure.
    """
    rng = stream(seed, _WORLD)
    attraction = 0.01 + 0.6 * rng.beta(0.30, 0.78, (queries, pool))
    score = attraction + 0.1 * rng.standard_normal(attraction.shape)
    attraction = np.take_along_axis(attraction, np.argsort(-score, axis=1), axis=1)
    navigational = rng.random(queries) < 0.85
    attraction[navigational, 0] = rng.uniform(0.6, 0.9, navigational.sum())
    return attraction, rng


def preset_dbn(attraction: Floats, rng: np.random.Generator) -> DBN:
    """How `yandex_like` is clicked."""
    satisfaction = rng.uniform(0.5, 0.95, attraction.shape)
    return DBN(attraction, satisfaction, continuation=0.66, positions=POSITIONS)


def preset(world: World, production: Drifting, records: int) -> Simulation:
    """The world under a drifting ranker, with Zipf-like frequencies and day shocks."""
    frequencies = np.arange(1, production.contexts + 1) ** -FALL
    return Simulation(world, production, records, frequencies, 0.10, PERSISTENCE)
