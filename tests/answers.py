"""What tests share: small logs, one answer at a time, and the oracle's opinion of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import foreclick as fc
from tests.cases import tables
from tests.truth import oracle
from tests.truth.oracle import Policy, Record

# The engine and the oracle add a few dozen terms of size 1 to 100 in another order.
SAME = 1e-12

# `pytest.warns` hands on what it did not wait for, without the module that pyproject exempts.
IBIS = "ignore:fetch_(arrow_table|record_batch):DeprecationWarning"


def repeated(*lists: tuple[Any, ...], times: int = 3, context: Any = "q") -> list[Record]:  # noqa: ANN401
    """Records of one context, each (items, clicks) several times."""
    return [Record(context, items, clicks) for items, clicks in lists for _ in range(times)]


def log_of(records: Iterable[Record]) -> fc.Log:
    """The records as the library reads them."""
    return fc.read_log(tables.log_table(records))


def answer(
    log: Any,  # noqa: ANN401 - anything evaluate accepts
    candidate: Any,  # noqa: ANN401
    estimator: Any = "ip",  # noqa: ANN401
    metric: Any = "clicks@2",  # noqa: ANN401
    **options: Any,  # noqa: ANN401
) -> dict[str, Any]:
    """The one row of an evaluation."""
    found = fc.evaluate(
        log, candidate, estimators=[estimator], metrics=[metric], **({"confidence": None} | options)
    )
    (row,) = settled(found)
    return row


def clipped(estimators: Any, clip: Any) -> Any:  # noqa: ANN401
    """Estimators whose weights are bounded by M, but for those with an M of their own or none."""
    if estimators == "all":
        estimators = ["ladder", "list", "prefix", "ip", "item", "pbm", "rctr"]
    listed = estimators if isinstance(estimators, list | tuple) else [estimators]
    clip = list(clip) if isinstance(clip, tuple) else clip
    found = []
    for each in listed:
        model = each.model if isinstance(each, fc.Weighted) and each.clip is None else each
        none = isinstance(model, fc.Ladder | fc.Weighted) or str(model).startswith("ladder")
        none = none or str(model) in oracle.BLIND
        found.append(each if none else fc.Weighted(model, clip))
    return found if listed is estimators else found[0]


def settled(evaluation: fc.Evaluation) -> list[dict[str, Any]]:
    """The rows, floats to 13 digits, so that those of two calls can be compared with ==."""
    return [
        {name: float(f"{v:.12e}") if isinstance(v, float) else v for name, v in row.items()}
        for row in evaluation.to_dicts()
    ]


def same(one: dict[str, Any], other: dict[str, Any], within: float = 1e-9) -> bool:
    """Whether two rows are the same, but for rounding."""
    both = [(one[name], other[name]) for name in one]
    return one.keys() == other.keys() and all(
        close(a, b, within) if isinstance(a, float) and isinstance(b, float) else a == b
        for a, b in both
    )


def theta_of(metric: str) -> tuple[float, ...]:
    """θ of a spelling, as the oracle has it."""
    kind, depth = metric.split("@")
    return {"clicks": oracle.clicks_at, "dcg": oracle.dcg_at}[kind](int(depth))


def assert_as_oracle(
    evaluation: fc.Evaluation,
    records: Sequence[Record],
    candidate: Policy,
    **options: Any,  # noqa: ANN401 - of oracle.evaluate
) -> None:
    """Every row says what the oracle says, in every column the oracle knows."""
    assert len(evaluation) > 0
    for row in evaluation.to_dicts():
        model, metric, clip = str(row["estimator"]), str(row["metric"]), float(row["clip"] or 0)
        theta = theta_of(metric)
        expected = oracle.evaluate(model, records, candidate, theta, clip, **options)
        for column, right in expected._asdict().items():
            told = f"{column} of {model}, {metric}, M={clip}: {row[column]} is not {right}"
            assert close(row[column], right), told


def close(found: Any, right: float | None, tolerance: float = SAME) -> bool:  # noqa: ANN401
    """Equal up to rounding; None only equals None."""
    if found is None or right is None:
        return found is right
    return math.isclose(found, right, rel_tol=tolerance, abs_tol=tolerance)
