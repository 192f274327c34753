"""How many records units have, counted where the log is."""

from __future__ import annotations

import pyarrow as pa

from foreclick.engines import Value
from foreclick.logs import Log, N


def unit_counts(log: Log) -> pa.Table:
    """A row for all units with as many records: `n`, how many `units`, records of `nobody`."""
    rows, roles = log.source_rows, log.roles
    say, n, lists_by = rows.engine.say, rows.engine.say.name(N), roles.list_ids
    named = {"unit": roles.unit, "weight": roles.weight}
    named |= {f"list_{i}": name for i, name in enumerate(lists_by)}
    kept = {"weight": Value(say.cast("1", "whole"), pa.int64())}
    kept |= {new: rows.own([name])[name] for new, name in named.items() if name is not None}
    lists = rows.made(kept)
    if lists_by:  # one row an impression
        lists = lists.query(f"SELECT DISTINCT * FROM {lists.rows} AS s")
    whole = pa.types.is_integer(kept["weight"].kind)
    total = Value(lists.total("weight"), pa.int64() if whole else pa.float64())
    units = lists.made(lists.own(["unit"]) | {N: total}, f"GROUP BY {say.column('unit')}")
    nobody = f"sum(CASE WHEN {say.column('unit')} IS NULL THEN s.{n} ELSE 0 END)"
    alike = units.own([N]) | {
        "units": Value("count(*)", pa.int64()),
        "nobody": Value(say.cast(nobody, "real"), pa.float64()),
    }
    return units.made(alike, f"GROUP BY s.{n}").to_pyarrow()
