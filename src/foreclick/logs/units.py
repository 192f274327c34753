"""How many records units have, counted where the log is."""

from __future__ import annotations

import pyarrow as pa

from foreclick.logs import Log, N


def unit_counts(log: Log) -> pa.Table:
    """A row for all units with as many records: `n`, how many `units`, records of `nobody`."""
    rows, roles = log.source_rows, log.roles
    say, unit, n = rows.engine.say, rows.engine.say.name("unit"), rows.engine.say.name(N)
    weight = say.cast("1", "whole") if roles.weight is None else f"s.{say.name(roles.weight)}"
    kind = pa.int64() if roles.weight is None else rows.kinds.field(roles.weight).type
    kept = {"unit": f"s.{say.name(str(roles.unit))}", "weight": weight}
    kinds = [rows.kinds.field(roles.unit).with_name("unit"), pa.field("weight", kind)]
    for i, name in enumerate(roles.list_ids if roles.list_id is not None else ()):
        kept[f"list_{i}"] = f"s.{say.name(name)}"
        kinds.append(rows.kinds.field(name).with_name(f"list_{i}"))
    once = "DISTINCT " if roles.list_id is not None else ""  # one row an impression
    lists = rows.query(f"SELECT {once}{say.names(kept)} FROM {rows.rows} AS s", pa.schema(kinds))
    counts = f"SELECT {unit}, {lists.total('weight')} AS {n} FROM {lists.rows} AS s GROUP BY {unit}"
    nobody = say.cast(f"sum(CASE WHEN s.{unit} IS NULL THEN s.{n} ELSE 0 END)", "real")
    alike = say.names({N: f"s.{n}", "units": "count(*)", "nobody": nobody})
    whole = pa.int64() if pa.types.is_integer(kind) else pa.float64()
    found = pa.schema([(N, whole), ("units", pa.int64()), ("nobody", pa.float64())])
    return lists.query(f"SELECT {alike} FROM ({counts}) AS s GROUP BY s.{n}", found).to_pyarrow()
