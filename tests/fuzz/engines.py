"""The same tally, or the same error, on every engine and from every kind of frame: faulty logs."""

from __future__ import annotations

import contextlib
import datetime as dt
import math
import random
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

import ibis
import pandas as pd
import polars as pl
import pyarrow as pa

import foreclick as fc
from foreclick.errors import ForeclickError, ForeclickWarning
from tests import servers
from tests.engines import elsewhere
from tests.engines.elsewhere import Load
from tests.engines.random_roles import Drawn
from tests.fuzz.draws import NUMBERS, TEXTS

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

LISTS: dict[str, Any] = {"context": "query", "items": "list", "clicks": "clicked"}
ALL = LISTS | {"period": "day", "unit": "user", "segments": ["land"]}
ROLES: tuple[dict[str, Any], ...] = (
    LISTS,
    ALL,
    ALL | {"count": "times", "propensity": "p"},
    LISTS | {"count": "eighths", "propensity": "slots", "period": "day"},
    ALL | {"rewards": {"orders": "orders"}},
    ALL | {"count": "times"},
)
KINDS = {
    "query": (pa.string(), pa.int64()),
    "list": (pa.list_(pa.string()), pa.list_(pa.int64())),
    "clicked": (pa.list_(pa.int64()), pa.list_(pa.float64())),
    "day": (pa.date32(), pa.string()),
}
OTHERS = {
    "orders": pa.list_(pa.int64()),
    "land": pa.string(),
    "user": pa.string(),
    "p": pa.float64(),
    "slots": pa.list_(pa.float64()),
    "times": pa.int64(),
    "eighths": pa.float64(),
}
ODD_CLICKS = (math.nan, math.inf, -1.0, None, 1e300, 5e-324, 0.1)
ODD_SHARES = (0.0, -0.5, 1.5, math.nan, math.inf, None, 5e-324)


def draw(seed: int) -> Drawn:
    """The log of this number; columns have few types, so that statements are compiled once."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    number = rng.randrange(len(ROLES))
    other = rng.random() < 0.5
    kinds = {
        name: some[(number >> bit & 1) ^ other] for bit, (name, some) in enumerate(KINDS.items())
    }
    queries = rng.sample(TEXTS if kinds["query"] == pa.string() else NUMBERS, 4)
    pool = rng.sample(TEXTS if kinds["list"].value_type == pa.string() else NUMBERS, 6)
    faulty = rng.choice((0.0, 0.05, 0.2))
    rows = [_row(rng, kinds, queries, pool, faulty) for _ in range(rng.choice((2, 30, 60)))]
    roles = ROLES[number] | {"invalid": "drop" if faulty else "error"}
    if faulty and rng.random() < 0.2:
        roles["invalid"] = "error"
    table = pa.Table.from_pylist(rows, schema=pa.schema({**kinds, **OTHERS}))
    return Drawn(str(seed), table, roles)


def _row(
    rng: random.Random,
    kinds: dict[str, pa.DataType],
    queries: list[Any],
    pool: list[Any],
    faulty: float,
) -> dict[str, Any]:
    graded = kinds["clicked"].value_type == pa.float64()
    shown = rng.sample(pool, rng.randint(1, 4))
    clicked = [rng.randint(0, 1) * (rng.choice((1, 0.5)) if graded else 1) for _ in shown]
    dated = kinds["day"] == pa.date32()
    number = rng.randrange(3)
    row: dict[str, Any] = {
        "query": rng.choice(queries),
        "list": shown,
        "clicked": clicked,
        "orders": [rng.randint(0, 1) for _ in shown],
        "day": dt.date(2026, 2, 27) + dt.timedelta(days=number) if dated else TEXTS[number + 2],
        "land": rng.choice(("NL", "nl", "", None)),
        "user": rng.choice(TEXTS[1:]),
        "p": rng.choice((1.0, 1 / 3, 0.1)),
        "slots": [rng.choice((1.0, 1 / 3, 0.1)) for _ in shown],
        "times": rng.choice((1, 2, 10**12)),
        "eighths": rng.randint(1, 40) / 8,
    }
    if rng.random() < faulty:
        row |= _fault(rng, row, graded=graded)
    return row


def _fault(rng: random.Random, row: dict[str, Any], *, graded: bool) -> dict[str, Any]:
    """One column with what no log should have."""
    shown, one = row["list"], rng.randrange(len(row["list"]))
    odd = rng.choice(ODD_CLICKS) if graded else rng.choice((-1, None, 2**62, 2))
    faults: list[dict[str, Any]] = [
        {"query": None},
        {
            "list": [*shown, shown[0]],
            "clicked": [*row["clicked"], 0],
            "orders": [*row["orders"], 0],
        },
        {"list": [], "clicked": [], "orders": [], "slots": []},
        {"list": None},
        {"list": [None if k == one else item for k, item in enumerate(shown)]},
        {"clicked": [odd if k == one else click for k, click in enumerate(row["clicked"])]},
        {"clicked": row["clicked"][:-1]},
        {"clicked": None},
        {"day": None},
        {"user": None},
        {"p": rng.choice(ODD_SHARES)},
        {"slots": [rng.choice(ODD_SHARES)] * len(shown)},
        {"times": rng.choice((0, -1, None))},
        {"eighths": rng.choice((0.0, -1.0, None, math.nan, math.inf))},
    ]
    return rng.choice(faults)


def outcome(log: Drawn, load: Load) -> tuple[Any, ...]:
    """The tally, as plain values and bytes; or the kind of error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ForeclickWarning)
            tally = fc.tally(fc.read_log(load(log.table), **log.roles))
            rows = pa.Table.from_batches(tally.sorted_batches())
    except ForeclickError as error:
        return type(error).__name__, str(error).partition("\n")[0]
    return tally.shape, tally.dropped, tally.dropped_rows, rows.schema, rows


def difference(seed: int, load: Load) -> str:
    """What an engine says otherwise than DuckDB does of an Arrow table; empty if nothing."""
    log = draw(seed)
    try:
        here, there = outcome(log, lambda table: table), outcome(log, load)
    except Exception:  # noqa: BLE001 - an error that is not foreclick's is a finding
        return traceback.format_exc(limit=-3)
    if load in (FRAMES["columns"], FRAMES["rows"], FRAMES["pandas"]):
        here, there = (
            _untyped(each, causes=load is not FRAMES["pandas"]) for each in (here, there)
        )
    same = len(here) == len(there) and all(
        one.equals(other) if isinstance(one, pa.Table | pa.Schema) else one == other
        for one, other in zip(here, there, strict=True)
    )
    return "" if same else f"{log.roles}\nhere:  {here}\nthere: {there}"


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
