"""If this fails, the contexts drawn of a large log depend on the engine it lives in.

A tally made in Spark would be another sample than one made in DuckDB, and tallies of
several days or engines could not be compared.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick.logs import drawing
from tests.cases import plain
from tests.cases.case import Case
from tests.cases.layouts import LISTS, in_rows, rows_of
from tests.engines.elsewhere import NAMES
from tests.engines.looking import each_on_one_worker, on_servers
from tests.tries import LONG

RECORDS, SAMPLE, SMALL = 3_000, 1_000, 20
ROLES: dict[str, dict[str, Any]] = {"units": {"unit": "user"}, "no units": {"segments": "land"}}


def long_tail() -> Case:
    """A long tail of contexts, some of them written in other alphabets; a few have no user."""
    size: dict[str, Any] = {"records": RECORDS, "contexts": 400, "depth": 3, "periods": 7}
    own = plain.drawn(1, **size).columns
    names = [int(query[1:]) for query in own["context"]]
    columns = {name: own[name] for name in ("day", "land")}
    columns["query"] = [f"東京 {q}" if q % 3 else f"zoë's {q}" for q in names]
    columns["user"] = [f"u{u}" if u else None for u in own["user"]]
    columns |= {"list": own["items"], "clicked": own["clicks"]}
    return Case("long tail", columns, LISTS | {"period": "day"})


LOG = long_tail()


@pytest.fixture(autouse=True)
def _small_contexts(monkeypatch):
    """So that contexts of a small log have more records than are kept."""
    monkeypatch.setattr(drawing, "KEPT_OF_CONTEXT", SMALL)


def drawn(source=LOG.table, **roles):
    return LOG.read(source, sample=SAMPLE, **roles)


def same(one, other):
    """Both have the same rows, weights and totals, to the last bit."""
    assert rows_of(one).equals(rows_of(other))
    by = [c for c in ("period", "land") if c in one.totals.column_names]
    ours, theirs = (log.totals.sort_by([(c, "ascending") for c in by]) for log in (one, other))
    assert ours.equals(theirs.cast(ours.schema))
    assert (one.rows, one.drawn) == (other.rows, other.drawn)


by_roles = pytest.mark.parametrize("roles", ROLES.values(), ids=ROLES)


@by_roles
@on_servers
def test_spark_and_postgres_draw_what_duckdb_draws(engine, roles):
    same(drawn(**roles), drawn(engine.load(LOG.table), **roles))


OTHERS = [name for name in NAMES if name != "sqlite" and (LONG or name != "bigquery")]
"""GoogleSQL's engine for tests is slow."""


@by_roles
@pytest.mark.parametrize("name", each_on_one_worker(OTHERS))
def test_other_engines_draw_what_duckdb_draws(opened, name, roles):
    same(drawn(**roles), drawn(opened(name)(LOG.table), **roles))


def test_a_row_for_each_result_draws_whole_lists():
    log = in_rows(LOG).read(sample=SAMPLE, unit="user")
    assert log.drawn == pytest.approx(SAMPLE, rel=0.2)
    n, weight = (np.asarray(fc.tally(log).to_arrow()[c]) for c in ("n", "sampling_weight"))
    assert n @ weight == pytest.approx(RECORDS, rel=0.2)


@by_roles
def test_order_and_files_do_not_matter(tmp_path, roles):
    shuffled = LOG.table.take(np.random.default_rng(2).permutation(RECORDS))
    half = RECORDS // 2
    for number in (0, 1):
        pq.write_table(LOG.table.slice(number * half, half), tmp_path / f"{number}.parquet")
    whole = drawn(**roles)
    same(whole, drawn(shuffled, **roles))
    same(whole, drawn(str(tmp_path / "*.parquet"), **roles))


@by_roles
def test_every_record_is_kept_with_the_same_probability(roles):
    """π as the module says, ρ π the same for all, and weights that add up to each context."""
    counts = Counter(LOG.columns["query"])
    share = SAMPLE / RECORDS
    table = fc.tally(drawn(**roles)).to_arrow().to_pandas()
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
    totals = drawn(**ROLES["no units"]).totals
    items, clicks, day, land = (
        np.array(LOG.columns[c]) for c in ("list", "clicked", "day", "land")
    )
    first = np.where(clicks.any(axis=1), clicks.argmax(axis=1), 3)
    assert totals.num_rows == 14
    for row in totals.to_pylist():
        some = (day == row["period"]) & (land == row["land"])
        assert row["n"] == some.sum()
        for k in range(3):
            assert row[f"__shown_{k + 1}"] == (items[some, k] > 0).sum()
            assert row[f"clicks_{k + 1}"] == clicks[some, k].sum()
            assert row[f"__first_clicks_{k + 1}"] == (first[some] == k).sum()
            assert row[f"__risk_clicks_{k + 1}"] == (first[some] >= k).sum()


def test_a_smaller_log_is_read_whole_and_says_nothing_of_it():
    log = LOG.read(sample=RECORDS)
    assert (log.drawn, log.totals, log.shape.drawn) == (None, None, False)
    assert LOG.log.drawn is None


def test_records_without_a_context_are_still_an_error():
    nameless = LOG.having(query=[None, *LOG.columns["query"][1:]])
    with pytest.raises(fc.errors.InvalidLogError, match="context is null"):
        drawn(nameless.table)
