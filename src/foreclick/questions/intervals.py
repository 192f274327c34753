"""From estimates to intervals: of a value, of the change against production, and of the lift.

Both ends hold whatever is true of what the log cannot see: at the lower one what was never shown
earns nothing, at the upper one as much as the best position.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foreclick import inference
from foreclick.batches import Floats
from foreclick.estimation.columns import Unseen
from foreclick.estimation.estimates import Estimate

# An anytime interval is shortest after two weeks, and within 6 % of it from day 4 to day 80; or,
# where days do not count, after so many records.
TUNED_PERIODS, TUNED_RECORDS = 14, 10_000
ALL_SEEN = Unseen(0.0, 0.0)  # of production

_LEAST = 1e-150  # of what a lift is over: its square is a number
_ENDS = ("se", "low", "high", "change_low", "change_high", "lift_low", "lift_high")


def difference_ends(
    value: float, other: float, covariance: Floats, reach: float, unseen: Unseen
) -> dict[str, float | None]:
    """The ends of value − other, and of that over other, for chance and for what is unseen.

    Args:
        value: an estimate.
        other: what it is compared with.
        covariance: Shape (2, 2): of the two.
        reach: how many standard errors the intervals reach.
        unseen: how far the difference may be off for what the log cannot see.
    """
    _, low, high = inference.interval(value - other, [1.0, -1.0], covariance, reach)
    ends = dict.fromkeys(_ENDS[3:]) | {
        "change_low": low - unseen.less,
        "change_high": high + unseen.more,
    }
    if other > _LEAST:
        slopes = np.array([1.0, -value / other]) / other
        _, low, high = inference.interval(value / other - 1, slopes, covariance, reach)
        ends["lift_low"] = low - unseen.less / other
        ends["lift_high"] = high + unseen.more / other
    return ends


@dataclass(frozen=True)
class Pair:
    """An estimate and what it is compared with: the log's own mean, or that of a baseline."""

    estimate: Estimate
    baseline: Estimate | None = None

    @property
    def production(self) -> float | None:
        """What the candidate is compared with."""
        return self.estimate.production if self.baseline is None else self.baseline.value

    @property
    def change(self) -> float | None:
        """The difference of the two."""
        value, production = self.estimate.value, self.production
        return None if value is None or production is None else value - production

    def ends(self, confidence: float, *, anytime: bool = False) -> dict[str, float | None]:
        """The standard error of the estimate, and the ends of all intervals; None for no end.

        The ends hold for chance, and whatever is true of what the log cannot see of either side; at
        one look at the log, or (`anytime`) at all looks together.
        """
        one, production, baseline = self.estimate, self.production, self.baseline
        ends: dict[str, float | None] = dict.fromkeys(_ENDS)
        if not one.has_variance or one.value is None:
            return ends

        def reach(freedom: float) -> float:
            """How many standard errors; an anytime interval's time is what the variance falls with.

            That are days where days differ, and records otherwise: the buckets of users are always
            as many, but hold more and more records.
            """
            if not anytime:
                return inference.quantile(confidence, freedom)
            by, clusters = one.estimates.clusters(one.stratum.number)
            days = by == "period"
            time, tuned = (
                (clusters, TUNED_PERIODS) if days else (one.stratum.records, TUNED_RECORDS)
            )
            return inference.anytime(confidence, freedom, time, tuned)

        memory, freedom = one.memory()
        remembered, unseen = one.covariance + np.diag([memory, 0.0]), one.unseen()
        se, low, high = inference.interval(one.value, [1.0, 0.0], remembered, reach(freedom))
        low = max(max(low, 0.0) - unseen.less, 0.0)  # rewards are not negative
        ends |= {"se": se, "low": low, "high": high + unseen.more}
        if production is None or (baseline is not None and not baseline.has_variance):
            return ends
        joint = one.covariance if baseline is None else one.estimates.joint([one, baseline])
        wide = reach(one.estimates.freedom(one.stratum.number))
        return ends | difference_ends(one.value, production, joint, wide, self.unseen())

    def unseen(self) -> Unseen:
        """How far the change may be off for what the log cannot see of either side."""
        other = ALL_SEEN if self.baseline is None else self.baseline.unseen()
        return self.estimate.unseen().against(other)

    def lasting(self) -> float:
        """The share of the change's variance that stays, however long the log.

        What a ladder's model may be off by, and what was never shown, no record shows: of these
        errors all that contexts share stays, where others fall as records come.
        """
        one, baseline = self.estimate, self.baseline
        if not (one.ladder and one.has_variance) or not (baseline is None or baseline.has_variance):
            return 0.0
        joint = one.covariance if baseline is None else one.estimates.joint([one, baseline])
        error = (
            one.shared_errors
            if baseline is None
            else one.shared_errors + -1.0 * baseline.shared_errors
        )
        variance = float(np.array([1.0, -1.0]) @ joint @ np.array([1.0, -1.0]))
        return min(error.covariance(error) / variance, 1.0) if variance > 0 else 0.0
