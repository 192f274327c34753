"""If this fails, a log's name is read as a file, or its columns must be typed again and again."""

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick.cli import commands, main  # noqa: F401 - they register commands
from foreclick.cli.app import Options
from foreclick.cli.inputs import read_log
from foreclick.engines import open_source
from foreclick.errors import SourceError
from foreclick.logs.project import FILE, named_log, proposed, save_log

LOG: dict[str, Any] = {
    "query": ["q", "q", "r", "r"] * 10,
    "items": [[1, 2], [2, 1], [3, 4], [4, 3]] * 10,
    "clicks": [[1, 0], [0, 1], [0, 0], [1, 0]] * 10,
    "shown_on": [dt.date(2026, 1, 1 + day) for day in range(10) for _ in range(4)],
    "user_id": list(range(40)),
}
CANDIDATE = {"query": ["q", "r"], "items": [[2, 1], [3, 4]]}
ROLES: dict[str, Any] = {"context": "query", "period": "shown_on", "unit": "user_id"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pq.write_table(pa.table(LOG), tmp_path / "log.parquet")
    pq.write_table(pa.table(CANDIDATE), tmp_path / "new.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_log_is_read_by_its_name_from_a_folder_below_and_what_is_given_counts_more(
    folder, monkeypatch
):
    save_log("shop", "log.parquet", ROLES)
    (folder / "below").mkdir()
    monkeypatch.chdir(folder / "below")
    log = fc.read_log("shop")
    assert log.roles == fc.read_log("../log.parquet", **ROLES).roles
    by_name, by_path = (
        fc.evaluate(each, "../new.parquet", estimators="ip") for each in ("shop", log)
    )
    assert by_name.rows == by_path.rows
    given = fc.read_log("shop", unit=None, depth=1)
    assert (given.roles.unit, given.shape.depth) == (None, 1)


def test_a_file_is_no_name(folder):
    save_log("shop", "log.parquet", ROLES)
    assert named_log("shop") == {"source": str(folder / "log.parquet"), **ROLES}
    (folder / "shop").mkdir()
    for name in ("shop", "shops", "log.parquet", LOG):
        assert named_log(name) is None


def test_a_log_is_saved_in_place_of_an_earlier_one(folder):
    Path(FILE).write_text("# ours\n[other]\nsource = 'x.parquet'\n", encoding="utf-8")
    save_log("shop", "log.parquet", {"context": None, "long": ("a", "b"), "rewards": {"o": "p"}})
    save_log("last", "log.parquet", {})
    save_log("shop", 'a "b".parquet', ROLES | {"segments": ["device"]})
    assert named_log("shop") == {
        "source": str(folder / 'a "b".parquet'),
        **ROLES,
        "segments": ["device"],
    }
    assert named_log("other") == {"source": str(folder / "x.parquet")}
    assert named_log("last") == {"source": str(folder / "log.parquet")}
    assert Path(FILE).read_text(encoding="utf-8").startswith("# ours")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[shop\n", "is no TOML"),
        ("[shop]\ncontext = 'q'\n", "does not say where the log is"),
        ("[shop]\nsource = 'x'\ncontxt = 'q'\n", "'contxt', which is no option of a log. Did you"),
    ],
)
def test_a_wrong_file_is_explained(folder, text, said):
    Path(FILE).write_text(text, encoding="utf-8")
    with pytest.raises(SourceError, match=said):
        fc.read_log("shop")


ALL_ROLES = {**ROLES, "items": "items", "clicks": "clicks"}
TABLES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "lists": (LOG, ALL_ROLES),
    "a column per position": (
        {"qid": ["q"], "item_1": [1], "item_2": [2], "click_1": [0], "click_2": [1]},
        {"context": "qid", "items": "item_*", "clicks": "click_*"},
    ),
    "a row per result": (
        {"query": ["q"], "request": [1], "rank": [1], "doc": [7], "clicked": [1], "day": [3]},
        {
            "context": "query",
            "period": "day",
            "items": "doc",
            "clicks": "clicked",
            "long": ("request", "rank"),
        },
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_roles_are_proposed_by_names_and_types(name):
    table, roles = TABLES[name]
    assert proposed(open_source(pa.table(table))) == roles


TYPED = ["--context", "query", "--period", "shown_on", "--unit", "user_id"]


def printed(capsys, *words):
    assert main([*words]) == 0
    return capsys.readouterr().out


def test_the_command_line_saves_a_log_and_takes_its_name(folder, capsys):
    check = ["check", "log.parquet", "--candidate", "new.parquet", "--format", "csv"]
    plain = printed(capsys, *check, *TYPED)
    assert printed(capsys, *check, "--save", "shop", "--unit", "user_id") == plain
    assert named_log("shop") == {"source": str(folder / "log.parquet"), **ALL_ROLES}
    told = printed(capsys, "check", "log.parquet", "--save", "shop", "--unit", "user_id")
    assert "[shop] in foreclick.toml: context is 'query'" in " ".join(told.split())
    asked = ["new.parquet", "-e", "ip", "-m", "clicks@1", "--format", "json"]
    by_name = printed(capsys, "evaluate", "shop", *asked)
    assert by_name == printed(capsys, "evaluate", "log.parquet", *asked, *TYPED)


def test_limits_hold_for_a_log_by_its_name(folder):
    save_log("shop", "log.parquet", ROLES)
    log = read_log(Options(threads=1), ["shop"])
    assert isinstance(log, fc.Log)
    rows = log.engine.ask("SELECT current_setting('threads') AS threads")
    assert rows["threads"].to_pylist() == [1]
    assert log.roles == fc.read_log("shop").roles


@pytest.mark.parametrize(
    ("words", "said"),
    [(["log.parquet", "--save", "shop"], "one log"), (["--save", "my shop"], "no name of a log")],
)
def test_only_one_log_is_saved_by_a_name(folder, capsys, words, said):
    assert main(["check", "log.parquet", *words]) == 2
    assert said in capsys.readouterr().err
