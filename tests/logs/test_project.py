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


def test_a_log_is_read_by_its_name_from_a_folder_below(folder, monkeypatch):
    save_log("shop", "log.parquet", ROLES)
    (folder / "below").mkdir()
    monkeypatch.chdir(folder / "below")
    log = fc.read_log("shop")
    assert log.roles == fc.read_log("../log.parquet", **ROLES).roles
    assert fc.evaluate("shop", "../new.parquet", estimators="ip").rows == (
        fc.evaluate(log, "../new.parquet", estimators="ip").rows
    )


def test_what_is_given_counts_more(folder):
    save_log("shop", "log.parquet", ROLES)
    assert fc.read_log("shop", unit=None, depth=1).roles.unit is None
    assert fc.read_log("shop", depth=1).shape.depth == 1


def test_a_file_is_no_name(folder):
    save_log("shop", "log.parquet", ROLES)
    assert named_log("shop") == {"source": str(folder / "log.parquet"), **ROLES}
    (folder / "shop").mkdir()
    assert named_log("shop") is None
    assert named_log("shops") is None
    assert named_log("log.parquet") is None
    assert named_log(LOG) is None


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


TABLES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "lists": (LOG, {**ROLES, "items": "items", "clicks": "clicks"}),
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


def test_the_command_line_saves_a_log_and_takes_its_name(folder, capsys):
    assert main(["check", "log.parquet", "--save", "shop", "--unit", "user_id"]) == 0
    assert "[shop] in foreclick.toml: context is 'query'" in " ".join(
        capsys.readouterr().out.split()
    )
    asked = ["new.parquet", "-e", "ip", "-m", "clicks@1", "--format", "json"]
    assert main(["evaluate", "shop", *asked]) == 0
    by_name = capsys.readouterr().out
    roles = ["--context", "query", "--period", "shown_on", "--unit", "user_id"]
    assert main(["evaluate", "log.parquet", *asked, *roles]) == 0
    assert by_name == capsys.readouterr().out


def test_limits_hold_for_a_log_by_its_name(folder):
    save_log("shop", "log.parquet", ROLES)
    log = read_log(Options(threads=1), ["shop"])
    rows = log.engine.ask("SELECT current_setting('threads') AS threads")
    assert rows["threads"].to_pylist() == [1]
    assert isinstance(log, fc.Log)
    assert log.roles == fc.read_log("shop").roles


def test_a_saved_log_is_asked_as_any_other(folder, capsys):
    roles = ["--context", "query", "--period", "shown_on", "--unit", "user_id"]
    asked = ["check", "log.parquet", "--candidate", "new.parquet", "--format", "csv"]
    assert main([*asked, *roles]) == 0
    plain = capsys.readouterr().out
    assert main([*asked, "--save", "shop", "--unit", "user_id"]) == 0
    assert capsys.readouterr().out == plain
    assert (named_log("shop") or {})["period"] == "shown_on"


def test_only_one_log_is_saved(folder, capsys):
    assert main(["check", "log.parquet", "log.parquet", "--save", "shop"]) == 2
    assert "one log" in capsys.readouterr().err
    assert main(["check", "log.parquet", "--save", "my shop"]) == 2
    assert "no name of a log" in capsys.readouterr().err
