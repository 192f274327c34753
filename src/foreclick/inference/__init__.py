"""From a covariance to what can be said: intervals of a value, a change and a lift. NumPy only."""

from foreclick.inference.bounds import Guarantee, bernstein, bounded, hoeffding, selection_loss
from foreclick.inference.contrasts import Contrasts, benjamini_hochberg, contrasts, holm
from foreclick.inference.intervals import Interval, anytime, change, lift, quantile, value
from foreclick.inference.pareto import pareto_k
from foreclick.inference.verdict import BETTER, SAME, UNKNOWN, WORSE, Evidence, Verdict, judge

__all__ = [
    "BETTER",
    "SAME",
    "UNKNOWN",
    "WORSE",
    "Contrasts",
    "Evidence",
    "Guarantee",
    "Interval",
    "Verdict",
    "anytime",
    "benjamini_hochberg",
    "bernstein",
    "bounded",
    "change",
    "contrasts",
    "hoeffding",
    "holm",
    "judge",
    "lift",
    "pareto_k",
    "quantile",
    "selection_loss",
    "value",
]
