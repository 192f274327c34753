"""Logs to measure time and memory on: each kind is written as files, with the roles of its columns.

| kind | is |
|---|---|
| shop | a long tail of queries, lists that hardly repeat (`simulate.shop`) |
| spark | the same, on a Spark cluster |
| repeating | most lists were shown before (`simulate.yandex_like`) |
| unique | contexts that never repeat |
| periods | half as many periods as records |
| single | one context |
| deep | lists of 100 |
| raw | lines in the format of Kaggle's "Personalized Web Search Challenge" |

Most have two candidates, *better* and *similar*, a file each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

NAMES = ("better", "similar")
PART = 10_000_000
"""Lists of a log that are drawn at a time; each part has queries of its own."""

LISTS_PER_QUERY = {1_000_000: 20}
"""How many lists a query of the long tail has on average; 42 in larger logs."""


class Kind(NamedTuple):
    """How a log is written, how it is read, and what is measured on it, a baseline first."""

    write: Callable[[Path, int], None]
    roles: dict[str, Any]
    steps: tuple[str, ...]


def write_shop(folder: Path, records: int) -> None:
    """A log of a shop in parts, and its candidates."""
    from foreclick.simulate import shop

    parts = max(-(-records // PART), 1)
    queries = records // LISTS_PER_QUERY.get(records, 42) // parts
    ordinary = replace(shop.REGIMES["shop"], candidates=NAMES)
    candidates: dict[str, list[pa.Table]] = {name: [] for name in NAMES}
    for part in range(parts):
        some = replace(ordinary, records=records // parts, queries=queries)
        drawn = shop.draw(some, seed=1000 + part)
        pq.write_table(_numbered(drawn.log, part, parts), folder / f"log-{part:03d}.parquet")
        for name, tables in candidates.items():
            tables.append(_numbered(drawn.candidates[name], part, parts))
    for name, tables in candidates.items():
        pq.write_table(pa.concat_tables(tables), folder / f"{name}.candidate.parquet")


def _numbered(table: pa.Table, part: int, parts: int) -> pa.Table:
    """With queries that no other part has."""
    query = np.asarray(table["query"]) * parts + part
    return table.set_column(0, "query", pa.array(query))


def write_repeating(folder: Path, records: int) -> None:
    """A log by day, and candidates: lists of it with two or three items exchanged."""
    from foreclick.simulate import yandex_like

    yandex_like(records=records, queries=20_000, seed=7).write_parquet(folder / "days")
    for path in (folder / "days").glob("*.parquet"):
        path.rename(folder / f"log-{path.name}")
    for name, order in zip(NAMES, ((2, 1, *range(3, 11)), (1, 3, 2, *range(4, 11))), strict=True):
        items = ", ".join(f"items[{k}]" for k in order)
        duckdb.execute(
            f"COPY (SELECT query, [{items}] AS items FROM (SELECT query, arg_max(items, day) AS "
            f"items FROM '{folder}/log-*.parquet' GROUP BY query)) "
            f"TO '{folder}/{name}.candidate.parquet' (FORMAT parquet)"
        )


def write_extreme(
    folder: Path, records: int, of: Callable[[int], tuple[int, int, int, int]]
) -> None:
    """Contexts that are equally frequent; `of` says how many, items of each, depth and periods."""
    contexts, items, depth, periods = of(records)
    rng = np.random.default_rng(7)

    def lists(first: Any) -> pa.Array:
        return listed((first[:, None] + np.arange(depth)) % items)

    table = {
        "query": np.arange(records) % contexts,
        "items": lists(rng.integers(0, max(items - depth, 1), records)),
        "clicks": listed((rng.random((records, depth)) < 0.1).astype(np.int8)),
        "day": rng.integers(0, periods, records),
    }
    pq.write_table(pa.table(table), folder / "log-000.parquet")
    for seed, name in enumerate(NAMES):
        first = np.random.default_rng(seed).integers(0, max(items - depth, 1), contexts)
        candidate = {"query": np.arange(contexts), "items": lists(first)}
        pq.write_table(pa.table(candidate), folder / f"{name}.candidate.parquet")


def listed(values: Any) -> pa.Array:
    """One list for each row."""
    offsets = np.arange(0, values.size + 1, values.shape[1], dtype=np.int32)
    return pa.ListArray.from_arrays(offsets, pa.array(values.ravel()))


LINES_OF_A_SESSION = 5.12
DAYS, TEST_DAYS = 27, 3

_PLACES = "".join(
    f", '\t', {item}, ',', {item} // 7"
    for item in (f"(q * 16 + (turn + step * {k}) % 13)" for k in range(10))
)
_DRAW = f"""
WITH sessions AS (
    SELECT s, 1 + (hash(s, 1) % {DAYS + TEST_DAYS})::INT AS day FROM range({{sessions}}) AS t(s)
), queries AS (
    SELECT s, day, i, CASE WHEN day > {DAYS} THEN 'T' ELSE 'Q' END AS kind,
        (9e6 * pow(hash(s, i, 2) / 18446744073709551616.0, 4))::INT AS q
    FROM sessions, range(3) AS l(i) WHERE i = 0 OR hash(s, 3) % 24 >= 9 * i
), lists AS (
    SELECT *, (hash(q, day // 4, 4) % 5)::INT AS turn,
        1 + (hash(q, day // 6, 5) % 2 + hash(s, i, 5) % 2)::INT AS step
    FROM queries
), clicks AS (
    SELECT s, i, k, q * 16 + (turn + step * k) % 13 AS item
    FROM lists, range(10) AS p(k) WHERE kind = 'Q'
), lines AS (
    SELECT s, -1 AS i, 0 AS k,
        concat(s, '\tM\t', day, '\t', hash(s, 6) % ({{sessions}} // 6)) AS line
    FROM sessions
    UNION ALL
    SELECT s, i, -1, concat(s, '\t', 30 * i, '\t', kind, '\t', i, '\t', q, '\t', q % 977,
        ',', q % 997 {_PLACES}) FROM lists
    UNION ALL
    SELECT s, i, k, concat(s, '\t', 30 * i + k + 1, '\tC\t', i, '\t', item) FROM clicks
    WHERE (hash(s, i, item) % 1000003) / 1000003.0
        < 0.9 * (hash(item, 7) % 1000003) / 1000003.0 / (k + 1)
)
SELECT line FROM lines ORDER BY s, i, k
"""


def write_raw(folder: Path, lines: int) -> None:
    """Sessions of one to three lists on 30 days, of which the last three have test queries.

    Queries are as heavy in the head as the paper tells of its own: a tenth of all lists are of the
    1,000 most frequent ones.
    """
    drawn = _DRAW.format(sessions=round(lines / LINES_OF_A_SESSION))
    form = "FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER '\x01'"
    duckdb.execute(f"COPY ({drawn}) TO '{folder}/train' ({form})")


ROLES: dict[str, Any] = {"context": "query", "period": "day", "unit": "user"}
DAILY: dict[str, Any] = {"context": "query", "period": "day"}
FEW = ("engine", "tally", "answers", "compare")
ALL = (*FEW, "report", "backtest", "optimize")
SHAPES: dict[str, Callable[[int], tuple[int, int, int, int]]] = {
    "unique": lambda n: (n, 30, 5, 14),
    "periods": lambda n: (1_000, 30, 5, n // 2),
    "single": lambda _: (1, 5_000, 5, 14),
    "deep": lambda n: (max(n // 100, 1), 200, 100, 14),
}
KINDS = {
    "shop": Kind(write_shop, ROLES, ALL),
    "spark": Kind(write_shop, ROLES, ("same", "killed", "timed", "drawn")),
    "repeating": Kind(write_repeating, ROLES, ALL),
    **{name: Kind(partial(write_extreme, of=of), DAILY, FEW) for name, of in SHAPES.items()},
    "raw": Kind(write_raw, {}, ("raw_by_hand", "reproduce")),
}
