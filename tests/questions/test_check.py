"""`check`, on logs small enough to count by hand."""

import datetime as dt
from typing import Any

import pytest

import foreclick as fc
from tests import drawn
from tests.answers import log_of, repeated

RECORDS = repeated(((1, 2, 3), (1, 0, 0)), ((2, 1, 3), (0, 1, 0)), ((1, 3, 2), (1, 0, 1)), times=2)
DAYS = [dt.date(2024, 5, 1)] * 4 + [dt.date(2024, 5, 2)] * 4
TABLE = drawn.log_table([*RECORDS, *repeated(((4, 5), (1, 1)), times=2, context="r")], day=DAYS)


def facts(log: Any, **roles: Any) -> dict[tuple[str, str], Any]:  # noqa: ANN401
    found = fc.check(fc.read_log(log, **roles)).to_dicts()
    return {(row["section"], row["fact"]): row["found"] for row in found}


def test_what_is_there_is_counted():
    found = facts(TABLE, period="day")
    expected = {
        ("size", "records"): 8,
        ("size", "rows of the tally"): 4,
        ("size", "contexts"): 2,
        ("size", "records in the median context"): 4,
        ("size", "different lists"): 4,
        ("size", "different lists per context"): 2,
        ("size", "longest list"): 3,
        # Of lists that reach it.
        ("clicks by position", "position 1"): (4 + 2) / 8,
        ("clicks by position", "position 2"): (2 + 2) / 8,
        ("clicks by position", "position 3"): 2 / 6,
        ("records by period", "2024-05-01"): 4,
        ("clicks per list by period", "2024-05-01"): 1.0,
        ("clicks per list by period", "2024-05-02"): 2.0,
        ("can be evaluated", "records in contexts with 2 lists or more"): 6 / 8,
        # In q every item moves (1: 1, 2; 2: 2, 1, 3; 3: 3, 2); in r none does.
        ("can be evaluated", "slots with items seen at 2 positions or more"): 18 / 22,
    }
    assert {key: found[key] for key in expected} == pytest.approx(expected)
    check = fc.check(fc.read_log(TABLE))
    assert any(note.startswith("75% of the records are in contexts") for note in check.notes)


def test_a_log_that_always_shows_the_same_can_evaluate_nothing():
    check = fc.check(log_of(repeated(((1, 2), (1, 0)), times=6)))
    assert check.notes == (
        "Every context always showed the same list: this log can evaluate nothing else.",
    )


def test_what_was_dropped_by_cause():
    items = [[1, 2], [1, 1], [2, 2], [1]]
    table = {"context": ["q"] * 4, "items": items, "clicks": [[0, 1]] * 4}
    found = facts(table, invalid="drop")
    assert found["dropped", "an item twice in a list"] == 2
    assert found["size", "records"] == 1


def test_every_reward_has_its_own_facts_and_records_come_once():
    table = {"context": ["q"] * 2, "items": [[1, 2]] * 2, "clicks": [[1, 0]] * 2}
    found = facts(table | {"bought": [[0, 3], [0, 1]]}, rewards={"orders": "bought"})
    assert found["clicks by position", "position 1"] == 1
    assert found["orders by position", "position 2"] == 2
    roles: Any
    for roles in ({"rewards": {"again": "clicks"}}, {"clicks": None}):
        check = fc.check(fc.read_log(TABLE, period="day", **roles))
        assert check["section"].count("records by period") == 2


@pytest.mark.parametrize(("bots", "bot_like"), [(300, 1), (200, 0)])
def test_bot_like_units_are_counted_with_their_records(bots, bot_like):
    """One crawler among 20 users with two records; who searches a lot is no bot."""
    users = [f"user {i}" for i in range(20)] * 2 + ["crawler"] * bots
    n = len(users)
    table = {"context": ["q"] * n, "items": [[1, 2]] * n, "clicks": [[1, 0]] * n, "user": users}
    log = fc.read_log(table, unit="user")
    found = facts(table, unit="user")
    assert found["units", "units"] == 21
    assert found["units", "records of the median unit"] == 2
    assert found["units", "bot-like units (more than 200 records)"] == bot_like
    assert any("Bot-like units made 88%" in note for note in fc.check(log).notes) == bot_like
    tallied = fc.check(fc.tally(log))
    assert "units" not in tallied["section"]  # of a tally nobody knows
