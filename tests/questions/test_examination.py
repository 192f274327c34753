"""If this fails, an examination curve is wrong, or is told where the log cannot know it."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.curves.learnt import with_curves
from foreclick.errors import ModelError
from foreclick.estimators import LearntCurve, parse_estimators
from foreclick.metrics import parse_any
from foreclick.question import Question
from foreclick.questions.examination import Examination
from foreclick.run.estimate import estimate
from foreclick.tallies.base import local_tally
from tests.cases.plain import DEPTH, EXAMINED, QUERIES, drawn, sorted_log
from tests.questions.scenes import counted, joined
from tests.truth import swaps
from tests.truth.swaps import Slot

# Both are converged; what is left is the order of sums, times a condition number.
SAME = 1e-10
P = (1.0, 0.5, 0.4, 0.1)


def records(*shown, **more):
    """Lists with how often they were shown and how often each position was clicked."""
    each = [
        (items, [t < c for c in clicks], 1) for items, times, clicks in shown for t in range(times)
    ]
    return counted(*each, **more)


def rotations(p):
    """Every item at every position, two hundred times, with clicks in exact proportion."""
    items, clicks = list(range(len(p))), [round(100 * share) for share in p]
    return [(items[i:] + items[:i], 200, clicks) for i in items]


def approx(values, tolerance=SAME):
    return pytest.approx([float(v) for v in values], rel=tolerance)


# --- what is recovered --------------------------------------------------------------------------


def test_exact_proportions_are_recovered_exactly():
    found = fc.examination(records(*rotations(P)), within="context")
    assert found["examination"] == approx(P)
    assert found["position"] == [1, 2, 3, 4]
    assert found["items"] == [4] * 4
    assert found["records"] == [800] * 4
    assert found.notes == ()
    assert found.curve == approx(P)


@pytest.mark.parametrize("dated", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_a_curve_is_that_of_the_oracle(seed, dated):
    case = drawn(seed, records=400, contexts=4, items=5, periods=2, ragged=True)
    slots = [
        Slot((row.context, row.day if dated else None), item, k, 1, click)
        for row in case.rows
        for k, (item, click) in enumerate(zip(row.items, row.clicks, strict=True), start=1)
    ]
    found = fc.examination(case.log, within="period" if dated else "context")
    assert found["examination"] == approx(swaps.alternating(swaps.counts_of(slots, 4), 4), 1e-8)


# --- errors -------------------------------------------------------------------------------------


def replications(count, rng, *, daily):
    """Small logs in one table, clicked by a PBM; every day has its own list if `daily`."""
    number, x, day, _ = np.indices((count, 20, 6, 12)).reshape(4, -1)
    attraction = rng.uniform(0.05, 0.4, (count, 20, 5))
    orders = rng.random((count, 20, 6, 5)).argsort(axis=-1)[..., :4]
    items = orders[number, x, day] if daily else rng.random((len(x), 5)).argsort(axis=1)[:, :4]
    clicks = rng.random(items.shape) < attraction[number[:, None], x[:, None], items] * np.array(P)
    columns = {"context": x, "day": day, "replication": number}
    return pa.table(columns | {"items": list(items), "clicks": list(clicks.astype(int))})


@pytest.mark.slow
@pytest.mark.parametrize("daily", [False, True])
def test_intervals_cover_the_truth(daily):
    """Of 600 intervals 95 % should; 0.92 is three standard errors and more below it."""
    table = replications(200, np.random.default_rng(8), daily=daily)
    log = fc.read_log(table, period="day", segments=("replication",))
    found = fc.examination(log, by="replication", within="context" if daily else "period")
    known = [row for row in found if row["position"] > 1 and row["low"] is not None]
    assert len(known) > 550
    held = [row["low"] <= P[row["position"] - 1] <= row["high"] for row in known]
    assert 0.92 <= np.mean(held) <= 0.99


# --- what cannot be told ------------------------------------------------------------------------


def test_positions_that_exchange_nothing_have_no_answer():
    clicks = [100, 50, 50, 25]
    shown = ([0, 1, 10, 11], 200, clicks), ([1, 0, 11, 10], 200, clicks)
    found = fc.examination(records(*shown), within="context")
    assert found["examination"][:2] == approx([1, 0.5])
    assert found["examination"][2:] == [None, None]
    assert found["se"][2:] == found["low"][2:] == [None, None]
    assert found["items"] == [2] * 4
    (note,) = found.notes
    assert note.startswith("Positions 3–4 cannot be compared with positions ")
    assert "depth=2" in note
    assert found.curve == approx([1, 0.5])
    two = fc.read_log(records(*shown), depth=2)
    assert fc.examination(two, within="context").notes == ()
    with pytest.raises(ModelError, match="2 positions, but a metric counts 4"):
        fc.Weighted("pbm", examination=found.curve).model.examined(4)


def test_positions_without_a_click_are_zero():
    found = fc.examination(records(*rotations((*P[:3], 0))), within="context")
    assert found["examination"] == approx([1, 0.5, 0.4, 0])
    assert found["se"][3] is None
    (note,) = found.notes
    assert note.startswith("Position 4 got no click from items that stood there and elsewhere")
    assert found.curve[3] == 0


def test_a_first_position_without_clicks_is_no_reference():
    found = fc.examination(records(*rotations((0, *P[1:]))))
    assert found["examination"] == approx([0, 1, 0.8, 0.2])
    assert any("relative to position 2" in note for note in found.notes)


def test_a_ranker_that_changes_by_day_is_compared_across_days():
    days = (records(one, day=day) for day, one in enumerate(rotations(P)))
    log = fc.read_log(joined(*days), period="day")
    found = fc.examination(log)
    assert found.curve == approx(P)
    assert any("compared across periods" in note for note in found.notes)
    with pytest.raises(ModelError, match="no two positions"):
        fc.examination(log, within="period")


def test_within_periods_a_change_of_taste_is_no_examination():
    """From one day to the other everybody clicks half as much, and another list is on top."""
    first, second = ([1, 2], 400, [200, 0]), ([3, 1], 400, [0, 100])
    slow = [(items, times, [c // 2 for c in clicks]) for items, times, clicks in (first, second)]
    back = ([4, 5], 90, [60, 30]), ([5, 4], 90, [60, 30])  # so that position 2 wins as well
    log = joined(
        records(first, first, first, second, *back, day=1),
        records(slow[0], *[slow[1]] * 3, *back, day=2),
    )
    read = fc.read_log(log, period="day")
    assert fc.examination(read).curve == approx([1, 0.5])
    assert fc.examination(read, within="context").curve != approx([1, 0.5], 1e-3)


# --- segments -----------------------------------------------------------------------------------


def test_segments_have_a_curve_each():
    log = joined(
        records(*rotations(P), device="phone"),
        records(*rotations((1, 0.8, 0.6, 0.5)), device=None),
        records(([1, 2], 9, [3, 3]), device="watch"),
    )
    read = fc.read_log(log, segments=("device",))
    found = fc.examination(read, by="device")
    assert found.columns[:3] == ("device", "position", "examination")
    assert found["device"] == ["phone"] * 4 + ["watch"] * 4 + [None] * 4
    assert found.curves["phone"] == approx(P)
    assert found.curves[None] == approx((1, 0.8, 0.6, 0.5))
    assert any(note.startswith("watch: No curve") for note in found.notes)
    with pytest.raises(ModelError, match="3 curves"):
        _ = found.curve


# --- click models that learn from the log how much positions are examined: `pbm`, by its name -----


PAPER = fc.Weighted("pbm", examination="1/k")
TURNED = fc.Ranking({"context": np.arange(QUERIES), "items": [[4, 3, 2, 1, 0]] * QUERIES})


@pytest.fixture(scope="module")
def log():
    return sorted_log(1, records=100, swaps=0.5)


@pytest.fixture(scope="module")
def stuck():
    return sorted_log(2, records=10, swaps=0.0)


def learnt(log, metrics="dcg@4"):
    """The curve that `pbm` takes, and the notes."""
    tally, _ = local_tally(log)
    (by,), notes = with_curves(tally, parse_estimators("pbm"), parse_any(metrics))
    return by.model.examination, notes


def test_the_curve_is_that_of_examination(log):
    curve, notes = learnt(log)
    found = fc.examination(log)
    assert curve.p == pytest.approx(found.curve, rel=1e-12)
    covariance = np.array(curve.root) @ np.array(curve.root).T
    se = np.array([row["se"] / row["examination"] for row in found.to_dicts()])
    assert np.sqrt(np.diag(covariance)) == pytest.approx(se, rel=1e-9)
    assert not notes


ASKED = {
    "evaluate": lambda log, **by: fc.evaluate(log, TURNED, **by)["value"],
    "compare": lambda log, **by: fc.compare(log, {"a": TURNED}, **by)["se"],
    "backtest": lambda log, **by: fc.backtest(log, **by)["rmse"],
    "support": lambda log, **by: fc.support(log, TURNED, **by)["lowest"],
    "optimize": lambda log, **by: fc.optimize(log, judge=None, **by)["value"],
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_by_its_name_it_is_learnt_by_every_verb(log, stuck, ask):
    given = fc.Weighted("pbm", examination=learnt(log)[0])
    (by_name,), (by_curve,), (paper,) = (
        ask(log, metrics="dcg@4", estimators=by) for by in ("pbm", given, PAPER)
    )
    assert by_name == pytest.approx(by_curve, rel=1e-12)
    assert by_name != pytest.approx(paper, rel=1e-4)
    by_name, paper = (ask(stuck, metrics="dcg@4", estimators=by) for by in ("pbm", PAPER))
    assert by_name == paper


def asked(log, estimator, metric, known, clusters=()):
    loggings = [fc.Observed(log) if known else None]
    metrics, by = parse_any(metric), [estimator]
    question = Question([TURNED], by, metrics, clusters=clusters, loggings=loggings)
    return estimate(local_tally(log)[0], question).of_candidate()[0]


@pytest.mark.parametrize(
    ("metric", "clip", "known"),
    [
        ("clicks@3", math.inf, False),
        ("dcg@4", 0.9, False),
        ("dcg@4", math.inf, True),
        ("mrr@4", math.inf, False),
        ("clicks@2/dcg@4", math.inf, False),
    ],
)
def test_an_error_of_the_curve_moves_the_value_as_far_as_it_does(log, metric, clip, known):
    """Errors of size 1 in log p of one position after the other: it is off by the derivatives."""
    p = np.array([1.0, 0.5, 0.4, 0.1, 0.1])
    root = tuple(map(tuple, np.eye(DEPTH).tolist()))
    by = fc.Weighted("pbm", clip, LearntCurve(tuple(p.tolist()), root))
    found = asked(log, by, metric, known, ("period",))

    def value(moved):
        by = fc.Weighted("pbm", clip, (p * np.exp(moved)).tolist())
        return asked(log, by, metric, known).value

    slopes = [(value(step) - value(-step)) / 2e-5 for step in 1e-5 * np.eye(DEPTH)]
    assert np.abs(slopes).max() > 1e-3
    assert found.shared_errors.by_source["examination"] == pytest.approx(slopes, rel=1e-5, abs=1e-8)
    given = asked(log, fc.Weighted("pbm", clip, p.tolist()), metric, known, ("period",))
    more = found.covariance - given.covariance
    assert more == pytest.approx(np.diag([np.sum(np.square(slopes)), 0]), rel=1e-4, abs=1e-12)


def test_where_nothing_moves_it_is_one_over_k_and_says_so(stuck):
    curve, notes = learnt(stuck)
    assert curve == "learnt"
    assert "does not tell how much positions are examined" in notes[0]
    assert "pbm takes 1/k" in notes[0]
    found = fc.evaluate(stuck, TURNED, metrics="dcg@4", estimators="pbm")
    assert notes[0] in found.notes
    assert not learnt(stuck, "clicks@1")[1]  # one position is all that counts


# --- `examination` where one curve is not the truth: it says so, and its errors are wider ---------


def said(found: Examination, words: str) -> bool:
    return any(words in note for note in found.notes)


@pytest.mark.parametrize(
    ("seed", "swaps", "words"),
    [
        *((seed, 0.0, "taste that changed") for seed in (97_001, 97_002, 97_003)),
        (97_004, 0.02, "only moves within periods count"),
    ],
)
def test_a_ranker_that_follows_trends_is_found_out(seed: int, swaps: float, words: str):
    """Items moved because their attraction did: of 10 such logs, no interval had the truth."""
    found = fc.examination(sorted_log(seed, trend=0.05, swaps=swaps))
    assert said(found, words)
    rows = zip(found.to_dicts(), EXAMINED, strict=True)
    assert all(row["low"] <= p <= row["high"] for row, p in rows)


def test_without_periods_it_says_that_changes_count_as_examination():
    log = sorted_log(97_005, dated=False)
    assert said(fc.examination(log), "The log has no periods")
    # Who asks for moves within a context knows.
    assert not said(fc.examination(log, within="context"), "The log has no periods")


@pytest.mark.parametrize("dated", [True, False])
def test_contexts_of_two_kinds_are_told_and_make_errors_wider(dated: bool):
    alike, differing = (
        fc.examination(sorted_log(97_006, kinds=kinds, dated=dated)) for kinds in (False, True)
    )
    assert said(differing, "Examination differs between contexts")
    assert not said(alike, "Examination d")
    assert differing["se"][4] > 1.3 * alike["se"][4]


def test_trust_in_the_top_is_told_from_a_curve():
    plain, trusting = (
        fc.examination(sorted_log(97_007, records=5000, trust=trust)) for trust in (False, True)
    )
    assert said(
        trusting, "Examination depends on the item: at position 5, attractive items get more"
    )
    assert not said(plain, "Examination d")
