"""If this fails, an import takes seconds, or a public name is missing."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

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
    typed = Path(inspect.getfile(fc)).with_suffix(".pyi").read_text()
    lines = [node for node in ast.parse(typed).body if isinstance(node, ast.ImportFrom)]
    assert [node.names[0].name for node in lines] == [node.names[0].asname for node in lines]
    assert sorted(node.names[0].name for node in lines) == fc.__all__
    assert len(fc.__all__) == len(set(fc.__all__)) <= 38
    things = [getattr(fc, name) for name in fc.__all__]
    assert all(inspect.getdoc(thing) for thing in things)
    own = [thing for thing in things if not inspect.ismodule(thing)]
    defined = {node.names[0].name: node.module for node in lines}
    assert all(thing.__module__.startswith(str(defined[thing.__name__])) for thing in own)
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
