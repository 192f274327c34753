"""Made-up tables of well-known trackers, whose clicks are known, give back every one of them."""

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import foreclick as fc
from foreclick.cli import main
from foreclick.events import algolia, ga4, snowplow, ubi

NOON = datetime(2026, 5, 1, 12)  # noqa: DTZ001 - as in most logs


def clicked(log: fc.Log) -> Counter[Any]:
    """How often (context, list, clicks) was logged."""
    found: Counter[Any] = Counter()
    for row in log.table.to_pyarrow().to_pylist():
        items = tuple(row[c] for c in log.shape.items if row[c] is not None)
        marks = tuple(row[c] for c in log.shape.reward("clicks") if row[c] is not None)
        found[row["context"], items, marks] += row["n"]
    return found


def fact(log: fc.Log, name: str) -> int:
    return int(log.ledger["found"][log.ledger["fact"].index(name)])


# --- Google Analytics 4 -------------------------------------------------------------------------

ITEM = pa.struct(
    [("item_id", pa.string()), ("item_list_id", pa.string()), ("item_list_index", pa.int64())]
)
GA4 = pa.schema(
    [
        ("event_name", pa.string()),
        ("event_timestamp", pa.int64()),
        ("user_pseudo_id", pa.string()),
        ("items", pa.list_(ITEM)),
    ]
)


def analytics(seed: int = 4, sessions: int = 300) -> tuple[pa.Table, Counter[Any], int]:
    """Events, the lists with their clicks, and the number of clicks.

    Half of the lists come in two parts, as a user scrolls, and users see the same list again.
    """
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    lists: Counter[Any] = Counter()
    clicks = 0

    def event(name: str, time: int, session: int, items: list[tuple[str, str, int]]) -> None:
        keys = ("item_id", "item_list_id", "item_list_index")
        rows.append(
            {
                "event_name": name,
                "event_timestamp": 1_760_000_000_000_000 + time,
                "user_pseudo_id": f"user {session}",
                "items": [dict(zip(keys, item, strict=True)) for item in items],
            }
        )

    for session in range(sessions):
        now = int(rng.integers(0, 86_400)) * 1_000_000
        for _ in range(int(rng.integers(1, 3))):
            name = f"list {rng.integers(0, 3)}"
            shown = [f"i{i}" for i in rng.permutation(8)[: rng.integers(4, 7)]]
            slots = [(item, name, k) for k, item in enumerate(shown, start=1)]
            cut = 3 if rng.random() < 0.5 else len(slots)
            event("view_item_list", now, session, slots[:cut])
            if slots[cut:]:
                event("view_item_list", now + 2_000_000, session, slots[cut:])
            marks = [int(rng.random() < 0.2) for _ in slots]
            for slot, mark in zip(slots, marks, strict=True):
                if mark:
                    event(
                        "select_item", now + int(rng.integers(3, 600)) * 1_000_000, session, [slot]
                    )
            lists[name, tuple(shown), tuple(marks)] += 1
            clicks += sum(marks)
            now += 700_000_000
        event("page_view", now, session, [])
    return pa.Table.from_pylist(rows, GA4), lists, clicks


def test_ga4_gives_back_every_click():
    events, lists, clicks = analytics()
    log = ga4(events)
    assert clicked(log) == lists
    assert fact(log, "clicks") == clicks > 400
    assert log.ledger.losses == {}
    assert log.shape.period
    assert log.shape.unit


def test_ga4_says_what_it_cannot_place():
    events, _, clicks = analytics(sessions=40)
    stray = events.slice(0, 1).to_pylist()[0] | {"event_name": "select_item"}
    stray["items"] = [{"item_id": "nothing", "item_list_id": "list 9", "item_list_index": 1}]
    late = stray | {"items": events["items"][0].as_py()[:1]}
    late["event_timestamp"] += 86_400_000_000
    more = pa.concat_tables([events, pa.Table.from_pylist([stray, late], GA4)])
    log = ga4(more)
    assert fact(log, "clicks") == clicks
    assert log.ledger.losses == {"clicks without a list": 1, "clicks outside the window": 1}


# --- the others ---------------------------------------------------------------------------------

LISTS: Counter[Any] = Counter(
    {("shoe", ("a", "b", "c"), (0, 1, 0)): 1, ("hat", ("d", "e"), (1, 1)): 1}
)


def test_ubi():
    queries = pa.table(
        {
            "query_id": ["1", "2"],
            "client_id": ["u", "v"],
            "user_query": ["shoe", "hat"],
            "timestamp": [NOON.isoformat()] * 2,
            "query_response_hit_ids": [["a", "b", "c"], ["d", "e"]],
        }
    )
    done = [("1", "b", "click"), ("2", "d", "click"), ("2", "e", "click"), ("1", "a", "hover")]
    events = pa.Table.from_pylist(
        [
            {
                "action_name": action,
                "query_id": query,
                "timestamp": (NOON + timedelta(seconds=9)).isoformat(),
                "event_attributes": {"object": {"object_id": item}, "position": {"ordinal": 1}},
            }
            for query, item, action in [*done, ("7", "a", "click")]
        ]
    )
    log = ubi(queries, events)
    assert clicked(log) == LISTS
    assert log.ledger.losses == {"actions of other kinds": 1, "clicks without a list": 1}
    assert log.shape.unit
    both = ubi(queries, events, rewards={"clicks": ["click", "hover"]})
    assert fact(both, "clicks") == 4


def test_ubi_from_json_lines(tmp_path):
    """As an index is exported: nested objects, no types."""
    queries, events = tmp_path / "queries.ndjson", tmp_path / "events.ndjson"
    queries.write_text(
        '{"query_id": "1", "client_id": "u", "user_query": "shoe", "timestamp": '
        '"2026-05-01T12:00:00Z", "query_response_hit_ids": ["a", "b", "c"]}\n'
    )
    events.write_text(
        '{"action_name": "click", "query_id": "1", "timestamp": "2026-05-01T12:00:05Z", '
        '"event_attributes": {"object": {"object_id": "b"}, "position": {"ordinal": 2}}}\n'
    )
    log = ubi(queries, events)
    assert clicked(log) == Counter({("shoe", ("a", "b", "c"), (0, 1, 0)): 1})


def test_snowplow():
    vendor = "com_snowplowanalytics_snowplow_ecommerce"
    action = f"unstruct_event_{vendor}_snowplow_ecommerce_action_1"
    product = f"contexts_{vendor}_product_1"

    def event(
        kind: str, name: str | None, second: int, *products: tuple[str, int]
    ) -> dict[str, Any]:
        return {
            "domain_sessionid": f"of {name}",
            "domain_userid": "u",
            "derived_tstamp": NOON + timedelta(seconds=second),
            action: {"type": kind, "name": name},
            product: [{"id": item, "position": place} for item, place in products],
        }

    events = pa.Table.from_pylist(
        [
            event("list_view", "shoe", 0, ("a", 1), ("b", 2), ("c", 3)),
            event("list_view", "hat", 0, ("d", 1), ("e", 2)),
            event("list_click", "shoe", 5, ("b", 2)),
            event("list_click", "hat", 6, ("d", 1)),
            event("list_click", "hat", 7, ("e", 2)),
            event("add_to_cart", None, 9, ("e", 2)),
        ]
    )
    assert clicked(snowplow(events)) == LISTS


def test_algolia():
    searches = {
        "queryID": ["1", "2"],
        "query": ["shoe", "hat"],
        "objectIDs": [["a", "b", "c"], ["d", "e"]],
    }
    events = {
        "queryID": ["1", "2", "2"],
        "eventType": ["click", "click", "view"],
        "objectIDs": [["b"], ["d", "e"], ["d"]],
    }
    log = algolia(searches, events)
    assert clicked(log) == LISTS
    assert log.ledger.losses == {"actions of other kinds": 1}


def test_the_command_line_knows_them(tmp_path, capsys):
    events, _, clicks = analytics(sessions=20)
    path, out = str(tmp_path / "events.parquet"), str(tmp_path / "tally.parquet")
    pq.write_table(events, path)
    assert main(["convert", "ga4", path, out]) == 0
    assert "is a tally" in " ".join(capsys.readouterr().out.split())  # a long path wraps
    rows = fc.read_tally(out).to_arrow().to_pylist()
    marks = [c for c in rows[0] if c.startswith("clicks_")]
    assert sum(row["n"] * (row[c] or 0) for row in rows for c in marks) == clicks
    assert main(["convert", "ubi", path, out]) == 2
    assert "have two tables" in capsys.readouterr().err
    assert main(["convert", "snowplough", path, out]) == 2
    assert "no tracker 'snowplough', but ubi, ga4, snowplow" in capsys.readouterr().err
