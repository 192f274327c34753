"""The fit: production's coefficients once per log, and candidates' once per question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.allowances import EXAMINATION_CHANGE_SD
from foreclick.batches import Batch, Batches, Bools, Floats, batches_of
from foreclick.errors import ModelError
from foreclick.estimation.columns import View
from foreclick.estimation.fits import Drift, FitReport, Leakage
from foreclick.estimators import Ladder
from foreclick.kept import kept, kept_latest
from foreclick.ladder.behaviour import (
    Reading,
    Stopping,
    clicks_together,
    first_clicks_of,
    learnt_stopping,
)
from foreclick.ladder.candidates import (
    ITEM_1,
    candidate_features,
    examined_records,
    overlap_counts,
    used_features,
)
from foreclick.ladder.classes import CHOICE_STRENGTH, ClassFit, learnt_classes
from foreclick.ladder.click_value import ClickValue, ValuePart, fit_click_values
from foreclick.ladder.coefficients import (
    Earlier,
    Solution,
    column_z,
    solve,
    solve_candidate_only,
)
from foreclick.ladder.diagnostics import counted_clicks, early_z, feedback_z
from foreclick.ladder.features import WITH_RISE, expected_by_production
from foreclick.ladder.fitted import CandidateFit, LadderFit, LadderSpec
from foreclick.ladder.log_chain import fitted_pairs, ladder_chain, pairs_of
from foreclick.ladder.overlap import fit_overlaps, production_overlap
from foreclick.ladder.pairs import Pairs
from foreclick.ladder.rates import RateParameters
from foreclick.ladder.rungs import log_cells
from foreclick.ladder.sample import (
    FitLog,
    earned_by_clicks,
    fit_known,
    fit_log,
    known_contexts,
    sampled,
)
from foreclick.ladder.strengths import finer_strengths, item_strengths, list_slots
from foreclick.ladder.trend import drift_of
from foreclick.logs import CONTEXT, N
from foreclick.metrics import CLICKS
from foreclick.models import ClickModel
from foreclick.policies import Policy
from foreclick.policies.base import PolicyTable
from foreclick.progress import report_detail
from foreclick.question import Question
from foreclick.tallies.base import Tally

STEP = 0.02
"""The relative step of κ in difference quotients."""

MOST_ROUNDS, SETTLED = 30, 0.2
"""Coefficients and strengths are fitted alternately, until strengths move by less than 20 %: in two
to four rounds mostly, in nine on one of 412 golden questions. Beyond, the fit did not converge."""

MIXED_ROUNDS, MIXED_SETTLED = 12, 0.01
"""Coefficients and exposures of classes are found in turn, until the intercept moves by less, and
where items compete log p does: in three to five rounds on the exam's logs."""

RISES = 1.5
"""z from which production's rise counts: of a log whose rankers got better, one-sided.

Where they did not, luck makes it negative: −3.1 to .7 in eight shops of `simulate`; 2.0 to 8.8 in
eleven logs of exams. Chosen between the two."""

UNSOLVED = "The fit of click rates did not converge on this log, so they cannot be relied on."


# --- a ladder with candidates ---------------------------------------------------------------------


def fit_ladders(tally: Tally, question: Question, depth: int) -> tuple[CandidateFit | None, ...]:
    """For each group of targets, a fitted ladder, of contexts that the question does not drop.

    Args:
        tally: the log.
        question: what is asked of it.
        depth: down to which position policies are asked.
    """
    firsts = [group[0] for group in question.groups]
    fits, policies, drop = {}, question.candidates, question.missing == "drop"
    for ladder in dict.fromkeys(first.ladder for first in firsts if first.ladder):
        rewards = [first.metric.reward for first in firsts if first.ladder == ladder]
        before = question.earlier
        fits[ladder] = fit_candidates(
            tally, ladder, rewards, policies, depth, drop=drop, before=before
        )
    return tuple(fits[f.ladder][f.metric.reward] if f.ladder else None for f in firsts)


def fit_candidates(
    tally: Tally,
    ladder: Ladder,
    rewards: Sequence[str],
    policies: Sequence[Policy],
    depth: int,
    *,
    drop: bool,
    before: Tally | None = None,
) -> dict[str, CandidateFit]:
    """The ladder on the rank features of production and of these candidates, by reward.

    Of rewards that clicks alone earn, it is that of clicks, with what a click earns.

    Args:
        tally: the log.
        ladder: the examination and stopping that it gives are not learnt.
        rewards: what is counted.
        policies: the candidates.
        depth: down to which position they are asked.
        drop: whether contexts that not all of them know are left out of everything.
        before: records before the log, of which the candidates may know the clicks.
    """
    batches = batches_of(tally)
    known = _Known(batches, policies, depth) if drop else None
    if known is None or known.all():
        known, sample = None, fit_log(batches)
    else:
        sample = fit_known(batches, known)
    views = [View.of(batch, policies, depth) for batch in sample.batches]
    found: dict[str, CandidateFit] = {}
    for reward in rewards:
        counts = CLICKS if earned_by_clicks(batches, reward) else reward
        if counts not in found:
            if known is None:
                log = production_fit(batches, ladder, counts)
            else:
                log = _fit_production(sample, ladder, counts)
            if known is None and before is None:
                found[counts] = _last_fit(batches, log, tuple(policies), depth)
            else:
                earlier = None if before is None else learnt_before(before, ladder, counts)
                found[counts] = _fit_candidates(log, views, policies, earlier)
        if reward not in found:
            fit, parts = found[counts], []
            for batch in known or batches:
                examined = examined_records(View.of(batch, policies, depth), fit)
                parts.append(ValuePart(batch, *examined, sampled(batch, fit.log.spec.sample)))
            log, values = with_click_values(fit.log, reward, parts)
            found[reward] = replace(fit, log=log, click_values=values)
            _reported(f"What a click earns, {reward}", values.report)
    return found


@kept_latest
def _last_fit(
    batches: Batches, log: LadderFit, policies: tuple[Policy, ...], depth: int
) -> CandidateFit:
    """The fit that was last asked for: several questions in a row are of the same candidates."""
    views = [View.of(batch, policies, depth) for batch in fit_log(batches).batches]
    return _fit_candidates(log, views, policies, None)


class _Known:
    """The batches of a log with the records of contexts that all candidates know."""

    def __init__(self, batches: Batches, policies: Sequence[Policy], depth: int) -> None:
        self.batches, self.policies, self.depth = batches, policies, depth

    def all(self) -> bool:
        """Whether that is the whole log."""
        return all(View.of(batch, self.policies, self.depth).known.all() for batch in self.batches)

    def __iter__(self) -> Iterator[Batch]:
        for batch in self.batches:
            yield known_part(batch, View.of(batch, self.policies, self.depth).known)


def known_part(batch: Batch, known: Bools) -> Batch:
    """The batch without the records of contexts, (X, C), that some candidate does not know."""
    every = np.asarray(known.all(axis=1))
    return batch if every.all() else _known_part(batch, every.tobytes())


@kept_latest
def _known_part(batch: Batch, known: bytes) -> Batch:
    return batch.only(np.frombuffer(known, dtype=np.bool_))


def _reported(fit: str, report: FitReport) -> FitReport:
    """The report of a fit, which `--debug` prints."""
    report_detail(f"{fit}: {report}")
    return report


def _fit_candidates(
    log: LadderFit, views: Sequence[View], policies: Sequence[Policy], earlier: Earlier | None
) -> CandidateFit:
    """The fit with candidates, beginning with that to the log alone.

    Args:
        log: the fit to the log alone.
        views: of its sample.
        policies: the candidates.
        earlier: estimates from records before the log, if there are some.
    """
    features, count = [candidate_features(view) for view in views], len(policies)
    distinct = _distinct(features)
    known = [_known_view(view, policies) for view in views]
    logged = [candidate_features(view)[:, : view.batch.pair_count] for view in known]
    used = [
        used_features(view, own, distinct, earlier) for view, own in zip(known, logged, strict=True)
    ]
    parts = [
        fitted_pairs(view.batch, log).with_candidates(own)
        for view, own in zip(known, used, strict=True)
    ]
    # Where items compete, p is that of what stands beside a slot, too: the log's fit has found it.
    given = log.spec.ladder.examination is not None or log.reading.choice
    beta = np.append(log.parameters.beta, np.zeros(4 * len(used[0])))
    start = replace(log.parameters, beta=beta)
    near = solve(parts, start, given=given, close=1e-3, earlier=earlier)
    parameters = _strengths(parts, log, near.parameters)
    solution = solve(parts, parameters, given=given, slope_there=near.slope, earlier=earlier)
    _reported("Coefficients of candidates", solution.report)
    by_stopping = np.zeros(len(solution.known))
    if log.reading.kappa_sd:
        perturbed = [
            pairs_of(view.batch, log, log.parameters.p, 1 + STEP).with_candidates(own)
            for view, own in zip(known, used, strict=True)
        ]
        by_stopping = _by_stopping(parts, perturbed, solution)
    at, same = solution.parameters, log.spec.ladder.same_retrieval
    shown = np.asarray(sum(overlap_counts(view) for view in views))
    own = np.zeros_like(shown[:, 0])
    if log.spec.dated:
        own = np.asarray(sum(production_overlap(view.batch) for view in views))
    alone = [solve_candidate_only(parts, at, [own[j] for own in logged]) for j in range(count)]
    for each in alone:
        _reported("Coefficients of a candidate alone", each.report)
    return CandidateFit(
        log,
        solution,
        by_stopping,
        distinct,
        earlier,
        overlaps=fit_overlaps(shown[0], shown[1], own, same_retrieval=same),
        candidate_only=tuple(alone),
        leakages=_leakages(parts, at, log, logged),
    )


def _leakages(
    parts: Sequence[Pairs], at: RateParameters, log: LadderFit, features: Sequence[Floats]
) -> tuple[Leakage, ...]:
    """Tests of whether candidates, of features (C, P, 2) by batch, know the log's clicks.

    Args:
        parts: the pairs of each batch, with the candidates.
        at: β by the features of all.
        log: the fit to the log alone.
        features: the candidates'.
    """
    alone = [part.with_candidates(np.zeros((0, part.batch.pair_count, 2))) for part in parts]
    early = early_z(parts, features, at) if log.spec.dated else np.zeros(len(features[0]))
    counted = counted_clicks(alone, features, log.parameters)
    return tuple(Leakage(z, *each) for z, each in zip(early.tolist(), counted, strict=True))


def _known_view(view: View, policies: Sequence[Policy]) -> View:
    """The contexts that all candidates know."""
    part = known_contexts(view.batch, np.asarray(view.known.all(axis=1)))
    return View.of(part.batch, policies, view.policies.depth)


def _distinct(features: Sequence[Floats]) -> tuple[int, ...]:
    """The candidates whose features, shape (C, P, 2) by batch, are not the same as another's."""
    distinct = [0]
    for j in range(1, len(features[0])):
        if not any(all(np.array_equal(own[i], own[j]) for own in features) for i in distinct):
            distinct.append(j)
    return tuple(distinct)


def _by_stopping(parts: list[Pairs], perturbed: list[Pairs], solution: Solution) -> Floats:
    """Shape (N,): the derivative of β and log p by log κ, a difference quotient.

    Args:
        parts: the pairs of each batch.
        perturbed: the same, with a κ that is by the share `STEP` larger.
        solution: β and p.
    """
    at = solution.parameters
    score, moved = (
        np.sum([part.score(at) for part in each], axis=0) for each in (parts, perturbed)
    )
    return np.asarray(solution.inverse @ (moved - score) / STEP)


def learnt_before(tally: Tally, ladder: Ladder, reward: str) -> Earlier:
    """Rates of pairs and examination, estimated from records before a log."""
    batches = batches_of(tally)
    fit = production_fit(batches, ladder, reward)
    parameters = fit.parameters
    variance = np.diag(production_covariance(batches, fit))[len(parameters.beta) :]
    pieces = []
    for batch in batches:
        expected = expected_by_production(batch, parameters.beta)
        chain = ladder_chain(batch, fit, parameters, expected)
        columns = {
            CONTEXT: batch.contexts.take(pa.array(batch.pair_context)),
            ITEM_1: batch.items.take(pa.array(batch.pair_item)),
            N: pa.array(np.log(chain.rates.alpha)),
        }
        pieces.append(pa.table(columns))
    table = pa.concat_tables(pieces)
    mean = pc.mean(table[N])
    rates = PolicyTable(table.set_column(2, N, pc.subtract(table[N], mean)), "earlier log")
    return Earlier(rates, np.log(parameters.p[1:]), 1 / (variance + EXAMINATION_CHANGE_SD**2))


# --- production's ladder --------------------------------------------------------------------------


@kept
def production_fit(
    batches: Batches, ladder: Ladder, reward: str, *, rise: bool = True
) -> LadderFit:
    """The fit to the log alone; without `rise`, production's rise never counts."""
    return _fit_production(fit_log(batches), ladder, reward, rise=rise)


@kept
def production_values(
    batches: Batches, ladder: Ladder, reward: str
) -> tuple[LadderFit, ClickValue | None]:
    """The fit to the log alone; of clicks, and what these earn, where clicks alone earn it."""
    if not earned_by_clicks(batches, reward):
        return production_fit(batches, ladder, reward), None
    fit = production_fit(batches, ladder, CLICKS)
    p, sample = fit.parameters.p, fit.spec.sample
    parts = [
        ValuePart(b, b.items.take(pa.array(b.pair_item)), (b.shown @ p)[None], sampled(b, sample))
        for b in batches
    ]
    return with_click_values(fit, reward, parts)


def with_click_values(
    log: LadderFit, reward: str, parts: Sequence[ValuePart]
) -> tuple[LadderFit, ClickValue]:
    """The fit of clicks with the rungs that click values need, and these."""
    top = log.spec.ladder.top
    values = fit_click_values(reward, parts, top, dated=log.spec.dated)
    positions = values.positions
    missing = len(positions.strengths) - len(log.strengths)
    if missing and np.isinf(positions.strengths[:-1]).all():
        positions = positions._replace(strengths=positions.strengths[-1:])
        return log, replace(values, positions=positions)
    return replace(log, strengths=(np.inf,) * missing + log.strengths), values


F = TypeVar("F", LadderFit, CandidateFit)


def checked(fit: F, values: ClickValue | None = None) -> F:
    """The fit, if its equations are solved; for answers without a verdict.

    Args:
        fit: of a log.
        values: what clicks earn, if that is used too.
    """
    reports = (*fit.reports, *([] if values is None else [values.report]))
    if not all(report.converged for report in reports):
        raise ModelError(f"{UNSOLVED} Next: use an estimator without a fit, such as 'ip'.")
    return fit


def production_covariance(batches: Batches, fit: LadderFit) -> Floats:
    """Shape (N, N): of β and log p, by the scores of contexts and the prior."""
    parts = _pairs(fit_log(batches).batches, fit)
    solution = solve(parts, fit.parameters, given=fit.spec.ladder.examination is not None)
    spread = np.asarray(sum(part.score_covariance(solution.parameters) for part in parts))
    inverse = solution.inverse
    return np.asarray(inverse @ (spread + np.diag(solution.known)) @ inverse.T)


def _fit_production(log: FitLog, ladder: Ladder, reward: str, *, rise: bool = True) -> LadderFit:
    """The fit to the log alone.

    Args:
        log: what it is fitted to.
        ladder: the examination and stopping that it gives are not learnt.
        reward: what is counted.
        rise: whether production's rise may count.
    """
    facts, batches = log.facts, log.batches
    unit, dated = facts.units.get(reward, 1.0), facts.dated
    spec = LadderSpec(ladder, reward, unit, dated, facts.sample, rise=dated and rise)
    plain = _fit_alternately(batches, _start(batches, spec))
    if dated and not all(report.converged for report in plain.reports):
        report_detail("Clicks by period do not identify the coefficients, so periods are left out")
        spec = replace(spec, dated=False, rise=False, by_period_fails=True)
        plain = _fit_alternately(batches, _start(batches, spec))
    fit = _fit_rise(batches, plain) if spec.rise else plain
    fit = _fit_stopping(batches, fit, plain.parameters)
    parts = _pairs(batches, fit)
    slots = [
        list_slots(
            part,
            reward,
            spec.unit,
            log_cells(batch, ladder.top, reward).prefix if ladder.top == "list" else None,
        )
        for part, batch in zip(parts, batches, strict=True)
    ]
    reading = [fit.reading.readers(batch) for batch in batches]
    finer = finer_strengths(parts, slots, fit.parameters, reading)
    if not fit.reading.by_list and np.isinf(finer[:-1]).all():
        finer = finer[-1:]
    drift = Drift()
    if facts.dated:
        days = replace(fit, spec=replace(fit.spec, dated=True))
        by_day = parts if fit.spec.dated else _pairs(batches, days)
        drift = drift_of(by_day, fit.parameters, facts.periods)
    return replace(fit, strengths=finer, drift=drift)


def _start(batches: Sequence[Batch], spec: LadderSpec) -> LadderFit:
    """Where the fit starts: no finer rungs, no coefficients but the mean rate, nobody stops."""
    ladder, (k, *_) = spec.ladder, [batch.depth for batch in batches]
    p: Floats = np.arange(1.0, k + 1) ** -0.7
    if ladder.examination is not None:
        p = np.array(ClickModel(ladder.name, (), ladder.examination).examined(k))
    none = (np.inf,) * (3 if ladder.top == "list" else 1)
    parameters = RateParameters(np.zeros(4), p, 5.0, 20.0)
    fit = LadderFit(spec, parameters, none, Reading(spec.reward, spec.unit))
    parts = _pairs(batches, fit)
    clicks = sum(part.clicks.sum() for part in parts)
    exposure = sum((part.by_position @ p).sum() for part in parts)
    beta = np.array([np.log(max(clicks, 0.5) / max(exposure, 1.0)), 0, 0, 0])
    return replace(fit, parameters=replace(parameters, beta=beta))


def _fit_alternately(batches: Sequence[Batch], start: LadderFit) -> LadderFit:
    """With coefficients and strengths, each fitted given the others, and the test of feedback."""
    spec, parameters, slope = start.spec, start.parameters, None
    given, parts = spec.ladder.examination is not None, _pairs(batches, start)
    for iteration in range(MOST_ROUNDS):
        before = parameters
        solution = solve(parts, parameters, given=given, close=1e-4, slope_there=slope)
        parameters, slope = item_strengths(parts, solution.parameters), solution.slope
        moved = abs(np.log([parameters.a / before.a, parameters.t / before.t])).max()
        if iteration and moved < SETTLED:
            break
    alternation = FitReport(bool(moved < SETTLED), iteration + 1)
    reports = (
        _reported(f"Coefficients of production, {spec.reward}", solution.report),
        _reported("Strengths, alternating with coefficients", alternation),
    )
    z = feedback_z(parts, parameters) if spec.dated else 0.0
    return replace(start, parameters=parameters, feedback_z=z, reports=reports)


def _fit_rise(batches: Sequence[Batch], fit: LadderFit) -> LadderFit:
    """With production's rise, where its rankers got better."""
    given = fit.spec.ladder.examination is not None
    at = replace(fit.parameters, beta=np.append(fit.parameters.beta, 0.0))
    start = replace(fit, parameters=at)
    z = column_z(_pairs(batches, start), at, WITH_RISE - 1, given=given)
    counts = "counts" if z > RISES else "does not count"
    report_detail(f"Production's rise {counts}: z = {z:.1f}")
    return _fit_alternately(batches, start) if z > RISES else fit


def _fit_stopping(batches: Sequence[Batch], fit: LadderFit, plain: RateParameters) -> LadderFit:
    """With how readers stop, and coefficients and strengths of the readers who are left.

    Args:
        batches: the sample.
        fit: as if nobody stopped.
        plain: the same without production's rise, where the search for classes begins.
    """
    spec, stopping = fit.spec, None
    if spec.ladder.stopping is None:
        firsts = [first_clicks_of(batch, fit.reading, fit.parameters) for batch in batches]
        stopping = learnt_stopping(firsts, [batch.pair_context for batch in batches])
        fit = replace(fit, together=clicks_together(firsts))
    elif spec.ladder.stopping:
        stopping = Stopping(1 - spec.ladder.stopping)
    if stopping is None:
        return fit
    learnt = spec.ladder.stopping is None and spec.ladder.examination is None
    if spec.dated and learnt and stopping.differs:
        found = learnt_classes(batches, spec.reward, plain, spec.sample)
        if found is not None:
            return _fit_mixed(batches, fit, found)
    reports, given = fit.reports, spec.ladder.examination is not None
    for close in (1e-3, 1e-3, 1e-11):  # readers depend on rates, and rates on readers
        rounds = (*fit.reading.rounds, fit.parameters)
        fit = replace(fit, reading=Reading(spec.reward, spec.unit, stopping, rounds))
        solution = solve(_pairs(batches, fit), fit.parameters, given=given, close=close)
        fit = replace(fit, parameters=solution.parameters)
    _reported("Coefficients where readers stop", solution.report)
    parameters = item_strengths(_pairs(batches, fit), fit.parameters)
    return replace(fit, parameters=parameters, reports=(*reports, solution.report))


def _strengths(parts: Sequence[Pairs], log: LadderFit, at: RateParameters) -> RateParameters:
    """With strengths that predict clicks best; those of classes of readers are found with these."""
    if not log.reading.mixed:
        return item_strengths(parts, at)
    return replace(item_strengths(parts, at), t=CHOICE_STRENGTH) if log.reading.choice else at


def _fit_mixed(batches: Sequence[Batch], fit: LadderFit, found: ClassFit) -> LadderFit:
    """With classes of readers and their strengths, and coefficients and examination.

    Exposures depend on rates, and rates on exposures. Where items compete, both fall with the
    intercept, which would take many rounds; the secant of its last two steps makes them longer.
    """
    spec, classes = fit.spec, found.classes.at_mean_level(found.records)
    at, moved, iteration = classes.parameters, np.inf, 0
    if spec.rise and not classes.choice.any():  # by one way of reading, it is not found as surely
        at = replace(at, beta=np.append(at.beta, 0.0))
    before: tuple[float, float] | None = None

    def read_at(at: RateParameters) -> LadderFit:
        """With exposures by these parameters; where items compete, p is also that of the others."""
        own = classes.at(at.p) if classes.choice.any() else classes
        reading = Reading(spec.reward, spec.unit, classes=own, rounds=(at,))
        return replace(fit, parameters=at, reading=reading)

    while iteration < MIXED_ROUNDS and not moved < MIXED_SETTLED:
        iteration += 1
        fit = read_at(at)
        parts = _pairs(batches, fit)
        solution = solve(parts, at, given=False, close=1e-3)
        now = float(at.beta[0]), float(solution.parameters.beta[0])
        moved = abs(now[1] - now[0])
        if fit.reading.choice:
            moved = max(moved, float(abs(np.log(solution.parameters.p / at.p)).max()))
        at = _strengths(parts, fit, solution.parameters)
        if fit.reading.choice and before is not None and moved >= MIXED_SETTLED:
            at = at.moved(_longer(before, now, len(solution.slope)))
        before = now
    solution = solve(parts, at, given=False)
    alternation = FitReport(bool(moved < MIXED_SETTLED), iteration)
    _reported("Classes of readers", found.report)
    _reported("Coefficients by classes of readers", solution.report)
    reports = (*fit.reports, found.report, alternation, solution.report)
    fit = read_at(solution.parameters) if fit.reading.choice else fit
    return replace(fit, parameters=solution.parameters, reports=reports)


def _longer(before: tuple[float, float], now: tuple[float, float], size: int) -> Floats:
    """Shape (size,): how much further the intercept goes, by the secant of two of its steps."""
    slope = (now[1] - before[1]) / ((now[0] - before[0]) or np.inf)
    further: Floats = np.zeros(size)
    further[0] = (now[1] - now[0]) * (1 / (1 - np.clip(slope, 0.0, 0.75)) - 1)
    return further


def _pairs(batches: Sequence[Batch], fit: LadderFit) -> list[Pairs]:
    """The pairs of a sample of all batches, by production's features alone."""
    return [
        pairs_of(batch, fit, fit.parameters.p).with_candidates(np.zeros((0, batch.pair_count, 2)))
        for batch in batches
    ]
