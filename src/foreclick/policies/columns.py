"""The policy that a candidate is: a table by its columns, a run, or a log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from foreclick.engines import Table, open_source
from foreclick.engines.kinds import is_numeric, kind_of
from foreclick.errors import InvalidLogError, PolicyError, SourceError
from foreclick.logs import CONTEXT, ITEM, Log
from foreclick.logs.roles import CALLED
from foreclick.policies.base import Names, Policy
from foreclick.policies.lists import Lists, Observed, Ranking, Scores, is_listed, listed_in
from foreclick.policies.marginals import Marginals
from foreclick.policies.runs import is_run
from foreclick.policies.serving import ITEMS
from foreclick.tallies import LogLike, Tally
from foreclick.words import no_column

POSITION, SCORE, PROBABILITY = "position", "score", "probability"
ROLES = (CONTEXT, ITEMS, ITEM, POSITION, SCORE, PROBABILITY)
"""What a column of a candidate's table may hold."""

PolicyLike: TypeAlias = Policy | LogLike
"""A policy; a log or tally, for what it observed; a run; or a table, see `policy_of`."""

ColumnsByRole: TypeAlias = dict[str, Any]
"""Columns by what they hold; the context's is None where there is one context for all."""


_REFUSED = (SourceError, PolicyError, InvalidLogError)


def as_policy(
    candidate: PolicyLike,
    names: Names | None = None,
    name: str = "candidate",
    contexts: Table | None = None,
) -> Policy:
    """A policy as it is; a log as what it observed; a table as what its columns say.

    Args:
        candidate: what a user calls a policy.
        names: what the columns of the log are called; a table may call its own so.
        name: what it is called in messages.
        contexts: those that are asked for, see `policy_of`.
    """
    if isinstance(candidate, Log | Tally):
        return Observed(candidate)
    names = names or {}
    try:
        if isinstance(candidate, Policy):
            return candidate.named(names)
        if is_run(candidate) or is_listed(candidate, names.get(CONTEXT)):
            return Ranking(candidate)
        return policy_of(open_source(candidate), names, contexts=contexts, remedy=_in_python)
    except _REFUSED as error:  # of a child, which may be made of more than a message, its parent
        kind = next(kind for kind in _REFUSED if isinstance(error, kind))
        raise kind(f"{name}: {error}") from error


def policy_for(tally: Tally, candidate: PolicyLike, name: str = "candidate") -> Policy:
    """The policy that a log is asked about: columns as in the log, lists of contexts it has."""
    return as_policy(candidate, tally.names, name, tally.drawn_contexts)


def _in_python(roles: ColumnsByRole) -> str:
    """How a user of the library names columns."""
    named = ", ".join(f"{role}={column!r}" for role, column in roles.items())
    maker = "fc.Ranking" if ITEMS in roles else "fc.Ranking.from_scores"
    return f"Name them: {maker}(table, {named})."


def policy_of(
    table: Table,
    names: Names,
    named: Mapping[str, Any] | None = None,
    k: int | None = None,
    *,
    contexts: Table | None = None,
    remedy: Callable[[ColumnsByRole], str],
) -> Lists | Marginals:
    """The policy that a table is, by its columns.

    Args:
        table: one row per list, or per item.
        names: what the log calls its columns.
        named: columns that the user named, by what they hold.
        k: how many items a list of scored items shows.
        contexts: rows with a column `context`; only lists of these contexts are read. By default
            all are.
        remedy: how the user names columns: from roles, some of them guesses, to a sentence.
    """
    roles = _roles(table, names, dict(named or {}))
    needed = [CONTEXT, ITEM] if _by_item(roles) else [CONTEXT, ITEMS]
    if _by_item(roles) and SCORE not in roles:
        at_position = not {POSITION, PROBABILITY}.isdisjoint(roles)
        needed.append(POSITION if at_position else SCORE)
    if not set(needed) <= roles.keys():
        raise PolicyError(_unclear(table, roles, needed, remedy))
    context = roles[CONTEXT]
    if contexts is not None and context is not None and contexts.engine is table.engine:
        table = _within(table, context, contexts)
    if not _by_item(roles):
        if k is not None:
            raise PolicyError("k is for scored items, and the table has lists.")
        if PROBABILITY not in roles:
            return Ranking(table, context=context, items=roles[ITEMS])
        return Lists(table, context, roles[ITEMS], roles[PROBABILITY])
    item = roles[ITEM]
    if SCORE in roles:
        return Ranking(Scores(table, item, roles[SCORE], k), context)
    if PROBABILITY in roles:
        return Marginals(table, context, item, roles[POSITION], roles[PROBABILITY])
    return Ranking(Scores(table, item, roles[POSITION], k, rising=True), context)


def _within(table: Table, context: str, contexts: Table) -> Table:
    """The rows of these contexts, and those without any, which is an error."""
    say = table.engine.say
    own, others = say.column(context), say.column(CONTEXT, "o")
    if kind_of(table.kinds.field(context).type) != kind_of(contexts.kinds.field(CONTEXT).type):
        own, others = say.cast(own, "text"), say.cast(others, "text")
    asked = f"{own} IN (SELECT {others} FROM {contexts.rows} AS o) OR {own} IS NULL"
    return replace(table.where(asked), held=(table, contexts))


def _roles(table: Table, names: Names, roles: ColumnsByRole) -> ColumnsByRole:
    """What each column holds, as far as its name, its type or the lack of another says.

    A column holds what the user says; else it is called as in the log; else as what it holds. The
    list is the only column of lists; and what is still needed is in the only column left.
    """
    there, scored = table.columns, SCORE in roles
    for role, column in roles.items():
        for one in _names(column):
            if one not in there:
                raise PolicyError(no_column(role, one, there))
    for role in ROLES:
        logged = names.get(role, role)
        if role not in roles and logged and set(_names(logged)) <= set(there):
            roles[role] = logged
        elif role not in roles and role in there:
            roles[role] = role
    if scored:
        roles.pop(ITEMS, None)
    if CONTEXT not in roles and names.get(CONTEXT, CONTEXT) is None:
        roles[CONTEXT] = None
    if {ITEMS, ITEM}.isdisjoint(roles) and not isinstance(listed_in(there, ITEMS), str):
        roles[ITEMS] = listed_in(there, ITEMS)
    free = _free(table, roles)
    lists = [name for name in free if kind_of(table.kinds.field(name).type) == "list"]
    if {ITEMS, ITEM}.isdisjoint(roles) and len(lists) == 1:
        roles[ITEMS] = lists[0]
    if {ITEMS, SCORE, POSITION}.isdisjoint(roles):
        ranks = [name for name in free if name.lower() in CALLED[POSITION]]
        if ranks:
            roles[POSITION] = ranks[0]
    needed = [r for r in (CONTEXT, ITEM if _by_item(roles) else ITEMS) if r not in roles]
    free = _free(table, roles)
    if len(needed) == len(free) == 1:
        roles[needed[0]] = free[0]
    return roles


def _by_item(roles: ColumnsByRole) -> bool:
    """Whether a row is an item, and not a list."""
    return ITEMS not in roles and not {ITEM, SCORE, POSITION}.isdisjoint(roles)


def _names(column: str | Sequence[str] | None) -> Sequence[str]:
    """The names of one column, of several, or of none."""
    return [column] if isinstance(column, str) else column or ()


def _free(table: Table, roles: ColumnsByRole) -> list[str]:
    """The columns that hold nothing yet."""
    used = [name for column in roles.values() for name in _names(column)]
    return [name for name in table.columns if name not in used]


def _unclear(
    table: Table,
    roles: ColumnsByRole,
    needed: Sequence[str],
    remedy: Callable[[ColumnsByRole], str],
) -> str:
    """Which columns are not known, and how to name them, with guesses."""
    free, guesses = _free(table, roles), dict[str, Any]()
    for role in needed:
        number = [name for name in free if is_numeric(table.kinds.field(name).type)]
        usual = [name for name in free if name.lower() in CALLED.get(role, ())]
        likely = usual or (number if role == SCORE else free) or ["…"]
        guesses[role] = roles.get(role, likely[0])
        free = [name for name in free if name != guesses[role]]
    missing = " and ".join(f"the {role}" for role in needed if role not in roles)
    return (
        f"no column is known to hold {missing}. It has the columns {', '.join(table.columns)}. "
        f"{remedy(guesses)}"
    )
