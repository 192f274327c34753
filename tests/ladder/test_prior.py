"""If this fails, the default answer is off in a shop, or its interval leaves errors out."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import foreclick as fc
from foreclick.batches import Reward, batches_of
from foreclick.estimation.columns import ColumnBatch, View
from foreclick.ladder.behaviour import Reading, Stopping, pair_rates
from foreclick.ladder.candidates import candidate_features
from foreclick.ladder.coefficients import solve
from foreclick.ladder.fit import fit_candidates, production_fit
from foreclick.ladder.fitted import CandidateFit
from foreclick.ladder.log_chain import pairs_of
from foreclick.ladder.overlap import fit_overlaps, production_overlap, unlogged_ranks
from foreclick.ladder.score import score_ladder
from foreclick.metrics import Metric
from foreclick.question import Target
from foreclick.simulate import shop

SMALL = shop.Shop(records=6_000, queries=60, pool=15, positions=4, days=14)
METRICS = ("clicks@3", "dcg@4")


def drawn(kind: shop.Shop, seed: int) -> Any:  # noqa: ANN401
    found = shop.draw(kind, seed)
    log = fc.read_log(found.log, context="query", period="day", unit="user")
    return found, fc.tally(log)


def ranking(found: Any, name: str) -> fc.Ranking:  # noqa: ANN401
    return fc.Ranking(found.candidates[name], context="query")


def test_a_given_stopping_is_allowed_for_as_a_learnt_one_is():
    _, tally = drawn(replace(shop.REGIMES["dbn"], records=20_000, queries=60, positions=6), 3)
    learnt = production_fit(batches_of(tally), fc.Ladder(), "clicks")
    assert learnt.stopping is not None
    assert learnt.stopping.uniform
    assert learnt.stopping.mean == pytest.approx(0.5, abs=0.1)
    given = production_fit(batches_of(tally), fc.Ladder(stopping=learnt.stopping.mean), "clicks")
    np.testing.assert_allclose(given.parameters.beta, learnt.parameters.beta, rtol=1e-6)
    np.testing.assert_allclose(given.parameters.p, learnt.parameters.p, rtol=1e-6)
    for name in ("a", "t"):
        right = pytest.approx(getattr(learnt.parameters, name))
        assert getattr(given.parameters, name) == right
    assert given.strengths == pytest.approx(learnt.strengths)


def influence(columns: ColumnBatch) -> Any:  # noqa: ANN401
    found = columns.all_influence()
    assert found is not None
    return found


# --- how records move an estimate -----------------------------------------------------------------


class Again:
    """The fit to a batch, with strengths, κ and upper rungs as they are given."""

    def __init__(self, base: CandidateFit, policies: list[fc.Ranking]) -> None:
        self.base, self.policies = base, policies
        self.asks = [Target(fc.Ladder().model, Metric(m), math.inf, fc.Ladder()) for m in METRICS]

    def fitted(self, batch: Any, start: CandidateFit) -> tuple[CandidateFit, View]:  # noqa: ANN401
        view = View.of(batch, self.policies, 5)
        fit = start
        for _ in range(4):  # what upper rungs pass on depends on the examination
            at, features = fit.parameters, candidate_features(view)[:, : batch.pair_count]
            part = pairs_of(batch, fit.log, at.p).with_candidates(features)
            fit = replace(fit, solution=solve([part], at, given=False))
        return fit, view


@pytest.mark.parametrize(
    ("users", "stopping", "strengths"),
    [
        ("pbm", 0.0, (math.inf, math.inf, math.inf)),
        ("pbm", 0.0, (math.inf, 50.0, 30.0)),
        ("dbn", 0.5, (40.0, 50.0, 30.0)),
    ],
)
def test_a_click_moves_the_answer_as_psi_says(users: Any, stopping: float, strengths: Any):  # noqa: ANN401
    """Half a percent of a click more, and everything solved again."""
    found, tally = drawn(replace(SMALL, users=users), 3)
    policies = [ranking(found, name) for name in ("better", "worse")]
    base = fit_candidates(tally, fc.Ladder(stopping=0.0), ["clicks"], policies, 5, drop=False)[
        "clicks"
    ]
    stops = Stopping(1 - stopping) if stopping else None
    production = production_fit(batches_of(tally), fc.Ladder(stopping=0.0), "clicks")
    reading = Reading("clicks", base.log.spec.unit, stops, (production.parameters,))
    base = replace(base, log=replace(base.log, strengths=strengths, reading=reading))
    (batch,) = batches_of(tally)
    again = Again(base, policies)
    fit, view = again.fitted(batch, base)
    before = score_ladder(view, again.asks, fit, rows=True)
    value, slope = before.value.sum(axis=1), before.sensitivity.sum(axis=2)  # type: ignore[union-attr]
    reward, step = batch.rewards["clicks"], 0.005
    told, right = [], []
    for entry in range(0, len(reward.row), len(reward.row) // 12):
        values = reward.value.astype(float)
        values[entry] += step
        other = replace(batch, rewards={"clicks": Reward(reward.row, reward.position, values)})
        stops_by = reading.before, production.parameters  # the rates by which readers stop
        pair_rates.put(other, pair_rates(batch, *stops_by), *stops_by)
        moved, other_view = again.fitted(other, fit)
        n = batch.n[reward.row[entry]]
        after = score_ladder(other_view, again.asks, moved, rows=False).value.sum(axis=1)
        right.append((after - value) / step / n)
        psi = influence(score_ladder(other_view, again.asks, fit, rows=True)) - influence(before)
        own = psi[:, reward.row[entry]] / step
        told.append(own[: len(value)] + slope.T @ own[len(value) :])
    # ψ takes leverage back, 1 / √(1 − h), and shares of levels as they are.
    psi, moves = np.array(told), np.array(right)
    assert np.corrcoef(psi.ravel(), moves.ravel())[0, 1] > 0.98
    assert np.abs(psi - moves).mean() < 0.15 * np.abs(moves).mean()


def test_production_is_worth_what_it_earned():
    """By the model too: the score of every position is solved."""
    found, tally = drawn(SMALL, 5)
    observed = fc.Observed(tally)
    row = fc.evaluate(tally, observed, metrics="clicks@3", estimators="ladder").to_dicts()[0]
    assert row["change"] == pytest.approx(0.0, abs=1e-6)
    assert found.lift("better", "clicks@3") > 0


def test_what_production_always_shows_changes_nothing():
    rng = np.random.default_rng(1)
    size, lists = 600, rng.permuted(np.tile(np.arange(6), (8, 1)), axis=1)[:, :4]
    query = rng.integers(0, 8, size)
    clicks = (rng.random((size, 4)) < 0.3).astype(int)
    log = {"context": query, "items": lists[query].tolist(), "clicks": clicks.tolist()}
    log |= {"day": rng.integers(0, 9, size)}
    same = {"context": list(range(8)), "items": lists.tolist()}
    asked: Any = {"metrics": "clicks@4", "estimators": "ladder"}
    row = fc.evaluate(fc.read_log(log, period="day"), same, **asked).to_dicts()[0]
    assert row["change"] == pytest.approx(0.0, abs=1e-12)
    assert row["change_high"] - row["change_low"] == pytest.approx(0.0, abs=1e-9)


# --- right in a long tail, and where nothing changes ----------------------------------------------


@pytest.mark.parametrize("feedback", [0.0, 0.5])
def test_it_is_near_the_truth_in_a_shop(feedback: float):
    kind = shop.Shop(records=25_000, queries=2_500, feedback=feedback)
    found, tally = drawn(kind, 11)
    for name in ("better", "worse", "tweak"):
        result = fc.evaluate(
            tally, ranking(found, name), metrics=["clicks@3", "dcg@10"], estimators="ladder"
        )
        for row in result.to_dicts():
            truth = found.lift(name, row["metric"])
            assert row["lift"] == pytest.approx(truth, abs=0.035)
            assert row["lift_low"] - 0.005 <= truth <= row["lift_high"] + 0.005
            assert row["verdict"] in ("cannot tell", "better" if truth > 0 else "worse")
    fit = production_fit(batches_of(tally), fc.Ladder(), "clicks")
    assert (fit.feedback_z > 3) == (feedback > 0)


def test_a_candidate_that_has_seen_the_clicks_is_found_out():
    found, tally = drawn(
        shop.Shop(records=25_000, queries=2_500, leak=1.0, candidates=("leaky",)), 2
    )
    asked: Any = {"metrics": "clicks@3", "estimators": "ladder"}
    plain = fc.evaluate(tally, ranking(found, "leaky"), **asked)
    assert plain["verdict"] == ["cannot tell"]
    assert any("trained_until" in note for note in plain.notes)
    told = fc.evaluate(tally, ranking(found, "leaky"), trained_until=shop.TRAINED_UNTIL, **asked)
    truth = found.lift("leaky", "clicks@3")
    (row,) = told.to_dicts()
    assert row["records"] < 0.3 * 25_000
    assert row["lift_low"] <= truth <= row["lift_high"]
    assert not any("trained_until" in note for note in told.notes)


def test_clicks_before_the_training_ended_still_speak_of_an_item():
    """Items 4 and 5 are not shown later; earlier clicks told which of them each query likes."""
    rng, n, queries = np.random.default_rng(8), 12_000, 100
    query, day = rng.integers(0, queries, n), rng.integers(0, 14, n)
    rates = rng.uniform(0.05, 0.6, (queries, 6))
    order = rng.random((n, 6))
    order[day >= 7, 4:] += 1
    lists = np.argsort(order, axis=1)[:, :3]
    clicks = rng.random((n, 3)) < np.take_along_axis(rates[query], lists, 1) * [1.0, 0.7, 0.5]
    table = {"context": query, "items": lists, "clicks": clicks.astype(int), "day": day}
    log = fc.read_log({name: values.tolist() for name, values in table.items()}, period="day")
    lifts = []
    for sign in (1, -1):
        best = 4 + np.argmax(sign * rates[:, 4:], axis=1)
        lifted = [[int(item), 0, 1] for item in best]
        candidate = {"context": list(range(queries)), "items": lifted}
        asked: Any = {"metrics": "clicks@3", "estimators": "ladder", "trained_until": 6}
        lifts += fc.evaluate(log, candidate, **asked)["lift"]
    assert lifts[0] > lifts[1] + 0.1


def test_readers_stop_if_clicks_below_first_results_say_so():
    _, tally = drawn(replace(SMALL, users="dbn"), 3)
    assert production_fit(batches_of(tally), fc.Ladder(), "clicks").stopping
    _, tally = drawn(replace(SMALL, taste=0.5, feedback=1.0), 3)
    assert production_fit(batches_of(tally), fc.Ladder(), "clicks").stopping is None


@pytest.mark.parametrize("stopping", [0.0, 0.6])
def test_few_records_of_many_contexts_say_whether_readers_stop(stopping: float):
    """Five records of each: below other first results, many contexts have no click at all."""
    found = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        size, contexts = 3000, 600
        rates, query = rng.uniform(0.05, 0.3, (contexts, 8)), rng.integers(0, contexts, size)
        order = rng.permuted(np.tile(np.arange(8), (size, 1)), axis=1)[:, :5]
        examined = np.take_along_axis(rates[query], order, axis=1) * [1.0, 0.7, 0.5, 0.4, 0.3]
        clicks = rng.random((size, 5)) < examined
        ends = clicks & (rng.random((size, 5)) < stopping)
        clicks &= ends.cumsum(axis=1) - ends == 0
        log = {"context": query, "items": order.tolist(), "clicks": clicks.astype(int).tolist()}
        log |= {"day": rng.integers(0, 8, size)}
        tally = fc.tally(fc.read_log(log, period="day"))
        found.append(production_fit(batches_of(tally), fc.Ladder(), "clicks").stopping)
    if stopping:
        means = [each.mean for each in found if each is not None]
        assert len(means) == len(found)
        assert np.mean(means) == pytest.approx(stopping, abs=0.05)
        assert all(each is not None and each.uniform for each in found)
    else:
        assert found == [None] * len(found)


def test_another_order_of_the_same_items_is_worth_the_same():
    """No position counts more than another: the old ladder saw a change in 80 of 200 such logs."""
    excluded = 0
    for seed in range(12):
        rng = np.random.default_rng(700 + seed)
        rates, query = rng.uniform(0.05, 0.5, (4, 3)), rng.integers(0, 4, 4000)
        order = rng.permuted(np.tile(np.arange(3), (4000, 1)), axis=1)
        clicks = rng.random((4000, 3)) < np.take_along_axis(rates[query], order, axis=1)
        log = {"context": query, "items": order.tolist(), "clicks": clicks.astype(int).tolist()}
        log |= {"day": rng.integers(0, 10, 4000)}
        other = {"context": list(range(4)), "items": [[2, 0, 1], [1, 0, 2], [2, 1, 0], [0, 2, 1]]}
        row = fc.evaluate(
            fc.read_log(log, period="day"), other, metrics="clicks@3", estimators="ladder"
        ).to_dicts()[0]
        excluded += not row["lift_low"] <= 0 <= row["lift_high"]
    assert excluded <= 2


# --- the parts ------------------------------------------------------------------------------------


def test_two_rankers_that_agree_have_the_pool_and_correlation_of_the_draw():
    rng = np.random.default_rng(3)
    rho, pool, depth = 0.7, 40, 10
    one = rng.normal(size=(20_000, pool))
    other = rho * one + np.sqrt(1 - rho**2) * rng.normal(size=one.shape)
    mine, theirs = (np.argsort(-x, axis=1)[:, :depth] for x in (one, other))
    both = (theirs[:, :, None] == mine[:, None, :]).any(axis=2).sum(axis=0)
    listed = np.full((1, depth), 20_000.0)
    (found,) = fit_overlaps(listed, both[None].astype(float), np.zeros((2, depth)))
    assert found.correlation == pytest.approx(rho, abs=0.06)
    assert found.pool == pytest.approx(pool, rel=0.35)
    # Where an item that `mine` does not show stands below its last rank, by the rank of `theirs`.
    ranked = -np.sort(-one, axis=1)
    lower = ranked[:, depth - 1 : depth] - np.take_along_axis(one, theirs, axis=1)
    for rank in (0, 9):
        new = lower[:, rank] > 0
        mass = np.zeros((1, depth))
        mass[0, rank] = 1.0
        gap = unlogged_ranks(mass, depth, found).gap[0]
        assert gap == pytest.approx(lower[new, rank].mean(), abs=0.12)


def lists_of(scores, depth=10):
    return np.argsort(-scores, axis=1)[:, :depth]


def shared(one, other):
    """Shape (2, K): what the lists of one show at each rank, and what the others' have of it."""
    both = (one[:, :, None] == other[:, None, :]).any(axis=2).sum(axis=0)
    return np.stack([np.full(one.shape[1], float(len(one))), both])


@pytest.mark.parametrize("rho", [0.1, 0.8])
@pytest.mark.parametrize("alien", [0.0, 0.3])
def test_changes_of_production_tell_a_small_pool_from_one_it_reaches_in_part(rho, alien):
    rng = np.random.default_rng(4)
    like = rng.normal(size=(20_000, 40))

    def ranked(rho, within):
        scores = rho * like + np.sqrt(1 - rho**2) * rng.normal(size=like.shape)
        return lists_of(np.where(within, scores, -np.inf))

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
    lists = [[1, 2], [2, 1], [3, 4], [1, 3], [5, 6], [5, 7], *[[8, 9]] * 5]
    log = {
        "query": [0, 0, 0, 0, 1, 1, *[2] * 5],
        "items": lists,
        "clicks": [[0, 0]] * 11,
        "day": [0, 1, 4, 7, 0, 7, 2, 3, 4, 5, 6],
    }
    (batch,) = batches_of(fc.tally(fc.read_log(log, context="query", period="day")))
    # Of query 0, [1, 2] and [2, 1] against [1, 3]; of query 1, [5, 6] against [5, 7].
    assert production_overlap(batch).tolist() == [[2.0, 2.0], [1.5, 0.5]]


def test_items_out_of_reach_are_seen_by_what_is_missing_at_the_top():
    found, tally = drawn(shop.Shop(records=8_000, queries=300, alien=(0.3, 0.0)), 5)
    asked: Any = {"metrics": "clicks@3"}
    rows = {
        told: fc.evaluate(
            tally, ranking(found, "better"), estimators=fc.Ladder(same_retrieval=told), **asked
        )
        for told in (False, True)
    }
    assert any("unable to show about" in note for note in rows[False].notes)
    assert not any("unable to show" in note for note in rows[True].notes)
    truth = found.lift("better", "clicks@3")
    assert abs(rows[False]["lift"][0] - truth) < abs(rows[True]["lift"][0] - truth)
    assert rows[False]["lift_low"][0] < truth < rows[False]["lift_high"][0]
