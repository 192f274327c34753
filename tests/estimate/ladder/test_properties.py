"""What holds of a ladder in any log: against the oracle, and whatever the order of its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import foreclick as fc
from foreclick.batches import EMPTY
from foreclick.estimate.work import estimate
from foreclick.learn.fit import fitted
from foreclick.learn.shrinkage import FEWEST, readers
from foreclick.metrics import parse_metrics
from foreclick.policies import as_policy
from foreclick.question import Question
from tests.answers import answer
from tests.truth import ladder as oracle
from tests.truth.oracle import clicks_at
from tests.truth.random_logs import DEEPEST, lists_table, log_table, random_case

P = (1.0, 0.7, 0.4, 0.3, 0.2, 0.1)
METRIC, THETA = "clicks@3", clicks_at(3)
STRENGTHS = st.lists(st.floats(0.5, 200), min_size=5, max_size=5)
OPTIONS: dict[str, Any] = {"missing": "drop", "clusters": "record"}


@given(seed=st.integers(0, 10_000), strengths=STRENGTHS, stopping=st.floats(0, 1))
@settings(max_examples=15, deadline=None)
def test_it_solves_the_least_squares_over_all_rates(
    seed: int, strengths: list[float], stopping: float
):
    case = random_case("any", np.random.default_rng(seed))
    log = fc.read_log(log_table(case.records))
    ladder = fc.Ladder("list", strengths, P, stopping=stopping)
    records = [r for r in case.records if r.context in case.candidate]  # others are dropped
    fit = fitted(fc.tally(fc.read_log(log_table(records))), ladder, "clicks", DEEPEST)
    truth = oracle.Truth("list", strengths, P, stopping, fit.base, fit.rounds)
    row = answer(log, fc.Lists(lists_table(case.candidate)), ladder, METRIC, **OPTIONS)
    right = truth.value(records, case.candidate, THETA)
    if row["covered"]:  # else nobody can tell
        assert row["value"] == pytest.approx(right, rel=1e-8, abs=1e-12)


@given(seed=st.integers(0, 10_000), order=st.randoms(use_true_random=False))
@settings(max_examples=8, deadline=None)
def test_the_order_of_rows_changes_no_bit(seed: int, order: Any):  # noqa: ANN401
    case = random_case("any", np.random.default_rng(seed))
    lists = fc.Lists(lists_table(case.candidate))
    records = case.records * 2
    shuffled = list(records)
    order.shuffle(shuffled)
    one, other = (
        answer(fc.read_log(log_table(rows)), lists, "ladder", METRIC, **OPTIONS)
        for rows in (records, shuffled)
    )
    assert one == other


@given(
    mu=st.lists(st.floats(-0.5, 2), min_size=2, max_size=6),
    stopping=st.floats(0, 1),
    above=st.integers(0, 4),
)
def test_fewer_readers_get_further_down(mu: list[float], stopping: float, above: int):
    shown = np.arange(len(mu))[None]
    found = readers(np.array(mu), shown, stopping)[0]
    assert found[0] == 1
    assert (np.diff(found) <= 0).all()
    assert (found >= FEWEST ** (len(mu) - 1)).all()
    j = above % len(mu)
    worse = [*mu[:j], 0.0, *mu[j + 1 :]]  # whoever likes nothing there goes on
    nothing = np.where(shown == j, EMPTY, shown)
    without = readers(np.array(mu), nothing, stopping)
    assert (without >= found).all()
    assert (readers(np.array(worse), shown, stopping) == without).all()
    assert (readers(np.array(mu), shown, 0.0) == 1).all()


def test_what_is_borrowed_for_the_never_shown_is_kept_apart():
    rng = np.random.default_rng(3)
    lists = [(1, 2, 3), (2, 1, 3)]
    rows = [lists[i % 2] for i in range(60)]
    clicks = [(rng.random(3) < 0.4).astype(float).tolist() for _ in rows]
    log = fc.read_log({"context": ["q"] * 60, "items": [list(r) for r in rows], "clicks": clicks})
    shown = {"context": ["q"], "items": [[9, 3, 1]]}  # 9 is new, 3 and 1 are at new positions
    ladder = fc.Ladder("list", (5, 5, 5, 5, 5), (1.0, 0.6, 0.5), stopping=0.5)
    (found,) = _sums(log, shown, ladder)
    (first,) = _sums(log, shown, ladder, "clicks@1")
    assert found.borrowed == pytest.approx(first.credit)  # the new item stands first
    (seen,) = _sums(log, {"context": ["q"], "items": [[2, 1, 3]]}, ladder)
    assert seen.borrowed == 0
    assert 0 < first.credit < found.credit


def _sums(log: Any, shown: Any, ladder: fc.Ladder, metric: str = "clicks@3") -> Any:  # noqa: ANN401
    question = Question([as_policy(shown)], [ladder], parse_metrics(metric))
    (found,) = estimate(fc.tally(log), question).of_candidate()
    return found.parts
