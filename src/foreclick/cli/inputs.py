"""From the words of the command line to logs, tallies and candidates."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

import foreclick as fc
from foreclick.engines import Engine, Table, filter_by, open_source, unchanged
from foreclick.engines.kinds import called
from foreclick.errors import InvalidLogError, PolicyError, SourceError
from foreclick.policies.runs import is_run
from foreclick.tallies.base import distinct
from foreclick.tallies.reading import is_tally

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreclick.cli.making import Optimize
    from foreclick.cli.options import Candidate, Candidates, Log


_COUNTED = (*("clicks", "period", "unit", "propensity", "segments", "rewards", "where", "click"),)
"""Roles that a tally has settled, and that a candidate has no use for."""


# --- logs ---------------------------------------------------------------------------------------


def read_logs(args: Log, paths: Sequence[str]) -> fc.Log | fc.Tally:
    """The log that the paths make together: raw ones are read in one pass, tallies are added.

    Args:
        args: the options.
        paths: files, directories or globs.
    """
    found = _read_logs(args, paths)
    return found if args.half_life is None else fc.tally(found).weigh(half_life=args.half_life)


def _read_logs(args: Log, paths: Sequence[str]) -> fc.Log | fc.Tally:
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


AnyCandidate = TypeVar("AnyCandidate", bound="Candidate")


def with_names(args: AnyCandidate, paths: Sequence[str]) -> AnyCandidate:
    """The options with columns called as a tally's log calls them, where no option names them."""
    tallies = [path for path in paths if is_tally(path)]
    names = fc.read_tally(tallies[0]).names if tallies else {}
    roles = [role for role in ("context", "items", "item", "position") if names.get(role)]
    known: dict[str, Any] = {r: names[r] for r in roles if getattr(args, r) is None}
    return replace(args, **known)


def read_candidate(path: str, args: Candidate) -> fc.Policy:
    """The policy that the candidate's file is, by its type or else by its columns."""
    try:
        return _candidate(path, args)
    except (InvalidLogError, PolicyError, SourceError) as error:  # say which file is meant
        raise type(error)(f"candidate {path!r}: {error}") from error


def read_candidates(args: Candidates) -> dict[str, fc.Policy]:
    """The candidates that were named, in their order."""
    pairs = args.candidates or []
    names = [name for name, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SourceError(f"two candidates are called {twice!r}. Give each a name of its own.")
    return {name: read_candidate(path, args) for name, path in pairs}


def _candidate(path: str, args: Candidate) -> fc.Policy:
    engine = args.engine()
    if is_tally(path):
        if args.candidate_type not in (None, "observed"):
            raise PolicyError(f"a tally is 'observed', not {args.candidate_type!r}.")
        return fc.Observed(fc.read_tally(path, engine=engine))
    if is_run(path):
        if args.candidate_type not in (None, "ranking"):
            raise PolicyError(f"a TREC run is a 'ranking', not {args.candidate_type!r}.")
        return fc.Ranking.from_trec(path, depth=args.k)
    table = filter_by(open_source(path, engine), args.candidate_where)
    kind = args.candidate_type or _guess(args, table)
    scored = kind == "ranking" and _scored(args, table)
    if args.k is not None and not scored:
        raise PolicyError(
            f"--k is for scored items, but this is taken as {kind!r}. Name the columns with "
            "--score and --candidate-item."
        )
    return _policy("scores" if scored else kind, args, table)


def _guess(args: Candidate, table: Table) -> str:
    """What a table with these columns is meant to be."""
    if args.probability is not None or "probability" in table.columns:
        return "marginals" if _role(args, table, "position") in table.columns else "lists"
    return "ranking"


def _scored(args: Candidate, table: Table) -> bool:
    """Whether rows are items with scores; a table of lists may have a score per list."""
    return args.score is not None or {"score", _role(args, table, "item")} <= set(table.columns)


def _policy(kind: str, args: Candidate, table: Table) -> fc.Policy:
    context, items, item, position = (
        _role(args, table, role) for role in ("context", "items", "item", "position")
    )
    probability = args.probability or "probability"
    if kind == "observed":
        named = {"context": context, "items": items, "item": item, "position": position}
        roles = args.roles()
        shared: dict[str, Any] = {
            name: roles[name] for name in ("invalid", "layout", "list_id") if name in roles
        }
        for role in ("weight", "count"):
            if getattr(args, role) in table.columns:
                shared[role] = getattr(args, role)
        return fc.Observed(fc.read_log(table, **named, **shared, clicks=None))
    if kind == "marginals":
        return fc.Marginals(
            table, context=context, item=item, position=position, probability=probability
        )
    if kind == "lists":
        return fc.Lists(table, context=context, items=items, probability=probability)
    if kind == "scores":
        score = args.score or "score"
        return fc.Ranking.from_scores(table, context=context, item=item, score=score, k=args.k)
    return fc.Ranking(table, context=context, items=items)


def _role(args: Candidate, table: Table, role: str) -> Any:  # noqa: ANN401
    """The column that plays a role in the candidate; None if the role is not played.

    As said for the candidate; else called as in the log; else, where no column is called so, by
    the role's own name.
    """
    own = getattr(args, f"candidate_{role}")
    logged = getattr(args, role)
    if own is not None:
        return own or None
    if role == "context" and args.no_context:
        return None
    if logged is None:
        return role
    there = {logged} if isinstance(logged, str) else set(logged)
    own_name = role in table.columns or (role == "items" and "item_1" in table.columns)
    return role if own_name and not there <= set(table.columns) else logged


# --- constraints ----------------------------------------------------------------------------------


def read_constraints(args: Optimize, log: fc.Log | fc.Tally) -> dict[str, Any]:
    """Constraints on a policy, from files, as `optimize` takes it."""
    found: dict[str, Any] = {}
    if args.pinned is not None:
        found["pinned"] = _constraint("pinned", args, "context", "item", "position")
    if args.banned is not None:
        table = _constraint("banned", args, "item")
        found["banned"] = table if "context" in table.columns else _items(table)
    if args.ban is not None:
        if "banned" in found:
            raise SourceError("--banned and --ban say the same. Give one of them.")
        found["banned"] = _as_logged(args.ban, log)
    if args.at_least is not None:
        found["at_least"] = [
            (_items(_constraint("at_least", args, "item", path=path)), least)
            for path, least in args.at_least
        ]
    if args.lists is not None:
        found["lists"] = (
            args.lists if args.lists == "logged" else _constraint("lists", args, "context", "items")
        )
    return found


def _constraint(option: str, args: Optimize, *needed: str, path: str | None = None) -> Table:
    """A table whose columns are called by their roles; those not needed may be there too."""
    path = path or getattr(args, option)
    try:
        table = open_source(path)
    except SourceError as error:
        raise SourceError(f"--{option.replace('_', '-')}: {error}") from error
    for role in ("context", "item", "position", "items"):
        own = getattr(args, role)
        if isinstance(own, str) and own in table.columns and role not in table.columns:
            value = f"s.{table.engine.say.name(own)}"
            table = table.with_column(role, value, table.kinds.field(own).type)
    if "context" not in table.columns and args.no_context:
        table = table.with_column("context", table.engine.say.cast("0", "whole"), pa.int64())
    missing = [role for role in needed if role not in table.columns]
    if missing:
        raise SourceError(
            f"--{option.replace('_', '-')}: there is no column {missing[0]!r} in {path!r}, which "
            f"has {', '.join(table.columns)}; {', '.join(needed)} are needed."
        )
    return table


def _items(table: Table) -> list[Any]:
    found: list[Any] = distinct(table, "item").to_pylist()
    return found


def _as_logged(words: list[str], log: fc.Log | fc.Tally) -> list[Any]:
    """Items that were written on the command line, as the log has them: text or numbers."""
    if pa.types.is_string(log.stored.kinds.field("item_1").type):
        return list(words)
    wrong = [word for word in words if not word.lstrip("-").isdecimal()]
    if wrong:
        raise SourceError(f"--ban: the items of the log are numbers, and {wrong[0]!r} is none.")
    return [int(word) for word in words]
