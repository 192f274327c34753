"""`from_events`: what was shown and what users did, put together to a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from foreclick.engines import Table, TableLike, bring, filter_by, open_source
from foreclick.errors import InvalidLogError, SourceError
from foreclick.events.actions import Rewards, Wanted, account_lost, earned, matched
from foreclick.events.columns import Entries, Name, in_shown
from foreclick.events.shown import (
    CONTEXT,
    ITEM,
    PERIOD,
    PLACE,
    POSITION,
    UNIT,
    Match,
    Parts,
    Shown,
    array_in,
    cleaned,
    open_shown,
)
from foreclick.logs import DEEPEST, Log, Roles, compress, rewards_of
from foreclick.metrics import CLICKS


def from_events(
    shown: TableLike,
    actions: TableLike,
    *,
    list_id: Name | Match = "list_id",
    context: str | None = "context",
    items: Name = "item",
    position: str | None = POSITION,
    action: str | None = "action",
    rewards: Mapping[str, Wanted] | None = None,
    period: str | None = None,
    unit: str | None = None,
    segments: str | Sequence[str] | Mapping[str, str] = (),
    where: str | None = None,
    depth: int | None = None,
    engine: Any = None,  # noqa: ANN401 - a connection
) -> Log:
    """Make a log of two event tables, where they live: what was shown, and what users did.

    An action belongs to the list with its `list_id`. Where there is no such id, `Match` says how
    an action finds its list. The log's `ledger` says what became of every event, with an example of
    each loss; what breaks the rules of a log is left out.

    Columns have one name in both tables, or a pair of names: ``("in_shown", "in_actions")``. A
    field within a column is written ``column.field``.

    Args:
        shown: impressions, one row an item, or one row a list, with an array of items.
        actions: clicks, carts, orders and so on, one row each.
        list_id: the id of a request, which an action carries; or a `Match`.
        context: the query (or page, or user group) of `shown`; None: one context for all.
        items: the item of an impression and of an action. If it is a column of arrays, a row is a
            list; fields of their elements are named ``items.item_id``, here and in `position`.
        position: the position of `shown`, from 0 or from 1; None: the place in the array, which is
            the default where `items` are arrays.
        action: the column of `actions` that says what was done; None if all rows are clicks.
        rewards: which actions count as which reward, by default ``{"clicks": "click"}``. A reward
            is 1 if a user did it at least once. A reward that is the sum of a column names it:
            ``{"revenue": {"purchase": "price"}}``.
        period: as in `read_log`; by default the day of the `Match`'s time.
        unit: the user or session of `shown`, as in `read_log`; by default the `Match`'s session.
        segments: as in `read_log`; or a mapping from names to columns.
        where: as in `read_log`, which rows of `shown` count.
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
    match = list_id if isinstance(list_id, Match) else Match(list_id)
    wanted = _rewards(action, rewards)
    table = filter_by(open_source(shown, engine), where)
    did = open_source(actions, engine or table.engine)
    if did.engine != table.engine:
        home = table.engine.workplace
        table, did = bring(table, home), bring(did, home)
    named = [segments] if isinstance(segments, str) else list(segments)
    parts = Parts(
        match=match,
        context=context,
        item=items,
        position=position,
        period=period,
        unit=in_shown(match.session) if unit is None and match.session is not None else unit,
        segments=segments if isinstance(segments, Mapping) else {name: name for name in named},
    )
    entries = Entries()
    lists = open_shown(table, parts, entries)
    hits = matched(did, lists, parts, wanted, entries)
    log = _log(lists, hits, wanted, entries, depth)
    for cause, rows in log.dropped.items():
        entries.odd(f"lists, {cause}", rows, "left out")
    entries.count("records", log.rows)
    one_row_a_list = array_in(table, in_shown(items), position) is not None
    called = {"context": context, "items" if one_row_a_list else "item": in_shown(items)}
    return replace(log, ledger=entries.closed(), called=called)


def _rewards(action: str | None, rewards: Mapping[str, Wanted] | None) -> Rewards:
    """What is counted, or an error that says what is missing."""
    asked = {CLICKS: "click"} if rewards is None else dict(rewards)
    named = rewards_of(None, {name: name for name in asked})
    if not named or (action is None and len(named) > 1):
        raise SourceError(
            f"rewards={dict(asked)!r}, action={action!r}: say which actions count as which reward, "
            "for instance {'clicks': 'click', 'orders': 'purchase'}, and name the column, action=."
        )
    kinds = {name: (k,) if isinstance(k, str) else tuple(k) for name, k in asked.items()}
    values = {name: dict(k) for name, k in asked.items() if isinstance(k, Mapping)}
    return Rewards(action, kinds, values)


def _log(
    shown: Shown,
    hits: Table,
    rewards: Rewards,
    entries: Entries,
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
        items=ITEM,
        rewards={name: name for name in names},
        period=PERIOD if PERIOD in there else None,
        unit=UNIT if UNIT in there else None,
        segments=tuple(n for n in shown.listed if n not in (CONTEXT, PERIOD, UNIT)),
        long=(*shown.lists, PLACE),
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
    return compress(earned(once, hits, names), roles, "drop", depth, masks)
