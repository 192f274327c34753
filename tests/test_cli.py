"""If this fails, a command answers otherwise than the library, or fails with exit code 0."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick import simulate
from foreclick.cli import main
from foreclick.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from foreclick.results import Result

    Rows = list[dict[str, Any]]

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
DAYS = {**ROWS, "day": [1, 2, 3, 4, 4, 4] * 4, "query": ["a"] * 15 + ["b"] * 9}
CANDIDATE: dict[str, list[Any]] = {"query": ["a", "b"], "items": [[2, 1, 3], [1, 2, 3]]}
OLD: dict[str, list[Any]] = {"query": ["a", "b"], "items": [[1, 2, 3], [2, 1, 3]]}
SLOTS = [(i, k) for i in range(24) for k in range(3)]
FILES: dict[str, dict[str, Any]] = {
    "log": ROWS,
    "days": DAYS,
    "candidate": CANDIDATE,
    "old": OLD,
    "shared": {"items": [[2, 1, 3]]},
    "wide": {
        "query": ROWS["query"],
        **{f"i{k + 1}": [items[k] for items in ROWS["items"]] for k in range(3)},
        **{f"c{k + 1}": [clicks[k] for clicks in ROWS["clicks"]] for k in range(3)},
    },
    "long": {
        "query": [ROWS["query"][i] for i, _ in SLOTS],
        "request": [i for i, _ in SLOTS],
        "rank": [k + 1 for _, k in SLOTS],
        "doc": [ROWS["items"][i][k] for i, k in SLOTS],
        "hit": [ROWS["clicks"][i][k] for i, k in SLOTS],
    },
    "scores": {
        "query": ["a"] * 3 + ["b"] * 3,
        "item": [1, 2, 3] * 2,
        "score": [2.0, 3, 1, 3, 2, 1],
    },
    "slots": {
        "query": ["a", "b", "b"],
        "item": [1, 2, 1],
        "position": [1, 1, 2],
        "probability": [1.0, 0.5, 1.0],
    },
    "named": {"q": ["a", "b", "b"], "doc": [1, 2, 1], "rank": [1, 1, 2], "p": [1.0, 0.5, 1.0]},
    "best": {"context": ["q"], "items": [[1, 2]]},
    "worst": {"context": ["q"], "items": [[2, 1]]},
    "often": {"context": ["q"] * 2, "items": [[1, 2], [2, 1]], "probability": [0.7, 0.3]},
    "unseen": {"context": ["q", "r"], "items": [[8, 9], [1, 2]]},
    # Item 1 is always clicked; each of two contexts has items of its own.
    "shown": {
        "context": ["q"] * 80,
        "items": [[1, 2], [2, 1]] * 40,
        "clicks": [[1, 0], [0, 1]] * 40,
    },
    "both": {
        "context": ["q"] * 80 + ["r"] * 80,
        "items": [[1, 2], [2, 1]] * 40 + [[8, 9], [9, 8]] * 40,
        "clicks": [[1, 0], [0, 1]] * 80,
    },
    "rare": {"context": [1, 2], "items": [[1, 2]] * 2, "clicks": [[0, 1]] * 2},
}
RUN = "a Q0 2 1 9 t\na Q0 1 2 8 t\na Q0 3 3 7 t\nb Q0 1 1 3 t\nb Q0 2 2 2 t"
Q = ["--context", "query"]
ASKED = ["-m", "clicks@2", "-e", "ip"]


def write_files() -> None:
    """Logs and candidates."""
    for name, table in FILES.items():
        pq.write_table(pa.table(table), f"{name}.parquet")
    pyarrow.csv.write_csv(pa.table(FILES["wide"]), "wide.csv")
    Path("bm25.run").write_text(RUN)
    Path("empty").mkdir()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with logs and candidates, in which the test runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    write_files()
    return tmp_path


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Rows]:
    """Runs a command that must succeed and be silent on stderr; its rows, by way of JSON."""

    def ask(*words: str) -> Rows:
        assert main([*words, "--format", "json"]) == 0
        out, err = capsys.readouterr()
        assert all(line.startswith("Wrote: ") for line in err.splitlines())
        rows: Rows = json.loads(out)["rows"]
        return rows

    return ask


def read(table: dict[str, Any] = ROWS, **roles: Any) -> fc.Log:  # noqa: ANN401
    return fc.read_log(pa.table(table), **({"context": "query"} | roles))


def evaluated(candidate: Any = CANDIDATE, log: fc.Log | None = None, **asked: Any) -> Result:  # noqa: ANN401
    options = {"metrics": "clicks@2", "estimators": "ip"} | asked
    return fc.evaluate(log or read(), candidate, **options)


def backtested(**options: Any) -> Result:  # noqa: ANN401
    return fc.backtest(
        read(DAYS, period="day"), metrics="clicks@2", estimators=["ip", "rctr"], **options
    )


def compared(candidates: dict[str, Any], **options: Any) -> Result:  # noqa: ANN401
    return fc.compare(read(unit="user"), candidates, **options)


EVALUATE = ["evaluate", "log.parquet", "candidate.parquet", *Q, *ASKED]
BACKTEST = ["backtest", "days.parquet", *Q, "--period", "day", "-m", "clicks@2", "-e", "ip,rctr"]
COMPARE = ["compare", "log.parquet", *Q, "--unit", "user"]
BOTH = ["--candidate", "new=candidate.parquet", "--candidate", "old=old.parquet"]
EVERYTHING = [
    *("--segments", "country", "--period", "day", "--unit", "user", "--reward", "orders=orders"),
    *("-m", "clicks@2,orders@1", "-m", "dcg@3", "-e", "ip", "--estimator", "item,pbm"),
    *("--by", "country", "--missing", "drop", "--confidence", "0.8"),
]
TALLIED = ["evaluate", "t.parquet", "candidate.parquet", *ASKED]


def of(candidate: str, *words: str) -> list[str]:
    return ["evaluate", "log.parquet", candidate, *Q, *ASKED, *words]


def wide(*words: str) -> list[str]:
    return ["evaluate", "wide.csv", "candidate.parquet", *Q, *ASKED, *words]


NAMED = ("context=q", "item=doc", "position=rank", "probability=p")
Slots = partial(fc.Marginals, context="q", item="doc", position="rank", probability="p")
SAME: dict[str, tuple[list[str], Callable[[], Result]]] = {
    "check": (
        ["check", "log.parquet", *Q, "--period", "day", "--unit", "user"],
        lambda: fc.check(read(period="day", unit="user")),
    ),
    "support": (
        ["check", "log.parquet", "--candidate", "candidate.parquet", *Q],
        lambda: fc.support(read(), CANDIDATE),
    ),
    "evaluate": (EVALUATE, evaluated),
    "every question": (
        ["evaluate", "log.parquet", "candidate.parquet", *Q, *EVERYTHING],
        lambda: evaluated(
            log=read(segments="country", period="day", unit="user", rewards={"orders": "orders"}),
            metrics=["clicks@2", "orders@1", "dcg@3"],
            estimators=["ip", "item", "pbm"],
            by="country",
            missing="drop",
            confidence=0.8,
        ),
    ),
    "propensities": (
        [*TALLIED[:-1], "list", "--logging", "propensity"],
        lambda: evaluated(log=read(propensity="share"), logging="propensity", estimators="list"),
    ),
    "backtest": (BACKTEST, backtested),
    "examination": (
        ["examination", "days.parquet", *Q, "--period", "day", "--confidence", "0.8"],
        lambda: fc.examination(read(DAYS, period="day"), confidence=0.8),
    ),
    "judgments": (
        ["judgments", "days.parquet", *Q, "--period", "day", "-o", "grades.qrels"],
        lambda: fc.judgments(read(DAYS, period="day")),
    ),
    "ranks": ([*BACKTEST, "--ranks", "2-5"], lambda: backtested(ranks=(2, 5))),
    "forward": ([*BACKTEST, "--forward"], lambda: backtested(forward=True)),
    "compare": (
        [*COMPARE, *BOTH, "-m", "dcg@2", "-e=item", "--confidence=0.8"],
        lambda: compared(
            {"new": CANDIDATE, "old": OLD},
            metrics="dcg@2",
            estimators="item",
            confidence=0.8,
        ),
    ),
    "M and propensities": (
        ["compare", "t.parquet", *BOTH, "-m", "clicks@2", "-e=list:1.5", "--logging=propensity"],
        lambda: fc.compare(
            read(propensity="share", unit="user"),
            {"new": CANDIDATE, "old": OLD},
            metrics="clicks@2",
            estimators=fc.Weighted("list", 1.5),
            logging="propensity",
        ),
    ),
    "several M": (
        [*EVALUATE[:-2], "-e", "ip:0.5,ip:1.5", "-e", "rctr"],
        lambda: evaluated(estimators=[fc.Weighted("ip", 0.5), fc.Weighted("ip", 1.5), "rctr"]),
    ),
    # --- logs
    "commas": (wide("--items", "i1,i2,i3", "--clicks", "c1,c2,c3"), evaluated),
    "long": (TALLIED, evaluated),
    "one context": (
        ["evaluate", "log.parquet", "shared.parquet", "--context", "", *ASKED],
        lambda: evaluated(fc.Ranking(FILES["shared"], context=None), read(context=None)),
    ),
    "where and count": (
        TALLIED,
        lambda: evaluated(log=read(count="day", where="country = 'NL'")),
    ),
    # --- candidates
    "scores": (of("scores.parquet"), lambda: evaluated(fc.Ranking.from_scores(FILES["scores"]))),
    "slots": (of("slots.parquet"), lambda: evaluated(fc.Marginals(FILES["slots"]))),
    "named": (
        of("named.parquet", *(f"--column={column}" for column in NAMED)),
        lambda: evaluated(Slots(FILES["named"])),
    ),
    "a TREC run": (
        of("bm25.run", "--k", "2"),
        lambda: evaluated({"query": ["a", "b"], "items": [[2, 1], [1, 2]]}),
    ),
}


FIRST = {
    "M and propensities": ["log.parquet", "--propensity", "share", "--unit", "user"],
    "propensities": ["log.parquet", "--propensity", "share"],
    "long": ["long.parquet", "--long", "request,rank", "--items", "doc", "--clicks", "hit"],
    "where and count": ["log.parquet", "--count", "day", "--where", "country = 'NL'"],
}
"""What is tallied before."""


@pytest.mark.parametrize("name", SAME)
def test_a_command_answers_as_the_library(run, name):
    words, ask = SAME[name]
    if name in FIRST:
        run("tally", *FIRST[name], *Q, "-o", "t.parquet")
    rows = run(*words)
    assert rows
    assert rows == json.loads(ask().to_json())["rows"]


# --- files that are written -----------------------------------------------------------------------


def test_a_tally_answers_as_the_log_and_tallies_add_up(run, folder):
    raw = run(*EVALUATE)
    (written,) = run("tally", "log.parquet", *Q, "-o", "tally.parquet")
    assert written == {"tally": "tally.parquet", "records": 24, "rows": 6, "dropped": 0}
    assert run("evaluate", "tally.parquet", "candidate.parquet", *Q, *ASKED) == raw
    (row,) = run("evaluate", "tally.parquet", "tally.parquet", *ASKED)
    assert row["value"] == row["production"]
    (folder / "parts").mkdir()
    for half in (0, 1):
        table = pa.table({k: v[half::2] for k, v in ROWS.items()})
        pq.write_table(table, f"parts/{half}.parquet")
    for sources, records in (
        (["parts", *Q], 24),
        (["parts/0.parquet", "parts/1.parquet", *Q], 24),
        (["tally.parquet", "tally.parquet"], 48),
        (["t*.parquet"], 24),
        (["log.parquet", "log.parquet", "tally.parquet", *Q], 72),
    ):
        assert run("tally", *sources, "-o", "sum.parquet")[0]["records"] == records
    assert run("tally", "tally.parquet", "sum.parquet", "-o", "tally.parquet")[0]["records"] == 96


@pytest.mark.parametrize(
    ("words", "form"), [(EVALUATE, "png"), (BACKTEST, "svg"), ([*COMPARE, *BOTH], "png")]
)
def test_a_chart_is_drawn_beside_the_answer(run, folder, words, form):
    assert run(*words, "-o", f"chart.{form}")
    starts = {"png": b"\x89PNG", "svg": b"<"}
    assert (folder / f"chart.{form}").read_bytes().startswith(starts[form])


def test_simulate_writes_a_file_a_day(run, folder):
    (row,) = run("simulate", "logs", "--records", "900", "--queries", "5", "--seed", "3")
    files = sorted((folder / "logs").iterdir())
    assert (row["log"], row["records"], row["files"]) == ("logs", 900, 27)
    assert row["bytes"] == sum(file.stat().st_size for file in files)
    drawn = simulate.yandex_like(records=900, queries=5, seed=3).sample(seed=3)
    assert pa.concat_tables(map(pq.read_table, files)).equals(drawn)


def test_simulate_writes_a_candidate_and_its_truth(folder, capsys):
    words = ["simulate", "world.parquet", "--records", "900", "--queries", "20"]
    assert main([*words, "--candidate", "new.parquet"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    world = simulate.yandex_like(records=900, queries=20, seed=0)
    candidate = fc.Ranking("new.parquet")
    truth, today = (world.value(p, "clicks@3") for p in (candidate, world.logging()))
    assert f"true clicks@3 is {truth:.4f}, production's {today:.4f}" in said
    assert truth > today


# --- complaints -----------------------------------------------------------------------------------

PLAIN = ["evaluate", "log.parquet", "candidate.parquet", *Q]
GATE = ["gate", "shown.parquet", "best.parquet"]
OPTIMIZE = ["optimize", "log.parquet", *Q, "-o", "p.csv"]
REFUSED: list[tuple[list[str], str]] = [
    (["check", "none.parquet"], "no file matches 'none.parquet'"),
    (["check", "log.parquet", "--reward", "orders"], "not NAME=COLUMN"),
    (["check", "log.parquet", "candidate.parquet"], "different columns"),
    (["evaluate", "log.parquet", "none.csv"], "candidate 'none.csv': no file"),
    (["evaluate", "log.parquet"], "CANDIDATE is missing: give LOG… CANDIDATE"),
    (["tally", "log.parquet", "-o", "tally.csv"], "its ending must be one of .parquet, .pq"),
    (["tally", "log.parquet", "-o", "none/tally.parquet"], "cannot be written: there is no "),
    (["simulate", "log.csv"], "ends in .parquet"),
    (["simulate", "."], f"already holds {len(FILES)} Parquet files"),
    (["simulate", "new", "--records", "0"], "--records=0: give the number of records"),
    (["simulate", "new", "--seed", "-1"], "--seed=-1: give the seed, a whole number"),
    (["simulate", "new", "--world", "flat"], 'Invalid value "flat" for --world. Choose from:'),
    (["simulate", "shop.parquet", "--world", "shop"], "a shop is a directory"),
    (["simulate", "empty", "--candidate", "empty/new.parquet"], "part of the log"),
    ([*PLAIN, "--k", "3"], "scored items"),
    ([*PLAIN, "--k", "0"], "--k=0: give how many items a list shows"),
    ([*PLAIN, "--column", "docs"], "'docs' is not NAME=VALUE"),
    ([*PLAIN, "--column", "doc=docs"], "name the column of context, items, item, position"),
    ([*PLAIN, "-o", "answer.xls"], "answer.xls"),
    (["report", "log.parquet", "candidate.parquet", *Q], "-o, --output"),
    ([*BACKTEST, "--ranks", "5-2"], "is no range of ranks"),
    ([*BACKTEST, "--ranks", "some"], "not a whole number"),
    ([*GATE, "-m", "clicks@1,clicks@2"], "one answer"),
    ([*GATE, "-e", "ip,item"], "one answer"),
    (COMPARE, "give --candidate NAME=FILE"),
    ([*COMPARE, "--candidate", "old.parquet"], "not NAME=VALUE"),
    ([*COMPARE, "--candidate", "=old.parquet"], "not NAME=VALUE"),
    ([*COMPARE, *BOTH, "--candidate", "new=old.parquet"], "two candidates are called 'new'"),
    ([*COMPARE, "--candidate", "new=none.parquet"], "candidate 'none.parquet'"),
    ([*COMPARE, *BOTH, "-m", "clicks@1,clicks@2"], "one --metric"),
    ([*COMPARE, *BOTH, "-e", "ip,item"], "one --estimator"),
    (OPTIMIZE[:-2], "--output"),
    (
        [*OPTIMIZE[:-1], "p.txt"],
        "'p.txt' does not say what to write: its ending must be one of .parquet, .csv",
    ),
    ([*OPTIMIZE, "--contexts", "p.csv"], "Give each a file"),
    ([*OPTIMIZE, "-m", "mrr@3", "-m", "mrr@2"], "-m specified multiple times"),
    ([*OPTIMIZE, "--pessimism", "-1"], "--pessimism=-1: give a number of"),
    ([*OPTIMIZE, "--pinned", "candidate.parquet"], "pinned: the table needs the columns"),
    ([*OPTIMIZE, "--banned", "new.csv"], "--banned: no file matches 'new.csv'"),
    (["gamble"], 'Unknown command "gamble"'),
    (["evalaute"], 'Did you mean "evaluate"?'),
    (["check", "log.parquet", "--contxt", "q"], "Did you mean --context?"),
    ([], "Know the clicks"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED)
def test_bad_input_is_exit_code_2(folder, capsys, words, message):
    before = sorted(folder.iterdir())
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert "Traceback" not in err
    assert sorted(folder.iterdir()) == before


def test_a_tally_refuses_roles_that_would_change_nothing(run, capsys):
    run("tally", "log.parquet", *Q, "-o", "tally.parquet")
    assert main(["check", "tally.parquet", "--where", "day = 1", "--reward", "a=b"]) == 2
    assert "--reward, --where would change nothing" in capsys.readouterr().err


def test_a_chart_that_fails_does_not_take_the_answer_with_it(folder, capsys, monkeypatch):
    def full(*_: object) -> None:
        raise SourceError("'full.png' cannot be written: No space left on device.")

    monkeypatch.setattr("foreclick.rendering.save", full)
    assert main([*EVALUATE, "-o", "full.png", "--format", "csv"]) == 2
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 2
    assert "full.png" in err


@pytest.mark.parametrize("world", ["yandex-like", "pbm-drift"])
def test_simulate_writes_one_file(run, world):
    (row,) = run("simulate", "logs/one.parquet", "--world", world, "--records", "300")
    assert (row["records"], row["files"]) == (300, 1)
    drawn = simulate.PRESETS[world](records=300, seed=0).sample(seed=0)
    assert pq.read_table("logs/one.parquet").equals(drawn)
