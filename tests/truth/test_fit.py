"""If this fails, the default estimator's fit does not solve its own equations."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
import pytest

import foreclick as fc
from foreclick.batches import batches_of
from foreclick.estimation.columns import View
from foreclick.ladder.behaviour import Reading, first_clicks_of
from foreclick.ladder.candidates import candidate_features
from foreclick.ladder.coefficients import column_z
from foreclick.ladder.features import WITH_RISE
from foreclick.ladder.fit import STEP, fit_candidates, known_part, production_fit
from foreclick.ladder.fitted import CandidateFit, LadderFit
from foreclick.ladder.log_chain import fitted_pairs, pairs_of
from foreclick.ladder.rates import RateParameters
from foreclick.ladder.sample import known_contexts, sampled
from tests.cases.case import Case as RandomLog
from tests.cases.plain import Draw, drawn, half_new
from tests.cases.tables import lists_table
from tests.tries import tries
from tests.truth import fit as oracle
from tests.truth.oracle import Policy

pytestmark = [
    pytest.mark.truth,
    pytest.mark.filterwarnings("ignore::foreclick.errors.ForeclickWarning"),
]

SOLVED = 1e-7
"""The library's last step is below 1e-11, and a root is good to 1e-13 of the largest number."""

STEPPED = 2e-3
"""Strengths are found at β and p of which the last step was below 1e-3 (of production, 1e-4)."""

IN_TURN = 0.03
"""Production's β and log p are those of strengths that the last turn moved by up to 20 %."""

QUOTIENT = 1e-6
"""J by a difference quotient with steps of 1e-5: its own error is some 1e-9 of the largest."""

AVERAGE = 0.1
"""J is an average slope: it was up to 5 % off that of the log at hand."""

P = (1.0, 0.6, 0.45, 0.3)


USUAL = fc.Ladder()


@dataclass(frozen=True)
class Kind:
    """What a random log is like, and what is asked of it.

    Attributes:
        stops: how often a click ends the reading, of every other context.
        by_list: whether each list has click rates of its own.
        extra: whether there is revenue without a click, so that it is fitted by itself.
        candidates: how many.
    """

    draw: Draw
    ladder: fc.Ladder = USUAL
    drop: bool = False
    stops: tuple[float, float] = (0.0, 0.0)
    by_list: bool = False
    extra: bool = False
    candidates: int = 1


MANY = Draw(records=900, contexts=4, periods=6)
KINDS = {
    "plain": Kind(Draw()),
    "ragged": Kind(Draw(ragged=True, text=True, missing=True), candidates=2),
    "days": Kind(Draw(periods=6), candidates=2),
    "two days": Kind(Draw(periods=2, contexts=8)),
    "dropped": Kind(Draw(periods=8, ragged=True, missing=True), drop=True),
    "users": Kind(Draw(unit=True, periods=5, missing=True), candidates=2),
    "revenue": Kind(Draw(orders=True, periods=7, records=500), extra=True),
    "stops": Kind(MANY, stops=(0.8, 0.8), candidates=2),
    "stops here and there": Kind(
        replace(MANY, ragged=True, missing=True), stops=(0.6, 0.6), drop=True
    ),
    "some stop": Kind(MANY, stops=(0.95, 0.05)),
    "by list": Kind(MANY, by_list=True),
    "by list and stops": Kind(replace(MANY, periods=0), by_list=True, stops=(0.8, 0.8)),
    "by position": Kind(MANY, fc.Ladder("ip"), by_list=True, candidates=2),
    "given p": Kind(Draw(periods=6), fc.Ladder(examination=P), candidates=2),
}


@dataclass(frozen=True)
class Case:
    """A random log of a kind, what the library fits to it, and what the oracle reads."""

    kind: Kind
    drawn: RandomLog
    candidates: Sequence[Policy]

    @classmethod
    @cache
    def of(cls, name: str, seed: int) -> Case:
        """The log of this kind and number."""
        kind = KINDS[name]
        found, rng = drawn(f"{name} {seed}", kind.draw), random.Random(seed)  # noqa: S311 - no secret
        own: dict[Any, float] = defaultdict(lambda: rng.uniform(0.02, 0.7))
        columns = found.columns
        for x, items, clicks in zip(*map(columns.get, ("context", "items", "clicks")), strict=True):
            stopped = False
            for k in range(len(clicks)):
                if kind.by_list:
                    clicks[k] = int(rng.random() < own[(x, *items, k)])
                clicks[k] *= not stopped
                stopped |= clicks[k] and rng.random() < kind.stops[int(x[1:]) % 2]
        if kind.extra:
            columns["price"] = [
                [v + rng.choice([0, 0, 0, 1.5]) for v in each] for each in columns["price"]
            ]
        return cls(kind, found, [found.candidate, half_new(found)][: kind.candidates])

    @property
    def reward(self) -> str:
        return "price" if self.kind.extra else "clicks"

    @property
    def given(self) -> bool:
        """Whether examination is told."""
        return bool(self.kind.ladder.examination)

    def known(self, *, all_of_it: bool = False) -> RandomLog:
        """The log, without contexts that the candidates do not know; or all of it."""
        rows = enumerate(self.drawn.columns["context"])
        return self.drawn.taking([i for i, x in rows if all_of_it or x in self.candidates[0]])

    @cached_property
    def policies(self) -> list[fc.Policy]:
        """The candidates, as the library reads them."""
        return [fc.Lists(lists_table(each)) for each in self.candidates]

    @cached_property
    def tally(self) -> fc.Tally:
        """The log."""
        return self.drawn.tally()

    @cached_property
    def heard(self) -> fc.Tally:
        """The log, without contexts that are dropped."""
        return self.known(all_of_it=not self.kind.drop).tally()

    @cached_property
    def fit(self) -> CandidateFit:
        """With what the candidates say."""
        drop, ladder = self.kind.drop, self.kind.ladder
        fits = fit_candidates(self.tally, ladder, [self.reward], self.policies, 4, drop=drop)
        return fits[self.reward]

    @cached_property
    def production(self) -> LadderFit:
        """What production alone says."""
        return production_fit(batches_of(self.heard), self.kind.ladder, self.reward)

    def log(self, *, candidates: bool, rise: bool | None = None) -> oracle.Log:
        """As the oracle sees it; with candidates, the contexts that they know."""
        columns = self.known(all_of_it=not (candidates or self.kind.drop)).columns
        names = ("context", "items", self.reward, "day")
        days, depth = self.kind.draw.periods, max(map(len, self.drawn.columns["items"]))
        days = days if days >= 5 else 1  # fewer do not matter
        return oracle.Log(
            [
                oracle.Record(x, tuple(items), tuple(map(float, earned)), day % days)
                for x, items, earned, day in zip(*map(columns.get, names), strict=True)
            ],
            depth,
            days,
            self.production.spec.unit,
            candidates=[rank_features(each, depth) for each in self.candidates if candidates],
            given=np.array(P) if self.given else None,
            rise=len(self.production.parameters.beta) == WITH_RISE if rise is None else rise,
        )


def rank_features(policy: Policy, depth: int) -> dict[Any, tuple[float, float]]:
    """By context and item, the share of lists that have it and its mean height."""
    found: dict[Any, tuple[float, float]] = {}
    for context, lists in policy.items():
        for items, mass in lists.items():
            for k, item in enumerate(items[:depth], start=1):
                s, u = found.get((context, item), (0.0, 0.0))
                found[context, item] = s + mass, u + mass * oracle.height(k, depth)
    return found


def read_by(log: oracle.Log, reading: Reading, more: float = 1.0) -> Any:  # noqa: ANN401
    """Which share of readers gets to a slot, by the rates of the rounds before."""
    if reading.stopping is None:
        return lambda slot: 1.0
    stop, rounds = reading.stopping, reading.rounds
    before = replace(reading, rounds=rounds[:-1], stopping=stop if rounds[1:] else None)
    return log.readers(oracle.Stop(*stop[:4]), rates_by(log, before, rounds[-1]), more)


def rates_by(log: oracle.Log, reading: Reading, at: RateParameters) -> oracle.Found:
    """Levels and rates by β, p, a and t, of such readers."""
    beta = np.zeros(log.x.shape[1])
    beta[: len(at.beta)] = at.beta
    return log.count(read_by(log, reading)).at(beta, at.p, at.a, at.t)


SEEDS = range(tries(2, 3))


def near(found: Any, right: Any, tolerance: float, size: float = 1.0) -> None:  # noqa: ANN401
    """All numbers are right, for numbers of a size."""
    np.testing.assert_allclose(
        np.divide(found, size), np.divide(right, size), rtol=tolerance, atol=tolerance
    )


def inverse_slope(log: oracle.Log, found: oracle.Found, *, given: bool) -> Any:  # noqa: ANN401
    """J⁻¹ of β and of log p, but for positions whose p is given."""
    slope = log.slope(found)
    free = len(found.beta) if given else len(slope)
    return np.linalg.inv(slope[:free, :free])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", KINDS)
def test_what_production_says_solves_the_equations(name: str, seed: int):
    asked = Case.of(name, seed)
    fit, log = asked.production, asked.log(candidates=False)
    first = [*fit.reading.rounds, fit.parameters][0]
    own = log.fit()
    near(first.beta, own.beta, STEPPED)
    near(first.p, own.p, STEPPED)
    near(np.log([first.a, first.t]), np.log([own.a, own.t]), STEPPED)
    again = log.root(first.a, first.t)
    near(first.beta, again.beta, IN_TURN)
    near(np.log(first.p), np.log(again.p), IN_TURN)
    if asked.kind.ladder.stopping is None:
        nobody = Reading(asked.reward, fit.spec.unit)
        found = rates_by(log, nobody, first)
        (batch,) = batches_of(asked.heard)
        clicks, expected, _, variance = first_clicks_of(batch, nobody, first)
        z = (expected.sum() - clicks.sum()) / math.sqrt(variance)
        near(z, log.mantel_haenszel(found), SOLVED)
        stop = log.stopping(found)
        assert (fit.stopping is None) == (stop is None)
        if fit.stopping is not None:
            near(fit.stopping[:4], stop, SOLVED)


RISING = ["days", "users", "revenue", "given p", "dropped", "stops"]


@pytest.mark.parametrize(
    ("name", "seed", "rises"),
    [(n, s, r) for r, names in ((False, KINDS), (True, RISING)) for n in names for s in SEEDS],
)
def test_what_candidates_say_solves_the_equations(
    name: str, seed: int, rises: bool, monkeypatch: pytest.MonkeyPatch
):
    """Also where a rise of production is one more feature, whether or not it counts."""
    asked = Case.of(name, seed)
    if rises:
        monkeypatch.setattr("foreclick.ladder.fit.RISES", -math.inf)
        asked = replace(asked)
    fit, (base, log) = asked.fit, base_of(asked)
    if rises:
        assert len(base.parameters.beta) == WITH_RISE
    first = log.root(base.parameters.a, base.parameters.t)
    near(np.log([fit.parameters.a, fit.parameters.t]), np.log(log.strengths(first)), STEPPED)
    found = log.root(fit.parameters.a, fit.parameters.t)
    near(fit.parameters.beta, found.beta, SOLVED)
    near(np.log(fit.parameters.p), np.log(found.p), SOLVED)
    level, alpha = library_rates(asked)
    near(level, found.level, SOLVED)
    near(alpha, found.alpha, SOLVED)
    for j in range(asked.kind.candidates):
        near(fit.candidate_only[j].coefficients, log.alone(j, found), SOLVED)
    right = inverse_slope(log, found, given=asked.given)
    free = len(right)
    near(fit.solution.inverse[:free, :free], right, QUOTIENT, np.abs(right).max())
    assert not fit.solution.inverse[free:].any()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["days", "users", "given p"])
def test_whether_the_rise_counts_is_a_step_over_its_standard_error(name: str, seed: int):
    asked = Case.of(name, seed)
    at = asked.production.parameters
    at = replace(at, beta=np.append(at.beta[:4], 0.0))
    (batch,) = batches_of(asked.heard)
    none = np.zeros((0, batch.pair_count, 2))
    part = pairs_of(batch, replace(asked.production, parameters=at), at.p).with_candidates(none)
    z = column_z([part], at, WITH_RISE - 1, given=asked.given)

    log = asked.log(candidates=False, rise=True)
    found = log.at(at.beta, at.p, at.a, at.t)
    unknown = np.concatenate([at.beta, np.log(at.p[1:]), np.log(found.level)])
    row = inverse_slope(log, found, given=asked.given)[WITH_RISE - 1]
    moved = row @ log.score(unknown, at.a)[: len(row)]
    each = log.scores(unknown, at.a)[:, : len(row)] @ row
    near(z, moved / math.sqrt(each @ each), QUOTIENT)


def base_of(asked: Case) -> tuple[LadderFit, oracle.Log]:
    """Production's fit that the candidates' began with, and the log as that has it read."""
    fit, base = asked.fit, asked.production
    log = asked.log(candidates=True)
    read = read_by(log, fit.log.reading)
    return base, log.count(read, log.passes(fit.log.strengths, base.parameters.p, read))


def library_rates(asked: Case) -> tuple[Any, Any]:
    """The levels of contexts and the rates of pairs that the library finds."""
    fit, (whole,) = asked.fit, batches_of(asked.tally)
    view = View.of(whole, asked.policies, 4)
    if asked.kind.drop:
        view = View.of(known_part(whole, view.known), asked.policies, 4)
    sample = sampled(view.batch, fit.log.spec.sample)
    known = np.asarray(view.known.all(axis=1))[sample.contexts]
    part = sample.within(known_contexts(sample.batch, known))
    own = candidate_features(view)[:, part.pairs]
    rates = fitted_pairs(part.batch, fit.log).with_candidates(own).rates(fit.parameters)
    return rates.level, rates.alpha


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["stops", "stops here and there", "by list and stops"])
def test_more_stopping_moves_the_fit_as_it_says(name: str, seed: int):
    """A quotient of fits, each of them solved anew."""
    asked = Case.of(name, seed)
    (base, log), fit = base_of(asked), asked.fit
    found = []
    for more in (1.0, 1 + STEP):
        read = read_by(log, fit.log.reading, more)
        passes = log.passes(fit.log.strengths, base.parameters.p, read)
        at = log.count(read, passes).root(fit.parameters.a, fit.parameters.t)
        found.append(np.append(at.beta, np.log(at.p[1:])))
    moved = (found[1] - found[0]) / STEP
    near(fit.by_stopping, moved, AVERAGE, np.abs(moved).max())
