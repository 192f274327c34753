"""Logs by name: `foreclick.toml` says where a log is, and which column plays which part.

    [shop]
    source = "logs/*.parquet"
    context = "query"
    period = "day"

It is looked for in the working directory and in those above it; sources are relative to it.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from foreclick.engines import Table
from foreclick.engines.kinds import kind_of
from foreclick.errors import SourceError
from foreclick.logs.roles import CALLED, CONTEXT, ITEM, PERIOD
from foreclick.metrics import CLICKS
from foreclick.words import did_you_mean

FILE = "foreclick.toml"
ROLES = (
    *("context", "items", "clicks", "period", "unit", "segments", "rewards", "propensity"),
    *("count", "where", "long", "depth", "invalid", "sample"),
)
"""Options of `read_log` that the file may have for a log."""

_NAME = re.compile(r"[A-Za-z][\w-]*")
_NONE = ("context", "clicks")  # "" is None, for TOML has no null

P = ParamSpec("P")
R = TypeVar("R")


def named_log(name: object) -> dict[str, Any] | None:
    """The source of a log and its roles, by its name; None if there is no such log.

    What is a file is no name.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name) or Path(name).exists():
        return None
    here = Path.cwd()
    path = next((p / FILE for p in (here, *here.parents) if (p / FILE).is_file()), None)
    if path is None:
        return None
    try:
        logs = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SourceError(f"{path} is no TOML: {error}.") from error
    if name not in logs:
        return None
    found = dict(logs[name])
    source = found.pop("source", None)
    unknown = next((key for key in found if key not in ROLES), None)
    if unknown is not None:
        hint = did_you_mean(unknown, ROLES)
        raise SourceError(f"{path}: [{name}] has {unknown!r}, which is no option of a log.{hint}")
    if not isinstance(source, str):
        raise SourceError(f"{path}: [{name}] does not say where the log is: source = '…'.")
    found |= {role: None for role in _NONE if found.get(role) == ""}
    remote = "://" in source or Path(source).is_absolute()
    return {"source": source if remote else str(path.parent / source)} | found


def by_name(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function read a log by its name; options that are given count more than the file's."""

    @wraps(function)
    def reading(*args: Any, **given: Any) -> R:  # noqa: ANN401 - as they are
        named = named_log(args[0]) if len(args) == 1 else None
        if named is None:
            return function(*args, **given)
        return function(named.pop("source"), **(named | given))

    return reading


def proposed(table: Table) -> dict[str, Any]:
    """The roles that columns seem to have, by their names and types."""
    lists = [field.name for field in table.kinds if kind_of(field.type) == "list"]
    dates = [field.name for field in table.kinds if kind_of(field.type) in ("date", "moment")]

    def called(role: str, among: Sequence[str]) -> str | None:
        usual = (role, *CALLED.get(role, ()))
        return next((c for word in usual for c in among if c.lower() == word), None)

    names = table.columns
    found = {CONTEXT: called(CONTEXT, names), "unit": called("unit", names)}
    found[PERIOD] = called(PERIOD, names) or next(iter(dates), None)
    ids = [called(role, names) for role in ("list_id", "position", ITEM)]
    if all(ids) and not lists:
        found |= {"items": ids[2], CLICKS: called(CLICKS, names) or called("click", names)}
        return {**{k: v for k, v in found.items() if v}, "long": tuple(ids[:2])}
    wide = {
        role: f"{stem}_*"
        for role, stem in (("items", ITEM), (CLICKS, "click"))
        if f"{stem}_1" in names
    }
    found |= {role: called(role, lists) for role in ("items", CLICKS)} | wide
    return {role: column for role, column in found.items() if column}


def save_log(name: str, source: str, roles: Mapping[str, Any]) -> str:
    """Write a log's source and roles under its name into the file, in place of what was there.

    Returns:
        What was written, in words.
    """
    if not _NAME.fullmatch(name):
        raise SourceError(f"{name!r} is no name of a log: begin with a letter, such as 'shop'.")
    path = Path(FILE)
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    others = re.sub(rf"(?ms)^\[{re.escape(name)}\]\n.*?(?=^\[|\Z)", "", text).rstrip()
    lines = [f"[{name}]", f"source = {json.dumps(source)}"]
    lines += [f"{role} = {_written(value)}" for role, value in roles.items()]
    path.write_text("\n\n".join(filter(None, [others, "\n".join(lines)])) + "\n", encoding="utf-8")
    words = ", ".join(f"{role} is {value!r}" for role, value in roles.items())
    return f"[{name}] in {FILE}: {words or 'columns have their usual names'}."


def _written(value: Any) -> str:  # noqa: ANN401 - what TOML knows
    """A value in TOML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k} = {_written(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_written, value)) + "]"
    return json.dumps("" if value is None else value)
