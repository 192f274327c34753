"""If this fails, a segment with an unlucky name changes the numbers."""

from typing import Any

import pytest

import foreclick as fc
from foreclick.errors import SourceError
from foreclick.secrets import visible

LOG: dict[str, Any] = {
    "query": ["q", "q", "r", "r"] * 12,
    "list": [[1, 2], [2, 1], [3, 4], [4, 3]] * 12,
    "seen": [[1, 0], [0, 1], [0, 0], [1, 0]] * 6 + [[0, 0], [1, 0], [1, 1], [1, 0]] * 6,
    "when": [day for day in range(6) for _ in range(8)],
    "who": [n % 7 for n in range(48)],
}
DEVICE = ["phone", "tablet", "phone", "phone", "tablet", None] * 8
ROLES: Any = {"context": "query", "items": "list", "clicks": "seen"}
DATED: Any = {**ROLES, "period": "when", "unit": "who"}
CANDIDATE = {"query": ["q", "r"], "list": [[2, 1], [3, 4]]}

WORKING = [
    *("cluster", "fold", "by_0", "stratum", "segment", "row", "mass", "value_1", "key", "order"),
    *("item", "item_1", "items", "clicks_1", "bucket", "context", "period", "weight", "n", "N"),
    *("length", "stray", "repeated", "propensity", "propensity_1", "position", "slot", "select"),
    *("verdict", "Verdict", "estimator", "value", "low", "lift", "covered", "name", "index"),
    *("a b", 'quo"te', "{x}", "__shown", "__first_clicks"),
    *('"; DROP TABLE x; --', "a'b", "a\\", "\x1b[2J", "a\nb"),
]


def read(name: str) -> fc.Log:
    return fc.read_log({**LOG, name: DEVICE}, segments=name, **DATED)


def answers(log: fc.Log | fc.Tally, name: str) -> list[Any]:
    asked: Any = {"metrics": "clicks@2", "by": name}
    evaluated = fc.evaluate(log, CANDIDATE, estimators=["ladder", "ip"], **asked)
    return [tuple(row.values()) for row in evaluated.rows]


@pytest.fixture(scope="module")
def expected() -> list[Any]:
    return answers(read("device"), "device")


@pytest.mark.parametrize("name", WORKING)
def test_a_name_gives_the_same_numbers_or_is_refused(name, expected, tmp_path):
    try:
        log = read(name)
    except SourceError as refused:
        said = str(refused)
    else:
        assert visible(repr(log), lines=True) == repr(log)
        fc.tally(log).write_parquet(tmp_path / "tally.parquet")
        assert answers(fc.read_tally(tmp_path / "tally.parquet"), name) == expected
        return
    assert f"cannot be called {name!r}" in said
    assert f"segments={{'my_{name}': {name!r}}}" in said


def test_names_that_results_have_are_refused():
    log = read("device")
    asked: Any = {"metrics": "clicks@2", "by": "device"}
    results = fc.evaluate(log, CANDIDATE, **asked), fc.examination(log, by="device")
    columns = {c for result in results for c in result.columns} - {"device"}
    assert len(columns) > 25
    for column in columns:
        with pytest.raises(SourceError, match="cannot be called"):
            read(column)


def test_a_column_that_cannot_keep_its_name_is_given_another(expected):
    log = fc.read_log({**LOG, "verdict": DEVICE}, segments={"mine": "verdict"}, **DATED)
    assert answers(log, "mine") == expected
    log = fc.read_log({**LOG, "verdict": DEVICE}, segments={"query": "verdict"}, **DATED)
    assert answers(log, "query") == expected
    with pytest.raises(SourceError, match=r"segments='verdct'.*Did you mean segments='verdict'"):
        fc.read_log({**LOG, "verdict": DEVICE}, segments={"mine": "verdct"}, **DATED)
