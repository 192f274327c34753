"""If this fails, very large or small numbers overflow into an answer."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import Any

import pytest

import foreclick as fc
from foreclick.errors import ModelError
from foreclick.estimators import parse_estimators
from foreclick.question import Question, policy_depth
from tests.answers import answer, log_of
from tests.cases.case import Case, Measure, Row
from tests.cases.hostile import case_of
from tests.fuzz.judge import answers_of, ask, column_of
from tests.tries import tries
from tests.truth import oracle
from tests.truth.oracle import Record

# A value is a sum of positive terms, each of a few roundings.
SAME = 1e-13

COUNTS = (1, 10**6, 10**12, 10**12 - 1, 0.1)
CHANCES = (1.0, 0.1, 1e-9, 1e-100, 1e-300, 2e-323)
CLIPS = (1e-300, 1e-9, 1.0, 3.7, 1e9, 1e55, math.inf)


def far_case(seed: int) -> Case:
    """A log of huge and tiny numbers, and a candidate of denormal probabilities."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    size = rng.choice((1e-9, 1.0, 1e9))
    theta = tuple(size * rng.choice((1.0, 0.3, 1e-3)) for _ in range(rng.randint(1, 3)))
    lists = [(1, 2), (2, 1, 3), (3,), (2, 3)]
    rows = [
        Row(x, one, tuple(rng.choice((0.0, 1.0, 1e6)) for _ in one), rng.choice(COUNTS))
        for x in ("a", "b", "c")
        for one in rng.choices(lists, k=4)
    ]
    chances = [rng.choice(CHANCES) for _ in lists]
    chances[rng.randrange(4)] = 1.0
    policy = {
        x: {one: p / sum(chances) for one, p in zip(lists, chances, strict=True)} for x in "ab"
    }
    clips = tuple(rng.sample(CLIPS, 2))
    measures = (Measure(theta, theta),)
    slots = rng.choice((1, 10**6))
    return case_of(rows, policy, seed=seed, measures=measures, clips=clips, slots=slots)


def exactly(case: Case, model: str, clip: float) -> oracle.Row:
    """What the oracle makes of fractions."""
    records = [
        Record(r.context, r.items, tuple(map(Fraction, r.clicks)), Fraction(r.times))  # type: ignore[arg-type]
        for r in case.rows
    ]
    policy = {}
    for x, of in case.candidate.items():
        whole = sum(map(Fraction, of.values()))
        policy[x] = {one: Fraction(p) / whole for one, p in of.items()}
    theta = tuple(map(Fraction, case.asked.measures[0].theta))
    limit: Any = Fraction(clip) if math.isfinite(clip) else clip
    p = [Fraction(1 / k) for k in range(1, len(theta) + 1)]
    return oracle.evaluate(model, records, policy, theta, limit, p=p)  # type: ignore[arg-type]


@pytest.mark.parametrize("part", range(tries(1, 20)))
def test_values_are_those_of_exact_fractions(part):
    for seed in range(10 * part, 10 * part + 10):
        case = far_case(seed)
        for found in answers_of(ask(case)).values():
            right = exactly(case, found.estimator, found.clip)
            assert hasattr(right.production, "denominator")  # a fraction
            where = f"{found.estimator}, M={found.clip}, seed {seed}"
            for name in ("value", "production", "covered", "clipped", "records", "ess"):
                rounding = 1e-15 * (name == "clipped")
                one, other = column_of(found, name), float(getattr(right, name))
                assert one is not None
                assert math.isclose(one, other, rel_tol=SAME, abs_tol=rounding), f"{name}, {where}"


@pytest.mark.parametrize("chance", [5e-324, 1e-308, 1e-61])
def test_a_logging_probability_of_next_to_nothing_is_refused_unless_clipped(chance):
    table = {"context": ["q"] * 3, "items": [[1, 2]] * 3, "clicks": [[1, 0]] * 3}
    log = fc.read_log(table | {"p": [0.5, 0.5, chance]}, propensity="p")
    ranking = fc.Ranking({"context": ["q"], "items": [[1, 2]]})
    asked: dict[str, Any] = {"estimators": "list", "metrics": "clicks@2", "logging": "propensity"}
    with pytest.raises(ModelError, match=r"weigh a record .* times.*'q'.*clip=100"):
        fc.evaluate(log, ranking, **asked)
    (row,) = fc.evaluate(
        log, ranking, **(asked | {"estimators": fc.Weighted("list", 100)})
    ).to_dicts()
    assert row["value"] == pytest.approx((2 + 2 + 100) / 3, rel=1e-12)
    assert 0 < row["ess"] <= 3


@pytest.mark.parametrize("longest", [3, 8])
def test_a_metric_deeper_than_anything_shown_costs_no_more(longest):
    records = [Record("q", (1, 2, 3, 4, 5), (1.0, 0.0, 1.0, 0.0, 0.0))] * 6
    shown = tuple(range(longest, 0, -1))
    policy = {"q": {shown: 1.0}}
    empty = [None] * (len(records[0].items) - longest)  # it is to show no more
    table = {"context": ["q"], "items": [[*shown, *empty]], "probability": [1.0]}
    candidate, log = fc.Lists(table), fc.tally(log_of(records))
    for depth in (8, 100_000):
        question = Question([candidate], parse_estimators("ip"), [fc.Metric(f"clicks@{depth}")])
        assert policy_depth(question, log.shape) == max(longest, log.shape.depth)
        found = answer(log, candidate, "item", f"clicks@{depth}")
        right = oracle.evaluate("item", records, policy, oracle.clicks_at(8))
        assert found["value"] == pytest.approx(right.value, rel=1e-12)
        assert found["covered"] == pytest.approx(right.covered, rel=1e-12)
