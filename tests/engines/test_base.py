"""If this fails, an engine rounds an integer or a double, and nobody sees it."""

import gc
import math
import re
import threading

import ibis
import pyarrow as pa
import pytest

from foreclick import engines
from foreclick.engines import BUCKETS, HASHES, SPELLINGS, hashed_here
from foreclick.engines.files import brief
from foreclick.errors import EngineError, SourceError
from tests.engines.looking import (
    ODD,
    assert_held_as_they_are,
    bucket_of,
    kept,
    only_spark,
)

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


# --- numbers, buckets, lists, names ---------------------------------------------------------------


def test_integers_and_doubles_come_home_exactly(engine, home):
    big = [2**53 + 1, -(2**62) - 1, None]
    table = opened(engine, pa.table({"row": [1, 2, 3], "big": pa.array(big, pa.int64())}))
    found = table.to_pyarrow().sort_by("row")
    assert found["big"].to_pylist() == big
    assert found.schema.field("big").type == pa.int64()
    assert pa.Table.from_batches(home.batches(table)).sort_by("row").equals(found)
    weights = {f"w{k}": 1 / math.log2(k + 1) for k in range(1, 51)}
    weights |= {"tiny": 5e-324, "huge": 1.7976931348623157e308, "third": 1 / 3}
    literals = {name: home.say.number_of(value) for name, value in weights.items()}
    assert ask(opened(engine, ONE_ROW), "one", **literals).to_pylist() == [weights]


UNITS = ["anna", "", None, " ", "zoë", "東京🦆", "O'Brien", "a\\b", "NULL", "x" * 500]
NUMBERS = [0, 7, -7, 2**62 + 1, None, -(2**63), 10, 11, 12, 13]


def test_a_unit_has_the_same_hash_everywhere(engine):
    assert BUCKETS == 30
    units = opened(
        engine,
        pa.table({"row": range(10), "name": UNITS, "number": pa.array(NUMBERS, pa.int64())}),
    )
    say = units.engine.say
    salt = "salt:'7':"
    for column, values in (("name", UNITS), ("number", NUMBERS)):
        found = ask(units, plain=say.hashed(f"s.{column}"), salted=say.hashed(f"s.{column}", salt))
        assert [n % 30 for n in found["plain"].to_pylist()] == [bucket_of(unit) for unit in values]
        texts = ["" if value is None else value for value in values]
        assert found["salted"].to_pylist() == [hashed_here(f"{salt}{text}") for text in texts]
        assert max(found["salted"].to_pylist()) < HASHES == 16**7


def test_names_and_text_are_what_they_are(engine):
    """Whatever letters they have; and so they are in what the engine gives back."""
    table = opened(engine, ONE_ROW)
    assert_held_as_they_are(table)
    columns = {odd: table.engine.say.literal(odd) for odd in ODD}
    assert ask(table, "one", **columns).to_pylist() == [{odd: odd for odd in ODD}]


@pytest.mark.parametrize("dialect", SPELLINGS)
def test_a_nul_is_in_no_statement(dialect):
    say = SPELLINGS[dialect]
    for write in (say.name, say.literal):
        with pytest.raises(SourceError, match="NUL"):
            write("a\0b")


# --- steps ----------------------------------------------------------------------------------------


def test_a_step_is_computed_once_and_dropped_with_its_last_user(engine, home):
    gc.collect()
    before = kept(engine)
    source = opened(engine, ONE_ROW)
    dice = home.keep("dice", source.with_column("chance", "random()", pa.float64()))
    if home.home is None:
        [name] = kept(engine, "foreclick_dice_")
    first, second = dice.to_pyarrow(), dice.to_pyarrow()
    assert first.equals(second)
    over = dice.select("chance")
    del dice
    gc.collect()
    if home.home is None:
        assert kept(engine, "foreclick_dice_") == [name]
    assert over.to_pyarrow()["chance"].equals(first["chance"])
    del over
    gc.collect()
    assert kept(engine) == before


@only_spark
def test_spark_is_asked_nothing_when_a_table_is_forgotten_and_keeps_no_view(engine, home):
    # The garbage collector may run within a driver, which then holds a lock: a deadlock.
    gc.collect()
    before = kept(engine)
    tables = [home.show(ONE_ROW), engines.open_source(engine.load_native(ONE_ROW))]
    assert tables[1].to_pylist() == [{"one": 1}]
    forgetting = threading.Thread(target=tables.clear)
    forgetting.start()
    forgetting.join(timeout=1)
    assert not forgetting.is_alive()
    gc.collect()
    assert kept(engine) == before
    assert engines.engine_of(ibis.pyspark.connect(engine.connection._session)) == home


def test_a_failure_names_its_step_and_shows_its_sql(engine, home):
    table = opened(engine, pa.table({"word": ["seven"]}))
    number = home.say.cast("s.word", "whole")
    sql = f"SELECT {number} AS n FROM {table.rows} AS s"
    broken = table.query(sql, pa.schema({"n": pa.int64()}))
    with pytest.raises(EngineError) as stepped:
        home.keep("shaky", broken)
    told, _, statement = str(stepped.value).partition("The statement was:")
    assert "seven" in told
    if home.home is None:
        assert f"{home.name} failed in step 'shaky'" in told
    assert "SELECT" in statement
    assert "word" in statement
    with pytest.raises(EngineError, match=r"failed in a query(.|\n)*SELECT"):
        broken.to_pyarrow()
    # and the engine still answers, and keeps nothing of it
    assert table.to_pyarrow().to_pylist() == [{"word": "seven"}]
    assert not kept(engine, "foreclick_shaky")


@pytest.mark.parametrize("value", ["s.one - s.other", "sum(s.one)", "sqrt(s.missing)"])
def test_a_failure_is_told_in_a_sentence_without_functions_that_would_do(engine, value):
    table = opened(engine, pa.table({"one": [[1]], "other": ["x"]}))
    with pytest.raises(EngineError) as failed:
        table.query(f"SELECT {value} AS n FROM {table.rows} AS s").to_pyarrow()
    told = str(failed.value).partition("\nThe statement was:")[0]
    assert len(told.splitlines()) == 1
    assert not re.search(r"Candidate|might need|Project|LINE \d", told)


@pytest.mark.parametrize(
    ("value", "column"),
    [
        ('s."when" - s."then"', "when"),  # as GA4's export to JSON had it
        ('3 + max(sqrt(s."then"))', "then"),
        ('sum(s."when") AS "total", max(s."then")', "when"),
        ('s."when" - 1 AS "gone"', "when"),
        ('s.when - 3.5 AS "gone"', None),  # what stands there is no column
    ],
)
def test_duckdb_names_the_column_of_another_type(value, column):
    table = engines.open_source(pa.table({"when": ["a"], "then": ["b"]}))
    named = f" \\(at the column '{column}'\\)" if column else ""
    with pytest.raises(EngineError, match=rf"VARCHAR.*'{named}\n"):
        table.query(f"SELECT {value} FROM {table.rows} AS s").to_pyarrow()


def test_a_failure_names_the_column_that_the_engine_points_to():
    told = ["Conversion Error: no whole number: '7 EUR'", "", 'LINE 1: SELECT CAST("price" AS INT)']
    error = RuntimeError("\n".join([*told, " " * 15 + "^"]))
    assert brief(error) == "Conversion Error: no whole number: '7 EUR' (at the column 'price')"
    named = RuntimeError("\n".join(['column "price" is odd', told[2], " " * 15 + "^"]))
    assert brief(named) == 'column "price" is odd'
