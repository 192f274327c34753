"""If this fails, the contexts drawn of a large log depend on the engine it lives in.

A tally made in Spark would be another sample than one made in DuckDB, and tallies of
several days or engines could not be compared.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import foreclick as fc
from foreclick.logs import drawing
from tests.cases.layouts import rows_of
from tests.engines.elsewhere import NAMES
from tests.tries import LONG

RECORDS, SAMPLE, SMALL = 3_000, 1_000, 20
ROLES: dict[str, dict[str, Any]] = {
    "units": {"context": "query", "period": "day", "unit": "user"},
    "no units": {"context": "query", "period": "day", "segments": "country"},
}


def log_of(seed: int = 1) -> pa.Table:
    """A long tail of contexts, some of them written in other alphabets; a few have no user."""
    rng = np.random.default_rng(seed)
    query = np.minimum(rng.pareto(0.8, RECORDS) * 2, 400).astype(int)
    items = np.argsort(rng.random((RECORDS, 4)), axis=1)[:, :3] + 1
    items[rng.random(RECORDS) < 0.7] = [1, 2, 3]  # lists repeat
    clicks = (rng.random((RECORDS, 3)) < [0.3, 0.2, 0.1]).astype(np.int64)
    names = [f"東京 {q}" if q % 3 else f"zoë's {q}" for q in query.tolist()]
    users = [None if u == 0 else f"u{u}" for u in rng.integers(0, 60, RECORDS).tolist()]
    return pa.table(
        {
            "query": names,
            "user": users,
            "day": rng.integers(0, 7, RECORDS),
            "country": [["nl", "de"][c] for c in rng.integers(0, 2, RECORDS).tolist()],
            "items": pa.array(items.tolist()),
            "clicks": pa.array(clicks.tolist()),
        }
    )


def long_of(table: pa.Table) -> pa.Table:
    """The same with a row for each result."""
    rows = [
        {k: row[k] for k in ("query", "user", "day", "country")}
        | {"request": i, "rank": k + 1, "item": row["items"][k], "click": row["clicks"][k]}
        for i, row in enumerate(table.to_pylist())
        for k in range(3)
    ]
    return pa.Table.from_pylist(rows)


@pytest.fixture(autouse=True)
def _small_contexts(monkeypatch):
    """So that contexts of a small log have more records than are kept."""
    monkeypatch.setattr(drawing, "KEPT_OF_CONTEXT", SMALL)


def drawn(source, **roles):
    return fc.read_log(source, sample=SAMPLE, **roles)


def same(one, other):
    """Both have the same rows, weights and totals, to the last bit."""
    assert rows_of(fc.tally(one)).equals(rows_of(fc.tally(other)))
    by = [c for c in ("period", "country") if c in one.totals.column_names]
    ours, theirs = (log.totals.sort_by([(c, "ascending") for c in by]) for log in (one, other))
    assert ours.equals(theirs.cast(ours.schema))
    assert (one.rows, one.drawn) == (other.rows, other.drawn)


@pytest.mark.parametrize("roles", ROLES.values(), ids=ROLES)
@pytest.mark.parametrize(
    "engine",
    [
        pytest.param("spark", marks=pytest.mark.spark),
        pytest.param("postgres", marks=pytest.mark.postgres),
    ],
    indirect=True,
)
def test_spark_and_postgres_draw_what_duckdb_draws(engine, roles):
    same(drawn(log_of(), **roles), drawn(engine.load(log_of()), **roles))


@pytest.mark.parametrize("roles", ROLES.values(), ids=ROLES)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.xdist_group(name))
        for name in NAMES
        if name != "sqlite" and (LONG or name != "bigquery")  # whose engine for tests is slow
    ],
)
def test_other_engines_draw_what_duckdb_draws(opened, name, roles):
    same(drawn(log_of(), **roles), drawn(opened(name)(log_of()), **roles))


def test_a_row_for_each_result_draws_whole_lists():
    log = drawn(long_of(log_of()), **ROLES["units"], long=("request", "rank"))
    assert log.drawn == pytest.approx(SAMPLE, rel=0.2)
    n, weight = (np.asarray(fc.tally(log).to_arrow()[c]) for c in ("n", "sampling_weight"))
    assert n @ weight == pytest.approx(RECORDS, rel=0.2)


@pytest.mark.parametrize("roles", ROLES.values(), ids=ROLES)
def test_order_and_files_do_not_matter(tmp_path, roles):
    table = log_of()
    shuffled = table.take(np.random.default_rng(2).permutation(RECORDS))
    half = RECORDS // 2
    for number, part in enumerate((table.slice(0, half), table.slice(half))):
        pa.parquet.write_table(part, tmp_path / f"{number}.parquet")
    whole = drawn(table, **roles)
    same(whole, drawn(shuffled, **roles))
    same(whole, drawn(str(tmp_path / "*.parquet"), **roles))


@pytest.mark.parametrize("roles", ROLES.values(), ids=ROLES)
def test_every_record_is_kept_with_the_same_probability(roles):
    """π as the module says, ρ π the same for all, and weights that add up to each context."""
    counts = dict(zip(*np.unique(log_of()["query"], return_counts=True), strict=True))
    share = SAMPLE / RECORDS
    table = fc.tally(drawn(log_of(), **roles)).to_arrow().to_pandas()
    for context, rows in table.groupby("context"):
        n = counts[context]
        inclusion = min(1, share * max(1, n / SMALL))
        assert rows["inclusion"].tolist() == pytest.approx([inclusion] * len(rows))
        assert (rows["n"] * rows["sampling_weight"]).sum() == pytest.approx(n / inclusion)
        assert rows["n"].sum() == pytest.approx(n * share / inclusion, abs=6 * np.sqrt(n))
    drawn_contexts = table["context"].nunique()
    expected = sum(min(1, share * max(1, n / SMALL)) for n in counts.values())
    assert drawn_contexts == pytest.approx(expected, abs=4 * np.sqrt(expected))


def test_totals_are_those_of_all_records():
    table = log_of()
    totals = drawn(table, **ROLES["no units"]).totals
    items, clicks = (np.array(table[c].to_pylist()) for c in ("items", "clicks"))
    first = np.where(clicks.any(axis=1), clicks.argmax(axis=1), 3)
    day, country = (np.asarray(table[c]) for c in ("day", "country"))
    assert totals.num_rows == 14
    for row in totals.to_pylist():
        some = (day == row["period"]) & (country == row["country"])
        assert row["n"] == some.sum()
        for k in range(3):
            assert row[f"__shown_{k + 1}"] == (items[some, k] > 0).sum()
            assert row[f"clicks_{k + 1}"] == clicks[some, k].sum()
            assert row[f"__first_clicks_{k + 1}"] == (first[some] == k).sum()
            assert row[f"__risk_clicks_{k + 1}"] == (first[some] >= k).sum()


def test_a_smaller_log_is_read_whole_and_says_nothing_of_it():
    log = fc.read_log(log_of(), sample=RECORDS, context="query")
    assert (log.drawn, log.totals, log.shape.drawn) == (None, None, False)
    assert fc.read_log(log_of(), context="query").drawn is None


def test_records_without_a_context_are_still_an_error():
    table = log_of()
    empty = pa.array([None, *table["query"].to_pylist()[1:]])
    with pytest.raises(fc.errors.InvalidLogError, match="context is null"):
        drawn(table.set_column(0, "query", empty), **ROLES["units"])
