"""The README's first example, as a reader would copy it, and what it prints."""

import ast
import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


def test_the_first_example_prints_what_the_readme_shows(capsys: pytest.CaptureFixture[str]) -> None:
    code, shown = re.findall(r"```(?:python)?\n(.*?)```", README.read_text(), re.DOTALL)[:2]
    exec(code, {})  # noqa: S102 - our own text
    assert capsys.readouterr().out.rstrip() == shown.rstrip()


def test_three_statements_after_the_import_are_enough() -> None:
    code = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[0]
    first, *rest = ast.parse(code).body
    assert isinstance(first, ast.Import)
    assert len(rest) == 3
