"""The first examples of pages, as a reader would copy them, and what they print."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"


@pytest.mark.parametrize("page", ["README.md", "docs/intervals.md"])
def test_the_first_example_prints_what_the_page_shows(
    page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / page).read_text()
    code, shown = re.findall(r"```(?:python)?\n(.*?)```", text, re.DOTALL)[:2]
    exec(code, {})  # noqa: S102 - our own text
    assert capsys.readouterr().out.rstrip() == shown.rstrip()


def test_all_examples_of_a_page_print_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(
        r"```(python|text)\n(.*?)```", (ROOT / "docs/guide/serving.md").read_text(), re.DOTALL
    )
    names: dict[str, object] = {}
    for language, text in blocks:
        if language == "python":
            exec(text, names)  # noqa: S102 - our own text
        else:
            assert capsys.readouterr().out == text


def test_three_statements_after_the_import_are_enough() -> None:
    code = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[0]
    first, *rest = ast.parse(code).body
    assert isinstance(first, ast.Import)
    assert len(rest) == 3
