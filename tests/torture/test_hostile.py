"""If this fails, text from data becomes code, markup or a formula."""

from __future__ import annotations

import ast
import csv
import io
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import foreclick as fc
from foreclick.cli import main
from foreclick.cli.output import github, junit, markdown
from foreclick.errors import ForeclickError
from foreclick.results import Result
from tests.rendering.samples import Page

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"; DROP TABLE log; --',
    '=HYPERLINK("http://x", "y")',
    "+1+1",
    "-2+3",
    "@SUM(1)",
    "\tx",
    "\x1b[2J",
    "a\x00b",
    "a\nb\r\nc",
    r"$\frac{1}{0}$",
    "[link](javascript:alert(1))",
    "a|b`c`",
    "\u202eevil",
    "--><b>",
    "{0.__class__}%s%n",
    "鞋子 👟 naïve",
]
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


SEGMENT, PERIOD = "=cmd|' /C calc'!A0 <b>\x1b", '"; DROP "d'
CANDIDATE = {
    "context": HOSTILE,
    "items": [[HOSTILE[at - 1], text] for at, text in enumerate(HOSTILE)],
}


def hostile_log() -> fc.Log:
    """A log whose contexts, items, segments and columns are hostile."""
    rows: list[dict[str, Any]] = []
    for at, text in enumerate(HOSTILE):
        items = [HOSTILE[(at + i) % len(HOSTILE)] for i in range(3)]
        for record in range(8):
            clicks = [1, 0, int(record % 3 == 0)]
            shown = items[:: -1 if record % 2 else 1]
            row = {"context": text, "items": shown, "clicks": clicks}
            rows.append(row | {SEGMENT: text, PERIOD: record % 4})
    return fc.read_log(rows, segments=[SEGMENT], period=PERIOD)


def hostile_report(log: fc.Log) -> fc.Report:
    """A report whose title and command are hostile, too."""
    report = fc.report(log, CANDIDATE, by=SEGMENT, metrics="clicks@2")
    return replace(report, title=HOSTILE[0], made=(*report.made, ("Command", HOSTILE[1])))


@pytest.fixture(scope="module")
def answers() -> dict[str, Result]:
    """Every kind of answer."""
    log = hostile_log()
    cells: Any = tuple({HOSTILE[0]: text} for text in HOSTILE)
    asked: Any = {"metrics": "clicks@2", "estimators": ["item", "rctr"]}
    return {
        "plain": Result(cells, (HOSTILE[0],), tuple(HOSTILE), HOSTILE[1]),
        "evaluate": fc.evaluate(log, CANDIDATE, by=SEGMENT, **asked),
        "compare": fc.compare(log, dict.fromkeys(HOSTILE[:9:4], CANDIDATE), metrics="clicks@2"),
        "contexts": fc.contexts(log),
        "check": fc.check(log),
        "report": hostile_report(log),
    }


@pytest.mark.parametrize("name", ["plain", "evaluate", "compare", "contexts", "check", "report"])
class TestOutputs:
    def test_a_terminal_is_not_steered(self, answers, name):
        for text in (str(answers[name]), str(answers[name].table)):
            assert not CONTROL.search(text)

    def test_pages_and_notebooks_hold_no_markup_of_the_data(self, answers, name):
        result = answers[name]
        pages = [result.to_html(), result._repr_html_()]
        if name != "check":
            pages.append(result.page())
            text = "".join(Page(pages[-1]).text)
            assert HOSTILE[0] in text
            few = name in ("compare", "contexts")  # which show some of the texts
            assert few or all(each in text for each in ("\\u202eevil", "鞋子 👟 naïve"))
        for page in pages:
            assert not CONTROL.search(page)
            found = Page(page)
            assert not {"script", "img", "b"} & set(found.tags)
            assert found.tags.count("style") <= 1
            assert not [name for _, name, _ in found.attributes if name.startswith("on")]
            assert not found.links()

    def test_a_spreadsheet_computes_nothing(self, answers, name):
        table = csv.reader(io.StringIO(answers[name].to_csv(), newline=""))
        number = r"[-+]?[0-9.]+(e[-+]?[0-9]+)?|-?inf"
        texts = [cell for row in table for cell in row if not re.fullmatch(number, cell)]
        assert not [cell for cell in texts if cell[:1] in {"=", "+", "-", "@", "\t", "\r"}]


def test_only_formulas_get_an_apostrophe():
    unseen = ["\ufeff", "\u200b", "\u2060", "\0", "\x1b", "\xa0", "\u202e", " \ufeff\0", "\ufe0f"]
    formulas = ["=1", " =1", "+a", "-a", "@a", "＝1", "\tx", *(f"{each}=1" for each in unseen)]
    texts = ["a=1", "-5", "+3.2", "", "'", "\ufeffa", "\x1b[2J", "\ufeff"]
    rows: Any = tuple({"text": text, "value": -1.5} for text in formulas + texts)
    table = io.StringIO(Result(rows, ("text", "value")).to_csv(), newline="")
    expected = [f"'{text}" for text in formulas] + texts
    assert list(csv.reader(table))[1:] == [[text, "-1.5"] for text in expected]


class TestPipelines:
    """The outputs of a gate, whose notes may quote the log."""

    @pytest.fixture
    def gated(self):
        row: dict[str, Any] = dict.fromkeys(("lift", "lift_low", "lift_high", "covered"), 0.1)
        row |= {"estimator": "ip", "metric": "clicks@3", "verdict": "worse"}
        return Result((row,), tuple(row), tuple(HOSTILE))

    def test_junit_is_xml(self, gated):
        suite = ET.fromstring(junit(gated))  # noqa: S314 - our own text
        assert "<script>alert(1)</script>" in str(suite.findtext("testcase/system-out"))

    def test_markdown_and_annotations_are_plain(self, gated):
        text = markdown(gated)
        assert not CONTROL.search(text)
        assert not re.search(r"(?<!\\)[<\[`]", text)
        assert len(text.splitlines()) == 6 + len(HOSTILE) + 1
        assert len(github(gated).splitlines()) == 1


# --- code -----------------------------------------------------------------------------------------

SOURCES = Path(fc.__file__).parent
CALLS = {"eval", "exec", "compile", "__import__", "system", "popen"}
MODULES = {"pickle", "marshal", "shelve", "subprocess", "dill", "cloudpickle", "joblib"}
JUDGED = {
    ("batches/pool.py", "pickle"),
    ("batches/pool.py", "subprocess"),
    ("batches/worker.py", "pickle"),
}
"""Spark's tasks hand results back to the driver that sent them, in the user's own cluster.

Worker processes are this Python, started with a program of our own, and speak by pipes with the
process that started them alone.
"""


def _dangers(node: ast.AST) -> set[str]:
    """What a node of code calls or imports that would run text, or load it as objects."""
    if isinstance(node, ast.Import):
        return {alias.name.partition(".")[0] for alias in node.names} & MODULES
    if isinstance(node, ast.ImportFrom):
        return {str(node.module).partition(".")[0]} & MODULES
    if not isinstance(node, ast.Call):
        return set()
    called = node.func
    name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
    method = isinstance(called, ast.Attribute)  # re.compile and Engine.compile are others
    given = {word.arg or "" for word in node.keywords} & {"allow_pickle"}
    return given | ({name} & (CALLS - {"compile", "eval"} if method else CALLS))


def test_no_eval_no_shell_no_pickle():
    """A file that somebody sends is data, whatever it holds."""
    found = {
        (file.relative_to(SOURCES).as_posix(), danger)
        for file in SOURCES.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        for danger in _dangers(node)
    }
    assert found == JUDGED


# --- secrets --------------------------------------------------------------------------------------

SECRET = "hunter2-not-to-be-seen"  # noqa: S105 - made up
URLS = [
    f"postgres://me:{SECRET}@localhost:1/db",
    f"s3://key:{SECRET}@bucket/x.parquet",
    f"https://localhost:1/x.parquet?X-Amz-Signature={SECRET}",
    f"postgres://localhost:1/db?password={SECRET}",
]


@pytest.mark.parametrize("url", URLS)
def test_no_message_shows_a_secret_of_a_url(url, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    log = {"context": [1], "items": [[1]], "clicks": [[1]]}
    fc.tally(log).write_parquet("t.parquet")
    for words in (
        ["check", url, "--debug"],
        ["evaluate", "t.parquet", url, "--debug"],
        ["compare", "t.parquet", "--candidate", f"a={url}", "--debug"],
        ["tally", "t.parquet", "-o", f"{url}.parquet", "--debug"],
        ["evaluate", "t.parquet", "t.parquet", "-o", f"{url}.html", "--debug"],
    ):
        assert main(words) != 0
        out, err = capsys.readouterr()
        assert "foreclick:" in err
        assert SECRET not in out + err, words
    for ask in (fc.read_log, fc.read_tally, lambda path: fc.evaluate(log, path)):
        with pytest.raises(ForeclickError) as caught:
            ask(url)
        assert SECRET not in str(caught.value)
