"""If this fails, an answer about drawn contexts is off, or its interval ignores the drawing.

An answer from a million of 167 million lists would be off by more than it says.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import foreclick as fc
from foreclick.logs import drawing
from tests.cases.case import Case
from tests.cases.plain import drawn
from tests.tries import tries

pytestmark = pytest.mark.filterwarnings("ignore:the contexts hardly repeat")

RECORDS, SAMPLE = 6_000, 2_000
CASE = drawn(1, records=RECORDS, contexts=300, items=4, depth=3, periods=12, segments=True)
"""A long tail of contexts."""

BEST = [102, 100, 101]
METRIC: dict[str, Any] = {"metrics": "clicks@2"}


def candidate(case: Case = CASE) -> fc.Ranking:
    """The same list in each context."""
    return fc.Ranking(dict.fromkeys(case.columns["context"], BEST))


def rows_of(log: Any, policy: Any, **options: Any) -> Any:  # noqa: ANN401
    """The rows of an answer."""
    return fc.evaluate(log, policy, **METRIC, **options).rows


@pytest.fixture(autouse=True)
def _small_contexts(monkeypatch):
    """So that contexts of a small log have more records than are kept."""
    monkeypatch.setattr(drawing, "KEPT_OF_CONTEXT", 50)


@pytest.fixture
def log(_small_contexts):
    return CASE.read(sample=SAMPLE)


def test_of_a_table_only_lists_of_drawn_contexts_are_read(log):
    names = sorted(set(CASE.columns["context"]))
    by_table = fc.evaluate(log, {"context": names, "items": [BEST] * len(names)}, **METRIC)
    assert by_table.rows == rows_of(log, candidate())
    assert not any("only the candidate" in note for note in by_table.notes)


def test_the_lift_and_its_error_by_the_drawing_are_the_formulas(log):
    """V_w / F_w − 1, and √Σ (1 − π) w² (V_x − R F_x)² / F, context by context."""
    e = fc.evaluate(log, candidate(), estimators="ip", **METRIC)
    rows = fc.tally(log).to_arrow().to_pandas()
    credit = rows["clicks_1"].fillna(0) + rows["clicks_2"].fillna(0)
    values, produced, weights, inclusion = [], [], [], []
    for _, own in rows.assign(credit=credit).groupby("context"):
        n, value = own["n"].to_numpy(), 0.0
        for k, item in enumerate(BEST[:2], start=1):
            here = n @ (own[f"item_{k}"] == item).to_numpy(float)
            clicks = (own[f"item_{k}"] == item) * own[f"clicks_{k}"].fillna(0)
            value += n @ clicks.to_numpy(float) / here if here else 0.0
        values.append(n.sum() * value)
        produced.append(n @ own["credit"].to_numpy(float))
        weights.append((n * own["sampling_weight"]).sum() / n.sum())
        inclusion.append(own["inclusion"].iloc[0])
    v, f, w, p = map(np.array, (values, produced, weights, inclusion))
    ratio = (w @ v) / (w @ f)
    assert e.rows[0]["lift"] == pytest.approx(ratio - 1, rel=1e-9)
    total = np.array(CASE.columns["clicks"])[:, :2].sum()
    assert e.rows[0]["production"] == pytest.approx(total / RECORDS, rel=1e-12)
    assert e.rows[0]["records"] == RECORDS
    se = np.sqrt(((1 - p) * (w * (v - ratio * f)) ** 2).sum()) / total
    (found,) = [row["lift_se"] for row in e.errors().rows if row["source"] == "drawn contexts"]
    assert found == pytest.approx(se, rel=1e-9)


def test_many_draws_are_right_on_average_and_as_far_off_as_they_say():
    """With other names of the contexts, other contexts are drawn."""
    (whole,) = rows_of(CASE.read(sample=None), candidate(), estimators="item")
    off, se = [], []
    for draw in range(1, tries(16, 31)):
        named = CASE.having(context=[f"{q} {draw}" for q in CASE.columns["context"]])
        (row,) = rows_of(named.read(sample=SAMPLE), candidate(named), estimators="item")
        off.append(row["lift"] - whole["lift"])
        se.append((row["lift_high"] - row["lift_low"]) / 2)
        assert row["production"] == pytest.approx(whole["production"], rel=1e-12)
    far = np.array(off)
    assert abs(far.mean()) <= 3 * far.std() / np.sqrt(len(far)) + 0.02
    # Halves of intervals, of which the whole log's own error is a part that draws share.
    assert np.mean(np.abs(far) <= np.array(se)) >= 0.9


def test_what_production_shows_changes_nothing(log):
    rows = rows_of(log, fc.Observed(log), estimators=["ladder", "ip"])
    assert [row["lift"] for row in rows] == pytest.approx([0, 0], abs=1e-12)
    assert rows[0]["lift_high"] - rows[0]["lift_low"] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("estimator", ["ladder", "ip"])
def test_parts_add_up_to_the_whole(log, estimator):
    (whole,) = rows_of(log, candidate(), estimators=estimator)
    rows = rows_of(log, candidate(), estimators=estimator, by="device")
    records = np.array([row["records"] for row in rows])
    assert records.sum() == RECORDS
    for name in ("value", "production"):
        total = records @ [row[name] for row in rows] / RECORDS
        assert total == pytest.approx(whole[name], rel=1e-9)


def test_a_tally_of_a_drawn_log_travels_and_adds(log, tmp_path):
    some, whole = fc.tally(log), fc.tally(CASE.log)
    answer, path = rows_of(some, candidate()), tmp_path / "drawn.parquet"
    some.write_parquet(path)
    for other in (fc.read_tally(path), pickle.loads(pickle.dumps(some))):  # noqa: S301
        assert rows_of(other, candidate()) == answer
    early, late = some.split(5)
    assert early is not None
    both = early + late
    assert (both.sizes, early.sizes[1] + late.sizes[1]) == (some.sizes, RECORDS)
    assert [row["lift"] for row in rows_of(both, candidate())] == pytest.approx(
        [row["lift"] for row in answer]
    )
    mixed: Any = some + whole  # of which half of the records were drawn
    assert mixed.sizes == (some.sizes[0] + RECORDS, 2 * RECORDS)
    truth, row = rows_of(whole, candidate())[0], rows_of(mixed, candidate())[0]
    assert row["production"] == pytest.approx(truth["production"], rel=1e-12)
    assert row["lift_low"] < truth["lift"] < row["lift_high"]


@pytest.mark.parametrize(
    "ask",
    [lambda log, _: fc.optimize(log, **METRIC), lambda log, _: fc.judgments(log), fc.explore],
)
def test_verbs_that_need_every_context_say_so(log, ask):
    with pytest.raises(fc.errors.TallyError, match=r"needs every context.*sample=None"):
        ask(log, candidate())


def test_the_answer_says_that_contexts_were_drawn(log):
    said = f"From {log.drawn:,} of 6,000 lists, drawn by context"
    assert f"{said}; the interval allows for it." in fc.evaluate(log, candidate()).notes
    assert f"{said}." in fc.check(log).notes
    assert fc.check(log).rows[0]["found"] == RECORDS
    assert f"{said}: a candidate needs no other." in fc.contexts(log).notes
    assert "records drawn" in repr(log)
