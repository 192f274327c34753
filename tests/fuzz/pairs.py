"""Two candidates of one log: baselines and comparisons, against how far records move both."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import foreclick as fc
from foreclick.errors import ModelError
from foreclick.estimation.estimates import Estimate, Estimates
from foreclick.policies import Policy
from foreclick.question import Clusters
from foreclick.run.estimate import estimate
from foreclick.tallies import FEW_PERIODS
from tests.cases.case import Asked, Case, Measure, Row
from tests.cases.hostile import rival
from tests.fuzz.judge import (
    Difference,
    answered,
    answers_of,
    assert_add_up,
    assert_close,
    expected,
    expected_of,
    inside,
    metrics_of,
    question_of,
    refused,
    spread_known,
    strata_of,
    used_rows,
)
from tests.fuzz.ratios import without_hidden
from tests.truth import firsts, oracle, spread
from tests.truth.oracle import Record

Answer = dict[tuple[str, str], dict[str, Any]]
"""Rows of a comparison, by candidate and what it is compared with."""

NAMES = ("a", "b", "again")
KINDS: tuple[tuple[Clusters, ...], ...] = (
    *(("record",), ("period",)),
    *(("unit",), ("period", "unit")),
)
LEFT = 1e-7  # of a variance: what two-way covariances, which are rounded, leave of nothing


def judge_baseline(case: Case) -> int:
    """How many pairs of a candidate and a baseline were compared."""
    rng = random.Random(case.seed)  # noqa: S311 - no secret
    wholes = sides = [case, rival(case)]
    if case.asked.missing == "drop":  # contexts that either does not know are left out
        both = sides[0].candidate.keys() & sides[1].candidate.keys()
        sides = [
            side.proposing(new={x: of for x, of in side.candidate.items() if x in both})
            for side in sides
        ]
    tally = case.tally()
    metrics = metrics_of(case)
    a, b = case.policy, rival(case).policy
    kinds = rng.choice(KINDS) if "unit" in case.roles else rng.choice(KINDS[:2])
    question = replace(question_of(case, metrics), clusters=kinds)
    refusals = {
        kind for side, whole in zip(sides, wholes, strict=True) for kind in refused(side, whole)
    }
    found = answered(refusals, lambda: estimate(tally, replace(question, candidates=[a, b])))
    if found is None:
        return 1
    assert_add_up(found)
    rows = [answers_of(found, c) for c in range(2)]
    if len(rows[0]) != len(metrics) * len(case.asked.bounded) * len(strata_of(case)):
        raise Difference(f"{len(rows[0])} rows")
    turned = estimate(tally, replace(question, candidates=[b, a]))
    with_third = estimate(tally, replace(question, candidates=[a, b, a]))
    others = (
        [answers_of(turned, c) for c in range(2)],
        [answers_of(with_third, c) for c in range(3)],
    )
    with without_hidden():
        bare = estimate(tally, replace(question, candidates=[a, b]))
        plain = [answers_of(bare, c) for c in range(2)]
        for key in rows[0]:
            _assert_pair(sides, key[3], [each[key] for each in plain])
    for key, one in rows[0].items():
        pair, swapped = [one, rows[1][key]], [each[key] for each in others[0]]
        three = [each[key] for each in others[1]]
        if all(e.has_variance and e.stratum.records > 2 for e in pair):
            _assert_same_pair(pair, swapped, three, kinds, f"{key}, {kinds}")
            _assert_hidden(sides, key[3], pair, kinds, f"{key}, {kinds}")
    return len(rows[0])


def _assert_pair(sides: list[Case], land: Any, pair: list[Estimate]) -> None:  # noqa: ANN401
    """What is said of a candidate and of its baseline, without what cells hide."""
    case, one = sides[0], pair[0]
    measure = next(m for m in case.asked.measures if fc.Metric(m.spelling) == one.metric)
    kinds = one.estimates.question.clusters
    where = f"{one.estimator}, {measure.spelling}, M={one.clip}, {land!r}, {kinds}, with a baseline"
    sizes = []
    for side, found in zip(sides, pair, strict=True):
        right = expected_of(side, land, one.estimator, measure, one.clip)
        for name in right.keys() & {"value", "production", "covered", "clipped", "records"}:
            assert_close(name, found, right[name], right, where)
        sizes.append(max(right.get("size", 0.0), abs(right.get("value") or 0.0)))
    used = used_rows(case, case.rows)
    part = inside(used, land)
    if not all(e.has_variance for e in pair) or not spread_known(
        case, measure, one.estimator, one.clip
    ):
        return
    if sum(row.times for row, here in zip(used, part, strict=True) if here) <= 2:
        return
    joint = _joint(sides, used, measure, one.estimator, one.clip, kinds, part)
    told = one.estimates.joint(pair)
    if not np.allclose(told, joint, rtol=1e-7, atol=1e-12 * max(sizes) ** 2):
        raise Difference(f"covariance of {where}: {told} is not {joint}")


def _assert_same_pair(
    pair: list[Estimate],
    swapped: list[Estimate],
    three: list[Estimate],
    kinds: Sequence[str],
    where: str,
) -> None:
    """The same in any order and whoever else is asked; a candidate does not differ from itself."""
    joint, turned = pair[0].estimates.joint(pair), swapped[0].estimates.joint(swapped)
    size = float(np.trace(joint))
    rounding = 1e-12 * max(abs(e.value or 0.0) for e in pair) ** 2
    within = 1e-9 * size + rounding
    if not np.allclose(joint, turned[::-1, ::-1], rtol=1e-9, atol=within):
        raise Difference(f"the pair turned, {where}: {joint} is not {turned[::-1, ::-1]}")
    together = three[0].estimates.joint(three)
    # Of periods and units, what is cut at 0 depends on who else is asked, but for differences.
    if len(kinds) == 1 and not np.allclose(joint, together[:2, :2], rtol=1e-9, atol=within):
        raise Difference(f"with a third candidate, {where}: {joint} is not {together}")
    every, two = (of[0].estimates.joint(of, production=True) for of in (three, pair))
    for i, j in ((0, 1), (0, -1), (1, -1)):
        one, other = of_difference(every, i, j), of_difference(two, i, j)
        if not math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9 * _own(two, i, j) + rounding):
            raise Difference(f"with a third candidate, {where}: {other} becomes {one}")
    within += 1e-14 * _own(two, 0, 1)  # what production hides stands with the candidates
    if not math.isclose(of_difference(joint, 0, 1), of_difference(two, 0, 1), abs_tol=within):
        raise Difference(f"beside production, {where}: {joint} is not {two}")
    if three[0].value != three[2].value:
        raise Difference(f"itself, {where}: {three[0].value} is not {three[2].value}")
    left = of_difference(together, 0, 2)
    if three[0].sampling_variance == 0 and abs(left) > 1e-9 * float(np.trace(together)) + rounding:
        raise Difference(f"against itself, {where}: a variance of {left}")


def _assert_hidden(
    sides: list[Case],
    land: Any,  # noqa: ANN401
    pair: list[Estimate],
    kinds: Sequence[str],
    where: str,
) -> None:
    """What the difference hides: of every cell, by how much the weights of the two differ."""
    case, one = sides[0], pair[0]
    measure = next(m for m in case.asked.measures if fc.Metric(m.spelling) == one.metric)
    if (
        len(kinds) > 1
        or land is not ...
        or case.asked.pi is not None
        or one.estimator in ("rctr", "rcm")
    ):
        return
    if not spread_known(case, measure, one.estimator, one.clip):
        return
    used = used_rows(case, case.rows)
    records = _records(used, measure)
    labels = _labels(used, kinds[0])
    errors = [
        spread.CellErrors.of(
            spread.influence(one.estimator, records, side.candidate, measure.theta, one.clip),
            records,
            labels,
        )
        for side in sides
    ]
    n = sum(record.weight for record in records)
    right = errors[0].hidden_between(errors[1]) / n**2
    found = [
        _hidden_of(each.estimates, each, other) for each, other in itertools.permutations(pair)
    ]
    size = sum(abs(float(each.hidden[0, 0])) for each in pair)
    size += 1e-3 * max(abs(each.value or 0.0) for each in pair) ** 2
    for difference in found:
        if not math.isclose(difference, right, rel_tol=1e-7, abs_tol=1e-10 * size):
            raise Difference(f"what {where} hides: {difference} is not {right}")


def _hidden_of(found: Estimates, one: Estimate, other: Estimate) -> float:
    """What the difference of two varies more by than records show."""
    bare = found.shown(one.stratum.number, np.stack([one.design()[0], other.design()[0]]))
    return of_difference(found.joint([one, other]) - bare, 0, 1)


def _records(rows: Sequence[Row], measure: Measure) -> list[Record]:
    records = [row.record for row in rows]
    return firsts.only_first(records) if measure.first else records


def _labels(rows: Sequence[Row], kind: str) -> list[Any] | None:
    """The cluster of each row; None: independent."""
    return {
        "record": None,
        "period": [row.day for row in rows],
        "unit": [row.user for row in rows],
    }[kind]


def _joint(
    sides: list[Case],
    rows: list[Row],
    measure: Measure,
    model: str,
    clip: float,
    kinds: Sequence[str],
    part: list[bool] | None = None,
    *,
    production: bool = False,
) -> spread.Floats:
    """Shape (C, C): the covariance of candidates, by what records show; or with production last."""
    records = _records(rows, measure)
    moves = [
        spread.influence(
            model, records, side.candidate, measure.theta, clip, logging=side.asked.pi
        ).moves
        for side in sides
    ]
    weights = np.array([row.times for row in rows], dtype=np.float64)
    inside = np.flatnonzero([True] * len(rows) if part is None else part)
    candidates = np.column_stack([each[:, 0] for each in moves])[inside]
    # Who is compared twice counts once.
    candidates, whose = np.unique(candidates, axis=1, return_inverse=True)
    stacked, own = candidates, weights[inside]
    if production:
        whose = np.append(whose, candidates.shape[1])
        stacked = np.column_stack([candidates, moves[0][inside, 1]])
    if part is not None:
        stacked = stacked - np.average(stacked, axis=0, weights=own)
    some = [rows[i] for i in inside]
    found = np.asarray(
        sum(spread.added_up(stacked, own.tolist(), _labels(some, kind)) for kind in kinds)
    )
    if len(kinds) > 1:
        twice = [(row.day, row.user) for row in some]
        unit = np.sqrt(np.diag(found))
        unit[unit == 0] = 1.0
        scaled = (found - spread.added_up(stacked, own.tolist(), twice)) / np.outer(unit, unit)
        values, vectors = np.linalg.eigh(scaled)
        found = (vectors * np.maximum(values, 0.0)) @ vectors.T * np.outer(unit, unit)
    return found[np.ix_(whose, whose)]


# --- compare --------------------------------------------------------------------------------------


def judge_compare(case: Case) -> int:
    """How many rows of a comparison were compared, with oracles and with `evaluate`."""
    rng = random.Random(case.seed)  # noqa: S311 - no secret
    measure, model = rng.choice(case.asked.measures), rng.choice(case.asked.models)
    clip = rng.choice(case.asked.clips)
    missing = "error" if case.asked.missing == "error" else "production"
    clip = math.inf if model in oracle.BLIND else clip
    case = replace(
        case,
        asked=Asked(
            case.asked.kind, (model,), (measure,), (clip,), missing, slots=case.asked.slots
        ),
        roles={role: of for role, of in case.roles.items() if role != "propensity"},
    )
    sides = [case, rival(case)]
    kinds = _kinds_of(case)
    tally = case.tally()
    a, b = (side.policy for side in sides)
    options: dict[str, Any] = {
        "estimators": fc.Weighted(model, clip, "1/k" if model == "pbm" else None),
        "metrics": fc.Metric(measure.spelling),
        "missing": missing,
    }
    refusals = {kind for side in sides for kind in refused(side)}
    if not kinds:
        refusals = {ModelError}  # nothing to pair by
    elif _lone(case, kinds) and not refusals and _seen_at_all(sides):
        refusals = {ModelError}
    with without_hidden():
        three = dict(zip(NAMES, (a, b, a), strict=True))
        bare = answered(refusals, lambda: _compared(tally, three, options))
    if bare is None:
        return 1
    where = f"{model}, {measure.spelling}, M={clip}, {missing}, {kinds}"
    for name, side in zip("ab", sides, strict=True):
        right = expected(side, case.rows, model, measure, clip)
        _close(f"value of {name}, {where}", bare[name, "production"]["value"], right["value"])
        _close(f"other of {name}, {where}", bare[name, "production"]["other"], right["production"])
    if spread_known(case, measure, model, clip):
        _assert_errors(case, bare, kinds, where)
    if case.asked.kind != "Observed":  # of which another sample would be another candidate
        _assert_itself(bare, where)
        _assert_itself(_compared(tally, {"a": a, "again": a}, options), where)
    _assert_consistent(tally, a, b, options, where)
    return 2 * len(bare)


def _kinds_of(case: Case) -> list[str]:
    """Whose records vary together; none: differences are not paired."""
    days = len({row.day for row in case.rows} - {None})
    return ["period"] * (days >= FEW_PERIODS) + ["unit"] * ("unit" in case.roles)


def _lone(case: Case, kinds: list[str]) -> bool:
    """Whether there is a single cluster of some kind."""
    return any(len(set(_labels(case.rows, kind) or ())) < 2 for kind in kinds)


def _compared(tally: fc.Tally, candidates: dict[str, Policy], options: dict[str, Any]) -> Answer:
    rows = fc.compare(tally, candidates, **options).to_dicts()
    return {(row["candidate"], row["against"]): row for row in rows}


def _seen_at_all(sides: list[Case]) -> bool:
    """Whether a candidate has a value."""
    return any(
        expected(
            side, side.rows, side.asked.models[0], side.asked.measures[0], side.asked.clips[0]
        )["value"]
        is not None
        for side in sides
    )


def _assert_errors(case: Case, found: Answer, kinds: list[str], where: str) -> None:
    """The standard errors of differences, without what cells hide."""
    named = zip(NAMES, (case, rival(case), case), strict=True)
    seen = {n: side for n, side in named if found[n, "production"]["value"] is not None}
    if not seen:
        return

    (measure,), (model,), (clip,) = case.asked.measures, case.asked.models, case.asked.clips

    def variance(i: int, j: int) -> tuple[float, float]:
        """Of a difference, and of both: as if only these two had been asked."""
        sides = [list(seen.values())[k] for k in (i, j) if k < len(seen)]
        joint = _joint(sides, case.rows, measure, model, clip, kinds, production=j == len(seen))
        return of_difference(joint, 0, 1), float(np.trace(joint))

    for (i, one), (j, other) in itertools.combinations(enumerate([*seen, "production"]), 2):
        pair = one, other
        right, size = variance(i, j)
        size += 0.1 * max(found[pair]["value"], found[pair]["other"]) ** 2
        within = 4e-12 * size
        if not math.isclose(found[pair]["se"] ** 2, right, rel_tol=1e-7, abs_tol=within):
            raise Difference(f"se of {pair}, {where}: {found[pair]['se']} is not √{right}")


def of_difference(covariance: spread.Floats, i: int, j: int) -> float:
    """The variance of the difference of two."""
    return float(covariance[i, i] + covariance[j, j] - 2 * covariance[i, j])


def _own(covariance: spread.Floats, i: int, j: int) -> float:
    return abs(float(covariance[i, i])) + abs(float(covariance[j, j]))


def _assert_itself(found: Answer, where: str) -> None:
    """A candidate does not differ from itself."""
    same = found.get(("a", "again"))
    if same is None:
        return
    within = LEFT * found["a", "production"]["se"]
    if same["change"] or same["se"] > within:
        raise Difference(f"against itself, {where}: {same}")


def _assert_consistent(
    tally: fc.Tally, a: Policy, b: Policy, options: dict[str, Any], where: str
) -> None:
    """The same in any order, and what `evaluate` says with a baseline."""
    found = _compared(tally, {"a": a, "b": b}, options)
    if ("a", "b") not in found:
        return  # nothing of one of them was ever shown
    row, back = found["a", "b"], _compared(tally, {"b": b, "a": a}, options)["b", "a"]
    # Two-way covariances are rounded as the largest of them is: production's, perhaps.
    size = abs(row["value"]) + abs(row["other"]) + row["se"] + found["a", "production"]["se"]
    within = 1e-5 * size  # what is left of variances of differences, by its root and Student's t
    for name, mirror in (("change", "change"), ("low", "high"), ("high", "low")):
        _close(f"{name} turned, {where}", row[name], -back[mirror], within)
    _close(f"se turned, {where}", row["se"], back["se"], within)
    options = options | {"logging": "frequency"}
    (other,) = fc.evaluate(tally, a, **options, baseline=b).to_dicts()
    for name, column in (
        ("value", "value"),
        ("other", "production"),
        ("change", "change"),
        ("low", "change_low"),
        ("high", "change_high"),
    ):
        _close(f"{column} of evaluate, {where}", other[column], row[name], within)
    (alone,), row = fc.evaluate(tally, a, **options).to_dicts(), found["a", "production"]
    for name, column in (("change", "change"), ("low", "change_low"), ("high", "change_high")):
        _close(f"{column} of one candidate, {where}", alone[column], row[name], within)


def _close(what: str, found: float | None, right: float | None, within: float = 0.0) -> None:
    if found is None or right is None:
        same = found is right
    else:
        same = math.isclose(found, right, rel_tol=1e-9, abs_tol=within)
    if not same:
        raise Difference(f"{what}: {found} is not {right}")
