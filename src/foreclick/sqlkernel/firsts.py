"""First clicks: rewards that follow from those of the log, row by row of its tally.

A row of a tally holds the whole pattern of clicks, so nothing is lost. With k₁ the position of the
first click, two rewards follow at every position k:

    first: 1{k = k₁}          at risk: 1{something is shown at k, and k ≤ k₁}

At least one click, and the reciprocal rank of the first, are sums of first clicks: from here on
they are metrics as any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import ibis
import ibis.expr.types as ir

from foreclick._tally import Tally
from foreclick.engines import whole
from foreclick.logs import ITEM
from foreclick.metrics import Metric

_AT = "__at"


def with_firsts(tally: Tally, metrics: Sequence[Metric]) -> Tally:
    """The tally with the rewards that such metrics weigh, beside its own; the same log."""
    derived = {metric.source: metric for metric in metrics if metric.first}
    for metric in derived.values():
        tally = _with_first(tally, metric)
    return tally


def _with_first(tally: Tally, metric: Metric) -> Tally:
    shape, table = tally.shape, tally.table
    clicked = [table[c].fill_null(0) > 0 for c in shape.reward(metric.source)]
    places = [(there, whole(k)) for k, there in enumerate(clicked, start=1)]
    nowhere = whole(shape.depth + 1)
    placed = table.mutate(**{_AT: ibis.cases(*places, else_=nowhere)})
    columns: dict[str, ir.Value] = {}
    for k in range(1, shape.depth + 1):
        at, here = placed[_AT], whole(k)
        shown = placed[f"{ITEM}_{k}"].notnull()
        columns[f"{metric.reward}_{k}"] = (at == here).ifelse(whole(1), whole(0))
        columns[f"{metric.at_risk}_{k}"] = (shown & (at >= here)).ifelse(whole(1), whole(0))
    return replace(
        tally,
        shape=replace(shape, rewards=(*shape.rewards, metric.reward, metric.at_risk)),
        table=placed.mutate(**columns).drop(_AT),
        brought=table if tally.brought is None else tally.brought,
    )
