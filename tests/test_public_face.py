"""The public face: names, errors, what an import costs. `signatures.txt` has every signature."""

import ast
import importlib
import inspect
import subprocess
import sys

import pytest

import foreclick as fc
from foreclick import errors

HEAVY = ("polars", "pyspark", "torch", "matplotlib", "plotly", "altair")


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        (
            "import foreclick; foreclick.errors, dir(foreclick)",
            ("ibis", "numpy", "pyarrow", *HEAVY),
        ),
        ("import foreclick.results", ("ibis", "numpy", "pandas", "pyarrow", "rich", *HEAVY)),
        ("from foreclick import *", HEAVY),
    ],
)
def test_import_brings_no_heavy_package(statement, heavy):
    code = f"import sys; {statement}; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_names_are_documented_and_imported_from_where_type_checkers_see_them():
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
    assert len(fc.__all__) == len(set(fc.__all__)) <= 38
    assert {name: getattr(fc, name) for name in typed} == typed
    assert all(inspect.getdoc(thing) for thing in typed.values())
    assert set(dir(fc)) == {"__version__", *fc.__all__}
    with pytest.raises(AttributeError, match="no attribute 'evalvate'"):
        fc.evalvate  # type: ignore[attr-defined]  # noqa: B018


def test_verbs_have_few_options():
    """Twelve at most, but for `read_log` and `from_events`, which name columns; 115 in all."""
    verbs = [getattr(fc, name) for name in fc.__all__ if inspect.isfunction(getattr(fc, name))]
    counts = {verb: len(inspect.signature(verb).parameters) for verb in verbs}
    for verb, count in counts.items():
        assert count <= 12 or verb in (fc.read_log, fc.from_events), verb
    assert sum(counts.values()) <= 115


def test_all_errors_descend_from_one():
    kinds = [kind for kind in vars(errors).values() if inspect.isclass(kind)]
    found = [
        kind for kind in kinds if issubclass(kind, Exception) and kind.__module__ == errors.__name__
    ]
    warnings = {kind for kind in found if issubclass(kind, Warning)}
    assert warnings == {errors.ForeclickWarning}
    assert len(found) > 5
    assert all(issubclass(kind, errors.ForeclickError) for kind in found if kind not in warnings)
