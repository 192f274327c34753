"""Whatever a log is kept in, it is the same log."""

import json
from typing import Any

import duckdb
import ibis
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick.engines import default_engine, engine_of
from foreclick.errors import EngineError, SourceError
from tests.engines.looking import only_postgres, without_spark
from tests.logs.samples import LISTS, WIDE, counted, impressions, reference, table, wide

AS_TEXT = [{**row, "items": [str(i) for i in row["items"]]} for row in LISTS]


def cells(pattern, mark=", ", quote=""):
    """The sample with lists written into a cell, as they are in many a CSV."""

    def cell(values):
        return pattern.format(mark.join(f"{quote}{value}{quote}" for value in values))

    return pa.table(
        {
            "context": [row["context"] for row in LISTS],
            "items": [cell(row["items"]) for row in LISTS],
            "clicks": [cell(row["clicks"]) for row in LISTS],
        }
    )


# --- files ----------------------------------------------------------------------------------------


def test_a_parquet_file(tmp_path):
    pq.write_table(table(), tmp_path / "log.parquet")
    assert counted(fc.read_log(tmp_path / "log.parquet")) == reference()
    assert counted(fc.read_log(str(tmp_path / "log.parquet"))) == reference()


def test_a_glob_and_a_directory_are_all_their_files(tmp_path):
    (tmp_path / "deep").mkdir()
    pq.write_table(table(LISTS[:3]), tmp_path / "a.parquet")
    pq.write_table(table(LISTS[3:5]), tmp_path / "b.parquet")
    pq.write_table(table(LISTS[5:]), tmp_path / "deep" / "c.parquet")
    assert counted(fc.read_log(f"{tmp_path}/*.parquet")) == reference(LISTS[:5])
    assert counted(fc.read_log(tmp_path)) == reference()
    assert counted(fc.read_log(f"{tmp_path}/")) == reference()


def test_a_list_of_paths_globs_and_directories(tmp_path):
    (tmp_path / "deep").mkdir()
    pq.write_table(table(LISTS[:3]), tmp_path / "a.parquet")
    pq.write_table(table(LISTS[3:5]), tmp_path / "b.parquet")
    pq.write_table(table(LISTS[5:]), tmp_path / "deep" / "c.parquet")
    sources = [tmp_path / "a.parquet", f"{tmp_path}/b*.parquet", tmp_path / "deep"]
    assert counted(fc.read_log(sources)) == reference()
    assert counted(fc.read_log(tuple(sources[:2]))) == reference(LISTS[:5])
    assert counted(fc.read_log([f"file://{tmp_path}/a.parquet"])) == reference(LISTS[:3])
    with pytest.raises(SourceError, match=r"no file matches .*none\.parquet"):
        fc.read_log([*sources, tmp_path / "none.parquet"])
    (tmp_path / "d.csv").write_text("context,items,clicks\n")
    with pytest.raises(SourceError, match=r"d\.csv' have different formats"):
        fc.read_log([*sources, tmp_path / "d.csv"])


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
    log = fc.read_log(pattern, period="day", segments=["country"])
    found = fc.tally(log).to_arrow()
    assert {str(day) for day in found["period"].to_pylist()} == {"2026-01-30", "2026-01-31"}
    assert set(found["country"].to_pylist()) == {"NL"}
    assert counted(fc.read_log(pattern, where="day = DATE '2026-01-31'")) == reference(LISTS[3:])
    files = [str(file) for file in tmp_path.rglob("*") if file.is_file()]
    assert counted(fc.read_log(files, where="day < '2026-01-31'")) == reference(LISTS[:3])


@pytest.mark.parametrize(
    "text", [cells("[{}]"), cells("{}", "|"), cells("[{}]", quote="'"), cells("{}", ",")]
)
def test_lists_in_the_cells_of_a_csv(tmp_path, text):
    pyarrow.csv.write_csv(text, tmp_path / "log.csv")
    assert counted(fc.read_log(tmp_path / "log.csv")) == reference(AS_TEXT)


def test_lists_in_text_cells_on_every_engine(engine):
    loaded = engine.load(cells("[{}]"))
    assert counted(fc.read_log(loaded)) == reference(AS_TEXT)


def test_lists_of_one_item_in_a_csv(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text("context,items,clicks\nq,3,1\nq,4,0\n")
    assert counted(fc.read_log(file)) == {("q", ("3",), (1,)): 1, ("q", ("4",), (0,)): 1}
    file.write_text("context,items,clicks,position\nq,3,1,1\nq,4,0,2\n")
    with pytest.raises(SourceError, match=r"For one row per result .* long="):
        fc.read_log(file)


def test_a_csv_with_a_column_a_position(tmp_path):
    pyarrow.csv.write_csv(wide(), tmp_path / "log.csv")
    assert counted(fc.read_log(tmp_path / "log.csv", **WIDE)) == reference()


@pytest.mark.parametrize("name", ["log.csv", "log.tsv", "log.csv.gz", "LOG.CSV"])
def test_a_long_csv(tmp_path, name):
    frame = pd.DataFrame(impressions())
    frame.to_csv(tmp_path / name, index=False, sep="\t" if name.endswith("tsv") else ",")
    assert counted(fc.read_log(tmp_path / name, long=("list_id", "position"))) == reference()


@pytest.mark.parametrize("name", ["log.jsonl", "log.ndjson", "log.json"])
def test_json_lines(tmp_path, name):
    lines = [json.dumps(row, ensure_ascii=False) for row in LISTS]
    (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")
    assert counted(fc.read_log(tmp_path / name)) == reference()


def test_a_file_in_a_given_connection(tmp_path):
    pq.write_table(table(), tmp_path / "log.parquet")
    connection = ibis.duckdb.connect()
    log = fc.read_log(tmp_path / "log.parquet", engine=connection)
    assert log.engine.connection is connection.con
    assert counted(log) == reference()


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SourceError, match=r"no file matches .*nothing\.parquet"):
        fc.read_log(tmp_path / "nothing.parquet")
    with pytest.raises(SourceError, match=r"no file matches .*/\*\.csv"):
        fc.read_log(f"{tmp_path}/*.csv")
    with pytest.raises(SourceError, match="no file matches"):
        fc.read_log(tmp_path)


def test_an_unknown_suffix_says_which_are_known(tmp_path):
    for name in ("log.xlsx", "log"):
        (tmp_path / name).write_text("a,b")
        with pytest.raises(SourceError, match=r"does not end in one of \.parquet, .*\.csv.*Rename"):
            fc.read_log(tmp_path / name)


def test_a_broken_file_is_named(tmp_path):
    (tmp_path / "log.parquet").write_text("no parquet at all")
    with pytest.raises(SourceError, match=r"log\.parquet' cannot be read"):
        fc.read_log(tmp_path / "log.parquet")


# --- frames and tables ----------------------------------------------------------------------------


def large(chunked):
    schema = pa.schema(
        {
            "context": pa.dictionary(pa.int32(), pa.large_string()),
            "items": pa.large_list(pa.int32()),
            "clicks": pa.large_list(pa.uint8()),
        }
    )
    return chunked.cast(schema)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(lambda: pd.DataFrame(LISTS), id="pandas"),
        pytest.param(lambda: pd.DataFrame(LISTS).iloc[::-1], id="pandas with an index"),
        pytest.param(lambda: pd.DataFrame(LISTS).astype({"context": "category"}), id="category"),
        pytest.param(lambda: pl.DataFrame(LISTS), id="polars"),
        pytest.param(lambda: pl.LazyFrame(LISTS), id="polars lazy"),
        pytest.param(
            lambda: pl.DataFrame(LISTS).with_columns(pl.col("context").cast(pl.Categorical)),
            id="polars categorical",
        ),
        pytest.param(table, id="arrow"),
        pytest.param(lambda: pa.concat_tables([table(LISTS[:2]), table(LISTS[2:])]), id="chunks"),
        pytest.param(lambda: large(table()), id="arrow large_list and dictionary"),
        pytest.param(lambda: table().to_pydict(), id="dict"),
        pytest.param(lambda: LISTS, id="list of dicts"),
        pytest.param(lambda: tuple(LISTS), id="tuple of dicts"),
        pytest.param(lambda: ibis.memtable(table()), id="memtable"),
    ],
)
def test_frames_and_tables(source):
    assert counted(fc.read_log(source())) == reference()


def test_arrow_lists_of_a_fixed_size():
    rows = [row for row in LISTS if len(row["items"]) == 3]
    three = pa.list_(pa.int64(), 3)
    schema = pa.schema({"context": pa.string(), "items": three, "clicks": three})
    source = pa.Table.from_pylist(rows, schema)
    assert counted(fc.read_log(source)) == reference(rows)


def test_categories_within_lists():
    kind = pa.list_(pa.dictionary(pa.int8(), pa.string()))
    items = pa.array([row["items"] for row in AS_TEXT], pa.list_(pa.string())).cast(kind)
    assert counted(fc.read_log(table().set_column(1, "items", items))) == reference(AS_TEXT)


@without_spark
def test_a_table_of_an_engine_is_read_where_it_lives(engine):
    source = engine.load(table())
    log = fc.read_log(source.filter(source.context.notnull()))
    assert log.source == engine_of(engine.connection)
    assert log.engine == log.stored.engine == engine.workplace
    assert counted(log) == reference()


@pytest.mark.parametrize(
    "engine", ["duckdb", pytest.param("spark", marks=pytest.mark.spark)], indirect=True
)
def test_a_native_frame_of_the_engine(engine):
    log = fc.read_log(engine.load_native(table()))
    assert log.engine.name == engine.connection.name
    assert counted(log) == reference()


@only_postgres
def test_a_frame_stays_here_if_the_engine_that_is_given_keeps_nothing(engine):
    log = fc.read_log(pd.DataFrame(LISTS), engine=engine.connection)
    assert log.engine is default_engine()
    assert counted(log) == reference()


def test_a_connection_of_duckdb():
    connection = duckdb.connect()
    log = fc.read_log(pd.DataFrame(LISTS), engine=connection)
    assert log.engine.connection is connection
    assert counted(log) == reference()


@only_postgres
def test_a_connection_of_psycopg_is_asked_for_types(engine):
    name = engine.load(table()).get_name()
    for source in (name, f"public.{name}", f"SELECT * FROM {name}"):
        log = fc.read_log(source, engine=engine.connection.con)
        assert (counted(log), log.source.name) == (reference(), "postgres")


def test_what_is_no_table_gets_the_list_of_what_is():
    sources: list[Any] = [7, {1, 2}, [1, 2], object()]
    for source in sources:
        with pytest.raises(SourceError, match=r"cannot read .+; give a path, .*Ibis table"):
            fc.read_log(source)


def test_lists_of_mixed_types_are_explained():
    with pytest.raises(SourceError, match="lists of one type"):
        fc.read_log({"context": ["q"], "items": [[1, "a"]], "clicks": [[0, 0]]})


# --- filters --------------------------------------------------------------------------------------

COUNTRIES = ["NL", "nl", "BE", None, "N%", "", "NL"]


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("country LIKE 'N%'", [0, 4, 6]),
        ("country IN ('BE', 'nl') OR country IS NULL", [1, 2, 3]),
        ("NOT (country = 'NL') AND position % 2 = 0", [2, 4]),
        ("country IS NOT NULL AND position BETWEEN 4 AND 5", [4, 5]),
    ],
)
def test_where_keeps_the_rows_for_which_it_holds(where, kept):
    source: Any = (
        table().append_column("country", [COUNTRIES]).append_column("position", [range(7)])
    )
    log = fc.read_log(source, where=where)
    assert counted(log) == reference([LISTS[i] for i in kept])
    assert log.rows == len(kept)


def test_where_is_one_language_on_every_engine(engine):
    source = table().append_column("country", [COUNTRIES]).append_column("position", [range(7)])
    loaded = engine.load(source)
    sql = "country LIKE 'N_' AND country IN ('NL', 'BE') OR country IS NULL"
    log = fc.read_log(loaded, where=sql)
    assert counted(log) == reference([LISTS[i] for i in (0, 3, 6)])


@pytest.mark.parametrize(
    "where",
    [
        "1 = 1) OR (1 = 1",
        "1 = 1; DROP TABLE log",
        "1 = 1) UNION SELECT * FROM log --",
        "context = '",
        "(1 = 1",
    ],
)
def test_where_is_one_condition_on_every_engine(engine, where):
    with pytest.raises(SourceError, match="the filter"):
        fc.read_log(engine.load(table()), where=where)


def test_a_condition_may_have_quotes_parentheses_and_signs_in_its_text(engine):
    where = "context IN ('q(', 'a;b', '--') OR (context <> 'x')"
    kept = [row for row in LISTS if row["context"] is not None]
    assert counted(fc.read_log(engine.load(table()), where=where)) == reference(kept)


def test_a_filter_that_is_no_sql_is_shown_with_an_example():
    with pytest.raises(SourceError, match=r"(?s)'country = = 3' does not fit.*Write SQL"):
        fc.read_log(table(), where="country = = 3")


def test_a_filter_of_a_missing_column_is_named():
    with pytest.raises((EngineError, SourceError), match="countri"):
        fc.read_log(table(), where="countri = 3")


@pytest.mark.parametrize("where", ["", "context = 'jag", 3])
def test_a_filter_that_is_no_condition_is_explained(where):
    with pytest.raises(SourceError, match="the filter"):
        fc.read_log(table(), where=where)


@pytest.mark.parametrize("empty", [{}, [{}], [[{}]]])
def test_a_column_of_objects_without_fields_is_left_out(empty):
    """DuckDB has no such type, and there is nothing in it."""
    rows = [{"context": "q", "items": ["a"], "clicks": [1], "extra": empty}]
    arrow = pa.Table.from_pylist(rows)
    for source in (rows, arrow, pl.from_arrow(arrow)):
        log = fc.read_log(source)
        assert fc.tally(log).to_arrow()["n"].to_pylist() == [1]
