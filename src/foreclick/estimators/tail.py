"""The largest weights, for what they say about those that are larger still."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import ibis
import ibis.expr.types as ir
import numpy as np

from foreclick._tally import Tally
from foreclick.engines import real
from foreclick.estimators.cells import Ask
from foreclick.estimators.kernel import weigh
from foreclick.estimators.prepared import Prepared, per
from foreclick.estimators.question import Question, Stratum, check_question
from foreclick.logs import N
from foreclick.metrics import Metric
from foreclick.models import ClickModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MOST = 10_000
"""Cells that are fetched; 3 √n of n records, the tail to look at, is below it up to 10 million."""


@dataclass(frozen=True)
class Tail:
    """The largest weights of one (estimator, metric) in one stratum, before they are clipped.

    Attributes:
        weights: by cell, falling.
        counts: how many logged slots (lists, for `list`) have each.
        shown: how many there are of all weights above 0.
    """

    model: ClickModel
    metric: Metric
    stratum: Stratum
    weights: Floats
    counts: Floats
    shown: float


def tails(tally: Tally, question: Question) -> list[Tail]:
    """The largest weights, in the order of `estimate`; the clip does not matter."""
    check_question(tally.shape, question)
    with tally.engine.scratch() as keep:
        log = Prepared(tally, question, keep)
        strata = log.strata()
        found: list[Tail] = []
        for estimator in question.estimators:
            asks = [Ask(estimator.model, metric, (math.inf,)) for metric in question.metrics]
            for ask in asks:
                rows = keep(_weights(log, ask), "weights")
                found += _fetched(log, rows, ask, strata)
        return found


def _weights(log: Prepared, ask: Ask) -> ir.Table:
    """(by, weight, n) of the cells that were logged and that the candidate shows."""
    _, rows = weigh(log, [ask])
    rows = rows.filter((rows[N] > 0) & (rows["ratio_0"] > 0))
    return rows.select(*log.by, weight=rows["ratio_0"], n=rows[N].cast("float64"))


def _fetched(log: Prepared, rows: ir.Table, ask: Ask, strata: list[Stratum]) -> list[Tail]:
    falling = ibis.window(group_by=log.by, order_by=rows["weight"].desc())
    ranked = rows.mutate(rank=ibis.row_number().over(falling))
    top = log.engine.fetch(ranked.filter(ranked["rank"] < MOST).drop("rank"))
    sums = per(rows, log.by).aggregate(shown=rows["n"].sum().fill_null(real(0)))
    shown = {tuple(row[b] for b in log.by): row["shown"] for row in log.engine.rows(sums)}
    weights, counts = (top[c].to_numpy().astype(np.float64) for c in ("weight", "n"))
    codes = list(zip(*(top[b].to_pylist() for b in log.by), strict=True)) if log.by else []
    found = []
    for stratum in strata:
        mine = np.array([code == stratum.code for code in codes], dtype=bool)
        mine = mine if log.by else np.ones(len(weights), dtype=bool)
        order = np.argsort(-weights[mine], kind="stable")
        found.append(
            Tail(
                ask.model,
                ask.metric,
                stratum,
                weights[mine][order],
                counts[mine][order],
                float(shown.get(stratum.code, 0.0)),
            )
        )
    return found
