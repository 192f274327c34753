"""The fixtures themselves: tables survive the way into each engine and back."""

import math

import pandas as pd
import pyarrow as pa
import pytest
from ibis.common.exceptions import TableNotFound

TABLE = pa.table(
    {
        "row": pa.array([1, 2, 3, 4], pa.int64()),
        "small": pa.array([1, None, -3, 127], pa.int32()),
        "big": pa.array([2**62 + 1, None, -(2**53) - 1, 0], pa.int64()),
        "text": pa.array(['zoë, "q" \\n {1}', None, "", "東京\t🦆\n'x'"], pa.string()),
        "real": pa.array([1 / math.log2(3), None, math.nan, math.inf], pa.float64()),
        "flag": pa.array([True, None, False, True], pa.bool_()),
        "items": pa.array([[2**62 + 1, None], None, [], [3]], pa.list_(pa.int64())),
        "names": pa.array([["a,b", '{"é"}', None], None, [], ["", "NULL"]], pa.list_(pa.string())),
        "rewards": pa.array([[0.1, math.nan], None, [], [-math.inf, None]], pa.list_(pa.float64())),
    }
)


def rows(table):
    """Python rows, with NaN as a word: NaN is not equal to itself."""

    def plain(value):
        if isinstance(value, list):
            return [plain(element) for element in value]
        return "NaN" if isinstance(value, float) and math.isnan(value) else value

    return [{name: plain(value) for name, value in row.items()} for row in table.to_pylist()]


def test_values_and_types_survive_the_round_trip(engine):
    loaded = engine.load(TABLE)
    assert loaded.get_backend() is engine.connection
    back = engine.fetch(loaded.order_by("row"))
    assert rows(back) == rows(TABLE)
    assert back.schema.types == TABLE.schema.types


def test_a_pandas_frame_loads_with_its_missing_values(engine):
    frame = pd.DataFrame(
        {"query": ["a", None], "score": [0.5, math.nan], "items": [[1, 2], []], "n": [1, 2]}
    )
    back = engine.fetch(engine.load(frame).order_by("n"))
    assert back.to_pylist() == [
        {"query": "a", "score": 0.5, "items": [1, 2], "n": 1},
        {"query": None, "score": None, "items": [], "n": 2},
    ]


def test_the_engine_computes(engine):
    table = engine.load(TABLE)
    total = table.filter(table.row > 2).aggregate(total=table.row.sum().cast("int64"))
    assert engine.fetch(total).to_pylist() == [{"total": 7}]


def test_two_loaded_tables_join(engine):
    left = engine.load(pa.table({"query": ["a", "b"], "n": [1, 2]}))
    right = engine.load(pa.table({"query": ["b", "c"], "m": [3, 4]}))
    joined = engine.fetch(left.join(right, "query"))
    assert joined.to_pylist() == [{"query": "b", "n": 2, "m": 3}]


def test_clean_drops_what_was_loaded(engine):
    name = engine.load(TABLE).get_name()
    engine.clean()
    with pytest.raises(TableNotFound):
        engine.connection.table(name)


@pytest.mark.parametrize("engine", [pytest.param("spark", marks=pytest.mark.spark)], indirect=True)
def test_a_native_spark_frame(engine):
    assert engine.load_native(TABLE).count() == TABLE.num_rows


@pytest.mark.parametrize("engine", ["duckdb"], indirect=True)
def test_a_native_duckdb_relation(engine):
    assert len(engine.load_native(TABLE).fetchall()) == TABLE.num_rows
