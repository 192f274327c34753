"""What a policy is chosen by: the counts of every context, in the log's engine."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

import ibis
import ibis.expr.types as ir

from foreclick._tally import Tally
from foreclick.engines import real, total, whole
from foreclick.logs import CONTEXT, ITEM, N, numbered
from foreclick.metrics import Metric
from foreclick.models import POSITION, slots_of, stacked
from foreclick.optimize.answers import CREDIT, FOLD, OFFERED
from foreclick.optimize.cells import Model
from foreclick.optimize.rates import Climbing
from foreclick.policies.base import Policy, View
from foreclick.sqlkernel import Ladder, Weighted, climbed, fitted
from foreclick.sqlkernel.logged import Logged

if TYPE_CHECKING:
    from collections.abc import Callable

    Keep = Callable[[ir.Table, str], ir.Table]


class Counted:
    """The lists of a folded tally, and what follows from them.

    Args:
        tally: with the segment `fold`.
        metric: whose reward is counted.
        keep: materialises a step.
    """

    def __init__(self, tally: Tally, metric: Metric, keep: Keep) -> None:
        self.tally, self.metric, self.keep = tally, metric, keep
        self.depth = tally.shape.depth
        apart = {FOLD: tally.table[FOLD]}
        self.lists = Logged(tally, [metric.reward], self.depth, keep, apart).lists

    @cached_property
    def slots(self) -> ir.Table:
        """(context, fold, item, position) → n, c; at position 0 the records of the context."""
        keys = [CONTEXT, FOLD]
        slots = slots_of(self.lists, self.depth, keys, {N: None, CREDIT: self.metric.reward})
        records = self.lists.group_by(keys).aggregate(**{N: total(self.lists[N])})
        whole_contexts = records.select(
            *keys,
            **{ITEM: ibis.null(slots[ITEM].type())},
            **{N: records[N].cast("float64"), CREDIT: real(0), POSITION: whole(0)},
        )
        counted = slots.select(
            *keys,
            ITEM,
            **{N: slots[N].cast("float64"), CREDIT: slots[CREDIT].cast("float64")},
            **{POSITION: slots[POSITION]},
        )
        return self.keep(stacked([counted, whole_contexts]), "slots")

    def listed(self, more: Policy | None) -> ir.Table:
        """(context, fold, list) → n, c_1, …; to choose from are those of `more`, or of the log."""
        items, earned = numbered(ITEM, self.depth), numbered(CREDIT, self.depth)
        rewards = numbered(self.metric.reward, self.depth)
        lists = self.lists
        logged = lists.select(
            CONTEXT,
            FOLD,
            *items,
            **{N: lists[N].cast("float64")},
            **{c: lists[r].cast("float64") for c, r in zip(earned, rewards, strict=True)},
            **{OFFERED: ibis.literal(more is None)},
        )
        if more is None:
            return logged
        here = lists.select(CONTEXT).distinct()
        given = more.lists(self.view).semi_join(here, CONTEXT)
        new = given.select(
            CONTEXT,
            *items,
            **{FOLD: whole(0), N: real(0), OFFERED: ibis.literal(True)},
            **{c: real(0) for c in earned},
        )
        return stacked([logged, new.select(logged.columns)])

    @property
    def view(self) -> View:
        """What a policy sees of this log."""
        return View(self.tally.engine, self.depth, self.lists, self.keep)

    def model(self, estimator: Weighted | Ladder, clip: float, pessimism: float) -> Model:
        """The estimator in numbers."""
        depth = min(self.depth, self.metric.depth)
        theta = self.metric.theta[:depth]
        if isinstance(estimator, Weighted):
            cell, examined = estimator.model.cell, estimator.model.examined(depth)
            name = str(cell) if estimator.model.over_lists else "item"
            name = "ip" if name == "item" and estimator.model.pins_position else name
            return Model(name, theta, examined, clip, None, pessimism)
        fit = fitted(self.tally, estimator, self.metric.reward, self.metric.depth)
        slots = self.slots
        shown = slots.filter(slots[POSITION] > 0)
        by = [CONTEXT, ITEM, POSITION]
        cells = shown.group_by(by).aggregate(**{c: shown[c].sum() for c in (N, CREDIT)})
        n, c = climbed(self.tally.engine, fit, cells, self.keep)
        of_position, of_item, of_context = fit.strengths
        base = c / n if n else 0.0
        climbing = Climbing((of_position, of_item, of_context), fit.examined, base)
        return Model("ip", theta, (1.0,) * depth, math.inf, climbing, pessimism)
