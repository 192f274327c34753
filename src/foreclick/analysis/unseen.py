"""What the log cannot see, on both ends of what is printed and judged."""

from __future__ import annotations

from collections.abc import Iterable

from foreclick.analysis.intervals import Ends
from foreclick.batches import largest_rewards
from foreclick.estimators import AnySums, Unseen
from foreclick.metrics import Metric
from foreclick.tallies.base import Tally

NOTHING = Unseen(0.0, 0.0)
"""Of production, all was seen."""


def widened(found: Ends, own: Unseen, other: Unseen, production: float | None) -> Ends:
    """Interval ends that hold whatever is true of what the log cannot see.

    Args:
        found: the ends for what was seen.
        own: how far the value may be off for what was not.
        other: the same of what it is compared with.
        production: what it is compared with.
    """
    less, more = own.against(other)
    steps = {"low": -own.less, "high": own.more, "change_low": -less, "change_high": more}
    if production:
        steps |= {"lift_low": -less / production, "lift_high": more / production}
    wider: Ends = {}
    for name, step in steps.items():
        end = found.get(name)
        if end is not None:
            # Rewards are not negative.
            wider[name] = max(end + step, 0.0) if name == "low" else end + step
    return found | wider


def largest_slots(tally: Tally, sums: Iterable[AnySums]) -> dict[Metric, float]:
    """The most that a slot can earn, by metric: 1 click, or the largest reward of the log.

    Only of metrics for which something was never shown: to look for it takes a pass over the log.
    """
    unseen = {part.metric for s in sums for part in s.parts if part.covered < part.mass}
    binary = {m for m in unseen if m.first or m.shown or m.source in tally.shape.masks}
    largest = largest_rewards(tally, sorted({m.source for m in unseen - binary}))
    return {m: 1.0 if m in binary else largest[m.source] for m in unseen}


def beyond(sums: AnySums, most: dict[Metric, float]) -> float:
    """How much more than the log suggests it may be worth, were all that is new as good as can be.

    Args:
        sums: the estimate.
        most: see `largest_slots`.
    """
    if not any(part.metric in most for part in sums.parts):
        return 0.0
    return max(sums.unseen(most).more - sums.unseen().more, 0.0)
