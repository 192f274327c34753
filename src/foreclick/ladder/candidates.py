"""What candidates show of a batch: rank features of pairs, examined records, retrieval overlap."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.batches import Floats
from foreclick.estimation.columns import View
from foreclick.ladder.coefficients import Earlier
from foreclick.ladder.features import production_features, rank_scores
from foreclick.ladder.fitted import CandidateFit
from foreclick.logs import ITEM, N
from foreclick.policies.base import PolicyTable

ITEM_1 = f"{ITEM}_1"


def candidate_features(view: View) -> Floats:
    """Shape (C, P + U, 2): each candidate's rank features of every pair that any of them shows."""
    k, each = view.batch.depth, [member.slots for member in view.members]
    last = max(int(slots.pair.max(initial=-1)) for slots in each)
    features = np.zeros((view.count, max(last + 1, view.batch.pair_count), 2))
    for own, slots in zip(features, each, strict=True):
        mass = slots.mass[:, :k]
        own[slots.pair] = np.column_stack(
            [mass.sum(axis=1), mass @ rank_scores(k)[: mass.shape[1]]]
        )
    return features


def used_features(
    view: View, features: Floats, distinct: tuple[int, ...], earlier: Earlier | None
) -> Floats:
    """Shape (V, P + U, 2): the candidates' features that count; last, the rates of earlier records.

    Args:
        view: the batch and its candidates.
        features: Shape (C, P + U, 2): of all candidates.
        distinct: the candidates whose features count.
        earlier: estimates from records before the log.
    """
    used = features[list(distinct)]
    if earlier is None:
        return used
    return np.concatenate([used, _earlier_rates(view, earlier.rates, features.shape[1])[None]])


def _earlier_rates(view: View, rates: PolicyTable, size: int) -> Floats:
    """Shape (size, 2): whether a pair was shown before the log, and the rate that it had then."""
    coding = view.members[0].coding
    table, context = rates.within(coding.view)
    item = pc.index_in(table[ITEM_1].combine_chunks(), value_set=coding.view.values).fill_null(-1)
    pair = coding.pairs(context, np.asarray(item), add=False)
    here = np.flatnonzero((pair >= 0) & (pair < size))
    found = np.zeros((size, 2))
    found[pair[here], 0] = 1.0
    found[pair[here], 1] = np.asarray(table[N])[here]
    return found


def examined_records(view: View, fit: CandidateFit) -> tuple[pa.Array, Floats]:
    """The items of all pairs, and how often production and candidates have these examined.

    A candidate has what production has in contexts that it does not know.
    """
    batch, coding, slots = view.batch, view.members[0].coding, view.policies.slots
    p, count = fit.parameters.p, candidate_features(view).shape[1]
    found = np.zeros((1 + len(fit.distinct), count))
    found[:, : batch.pair_count] = batch.shown @ p
    for own, c in zip(found[1:], fit.distinct, strict=True):
        own[: batch.pair_count] *= ~view.known[:, c][batch.pair_context]
        mass = view.policies.slot_mass[c, :, : len(p)]
        own[slots.pair] += mass @ p[: mass.shape[1]] * batch.context_n[slots.context]
    items = coding.items_of(np.arange(count))
    return coding.view.values.take(pa.array(items)), found


def overlap_counts(view: View) -> Floats:
    """Shape (2, C, K): what candidates show at each rank, and which part production has, too."""
    batch, k = view.batch, view.batch.depth
    production = np.append(production_features(batch)[0], 0.0)
    shown = np.zeros((2, view.count, k))
    for c, member in enumerate(view.members):
        slots = member.slots
        share = production[np.minimum(slots.pair, batch.pair_count)]
        mass = slots.mass[:, :k] * (batch.context_n > 0)[slots.context][:, None]
        shown[:, c, : mass.shape[1]] = mass.sum(axis=0), share @ mass
    return shown
