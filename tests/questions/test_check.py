"""`check`, on logs small enough to count by hand."""

import datetime as dt
from typing import Any, ClassVar

import pytest

import foreclick as fc
from foreclick.logs import Log
from tests.answers import log_of, repeated
from tests.truth import random_logs

RECORDS = repeated(((1, 2, 3), (1, 0, 0)), ((2, 1, 3), (0, 1, 0)), ((1, 3, 2), (1, 0, 1)), times=2)


def facts(check):
    return {(row["section"], row["fact"]): row["found"] for row in check.to_dicts()}


class TestCheck:
    DAYS: ClassVar[Any] = [dt.date(2024, 5, 1)] * 4 + [dt.date(2024, 5, 2)] * 4
    TABLE = random_logs.log_table(
        [*RECORDS, *repeated(((4, 5), (1, 1)), times=2, context="r")], day=DAYS
    )

    def test_counts_what_is_there(self):
        found = facts(fc.check(fc.read_log(self.TABLE)))
        size = {fact: value for (section, fact), value in found.items() if section == "size"}
        assert size == {
            "records": 8,
            "rows of the tally": 4,
            "contexts": 2,
            "records in the median context": 4,
            "different lists": 4,
            "different lists per context": 2,
            "longest list": 3,
        }

    def test_clicks_by_position_count_lists_that_reach_it(self):
        found = facts(fc.check(fc.read_log(self.TABLE)))
        by_position = [found["clicks by position", f"position {k}"] for k in (1, 2, 3)]
        assert by_position == pytest.approx([(4 + 2) / 8, (2 + 2) / 8, 2 / 6])

    def test_records_and_clicks_by_period(self):
        found = facts(fc.check(fc.read_log(self.TABLE, period="day")))
        assert found["records by period", "2024-05-01"] == 4
        assert found["clicks per list by period", "2024-05-01"] == pytest.approx(1.0)
        assert found["clicks per list by period", "2024-05-02"] == pytest.approx(2.0)

    def test_what_can_be_evaluated(self):
        check = fc.check(fc.read_log(self.TABLE))
        found = facts(check)
        lists = found["can be evaluated", "records in contexts with 2 lists or more"]
        assert lists == pytest.approx(6 / 8)
        slots = found["can be evaluated", "slots with items seen at 2 positions or more"]
        # In q every item moves (1: 1, 2; 2: 2, 1, 3; 3: 3, 2); in r none does.
        assert slots == pytest.approx(18 / 22)
        assert any(note.startswith("75% of the records are in contexts") for note in check.notes)

    def test_a_log_that_always_shows_the_same_can_evaluate_nothing(self):
        check = fc.check(log_of(repeated(((1, 2), (1, 0)), times=6)))
        assert check.notes == (
            "Every context always showed the same list: this log can evaluate nothing else.",
        )

    def test_what_was_dropped_by_cause(self):
        table = {
            "context": ["q"] * 4,
            "items": [[1, 2], [1, 1], [2, 2], [1]],
            "clicks": [[0, 1]] * 3 + [[0, 1]],
        }
        found = facts(fc.check(fc.read_log(table, invalid="drop")))
        assert found["dropped", "an item twice in a list"] == 2
        assert found["size", "records"] == 1

    def test_every_reward_has_its_own_facts(self):
        table = {
            "context": ["q"] * 2,
            "items": [[1, 2]] * 2,
            "clicks": [[1, 0]] * 2,
            "bought": [[0, 3], [0, 1]],
        }
        found = facts(fc.check(fc.read_log(table, rewards={"orders": "bought"})))
        assert found["clicks by position", "position 1"] == 1
        assert found["orders by position", "position 2"] == 2

    @pytest.mark.parametrize(
        "roles",
        [
            {"rewards": {"again": "clicks"}},
            {"clicks": None},
        ],
    )
    def test_records_by_period_come_once_whatever_the_rewards(self, roles):
        check = fc.check(fc.read_log(self.TABLE, period="day", **roles))
        assert check["section"].count("records by period") == 2

    def test_a_tally_and_a_bare_table_can_be_checked_too(self):
        log = fc.read_log(self.TABLE)
        expected = fc.check(log).to_dicts()
        assert fc.check(fc.tally(log)).to_dicts() == expected
        assert fc.check(self.TABLE.drop_columns("day")).to_dicts() == expected


class TestUnits:
    """One crawler with 300 records among 20 users with two."""

    USERS: ClassVar[Any] = [f"user {i}" for i in range(20)] * 2 + ["crawler"] * 300

    def log(self, bots=300):
        users = self.USERS[: 40 + bots]
        return fc.read_log(
            {
                "context": ["q"] * len(users),
                "items": [[1, 2]] * len(users),
                "clicks": [[1, 0]] * len(users),
                "user": users,
            },
            unit="user",
        )

    def test_bot_like_ones_are_counted_with_their_records(self):
        check = fc.check(self.log())
        found = facts(check)
        assert found["units", "units"] == 21
        assert found["units", "records of the median unit"] == 2
        assert found["units", "bot-like units (more than 200 records)"] == 1
        assert found["units", "share of records that are theirs"] == pytest.approx(300 / 340)
        assert any(note.startswith("Bot-like units made 88%") for note in check.notes)

    def test_users_who_search_a_lot_are_no_bots(self):
        check = fc.check(self.log(bots=200))
        assert facts(check)["units", "bot-like units (more than 200 records)"] == 0
        assert not any("Bot-like" in note for note in check.notes)

    def test_a_long_log_counts_lists_not_impressions(self):
        rows = [(f"l{i}", k, "u" if i < 4 else "v") for i in range(5) for k in (1, 2)]
        list_id, position, user = zip(*rows, strict=True)
        log: Log = fc.read_log(
            {
                "context": ["q"] * 10,
                "list_id": list_id,
                "position": position,
                "item": position,
                "click": [0] * 10,
                "user": user,
            },
            long=("list_id", "position"),
            unit="user",
        )
        assert facts(fc.check(log))["units", "records of the median unit"] == (4 + 1) / 2

    def test_a_tally_knows_no_units(self):
        assert not any(section == "units" for section, _ in facts(fc.check(fc.tally(self.log()))))
