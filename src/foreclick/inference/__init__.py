"""From a covariance to what can be said: intervals of a value, a change and a lift. NumPy only."""

from foreclick.inference.intervals import Interval, change, lift, quantile, value
from foreclick.inference.verdict import BETTER, SAME, UNKNOWN, WORSE, Evidence, Verdict, judge

__all__ = [
    "BETTER",
    "SAME",
    "UNKNOWN",
    "WORSE",
    "Evidence",
    "Interval",
    "Verdict",
    "change",
    "judge",
    "lift",
    "quantile",
    "value",
]
