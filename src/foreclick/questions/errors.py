"""What the interval of a lift consists of: sampling errors, model errors, what was never seen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from foreclick.estimation.breakdown import variance_by_source
from foreclick.estimation.sources import KINDS, MARGIN
from foreclick.questions.intervals import Pair
from foreclick.results import Result, Value

COLUMNS = ("kind", "source", "lift_se", "share", "less", "more")


def error_rows(pair: Pair, row: Mapping[str, Any]) -> list[dict[str, Value]]:
    """A row for each source of error of a lift; none where it has no interval.

    Args:
        pair: an estimate, and what it is compared with.
        row: the row of the answer that they have.
    """
    one, other = pair.estimate, pair.production
    if row.get("lift_low") is None or one.value is None or not other:
        return []
    names = {name: row[name] for name in ("metric", "clip", *one.stratum.segment)}
    slopes = np.array([1.0, -one.value / other]) / other
    variances = variance_by_source(one, pair.baseline, slopes)
    total = sum(variances.values())
    rows: list[dict[str, Value]] = [
        {**names, "kind": KINDS[source], "source": source, "lift_se": math.sqrt(variance)}
        | {"share": variance / total, "less": 0.0, "more": 0.0}
        for source, variance in variances.items()
    ]
    unseen = pair.unseen()
    margin = {
        "lift_se": 0.0,
        "share": 0.0,
        "less": unseen.less / other,
        "more": unseen.more / other,
    }
    return [*rows, {**names, "kind": KINDS[MARGIN], "source": MARGIN, **margin}]


class Errors(Result):
    """What the intervals of lifts consist of, see `Evaluation.errors`."""

    _idle: ClassVar[Mapping[str, Value]] = {"clip": math.inf, "less": 0.0, "more": 0.0}


def errors_table(rows: Sequence[Mapping[str, Value]]) -> Errors:
    """The table of these rows; a note where there are none."""
    if not rows:
        note = "Without an interval of a lift there is nothing to take apart."
        return Errors((), COLUMNS, (note,))
    return Errors(tuple(rows), tuple(rows[0]), title="What the interval of the lift consists of")
