"""If this fails, README.md or docs/ do not do what they say.

`python -m tests.docs --write` rewrites printed output and the pages that are made.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ibis.backends import BaseBackend

from tests import docs, docs_files, docs_made

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGES = {str(page.relative_to(docs.ROOT)): page for page in docs.pages()}
NOTES = [*(docs.ROOT / "experiments").rglob("*.md"), docs.ROOT / "CONTRIBUTING.md"]
WORDS = 22_400
TEXTS = {name: page.read_text() for name, page in PAGES.items()}
ENGINES = ("bigquery", "postgres", "spark")


def having(condition: Callable[[docs.Block], object]) -> list[str]:
    """The pages with such a block."""
    return [name for name, text in TEXTS.items() if any(map(condition, docs.blocks(text)))]


@pytest.mark.parametrize("name", having(lambda block: block.runs and not block.engine))
def test_a_page_runs_and_prints_what_it_shows(name: str) -> None:
    assert docs.now(PAGES[name]) == TEXTS[name], "python -m tests.docs --write rewrites it"


@pytest.mark.spark
@pytest.mark.parametrize("name", having(lambda block: block.engine == "spark"))
def test_a_page_runs_on_spark(name: str, spark_session: SparkSession) -> None:
    spark_session.read.parquet(str(docs_files.list_rows())).createOrReplaceTempView("impressions")
    there = docs.now(PAGES[name], engine="spark", names={"spark": spark_session})
    assert there == TEXTS[name]


@pytest.mark.postgres
@pytest.mark.parametrize("name", having(lambda block: block.engine == "postgres"))
def test_a_page_runs_on_postgres(
    name: str, postgres: BaseBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.create_table("impressions", docs_files.long_rows(), overwrite=True)
    monkeypatch.setattr("psycopg.connect", lambda *_, **__: postgres.con)
    try:
        assert docs.now(PAGES[name], engine="postgres") == TEXTS[name]
    finally:
        postgres.drop_table("impressions", force=True)


def test_marks_of_blocks_are_known() -> None:
    for name, text in TEXTS.items():
        for block in docs.blocks(text):
            known = re.fullmatch(
                r"|not run, .+|an example|raises \w+|on (?:" + "|".join(ENGINES) + ")", block.mark
            )
            assert known, f"{name}, line {block.line}: {block.mark}"


def test_the_readme_can_be_followed_without_hidden_help() -> None:
    """In CI it is, with nothing but the wheel: `.ci/run package`."""
    assert "<!-- docs:" not in TEXTS["README.md"]


def test_commands_within_sentences_exist() -> None:
    commands = set(docs_made.command_names(docs_made.helped()))
    stages = (docs.ROOT / ".ci/run").read_text()
    for name, text in TEXTS.items():
        for command in re.findall(r"`foreclick ([a-z]+)\b", text):
            assert command in commands, f"{name}: foreclick {command}"
        for target in re.findall(r"`make ([a-z-]+)", text):
            docs.known(["make", target])
        for stage in re.findall(r"`\.ci/run ([a-z]+)", text):
            assert f"\n        {stage}) " in stages, f"{name}: {stage}"


def links(text: str) -> Iterator[str]:
    """The targets of links and images within the documentation."""
    bare = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", bare):
        if not re.match(r"[a-z]+:", target):
            yield target


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings."""
    bare = re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+?)(?: \{ #[\w-]+ \})?$", bare, re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)|[`*]", r"\1", title) for title in titles)
    made = {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", t.lower()).strip()) for t in plain}
    return made.union(re.findall(r"^#+ .+ \{ #([\w-]+) \}$", bare, re.MULTILINE))


@pytest.mark.parametrize(
    "page", [*PAGES.values(), *NOTES], ids=lambda page: str(page.relative_to(docs.ROOT))
)
def test_internal_links_lead_somewhere(page: Path) -> None:
    for target in links(page.read_text()):
        file, _, anchor = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        assert path.exists(), target
        if anchor:
            assert anchor in anchors(path.read_text()), target


def defined(file: Path) -> set[str]:
    """The tests of a file, those of classes as Class::test."""
    found = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{o.name}" for o in node.body if isinstance(o, ast.FunctionDef)}
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
    return found


def test_every_line_of_the_paper_has_a_test_that_exists() -> None:
    rows = re.findall(r"^\| (?!the paper|---).*\|$", TEXTS["docs/paper.md"], re.MULTILINE)
    assert len(rows) > 30
    for row in rows:
        proofs = re.findall(r"`(tests/[\w/]+\.py)::([\w:]+)`", row)
        assert proofs, row
        for file, name in proofs:
            assert name in defined(docs.ROOT / file), f"{file}::{name}"


def test_the_documentation_can_be_read_in_an_afternoon() -> None:
    """But for tables in which one looks things up: of the paper, of all commands, of results."""
    tables = {"docs/paper.md", "docs/cli.md"}
    results = re.compile(r"<!-- table: .*?<!-- end -->", re.DOTALL)
    counts = {n: len(results.sub("", t).split()) for n, t in TEXTS.items() if n not in tables}
    assert sum(counts.values()) <= WORDS, sorted(counts.items(), key=lambda one: -one[1])[:5]


def test_every_page_is_in_the_navigation() -> None:
    nav = tomllib.loads((docs.ROOT / "zensical.toml").read_text())["project"]["nav"]
    listed = re.findall(r"'([\w/-]+\.md)'", str(nav))
    pages = [name.removeprefix("docs/") for name in TEXTS if name != "README.md"]
    assert sorted(listed) == sorted(pages)


def test_every_file_of_tests_begins_with_what_its_failure_means() -> None:
    for file in (docs.ROOT / "tests").rglob("test_*.py"):
        first = ast.get_docstring(ast.parse(file.read_text())) or ""
        assert re.match(r"If this fails, .+\.$", first, re.MULTILINE), file


@pytest.mark.parametrize("path", docs_made.made(), ids=lambda path: path.name)
def test_made_files_are_in_step(path: Path) -> None:
    assert path.read_text() == docs_made.made()[path](), "python -m tests.docs --write"


def test_three_statements_after_the_import_are_enough() -> None:
    code = next(b.text for b in docs.blocks(TEXTS["README.md"]) if b.language == "python")
    first, *rest = ast.parse(code).body
    assert isinstance(first, ast.Import)
    assert len(rest) <= 3


RUNS = {
    "output": ("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n", "3", "2"),
    "indented": (
        "- a\n\n    ```python\n    print(4)\n    ```\n\n    ```text\n    5\n    ```\n",
        "5",
        "4",
    ),
    "hidden code": (
        "<!-- docs: setup\nx = 1\n-->\n```python\nprint(x)\n```\n\n```text\n7\n```\n",
        "7",
        "1",
    ),
    "exit codes": (
        '```sh\nforeclick --what || echo "exit $?"\n```\n\n```text\nexit 3\n```\n',
        "exit 3",
        "exit 2",
    ),
}
FAILS: dict[str, tuple[type[Exception], str]] = {
    "<!-- docs: not run, why -->\n```python\nwhat now\n```\n": (SyntaxError, ""),
    "<!-- docs: raises KeyError -->\n```python\n{}\n```\n": (docs.Differs, "no KeyError"),
    "```sh\nforeclick --no-such-option\n```\n": (docs.Differs, "exits with 2"),
    "```sh\nmake no-such-target\n```\n": (docs.Differs, "no target"),
    "```sh\npip install 'foreclick[no]'\n```\n": (docs.Differs, "no such extra"),
    "```sh\nrm -rf /tmp/x\n```\n": (docs.Differs, "what is"),
}


def test_the_runner_of_pages_can_fail(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for text, said, printed in RUNS.values():
        page.write_text(text)
        assert docs.now(page) == text.replace(said, printed)
    for text, (error, message) in FAILS.items():
        page.write_text(text)
        with pytest.raises(error, match=message or None):
            docs.now(page)
    page.write_text("```sh\npip install 'foreclick[charts,s3]'  # both\n```\n")
    assert docs.extras(page) == ["charts", "s3"]
