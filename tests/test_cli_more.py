"""The command line: first steps, pipelines, and what is told meanwhile."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick.cli import demo, main, pipelines
from foreclick.questions.check import Check
from tests.batches.sizes import in_batches

LISTS = [[1, 2], [2, 1]] * 40
LOG = {
    "context": ["q"] * 80,
    "items": LISTS,
    "clicks": [[int(item == 1) for item in shown] for shown in LISTS],
}
GATE = ["gate", "log.parquet", "best.parquet", "-m", "clicks@1"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A log in which item 1 is always clicked, and the best, worst and strangest candidate."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    pq.write_table(pa.table(LOG), "log.parquet")
    for name, items in (("best", [1, 2]), ("worst", [2, 1]), ("strange", [8, 1])):
        pq.write_table(pa.table({"context": ["q"], "items": [items]}), f"{name}.parquet")
    return tmp_path


class TestGate:
    @pytest.mark.parametrize(
        ("candidate", "code", "level", "child"),
        [
            ("best", 0, "notice", None),
            ("worst", 1, "error", "failure"),
            ("strange", 3, "warning", "skipped"),
        ],
    )
    def test_speaks_to_pipelines(self, folder, capsys, monkeypatch, candidate, code, level, child):
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
        words = ["gate", "log.parquet", f"{candidate}.parquet", "-m", "clicks@1"]
        assert main([*words, "--format", "github"]) == code
        assert capsys.readouterr().out.startswith(f"::{level} title=foreclick gate: ")
        assert (folder / "summary.md").read_text().startswith("### foreclick gate: ")
        assert main([*words, "--format", "junit"]) == code
        suite = ET.fromstring(capsys.readouterr().out)  # noqa: S314 - our own
        assert (suite.get("tests"), suite.get("failures")) == ("1", str(int(code == 1)))
        (case,) = suite
        assert [element.tag for element in case] == [*([child] if child else []), "system-out"]

    def test_data_cannot_forge_what_a_pipeline_reads(self):
        row = dict.fromkeys(pipelines._COLUMNS, 0.5) | {
            "metric": 'a"<b>@3',
            "estimator": "x\n::error::y | z",
            "verdict": "better",
        }
        result = Check((row,), tuple(row), ("<note> & more",))
        assert len(pipelines.github(result).splitlines()) == 1
        assert "50.0%25" in pipelines.github(result)
        case = ET.fromstring(pipelines.junit(result))[0]  # noqa: S314 - our own
        assert 'a"<b>@3' in str(case.get("name"))
        assert case[0].text == "<note> & more"
        assert "x" in pipelines.markdown(result)


class TestContexts:
    def test_are_ordered_by_traffic_with_their_items(self):
        shown = {"context": [*"baabbc"], "items": [[5, 6], [1, 2], [3, 2], [6, 7], [6, 5], [9]]}
        found = fc.contexts(shown | {"clicks": [[0, 0]] * 5 + [[1]]})
        assert [(r["context"], r["items"]) for r in found.lists.to_pylist()] == [
            ("b", [6, 5, 7]),
            ("a", [2, 1, 3]),
            ("c", [9]),
        ]

    def test_refuse_what_is_no_number(self):
        with pytest.raises(fc.errors.OptionError, match="most=0"):
            fc.contexts(LOG, most=0)

    def test_do_not_depend_on_batches(self):
        log = fc.simulate.yandex_like(records=2000, queries=20).sample()
        tally = fc.tally(fc.read_log(log, context="query"))
        whole = fc.contexts(tally).lists
        assert fc.contexts(in_batches(tally, 50)).lists.equals(whole)


class TestSimulate:
    def test_writes_a_candidate_and_its_truth(self, folder, capsys):
        words = ["simulate", "world.parquet", "--records", "900", "--queries", "20"]
        assert main([*words, "--candidate", "new.parquet"]) == 0
        said = " ".join(capsys.readouterr().out.split())
        world = fc.simulate.yandex_like(records=900, queries=20, seed=0)
        candidate = fc.Ranking("new.parquet")
        truth, today = (world.value(p, "clicks@3") for p in (candidate, world.logging()))
        assert f"true clicks@3 is {truth:.4f}, production's {today:.4f}" in said
        assert truth > today

    def test_a_candidate_moves_better_items_up_by_one(self):
        world = fc.simulate.yandex_like(records=10, queries=30, seed=4)
        shown = world.production.on(world.production.days)
        for row in world.candidate(seed=1).table.to_pylist():
            mine = shown.contexts == row["query"]
            base = shown.lists[mine][shown.probabilities[mine].argmax()]
            before = (row["query"] * 1000 + base).tolist()
            assert sorted(before) == sorted(row["items"])
            moves = [before.index(item) - k for k, item in enumerate(row["items"])]
            assert max(moves) <= 1

    def test_a_candidate_among_the_files_of_a_log_is_refused(self, folder, capsys):
        assert main(["simulate", "logs", "--candidate", "logs/new.parquet"]) == 2
        (folder / "logs").mkdir()
        assert main(["simulate", "logs", "--candidate", "logs/new.parquet"]) == 2
        assert "part of the log" in capsys.readouterr().err


def test_a_shop_is_a_directory(folder, capsys):
    assert main(["simulate", "shop.parquet", "--world", "shop"]) == 2
    assert "a shop is a directory" in capsys.readouterr().err


def test_the_demo_runs_what_it_prints(folder, capsys, monkeypatch):
    small = [
        (why, words.replace("60000", "3000").replace("200", "8")) for why, words in demo._STORY
    ]
    monkeypatch.setattr(demo, "_STORY", small)
    assert main(["demo", "my demo"]) == 0
    out = capsys.readouterr().out
    for _, words in small:
        assert f"$ foreclick {words.format(chr(39) + 'my demo' + chr(39))}" in out
    names = ("log", "tally", "better", "equal", "worse", "tests")
    files = {f"{name}.parquet" for name in names}
    assert {file.name for file in (folder / "my demo").iterdir()} == files
    assert "Try next" in out


def test_a_report_says_how_it_was_made(folder, capsys):
    words = ["report", "log.parquet", "best.parquet", "-m", "clicks@1", "-o", "report.html"]
    assert main(words) == 0
    assert "clicks@1" in capsys.readouterr().out
    assert (folder / "report.html").stat().st_size
    assert main(words[:-2]) == 2
    assert "-o, --output" in capsys.readouterr().err


class TestOutput:
    ASKED = ("evaluate", "log.parquet", "best.parquet", "-m", "clicks@1")

    def test_goes_to_a_file_as_its_ending_says(self, folder, capsys):
        assert main([*self.ASKED, "-e", "all", "-o", "all.csv", "--format", "json"]) == 0
        rows = json.loads(capsys.readouterr().out)["rows"]
        names = [row["estimator"] for row in pyarrow.csv.read_csv("all.csv").to_pylist()]
        assert names == [row["estimator"] for row in rows]
        assert {"list", "rctr", "ladder"} <= set(names)
        assert main([*self.ASKED, "-o", "all.xls"]) == 2
        assert "all.xls" in capsys.readouterr().err

    def test_answer_and_table(self, folder, capsys):
        assert main(self.ASKED) == 0
        answer = capsys.readouterr().out
        assert main([*self.ASKED, "--format", "table"]) == 0
        table = capsys.readouterr().out
        log, best = fc.read_log("log.parquet"), fc.Ranking("best.parquet")
        found = fc.evaluate(log, best, metrics="clicks@1")
        assert (answer, table) == (f"{found}\n", f"{found.table}\n")

    def test_debug_shows_steps_and_statements(self, folder, capsys):
        assert main([*self.ASKED, "--debug"]) == 0
        explained = capsys.readouterr().err
        assert " s  Reading the log\n" in explained
        assert " s  duckdb" in explained
        assert "SELECT" in explained
        assert explained.splitlines()[-1].endswith(" s  in all")
        assert main(self.ASKED) == 0
        assert capsys.readouterr().err == ""

    def test_debug_shows_where_it_failed(self, folder, capsys):
        assert main(["check", "none.parquet"]) == 2
        assert "Traceback" not in capsys.readouterr().err
        assert main(["check", "none.parquet", "--debug"]) == 2
        assert "Traceback" in capsys.readouterr().err

    def test_quiet_says_no_warnings(self, folder, capsys):
        rare = {"context": [1, 2], "items": [[1, 2]] * 2, "clicks": [[0, 1]] * 2}
        pq.write_table(pa.table(rare), "rare.parquet")
        words = ["evaluate", "rare.parquet", "rare.parquet", "--format", "csv"]
        assert main(words) == 0
        assert "warning: " in capsys.readouterr().err
        assert main([*words, "--quiet"]) == 0
        assert capsys.readouterr().err == ""
