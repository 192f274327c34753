"""The ladder, against rates solved for all at once, and against its own derivative."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.errors import ModelError
from foreclick.learn.fit import fitted
from tests.answers import answer, close
from tests.servers import Engine
from tests.truth import ladder as oracle
from tests.truth.oracle import Policy, Record, clicks_at, dcg_at
from tests.truth.random_logs import (
    DEEPEST,
    Case,
    lists_table,
    log_table,
    random_case,
)

STRENGTHS = {
    "list": (4.0, 7.0, 3.0, 2.0, 1.5),
    "ip": (3.0, 2.0, 1.5),
}
P = (1.0, 0.7, 0.4, 0.3, 0.2, 0.1)
THETA = {"clicks@2": clicks_at(2), "dcg@6": dcg_at(6)}


def fixed(top: Any, stopping: float = 0.0) -> fc.Ladder:  # noqa: ANN401 - one of two words
    return fc.Ladder(top, STRENGTHS[top], P, stopping=stopping)


def truth_of(records: list[Record], ladder: fc.Ladder, **more: Any) -> oracle.Truth:  # noqa: ANN401
    """The oracle with what a ladder learns of the records as a whole."""
    fit = fitted(fc.tally(fc.read_log(log_table(records))), ladder, "clicks", DEEPEST)
    return oracle.Truth(ladder.top, fit.strengths, P, fit.stopping, fit.base, fit.rounds, **more)


def solved(
    top: str,
    records: list[Record],
    candidate: Policy,
    metric: str,
    *,
    everyone: bool = False,
) -> float:
    """What the oracle says, of contexts that the candidate knows, or of all."""
    records = [r for r in records if everyone or r.context in candidate]
    return oracle.Truth(top, STRENGTHS[top], P).value(records, candidate, THETA[metric])


def assert_fits_best(case: Case, log: fc.Log, ladder: fc.Ladder, metrics: list[str]) -> None:
    found = fc.evaluate(
        log,
        fc.Lists(lists_table(case.candidate)),
        estimators=[ladder],
        metrics=metrics,
        missing="drop",
        clusters=None,
    )
    records = [r for r in case.records if r.context in case.candidate]
    truth = truth_of(records, ladder)
    for row in found.to_dicts():
        right = truth.value(records, case.candidate, THETA[str(row["metric"])])
        assert close(row["value"], right, 1e-10), (case.name, row["metric"])


@pytest.mark.truth
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("top", "stopping"), [("list", 0.7), ("list", 1.0), ("ip", 0.0)])
def test_it_is_what_fits_all_counts_best(top: str, stopping: float, seed: int):
    case = random_case(f"case{seed}", np.random.default_rng(seed), text=seed == 1)
    log = fc.read_log(log_table(case.records))
    assert_fits_best(case, log, fixed(top, stopping), list(THETA))


@pytest.mark.truth
def test_it_fits_best_on_every_engine(engine: Engine):
    case = random_case("case", np.random.default_rng(1), text=True)
    log = fc.read_log(engine.load(log_table(case.records)))
    assert_fits_best(case, log, fixed("list", 0.7), ["dcg@6"])


@pytest.mark.truth
def test_what_is_learnt_is_the_same_on_every_engine(engine: Engine):
    records = random_case("learnt", np.random.default_rng(4), text=True).records * 5
    table = log_table(records, day=[f"day {d}" for d in split(records, 5)])
    here = fc.tally(fc.read_log(table, period="day"))
    there = fc.tally(fc.read_log(engine.load(table), period="day"))
    one, other = (fitted(counted, fc.Ladder(), "clicks") for counted in (here, there))
    assert one.strengths == other.strengths
    np.testing.assert_allclose(one.examined, other.examined, rtol=1e-12)


def split(records: list[Record], parts: int) -> list[int]:
    return [i * 7 % parts for i in range(len(records))]


@pytest.mark.parametrize(("top", "stopping"), [("list", 0.7), ("list", 1.0), ("ip", 0.0)])
def test_its_interval_is_by_what_each_day_would_move_it(top: str, stopping: float):
    """Given the examination of slots."""
    case = random_case("moved", np.random.default_rng(11))
    records = case.records * 3
    days = split(records, 5)
    log = fc.read_log(log_table(records, day=days), period="day")
    lists = fc.Lists(lists_table(case.candidate))
    ladder = fixed(top, stopping)
    row = answer(log, lists, ladder, "clicks@2", missing="drop", clusters="auto")
    known = [r for r in records if r.context in case.candidate]
    truth = truth_of(known, ladder)
    truth = replace(truth, examination=truth.examined(known, case.candidate))

    def weighted(day: int, weight: float) -> list[Record]:
        return [
            r._replace(weight=weight if d == day else 1.0)
            for r, d in zip(records, days, strict=True)
            if r.context in case.candidate
        ]

    def heavier(day: int, weight: float) -> float:
        return truth.value(weighted(day, weight), case.candidate, THETA["clicks@2"])

    step = 1e-4
    moves = [(heavier(d, 1 + step) - heavier(d, 1 - step)) / (2 * step) for d in range(5)]
    assert abs(sum(moves)) > 0 or any(moves)
    rest = truth.unsettled(weighted(-1, 1.0), case.candidate, THETA["clicks@2"])
    assert close(row["se"], math.sqrt(5 / 4 * sum(m * m for m in moves) + rest), 1e-5)
    assert rest > 0


@pytest.mark.parametrize("forward", [False, True])
@pytest.mark.parametrize(("top", "stopping"), [("list", 0.7), ("list", 1.0), ("ip", 0.0)])
def test_a_backtest_is_a_loop_over_periods(top: str, stopping: float, *, forward: bool):
    """Given the examination of slots by the whole log, as strengths are."""
    case = random_case("held", np.random.default_rng(5))
    records = case.records * 2
    days = split(records, 4)
    log = fc.read_log(log_table(records, day=days), period="day")
    ladder = fixed(top, stopping)
    found = fc.backtest(log, estimators=[ladder], metrics="clicks@2", forward=forward)
    truth_ = truth_of(records, ladder)
    truth_ = replace(truth_, examination=truth_.examined(records, {}))
    errors = []
    dated = list(zip(records, days, strict=True))
    for context in {record.context for record in records}:
        for day in range(4):
            own = [r for r, d in dated if d == day and r.context == context]
            others = [r for r, d in dated if (d < day if forward else d != day)]
            if not own or not any(r.context == context for r in others):
                continue
            shown = [r.items for r in own]
            h = {context: {a: shown.count(a) / len(shown) for a in set(shown)}}
            truth = np.mean([sum(r.clicks[:2]) for r in own])
            errors.append(truth_.value(others, h, THETA["clicks@2"]) - truth)
    assert found["pairs"] == [len(errors)]
    assert close(found["rmse"][0], math.sqrt(np.mean(np.square(errors))), 1e-9)
    assert close(found["bias"][0], float(np.mean(errors)), 1e-9)


def covered_case() -> tuple[fc.Log, Any]:
    """A candidate whose slots were all seen, at several positions."""
    rng = np.random.default_rng(2)
    lists = [(1, 2, 3), (2, 1, 3), (3, 2, 1), (1, 3, 2)]
    records = [
        Record("q", lists[i % 4], tuple((rng.random(3) < 0.4).astype(float))) for i in range(200)
    ]
    candidate = {"context": ["q", "q"], "items": [[2, 1, 3], [1, 3, 2]], "probability": [0.3, 0.7]}
    return fc.read_log(log_table(records)), fc.Lists(pa.table(candidate))


@pytest.mark.parametrize(
    ("ladder", "plain"),
    [
        (fc.Ladder("ip", (1e-9, 1, 1), P), "ip"),
        (fc.Ladder("list", (math.inf, 1e-9, 1, 1, 1), P), "prefix"),
        (fc.Ladder("list", (1e-9, 1, 1, 1, 1), P), "list"),
        (fc.Ladder("list", (math.inf, math.inf, 1e-9, 1, 1), lambda _: 1.0, stopping=0), "ip"),
        (
            fc.Ladder("list", (math.inf, math.inf, math.inf, 1e-9, 1), P, stopping=0),
            fc.Weighted("pbm", examination=P),
        ),
        (fc.Ladder("ip", (math.inf, 1e-9, 1), lambda _: 1.0), "item"),
    ],
)
@pytest.mark.parametrize("clusters", [None, "record"])
def test_at_its_ends_it_is_a_plain_estimator(
    ladder: fc.Ladder, plain: str | fc.Weighted, clusters: str | None
):
    log, candidate = covered_case()
    one = answer(log, candidate, ladder, "clicks@3", clusters=clusters)
    other = answer(log, candidate, plain, "clicks@3", clusters=clusters)
    assert close(one["value"], other["value"], 1e-7)
    if clusters:
        assert 0.9 * other["se"] < one["se"] <= other["se"]  # nothing is added for small cells


def test_it_answers_for_what_was_never_shown_and_says_how():
    log, _ = covered_case()
    new = {"context": ["q"], "items": [[9, 1, 2]]}
    found = fc.evaluate(log, new, estimators=["ip", "ladder"], metrics="clicks@3", clusters=None)
    assert found["value"][1] > found["value"][0]
    assert any("ladder" in note and "never shown" in note for note in found.notes)


def test_records_that_nobody_counted_are_not_none_of_them():
    log, candidate = covered_case()
    options: dict[str, Any] = {"estimators": ["ip", "ladder"], "metrics": "clicks@3"}
    with_intervals = fc.evaluate(log, candidate, **options)
    without = fc.evaluate(log, candidate, clusters=None, **options)
    assert with_intervals["ess"][1] > 0
    assert without["ess"] == [with_intervals["ess"][0], None]
    assert "ess" in without.shown
    alone = fc.evaluate(log, candidate, clusters=None, **options | {"estimators": ["ladder"]})
    assert alone["ess"] == [None]
    assert "ess" not in alone.shown


def test_a_day_of_its_own_does_not_predict_itself():
    """Strengths from periods: lists whose clicks are those of the day are not to be trusted."""
    rng = np.random.default_rng(0)
    n = 4000
    day = rng.integers(0, 20, n)
    rate = np.where(rng.random(20) < 0.5, 0.1, 0.6)[day]
    first = rng.integers(1, 4, n)
    items = np.stack([first, 10 + day], axis=1)  # the second item is of the day alone
    clicks = rng.random((n, 2)) < rate[:, None]
    columns = {"context": ["q"] * n, "items": items.tolist(), "clicks": clicks.astype(int).tolist()}
    dated = fc.read_log(pa.table({**columns, "day": day}), period="day")
    undated = fc.read_log(pa.table(columns))
    with_days = fitted(fc.tally(dated), fc.Ladder("ip"), "clicks").strengths[1]
    without = fitted(fc.tally(undated), fc.Ladder("ip"), "clicks").strengths[1]
    assert without < with_days


def test_a_candidate_that_is_a_sample_widens_the_interval():
    case = random_case("sampled", np.random.default_rng(21))
    log = fc.read_log(log_table(case.records * 4))
    seen = [r for r in case.records * 2 if r.context == case.records[0].context]
    lists: dict[Any, dict[Any, float]] = {c: {} for c in {r.context for r in seen}}
    for r in seen:
        lists[r.context][r.items] = lists[r.context].get(r.items, 0.0) + 1 / len(seen)
    drawn, given = fc.Observed(fc.read_log(log_table(seen))), fc.Lists(lists_table(lists))
    options: dict[str, Any] = {"missing": "drop", "clusters": "record"}
    one = answer(log, drawn, fixed("list"), "clicks@2", **options)
    other = answer(log, given, fixed("list"), "clicks@2", **options)
    # By hand: what each list is worth, as a candidate of its own.
    worth = {
        a: solved("list", case.records * 4, {c: {a: 1.0}}, "clicks@2")
        for c in lists
        for a in lists[c]
    }
    mean = sum(worth[r.items] for r in seen) / len(seen)
    varied = sum((worth[r.items] - mean) ** 2 for r in seen) / (len(seen) - 1) / len(seen)
    assert close(one["value"], other["value"], 1e-10)
    assert close(one["se"] ** 2, other["se"] ** 2 + varied, 1e-8)


def test_contexts_lean_on_the_others():
    cases = [random_case(f"lean{i}", np.random.default_rng(30 + i)) for i in range(3)]
    records = [record for case in cases for record in case.records] * 2
    candidate = {c: lists for case in cases for c, lists in case.candidate.items()}
    days = split(records, 5)
    log = fc.read_log(log_table(records, day=days), period="day")
    ladder = fixed("list")
    truth = oracle.Truth("list", STRENGTHS["list"], P)
    options: dict[str, Any] = {"missing": "drop", "clusters": "auto"}
    row = answer(log, fc.Lists(lists_table(candidate)), ladder, "clicks@2", **options)

    def value(weights: list[float], what: Callable[..., float] = truth.value) -> float:
        mine = [
            r._replace(weight=w)
            for r, w in zip(records, weights, strict=True)
            if r.context in candidate
        ]
        return what(mine, candidate, THETA["clicks@2"])

    step = 1e-4
    moves = [
        sum(sign * value([1 + sign * step * (d == day) for d in days]) for sign in (1, -1))
        / (2 * step)
        for day in range(5)
    ]
    alike = [1.0] * len(records)
    rest = value(alike, truth.unsettled)
    assert close(row["value"], value(alike), 1e-10)
    assert close(row["se"], math.sqrt(5 / 4 * sum(m * m for m in moves) + rest), 1e-5)
    tested = fc.backtest(log, estimators=[ladder], metrics="clicks@2")
    errors = []
    for context, day in {(r.context, d) for r, d in zip(records, days, strict=True)}:
        dated = list(zip(records, days, strict=True))
        own = [r for r, d in dated if d == day and r.context == context]
        if not any(d != day and r.context == context for r, d in dated):
            continue
        h = {context: {r.items: sum(o.items == r.items for o in own) / len(own) for r in own}}
        others = [r for r, d in dated if d != day]
        earned = float(np.mean([sum(r.clicks[:2]) for r in own]))
        errors.append(truth.value(others, h, THETA["clicks@2"]) - earned)
    assert close(tested["rmse"][0], math.sqrt(np.mean(np.square(errors))), 1e-9)


# --- what is refused ----------------------------------------------------------------------------


def test_refusals():
    log, candidate = covered_case()
    with pytest.raises(ModelError, match="say 'list' or 'ip'"):
        fc.Ladder("item")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="does not know what stands above"):
        fc.Ladder("ip", stopping=0.5)
    with pytest.raises(ModelError, match="from 0 to 1"):
        fc.Ladder(stopping=1.5)
    with pytest.raises(ModelError, match="give 3 numbers above 0"):
        fc.Ladder("ip", [1, 2])
    with pytest.raises(ModelError, match="no use for logging="):
        fc.evaluate(log, candidate, estimators="ladder", logging=candidate)
    with pytest.raises(ModelError, match="Ask for 'prefix', 'ip' and 'item'"):
        fc.support(log, candidate, estimators=["ladder"])


def test_segments_share_one_ladder_and_add_up_to_it():
    case = random_case("seg", np.random.default_rng(8))
    known = [r for r in case.records if r.context in case.candidate]
    other = [r._replace(clicks=tuple(1.0 for _ in r.clicks)) for r in known[::2]]
    table = log_table(known + other, half=["a"] * len(known) + ["b"] * len(other))
    log = fc.read_log(table, segments=("half",))
    found = fc.evaluate(
        log,
        fc.Lists(lists_table(case.candidate)),
        estimators=[fixed("list")],
        metrics="clicks@2",
        missing="drop",
        by="half",
        clusters=None,
    )
    right = solved("list", known + other, case.candidate, "clicks@2")
    total = sum(v * n for v, n in zip(found["value"], found["records"], strict=True))
    assert close(total / sum(found["records"]), right, 1e-9)
    assert close(found.whole[0]["value"], right, 1e-9)
    assert found["value"][1] > found["value"][0]
