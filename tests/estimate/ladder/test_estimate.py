"""The ladder on arrays, against rates solved for all at once, and against its own derivative."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

import foreclick as fc
from foreclick.batches import Batch, Batches, Candidate, Coding
from foreclick.estimators import Question, estimate, pair_up
from foreclick.estimators.ladder import estimate as estimating
from foreclick.estimators.ladder.estimate import Influence, LadderEstimate
from foreclick.estimators.ladder.fit import fitted
from foreclick.estimators.ladder.rates import Rungs, candidate_cells
from foreclick.metrics import Metric
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

STRENGTHS = {
    "list": (4.0, 7.0, 3.0, 2.0, 1.5),
    "prefix": (7.0, 3.0, 2.0, 1.5),
    "ip": (3.0, 2.0, 1.5),
}
STOPPING = {"list": 0.8, "prefix": 0.5, "ip": 0.0}
P = (1.0, 0.7, 0.4, 0.3, 0.2, 0.1)
THETA = {"clicks@2": clicks_at(2), "dcg@6": dcg_at(6)}
CASES = [random_case(f"case{seed}", np.random.default_rng(seed)) for seed in (11, 12, 13)]
CANDIDATE = merged(case.candidate for case in CASES)
RECORDS = [record for case in CASES for record in case.records] * 2
DAYS = [i * 7 % 5 for i in range(len(RECORDS))]
KINDS = {c: f"kind {int(c[-1]) % 2}" for c in {record.context for record in RECORDS}}


@pytest.fixture(scope="module")
def tally() -> fc.Tally:
    kinds = [KINDS[record.context] for record in RECORDS]
    table = log_table(RECORDS, day=DAYS, kind=kinds)
    return fc.tally(fc.read_log(table, period="day", segments="kind"))


class Answer(NamedTuple):
    """What the three maps found, by batch."""

    estimate: LadderEstimate
    batches: list[Batch]
    candidates: list[Candidate]
    values: list[dict[str, Any]]
    influence: list[Influence]

    def total(self, name: str) -> Any:  # noqa: ANN401
        return sum(values[name].sum(axis=0) for values in self.values)


def asked(
    tally: fc.Tally,
    ladder: fc.Ladder,
    metrics: list[str],
    policy: fc.Policy,
    *,
    drop: bool = True,
    slots: int = 10_000,
    strata: str | None = None,
) -> Answer:
    batches = Batches(tally, slots)
    parts = len(batches.codebook.segments[strata]) if strata else 1
    some = [b.split(b.segments[strata], parts) if strata else b for b in batches]
    wanted = [Metric(metric) for metric in metrics]
    fit = fitted(tally, ladder, "clicks", DEEPEST)
    estimate = LadderEstimate(fit, wanted, parts)
    candidates = [Candidate(Coding(batch, DEEPEST), policy) for batch in some]
    both = list(enumerate(zip(some, candidates, strict=True)))
    for i, (batch, candidate) in both:
        estimate.count(i, batch, candidate.known if drop else None)
    values = [estimate.values(i, batch, candidate) for i, (batch, candidate) in both]
    influence = [estimate.influence(i, batch, candidate) for i, (batch, candidate) in both]
    return Answer(estimate, some, candidates, values, influence)


def ladder_of(top: Any) -> fc.Ladder:  # noqa: ANN401
    return fc.Ladder(top, STRENGTHS[top], P, stopping=STOPPING[top])


def flat(top: Any) -> fc.Ladder:  # noqa: ANN401
    """A ladder that learns nothing from the log as a whole."""
    return fc.Ladder(top, STRENGTHS[top], P, stopping=0)


def truth(answer: Answer) -> oracle.Truth:
    """The oracle with the same ladder, and with what was learnt of the whole log."""
    fit = answer.estimate.fit
    return oracle.Truth(fit.ladder.top, fit.strengths, P, fit.stopping, fit.base, fit.rounds)


def weighted(weights: Any = None) -> list[Record]:  # noqa: ANN401
    """The records that count, those of each day with its weight."""
    return [
        record._replace(weight=1.0 if weights is None else weights[day])
        for record, day in zip(RECORDS, DAYS, strict=True)
        if record.context in CANDIDATE
    ]


def known_records() -> int:
    return sum(record.context in CANDIDATE for record in RECORDS)


def policy(candidate: Policy = CANDIDATE) -> fc.Policy:
    return fc.Lists(lists_table(candidate))


@pytest.mark.parametrize("metric", THETA)
@pytest.mark.parametrize("top", STRENGTHS)
def test_value_and_hidden_variance_solve_the_least_squares(tally: fc.Tally, top: str, metric: str):
    found = asked(tally, ladder_of(top), [metric], policy())
    n, right = known_records(), truth(found)
    assert found.total("credit")[0] / n == pytest.approx(
        right.value(weighted(), CANDIDATE, THETA[metric]), rel=1e-10
    )
    hidden = sum(i.unsettled.sum(axis=0) for i in found.influence)
    assert hidden[0] / n**2 == pytest.approx(
        right.unsettled(weighted(), CANDIDATE, THETA[metric]), rel=1e-9
    )
    shares = found.total("share")[0]
    assert shares.sum() == pytest.approx(found.total("mass")[0], rel=1e-12)
    assert len(shares) == len(ladder_of(top).rungs)


SWAPPED: Policy = {
    x: {items[::-1] if j % 2 else items: mass for items, mass in lists.items()}
    for j, (x, lists) in enumerate(sorted(CANDIDATE.items()))
}
"""The candidate with its lists upside down in every other context."""


@pytest.mark.parametrize("top", STRENGTHS)
def test_two_candidates_share_what_the_ladder_borrows(tally: fc.Tally, top: str):
    """The hidden variance of their difference is that of the least squares, too."""
    ladder = ladder_of(top)
    question = Question(
        policy(),
        [ladder],
        [Metric(metric) for metric in THETA],
        missing="drop",
        baseline=policy(SWAPPED),
        clusters=("period",),
    )
    both = question, question.turned
    mine, theirs = pair_up(tally, both, [estimate(tally, each) for each in both])
    right = truth(asked(tally, ladder, ["dcg@6"], policy()))
    for one, other in zip(mine.sums, theirs.sums, strict=True):
        a, b = (sums.spread.slips for sums in (one, other) if sums.spread is not None)
        expected = right.unsettled_between(weighted(), CANDIDATE, SWAPPED, THETA[one.metric.name])
        assert (a - b) @ (a - b) == pytest.approx(expected, rel=1e-9)
        assert expected < 0.9 * (a @ a + b @ b)  # they have much in common


@pytest.mark.parametrize("top", STRENGTHS)
def test_influence_is_the_derivative_by_each_day(tally: fc.Tally, top: str):
    """Given the examination of slots, which the records of a day hardly change."""
    answer = asked(tally, ladder_of(top), ["clicks@2"], policy())
    (batch,), (candidate,), (values,), (influence,) = answer[1:]
    right = truth(answer)
    right = replace(right, examination=right.examined(weighted(), CANDIDATE))
    n, step = known_records(), 1e-4
    value = values["credit"].sum() / n
    moved = influence.by_cluster(0, "period").sum(axis=0)
    rows = batch.n * candidate.known[batch.row_context]
    in_common = values["credit"][:, 0] / batch.context_n
    for day in range(5):
        mine = rows * (batch.clusters["period"] == day)
        found = moved[day] + (mine * (in_common[batch.row_context] - value)).sum()
        up, down = ({d: 1.0 + sign * step * (d == day) for d in range(5)} for sign in (1, -1))
        moved_up, moved_down = (
            right.value(weighted(w), CANDIDATE, THETA["clicks@2"]) for w in (up, down)
        )
        assert found / n == pytest.approx((moved_up - moved_down) / (2 * step), abs=1e-7)


@pytest.mark.parametrize("top", STRENGTHS)
def test_one_context_a_batch_gives_the_same_bits(tally: fc.Tally, top: str):
    metrics = ["dcg@6", "clicks@6"]
    one = asked(tally, ladder_of(top), metrics, policy(), drop=False)
    many = asked(tally, ladder_of(top), metrics, policy(), drop=False, slots=1)
    assert len(many.batches) > len(one.batches) == 1
    for name, values in one.values[0].items():
        assert np.array_equal(values, np.concatenate([v[name] for v in many.values])), name
    for name in ("unsettled", "weighted", "squared"):
        whole = getattr(one.influence[0], name)
        assert np.array_equal(whole, np.concatenate([getattr(i, name) for i in many.influence]))
    for i in range(len(metrics)):
        rows = np.concatenate([part.per_record(i) for part in many.influence])
        assert np.array_equal(one.influence[0].per_record(i), rows)


@pytest.mark.parametrize("top", STRENGTHS)
def test_a_list_is_worth_its_rates(tally: fc.Tally, top: str):
    found = asked(tally, ladder_of(top), ["dcg@6"], policy())
    (batch,), (candidate,) = found.batches, found.candidates
    worth = found.estimate.scored(0, batch, candidate)[:, 0]
    lists = candidate.lists
    by_list = batch.context_n[lists.context] * lists.mass * worth
    assert by_list.sum() == pytest.approx(found.total("credit")[0], rel=1e-12)


def test_the_cells_of_a_candidate_are_found_once(tally: fc.Tally, monkeypatch: pytest.MonkeyPatch):
    """For values, influence and what shrinkage hides."""
    made = list[Candidate]()

    def heard(batch: Batch, candidate: Candidate, *rest: Any) -> Any:  # noqa: ANN401
        made.append(candidate)
        return candidate_cells(batch, candidate, *rest)

    monkeypatch.setattr(estimating, "candidate_cells", heard)
    found = asked(tally, flat("ip"), ["clicks@2"], policy())
    assert made == found.candidates


def test_the_last_rungs_are_rungs_of_their_own():
    n, c = (np.array([4.0, 6.0, 10.0]), np.array([1.0, 3.0, 5.0]))
    below = [np.array([0, 0, 1]), np.array([0, 0]), np.array([0])]
    all_ = Rungs.climbed((2.0, 3.0, 5.0), n, c, below, [np.array([1.0, 0.5, 0.5]), 1.0, 1.0], 1)
    last = all_.last(1)
    base = np.array([0.3])
    (rates,), (expected,) = last.rates(base)
    assert rates.tolist() == all_.rates(base)[0][-1].tolist()
    assert expected.tolist() == all_.rates(base)[1][-1].tolist()
    assert [each.tolist() for each in last.below] == [[0]]
    assert len(last) == len(last.end) == 1


def test_strata_are_logs_of_their_own(tally: fc.Tally):
    both = asked(tally, flat("prefix"), ["dcg@6"], policy(), strata="kind")
    (batch,) = both.batches
    for stratum, kind in enumerate(sorted(set(KINDS.values()))):
        some = [r for r in RECORDS if KINDS[r.context] == kind]
        alone = fc.tally(fc.read_log(log_table(some)))
        right = asked(alone, flat("prefix"), ["dcg@6"], policy())
        mine = both.values[0]["credit"][batch.stratum == stratum].sum()
        assert mine == pytest.approx(right.total("credit")[0], rel=1e-12)


def test_marginals_say_all_that_the_top_ip_needs(tally: fc.Tally):
    lists = asked(tally, ladder_of("ip"), ["dcg@6"], policy())
    slots = fc.Marginals(marginals_table(CANDIDATE))
    marginals = asked(tally, ladder_of("ip"), ["dcg@6"], slots)
    for name in ("credit", "mass", "covered", "cells", "seen"):
        assert marginals.total(name) == pytest.approx(lists.total(name), rel=1e-12)
    logged = {(r.context, a, k) for r in RECORDS for k, a in enumerate(r.items)}
    known = {x: CANDIDATE[x] for x, _, _ in logged if x in CANDIDATE}
    asked_for = {(x, a, k) for x in known for items in known[x] for k, a in enumerate(items)}
    assert lists.total("cells") == len(asked_for)  # however seldom they are shown
    assert lists.total("seen") == len(asked_for & logged) > 0
