"""How much less than the best of several policies the one that looks best may be worth."""

from __future__ import annotations

import math

from foreclick.errors import OptionError
from foreclick.estimators import clips
from foreclick.metrics import USUAL_METRICS, Metric, only_metric
from foreclick.options import checked


@checked()
def selection_bound(
    policies: float,
    records: float,
    clip: float,
    *,
    metrics: str | Metric = USUAL_METRICS[1],
    confidence: float = 0.95,
) -> float:
    """Bound the loss of choosing the policy with the largest estimate, rather than the best.

    Of a class H of policies, h̃ has the largest estimate, by `list`, or by `ip` where its click
    model holds; h* has the largest value of those whose weights M does not clip. With the logging
    policy known, independent records and clicks of 0 and 1, with probability 1 − δ

        V(h̃) ≥ V(h*) − M Σ_k θ_k (√(ln(2|H| / δ) / 2n) + √(ln(2 / δ) / 2n)).

    These are Theorems 1 and 2 of Li et al. (KDD 2018, section 4.3), corrected: an estimate ranges
    up to M Σ θ, not K, and h̃ is the luckiest of |H|. The class has to be finite and fixed before
    the log is seen, as are the lists that each context may be shown.

    Args:
        policies: |H|, the number of policies. It may be a huge integer, such as 2**10_000.
        records: n, the number of records of the log.
        clip: M, the largest weight.
        metrics: one metric, such as "clicks@3". For a reward of up to R, multiply the bound by R.
        confidence: 1 − δ.

    Returns:
        The difference on the right-hand side: the largest loss, in the unit of the metric.

    Raises:
        OptionError: a number is not positive, or `confidence` is not between 0 and 1.

    Examples:
        Four rankers, a million records, weights of up to 10:

        >>> round(selection_bound(4, 1_000_000, 10, metrics="clicks@1"), 3)
        0.03
    """
    (largest,), metric = clips(clip), only_metric(metrics, "policies are chosen by")
    if not (policies >= 1 and records > 0):
        raise OptionError(
            f"policies={policies!r}, records={records!r}: give how many policies there were to "
            "choose from, at least 1, and how many records the log has, more than 0."
        )
    one = math.log(2 / (1 - confidence))
    both = math.sqrt(one + math.log(policies)) + math.sqrt(one)
    return largest * sum(metric.theta) * both / math.sqrt(2 * records)
