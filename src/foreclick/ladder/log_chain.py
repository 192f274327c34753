"""The log's cells on all rungs, and its pairs as a fit sees them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foreclick.batches import Batch, Floats, padded
from foreclick.kept import kept
from foreclick.ladder.behaviour import Reading
from foreclick.ladder.features import WITH_RISE, pair_days
from foreclick.ladder.fitted import LadderFit, LadderSpec
from foreclick.ladder.pairs import Pairs
from foreclick.ladder.rates import RateParameters, Rates, rates
from foreclick.ladder.rungs import LogCells, Rung, RungChain, log_cells


def position_chain(batch: Batch, log: LadderFit, p: Floats, kappa_factor: float = 1.0) -> RungChain:
    """The rungs that know a position, with clicks over records, examined by p, shape (K,)."""
    p = padded(tuple(p), batch.depth)
    reading = log.reading.readers(batch, kappa_factor)
    exposure = np.broadcast_to(p, batch.lists.shape) if reading is None else reading * p
    cells = examined_cells(batch, log)
    cells = cells._replace(c=cells.c / log.spec.unit)
    return cells.chain(log.strengths, exposure, batch.pair_count)


def examined_cells(batch: Batch, log: LadderFit) -> LogCells:
    """The log's cells, examined by list where items compete, and else by what stands above."""
    cells = log_cells(batch, log.top, log.spec.reward)
    return cells.by_list() if log.reading.choice else cells


class LadderChain(NamedTuple):
    """The log's cells on all rungs, and the rates of its pairs.

    Attributes:
        positions: the rungs that know a position.
        item, context: the pairs, and their contexts.
        rates: of the pairs.
    """

    positions: RungChain
    item: Rung
    context: Rung
    rates: Rates

    @property
    def whole(self) -> RungChain:
        """All rungs, on a base rate of 1."""
        return RungChain((*self.positions.rungs, self.item, self.context))


def ladder_chain(
    batch: Batch, log: LadderFit, parameters: RateParameters, expected: Floats
) -> LadderChain:
    """The log's cells on every rung.

    Args:
        batch: the records.
        log: the fit to the log.
        parameters: examination, and the strengths of items and contexts.
        expected: Shape (P,): exp(β x) of each pair.
    """
    count, positions = batch.context_count, position_chain(batch, log, parameters.p)
    n, c = positions.climb()
    pair_rates = rates(batch.pair_context, count, c, n, expected, parameters)
    item = Rung(parameters.a / pair_rates.m, n, c, batch.pair_context, count, expected)
    context = Rung(parameters.t, *item.climb(), np.zeros(count, dtype=np.int64), 1)
    return LadderChain(positions, item, context, pair_rates)


# --- pairs as a fit sees them ---------------------------------------------------------------------


def fit_exposure(
    batch: Batch, log: LadderFit, p: Floats, kappa_factor: float = 1.0
) -> tuple[Floats | None, Floats | None]:
    """Shape (L, K): of each slot, readers times what finer rungs pass on, and that alone."""
    reading = log.reading.readers(batch, kappa_factor)
    if not log.finer:
        return reading, None
    cells = log_cells(batch, log.top, log.spec.reward)
    chain = position_chain(batch, log, p, kappa_factor)
    passed = np.append(chain.passed(), 0.0)[cells.finest]
    return passed if reading is None else passed * reading, passed


def pairs_of(batch: Batch, log: LadderFit, p: Floats, kappa_factor: float = 1.0) -> Pairs:
    """The pairs of a batch, of whose clicks finer rungs pass on a part.

    Args:
        batch: the records.
        log: the fit to the log, with its finer rungs and readers.
        p: Shape (K,): examination, by which finer rungs pass on.
        kappa_factor: κ is taken to be so many times as large.
    """
    spec, count = log.spec, len(log.parameters.beta)
    if not log.finer and not log.reading.by_list:
        make = plain_pairs if count < WITH_RISE else pairs_with_rise
        return make(batch, spec.reward, spec.unit, dated=spec.dated)
    exposed, passed = fit_exposure(batch, log, p, kappa_factor)
    days = pair_days(batch, dated=spec.dated)
    by_day = log.reading.readers_by_day(batch, kappa_factor) if spec.dated else None
    if by_day is not None:
        exposed = by_day if passed is None else by_day * passed[days.lists.list]
    return Pairs(days, spec.reward, spec.unit, exposed, passed).with_production(count)


@kept
def plain_pairs(batch: Batch, reward: str, unit: float, *, dated: bool) -> Pairs:
    """Those whose clicks and readers all count."""
    return Pairs(pair_days(batch, dated=dated), reward, unit)


@kept
def pairs_with_rise(batch: Batch, reward: str, unit: float, *, dated: bool) -> Pairs:
    """The same with production's rise."""
    return plain_pairs(batch, reward, unit, dated=dated).with_production(WITH_RISE)


def fitted_pairs(batch: Batch, log: LadderFit) -> Pairs:
    """Those that candidates are fitted to, by the log's examination; kept with the batch."""
    return _fitted_pairs(batch, log.spec, log.parameters, log.strengths, log.reading)


@kept
def _fitted_pairs(
    batch: Batch,
    spec: LadderSpec,
    parameters: RateParameters,
    strengths: tuple[float, ...],
    reading: Reading,
) -> Pairs:
    fit = LadderFit(spec, parameters, strengths, reading)
    return pairs_of(batch, fit, parameters.p)
