"""What users did: every action finds the list it belongs to, or the ledger says why not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from foreclick.engines import Table, Value, whole_sum
from foreclick.engines.kinds import is_numeric
from foreclick.events.columns import (
    Entries,
    alike,
    any_null,
    column_of,
    count_of,
    equal,
    held,
    in_actions,
    in_shown,
    instant,
    microseconds,
    real_sum,
)
from foreclick.events.shown import ITEM, KEY, START, TIME, Parts, Shown, array_in, unnested

_COUNT, _SUM, _STATE = "__count_", "__sum_", "__state"
_SEEN, _WHEN = "__seen", "__when"

USED, NO_KEY, NOT_SHOWN, EARLY, LATE, NO_LIST = range(6)
_CAUSES = {
    NO_KEY: "without a list or an item",
    NO_LIST: "without a list",
    NOT_SHOWN: "on items that their list did not show",
    EARLY: "before their list",
    LATE: "outside the window",
}


@dataclass(frozen=True)
class Rewards:
    """Which actions count as which reward.

    Attributes:
        action: the column that says what a user did; None if all rows are of one kind.
        kinds: the actions that count, by the reward's name.
        values: of rewards that are sums, the column that each action adds; others are 0 or 1.
    """

    action: str | None
    kinds: Mapping[str, Sequence[str]]
    values: Mapping[str, Mapping[str, str]]


Wanted = str | Sequence[str] | Mapping[str, str]
"""The actions that count as a reward, or the columns whose sum it is, by the action."""


def matched(table: Table, shown: Shown, parts: Parts, rewards: Rewards, entries: Entries) -> Table:
    """What each item of each list earned: the list, the item, and a column for each reward."""
    actions = _asked(table, shown, parts, rewards, entries)
    window = microseconds(parts.match.window, "window")
    found = _with_lists(held(_found(actions, shown, window), "actions"), shown)
    hits = _hits(found, shown, rewards)
    _account(found, hits, rewards, list(shown.keys), entries)
    return hits


def _asked(table: Table, shown: Shown, parts: Parts, rewards: Rewards, entries: Entries) -> Table:
    """The actions that count, with what they share with their list; equal ones together."""
    own, theirs = in_actions(parts.item), in_shown(parts.item)
    array = array_in(table, own, parts.position if own == theirs else "")
    if array is not None:
        table = unnested(table, array)
    say = table.engine.say
    columns, other = _columns(table, shown, parts, rewards)
    facts = {"rows": Value("count(*)", pa.int64()), "others": count_of(other)}
    if TIME in columns and is_numeric(columns[TIME].kind):
        facts["latest"] = Value(f"max({columns[TIME].text})", columns[TIME].kind)
    known = table.asked(facts)
    entries.count("actions", known["rows"])
    entries.odd("actions of other kinds", known["others"], "not asked for")
    if TIME in columns:
        columns[TIME] = instant(columns[TIME], known.get("latest"), say)
    rows = table.made(columns, f"WHERE NOT ({other})")
    keys = rows.own([name for name in columns if not name.startswith((_COUNT, _SUM))])
    groups = ", ".join(value.text for value in keys.values())
    sums = {
        name: (whole_sum if name.startswith(_COUNT) else real_sum)(f"s.{say.name(name)}", say)
        for name in columns
        if name not in keys
    }
    return rows.made(keys | sums, f"GROUP BY {groups}")


def _columns(
    table: Table, shown: Shown, parts: Parts, rewards: Rewards
) -> tuple[dict[str, Value], str]:
    """The parts of an action as columns in our own names, and whether it is of another kind."""
    say, kinds = table.engine.say, shown.table.kinds
    columns = {
        f"{KEY}{i}": alike(
            column_of(table, in_actions(name), role), kinds.field(f"{KEY}{i}").type, say
        )
        for i, (role, name) in enumerate(parts.match.keys.items())
    }
    columns[ITEM] = alike(
        column_of(table, in_actions(parts.item), "items"), kinds.field(ITEM).type, say
    )
    if parts.match.time is not None:
        columns[TIME] = column_of(table, in_actions(parts.match.time), "time")
    action = None
    if rewards.action is not None:
        action = say.cast(column_of(table, rewards.action, "action").text, "text")

    def done_by(words: Iterable[str]) -> str:
        listed = ", ".join(say.literal(str(word)) for word in words) or "NULL"
        return "1 = 1" if action is None else f"coalesce({action}, '') IN ({listed})"

    done = {name: done_by(words) for name, words in rewards.kinds.items()}
    for name, condition in done.items():
        count = f"CASE WHEN {condition} THEN 1 ELSE 0 END"
        columns[f"{_COUNT}{name}"] = Value(count, pa.int64())
        worth = ""
        for word, column in rewards.values.get(name, {}).items():
            value = say.cast(column_of(table, column, f"rewards[{name!r}]").text, "real")
            worth += f" WHEN {done_by([word])} THEN coalesce({value}, 0)"
        if worth:
            columns[f"{_SUM}{name}"] = Value(f"CASE{worth} ELSE 0 END", pa.float64())
    return columns, " AND ".join(f"NOT ({condition})" for condition in done.values())


def _found(actions: Table, shown: Shown, window: int | None) -> Table:
    """The actions with the list that each belongs to, and what became of it (`_STATE`)."""
    judged, say = _lists_of(actions, shown), actions.engine.say
    unknown = any_null([f"s.{say.name(name)}" for name in (*shown.keys, ITEM)])
    states = [(unknown, NO_KEY), (f"s.{_SEEN} = 0", NOT_SHOWN)]
    if shown.timed:
        waited = f"s.{TIME} - s.{_WHEN}"
        states.append((f"s.{_WHEN} IS NULL" if shown.by_time else f"{waited} < 0", EARLY))
        if window is not None:
            states.append((f"{waited} > {window}", LATE))
    became = " ".join(f"WHEN {condition} THEN {number}" for condition, number in states)
    columns = judged.own([*actions.columns, *([START] * shown.by_time)])
    columns[_STATE] = Value(say.cast(f"CASE {became} ELSE {USED} END", "whole"), pa.int64())
    return judged.made(columns)


def _lists_of(actions: Table, shown: Shown) -> Table:
    """The list of each action, whether it showed the item, and when.

    By an id there is one list. By time it is the last one that showed the item before the action.
    """
    rows, say = shown.table, actions.engine.say
    columns = actions.own(actions.columns)
    groups = ", ".join(value.text for value in columns.values())
    there = f"CASE WHEN o.{ITEM} IS NOT NULL THEN 1 ELSE 0 END"
    columns[_SEEN] = Value(f"max({there})", pa.int64())
    if shown.by_time:
        for name, own in ((_WHEN, TIME), (START, START)):
            last = f"max(CASE WHEN o.{TIME} <= s.{TIME} THEN o.{own} END)"
            columns[name] = Value(last, pa.int64())
    elif shown.timed:
        columns[_WHEN] = Value(f"min(o.{TIME})", pa.int64())
    on = equal((*shown.keys, ITEM), say)
    return actions.made(columns, f"LEFT JOIN {rows.rows} AS o ON {on} GROUP BY {groups}")


def _hits(found: Table, shown: Shown, rewards: Rewards) -> Table:
    """What each item of each list earned."""
    say = found.engine.say
    columns = found.own([*shown.lists, ITEM])
    groups = ", ".join(value.text for value in columns.values())
    for name in rewards.kinds:
        if name in rewards.values:
            columns[name] = real_sum(f"s.{say.name(f'{_SUM}{name}')}", say)
        else:
            often = f"sum(s.{say.name(f'{_COUNT}{name}')})"
            columns[name] = Value(f"CASE WHEN {often} > 0 THEN 1 ELSE 0 END", pa.int64())
    return found.made(columns, f"WHERE s.{_STATE} = {USED} GROUP BY {groups}")


def _with_lists(found: Table, shown: Shown) -> Table:
    """Tells actions on a list that did not show their item from those without a list."""
    lost = {"n": count_of(f"s.{_STATE} = {NOT_SHOWN}")}
    if not found.asked(lost)["n"]:
        return found
    keys = ", ".join(shown.keys)
    lists = f"(SELECT DISTINCT {keys} FROM {shown.table.rows} AS l) AS o"
    columns = found.own(found.columns)
    nowhere = f"s.{_STATE} = {NOT_SHOWN} AND o.{shown.keys[0]} IS NULL"
    state = f"CASE WHEN {nowhere} THEN {NO_LIST} ELSE s.{_STATE} END"
    columns[_STATE] = Value(found.engine.say.cast(state, "whole"), pa.int64())
    on = equal(shown.keys, found.engine.say)
    return held(found.made(columns, f"LEFT JOIN {lists} ON {on}"), "actions")


def _account(
    found: Table, hits: Table, rewards: Rewards, keys: list[str], entries: Entries
) -> None:
    """Enters every action: used, repeated, or left out for one cause."""
    say = found.engine.say
    counts = found.own([_STATE])
    counts |= {n: whole_sum(f"s.{say.name(f'{_COUNT}{n}')}", say) for n in rewards.kinds}
    by_state = found.made(counts, f"GROUP BY s.{_STATE}")
    states = {row[_STATE]: row for row in found.engine.rows(by_state)}
    slots = hits.asked({name: count_of(f"s.{say.name(name)} > 0") for name in rewards.kinds})
    for name in rewards.kinds:
        entries.count(name, slots[name])
        if name not in rewards.values:
            again = states.get(USED, {name: 0})[name] - slots[name]
            entries.odd(f"{name}, repeated", again, "counted once")
        for state, cause in _CAUSES.items():
            if state in states and states[state][name]:
                some = f"s.{_STATE} = {state} AND s.{say.name(f'{_COUNT}{name}')} > 0"
                columns = found.own([*keys, ITEM])
                order = ", ".join(value.text for value in columns.values())
                one = found.made(columns, f"WHERE {some} ORDER BY {order} LIMIT 1")
                *of, item = found.engine.rows(one)[0].values()
                example = f"list {', '.join(map(str, of))}, item {item}"
                entries.odd(f"{name} {cause}", states[state][name], "left out", example)


def account_lost(
    hits: Table, lost: Table, shown: Shown, names: Sequence[str], entries: Entries
) -> None:
    """Enters what impressions earned that are left out themselves."""
    say, keys = hits.engine.say, [*shown.lists, ITEM]
    others = f"(SELECT DISTINCT {', '.join(keys)} FROM {lost.rows} AS l) AS o"
    sums = {name: count_of(f"s.{say.name(name)} > 0") for name in names}
    found = hits.asked(sums, f"INNER JOIN {others} ON {equal(keys, say)}")
    for name, n in found.items():
        entries.odd(f"{name} on items whose place another has", n, "left out")
        entries.less(name, n)


def earned(shown: Shown, hits: Table, names: Sequence[str]) -> Table:
    """The impressions with what they earned: 0 where nothing happened."""
    rows, say = shown.table, shown.table.engine.say
    columns = rows.own(rows.columns)
    for name in names:
        columns[name] = Value(f"coalesce(o.{say.name(name)}, 0)", hits.kinds.field(name).type)
    on = equal((*shown.lists, ITEM), say)
    joined = rows.made(columns, f"LEFT JOIN {hits.rows} AS o ON {on}")
    return replace(joined, held=(rows, hits))
