"""What the engines must agree on: integers, doubles, buckets, elements, and how they fail."""

import gc
import math
import threading
from typing import Any

import ibis
import pyarrow as pa
import pytest

from foreclick import engines
from foreclick.engines import BUCKETS, HASHES, absent, hashed_here, real, total, whole, zero
from foreclick.errors import EngineError, ForeclickError
from tests.engines.looking import bucket_of, kept, only_postgres, only_spark

ONE_ROW = pa.table({"one": [1]})


@pytest.fixture
def home(engine):
    """foreclick's own engine around the tests' connection."""
    return engines.engine_of(engine.connection)


# --- numbers --------------------------------------------------------------------------------------


def test_integers_beyond_the_doubles_come_home_exactly(engine, home):
    big = [2**53 + 1, -(2**62) - 1, None]
    table = engine.load(pa.table({"row": [1, 2, 3], "big": pa.array(big, pa.int64())}))
    found = home.fetch(table.order_by("row"))
    assert found["big"].to_pylist() == big
    assert found.schema.field("big").type == pa.int64()
    assert [row["big"] for row in home.rows(table.order_by("row"))] == big


def test_sums_of_integers_are_64_bit_integers(engine, home):
    table = engine.load(
        pa.table(
            {
                "big": pa.array([2**61, 2**61 + 1, None], pa.int64()),
                "small": pa.array([100, 100, 100], pa.int8()),
                "half": pa.array([0.5, None, 0.25], pa.float64()),
            }
        )
    )
    sums = table.aggregate(
        big=total(table.big), small=total(table.small), half=total(table.half), n=table.count()
    )
    nothing = table.filter(table.small > 100)
    none = nothing.aggregate(big=total(nothing.big), half=total(nothing.half))
    # grouped again, as a tally is when it is added to another
    stored = home.materialise(sums, "sums")
    again = stored.aggregate(big=total(stored.big), small=total(stored.small))
    for found in (home.fetch(sums), home.fetch(again)):
        assert found["big"].to_pylist() == [2**62 + 1]
        assert found["small"].to_pylist() == [300]
        assert found.schema.field("big").type == found.schema.field("small").type == pa.int64()
    assert home.fetch(sums)["half"].to_pylist() == [0.75]
    assert home.fetch(none).to_pylist() == [{"big": 0, "half": 0.0}]
    assert stored.schema()["big"].is_int64()


def test_literals_are_exact_doubles_and_64_bit_integers(engine, home):
    weights = {f"w{k}": 1 / math.log2(k + 1) for k in range(1, 51)}
    weights |= {"tiny": 5e-324, "huge": 1.7976931348623157e308, "third": 1 / 3}
    table = engine.load(ONE_ROW).select(
        **{name: real(value) for name, value in weights.items()},
        seven=whole(7),
        none=zero(ibis.dtype("int16")),
        nought=zero(ibis.dtype("float32")),
    )
    stored = home.materialise(table, "literals")
    for found in (home.fetch(table), home.fetch(stored)):
        row = found.to_pylist()[0]
        assert {name: row[name] for name in weights} == weights
        assert (row["seven"], row["none"], row["nought"]) == (7, 0, 0.0)
        assert found.schema.field("seven").type == found.schema.field("none").type == pa.int64()
        assert found.schema.field("nought").type == found.schema.field("w3").type == pa.float64()


def test_nothing_is_absent_and_no_number_is_not(engine, home):
    table = engine.load(
        pa.table(
            {
                "row": range(3),
                "real": pa.array([None, math.nan, 0.0], pa.float64()),
                "whole": pa.array([None, 0, 1], pa.int64()),
                "text": pa.array([None, "", "NaN"], pa.string()),
            }
        )
    )
    names = ("real", "whole", "text")
    found = home.fetch(table.select("row", **{n: absent(table[n]) for n in names}).order_by("row"))
    for name in names:
        assert found[name].to_pylist() == [True, False, False], name


# --- buckets --------------------------------------------------------------------------------------

UNITS = ["anna", "", None, " ", "zoë", "東京🦆", "O'Brien", "a\\b", "NULL", "x" * 500]
NUMBERS = [0, 7, -7, 2**62 + 1, None, -(2**63), 10, 11, 12, 13]


def test_a_unit_has_the_same_bucket_everywhere(engine, home):
    assert BUCKETS == 30
    table = engine.load(
        pa.table({"row": range(10), "name": UNITS, "number": pa.array(NUMBERS, pa.int64())})
    )
    buckets = table.order_by("row").select(
        "row", name=home.bucket(table["name"]), number=home.bucket(table["number"])
    )
    found = home.fetch(buckets.order_by("row"))
    assert found["name"].to_pylist() == [bucket_of(unit) for unit in UNITS]
    assert found["number"].to_pylist() == [bucket_of(unit) for unit in NUMBERS]
    assert found.schema.field("name").type == pa.int16()


def test_an_engine_without_a_function_for_it_has_the_same_buckets():
    connection = ibis.duckdb.connect()
    table = connection.create_table("units", pa.table({"row": range(10), "name": UNITS}))
    plain = engines.Engine(connection)
    found = plain.fetch(table.select("row", b=plain.bucket(table["name"])).order_by("row"))
    assert found["b"].to_pylist() == [bucket_of(unit) for unit in UNITS]


def test_a_salted_hash_is_the_same_everywhere(engine, home):
    table = engine.load(
        pa.table({"row": range(10), "name": UNITS, "number": pa.array(NUMBERS, pa.int64())})
    )
    hashes = {c: home.hashed(table[c], "salt:'7':") for c in ("name", "number")}
    found = home.fetch(table.select("row", **hashes).order_by("row"))
    for column, values in (("name", UNITS), ("number", NUMBERS)):
        texts = ["" if value is None else value for value in values]
        assert found[column].to_pylist() == [hashed_here(f"salt:'7':{t}") for t in texts]
    assert max(found["name"].to_pylist()) < HASHES == 16**7


# --- lists ----------------------------------------------------------------------------------------


def test_an_element_beyond_the_end_is_null(engine, home):
    lists: list[Any] = [[1, None, 3], [4], [], None]
    names: list[Any] = [["a"], ["b", "c"], None, []]
    table = engine.load(
        pa.table(
            {
                "row": range(4),
                "items": pa.array(lists, pa.list_(pa.int64())),
                "names": pa.array(names, pa.list_(pa.string())),
            }
        )
    )
    spread = table.select(
        "row",
        first=home.element(table["items"], 1),
        third=home.element(table["items"], 3),
        ninth=home.element(table["items"], 9),
        second=home.element(table["names"], 2),
    )
    found = home.fetch(spread.order_by("row"))
    assert found["first"].to_pylist() == [1, 4, None, None]
    assert found["third"].to_pylist() == [3, None, None, None]
    assert found["ninth"].to_pylist() == [None] * 4
    assert found["second"].to_pylist() == [None, "c", None, None]


# --- steps ----------------------------------------------------------------------------------------


def test_a_materialised_step_is_computed_once_and_dropped_with_its_last_expression(engine, home):
    gc.collect()
    before = kept(engine)
    dice = home.materialise(engine.load(ONE_ROW).mutate(chance=ibis.random()), "dice")
    [name] = kept(engine, "foreclick_dice_")
    first, second = home.rows(dice), home.rows(dice)
    assert first == second
    over = dice.filter(dice.one == 1).select("chance")
    del dice
    gc.collect()
    assert kept(engine, "foreclick_dice_") == [name]
    assert home.rows(over) == [{"chance": first[0]["chance"]}]
    del over
    gc.collect()
    assert kept(engine) == before


def test_an_arrow_table_is_shown_for_as_long_as_an_expression_needs_it(engine, home):
    gc.collect()
    before = kept(engine)
    big = [2**53 + 1, None]
    shown = home.show(pa.table({"k": [1, 2], "big": pa.array(big, pa.int64())}))
    assert len(kept(engine)) == len(before) + 1
    over = engines.filter_by(shown, "k < 3").order_by("k")
    del shown
    gc.collect()
    assert [row["big"] for row in home.rows(over)] == big
    del over
    gc.collect()
    assert kept(engine) == before


def test_dropping_twice_is_harmless(engine, home):
    # an exception in a finalizer is a warning, and a warning is an error
    for table in (home.show(ONE_ROW), home.materialise(engine.load(ONE_ROW), "gift")):
        home.drop(table.get_name())
        assert table.get_name() not in kept(engine)
        home.drop(table.get_name())
    del table
    gc.collect()


def test_a_table_may_outlive_its_connection():
    connection = ibis.duckdb.connect()
    table = engines.engine_of(connection).materialise(ibis.memtable(ONE_ROW), "orphan")
    connection.disconnect()
    del table
    gc.collect()


@only_postgres
def test_forgetting_a_table_waits_for_no_lock(engine, home):
    # The garbage collector may run within psycopg, which then holds this lock: a deadlock.
    tables = [home.show(ONE_ROW)]
    forgetting = threading.Thread(target=tables.clear)
    with engine.connection.con.lock:
        forgetting.start()
        forgetting.join(timeout=1)
        stuck = forgetting.is_alive()
    forgetting.join()
    assert not stuck


def test_a_failure_names_its_step_and_shows_its_sql(engine, home):
    table = engine.load(pa.table({"word": ["seven"]}))
    broken = table.select(number=table.word.cast("int64"))
    with pytest.raises(EngineError) as stepped:
        home.materialise(broken, "shaky")
    told = str(stepped.value)
    assert f"{home.name} failed in step 'shaky'" in told
    assert "seven" in told
    assert "SELECT" in told.split("The statement was:")[1]
    assert "word" in told.split("The statement was:")[1]
    with pytest.raises(EngineError, match=r"failed in a query(.|\n)*SELECT"):
        home.fetch(broken)
    assert isinstance(stepped.value, ForeclickError)
    # and the engine still answers
    assert home.rows(table) == [{"word": "seven"}]


def test_a_failed_step_leaves_no_table(engine, home):
    table = engine.load(pa.table({"word": ["seven"]}))
    with pytest.raises(EngineError):
        home.materialise(table.select(number=table.word.cast("int64")), "shaky")
    assert not kept(engine, "foreclick_shaky")


# --- engines --------------------------------------------------------------------------------------


def test_a_laptop_keeps_its_bounds():
    home = engines.laptop(memory_limit="500MB", threads=1)
    settings = home.rows(
        home.backend.sql(
            "SELECT current_setting('threads') AS threads, "
            "current_setting('memory_limit') AS memory",
            schema={"threads": "int64", "memory": "string"},
        )
    )
    assert settings == [{"threads": 1, "memory": "476.8 MiB"}]


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
    home, table = engines.open_source(engine.load_native(ONE_ROW))
    assert home.rows(table) == [{"one": 1}]
    del table
    gc.collect()
    assert kept(engine) == before


def test_a_table_comes_over_from_another_engine(engine, home):
    laptop = engines.laptop(threads=1)
    rows = pa.table({"n": pa.array([2**53 + 1, None], pa.int64()), "words": [["a", None], []]})
    brought = engines.bring(engine.load(rows), home, laptop)
    assert laptop.fetch(brought.order_by("n")).to_pylist() == rows.to_pylist()
    assert engines.bring(brought, laptop, laptop) is brought
