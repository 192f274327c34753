"""What users did: every action finds the list it belongs to, or the ledger says why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

import ibis
import ibis.expr.types as ir

from foreclick.engines import Engine, count_of, total, whole
from foreclick.events.columns import OF, alike, attached, column_of, in_actions, instant
from foreclick.events.ledger import Entries
from foreclick.events.shown import ITEM, KEY, OUT, START, TIME, Parts, Shown, unnested

_COUNT, _SUM, _STATE = "__count_", "__sum_", "__state"
_SEEN, _WHEN, _OUT, _OTHER = "__seen", "__when", "__excluded", "__other"

USED, NO_KEY, NOT_SHOWN, EARLY, LATE, LEFT_OUT, NO_LIST = range(7)
_CAUSES = {
    NO_KEY: "without a list or an item",
    NO_LIST: "without a list",
    NOT_SHOWN: "on items that their list did not show",
    EARLY: "before their list",
    LATE: "outside the window",
    LEFT_OUT: "on lists that are excluded",
}


@dataclass(frozen=True)
class Rewards:
    """Which actions count as which reward.

    Attributes:
        action: the column that says what a user did; None if all rows are of one kind.
        kinds: the actions that count, by the reward's name.
        values: the columns whose sum a reward is; the others are 0 or 1.
    """

    action: str | None
    kinds: Mapping[str, Sequence[str]]
    values: Mapping[str, str]


def match(
    table: ir.Table,
    shown: Shown,
    parts: Parts,
    rewards: Rewards,
    window: int | None,
    engine: Engine,
    entries: Entries,
) -> ir.Table:
    """What each item of each list earned: the list, the item, and a column for each reward."""
    actions = _asked(table, shown, parts, rewards, engine, entries)
    found = engine.held(_found(actions, shown, window), "actions")
    found = _with_lists(found, shown, engine)
    hits = _hits(found, shown, rewards)
    _account(found, hits, rewards, list(shown.keys), engine, entries)
    return hits


def _asked(
    table: ir.Table,
    shown: Shown,
    parts: Parts,
    rewards: Rewards,
    engine: Engine,
    entries: Entries,
) -> ir.Table:
    """The actions that count, with what they share with their list; equal ones together."""
    if isinstance(parts.items, tuple):
        table = unnested(table, parts.items[1])
    rows = _columns(table, shown, parts, rewards)
    asked = {"rows": rows.count(), "others": count_of(rows[_OTHER])}
    if TIME in rows.columns and rows[TIME].type().is_numeric():
        asked["latest"] = rows[TIME].max()
    facts = engine.rows(rows.aggregate(**asked))[0]
    entries.count("actions", facts["rows"])
    entries.odd("actions of other kinds", facts["others"], "not asked for")
    rows = rows.filter(~rows[_OTHER])
    keys = [*shown.keys, ITEM]
    if TIME in rows.columns:
        rows = rows.mutate(**{TIME: instant(rows[TIME], facts.get("latest"), engine)})
        keys.append(TIME)
    earned = [name for name in rows.columns if name.startswith((_COUNT, _SUM))]
    return rows.group_by(keys).aggregate(**{name: total(rows[name]) for name in earned})


def _columns(table: ir.Table, shown: Shown, parts: Parts, rewards: Rewards) -> ir.Table:
    kinds = shown.table.schema()
    columns: dict[str, Any] = {
        f"{KEY}{i}": alike(column_of(table, in_actions(name), role), kinds[f"{KEY}{i}"])
        for i, (role, name) in enumerate(parts.keys.items())
    }
    columns[ITEM] = alike(column_of(table, in_actions(parts.item), "item"), kinds[ITEM])
    if parts.time is not None:
        columns[TIME] = column_of(table, in_actions(parts.time), "time")
    other = ibis.literal(True)
    for name, words in rewards.kinds.items():
        done = ibis.literal(True)
        if rewards.action is not None:
            done = column_of(table, rewards.action, "action").isin(list(words)).fill_null(False)
        other = other & ~done
        columns[f"{_COUNT}{name}"] = done.ifelse(whole(1), whole(0))
        if name in rewards.values:
            worth = column_of(table, rewards.values[name], "values").cast("float64").fill_null(0.0)
            columns[f"{_SUM}{name}"] = done.ifelse(worth, 0.0)
    return table.select(**columns, **{_OTHER: other})


def _found(actions: ir.Table, shown: Shown, window: int | None) -> ir.Table:
    """The actions with the list that each belongs to, and what became of it (`_STATE`)."""
    own = [*shown.keys, ITEM]
    judged = _lists_of(actions, shown)
    unknown = reduce(or_, (judged[name].isnull() for name in own))
    state = [(unknown, NO_KEY), (~judged[_SEEN], NOT_SHOWN), (judged[_OUT], LEFT_OUT)]
    if shown.timed:
        waited = judged[TIME] - judged[_WHEN]
        early = judged[_WHEN].isnull() if shown.by_time else waited < 0
        state.append((early, EARLY))
        if window is not None:
            state.append((waited > window, LATE))
    states = [(condition.fill_null(False), ibis.literal(number)) for condition, number in state]
    became = ibis.cases(*states, else_=ibis.literal(USED)).cast("int64")
    return judged.select(*actions.columns, *([START] * shown.by_time), **{_STATE: became})


def _lists_of(actions: ir.Table, shown: Shown) -> ir.Table:
    """The list of each action, whether it showed the item, and when.

    By an id there is one list. By time it is the last one that showed the item before the action.
    """
    own, rows = [*shown.keys, ITEM], shown.table
    told = {_WHEN: TIME, _OUT: OUT, START: START}
    near = rows.select(*own, **{a: rows[b] for a, b in told.items() if b in rows.columns})
    joined = attached(actions, near, own)
    there = joined[f"{ITEM}{OF}"].notnull()
    found: dict[str, Any] = {_SEEN: there.any()}
    if shown.by_time:
        there = (joined[_WHEN] <= joined[TIME]).fill_null(False)
    usable = there & ~joined[_OUT].fill_null(True) if OUT in rows.columns else there
    if shown.by_time:
        found[_WHEN] = joined[_WHEN].max(where=usable)
        found[START] = joined[START].max(where=usable)
    elif shown.timed:
        found[_WHEN] = joined[_WHEN].min()
    found[_OUT] = there.any() & ~usable.any()
    return joined.group_by(list(actions.columns)).aggregate(**found)


def _hits(found: ir.Table, shown: Shown, rewards: Rewards) -> ir.Table:
    """What each item of each list earned."""
    used = found.filter(found[_STATE] == USED)
    earned = {
        name: total(used[f"{_SUM}{name}"])
        if name in rewards.values
        else (total(used[f"{_COUNT}{name}"]) > 0).ifelse(whole(1), whole(0))
        for name in rewards.kinds
    }
    return used.group_by([*shown.lists, ITEM]).aggregate(**earned)


def _with_lists(found: ir.Table, shown: Shown, engine: Engine) -> ir.Table:
    """Tells actions on a list that did not show their item from those without a list."""
    lost = found.filter(found[_STATE] == NOT_SHOWN)
    if not engine.rows(lost.aggregate(n=lost.count()))[0]["n"]:
        return found
    keys = list(shown.keys)
    lists = shown.table.semi_join(lost, keys).select(*keys).distinct()
    joined = attached(found, lists, keys)
    nowhere = (joined[_STATE] == NOT_SHOWN) & joined[f"{keys[0]}{OF}"].isnull()
    state = nowhere.ifelse(NO_LIST, joined[_STATE]).cast("int64")
    named = joined.mutate(**{_STATE: state}).select(*found.columns)
    return engine.held(named, "actions")


def _account(
    found: ir.Table,
    hits: ir.Table,
    rewards: Rewards,
    keys: list[str],
    engine: Engine,
    entries: Entries,
) -> None:
    """Enters every action: used, repeated, or left out for one cause."""
    counts = {name: total(found[f"{_COUNT}{name}"]) for name in rewards.kinds}
    states = {row[_STATE]: row for row in engine.rows(found.group_by(_STATE).aggregate(**counts))}
    earned = {name: count_of(hits[name] > 0) for name in rewards.kinds}
    slots = engine.rows(hits.aggregate(**earned))[0]
    for name in rewards.kinds:
        entries.count(name, slots[name])
        if name not in rewards.values:
            again = states.get(USED, {name: 0})[name] - slots[name]
            entries.odd(f"{name}, repeated", again, "counted once")
        for state, cause in _CAUSES.items():
            if state in states and states[state][name]:
                rows = found.filter((found[_STATE] == state) & (found[f"{_COUNT}{name}"] > 0))
                first = engine.rows(rows.select(*keys, ITEM).order_by([*keys, ITEM]).limit(1))[0]
                *of, item = first.values()
                example = f"list {', '.join(map(str, of))}, item {item}"
                entries.odd(f"{name} {cause}", states[state][name], "left out", example)


def account_lost(
    hits: ir.Table,
    lost: ir.Table,
    shown: Shown,
    names: Sequence[str],
    engine: Engine,
    entries: Entries,
) -> None:
    """Enters what impressions earned that are left out themselves."""
    rows = hits.semi_join(lost, [*shown.lists, ITEM])
    sums = {name: count_of(rows[name] > 0) for name in names}
    for name, n in engine.rows(rows.aggregate(**sums))[0].items():
        entries.odd(f"{name} on items whose place another has", n, "left out")
        entries.less(name, n)


def earned(shown: Shown, hits: ir.Table, names: Sequence[str]) -> ir.Table:
    """The impressions with what they earned: 0 where nothing happened."""
    rows = shown.table
    if OUT in rows.columns:
        rows = rows.filter(~rows[OUT]).drop(OUT)
    joined, kinds = attached(rows, hits, [*shown.lists, ITEM]), hits.schema()
    rewards = {name: joined[name].fill_null(0).cast(kinds[name]) for name in names}
    return joined.select(*rows.columns, **rewards)
