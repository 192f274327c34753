"""The ladder's columns, against rates solved for all at once, and against their own derivative."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import foreclick as fc
from foreclick.estimate.estimates import Estimate
from foreclick.estimate.work import estimate
from foreclick.learn.fit import fitted
from foreclick.metrics import Metric
from foreclick.question import Question
from tests.truth import ladder as oracle
from tests.truth.oracle import Policy, Record, clicks_at, dcg_at
from tests.truth.random_logs import (
    DEEPEST,
    lists_table,
    log_table,
    marginals_table,
    merged,
    random_case,
)

STRENGTHS = {"list": (4.0, 7.0, 3.0, 2.0, 1.5), "ip": (3.0, 2.0, 1.5)}
STOPPING = {"list": 0.8, "ip": 0.0}
P = (1.0, 0.7, 0.4, 0.3, 0.2, 0.1)
THETA = {"clicks@2": clicks_at(2), "dcg@6": dcg_at(6)}
CASES = [random_case(f"case{seed}", np.random.default_rng(seed)) for seed in (11, 12, 13)]
CANDIDATE = merged(case.candidate for case in CASES)
RECORDS = [record for case in CASES for record in case.records] * 2
DAYS = [i * 7 % 5 for i in range(len(RECORDS))]
SWAPPED: Policy = {
    x: {items[::-1] if j % 2 else items: mass for items, mass in lists.items()}
    for j, (x, lists) in enumerate(sorted(CANDIDATE.items()))
}
"""The candidate with its lists upside down in every other context."""


@pytest.fixture(scope="module")
def tally() -> fc.Tally:
    return fc.tally(fc.read_log(log_table(RECORDS, day=DAYS), period="day"))


def ladder_of(top: Any) -> fc.Ladder:  # noqa: ANN401
    return fc.Ladder(top, STRENGTHS[top], P, stopping=STOPPING[top])


def policy(candidate: Policy = CANDIDATE) -> fc.Policy:
    return fc.Lists(lists_table(candidate))


def asked(tally: fc.Tally, top: str, *candidates: fc.Policy) -> list[list[Estimate]]:
    """For each candidate, the estimates of all metrics."""
    question = Question(
        candidates or (policy(),),
        [ladder_of(top)],
        [Metric(metric) for metric in THETA],
        missing="drop",
        clusters=("period",),
    )
    found = estimate(tally, question)
    return [found.of_candidate(c) for c in range(len(question.candidates))]


def weighted(weights: Any = None) -> list[Record]:  # noqa: ANN401
    """The records that count, those of each day with its weight."""
    return [
        record._replace(weight=1.0 if weights is None else weights[day])
        for record, day in zip(RECORDS, DAYS, strict=True)
        if record.context in CANDIDATE
    ]


def truth(top: str) -> oracle.Truth:
    """The oracle with the same ladder, and with what is learnt of all records that count."""
    known = fc.tally(fc.read_log(log_table(weighted())))
    fit = fitted(known, ladder_of(top), "clicks", DEEPEST)
    return oracle.Truth(top, fit.strengths, P, fit.stopping, fit.base, fit.rounds)


@pytest.mark.parametrize("top", STRENGTHS)
def test_value_and_hidden_variance_solve_the_least_squares(tally: fc.Tally, top: str):
    right = truth(top)
    for one in asked(tally, top)[0]:
        theta = THETA[one.metric.name]
        assert one.value == pytest.approx(right.value(weighted(), CANDIDATE, theta), rel=1e-10)
        assert one.hidden[0, 0] == pytest.approx(
            right.unsettled(weighted(), CANDIDATE, theta), rel=1e-9
        )
        (part,) = one.parts
        assert part.rungs is not None
        assert sum(part.rungs.values()) == pytest.approx(part.mass, rel=1e-12)
        assert tuple(part.rungs) == ladder_of(top).rungs


@pytest.mark.parametrize("top", STRENGTHS)
def test_two_candidates_share_what_the_ladder_borrows(tally: fc.Tally, top: str):
    """The hidden variance of their difference is that of the least squares, too."""
    right = truth(top)
    for one, other in zip(*asked(tally, top, policy(), policy(SWAPPED)), strict=True):
        (a,), (b,) = one.columns, other.columns
        own, theirs, both = (one.of.of_shrinkage(0, i, j) for i, j in ((a, a), (b, b), (a, b)))
        theta = THETA[one.metric.name]
        expected = right.unsettled_between(weighted(), CANDIDATE, SWAPPED, theta)
        assert own + theirs - 2 * both == pytest.approx(expected, rel=1e-9)
        assert expected < 0.9 * (own + theirs)  # they have much in common
        shown = one.of.shown(0, np.stack([one.design()[0], other.design()[0]]))
        joint = one.of.joint([one, other])
        assert joint - shown == pytest.approx(np.array([[own, both], [both, theirs]]), rel=1e-9)


@pytest.mark.parametrize("top", STRENGTHS)
def test_influence_is_the_derivative_by_each_day(tally: fc.Tally, top: str):
    """Given the examination of slots, which the records of a day hardly change."""
    right = truth(top)
    right = replace(right, examination=right.examined(weighted(), CANDIDATE))
    step = 1e-4
    for one in asked(tally, top)[0]:
        theta, moves = THETA[one.metric.name], []
        for day in range(5):
            up, down = ({d: 1.0 + sign * step * (d == day) for d in range(5)} for sign in (1, -1))
            moved_up, moved_down = (right.value(weighted(w), CANDIDATE, theta) for w in (up, down))
            moves.append((moved_up - moved_down) / (2 * step))
        shown = one.of.shown(0, one.design())[0, 0]
        assert shown == pytest.approx(5 / 4 * sum(m * m for m in moves), rel=1e-5)


def test_marginals_say_all_that_the_top_ip_needs(tally: fc.Tally):
    slots = fc.Marginals(marginals_table(CANDIDATE))
    for one, other in zip(asked(tally, "ip")[0], asked(tally, "ip", slots)[0], strict=True):
        (lists,), (marginals,) = one.parts, other.parts
        for name in ("credit", "mass", "covered", "borrowed"):
            assert getattr(marginals, name) == pytest.approx(getattr(lists, name), rel=1e-12)
        assert marginals.rungs == pytest.approx(lists.rungs, rel=1e-12)
        assert other.covariance == pytest.approx(one.covariance, rel=1e-9)
