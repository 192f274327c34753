"""What oracles say of a case, row by row, and whether the library says the same."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

import foreclick as fc
from foreclick.errors import (
    ForeclickError,
    ModelError,
    PolicyError,
)
from foreclick.estimators import AnySums, Question, estimate, parse_estimators
from foreclick.estimators.sums import Sums
from foreclick.metrics import AnyMetric
from tests.fuzz.arrays import lists_of, policy_of, tally_of
from tests.fuzz.draws import Case, Measure, Row
from tests.truth import firsts, oracle, propensities, spread

T = TypeVar("T")

SAME = 1e-9
"""Sums of at most a few hundred terms, in another order; weights of up to 1e9."""


class Difference(AssertionError):
    """The library and an oracle do not agree."""


def judge(case: Case) -> int:
    """How many rows of answers were compared; raises a `Difference`."""
    found = answered(refused(case), lambda: ask(case, case.slots, case.chunk, case.times))
    if found is None:
        return 1
    rows = {
        (s.estimator, s.metric.name, s.clip, s.stratum.segment.get("land", ...)): s for s in found
    }
    expected = itertools.product(case.models, case.measures, case.clips, strata_of(case))
    compared = 0
    for model, measure, clip, land in expected:
        name = fc.Metric(measure.spelling).name
        _assert_row(case, rows.pop((model, name, clip, land), None), model, measure, clip, land)
        compared += 1
    if rows:
        raise Difference(f"rows that nobody asked for: {list(rows)}")
    if case.seed % 4 == 0:
        assert_same_bits(case, found)
    return compared


# --- the library ----------------------------------------------------------------------------------


def ask(case: Case, slots: int, chunk: int, times: int) -> list[Sums]:
    """What the library says."""
    tally = tally_of(case, slots=slots, chunk=chunk, times=times)
    metrics = tuple(dict.fromkeys(fc.Metric(m.spelling) for m in case.measures))
    return estimate(tally, question_of(case, tally, metrics)).sums  # type: ignore[return-value]


def question_of(case: Case, tally: fc.Tally, metrics: Sequence[AnyMetric]) -> Question:
    """The question of a case, about these metrics."""
    logging: Any = case.logging
    if case.pi is not None:
        logging = lists_of(fc.Lists, case.pi, tally)
    return Question(
        candidate=policy_of(case, tally),
        estimators=parse_estimators(case.models, case.clips),
        metrics=metrics,
        missing=case.missing,  # type: ignore[arg-type]
        logging=logging,
        by=("land",) if case.by else (),
        clusters=(case.clusters,) if case.clusters else (),  # type: ignore[arg-type]
    )


def assert_same_bits(case: Case, found: list[Sums]) -> None:
    """However the log is dealt to batches and files, the answer is the same to the last bit."""
    whole = all(float(8 * row.weight).is_integer() for row in case.rows)
    other = ask(case, 4_000_000 if case.slots == 1 else 1, 2, 3 if whole else case.times)
    for one, two in zip(found, other, strict=True):
        for name in ("value", "production", "covered", "clipped", "ess", "exposure", "lost"):
            if getattr(one, name) != getattr(two, name):
                raise Difference(
                    f"{name} of {one.estimator} depends on batches: {getattr(one, name)!r} and "
                    f"{getattr(two, name)!r}"
                )
        both = [s.spread.covariance for s in (one, two) if s.spread is not None]
        if both and not np.array_equal(both[0], both[-1], equal_nan=True):
            raise Difference(f"the covariance of {one.estimator} depends on batches")


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


def refused(case: Case) -> Iterator[type[Exception]]:
    """The errors that the rules of the documentation ask for."""
    logged, known = {row.context for row in case.rows}, set(case.candidate)
    unknown = case.missing == "error" and logged - known
    if unknown or not logged & known or (case.pi is not None and logged - set(case.pi)):
        yield PolicyError
    if case.kind == "Marginals" and {"list", "prefix"} & set(case.models):
        yield PolicyError
    for model in case.models:
        if not _propensities_fit(case, model):
            yield ModelError
        if model in firsts.SLOTS and any(measure.first for measure in case.measures):
            whole = case.kind != "Marginals"
            if case.logging or not whole or any(map(math.isfinite, case.clips)):
                yield ModelError


def _propensities_fit(case: Case, model: str) -> bool:
    if case.logging != "propensity":
        return True
    if max(len(row.items) for row in case.rows) == 1:
        return model not in oracle.BLIND
    return model in (("list",) if case.propensity == "list" else ("ip", "prefix"))


# --- oracles --------------------------------------------------------------------------------------


def strata_of(case: Case) -> list[Any]:
    """The segments that answers are for."""
    return list({row.land for row in case.rows}) if case.by else [...]


def _assert_row(
    case: Case,
    found: Sums | None,
    model: str,
    measure: Measure,
    clip: float,
    land: Any,  # noqa: ANN401
) -> None:
    where = f"{model}, {measure.spelling}, M={clip}, {land!r}"
    if found is None:
        raise Difference(f"no row for {where}")
    rows = [row for row in case.rows if land in (..., row.land)]
    right = expected(case, rows, model, measure, clip)
    for name, value in right.items():
        assert_close(name, found, value, right, where)
    _assert_spread(case, found, rows, model, measure, clip, where)


def used_rows(case: Case, rows: list[Row]) -> list[Row]:
    """The rows that an answer uses."""
    return [row for row in rows if case.missing == "production" or row.context in case.candidate]


def _of(found: AnySums, name: str) -> Any:  # noqa: ANN401
    match name:
        case "covered" | "clipped":
            return getattr(found, f"{name}_share")
        case "contexts" | "records" | "missing_contexts":
            return getattr(found.stratum, name)
        case "change":
            return None if found.value is None else found.value - (found.production or 0.0)
    return getattr(found, name)


def assert_close(
    name: str,
    answer: AnySums,
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
    if not math.isclose(found, right, rel_tol=SAME, abs_tol=SAME * size.get(name, 0.0)):
        raise Difference(told)


def expected(
    case: Case, rows: list[Row], model: str, measure: Measure, clip: float
) -> dict[str, Any]:
    """What an oracle says of one row of the answer."""
    records = [row.record for row in rows]
    if measure.first:
        records = firsts.only_first(records)
    absent = {r.context for r in records} - set(case.candidate)
    kept = [
        i for i, r in enumerate(records) if case.missing == "production" or r.context not in absent
    ]
    if not kept:
        return {"value": None, "production": None, "records": 0, "missing_contexts": len(absent)}
    theta = measure.theta
    if case.logging == "propensity":
        return _by_propensity(case, rows, records, kept, model, theta, clip)
    if measure.first and model in firsts.SLOTS:
        row = firsts.evaluate(model, records, case.candidate, theta, missing=case.missing)
    else:
        options: dict[str, Any] = {"missing": case.missing, "logging": case.pi}
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
    listed = case.propensity == "list"
    chances = [(rows[i].chance,) * len(rows[i].items) if listed else rows[i].chances for i in kept]
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
    found: Sums,
    rows: list[Row],
    model: str,
    measure: Measure,
    clip: float,
    where: str,
) -> None:
    """The covariance, where an oracle knows it and no weight stands at the edge of the clip."""
    if found.spread is None or measure.first or case.logging == "propensity":
        return
    if clip == 1.0 or case.kind == "Observed":
        return
    used = used_rows(case, rows)
    periods = len({row.day for row in used})
    if sum(row.weight for row in used) <= 2 or (case.clusters == "period" and periods < 2):
        return
    right = spread.covariance(
        model,
        [row.record for row in used],
        case.candidate,
        measure.theta,
        clip,
        clusters=[row.day for row in used] if case.clusters == "period" else None,
        logging=case.pi,
        missing=case.missing,
    )
    # A variance is a difference of squares, of which rounding leaves so much.
    size = max(found.value or 0.0, found.production or 0.0) ** 2
    if not np.allclose(found.spread.covariance, right, rtol=1e-7, atol=1e-13 * size):
        raise Difference(f"covariance of {where}: {found.spread.covariance} is not {right}")
