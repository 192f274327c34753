"""Down to which position lists are compared: no candidate loses by positions that its file lacks.

A candidate whose lists end at position 3, beside production's of 10, may be the top of longer
lists. By ``dcg@10`` it would lose what nobody has asked it for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from foreclick.engines import Table, Value
from foreclick.errors import MetricError
from foreclick.logs import CONTEXT, ITEM, N, numbered
from foreclick.metrics import AnyMetric, Metric
from foreclick.policies import LogView, Observed, Policy
from foreclick.tallies import Tally
from foreclick.words import listed, number_of


def compared_down(
    tally: Tally,
    policies: Mapping[str, Policy],
    metrics: Sequence[AnyMetric],
    usual: Sequence[str],
    guardrails: Sequence[AnyMetric] = (),
) -> tuple[tuple[AnyMetric, ...], str]:
    """The metrics, the usual ones no deeper than the lists of all; and a sentence if that is less.

    Metrics that a user chose are refused where they are deeper than lists that end before
    production's. A log's own lists are what they are (`Observed`).

    Args:
        tally: of the log.
        policies: what is compared with production, by what a sentence calls it.
        metrics: what is counted.
        usual: the names of the metrics that nobody chose.
        guardrails: further metrics, which somebody chose.
    """
    chosen = (*guardrails, *([] if [m.name for m in metrics] == list(usual) else metrics))
    deepest, cut = min(max(map(_depth, (*metrics, *guardrails))), tally.shape.depth), {}
    for name, policy in policies.items():
        if isinstance(policy, Observed) or policy.reaches(deepest):
            continue
        end = policy.longest_in(_view(tally.stored, 1)[0])
        if end < deepest and (going_on := _going_on(tally, policy, int(end))).num_rows:
            cut[name] = int(end), going_on
    if not cut:
        return tuple(metrics), ""
    for name, (position, going_on) in cut.items():
        # `Marginals` have no nulls to say that nothing is to be shown: they are as they are.
        if policies[name].complete and any(_depth(metric) > position for metric in chosen):
            raise MetricError(_refusal(tally, name, position, going_on, chosen))
    if len(chosen) == len(metrics) + len(guardrails):
        return tuple(metrics), ""
    end = min(position for position, _ in cut.values())
    shorter = (f"{m.name.partition('@')[0]}@{min(_depth(m), end)}" for m in metrics)
    ends = listed([f"{name} at position {position}" for name, (position, _) in cut.items()])
    return tuple(dict.fromkeys(map(Metric, shorter))), (
        f"Lists are compared down to position {end}: those of {ends} end there, and production's "
        "go on."
    )


def _depth(metric: AnyMetric) -> int:
    """The last position at which a metric counts what is earned, and not what is shown."""
    return max((part.depth for part in metric.parts if not part.shown), default=0)


def _view(rows: Table, end: int) -> tuple[LogView, pa.Table]:
    """The contexts of some rows, for a policy, and their records."""
    say, item = rows.engine.say, numbered(ITEM, end)[-1]
    least = Value(f"min({say.column(item)})", rows.kinds.field(item).type)
    found = rows.grouped(rows.own([CONTEXT]), {N: rows.total(N), ITEM: least}).to_pyarrow()
    found = found.sort_by(CONTEXT)
    contexts, items = (
        pa.concat_arrays([pa.array([], column.type), *column.chunks])
        for column in (found[CONTEXT], found[ITEM][:1])
    )
    return LogView(contexts, items, end), found


def _going_on(tally: Tally, policy: Policy, end: int) -> pa.Table:
    """The contexts that a policy knows and that production showed more in, and their records."""
    deeper = tally.engine.say.column(tally.shape.items[end])
    view, found = _view(tally.stored.where(f"{deeper} IS NOT NULL"), end)
    return found.filter(pa.array(policy.known(view)))


def _refusal(
    tally: Tally, name: str, end: int, going_on: pa.Table, chosen: Sequence[AnyMetric]
) -> str:
    """Which metrics go below the last position of a candidate, where, and what to ask instead."""
    records = np.asarray(going_on[N], dtype=np.float64)
    share = records.sum() / float(tally.counts()["records"])
    example: Any = going_on[CONTEXT][int(records.argmax())].as_py()
    deep = [metric for metric in chosen if _depth(metric) > end]
    shorter = [f"'{m.name.partition('@')[0]}@{end}'" for m in deep if isinstance(m, Metric)]
    ask = shorter[0] if shorter and "[" not in shorter[0] else "a metric of these positions"
    return (
        f"{listed([m.name for m in deep])} would count nothing of {name} below position {end}, "
        f"where its lists end. Production's go on in {number_of(going_on.num_rows, 'context')} "
        f"({share:.0%} of the records), for example {example!r}. Ask for {ask}, or give whole "
        f"lists. If no more than {end} are to be shown, say so by lists of {tally.shape.depth} "
        f"positions that are null below {end}."
    )
