"""Event tables of well-known trackers, read by the names that their own documentation gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from foreclick.engines import TableLike, open_source
from foreclick.events.columns import column_of
from foreclick.events.events import from_events
from foreclick.logs import Log

_Wanted = Mapping[str, str | Sequence[str]]


def ubi(
    queries: TableLike,
    events: TableLike,
    *,
    rewards: _Wanted | None = None,
    **options: Any,  # noqa: ANN401 - those of from_events
) -> Log:
    """A log of OpenSearch's User Behavior Insights 1.3: `ubi_queries` and `ubi_events`.

    The context is `user_query`, the list `query_response_hit_ids`, the unit `client_id`. An event
    finds its query by `query_id` and its item by `event_attributes.object.object_id`.

    Args:
        queries: the index `ubi_queries`, one row a query.
        events: the index `ubi_events`, one row an event.
        rewards: which `action_name`s count, by default ``{"clicks": "click"}``.
        **options: of `from_events`.
    """
    hits = "query_response_hit_ids"
    named: dict[str, Any] = {
        "list_id": "query_id",
        "context": "user_query",
        "items": hits,
        "item": (hits, "event_attributes.object.object_id"),
        "time": "timestamp",
        "unit": "client_id",
        "action": "action_name",
        "rewards": rewards,
    }
    return from_events(queries, events, **(named | options))


def ga4(
    events: TableLike,
    *,
    rewards: _Wanted | None = None,
    engine: Any = None,  # noqa: ANN401 - a connection
    **options: Any,  # noqa: ANN401 - those of from_events
) -> Log:
    """A log of Google Analytics 4, from the tables of its BigQuery export.

    What was shown are events `view_item_list`; an action finds the last list of its user with the
    same `item_list_id` that showed its item, within half an hour. The context is the
    `item_list_id`, the unit the `user_pseudo_id`. A list that is logged while a user scrolls is put
    together if its parts come within ten seconds of each other.

    Args:
        events: the tables `events_…`, one row an event, with their `items`.
        rewards: which `event_name`s count, by default ``{"clicks": "select_item"}``. Carts and
            orders often lose their list on the way; give ``list_name=None`` to find it by the
            user and the item alone.
        engine: as in `read_log`.
        **options: of `from_events`.
    """
    named: dict[str, Any] = {
        "session": "user_pseudo_id",
        "list_name": "items.item_list_id",
        "context": "items.item_list_id",
        "items": ("items", "items"),
        "item": "items.item_id",
        "position": "items.item_list_index",
        "time": "event_timestamp",
        "unit": "user_pseudo_id",
        "together": 10,
        "action": "event_name",
        "rewards": {"clicks": "select_item"} if rewards is None else rewards,
    }
    return _of_one_table(events, "view_item_list", engine, named | options)


def snowplow(
    events: TableLike,
    *,
    rewards: _Wanted | None = None,
    engine: Any = None,  # noqa: ANN401 - a connection
    **options: Any,  # noqa: ANN401 - those of from_events
) -> Log:
    """A log of Snowplow's e-commerce plugin, from `atomic.events` of its loaders.

    What was shown are actions of the type `list_view`; a `list_click` finds the last list of its
    session with the same name that showed its product. The context is the list's name, the unit
    the `domain_userid`.

    Args:
        events: `atomic.events`, one row an event.
        rewards: which types of actions count, by default ``{"clicks": "list_click"}``.
        engine: as in `read_log`.
        **options: of `from_events`.
    """
    vendor = "com_snowplowanalytics_snowplow_ecommerce"
    action = f"unstruct_event_{vendor}_snowplow_ecommerce_action_1"
    product = f"contexts_{vendor}_product_1"
    named: dict[str, Any] = {
        "session": "domain_sessionid",
        "list_name": f"{action}.name",
        "context": f"{action}.name",
        "items": (product, product),
        "item": f"{product}.id",
        "position": f"{product}.position",
        "time": "derived_tstamp",
        "unit": "domain_userid",
        "action": f"{action}.type",
        "rewards": {"clicks": "list_click"} if rewards is None else rewards,
    }
    return _of_one_table(events, "list_view", engine, named | options)


def algolia(
    searches: TableLike,
    events: TableLike,
    *,
    rewards: _Wanted | None = None,
    **options: Any,  # noqa: ANN401 - those of from_events
) -> Log:
    """A log of Algolia: your searches, and the events that you send to its Insights API.

    Args:
        searches: one row a search: `queryID`, `query`, and `objectIDs`, the hits in their order.
        events: one row an event: `queryID`, `objectIDs`, `eventType` and `timestamp`.
        rewards: which `eventType`s count, by default ``{"clicks": "click"}``.
        **options: of `from_events`.
    """
    named: dict[str, Any] = {
        "list_id": "queryID",
        "context": "query",
        "items": ("objectIDs", "objectIDs"),
        "action": "eventType",
        "rewards": rewards,
    }
    return from_events(searches, events, **(named | options))


def _of_one_table(
    events: TableLike,
    shows: str,
    engine: Any,  # noqa: ANN401 - a connection
    named: Mapping[str, Any],
) -> Log:
    """A log of a table that has both: events in which lists were shown, and those that count.

    Args:
        events: the table.
        shows: the kind of event in which a list was shown.
        engine: as in `read_log`.
        named: what `from_events` is to be told.
    """
    _, table = open_source(events, engine)
    say = table.engine.say
    kind = say.cast(column_of(table, named["action"], "action").text, "text")
    counted = [
        word
        for words in named["rewards"].values()
        for word in ([words] if isinstance(words, str) else words)
    ]
    shown, actions = (
        table.query(
            f"SELECT * FROM {table.rows} AS s "
            f"WHERE {kind} IN ({', '.join(map(say.literal, words))})"
        )
        for words in ([shows], counted)
    )
    return from_events(shown, actions, **({"list_id": None} | dict(named)))
