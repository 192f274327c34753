"""Logs drawn from a world and a production ranker: in memory, or streamed to Parquet."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from foreclick.engines import local_path, whole_directory, whole_file
from foreclick.errors import SimulationError
from foreclick.metrics import Metric
from foreclick.policies import Lists, PolicyLike, Ranking
from foreclick.progress import working
from foreclick.simulate.production import Production, Shown
from foreclick.simulate.truth import ITEMS_APART, item_ids, shares
from foreclick.simulate.worlds import EMPTY, World

Floats = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]
Batch = tuple[int, pa.RecordBatch]
"""A day, and some of its records."""

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
_DAYS, _SHOCKS, _USERS, _RECORDS, _CANDIDATE = range(5)
"""Purposes of random numbers: each has a stream of its own."""

_RANKER_ERROR = 0.3
"""The spread of a candidate's errors, of the logarithm of how attractive an item is."""

_AHEAD = 2
"""Batches that are drawn while one is written; more only cost memory on two cores."""


@dataclass(frozen=True, eq=False)
class Simulation:
    """A world, the production ranker that showed its lists, and what disturbs the clicks.

    Args:
        world: how lists are clicked.
        production: what is shown on each day.
        records: how many records a log has, unless it is said where one is drawn.
        frequencies: Shape (C,): how often each context occurs; evenly by default.
        shock_sd: the spread of the shocks that multiply attraction, one by context and day. They
            are log-normal with mean 1; their logarithm is a stationary AR(1) over days.
        shock_persistence: its correlation with the day before.
        user_sd: the spread of each user's own effect on attraction, log-normal with mean 1.
        records_per_user: how many records a user has, on average.

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
        object.__setattr__(self, "frequencies", shares(self.frequencies, contexts))

    # --- the truth --------------------------------------------------------------------------------

    def value(self, policy: PolicyLike, metric: str | Metric) -> float:
        """V(h) without shocks and user effects, contexts weighed by frequency (`World.value`)."""
        return self.world.value(policy, metric, self.frequencies)

    def logging(self, day: int | None = None) -> Lists:
        """The production ranker as a policy: of one day, or of all days together."""
        days = range(1, self.production.days + 1) if day is None else [day]
        shown = [self.production.on(d) for d in days]
        contexts = np.concatenate([s.contexts for s in shown])
        lists = np.concatenate([s.lists for s in shown])
        mass = np.concatenate([s.probabilities for s in shown]) / len(shown)
        ids = item_ids(contexts[:, None], lists)
        table = {"query": contexts, "items": _listed(ids, lists), "probability": mass}
        return Lists(pa.table(table), "query")

    def candidate(self, seed: int = 0) -> Ranking:
        """A ranking such as a new ranker would give: production's list, better items one up.

        It starts with the most frequent list of the last day. From the top down, an item changes
        places with the one above it if it seems more attractive, which is judged with some error.

        Args:
            seed: of the ranker's errors.
        """
        shown = self.production.on(self.production.days)
        by_mass = np.lexsort((-shown.probabilities, shown.contexts))
        contexts, first = np.unique(shown.contexts[by_mass], return_index=True)
        lists = shown.lists[by_mass[first]].copy()
        alone = np.repeat(contexts, lists.shape[1])
        appeal = self.world.clicks(alone, lists.reshape(-1, 1)).reshape(lists.shape)
        noise = self._noise(seed).normal(0, _RANKER_ERROR, lists.shape)
        appeal = np.where(lists == EMPTY, -np.inf, appeal * np.exp(noise))
        for above in range(lists.shape[1] - 1):
            rows = np.flatnonzero(appeal[:, above + 1] > appeal[:, above])
            for array in (lists, appeal):
                array[rows, above], array[rows, above + 1] = (
                    array[rows, above + 1],
                    array[rows, above],
                )
        table = {"query": contexts, "items": _listed(item_ids(contexts[:, None], lists), lists)}
        return Ranking(pa.table(table), "query")

    @staticmethod
    def _noise(seed: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_CANDIDATE,)))

    # --- logs -------------------------------------------------------------------------------------

    def sample(self, records: int | None = None, seed: int = 0) -> pa.Table:
        """A log in memory, for ``read_log(…, context="query", period="day", unit="user")``.

        Args:
            records: how many; by default those of the simulation.
            seed: the same seed gives the same log, another one another.
        """
        batches = [batch for _, batch in self._batches(records, seed)]
        return pa.Table.from_batches(batches, schema=SCHEMA)

    def write_parquet(
        self,
        path: str | os.PathLike[str],
        records: int | None = None,
        seed: int = 0,
    ) -> None:
        """Stream a log to Parquet: the rows of `sample`, in memory that does not grow with them.

        Args:
            path: a file that ends in `.parquet`, or a directory for one file a day
                (`day-01.parquet`, …). It is there completely or not at all.
            records: how many; by default those of the simulation.
            seed: the same seed gives the same log, another one another.
        """
        target = local_path(path)
        single = target.suffix == ".parquet"
        target.parent.mkdir(parents=True, exist_ok=True)
        if not single:
            _refuse_strangers(target)
        digits = len(str(self.production.days))
        every = self.records if records is None else records
        complete = whole_file if single else whole_directory
        with working() as say, complete(target) as partial, ExitStack() as files:
            writer, file, done = None, None, 0
            for day, batch in self._batches(records, seed):
                wanted = partial if single else partial / f"day-{day:0{digits}}.parquet"
                if writer is None or wanted != file:
                    files.close()
                    made = pq.ParquetWriter(wanted, SCHEMA, compression="zstd")
                    writer, file = files.enter_context(made), wanted
                writer.write_batch(batch)
                done += batch.num_rows
                say(f"Drawing {every:,} records", done / every)

    def _batches(self, records: int | None, seed: int) -> Iterator[Batch]:
        """The log, day by day: drawn a few batches ahead in threads, handed on in order."""
        draw = _Draw(self, self.records if records is None else records, seed)
        ahead: deque[Future[Batch]] = deque()
        with ThreadPoolExecutor(_AHEAD) as threads:
            for job in draw.jobs():
                ahead.append(threads.submit(job))
                if len(ahead) > _AHEAD:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()


@dataclass(frozen=True, eq=False)
class _Draw:
    """One log: everything that is drawn once for it, and how a batch of its records is drawn."""

    simulation: Simulation
    records: int
    seed: int

    def __post_init__(self) -> None:
        if self.records < 1:
            raise SimulationError(f"records={self.records}: a log has at least one record.")

    def jobs(self) -> Iterator[Callable[[], Batch]]:
        """What draws each batch. A batch has a seed of its own, so the order does not matter."""
        production = self.simulation.production
        even = np.full(production.days, 1 / production.days)
        per_day = self._rng(_DAYS).multinomial(self.records, even)
        for day, count in enumerate(per_day.tolist(), start=1):
            today = _Day.of(day, production.on(day), self.simulation)
            for number, start in enumerate(range(0, count, BATCH)):
                yield partial(self._batch, today, number, min(BATCH, count - start))

    def _batch(self, today: _Day, number: int, size: int) -> Batch:
        rng = self._rng(_RECORDS, today.day, number)
        rows = np.repeat(np.arange(len(today.chances)), rng.multinomial(size, today.chances))
        rng.shuffle(rows)  # a log comes in the order of time, not of queries
        contexts, lists = today.shown.contexts[rows], today.shown.lists[rows]
        users = rng.integers(len(self._users), size=size)
        effect = self._shocks[contexts, today.day - 1] * self._users[users]
        clicks = self.simulation.world.sample(contexts, lists, rng, effect)
        columns = [
            pa.array(contexts.astype(np.int32)),
            pa.array(np.full(size, today.day, dtype=np.int32)),
            pa.array(users.astype(np.int32)),
            _listed(today.ids[rows], lists),
            _listed(clicks.view(np.int8), lists),
        ]
        return today.day, pa.record_batch(columns, schema=SCHEMA)

    @cached_property
    def _shocks(self) -> Floats:
        """Shape (C, days): mean 1 in every context and on every day."""
        simulation, rng = self.simulation, self._rng(_SHOCKS)
        rho = simulation.shock_persistence
        z = rng.standard_normal((simulation.world.size.contexts, simulation.production.days))
        for day in range(1, z.shape[1]):
            z[:, day] = rho * z[:, day - 1] + np.sqrt(1 - rho**2) * z[:, day]
        return _mean_one(z, simulation.shock_sd)

    @cached_property
    def _users(self) -> Floats:
        """The effect of every user."""
        users = max(1, round(self.records / self.simulation.records_per_user))
        return _mean_one(self._rng(_USERS).standard_normal(users), self.simulation.user_sd)

    def _rng(self, *purpose: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=purpose))


class _Day(NamedTuple):
    """What all batches of a day share."""

    day: int
    shown: Shown
    ids: NDArray[np.int32]  # (m, K), as `shown.lists`
    chances: Floats  # (m,): how likely a record shows each list

    @classmethod
    def of(cls, day: int, shown: Shown, simulation: Simulation) -> _Day:
        """The day, after a look at whether its lists are a policy for this world."""
        frequencies = np.asarray(simulation.frequencies)
        _refuse_strange(shown, simulation.world)
        mass = np.bincount(shown.contexts, shown.probabilities, minlength=len(frequencies))
        off = np.flatnonzero((np.abs(mass - 1) > _TOLERANCE) & (frequencies > 0))
        if off.size:
            raise SimulationError(
                f"the probabilities of the lists shown in context {off[0]} on day {day} sum to "
                f"{mass[off[0]]:.6g} ({off.size:,} such contexts). In every context that occurs "
                "they must sum to 1."
            )
        ids = item_ids(shown.contexts[:, None], shown.lists).astype(np.int32)
        chances = frequencies[shown.contexts] * shown.probabilities
        return cls(day, shown, ids, chances / chances.sum())


def _refuse_strange(shown: Shown, world: World) -> None:
    """Refuse what would read another item's numbers, or stand at another position in the log."""
    contexts, items, positions = world.size
    lists = shown.lists
    strange = [
        (shown.contexts < 0) | (shown.contexts >= contexts),
        ((lists < EMPTY) | (lists >= items)).any(axis=1),
        ((lists[:, :-1] == EMPTY) & (lists[:, 1:] != EMPTY)).any(axis=1),
        np.full(len(lists), lists.shape[1] > positions),
    ]
    rows = np.flatnonzero(np.any(strange, axis=0))
    if rows.size:
        raise SimulationError(
            f"production shows {lists[rows[0]].tolist()} in context {shown.contexts[rows[0]]} "
            f"({rows.size:,} such lists), but the world has contexts 0 to {contexts - 1}, items 0 "
            f"to {items - 1}, and lists of up to {positions}, with -1 only after the last item."
        )


def _mean_one(z: Floats, sd: float) -> Floats:
    """Log-normal numbers with mean 1 and the given standard deviation, from standard normals."""
    log_variance = np.log1p(sd**2)
    effects: Floats = np.exp(np.sqrt(log_variance) * z - log_variance / 2)
    return effects


def _listed(values: NDArray[Any], lists: Integers) -> pa.ListArray:
    """Rows of a matrix as an Arrow column of lists, without the slots that are empty."""
    there = lists != EMPTY
    ends = np.cumsum(there.sum(axis=1), dtype=np.int32)
    offsets = np.concatenate([np.zeros(1, dtype=np.int32), ends])
    return pa.ListArray.from_arrays(offsets, values.ravel() if there.all() else values[there])


def _refuse_strangers(path: Path) -> None:
    """Refuse a directory with another log's files: they would be read as part of this one."""
    strangers = sorted(path.glob("*.parquet"))
    if strangers:
        raise SimulationError(
            f"{path} already holds {len(strangers):,} Parquet files, for example "
            f"{strangers[0].name}. Name a directory without any, or remove them."
        )
