"""`from_events`: what was shown and what users did, put together to a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal

from foreclick.engines import Table, TableLike, bring, filter_by, open_source
from foreclick.errors import InvalidLogError, SourceError
from foreclick.events.actions import Rewards, account_lost, earned, match
from foreclick.events.columns import Entries, Name, in_shown, microseconds
from foreclick.events.shown import (
    CONTEXT,
    ITEM,
    PERIOD,
    PLACE,
    PROPENSITY,
    UNIT,
    Parts,
    Shown,
    cleaned,
    open_shown,
)
from foreclick.logs import DEEPEST, Log, Roles, compress, rewards_of
from foreclick.metrics import CLICKS

HALF_AN_HOUR = timedelta(minutes=30)


def from_events(
    shown: TableLike,
    actions: TableLike,
    *,
    list_id: Name | None = "list_id",
    context: str | None = "context",
    item: Name | None = None,
    items: Name | None = None,
    position: str | None = None,
    action: str | None = "action",
    rewards: Mapping[str, str | Sequence[str]] | None = None,
    values: Mapping[str, str] | None = None,
    time: Name | None = None,
    session: Name | None = None,
    list_name: Name | None = None,
    window: float | timedelta | None = HALF_AN_HOUR,
    together: float | timedelta | None = None,
    period: str | None = None,
    unit: str | None = None,
    segments: str | Sequence[str] | Mapping[str, str] = (),
    propensity: str | None = None,
    where: str | None = None,
    invalid: Literal["error", "drop"] = "error",
    depth: int | None = None,
    engine: Any = None,  # noqa: ANN401 - a connection
) -> Log:
    """Make a log of two event tables, where they live: what was shown, and what users did.

    An action belongs to the list with its `list_id`. Where there is no such id, it belongs to the
    last list of its `session` (and `list_name`) that showed its item before it, within the
    `window`. The log's `ledger` says what became of every event, with an example of each loss.

    Columns have one name in both tables, or a pair of names: ``("in_shown", "in_actions")``. A
    field within a column is written ``column.field``.

    Args:
        shown: impressions, one row an item, or one row a list (`items`).
        actions: clicks, carts, orders and so on, one row each.
        list_id: the id of a request, which an action carries; None if there is none.
        context: the query (or page, or user group) of `shown`; None: one context for all.
        item: the item of an impression and of an action; by default "item".
        items: for one row a list, the array of items. If its elements have fields, name these in
            `item`, `position` and `list_name`: ``items.item_id``. A pair if actions have arrays.
        position: the position of `shown`, from 0 or from 1; by default "position", or the place
            in `items`.
        action: the column of `actions` that says what was done; None if all rows are clicks.
        rewards: which actions count as which reward, by default ``{"clicks": "click"}``. A reward
            is 1 if a user did it at least once.
        values: rewards that are sums of a column instead: ``{"revenue": "price"}``.
        time: when a list was shown and an action done: a timestamp, its text, or a number of
            seconds, milli- or microseconds since 1970.
        session: the session (or user) by which actions find lists that have no id.
        list_name: the name of a list in a session, such as "search results".
        window: how long after its list an action may come: seconds, or a timedelta; None: ever.
        together: lists without an id that follow each other within this time, further and further
            down, are one list: its pages, or what a user scrolled to.
        period: as in `read_log`; by default the day of `time`.
        unit: the user or session of `shown`, as in `read_log`; by default the `session`.
        segments: as in `read_log`; or a mapping from names to columns.
        propensity: the probability of an item at its position.
        where: as in `read_log`, which rows of `shown` count.
        invalid: as in `read_log`.
        depth: as in `read_log`.
        engine: as in `read_log`.

    Examples:
        >>> log = from_events(
        ...     {
        ...         "list_id": [1, 1, 2, 2],
        ...         "context": ["q"] * 4,
        ...         "item": [7, 8, 8, 7],
        ...         "position": [0, 1, 0, 1],
        ...     },
        ...     {"list_id": [1, 2, 3], "item": [7, 7, 7], "action": ["click"] * 3},
        ... )
        >>> log
        <Log: 2 records of up to 2 items in duckdb; rewards: clicks>
        >>> log.ledger.losses
        {'clicks without a list': 1}
    """
    one_row_an_item = "item" if items is None else items
    named = [segments] if isinstance(segments, str) else list(segments)
    parts = Parts(
        list_id=list_id,
        context=context,
        item=one_row_an_item if item is None else item,
        items=items,
        position="position" if position is None and items is None else position,
        time=time,
        session=session,
        list_name=list_name,
        together=None if together is None else microseconds(together, "together"),
        period=period,
        unit=in_shown(session) if unit is None and session is not None else unit,
        segments=segments if isinstance(segments, Mapping) else {name: name for name in named},
        propensity=propensity,
    )
    wanted = _rewards(action, rewards, values)
    lasts = None if window is None else microseconds(window, "window")
    table = filter_by(open_source(shown, engine), where)
    did = open_source(actions, engine or table.engine)
    if did.engine != table.engine:
        home = table.engine.workplace
        table, did = bring(table, home), bring(did, home)
    entries = Entries()
    lists = open_shown(table, parts, entries)
    hits = match(did, lists, parts, wanted, lasts, entries)
    log = _log(lists, hits, wanted, entries, invalid, depth)
    entries.count("records", log.rows)
    called: dict[str, str | None] = {"context": context, "item": in_shown(parts.item)}
    if items is not None:
        called["items"] = in_shown(items)
    return replace(log, ledger=entries.closed(), called=called)


def _rewards(
    action: str | None,
    rewards: Mapping[str, str | Sequence[str]] | None,
    values: Mapping[str, str] | None,
) -> Rewards:
    """What is counted, or an error that says what is missing."""
    asked = {CLICKS: "click"} if rewards is None else dict(rewards)
    named = rewards_of(None, {name: name for name in asked})
    if not named or (action is None and len(named) > 1):
        raise SourceError(
            f"rewards={dict(asked)!r}, action={action!r}: say which actions count as which reward, "
            "for instance {'clicks': 'click', 'orders': 'purchase'}, and name the column, action=."
        )
    unknown = [name for name in values or {} if name not in named]
    if unknown:
        raise SourceError(
            f"values={dict(values or {})!r}: {unknown[0]!r} is not among the rewards "
            f"{', '.join(named)}. Say which actions it is the value of, for instance "
            f"rewards={{{unknown[0]!r}: 'purchase'}}."
        )
    kinds = {name: (k,) if isinstance(k, str) else tuple(k) for name, k in asked.items()}
    return Rewards(action, kinds, dict(values or {}))


def _log(
    shown: Shown,
    hits: Table,
    rewards: Rewards,
    entries: Entries,
    invalid: Literal["error", "drop"],
    depth: int | None,
) -> Log:
    """The log of impressions and what they earned.

    Whether something stands twice is not asked for beforehand, for it is rare and costs as much as
    the log itself.
    """
    names, there = list(rewards.kinds), shown.table.columns
    masks = tuple(name for name in names if name not in rewards.values)
    roles = Roles(
        context=CONTEXT if CONTEXT in there else None,
        items=None,
        rewards={name: name for name in names},
        period=PERIOD if PERIOD in there else None,
        unit=UNIT if UNIT in there else None,
        propensity=PROPENSITY if PROPENSITY in there else None,
        segments=tuple(n for n in shown.listed if n not in (CONTEXT, PERIOD, UNIT)),
        list_id=shown.lists,
        position=PLACE,
        item=ITEM,
    )
    if depth is None and shown.deepest is not None and 0 < shown.deepest <= DEEPEST:
        depth = shown.deepest
    try:
        log = compress(earned(shown, hits, names), roles, "drop", depth, masks)
        if not log.dropped:
            return log
    except InvalidLogError:  # no row is valid
        pass
    once, lost = cleaned(shown, entries)
    account_lost(hits, lost, shown, names, entries)
    return compress(earned(once, hits, names), roles, invalid, depth, masks)
