"""The fit: production's coefficients once per log, and candidates' once per question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.allowances import (
    COEFFICIENT_PRECISION,
    EXAMINATION_CHANGE_SD,
    INTERCEPT_PRECISION,
)
from foreclick.batches import (
    Batch,
    Batches,
    Bools,
    Floats,
    batches_of,
)
from foreclick.errors import ModelError
from foreclick.estimation.columns import View
from foreclick.estimation.fits import FitReport
from foreclick.estimators import Ladder
from foreclick.ladder.behaviour import Reading, Stopping, learnt_stopping
from foreclick.ladder.candidates import (
    ITEM_1,
    candidate_features,
    examined_records,
    overlap_counts,
    used_features,
)
from foreclick.ladder.click_value import ClickValue, ValuePart, fit_click_values
from foreclick.ladder.coefficients import (
    ROUNDS,
    Earlier,
    Pairs,
    RateParameters,
    Solution,
    solved,
    strengths,
)
from foreclick.ladder.features import alike, expected_rates, production_expects
from foreclick.ladder.fitted import CandidateFit, CandidateOnly, LadderFit, LadderSpec, Sample
from foreclick.ladder.log_chain import ladder_chain, pairs_of
from foreclick.ladder.rungs import log_cells
from foreclick.ladder.strengths import (
    leaks,
    reacts,
    row_slots,
    upper_strengths,
)
from foreclick.logs import CONTEXT, N
from foreclick.metrics import CLICKS
from foreclick.models import ClickModel
from foreclick.policies import Policy
from foreclick.policies.base import PolicyTable
from foreclick.progress import report_detail
from foreclick.question import Question, policy_depth
from foreclick.tallies.base import Tally

MOST_SLOTS = 6_000_000
"""Positions of lists, each in each period, that the prior is learnt from: more change it little."""

ENOUGH_SLOTS = 600_000
"""The same of strengths and of κ, which need not be known as well."""

LEAST_CONTEXTS = 30
"""Contexts that a sample has on average at least: few large ones would leave it empty by chance."""

STEP = 0.02
"""By which share κ is moved to see what that does."""

MOST_ROUNDS, SETTLED = 30, 0.2
"""Coefficients and strengths are learnt in turn, until strengths move by less than 20 %: in two to
four rounds mostly, in nine on one of 412 golden questions; without an end, nothing is said."""

_CLOSE = 1e-11

UNSOLVED = "The fit of click rates did not converge on this log, so they cannot be relied on."

ENOUGH_DAYS = 5
"""Periods that a log must have for the days before a day to say something."""


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
        ladder: what it has of its own is not learnt.
        rewards: what is counted.
        policies: the candidates.
        depth: down to which position they are asked.
        drop: whether contexts that not all of them know are left out of everything.
        before: records before the log, of which the candidates may know the clicks.
    """
    batches = batches_of(tally)
    views, dropped = [], False
    for batch in batches:
        view = View.of(batch, policies, depth)
        if drop and not view.known.all():
            view = View.of(known_part(batch, view.known), policies, depth)
            dropped = True
        views.append(view)
    words = [candidate_features(view) for view in views]
    found: dict[str, CandidateFit] = {}
    for reward in rewards:
        counts = CLICKS if earned_by_clicks(batches, reward) else reward
        if counts not in found:
            if dropped:
                known = [view.batch for view in views]
                log = _fit_production(known, ladder, counts, batches.codebook.periods)
            else:
                log = production_fit(batches, ladder, counts)
            earlier = None if before is None else learnt_before(before, ladder, counts)
            found[counts] = _fit_candidates(log, views, words, earlier)
        if reward not in found:
            fit = found[counts]
            sample = fit.log.spec.strength_sample
            parts = [
                ValuePart(view.batch, *examined_records(view, fit), sample.of(view.batch))
                for view in views
            ]
            log, values = with_click_values(fit.log, reward, parts)
            found[reward] = replace(fit, log=log, click_values=values)
            _told(f"What a click earns, {reward}", values.report)
    return found


def _told(fit: str, report: FitReport) -> FitReport:
    """The report of a fit, which `--debug` prints."""
    report_detail(f"{fit}: {report}")
    return report


def fit_ladders(tally: Tally, question: Question) -> tuple[CandidateFit | None, ...]:
    """For each group of targets, a fitted ladder, of contexts that the question does not drop."""
    firsts, depth = [group[0] for group in question.groups], policy_depth(question, tally.shape)
    fits, policies, drop = {}, question.candidates, question.missing == "drop"
    for ladder in dict.fromkeys(first.ladder for first in firsts if first.ladder):
        rewards = [first.metric.reward for first in firsts if first.ladder == ladder]
        before = question.earlier
        fits[ladder] = fit_candidates(
            tally, ladder, rewards, policies, depth, drop=drop, before=before
        )
    return tuple(fits[f.ladder][f.metric.reward] if f.ladder else None for f in firsts)


def earned_by_clicks(batches: Batches, reward: str) -> bool:
    """Whether clicks alone earn a reward, other than clicks themselves."""
    if reward == CLICKS or not {CLICKS, reward} <= set(batches.shape.rewards):
        return False
    key = "earned by clicks", reward
    if key not in batches.cache:
        batches.cache[key] = not any(
            np.any(batch.reward_table(reward)[batch.reward_table(CLICKS) == 0]) for batch in batches
        )
    return bool(batches.cache[key])


def _fit_candidates(
    log: LadderFit, views: Sequence[View], words: list[Floats], earlier: Earlier | None
) -> CandidateFit:
    """The fit with candidates, beginning with that to the log alone."""
    spec, stopping, c, distinct = log.spec, log.stopping, views[0].count, [0]
    for j in range(1, c):
        if not any(all(np.array_equal(w[i], w[j]) for w in words) for i in distinct):
            distinct.append(j)
    used_words = [
        used_features(view, word, tuple(distinct), earlier)
        for view, word in zip(views, words, strict=True)
    ]

    def pairs_by(sample: Sample, kappa_factor: float = 1.0) -> list[Pairs]:
        """The pairs of all batches, by the words of candidates too."""
        return [
            pairs_of(
                view.batch,
                word,
                log,
                log.parameters.p,
                sample.of(view.batch, view.known),
                keep=True,
                kappa_factor=kappa_factor,
            )
            for view, word in zip(views, used_words, strict=True)
        ]

    parts, given = pairs_by(spec.sample), spec.ladder.examination is not None
    beta = np.append(log.parameters.beta, np.zeros(4 * len(used_words[0])))
    start = replace(log.parameters, beta=beta)
    near = solved(parts, start, given=given, close=1e-3, earlier=earlier)
    parameters = strengths(pairs_by(spec.strength_sample), near.parameters)
    solution = solved(parts, parameters, given=given, slope_there=near.slope, earlier=earlier)
    _told("Coefficients of candidates", solution.report)
    by_stopping = np.zeros(len(solution.known))
    if stopping and stopping.sd:
        by_stopping = _by_stopping(parts, pairs_by(spec.sample, 1 + STEP), solution)
    shown = np.asarray(sum(overlap_counts(view) for view in views))
    same = spec.ladder.same_retrieval
    return CandidateFit(
        log,
        solution,
        by_stopping,
        tuple(distinct),
        earlier,
        overlaps=tuple(alike(*shown[:, j], same_retrieval=same) for j in range(c)),
        candidate_only=tuple(
            _candidate_only(parts, solution.parameters, words, j) for j in range(c)
        ),
        leakage_z=tuple(leaks(parts, words, solution.parameters).tolist()) if spec.dated else (),
    )


def _by_stopping(parts: list[Pairs], further: list[Pairs], solution: Solution) -> Floats:
    """Shape (N,): the derivative of β and log p by log κ, a difference quotient.

    Args:
        parts: the pairs of each batch.
        further: the same, with a κ that is by the share `STEP` larger.
        solution: β and p.
    """
    at = solution.parameters
    score, moved = (np.sum([part.score(at) for part in each], axis=0) for each in (parts, further))
    return np.asarray(solution.inverse @ (moved - score) / STEP)


def learnt_before(tally: Tally, ladder: Ladder, reward: str) -> Earlier:
    """What records before a log say of its pairs and of examination."""
    batches = batches_of(tally)
    fit = production_fit(batches, ladder, reward)
    parameters = fit.parameters
    variance = np.diag(production_covariance(batches, fit))[len(parameters.beta) :]
    pieces = []
    for batch in batches:
        expected = production_expects(batch, parameters.beta)
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


def known_part(batch: Batch, known: Bools) -> Batch:
    """The batch without contexts that some candidate does not know, kept with it."""
    all_know = np.asarray(known.all(axis=1))
    return batch.cached(("known", all_know.tobytes()), lambda: batch.only(all_know))


def production_fit(batches: Batches, ladder: Ladder, reward: str) -> LadderFit:
    """The fit to the log alone, once per log."""
    key = "production fit", ladder, reward
    if key not in batches.cache:
        batches.cache[key] = _fit_production(batches, ladder, reward, batches.codebook.periods)
    return batches.cache[key]  # type: ignore[no-any-return]


def production_values(
    batches: Batches, ladder: Ladder, reward: str
) -> tuple[LadderFit, ClickValue | None]:
    """The fit to the log alone; of clicks, and what these earn, where clicks alone earn it."""
    if not earned_by_clicks(batches, reward):
        return production_fit(batches, ladder, reward), None
    key = "production values", ladder, reward
    if key not in batches.cache:
        fit = production_fit(batches, ladder, CLICKS)
        p, sample = fit.parameters.p, fit.spec.strength_sample
        parts = [
            ValuePart(b, b.items.take(pa.array(b.pair_item)), (b.shown @ p)[None], sample.of(b))
            for b in batches
        ]
        batches.cache[key] = with_click_values(fit, reward, parts)
    return batches.cache[key]  # type: ignore[no-any-return]


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
    """The fit, if its equations are solved: for answers that have no verdict to say so.

    Args:
        fit: of a log.
        values: what clicks earn, if that is used too.
    """
    reports = (*fit.reports, *([] if values is None else [values.report]))
    if not all(report.converged for report in reports):
        raise ModelError(f"{UNSOLVED} Next: ask by an estimator that fits nothing, such as 'ip'.")
    return fit


def production_covariance(batches: Batches, fit: LadderFit) -> Floats:
    """Shape (N, N): of β and log p, by what contexts say of them and what is known beforehand."""
    parts = _pairs(batches, fit, fit.spec.sample)
    solution = solved(parts, fit.parameters, given=fit.spec.ladder.examination is not None)
    spread = np.asarray(sum(part.spread(solution.parameters) for part in parts))
    inverse = solution.inverse
    return np.asarray(inverse @ (spread + np.diag(solution.known)) @ inverse.T)


def _spec(
    batches: Iterable[Batch], ladder: Ladder, reward: str, periods: Sized | None
) -> LadderSpec:
    """What is fitted: the unit of the reward, whether there are enough days, and samples.

    Args:
        batches: the log.
        ladder: what was asked for.
        reward: what is counted.
        periods: of the log, if it has some.
    """
    days: set[int] = set()
    size, value, square, contexts = 0.0, 0.0, 0.0, 0
    for batch in batches:
        contexts += int((batch.context_n > 0).sum())
        # Slots of lists, each in each period; whatever else tells rows apart does not matter.
        size += float(np.minimum(batch.list_n, len(periods or (1,))).sum() * batch.depth)
        earned = batch.reward(reward)
        value += float(batch.n[earned.row] @ earned.value)
        square += float(batch.n[earned.row] @ earned.value**2)
        if periods is not None:
            days |= set(np.unique(batch.clusters["period"]).tolist())
    samples = (
        Sample(max(slots / max(size, 1.0), LEAST_CONTEXTS / max(contexts, 1)))
        for slots in (MOST_SLOTS, ENOUGH_SLOTS)
    )
    unit = square / value if value > 0 else 1.0
    return LadderSpec(ladder, reward, unit, len(days) >= ENOUGH_DAYS, *samples)


def _start(batches: Iterable[Batch], spec: LadderSpec) -> LadderFit:
    """Where the fit starts: no finer rungs, no coefficients but the mean rate, nobody stops."""
    ladder, (k, *_) = spec.ladder, [batch.depth for batch in batches]
    p: Floats = np.arange(1.0, k + 1) ** -0.7
    if ladder.examination is not None:
        p = np.array(ClickModel(ladder.name, (), ladder.examination).examined(k))
    none = (np.inf,) * (3 if ladder.top == "list" else 1)
    parameters = RateParameters(np.zeros(4), p, 5.0, 20.0)
    fit = LadderFit(spec, parameters, none, Reading(spec.reward, spec.unit))
    parts = _pairs(batches, fit, spec.sample)
    clicks = sum(part.clicks.sum() for part in parts)
    exposure = sum((part.by_position @ p).sum() for part in parts)
    beta = np.array([np.log(max(clicks, 0.5) / max(exposure, 1.0)), 0, 0, 0])
    return replace(fit, parameters=replace(parameters, beta=beta))


def _fit_production(
    batches: Iterable[Batch], ladder: Ladder, reward: str, periods: Sized | None
) -> LadderFit:
    """The fit to the log alone.

    Args:
        batches: the log.
        ladder: what it has of its own is not learnt.
        reward: what is counted.
        periods: of the log, if it has some.
    """
    spec = _spec(batches, ladder, reward, periods)
    fit = _fit_in_turn(batches, _start(batches, spec))
    fit = _fit_stopping(batches, fit)
    few = _pairs(batches, fit, spec.strength_sample)
    slots = [
        row_slots(
            part,
            reward,
            spec.unit,
            log_cells(batch, ladder.top, reward).prefix if ladder.top == "list" else None,
        )
        for part, batch in zip(few, batches, strict=True)
    ]
    reading = [fit.reading.readers(batch) for batch in batches]
    upper = upper_strengths(few, slots, fit.parameters, reading)
    if not fit.stopping and np.isinf(upper[:-1]).all():
        upper = upper[-1:]
    return replace(fit, strengths=upper)


def _fit_in_turn(batches: Iterable[Batch], start: LadderFit) -> LadderFit:
    """With coefficients and strengths, each learnt given the others, and the test of feedback."""
    spec, parameters, slope = start.spec, start.parameters, None
    given = spec.ladder.examination is not None
    parts, few = (_pairs(batches, start, each) for each in (spec.sample, spec.strength_sample))
    for turn in range(MOST_ROUNDS):
        before = parameters
        solution = solved(parts, parameters, given=given, close=1e-4, slope_there=slope)
        parameters, slope = strengths(few, solution.parameters), solution.slope
        moved = abs(np.log([parameters.a / before.a, parameters.t / before.t])).max()
        if turn and moved < SETTLED:
            break
    in_turn = FitReport(bool(moved < SETTLED), turn + 1)
    reports = (
        _told(f"Coefficients of production, {spec.reward}", solution.report),
        _told("Strengths, in turn with coefficients", in_turn),
    )
    feedback_z = reacts(parts, parameters) if spec.dated else 0.0
    return replace(start, parameters=parameters, feedback_z=feedback_z, reports=reports)


def _fit_stopping(batches: Iterable[Batch], fit: LadderFit) -> LadderFit:
    """With how readers stop, and coefficients and strengths of the readers who are left."""
    spec, stopping = fit.spec, None
    if spec.ladder.stopping is None:
        firsts = [fit.reading.first_clicks(batch, fit.parameters) for batch in batches]
        stopping = learnt_stopping(firsts, [batch.pair_context for batch in batches])
    elif spec.ladder.stopping:
        stopping = Stopping(1 - spec.ladder.stopping)
    if stopping is None:
        return fit
    reports, given = fit.reports, spec.ladder.examination is not None
    for close in (1e-3, 1e-3, 1e-11):  # fewer read on, so rates rise, so fewer read on
        rounds = (*fit.reading.rounds, fit.parameters)
        fit = replace(fit, reading=Reading(spec.reward, spec.unit, stopping, rounds))
        parts = _pairs(batches, fit, spec.sample)
        solution = solved(parts, fit.parameters, given=given, close=close)
        fit = replace(fit, parameters=solution.parameters)
    _told("Coefficients where readers stop", solution.report)
    parameters = strengths(_pairs(batches, fit, spec.strength_sample), fit.parameters)
    return replace(fit, parameters=parameters, reports=(*reports, solution.report))


def _pairs(batches: Iterable[Batch], fit: LadderFit, sample: Sample) -> list[Pairs]:
    """The pairs of a sample of all batches, by production's word alone."""
    return [
        pairs_of(batch, np.zeros((0, batch.pair_count, 2)), fit, fit.parameters.p, sample.of(batch))
        for batch in batches
    ]


def _candidate_only(
    parts: Sequence[Pairs], parameters: RateParameters, words: list[Floats], candidate: int
) -> CandidateOnly:
    """The regression of clicks on a candidate's word alone."""
    of_part = []
    for part, word in zip(parts, words, strict=True):
        own = word[candidate, : len(part.clicks)]
        x = np.column_stack([np.ones(len(own)), own])
        of_part.append((x, part.clicks, part.rates(parameters).exposure))
    coefficients = np.array([parameters.beta[0], 0.0, 0.0])
    known, size, iterations = (
        np.array([INTERCEPT_PRECISION, *(2 * [COEFFICIENT_PRECISION])]),
        np.inf,
        0,
    )
    while iterations < ROUNDS and not size < _CLOSE:
        iterations += 1
        score, slope = -known * coefficients, np.diag(known)
        for x, clicks, exposure in of_part:
            due = exposure * expected_rates(x, coefficients)
            weight = 1 / (1 + due / parameters.a)
            score += (weight * (clicks - due)) @ x
            slope += (x * (weight**2 * due * (1 + clicks / parameters.a))[:, None]).T @ x
        step = np.clip(np.linalg.solve(slope, score), -1, 1)
        coefficients = coefficients + step
        size = float(np.abs(step).max())
    report = FitReport.of(iterations, score, slope, converged=size < _CLOSE)
    return CandidateOnly(coefficients, _told("Coefficients of a candidate alone", report))
