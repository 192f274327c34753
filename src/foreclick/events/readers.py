"""Event tables of well-known trackers, read by the names that their own documentation gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from foreclick.engines import Table, TableLike, Value, open_source
from foreclick.engines.kinds import kind_of
from foreclick.errors import SourceError
from foreclick.events.events import from_events, refuse_strange, wanted_of
from foreclick.events.shown import SECOND, Match, column_of
from foreclick.logs import Log

_SEARCH, _TERM, _PAGE, _USER, _TIME = "__search", "__term", "__page", "__user", "__time"
_MOMENT = "event_timestamp"  # of an event of GA4, in microseconds since 1970
_HALF_AN_HOUR = 1800 * SECOND


def ubi(queries: TableLike, events: TableLike, **options: Any) -> Log:  # noqa: ANN401
    """Read a log of OpenSearch's User Behavior Insights 1.3: `ubi_queries` and `ubi_events`.

    The context is `user_query`, the list `query_response_hit_ids`, the unit `client_id`. An event
    finds its query by `query_id` and its item by `event_attributes.object.object_id`. Rows may have
    these fields in `_source`, as dumps of an index do.

    Args:
        queries: the index `ubi_queries`, one row per query.
        events: the index `ubi_events`, one row per event.
        **options: of `from_events`; `rewards` name the `action_name`s that count.

    Returns:
        A `Log` with a `ledger`.
    """
    hits = "query_response_hit_ids"
    named: dict[str, Any] = {
        "list_id": Match("query_id", time="timestamp"),
        "context": "user_query",
        "items": (hits, "event_attributes.object.object_id"),
        "position": None,
        "unit": "client_id",
        "action": "action_name",
    }
    return from_events(_plain(queries, options), _plain(events, options), **(named | options))


def ga4(events: TableLike, **options: Any) -> Log:  # noqa: ANN401
    """Read a log of Google Analytics 4, from the tables of its BigQuery export.

    Lists are events `view_item_list`; an action belongs to the last list of its user with the same
    `item_list_id` that showed its item, within half an hour. The context is the `search_term` among
    the `event_params`: of the event itself, or of the user's last search on the same page
    (`page_location`) within half an hour, from `view_search_results`. A list without one has its
    `item_list_id` as context. The unit is the `user_pseudo_id`. The parts of a list that is logged
    while a user scrolls are joined if they come within ten seconds of each other.

    Impressions whose `item_list_index` is not a number, such as "(not set)", are left out;
    ``position=None`` takes the place in `items` instead.

    Args:
        events: the tables `events_…`, one row per event, with their `items`.
        **options: of `from_events`; `rewards` name the `event_name`s that count, by default
            ``{"clicks": "select_item"}``. Carts and orders often lose their list on the way;
            ``list_id=Match(session="user_pseudo_id", time="event_timestamp", together=10)`` finds
            it by the user and the item alone.

    Returns:
        A `Log` with a `ledger`.
    """
    table, note = _plain(events, options), None
    if _MOMENT in table.columns and kind_of(table.kinds.field(_MOMENT).type) == "text":
        say = table.engine.say  # the export to JSON writes integers of 64 bits as text
        table = table.with_column(_MOMENT, say.cast(say.column(_MOMENT), "whole"), pa.int64())
    if "context" not in options:
        table, note = _with_searches(table)
    named: dict[str, Any] = {
        "list_id": Match(
            session="user_pseudo_id",
            list_name="items.item_list_id",
            time=_MOMENT,
            together=10,
        ),
        "context": _SEARCH if _SEARCH in table.columns else "items.item_list_id",
        "items": "items.item_id",
        "position": "items.item_list_index",
        "unit": "user_pseudo_id",
        "action": "event_name",
        "rewards": {"clicks": "select_item"},
    }
    log = _of_one_table(table, "view_item_list", named | options)
    notes = (*log.ledger.notes, *([note] if note else []))
    return replace(log, ledger=replace(log.ledger, notes=notes))


def snowplow(events: TableLike, **options: Any) -> Log:  # noqa: ANN401
    """Read a log of Snowplow's e-commerce plugin, from `atomic.events` of its loaders.

    Lists are actions of the type `list_view`; a `list_click` belongs to the last list of its
    session with the same name that showed its product. The unit is the `domain_userid`. The event
    and its products are structs, as in BigQuery and Databricks, or JSON, as in Snowflake and
    Redshift; names may be in capitals.

    These events do not say what was searched for, so name the `context`: the column of the search;
    or that of the list's name, where a list is a shelf or a category.

    Args:
        events: `atomic.events`, one row per event.
        **options: of `from_events`; `context` is required. `rewards` name the types of actions that
            count, by default ``{"clicks": "list_click"}``.

    Returns:
        A `Log` with a `ledger`.
    """
    vendor = "com_snowplowanalytics_snowplow_ecommerce"
    action = f"unstruct_event_{vendor}_snowplow_ecommerce_action_1"
    product = f"contexts_{vendor}_product_1"
    if "context" not in options:
        raise SourceError(
            "Snowplow's list views have no search term, so all searches would be one context. Name "
            "the column of the search, for instance context='search_term'; for shelves and "
            f"categories the name of the list, context='{action}.name'."
        )
    named: dict[str, Any] = {
        "list_id": Match(
            session="domain_sessionid", list_name=f"{action}.name", time="derived_tstamp"
        ),
        "items": f"{product}.id",
        "position": f"{product}.position",
        "unit": "domain_userid",
        "action": f"{action}.type",
        "rewards": {"clicks": "list_click"},
    }
    return _of_one_table(_plain(events, options), "list_view", named | options)


def algolia(searches: TableLike, events: TableLike, **options: Any) -> Log:  # noqa: ANN401
    """Read a log of Algolia: your searches, and the events that you send to its Insights API.

    Args:
        searches: one row per search: `queryID`, `query`, and `objectIDs`, the hits in their order.
        events: one row per event: `queryID`, `objectIDs`, `eventType` and `timestamp`.
        **options: of `from_events`; `rewards` name the `eventType`s that count.

    Returns:
        A `Log` with a `ledger`.
    """
    named: dict[str, Any] = {
        "list_id": "queryID",
        "context": "query",
        "items": "objectIDs",
        "position": None,
        "action": "eventType",
    }
    return from_events(searches, events, **(named | options))


def _plain(source: TableLike, options: dict[str, Any]) -> Table:
    """A tracker's table in the words of its documentation: not in `_source`, not in capitals."""
    table = open_source(source, options.get("engine"))
    say, source_of = table.engine.say, "_source"
    if source_of in table.columns and kind_of(table.kinds.field(source_of).type) == "struct":
        fields = table.kinds.field(source_of).type
        inner = [fields.field(i) for i in range(fields.num_fields)]
        whole = f"({say.column(source_of)}){say.dot}"
        table = table.made({f.name: Value(whole + say.name(f.name), f.type) for f in inner})
    if not any(letter.islower() for name in table.columns for letter in name):
        columns = table.own(table.columns)
        table = table.made({name.lower(): value for name, value in columns.items()})
    return table


def _with_searches(table: Table) -> tuple[Table, str]:
    """Events of GA4 with the search that their list answers, or its id; and a note on that."""
    say, params, alone = table.engine.say, "event_params", "Contexts are ids of lists"
    if params not in table.columns or not say.first:
        return table, f"{alone}, which mix all searches: no {params} can be read. Give context=."
    value = table.kinds.field(params).type.value_type.field("value").type
    values = [
        say.cast(f"p.{say.name('value')}.{say.name(name)}", "text")  # a term of digits is a number
        for name in ("string_value", "int_value", "double_value")
        if value.get_field_index(name) >= 0
    ]
    term, page = (
        say.first.format(
            array=say.column(params),
            condition=f"p.{say.name('key')} = {say.literal(key)}",
            value=f"coalesce({', '.join([*values, 'NULL'])})",
        )
        for key in ("search_term", "page_location")
    )
    known = {
        **table.own(table.columns),
        _TERM: Value(term, pa.string()),
        _PAGE: Value(f"coalesce({page}, '')", pa.string()),
        _USER: column_of(table, "user_pseudo_id", "session"),
        _TIME: column_of(table, _MOMENT, "time"),
    }
    rows = table.made(known).computed("searches")
    if not rows.aggregate({"n": Value.count(f"s.{_TERM} IS NOT NULL")})["n"]:
        return table, f"{alone}: no event has a search_term."
    keys = f"{_USER}, {_PAGE}, {_TIME}"
    moments = (
        f"SELECT {keys}, max({_TERM}) AS term, "
        f"max(CASE WHEN {_TERM} IS NOT NULL THEN {_TIME} END) AS searched "
        f"FROM {rows.rows} AS s GROUP BY {keys}"
    )
    running = (
        f"SELECT {keys}, max(searched) OVER (PARTITION BY {_USER}, {_PAGE} ORDER BY {_TIME} ROWS "
        f"BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS searched FROM ({moments}) AS m"
    )
    recent_term = f"CASE WHEN s.{_TIME} - r.searched <= {_HALF_AN_HOUR} THEN o.term END"
    first = say.cast(say.at(say.column("items"), 1, "item_list_id"), "text")
    columns = rows.own(table.columns)
    columns[_SEARCH] = Value(f"coalesce(s.{_TERM}, {recent_term}, {first})", pa.string())
    same = f"s.{_USER} = {{0}}.{_USER} AND s.{_PAGE} = {{0}}.{_PAGE}"
    joins = (
        f"LEFT JOIN ({running}) AS r ON {same.format('r')} AND s.{_TIME} = r.{_TIME} "
        f"LEFT JOIN ({moments}) AS o ON {same.format('o')} AND r.searched = o.{_TIME}"
    )
    note = "Contexts are search terms; a list without one has its item_list_id."
    return rows.made(columns, joins), note


def _of_one_table(table: Table, shows: str, named: Mapping[str, Any]) -> Log:
    """A log of a table that has both: events in which lists were shown, and those that count.

    Args:
        table: the events.
        shows: the kind of event in which a list was shown.
        named: what `from_events` is to be told.
    """
    say = table.engine.say
    kind = say.cast(column_of(table, named["action"], "action").text, "text")
    refuse_strange(table, named["action"], wanted_of(named["action"], named["rewards"]))
    counted = [
        word
        for words in named["rewards"].values()
        for word in ([words] if isinstance(words, str) else words)
    ]
    shown, actions = (
        table.where(f"{kind} IN ({', '.join(map(say.literal, words))})")
        for words in ([shows], counted)
    )
    return from_events(shown, actions, **named)
