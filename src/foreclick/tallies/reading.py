"""Tallies read from their files: one, or a file a day as one log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from foreclick.engines import (
    Engine,
    Fetched,
    Table,
    Value,
    default_engine,
    engine_of,
    is_remote,
    located,
    read_schemas,
    state,
)
from foreclick.errors import ForeclickError
from foreclick.logs import Shape
from foreclick.options import checked
from foreclick.tallies.base import Tally
from foreclick.tallies.files import described, integer_columns
from foreclick.tallies.metadata import metadata_of
from foreclick.tallies.seal import check_seal
from foreclick.tallies.sums import all_causes, all_notes, common_names, sum_of

if TYPE_CHECKING:
    from collections.abc import Sequence


@checked()
def read_tally(
    path: str | Path | Sequence[str | Path],
    *,
    half_life: float | None = None,
    weights: Mapping[Any, float] | None = None,
    engine: Any = None,  # noqa: ANN401 - an Ibis connection
) -> Tally:
    """Read one tally, or many (a glob, a directory) as their sum: a file a day is one log.

    Files of different periods are read where they lie; nothing is added up or copied. Only files
    of an object store are copied to this machine, once.

    Args:
        path: a Parquet file written by `Tally.write_parquet`, a glob or a directory of such
            files, or a list of them; paths or URLs.
        half_life: how many days (or steps of a numbered period) make a record count half as much
            as one of the latest period.
        weights: how much the records of a period count, by period; 1 for those not named, and 0
            leaves one out.
        engine: the connection to read it in; by default DuckDB in this process.
    """
    files = described(located(path) if isinstance(path, str | Path) else [located(p) for p in path])
    home = engine_of(engine).workplace if engine is not None else default_engine()
    alike: dict[tuple[Shape, float, str], list[str]] = {}
    for file, (meta, schema) in files.items():
        kind = Shape.from_dict(meta["shape"]), float(meta.get("inflation", 1.0)), str(schema)
        alike.setdefault(kind, []).append(file)
    found = []
    for (shape, inflation, _), mine in alike.items():
        metas = [files[file][0] for file in mine]
        here, rows = _read_rows(home, dict(zip(mine, metas, strict=True)), shape)
        found.append(
            Tally(
                home,
                shape,
                rows,
                all_causes(meta["dropped"] for meta in metas),
                sum(meta["dropped_rows"] for meta in metas),
                decayed=any(meta.get("decayed") for meta in metas),
                inflation=inflation,
                files=tuple(here),
                states=tuple(state(file) for file in here if not is_remote(file)),
                in_order=all(meta.get("sorted") for meta in metas),
                notes=all_notes(meta.get("notes", ()) for meta in metas),
                names=common_names(meta.get("names") or {} for meta in metas),
            )
        )
    apart = _apart([meta for meta, _ in files.values()])
    whole = found[0] if len(found) == 1 and apart else sum_of(found, apart=apart)
    if half_life is None and weights is None:
        return whole
    return whole.weigh(half_life=half_life, weights=weights)


def _read_rows(
    home: Engine, metas: dict[str, dict[str, Any]], shape: Shape
) -> tuple[Sequence[str], Table]:
    """The compact rows of files of the same columns, with integers of 64 bits again.

    Files of an object store are copied here once: every question reads all of them. Files that only
    a cluster can reach are not compared with their digests.

    Args:
        home: where they are read.
        metas: what each file says of itself.
        shape: what their columns are.
    """
    fetched, files = None, list(metas)
    if not home.far and any(map(is_remote, files)):
        fetched = Fetched(files)
        files = fetched.files
    for file, (name, meta) in zip(files, metas.items(), strict=True):
        if not is_remote(file):
            check_seal(file, meta, name)
    table = home.read_parquet(files)
    say = home.say
    whole = {name for names in integer_columns(table.kinds, shape) for name in names}
    columns = table.own(shape.stored)
    columns |= {c: Value(say.cast(columns[c].text, "whole"), pa.int64()) for c in whole}
    # Copies stay for as long as the rows are needed.
    return files, replace(table.made(columns), held=(table, fetched))


def _apart(metas: list[dict[str, Any]]) -> bool:
    """Whether no two tallies can have a row in common: they are of different periods."""
    if len(metas) == 1:
        return True
    periods = [meta.get("periods") for meta in metas]
    named = [period for some in periods if some for period in some]
    return None not in periods and len(set(named)) == len(named)


def is_tally(path: str) -> bool:
    """Whether any of the files is a tally, by what stands in its Parquet metadata."""
    try:
        return any(metadata_of(schema) is not None for schema in read_schemas(path).values())
    except (ForeclickError, OSError, ValueError):  # no such file, or not Parquet: a log, if at all
        return False
