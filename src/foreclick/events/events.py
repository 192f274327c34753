"""`from_events`: what was shown and what users did, put together to a log.

Every action finds the list it belongs to, or the ledger says why not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from foreclick.engines import (
    Table,
    TableLike,
    Value,
    bring,
    filter_by,
    open_source,
)
from foreclick.errors import InvalidLogError, SourceError
from foreclick.events.shown import (
    CONTEXT,
    ITEM,
    PERIOD,
    PLACE,
    POSITION,
    START,
    TIME,
    UNIT,
    Entries,
    Match,
    Name,
    Shown,
    any_null,
    array_in,
    cleaned,
    column_of,
    in_actions,
    in_shown,
    instant,
    latest,
    microseconds,
    open_shown,
    shared,
    unnested,
)
from foreclick.logs import DEEPEST, DEPTH, Log, Roles, compress, rewards_of, segments_of
from foreclick.metrics import CLICKS
from foreclick.options import checked
from foreclick.words import few, nearest, one_of

Wanted = str | Sequence[str] | Mapping[str, str]
"""The actions that count as a reward, or the columns whose sum it is, by the action."""

Rewards = Mapping[str, Mapping[str, str | None]]
"""The actions that count as each reward, with the column whose sum it is; None: it is 0 or 1."""

_COUNT, _SUM, _STATE = "__count_", "__sum_", "__state"
_SEEN, _WHEN = "__seen", "__when"
_KINDS, _NAMED = 1_000, 10  # of actions: looked at, and named in a message

USED, NO_KEY, NOT_SHOWN, EARLY, LATE, NO_LIST = range(6)
_CAUSES = {
    NO_KEY: "without a list or an item",
    NO_LIST: "without a list",
    NOT_SHOWN: "on items that their list did not show",
    EARLY: "before their list",
    LATE: "outside the window",
}


@checked(depth=DEPTH)
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
    """Make a log of two event tables, in their engine: what was shown, and what users did.

    An action belongs to the list with its `list_id`; without such an id, `Match` says how an action
    finds its list. The log's `ledger` counts what became of every event, with an example of each
    loss; what breaks the rules of a log is left out.

    Columns have one name in both tables, or a pair of names: ``("in_shown", "in_actions")``. A
    field within a column is written ``column.field``.

    Args:
        shown: impressions: one row per item, or one row per list, with an array of items.
        actions: clicks, carts, orders and so on, one row each.
        list_id: the column of the request's id, which actions carry; or a `Match`.
        context: the column of the query (or page, or user group) in `shown`; None: one context for
            all.
        items: the column of the item, of impressions and of actions. If it holds arrays, a row is a
            list; fields of their elements are written ``items.item_id``, here and in `position`.
        position: the column of the position in `shown`, from 0 or from 1; None: the place in the
            array, which is the default where `items` are arrays.
        action: the column in `actions` that names what was done; None if all rows are clicks.
        rewards: the actions that count as each reward, by default ``{"clicks": "click"}``. A reward
            is 1 if a user did it at least once. A reward that is the sum of a column names it:
            ``{"revenue": {"purchase": "price"}}``.
        period: as in `read_log`; by default the day of the `Match`'s time.
        unit: the column of the user or session in `shown`, as in `read_log`; by default the
            `Match`'s session.
        segments: as in `read_log`; or a mapping from names to columns.
        where: as in `read_log`: which rows of `shown` count.
        depth: as in `read_log`.
        engine: as in `read_log`.

    Returns:
        A `Log` with a `ledger`.

    Raises:
        SourceError: a table or a column cannot be read.
        InvalidLogError: no list is left.

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
    wanted = wanted_of(action, rewards)
    table = filter_by(open_source(shown, engine), where)
    did = open_source(actions, engine or table.engine)
    if did.engine != table.engine:
        home = table.engine.scratch_engine
        table, did = bring(table, home), bring(did, home)
    if unit is None and match.session is not None:
        unit = in_shown(match.session)
    named = {CONTEXT: context, PERIOD: period, UNIT: unit, **segments_of(segments)}
    item, entries = in_shown(items), Entries()
    lists = open_shown(table, match, item, position, named, entries)
    events = _Events(lists, match, items, action, wanted, entries)
    log = events.log(events.matched(did, position), depth)
    for cause, rows in log.dropped.items():
        entries.count(f"lists, {cause}", rows, "left out")
    entries.count("records", log.rows)
    one_row_a_list = array_in(table, item, position) is not None
    called = {"context": context, "items" if one_row_a_list else "item": item}
    return replace(log, ledger=entries.closed(), called=called)


def wanted_of(action: str | None, rewards: Mapping[str, Wanted] | None) -> Rewards:
    """What is counted, or an error that says what is missing."""
    wanted = {CLICKS: "click"} if rewards is None else dict(rewards)
    named = rewards_of(None, {name: name for name in wanted})
    if not named or (action is None and len(named) > 1):
        raise SourceError(
            f"rewards={dict(wanted)!r}, action={action!r}: say which actions count as which "
            "reward, for instance {'clicks': 'click', 'orders': 'purchase'}, and name the column, "
            "action=."
        )
    return {
        name: words
        if isinstance(words, Mapping)
        else dict.fromkeys([words] if isinstance(words, str) else words)
        for name, words in wanted.items()
    }


def refuse_strange(table: Table, action: str, rewards: Rewards) -> None:
    """Refuse rewards that no action earns, by all appearances because it is called otherwise.

    A day without any order is none: other rewards are earned, and no action is called alike.
    """
    say = table.engine.say
    did = Value(say.cast(column_of(table, action, "action").text, "text"), pa.string())
    often = table.grouped({"kind": did}, {"n": Value("count(*)")})
    often = often.query(f"{often.sql} ORDER BY s.n DESC, s.kind LIMIT {_KINDS}")
    kinds = {row["kind"]: row["n"] for row in often.to_pylist() if row["kind"] is not None}
    lost = [name for name, words in rewards.items() if not any(str(w) in kinds for w in words)]
    for name in lost:
        meant = next((near for word in rewards[name] if (near := nearest(word, kinds))), None)
        if meant is None and len(lost) < len(rewards):
            continue
        found = few([f"{kind} ({n:,})" for kind, n in kinds.items()], _NAMED)
        words = one_of(map(str, rewards[name]))
        raise SourceError(
            f"no action is {words}, which {name} count. "
            f"{f'The column {action!r} has {found}' if kinds else 'There are no actions at all'}."
            f"{f' Did you mean {meant!r}?' if meant else ''} Say which actions count, for instance "
            f"rewards={{{name!r}: {meant or '…'!r}}}."
        )


def is_sum(words: Mapping[str, str | None]) -> bool:
    """Whether a reward is the sum of a column, rather than 0 or 1."""
    return any(words.values())


@dataclass(frozen=True)
class _Events:
    """Impressions, what counts of actions on them, and the ledger so far; see `from_events`."""

    shown: Shown
    match: Match
    items: Name
    action: str | None
    rewards: Rewards
    entries: Entries

    def log(self, hits: Table, depth: int | None) -> Log:
        """The log of impressions and what they earned.

        Whether something stands twice is not asked for beforehand, for it is rare and costs as much
        as the log itself.
        """
        shown = self.shown
        columns = {CONTEXT: None, PERIOD: None, UNIT: None} | {name: name for name in shown.listed}
        roles = Roles(
            context=columns.pop(CONTEXT),
            items=ITEM,
            rewards={name: name for name in self.rewards},
            period=columns.pop(PERIOD),
            unit=columns.pop(UNIT),
            segments={name: name for name in columns},
            long=(*shown.lists, PLACE),
        )
        masks = tuple(name for name, words in self.rewards.items() if not is_sum(words))
        if depth is None and shown.deepest is not None and 0 < shown.deepest <= DEEPEST:
            depth = shown.deepest
        try:
            log = compress(self._earned(shown.table, hits), roles, "drop", depth, masks)
            if not log.dropped:
                return log
        except InvalidLogError:  # no row is valid
            pass
        once, lost = cleaned(shown, self.entries)
        self._account_lost(hits, lost)
        return compress(self._earned(once, hits), roles, "drop", depth, masks)

    def _earned(self, rows: Table, hits: Table) -> Table:
        """The impressions with what they earned: 0 where nothing happened."""
        say, columns = rows.engine.say, rows.own(rows.columns)
        for name in self.rewards:
            kind = hits.kinds.field(name).type
            columns[name] = Value(f"coalesce({say.column(name, 'o')}, 0)", kind)
        on = say.equal((*self.shown.lists, ITEM))
        joined = rows.made(columns, f"LEFT JOIN {hits.rows} AS o ON {on}")
        return replace(joined, held=(rows, hits))

    def matched(self, table: Table, position: str | None) -> Table:
        """What each item of each list earned: the list, the item, and a column for each reward.

        Args:
            table: the actions.
            position: as in `from_events`.
        """
        shown, item = self.shown, in_actions(self.items)
        within = position if item == in_shown(self.items) else ""
        array = array_in(table, item, within)
        if array is not None:
            table = unnested(table, array)
        matched = self._with_state(self._counted(table)).computed("actions")
        say, earned = matched.engine.say, {}
        if matched.aggregate({"n": Value.count(f"s.{_STATE} = {NOT_SHOWN}")})["n"]:
            # Actions on a list that did not show their item are told from those without a list.
            lists = f"(SELECT DISTINCT {', '.join(shown.keys)} FROM {shown.table.rows} AS l) AS o"
            nowhere = f"s.{_STATE} = {NOT_SHOWN} AND o.{shown.keys[0]} IS NULL"
            state = f"CASE WHEN {nowhere} THEN {NO_LIST} ELSE s.{_STATE} END"
            columns = matched.own(matched.columns)
            columns[_STATE] = Value(say.cast(state, "whole"))
            joined = matched.made(columns, f"LEFT JOIN {lists} ON {say.equal(shown.keys)}")
            matched = joined.computed("actions")
        for name, words in self.rewards.items():
            if is_sum(words):
                earned[name] = Value.sum(say.column(f"{_SUM}{name}"), say, "real")
            else:
                often = f"sum({say.column(f'{_COUNT}{name}')})"
                earned[name] = Value(f"CASE WHEN {often} > 0 THEN 1 ELSE 0 END")
        hits = matched.grouped(
            matched.own([*shown.lists, ITEM]), earned, f"WHERE s.{_STATE} = {USED}"
        )
        self._account(matched, hits)
        return hits

    def _counted(self, table: Table) -> Table:
        """The actions that count, with what they share with their list; equal ones together."""
        say, counts, did = table.engine.say, dict[str, Value](), None
        keys = shared(table, self.match, self.items, self.shown.table.kinds)
        if self.action is not None:
            did = say.cast(column_of(table, self.action, "action").text, "text")

        def done_by(words: Iterable[str]) -> str:
            listed = ", ".join(say.literal(str(word)) for word in words) or "NULL"
            return "1 = 1" if did is None else f"coalesce({did}, '') IN ({listed})"

        done = {name: done_by(words) for name, words in self.rewards.items()}
        for name, words in self.rewards.items():
            count = f"CASE WHEN {done[name]} THEN 1 ELSE 0 END"
            counts[f"{_COUNT}{name}"] = Value(count)
            worth = ""
            for word, summed in words.items():
                if summed is not None:
                    value = say.cast(column_of(table, summed, f"rewards[{name!r}]").text, "real")
                    worth += f" WHEN {done_by([word])} THEN coalesce({value}, 0)"
            if worth:
                counts[f"{_SUM}{name}"] = Value(f"CASE{worth} ELSE 0 END", pa.float64())
        other = " AND ".join(f"NOT ({condition})" for condition in done.values())
        facts = {"rows": Value("count(*)"), "others": Value.count(other)}
        facts |= {f"{_COUNT}{name}": Value.count(condition) for name, condition in done.items()}
        known = table.aggregate(facts | latest(keys))
        if did is not None and not all(known[f"{_COUNT}{name}"] for name in done):
            refuse_strange(table, str(self.action), self.rewards)
        self.entries.count("actions", known["rows"])
        self.entries.count("actions of other kinds", known["others"], "not asked for")
        if TIME in keys:
            keys[TIME] = instant(keys[TIME], known.get("latest"), say)
        rows = table.made(keys | counts, f"WHERE NOT ({other})")
        sums = {
            name: Value.sum(say.column(name), say, "whole" if name.startswith(_COUNT) else "real")
            for name in counts
        }
        return rows.grouped(rows.own(list(keys)), sums)

    def _with_state(self, actions: Table) -> Table:
        """The actions with the list that each belongs to, and what became of it (`_STATE`).

        By an id there is one list. By time it is the last one that showed the item before.
        """
        shown, say = self.shown, actions.engine.say
        timed = TIME in shown.table.columns
        there = f"CASE WHEN o.{ITEM} IS NOT NULL THEN 1 ELSE 0 END"
        facts = {_SEEN: Value(f"max({there})")}
        if shown.by_time:
            for name, column in ((_WHEN, TIME), (START, START)):
                last = f"max(CASE WHEN o.{TIME} <= s.{TIME} THEN o.{column} END)"
                facts[name] = Value(last)
        elif timed:
            facts[_WHEN] = Value(f"min(o.{TIME})")
        on = f"LEFT JOIN {shown.table.rows} AS o ON {say.equal((*shown.keys, ITEM))}"
        judged = actions.grouped(actions.own(actions.columns), facts, on)
        states = [(any_null([say.column(name) for name in (*shown.keys, ITEM)]), NO_KEY)]
        states.append((f"s.{_SEEN} = 0", NOT_SHOWN))
        if timed:
            waited, window = f"s.{TIME} - s.{_WHEN}", microseconds(self.match.window, "window")
            states.append((f"s.{_WHEN} IS NULL" if shown.by_time else f"{waited} < 0", EARLY))
            if window is not None:
                states.append((f"{waited} > {window}", LATE))
        became = " ".join(f"WHEN {condition} THEN {number}" for condition, number in states)
        columns = judged.own([*actions.columns, *([START] * shown.by_time)])
        columns[_STATE] = Value(say.cast(f"CASE {became} ELSE {USED} END", "whole"))
        return judged.made(columns)

    def _account(self, matched: Table, hits: Table) -> None:
        """Enters every action: used, repeated, or left out for one cause."""
        say, entries = matched.engine.say, self.entries
        counts = {name: Value.sum(say.column(f"{_COUNT}{name}"), say) for name in self.rewards}
        by_state = matched.grouped(matched.own([_STATE]), counts).to_pylist()
        states = {row[_STATE]: row for row in by_state}
        slots = hits.aggregate(
            {name: Value.count(f"{say.column(name)} > 0") for name in self.rewards}
        )
        for name, words in self.rewards.items():
            entries.count(name, slots[name])
            if not is_sum(words):
                again = states.get(USED, {name: 0})[name] - slots[name]
                entries.count(f"{name}, repeated", again, "counted once")
            for state, cause in _CAUSES.items():
                if state in states and states[state][name]:
                    some = f"s.{_STATE} = {state} AND {say.column(f'{_COUNT}{name}')} > 0"
                    columns = matched.own([*self.shown.keys, ITEM])
                    order = ", ".join(value.text for value in columns.values())
                    one = matched.made(columns, f"WHERE {some} ORDER BY {order} LIMIT 1")
                    *of, item = one.to_pylist()[0].values()
                    example = f"list {', '.join(map(str, of))}, item {item}"
                    entries.count(f"{name} {cause}", states[state][name], "left out", example)

    def _account_lost(self, hits: Table, lost: Table) -> None:
        """Enters what impressions earned that are left out themselves."""
        say, keys = hits.engine.say, [*self.shown.lists, ITEM]
        others = f"(SELECT DISTINCT {', '.join(keys)} FROM {lost.rows} AS l) AS o"
        sums = {name: Value.count(f"{say.column(name)} > 0") for name in self.rewards}
        for name, n in hits.aggregate(sums, f"INNER JOIN {others} ON {say.equal(keys)}").items():
            self.entries.count(f"{name} on items whose place another has", n, "left out")
            for row in self.entries.rows:
                if row["fact"] == name:
                    row["found"] -= n
