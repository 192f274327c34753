"""If this fails, the default estimator's rates are not those that fit all counts best."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.batches import batches_of
from foreclick.estimation.columns import View
from foreclick.estimators import Top
from foreclick.ladder import shrinkage
from foreclick.ladder.behaviour import Reading, Stopping
from foreclick.ladder.fit import fit_candidates, known_part, production_fit
from foreclick.ladder.fitted import CandidateFit
from foreclick.ladder.overlap import Overlap
from foreclick.ladder.rates import RateParameters
from foreclick.ladder.score import list_values, score_ladder
from foreclick.metrics import Metric
from foreclick.question import Target
from tests.answers import close
from tests.cases.plain import drawn, half_new
from tests.cases.tables import lists_table, log_table
from tests.truth import ladder as oracle
from tests.truth.oracle import Record, clicks_at, dcg_at

STRENGTHS = {"list": (4.0, 7.0, 3.0), "ip": (3.0,)}
P = (1.0, 0.7, 0.4, 0.3, 0.2, 0.1)
DEEPEST = 6
SMALL: dict[str, Any] = {
    "records": 30,
    "contexts": 3,
    "items": 7,
    "depth": DEEPEST,
    "ragged": True,
    "missing": True,
}
BETA = (-1.2, 0.4, 0.3, -0.2, 0.3, 0.2, 0.1, 0.05)
BARE = (-0.9, 0.2, 0.4)
THETA = {"clicks@2": clicks_at(2), "dcg@6": dcg_at(6)}


def given_fit(
    tally: fc.Tally, top: Top, stopping: float, policies: list[fc.Policy], overlap: Overlap
) -> CandidateFit:
    """A ladder of which everything is given that is learnt otherwise."""
    ladder = fc.Ladder(top, P, stopping=stopping)
    fit = fit_candidates(tally, ladder, ["clicks"], policies, DEEPEST, drop=True)["clicks"]
    p = np.array(P[: len(fit.parameters.p)])
    before = RateParameters(np.array([-1.0, 0.3, 0.2, -0.1]), p, 2.0, 5.0)
    stops = Stopping(1 - stopping, 2.0, 1.5, 1.3) if stopping else None
    reading = Reading("clicks", fit.log.spec.unit, stops, (before,))
    spec = replace(fit.log.spec, unit=1.0)
    return replace(
        fit,
        log=replace(fit.log, spec=spec, strengths=STRENGTHS[top], reading=reading),
        solution=replace(fit.solution, parameters=RateParameters(np.array(BETA), p, 3.0, 8.0)),
        overlaps=(overlap,),
        candidate_only=(fit.candidate_only[0]._replace(coefficients=np.array(BARE)),),
    )


def values_of(
    tally: fc.Tally, fit: CandidateFit, policy: fc.Policy, metric: str
) -> tuple[float, float]:
    """What a candidate is worth, by columns and by its lists."""
    total = records = lists = 0.0
    ladder = fit.log.spec.ladder
    ask = Target(ladder.model, Metric(metric), math.inf, ladder)
    for whole in batches_of(tally):
        view = View.of(whole, [policy], DEEPEST)
        batch = known_part(whole, view.known)
        view = View.of(batch, [policy], DEEPEST)
        total += float(score_ladder(view, [ask], fit, rows=False).value.sum())
        worth = list_values(view, [ask], fit)[0]
        mass = view.policies.lists.mass * batch.context_n[view.policies.lists.context]
        lists += float(worth @ mass)
        records += float(batch.n.sum())
    return total / records, lists / records


INSIDE, OUTSIDE = Overlap(25.0, 0.6), Overlap(30.0, 0.5, 0.25, 0.3)


@pytest.mark.truth
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("overlap", [INSIDE, OUTSIDE])
@pytest.mark.parametrize(("top", "stopping"), [("list", 0.7), ("list", 0.0), ("ip", 0.0)])
def test_it_is_what_fits_all_counts_best(top: Top, stopping: float, overlap: Overlap, seed: int):
    case = drawn(seed, **SMALL, text=seed == 1)
    tally = fc.tally(fc.read_log(log_table(case.records)))
    lists = fc.Lists(lists_table(case.candidate))
    fit = given_fit(tally, top, stopping, [lists], overlap)
    truth = oracle.Truth.of(fit)
    known = [r for r in case.records if r.context in case.candidate]
    for metric, theta in THETA.items():
        value, worth = values_of(tally, fit, lists, metric)
        assert close(value, truth.value(case.records, case.candidate, theta), 1e-9), metric
        right = 0.0
        for x in {r.context for r in known}:
            own = [r for r in known if r.context == x]
            rate = truth.solve(own, case.candidate[x]).rate
            right += truth.worth(rate, case.candidate[x], theta) * len(own)
        assert close(worth, right / len(known), 1e-9), metric


def split(records: list[Record], parts: int) -> list[int]:
    return [i * 7 % parts for i in range(len(records))]


@pytest.mark.truth
@pytest.mark.parametrize("forward", [False, True])
@pytest.mark.parametrize(("top", "stopping"), [("list", 0.7), ("list", 0.0), ("ip", 0.0)])
def test_a_backtest_is_a_loop_over_periods(top: Top, stopping: float, *, forward: bool):
    """Given what the whole log says of words, levels and stopping."""
    case = drawn("held", **SMALL)
    records = case.records * 2
    days = split(records, 4)
    tally = fc.tally(fc.read_log(log_table(records, day=days), period="day"))
    ladder = fc.Ladder(top, P, stopping=stopping)
    batches = batches_of(tally)
    fit = production_fit(batches, ladder, "clicks")
    given = replace(fit.parameters, a=3.0, t=8.0)
    fit = replace(fit, strengths=STRENGTHS[top], parameters=given)
    production_fit.put(batches, fit, ladder, "clicks")
    found = fc.backtest(tally, estimators=[ladder], metrics="clicks@2", forward=forward)
    truth = oracle.Truth.of(fit)
    errors = []
    dated = list(zip(records, days, strict=True))
    for context in {record.context for record in records}:
        whole = [r for r in records if r.context == context]
        for day in range(4):
            own = [r for r, d in dated if d == day and r.context == context]
            others = [
                r for r, d in dated if (d < day if forward else d != day) and r.context == context
            ]
            if not own or not others:
                continue
            lists: dict[Any, float] = {}
            for r in own:
                lists[r.items] = lists.get(r.items, 0.0) + 1 / len(own)
            earned = float(np.mean([sum(r.clicks[:2]) for r in own]))
            rate = truth.held_out(whole, others, lists)
            errors.append(truth.worth(rate, lists, THETA["clicks@2"]) - earned)
    assert found["pairs"] == [len(errors)]
    assert close(found["rmse"][0], math.sqrt(np.mean(np.square(errors))), 1e-8)
    assert close(found["bias"][0], float(np.mean(errors)), 1e-8)


# --- what holds in any log ------------------------------------------------------------------------


def covered_case() -> tuple[fc.Log, Any]:
    """A candidate whose slots were all seen, at several positions."""
    rng = np.random.default_rng(2)
    lists = [(1, 2, 3), (2, 1, 3), (3, 2, 1), (1, 3, 2)]
    records = [
        Record("q", lists[i % 4], tuple((rng.random(3) < 0.4).astype(float))) for i in range(200)
    ]
    candidate = {"context": ["q", "q"], "items": [[2, 1, 3], [1, 3, 2]], "probability": [0.3, 0.7]}
    return fc.read_log(log_table(records)), fc.Lists(pa.table(candidate))


def test_records_that_nobody_counted_are_not_none_of_them():
    log, candidate = covered_case()
    options: dict[str, Any] = {"estimators": ["ip", "ladder"], "metrics": "clicks@3"}
    with_intervals = fc.evaluate(log, candidate, **options)
    without = fc.evaluate(log, candidate, confidence=None, **options)
    assert with_intervals["ess"][1] > 0
    assert without["ess"] == [with_intervals["ess"][0], None]
    assert "ess" in without.shown
    alone = fc.evaluate(log, candidate, confidence=None, **options | {"estimators": ["ladder"]})
    assert alone["ess"] == [None]
    assert "ess" not in alone.shown


def test_a_log_of_few_large_contexts_is_learnt_from_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A sample of one context in twenty had none of a log with ten."""
    case = drawn(3, records=2_000, contexts=10, periods=6)
    candidate = fc.Lists(lists_table(half_new(case)))
    whole = fc.evaluate(case.log, candidate, metrics="clicks@3", estimators="ladder").to_dicts()
    monkeypatch.setattr("foreclick.ladder.sample.FIT_SLOTS", 100)
    again = fc.evaluate(case.log, candidate, metrics="clicks@3", estimators="ladder")
    assert again.to_dicts() == whole


def test_a_loss_that_is_flat_but_for_rounding_has_one_least():
    """Where clicks say nothing of a strength, rounding chose it, and the fit did not settle."""
    rng = np.random.default_rng(0)
    found = {shrinkage.best_strength(lambda _: 100 + 1e-12 * rng.normal()) for _ in range(20)}
    assert len(found) == 1
