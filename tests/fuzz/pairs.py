"""Two candidates of one log: baselines and comparisons, against how far records move both."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace
from typing import Any

import numpy as np

import foreclick as fc
from foreclick.errors import ModelError
from foreclick.estimators import AnySums, estimate
from foreclick.policies import Policy
from foreclick.tallies import FEW_PERIODS
from tests.fuzz.arrays import policy_of, tally_of
from tests.fuzz.draws import Case, Row, rival
from tests.fuzz.judge import (
    Difference,
    answered,
    assert_close,
    expected,
    question_of,
    refused,
    strata_of,
    used_rows,
)
from tests.fuzz.ratios import without_hidden
from tests.truth import spread

Answer = dict[tuple[str, str], dict[str, Any]]
"""Rows of a comparison, by candidate and what it is compared with."""

NAMES = ("a", "b", "again")


def judge_baseline(case: Case) -> int:
    """How many pairs of a candidate and a baseline were compared."""
    sides = [case, rival(case)]
    if case.missing == "drop":  # contexts that either does not know are left out
        both = sides[0].candidate.keys() & sides[1].candidate.keys()
        sides = [
            replace(side, candidate={x: of for x, of in side.candidate.items() if x in both})
            for side in sides
        ]
    tally = tally_of(case, slots=case.slots, chunk=case.chunk, times=case.times)
    metrics = tuple(dict.fromkeys(fc.Metric(m.spelling) for m in case.measures))
    question = question_of(case, tally, metrics)
    question = replace(question, baseline=policy_of(rival(case), tally))
    with without_hidden():
        found = answered(
            (kind for side in sides for kind in refused(side)),
            lambda: [estimate(tally, each).sums for each in (question, question.turned)],
        )
    if found is None:
        return 1
    pairs = list(zip(*found, strict=True))
    if len(pairs) != len(metrics) * len(case.models) * len(case.clips) * len(strata_of(case)):
        raise Difference(f"{len(pairs)} rows")
    for pair in pairs:
        _assert_pair(sides, pair)
    return len(pairs)


def _assert_pair(sides: list[Case], pair: tuple[AnySums, ...]) -> None:
    """What is said of a candidate and of its baseline."""
    case, one = sides[0], pair[0]
    land = one.stratum.segment.get("land", ...)
    rows = [row for row in case.rows if land in (..., row.land)]
    measure = next(m for m in case.measures if fc.Metric(m.spelling) == one.metric)
    where = f"{one.estimator}, {measure.spelling}, M={one.clip}, {land!r}, with a baseline"
    for side, sums in zip(sides, pair, strict=True):
        right = expected(side, rows, one.estimator, measure, one.clip)
        for name in right.keys() & {"value", "production", "covered", "clipped", "records"}:
            assert_close(name, sums, right[name], right, where)
    told = [sums.spread for sums in pair if sums.spread is not None]
    used = used_rows(case, rows)
    if len(told) < 2 or case.clusters != "period" or _unknown(case, used, one.clip):
        return
    if measure.first or case.logging == "propensity":
        return
    joint = _joint(sides, used, one.estimator, measure.theta, one.clip, ["period"])
    size = max(sums.value or 0.0 for sums in pair) ** 2
    if not np.allclose(told[0].against(told[1]), joint[:2, :2], rtol=1e-7, atol=1e-12 * size):  # type: ignore[arg-type]
        raise Difference(f"covariance of {where}: {told[0].against(told[1])} is not {joint}")


def _unknown(case: Case, used: list[Row], clip: float) -> bool:
    """Whether the oracle of spreads says nothing: of samples, at the edge of the clip, of a day."""
    return case.kind == "Observed" or clip == 1.0 or len({row.day for row in used}) < 2


def _joint(
    sides: list[Case],
    rows: list[Row],
    model: str,
    theta: tuple[float, ...],
    clip: float,
    kinds: list[str],
) -> spread.Floats:
    """Shape (C + 1, C + 1): the covariance of all candidates and production, which is last."""
    records = [row.record for row in rows]
    moves = [
        spread.influence(model, records, side.candidate, theta, clip, logging=side.pi).moves
        for side in sides
    ]
    labels = {"period": [row.day for row in rows], "unit": [row.unit for row in rows]}
    candidates = np.column_stack([each[:, 0] for each in moves])
    # Who is compared twice counts once.
    candidates, whose = np.unique(candidates, axis=1, return_inverse=True)
    whose = np.append(whose, candidates.shape[1])
    stacked = np.column_stack([candidates, moves[0][:, 1]])
    weights = [row.weight for row in rows]
    found = np.asarray(sum(spread.added_up(stacked, weights, labels[kind]) for kind in kinds))
    if len(kinds) > 1:
        twice = list(zip(labels["period"], labels["unit"], strict=True))
        unit = np.sqrt(np.diag(found))
        unit[unit == 0] = 1.0
        scaled = (found - spread.added_up(stacked, weights, twice)) / np.outer(unit, unit)
        values, vectors = np.linalg.eigh(scaled)
        found = (vectors * np.maximum(values, 0.0)) @ vectors.T * np.outer(unit, unit)
    return found[np.ix_(whose, whose)]


# --- compare --------------------------------------------------------------------------------------


def judge_compare(case: Case) -> int:
    """How many rows of a comparison were compared, with oracles and with `evaluate`."""
    rng = random.Random(case.seed)  # noqa: S311 - no secret
    measure, model = rng.choice(case.measures), rng.choice(case.models)
    clip, missing = rng.choice(case.clips), "error" if case.missing == "error" else "production"
    case = replace(
        case, measures=(measure,), models=(model,), clips=(clip,), missing=missing,
        logging=None, pi=None, by=False,
    )  # fmt: skip
    sides = [case, rival(case)]
    days = len({row.day for row in case.rows} - {None})
    kinds = [*(["period"] if days >= FEW_PERIODS else []), *(["unit"] if case.units else [])]
    tally = tally_of(case, slots=case.slots, chunk=case.chunk, times=case.times)
    a, b = (policy_of(side, tally) for side in sides)
    options: dict[str, Any] = {
        "estimator": fc.Weighted(model, clip, "1/k" if model == "pbm" else None),
        "metric": fc.Metric(measure.spelling),
        "missing": missing,
    }
    refusals = {kind for side in sides for kind in refused(side)}
    alone = case.units and len({row.unit for row in case.rows}) < 2
    if not kinds or (alone and not refusals and _seen_at_all(sides)):
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
    if not measure.first and not _unknown(case, case.rows, clip):
        joint = _assert_errors(case, bare, kinds, where)
        if joint is not None and joint[0, 0] > 1e-12 * bare["a", "production"]["value"] ** 2:
            # Where no record moves a candidate, nothing tells how much of what its cells hide it
            # shares with another: none, compare says.
            _assert_itself(_compared(tally, {"a": a, "again": a}, options), where)
    _assert_itself(bare, where)
    _assert_consistent(tally, a, b, options, where)
    return 2 * len(bare)


def _compared(tally: fc.Tally, candidates: dict[str, Policy], options: dict[str, Any]) -> Answer:
    rows = fc.compare(tally, candidates, **options).to_dicts()
    return {(row["candidate"], row["against"]): row for row in rows}


def _seen_at_all(sides: list[Case]) -> bool:
    """Whether a candidate has a value."""
    return any(
        expected(side, side.rows, side.models[0], side.measures[0], side.clips[0])["value"]
        is not None
        for side in sides
    )


def _assert_errors(case: Case, found: Answer, kinds: list[str], where: str) -> spread.Floats | None:
    """The standard errors of differences; their covariance, if all candidates have a value."""
    named = zip(NAMES, (case, rival(case), case), strict=True)
    seen = {n: side for n, side in named if found[n, "production"]["value"] is not None}
    if not seen:
        return None

    def covariance(sides: list[Case]) -> spread.Floats:
        theta = case.measures[0].theta
        return _joint(sides, case.rows, case.models[0], theta, case.clips[0], kinds)

    joint, last = covariance(list(seen.values())), len(seen)
    # Of periods and units, what is cut at 0 depends on who else is compared. A candidate never
    # differs from production by less than it does alone.
    more = [
        max(_of_difference(covariance([side]), 0, 1) - _of_difference(joint, i, last), 0.0)
        for i, side in enumerate(seen.values())
    ]
    for (i, one), (j, other) in itertools.combinations(enumerate([*seen, "production"]), 2):
        pair = one, other
        right = _of_difference(joint, i, j)
        size = float(joint[i, i] + joint[j, j])
        size += 0.1 * max(found[pair]["value"], found[pair]["other"]) ** 2
        within = 4e-12 * size + 1e-14 * float(np.trace(joint))
        if j == last:
            right += more[i]
        else:
            within += (math.sqrt(more[i]) + math.sqrt(more[j])) ** 2
        if not math.isclose(found[pair]["se"] ** 2, right, rel_tol=1e-7, abs_tol=within):
            raise Difference(f"se of {pair}, {where}: {found[pair]['se']} is not √{right}")
    return joint if len(seen) == len(NAMES) else None


def _of_difference(covariance: spread.Floats, i: int, j: int) -> float:
    """The variance of the difference of two."""
    return float(covariance[i, i] + covariance[j, j] - 2 * covariance[i, j])


def _assert_itself(found: Answer, where: str) -> None:
    """A candidate does not differ from itself."""
    same = found.get(("a", "again"))
    if same is None:
        return
    within = 1e-7 * found["a", "production"]["se"]  # two-way covariances are rounded
    if same["change"] or same["p"] != 1.0 or same["se"] > within:
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
    keywords = options | {"baseline": b, "logging": "frequency"}
    (other,) = fc.evaluate(tally, a, **keywords).to_dicts()
    for name, column in (
        ("value", "value"),
        ("other", "production"),
        ("change", "change"),
        ("low", "change_low"),
        ("high", "change_high"),
    ):
        _close(f"{column} of evaluate, {where}", other[column], row[name], within)


def _close(what: str, found: float | None, right: float | None, within: float = 0.0) -> None:
    if found is None or right is None:
        same = found is right
    else:
        same = math.isclose(found, right, rel_tol=1e-9, abs_tol=within)
    if not same:
        raise Difference(f"{what}: {found} is not {right}")
