"""If this fails, the same log is another one as a frame, a file or a table."""

import json
from typing import Any

import ibis
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick.engines import default_engine, engine_of
from foreclick.errors import SourceError
from tests.engines.looking import on, only_postgres, without_spark
from tests.logs.samples import LISTS, WIDE, counted, impressions, reference, table, wide

# --- files ----------------------------------------------------------------------------------------


def test_files_globs_directories_and_lists_of_them(tmp_path):
    (tmp_path / "deep").mkdir()
    pq.write_table(table(LISTS[:3]), tmp_path / "a.parquet")
    pq.write_table(table(LISTS[3:5]), tmp_path / "b.parquet")
    pq.write_table(table(LISTS[5:]), tmp_path / "deep" / "c.parquet")
    several = [tmp_path / "a.parquet", f"{tmp_path}/b*.parquet", tmp_path / "deep"]
    for source, rows in (
        (tmp_path / "a.parquet", LISTS[:3]),
        (str(tmp_path / "a.parquet"), LISTS[:3]),
        ([f"file://{tmp_path}/a.parquet"], LISTS[:3]),
        (f"{tmp_path}/*.parquet", LISTS[:5]),
        (tmp_path, LISTS),
        (f"{tmp_path}/", LISTS),
        (several, LISTS),
        (tuple(several[:2]), LISTS[:5]),
    ):
        assert counted(fc.read_log(source)) == reference(rows)
    connection = ibis.duckdb.connect()
    log = fc.read_log(tmp_path, engine=connection)
    assert log.engine.connection is connection.con
    assert counted(log) == reference()


def test_what_is_no_file_of_a_log_is_named(tmp_path):
    for source in (tmp_path / "nothing.parquet", f"{tmp_path}/*.csv", tmp_path):
        with pytest.raises(SourceError, match="no file matches"):
            fc.read_log(source)
    pq.write_table(table(), tmp_path / "a.parquet")
    for name, text, message in (
        ("log.xlsx", "a,b", r"does not end in one of \.parquet, .*\.csv.*Rename"),
        ("log", "a,b", r"does not end in one of"),
        ("log.parquet", "no parquet at all", r"log\.parquet' cannot be read"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(SourceError, match=message):
            fc.read_log(tmp_path / name)
    with pytest.raises(SourceError, match=r"no file matches .*none\.parquet"):
        fc.read_log([tmp_path / "a.parquet", tmp_path / "none.parquet"])
    (tmp_path / "d.csv").write_text("context,items,clicks\n")
    with pytest.raises(SourceError, match=r"d\.csv' have different formats"):
        fc.read_log([tmp_path / "a.parquet", tmp_path / "d.csv"])


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_partitions_in_the_names_of_directories_are_columns(tmp_path, ending):
    for day in ("2026-01-30", "2026-01-31"):
        place = tmp_path / f"day={day}" / "country=NL"
        place.mkdir(parents=True)
        rows = LISTS[:3] if day.endswith("30") else LISTS[3:]
        if ending == "parquet":
            pq.write_table(table(rows), place / "log.parquet")
        else:
            (place / "log.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    pattern = f"{tmp_path}/day=*/*/log.{ending}"
    found = fc.tally(fc.read_log(pattern, period="day", segments=["country"])).to_arrow()
    assert {str(day) for day in found["period"].to_pylist()} == {"2026-01-30", "2026-01-31"}
    assert set(found["country"].to_pylist()) == {"NL"}
    assert counted(fc.read_log(pattern, where="day = DATE '2026-01-31'")) == reference(LISTS[3:])
    files = [str(file) for file in tmp_path.rglob("*") if file.is_file()]
    assert counted(fc.read_log(files, where="day < '2026-01-31'")) == reference(LISTS[:3])


@pytest.mark.parametrize(
    ("pattern", "mark"), [("[{}]", ", "), ("{}", "|"), ("['{}']", "', '"), ("{}", ",")]
)
def test_lists_in_the_cells_of_a_csv(tmp_path, pattern, mark):
    columns = {"context": [row["context"] for row in LISTS]}
    for name in ("items", "clicks"):
        columns[name] = [pattern.format(mark.join(map(str, row[name]))) for row in LISTS]
    pyarrow.csv.write_csv(pa.table(columns), tmp_path / "log.csv")
    as_text = [{**row, "items": [str(i) for i in row["items"]]} for row in LISTS]
    assert counted(fc.read_log(tmp_path / "log.csv")) == reference(as_text)


@pytest.mark.parametrize("name", ["log.csv", "log.tsv", "log.csv.gz", "LOG.CSV"])
def test_wide_and_long_csv(tmp_path, name):
    sign = "\t" if name.endswith("tsv") else ","
    pd.DataFrame(impressions()).to_csv(tmp_path / name, index=False, sep=sign)
    assert counted(fc.read_log(tmp_path / name, long=("list_id", "position"))) == reference()
    wide().to_pandas().convert_dtypes().to_csv(tmp_path / name, index=False, sep=sign)
    assert counted(fc.read_log(tmp_path / name, **WIDE)) == reference()


@pytest.mark.parametrize("name", ["log.jsonl", "log.ndjson", "log.json"])
def test_json_lines(tmp_path, name):
    lines = [json.dumps(row, ensure_ascii=False) for row in LISTS]
    (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")
    assert counted(fc.read_log(tmp_path / name)) == reference()


# --- frames and tables ----------------------------------------------------------------------------

LARGE = pa.schema(
    {
        "context": pa.dictionary(pa.int32(), pa.large_string()),
        "items": pa.large_list(pa.int32()),
        "clicks": pa.large_list(pa.uint8()),
    }
)
FRAMES: dict[str, Any] = {
    "pandas": lambda: pd.DataFrame(LISTS),
    "pandas with an index": lambda: pd.DataFrame(LISTS).iloc[::-1],
    "category": lambda: pd.DataFrame(LISTS).astype({"context": "category"}),
    "polars": lambda: pl.DataFrame(LISTS),
    "polars lazy": lambda: pl.LazyFrame(LISTS),
    "polars categorical": lambda: pl.DataFrame(LISTS).with_columns(
        pl.col("context").cast(pl.Categorical)
    ),
    "arrow": table,
    "chunks": lambda: pa.concat_tables([table(LISTS[:2]), table(LISTS[2:])]),
    "arrow large_list and dictionary": lambda: table().cast(LARGE),
    "dict": lambda: table().to_pydict(),
    "list of dicts": lambda: LISTS,
    "tuple of dicts": lambda: tuple(LISTS),
    "memtable": lambda: ibis.memtable(table()),
}


@pytest.mark.parametrize("name", FRAMES)
def test_frames_and_tables(name):
    assert counted(fc.read_log(FRAMES[name]())) == reference()


@without_spark
def test_a_table_of_an_engine_is_read_where_it_lives(engine):
    source = engine.load(table())
    log = fc.read_log(source.filter(source.context.notnull()))
    assert log.source == engine_of(engine.connection)
    assert log.engine == log.stored.engine == engine.scratch_engine
    assert counted(log) == reference()


@on("duckdb", "spark")
def test_a_native_frame_of_the_engine(engine):
    log = fc.read_log(engine.load_native(table()))
    assert log.engine.name == engine.connection.name
    assert counted(log) == reference()


@only_postgres
def test_a_connection_of_psycopg(engine):
    log = fc.read_log(pd.DataFrame(LISTS), engine=engine.connection)  # which keeps nothing
    assert (counted(log), log.engine) == (reference(), default_engine())
    name = engine.load(table()).get_name()
    for source in (name, f"public.{name}", f"SELECT * FROM {name}"):
        log = fc.read_log(source, engine=engine.connection.con)
        assert (counted(log), log.source.name) == (reference(), "postgres")


@pytest.mark.parametrize("empty", [{}, [{}], [[{}]]])
def test_a_column_of_objects_without_fields_is_left_out(empty):
    """DuckDB has no such type, and there is nothing in it."""
    rows = [{"context": "q", "items": ["a"], "clicks": [1], "extra": empty}]
    arrow = pa.Table.from_pylist(rows)
    for source in (rows, arrow, pl.from_arrow(arrow)):
        assert fc.tally(fc.read_log(source)).to_arrow()["n"].to_pylist() == [1]


# --- filters --------------------------------------------------------------------------------------

COUNTRIES = ["NL", "nl", "BE", None, "N%", "", "NL"]
FILTERS = {
    "country LIKE 'N%'": [0, 4, 6],
    "country IN ('BE', 'nl') OR country IS NULL": [1, 2, 3],
    "NOT (country = 'NL') AND position % 2 = 0": [2, 4],
    "country IS NOT NULL AND position BETWEEN 4 AND 5": [4, 5],
    "country LIKE 'N_' AND country IN ('NL', 'BE') OR country IS NULL": [0, 3, 6],
    "context IN ('q(', 'a;b', '--') OR (context <> 'x')": [0, 1, 2, 3, 4, 5, 6],
}


def test_where_is_one_language_on_every_engine(engine):
    source = table().append_column("country", [COUNTRIES]).append_column("position", [range(7)])
    loaded = engine.load(source)
    for where, kept in [*FILTERS.items()][4 if engine.name == "spark" else 0 :]:
        log = fc.read_log(loaded, where=where)
        assert counted(log) == reference([LISTS[i] for i in kept])
        assert log.rows == len(kept)


def test_where_is_one_condition_on_every_engine(engine):
    loaded = engine.load(table())
    wrong: Any = ("1 = 1) OR (1 = 1", "1 = 1; DROP TABLE log", "1 = 1) UNION SELECT * FROM log --")
    for where in (*wrong, "context = '", "(1 = 1", "", 3):
        with pytest.raises(SourceError, match="the filter"):
            fc.read_log(loaded, where=where)
