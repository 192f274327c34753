"""The log's cells on all rungs, and its pairs as a fit sees them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foreclick.batches import Batch, Bools, Floats, padded
from foreclick.ladder.coefficients import Pairs, RateParameters, Rates, rates
from foreclick.ladder.features import seen
from foreclick.ladder.fitted import LadderFit
from foreclick.ladder.rungs import Rung, RungChain, log_cells


def position_chain(batch: Batch, log: LadderFit, p: Floats, kappa_factor: float = 1.0) -> RungChain:
    """The rungs that know a position, with clicks over records, examined by p, shape (K,)."""
    p = padded(tuple(p), batch.depth)
    reading = log.reading.readers(batch, kappa_factor)
    exposure = np.broadcast_to(p, batch.lists.shape) if reading is None else reading * p
    cells = log_cells(batch, log.top, log.spec.reward)
    cells = cells._replace(c=cells.c / log.spec.unit)
    return cells.chain(log.strengths, exposure, batch.pair_count)


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
        expected: Shape (P,): what β expects of each pair.
    """
    count, positions = batch.context_count, position_chain(batch, log, parameters.p)
    n, c = positions.climb()
    pair_rates = rates(batch.pair_context, count, c, n, expected, parameters)
    item = Rung(parameters.a / pair_rates.m, n, c, batch.pair_context, count, expected)
    context = Rung(parameters.t, *item.climb(), np.zeros(count, dtype=np.int64), 1)
    return LadderChain(positions, item, context, pair_rates)


# --- what a fit sees ------------------------------------------------------------------------------


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


def pairs_of(
    batch: Batch,
    words: Floats,
    log: LadderFit,
    p: Floats,
    taken: Bools,
    *,
    keep: bool = False,
    kappa_factor: float = 1.0,
) -> Pairs:
    """The pairs of the contexts that take part, as the fit sees them.

    What does not depend on the candidates' words is kept with the batch, if that is wanted.

    Args:
        batch: the records.
        words: Shape (V, P or more, 2): the candidates' features.
        log: the fit to the log, of whose finer rungs pairs get what is left.
        p: Shape (K,): examination, by which finer rungs pass on.
        taken: Shape (X,): the contexts that take part.
        keep: whether they are kept.
        kappa_factor: κ is taken to be so many times as large.
    """
    by = p.tobytes() if log.finer else b""
    key = "pairs", log.strengths, by, log.reading, kappa_factor, taken.tobytes()
    pairs: Pairs | None = batch.cache.get(key)
    if pairs is None:
        sub = batch
        if not taken.all():
            sub = batch.cached(("taken", taken.tobytes()), lambda: batch.only(taken))
        of = seen(sub, dated=log.spec.dated)
        exposure = fit_exposure(batch, log, p, kappa_factor)
        pairs = Pairs(of, log.spec.reward, log.spec.unit, taken, *exposure)
    if keep:
        batch.cache[key] = pairs
    return pairs.with_words(words[:, : batch.pair_count])
