"""If this fails, the default estimator's rates are not those that fit all counts best."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
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
from tests.answers import close, log_of
from tests.cases.plain import Draw, drawn, half_new
from tests.cases.tables import lists_table, log_table
from tests.ladder.scenes import told
from tests.truth import ladder as oracle
from tests.truth.oracle import clicks_at, dcg_at

STRENGTHS = {"list": (4.0, 7.0, 3.0), "ip": (3.0,)}
P = (1.0, 0.7, 0.4, 0.3, 0.2, 0.1)
SMALL = Draw(records=30, contexts=3, items=7, depth=6, ragged=True, missing=True)
BETA = (-1.2, 0.4, 0.3, -0.2, 0.3, 0.2, 0.1, 0.05)
ALONE = (-0.9, 0.2, 0.4)
THETA = {"clicks@2": clicks_at(2), "dcg@6": dcg_at(6)}
INSIDE, OUTSIDE = Overlap(25.0, 0.6), Overlap(30.0, 0.5, 0.25, 0.3)
TOPS = pytest.mark.parametrize(("top", "stopping"), [("list", 0.7), ("list", 0.0), ("ip", 0.0)])


def given_fit(
    tally: fc.Tally, top: Top, stopping: float, policy: fc.Policy, overlap: Overlap
) -> CandidateFit:
    """A ladder of which everything is given that is learnt otherwise."""
    ladder = fc.Ladder(top, P, stopping=stopping)
    fit = fit_candidates(tally, ladder, ["clicks"], [policy], 6, drop=True)["clicks"]
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
        candidate_only=(fit.candidate_only[0]._replace(coefficients=np.array(ALONE)),),
    )


@pytest.mark.truth
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("overlap", [INSIDE, OUTSIDE])
@TOPS
def test_it_is_what_fits_all_counts_best(top: Top, stopping: float, overlap: Overlap, seed: int):
    """By columns, and by the candidate's lists."""
    case = drawn(seed, replace(SMALL, text=seed == 1))
    tally, policy = fc.tally(log_of(case.records)), fc.Lists(lists_table(case.candidate))
    fit = given_fit(tally, top, stopping, policy, overlap)
    truth, ladder = oracle.Truth.of(fit), fit.log.spec.ladder
    known = [r for r in case.records if r.context in case.candidate]
    (whole,) = batches_of(tally)
    view = View.of(known_part(whole, View.of(whole, [policy], 6).known), [policy], 6)
    lists = view.policies.lists
    for metric, theta in THETA.items():
        ask = [Target(ladder.model, Metric(metric), math.inf, ladder)]
        value = float(score_ladder(view, ask, fit, rows=False).value.sum()) / len(known)
        assert close(value, truth.value(case.records, case.candidate, theta), 1e-9), metric
        mass = lists.mass * view.batch.context_n[lists.context]
        worth, right = float(list_values(view, ask, fit)[0] @ mass), 0.0
        for x in {r.context for r in known}:
            own = [r for r in known if r.context == x]
            rate = truth.solve(own, case.candidate[x]).rate
            right += truth.worth(rate, case.candidate[x], theta) * len(own)
        assert close(worth, right, 1e-9), metric


@pytest.mark.truth
@pytest.mark.parametrize("forward", [False, True])
@TOPS
def test_a_backtest_is_a_loop_over_periods(top: Top, stopping: float, *, forward: bool):
    """Given what the whole log says of rank features, levels and stopping."""
    records = drawn("held", SMALL).records * 2
    days = [i * 7 % 4 for i in range(len(records))]
    tally = fc.tally(fc.read_log(log_table(records, day=days), period="day"))
    ladder, batches = fc.Ladder(top, P, stopping=stopping), batches_of(tally)
    fit = production_fit(batches, ladder, "clicks")
    given = replace(fit.parameters, a=3.0, t=8.0)
    fit = replace(fit, strengths=STRENGTHS[top], parameters=given)
    production_fit.put(batches, fit, ladder, "clicks")
    found = fc.backtest(tally, estimators=[ladder], metrics="clicks@2", forward=forward)
    truth, errors = oracle.Truth.of(fit), []
    for context, day in itertools.product({r.context for r in records}, range(4)):
        whole = [(r, d) for r, d in zip(records, days, strict=True) if r.context == context]
        own = [r for r, d in whole if d == day]
        others = [r for r, d in whole if (d < day if forward else d != day)]
        if own and others:
            earned = float(np.mean([sum(r.clicks[:2]) for r in own]))
            lists = {a: n / len(own) for a, n in Counter(r.items for r in own).items()}
            rate = truth.held_out([r for r, _ in whole], others, lists)
            errors.append(truth.worth(rate, lists, THETA["clicks@2"]) - earned)
    assert found["pairs"] == [len(errors)]
    assert close(found["rmse"][0], math.sqrt(np.mean(np.square(errors))), 1e-8)
    assert close(found["bias"][0], float(np.mean(errors)), 1e-8)


# --- what holds in any log ------------------------------------------------------------------------


def test_records_that_nobody_counted_are_not_none_of_them():
    case = drawn(2)

    def asked(*estimators: str, confidence: float | None = None) -> fc.Evaluation:
        options: dict[str, Any] = {"estimators": estimators, "confidence": confidence}
        return fc.evaluate(case.log, case.policy, metrics="clicks@3", **options)

    counted, without = asked("ip", "ladder", confidence=0.95), asked("ip", "ladder")
    assert counted["ess"][1] > 0
    assert without["ess"] == [counted["ess"][0], None]
    assert "ess" in without.shown
    alone = asked("ladder")
    assert alone["ess"] == [None]
    assert "ess" not in alone.shown


def test_a_log_of_few_large_contexts_is_learnt_from_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A sample of one context in twenty had none of a log with ten."""
    case = drawn(3, records=2_000, contexts=10, periods=6)
    candidate = fc.Lists(lists_table(half_new(case)))
    whole = told(case.log, candidate)
    monkeypatch.setattr("foreclick.ladder.sample.FIT_SLOTS", 100)
    assert told(case.log, candidate) == whole


def test_a_loss_that_is_flat_but_for_rounding_has_one_least():
    """Where clicks say nothing of a strength, rounding chose it, and the fit did not settle."""
    rng = np.random.default_rng(0)
    found = {shrinkage.best_strength(lambda _: 100 + 1e-12 * rng.normal()) for _ in range(20)}
    assert len(found) == 1
