"""From the words of the command line to logs, tallies, candidates and constraints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import foreclick as fc
from foreclick.cli.app import LOG, given
from foreclick.engines import Table, default_engine, laptop, open_source, unchanged
from foreclick.engines.kinds import called
from foreclick.errors import InvalidLogError, PolicyError, SourceError
from foreclick.logs.project import named_log
from foreclick.policies.columns import ROLES, ColumnsByRole, policy_of
from foreclick.policies.runs import is_run
from foreclick.rules import split_names
from foreclick.tallies.base import is_tally, read_in

if TYPE_CHECKING:
    from foreclick.cli.app import Options
    from foreclick.engines import Engine

_COUNTED = ("clicks", "period", "unit", "propensity", "segments", "rewards", "where")
"""ColumnsByRole that a tally has settled, and that a candidate has no use for."""


# --- logs -----------------------------------------------------------------------------------------


def read_log(options: Options, paths: Sequence[str]) -> fc.Log | fc.Tally:
    """The log that all paths make together: raw files in one pass, tallies added."""
    limits = given(options, "memory_limit threads")
    engine = laptop(**limits) if limits else default_engine()
    tallies = [path for path in paths if is_tally(path)]
    raw = [path for path in paths if path not in tallies]
    roles = given_roles(options)
    idle = ["reward" if role == "rewards" else role for role in _COUNTED if role in roles]
    if idle and not raw:
        raise SourceError(
            f"{tallies[0]!r} is a tally, which is counted already: --{', --'.join(idle)} would "
            "change nothing. Leave it out, or tally the log again with it."
        )
    counted = [read_in(engine, path) for path in tallies]
    if not raw:
        return sum(counted[1:], counted[0])
    if len(raw) == 1 and named_log(raw[0]):
        log = fc.read_log(raw[0], engine=engine, **roles)
    else:
        with unchanged(raw):
            log = fc.read_log(_stacked(raw, engine), **roles)
    return sum(counted, fc.tally(log)) if counted else log


def given_roles(options: Options) -> dict[str, Any]:
    """The options of `read_log` that were given."""
    roles = given(options, f"{LOG} propensity count invalid long sample")
    roles |= {role: None for role in ("context", "clicks") if roles.get(role) == ""}
    if "rewards" in roles:
        pairs = roles["rewards"]
        roles["rewards"] = {n: split_names(c) if "," in c else c for n, c in pairs}
    return roles


def _stacked(paths: list[str], engine: Engine) -> Table:
    """The rows of all files, which must have the same columns."""
    tables = [open_source(path, engine) for path in paths]
    kinds = [{field.name: called(field.type) for field in table.kinds} for table in tables]
    first = kinds[0]
    for path, other in zip(paths, kinds, strict=True):
        differ = [name for name in first | other if first.get(name) != other.get(name)]
        if differ:
            raise SourceError(
                f"{paths[0]!r} and {path!r} have different columns: {differ[0]!r} is "
                f"{first.get(differ[0], 'absent')} and {other.get(differ[0], 'absent')} "
                f"({len(differ)} such columns). Tally each by itself, then add the tallies."
            )
    if len(tables) == 1:
        return tables[0]
    columns = ", ".join(map(tables[0].engine.say.name, tables[0].columns))
    union = " UNION ALL ".join(f"SELECT {columns} FROM {table.rows} AS s" for table in tables)
    return replace(tables[0].query(union), held=tables)


# --- candidates -----------------------------------------------------------------------------------


def read_candidate(path: str, options: Options, log: Sequence[str] = ()) -> fc.Policy:
    """The policy that a file is, by its columns; `log` are files, perhaps tallies."""
    try:
        return _candidate(path, options, log)
    except (InvalidLogError, PolicyError, SourceError) as error:  # name the file
        raise type(error)(f"candidate {path!r}: {error}") from error


def _candidate(path: str, options: Options, log: Sequence[str]) -> fc.Policy:
    if is_tally(path):
        return fc.Observed(fc.read_tally(path))
    if is_run(path):
        return fc.Ranking.from_trec(path, depth=options.k)
    named: dict[str, Any] = dict(options.candidate_columns or ())
    unknown = [role for role in named if role not in ROLES]
    if unknown:
        raise SourceError(f"--column {unknown[0]}=…: name the column of {', '.join(ROLES)}.")
    named |= given(options, "score")
    tallies = [each for each in log if is_tally(each)]
    counted = fc.read_tally(tallies[0]) if tallies else None
    names = dict(counted.names) if counted is not None else {}
    named_roles = (named_log(log[0]) or {}) if len(log) == 1 else {}
    names |= {role: named_roles[role] for role in ("context", "items") if role in named_roles}
    names |= {role: c or None for role, c in given(options, "context items").items()}
    if "items" in names and (given(options, "long") or "long" in named_roles):
        names["item"] = names.pop("items")
    contexts = counted.drawn_contexts if counted is not None and len(log) == 1 else None
    table = open_source(path)
    return policy_of(table, names, named, options.k, contexts=contexts, remedy=_in_words)


def _in_words(roles: ColumnsByRole) -> str:
    """How a user of the command line names columns."""
    return f"Name them: {' '.join(f'--column {role}={c}' for role, c in roles.items())}."


# --- constraints ----------------------------------------------------------------------------------


def read_constraints(options: Options) -> dict[str, Table]:
    """Tables of constraints on a policy, as `optimize` takes them, with the log's context."""
    tables = {}
    for option, path in given(options, "pinned banned").items():
        try:
            table = open_source(path)
        except SourceError as error:
            raise SourceError(f"--{option}: {error}") from error
        context = options.context
        if context and context in table.columns and "context" not in table.columns:
            value = f"s.{table.engine.say.name(context)}"
            table = table.with_column("context", value, table.kinds.field(context).type)
        tables[option] = table
    return tables
