"""The first examples of pages, as a reader would copy them, and what they print."""

import ast
import re
from pathlib import Path

import pytest

from foreclick.cli import main

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"


@pytest.mark.parametrize("page", ["README.md", "docs/intervals.md", "docs/guide/events.md"])
def test_the_first_example_prints_what_the_page_shows(
    page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / page).read_text()
    code, shown = re.findall(r"```(?:python)?\n(.*?)```", text, re.DOTALL)[:2]
    exec(code, {})  # noqa: S102 - our own text
    assert capsys.readouterr().out.rstrip() == shown.rstrip()


@pytest.mark.parametrize("page", ["serving", "semi-bandits", "optimize", "judgments", "explore"])
def test_all_examples_of_a_page_print_what_it_shows(
    page: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = (ROOT / f"docs/guide/{page}.md").read_text()
    monkeypatch.chdir(tmp_path)
    for words in re.findall(r"`foreclick (simulate .*?)`", text):
        assert main(words.split()) == 0
    capsys.readouterr()
    names: dict[str, object] = {}
    for language, block in re.findall(r"```(python|text)\n(.*?)```", text, re.DOTALL):
        if language == "python":
            exec(block, names)  # noqa: S102 - our own text
        else:
            assert capsys.readouterr().out == block


def test_the_best_policy_of_the_first_example_is_what_the_page_shows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = README.read_text()
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0], names)  # noqa: S102 - our own
    capsys.readouterr()
    section = text.split("## The best policy")[1]
    code, shown = re.findall(r"```(?:python)?\n(.*?)```", section, re.DOTALL)[:2]
    exec(code, names)  # noqa: S102 - as above
    assert capsys.readouterr().out.rstrip() == shown.rstrip()
    assert (tmp_path / "policy.parquet").exists()


def test_three_statements_after_the_import_are_enough() -> None:
    code = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[0]
    first, *rest = ast.parse(code).body
    assert isinstance(first, ast.Import)
    assert len(rest) == 3
