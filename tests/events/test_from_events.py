"""If this fails, clicks are counted for lists that nobody clicked, or are lost without a word."""

from collections import Counter, defaultdict
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from foreclick import tally
from foreclick.engines import Value
from foreclick.errors import InvalidLogError, SourceError
from foreclick.events import Match, from_events

START = datetime(2026, 3, 1, 23, 59)  # noqa: DTZ001 - as in most logs


def at(seconds):
    return START + timedelta(seconds=seconds)


def records(log):
    """The log as a bag of (context, items, rewards)."""
    found: Counter[Any] = Counter()
    names = log.shape.rewards
    for row in tally(log).table.to_pyarrow().to_pylist():
        items = tuple(row[c] for c in log.shape.items)
        earned = tuple(tuple(row[c] or 0 for c in log.shape.reward(name)) for name in names)
        found[row["context"], items, earned] += row["n"]
    return found


def bag(lists, depth, names=("clicks",)):
    """Lists {place: item} with what (item, reward) earned, as `records` has them."""
    found: Counter[Any] = Counter()
    for context, places, earned in lists:
        items = tuple(places.get(k) for k in range(1, depth + 1))
        found[
            context, items, tuple(tuple(earned.get((i, name), 0) for i in items) for name in names)
        ] += 1
    return found


def slow_clicks(actions, lists_of, first, window):
    """What lists earned, and what became of every action; one at a time.

    A click goes to the last of its lists that showed its item before it.
    """
    earned: dict[Any, dict[Any, int]] = defaultdict(dict)
    losses: Counter[str] = Counter()
    for a in actions:
        lists, item = lists_of(a), a["item"]
        showing = [key for key in lists if (key, item) in first]
        before = [key for key in showing if first[key, item] <= a["time"]]
        last = max(before, key=lambda key: first[key, item], default=None)
        causes = {
            "actions of other kinds": a.get("action", "click") != "click",
            "clicks without a list or an item": None in (a.get("list", 0), item),
            "clicks without a list": not lists,
            "clicks on items that their list did not show": not showing,
            "clicks before their list": not before,
            "clicks outside the window": a["time"] - first.get((last, item), 0) > window,
            "clicks, repeated": (item, "clicks") in earned[last],
        }
        cause = next((cause for cause, is_so in causes.items() if is_so), None)
        if cause:
            losses[cause] += 1
        else:
            earned[last][item, "clicks"] = 1
    return earned, losses


# --- by the id of a request ---------------------------------------------------------------------


def slow_lists(shown):
    """Where items stand in each list, when each was first shown in it, and what is lost."""
    losses: Counter[str] = Counter()
    whole: dict[int, list[dict[str, int]]] = defaultdict(list)
    places: dict[int, dict[int, int]] = {}
    first: dict[tuple[int, int], int] = {}
    for row in shown:
        if None in (row["list"], row["item"], row["place"]):
            losses["impressions without a list, an item or a position"] += 1
        else:
            whole[row["list"]].append(row)
    for key, rows in whole.items():
        own = {}
        for item in {row["item"] for row in rows}:
            of_item = [row for row in rows if row["item"] == item]
            distinct = {row["place"] for row in of_item}
            losses["repeated impressions"] += len(of_item) - len(distinct)
            losses["further places of an item in a list"] += len(distinct) - 1
            own[item] = min(distinct)
            first[key, item] = min(row["time"] for row in of_item)
        places[key] = {}
        for item in sorted(own, key=lambda i: (first[key, i], i)):
            taken = own[item] in places[key]
            losses["impressions at a place that another item has"] += taken
            if not taken:
                places[key][own[item]] = item
    return places, first, losses


ID = st.one_of(st.none(), st.integers(1, 4))
IMPRESSION = st.fixed_dictionaries(
    {
        "list": ID,
        "item": ID,
        "place": st.one_of(st.none(), st.integers(1, 3)),
        "time": st.integers(0, 9),
    }
)
ACTION = st.fixed_dictionaries(
    {
        "list": st.one_of(st.none(), st.integers(1, 5)),
        "item": ID,
        "time": st.integers(-5, 50),
        "action": st.sampled_from(["click", "click", "hover"]),
    }
)
BOTH = {"list": pa.int64(), "item": pa.int64(), "when": pa.timestamp("us")}


@settings(max_examples=12)
@given(st.lists(IMPRESSION, min_size=1, max_size=12), st.lists(ACTION, min_size=1, max_size=8))
def test_every_event_is_where_a_slow_reading_puts_it(shown, actions):
    assume(any(row["action"] == "click" for row in actions))  # else it is a misspelt action
    shown = [*shown, {"list": 9, "item": 1, "place": 1, "time": 0}]
    places, first, losses = slow_lists(shown)
    earned, lost = slow_clicks(actions, lambda a: {a["list"]} & places.keys(), first, 30)
    for key, own in earned.items():
        gone = [item for item, _ in own if item not in places[key].values()]
        lost["clicks on items whose place another has"] += len(gone)
    done = [{**row, "when": at(row["time"])} for row in actions]
    moments = [{**row, "when": at(row["time"]), "q": "q"} for row in shown]
    log = from_events(
        pa.Table.from_pylist(moments, pa.schema(BOTH | {"place": pa.int64(), "q": pa.string()})),
        pa.Table.from_pylist(done, pa.schema(BOTH | {"action": pa.string()})),
        list_id=Match("list", time="when", window=30),
        position="place",
        context="q",
    )
    assert records(log) == bag([("q", places[k], earned[k]) for k in places], log.shape.depth)
    assert log.ledger.losses == +(losses + lost)


# --- by session and time ------------------------------------------------------------------------


@settings(max_examples=12)
@given(
    st.dictionaries(
        st.tuples(st.sampled_from("ab"), st.integers(0, 30)),
        st.lists(st.integers(1, 4), min_size=1, max_size=3, unique=True),
        min_size=1,
        max_size=6,
    ),
    st.lists(
        st.fixed_dictionaries(
            {
                "session": st.sampled_from("abc"),
                "time": st.integers(-5, 60),
                "item": st.integers(1, 5),
            }
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from([1, 1_000, 1_000_000]),
)
def test_without_an_id_the_last_list_with_the_item_gets_the_click(shown, actions, unit):
    first = {(key, item): key[1] for key, items in shown.items() for item in items}
    earned, losses = slow_clicks(
        actions, lambda a: [key for key in shown if key[0] == a["session"]], first, 20
    )
    lists = {key: dict(enumerate(items, start=1)) for key, items in shown.items()}
    rows = [
        {"session": s, "time": t, "place": k, "item": item}
        for (s, t), places in lists.items()
        for k, item in places.items()
    ]
    since = round(START.timestamp())
    timed = (
        [row | {"time": (since + row["time"]) * unit} for row in all_] for all_ in (rows, actions)
    )
    log = from_events(
        *map(pa.Table.from_pylist, timed),
        list_id=Match(session="session", time="time", window=timedelta(seconds=20)),
        position="place",
        context=None,
        action=None,
    )
    assert records(log) == bag([(0, lists[k], earned[k]) for k in lists], log.shape.depth)
    assert log.ledger.losses == losses
    assert log.shape.period
    assert log.shape.unit  # the session


# --- one thing at a time ------------------------------------------------------------------------

SHOWN = {
    "list_id": [1, 1, 1, 2, 2],
    "context": ["shoe"] * 3 + ["hat"] * 2,
    "item": ["a", "b", "c", "d", "e"],
    "position": [1, 2, 3, 1, 2],
}
CLICKS = {"list_id": [1, 2], "item": ["b", "d"], "action": ["click"] * 2}


BY_TIME: dict[str, Any] = {
    "list_id": Match(session="user", time="time", together=10),
    "context": None,
    "action": None,
}
DID = {
    "list_id": [1, 1, 1, 2],
    "item": ["b", "b", "b", "e"],
    "action": ["tap", "buy", "buy", "buy"],
    "price": [None, 2.5, 2.5, 4.0],
}
HITS: dict[str, Any] = {
    "request": [1, 2],
    "query": ["shoe", "hat"],
    "hits": [[{"id": "a", "rank": 0}, {"id": "b", "rank": 1}], [{"id": "c", "rank": 0}]],
    "device": [{"os": "x"}, {"os": "y"}],
}
BOUGHT = {("b", "clicks"): 1, ("b", "orders"): 1, ("b", "revenue"): 5.0}
UNTIMED = "impressions without a time, which their list is known by"
CASES: dict[str, tuple[Any, Any, dict[str, Any], list[Any], dict[str, int]]] = {
    "scrolled lists are put together": (
        {
            "user": ["u"] * 6,
            "time": [at(t) for t in (0, 0, 3, 3, 60, 61)],
            "item": [1, 2, 3, 4, 1, 2],
            "position": [1, 2, 3, 4, 1, 1],
        },
        {"user": ["u"] * 2, "time": [at(5), at(62)], "item": [3, 1]},
        BY_TIME,
        [
            (0, {1: 1, 2: 2, 3: 3, 4: 4}, {(3, "clicks"): 1}),
            (0, {1: 1}, {(1, "clicks"): 1}),
            (0, {1: 2}, {}),
        ],
        {},
    ),
    "without a time": (
        {"user": ["u"] * 3, "time": [at(0), at(1), None], "item": [1, 2, 3], "position": [1, 2, 3]},
        {"user": ["u"], "time": [at(5)], "item": [2]},
        BY_TIME,
        [(0, {1: 1, 2: 2}, {(2, "clicks"): 1})],
        {UNTIMED: 1},
    ),
    "several rewards and their values": (
        SHOWN,
        DID,
        {"rewards": {"clicks": ["click", "tap"], "orders": "buy", "revenue": {"buy": "price"}}},
        [
            ("shoe", {1: "a", 2: "b", 3: "c"}, BOUGHT),
            ("hat", {1: "d", 2: "e"}, {("e", "orders"): 1, ("e", "revenue"): 4.0}),
        ],
        {"orders, repeated": 1},
    ),
    "one row a list, fields, two names": (
        pa.table(HITS),
        pa.table({"q": [1], "what": [{"doc": {"id": "b"}}]}),
        {
            "list_id": ("request", "q"),
            "context": "query",
            "items": ("hits.id", "what.doc.id"),
            "position": "hits.rank",
            "action": None,
            "segments": {"os": "device.os"},
        },
        [("shoe", {1: "a", 2: "b"}, {("b", "clicks"): 1}), ("hat", {1: "c"}, {})],
        {},
    ),
    "the window ends after its last second": (
        {"list_id": [1, 2], "context": ["q"] * 2, "item": [7, 7], "time": [at(0)] * 2}
        | {"position": [1, 1]},
        {"list_id": [1, 2], "item": [7, 7], "time": [at(30), at(31)]},
        {"list_id": Match("list_id", time="time", window=30), "action": None},
        [("q", {1: 7}, {(7, "clicks"): 1}), ("q", {1: 7}, {})],
        {"clicks outside the window": 1},
    ),
    "where leaves lists out": (
        SHOWN | {"agent": ["crawler"] * 3 + ["person"] * 2},
        CLICKS,
        {"where": "agent = 'person'"},
        [("hat", {1: "d", 2: "e"}, {("d", "clicks"): 1})],
        {"clicks without a list": 1},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_one_thing_at_a_time(name):
    shown, did, options, lists, losses = CASES[name]
    log = from_events(shown, did, **options)
    assert records(log) == bag(lists, log.shape.depth, log.shape.rewards)
    assert log.ledger.losses == losses
    assert log.shape.segments == tuple(options.get("segments", ()))


def test_lists_that_break_the_rules_are_in_the_ledger():
    log = from_events({**SHOWN, "context": ["shoe"] * 3 + [None] * 2}, CLICKS)
    assert log.rows == 1
    assert log.ledger.losses == {"lists, context is null": 1}
    with pytest.raises(InvalidLogError, match="nothing is left of 2 rows"):
        from_events({**SHOWN, "context": pa.nulls(5, pa.string())}, CLICKS)


# --- actions that nobody did --------------------------------------------------------------------

SPELT = {"list_id": [1, 1, 2], "item": ["a", "b", "d"], "action": ["Click", "Click", "buy"]}


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        (None, r"^no action is 'click', .* has Click \(2\), buy \(1\)\. Did you mean 'Click'\?"),
        ({"clicks": "tap"}, r"^no action is 'tap', which clicks count\. .* buy \(1\)\. Say which"),
        ({"clicks": ["tap", "hit"]}, r"^no action is 'tap' or 'hit'"),
        ({"clicks": "Click", "orders": "buys"}, r"^no action is 'buys', .* mean 'buy'\?"),
    ],
)
def test_actions_that_nobody_did_are_refused_with_those_that_are_there(engine, rewards, message):
    shown, done = engine.load(pa.table(SHOWN)), engine.load(pa.table(SPELT))
    with pytest.raises(SourceError, match=message):
        from_events(shown, done, rewards=rewards)


def test_no_actions_at_all():
    nothing = pa.table(SPELT)[:0]
    with pytest.raises(SourceError, match="There are no actions at all"):
        from_events(SHOWN, nothing)


def test_a_day_without_orders_is_a_day():
    log = from_events(SHOWN, SPELT, rewards={"clicks": "Click", "orders": "purchase"})
    assert tally(log).table.aggregate({"n": Value("sum(orders_1 + orders_2)")}) == {"n": 0}
    either = from_events(SHOWN, SPELT, rewards={"clicks": ["click", "Click"]})
    assert log.rows == either.rows == 2
