"""What verbs ask of a log where the user leaves it open, and which estimates answer it."""

from __future__ import annotations

from collections.abc import Sequence

from foreclick.batches import FEW_RECORDS, batches_of, largest_rewards, size_of
from foreclick.curves.learnt import with_curves
from foreclick.errors import ModelError
from foreclick.estimation.estimates import Estimate, Estimates
from foreclick.estimators import EstimatorLike, parse_estimators
from foreclick.ladder.sample import earned_by_clicks
from foreclick.metrics import AnyMetric, Metric
from foreclick.policies import Policy, policy_for
from foreclick.question import (
    Clusters,
    Logging,
    Missing,
    Question,
    by_hazard,
    check_metrics,
    propensities_answer,
)
from foreclick.rules import Choice
from foreclick.tallies import Tally

LOGGING = Choice(
    ("frequency", "propensity"), "to let the log decide", others=Policy, also=", give a policy"
)
"""Where logging probabilities come from."""


def make_question(
    tally: Tally,
    policies: Sequence[Policy],
    metrics: Sequence[AnyMetric],
    estimators: EstimatorLike | Sequence[EstimatorLike] | None = None,
    missing: Missing = "error",
    logging: Policy | str | None = None,
    by: tuple[str, ...] = (),
    clusters: tuple[Clusters, ...] = (),
) -> tuple[Question, list[str]]:
    """The question with its estimators, and notes on examinations that the log does not tell.

    By default, or with "all", the log and the policies decide which estimators; among policies, one
    that does not know whole lists. Propensities are used by default where contexts do not repeat,
    for the models whose cells they are the probabilities of; everything else uses the frequencies
    of the log.
    """
    shape, parts = tally.shape, [part for metric in metrics for part in metric.parts]
    check_metrics(tally, parts)
    if logging == "propensity" and shape.propensity is None:
        raise ModelError(
            "logging='propensity', but the log was read without. Name their column: "
            "read_log(…, propensity='…')."
        )
    if isinstance(logging, Policy):
        logging = policy_for(tally, logging, "logging")
    chosen = logging is None and shape.propensity is not None  # by the log
    chosen = chosen and size_of(tally).median < FEW_RECORDS
    if estimators is None or is_default(estimators):
        policy = min(policies, key=lambda each: each.complete)
        every = estimators is not None
        source = "propensity" if chosen else logging
        estimators = usual_estimators(tally, policy, source, parts, every=every)
    dropping = policies if missing == "drop" else ()
    wanted, notes = with_curves(tally, parse_estimators(estimators), metrics, dropping)
    loggings: list[Logging] = [None] * len(wanted)
    if logging == "propensity" or isinstance(logging, Policy):
        loggings = [logging] * len(wanted)  # type: ignore[list-item]
    elif chosen:
        for number, e in enumerate(wanted):  # a product of hazards has no use for propensities
            hazard = any(by_hazard(e.model, part) for part in parts)
            if propensities_answer(shape, e) and not hazard:
                loggings[number] = "propensity"
    return Question(policies, wanted, metrics, missing, loggings, by, clusters=clusters), notes


def is_default(estimators: object) -> bool:
    """Whether the log decides which estimators."""
    return estimators is None or estimators in ("all", ["all"], ("all",))


def usual_estimators(
    tally: Tally,
    policy: Policy,
    logging: Policy | str | None,
    metrics: Sequence[Metric],
    *,
    every: bool = False,
) -> Sequence[str]:
    """The estimator that answers, and the one that checks it; or every one that can say something.

    The ladder answers: of all estimators it was nearest to the truth in every simulated world. `ip`
    checks it, because it assumes least of those that see enough. Where logging probabilities are
    given, or contexts hardly repeat and propensities do, the estimators that use them answer
    instead. Of graded rewards that are earned without clicks `ip` answers: a ladder moves the rates
    of the dearest items towards the others, and its intervals hold a ranking of these too seldom.
    """
    shape, ladder = tally.shape, "ladder" if policy.complete else "ladder-ip"
    graded = {m.reward for m in metrics} & {*shape.rewards} - {*shape.masks}
    usual: tuple[str, ...] = (ladder, "ip")
    if isinstance(logging, Policy):
        usual = ("ip", "list")
    elif logging == "propensity":
        usual = ("list",) if shape.propensity == "list" else ("ip",)
    elif not all(earned_by_clicks(batches_of(tally), reward) for reward in graded):
        usual = ("ip", ladder)
    lists = ("list", "prefix") if policy.complete else ()
    more = (*lists, "ip", "item", "pbm", "rctr") if every else ()
    return list(dict.fromkeys((*usual, *more)))


def estimates_for(
    question: Question, estimates: Estimates, candidate: int = 0, *, whole: bool = False
) -> list[Estimate]:
    """The estimates that a question asks for, in its order, among those of one that asks for more.

    Args:
        question: what is asked.
        estimates: by these estimators and metrics, and perhaps by others.
        candidate: of which candidate.
        whole: whether those of the whole are wanted, where there are parts.
    """
    asked = [(e.name, metric) for e in question.estimators for metric in question.metrics]
    place = {key: at for at, key in enumerate(asked)}
    found = estimates.of_candidate(candidate, whole=whole)
    ones = [one for one in found if (one.estimator, one.metric) in place]
    return sorted(ones, key=lambda one: place[one.estimator, one.metric])


def largest_slots(tally: Tally, estimates: Sequence[Estimate]) -> dict[Metric, float]:
    """The most that a slot can earn, by metric: 1 click, or the largest reward of the log.

    Of rewards that are not 0 or 1 only where something was never shown: to look for it takes a
    pass over the log.
    """
    parts = [part for e in estimates for part in e.parts]
    metrics = {part.metric for part in parts}
    binary = {m for m in metrics if m.first or m.shown or m.source in tally.shape.masks}
    unseen = {part.metric for part in parts if part.coverage.covered < part.coverage.mass} - binary
    largest = largest_rewards(tally, sorted({m.source for m in unseen}))
    return dict.fromkeys(binary, 1.0) | {m: largest[m.source] for m in unseen}
