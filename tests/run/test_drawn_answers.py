"""If this fails, an answer about drawn contexts is off, or its interval ignores the drawing.

An answer from a million of 167 million lists would be off by more than it says.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.logs import drawing
from tests.tries import tries

pytestmark = pytest.mark.filterwarnings("ignore:the contexts hardly repeat")

RECORDS, SAMPLE = 6_000, 2_000
METRIC = "clicks@2"


def log_of(seed: int = 1, draw: int = 0) -> pa.Table:
    """A long tail of contexts; with other names of the contexts, other contexts are drawn."""
    rng = np.random.default_rng(seed)
    query = np.minimum(rng.pareto(1.0, RECORDS) * 4, 300).astype(int)
    items = np.argsort(rng.random((RECORDS, 4)) + 0.3 * np.arange(4), axis=1)[:, :3] + 1
    rate = (
        np.array([0.35, 0.2, 0.5, 0.1])[items - 1]
        / np.arange(1, 4)
        * (0.6 + (query % 7) / 7)[:, None]
    )
    return pa.table(
        {
            "query": [f"{q} {draw}" for q in query.tolist()],
            "day": rng.integers(0, 12, RECORDS),
            "device": [["app", "web"][c] for c in rng.integers(0, 2, RECORDS).tolist()],
            "items": pa.array(items.tolist()),
            "clicks": pa.array((rng.random((RECORDS, 3)) < rate).astype(np.int64).tolist()),
        }
    )


def read(table: pa.Table, sample: int | None = SAMPLE) -> Any:  # noqa: ANN401 - a log
    return fc.read_log(table, context="query", period="day", segments="device", sample=sample)


def asked(log: Any, policy: Any, **options: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    """The rows of an answer."""
    return [dict(row) for row in fc.evaluate(log, policy, **options).rows]


def candidate(table: pa.Table) -> fc.Ranking:
    names = sorted(set(table["query"].to_pylist()))
    return fc.Ranking({"query": names, "items": [[3, 1, 2]] * len(names)}, context="query")


@pytest.fixture(autouse=True)
def _small_contexts(monkeypatch):
    """So that contexts of a small log have more records than are kept."""
    monkeypatch.setattr(drawing, "KEPT_OF_CONTEXT", 50)


def test_of_a_table_only_lists_of_drawn_contexts_are_read():
    table = log_of()
    log, names = read(table), sorted(set(table["query"].to_pylist()))
    lists = {"query": names, "items": [[3, 1, 2]] * len(names)}
    by_table = fc.evaluate(log, lists, metrics=METRIC)
    assert by_table.rows == fc.evaluate(log, candidate(table), metrics=METRIC).rows
    assert not any("only the candidate" in note for note in by_table.notes)


def test_the_lift_and_its_error_by_the_drawing_are_the_formulas():
    """V_w / F_w − 1, and √Σ (1 − π) w² (V_x − R F_x)² / F, context by context."""
    table = log_of()
    log = read(table)
    e = fc.evaluate(log, candidate(table), metrics=METRIC, estimators="ip")
    rows = fc.tally(log).to_arrow().to_pandas()
    credit = rows["clicks_1"].fillna(0) + rows["clicks_2"].fillna(0)
    values, produced, weights, inclusion = [], [], [], []
    for _, own in rows.assign(credit=credit).groupby("context"):
        n, k = own["n"].to_numpy(), range(1, 4)
        shown = {(i, p): n @ (own[f"item_{p}"] == i).to_numpy(float) for i in (1, 3) for p in k}
        earned = {
            (i, p): n @ ((own[f"item_{p}"] == i) * own[f"clicks_{p}"].fillna(0)).to_numpy(float)
            for i in (1, 3)
            for p in k
        }
        rate = [earned[s] / shown[s] if shown[s] else 0.0 for s in ((3, 1), (1, 2))]
        values.append(n.sum() * sum(rate))
        produced.append(n @ own["credit"].to_numpy(float))
        weights.append((n * own["sampling_weight"]).sum() / n.sum())
        inclusion.append(own["inclusion"].iloc[0])
    v, f, w, p = map(np.array, (values, produced, weights, inclusion))
    ratio = (w @ v) / (w @ f)
    assert e.rows[0]["lift"] == pytest.approx(ratio - 1, rel=1e-9)
    clicks = np.array(table["clicks"].to_pylist())[:, :2].sum()
    assert e.rows[0]["production"] == pytest.approx(clicks / RECORDS, rel=1e-12)
    assert e.rows[0]["records"] == RECORDS
    se = np.sqrt(((1 - p) * (w * (v - ratio * f)) ** 2).sum()) / clicks
    (found,) = [row["lift_se"] for row in e.errors().rows if row["source"] == "drawn contexts"]
    assert found == pytest.approx(se, rel=1e-9)


def test_many_draws_are_right_on_average_and_as_far_off_as_they_say():
    table = log_of()
    options: dict[str, Any] = {"metrics": METRIC, "estimators": "item"}
    whole = asked(read(table, None), candidate(table), **options)[0]
    off: list[float] = []
    se: list[float] = []
    for draw in range(1, tries(16, 31)):
        named = log_of(draw=draw)
        (row,) = asked(read(named), candidate(named), **options)
        off.append(row["lift"] - whole["lift"])
        low, high = row["lift_low"], row["lift_high"]
        se.append((high - low) / 2)
        assert row["production"] == pytest.approx(whole["production"], rel=1e-12)
    far = np.array(off)
    assert abs(far.mean()) <= 3 * far.std() / np.sqrt(len(far)) + 0.02
    # Halves of intervals, of which the whole log's own error is a part that draws share.
    assert np.mean(np.abs(far) <= np.array(se)) >= 0.9


def test_what_production_shows_changes_nothing():
    table = log_of()
    log = read(table)
    rows = asked(log, fc.Observed(log), metrics=METRIC, estimators=["ladder", "ip"])
    assert [row["lift"] for row in rows] == pytest.approx([0, 0], abs=1e-12)
    assert rows[0]["lift_high"] - rows[0]["lift_low"] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("estimator", ["ladder", "ip"])
def test_parts_add_up_to_the_whole(estimator):
    table = log_of()
    log = read(table)
    options: dict[str, Any] = {"metrics": METRIC, "estimators": estimator}
    whole = asked(log, candidate(table), **options)[0]
    rows = asked(log, candidate(table), by="device", **options)
    records = np.array([row["records"] for row in rows])
    assert records.sum() == RECORDS
    for name in ("value", "production"):
        total = records @ [row[name] for row in rows] / RECORDS
        assert total == pytest.approx(whole[name], rel=1e-9)


def test_a_tally_of_a_drawn_log_travels_and_adds(tmp_path):
    table = log_of()
    drawn, whole = fc.tally(read(table)), fc.tally(read(table, None))
    options: dict[str, Any] = {"metrics": METRIC}
    answer = asked(drawn, candidate(table), **options)
    path = tmp_path / "drawn.parquet"
    drawn.write_parquet(path)
    for other in (fc.read_tally(path), pickle.loads(pickle.dumps(drawn))):  # noqa: S301
        assert asked(other, candidate(table), **options) == answer
    early, late = drawn.split(5)
    assert early is not None
    both = early + late
    assert (both.sizes, early.sizes[1] + late.sizes[1]) == (drawn.sizes, RECORDS)
    again = asked(both, candidate(table), **options)
    assert [row["lift"] for row in again] == pytest.approx([row["lift"] for row in answer])
    mixed: Any = drawn + whole  # of which half of the records were drawn
    assert mixed.sizes == (drawn.sizes[0] + RECORDS, 2 * RECORDS)
    truth = asked(whole, candidate(table), **options)[0]
    row = asked(mixed, candidate(table), **options)[0]
    assert row["production"] == pytest.approx(truth["production"], rel=1e-12)
    assert row["lift_low"] < truth["lift"] < row["lift_high"]


@pytest.mark.parametrize(
    "ask",
    [
        lambda log, _: fc.optimize(log, metrics=METRIC),
        lambda log, _: fc.judgments(log),
        fc.explore,
    ],
)
def test_verbs_that_need_every_context_say_so(ask):
    table = log_of()
    with pytest.raises(fc.errors.TallyError, match=r"needs every context.*sample=None"):
        ask(read(table), candidate(table))


def test_the_answer_says_that_contexts_were_drawn():
    table = log_of()
    log = read(table)
    said = f"From {log.drawn:,} of 6,000 lists, drawn by query"
    assert f"{said}; the interval allows for it." in fc.evaluate(log, candidate(table)).notes
    assert f"{said}." in fc.check(log).notes
    assert fc.check(log).rows[0]["found"] == RECORDS
    assert f"{said}: a candidate needs no other." in fc.contexts(log).notes
    assert "records drawn" in repr(log)
