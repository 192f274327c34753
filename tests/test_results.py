"""If this fails, a result shows or saves other numbers than it has."""

from __future__ import annotations

import copy
import csv
import importlib
import io
import json
import math
import pickle
from dataclasses import replace
from typing import Any, TypeAlias

import duckdb
import numpy as np
import pytest

import foreclick as fc
from foreclick import errors
from foreclick.results import Result, Value, format_value

Row: TypeAlias = dict[str, Value]
ROW: Row = {
    "estimator": "list",
    "metric": "clicks@3",
    "clip": math.inf,
    "value": 0.4182,
    "production": 0.4011,
    "change": 0.0171,
    "lift": 0.0426,
    "covered": 0.3127,
    "clipped": 0.0,
    "ess": 1_204_553.2,
    "contexts": 27_411,
    "records": 10_000_000,
    "missing_contexts": 1_204,
    "dropped": 53_110,
}
COLUMNS = tuple(ROW)


@pytest.fixture
def result():
    rows = ROW, ROW | {"estimator": "ip", "clip": 100.0, "lift": None}
    return Result(rows, COLUMNS, ("The log covers 31.3%.",), "candidate against production")


class TestTable:
    def test_is_a_sequence_of_rows_and_a_mapping_of_columns(self, result):
        assert len(result) == 2
        assert [r["estimator"] for r in result] == ["list", "ip"]
        assert result["clip"] == [math.inf, 100.0]
        with pytest.raises(KeyError, match="no column 'clicks'; there are estimator, metric"):
            result["clicks"]

    def test_holds_python_values_and_can_be_copied_and_pickled(self, result):
        cells: Any = {"value": np.float64(0.5), "records": np.int64(3), "segment": np.str_("de")}
        plain = Result((cells,), tuple(cells)).to_dicts()[0]
        assert [type(value) for value in plain.values()] == [float, int, str]
        assert pickle.loads(pickle.dumps(result)) == result  # noqa: S301 - our own bytes
        assert copy.deepcopy(result) == result
        assert repr(result) == str(result)


class TestElsewhere:
    def test_arrow_types_of_our_columns_do_not_depend_on_the_values(self, result):
        table = result.to_arrow()
        types = {field.name: str(field.type) for field in table.schema}
        assert types["estimator"] == "string"
        assert types["clip"] == types["covered"] == types["ess"] == "double"
        assert types["records"] == types["missing_contexts"] == "int64"
        assert table.to_pylist() == result.to_dicts()
        for row in (dict.fromkeys(COLUMNS), ROW | {"value": 1, "clip": 10, "covered": 0}):
            assert Result((row,), COLUMNS).to_arrow().schema == table.schema
        assert Result((), COLUMNS).to_arrow().schema == table.schema
        users = Result(({"country": "de", "year": 2024},), ("country", "year")).to_arrow()
        assert [str(field.type) for field in users.schema] == ["string", "int64"]

    def test_pandas_and_polars(self, result):
        frame = result.to_pandas()
        assert list(frame.columns) == list(COLUMNS)
        assert frame["records"].dtype == np.int64
        assert frame["clip"].tolist() == [math.inf, 100.0]
        assert result.to_polars().to_dicts() == result.to_dicts()

    def test_whoever_reads_arrow_takes_it_as_it_is(self, result):
        polars = pytest.importorskip("polars")
        assert polars.DataFrame(result).to_dicts() == result.to_dicts()
        assert duckdb.sql("FROM result").to_arrow_table().to_pylist() == result.to_dicts()
        with pytest.raises(errors.SourceError, match="cannot read a Result"):
            fc.read_log(result)

    @pytest.mark.parametrize(
        ("package", "remedy"),
        [("polars", r"'foreclick\[polars\]'"), ("pandas", "pandas"), ("pyarrow", "pyarrow")],
    )
    def test_a_missing_package_is_named_with_its_remedy(self, result, monkeypatch, package, remedy):
        def without(name):
            if name == package:
                raise ModuleNotFoundError(name)
            return original(name)

        original = importlib.import_module
        monkeypatch.setattr(importlib, "import_module", without)
        message = f"{package} is not installed.*pip install {remedy}"
        with pytest.raises(errors.MissingDependency, match=message):
            getattr(result, f"to_{package.replace('pyarrow', 'arrow')}")()

    def test_json_is_valid_whatever_the_numbers(self):
        values = (math.inf, -math.inf, math.nan, None, 0.1)
        result = Result(tuple({"value": v} for v in values), ("value",), ("größer",), "t")
        content = json.loads(result.to_json(), parse_constant=pytest.fail)
        assert [r["value"] for r in content["rows"]] == ["inf", "-inf", None, None, 0.1]
        assert (content["notes"], content["title"]) == (["größer"], "t")

    def test_csv_reads_back(self):
        cells: Row = {"segment": 'a,"b"\nc', "value": 0.1 + 0.2, "clip": math.inf, "lift": None}
        text = Result((cells,), tuple(cells)).to_csv()
        (back,) = csv.DictReader(io.StringIO(text, newline=""))
        assert (back["segment"], back["lift"]) == (cells["segment"], "")
        assert (float(back["value"]), float(back["clip"])) == (0.1 + 0.2, math.inf)


FORMATTED: dict[str, dict[Any, str]] = {
    "value": {0.418249: "0.4182", 0.25: "0.2500", 3: "3.000", 123.4567: "123.5"}
    | {123456.7: "123,457", 0.0: "0", 1.234567e-7: "1.235e-07"}
    | {None: "–", math.nan: "–", -math.inf: "-∞"},
    "change": {0.0171: "+0.0171", -0.0171: "-0.0171", 0.1 + 0.2 - 0.3: "0", -1234.5: "-1,234"},
    "clip": {math.inf: "∞", 100.0: "100", 2.5: "2.5", 10_000: "10,000"},
    "covered": {0.93124: "93.1%", 1.0: "100%", 1 - 1e-16: "100%", 0.9996: ">99.9%"},
    "clipped": {0: "0%", 0.0004: "<0.1%"},
    "lift": {0.0426: "+4.26%", 0.426: "+42.6%", -0.00042: "-0.042%", 12.5: "+1,250.0%", 0.0: "0%"},
    "ess": {1_204_553.2: "1,204,553"},
    "records": {10_000_000: "10,000,000"},
    "estimator": {"ip": "ip"},
    "year": {2024: "2024"},
    "weight": {0.123456: "0.1235"},
    "mobile": {True: "yes"},
    "query": {"shoes\n\x1b[31mred": r"shoes\n\x1b[31mred"},
}


@pytest.mark.parametrize("column", FORMATTED)
def test_numbers_are_for_people(column):
    cells = FORMATTED[column]
    assert {value: format_value(column, value) for value in cells} == cells


def test_text_looks_like_this():
    rows: tuple[Row, ...] = (
        {"estimator": "list", "clip": math.inf, "lift": None, "records": 1_000_000},
        {"estimator": "ip", "clip": 100.0, "lift": 0.0204, "records": 53},
    )
    result = Result(rows, tuple(rows[0]), ("Mind the gap.", "word " * 60), "a title")
    lines = str(result).splitlines()
    assert lines[:8] == [
        "a title",
        "",
        "estimator  clip    lift    records",
        "──────────────────────────────────",
        "list          ∞       –  1,000,000",
        "ip          100  +2.04%         53",
        "",
        "• Mind the gap.",
    ]
    assert lines[-1].startswith("  word")
    assert all(len(line) <= 100 for line in lines)
    empty = str(Result((), ("estimator", "value")))
    assert empty.splitlines() == ["estimator  value", "────────────────"]


def test_text_has_no_markup_no_second_line_and_straight_columns():
    rows: tuple[Row, ...] = (
        {"query": "日本", "value": 1.0},
        {"query": "[red]a[/]\n:", "value": 1.0},
    )
    lines = str(Result(rows, ("query", "value"))).splitlines()
    assert lines[2:] == ["日本          1.000", r"[red]a[/]\n:  1.000"]


def test_a_notebook_shows_as_many_notes_as_a_terminal():
    log = {"context": ["q"] * 20, "items": [[1, 2]] * 20, "clicks": [[1, 0]] * 20}
    found = replace(fc.evaluate(log, log), notes=tuple("ABCDE"))
    shown = found._repr_html_()
    assert [f"<li>{note}</li>" in shown for note in "ABCDE"] == [True] * 3 + [False] * 2
    assert "2 more notes: .notes in Python" in shown
