"""What the engines must agree on: integers, doubles, buckets, elements, and how they fail."""

import gc
import math
import threading
from typing import Any

import ibis
import pyarrow as pa
import pytest

from foreclick import engines
from foreclick.engines import BUCKETS, DUCKDB, HASHES, SPELLINGS, Spelling, hashed_here
from foreclick.errors import EngineError, ForeclickError, SourceError
from tests.engines.looking import ODD, bucket_of, kept, only_spark

ONE_ROW = pa.table({"one": [1]})


@pytest.fixture
def home(engine):
    """foreclick's own engine around the tests' connection."""
    return engines.engine_of(engine.connection)


def opened(engine, table):
    """A table of the engine, as foreclick sees it."""
    return engines.open_source(engine.load(table))


def ask(table, order="row", **columns):
    """Values of `s`, in the order of a column."""
    sql = f"SELECT {table.engine.say.names(columns)} FROM {table.rows} AS s ORDER BY s.{order}"
    return table.engine.ask(sql)


# --- numbers --------------------------------------------------------------------------------------


def test_integers_beyond_the_doubles_come_home_exactly(engine, home):
    big = [2**53 + 1, -(2**62) - 1, None]
    table = opened(engine, pa.table({"row": [1, 2, 3], "big": pa.array(big, pa.int64())}))
    found = home.fetch(table).sort_by("row")
    assert found["big"].to_pylist() == big
    assert found.schema.field("big").type == pa.int64()
    assert pa.Table.from_batches(home.batches(table)).sort_by("row").equals(found)


def test_literals_are_exact_doubles(engine):
    weights = {f"w{k}": 1 / math.log2(k + 1) for k in range(1, 51)}
    weights |= {"tiny": 5e-324, "huge": 1.7976931348623157e308, "third": 1 / 3}
    table = opened(engine, ONE_ROW)
    say = table.engine.say
    found = ask(table, "one", **{name: say.number_of(value) for name, value in weights.items()})
    assert found.to_pylist() == [weights]


# --- buckets --------------------------------------------------------------------------------------

UNITS = ["anna", "", None, " ", "zoë", "東京🦆", "O'Brien", "a\\b", "NULL", "x" * 500]
NUMBERS = [0, 7, -7, 2**62 + 1, None, -(2**63), 10, 11, 12, 13]


@pytest.fixture
def units(engine):
    rows = pa.table({"row": range(10), "name": UNITS, "number": pa.array(NUMBERS, pa.int64())})
    return opened(engine, rows)


def test_a_unit_has_the_same_bucket_everywhere(units):
    assert BUCKETS == 30
    say = units.engine.say
    found = ask(units, name=say.hashed("s.name"), number=say.hashed("s.number"))
    assert [n % 30 for n in found["name"].to_pylist()] == [bucket_of(unit) for unit in UNITS]
    assert [n % 30 for n in found["number"].to_pylist()] == [bucket_of(unit) for unit in NUMBERS]


def test_an_engine_without_a_function_for_it_has_the_same_hash():
    table = engines.default_engine().show(pa.table({"row": range(10), "name": UNITS}))
    found = ask(table, h=Spelling().hashed("s.name"))
    assert [n % 30 for n in found["h"].to_pylist()] == [bucket_of(unit) for unit in UNITS]


def test_a_salted_hash_is_the_same_everywhere(units):
    say = units.engine.say
    hashes = {c: say.hashed(f"s.{c}", "salt:'7':") for c in ("name", "number")}
    found = ask(units, **hashes)
    for column, values in (("name", UNITS), ("number", NUMBERS)):
        texts = ["" if value is None else value for value in values]
        assert found[column].to_pylist() == [hashed_here(f"salt:'7':{t}") for t in texts]
    assert max(found["name"].to_pylist()) < HASHES == 16**7


# --- names and text -------------------------------------------------------------------------------


@pytest.mark.parametrize("odd", ODD)
def test_names_and_text_are_what_they_are(engine, odd):
    """Whatever letters they have. A column's alias is a name, too."""
    table = opened(engine, ONE_ROW)
    say = table.engine.say
    inner = f"SELECT {say.literal(odd)} AS {say.name(odd)} FROM {table.rows} AS s"
    found = table.engine.ask(f"SELECT s.{say.name(odd)} FROM ({inner}) AS s")
    assert found.to_pylist() == [{odd: odd}]


@pytest.mark.parametrize("dialect", SPELLINGS)
def test_a_nul_is_in_no_statement(dialect):
    say = SPELLINGS[dialect]
    for write in (say.name, say.literal):
        with pytest.raises(SourceError, match="NUL"):
            write("a\0b")


def test_ten_thousand_columns():
    names = {f"c {k}": "1" for k in range(10_000)}
    home = engines.default_engine()
    wide = home.table(f"(SELECT {DUCKDB.names(names)})")
    assert wide.columns == tuple(names)
    assert wide.select("c 9999").to_pyarrow().to_pylist() == [{"c 9999": 1}]


# --- lists ----------------------------------------------------------------------------------------


def test_an_element_beyond_the_end_is_null(engine):
    lists: list[Any] = [[1, None, 3], [4], [], None]
    names: list[Any] = [["a"], ["b", "c"], None, []]
    table = opened(
        engine,
        pa.table(
            {
                "row": range(4),
                "items": pa.array(lists, pa.list_(pa.int64())),
                "names": pa.array(names, pa.list_(pa.string())),
            }
        ),
    )
    say = table.engine.say
    columns = {f"i{k}": say.at("s.items", k) for k in (1, 3, 9)} | {"second": say.at("s.names", 2)}
    found = ask(table, **columns)
    assert found["i1"].to_pylist() == [1, 4, None, None]
    assert found["i3"].to_pylist() == [3, None, None, None]
    assert found["i9"].to_pylist() == [None] * 4
    assert found["second"].to_pylist() == [None, "c", None, None]


# --- steps ----------------------------------------------------------------------------------------


def test_a_step_is_computed_once_and_dropped_with_its_last_user(engine, home):
    gc.collect()
    before = kept(engine)
    source = opened(engine, ONE_ROW)
    dice = home.keep("dice", source.with_column("chance", "random()", pa.float64()))
    if home.keeps:
        [name] = kept(engine, "foreclick_dice_")
    first, second = dice.to_pyarrow(), dice.to_pyarrow()
    assert first.equals(second)
    over = dice.select("chance")
    del dice
    gc.collect()
    if home.keeps:
        assert kept(engine, "foreclick_dice_") == [name]
    assert over.to_pyarrow()["chance"].equals(first["chance"])
    del over
    gc.collect()
    assert kept(engine) == before


def test_an_arrow_table_is_shown_for_as_long_as_it_is_used(engine, home):
    gc.collect()
    before = kept(engine)
    big = [2**53 + 1, None]
    shown = home.show(pa.table({"k": [1, 2], "big": pa.array(big, pa.int64())}))
    assert len(kept(engine)) == len(before) + home.keeps
    over = engines.filter_by(shown, "k < 3")
    del shown
    gc.collect()
    assert over.to_pyarrow().sort_by("k")["big"].to_pylist() == big
    del over
    gc.collect()
    assert kept(engine) == before


def test_dropping_twice_is_harmless(engine, home):
    # an exception in a finalizer is a warning, and a warning is an error
    if not home.keeps:
        pytest.skip("nothing is kept there")
    for table in (home.show(ONE_ROW), home.keep("gift", opened(engine, ONE_ROW))):
        name = table.rows.strip('"')
        home.drop(name)
        assert name not in kept(engine)
        home.drop(name)
    del table
    gc.collect()


def test_a_table_may_outlive_its_connection():
    connection = ibis.duckdb.connect()
    home = engines.engine_of(connection)
    table = home.keep("orphan", home.show(ONE_ROW))
    connection.disconnect()
    del table
    gc.collect()


@only_spark
def test_forgetting_a_table_asks_nothing(engine, home):
    # The garbage collector may run within a driver, which then holds a lock: a deadlock.
    tables = [home.show(ONE_ROW)]
    forgetting = threading.Thread(target=tables.clear)
    forgetting.start()
    forgetting.join(timeout=1)
    assert not forgetting.is_alive()


def test_a_failure_names_its_step_and_shows_its_sql(engine, home):
    table = opened(engine, pa.table({"word": ["seven"]}))
    number = home.say.cast("s.word", "whole")
    broken = table.query(
        f"SELECT {number} AS n FROM {table.rows} AS s", pa.schema({"n": pa.int64()})
    )
    with pytest.raises(EngineError) as stepped:
        home.keep("shaky", broken)
    told = str(stepped.value)
    assert "seven" in told
    if home.keeps:
        assert f"{home.name} failed in step 'shaky'" in told
    assert "SELECT" in told.split("The statement was:")[1]
    assert "word" in told.split("The statement was:")[1]
    with pytest.raises(EngineError, match=r"failed in a query(.|\n)*SELECT"):
        home.fetch(broken)
    assert isinstance(stepped.value, ForeclickError)
    # and the engine still answers, and keeps nothing of it
    assert table.to_pyarrow().to_pylist() == [{"word": "seven"}]
    assert not kept(engine, "foreclick_shaky")


# --- engines --------------------------------------------------------------------------------------


def test_a_laptop_keeps_its_bounds():
    home = engines.laptop(memory_limit="500MB", threads=1)
    settings = "current_setting('threads') AS threads, current_setting('memory_limit') AS memory"
    assert home.ask(f"SELECT {settings}").to_pylist() == [{"threads": 1, "memory": "476.8 MiB"}]


def test_two_databases_in_memory_are_two_engines():
    one, other = ibis.duckdb.connect(), ibis.duckdb.connect()
    assert engines.engine_of(one) == engines.engine_of(one)
    assert engines.engine_of(one) != engines.engine_of(other)


def test_an_engine_is_itself_again():
    connection = ibis.duckdb.connect()
    home = engines.engine_of(connection)
    assert engines.engine_of(home) is home
    assert {home, engines.engine_of(connection)} == {home}
    assert home != "duckdb"


@only_spark
def test_two_connections_to_a_session_are_one_engine(engine, home):
    assert engines.engine_of(ibis.pyspark.connect(engine.connection._session)) == home


@only_spark
def test_a_native_frame_leaves_no_view(engine):
    gc.collect()
    before = kept(engine)
    table = engines.open_source(engine.load_native(ONE_ROW))
    assert table.engine.rows(table) == [{"one": 1}]
    del table
    gc.collect()
    assert kept(engine) == before


def test_a_table_comes_over_from_another_engine(engine):
    laptop = engines.laptop(threads=1)
    rows = pa.table({"n": pa.array([2**53 + 1, None], pa.int64()), "words": [["a", None], []]})
    brought = engines.bring(opened(engine, rows), laptop)
    assert brought.to_pyarrow().sort_by("n").to_pylist() == rows.to_pylist()
    assert engines.bring(brought, laptop) is brought
