"""The public face: names, errors, and what importing the package costs."""

import ast
import importlib
import inspect
import subprocess
import sys

import pytest

import foreclick as fc
from foreclick import errors

HEAVY = ("polars", "pyspark", "torch", "matplotlib", "plotly", "altair")

# DESIGN.md, "The public face", and what joined it.
NAMES = {
    "ClickModel",
    "Lists",
    "Marginals",
    "Metric",
    "Observed",
    "Ranking",
    "Ratio",
    "Weighted",
    "backtest",
    "compare",
    "contexts",
    "errors",
    "evaluate",
    "events",
    "examination",
    "explore",
    "from_events",
    "judgments",
    "optimize",
    "read_log",
    "read_tally",
    "replay",
    "report",
    "settings",
    "Confidence",
    "simulate",
    "support",
    "tally",
}
# What these return, for type hints and isinstance, and the command line's `check`.
TYPES = {
    "Evaluation",
    "Ladder",
    "Log",
    "Policy",
    "Report",
    "Tally",
    "check",
}


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        (
            "import foreclick; foreclick.errors, dir(foreclick)",
            ("ibis", "numpy", "pyarrow", *HEAVY),
        ),
        ("from foreclick import *", HEAVY),
    ],
)
def test_import_brings_no_heavy_package(statement, heavy):
    code = f"import sys; {statement}; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_names_are_imported_from_where_type_checkers_see_them():
    """The block for type checkers and the table of modules say the same."""
    tree = ast.parse(inspect.getsource(fc))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {
        alias.name: getattr(importlib.import_module(str(node.module)), alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed.keys() == set(fc.__all__)
    assert {name: getattr(fc, name) for name in typed} == typed
    assert set(fc.__all__) <= set(dir(fc))
    with pytest.raises(AttributeError, match="no attribute 'evalvate'"):
        fc.evalvate  # type: ignore[attr-defined]  # noqa: B018


def test_the_names_are_those_of_the_design():
    assert set(fc.__all__) == NAMES | TYPES
    assert len(fc.__all__) == len(set(fc.__all__))


@pytest.mark.parametrize("name", sorted(NAMES | TYPES))
def test_every_name_is_there_and_documented(name):
    assert inspect.getdoc(getattr(fc, name))


def test_all_errors_descend_from_one():
    found = {
        name: kind
        for name, kind in vars(errors).items()
        if inspect.isclass(kind)
        and issubclass(kind, Exception)
        and kind.__module__ == errors.__name__
    }
    warnings = {name for name, kind in found.items() if issubclass(kind, Warning)}
    assert warnings == {"ForeclickWarning"}
    assert len(found) > 5
    for name in found.keys() - warnings:
        assert issubclass(found[name], errors.ForeclickError), name
        assert not issubclass(errors.ForeclickError, found[name]) or name == "ForeclickError"


def test_an_error_of_ours_is_caught_by_one_except():
    for call in (
        lambda: fc.Metric("nonsense"),
        lambda: fc.Weighted("nonsense"),
        lambda: fc.Ranking({"context": ["q", "q"], "items": [[1], [2]]}),
        lambda: fc.read_log({"context": ["q"]}),
        lambda: fc.read_log("no/such/file.parquet"),
    ):
        with pytest.raises(errors.ForeclickError):
            call()


def roles(function):
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}


def test_column_roles_default_to_their_own_names():
    log = roles(fc.read_log)
    assert {name: log[name] for name in ("context", "items", "clicks")} == {
        "context": "context",
        "items": "items",
        "clicks": "clicks",
    }
    for name in ("period", "unit", "propensity", "weight", "where"):
        assert log[name] is None
    assert (log["segments"], log["invalid"]) == ((), "error")
    assert roles(fc.Lists)["probability"] == "probability"
    assert roles(fc.Marginals)["context"] == "context"
    assert roles(fc.Marginals)["item"] == "item"


def test_evaluate_asks_what_the_design_says():
    asked = roles(fc.evaluate)
    assert asked["estimators"] is None  # the ladder, and `ip` to check it
    assert (asked["missing"], asked["confidence"]) == ("error", 0.95)
    assert len(inspect.signature(fc.evaluate).parameters) == 12
    assert {"logging", "baseline", "by"} <= asked.keys()
