"""The tally: a log compressed by one group-by, which adds and is an ordinary table.

Values, variances, backtests and bootstraps computed from a tally equal those of the raw log
exactly. Today's tally plus yesterday's is the tally of both days, so at scale a daily job tallies
the day where its logs are, and everything else works on the small tables.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir
from ibis.common.exceptions import IbisError

from foreclick.engines import Engine, bring, open_source, read_metadata, total
from foreclick.errors import ForeclickError, SourceError, TallyError
from foreclick.logs import CONTEXT, Log, N, Shape, read_log

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa

SCHEMA_VERSION = 1
_METADATA = "foreclick"


@dataclass(frozen=True, repr=False)
class Tally:
    """(context, period, segments, bucket, list, rewards, propensity) → n.

    Attributes:
        engine: where it lives.
        shape: what its columns are.
        table: the rows, an Ibis table.
        dropped: how many rows of the log were left out, by cause.
        dropped_rows: how many rows of the log were left out.
    """

    engine: Engine
    shape: Shape
    table: ir.Table
    dropped: dict[str, int]
    dropped_rows: int

    def __repr__(self) -> str:
        return f"<Tally of lists of up to {self.shape.depth} items in {self.engine.name}>"

    def __add__(self, other: Tally) -> Tally:
        """The tally of both logs together, in this tally's engine."""
        if not isinstance(other, Tally):
            return NotImplemented
        shape = _common_shape(self.shape, other.shape)
        theirs = bring(other.table, other.engine, self.engine)
        stacked = ibis.union(_widen(self.table, shape, theirs), _widen(theirs, shape, self.table))
        summed = stacked.group_by(shape.keys).aggregate(**{N: total(stacked[N])})
        table = self.engine.materialise(summed, "tally")
        causes = [*self.dropped, *other.dropped]
        dropped = {c: self.dropped.get(c, 0) + other.dropped.get(c, 0) for c in causes}
        return Tally(self.engine, shape, table, dropped, self.dropped_rows + other.dropped_rows)

    def to_arrow(self) -> pa.Table:
        """All rows, in an order that depends on nothing but the rows."""
        rows = self.engine.fetch(self.table)
        return rows.sort_by([(key, "ascending") for key in self.shape.keys])

    def write_parquet(self, path: str | Path) -> None:
        """Write the tally to one Parquet file, with its schema version."""
        meta = {
            "version": SCHEMA_VERSION,
            "shape": self.shape.to_dict(),
            "dropped": self.dropped,
            "dropped_rows": self.dropped_rows,
        }
        self.engine.write_parquet(self.table, str(path), {_METADATA: json.dumps(meta)})


def tally(log: Any) -> Tally:  # noqa: ANN401 - a Log, a Tally, or what read_log accepts
    """The tally of a log; a tally is its own tally.

    Examples:
        >>> t = tally({"context": ["q", "q"], "items": [[1, 2]] * 2, "clicks": [[1, 0]] * 2})
        >>> (t + t).to_arrow()["n"].to_pylist()
        [4]
    """
    if isinstance(log, Tally):
        return log
    if not isinstance(log, Log):
        log = read_log(log)
    return Tally(log.engine, log.shape, log.table, log.dropped, log.dropped_rows)


def read_tally(path: str | Path, *, engine: Any = None) -> Tally:  # noqa: ANN401
    """Read one tally, or several (a glob) as their sum.

    Args:
        path: a Parquet file written by `Tally.write_parquet`, or a glob of such files.
        engine: the Ibis connection to read it in; by default DuckDB in this process.
    """
    found: list[Tally] = []
    try:
        files = read_metadata(str(path))
    except SourceError as error:
        raise TallyError(f"no tally: {error}") from error
    for file, metadata in files.items():
        if _METADATA not in metadata:
            raise TallyError(f"{file!r} is not a tally. Make one with fc.tally(log).write_parquet.")
        meta = json.loads(metadata[_METADATA])
        if meta["version"] != SCHEMA_VERSION:
            raise TallyError(
                f"{file!r} has the tally schema {meta['version']}, this foreclick reads "
                f"{SCHEMA_VERSION}. Tally the log again with this version."
            )
        home, table = open_source(file, engine)
        shape = Shape.from_dict(meta["shape"])
        rows = table.select(shape.columns)
        found.append(Tally(home, shape, rows, meta["dropped"], meta["dropped_rows"]))
    return sum(found[1:], found[0])


def is_tally(path: str) -> bool:
    """Whether any of the files is a tally, by what stands in its Parquet metadata."""
    try:
        return any(_METADATA in metadata for metadata in read_metadata(path).values())
    except (ForeclickError, OSError, ValueError):  # no such file, or not Parquet: a log, if at all
        return False


def _common_shape(a: Shape, b: Shape) -> Shape:
    if replace(a, depth=1) != replace(b, depth=1):
        raise TallyError(
            "the two tallies do not count the same things and cannot be added: "
            f"{a} and {b}. Read both logs with the same roles."
        )
    return replace(a, depth=max(a.depth, b.depth))


def _widen(table: ir.Table, shape: Shape, other: ir.Table) -> ir.Table:
    """All columns of `shape`, as wide as both tallies need, NULL at positions not reached."""
    columns = {}
    for name in shape.columns:
        kinds = [t[name].type() for t in (table, other) if name in t.columns]
        kind = _wider(name, kinds[0], kinds[-1])
        columns[name] = table[name].cast(kind) if name in table.columns else ibis.null(kind)
    return table.select(**columns)


def _wider(name: str, a: dt.DataType, b: dt.DataType) -> dt.DataType:
    try:
        return dt.highest_precedence((a, b)).copy(nullable=True)
    except IbisError as error:
        raise TallyError(
            f"{name!r} is {a} in one tally and {b} in the other, so they cannot be added. Read "
            "both logs with the same type."
        ) from error


def largest_rewards(tally: Tally, rewards: Sequence[str]) -> dict[str, float]:
    """The largest value of each reward; 0 where nobody was shown anything."""
    if not rewards:
        return {}
    columns = {r: [tally.table[c].fill_null(0) for c in tally.shape.reward(r)] for r in rewards}
    found = {r: reduce(ibis.greatest, mine).max() for r, mine in columns.items()}
    row = tally.engine.rows(tally.table.aggregate(**found))[0]
    return {reward: row[reward] or 0 for reward in rewards}


def contexts_repeat(tally: Tally) -> tuple[int, float]:
    """The number of contexts and the median number of records of one."""
    counts = tally.table.group_by(CONTEXT).aggregate(**{N: total(tally.table[N])})
    row = tally.engine.rows(
        counts.aggregate(contexts=counts.count(), median=counts[N].cast("float64").median())
    )[0]
    return row["contexts"], float(row["median"] or 0)
