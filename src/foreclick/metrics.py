"""Metrics: what a list is worth, as a weight θ_k per position.

The reward of a list A is ``f(A, w) = Σ_k θ_k w(a_k, k)`` (section 5 of the paper). A metric is a
value: it is equal to, hashes as, and prints as its spelling.

| spelling | θ_k | of |
|---|---|---|
| ``clicks@3`` | 1 for k ≤ 3 | clicks |
| ``dcg@10`` | 1 / log2(k + 1) for k ≤ 10 | clicks |
| ``success@3`` | 1 for k ≤ 3 | the first click: at least one click |
| ``mrr@3`` | 1 / k for k ≤ 3 | the first click: its reciprocal rank |
| ``orders@3`` | 1 for k ≤ 3 | the reward `orders` that the log was read with |
| ``orders:dcg@10`` | as above | the reward `orders`; likewise `success` and `mrr` |

At least one click is not linear in clicks, but it is in *first* clicks,
``w'(a_k, k) = 1{w(a_k, k) > 0, and w(a_j, j) = 0 for all j < k}``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from foreclick.errors import MetricError

CLICKS = "clicks"
"""The name of the reward that every log with clicks has."""

_FIRST, _AT_RISK = "__first_", "__risk_"  # no reward of a log may be called so
_THETA: dict[str, Callable[[int], float]] = {
    "dcg": lambda k: 1.0 / math.log2(k + 1),
    "success": lambda _: 1.0,
    "mrr": lambda k: 1.0 / k,
}
_OF_FIRST = ("success", "mrr")
METRICS = (*_THETA, "ndcg")
"""What a reward cannot be called, because ``mrr@3`` is another metric already."""

_SPELLING = re.compile(r"(?:(?P<reward>\w+):)?(?P<kind>\w+)@(?P<depth>\d+)")


@dataclass(frozen=True, init=False, repr=False)
class Metric:
    """A weight per position, of one reward.

    Args:
        spec: a spelling such as ``"clicks@3"``, ``"dcg@10"`` or ``"orders@3"``, or the weights
            θ_1, θ_2, … themselves.
        reward: which reward of the log is weighed.

    Attributes:
        reward: the reward that θ weighs: one of the log, or what `first` makes of it.

    Examples:
        >>> Metric("dcg@3").theta
        (1.0, 0.6309297535714575, 0.5)
        >>> Metric([1, 0.5, 0.25])
        theta[1,0.5,0.25]
        >>> Metric("clicks@2") == Metric("clicks:clicks@2")
        True
    """

    name: str
    theta: tuple[float, ...]
    reward: str

    def __init__(self, spec: str | Sequence[float] | Metric, reward: str = CLICKS) -> None:
        if isinstance(spec, Metric):
            name, theta, reward = spec.name, spec.theta, spec.reward
        elif isinstance(spec, str):
            name, theta, reward = _parse(spec if reward == CLICKS else f"{reward}:{spec}")
        else:
            name, theta = _weights(spec, reward)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "theta", theta)
        object.__setattr__(self, "reward", reward)

    @property
    def depth(self) -> int:
        """The last position that counts: the largest k with θ_k > 0."""
        return len(self.theta)

    @property
    def first(self) -> bool:
        """Whether only the first click of a list counts: the reward follows from the log's."""
        return self.reward.startswith(_FIRST)

    @property
    def source(self) -> str:
        """The reward that the log must have been read with."""
        return self.reward.removeprefix(_FIRST)

    @property
    def at_risk(self) -> str:
        """What follows from the log beside first clicks: a shown slot without a click above it."""
        return _AT_RISK + self.source

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


def first_of(reward: str) -> str | None:
    """The reward whose first click a derived reward counts; None for a reward of the log."""
    return reward.removeprefix(_FIRST) if reward.startswith(_FIRST) else None


def parse_metrics(metrics: object) -> tuple[Metric, ...]:
    """One metric or several, in any accepted spelling, without repeats."""
    if isinstance(metrics, str | Metric):
        metrics = [metrics]
    if not isinstance(metrics, Iterable):
        raise MetricError(f"metrics must be a metric or a list of metrics, not {metrics!r}.")
    items = list(metrics)
    if items and all(isinstance(m, int | float) and not isinstance(m, bool) for m in items):
        items = [items]  # a bare list of weights is one metric
    found = dict.fromkeys(Metric(m) for m in items)
    if not found:
        raise MetricError('metrics is empty. Name at least one, for instance metrics=["clicks@3"].')
    return tuple(found)


def _parse(spelling: str) -> tuple[str, tuple[float, ...], str]:
    match = _SPELLING.fullmatch(spelling.strip())
    if "ndcg" in spelling.lower():
        raise MetricError(
            f"metric {spelling!r} is not offered: its divisor, the ideal list, is itself estimated "
            "from the log, so it can order policies differently from what they earn. Use 'dcg@K'."
        )
    if match is None or int(match["depth"]) < 1:
        raise MetricError(
            f"metric {spelling!r} is not understood. Write 'clicks@3', 'dcg@10', 'success@3', "
            "'mrr@10', 'orders@3' for another reward of the log, or give the weights, for instance "
            "Metric([1, 0.5])."
        )
    depth, kind = int(match["depth"]), match["kind"]
    if kind in _THETA:
        theta = tuple(_THETA[kind](k) for k in range(1, depth + 1))
        reward = match["reward"] or CLICKS
    else:
        theta = (1.0,) * depth
        reward = kind
        if match["reward"] not in (None, kind):
            raise MetricError(
                f"metric {spelling!r} names two rewards, {match['reward']!r} and {kind!r}. "
                f"Write '{kind}@{depth}' or '{match['reward']}:dcg@{depth}'."
            )
    name = f"{kind}@{depth}" if reward in (CLICKS, kind) else f"{reward}:{kind}@{depth}"
    return name, theta, (_FIRST + reward if kind in _OF_FIRST else reward)


def _weights(theta: Sequence[float], reward: str) -> tuple[str, tuple[float, ...]]:
    try:
        values = tuple(float(t) for t in theta)
    except (TypeError, ValueError):
        raise MetricError(
            f"{theta!r} is no metric. Give a spelling such as 'clicks@3', or a list of weights."
        ) from None
    wrong = [t for t in values if not (math.isfinite(t) and t >= 0)]
    if wrong or not any(values):
        raise MetricError(
            f"the weights of a metric must be finite, at least 0 and not all 0; got {values}"
            + (f", of which {wrong[0]} is the first that is wrong." if wrong else ".")
        )
    while values[-1] == 0:  # positions behind the last weight must not split lists into cells
        values = values[:-1]
    spelt = f"theta[{','.join(str(t).removesuffix('.0') for t in values)}]"
    return (spelt if reward == CLICKS else f"{reward}:{spelt}"), values
