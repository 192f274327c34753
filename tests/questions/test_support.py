"""If this fails, `support` says that a log can answer where it cannot."""

import datetime as dt
import itertools
from typing import Any, ClassVar

import numpy as np
import pytest

import foreclick as fc
from tests.answers import log_of, repeated, same, theta_of
from tests.batches.sizes import in_batches
from tests.cases import plain, tables
from tests.truth import oracle
from tests.truth.paper import paper

RECORDS = repeated(((1, 2, 3), (1, 0, 0)), ((2, 1, 3), (0, 1, 0)), ((1, 3, 2), (1, 0, 1)), times=2)


class TestSupport:
    def test_nothing_in_common_is_out_of_sight(self):
        stranger = {"context": ["q"], "items": [[8, 9]]}
        elsewhere = [*RECORDS, *repeated(((8, 9), (0, 0)), context="r")]
        found = fc.support(log_of(elsewhere), stranger, metrics="clicks@2", missing="drop")
        assert found["covered"] == [0] * 4
        assert found["seen"] == [0] * 4
        (note,) = found.notes
        assert note.startswith("The log never showed any of what the candidate would show.")

    def test_marginals_leave_out_what_they_cannot_say(self):
        marginals = fc.Marginals(tables.marginals_table({"q": {(1, 2): 1.0}}))
        found = fc.support(log_of(RECORDS), marginals, metrics="clicks@2")
        assert found["estimator"] == ["ip", "item"]
        assert found.notes[0].startswith("Left out: list, prefix.")


# --- against cells counted slowly -------------------------------------------------------------

MODELS = ("list", "prefix", "ip", "item", "pbm", "rctr")
METRICS = ("clicks@2", "dcg@4")


def days_of(records, rng):
    """Of each record; later contexts are seen on fewer days."""
    last = {context: 9 - i % 6 for i, context in enumerate(sorted({r.context for r in records}))}
    return [int(rng.integers(1, last[record.context] + 1)) for record in records]


@pytest.fixture(scope="module")
def case():
    """A log and a candidate that lacks some of its contexts."""
    found = plain.drawn(11, records=700, contexts=40, ragged=True, missing=True)
    records, half = found.records, plain.half_new(found)
    candidate = {x: half[x] if x[-1] in "02468" else new for x, new in found.candidate.items()}
    return records, days_of(records, np.random.default_rng(11)), candidate


class Slowly:
    """What `support` should say, context by context and cell by cell."""

    def __init__(self, model, metric, records, days, candidate):
        theta = theta_of(metric)
        p = oracle.reciprocal_ranks(len(theta)) if model == "pbm" else (1.0,) * len(theta)
        logged = oracle.frequencies(records)
        self.cells, self.contexts = {}, {}
        for x in sorted(logged.keys() & candidate.keys()):
            own = [(r, d) for r, d in zip(records, days, strict=True) if r.context == x]
            wanted = oracle.exposures(model, candidate[x], theta, p)
            shown = oracle.exposures(model, logged[x], theta, p)
            seen = sum(h for g, h in wanted.items() if shown.get(g, 0) > 0)
            self.contexts[x] = (len(own), len(own) * seen, len(own) * (sum(wanted.values()) - seen))
            for g, h in wanted.items():
                if h > 0 and shown.get(g, 0) > 0:
                    there = [
                        d
                        for r, d in own
                        if oracle.exposures(model, {r.items: 1.0}, theta, p).get(g, 0) > 0
                    ]
                    self.cells[x, g] = (len(own), h, shown[g], there)

    @property
    def repeated(self):
        covered = sum(n * h for n, h, _, _ in self.cells.values())
        often = sum(n * h for n, h, _, days in self.cells.values() if len(set(days)) >= 5)
        return often / covered if covered else None

    @property
    def out(self):
        dark = [n for n, seen, unseen in self.contexts.values() if seen == 0 and unseen > 0]
        return len(dark), sum(dark)

    @property
    def largest(self):
        return max(h / p for _, h, p, _ in self.cells.values())

    def darkest(self):
        """(share of all that is unseen, context, records, covered)."""
        unseen = sum(dark for _, _, dark in self.contexts.values())
        rows = [
            (dark / unseen, x, n, seen / (seen + dark))
            for x, (n, seen, dark) in self.contexts.items()
            if dark > 1e-9
        ]
        return sorted(rows, reverse=True)


def ask(case, slots=10**9):
    """Of the log in batches of so many slots."""
    records, days, candidate = case
    tally = fc.tally(fc.read_log(tables.log_table(records, day=days), period="day"))
    options: dict[str, Any] = {"metrics": METRICS, "estimators": paper(MODELS), "missing": "drop"}
    return fc.support(in_batches(tally, slots), fc.Lists(tables.lists_table(candidate)), **options)


@pytest.fixture(scope="module")
def found(case):
    return ask(case)


def test_batches_do_not_matter(case, found):
    other = ask(case, 400)
    for one, two in ((found, other), (found.contexts, other.contexts)):
        assert all(map(same, one.to_dicts(), two.to_dicts()))


def test_sees_what_a_slow_count_sees(case, found):
    records, days, candidate = case
    used = sum(r.context in candidate for r in records)
    for row in found:
        right = Slowly(row["estimator"], row["metric"], records, days, candidate)
        assert row["repeated"] == pytest.approx(right.repeated)
        assert 0 < row["repeated"] < 1
        contexts, lost = right.out
        assert (row["out_of_sight"], row["out_share"]) == (contexts, pytest.approx(lost / used))
        assert row["largest"] == pytest.approx(right.largest)


def test_names_the_contexts_that_hide_most(case, found):
    records, days, candidate = case
    for model, metric in itertools.product(MODELS, METRICS):
        right = Slowly(model, metric, records, days, candidate).darkest()
        rows = [r for r in found.contexts if (r["estimator"], r["metric"]) == (model, metric)]
        assert [r["share"] for r in rows] == pytest.approx([share for share, *_ in right[:10]])
        for row in rows:
            others = [other for other in right if other[1] == row["context"]]
            assert [(row["share"], row["context"], row["records"], row["covered"])] == [
                (pytest.approx(share), x, n, pytest.approx(covered))
                for share, x, n, covered in others
            ]


# --- bounds -----------------------------------------------------------------------------------


class TestBounds:
    """2 of 3 positions are seen; the best position earns 4 clicks in 6 records."""

    CANDIDATE: ClassVar[Any] = {"context": ["q"], "items": [[1, 2, 9]]}

    def row(self, **options):
        (found,) = fc.support(
            log_of(RECORDS), self.CANDIDATE, metrics="clicks@3", estimators="ip", **options
        )
        return found

    def test_what_was_never_shown_earns_nothing_or_as_much_as_the_best(self):
        right = oracle.evaluate("ip", RECORDS, {"q": {(1, 2, 9): 1.0}}, (1, 1, 1)).value
        assert right is not None
        assert self.row()["lowest"] == pytest.approx(right)
        assert self.row()["highest"] == pytest.approx(right + 4 / 6)


# --- words ------------------------------------------------------------------------------------


def test_says_what_only_few_days_saw():
    records = [*repeated(((1, 2), (1, 0)), times=6), *repeated(((2, 1), (1, 0)), times=6)]
    table = tables.log_table(records, day=[1, 2, 3, 4, 5, 6, *[1, 2, 3] * 2])
    candidate = {"context": ["q"], "items": [[2, 1]]}
    found = fc.support(
        fc.read_log(table, period="day"), candidate, metrics="clicks@2", estimators=["ip", "item"]
    )
    assert found["repeated"] == [0, 1]
    assert "100% of what 'ip' saw was seen in fewer than 5 periods" in found.notes[0]
    assert "repeated" in found.shown
    without = fc.support(fc.read_log(table), candidate, metrics="clicks@2", estimators="ip")
    assert without["repeated"] == [None]
    assert not without.notes
    assert "repeated" not in without.shown


def test_days_are_no_step_where_many_days_did_not_show_it():
    records = [*repeated(((1, 2), (1, 0)), times=16), *repeated(((2, 1), (1, 0)), times=6)]
    table = tables.log_table(records, day=[*range(1, 17), *[1, 2, 3] * 2])
    found = fc.support(
        fc.read_log(table, period="day"),
        {"context": ["q"], "items": [[2, 1]]},
        metrics="clicks@2",
        estimators="ip",
    )
    assert found.notes[0].endswith(
        "Next: show the candidate to some users; fc.explore says to how many."
    )


def test_says_how_many_contexts_are_out_of_sight():
    records = [*RECORDS, *repeated(((4, 5), (1, 0)), times=2, context="r")]
    candidate = {"context": ["q", "r"], "items": [[1, 2, 3], [8, 9, 7]]}
    found = fc.support(log_of(records), candidate, metrics="clicks@3", estimators="ip")
    assert (found["out_of_sight"], found["out_share"]) == ([1], [0.25])
    assert "In 1 context, with 25% of the records, the log saw nothing" in found.notes[-1]
    assert found.contexts["context"] == ["r"]
    assert found.contexts["share"] == [1]


# --- `check`, on logs small enough to count by hand -----------------------------------------------


CHECKED = repeated(((1, 2, 3), (1, 0, 0)), ((2, 1, 3), (0, 1, 0)), ((1, 3, 2), (1, 0, 1)), times=2)
DAYS = [dt.date(2024, 5, 1)] * 4 + [dt.date(2024, 5, 2)] * 4
TABLE = tables.log_table([*CHECKED, *repeated(((4, 5), (1, 1)), times=2, context="r")], day=DAYS)


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


def test_units_of_a_long_log_have_lists_not_impressions():
    rows = [(f"l{i}", k, "u" if i < 4 else "v") for i in range(5) for k in (1, 2)]
    names = ("list_id", "position", "user")
    table: dict[str, Any] = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    table |= {"context": ["q"] * 10, "items": table["position"], "clicks": [0] * 10}
    found = facts(table, long=("list_id", "position"), unit="user")
    assert found["units", "records of the median unit"] == (4 + 1) / 2
