"""If this fails, a pipeline reads notes as data, or the first steps do not work."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import foreclick as fc
from foreclick.cli import commands, main, start  # noqa: F401 - they register commands
from foreclick.cli.app import COMMANDS, worded
from tests.batches.sizes import in_batches
from tests.test_cli import write_files


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files()


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
        out, err = capsys.readouterr()
        assert out == text.replace("\r\n", "\n")
        assert all(line.startswith("[") for line in err.splitlines())  # how far slow work is
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
        with contextlib.suppress(OSError):  # Linux says so at the end of a terminal
            while piece := os.read(main_end, 65536):
                seen += piece
    os.close(main_end)
    assert process.returncode == 0
    assert "Reading the log …" in seen.decode()
    assert b"\x1b[1mWhat is in this log" in seen


def test_debug_shows_steps_statements_fits_and_where_it_failed(capsys):
    assert main(ASKED) == 0
    assert "converged" not in capsys.readouterr().err
    assert main([*ASKED, "--debug"]) == 0
    explained = capsys.readouterr().err
    for part in (
        r" s  Reading the log\n",
        r" s  duckdb",
        r"SELECT",
        r"    Coefficients of production, clicks: converged in \d+ steps?, score ",
        r"    Coefficients of candidates: converged in .*, condition \d",
        r"    What the interval of the lift consists of",
        r"\d s  in all\n\Z",
    ):
        assert re.search(part, explained), part
    assert main(["check", "none.parquet", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


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


def test_a_change_that_is_not_worth_having_is_a_no(capsys):
    words = ["gate", "shown.parquet", "often.parquet", "-m", "clicks@1"]
    assert main(words) == 0
    assert main([*words, "--min-effect", "90%"]) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "No difference: clicks@1 changes by" in printed
    assert "within ± 90.0% of production" in printed


# --- pipelines ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "candidate", "verdict", "code", "level", "child"),
    [
        ("shown", "best", "better", 0, "notice", None),
        ("shown", "worst", "worse", 1, "error", "failure"),
        # Each of two contexts gets what only the other has shown.
        ("both", "unseen", "cannot tell", 3, "warning", "skipped"),
    ],
)
def test_a_gate_speaks_to_pipelines(
    capsys, monkeypatch, log, candidate, verdict, code, level, child
):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    words = ["gate", f"{log}.parquet", f"{candidate}.parquet", "-m", "clicks@1"]
    assert main([*words, "--format", "json"]) == code
    answer, check = json.loads(capsys.readouterr().out)["rows"]
    assert (answer["estimator"], check["estimator"]) == ("ladder", "ip")
    assert answer["verdict"] == verdict
    assert main([*words, "--format", "github"]) == code
    assert capsys.readouterr().out.startswith(f"::{level} title=foreclick gate: {verdict}::")
    assert Path("summary.md").read_text().startswith(f"### foreclick gate: {verdict}\n")
    assert main([*words, "--format", "junit"]) == code
    suite = ET.fromstring(capsys.readouterr().out)  # noqa: S314 - our own
    assert (suite.get("tests"), suite.get("failures")) == ("1", str(int(code == 1)))
    (case,) = suite
    assert [element.tag for element in case] == [*([child] if child else []), "system-out"]


def test_contexts_are_ordered_by_traffic_with_their_items():
    shown = {"context": [*"baabbc"], "items": [[5, 6], [1, 2], [3, 2], [6, 7], [6, 5], [9]]}
    tally = fc.tally(fc.read_log(shown | {"clicks": [[0, 0]] * 5 + [[1]]}))
    for each in (tally, in_batches(tally, 2)):
        found = fc.contexts(each).lists.to_pylist()
        expected = [("b", [6, 5, 7]), ("a", [2, 1, 3]), ("c", [9])]
        assert [(row["context"], row["items"]) for row in found] == expected
