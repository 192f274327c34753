"""From a covariance to what can be said: intervals of a value, a change and a lift. NumPy only."""

from foreclick.inference.agreement import Told, mean_difference, slope, widening
from foreclick.inference.contrasts import Contrasts, benjamini_hochberg, contrasts, holm
from foreclick.inference.intervals import (
    Interval,
    anytime,
    change,
    excess,
    jackknife,
    lift,
    quantile,
    value,
)
from foreclick.inference.rates import rate_intervals
from foreclick.inference.verdict import (
    BETTER,
    BROKEN,
    DISAGREE,
    HELD,
    SAME,
    UNKNOWN,
    WORSE,
    Evidence,
    Verdict,
    guard,
    guarded,
    judge,
)

__all__ = [
    "BETTER",
    "BROKEN",
    "DISAGREE",
    "HELD",
    "SAME",
    "UNKNOWN",
    "WORSE",
    "Contrasts",
    "Evidence",
    "Interval",
    "Told",
    "Verdict",
    "anytime",
    "benjamini_hochberg",
    "change",
    "contrasts",
    "excess",
    "guard",
    "guarded",
    "holm",
    "jackknife",
    "judge",
    "lift",
    "mean_difference",
    "quantile",
    "rate_intervals",
    "slope",
    "value",
    "widening",
]
