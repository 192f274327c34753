"""If this fails, the default answer is off in a shop, or its interval leaves errors out."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import foreclick as fc
from foreclick.batches import batches_of
from foreclick.estimation.columns import View
from foreclick.ladder.behaviour import Reading, Stopping, pair_rates
from foreclick.ladder.candidates import candidate_features
from foreclick.ladder.coefficients import solve
from foreclick.ladder.fit import fit_candidates, production_fit
from foreclick.ladder.fitted import CandidateFit, LadderFit
from foreclick.ladder.log_chain import pairs_of
from foreclick.ladder.overlap import fit_overlaps, production_overlap, unlogged_ranks
from foreclick.ladder.score import score_ladder
from foreclick.metrics import Metric
from foreclick.question import Target
from foreclick.simulate import shop
from tests.ladder.scenes import drawn, ranking, told

SMALL = shop.Shop(records=6_000, queries=60, pool=15, positions=4, days=14)


def fit_of(tally: fc.Tally, ladder: fc.Ladder = fc.Ladder()) -> LadderFit:  # noqa: B008
    return production_fit(batches_of(tally), ladder, "clicks")


def shuffled(
    rng: np.random.Generator,
    rates: Any,  # noqa: ANN401
    size: int,
    examined: list[float],
    *,
    days: int = 10,
    stopping: float = 0.0,
    gone: tuple[int, ...] = (),
) -> fc.Log:
    """Lists in any order, without items that are gone in the second half of the days."""
    query, day = rng.integers(0, len(rates), size), rng.integers(0, days, size)
    order = rng.random((size, rates.shape[1]))
    order[np.ix_(day >= days // 2, np.array(gone, dtype=int))] += 1
    lists = np.argsort(order, axis=1)[:, : len(examined)]
    clicks = rng.random(lists.shape) < np.take_along_axis(rates[query], lists, axis=1) * examined
    ends = clicks & (rng.random(lists.shape) < stopping)
    clicks &= ends.cumsum(axis=1) - ends == 0
    log = {"context": query, "items": lists.tolist(), "clicks": clicks.astype(int).tolist()}
    return fc.read_log(log | {"day": day}, period="day")


def test_a_given_stopping_is_allowed_for_as_a_learnt_one_is():
    _, tally = drawn(replace(shop.REGIMES["dbn"], records=20_000, queries=60, positions=6), 3)
    learnt = fit_of(tally)
    assert learnt.stopping is not None
    assert learnt.stopping.uniform
    assert learnt.stopping.mean == pytest.approx(0.5, abs=0.1)
    given = fit_of(tally, fc.Ladder(stopping=learnt.stopping.mean))
    for name, right in vars(learnt.parameters).items():
        np.testing.assert_allclose(getattr(given.parameters, name), right, rtol=1e-6)
    assert given.strengths == pytest.approx(learnt.strengths)


# --- how records move an estimate -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("users", "stopping", "strengths"),
    [
        ("pbm", 0.0, (math.inf, math.inf, math.inf)),
        ("pbm", 0.0, (math.inf, 50.0, 30.0)),
        ("dbn", 0.5, (40.0, 50.0, 30.0)),
    ],
)
def test_a_click_moves_the_answer_as_psi_says(users: str, stopping: float, strengths: Any):  # noqa: ANN401
    """Half a percent of a click more, and everything solved again."""
    found, tally = drawn(replace(SMALL, users=users), 3)
    policies = [ranking(found, name) for name in ("better", "worse")]
    model = fc.Ladder(stopping=0.0)
    base = fit_candidates(tally, model, ["clicks"], policies, 5, drop=False)["clicks"]
    stops = Stopping(1 - stopping) if stopping else None
    reading = Reading("clicks", base.log.spec.unit, stops, (fit_of(tally, model).parameters,))
    base = replace(base, log=replace(base.log, strengths=strengths, reading=reading))
    asks = [Target(model.model, Metric(m), math.inf, fc.Ladder()) for m in ("clicks@3", "dcg@4")]

    def fitted(batch: Any, fit: CandidateFit) -> tuple[CandidateFit, View]:  # noqa: ANN401
        """The fit to a batch, with strengths, κ and upper rungs as they are given."""
        view = View.of(batch, policies, 5)
        features = candidate_features(view)[:, : batch.pair_count]
        for _ in range(4):  # what upper rungs pass on depends on the examination
            at = fit.parameters
            part = pairs_of(batch, fit.log, at.p).with_candidates(features)
            fit = replace(fit, solution=solve([part], at, given=False))
        return fit, view

    (batch,) = batches_of(tally)
    fit, view = fitted(batch, base)
    before = score_ladder(view, asks, fit, rows=True)
    value, slope = before.value.sum(axis=1), before.sensitivity.sum(axis=2)  # type: ignore[union-attr]
    reward, step = batch.rewards["clicks"], 0.005
    told, right = [], []
    for entry in range(0, len(reward.row), len(reward.row) // 12):
        values = reward.value.astype(float)
        values[entry] += step
        other = replace(batch, rewards={"clicks": reward._replace(value=values)})
        stops_by = reading.before, reading.rounds[-1]  # the rates by which readers stop
        pair_rates.put(other, pair_rates(batch, *stops_by), *stops_by)
        moved, other_view = fitted(other, fit)
        row = reward.row[entry]
        after = score_ladder(other_view, asks, moved, rows=False).value.sum(axis=1)
        right.append((after - value) / step / batch.n[row])
        now = score_ladder(other_view, asks, fit, rows=True)
        own = (now.all_influence() - before.all_influence())[:, row] / step  # type: ignore[operator]
        told.append(own[: len(value)] + slope.T @ own[len(value) :])
    # ψ takes leverage back, 1 / √(1 − h), and shares of levels as they are.
    psi, moves = np.array(told), np.array(right)
    assert np.corrcoef(psi.ravel(), moves.ravel())[0, 1] > 0.98
    assert np.abs(psi - moves).mean() < 0.15 * np.abs(moves).mean()


def test_production_is_worth_what_it_earned():
    """By the model too: the score of every position is solved."""
    _, tally = drawn(SMALL, 5)
    assert told(tally, fc.Observed(tally))["change"] == pytest.approx(0.0, abs=1e-6)


def test_what_production_always_shows_changes_nothing():
    rng = np.random.default_rng(1)
    lists = rng.permuted(np.tile(np.arange(6), (8, 1)), axis=1)[:, :4]
    query, day = rng.integers(0, 8, 600), rng.integers(0, 9, 600)
    clicks = (rng.random((600, 4)) < 0.3).astype(int).tolist()
    log = {"context": query, "items": lists[query].tolist(), "clicks": clicks, "day": day}
    same = {"context": list(range(8)), "items": lists.tolist()}
    row = told(fc.read_log(log, period="day"), same, "clicks@4")
    assert row["change"] == pytest.approx(0.0, abs=1e-12)
    assert row["change_high"] - row["change_low"] == pytest.approx(0.0, abs=1e-9)


# --- right in a long tail, and where nothing changes ----------------------------------------------


@pytest.mark.parametrize("feedback", [0.0, 0.5])
def test_it_is_near_the_truth_in_a_shop(feedback: float):
    found, tally = drawn(shop.Shop(records=25_000, queries=2_500, feedback=feedback), 11)
    for name in ("better", "worse", "tweak"):
        asked: dict[str, Any] = {"metrics": ["clicks@3", "dcg@10"], "estimators": "ladder"}
        for row in fc.evaluate(tally, ranking(found, name), **asked).to_dicts():
            truth = found.lift(name, row["metric"])
            assert row["lift"] == pytest.approx(truth, abs=0.035)
            assert row["lift_low"] - 0.005 <= truth <= row["lift_high"] + 0.005
            assert row["verdict"] in ("cannot tell", "better" if truth > 0 else "worse")
    assert (fit_of(tally).feedback_z > 3) == (feedback > 0)


def test_a_candidate_that_has_seen_the_clicks_is_found_out():
    kind = shop.Shop(records=25_000, queries=2_500, leak=1.0, candidates=("leaky",))
    found, tally = drawn(kind, 2)
    asked: dict[str, Any] = {"metrics": "clicks@3", "estimators": "ladder"}
    leaky, truth = ranking(found, "leaky"), found.lift("leaky", "clicks@3")
    plain = fc.evaluate(tally, leaky, **asked)
    assert plain["verdict"] == ["cannot tell"]
    assert "trained_until" in str(plain.notes)
    later = fc.evaluate(tally, leaky, trained_until=shop.TRAINED_UNTIL, **asked)
    assert later["records"][0] < 0.3 * 25_000
    assert later["lift_low"][0] <= truth <= later["lift_high"][0]
    assert "trained_until" not in str(later.notes)


def test_clicks_before_the_training_ended_still_speak_of_an_item():
    """Items 4 and 5 are not shown later; earlier clicks told which of them each query likes."""
    rng = np.random.default_rng(8)
    rates = rng.uniform(0.05, 0.6, (100, 6))
    log = shuffled(rng, rates, 12_000, [1.0, 0.7, 0.5], days=14, gone=(4, 5))
    best = 4 + np.argmax(rates[:, 4:], axis=1)
    liked, other = (
        told(
            log,
            {"context": list(range(100)), "items": [[int(item), 0, 1] for item in first]},
            trained_until=6,
        )["lift"]
        for first in (best, 9 - best)
    )
    assert liked > other + 0.1


def test_readers_stop_if_clicks_below_first_results_say_so():
    assert fit_of(drawn(replace(SMALL, users="dbn"), 3)[1]).stopping
    assert fit_of(drawn(replace(SMALL, taste=0.5, feedback=1.0), 3)[1]).stopping is None


@pytest.mark.parametrize("stopping", [0.0, 0.6])
def test_few_records_of_many_contexts_say_whether_readers_stop(stopping: float):
    """Five records of each: below other first results, many contexts have no click at all."""
    found = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        rates, examined = rng.uniform(0.05, 0.3, (600, 8)), [1.0, 0.7, 0.5, 0.4, 0.3]
        log = shuffled(rng, rates, 3000, examined, days=8, stopping=stopping)
        found.append(fit_of(fc.tally(log)).stopping)
    if stopping:
        assert np.mean([each.mean for each in found if each]) == pytest.approx(stopping, abs=0.05)
        assert all(each and each.uniform for each in found)
    else:
        assert found == [None] * len(found)


def test_another_order_of_the_same_items_is_worth_the_same():
    """No position counts more than another: the old ladder saw a change in 80 of 200 such logs."""
    excluded = 0
    other = {"context": list(range(4)), "items": [[2, 0, 1], [1, 0, 2], [2, 1, 0], [0, 2, 1]]}
    for seed in range(12):
        rng = np.random.default_rng(700 + seed)
        row = told(shuffled(rng, rng.uniform(0.05, 0.5, (4, 3)), 4000, [1.0, 1.0, 1.0]), other)
        excluded += not row["lift_low"] <= 0 <= row["lift_high"]
    assert excluded <= 2


# --- the parts ------------------------------------------------------------------------------------


def top(scores, depth=10):
    return np.argsort(-scores, axis=1)[:, :depth]


def shared(one, other):
    """Shape (2, K): what the lists of one show at each rank, and what the others' have of it."""
    both = (one[:, :, None] == other[:, None, :]).any(axis=2).sum(axis=0)
    return np.stack([np.full(one.shape[1], float(len(one))), both])


def test_two_rankers_that_agree_have_the_pool_and_correlation_of_the_draw():
    rng, rho, pool, depth = np.random.default_rng(3), 0.7, 40, 10
    one = rng.normal(size=(20_000, pool))
    theirs = top(rho * one + np.sqrt(1 - rho**2) * rng.normal(size=one.shape))
    listed, both = shared(theirs, top(one))
    (found,) = fit_overlaps(listed[None], both[None], np.zeros((2, depth)))
    assert found.correlation == pytest.approx(rho, abs=0.06)
    assert found.pool == pytest.approx(pool, rel=0.35)
    # Where an item that `one` does not show stands below its last rank, by the rank of `theirs`.
    last = -np.sort(-one, axis=1)[:, depth - 1 : depth]
    lower = last - np.take_along_axis(one, theirs, axis=1)
    for rank in (0, 9):
        gap = unlogged_ranks(np.eye(depth)[rank : rank + 1], depth, found).gap[0]
        assert gap == pytest.approx(lower[lower[:, rank] > 0, rank].mean(), abs=0.12)


@pytest.mark.parametrize("rho", [0.1, 0.8])
@pytest.mark.parametrize("alien", [0.0, 0.3])
def test_changes_of_production_tell_a_small_pool_from_one_it_reaches_in_part(rho, alien):
    rng = np.random.default_rng(4)
    like = rng.normal(size=(20_000, 40))

    def ranked(rho, within):
        scores = rho * like + np.sqrt(1 - rho**2) * rng.normal(size=like.shape)
        return top(np.where(within, scores, -np.inf))

    within = rng.random(like.shape) >= alien
    first, last = (ranked(0.9, within) for _ in range(2))
    candidate = ranked(rho, np.ones_like(within))
    (listed, both), own = shared(candidate, first), shared(first, last)
    (found,) = fit_overlaps(listed[None], both[None], own)
    assert found.unreachable == pytest.approx(alien, abs=0.051)
    if alien:
        assert found.most_unreachable >= found.unreachable
        assert found.pool == pytest.approx(28, rel=0.25)
    else:
        assert found.most_unreachable == 0
    (told,) = fit_overlaps(listed[None], both[None], own, same_retrieval=True)
    assert told.unreachable == told.most_unreachable == 0


def test_the_overlap_of_first_and_last_days_is_that_of_their_lists():
    log = {
        "query": [0, 0, 0, 0, 1, 1, *[2] * 5],
        "items": [[1, 2], [2, 1], [3, 4], [1, 3], [5, 6], [5, 7], *[[8, 9]] * 5],
        "clicks": [[0, 0]] * 11,
        "day": [0, 1, 4, 7, 0, 7, 2, 3, 4, 5, 6],
    }
    (batch,) = batches_of(fc.tally(fc.read_log(log, context="query", period="day")))
    # Of query 0, [1, 2] and [2, 1] against [1, 3]; of query 1, [5, 6] against [5, 7].
    assert production_overlap(batch).tolist() == [[2.0, 2.0], [1.5, 0.5]]


def test_items_out_of_reach_are_seen_by_what_is_missing_at_the_top():
    found, tally = drawn(shop.Shop(records=8_000, queries=300, alien=(0.3, 0.0)), 5)
    better, truth, asked = ranking(found, "better"), found.lift("better", "clicks@3"), "clicks@3"
    learnt, same = (
        fc.evaluate(tally, better, metrics=asked, estimators=fc.Ladder(same_retrieval=known))
        for known in (False, True)
    )
    assert "unable to show about" in str(learnt.notes)
    assert "unable to show" not in str(same.notes)
    assert abs(learnt["lift"][0] - truth) < abs(same["lift"][0] - truth)
    assert learnt["lift_low"][0] < truth < learnt["lift_high"][0]
