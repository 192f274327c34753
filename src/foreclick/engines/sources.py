"""From anything a user may hold (path, frame, lake, table of an engine) to a table.

The Parquet files of a Delta or Iceberg table also hold rows that were deleted or replaced. Which
ones count stands in its metadata, so its files are never read without it.
"""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.csv import write_csv

from foreclick.engines import files
from foreclick.engines.base import ArrowDataset, Engine, Table
from foreclick.engines.duckdb import DuckDB, default_engine
from foreclick.engines.kinds import kind_of
from foreclick.engines.mariadb import MariaDB
from foreclick.engines.postgres import Postgres
from foreclick.engines.spark import Spark
from foreclick.engines.spelling import check_condition
from foreclick.errors import EngineError, SourceError, optional
from foreclick.words import did_you_mean


class ArrowStream(Protocol):
    """A table that gives its rows as an Arrow stream: of Arrow, pandas, Polars, DuckDB or Ibis."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The stream, in a capsule."""
        ...


class SparkFrame(Protocol):
    """A DataFrame of Spark."""

    @property
    def sparkSession(self) -> Any:  # noqa: ANN401, N802 - pyspark is optional, and calls it so
        """Its session."""
        ...


TableLike: TypeAlias = (
    str
    | Path
    | Sequence[str | Path]
    | Mapping[str, Any]
    | Sequence[Mapping[str, Any]]
    | ArrowStream
    | ArrowDataset
    | SparkFrame
    | Table
)
"""What a table can be read from: paths, globs or URLs, columns by name, rows, a frame, a stream or
dataset of Arrow, an Ibis table."""

_READERS = {
    ".parquet": "read_parquet",
    ".pq": "read_parquet",
    ".csv": "read_csv",
    ".tsv": "read_csv",
    ".json": "read_json",
    ".jsonl": "read_json",
    ".ndjson": "read_json",
}
_DELTA = 'pip install "foreclick[delta]"'
_ICEBERG = re.compile(r".*/v?\d+[^/]*\.metadata\.json")
_PARTITION = re.compile(r"[^/=]+=[^/]*")
_NO_COLUMN = re.compile(r'Referenced column "(.*?)" not found')
_ACCEPTED = (
    "a path, a glob, a URL or a list of them (Parquet, CSV or JSON files, a Delta table), "
    "a pandas or Polars frame, an Arrow table, dataset or stream, a pyiceberg table, a DuckDB "
    "relation, a Spark DataFrame or an Ibis table"
)


def engine_of(connection: Any) -> Engine:  # noqa: ANN401
    """The engine around a connection of DuckDB, psycopg, PyMySQL or Ibis, or a session of Spark."""
    if isinstance(connection, Engine):
        return connection
    if isinstance(connection, duckdb.DuckDBPyConnection):
        return DuckDB(connection)
    if _comes_from(connection, "pyspark"):
        return Spark(connection)
    for package, kind in (("psycopg", Postgres), ("pymysql", MariaDB)):
        if _comes_from(connection, package):
            return kind(connection, default_engine())
    from foreclick.engines import ibis  # noqa: PLC0415 - an extra

    return ibis.engine_of(connection)


def open_source(source: Any, engine: Any = None) -> Table:  # noqa: ANN401
    """The table that `source` is, in the engine where it lives.

    A source that lives nowhere yet (a path, a frame) is opened in `engine`, by default in the
    DuckDB of this process.
    """
    if isinstance(source, Table):
        return source
    if _comes_from(source, "ibis"):
        from foreclick.engines import ibis  # noqa: PLC0415 - an extra

        return ibis.open_table(source)
    if _comes_from(source, "pyspark"):
        return Spark(source.sparkSession).opened(source)
    home = default_engine() if engine is None else engine_of(engine)
    if isinstance(source, str) and home.tables:
        return home.named(source)
    paths = paths_of(source)
    return _open_paths(paths, home) if paths else _open_rows(source, home.scratch_engine)


def paths_of(source: Any) -> list[str]:  # noqa: ANN401
    """The paths and URLs that a source is; none if it is something else."""
    listed = source if isinstance(source, list | tuple) else [source]
    if not all(isinstance(one, str | Path) for one in listed):
        return []
    return [files.located(one) for one in listed]


def bring(table: Table, target: Engine) -> Table:
    """`table`, in the engine `target`: as it is if it lives there, else copied through Arrow."""
    return table if table.engine == target else target.show(table.to_pyarrow())


def filter_by(table: Table, where: str | None) -> Table:
    """Keep the rows for which a condition holds, in the engine's SQL."""
    if where is None:
        return table
    engine = table.engine
    try:
        if engine.name == "duckdb":
            duckdb.SQLExpression(where)
        else:
            check_condition(where, engine.say)
        probe = f"SELECT 1 AS one FROM {table.rows} AS s WHERE ({where}\n) LIMIT 0"
        engine.ask(probe, pa.schema({"one": pa.int32()}))
    except (EngineError, duckdb.Error, ValueError, TypeError) as error:
        missing = _NO_COLUMN.search(str(error))
        if missing:
            raise SourceError(
                f"where={where!r}: there is no column {missing[1]!r}."
                f"{did_you_mean(missing[1], table.columns)} The source has "
                f"{', '.join(table.columns)}."
            ) from files.harmless(error)
        raise SourceError(
            f"the filter {where!r} does not fit the source ({str(error).splitlines()[0]}), which "
            f"has the columns {', '.join(table.columns)}. Write SQL such as \"country = 'NL' AND "
            'day > 3".'
        ) from files.harmless(error)
    return table.where(f"({where}\n)")


def read_schemas(path: str | Path | Sequence[str | Path]) -> dict[str, pa.Schema]:
    """The columns and metadata of each Parquet file that `path` (a file, a glob, a list) names."""
    named = files_of(path) if isinstance(path, str | Path) else paths_of(path)
    if not named:
        raise SourceError(files.no_file(str(path)))
    if len(set(named)) < len(named):
        raise SourceError(files.given_twice(*(max(named, key=named.count),) * 2))
    schemas = {}
    try:
        for file in named:
            with files.opened(file) as opened:
                footer = pq.read_metadata(opened)
                schemas[file] = footer.schema.to_arrow_schema().with_metadata(footer.metadata)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise SourceError(f"not all of {str(path)!r} is Parquet: {reason}") from files.harmless(
            error
        )
    return schemas


def files_of(source: Any) -> list[str]:  # noqa: ANN401
    """The files that paths, directories or globs name, in order; a table of a lake has none."""
    paths = [path for path in paths_of(source) if lake_in(path) is None]
    return [file for path in paths for file in files.matches(_whole(path))]


@contextmanager
def unchanged(source: Any) -> Iterator[None]:  # noqa: ANN401
    """Refuse what was read of files of this machine that changed meanwhile.

    A log is read in several passes, and the file of one that is being written ends anywhere.
    """
    here = [path for path in paths_of(source) if not files.is_remote(path)]
    before = files.states(files_of(here))
    yield
    changed = files.changed(before, files.states(files_of(here)))
    if changed:
        raise SourceError(
            f"{changed[0]!r} changed while it was read ({len(changed):,} such files). Read the log "
            "again when no program writes to it, or name the files that are complete."
        )


def _whole(path: str) -> str:
    """A directory as the glob of the Parquet files in it."""
    is_directory = Path(path).is_dir()
    if files.is_remote(path) and not files.on_web(path) and not glob.has_magic(path):
        is_directory = _reader_of(path) is None or not files.matches(path)
    return f"{path.rstrip('/')}/**/*.parquet" if is_directory else path


def _comes_from(source: object, package: str) -> bool:
    return any(c.__module__.split(".")[0] in (package, f"_{package}") for c in type(source).__mro__)


def lake_in(place: str) -> str | None:
    """What kind of table lies in a directory, if one does."""
    if files.on_web(place):
        return None
    here = glob.escape(place.rstrip("/"))
    log = files.matches(f"{here}/_delta_log/*")
    if any(file.endswith((".json", ".parquet")) for file in log):
        return "Delta"
    metadata = files.matches(f"{here}/metadata/*.metadata.json")
    return "Iceberg" if any(map(_ICEBERG.fullmatch, metadata)) else None


def _open_paths(paths: list[str], home: Engine) -> Table:
    if home.far and all(files.is_remote(path) for path in paths):  # it reads them by itself
        return _read(home, paths, paths)
    lake = lake_in(paths[0]) if len(paths) == 1 else None
    if lake is not None:
        place = files.shown(paths[0])
        if lake == "Iceberg":  # only a catalog tells which of its metadata files counts
            raise SourceError(
                f"{place!r} is an Iceberg table. Give the table of its catalog: "
                "read_log(catalog.load_table(…))."
            )
        if home.far:
            raise SourceError(
                f"{place!r} is a Delta table, which is not read into {home.name}. Open it there "
                'and give that table, spark.read.format("delta").load(…), or leave engine= out.'
            )
        with files.readable(f"the Delta table {place!r}"):
            table = optional("deltalake", _DELTA).DeltaTable(paths[0].rstrip("/"))
            return _open_rows(table, home)
    paths = [_whole(path) for path in paths]
    matching = [files.matches(path) for path in paths]
    for path, matches in zip(paths, matching, strict=True):
        if not matches:
            raise SourceError(files.no_file(path))
        _refuse_files_of_lakes(matches)
    copies = files.same_files([file for matches in matching for file in matches])
    if copies is not None:  # those without rows, of quiet hours, may be alike
        one = _read(home, paths, [copies[0]])
        if one.where("1 = 1 LIMIT 1").to_pyarrow().num_rows:
            raise SourceError(files.given_twice(*copies))
    named: list[str] = []
    for path, matches in zip(paths, matching, strict=True):
        # What a store has is listed once, so that every scan reads the same files.
        named += matches if files.is_remote(path) else [path]
    return _read(home, paths, named)


def _refuse_files_of_lakes(named: list[str]) -> None:
    """Refuse to read files of a Delta or Iceberg table as if they were a log by themselves."""
    above = set()  # all directories above but partitions
    for file in named:
        scheme, mark, rest = file.rpartition("://")
        parts = rest.split("/")[:-1]
        while parts and _PARTITION.fullmatch(parts[-1]):
            parts.pop()
        ends = [end for end in range(1, len(parts) + 1) if parts[end - 1]]
        above |= {f"{scheme}{mark}{'/'.join(parts[:end])}" for end in ends}
    for place in sorted(above):
        kind, shown = lake_in(place), repr(files.shown(place))
        if kind is not None:
            table = "catalog.load_table(…)" if kind == "Iceberg" else shown
            raise SourceError(
                f"these are files of the {kind} table {shown}, which also hold rows that were "
                f"deleted or replaced. Read the table itself: read_log({table})."
            )


def _read(home: Engine, paths: list[str], named: list[str]) -> Table:
    """Files of one format as one table."""
    readers = {_reader_of(path): path for path in paths}
    if None in readers:
        raise SourceError(
            f"{files.shown(readers[None])!r} does not end in one of {', '.join(_READERS)}. Rename "
            "it, or read it yourself and hand over a data frame or an Ibis table."
        )
    if len(readers) > 1:
        one, other = list(readers.values())[:2]
        raise SourceError(f"{one!r} and {other!r} have different formats; read them one by one.")
    with files.readable(repr(files.shown(paths[0]))):
        return home.read_files(str(*readers), named)


def _reader_of(path: str) -> str | None:
    """The function that reads a file, by its ending."""
    name = Path(files.shown(path))
    suffixes = [s.lower() for s in name.suffixes if s.lower() not in (".gz", ".zst", "")]
    return _READERS.get(suffixes[-1]) if suffixes else None


def _open_rows(source: Any, home: Engine) -> Table:  # noqa: ANN401
    """Rows that need not fit in memory: a dataset is scanned, a stream goes through a file."""
    what = type(source).__name__
    with files.readable(f"the {what}"):
        rows = _rows_of(source)
        if home.far and not isinstance(rows, pa.Table):
            rows = rows.read_all() if isinstance(rows, pa.RecordBatchReader) else rows.to_table()
    if isinstance(rows, pa.RecordBatchReader):
        schema = _plain_schema(rows.schema)
        return home.spooled(schema, (batch.cast(schema) for batch in rows))
    if isinstance(rows, pa.Table):
        rows = rows.select([i for i, t in enumerate(rows.schema.types) if not _holds_nothing(t)])
        if not rows.num_columns:
            raise SourceError(f"the {what} is empty: it has no columns. Check how it was made.")
        rows = rows.cast(_plain_schema(rows.schema))
    return home.show(rows)


def _rows_of(source: Any) -> pa.Table | ArrowDataset | pa.RecordBatchReader:  # noqa: ANN401
    """Rows that are in memory, that can be scanned again and again, or that come once."""
    if _comes_from(source, "deltalake"):
        return _delta_rows(source)
    if _comes_from(source, "pyiceberg"):
        scan = source if hasattr(source, "to_arrow_batch_reader") else source.scan()
        return scan.to_arrow_batch_reader()
    if hasattr(source, "get_fragments"):  # a dataset
        return source
    try:
        if _comes_from(source, "pandas"):
            return pa.Table.from_pandas(source, preserve_index=False)
        if isinstance(source, Mapping):
            return pa.table(dict(source))
        if isinstance(source, Sequence) and all(isinstance(r, Mapping) for r in source):
            return pa.Table.from_pylist([dict(r) for r in source])
    except (pa.ArrowException, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise SourceError(
            f"the {type(source).__name__} cannot be turned into Arrow: {error}. A column of lists "
            "must hold lists of one type (all integers, or all strings); integers have 64 bits, "
            "so write larger ids as text."
        ) from error
    if _comes_from(source, "polars"):
        return (source.collect() if hasattr(source, "collect") else source).to_arrow()
    if _comes_from(source, "duckdb") or isinstance(source, pa.Table):
        return pa.table(source)
    if hasattr(source, "to_reader"):  # a scanner, or a batch
        return source.to_reader()
    if hasattr(source, "__arrow_c_stream__") and not _comes_from(source, "foreclick"):
        return pa.RecordBatchReader.from_stream(source)
    plain = source is None or isinstance(source, int | float)
    what = repr(source) if plain else f"a {type(source).__name__}"
    raise SourceError(f"cannot read {what}; give {_ACCEPTED}.")


def _delta_rows(table: Any) -> ArrowDataset | pa.RecordBatchReader:  # noqa: ANN401 - a DeltaTable
    """Files that DuckDB scans, or a stream of what deltalake makes of them."""
    settings = table.metadata().configuration
    features = table.protocol().reader_features or []
    renamed = settings.get("delta.columnMapping.mode", "none") != "none"
    if not renamed and not {"columnMapping", "deletionVectors"} & set(features):
        return table.to_pyarrow_dataset()
    if not hasattr(table, "scan"):
        raise SourceError(
            "the Delta table has renamed columns or deletion vectors, which this version of "
            f"deltalake does not read. Run: {_DELTA}"
        )
    return pa.RecordBatchReader.from_stream(table.scan())


def _holds_nothing(kind: pa.DataType) -> bool:
    """Whether it is of objects without fields, `{}`, which DuckDB refuses."""
    while pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind = kind.value_type
    return pa.types.is_struct(kind) and all(_holds_nothing(field.type) for field in kind)


def _plain_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, _plain(field.type)) for field in schema])


def _plain(kind: pa.DataType) -> pa.DataType:
    """Types that every engine takes: no dictionaries, no views, no large variants, no `{}`."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if kind_of(kind) == "list":
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(f.name, _plain(f.type)) for f in kind if not _holds_nothing(f.type)])
    if pa.types.is_null(kind):  # a column of nothing but None
        return pa.int64()
    return kind


def write_rows(rows: pa.Table, path: str | Path) -> None:
    """Write rows to one file, Parquet or CSV by its ending. Lists in CSV are JSON.

    Whoever reads a CSV file guesses types, and takes an empty text for nothing. Text that would
    come back as another is refused, and no file is left behind.
    """
    with files.whole_file(files.checked_file(path)) as file:
        if files.ending(str(path)) != ".csv":
            pq.write_table(rows, file, compression="zstd")
            return
        for at, name in enumerate(rows.column_names):
            if kind_of(rows.schema.field(name).type) == "list":
                texts = [json.dumps(items, ensure_ascii=False) for items in rows[name].to_pylist()]
                rows = rows.set_column(at, name, pa.array(texts, pa.string()))
        write_csv(rows, file)
        read = default_engine().read_files("read_csv", [str(file)]).to_pyarrow()
        for name in rows.column_names:
            if not pa.types.is_string(rows.schema.field(name).type):
                continue
            wrote, again = rows[name].unique(), read[name].unique()
            if pa.types.is_string(again.type) or pa.types.is_integer(again.type):
                there = pc.is_in(wrote, value_set=again.cast(pa.string()))
                wrote = wrote.filter(pc.invert(there))
            if len(wrote):
                raise SourceError(
                    f"{str(path)!r}: {name}={wrote[0].as_py()!r} would not be read again as it is, "
                    "because a CSV file has no types and no empty text. Write a .parquet file."
                )
