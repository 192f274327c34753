"""If this fails, classes of readers are misjudged: likelihoods, derivatives, or EM."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from benchmarks.ladder import scene

import foreclick as fc
from foreclick.batches import batches_of
from foreclick.batches.arrays import Bools, Floats
from foreclick.estimators import Ladder
from foreclick.ladder.classes import LEAST_RECORDS, learnt_classes
from foreclick.ladder.fit import production_fit
from foreclick.ladder.patterns import (
    OTHERWISE,
    Patterns,
    class_weights,
    log_likelihood,
    patterns,
)
from foreclick.ladder.rates import RateParameters
from foreclick.ladder.readers import MixedLists, ReaderClasses
from foreclick.ladder.sample import EVERYTHING

P = np.array([1.0, 0.8, 0.5, 0.3])
KAPPA = 0.6
PARAMETERS = RateParameters(np.array([-1.0, 0, 0, 0]), P, 5.0, 5.0)


def classes() -> ReaderClasses:
    """One by position, one that stops, one of choice."""
    p = np.stack([P, P**1.5, P])
    choice = np.array([False, False, True])
    share = np.array([0.4, 0.4, 0.2])
    return ReaderClasses(p, np.array([0, KAPPA, 0]), choice, P, share, np.zeros(3), PARAMETERS)


def one_record(clicked: Bools, rate: Floats) -> Patterns:
    """A context with one record."""
    own, hit, k = clicked.astype(np.float64)[None], np.flatnonzero(clicked), len(clicked)
    last, only = np.zeros((2, 1, k))
    last[0, hit[-1:]] = 1
    only[0, hit[-1:]] = len(hit) == 1
    none, x = np.zeros(1, dtype=np.int64), np.zeros((k, 4))
    lists = np.arange(k)[None]
    return Patterns(np.zeros(k, int), own[0], x, lists, none, np.ones(1), own, last, only, 1)


def chance(number: int, p: Floats, rate: Floats, clicked: Bools) -> float:
    """The probability of a pattern: by class, one reader after the other."""
    if number == 0:
        return float(np.prod(np.where(clicked, p * rate, 1 - p * rate)))
    if number == 2:
        q = p * rate / (1 + p @ rate)
        alone = 1 / (1 + p @ rate) if not clicked.any() else q @ clicked
        several = OTHERWISE * np.prod(np.where(clicked, q, 1 - q))
        return float(alone * (clicked.sum() < 2) + several * clicked.any())

    def down(k: int, reads: bool) -> float:
        if k == len(p):
            return 1.0
        if not reads:
            return float(not clicked[k]) * down(k + 1, False)
        here = rate[k] if clicked[k] else 1 - rate[k]
        on = (1 - KAPPA if clicked[k] else 1.0) * (p[k + 1] / p[k] if k + 1 < len(p) else 0.0)
        return float(here * (on * down(k + 1, True) + (1 - on) * down(k + 1, False)))

    return down(0, True)


@pytest.mark.parametrize("number", range(3))
def test_likelihoods_are_those_of_readers_one_position_after_the_other(number: int) -> None:
    rate = np.array([0.4, 0.7, 0.2, 0.5])
    for pattern in itertools.product([False, True], repeat=4):
        clicked = np.array(pattern)
        data = one_record(clicked, rate)
        found = np.exp(log_likelihood(data, classes(), number, np.append(rate, 0.0)))[0]
        assert found == pytest.approx(chance(number, classes().p[number], rate, clicked), abs=1e-12)


def test_readers_move_with_rates_and_kappa_as_differences_do() -> None:
    rng = np.random.default_rng(3)
    rate, weights = rng.uniform(0.05, 0.9, (6, 4)), rng.dirichlet(np.ones(3), 6).T
    worth, step = rng.uniform(size=(6, 4)), 1e-6

    def readers(rate: Floats, factor: float = 1.0) -> Floats:
        return MixedLists(classes().with_kappa(factor), weights, rate).readers()

    lists = MixedLists(classes(), weights, rate)
    earned = worth * lists.readers()
    moved = np.zeros(rate.shape)
    for k in range(4):
        each = [rate.copy(), rate.copy()]
        each[0][:, k] += step
        each[1][:, k] -= step
        moved[:, k] = (worth * (readers(each[0]) - readers(each[1]))).sum(axis=1) / (2 * step)
    np.testing.assert_allclose(lists.by_rate(earned), moved, rtol=1e-6, atol=1e-9)
    by_kappa = np.log(readers(rate, 1 + step) / readers(rate, 1 - step)) / (2 * step)
    np.testing.assert_allclose(lists.by_kappa(), by_kappa, rtol=1e-6, atol=1e-9)


def test_lists_deeper_than_the_log_are_not_read_below_it() -> None:
    rate = np.full((1, 6), 0.3)
    deep = MixedLists(classes().down_to(6), np.full((3, 1), 1 / 3), rate).readers()
    log = MixedLists(classes(), np.full((3, 1), 1 / 3), rate[:, :4]).readers()
    np.testing.assert_allclose(deep[:, :4], log)
    assert not deep[:, 4:].any()


# --- classes of a log -----------------------------------------------------------------------------


def drawn(kinds: list[str], records: int = 150, seed: int = 1) -> fc.Tally:
    """A log of contexts that are read in given ways, shown by rankers that change by the day."""
    rng = np.random.default_rng(seed)
    k, pool, days = 5, 12, 8
    p = np.array([1.0, 0.8, 0.65, 0.5, 0.4])
    rows: list[tuple[str, list[str], list[int], int]] = []
    for number, kind in enumerate(kinds):
        quality = rng.normal(-0.6, 1.0, pool)
        scale = 3.0 if kind == "choice" else 1.0
        for n in range(records):
            day = n * days // records
            top = np.argsort(
                -(quality + np.random.default_rng([number, n // 3]).normal(0, 1.5, pool))
            )
            a, clicks = 1 / (1 + np.exp(-quality[top[:k]])), np.zeros(k, dtype=int)
            if kind == "position":
                clicks[:] = rng.random(k) < a * p
            elif kind == "choice":
                share = scale * a * p / (1 + scale * (a * p).sum())
                at = int(np.searchsorted(np.cumsum(share), rng.random()))
                clicks[at : at + 1] = 1
            else:
                for j in range(k):
                    clicks[j] = rng.random() < a[j]
                    if rng.random() > 0.9 or (clicks[j] and rng.random() < 0.9):
                        break
            items = [f"{number}-{each}" for each in top[:k]]
            rows.append((f"q{number:03}", items, clicks.tolist(), day))
    columns = zip(("query", "items", "clicks", "day"), zip(*rows, strict=True), strict=True)
    table = pa.table(dict(columns))
    return fc.tally(fc.read_log(table, context="query", period="day"))


def test_classes_and_their_contexts_are_found_again() -> None:
    tally = drawn(["position", "stopping"] * 40)
    fit = production_fit(batches_of(tally), Ladder(), "clicks")
    found = fit.reading.classes
    assert found is not None
    (batch,) = batches_of(tally)
    weights = class_weights(batch, "clicks", found)
    stops = weights[:, found.kappa > 0].sum(axis=1)
    assert np.mean((stops > 0.5) == (np.arange(80) % 2 == 1)) > 0.9
    assert not found.choice.any()
    assert found.kappa.max() == pytest.approx(0.9, abs=0.1)
    assert all(report.converged for report in fit.reports)


def test_where_items_compete_all_contexts_choose() -> None:
    fit = production_fit(batches_of(drawn(["choice"] * 60)), Ladder(), "clicks")
    assert fit.reading.choice
    assert all(report.converged for report in fit.reports)


def test_where_every_click_ends_the_reading_nobody_chooses() -> None:
    """A choice of few lists has nearly the same likelihood; changes came out as wrong then."""
    log = fc.read_log(scene("Cascade", 7, 0.0).sample(seed=7), context="query", period="day")
    fit = production_fit(batches_of(fc.tally(log)), Ladder(), "clicks")
    assert not fit.reading.mixed
    assert fit.stopping is not None
    assert fit.stopping.mean > 0.95


def test_one_class_by_position_has_none() -> None:
    fit = production_fit(batches_of(drawn(["position"] * 60)), Ladder(), "clicks")
    assert not fit.reading.mixed


@pytest.mark.parametrize(
    "given", [Ladder(stopping=0.5), Ladder(examination=[1, 0.8, 0.65, 0.5, 0.4])]
)
def test_what_is_given_is_not_learnt_by_class(given: Ladder) -> None:
    tally = drawn(["position", "stopping"] * 40)
    assert not production_fit(batches_of(tally), given, "clicks").reading.mixed


def test_a_small_log_has_one_class() -> None:
    batches = tuple(batches_of(drawn(["position", "stopping"] * 10, records=40)))
    assert sum(batch.n.sum() for batch in batches) < LEAST_RECORDS
    assert learnt_classes(batches, "clicks", PARAMETERS, EVERYTHING) is None


def test_a_context_has_the_same_probabilities_whatever_else_is_read() -> None:
    (batch,) = batches_of(drawn(["position", "stopping"] * 5, records=30))
    part = batch.part(np.arange(10) < 3).batch
    five = np.array([1.0, 0.8, 0.6, 0.5, 0.4])
    own = ReaderClasses(
        np.stack([five, five]),
        np.array([0, 0.9]),
        np.zeros(2, dtype=np.bool_),
        five,
        np.array([0.5, 0.5]),
        np.zeros(2),
        RateParameters(np.array([-1.0, 0, 0, 0]), five, 5.0, 5.0),
    )
    whole = class_weights(batch, "clicks", own)
    np.testing.assert_allclose(class_weights(part, "clicks", own), whole[:3], rtol=1e-9)
    assert patterns(part, "clicks").contexts == 3
