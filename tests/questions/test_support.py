"""If this fails, `support` says that a log can answer where it cannot."""

import datetime as dt
from typing import Any

import pytest

import foreclick as fc
from foreclick.questions.reasons import NEXT_TRIAL
from tests.answers import log_of, repeated, same, theta_of
from tests.cases import plain, tables
from tests.questions.scenes import counted
from tests.truth import oracle
from tests.truth.paper import paper

RECORDS = repeated(((1, 2, 3), (1, 0, 0)), ((2, 1, 3), (0, 1, 0)), ((1, 3, 2), (1, 0, 1)), times=2)


def test_nothing_in_common_is_out_of_sight():
    stranger = {"context": ["q"], "items": [[8, 9]]}
    elsewhere = [*RECORDS, *repeated(((8, 9), (0, 0)), context="r")]
    found = fc.support(log_of(elsewhere), stranger, metrics="clicks@2", missing="drop")
    assert found["covered"] == found["seen"] == [0] * 4
    (note,) = found.notes
    assert note.startswith("The log never showed any of what the candidate would show.")


def test_marginals_leave_out_what_they_cannot_say():
    marginals = fc.Marginals(tables.marginals_table({"q": {(1, 2): 1.0}}))
    found = fc.support(log_of(RECORDS), marginals, metrics="clicks@2")
    assert found["estimator"] == ["ip", "item"]
    assert found.notes[0].startswith("Left out: list, prefix.")


# --- against cells counted slowly -------------------------------------------------------------

MODELS = ("list", "prefix", "ip", "item", "pbm", "rctr")
METRICS = ("clicks@2", "dcg@4")


@pytest.fixture(scope="module")
def case():
    """A log of which rare contexts are seen on few days, and a candidate that lacks some of it."""
    found = plain.drawn(11, records=700, contexts=40, periods=9, ragged=True, missing=True)
    new, half = found.candidate, plain.half_new(found)
    return found.proposing(new={x: half[x] if x[-1] in "02468" else new[x] for x in new})


def slowly(model, metric, case):
    """What a row of `support` should say, and of contexts, cell by cell.

    Of each context that hides something: its share of all that is hidden, its name, its records
    and the share of it that is covered.
    """
    theta, candidate = theta_of(metric), case.candidate
    p = oracle.reciprocal_ranks(len(theta)) if model == "pbm" else (1.0,) * len(theta)
    logged = oracle.frequencies(case.records)
    weights, out, dark, often, covered = [], [], [], 0.0, 0.0
    for x in logged.keys() & candidate.keys():
        own = [
            (oracle.exposures(model, {row.items: 1.0}, theta, p), row.day)
            for row in case.rows
            if row.context == x
        ]
        n, shown = len(own), oracle.exposures(model, logged[x], theta, p)
        wanted = oracle.exposures(model, candidate[x], theta, p)
        there = {g: h for g, h in wanted.items() if h > 0 and shown.get(g, 0) > 0}
        seen, whole = sum(there.values()), sum(wanted.values())
        for g, h in there.items():
            weights.append(h / shown[g])
            often += n * h * (len({day for cells, day in own if cells.get(g, 0) > 0}) >= 5)
        covered += n * seen
        out += [n] * (seen == 0 < whole)
        dark += [(n * (whole - seen), x, n, seen / whole)] * (whole - seen > 1e-9)
    row = {"repeated": often / covered, "out_of_sight": len(out), "largest": max(weights)}
    row["out_share"] = sum(out) / sum(r.context in candidate for r in case.records)
    hidden = sum(each[0] for each in dark)
    return row, sorted(((one[0] / hidden, *one[1:]) for one in dark), reverse=True)


def ask(case, slots=10**9):
    """Of the log in batches of so many slots."""
    options: dict[str, Any] = {"metrics": METRICS, "estimators": paper(MODELS), "missing": "drop"}
    return fc.support(case.tally(slots), fc.Lists(tables.lists_table(case.candidate)), **options)


@pytest.fixture(scope="module")
def found(case):
    return ask(case)


def test_batches_do_not_matter(case, found):
    other = ask(case, 400)
    for one, two in ((found, other), (found.contexts, other.contexts)):
        assert all(map(same, one.to_dicts(), two.to_dicts()))


def test_it_says_what_a_slow_count_says(case, found):
    """And names the contexts that hide most."""
    assert len(found) == len(MODELS) * len(METRICS)
    for row in found:
        right, darkest = slowly(row["estimator"], row["metric"], case)
        assert {name: row[name] for name in right} == pytest.approx(right)
        assert 0 < row["repeated"] < 1
        names = ("share", "context", "records", "covered")
        own = [
            tuple(each[name] for name in names)
            for each in found.contexts
            if (each["estimator"], each["metric"]) == (row["estimator"], row["metric"])
        ]
        assert [one[0] for one in own] == pytest.approx([share for share, *_ in darkest[:10]])
        by_name = {each[1]: each for each in darkest}
        for share, x, n, covered in own:
            assert (x, n) == by_name[x][1:3]
            assert (share, covered) == pytest.approx((by_name[x][0], by_name[x][3]))


# --- bounds -----------------------------------------------------------------------------------


def test_what_was_never_shown_earns_nothing_or_as_much_as_the_best():
    """2 of 3 positions are seen; the best position earns 4 clicks in 6 records."""
    candidate = {"context": ["q"], "items": [[1, 2, 9]]}
    (row,) = fc.support(log_of(RECORDS), candidate, metrics="clicks@3", estimators="ip")
    right = oracle.evaluate("ip", RECORDS, {"q": {(1, 2, 9): 1.0}}, (1, 1, 1)).value
    assert right is not None
    assert row["lowest"] == pytest.approx(right)
    assert row["highest"] == pytest.approx(right + 4 / 6)


# --- words ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("days", "step"),
    [(6, "Next: log 5 more periods at least."), (16, NEXT_TRIAL)],  # which did not show it
)
def test_says_what_only_few_days_saw(days, step):
    records = [*repeated(((1, 2), (1, 0)), times=days), *repeated(((2, 1), (1, 0)), times=6)]
    table = tables.log_table(records, day=[*range(1, days + 1), *[1, 2, 3] * 2])
    asked: Any = {"metrics": "clicks@2", "estimators": ["ip", "item"]}
    candidate = {"context": ["q"], "items": [[2, 1]]}
    found = fc.support(fc.read_log(table, period="day"), candidate, **asked)
    assert found["repeated"] == [0, 1]
    assert "100% of what 'ip' saw was seen in fewer than 5 periods" in found.notes[0]
    assert found.notes[0].endswith(step)
    assert "repeated" in found.shown
    without = fc.support(fc.read_log(table), candidate, **asked)
    assert without["repeated"] == [None, None]
    assert not without.notes
    assert "repeated" not in without.shown


def test_says_how_many_contexts_are_out_of_sight():
    records = [*RECORDS, *repeated(((4, 5), (1, 0)), times=2, context="r")]
    candidate = {"context": ["q", "r"], "items": [[1, 2, 3], [8, 9, 7]]}
    found = fc.support(log_of(records), candidate, metrics="clicks@3", estimators="ip")
    assert (found["out_of_sight"], found["out_share"]) == ([1], [0.25])
    assert "In 1 context, with 25% of the records, the log saw nothing" in found.notes[-1]
    assert found.contexts["context"] == ["r"]
    assert found.contexts["share"] == [1]


# --- `check`, on logs small enough to count by hand -----------------------------------------------


DAYS = [dt.date(2024, 5, 1)] * 4 + [dt.date(2024, 5, 2)] * 4
TABLE = tables.log_table([*RECORDS, *repeated(((4, 5), (1, 1)), times=2, context="r")], day=DAYS)


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
    table = counted(*((items, [0, 1], 1) for items in ([1, 2], [1, 1], [2, 2], [1])))
    found = facts(table, invalid="drop")
    assert found["dropped", "an item twice in a list"] == 2
    assert found["size", "records"] == 1


def test_every_reward_has_its_own_facts_and_records_come_once():
    table = counted(([1, 2], [1, 0], 2))
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
    table = counted(([1, 2], [1, 0], len(users))) | {"user": users}
    log = fc.read_log(table, unit="user")
    found = facts(table, unit="user")
    assert found["units", "units"] == 21
    assert found["units", "records of the median unit"] == 2
    assert found["units", "bot-like units (more than 200 records)"] == bot_like
    assert any("Bot-like units made 88%" in note for note in fc.check(log).notes) == bot_like
    tallied = fc.check(fc.tally(log))
    assert "units" not in tallied["section"]  # of a tally nobody knows


def test_units_of_a_long_log_have_lists_not_impressions():
    table: dict[str, Any]
    table = {"list_id": [f"l{i // 2}" for i in range(10)], "position": [1, 2] * 5}
    table |= {"context": ["q"] * 10, "items": [1, 2] * 5, "clicks": [0] * 10}
    table |= {"user": ["u"] * 8 + ["v"] * 2}
    found = facts(table, long=("list_id", "position"), unit="user")
    assert found["units", "records of the median unit"] == (4 + 1) / 2
