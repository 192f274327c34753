"""The fit of the prior: what production says once a log, what candidates say once a question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from dataclasses import replace

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
from foreclick.ladder.behaviour import Stopping, learnt_stopping
from foreclick.ladder.coefficients import (
    ROUNDS,
    Earlier,
    Pairs,
    Prior,
    Theta,
    inverse_of,
    solved,
    strengths,
)
from foreclick.ladder.features import alike, expected_rates, production_expects
from foreclick.ladder.rungs import (
    ITEM_1,
    candidate_words,
    examined,
    log_cells,
    overlap,
    pairs_of,
    used_words_of,
)
from foreclick.ladder.score import ladder_chain
from foreclick.ladder.slot_values import with_worth
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


def fit_priors(
    tally: Tally,
    ladder: Ladder,
    rewards: Sequence[str],
    policies: Sequence[Policy],
    depth: int,
    *,
    drop: bool,
    before: Tally | None = None,
) -> dict[str, Prior]:
    """The ladder on what production and these candidates say of items, by reward.

    Of rewards that clicks alone earn, it is that of clicks, with what a click is worth.

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
    words = [candidate_words(view) for view in views]
    found: dict[str, Prior] = {}
    for reward in rewards:
        counts = CLICKS if earned_by_clicks(batches, reward) else reward
        if counts not in found:
            if dropped:
                known = [view.batch for view in views]
                base = _of_production(known, ladder, counts, batches.codebook.periods)
            else:
                base = production_prior(batches, ladder, counts)
            earlier = None if before is None else learnt_before(before, ladder, counts)
            found[counts] = _with_candidates(base, ladder, views, words, earlier)
        if reward not in found:
            parts = [(view.batch, *examined(view, found[counts])) for view in views]
            found[reward] = with_worth(found[counts], reward, parts)
            _told(f"What a click earns, {reward}", found[reward].worth.report)
    return found


def _told(fit: str, report: FitReport) -> FitReport:
    """The report of a fit, which `--debug` prints."""
    report_detail(f"{fit}: {report}")
    return report


def fit_ladders(tally: Tally, question: Question) -> tuple[Prior | None, ...]:
    """For each group of targets, a fitted ladder, of contexts that the question does not drop."""
    firsts, depth = [group[0] for group in question.groups], policy_depth(question, tally.shape)
    fits, policies, drop = {}, question.candidates, question.missing == "drop"
    for ladder in dict.fromkeys(first.ladder for first in firsts if first.ladder):
        rewards = [first.metric.reward for first in firsts if first.ladder == ladder]
        before = question.earlier
        fits[ladder] = fit_priors(tally, ladder, rewards, policies, depth, drop=drop, before=before)
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


def _with_candidates(
    base: Prior,
    ladder: Ladder,
    views: Sequence[View],
    words: list[Floats],
    earlier: Earlier | None,
) -> Prior:
    """The prior with what candidates say."""
    c, distinct = views[0].count, [0]
    for j in range(1, c):
        if not any(all(np.array_equal(w[i], w[j]) for w in words) for i in distinct):
            distinct.append(j)
    base = replace(base, distinct=tuple(distinct), earlier=earlier)
    used_words = [used_words_of(view, word, base) for view, word in zip(views, words, strict=True)]

    def parts_at(fit: Prior) -> list[Pairs]:
        return [
            pairs_of(v.batch, word, fit, fit.taken(v.batch, v.known), keep=True)
            for v, word in zip(views, used_words, strict=True)
        ]

    parts = parts_at(base)
    theta = replace(base.theta, beta=np.append(base.theta.beta, np.zeros(4 * len(used_words[0]))))
    given = ladder.examination is not None
    theta, jacobian, *_ = solved(parts, theta, given=given, close=1e-3, earlier=earlier)
    theta = strengths(parts_at(replace(base, share=base.few)), theta)
    theta, jacobian, known, report = solved(
        parts, theta, given=given, slope_there=jacobian, earlier=earlier
    )
    bare = [_bare(parts, theta, words, j) for j in range(c)]
    inverse = inverse_of(jacobian, known)
    by_stopping = np.zeros(len(inverse))
    if base.stopping and base.stopping.sd:
        further = parts_at(replace(base, stopping=base.stopping._replace(further=1 + STEP)))
        moved = np.sum([part.score(theta) for part in further], axis=0)
        moved = moved - np.sum([part.score(theta) for part in parts], axis=0)
        by_stopping = inverse @ moved / STEP
    shown = np.asarray(sum(overlap(view) for view in views))
    return replace(
        base,
        theta=theta,
        inverse=inverse,
        known=known,
        by_stopping=by_stopping,
        alike=tuple(alike(*shown[:, j], same_retrieval=ladder.same_retrieval) for j in range(c)),
        bare=tuple(coefficients for coefficients, _ in bare),
        leaking=tuple(leaks(parts, words, theta).tolist()) if base.dated else (),
        reports=(
            *base.reports,
            _told("Coefficients of candidates", report),
            *(_told("Coefficients of a candidate alone", report) for _, report in bare),
        ),
    )


def learnt_before(tally: Tally, ladder: Ladder, reward: str) -> Earlier:
    """What records before a log say of its pairs and of examination."""
    batches = batches_of(tally)
    fit = production_prior(batches, ladder, reward)
    variance = np.diag(production_covariance(batches, fit))[len(fit.theta.beta) :]
    pieces = []
    for batch in batches:
        expected = production_expects(batch, fit.theta.beta)
        columns = {
            CONTEXT: batch.contexts.take(pa.array(batch.pair_context)),
            ITEM_1: batch.items.take(pa.array(batch.pair_item)),
            N: pa.array(np.log(ladder_chain(batch, fit, expected).rates.alpha)),
        }
        pieces.append(pa.table(columns))
    table = pa.concat_tables(pieces)
    mean = pc.mean(table[N])
    rates = PolicyTable(table.set_column(2, N, pc.subtract(table[N], mean)), "earlier log")
    return Earlier(rates, np.log(fit.theta.p[1:]), 1 / (variance + EXAMINATION_CHANGE_SD**2))


def known_part(batch: Batch, known: Bools) -> Batch:
    """The batch without contexts that some candidate does not know, kept with it."""
    all_know = np.asarray(known.all(axis=1))
    return batch.cached(("known", all_know.tobytes()), lambda: batch.only(all_know))


def production_prior(batches: Batches, ladder: Ladder, reward: str) -> Prior:
    """What production alone says of items, learnt once."""
    key = "prior", ladder, reward
    if key not in batches.cache:
        batches.cache[key] = _of_production(batches, ladder, reward, batches.codebook.periods)
    return batches.cache[key]  # type: ignore[no-any-return]


def converged(fit: Prior) -> Prior:
    """The fit, if its equations are solved: for answers that have no verdict to say so."""
    if not fit.summary.converged:
        raise ModelError(f"{UNSOLVED} Next: ask by an estimator that fits nothing, such as 'ip'.")
    return fit


def production_worth(batches: Batches, ladder: Ladder, reward: str) -> Prior:
    """What production alone says of items, and of what clicks earn, learnt once."""
    key = "worth", ladder, reward
    if key not in batches.cache:
        fit = production_prior(batches, ladder, CLICKS)
        parts = [
            (b, b.items.take(pa.array(b.pair_item)), (b.shown @ fit.theta.p)[None]) for b in batches
        ]
        batches.cache[key] = with_worth(fit, reward, parts)
    return batches.cache[key]  # type: ignore[no-any-return]


def production_covariance(batches: Batches, fit: Prior) -> Floats:
    """Shape (N, N): of β and log p, by what contexts say of them and what is known beforehand."""
    parts = _parts(batches, fit)
    theta, jacobian, known, _ = solved(parts, fit.theta, given=fit.ladder.examination is not None)
    inverse = inverse_of(jacobian, known)
    spread = np.asarray(sum(part.spread(theta) for part in parts))
    return np.asarray(inverse @ (spread + np.diag(known)) @ inverse.T)


def _of_production(
    batches: Iterable[Batch],
    ladder: Ladder,
    reward: str,
    periods: Sized | None,
) -> Prior:
    """What production alone says of items.

    Args:
        batches: the log.
        ladder: what it has of its own is not learnt.
        reward: what is counted.
        periods: of the log, if it has some.
    """
    days: set[int] = set()
    k, size, value, square, contexts = 0, 0.0, 0.0, 0.0, 0
    for batch in batches:
        contexts += int((batch.context_n > 0).sum())
        # Slots of lists, each in each period; whatever else tells rows apart does not matter.
        size += float(np.minimum(batch.list_n, len(periods or (1,))).sum() * batch.depth)
        earned = batch.reward(reward)
        value += float(batch.n[earned.row] @ earned.value)
        square += float(batch.n[earned.row] @ earned.value**2)
        k = batch.depth
        if periods is not None:
            days |= set(np.unique(batch.clusters["period"]).tolist())
    unit = square / value if value > 0 else 1.0
    shares = [
        max(slots / max(size, 1.0), LEAST_CONTEXTS / max(contexts, 1))
        for slots in (MOST_SLOTS, ENOUGH_SLOTS)
    ]
    p: Floats = np.arange(1.0, k + 1) ** -0.7
    if ladder.examination is not None:
        p = np.array(ClickModel(ladder.name, (), ladder.examination).examined(k))
    strong = (np.inf,) * (3 if ladder.top == "list" else 1)
    start = Theta(np.zeros(4), p, 5.0, 20.0)
    prior = Prior(
        ladder,
        reward,
        unit,
        start,
        np.eye(3 + k),
        np.zeros(3 + k),
        strong,
        dated=len(days) >= ENOUGH_DAYS,
        share=shares[0],
        few=shares[1],
    )
    parts, few = _parts(batches, prior), _parts(batches, prior, prior.few)
    clicks = sum(part.clicks.sum() for part in parts)
    exposure = sum((part.by_position @ p).sum() for part in parts)
    theta = replace(start, beta=np.array([np.log(max(clicks, 0.5) / max(exposure, 1.0)), 0, 0, 0]))
    given = ladder.examination is not None
    slope: Floats | None = None
    for turn in range(MOST_ROUNDS):
        before = theta
        theta, slope, _, report = solved(parts, theta, given=given, close=1e-4, slope_there=slope)
        theta = strengths(few, theta)
        moved = abs(np.log([theta.a / before.a, theta.t / before.t])).max()
        if turn and moved < SETTLED:
            break
    reacting = reacts(parts, theta) if prior.dated else 0.0
    reports = (
        _told(f"Coefficients of production, {reward}", report),
        _told("Strengths, in turn with coefficients", FitReport(bool(moved < SETTLED), turn + 1)),
    )
    prior = replace(prior, theta=theta, reacting=reacting, reports=reports)
    stopping = None
    if ladder.stopping is None:
        firsts = [replace(prior, base=prior).first_clicks(batch) for batch in batches]
        stopping = learnt_stopping(firsts, [batch.pair_context for batch in batches])
    elif ladder.stopping:
        stopping = Stopping(1 - ladder.stopping)
    if stopping is not None:
        for close in (1e-3, 1e-3, 1e-11):  # fewer read on, so rates rise, so fewer read on
            prior = replace(prior, base=prior, stopping=stopping)
            theta, *_, report = solved(
                _parts(batches, prior), prior.theta, given=given, close=close
            )
            prior = replace(prior, theta=theta, reports=(*reports, report))
        _told("Coefficients where readers stop", report)
        few = _parts(batches, prior, prior.few)
        prior = replace(prior, theta=strengths(few, theta))
    slots = [
        row_slots(
            part,
            reward,
            unit,
            log_cells(batch, ladder.top, reward).prefix if ladder.top == "list" else None,
        )
        for part, batch in zip(few, batches, strict=True)
    ]
    upper = upper_strengths(few, slots, prior.theta, [prior.readers_of(b) for b in batches])
    if not prior.stopping and np.isinf(upper[:-1]).all():
        upper = upper[-1:]
    return replace(prior, strengths=upper)


def _parts(batches: Iterable[Batch], fit: Prior, share: float | None = None) -> list[Pairs]:
    """The pairs of all batches, by production's word alone, of such a share of the contexts."""
    taking = fit if share is None else replace(fit, share=share)
    return [
        pairs_of(batch, np.zeros((0, batch.pair_count, 2)), fit, taking.taken(batch))
        for batch in batches
    ]


def _bare(
    parts: Sequence[Pairs], theta: Theta, words: list[Floats], candidate: int
) -> tuple[Floats, FitReport]:
    """Shape (3,): coefficients of a candidate's word alone; and how their fit ended."""
    of_part = []
    for part, word in zip(parts, words, strict=True):
        own = word[candidate, : len(part.clicks)]
        x = np.column_stack([np.ones(len(own)), own])
        of_part.append((x, part.clicks, part.rates(theta).exposure))
    coefficients = np.array([theta.beta[0], 0.0, 0.0])
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
            weight = 1 / (1 + due / theta.a)
            score += (weight * (clicks - due)) @ x
            slope += (x * (weight**2 * due * (1 + clicks / theta.a))[:, None]).T @ x
        step = np.clip(np.linalg.solve(slope, score), -1, 1)
        coefficients = coefficients + step
        size = float(np.abs(step).max())
    return coefficients, FitReport.of(iterations, score, slope, converged=size < _CLOSE)
