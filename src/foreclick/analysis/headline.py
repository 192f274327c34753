"""The one answer of an evaluation: which estimator gives it, and which one checks it.

The ladder answers: of all estimators it was nearest to the truth in every simulated world. `ip`
checks it, because it assumes least of those that see enough. Where the two contradict each other,
the click models disagree, and nobody can tell. Of graded rewards `ip` answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from foreclick import inference
from foreclick.batches import contexts_repeat
from foreclick.estimators import AnySums, EstimatorLike, between
from foreclick.metrics import Metric, Ratio
from foreclick.policies import Policy
from foreclick.results import format_value
from foreclick.tallies.base import Tally

FEW_RECORDS = 5
"""Below so many records in the median context, frequencies say little about the logging policy."""

ALL = "all"
HAS_A_SAY = 0.9
"""Of the candidate's exposure, for an estimator to agree or disagree with another."""

_CERTAIN = 0.99  # of a contradiction
_ROUNDING = 1e-9  # of a value: what differs by less is the same


def usual_estimators(
    tally: Tally, policy: Policy, logging: Policy | str | None, metrics: Sequence[Metric]
) -> Sequence[EstimatorLike]:
    """The estimator that answers, and the one that checks it.

    Where logging probabilities are given, or contexts hardly repeat and propensities do, the
    estimators that use them answer instead. Of graded rewards, such as prices, `ip` answers: a
    ladder moves the dearest items towards the others, so that its intervals hold the value of a
    ranking by price too seldom (docs/evidence/coverage.md).
    """
    kind = tally.shape.propensity
    if isinstance(logging, Policy):
        return "ip", "list"
    if logging == "propensity" or (
        logging is None and kind is not None and contexts_repeat(tally)[1] < FEW_RECORDS
    ):
        return ("list",) if kind == "list" else ("ip",)
    ladder = "ladder" if policy.complete else "ladder-ip"
    graded = {name for name in tally.shape.rewards if name not in tally.shape.masks}
    return ("ip", ladder) if graded & {m.reward for m in metrics} else (ladder, "ip")


def all_estimators(
    tally: Tally, policy: Policy, logging: Policy | str | None, metrics: Sequence[Metric]
) -> Sequence[EstimatorLike]:
    """Those that are usual, and all others that can say something of such a policy."""
    usual = usual_estimators(tally, policy, logging, metrics)
    lists = ("list", "prefix") if policy.complete else ()
    others: list[EstimatorLike] = [*lists, "ip", "item", "pbm", "rctr"]
    return [*usual, *(name for name in others if name not in usual)]


def contradicts(answer: Sequence[AnySums], check: Sequence[AnySums]) -> bool:
    """Whether two estimators are further apart than chance puts them.

    If both click models hold, the two differ by chance and by what either did not see. The test of
    Hausman (1978), from the influence of the same records on both.

    Args:
        answer: what one of them says of a candidate; or of two, for their difference.
        check: what the other says.
    """
    every = [*answer, *check]
    values = np.array([sums.value or 0.0 for sums in every])
    spreads = [sums.spread for sums in every if sums.spread is not None and sums.value is not None]
    if len(spreads) < len(every) or spreads[0].freedom < 1:
        return False
    if min(sums.covered_share for sums in every) < HAS_A_SAY:
        return False
    sign = np.array([1.0, -1.0][: len(answer)])
    sign = np.concatenate([sign, -sign])
    apart = float(sign @ values)
    if abs(apart) <= _ROUNDING * np.abs(values).max():
        return False
    reach = inference.quantile(_CERTAIN, spreads[0].freedom)
    chance = reach * math.sqrt(max(float(sign @ between(spreads) @ sign), 0.0))
    unseen = [sums.unseen() for sums in every]
    less = sum(u.less if s > 0 else u.more for u, s in zip(unseen, sign, strict=True))
    more = sum(u.more if s > 0 else u.less for u, s in zip(unseen, sign, strict=True))
    return not apart - chance - less <= 0 <= apart + chance + more


def contradiction(answer: AnySums, check: AnySums) -> str:
    """How two estimators of one value contradict each other; empty if they do not."""
    if not contradicts([answer], [check]):
        return ""
    unit = "" if isinstance(answer.metric, Ratio) else " a record"
    return (
        f"{inference.DISAGREE}: by {answer.estimator!r} {answer.metric.name} is "
        f"{format_value('value', answer.value)}{unit}, by {check.estimator!r} "
        f"{format_value('value', check.value)}, further apart "
        "than chance puts them. A backtest says which of them predicts this log; or show the "
        "candidate to a few users."
    )
