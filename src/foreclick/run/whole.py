"""Answers of a log whose contexts were drawn, brought to the sums of all its records.

What production shows and earns is known of all records, F, and of those that were drawn, F_w. A
column that comes to V_w among these is

    V = V_w + R (F − F_w),        R = V_w / F_w of the whole answer,

the regression estimator of survey sampling: production is exact, the lift of the whole is
V_w / F_w − 1, and parts add up. Its error by the drawing is Σ (1 − π) w² (V_x − R F_x)². How
records vary by days and users, the records drawn tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from foreclick.batches import Batches, Floats, Ints, ratio
from foreclick.estimation.parts import Strata
from foreclick.estimation.slots import group_sums
from foreclick.estimation.sums import GroupSums, LogSums, RecordSums, along
from foreclick.logs import N
from foreclick.logs.drawing import RISK
from foreclick.logs.roles import numbered
from foreclick.metrics import SHOWN
from foreclick.question import Question


def of_all_records(found: LogSums, batches: Batches, question: Question, strata: Strata) -> LogSums:
    """The sums, brought to those of all records where they are known.

    They are not known by context, so not of parts that are contexts, nor of a log without those
    that a candidate has no list for.
    """
    totals = batches.tally.totals
    dropped = question.missing == "drop" and any(each.count for each in found.unlisted)
    if totals is None or strata.contexts is not None or dropped:
        return found
    records = _Totals(totals, batches, strata).records(question, found.all)
    drawn = _credits(question, found.all)
    missing, produced = _credits(question, records) - drawn, len(question.parts) + 1
    groups, slopes = [], [np.zeros((produced, produced))]
    for targets, group in zip(question.groups, found.groups, strict=True):
        metric = np.repeat(
            [question.parts.index(target.metric) for target in targets], len(question.candidates)
        )
        slope = ratio(group.value[-1], drawn[-1, metric])
        groups.append(replace(group, value=group.value + missing[:, metric] * slope))
        slopes.append(_slopes(group, metric, slope, produced))
    of_drawing = found.drawing
    if of_drawing is not None:
        residual = np.eye(of_drawing.shape[1])
        residual[:, :produced] = -np.concatenate(slopes)
        of_drawing = residual @ of_drawing @ residual.T
    return replace(found, all=records, groups=tuple(groups), drawing=of_drawing)


def _slopes(group: GroupSums, metric: Ints, slope: Floats, produced: int) -> Floats:
    """Shape (E + N, metrics + 1): R of each column on production's of its metric."""
    width = len(slope) + (0 if group.errors is None else len(group.errors.coefficients))
    found = np.zeros((width, produced))
    found[np.arange(len(slope)), metric] = slope
    return found


def _credits(question: Question, of: RecordSums) -> Floats:
    """Shape (S, metrics): what production earned."""
    columns = [
        [along(metric.theta, own) for own in of.rewards[metric]] for metric in question.parts
    ]
    return np.array(columns).T


@dataclass(frozen=True)
class _Totals:
    """The sums of all records, for the parts of an answer."""

    table: pa.Table
    batches: Batches
    strata: Strata

    def _over(self, names: Sequence[str]) -> Floats:
        """Shape (S, K): sums of columns; 0 of a position that the log does not have."""
        zeros, there = np.zeros(self.table.num_rows), set(self.table.column_names)
        values = np.stack([self.table[c].to_numpy() if c in there else zeros for c in names])
        part: Ints = np.zeros(self.table.num_rows, dtype=np.int64)
        for name, code in zip(self.strata.by, self.strata.codes, strict=True):
            part = part * len(code) + code.number(self.table[name])
        found = group_sums(part, values, self.strata.count - self.strata.split).T
        return np.concatenate([found, found.sum(axis=0)[None]]) if self.strata.split else found

    def records(self, question: Question, drawn: RecordSums) -> RecordSums:
        """What all records show and earn."""
        k = self.batches.shape.depth
        n = self._over([N])[:, 0]
        return RecordSums(
            n,
            drawn.contexts,
            self._over(numbered(SHOWN, k)),
            {metric: self._over(numbered(metric.reward, k)) for metric in question.parts},
            {m: self._over(numbered(f"{RISK}{m.source}", k)) for m in drawn.at_risk},
            {m: own * ratio(n, drawn.records)[:, None] for m, own in drawn.examined.items()},
        )
