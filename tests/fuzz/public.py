"""The same cases through the public API: a table that is read, policies that are given, rows."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa

import foreclick as fc
from tests import drawn
from tests.answers import clipped
from tests.fuzz.draws import Case
from tests.fuzz.judge import (
    Difference,
    answered,
    assert_close,
    expected_of,
    refused,
    spread_known,
    strata_of,
    told,
    used_rows,
)
from tests.truth import firsts, spread


def judge_public(case: Case) -> int:
    """How many rows of `evaluate` were compared with oracles."""
    metrics = list(dict.fromkeys(fc.Metric(m.spelling) for m in case.measures))
    logging: Any = case.logging
    if case.pi is not None:
        logging = fc.Lists(drawn.lists_table(case.pi))
    found = answered(
        refused(case),
        lambda: fc.evaluate(
            read(case),
            policy_of(case),
            estimators=clipped([told(model) for model in case.models], list(case.clips)),
            metrics=metrics,
            missing=case.missing,  # type: ignore[arg-type]
            logging=logging,
            by="land" if case.by else None,
            confidence=fc.Confidence(clusters="record") if case.clusters else None,
        ),
    )
    if found is None:
        return 1
    rows: dict[Any, Any] = {}
    for number, row in enumerate([*found, *found.whole]):
        land = row["land"] if case.by and number < len(found) else ...
        rows[row["estimator"], row["metric"], row["clip"], land] = row
    asked = list(itertools.product(case.models, case.measures, case.clips, strata_of(case)))
    for model, measure, clip, land in asked:
        where = f"{model}, {measure.spelling}, M={clip}, {land!r}"
        row = rows[model, fc.Metric(measure.spelling).name, clip, land]
        right = expected_of(case, land, model, measure, clip)
        for name, value in right.items():
            if name != "size":
                assert_close(name, row, value, right, where)
        lift = row["change"] / row["production"] if row["change"] and row["production"] else None
        if lift is not None and abs(lift) > 1e-9 and not np.isclose(row["lift"], lift, rtol=1e-9):
            raise Difference(f"lift of {where}: {row['lift']} is not {lift}")
        used = used_rows(case, case.rows)
        plain = all(r.weight <= 10 and max(r.clicks) <= 3 for r in used)
        known = plain and spread_known(case, measure, model, clip) and land is ...
        if known and case.clusters and row["se"] is not None and sum(r.weight for r in used) > 2:
            records = [r.record for r in used]
            records = firsts.only_first(records) if measure.first else records
            options: dict[str, Any] = {"logging": case.pi, "missing": case.missing}
            covariance = spread.covariance(
                model, records, case.candidate, measure.theta, clip, **options
            )
            variance = max(covariance[0, 0], 0.0)  # what small cells hide may be less than 0
            size = max(abs(row["value"]), abs(row["production"])) ** 2
            if not np.isclose(row["se"] ** 2, variance, rtol=1e-7, atol=1e-13 * max(size, 1.0)):
                raise Difference(f"se of {where}: {row['se']} is not √{variance}")
    return len(asked)


def read(case: Case) -> fc.Log:
    """The log as a user gives it."""
    columns: dict[str, Any] = {
        "weight": [row.weight for row in case.rows],
        "day": [row.day for row in case.rows],
        "land": pa.array([row.land for row in case.rows], pa.string()),
        "list": [row.chance for row in case.rows],
        "slot": [list(row.chances[: len(row.items)]) for row in case.rows],
    }
    return fc.read_log(
        drawn.log_table(case.records, **columns),
        count="weight",
        period="day",
        segments=("land",),
        propensity=case.propensity if case.logging == "propensity" else None,
    )


def policy_of(case: Case) -> Any:  # noqa: ANN401 - a policy
    """The candidate as a user gives it."""
    lists = drawn.lists_table(case.candidate)
    match case.kind:
        case "Marginals":
            return fc.Marginals(drawn.marginals_table(case.candidate))
        case "Ranking":
            return fc.Ranking(lists.drop_columns("probability"))
        case "Observed":
            return fc.Observed(fc.read_log(lists, count="probability", clicks=None))
        case _:
            return fc.Lists(lists)
