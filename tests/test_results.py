"""The table every result is: what it holds, how it is shown, what it becomes elsewhere."""

from __future__ import annotations

import copy
import csv
import dataclasses
import importlib
import io
import json
import math
import pickle
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreclick import errors, results
from foreclick.results import KINDS, Kind, Result, Value, format_value

Row: TypeAlias = dict[str, Value]

COLUMNS = (
    "estimator",
    "metric",
    "clip",
    "value",
    "production",
    "change",
    "lift",
    "covered",
    "clipped",
    "ess",
    "contexts",
    "records",
    "missing_contexts",
    "dropped",
)


NUMERIC = sorted(name for name, kind in KINDS.items() if kind is not Kind.TEXT)


def row(estimator, clip=math.inf, lift=0.0426, **values):
    numbers = (0.4182, 0.4011, 0.0171, lift, 0.3127, 0.0, 1_204_553.2)
    counts = (27_411, 10_000_000, 1_204, 53_110)
    cells = (estimator, "clicks@3", clip, *numbers, *counts)
    return dict(zip(COLUMNS, cells, strict=True)) | values


@pytest.fixture
def result():
    return Result(
        rows=(row("list"), row("ip", clip=100.0, lift=None)),
        columns=COLUMNS,
        notes=("The log covers 31.3% of the candidate's exposure.",),
        title="candidate against production",
    )


class TestTable:
    def test_is_a_sequence_of_rows_and_a_mapping_of_columns(self, result):
        assert len(result) == 2
        assert [r["estimator"] for r in result] == ["list", "ip"]
        assert result["clip"] == [math.inf, 100.0]

    def test_an_unknown_column_is_named_with_those_there_are(self, result):
        with pytest.raises(KeyError, match="no column 'clicks'; there are estimator, metric"):
            result["clicks"]

    def test_does_not_change(self, result):
        for copied in (result.to_dicts()[0], next(iter(result))):
            copied["value"] = 99.0
        result["value"].append(1.0)
        assert result["value"] == [0.4182, 0.4182]
        with pytest.raises(dataclasses.FrozenInstanceError):
            result.title = "other"

    def test_does_not_change_with_the_rows_it_was_made_of(self):
        mine = {"value": 1.0}
        result = Result((mine,), ("value",))
        mine["value"] = 2.0
        assert result["value"] == [1.0]

    def test_takes_any_sequence_and_keeps_the_order_of_the_columns(self):
        result = Result([{"b": 1, "a": 2}], ["a", "b"], ["note"])  # type: ignore[arg-type]
        assert result == Result(({"a": 2, "b": 1},), ("a", "b"), ("note",))
        assert list(result.to_dicts()[0]) == ["a", "b"]

    def test_rows_must_fit_the_columns(self):
        with pytest.raises(ValueError, match="needs the columns a, b; these differ: b, c"):
            Result(({"a": 1, "c": 2},), ("a", "b"))

    def test_holds_python_values_only(self):
        cells: Any = {"value": np.float64(0.5), "records": np.int64(3), "segment": np.str_("de")}
        plain = Result((cells,), tuple(cells)).to_dicts()[0]
        assert [type(value) for value in plain.values()] == [float, int, str]

    def test_can_be_copied_and_pickled(self, result):
        assert pickle.loads(pickle.dumps(result)) == result  # noqa: S301 - our own bytes
        assert copy.deepcopy(result) == result

    def test_a_subclass_is_rendered_too(self, result):
        @dataclasses.dataclass(frozen=True, repr=False)
        class Evaluation(Result):
            pass

        evaluation = Evaluation(result.rows, result.columns, result.notes, result.title)
        assert repr(evaluation) == str(result)


class TestElsewhere:
    def test_arrow_has_a_type_for_every_kind(self, result):
        types = {field.name: str(field.type) for field in result.to_arrow().schema}
        assert types["estimator"] == "string"
        assert types["clip"] == types["covered"] == types["ess"] == "double"
        assert types["records"] == types["missing_contexts"] == "int64"

    def test_arrow_types_of_our_columns_do_not_depend_on_the_values(self, result):
        nothing = Result((dict.fromkeys(COLUMNS),), COLUMNS)
        integers = Result((row("ip", value=1, clip=10, covered=0),), COLUMNS)
        empty = Result((), COLUMNS)
        for other in (nothing, integers, empty):
            assert other.to_arrow().schema == result.to_arrow().schema

    def test_arrow_infers_the_types_of_the_users_columns(self):
        table = Result(({"country": "de", "year": 2024},), ("country", "year")).to_arrow()
        assert [str(field.type) for field in table.schema] == ["string", "int64"]

    def test_arrow_keeps_none_as_null(self, result):
        assert result.to_arrow()["lift"].null_count == 1
        assert result.to_arrow().to_pylist() == result.to_dicts()

    def test_pandas(self, result):
        frame = result.to_pandas()
        assert list(frame.columns) == list(COLUMNS)
        assert frame["records"].dtype == np.int64
        assert frame["clip"].tolist() == [math.inf, 100.0]

    def test_polars(self, result):
        assert result.to_polars().to_dicts() == result.to_dicts()

    @pytest.mark.parametrize(
        ("package", "method", "remedy"),
        [
            ("polars", "to_polars", r"pip install 'foreclick\[polars\]'"),
            ("pandas", "to_pandas", "pip install pandas"),
            ("pyarrow", "to_arrow", "pip install pyarrow"),
        ],
    )
    def test_a_missing_package_is_named_with_its_remedy(
        self, result, monkeypatch, package, method, remedy
    ):
        def without(name):
            if name == package:
                raise ModuleNotFoundError(name)
            return original(name)

        original = importlib.import_module
        monkeypatch.setattr(importlib, "import_module", without)
        with pytest.raises(errors.MissingDependency, match=f"{package} is not installed.*{remedy}"):
            getattr(result, method)()

    def test_json_is_valid_whatever_the_numbers(self):
        values = (math.inf, -math.inf, math.nan, None, 0.1)
        result = Result(tuple({"value": v} for v in values), ("value",), ("größer",), "t")
        content = json.loads(result.to_json(), parse_constant=pytest.fail)
        assert [r["value"] for r in content["rows"]] == ["inf", "-inf", None, None, 0.1]
        assert content["notes"] == ["größer"]
        assert content["title"] == "t"

    def test_csv_reads_back(self):
        cells: Row = {"segment": 'a,"b"\nc', "value": 0.1 + 0.2, "clip": math.inf, "lift": None}
        text = Result((cells,), tuple(cells)).to_csv()
        (back,) = csv.DictReader(io.StringIO(text, newline=""))
        assert back["segment"] == cells["segment"]
        assert float(back["value"]) == 0.1 + 0.2
        assert float(back["clip"]) == math.inf
        assert back["lift"] == ""


class TestFormat:
    @pytest.mark.parametrize(
        ("column", "value", "expected"),
        [
            ("value", 0.418249, "0.4182"),
            ("value", 0.25, "0.2500"),
            ("value", 3, "3.000"),
            ("value", 123.4567, "123.5"),
            ("value", 123456.7, "123,457"),
            ("value", 0.0, "0"),
            ("value", 1.234567e-7, "1.235e-07"),
            ("value", None, "–"),
            ("value", math.nan, "–"),
            ("value", -math.inf, "-∞"),
            ("change", 0.0171, "+0.0171"),
            ("change", -0.0171, "-0.0171"),
            ("change", 0.1 + 0.2 - 0.3, "0"),
            ("change", -1234.5, "-1,234"),
            ("clip", math.inf, "∞"),
            ("clip", 100.0, "100"),
            ("clip", 2.5, "2.5"),
            ("clip", 10_000, "10,000"),
            ("covered", 0.93124, "93.1%"),
            ("covered", 1.0, "100%"),
            ("covered", 1 - 1e-16, "100%"),
            ("covered", 0.99999, ">99.9%"),
            ("clipped", 0, "0%"),
            ("clipped", 0.00001, "<0.1%"),
            ("lift", 0.0426, "+4.26%"),
            ("lift", 0.426, "+42.6%"),
            ("lift", -0.00042, "-0.042%"),
            ("lift", 12.5, "+1,250.0%"),
            ("lift", 0.0, "0%"),
            ("ess", 1_204_553.2, "1,204,553"),
            ("records", 10_000_000, "10,000,000"),
            ("missing_contexts", 0, "0"),
            ("estimator", "ip", "ip"),
            ("year", 2024, "2024"),
            ("weight", 0.123456, "0.1235"),
            ("mobile", True, "yes"),
            ("query", "shoes\n\x1b[31mred", r"shoes\n\x1b[31mred"),
        ],
    )
    def test_numbers_are_for_people(self, column, value, expected):
        assert format_value(column, value) == expected

    @given(st.sampled_from(NUMERIC), st.none() | st.floats(-1e9, 1e9) | st.just(math.nan))
    def test_every_number_has_a_short_form(self, column, value):
        assert 0 < len(format_value(column, value)) <= 18


class TestText:
    def test_looks_like_this(self):
        rows: tuple[Row, ...] = (
            {"estimator": "list", "clip": math.inf, "lift": None, "records": 1_000_000},
            {"estimator": "ip", "clip": 100.0, "lift": 0.0204, "records": 53},
        )
        result = Result(rows, tuple(rows[0]), ("Mind the gap.", "Twice."), "a title")
        assert str(result).splitlines() == [
            "a title",
            "",
            "estimator  clip    lift    records",
            "──────────────────────────────────",
            "list          ∞       –  1,000,000",
            "ip          100  +2.04%         53",
            "",
            "• Mind the gap.",
            "• Twice.",
        ]

    def test_an_evaluation_fits_in_120_columns(self, result):
        assert max(len(line) for line in str(result).splitlines()) <= 120
        assert "10,000,000" in str(result)

    def test_a_wider_table_is_not_cut(self):
        columns = tuple(f"segment_number_{i}" for i in range(30))
        lines = str(Result((dict.fromkeys(columns, "x" * 20),), columns)).splitlines()
        assert lines[-1].split() == ["x" * 20] * 30

    def test_long_notes_are_wrapped_below_the_table(self):
        lines = str(Result(({"value": 1.0},), ("value",), ("word " * 60,))).splitlines()
        assert all(len(line) <= 100 for line in lines)
        assert lines[-1].startswith("  word")

    def test_nothing_but_a_header(self):
        lines = str(Result((), ("estimator", "value"))).splitlines()
        assert lines == ["estimator  value", "────────────────"]

    def test_no_markup_and_no_second_line_in_a_cell(self):
        lines = str(Result(({"query": "[red]a[/red]\n:smile:"},), ("query",))).splitlines()
        assert lines[-1] == r"[red]a[/red]\n:smile:"

    def test_wide_characters_keep_the_columns_straight(self):
        rows: tuple[Row, ...] = ({"query": "日本", "value": 1.0}, {"query": "abcd", "value": 1.0})
        lines = str(Result(rows, ("query", "value"))).splitlines()
        assert lines[2:] == ["日本   1.000", "abcd   1.000"]

    def test_the_environment_does_not_change_the_text(self, result, monkeypatch):
        before = str(result)
        for name, value in {"COLUMNS": "20", "FORCE_COLOR": "1", "TTY_COMPATIBLE": "1"}.items():
            monkeypatch.setenv(name, value)
        assert str(result) == before
        assert "\x1b" not in before


class Tags(HTMLParser):
    """Collects the text of each kind of tag and checks that tags close."""

    def __init__(self):
        super().__init__()
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.styles: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag == "wbr":
            return
        self.open.append(tag)
        self.styles.append(dict(attrs).get("style") or "")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if data.strip():
            self.texts.setdefault(self.open[-1], []).append(data)


class TestHtml:
    def parse(self, result):
        tags = Tags()
        tags.feed(result._repr_html_())
        tags.close()
        assert tags.open == []
        return tags

    def test_holds_the_formatted_cells(self, result):
        tags = self.parse(result)
        assert tags.texts["td"][:4] == ["list", "clicks@3", "∞", "0.4182"]
        assert tags.texts["caption"] == ["candidate against production"]
        assert tags.texts["li"] == ["The log covers 31.3% of the candidate's exposure."]

    def test_numbers_stand_right_and_texts_left(self, result):
        text = result._repr_html_()
        assert text.count("text-align:right") == 12 * 3
        assert text.count("text-align:left") == 2 * 3 + 1

    @given(st.text(), st.text(), st.text())
    def test_everything_is_escaped(self, title, value, note):
        column = "<b>&"
        text = Result(({column: value},), (column,), (note,), title)._repr_html_()
        plain = Result(({column: ""},), (column,), ("",), title and "t")._repr_html_()
        assert text.count("<") == plain.count("<")
        assert "<b>" not in text

    def test_without_title_and_notes_has_neither(self):
        tags = self.parse(Result(({"value": 1.0},), ("value",)))
        assert set(tags.texts) == {"th", "td"}


def test_the_import_is_light():
    """Only the standard library: the package's own __init__ is kept out of the way."""
    package = Path(results.__file__).parents[1]
    script = (
        "import sys, types\n"
        "package = types.ModuleType('foreclick')\n"
        f"package.__path__ = [{str(package)!r}]\n"
        "sys.modules['foreclick'] = package\n"
        "import foreclick.results\n"
        "heavy = {'numpy', 'pandas', 'polars', 'pyarrow', 'rich', 'ibis'} & set(sys.modules)\n"
        "raise SystemExit(f'imported {heavy}' if heavy else 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
