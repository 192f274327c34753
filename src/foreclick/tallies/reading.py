"""Tallies read from their files: one, or a file a day as one log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from foreclick.engines import (
    default_engine,
    engine_of,
    fetched,
    given_twice,
    is_remote,
    located,
    read_schemas,
    state,
)
from foreclick.errors import ForeclickError, SourceError, TallyError
from foreclick.logs import Shape
from foreclick.options import checked
from foreclick.tallies.base import Tally, sum_of, together
from foreclick.tallies.files import check_digest, checked_metadata, metadata_of


@checked()
def read_tally(
    path: str | Path | Sequence[str | Path],
    *,
    engine: Any = None,  # noqa: ANN401 - an Ibis connection
) -> Tally:
    """Read one tally, or many (a glob, a directory) as their sum: a file a day is one log.

    Files of different periods are read where they lie; nothing is added up or copied. Only files
    of an object store are copied to this machine, once.

    Args:
        path: a Parquet file written by `Tally.write_parquet`, a glob or a directory of such
            files, or a list of them; paths or URLs.
        engine: the connection to read it in; by default DuckDB in this process.
    """
    try:
        schemas = read_schemas(
            located(path) if isinstance(path, str | Path) else [located(p) for p in path]
        )
    except SourceError as error:
        raise TallyError(f"no tally: {error}") from error
    metas = {file: checked_metadata(file, schema) for file, schema in schemas.items()}
    digests: dict[str, str] = {}
    for file, meta in metas.items():
        other = digests.setdefault(str(meta.get("digest")), file)
        if other != file:
            raise TallyError(given_twice(other, file))
    home = engine_of(engine).workplace if engine is not None else default_engine()
    copies, names = None, list(metas)
    if not home.far and any(map(is_remote, names)):  # copied once: every question reads all
        names, copies = fetched(names)
    here = dict(zip(metas, names, strict=True))
    for file, name in here.items():
        if not is_remote(name):  # else only a cluster can reach it
            check_digest(name, metas[file], file)
    alike: dict[tuple[Shape, str], list[str]] = {}
    for file, meta in metas.items():
        kind = Shape.from_dict(meta["shape"]), str(schemas[file].types)
        alike.setdefault(kind, []).append(file)
    found = []
    for (shape, _), mine in alike.items():
        files = [here[file] for file in mine]
        table = home.read_files("read_parquet", files, partitions=False)
        found.append(
            Tally(
                home,
                shape,
                # Copies stay for as long as the rows are needed.
                replace(table.select(*shape.stored), held=(table, copies)),
                files=tuple(files),
                states=tuple(state(file) for file in files if not is_remote(file)),
                **together([metas[file] for file in mine]),
            )
        )
    # Tallies of different periods have no row in common.
    periods = [meta["periods"] for meta in metas.values()]
    named = [period for some in periods if some for period in some]
    apart = len(metas) == 1 or (None not in periods and len(set(named)) == len(named))
    return found[0] if len(found) == 1 and apart else sum_of(found, apart=apart)


def is_tally(path: str) -> bool:
    """Whether any of the files is a tally, by what stands in its Parquet metadata."""
    try:
        return any(metadata_of(schema) is not None for schema in read_schemas(path).values())
    except (ForeclickError, OSError, ValueError):  # no such file, or not Parquet: a log, if at all
        return False
