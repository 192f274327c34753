"""Bounds that hold for any number of records, where the weights are known.

They are about X_t = Σ_g W_g c_g(t), whose mean over the records is the estimate. With weights up to
M and rewards up to 1 it lies in [0, M Σθ]. Each holds with probability 1 − risk, to one side.
"""

from __future__ import annotations

import math
from typing import Literal

from foreclick.inference.intervals import Interval

Guarantee = Literal["bernstein", "hoeffding"]


def hoeffding(span: float, records: float, risk: float) -> float:
    """How far a mean may be from its expectation, by the range of the records alone.

    For independent records, alike or not (Hoeffding, 1963).

    Examples:
        >>> round(hoeffding(1.0, 1000, 0.025), 4)
        0.0429
    """
    return span * math.sqrt(math.log(1 / risk) / (2 * records))


def bernstein(variance: float, span: float, records: float, risk: float) -> float:
    """The same by their sample variance, and by their range only to the order of 1 / n.

    For independent records, alike or not (Maurer and Pontil, COLT 2009, Theorem 11).

    Examples:
        >>> round(bernstein(0.01, 1.0, 1000, 0.025), 4)
        0.0196
    """
    if records <= 1:
        return math.inf
    unlikely = math.log(2 / risk)
    return math.sqrt(2 * variance * unlikely / records) + 7 * span * unlikely / (3 * (records - 1))


def bounded(
    kind: Guarantee,
    mean: float,
    se: float,
    records: float,
    limits: tuple[float, float],
    confidence: float,
) -> Interval:
    """An interval around the mean of so many independent records, each within the limits."""
    least, most = limits
    span, risk = most - least, (1 - confidence) / 2
    if kind == "hoeffding":
        reach = hoeffding(span, records, risk)
    else:
        reach = bernstein(records * se**2, span, records, risk)
    return Interval(se, max(mean - reach, least), min(mean + reach, most))


def selection_loss(span: float, records: float, policies: int, risk: float) -> float:
    """How much less the policy chosen by its estimate may be worth than the best: Theorems 1, 2.

    With h̃ the policy that a log estimates highest, of finitely many, and h* the best of those that
    M does not clip, V(h̃) ≥ V(h*) − loss, with probability 1 − risk:

        loss = M Σθ (√(ln(2 |H| / δ) / 2n) + √(ln(2 / δ) / 2n))

    It assumes that the logging policy is known and that records are independent; for Theorem 2,
    also the click model. The theorems in print (Li et al., KDD 2018) have K instead of M Σθ, and no
    |H|; so they do not hold (docs/evidence/theorems.md).

    Args:
        span: M Σθ, the range of a record's weighted reward.
        records: n.
        policies: |H|, how many policies the estimate chose from.
        risk: δ.

    Examples:
        >>> round(selection_loss(10.0, 100_000, 500, 0.05), 3)
        0.113
    """
    chosen, best = risk / 2 / policies, risk / 2
    return hoeffding(span, records, chosen) + hoeffding(span, records, best)
