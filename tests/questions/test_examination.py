"""Examination curves: what is recovered, what is refused, and what is said about it."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import foreclick as fc
from foreclick.errors import ModelError
from tests.truth import swaps
from tests.truth.swaps import Slot

# Both are converged; what is left is the order of sums, times a condition number.
SAME = 1e-10
P = (1.0, 0.5, 0.4, 0.1)


def records(*shown, context="q", **more):
    """Lists with how often they were shown and how often each position was clicked."""
    rows: Any = {"context": [], "items": [], "clicks": []} | {name: [] for name in more}
    for items, times, clicks in shown:
        for t in range(times):
            rows["context"].append(context)
            rows["items"].append(list(items))
            rows["clicks"].append([int(t < c) for c in clicks])
            for name, value in more.items():
                rows[name].append(value)
    return rows


def together(*parts):
    return {name: [value for part in parts for value in part[name]] for name in parts[0]}


def rotations(p, times=200, rate=0.5):
    """Every item at every position, with clicks in exact proportion."""
    items = list(range(len(p)))
    return [
        (items[i:] + items[:i], times, [round(times * rate * share) for share in p])
        for i in range(len(p))
    ]


def random_log(rng, records=60, contexts=3, depth=4, days=3):
    """Short lists, of few items, with clicks that follow no model."""
    lengths = rng.integers(2, depth + 1, records)
    return {
        "context": rng.integers(0, contexts, records).tolist(),
        "items": [rng.permutation(depth + 1)[:k].tolist() for k in lengths],
        "clicks": [(rng.random(k) < 0.5).astype(int).tolist() for k in lengths],
        "day": rng.integers(0, days, records).tolist(),
        "user": rng.integers(0, 9, records).tolist(),
    }


def slots_of(log, key=("context",), cluster=None):
    """The slots of a log, one per record and position."""
    return [
        Slot(
            tuple(log[name][i] for name in key),
            item,
            k,
            1,
            log["clicks"][i][k - 1],
            cluster and log[cluster][i],
        )
        for i, items in enumerate(log["items"])
        for k, item in enumerate(items, start=1)
    ]


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


@settings(max_examples=15)
@given(seed=st.integers(0, 10_000), dated=st.booleans())
def test_both_curves_are_those_of_the_oracle(seed, dated):
    rng = np.random.default_rng(seed)
    log = random_log(rng, records=int(rng.integers(40, 120)))
    key = ("context", "day") if dated else ("context",)
    counts = swaps.counts_of(slots_of(log, key), 4)
    found = fc.examination(
        fc.read_log(log, period="day"),
        within="period" if dated else "context",
    )
    if None in found["examination"] or 0 in found["examination"]:
        return  # the oracle has no notion of it; tested below
    assert found["examination"] == approx(swaps.alternating(counts, 4), 1e-8)


# --- errors -------------------------------------------------------------------------------------


def test_periods_are_clusters_and_users_the_wider_of_both():
    log = random_log(np.random.default_rng(4), records=300, days=5)
    roles: dict[str, Any] = {"period": {"period": "day"}, "unit": {"unit": "user"}, "record": {}}
    roles["both"] = roles["period"] | roles["unit"]
    by = {
        kind: fc.examination(fc.read_log(log, **each), within="context")
        for kind, each in roles.items()
    }
    moved = swaps.moved_by(slots_of(log, cluster="day"), 4, swaps.alternating)
    spread = np.sqrt(5 / 4 * (moved**2).sum(axis=0))
    t, z = 2.776445, 1.959964  # four degrees of freedom, and any number
    for row, error, floor in zip(by["period"], spread, by["record"], strict=True):
        own, independent = row["examination"] * error, floor["se"]
        assert row["se"] == pytest.approx(
            own if t * own > z * independent else independent, abs=1e-5
        )
    wide = [[row["high"] - row["low"] for row in by[kind]] for kind in ("period", "unit", "both")]
    assert wide[2] == approx(np.maximum(wide[0], wide[1]))
    dated = fc.examination(fc.read_log(log, period="day"), within="period")
    moved = swaps.moved_by(slots_of(log, ("context", "day"), "day"), 4, swaps.alternating)
    errors = dated["examination"] * np.sqrt(5 / 4 * (moved**2).sum(axis=0))
    assert dated["se"] == pytest.approx(errors, abs=1e-5)


def replications(count, rng, *, daily):
    """Small logs in one table, clicked by a PBM; every day has its own list if `daily`."""
    contexts, days, times = 20, 6, 12
    x, d = np.divmod(np.arange(contexts * days * times) // times, days)
    rows = []
    for number in range(count):
        attraction = rng.uniform(0.05, 0.4, (contexts, 5))
        orders = rng.random((contexts, days, 5)).argsort(axis=2)[:, :, :4]
        items = orders[x, d] if daily else rng.random((len(x), 5)).argsort(axis=1)[:, :4]
        clicks = rng.random(items.shape) < attraction[x[:, None], items] * np.array(P)
        rows.append(
            pa.table(
                {
                    "context": x,
                    "day": d,
                    "replication": np.full(len(x), number),
                    "items": pa.array(items.tolist()),
                    "clicks": pa.array(clicks.astype(int).tolist()),
                }
            )
        )
    return pa.concat_tables(rows)


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
    top, bottom = rotations((1, 0.5)), rotations((1, 0.5))
    shown = [
        (items + [10 + i for i in low], 200, [*clicks, *(c // 2 for c in fewer)])
        for (items, _, clicks), (low, _, fewer) in zip(top, bottom, strict=True)
    ]
    found = fc.examination(records(*shown), within="context")
    assert found["examination"][:2] == approx([1, 0.5])
    assert found["examination"][2:] == [None, None]
    assert found["se"][2:] == found["low"][2:] == [None, None]
    assert found["items"] == [2] * 4
    (note,) = found.notes
    assert note.startswith("Positions 3–4 never exchanged an item that was clicked with positions ")
    assert "depth=2" in note
    assert found.curve == approx([1, 0.5])
    two = fc.read_log(records(*shown), depth=2)
    assert fc.examination(two, within="context").notes == ()
    with pytest.raises(ModelError, match="2 positions, but a metric counts 4"):
        fc.Weighted("pbm", examination=found.curve).model.examined(4)


def test_positions_without_a_click_are_zero():
    shown = [(items, times, [*clicks[:3], 0]) for items, times, clicks in rotations(P)]
    found = fc.examination(records(*shown), within="context")
    assert found["examination"] == approx([1, 0.5, 0.4, 0])
    assert found["se"][3] is None
    (note,) = found.notes
    assert note.startswith("Position 4 got no click from items that stood there and elsewhere")
    assert found.curve[3] == 0


def test_a_first_position_without_clicks_is_no_reference():
    shown = [(items, times, [0, *clicks[1:]]) for items, times, clicks in rotations(P)]
    found = fc.examination(records(*shown))
    assert found["examination"] == approx([0, 1, 0.8, 0.2])
    assert any("relative to position 2" in note for note in found.notes)


def test_positions_that_only_win_have_no_answer():
    """Item 3 was clicked at position 3 and nowhere else: p_3 / p_1 may be anything."""
    log = records(
        ([1, 2, 3], 100, [40, 20, 30]),
        ([2, 1, 9], 100, [40, 20, 0]),
        ([3, 8], 20, [0, 0]),
        ([8, 3], 90, [0, 0]),
    )
    found = fc.examination(log)
    assert found["examination"] == [pytest.approx(1), pytest.approx(0.5), None]
    assert any(note.startswith("Position 3 cannot be compared with") for note in found.notes)


def test_a_ranker_that_changes_by_day_is_compared_across_days():
    days = [records(one, day=day) for day, one in enumerate(rotations(P))]
    log = fc.read_log(together(*days), period="day")
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
    log = together(
        records(first, first, first, second, *back, day=1),
        records(slow[0], *[slow[1]] * 3, *back, day=2),
    )
    read = fc.read_log(log, period="day")
    assert fc.examination(read).curve == approx([1, 0.5])
    assert fc.examination(read, within="context").curve != approx([1, 0.5], 1e-3)


# --- segments -----------------------------------------------------------------------------------


def test_segments_have_a_curve_each():
    log = together(
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
    with pytest.raises(ModelError, match="by='shop'"):
        fc.examination(read, by="shop")


# --- what it is for -----------------------------------------------------------------------------


def test_pbm_with_the_found_curve_is_right_where_one_over_k_is_not():
    lists = rotations((1, 0.9, 0.8, 0.7))
    log = records(*lists, *lists[:1] * 3)
    candidate = {"context": ["q"], "items": [[1, 2, 3, 0]]}
    curve = fc.examination(log).curve
    paper = fc.Weighted("pbm", examination="1/k")
    found = fc.evaluate(
        log,
        candidate,
        metrics="clicks@4",
        estimators=[fc.Weighted("pbm", examination=curve), "list", paper, "pbm"],
        confidence=None,
    )
    fitted, right, usual, named = found["value"]
    assert [fitted, named] == pytest.approx([right, right], rel=SAME)
    assert not math.isclose(usual, right, rel_tol=0.01)
