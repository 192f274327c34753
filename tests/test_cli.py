"""The command line: each command on small files, its output, its exit codes."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick import simulate
from foreclick.cli import commands, main  # noqa: F401 - which registers commands
from foreclick.cli.app import COMMANDS
from foreclick.errors import SourceError
from foreclick.questions.check import Check
from foreclick.results import Result

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS: dict[str, list[Any]] = {
    "query": ["a", "a", "a", "b", "b", "b"] * 4,
    "items": [[1, 2, 3], [2, 1, 3], [3, 1, 2], [1, 2, 3], [1, 3, 2], [2, 1, 3]] * 4,
    "clicks": [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 0, 0], [0, 1, 1]] * 4,
    "shadow": [[2, 1, 3]] * 24,
    "day": [1, 2] * 12,
    "user": ["u", "v", "w"] * 8,
    "country": ["NL", "DE", "NL", "BE"] * 6,
    "orders": [[1, 0, 0], [0, 0, 0]] * 12,
    "share": [1 / 3] * 24,
}
CANDIDATE: dict[str, list[Any]] = {"query": ["a", "b"], "items": [[2, 1, 3], [1, 2, 3]]}
SCORES: dict[str, list[Any]] = {
    "query": ["a"] * 3 + ["b"] * 3,
    "item": [1, 2, 3] * 2,
    "score": [2.0, 3, 1, 3, 2, 1],
}
ASKED = ["-m", "clicks@2", "-e", "ip"]

Rows = list[dict[str, Any]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a log and a candidate, in which the test runs."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table(ROWS), "log.parquet")
    pq.write_table(pa.table(CANDIDATE), "candidate.parquet")
    return tmp_path


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Rows]:
    """Runs a command that must succeed and be silent on stderr; its rows, by way of JSON."""

    def ask(*words: str) -> Rows:
        assert main([*words, "--format", "json"]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        rows: Rows = json.loads(out)["rows"]
        return rows

    return ask


@pytest.fixture
def refuse(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command that must fail with exit code 2 and no output; what it complains about."""

    def ask(*words: str) -> str:
        assert main(words) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("foreclick")
        assert "Traceback" not in err
        return err

    return ask


def write(path: str, table: dict[str, Any]) -> str:
    pq.write_table(pa.table(table), path)
    return path


def expected(candidate: fc.Policy, count: str | None = None) -> list[dict[str, Any]]:
    log = fc.read_log(pa.table(ROWS), context="query", count=count)
    return fc.evaluate(log, candidate, metrics="clicks@2", estimators="ip").to_dicts()


def same(rows: Rows, others: list[dict[str, Any]]) -> bool:
    return bool(rows) and [r["value"] for r in rows] == [o["value"] for o in others]


# --- the commands -------------------------------------------------------------------------------


def test_check_tells_what_is_in_a_log(run):
    rows = run("check", "log.parquet", "--context", "query", "--period", "day", "--unit", "user")
    facts = {row["fact"]: row["found"] for row in rows}
    assert facts["records"] == 24
    assert facts["contexts"] == 2
    assert facts["units"] == 3


def test_evaluate_equals_the_library(run):
    rows = run("evaluate", "log.parquet", "candidate.parquet", "--context", "query", *ASKED)
    assert same(rows, expected(fc.Ranking(pa.table(CANDIDATE), context="query")))
    assert rows[0]["clip"] == "inf"


def test_evaluate_asks_every_question(run):
    words = ["--context", "query", "--segments", "country", "--period", "day", "--unit", "user"]
    words += ["--reward", "orders=orders", "-m", "clicks@2,orders@1", "-m", "dcg@3", "-e", "ip"]
    words += ["--estimator", "item,pbm", "--by", "country"]
    rows = run("evaluate", "log.parquet", "candidate.parquet", *words, "--missing", "drop")
    assert len(rows) == 3 * 3 * 3
    assert {r["metric"] for r in rows} == {"clicks@2", "orders@1", "dcg@3"}
    assert {r["country"] for r in rows} == {"NL", "DE", "BE"}


def test_evaluate_weighs_by_propensity(run):
    run("tally", "log.parquet", "--context", "query", "--propensity", "share", "-o", "t.parquet")
    words = ["-m", "clicks@3", "-e", "list", "--logging", "propensity"]
    rows = run("evaluate", "t.parquet", "candidate.parquet", *words)
    assert rows[0]["value"] == pytest.approx(1.5)


def test_support_tells_how_far_the_log_sees(run):
    rows = run("check", "log.parquet", "--candidate", "candidate.parquet", "--context", "query")
    assert {r["estimator"] for r in rows} == {"list", "prefix", "ip", "item"}
    assert all(r["covered"] == pytest.approx(1) for r in rows)


HELD_OUT = ["--context", "query", "--period", "day", "-m", "clicks@2"]


def test_backtest_judges_the_estimators(run):
    rows = run("backtest", "log.parquet", *HELD_OUT, "-e", "ip,rctr")
    log = fc.read_log(pa.table(ROWS), context="query", period="day")
    names = ["ip", "rctr"]
    found = fc.backtest(log, metrics="clicks@2", estimators=names)
    assert len(rows) == 2
    assert [row["rmse"] for row in rows] == pytest.approx(found["rmse"])
    assert [row["estimator"] for row in rows] == found["estimator"]


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["--ranks", "1"], {"ranks": 1}),
        (["--ranks", "2-5"], {"ranks": (2, 5)}),
        (["--block", "2"], {"block": 2}),
        (["--forward"], {"forward": True}),
    ],
)
def test_backtest_by_another_protocol(run, words, options):
    days = {**ROWS, "day": [1, 2, 3, 4, 4, 4] * 4, "query": ["a"] * 15 + ["b"] * 9}
    rows = run("backtest", write("days.parquet", days), *HELD_OUT, "-e", "ip", *words)
    log = fc.read_log(pa.table(days), context="query", period="day")
    found = fc.backtest(log, metrics="clicks@2", estimators="ip", **options)
    usual = fc.backtest(log, metrics="clicks@2", estimators="ip")
    assert [row["rmse"] for row in rows] == pytest.approx(found["rmse"])
    assert [row["pairs"] for row in rows] == found["pairs"]
    assert found["rmse"] != pytest.approx(usual["rmse"])


@pytest.mark.parametrize(("command", "form"), [("evaluate", "png"), ("backtest", "svg")])
def test_a_chart_is_drawn_beside_the_answer(run, folder, command, form):
    starts = {"png": b"\x89PNG", "svg": b"<"}
    files = ["log.parquet", *([] if command == "backtest" else ["candidate.parquet"])]
    assert run(command, *files, *HELD_OUT, "-o", f"chart.{form}")
    assert (folder / f"chart.{form}").read_bytes().startswith(starts[form])


def test_a_chart_that_fails_does_not_take_the_answer_with_it(folder, capsys, monkeypatch):
    def full(*_: object) -> None:
        raise SourceError("'full.png' cannot be written: No space left on device.")

    monkeypatch.setattr("foreclick.rendering.save", full)
    words = ["evaluate", "log.parquet", "candidate.parquet", *HELD_OUT, "-o", "full.png"]
    assert main([*words, "--format", "csv"]) == 2
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 3
    assert "full.png" in err


def test_simulate_writes_a_file_a_day(run, folder):
    (row,) = run("simulate", "logs", "--records", "900", "--queries", "5", "--seed", "3")
    files = sorted((folder / "logs").iterdir())
    assert (row["log"], row["records"], row["files"]) == ("logs", 900, 27)
    assert row["bytes"] == sum(file.stat().st_size for file in files)
    drawn = simulate.yandex_like(records=900, queries=5, seed=3).sample(seed=3)
    assert pa.concat_tables(map(pq.read_table, files)).equals(drawn)
    roles = ["--context", "query", "--period", "day", "--unit", "user"]
    assert run("check", "logs", *roles)[0]["found"] == 900


@pytest.mark.parametrize("world", ["yandex-like", "pbm-drift", "illustrative-query"])
def test_simulate_writes_one_file(run, folder, world):
    (row,) = run("simulate", "logs/one.parquet", "--world", world, "--records", "300")
    assert (row["records"], row["files"]) == (300, 1)
    drawn = simulate.PRESETS[world](records=300, seed=0).sample(seed=0)
    assert pq.read_table("logs/one.parquet").equals(drawn)


def test_a_tally_is_recognised_and_answers_as_the_log(run):
    roles = ["--context", "query"]
    raw = run("evaluate", "log.parquet", "candidate.parquet", *roles, *ASKED)
    (written,) = run("tally", "log.parquet", *roles, "-o", "tally.parquet")
    assert written == {"tally": "tally.parquet", "records": 24, "rows": 6, "dropped": 0}
    assert run("evaluate", "tally.parquet", "candidate.parquet", *roles, *ASKED) == raw
    assert run("check", "tally.parquet")


def test_tallies_and_logs_add_up(run):
    words = ["--context", "query", "-o"]
    run("tally", "log.parquet", *words, "one.parquet")
    assert run("tally", "one.parquet", "one.parquet", "-o", "two.parquet")[0]["records"] == 48
    assert run("tally", "t*.parquet", "-o", "sum.parquet")[0]["records"] == 48
    both = run("tally", "log.parquet", "log.parquet", "one.parquet", *words, "three.parquet")
    assert both[0]["records"] == 72
    grown = run("tally", "one.parquet", "two.parquet", "-o", "one.parquet")
    assert grown[0]["records"] == 72


def test_a_directory_is_the_files_in_it(run, folder):
    (folder / "days").mkdir()
    for day in (1, 2):
        write(f"days/{day}.parquet", {k: v[day - 1 :: 2] for k, v in ROWS.items()})
    (row,) = run("tally", "days", "--context", "query", "-o", "sum.parquet")
    assert row["records"] == 24
    pieces = ("days/1.parquet", "days/2.parquet")
    assert run("check", *pieces, "--context", "query", "--unit", "user")[0]["found"] == 24


# --- columns of the log -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["--items", "i1,i2,i3", "--clicks", "c1,c2,c3"],
        ["--items=i1", "--items=i2", "--items=i3", "--clicks=c1", "--clicks=c2,c3"],
    ],
)
def test_wide_columns_by_commas_or_repetition_from_csv(run, words):
    wide = {"query": ROWS["query"]}
    for k in range(3):
        wide[f"i{k + 1}"] = [items[k] for items in ROWS["items"]]
        wide[f"c{k + 1}"] = [clicks[k] for clicks in ROWS["clicks"]]
    pyarrow.csv.write_csv(pa.table(wide), "wide.csv")
    rows = run("evaluate", "wide.csv", "candidate.parquet", "--context", "query", *words, *ASKED)
    assert same(rows, expected(fc.Ranking(pa.table(CANDIDATE), context="query")))


def test_a_trailing_comma_makes_one_wide_column(run):
    write("one.parquet", {"context": ["q"] * 2, "shown": [1, 2], "clicked": [1, 0]})
    rows = run("check", "one.parquet", "--items", "shown,", "--clicks", "clicked,")
    assert {row["fact"]: row["found"] for row in rows}["longest list"] == 1


def test_long_layout(run):
    slots = [(i, k) for i in range(24) for k in range(3)]
    long = {
        "query": [ROWS["query"][i] for i, _ in slots],
        "request": [i for i, _ in slots],
        "rank": [k + 1 for _, k in slots],
        "doc": [ROWS["items"][i][k] for i, k in slots],
        "hit": [ROWS["clicks"][i][k] for i, k in slots],
    }
    words = ["--long", "request,rank", "--items", "doc", "--clicks", "hit", "--context", "query"]
    run("tally", write("long.parquet", long), *words, "-o", "tally.parquet")
    rows = run("evaluate", "tally.parquet", "candidate.parquet", *ASKED)
    assert same(rows, expected(fc.Ranking(pa.table(CANDIDATE), context="query")))


def test_one_context_for_all(run):
    write("shared.parquet", {"items": [[2, 1, 3]]})
    rows = run("evaluate", "log.parquet", "shared.parquet", "--context", "", *ASKED)
    assert rows[0]["contexts"] == 1


def test_where_and_count(run):
    words = ["--context", "query", "--count", "day", "--where", "country = 'NL'"]
    (row,) = run("tally", "log.parquet", *words, "-o", "tally.parquet")
    assert row["records"] == sum(
        day for day, country in zip(ROWS["day"], ROWS["country"], strict=True) if country == "NL"
    )


def test_invalid_rows_are_refused_or_dropped(refuse, folder, capsys):
    broken = {"context": ["q", "q"], "items": [[1, 2], [1, 1]], "clicks": [[0, 1], [0, 1]]}
    write("broken.parquet", broken)
    assert "twice" in refuse("check", "broken.parquet")
    words = ["broken.parquet", "--invalid", "drop", "-o", "tally.parquet"]
    assert main(["tally", *words]) == 0
    assert "Left out" in capsys.readouterr().out


# --- candidates ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "words", "policy"),
    [
        (SCORES, [], lambda t: fc.Ranking.from_scores(t, context="query")),
        (SCORES, ["--k", "2"], lambda t: fc.Ranking.from_scores(t, context="query", k=2)),
        (
            {**CANDIDATE, "probability": [1.0, 1.0]},
            [],
            lambda t: fc.Lists(t, context="query"),
        ),
        (
            {"query": ["a", "b"], "item": [1, 2], "position": [1, 1], "probability": [1.0, 0.5]},
            [],
            lambda t: fc.Marginals(t, context="query"),
        ),
        (
            {"q": ["a", "b"], "doc": [1, 2], "rank": [1, 1], "p": [1.0, 0.5]},
            [
                "--column=context=q",
                "--column=item=doc",
                "--column=position=rank",
                "--column=probability=p",
            ],
            lambda t: fc.Marginals(t, "q", "doc", "rank", "p"),
        ),
        (
            {"query": SCORES["query"], "doc": SCORES["item"], "points": SCORES["score"]},
            ["--score", "points", "--column", "item=doc"],
            lambda t: fc.Ranking.from_scores(t, context="query", item="doc", score="points"),
        ),
        (
            {"q": ["a", "b"], "docs": [[2, 1], [1, 2]]},
            ["--column", "context=q", "--column", "items=docs"],
            lambda t: fc.Ranking(t, context="q", items="docs"),
        ),
    ],
)
def test_a_candidate_is_told_from_its_columns_or_options(run, table, words, policy):
    write("other.parquet", table)
    rows = run("evaluate", "log.parquet", "other.parquet", "--context", "query", *words, *ASKED)
    assert same(rows, expected(policy(pa.table(table))))


def test_a_tally_as_candidate_is_what_it_observed(run):
    run("tally", "log.parquet", "--context", "query", "-o", "tally.parquet")
    (row,) = run("evaluate", "tally.parquet", "tally.parquet", *ASKED)
    assert row["value"] == row["production"]


def test_a_trec_run_is_a_ranking(run, refuse, folder):
    lines = ["a Q0 2 1 9 t", "a Q0 1 2 8 t", "a Q0 3 3 7 t", "b Q0 1 1 3 t", "b Q0 2 2 2 t"]
    (folder / "bm25.run").write_text("\n".join(lines))
    words = ["--context", "query", *ASKED]
    table = write("lists.parquet", {"query": ["a", "b"], "items": [[2, 1], [1, 2]]})
    found = run("evaluate", "log.parquet", "bm25.run", "--k", "2", *words)
    assert found == run("evaluate", "log.parquet", table, *words)


# --- output -------------------------------------------------------------------------------------


def test_table_and_csv_go_to_stdout(folder, capsys):
    words = ["evaluate", "log.parquet", "candidate.parquet", "--context", "query", *ASKED]
    assert main(words) == 0
    assert capsys.readouterr().out.startswith("Candidate against production, by ip")
    assert main([*words, "--format", "table"]) == 0
    table = capsys.readouterr().out
    assert sum(line.startswith("ip ") for line in table.splitlines()) == 1
    assert "\x1b" not in table
    assert main([*words, "--format", "csv"]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (row["estimator"], row["clip"]) == ("ip", "inf")


@pytest.mark.parametrize("form", ["answer", "table", "json", "csv"])
def test_a_warning_is_said_once(folder, capsys, form):
    log = {"context": [1, 2], "items": [[1, 2]] * 2, "clicks": [[0, 1]] * 2}
    write("rare.parquet", log)
    assert main(["evaluate", "rare.parquet", "rare.parquet", *ASKED, "--format", form]) == 0
    out, err = capsys.readouterr()
    assert err.count("hardly repeat") == (form in ("json", "csv"))
    assert err.startswith("warning: ") == (form in ("json", "csv"))
    assert " ".join(out.split()).count("hardly repeat") == (form != "csv")


def test_warnings_of_others_go_their_usual_way(folder, capsys, monkeypatch):
    def noisy(*_: object) -> Check:
        warnings.warn("the sky is falling", UserWarning, stacklevel=1)
        return Check((), ())

    monkeypatch.setattr(COMMANDS["check"], "run", noisy)
    with pytest.warns(UserWarning, match="sky"):
        assert main(["check", "log.parquet"]) == 0


def test_on_a_terminal_there_are_colours_and_a_spinner(folder):
    pty = pytest.importorskip("pty")
    words = [sys.executable, "-m", "foreclick", "check", "log.parquet", "--context", "query"]
    main_end, terminal = pty.openpty()
    env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "CI")}
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


# --- exit codes and complaints ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["check", "none.parquet"], "no file matches 'none.parquet'"),
        (["check", "log.parquet"], "context='context'"),
        (["evaluate", "log.parquet", "log.parquet", "--context", "query"], "different lists"),
        (["evaluate", "log.parquet", "none.csv"], "candidate 'none.csv': no file"),
        (["evaluate", "log.parquet"], "CANDIDATE is missing: give LOG… CANDIDATE"),
        (["check", "log.parquet", "--reward", "orders"], "not NAME=COLUMN"),
        (["check", "log.parquet", "candidate.parquet"], "different columns"),
        (["tally", "log.parquet", "-o", "tally.csv"], "Parquet file"),
        (["tally", "log.parquet", "-o", "none/tally.parquet"], "directory that exists"),
        (["simulate", "log.csv"], "ends in .parquet"),
        (["simulate", "."], "already holds 2 Parquet files"),
        (["simulate", "new", "--records", "0"], "'0' is not a whole number above 0"),
        (["simulate", "new", "--seed", "-1"], "'-1' is not a whole number"),
        (["simulate", "new", "--world", "flat"], 'Invalid value "flat" for --world. Choose from:'),
        (
            ["simulate", "new", "--world", "illustrative-query", "--queries", "2"],
            "is one query: --queries would change nothing",
        ),
        (["gamble"], 'Unknown command "gamble"'),
        (["evalaute"], 'Did you mean "evaluate"?'),
        (["check", "log.parquet", "--contxt", "q"], "Did you mean --context?"),
        ([], "Know the clicks"),
    ],
)
def test_bad_input_is_exit_code_2(folder, capsys, words, message):
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-m", "ndcg@3"], "ndcg"),
        (["-e", "magic"], "magic"),
        (["--by", "country"], "country"),
        (["--k", "3"], "scored items"),
        (["--k", "0"], "'0' is not a whole number above 0"),
        (["--column", "docs"], "'docs' is not NAME=VALUE"),
        (["--column", "doc=docs"], "name the column of context, items, item, position"),
        (["--where", "nonsense ="], "nonsense"),
    ],
)
def test_a_bad_question_is_exit_code_2(refuse, words, message):
    base = ["evaluate", "log.parquet", "candidate.parquet", "--context", "query"]
    assert message in refuse(*base, *words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--ranks", "5-2"], "no range; write 101-1000"),
        (["--ranks", "some"], "not a whole number"),
        (["--block", "0"], "not a whole number above 0"),
        (["-o", "none/chart.png"], "there is no 'none'"),
        (["--ranks", "3"], "period='…'"),
    ],
)
def test_a_bad_backtest_is_exit_code_2(refuse, words, message):
    assert message in refuse("backtest", "log.parquet", "--context", "query", *words)


def test_a_tally_refuses_roles_that_would_change_nothing(run, refuse):
    run("tally", "log.parquet", "--context", "query", "-o", "tally.parquet")
    message = refuse("check", "tally.parquet", "--where", "day = 1", "--reward", "a=b")
    assert "--reward, --where would change nothing" in message


def test_an_interrupt_is_exit_code_130(folder, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(COMMANDS["check"], "run", interrupted)
    assert main(["check", "log.parquet"]) == 130


def test_a_file_that_cannot_be_written_is_exit_code_2(refuse, folder):
    (folder / "taken.parquet").mkdir()
    words = ["--context", "query", "-o", "taken.parquet"]
    assert "taken.parquet" in refuse("tally", "log.parquet", *words)


def test_version_and_help(capsys):
    for words, text in (
        (["--version"], f"foreclick {fc.__version__}"),
        (["--help"], "How many clicks a candidate would get"),
        (["evaluate", "--help"], "Examples"),
        (["evaluate", "--help-all"], "--segments"),
    ):
        assert main(words) == 0
        assert text in capsys.readouterr().out


def test_as_a_module_in_a_pipe_without_stdin(folder):
    words = ["evaluate", "log.parquet", "candidate.parquet", "--context", "query", *ASKED]
    done = subprocess.run(
        [sys.executable, "-m", "foreclick", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
    )
    assert "→" in done.stdout.decode()
    # On a busy machine it takes so long that progress is reported.
    assert [line for line in done.stderr.splitlines() if not line.startswith(b"[")] == []


def test_a_broken_pipe_is_no_drama(folder):
    words = [sys.executable, "-m", "foreclick", "check", "log.parquet", "--context", "query"]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


class TestGate:
    """One list a record; the first item is clicked always, the second never."""

    @pytest.fixture
    def shown(self, folder):
        lists = [[1, 2], [2, 1]] * 40
        rows = {
            "context": ["q"] * 80,
            "items": lists,
            "clicks": [[int(i == 1) for i in x] for x in lists],
        }
        pq.write_table(pa.table(rows), "shown.parquet")
        for name, items in (("best", [1, 2]), ("worst", [2, 1]), ("strange", [8, 9])):
            pq.write_table(pa.table({"context": ["q"], "items": [items]}), f"{name}.parquet")

    @pytest.mark.parametrize(
        ("candidate", "code", "word"),
        [("best", 0, "better"), ("worst", 1, "worse"), ("strange", 3, "cannot tell")],
    )
    def test_exits_by_its_verdict(self, shown, capsys, candidate, code, word):
        if candidate == "strange":  # each context gets what only the other one has shown
            rows = pq.read_table("shown.parquet").to_pylist()
            rows += [row | {"context": "r", "items": [i + 7 for i in row["items"]]} for row in rows]
            pq.write_table(pa.Table.from_pylist(rows), "shown.parquet")
            swapped = {"context": ["q", "r"], "items": [[8, 9], [1, 2]]}
            pq.write_table(pa.table(swapped), "strange.parquet")
        words = [
            "gate",
            "shown.parquet",
            f"{candidate}.parquet",
            "-m",
            "clicks@1",
            "--format",
            "json",
        ]
        assert main(words) == code
        answer, check = json.loads(capsys.readouterr().out)["rows"]
        assert (answer["estimator"], answer["verdict"]) == ("ladder", word)
        assert check["estimator"] == "ip"

    def test_a_change_that_is_not_worth_having_is_a_no(self, shown, capsys):
        often = {"context": ["q"] * 2, "items": [[1, 2], [2, 1]], "probability": [0.7, 0.3]}
        pq.write_table(pa.table(often), "often.parquet")
        words = ["gate", "shown.parquet", "often.parquet", "-m", "clicks@1"]
        assert main(words) == 0
        assert main([*words, "--min-effect", "90%"]) == 1
        printed = " ".join(capsys.readouterr().out.split())
        assert "No difference: clicks@1 changes by" in printed
        assert "within ± 90.0% of production" in printed
        assert main([*words, "--min-effect", "90"]) == 2
        assert "Did you mean 0.9?" in capsys.readouterr().err

    @pytest.mark.parametrize("two", [["-m", "clicks@1,clicks@2"], ["-e", "ip,item"]])
    def test_has_one_answer(self, shown, refuse, two):
        assert "one answer" in refuse("gate", "shown.parquet", "best.parquet", *two)


class TestCompare:
    """Two candidates on a log of three users."""

    ASKED = ("compare", "log.parquet", "--context", "query", "--unit", "user")
    BOTH = ("--candidate", "new=candidate.parquet", "--candidate", "old=old.parquet")

    @pytest.fixture
    def old(self, folder):
        write("old.parquet", {"query": ["a", "b"], "items": [[1, 2, 3], [2, 1, 3]]})

    def test_equals_the_library(self, run, old):
        words = ["-m", "clicks@2", "-e", "item", "--confidence", "0.8"]
        rows = run(*self.ASKED, *self.BOTH, *words)
        found = fc.compare(
            fc.read_log(pa.table(ROWS), context="query", unit="user"),
            {
                name: fc.Ranking(f"{file}.parquet", context="query")
                for name, file in (("new", "candidate"), ("old", "old"))
            },
            metrics="clicks@2",
            estimators="item",
            confidence=0.8,
        )
        assert rows == json.loads(found.to_json())["rows"]
        pairs = [(row["candidate"], row["against"]) for row in rows]
        assert pairs == [("new", "production"), ("old", "production"), ("new", "old")]

    def test_every_option_is_handed_on(self, folder, monkeypatch):
        asked: dict[str, Any] = {"min_effect": 0.1, "confidence": 0.8}
        asked |= {"metrics": "dcg@2", "estimators": "item", "missing": "error"}
        told: dict[str, Any] = {}

        def listen(*_: object, **options: object) -> Result:
            told.update(options)
            return Result(({"value": 1.0},), ("value",))

        monkeypatch.setattr(fc, "compare", listen)
        options = {name: f"--{name.removesuffix('s')}" for name in ("metrics", "estimators")}
        words = [(options.get(name, f"--{name}"), str(value)) for name, value in asked.items()]
        assert main([*self.ASKED, *self.BOTH[:2], *(word for pair in words for word in pair)]) == 0
        assert told == asked

    def test_is_printed_and_drawn(self, old, folder, capsys):
        assert main([*self.ASKED, *self.BOTH, "-o", "chart.png"]) == 0
        assert capsys.readouterr().out.startswith("Candidates against production: clicks@3")
        assert (folder / "chart.png").read_bytes().startswith(b"\x89PNG")
        assert main([*self.ASKED, *self.BOTH, "--format", "csv"]) == 0
        (first, *_) = csv.DictReader(io.StringIO(capsys.readouterr().out))
        assert first["candidate"] == "new"

    def test_contexts_without_a_list_are_production(self, run, refuse):
        write("half.parquet", {"query": ["a"], "items": [[2, 1, 3]]})
        half = ["--candidate", "half=half.parquet"]
        assert "missing=" in refuse(*self.ASKED, *half)
        (row,) = run(*self.ASKED, *half, "--missing", "production")
        assert row["change"] is not None
        assert "missing='drop': say 'error' or 'production'" in refuse(
            *self.ASKED, *half, "--missing", "drop"
        )

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ([], "give --candidate NAME=FILE"),
            (["--candidate", "old.parquet"], "not NAME=VALUE"),
            (["--candidate", "=old.parquet"], "not NAME=VALUE"),
            ([*BOTH, "--candidate", "new=old.parquet"], "two candidates are called 'new'"),
            (["--candidate", "new=none.parquet"], "candidate 'none.parquet'"),
            (["--candidate", "production=old.parquet"], "production itself"),
            ([*BOTH, "-m", "clicks@1,clicks@2"], "one --metric"),
            ([*BOTH, "-e", "ip,item"], "one --estimator"),
        ],
    )
    def test_a_bad_question_is_exit_code_2(self, old, refuse, words, message):
        assert message in refuse(*self.ASKED, *words)


class TestOptimize:
    LOG: ClassVar[dict[str, list[Any]]] = {
        "query": ["a"] * 200 + ["b"] * 200,
        "items": [[1, 2, 3], [2, 1, 3]] * 200,
        "clicks": [[0, 0, 0], [1, 0, 0]] * 100 + [[1, 0, 0], [0, 0, 0]] * 100,
        "day": [1, 2, 3, 4] * 100,
    }
    WORDS: ClassVar[list[str]] = ["big.parquet", "--context", "query", "-m", "clicks@2"]
    FAST: ClassVar[list[str]] = ["-e", "ip"]

    @pytest.fixture(autouse=True)
    def log(self, folder):
        write("big.parquet", self.LOG)

    @pytest.mark.parametrize("path", ["policy.parquet", "policy.csv"])
    def test_the_written_policy_is_a_candidate(self, run, folder, path):
        words = ["--items", "items", "--period", "day"]
        [best] = run("optimize", *self.WORDS, *words, "-o", path)
        library = fc.optimize(
            fc.read_log(pa.table(self.LOG), context="query", period="day"),
            metrics="clicks@2",
        )
        assert best == json.loads(library.to_json())["rows"][0]
        assert best["changed"] == 2
        rows = run("evaluate", *self.WORDS[:3], path, "--items", "items", *ASKED)
        assert rows[0]["value"] == pytest.approx(1)  # by the list that always wins
        assert sorted(file.name for file in folder.glob("policy*")) == [path]

    def test_constraints(self, run):
        write("pinned.parquet", {"query": ["a"], "item": [3], "position": [1]})
        write("banned.parquet", {"query": ["b"], "item": [1]})
        words = ["--pinned", "pinned.parquet", "--banned", "banned.parquet"]
        words += ["--pessimism", "0"]
        write(
            "big.parquet", self.LOG | {"items": [[1, 2, 3], [2, 3, 1], [3, 1, 2], [2, 1, 3]] * 100}
        )
        run("optimize", *self.WORDS, *words, *self.FAST, "-o", "p.parquet", "--contexts", "c.csv")
        lists = pq.read_table("p.parquet").to_pylist()
        assert {row["items"][0] for row in lists if row["query"] == "a"} == {3}
        assert 1 not in {item for row in lists if row["query"] == "b" for item in row["items"]}
        contexts = pa.csv.read_csv("c.csv").to_pylist()
        assert [(row["context"], row["why"]) for row in contexts] == [
            ("a", "changed"),
            ("b", "changed"),
        ]

    @pytest.mark.parametrize(
        ("words", "lists"),
        [
            (["--banned", "banned.csv"], {"a": [2, 1], "b": [1, 2]}),
            (["--max-change", "0"], {}),
            (["--min-shown", "101"], {}),
        ],
    )
    def test_what_may_be_shown(self, run, words, lists):
        Path("banned.csv").write_text("item\n3\n")
        words = [*words, "--deterministic"]
        run("optimize", *self.WORDS, *words, *self.FAST, "-o", "p.parquet")
        rows = [row for row in pq.read_table("p.parquet").to_pylist() if row["changed"]]
        assert {row["query"]: row["items"] for row in rows} == lists

    def test_a_table_says_what_was_done(self, folder, capsys):
        assert main(["optimize", *self.WORDS, *self.FAST, "-o", "p.csv"]) == 0
        out, err = capsys.readouterr()
        assert "2 of 2 contexts get a new policy" in out
        assert err == ""

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ([], "--output"),
            (["-o", "p.txt"], "'p.txt': give a file that ends in .parquet or .csv"),
            (["-o", "nowhere/p.csv"], "a directory that exists"),
            (["-o", "p.csv", "--contexts", "p.csv"], "Give each a file"),
            (["-o", "p.csv", "-m", "mrr@3"], "-m specified multiple times"),
            (["-o", "p.csv", "-e", "rctr"], "cannot choose a policy"),
            (["-o", "p.csv", "--max-change", "2"], "a share from 0 to 1"),
            (["-o", "p.csv", "--pessimism", "-1"], "'-1' is not a number from 0 on"),
            (["-o", "p.csv", "--pinned", "candidate.parquet"], "there is no column 'item' in"),
            (["-o", "p.csv", "--banned", "new.csv"], "--banned: no file matches 'new.csv'"),
        ],
    )
    def test_bad_input_is_exit_code_2(self, refuse, folder, words, message):
        assert message in refuse("optimize", *self.WORDS, *words)
        assert not (folder / "p.csv").exists()
