"""What oracles say of a case, row by row, and whether the library says the same."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

import foreclick as fc
from foreclick.errors import (
    ForeclickError,
    ModelError,
    PolicyError,
)
from foreclick.estimation.estimates import Estimate, Estimates
from foreclick.estimators import parse_estimators
from foreclick.metrics import AnyMetric
from foreclick.question import Question
from foreclick.run.estimate import estimate
from tests.answers import clipped
from tests.cases.case import Case, Measure, Row
from tests.truth import firsts, oracle, parts, propensities, spread

T = TypeVar("T")

SAME = 1e-9
"""Sums of at most a few hundred terms, in another order; weights of up to 1e9."""


LEAST = 1e-300
"""Smaller numbers have fewer digits."""


Answer = Estimate | Mapping[str, Any]
"""What the library says: inside, or in a row of its result."""


class Difference(AssertionError):
    """The library and an oracle do not agree."""


def judge(case: Case) -> int:
    """How many rows of answers were compared; raises a `Difference`."""
    found = answered(refused(case), lambda: ask(case, case.asked.slots))
    if found is None:
        return 1
    rows = answers_of(found)
    expected = itertools.product(case.asked.bounded, case.asked.measures, strata_of(case))
    compared = 0
    for (model, clip), measure, land in expected:
        name = fc.Metric(measure.spelling).name
        _assert_row(case, rows.pop((model, name, clip, land), None), model, measure, clip, land)
        compared += 1
    if rows:
        raise Difference(f"rows that nobody asked for: {list(rows)}")
    assert_add_up(found)
    if case.seed % 4 == 0:
        assert_same_in_batches(case, found)
    return compared


# --- the library ----------------------------------------------------------------------------------


def ask(case: Case, slots: int) -> Estimates:
    """What the library says."""
    return estimate(case.tally(slots), question_of(case, metrics_of(case)))


def metrics_of(case: Case) -> tuple[fc.Metric, ...]:
    """The metrics of a case, each once."""
    return tuple(dict.fromkeys(fc.Metric(m.spelling) for m in case.asked.measures))


def question_of(case: Case, metrics: Sequence[AnyMetric]) -> Question:
    """The question of a case, about these metrics."""
    return Question(
        candidates=[case.policy],
        estimators=parse_estimators(clipped(case.asked.models, case.asked.clips)),
        metrics=metrics,
        missing=case.asked.missing,  # type: ignore[arg-type]
        loggings=[case.logging] * len(case.asked.models),
        by=("land",) if case.asked.by else (),
        clusters=(case.asked.clusters,) if case.asked.clusters else (),  # type: ignore[arg-type]
    )


def told(model: str) -> fc.Weighted:
    """A click model whose examination is 1/k, as the oracles have it: `pbm` would learn it."""
    return fc.Weighted(model, examination="1/k" if model == "pbm" else None)


def answers_of(found: Estimates, candidate: int = 0) -> dict[tuple[str, str, float, Any], Estimate]:
    """By estimator, metric, clip and segment; the whole is of the segment `...`."""
    whole = found.of_candidate(candidate, whole=True)
    rows: dict[Any, Estimate] = {(e.estimator, e.metric.name, e.clip, ...): e for e in whole}
    if found.question.by:
        rows |= {
            (e.estimator, e.metric.name, e.clip, e.stratum.segment["land"]): e
            for e in found.of_candidate(candidate)
        }
    return rows


def assert_add_up(found: Estimates) -> None:
    """Parts, weighted by records, add up to the whole."""
    if not found.strata.split:
        return
    for c in range(found.count):
        parts_of: dict[Any, list[Estimate]] = {}
        for e in found.of_candidate(c):
            parts_of.setdefault((e.estimator, e.metric, e.clip), []).append(e)
        for whole in found.of_candidate(c, whole=True):
            mine = parts_of[whole.estimator, whole.metric, whole.clip]
            n = sum(e.stratum.records for e in mine)
            if not math.isclose(n, whole.stratum.records, rel_tol=SAME):
                raise Difference(f"records of parts: {n} is not {whole.stratum.records}")
            if isinstance(whole.metric, fc.Ratio):
                continue
            (of,) = whole.parts
            worth = [e.parts[0].credit for e in mine]
            _assert_total("value", worth, of.credit)
            told = [e for e in mine if e.value is not None]
            if len(told) == len(mine):
                worth = [(e.value or 0.0) * e.stratum.records for e in mine]
                _assert_total("value", worth, (whole.value or 0.0) * n)
            made = [(e.production or 0.0) * e.stratum.records for e in mine]
            _assert_total("production", made, (whole.production or 0.0) * n)


def _assert_total(name: str, each: list[float], whole: float) -> None:
    size = sum(map(abs, each))
    if not math.isclose(sum(each), whole, rel_tol=SAME, abs_tol=1e-14 * size + LEAST):
        raise Difference(f"{name} of parts adds up to {sum(each)!r}, and the whole is {whole!r}")


def _number(estimate: Estimate, name: str) -> float | None:
    part = estimate.parts[0]
    own = {"exposure": part.exposure, "lost": part.coverage.lost}
    return own[name] if name in own else getattr(estimate, name)


def assert_same_in_batches(case: Case, found: Estimates) -> None:
    """However the log is dealt to batches, the answer is the same."""
    again = answers_of(ask(case, 4_000_000 if case.asked.slots == 1 else 1))
    for key, one in answers_of(found).items():
        two = again.pop(key)
        measure = next(m for m in case.asked.measures if fc.Metric(m.spelling) == one.metric)
        terms = expected_of(case, key[3], key[0], measure, key[2]).get("size", 0.0)
        for name in ("value", "production", "covered", "clipped", "ess", "exposure", "lost"):
            mine, theirs = (_number(e, name) for e in (one, two))
            within = SAME * (name in ("covered", "clipped")) + 1e-14 * terms * (name == "value")
            if not _alike(mine, theirs, within):
                raise Difference(
                    f"{name} of {one.estimator} depends on batches: {mine!r} and {theirs!r}"
                )
        if one.has_variance != two.has_variance:
            raise Difference(f"whether {one.estimator} has a spread depends on batches")
        if one.has_variance and not np.allclose(
            one.covariance,
            two.covariance,
            rtol=1e-7,
            atol=1e-13 * max(_square(one), terms**2),
        ):
            raise Difference(
                f"the covariance of {one.estimator} depends on batches: {one.covariance} and "
                f"{two.covariance}"
            )
    if again:
        raise Difference(f"rows depend on batches: {list(again)}")


def _alike(one: float | None, other: float | None, within: float) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=SAME, abs_tol=within)


def _square(found: Estimate) -> float:
    """A variance is a difference of squares, of which rounding leaves so much."""
    return max(abs(found.value or 0.0), abs(found.production or 0.0)) ** 2


# --- refusals -------------------------------------------------------------------------------------


def answered(refusals: Iterable[type[Exception]], ask: Callable[[], T]) -> T | None:
    """An answer; None where it was refused, as it should be."""
    right = set(refusals)
    try:
        found = ask()
    except ForeclickError as error:
        if type(error) not in right:
            raise Difference(f"refused without a reason: {error!r}") from error
        return None
    if right:
        raise Difference(f"not refused, but should be: {right}")
    return found


def refused(case: Case, whole: Case | None = None) -> Iterator[type[Exception]]:
    """The errors that the rules of the documentation ask for; `whole` has no contexts dropped."""
    logged, known = {row.context for row in case.rows}, set(case.candidate)
    unknown = case.asked.missing == "error" and logged - known
    if unknown or not logged & known or (case.asked.pi is not None and logged - set(case.asked.pi)):
        yield PolicyError
    items = {item for row in case.rows for item in row.items}
    lists = [set(a) for x, lists in (whole or case).candidate.items() if x in logged for a in lists]
    if any(lists) and not any(items & a for a in lists):
        yield PolicyError
    if case.asked.kind == "Marginals" and {"list", "prefix"} & set(case.asked.models):
        yield PolicyError
    for model in case.asked.models:
        if not _propensities_fit(case, model):
            yield ModelError
        unfit = (
            case.asked.logging
            or case.asked.kind == "Marginals"
            or any(map(math.isfinite, case.asked.clips))
        )
        if (
            unfit
            and model in firsts.SLOTS
            and any(measure.first for measure in case.asked.measures)
        ):
            yield ModelError


def _propensities_fit(case: Case, model: str) -> bool:
    if case.asked.logging != "propensity":
        return True
    if max(len(row.items) for row in case.rows) == 1:
        return model not in oracle.BLIND
    return model in (("list",) if case.roles["propensity"] == "chance" else ("ip", "prefix"))


# --- oracles --------------------------------------------------------------------------------------


def strata_of(case: Case) -> list[Any]:
    """The segments that answers are for; `...` is the whole."""
    return [*({row.land for row in case.rows} if case.asked.by else ()), ...]


def inside(rows: Sequence[Row], land: Any) -> list[bool]:  # noqa: ANN401
    """Which rows are of a segment."""
    return [land in (..., row.land) for row in rows]


def _assert_row(
    case: Case,
    found: Estimate | None,
    model: str,
    measure: Measure,
    clip: float,
    land: Any,  # noqa: ANN401
) -> None:
    where = f"{model}, {measure.spelling}, M={clip}, {land!r}"
    if found is None:
        raise Difference(f"no row for {where}")
    right = expected_of(case, land, model, measure, clip)
    for name, value in right.items():
        if name != "size":
            assert_close(name, found, value, right, where)
    size = max(_square(found), right.get("size", 0.0) ** 2)
    _assert_spread(case, found, model, measure, clip, land, where, 1e-13 * size)


def used_rows(case: Case, rows: list[Row]) -> list[Row]:
    """The rows that an answer uses."""
    return [
        row for row in rows if case.asked.missing == "production" or row.context in case.candidate
    ]


def _of(found: Answer, name: str) -> Any:  # noqa: ANN401
    if not isinstance(found, Estimate):
        return found[name]
    match name:
        case "contexts" | "records" | "missing_contexts":
            return getattr(found.stratum, name)
        case "change":
            return None if found.value is None else found.value - (found.production or 0.0)
    return getattr(found, name)


def assert_close(
    name: str,
    answer: Answer,
    right: Any,  # noqa: ANN401
    row: dict[str, Any],
    where: str,
) -> None:
    """One column of an answer is what an oracle says, given the whole row of it."""
    found = _of(answer, name)
    told = f"{name} of {where}: {found!r} is not {right!r}"
    if found is None or right is None:
        if found is not right:
            raise Difference(told)
        return
    size = {
        "change": max(abs(row.get("value") or 0), abs(row["production"] or 0)),
        "covered": 1.0,
        "clipped": 1.0,
    }
    # What the records of a part stand for is a difference of terms, which may be large.
    within = SAME * size.get(name, 0.0) + 1e-14 * row.get("size", 0.0) * (name == "value")
    if not math.isclose(found, right, rel_tol=SAME, abs_tol=within + LEAST):
        raise Difference(told)


def expected_of(
    case: Case,
    land: Any,  # noqa: ANN401
    model: str,
    measure: Measure,
    clip: float,
) -> dict[str, Any]:
    """What an oracle says of the whole answer, or of a segment of it."""
    if land is ...:
        return expected(case, case.rows, model, measure, clip)
    mine = [row for row in case.rows if row.land == land]
    absent = {row.context for row in mine} - set(case.candidate)
    found: dict[str, Any] = {"missing_contexts": len(absent)}
    used = used_rows(case, case.rows)
    part = [row.land == land for row in used]
    kept = used_rows(case, mine)
    if not kept:
        return found | {"value": None, "production": None, "records": 0}
    records = [row.record for row in used]
    if measure.first:
        records = firsts.only_first(records)
    own = [record for record, here in zip(records, part, strict=True) if here]
    found |= {
        "production": oracle.production(own, measure.theta),
        "records": sum(record.weight for record in own),
        "contexts": len({record.context for record in own}),
    }
    theta, known = measure.theta, case.candidate
    there = {record.context for record in own}
    if case.asked.logging == "propensity":
        given = _chances(case, used)
        # Where the candidate has no lists, a part is seen by what production showed in it.
        some = [
            record
            for record, here in zip(records, part, strict=True)
            if here or (record.context in there and record.context in known)
        ]
        seen = _covered(case, some, model, theta)
        each = parts.of_propensities(model, records, given, known, theta, clip)
    elif measure.first and model in firsts.SLOTS:
        some = [record for record in records if record.context in there]
        seen = firsts.evaluate(model, some, known, theta).covered > 0
        each = parts.of_hazards(model, records, known, theta)
    else:
        told = parts.evaluate(model, records, part, known, theta, clip, logging=case.asked.pi)
        found |= told
        seen = told["covered"] > 0
        each = parts.of_cells(model, records, known, theta, clip, logging=case.asked.pi)
    if not seen:
        return found | {"value": None}
    if clip == 1.0:  # rounding decides which weights are clipped, and so whose records they move
        return found
    worth = parts.mean(each, records, part)
    return found | {"value": worth.worth, "size": worth.size}


def expected(
    case: Case, rows: list[Row], model: str, measure: Measure, clip: float
) -> dict[str, Any]:
    """What an oracle says of one row of the answer."""
    records = [row.record for row in rows]
    if measure.first:
        records = firsts.only_first(records)
    absent = {r.context for r in records} - set(case.candidate)
    kept = [
        i
        for i, r in enumerate(records)
        if case.asked.missing == "production" or r.context not in absent
    ]
    if not kept:
        return {"value": None, "production": None, "records": 0, "missing_contexts": len(absent)}
    theta = measure.theta
    if case.asked.logging == "propensity":
        return _by_propensity(case, rows, records, kept, model, theta, clip)
    if measure.first and model in firsts.SLOTS:
        row = firsts.evaluate(model, records, case.candidate, theta, missing=case.asked.missing)
    else:
        options: dict[str, Any] = {"missing": case.asked.missing, "logging": case.asked.pi}
        row = oracle.evaluate(model, records, case.candidate, theta, clip, **options)
    right = row._asdict()
    del right["lift"]
    return right


def _by_propensity(
    case: Case,
    rows: list[Row],
    records: list[oracle.Record],
    kept: list[int],
    model: str,
    theta: tuple[float, ...],
    clip: float,
) -> dict[str, Any]:
    """Every record weighed by its own propensity."""
    used = [records[i] for i in kept]
    chances = _chances(case, [rows[i] for i in kept])
    value: float | None = propensities.value(model, used, chances, case.candidate, theta, clip)
    if not _covered(case, used, model, theta):
        value = None
    right = {
        "value": value,
        "production": oracle.production(used, theta),
        "records": sum(r.weight for r in used),
    }
    if model in ("list", "prefix", "ip"):
        both = propensities.shares(model, used, chances, case.candidate, theta, clip)
        right |= dict(zip(("covered", "clipped"), both, strict=True))
    return right


def _chances(case: Case, rows: list[Row]) -> list[tuple[float, ...]]:
    """The propensities of the slots of each row."""
    listed = case.roles["propensity"] == "chance"
    return [(row.chance,) * len(row.items) if listed else row.chances for row in rows]


def _covered(
    case: Case, records: list[oracle.Record], model: str, theta: tuple[float, ...]
) -> bool:
    """Whether the log has any cell of the candidate."""
    return any(
        record.context not in case.candidate
        or propensities.over(model, case.candidate[record.context], record.items, k, theta) > 0
        for record in records
        for k in range(1, len(record.items) + 1)
        if oracle.at(theta, k) > 0
    )


def _assert_spread(
    case: Case,
    found: Estimate,
    model: str,
    measure: Measure,
    clip: float,
    land: Any,  # noqa: ANN401
    where: str,
    within: float,
) -> None:
    """The covariance, where an oracle knows it and no weight stands at the edge of the clip."""
    used = used_rows(case, case.rows)
    part = inside(used, land)
    mine = [row for row, here in zip(used, part, strict=True) if here]
    periods = len({row.day for row in mine})
    lone = case.asked.clusters == "period" and periods < 2
    if found.has_variance != (
        case.asked.clusters is not None and found.value is not None and not lone
    ):
        raise Difference(f"{where} {'has' if found.has_variance else 'has no'} spread")
    if not found.has_variance or not spread_known(case, measure, model, clip):
        return
    if sum(row.times for row in mine) <= 2:
        return
    records = [row.record for row in used]
    right = spread.covariance(
        model,
        firsts.only_first(records) if measure.first else records,
        case.candidate,
        measure.theta,
        clip,
        clusters=[row.day for row in used] if case.asked.clusters == "period" else None,
        logging=case.asked.pi,
        missing=case.asked.missing,
        part=None if land is ... else part,
    )
    # A part is the difference of sums over the log, so its moves lose digits of the largest reward.
    most = max(measure.theta) * max(click for record in records for click in record.clicks)
    within += 1e-15 * most * math.sqrt(float(np.abs(right).max()))
    if not np.allclose(found.covariance, right, rtol=1e-7, atol=within):
        raise Difference(f"covariance of {where}: {found.covariance} is not {right}")


def spread_known(case: Case, measure: Measure, model: str, clip: float) -> bool:
    """Whether the oracle of spreads knows: not samples, hazards, or weights that rounding clips."""
    if case.asked.kind == "Observed" or clip == 1.0 or case.asked.logging == "propensity":
        return False
    return not (measure.first and model in firsts.SLOTS)
