"""What is asked of an engine: to answer a SELECT with Arrow. Everything else follows from that."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from foreclick.engines.files import brief, harmless
from foreclick.engines.kinds import nullable
from foreclick.engines.spelling import DIGITS, SPELLINGS, Spelling
from foreclick.errors import STATEMENT, EngineError

listeners: list[Callable[[str, str | None, str, float], None]] = []
"""Called with each statement that an engine has answered: engine, step, SQL and seconds."""

BATCH = 100_000
"""Rows that are fetched at once."""

BUCKETS = 30
"""Units (users) survive in a tally as one of so many buckets."""

HASHES = 16**DIGITS
"""How many numbers `Spelling.hashed` can give."""

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2**64 over the golden ratio, odd: its multiples are far apart."""

Work: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""From rows of a worker to rows of the answer."""

_numbers = itertools.count(1)
_TOO_LARGE = re.compile(
    r"out of range.*INT64|(bigint|INT64).* out of range|ARITHMETIC_OVERFLOW|CAST_OVERFLOW",
    re.DOTALL,
)
_PROBE = "foreclick: zoë 東京"
_proven: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""Connections whose hash was found to be right, by their id."""

_unneeded: list[tuple[Engine, Callable[[], object]]] = []
"""How tables are dropped that nothing needs any more.

The garbage collector may run in the middle of a statement, while a driver holds its lock; so it
only notes them here, and the engine drops them before it makes the next one.
"""


class ArrowDataset(Protocol):
    """A dataset of pyarrow, whose module is slow to import."""

    schema: pa.Schema

    def to_table(self) -> pa.Table:
        """All rows, in memory."""
        ...


@dataclass(frozen=True)
class Value:
    """What stands in a column of a statement, and its type."""

    text: str
    kind: pa.DataType = pa.int64()  # noqa: RUF009 - a type is a value

    @classmethod
    def count(cls, condition: str) -> Value:
        """In how many rows a condition holds."""
        return cls(f"count(CASE WHEN {condition} THEN 1 END)")

    @classmethod
    def sum(cls, value: str, say: Spelling, kind: str = "whole") -> Value:
        """The sum of integers, or of doubles ("real"); 0 for none."""
        total = f"coalesce({say.cast(f'sum({value})', kind)}, 0)"
        return cls(total, pa.int64() if kind == "whole" else pa.float64())


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of an engine: a table, a view, or a query, unexecuted.

    Attributes:
        engine: where they are.
        rows: what stands after FROM, in the engine's words.
        kinds: the columns and their types.
        held: what the rows need for as long as they are used: a temporary table, a file.
    """

    engine: Engine
    rows: str
    kinds: pa.Schema
    held: object = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.kinds.names)

    @property
    def sql(self) -> str:
        """The SELECT of all rows."""
        return f"SELECT * FROM {self.rows} AS s"

    def query(self, sql: str, kinds: pa.Schema | None = None) -> Table:
        """A SELECT over these rows (`self.rows`), of other columns if they are given."""
        return replace(self, rows=f"({sql})", kinds=kinds or self.kinds, held=self)

    def own(self, names: Sequence[str]) -> dict[str, Value]:
        """Columns as they are."""
        column = self.engine.say.column
        return {name: Value(column(name), self.kinds.field(name).type) for name in names}

    def made(self, columns: Mapping[str, Value], rest: str = "") -> Table:
        """Values of `s` as a table; `rest` stands behind FROM: a join, a condition, groups."""
        texts = {name: value.text for name, value in columns.items()}
        kinds = pa.schema([(name, value.kind) for name, value in columns.items()])
        return self.query(
            f"SELECT {self.engine.say.names(texts)} FROM {self.rows} AS s {rest}", kinds
        )

    def grouped(
        self, keys: Mapping[str, Value], sums: Mapping[str, Value], rest: str = ""
    ) -> Table:
        """A row for each combination of values; `rest` as in `made`."""
        groups = ", ".join(value.text for value in keys.values())
        return self.made({**keys, **sums}, f"{rest} GROUP BY {groups}")

    def aggregate(self, columns: Mapping[str, Value], rest: str = "") -> dict[str, Any]:
        """The one row that aggregates give."""
        return self.made(columns, rest).to_pylist()[0]

    def where(self, condition: str) -> Table:
        """The rows of `s` for which a condition holds."""
        return self.query(f"{self.sql} WHERE {condition}")

    def added(self, keys: Sequence[str], count: str) -> Table:
        """A row for each combination of values of some columns, with the sum of `count`."""
        return self.grouped(self.own(keys), {count: self.total(count)})

    def select(self, *names: str) -> Table:
        """Some of the columns, in this order."""
        return self if names == self.columns else self.made(self.own(names))

    def with_column(self, name: str, value: str, kind: pa.DataType) -> Table:
        """These rows with one more column, a value of `s`."""
        others = [other for other in self.columns if other != name]
        return self.made(self.own(others) | {name: Value(value, kind)})

    def total(self, column: str) -> Value:
        """The sum of a column; integers stay 64-bit integers on every engine."""
        whole, say = pa.types.is_integer(self.kinds.field(column).type), self.engine.say
        return Value.sum(say.column(column), say, "whole" if whole else "real")

    def computed(self, step: str) -> Table:
        """The rows computed once, if they may be kept where they live; as they are elsewhere."""
        return self.engine.keep(step, self) if self.engine.home is None else self

    def to_pyarrow(self) -> pa.Table:
        """All rows."""
        return self.engine.ask(self.sql, self.kinds)

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows of a small table, as dicts."""
        rows: list[dict[str, Any]] = self.to_pyarrow().to_pylist()
        return rows


class Engine:
    """A place where tables live and SELECTs are answered.

    To add an engine is to write `arrow` and a row of `SPELLINGS`.

    Attributes:
        name: what it is called, and how it spells: duckdb, pyspark, postgres, ….
        far: whether it is a cluster or a server, rather than part of this process.
        maps: whether it has workers that a Python function can be sent to (`mapped`).
        hashes: whether tests have shown that its hash is right; otherwise it is asked.
        tables: whether a text that is given as a source is one of its tables, or a SELECT.
        connection: of its driver.
        home: where tables are kept, if none may be kept in the engine itself: what is computed
            there is fetched at once.
    """

    name: str = ""
    far: ClassVar[bool] = True
    maps: ClassVar[bool] = False
    hashes: ClassVar[bool] = False
    tables: ClassVar[bool] = False

    def __init__(self, connection: Any, home: Engine | None = None) -> None:  # noqa: ANN401
        self.connection, self.home = connection, home

    def arrow(self, sql: str, schema: pa.Schema | None) -> pa.RecordBatchReader:
        """The rows of a SELECT; of these types, where the driver does not tell them."""
        raise NotImplementedError

    def mapped(self, table: Table, order: Sequence[str], work: Work, schema: pa.Schema) -> pa.Table:
        """What the engine's workers make of the rows, where they are; for engines with `maps`.

        Args:
            table: the rows.
            order: columns; a worker gets a range of the first, with its rows sorted by all.
            work: from batches of rows to batches of the answer.
            schema: the columns of the answer.
        """
        raise NotImplementedError

    # --- what follows from that ------------------------------------------------------------------

    @property
    def say(self) -> Spelling:
        """How the engine spells."""
        return SPELLINGS[self.name]

    @property
    def scratch_engine(self) -> Engine:
        """Where `keep` and `show` put tables: here, or at home."""
        return self if self.home is None else self.home

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Engine) and self.connection is other.connection

    def __hash__(self) -> int:
        return hash(self.name)

    def table(self, rows: str, held: object = None) -> Table:
        """What stands after FROM, as a table."""
        with self.explained(rows):
            kinds = self.arrow(f"SELECT * FROM {rows} AS s LIMIT 0", None).schema
        return Table(self, rows, kinds, held)

    def named(self, text: str) -> Table:
        """A table by its name, with its schema or without, or the rows of a SELECT."""
        if text.split(maxsplit=1)[0].upper() in ("SELECT", "WITH"):
            return self.table(f"({text})")
        return self.table(".".join(map(self.say.name, text.split("."))))

    def ask(self, sql: str, schema: pa.Schema | None = None, step: str | None = None) -> pa.Table:
        """The rows of a SELECT, which are few."""
        with self.explained(sql, step):
            table = self.arrow(sql, schema).read_all()
            return table if schema is None else _cast(table, schema)

    def batches(self, table: Table) -> Iterator[pa.RecordBatch]:
        """The rows of a table in batches, for those larger than memory."""
        with self.explained(table.sql):
            for batch in self.arrow(table.sql, table.kinds):
                yield _cast(batch, table.kinds)

    def keep(self, step: str, table: Table) -> Table:
        """The rows of a table, computed once and kept in `scratch_engine`, named by the step."""
        with self.explained(table.sql, step):
            return self.scratch_engine.spooled(table.kinds, self.batches(table))

    def show(self, table: pa.Table | ArrowDataset) -> Table:
        """An Arrow table as a table of `scratch_engine`, for as long as it is used."""
        return self.scratch_engine.show(table)

    def spooled(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Table:
        """Rows as a table of this engine; they need not fit in memory."""
        raise NotImplementedError

    def read_files(self, reader: str, files: Sequence[str], *, partitions: bool = True) -> Table:  # noqa: ARG002 - see children
        """Files or URLs of one format, as one table.

        Args:
            reader: read_parquet, read_csv or read_json.
            files: paths, globs or URLs.
            partitions: whether ``day=3/`` in a path is a column.
        """
        raise EngineError(
            f"{self.name} reads no files ({reader}, {files[0]!r}): leave engine= out."
        )

    def release(self) -> None:
        """Give back memory that is kept for tables which are not needed soon."""

    def drop_unused(self) -> None:
        """Drop the tables of this engine that nothing needs any more."""
        with self.alone():
            for engine, drop in [unneeded for unneeded in list(_unneeded) if unneeded[0] == self]:
                with suppress(Exception):  # a connection that is closed has dropped it
                    _unneeded.remove((engine, drop))
                    drop()

    def owned(self, make: Callable[[], object], drop: Callable[[], object]) -> Owner:
        """Makes a table that is dropped when nothing needs it, or if making it fails.

        Whoever holds what is returned needs the table.
        """
        self.drop_unused()
        try:
            make()
        except BaseException:
            _unneeded.append((self, drop))
            self.drop_unused()
            raise
        owner = Owner()
        finalizer = weakref.finalize(owner, _unneeded.append, (self, drop))
        finalizer.atexit = False  # what is temporary goes with the process anyway
        return owner

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One thread at a time, for an engine whose connection threads must not share."""
        yield

    @contextmanager
    def explained(self, sql: str, step: str | None = None) -> Iterator[None]:
        """Turn an engine's failure into one error that names the step and shows its SQL.

        `listeners` are told of the statement and its seconds.
        """
        with self.alone():
            start = time.perf_counter()
            try:
                yield
                for listen in listeners:
                    listen(self.name, step, sql, time.perf_counter() - start)
            except (KeyboardInterrupt, EngineError):
                raise
            except Exception as error:
                if "interrupted" in str(error).lower() and isinstance(error, RuntimeError):
                    raise KeyboardInterrupt from error  # the user's Ctrl-C
                what = f"step {step!r}" if step else "a query"
                if _TOO_LARGE.search(str(error)):
                    raise EngineError(
                        f"{self.name} failed in {what}: a number or a sum of counts has more than "
                        f"64 bits ({brief(error)}). Write such ids as text, and count in larger "
                        "units."
                    ) from harmless(error)
                message = f"{self.name} failed in {what}: {self.told(error, sql)}{self.remedy()}"
                raise EngineError(f"{message}{STATEMENT}{sql}") from harmless(error)

    def told(self, error: Exception, sql: str) -> str:  # noqa: ARG002 - DuckDB asks again
        """What a failure of a statement says first, with the column that it points to."""
        return brief(error)

    def remedy(self) -> str:
        """What to do about a failure, where the engine's state tells; with a blank before it."""
        return ""

    def check_hash(self) -> None:
        """Refuse an engine that hashes otherwise: its buckets would be wrong."""
        if self.hashes or _proven.get(id(self.connection)) is self.connection:
            return
        expected = hashed_here(_PROBE)
        remedy = (
            "Buckets of units would not be those of other engines. Read the log without unit=, or "
            "write it to Parquet files and read those."
        )
        sql = f"SELECT {self.say.hashed(self.say.literal(_PROBE))} AS found"
        try:
            result = self.ask(sql, pa.schema({"found": pa.int64()}))["found"][0].as_py()
        except EngineError as error:
            raise EngineError(f"{self.name} has no MD5 that foreclick knows. {remedy}") from error
        if result != expected:
            raise EngineError(
                f"{self.name} hashes {_PROBE!r} to {result}, not {expected}. {remedy}"
            )
        _proven[id(self.connection)] = self.connection

    @staticmethod
    def unique(step: str) -> str:
        """A table name nobody else uses."""
        return f"foreclick_{step}_{os.getpid()}_{next(_numbers)}"


class Owner:
    """Whoever holds it needs a temporary table, which is dropped afterwards."""


def _cast(rows: Any, schema: pa.Schema) -> Any:  # noqa: ANN401
    """Rows as these types: engines have integers and decimals of widths of their own."""
    schema = nullable(schema)
    return rows if rows.schema.equals(schema) else rows.cast(schema)


def fetched(cursor: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:  # noqa: ANN401
    """The rows of a driver's cursor, so many at once."""
    kind = pa.struct(list(schema))
    while rows := cursor.fetchmany(BATCH):
        yield pa.RecordBatch.from_struct_array(pa.array(map(tuple, rows), kind))


def hashed_here(text: str) -> int:
    """What `Spelling.hashed` gives for a text, with its salt in front."""
    return int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:DIGITS], 16)


def mixed(z: NDArray[Any]) -> NDArray[np.uint64]:
    """A hash of each number of 64 bits without sign, the same on every machine.

    No two numbers have the same. It is the finaliser of SplitMix64 (G. Steele, D. Lea, C. Flood,
    "Fast splittable pseudorandom number generators", OOPSLA 2014).
    """
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(z ^ (z >> np.uint64(31)), dtype=np.uint64)
