"""The variance behind an interval, by the sources of error.

Some sources overlap, and are shared out in proportion to what each has alone: records that share
both a day and a user are counted by days and by users; and what a ratio, or the difference of two
candidates, hides is no sum over its parts.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from foreclick.batches import Floats
from foreclick.estimation.estimates import Estimate
from foreclick.estimation.sources import (
    CLUSTERS,
    COEFFICIENTS,
    DRAWING,
    ITEM_EFFECTS,
    KINDS,
    SAMPLE,
    SMALL_CELLS,
    SharedErrors,
)


def variance_by_source(
    one: Estimate, baseline: Estimate | None, slopes: Floats
) -> dict[str, float]:
    """The variance of a function of an estimate and what it is compared with; it adds up.

    Args:
        one: the estimate.
        baseline: what it is compared with; None for production.
        slopes: Shape (2,): how the two move the function.
    """
    estimates, s = one.estimates, one.stratum.number
    if baseline is None:
        design, covariance, sample = one.design(), one.covariance, slopes[0] ** 2 * one.sampled
        each = [(one, slopes)]
    else:
        both = [one, baseline]
        design = np.stack([estimate.design()[0] for estimate in both])
        covariance = estimates.joint(both)
        sample = slopes**2 @ [estimate.sampling_variance for estimate in both]
        each = [(e, np.array([w, 0.0])) for e, w in zip(both, slopes, strict=True)]
    shared = SharedErrors()
    for estimate, by in each:
        shared += float(by[0]) * estimate.shared_errors
    found = {**shared.variances(), SAMPLE: float(sample)}
    shown = float(slopes @ estimates.shown(s, design) @ slopes)
    hidden = float(slopes @ covariance @ slopes) - shown - sum(found.values())
    if hidden < 0:  # small cells that vary more than usual: as if records showed less
        shown, hidden = shown + hidden, 0.0
    by_cluster = estimates.of_clusters(s, slopes @ design)
    sampled = {CLUSTERS[kind]: variance for kind, variance in by_cluster.items()}
    sampled[DRAWING] = float(estimates.of_drawing(s, (slopes @ design)[None]).sum())
    found |= _in_proportion(shown, sampled)
    alone: dict[str, float] = {}
    for estimate, by in each:
        for source, variance in _hidden(estimate, by).items():
            alone[source] = alone.get(source, 0.0) + variance
    found |= _in_proportion(hidden, alone)
    return {source: found[source] for source in KINDS if found.get(source, 0.0) > 0}


def _hidden(one: Estimate, slopes: Floats) -> dict[str, float]:
    """What one estimate hides by source, before errors of several are put together."""
    s, of = one.stratum.number, one.estimates
    shrunk = [of.of_shrinkage(s, column) for column in one.columns]
    known = [of.of_prior(s, column) for column in one.columns]
    others = [max(a - b, 0.0) for a, b in zip(shrunk, known, strict=True)]
    return {
        SMALL_CELLS: max(float(slopes @ one.of_small_cells @ slopes), 0.0),
        ITEM_EFFECTS: float(slopes[0]) ** 2 * one.joined(others),
        COEFFICIENTS: float(slopes[0]) ** 2 * one.joined(known),
    }


def _in_proportion(total: float, parts: Mapping[str, float]) -> dict[str, float]:
    """A sum that is shared out in proportion to what each part has alone."""
    whole = sum(parts.values())
    return {source: total * each / whole if whole > 0 else 0.0 for source, each in parts.items()}
