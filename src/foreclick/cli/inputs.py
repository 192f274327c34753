"""From the words of the command line to logs, tallies and candidates."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import foreclick as fc
from foreclick.engines import Engine, Table, open_source, unchanged
from foreclick.engines.kinds import called
from foreclick.errors import InvalidLogError, PolicyError, SourceError
from foreclick.policies.runs import is_run
from foreclick.tallies.base import distinct
from foreclick.tallies.reading import is_tally

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreclick.cli.commands import Optimize
    from foreclick.cli.options import Candidate, Log


_COUNTED = (*("clicks", "period", "unit", "propensity", "segments", "rewards", "where"),)
"""Roles that a tally has settled, and that a candidate has no use for."""


# --- logs ---------------------------------------------------------------------------------------


def read_logs(args: Log, paths: Sequence[str]) -> fc.Log | fc.Tally:
    """The log that the paths make together: raw ones are read in one pass, tallies are added.

    Args:
        args: the options.
        paths: files, directories or globs.
    """
    engine = args.engine()
    tallies = [path for path in paths if is_tally(path)]
    raw = [path for path in paths if path not in tallies]
    if not raw:
        _refuse_roles(args, tallies[0])
    counted = [fc.read_tally(path, engine=engine) for path in tallies]
    if not raw:
        return sum(counted[1:], counted[0])
    with unchanged(raw):
        log = fc.read_log(_stacked(raw, engine), **args.roles())
    return sum(counted, fc.tally(log)) if counted else log


def _refuse_roles(args: Log, path: str) -> None:
    roles = args.roles()
    idle = ["reward" if role == "rewards" else role for role in _COUNTED if role in roles]
    if idle:
        raise SourceError(
            f"{path!r} is a tally, which is counted already: --{', --'.join(idle)} would change "
            "nothing. Leave it out, or tally the log again with it."
        )


def _stacked(paths: list[str], engine: Engine | None) -> Table:
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


# --- candidates ---------------------------------------------------------------------------------


def read_candidate(path: str, args: Candidate, log: Sequence[str] = ()) -> fc.Policy:
    """The policy that the candidate's file is, by its columns; `log` may be tallies."""
    try:
        return _candidate(path, args, log)
    except (InvalidLogError, PolicyError, SourceError) as error:  # say which file is meant
        raise type(error)(f"candidate {path!r}: {error}") from error


def _candidate(path: str, args: Candidate, log: Sequence[str]) -> fc.Policy:
    if is_tally(path):
        return fc.Observed(fc.read_tally(path))
    if is_run(path):
        return fc.Ranking.from_trec(path, depth=args.k)
    table = open_source(path)
    own = dict(args.candidate_columns or ())
    unknown = [role for role in own if role not in (*_ROLES, "probability")]
    if unknown:
        raise SourceError(
            f"--column {unknown[0]}=…: name the column of {', '.join(_ROLES)} or probability."
        )
    tallies = [each for each in log if is_tally(each)]
    names = dict(fc.read_tally(tallies[0]).names) if tallies else {}
    names |= {role: value for role in _ROLES if (value := getattr(args, role, None)) is not None}
    found: dict[str, Any] = {role: _role(role, own, names, table) for role in _ROLES}
    context, item, score = found["context"], found["item"], args.score or "score"
    probability = own.get("probability", "probability")
    if args.score is not None or {score, item} <= set(table.columns):
        return fc.Ranking.from_scores(table, context=context, item=item, score=score, k=args.k)
    if args.k is not None:
        raise PolicyError("--k is for scored items. Name the columns with --score and --column.")
    if probability not in table.columns:
        return fc.Ranking(table, context=context, items=found["items"])
    if found["position"] in table.columns:
        return fc.Marginals(
            table, context=context, item=item, position=found["position"], probability=probability
        )
    return fc.Lists(table, context=context, items=found["items"], probability=probability)


_ROLES = ("context", "items", "item", "position")


def _role(role: str, own: dict[str, str], names: dict[str, Any], table: Table) -> Any:  # noqa: ANN401
    """The column that plays a role in the candidate; None if the role is not played.

    As said for the candidate; else called as in the log; else, where no column is called so, by
    the role's own name.
    """
    if role in own:
        return own[role]
    logged = names.get(role, role)
    if logged in ("", None):
        return None if role == "context" else role
    there = {logged} if isinstance(logged, str) else set(logged)
    own_name = role in table.columns or (role == "items" and "item_1" in table.columns)
    return role if own_name and not there <= set(table.columns) else logged


# --- constraints ----------------------------------------------------------------------------------


def read_constraints(args: Optimize) -> dict[str, Any]:
    """Constraints on a policy, from files, as `optimize` takes it."""
    found: dict[str, Any] = {}
    if args.pinned is not None:
        found["pinned"] = _constraint("pinned", args, "context", "item", "position")
    if args.banned is not None:
        table = _constraint("banned", args, "item")
        everywhere = "context" not in table.columns
        found["banned"] = distinct(table, "item").to_pylist() if everywhere else table
    return found


def _constraint(option: str, args: Optimize, *needed: str) -> Table:
    """A table whose columns are called by their roles; those not needed may be there too."""
    path = getattr(args, option)
    try:
        table = open_source(path)
    except SourceError as error:
        raise SourceError(f"--{option}: {error}") from error
    if args.context and args.context in table.columns and "context" not in table.columns:
        value = f"s.{table.engine.say.name(args.context)}"
        table = table.with_column("context", value, table.kinds.field(args.context).type)
    missing = [role for role in needed if role not in table.columns]
    if missing:
        raise SourceError(
            f"--{option}: there is no column {missing[0]!r} in {path!r}, which "
            f"has {', '.join(table.columns)}; {', '.join(needed)} are needed."
        )
    return table
