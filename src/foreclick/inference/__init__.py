"""From a covariance to what can be said: intervals of a value, a change and a lift. NumPy only."""

from foreclick.inference.contrasts import Contrasts, benjamini_hochberg, contrasts, holm
from foreclick.inference.intervals import Interval, change, lift, quantile, value
from foreclick.inference.resampling import Resampled, bootstrap, draws, jackknife
from foreclick.inference.verdict import BETTER, SAME, UNKNOWN, WORSE, Evidence, Verdict, judge

__all__ = [
    "BETTER",
    "SAME",
    "UNKNOWN",
    "WORSE",
    "Contrasts",
    "Evidence",
    "Interval",
    "Resampled",
    "Verdict",
    "benjamini_hochberg",
    "bootstrap",
    "change",
    "contrasts",
    "draws",
    "holm",
    "jackknife",
    "judge",
    "lift",
    "quantile",
    "value",
]
