"""If this fails, classes of readers are misjudged: likelihoods, derivatives, or EM."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from benchmarks.ladder import scene

import foreclick as fc
from foreclick.batches import batches_of
from foreclick.batches.arrays import Floats
from foreclick.estimators import Ladder
from foreclick.ladder.classes import LEAST_RECORDS, learnt_classes
from foreclick.ladder.fit import production_fit
from foreclick.ladder.fitted import LadderFit
from foreclick.ladder.patterns import OTHERWISE, class_weights, log_likelihood, patterns
from foreclick.ladder.rates import RateParameters
from foreclick.ladder.readers import MixedLists, ReaderClasses
from foreclick.ladder.sample import EVERYTHING
from tests.simulate.small import outcomes_of

P = np.array([1.0, 0.8, 0.65, 0.5, 0.4])
KAPPA = 0.6
PARAMETERS = RateParameters(np.array([-1.0, 0, 0, 0]), P, 5.0, 5.0)
CHOICE = np.array([False, False, True])
SHARES = np.array([0.4, 0.4, 0.2])
CLASSES = ReaderClasses(
    np.stack([P, P**1.5, P]), KAPPA * np.eye(3)[1], CHOICE, P, SHARES, np.zeros(3), PARAMETERS
)
"""One by position, one that stops, one of choice."""


def chances(number: int, rate: Floats) -> dict[tuple[int, ...], float]:
    """The probability of every pattern in a class, by one reader after the other."""
    p = CLASSES.p[number]
    if CHOICE[number]:
        q, found = p * rate / (1 + p @ rate), {}
        for clicks in itertools.product((0, 1), repeat=len(p)):
            alone = q @ clicks if any(clicks) else 1 / (1 + p @ rate)
            several = OTHERWISE * np.prod(np.where(clicks, q, 1 - q))
            found[clicks] = alone * (sum(clicks) < 2) + several * any(clicks)
        return found
    steps = [(each, 1.0, 1.0) for each in p * rate]
    if number == 1:
        down = np.append(p[1:] / p[:-1], 0.0)
        steps = [(each, (1 - KAPPA) * on, on) for each, on in zip(rate, down, strict=True)]
    total = Counter[tuple[int, ...]]()
    for chance, clicks in outcomes_of(steps):
        total[clicks] += chance  # type: ignore[assignment]
    return total  # type: ignore[return-value]


@pytest.mark.parametrize("number", range(3))
def test_likelihoods_are_those_of_readers_one_position_after_the_other(number: int) -> None:
    """Of each of the patterns there are, in a context of its own."""
    every = [*itertools.product([0, 1], repeat=5)]
    log = {"context": [*range(32)], "items": [[*range(5)]] * 32, "clicks": every, "day": [0] * 32}
    (batch,) = batches_of(fc.tally(fc.read_log(log, period="day")))
    rate = np.array([0.4, 0.7, 0.2, 0.5, 0.3])
    alpha = np.append(rate[np.asarray(batch.items)[batch.pair_item]], 0.0)
    found = np.exp(log_likelihood(patterns(batch, "clicks"), CLASSES, number, alpha))
    right = chances(number, rate)
    expected = [right[every[x]] for x in batch.contexts.to_pylist()]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_readers_move_with_rates_and_kappa_as_differences_do() -> None:
    rng, step = np.random.default_rng(3), 1e-6
    rate, weights = rng.uniform(0.05, 0.9, (6, 5)), rng.dirichlet(np.ones(3), 6).T
    worth = rng.uniform(size=(6, 5))

    def readers(rate: Floats, factor: float = 1.0) -> Floats:
        return MixedLists(CLASSES.with_kappa(factor), weights, rate).readers()

    lists = MixedLists(CLASSES, weights, rate)
    moved = [
        (worth * (readers(rate + one) - readers(rate - one))).sum(axis=1) / (2 * step)
        for one in step * np.eye(5)
    ]
    found = lists.by_rate(worth * lists.readers())
    np.testing.assert_allclose(found, np.transpose(moved), rtol=1e-6, atol=1e-9)
    by_kappa = np.log(readers(rate, 1 + step) / readers(rate, 1 - step)) / (2 * step)
    np.testing.assert_allclose(lists.by_kappa(), by_kappa, rtol=1e-6, atol=1e-9)


def test_lists_deeper_than_the_log_are_not_read_below_it() -> None:
    rate, weights = np.full((1, 7), 0.3), np.full((3, 1), 1 / 3)
    deep = MixedLists(CLASSES.down_to(7), weights, rate).readers()
    log = MixedLists(CLASSES, weights, rate[:, :5]).readers()
    np.testing.assert_allclose(deep, np.pad(log, ((0, 0), (0, 2))))


# --- classes of a log -----------------------------------------------------------------------------


def drawn(kinds: list[str], records: int = 150) -> fc.Tally:
    """A log of contexts that are read in given ways, by a ranker that changes with every third."""
    rng, days = np.random.default_rng(2), 8
    query, number = np.divmod(np.arange(len(kinds) * records), records)
    quality = rng.normal(-0.6, 1.0, (len(kinds), 12))
    luck = rng.normal(0, 1.5, (len(kinds), records // 3 + 1, 12))
    items = np.argsort(-quality[query] - luck[query, number // 3], axis=1)[:, :5]
    rate, u = 1 / (1 + np.exp(-np.take_along_axis(quality[query], items, axis=1))), rng.random
    weight = 3 * rate * P
    share = weight / (1 + weight.sum(axis=1, keepdims=True))
    chosen = (u((len(query), 1)) > np.cumsum(share, axis=1)).sum(axis=1)
    clicked = u(rate.shape) < rate
    ends = (u(rate.shape) > 0.9) | (clicked & (u(rate.shape) < 0.9))
    clicks = {
        "position": u(rate.shape) < rate * P,
        "choice": np.arange(5) == chosen[:, None],
        "stopping": clicked & (np.cumsum(ends, axis=1) - ends == 0),
    }
    kind = np.array(kinds)[query, None]
    columns = {
        "query": query,
        "items": (items + 100 * query[:, None]).tolist(),
        "clicks": np.select([kind == each for each in clicks], [*clicks.values()]).tolist(),
        "day": number * days // records,
    }
    return fc.tally(fc.read_log(pa.table(columns), context="query", period="day"))


@pytest.fixture(scope="module")
def both() -> fc.Tally:
    """Every other context stops."""
    return drawn(["position", "stopping"] * 40)


def fit_of(tally: fc.Tally, ladder: Ladder = Ladder()) -> LadderFit:  # noqa: B008
    return production_fit(batches_of(tally), ladder, "clicks")


def test_classes_and_their_contexts_are_found_again(both: fc.Tally) -> None:
    fit, (batch,) = fit_of(both), batches_of(both)
    found = fit.reading.classes
    assert found is not None
    stops = class_weights(batch, "clicks", found)[:, found.kappa > 0].sum(axis=1)
    assert np.mean((stops > 0.5) == (np.arange(80) % 2 == 1)) > 0.9
    assert not found.choice.any()
    assert found.kappa.max() == pytest.approx(0.9, abs=0.1)
    assert all(report.converged for report in fit.reports)


def test_where_items_compete_all_contexts_choose() -> None:
    fit = fit_of(drawn(["choice"] * 60))
    assert fit.reading.choice
    assert all(report.converged for report in fit.reports)


def test_where_every_click_ends_the_reading_nobody_chooses() -> None:
    """A choice of few lists has nearly the same likelihood; changes came out as wrong then."""
    log = fc.read_log(scene("Cascade", 7, 0.0).sample(seed=7), context="query", period="day")
    fit = fit_of(fc.tally(log))
    assert not fit.reading.mixed
    assert fit.stopping is not None
    assert fit.stopping.mean > 0.95


def test_one_class_by_position_has_none() -> None:
    assert not fit_of(drawn(["position"] * 60)).reading.mixed


@pytest.mark.parametrize("given", [Ladder(stopping=0.5), Ladder(examination=P.tolist())])
def test_what_is_given_is_not_learnt_by_class(both: fc.Tally, given: Ladder) -> None:
    assert not fit_of(both, given).reading.mixed


def test_a_small_log_has_one_class() -> None:
    batches = tuple(batches_of(drawn(["position", "stopping"] * 10, records=40)))
    assert sum(batch.n.sum() for batch in batches) < LEAST_RECORDS
    assert learnt_classes(batches, "clicks", PARAMETERS, EVERYTHING) is None


def test_a_context_has_the_same_probabilities_whatever_else_is_read() -> None:
    (batch,) = batches_of(drawn(["position", "stopping", "choice"] * 4, records=30))
    part, whole = batch.part(np.arange(12) < 3).batch, class_weights(batch, "clicks", CLASSES)
    np.testing.assert_allclose(class_weights(part, "clicks", CLASSES), whole[:3], rtol=1e-9)
    assert patterns(part, "clicks").contexts == 3
