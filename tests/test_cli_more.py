"""If this fails, a pipeline reads notes as data, or the first steps do not work."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick.cli import main, start
from foreclick.cli.app import COMMANDS, worded
from tests.batches.sizes import in_batches
from tests.test_cli import ASKED as BRIEF
from tests.test_cli import Q, read, write_files


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files()


@pytest.fixture
def run(capsys):
    """Runs a command that must succeed; its rows."""

    def ask(*words):
        assert main([*words, "--format", "json"]) == 0
        return json.loads(capsys.readouterr().out)["rows"]

    return ask


ASKED = ("evaluate", "shown.parquet", "best.parquet", "-m", "clicks@1")


def test_answer_table_json_and_csv_go_to_stdout(capsys):
    log, best = fc.read_log("shown.parquet"), fc.Ranking("best.parquet")
    found = fc.evaluate(log, best, metrics="clicks@1")
    forms = {
        "answer": f"{worded(str(found), COMMANDS['evaluate'])}\n",
        "table": f"{found.table}\n",
        "csv": found.to_csv(),
    }
    assert main(ASKED) == 0
    assert capsys.readouterr().out == forms["answer"]
    for form, text in forms.items():
        assert main([*ASKED, "--format", form]) == 0
        assert capsys.readouterr() == (text.replace("\r\n", "\n"), "")
    (row, *_) = csv.DictReader(io.StringIO(forms["csv"]))
    assert (row["estimator"], row["clip"]) == ("ladder", "inf")


@pytest.mark.parametrize("form", ["answer", "table", "json", "csv"])
def test_a_warning_is_said_once_or_not_at_all(capsys, form):
    words = ["evaluate", "rare.parquet", "rare.parquet", "-e", "ip", "--format", form]
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert err.count("hardly repeat") == (form in ("json", "csv"))
    assert err.startswith("warning: ") == (form in ("json", "csv"))
    assert " ".join(out.split()).count("hardly repeat") == (form != "csv")
    assert main([*words, "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_on_a_terminal_there_are_colours_and_a_spinner():
    pty = pytest.importorskip("pty")
    words = [sys.executable, "-m", "foreclick", "check", "log.parquet", "--context", "query"]
    main_end, terminal = pty.openpty()
    env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "CI", "COLUMNS")}
    env["TERM"] = "xterm-256color"
    with subprocess.Popen(words, stdout=terminal, stderr=terminal, env=env) as process:
        os.close(terminal)
        seen = b""
        while True:
            try:
                piece = os.read(main_end, 65536)
            except OSError:  # Linux says so at the end of a terminal
                break
            if not piece:
                break
            seen += piece
    os.close(main_end)
    assert process.returncode == 0
    assert "Reading the log …" in seen.decode()
    assert b"\x1b[1mWhat is in this log" in seen


def test_debug_shows_steps_and_statements_and_where_it_failed(capsys):
    assert main([*ASKED, "--debug"]) == 0
    explained = capsys.readouterr().err
    for part in (" s  Reading the log\n", " s  duckdb", "SELECT"):
        assert part in explained
    assert explained.splitlines()[-1].endswith(" s  in all")
    assert main(["check", "none.parquet", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_debug_shows_how_fits_ended_and_what_the_interval_consists_of(capsys):
    assert main([*ASKED, "--debug"]) == 0
    explained = capsys.readouterr().err
    assert re.search(
        r"    Coefficients of production, clicks: converged in \d+ steps?, score ", explained
    )
    assert re.search(r"    Coefficients of candidates: converged in .*, condition \d", explained)
    assert "What the interval of the lift consists of" in explained
    assert main(ASKED) == 0
    assert "converged" not in capsys.readouterr().err


def test_the_demo_runs_what_it_prints(capsys, monkeypatch):
    small = [
        (why, words.replace("60000", "3000").replace("200", "8")) for why, words in start.STEPS
    ]
    monkeypatch.setattr(start, "STEPS", small)
    assert main(["demo", "my demo"]) == 0
    out = capsys.readouterr().out
    for _, words in small:
        assert f"$ foreclick {words.format(chr(39) + 'my demo' + chr(39))}" in out
    files = {f"{name}.parquet" for name in ("log", "tally", "better", "similar", "worse", "tests")}
    assert {file.name for file in Path("my demo").iterdir()} == files
    assert "Try next" in out


class TestOptimize:
    LOG: ClassVar[dict[str, list[Any]]] = {
        "query": ["a"] * 200 + ["b"] * 200,
        "items": [[1, 2, 3], [2, 1, 3]] * 200,
        "clicks": [[0, 0, 0], [1, 0, 0]] * 100 + [[1, 0, 0], [0, 0, 0]] * 100,
        "day": [1, 2, 3, 4] * 100,
    }
    WORDS: ClassVar[list[str]] = ["optimize", "big.parquet", *Q, "-m", "clicks@2"]

    @pytest.fixture(autouse=True)
    def log(self):
        pq.write_table(pa.table(self.LOG), "big.parquet")

    @pytest.mark.parametrize("path", ["policy.parquet", "policy.csv"])
    def test_the_written_policy_is_a_candidate(self, run, path):
        rows = run(*self.WORDS, "--period", "day", "-o", path)
        found = fc.optimize(read(self.LOG, period="day"), metrics="clicks@2")
        assert rows == json.loads(found.to_json())["rows"]
        assert rows[0]["changed"] == 2
        rows = run("evaluate", "big.parquet", path, *Q, *BRIEF)
        assert rows[0]["value"] == pytest.approx(1)  # by the list that always wins
        assert sorted(file.name for file in Path().glob("policy*")) == [path]

    @pytest.mark.parametrize(
        ("words", "lists"),
        [
            (["--banned", "banned.csv"], {"a": [2, 1], "b": [1, 2]}),
            (["--max-change", "0"], {}),
            (["--min-shown", "101"], {}),
            (["--pinned", "pinned.csv", "--pessimism", "0"], {"a": [2, 1], "b": [2, 1]}),
        ],
    )
    def test_what_may_be_shown(self, run, words, lists):
        Path("banned.csv").write_text("item\n3\n")
        Path("pinned.csv").write_text("query,item,position\nb,2,1\n")
        words = [*words, "--deterministic", "-e", "ip", "-o", "p.parquet", "--contexts", "c.csv"]
        run(*self.WORDS, *words)
        rows = pq.read_table("p.parquet").to_pylist()
        assert {row["query"]: row["items"][:2] for row in rows if row["changed"]} == lists
        contexts = pa.csv.read_csv("c.csv").to_pylist()
        assert [row["context"] for row in contexts if row["why"] == "changed"] == sorted(lists)


# --- verdicts -------------------------------------------------------------------------------------


def test_a_change_that_is_not_worth_having_is_a_no(capsys):
    words = ["gate", "shown.parquet", "often.parquet", "-m", "clicks@1"]
    assert main(words) == 0
    assert main([*words, "--min-effect", "90%"]) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "No difference: clicks@1 changes by" in printed
    assert "within ± 90.0% of production" in printed


def test_options_are_read_where_pydantic_is_imported(run):
    """Cyclopts then holds what was converted against the types of options."""
    pytest.importorskip("pydantic")
    words = ["--reward", "orders=orders", "-m", "clicks@1,orders@1", "--confidence", "0.8"]
    assert run("evaluate", "log.parquet", "candidate.parquet", *Q, *words)


# --- pipelines ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("candidate", "code", "level", "child"),
    [
        ("best", 0, "notice", None),
        ("worst", 1, "error", "failure"),
        ("unseen", 3, "warning", "skipped"),
    ],
)
def test_a_gate_speaks_to_pipelines(capsys, monkeypatch, candidate, code, level, child):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    # Each of two contexts gets what only the other has shown.
    log = "both" if candidate == "unseen" else "shown"
    words = ["gate", f"{log}.parquet", f"{candidate}.parquet", "-m", "clicks@1"]
    assert main([*words, "--format", "json"]) == code
    answer, check = json.loads(capsys.readouterr().out)["rows"]
    assert (answer["estimator"], check["estimator"]) == ("ladder", "ip")
    assert answer["verdict"] == {0: "better", 1: "worse", 3: "cannot tell"}[code]
    assert main([*words, "--format", "github"]) == code
    assert capsys.readouterr().out.startswith(f"::{level} title=foreclick gate: ")
    assert Path("summary.md").read_text().startswith("### foreclick gate: ")
    assert main([*words, "--format", "junit"]) == code
    suite = ET.fromstring(capsys.readouterr().out)  # noqa: S314 - our own
    assert (suite.get("tests"), suite.get("failures")) == ("1", str(int(code == 1)))
    (case,) = suite
    assert [element.tag for element in case] == [*([child] if child else []), "system-out"]


# --- contexts, and the candidate of a world -------------------------------------------------------


def test_contexts_are_ordered_by_traffic_with_their_items():
    shown = {"context": [*"baabbc"], "items": [[5, 6], [1, 2], [3, 2], [6, 7], [6, 5], [9]]}
    found = fc.contexts(shown | {"clicks": [[0, 0]] * 5 + [[1]]})
    assert [(r["context"], r["items"]) for r in found.lists.to_pylist()] == [
        ("b", [6, 5, 7]),
        ("a", [2, 1, 3]),
        ("c", [9]),
    ]
    log = fc.simulate.yandex_like(records=2000, queries=20).sample()
    tally = fc.tally(fc.read_log(log, context="query"))
    assert fc.contexts(in_batches(tally, 50)).lists.equals(fc.contexts(tally).lists)
