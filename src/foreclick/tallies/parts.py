"""A large log, tallied part by part: a directory of tallies that a killed run can go on with.

A part is a file of the log, or a period where the log is one table. Each has a tally of its own,
which is there completely or not at all; what is there already is not made again. So a run that was
stopped goes on where it was, and a day whose log was replaced is tallied again without the others.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foreclick.engines import (
    TableLike,
    exists,
    files_of,
    filter_by,
    is_remote,
    located,
    matches,
    open_source,
    read_schemas,
    state,
    sweep_partial,
)
from foreclick.errors import SourceError, TallyError
from foreclick.logs import PERIOD, period_of, read_log
from foreclick.progress import working
from foreclick.secrets import unsigned
from foreclick.tallies.base import Tally, tally
from foreclick.tallies.metadata import metadata_of
from foreclick.tallies.reading import read_tally

if TYPE_CHECKING:
    from foreclick.progress import Say


@dataclass(frozen=True)
class Tallies:
    """The tallies of a log's parts. Files of an object store are URLs, as text.

    Attributes:
        directory: where they are.
        made: those that this run made.
        kept: those that were there already, made from the same part in the same way.
        others: tallies in the directory that no part of the log explains; `read` leaves them out.
    """

    directory: Path | str
    made: tuple[Path | str, ...]
    kept: tuple[Path | str, ...]
    others: tuple[Path | str, ...]

    def __str__(self) -> str:
        found = (
            f"{len(self.made) + len(self.kept):,} tallies in {self.directory}: "
            f"{len(self.made):,} made now, {len(self.kept):,} were there"
        )
        if not self.others:
            return found
        return (
            f"{found}; {len(self.others):,} more are of no part of this log, for instance "
            f"{Path(self.others[0]).name}"
        )

    def read(self, **options: Any) -> Tally:  # noqa: ANN401 - those of read_tally
        """All of them as one tally; the options are those of `read_tally`."""
        return read_tally(sorted([*self.made, *self.kept], key=str), **options)


@dataclass(frozen=True)
class _Part:
    """A part of a log: its name, what it is read from, and what tells whether it has changed."""

    name: str
    source: Any
    where: Any
    state: Mapping[str, Any]


def write_tallies(
    source: TableLike,
    directory: str | Path,
    *,
    where: Any = None,  # noqa: ANN401 - as in read_log
    engine: Any = None,  # noqa: ANN401 - an Ibis connection
    progress: Say | None = None,
    **roles: Any,  # noqa: ANN401 - as in read_log
) -> Tallies:
    """Tally a log part by part into a directory, and skip what is there already.

    Parts are the files of the log if it is a glob or a directory of several, and its periods
    otherwise. A run that was killed leaves only whole tallies and can simply be started again. A
    file of the log that has changed is tallied again; to have a period of a table tallied again,
    delete its tally.

    Args:
        source: as in `read_log`.
        directory: where the tallies go, a path or a URL; made if it is not there.
        where: as in `read_log`. Of a function it cannot be told whether it has changed.
        engine: as in `read_log`.
        progress: called with what is being done; by default it is shown on a terminal.
        roles: further arguments of `read_log`: context, items, clicks, period, ….

    Returns:
        What was made and what was there; `.read()` is all of it as one tally.
    """
    target = _directory(directory)
    asked = json.loads(json.dumps({**roles, "where": _text(where)}, sort_keys=True))
    made: list[Path | str] = []
    kept: list[Path | str] = []
    with working(progress) as say:
        parts = list(_parts(source, where, engine, roles))
        for number, part in enumerate(parts, start=1):
            path = _within(target, f"{part.name}.parquet")
            origin = {"roles": asked, **part.state}
            if _is_there(path, origin):
                kept.append(path)
                continue
            say("Tallying part by part", (number - 1) / len(parts))
            log = read_log(part.source, where=part.where, engine=engine, **roles)
            tally(log).write_parquet(path, origin=origin)
            made.append(path)
    mine = {str(path) for path in (*made, *kept)}
    there = matches(f"{escape(str(target))}/*.parquet")
    others = [_within(target, Path(file).name) for file in there if file not in mine]
    return Tallies(target, tuple(made), tuple(kept), tuple(others))


def _directory(directory: str | Path) -> Path | str:
    """Where tallies go; a directory of this machine is made, one of a store need not be."""
    place = located(directory).rstrip("/")
    if is_remote(place):
        matches(f"{escape(place)}/*.parquet")  # a store that cannot be reached is said now
        return place
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    sweep_partial(target)
    return target


def _within(directory: Path | str, name: str) -> Path | str:
    return f"{directory}/{name}" if isinstance(directory, str) else directory / name


def _parts(
    source: TableLike,
    where: Any,  # noqa: ANN401
    engine: Any,  # noqa: ANN401
    roles: Mapping[str, Any],
) -> Iterator[_Part]:
    """The files, if there are several; else the periods of the table."""
    files = files_of(source)
    if len(files) > 1:
        paths = [Path(unsigned(file).rpartition("://")[2]) for file in files]
        above = Path(os.path.commonpath([path.parent for path in paths]))
        for file, path in zip(files, paths, strict=True):
            name = path.relative_to(above).as_posix().removesuffix(".parquet")
            yield _Part(name.replace("/", "__"), file, where, {"file": name, **state(file)})
        return
    period = roles.get("period")
    if period is None:
        raise SourceError(
            "a log is tallied part by part by its files or by its periods; this one is a single "
            "table and was read without a period. Give period=…, or use fc.tally(log)."
        )
    home, table = open_source(source, engine)
    table = filter_by(table, where)
    if period not in table.columns:
        raise SourceError(f"period={period!r} is not among {', '.join(table.columns)}.")
    of = period_of(table[period])
    found = home.rows(table.select(**{PERIOD: of}).distinct())
    for value in sorted((row[PERIOD] for row in found), key=lambda v: (v is None, v)):
        mine = of.isnull() if value is None else of == value
        yield _Part(f"{PERIOD}={value}", table.filter(mine), None, {PERIOD: str(value)})


def _is_there(path: Path | str, origin: Mapping[str, Any]) -> bool:
    """Whether the tally of this part is there; one that was made in another way is refused."""
    if not exists(str(path)):
        return False
    try:
        meta = metadata_of(read_schemas(str(path))[str(path)])
    except SourceError as error:
        raise TallyError(f"{str(path)!r} is in the way: {error}") from error
    found = (meta or {}).get("origin") or {}
    if found.get("roles") != origin["roles"]:
        raise TallyError(
            f"{str(path)!r} is there, but was made in another way: from {_told(found)}, and now "
            f"from {_told(origin)}. Use another directory, or delete what is in this one."
        )
    return bool(found == origin)


def _told(origin: Mapping[str, Any]) -> str:
    roles = {k: v for k, v in (origin.get("roles") or {}).items() if v is not None}
    return ", ".join(f"{k}={v!r}" for k, v in roles.items()) or "something else"


def _text(where: Any) -> str | None:  # noqa: ANN401
    return where if where is None or isinstance(where, str) else "a function"
