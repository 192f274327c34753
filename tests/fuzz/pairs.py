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
from tests.cases.case import Asked, Case
from tests.cases.hostile import rival
from tests.fuzz.judge import (
    LABELS,
    SAME,
    Expected,
    Key,
    answered,
    answers_of,
    assert_add_up,
    covariance,
    differ,
    estimators_of,
    hold,
    hold_all,
    question_of,
    refused,
    rows_asked,
)
from tests.fuzz.ratios import without_hidden
from tests.truth import oracle, spread
from tests.truth.spread import Floats

Compared = dict[tuple[str, str], dict[str, Any]]
"""Rows of a comparison, by candidate and what it is compared with."""

NAMES = ("a", "b", "again")
KINDS: tuple[tuple[Clusters, ...], ...] = (
    *(("record",), ("period",)),
    *(("unit",), ("period", "unit")),
)
LEFT = 1e-7  # of a variance: what two-way covariances, which are rounded, leave of nothing


def joint(sides: Sequence[Expected], kinds: Sequence[str], *, production: bool = False) -> Floats:
    """Shape (C, C): the covariance of candidates, by what records show; or with production last."""
    # Who is compared twice counts once.
    moves = np.column_stack([side.moves[:, 0] for side in sides])
    moves, whose = np.unique(moves, axis=1, return_inverse=True)
    if production:
        whose = np.append(whose, moves.shape[1])
        moves = np.column_stack([moves, sides[0].moves[:, 1]])
    found = covariance(moves, sides[0].own, kinds, whole=sides[0].land is ...)
    return found[np.ix_(whose, whose)]


def of_difference(covariance: Floats, i: int, j: int) -> float:
    """The variance of the difference of two."""
    return float(covariance[i, i] + covariance[j, j] - 2 * covariance[i, j])


def _own(covariance: Floats, i: int, j: int) -> float:
    return abs(float(covariance[i, i])) + abs(float(covariance[j, j]))


# --- a baseline -----------------------------------------------------------------------------------


def judge_baseline(case: Case) -> int:
    """How many pairs of a candidate and a baseline were compared."""
    rng = random.Random(case.seed)  # noqa: S311 - no secret
    wholes = sides = [case, rival(case)]
    policies = [side.policy for side in sides]
    if case.asked.missing == "drop":  # contexts that either does not know are left out
        both = sides[0].candidate.keys() & sides[1].candidate.keys()
        sides = [
            side.proposing(new={x: of for x, of in side.candidate.items() if x in both})
            for side in sides
        ]
    refusals = set[Any]().union(*map(refused, sides, wholes))
    kinds = rng.choice(KINDS if "unit" in case.roles else KINDS[:2])
    tally, question = case.tally(), replace(question_of(case), clusters=kinds)

    def asked(*order: int) -> Estimates:
        return estimate(tally, replace(question, candidates=[policies[c] for c in order]))

    def rows_of(found: Estimates) -> dict[Key, list[Estimate]]:
        each = [rows_asked(case, answers_of(found, c)) for c in range(found.count)]
        return {key: [rows[key] for rows in each] for key in each[0]}

    found = answered(refusals, lambda: asked(0, 1))
    if found is None:
        return 1
    assert_add_up(found)
    pairs, turned, three = (rows_of(each) for each in (found, asked(1, 0), asked(0, 1, 0)))
    expected = {key: [Expected.of(side, key) for side in sides] for key in pairs}
    with without_hidden():
        for key, pair in rows_of(asked(0, 1)).items():
            _assert_pair(expected[key], pair, kinds)
    for key, pair in pairs.items():
        if all(e.has_variance and e.stratum.records > 2 for e in pair):
            where = f"{key}, {kinds}"
            _assert_same_pair(pair, turned[key], three[key], where)
            _assert_hidden(expected[key], pair, kinds, where)
    return len(pairs)


def _assert_pair(sides: list[Expected], pair: list[Estimate], kinds: Sequence[str]) -> None:
    """What is said of a candidate and of its baseline, without what cells hide."""
    for side, found in zip(sides, pair, strict=True):
        side.hold(found, but=("missing_contexts",))
    if all(e.has_variance for e in pair) and sides[0].spread_known and not sides[0].few:
        where = f"covariance of {sides[0].where}, {kinds}, with a baseline"
        size = max(max(s.size or 0.0, abs(s.columns.get("value") or 0.0)) for s in sides)
        right = joint(sides, kinds)
        hold_all(where, pair[0].estimates.joint(pair), right, 1e-12 * size**2)


def _assert_same_pair(
    pair: list[Estimate], swapped: list[Estimate], three: list[Estimate], where: str
) -> None:
    """The same in any order and whoever else is asked; a candidate does not differ from itself."""
    own, turned, third = (of[0].estimates.joint(of) for of in (pair, swapped, three))
    two, every = (of[0].estimates.joint(of, production=True) for of in (pair, three))
    rounding = 1e-12 * max(abs(e.value or 0.0) for e in pair) ** 2
    within = 1e-9 * float(np.trace(own)) + rounding
    hold_all(f"the pair turned, {where}", turned[::-1, ::-1], own, within, SAME)
    # Of periods and units, what is cut at 0 depends on who else is asked, but for differences.
    if len(pair[0].estimates.question.clusters) == 1:
        hold_all(f"with a third candidate, {where}", third[:2, :2], own, within, SAME)
    for i, j in ((0, 1), (0, -1), (1, -1)):
        one, other = of_difference(every, i, j), of_difference(two, i, j)
        what = f"differences with a third candidate, {where}"
        hold(what, one, other, 1e-9 * _own(two, i, j) + rounding)
    within += 1e-14 * _own(two, 0, 1)  # what production hides stands with the candidates
    difference = of_difference(own, 0, 1)
    hold(f"beside production, {where}", of_difference(two, 0, 1), difference, within)
    hold(f"itself, {where}", three[2].value, three[0].value, relative=0.0)
    if three[0].sampling_variance == 0:
        within = 1e-9 * float(np.trace(third)) + rounding
        hold(f"variance against itself, {where}", of_difference(third, 0, 2), 0.0, within)


def _assert_hidden(
    sides: list[Expected], pair: list[Estimate], kinds: Sequence[str], where: str
) -> None:
    """What the difference hides: of every cell, by how much the weights of the two differ."""
    side = sides[0]
    given = side.case.asked.pi is not None or side.model in oracle.BLIND
    if len(kinds) > 1 or side.land is not ... or given or not side.spread_known:
        return
    of = LABELS.get(kinds[0])
    labels = None if of is None else list(map(of, side.used))
    one, two = (spread.CellErrors.of(s.influence, s.records, labels) for s in sides)
    right = one.hidden_between(two) / sum(record.weight for record in side.records) ** 2
    size = sum(abs(float(each.hidden[0, 0])) for each in pair)
    size += 1e-3 * max(abs(each.value or 0.0) for each in pair) ** 2
    for each, other in itertools.permutations(pair):
        # By how much more than records show the difference varies.
        designs = np.stack([each.design()[0], other.design()[0]])
        shown = each.estimates.shown(each.stratum.number, designs)
        found = of_difference(each.estimates.joint([each, other]) - shown, 0, 1)
        hold(f"what {where} hides", found, right, 1e-10 * size, 1e-7)


# --- compare --------------------------------------------------------------------------------------


def judge_compare(case: Case) -> int:
    """How many rows of a comparison were compared, with oracles and with `evaluate`."""
    rng, asked = random.Random(case.seed), case.asked  # noqa: S311 - no secret
    measure, model = rng.choice(asked.measures), rng.choice(asked.models)
    clip = rng.choice(asked.clips)
    missing = "error" if asked.missing == "error" else "production"
    clip = math.inf if model in oracle.BLIND else clip
    case = replace(
        case,
        asked=Asked(asked.kind, (model,), (measure,), (clip,), missing, slots=asked.slots),
        roles={role: of for role, of in case.roles.items() if role != "propensity"},
    )
    cases = [case, rival(case)]
    a, b = (each.policy for each in cases)
    sides = [Expected(each, model, measure, clip) for each in cases]
    tally, kinds = case.tally(), _kinds_of(case)
    options: dict[str, Any] = {
        "estimators": estimators_of(case),
        "metrics": fc.Metric(measure.spelling),
        "missing": missing,
    }
    refusals = refused(cases[0]) | refused(cases[1])
    lone = any(len({LABELS[kind](row) for row in case.rows}) < 2 for kind in kinds)
    if not kinds or (
        lone and not refusals and any(side.columns["value"] is not None for side in sides)
    ):
        refusals = {ModelError}  # nothing to pair by
    with without_hidden():
        three = dict(zip(NAMES, (a, b, a), strict=True))
        bare = answered(refusals, lambda: _compared(tally, three, options))
    if bare is None:
        return 1
    where = f"{sides[0].where}, {missing}, {kinds}"
    for name, side in zip("ab", sides, strict=True):
        row = bare[name, "production"]
        hold(f"value of {name}, {where}", row["value"], side.columns["value"])
        hold(f"other of {name}, {where}", row["other"], side.columns["production"])
    if sides[0].spread_known:
        _assert_errors([*sides, sides[0]], bare, kinds, where)
    if asked.kind != "Observed":  # of which another sample would be another candidate
        for found in (bare, _compared(tally, {"a": a, "again": a}, options)):
            _assert_itself(found, where)
    _assert_consistent(tally, a, b, options, where)
    return 2 * len(bare)


def _kinds_of(case: Case) -> list[str]:
    """Whose records vary together; none: differences are not paired."""
    days = len({row.day for row in case.rows} - {None})
    return ["period"] * (days >= FEW_PERIODS) + ["unit"] * ("unit" in case.roles)


def _compared(tally: fc.Tally, candidates: dict[str, Policy], options: dict[str, Any]) -> Compared:
    rows = fc.compare(tally, candidates, **options).to_dicts()
    return {(row["candidate"], row["against"]): row for row in rows}


def _assert_errors(sides: list[Expected], found: Compared, kinds: list[str], where: str) -> None:
    """The standard errors of differences, without what cells hide; as if only two were asked."""
    named = dict(zip(NAMES, sides, strict=True))
    seen = {n: s for n, s in named.items() if found[n, "production"]["value"] is not None}
    for pair in itertools.combinations([*seen, "production"], 2):
        if not seen:
            return
        covariance = joint(
            [seen[n] for n in pair if n in seen], kinds, production=pair[1] not in seen
        )
        row, variance = found[pair], of_difference(covariance, 0, 1)
        size = float(np.trace(covariance)) + 0.1 * max(row["value"], row["other"]) ** 2
        hold(f"squared se of {pair}, {where}", row["se"] ** 2, variance, 4e-12 * size, 1e-7)


def _assert_itself(found: Compared, where: str) -> None:
    """A candidate does not differ from itself."""
    same = found.get(("a", "again"))
    if same is not None and (same["change"] or same["se"] > LEFT * found["a", "production"]["se"]):
        differ(f"against itself, {where}", same, 0)


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
    turned = {"change": -back["change"], "low": -back["high"], "high": -back["low"]}
    for name, right in (turned | {"se": back["se"]}).items():
        hold(f"{name} turned, {where}", row[name], right, within)
    options = options | {"logging": "frequency"}
    (paired,) = fc.evaluate(tally, a, **options, baseline=b).to_dicts()
    (alone,) = fc.evaluate(tally, a, **options).to_dicts()
    columns = {"change": "change", "change_low": "low", "change_high": "high"}
    more = {"value": "value", "production": "other"}
    for name, column in (columns | more).items():
        hold(f"{name} of evaluate, {where}", paired[name], row[column], within)
    for name, column in columns.items():
        right = found["a", "production"][column]
        hold(f"{name} of one candidate, {where}", alone[name], right, within)
