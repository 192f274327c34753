"""From a covariance to what can be said: intervals of a value, a change and a lift. NumPy only."""

from foreclick.inference.bounds import Guarantee, bernstein, bounded, hoeffding, selection_loss
from foreclick.inference.contrasts import Contrasts, benjamini_hochberg, contrasts, holm
from foreclick.inference.intervals import (
    Interval,
    anytime,
    change,
    jackknife,
    lift,
    quantile,
    value,
)
from foreclick.inference.pareto import pareto_k
from foreclick.inference.rates import rate_intervals
from foreclick.inference.trend import Trend, excess, trend
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
    "Guarantee",
    "Interval",
    "Trend",
    "Verdict",
    "anytime",
    "benjamini_hochberg",
    "bernstein",
    "bounded",
    "change",
    "contrasts",
    "excess",
    "guard",
    "guarded",
    "hoeffding",
    "holm",
    "jackknife",
    "judge",
    "lift",
    "pareto_k",
    "quantile",
    "rate_intervals",
    "selection_loss",
    "trend",
    "value",
]
