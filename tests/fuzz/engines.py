"""The same tally, or the same error, on every engine and from every kind of frame: faulty logs."""

from __future__ import annotations

import contextlib
import random
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

import ibis
import pandas as pd
import polars as pl
import pyarrow as pa

from foreclick.errors import ForeclickError, ForeclickWarning
from tests import servers
from tests.cases.case import Case
from tests.cases.layouts import ALL, LISTS, LOGS, facts_of, faults_of, log_of
from tests.engines import elsewhere
from tests.engines.elsewhere import Load

FRAMES: dict[str, Load] = {
    "polars": pl.from_arrow,
    "pandas": lambda table: table.to_pandas(integer_object_nulls=True),
    "pandas-arrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "columns": lambda table: table.to_pydict(),
    "rows": lambda table: table.to_pylist(),
}
"""The same log as what else a user may hold; integers beside None do not become fractions."""

IN_PROCESS = ("clickhouse", "bigquery")
ENGINES = ("duckdb", "postgres", "spark", *IN_PROCESS, *FRAMES)

ROLES = (LISTS, ALL, *(log.roles for log in LOGS if str(log) in ("text", "slots", "faults")))
COUNT = len(faults_of({"list": [1], "clicked": [0]}))


def draw(seed: int) -> Case:
    """The log of this number; columns have few types, so that statements are compiled once."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    contexts, items = (rng.choice(("odd text", "odd integers")) for _ in range(2))
    faults = [rng.randrange(COUNT) for _ in range(rng.choice((0, 4, 12)))]
    periods, graded = rng.choice(("dates", "odd text")), rng.random() < 0.5
    columns = log_of(seed, contexts, items, periods, graded=graded, faults=faults)
    invalid = "drop" if faults and rng.random() < 0.8 else "error"
    return Case(seed, columns, rng.choice(ROLES) | {"invalid": invalid})


def outcome(log: Case, load: Load) -> tuple[Any, ...]:
    """The tally, as plain values and bytes; or the kind of error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ForeclickWarning)
            return facts_of(log.read(load(log.table)))
    except ForeclickError as error:
        return type(error).__name__, str(error).partition("\n")[0]


def difference(seed: int, load: Load) -> str:
    """What an engine says otherwise than DuckDB does of an Arrow table; empty if nothing."""
    log = draw(seed)
    try:
        here, there = outcome(log, lambda table: table), outcome(log, load)
    except Exception:  # noqa: BLE001 - an error that is not foreclick's is a finding
        return traceback.format_exc(limit=-3)
    if load in (FRAMES["columns"], FRAMES["rows"], FRAMES["pandas"]):
        causes = load is not FRAMES["pandas"]
        here, there = (_untyped(each, causes=causes) for each in (here, there))
    return "" if here == there else f"{log.roles}\nhere:  {here}\nthere: {there}"


def _untyped(found: tuple[Any, ...], *, causes: bool) -> tuple[Any, ...]:
    """An outcome without types: a column of None alone has none. To pandas, NaN is None, too."""
    if isinstance(found[-1], pa.Table):
        shape, dropped, count, _, rows = found
        return shape, dropped if causes else None, count, rows.to_pylist()
    return found if causes else found[:1]


@contextlib.contextmanager
def started(name: str) -> Iterator[Load]:
    """An engine, as a function that puts a table into it; tables are dropped at the end."""
    with contextlib.ExitStack() as stack:
        if name in FRAMES:
            yield FRAMES[name]
            return
        if name in IN_PROCESS:
            yield elsewhere.opened(name)
            return
        if name == "spark":
            engine = servers.spark_engine(stack.enter_context(servers.spark()))
        elif name == "postgres":
            connection = ibis.postgres.connect(**stack.enter_context(servers.postgres()))
            stack.callback(connection.disconnect)
            engine = servers.postgres_engine(connection)
        else:
            engine = stack.enter_context(servers.duckdb_engine())

        def load(table: pa.Table) -> Any:  # noqa: ANN401 - an Ibis table
            if len(engine.loaded) > KEPT:
                engine.clean()
            return engine.load(table)

        yield load


KEPT = 50
"""Tables that an engine keeps at a time."""
