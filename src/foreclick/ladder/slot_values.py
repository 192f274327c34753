"""What clicks earn at the slots of a batch, and how that moves columns.

It stands on the rungs of click rates, with clicks in the place of records and rewards in that of
clicks: w = (R + s w') / (C + s), by list, prefix and position, and by item below (`click_value`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from foreclick.allowances import CLICK_VALUE_SHRINKAGE_ERROR
from foreclick.batches import Batch, Floats, Ints, sums
from foreclick.batches.arrays import numbered
from foreclick.estimation.columns import ModelError, View
from foreclick.estimation.sources import VALUE_SHRINKAGE, VALUE_SLOPE
from foreclick.ladder.candidates import examined_records
from foreclick.ladder.click_value import ClickValue, ItemGradient, PairValues, clicked_slots
from foreclick.ladder.fitted import CandidateFit
from foreclick.ladder.rungs import LogCells, SlotChain, Slots, Weights, log_cells, slot_chain
from foreclick.ladder.shrinkage import leverage_factor
from foreclick.metrics import CLICKS


class ValueErrors(NamedTuple):
    """Influence of what clicks earned on columns, and model errors of click values.

    Attributes:
        influence: Shape (E, R): of what clicks of a record earned beside what was expected.
        unexplained: errors of pairs and of finer cells, of E columns.
        shared: Shape (E, X or 1) by source: errors that contexts share.
    """

    influence: Floats
    unexplained: list[ModelError]
    shared: dict[str, Floats]


@dataclass(frozen=True, eq=False)
class SlotValues:
    """What a click earns at the slots of a batch.

    Attributes:
        batch: the records.
        values: what a click earns in the log.
        cells: the log's.
        slots: those of candidates, on the log's rungs.
        pairs: what a click on each pair earns.
    """

    batch: Batch
    values: ClickValue
    cells: LogCells
    slots: SlotChain
    pairs: PairValues

    @cached_property
    def logged(self) -> Floats:
        """Shape (G,): what a click earns at the log's finest cells."""
        return self.slots.logged_rate * self.values.mean

    @cached_property
    def shown(self) -> Floats:
        """Shape (Q,): what it earns at the slots of candidates."""
        return self.slots.rate * self.values.mean

    def weights(self, shown: Floats, logged: Floats) -> Weights:
        """How much columns count the values of cells and pairs.

        Args:
            shown: Shape (E, Q): the clicks of candidates.
            logged: Shape (E, G): those of production.
        """
        found, mean = self.slots.weights(shown, -logged), self.values.mean
        return Weights(tuple(own * mean for own in found.rungs), found.base * mean)

    def sensitivity(self, weights: Weights, context: Ints) -> Floats:
        """Shape (E, I + F): how far the levels of items, and γ, move columns.

        Args:
            weights: how much columns count values.
            context: Shape (P + U,): of each pair.
        """
        by_log = weights.base * self.pairs.value * self._sampling_weight(context)
        return self.values.items.sensitivity(self.pairs, by_log)

    def _sampling_weight(self, context: Ints) -> Floats:
        """Shape (P + U,) or 1: for how many of the log's records one of each pair's stands."""
        weights = self.batch.context_weight
        return np.ones(1) if weights is None else weights[context]

    def errors(
        self,
        weights: Weights,
        gradient: ItemGradient,
        context: Ints,
        add_up: Callable[[Ints, Floats], Floats],
    ) -> ValueErrors:
        """Influence of what clicks earned on columns, and model errors of click values.

        Args:
            weights: how much columns count values.
            gradient: how columns move with the values of items, over the whole log.
            context: Shape (P + U,): of each pair.
            add_up: sums of values, shape (E, Z), by context, (Z,), or over all contexts.
        """
        values, pairs, items = self.values, self.pairs, self.values.items
        by_log = weights.base * pairs.value
        sampling = self._sampling_weight(context)
        error, by_reward = values.pair_errors(pairs, by_log, gradient, sampling)
        by_pair = by_reward[:, : self.batch.pair_count]
        found = self.slots.gradient(weights, by_pair, context, values.dispersion)
        share = (items.parameters.t * items.level / items.weight)[pairs.rung.coarser]
        share *= pairs.rung.borrowed()
        by_shrinkage = add_up(context, weights.base * ((pairs.value - 1) * share))
        shared = {VALUE_SHRINKAGE: CLICK_VALUE_SHRINKAGE_ERROR * by_shrinkage}
        if values.positions.slope:
            of_log = self.cells.examined % self.batch.depth
            log_k = np.log1p(self.slots.of_examined(self.slots.slots.position, of_log))
            by_slope = add_up(found.context, found.by_exposure * log_k)
            shared[VALUE_SLOPE] = by_slope * values.positions.slope_sd
        unexplained = [ModelError(context, error), *found.unexplained]
        return ValueErrors(self._influence(found.by_click), unexplained, shared)

    def _influence(self, by_reward: Floats) -> Floats:
        """Shape (E, R): what clicks earned besides what is expected of them, by how it counts.

        As for clicks, 1 / √(1 − h) corrects for the leverage of a day; or of a record, in a log
        without days. Not a row: how many records one has depends on what else is read.
        """
        batch, values = self.batch, self.values
        at = clicked_slots(batch, values.reward)
        own = at.c
        if "period" in batch.clusters:
            day = batch.clusters["period"][at.row]
            days = int(day.max(initial=0)) + 1
            entries, entry = numbered(at.pair * days + day, batch.pair_count * days)
            own = sums(entry, at.c * batch.n[at.row], len(entries))[entry]
        cell = self.cells.finest[batch.row_list[at.row], at.position]
        residual = at.r / (values.mean or 1.0) - at.c * self.slots.rates[0].rate[cell]
        residual *= leverage_factor(own * self.pairs.rung.own_weight()[at.pair])
        return np.stack([sums(at.row, residual * each[cell], len(batch.n)) for each in by_reward])


def slot_values(view: View, fit: CandidateFit, values: ClickValue, slots: Slots) -> SlotValues:
    """What a click earns at the log's cells and at slots of candidates."""
    batch, top = view.batch, fit.log.top
    cells, chain = log_cells(batch, top, CLICKS), values.chain(batch, top)
    pairs = values.items.of_pairs(*examined_records(view, fit), *chain.climb())
    factor = values.positions.factor(slots.position)
    on_chain = slot_chain(view, cells, chain, slots, factor, pairs.value)
    return SlotValues(batch, values, cells, on_chain, pairs)
