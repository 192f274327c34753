"""The one answer of an evaluation: which estimator gives it, and which one checks it.

The ladder answers: of all estimators it was nearest to the truth in every simulated world. `ip`
checks it, because it assumes least of those that see enough. Where the two contradict each other,
the click models disagree, and nobody can tell. Of graded rewards `ip` answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from foreclick import inference
from foreclick.batches import contexts_repeat
from foreclick.estimators import AnySums, EstimatorLike, Weighted
from foreclick.estimators.ladder.fit import fitted
from foreclick.estimators.ladder.spec import LADDERS
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
    """Those that are usual, and all others that can say something of such a policy.

    `pbm` takes the examination that the ladder learnt.
    """
    usual = usual_estimators(tally, policy, logging, metrics)
    curve = fitted(tally, LADDERS["ladder"], metrics[0].reward).examined
    deeper = max(metric.depth for metric in metrics) - len(curve)  # where the log has nothing
    pbm = Weighted("pbm", examination=(*curve, *curve[-1:] * deeper))
    lists = ("list", "prefix") if policy.complete else ()
    others: list[EstimatorLike] = [*lists, "ip", "item", pbm, "rctr"]
    return [*usual, *(name for name in others if name not in usual)]


def contradiction(answer: AnySums, check: AnySums, cap: float | None) -> str:
    """How two estimators of one value contradict each other; empty if they do not.

    If both click models hold, the two differ by chance and by what either did not see. The test of
    Hausman (1978), from the influence of the same records on both.
    """
    if answer.value is None or check.value is None or answer.spread is None:
        return ""
    if min(answer.covered_share, check.covered_share) < HAS_A_SAY:
        return ""
    joint = answer.spread.against(check.spread)
    if joint is None or answer.spread.freedom < 1:
        return ""
    reach = inference.quantile(_CERTAIN, answer.spread.freedom)
    found = inference.change(answer.value, check.value, joint, reach)
    unseen = answer.unseen(cap).against(check.unseen(cap))
    if found.low - unseen.less <= 0 <= found.high + unseen.more or math.isclose(
        answer.value, check.value, rel_tol=1e-9
    ):
        return ""
    unit = "" if isinstance(answer.metric, Ratio) else " a record"
    return (
        f"{inference.DISAGREE}: by {answer.estimator!r} {answer.metric.name} is "
        f"{format_value('value', answer.value)}{unit}, by {check.estimator!r} "
        f"{format_value('value', check.value)}, further apart "
        "than chance puts them. A backtest says which of them predicts this log; or show the "
        "candidate to a few users."
    )
