"""Where errors come from: names of sources, and errors that all contexts share, by source.

A source is of a *kind*. What sampling errors do to an estimate falls as records come. Model errors
stay: no record shows them, and a constant of `allowances` sets their size. What was
never seen has no variance; it moves the ends of an interval.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from foreclick.batches import Floats

SAMPLING, MODEL, UNSEEN = "sampling", "model", "unseen"

CLUSTERS = {"period": "periods", "unit": "units", "record": "records"}
"""What records show, by the kind of cluster."""

SMALL_CELLS = "small cells"
ITEM_EFFECTS = "item effects"
COEFFICIENTS = "coefficients' prior"
EXAMINATION = "examination"
SAMPLE = "candidate's sample"
DRAWING = "drawn contexts"

FORM = "form of the regression"
NEVER_SHOWN = "items never shown"
UNREACHABLE = "other retrieval"
STOPPING = "stopping"
RISE = "rankers that get better"
TOGETHER = "clicks that come together"
VALUE_SHRINKAGE = "shrinkage of click values"
VALUE_SLOPE = "click values by position"
SEGMENT = "segment's own clicks"

MARGIN = "never seen"

KINDS: Mapping[str, str] = {
    **dict.fromkeys(CLUSTERS.values(), SAMPLING),
    **dict.fromkeys(
        (SMALL_CELLS, ITEM_EFFECTS, COEFFICIENTS, EXAMINATION, SAMPLE, DRAWING), SAMPLING
    ),
    **dict.fromkeys((FORM, NEVER_SHOWN, UNREACHABLE, STOPPING), MODEL),
    **dict.fromkeys((RISE, TOGETHER, VALUE_SHRINKAGE, VALUE_SLOPE, SEGMENT), MODEL),
    MARGIN: UNSEEN,
}
"""The kind of each source, in the order in which they are shown."""

_NONE = np.zeros(0)


@dataclass(frozen=True, eq=False)
class SharedErrors:
    """Errors that all contexts share: a source is off by the same for every column of a question.

    Attributes:
        by_source: Shape (D,) each: how far its D independent errors put a number off.
    """

    by_source: Mapping[str, Floats] = field(default_factory=dict)

    def __add__(self, other: SharedErrors) -> SharedErrors:
        """The errors of a sum: those of one source add up."""
        found = dict(self.by_source)
        for source, errors in other.by_source.items():
            short, long = sorted((found.get(source, _NONE), errors), key=len)
            found[source] = long.copy()
            found[source][: len(short)] += short
        return SharedErrors(found)

    def __rmul__(self, slope: float) -> SharedErrors:
        """The errors of a multiple."""
        return SharedErrors({source: slope * errors for source, errors in self.by_source.items()})

    def covariance(self, other: SharedErrors) -> float:
        """Of two numbers, by the sources that both have."""
        total = 0.0
        for source in self.by_source.keys() & other.by_source.keys():
            mine, theirs = self.by_source[source], other.by_source[source]
            size = min(len(mine), len(theirs))
            total += float(mine[:size] @ theirs[:size])
        return total

    def variances(self) -> dict[str, float]:
        """By source."""
        return {source: float(errors @ errors) for source, errors in self.by_source.items()}
