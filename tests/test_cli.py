"""If this fails, a command answers otherwise than the library, or fails with exit code 0."""

from __future__ import annotations

import json
import shlex
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
    "day": [1, 2] * 12,
    "user": ["u", "v", "w"] * 8,
    "country": ["NL", "DE", "NL", "BE"] * 6,
    "orders": [[1, 0, 0], [0, 0, 0]] * 12,
    "share": [1 / 2, 1 / 4, 1 / 4] * 8,
    "arm": ["old", "new"] * 12,
}
DAYS = {**ROWS, "day": [1, 2, 3, 4, 4, 4] * 4, "query": ["a"] * 15 + ["b"] * 9}
CANDIDATE: dict[str, list[Any]] = {"query": ["a", "b"], "items": [[2, 1, 3], [1, 2, 3]]}
OLD: dict[str, list[Any]] = {"query": ["a", "b"], "items": [[1, 2, 3], [2, 1, 3]]}
# Two items; the list 2, 1, 3 always wins in context a, and 1, 2, 3 in b.
BEST: dict[str, list[Any]] = {
    "query": ["a"] * 200 + ["b"] * 200,
    "items": [[1, 2, 3], [2, 1, 3]] * 200,
    "clicks": [[0, 0, 0], [1, 0, 0]] * 100 + [[1, 0, 0], [0, 0, 0]] * 100,
    "day": [1, 2, 3, 4] * 100,
}
FILES: dict[str, Any] = {
    "log": ROWS,
    "days": DAYS,
    "candidate": CANDIDATE,
    "old": OLD,
    "shared": {"items": [[2, 1, 3]]},
    "alone": {"query": ["a"], "items": [[2, 1, 3]]},
    "wide": {
        "query": ROWS["query"],
        **{f"i{k + 1}": [items[k] for items in ROWS["items"]] for k in range(3)},
        **{f"c{k + 1}": [clicks[k] for clicks in ROWS["clicks"]] for k in range(3)},
    },
    "long": [
        {"query": row["query"], "request": n, "rank": k, "doc": item, "hit": click}
        for n, row in enumerate(pa.table(ROWS).to_pylist())
        for k, (item, click) in enumerate(zip(row["items"], row["clicks"], strict=True), 1)
    ],
    "scores": {"query": [*"aaabbb"], "item": [1, 2, 3] * 2, "score": [2.0, 3, 1, 3, 2, 1]},
    "sold": {"query": ["a"] * 2, "sku": [1, 2], "shop": [1, 1], "score": [0.2, 0.7]},
    "named": {"q": ["a", "b", "b"], "doc": [1, 2, 1], "rank": [1, 1, 2], "p": [1.0, 0.5, 1.0]},
    "wins": BEST,
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
Q = "--context query"
ASKED = "-m clicks@2 -e ip"


def write_files() -> None:
    """Logs and candidates."""
    for name, rows in FILES.items():
        table = pa.table(rows) if isinstance(rows, dict) else pa.Table.from_pylist(rows)
        pq.write_table(table, f"{name}.parquet")
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
    """Runs a command that must succeed and warn of nothing; its rows, by way of JSON."""

    def ask(command: str) -> Rows:
        assert main([*shlex.split(command), "--format", "json"]) == 0
        out, err = capsys.readouterr()
        # On a slow machine, "[5 s] …" says how far the work is.
        assert all(line.startswith(("Wrote: ", "[")) for line in err.splitlines())
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


BACKTEST = f"backtest days.parquet {Q} --period day -m clicks@2 -e ip,rctr"
COMPARE = f"compare log.parquet {Q} --unit user"
BOTH = "--candidate new=candidate.parquet --candidate old=old.parquet"
EVERYTHING = (
    "--segments country --period day --unit user --reward orders=orders -m clicks@2,orders@1 "
    "-m dcg@3 -e ip --estimator item,pbm --by country --missing drop --confidence 0.8"
)


def of(candidate: str, log: str = "log.parquet") -> str:
    return f"evaluate {log} {candidate} {Q} {ASKED}"


NAMED = {"context": "q", "item": "doc", "position": "rank", "probability": "p"}
PLAIN = f"evaluate log.parquet candidate.parquet {Q}"
EVALUATE = f"{PLAIN} {ASKED}"
TALLIED = f"{Q} -o t.parquet && evaluate t.parquet candidate.parquet -m clicks@2 -e"
TWO = {"new": CANDIDATE, "old": OLD}
SAME: dict[str, Callable[[], Result]] = {
    f"check log.parquet {Q} --period day --unit user": lambda: fc.check(
        read(period="day", unit="user")
    ),
    f"check log.parquet --candidate candidate.parquet {Q}": lambda: fc.support(read(), CANDIDATE),
    EVALUATE: evaluated,
    f"evaluate log.parquet alone.parquet {Q} {EVERYTHING}": lambda: evaluated(
        FILES["alone"],
        read(segments="country", period="day", unit="user", rewards={"orders": "orders"}),
        metrics=["clicks@2", "orders@1", "dcg@3"],
        estimators=["ip", "item", "pbm"],
        by="country",
        missing="drop",
        confidence=0.8,
    ),
    f"{PLAIN} -m clicks@2 -e ip:0.5,ip:1.5 -e rctr": lambda: evaluated(
        estimators=[fc.Weighted("ip", 0.5), fc.Weighted("ip", 1.5), "rctr"]
    ),
    BACKTEST: backtested,
    f"{BACKTEST} --ranks 2-5": lambda: backtested(ranks=(2, 5)),
    f"{BACKTEST} --forward": lambda: backtested(forward=True),
    f"examination log.parquet {Q} --unit user --confidence 0.8": lambda: fc.examination(
        read(unit="user"), confidence=0.8
    ),
    f"judgments days.parquet {Q} --confidence 0.8 -o grades.qrels": lambda: fc.judgments(
        read(DAYS), confidence=0.8
    ),
    f"{COMPARE} {BOTH} -m dcg@2 -e=item --confidence=0.8": lambda: fc.compare(
        read(unit="user"), TWO, metrics="dcg@2", estimators="item", confidence=0.8
    ),
    f"tally log.parquet --propensity share --unit user {Q} -o t.parquet && "
    f"compare t.parquet {BOTH} -m clicks@2 -e=list:1.5 --logging=propensity": lambda: fc.compare(
        read(propensity="share", unit="user"),
        TWO,
        metrics="clicks@2",
        estimators=fc.Weighted("list", 1.5),
        logging="propensity",
    ),
    # --- logs
    f"tally log.parquet --propensity share {TALLIED} list --logging propensity": lambda: evaluated(
        log=read(propensity="share"), logging="propensity", estimators="list"
    ),
    f"tally long.parquet --long request,rank --items doc --clicks hit {TALLIED} ip": evaluated,
    f"{of('candidate.parquet', 'wide.csv')} --items i1,i2,i3 --clicks c1,c2,c3": evaluated,
    f"evaluate log.parquet shared.parquet --context '' {ASKED}": lambda: evaluated(
        fc.Ranking(FILES["shared"], context=None), read(context=None)
    ),
    f"tally log.parquet --count day --where \"user <> 'u'\" {TALLIED} ip": lambda: evaluated(
        log=read(count="day", where="user <> 'u'")
    ),
    # --- candidates
    of("scores.parquet"): lambda: evaluated(fc.Ranking.from_scores(FILES["scores"])),
    f"{of('named.parquet')} {' '.join(f'--column={r}={c}' for r, c in NAMED.items())}": (
        lambda: evaluated(fc.Marginals(FILES["named"], **NAMED))
    ),
    f"{of('bm25.run')} --k 2": lambda: evaluated({"query": ["a", "b"], "items": [[2, 1], [1, 2]]}),
}


@pytest.mark.parametrize("commands", SAME)
def test_a_command_answers_as_the_library(run, commands):
    *before, last = commands.split(" && ")
    for command in before:
        run(command)
    rows = run(last)
    assert rows
    assert rows == json.loads(SAME[commands]().to_json())["rows"]


# --- files that are written -----------------------------------------------------------------------


def test_a_tally_answers_as_the_log_and_tallies_add_up(run, folder):
    raw = run(EVALUATE)
    (written,) = run(f"tally log.parquet {Q} -o tally.parquet")
    assert written == {"tally": "tally.parquet", "records": 24, "rows": 6, "dropped": 0}
    assert run(f"evaluate tally.parquet candidate.parquet {Q} {ASKED}") == raw
    (row,) = run(f"evaluate tally.parquet tally.parquet {ASKED}")
    assert row["value"] == row["production"]
    (folder / "parts").mkdir()
    for half in (0, 1):
        table = pa.table({k: v[half::2] for k, v in ROWS.items()})
        pq.write_table(table, f"parts/{half}.parquet")
    for sources, records in (
        (f"parts {Q}", 24),
        (f"parts/0.parquet parts/1.parquet {Q}", 24),
        ("tally.parquet tally.parquet", 48),
        ("'t*.parquet'", 24),
        (f"log.parquet log.parquet tally.parquet {Q}", 72),
    ):
        assert run(f"tally {sources} -o sum.parquet")[0]["records"] == records
    assert run("tally tally.parquet sum.parquet -o tally.parquet")[0]["records"] == 96


@pytest.mark.parametrize("command", [EVALUATE, BACKTEST, f"{COMPARE} {BOTH}"])
def test_a_chart_is_drawn_beside_the_answer(run, command):
    assert run(f"{command} -o chart.svg")
    assert Path("chart.svg").read_bytes().startswith(b"<svg")


@pytest.mark.parametrize(
    ("out", "world", "seed", "files"),
    [("logs", "yandex-like", 3, 27), ("logs/one.parquet", "pbm-drift", 0, 1)],
)
def test_simulate_writes_a_log_a_candidate_and_its_truth(folder, capsys, out, world, seed, files):
    command = f"simulate {out} --world {world} --records 900 --queries 20 --candidate new.parquet"
    asked = [*command.split(), "--format", "json", *(["--seed", str(seed)] if seed else [])]
    assert main(asked) == 0
    content = json.loads(capsys.readouterr().out)
    (row,) = content["rows"]
    written = sorted((folder / "logs").iterdir())
    assert (row["log"], row["records"], row["files"], len(written)) == (out, 900, files, files)
    assert row["bytes"] == sum(file.stat().st_size for file in written)
    drawn = simulate.PRESETS[world](records=900, queries=20, seed=seed)
    assert pa.concat_tables(map(pq.read_table, written)).equals(drawn.sample(seed=seed))
    policies = fc.Ranking("new.parquet"), drawn.logging()
    truth, today = (drawn.value(policy, "clicks@3") for policy in policies)
    assert truth > today
    said = f"Its true clicks@3 is {truth:.4f}, production's {today:.4f}: {truth / today - 1:+.1%}."
    assert any(said in note for note in content["notes"])


# --- the best policy ------------------------------------------------------------------------------

WINS = f"optimize wins.parquet {Q} -m clicks@2"


@pytest.mark.parametrize("path", ["policy.parquet", "policy.csv"])
def test_the_written_policy_is_a_candidate(run, folder, path):
    rows = run(f"{WINS} --period day -o {path}")
    found = fc.optimize(read(BEST, period="day"), metrics="clicks@2")
    assert rows == json.loads(found.to_json())["rows"]
    assert rows[0]["changed"] == 2
    assert run(of(path, "wins.parquet"))[0]["value"] == pytest.approx(1)
    assert [file.name for file in folder.glob("policy*")] == [path]


@pytest.mark.parametrize(
    ("words", "lists"),
    [
        ("--banned banned.csv", {"a": [2, 1], "b": [1, 2]}),
        ("--max-change 0", {}),
        ("--min-shown 101", {}),
        ("--pinned pinned.csv --pessimism 0", {"a": [2, 1], "b": [2, 1]}),
    ],
)
def test_what_may_be_shown(run, words, lists):
    Path("banned.csv").write_text("item\n3\n")
    Path("pinned.csv").write_text("query,item,position\nb,2,1\n")
    run(f"{WINS} {words} --deterministic -e ip -o p.parquet --contexts c.csv")
    rows = pq.read_table("p.parquet").to_pylist()
    assert {row["query"]: row["items"][:2] for row in rows if row["changed"]} == lists
    contexts = pa.csv.read_csv("c.csv").to_pylist()
    assert [row["context"] for row in contexts if row["why"] == "changed"] == sorted(lists)


# --- complaints -----------------------------------------------------------------------------------

GATE = "gate shown.parquet best.parquet"
OPTIMIZE = f"optimize log.parquet {Q} -o p.csv"
REFUSED: list[tuple[str, str]] = [
    ("check none.parquet", "no file matches 'none.parquet'"),
    ("check log.parquet --reward orders", "not NAME=COLUMN"),
    ("check log.parquet candidate.parquet", "different columns"),
    ("evaluate log.parquet none.csv", "candidate 'none.csv': no file"),
    ("evaluate log.parquet", "CANDIDATE is missing: give LOG… CANDIDATE"),
    ("tally log.parquet -o tally.csv", "its ending must be one of .parquet, .pq"),
    ("tally log.parquet -o none/tally.parquet", "cannot be written: there is no "),
    ("simulate log.csv", "ends in .parquet"),
    ("simulate .", f"already holds {len(FILES)} Parquet files"),
    ("simulate new --records 0", "--records=0: give the number of records"),
    ("simulate new --seed -1", "--seed=-1: give the seed, a whole number"),
    ("simulate new --world flat", 'Invalid value "flat" for --world. Choose from:'),
    ("simulate shop.parquet --world shop", "a shop is a directory"),
    ("simulate empty --candidate empty/new.parquet", "part of the log"),
    (f"{PLAIN} --k 3", "scored items"),
    (f"{PLAIN} --k 0", "--k=0: give how many items a list shows"),
    (f"{PLAIN} --column docs", "'docs' is not NAME=VALUE"),
    (f"{PLAIN} --column doc=docs", "name the column of context, items, item, position"),
    (f"{PLAIN} -o answer.xls", "answer.xls"),
    (f"report log.parquet candidate.parquet {Q}", "-o, --output"),
    (f"{BACKTEST} --ranks 5-2", "is no range of ranks"),
    (f"{BACKTEST} --ranks some", "not a whole number"),
    (f"{GATE} -m clicks@1,clicks@2", "one answer"),
    (f"{GATE} -e ip,item", "one answer"),
    (COMPARE, "give --candidate NAME=FILE"),
    (f"{COMPARE} --candidate old.parquet", "not NAME=VALUE"),
    (f"{COMPARE} --candidate =old.parquet", "not NAME=VALUE"),
    (f"{COMPARE} {BOTH} --candidate new=old.parquet", "two candidates are called 'new'"),
    (f"{COMPARE} --candidate new=none.parquet", "candidate 'none.parquet'"),
    (f"{COMPARE} {BOTH} -m clicks@1,clicks@2", "one --metric"),
    (f"{COMPARE} {BOTH} -e ip,item", "one --estimator"),
    (f"optimize log.parquet {Q}", "--output"),
    (f"optimize log.parquet {Q} -o p.txt", "its ending must be one of .parquet, .csv"),
    (f"{OPTIMIZE} --contexts p.csv", "Give each a file"),
    (f"{OPTIMIZE} -m mrr@3 -m mrr@2", "-m specified multiple times"),
    (f"{OPTIMIZE} --pessimism -1", "--pessimism=-1: give a number of"),
    (f"{OPTIMIZE} --pinned candidate.parquet", "pinned: the table needs the columns"),
    (f"{OPTIMIZE} --banned new.csv", "--banned: no file matches 'new.csv'"),
    ("reproduce train --seed 7", "'train' is a log, and --seed is for a simulated one"),
    ("reproduce train.gz -o figures", "no file matches"),
    ("check log.parquet --threads 100000", "threads=100000"),
    ("gamble", 'Unknown command "gamble"'),
    ("evalaute", 'Did you mean "evaluate"?'),
    ("check log.parquet", "Did you mean --context query?"),
    (f"replay log.parquet {Q} --period day", "Did you mean --variant arm?"),
    (of("sold.parquet"), "Name them: --column context=query --column item=sku."),
    ("check log.parquet --contxt q", "Did you mean --context?"),
    ("", "Know the clicks"),
]


@pytest.mark.parametrize(("command", "message"), REFUSED)
def test_bad_input_is_exit_code_2(folder, capsys, command, message):
    before = sorted(folder.iterdir())
    assert main(shlex.split(command)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert "Traceback" not in err
    assert sorted(folder.iterdir()) == before


def test_a_tally_refuses_roles_that_would_change_nothing(run, capsys):
    run(f"tally log.parquet {Q} -o tally.parquet")
    assert main(["check", "tally.parquet", "--where", "day = 1", "--reward", "a=b"]) == 2
    assert "--reward, --where would change nothing" in capsys.readouterr().err


def test_a_chart_that_fails_does_not_take_the_answer_with_it(folder, capsys, monkeypatch):
    def full(*_: object) -> None:
        raise SourceError("'full.png' cannot be written: No space left on device.")

    monkeypatch.setattr("foreclick.rendering.save", full)
    assert main(f"{EVALUATE} -o full.png --format csv".split()) == 2
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 2
    assert "full.png" in err


def test_options_are_read_where_pydantic_is_imported(run):
    """Cyclopts then holds what was converted against the types of options."""
    pytest.importorskip("pydantic")
    assert run(f"evaluate log.parquet alone.parquet {Q} {EVERYTHING}")
