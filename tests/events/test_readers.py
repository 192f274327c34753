"""If this fails, a tracker's clicks are lost, though its tables are as it documents them."""

import json
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick.cli import main
from foreclick.errors import SourceError
from foreclick.events import Match, algolia, ga4, snowplow, ubi
from tests.engines.looking import only_spark

NOON = datetime(2026, 5, 1, 12)  # noqa: DTZ001 - as in most logs


def clicked(log: fc.Log) -> Counter[Any]:
    """How often (context, list, clicks) was logged."""
    found: Counter[Any] = Counter()
    for row in fc.tally(log).table.to_pyarrow().to_pylist():
        items = tuple(row[c] for c in log.shape.items if row[c] is not None)
        marks = tuple(row[c] for c in log.shape.reward("clicks") if row[c] is not None)
        found[row["context"], items, marks] += row["n"]
    return found


def fact(log: fc.Log, name: str) -> int:
    return int(log.ledger["found"][log.ledger["fact"].index(name)])


# --- Google Analytics 4 -------------------------------------------------------------------------

# The types of the export: https://support.google.com/analytics/answer/7029846
_WORDS = ("item_id", "item_name", "item_list_id", "item_list_name", "item_list_index")
ITEM = pa.struct(dict.fromkeys(_WORDS, pa.string()) | {"price": pa.float64()})
VALUE = {"string_value": pa.string(), "int_value": pa.int64()}
VALUE |= dict.fromkeys(("float_value", "double_value"), pa.float64())
PARAM = pa.struct({"key": pa.string(), "value": pa.struct(VALUE)})
GA4 = pa.schema(
    {
        "event_date": pa.string(),
        "event_timestamp": pa.int64(),
        "event_name": pa.string(),
        "event_params": pa.list_(PARAM),
        "user_pseudo_id": pa.string(),
        "items": pa.list_(ITEM),
    }
)


def params(**values: str | int) -> list[dict[str, Any]]:
    """Parameters of an event; GA4 writes a text of digits as a number."""
    return [
        {"key": key, "value": {"int_value" if isinstance(value, int) else "string_value": value}}
        for key, value in values.items()
    ]


def searched() -> list[dict[str, Any]]:
    """Three searches by one user on one list id, a category page, and what was clicked."""

    def event(second: int, name: str, page: str, *items: tuple[str, str], **more: str | int) -> Any:  # noqa: ANN401
        return {
            "event_date": "20260501",
            "event_timestamp": 1_777_636_800_000_000 + second * 1_000_000,
            "event_name": name,
            "event_params": params(page_location=page, ga_session_id=7, **more),
            "user_pseudo_id": "123.456",
            "items": [
                {"item_id": item, "item_list_id": "results", "item_list_index": place}
                for item, place in items
            ],
        }

    seen = "view_item_list"
    return [
        event(0, "page_view", "/s?q=shoe"),
        event(1, "view_search_results", "/s?q=shoe", search_term="shoe"),
        event(2, seen, "/s?q=shoe", ("a", "0"), ("b", "1"), ("x", "(not set)")),
        event(5, "select_item", "/s?q=shoe", ("b", "1")),
        event(60, "view_search_results", "/s?q=2026", search_term=2026),
        event(61, seen, "/s?q=2026", ("b", "0"), ("a", "1")),
        event(90, seen, "/s?q=hat", ("c", "0"), ("d", "1"), search_term="hat"),
        event(95, "select_item", "/s?q=hat", ("c", "0")),
        event(200, seen, "/sale", ("d", "0"), ("c", "1")),
    ]


SEARCHED: Counter[Any] = Counter(
    {
        ("shoe", ("a", "b"), (0, 1)): 1,
        ("2026", ("b", "a"), (0, 0)): 1,
        ("hat", ("c", "d"), (1, 0)): 1,
        ("results", ("d", "c"), (0, 0)): 1,
    }
)


@pytest.mark.parametrize("form", ["arrow", "pandas"])
def test_ga4_has_search_terms_as_contexts(form):
    events: Any = pa.Table.from_pylist(searched(), GA4)
    if form == "pandas":
        events = pd.DataFrame(searched())  # nested rows, whose types are guessed
    log = ga4(events)
    assert clicked(log) == SEARCHED
    assert log.ledger.losses["impressions without a list, an item or a position"] == 1
    assert "Contexts are search terms" in log.ledger.notes[-1]


def test_ga4_without_search_terms_says_what_contexts_are():
    events = pa.Table.from_pylist(searched(), GA4)
    log = ga4(events.drop(["event_params"]))
    assert {context for context, _, _ in clicked(log)} == {"results"}
    assert "mix all searches" in log.ledger.notes[-1]
    named = ga4(events, context="event_date")
    assert {context for context, _, _ in clicked(named)} == {"20260501"}


def as_exported(value: Any) -> Any:  # noqa: ANN401
    """As BigQuery exports to JSON: integers of 64 bits as text, and nothing for what is NULL."""
    if isinstance(value, dict):
        return {name: as_exported(v) for name, v in value.items() if v is not None}
    if isinstance(value, list):
        return [as_exported(each) for each in value]
    return str(value) if isinstance(value, int) else value


def test_ga4_from_its_export_to_json(tmp_path):
    rows = pa.Table.from_pylist(searched(), GA4).to_pylist()
    path = tmp_path / "events.json"
    path.write_text("".join(f"{json.dumps(as_exported(row))}\n" for row in rows))
    log = ga4(path)
    assert clicked(log) == SEARCHED
    days = {row["period"] for row in fc.tally(log).to_arrow().to_pylist()}
    assert days == {NOON.date()}
    assert clicked(ga4(path, context="event_date")).total() == len(SEARCHED)


def test_an_event_that_nobody_sends_is_refused_with_those_that_are_sent():
    events = pa.Table.from_pylist(searched(), GA4)
    with pytest.raises(SourceError, match=r"'select_items'.*view_item_list \(4\).*'select_item'\?"):
        ga4(events, rewards={"clicks": "select_items"})
    assert ga4(events, rewards={"clicks": "select_item", "orders": "purchase"}).rows == 4


# --- the others ---------------------------------------------------------------------------------

LISTS: Counter[Any] = Counter(
    {("shoe", ("a", "b", "c"), (0, 1, 0)): 1, ("hat", ("d", "e"), (1, 1)): 1}
)


QUERIES: list[dict[str, Any]] = [
    {"query_id": query, "client_id": user, "user_query": text, "query_response_hit_ids": hits}
    | {"timestamp": NOON.isoformat()}
    for query, user, text, hits in (
        ("1", "u", "shoe", ["a", "b", "c"]),
        ("2", "v", "hat", ["d", "e"]),
    )
]
DONE = [("1", "b", "click"), ("2", "d", "click"), ("2", "e", "click"), ("1", "a", "hover")]
EVENTS: list[dict[str, Any]] = [
    {
        "action_name": action,
        "query_id": query,
        "timestamp": (NOON + timedelta(seconds=9)).isoformat(),
        "event_attributes": {"object": {"object_id": item}, "position": {"ordinal": 1}},
    }
    for query, item, action in [*DONE, ("7", "a", "click")]
]


def test_ubi():
    queries, events = map(pa.Table.from_pylist, (QUERIES, EVENTS))
    log = ubi(queries, events)
    assert clicked(log) == LISTS
    assert log.ledger.losses == {"actions of other kinds": 1, "clicks without a list": 1}
    assert log.shape.unit
    both = ubi(queries, events, rewards={"clicks": ["click", "hover"]})
    assert fact(both, "clicks") == 4


def test_ubi_from_a_dump_of_its_indices(tmp_path):
    """As elasticdump writes it: one document a line, its fields in `_source`."""
    files, frames = [], []
    for name, rows in (("ubi_queries", QUERIES), ("ubi_events", EVENTS)):
        documents = [
            {"_index": name, "_id": str(i), "_score": 1.0}
            | {"_source": row | {"timestamp": f"{row['timestamp']}.000Z", "query_attributes": {}}}
            for i, row in enumerate(rows)
        ]
        files.append(tmp_path / f"{name}.ndjson")
        files[-1].write_text("".join(f"{json.dumps(document)}\n" for document in documents))
        frames.append(pd.DataFrame(documents))
    assert clicked(ubi(*files)) == clicked(ubi(*frames)) == LISTS


ACTION, PRODUCT = (
    f"{kind}_com_snowplowanalytics_snowplow_ecommerce_{what}_1"
    for kind, what in (("unstruct_event", "snowplow_ecommerce_action"), ("contexts", "product"))
)


def plowed() -> list[dict[str, Any]]:
    """Rows of `atomic.events` whose lists are `LISTS`."""

    def event(kind: str, name: str | None, second: int, *products: tuple[str, int]) -> Any:  # noqa: ANN401
        return {
            "domain_sessionid": f"of {name}",
            "domain_userid": "u",
            "derived_tstamp": NOON + timedelta(seconds=second),
            ACTION: {"type": kind, "name": name},
            PRODUCT: [{"id": item, "position": place} for item, place in products],
        }

    return [
        event("list_view", "shoe", 0, ("a", 1), ("b", 2), ("c", 3)),
        event("list_view", "hat", 0, ("d", 1), ("e", 2)),
        event("list_click", "shoe", 5, ("b", 2)),
        event("list_click", "hat", 6, ("d", 1)),
        event("list_click", "hat", 7, ("e", 2)),
        event("add_to_cart", None, 9, ("e", 2)),
    ]


def as_json(rows: list[dict[str, Any]]) -> pa.Table:
    """As Snowflake (OBJECT, ARRAY) and Redshift (SUPER) unload them."""
    return pa.Table.from_pylist(
        [row | {name: json.dumps(row[name]) for name in (ACTION, PRODUCT)} for row in rows]
    )


def test_snowplow():
    loud = as_json(plowed())
    loud = loud.rename_columns([name.upper() for name in loud.column_names])
    for events in (pa.Table.from_pylist(plowed()), pd.DataFrame(plowed()), loud):
        assert clicked(snowplow(events, context=f"{ACTION}.name")) == LISTS


def test_snowplow_has_no_search_terms_and_says_so():
    """Every search is a list of one name, which would be one context for all."""
    searches = [row | {ACTION: row[ACTION] | {"name": "search results"}} for row in plowed()]
    with pytest.raises(SourceError, match=r"no search term.*context='search_term'"):
        snowplow(pa.Table.from_pylist(searches))
    terms = ["shoe", "hat", None, None, None, None]
    events = pa.Table.from_pylist(searches).append_column("search_term", pa.array(terms))
    assert clicked(snowplow(events, context="search_term")) == LISTS


def test_lists_of_json_on_every_engine(engine):
    """PostgreSQL cuts the names of Snowplow's columns after 63 letters."""
    short = {ACTION: "action", PRODUCT: "products"}
    events = as_json(plowed())
    names = [short.get(name, name) for name in events.column_names]
    table = engine.load(events.rename_columns(names))
    log = snowplow(
        table,
        list_id=Match(session="domain_sessionid", list_name="action.name", time="derived_tstamp"),
        context="action.name",
        action="action.type",
        items="products.id",
        position="products.position",
    )
    assert clicked(log) == LISTS


@only_spark
def test_ga4_in_spark(engine):
    assert clicked(ga4(engine.load(pa.Table.from_pylist(searched(), GA4)))) == SEARCHED


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
    path, plow, out = (str(tmp_path / f"{name}.parquet") for name in ("events", "plow", "tally"))
    pq.write_table(pa.Table.from_pylist(searched(), GA4), path)
    pq.write_table(pa.Table.from_pylist(plowed()), plow)

    def told(code, source, tracker, *options):
        assert main(["tally", source, "--tracker", tracker, "-o", out, *options]) == code
        return " ".join("".join(capsys.readouterr()).split())  # a long path wraps

    assert "is a tally" in told(0, path, "ga4")
    rows = fc.read_tally(out).to_arrow().to_pylist()
    marks = [c for c in rows[0] if c.startswith("clicks_")]
    assert sum(row["n"] * (row[c] or 0) for row in rows for c in marks) == 2
    assert "no search term" in told(2, plow, "snowplow")
    told(0, plow, "snowplow", "--context", f"{ACTION}.name")
    assert set(fc.read_tally(out).to_arrow()["context"].to_pylist()) == {"shoe", "hat"}
    assert "have two tables" in told(2, path, "ubi")
    assert 'Did you mean "snowplow"?' in told(2, path, "snowplough")
