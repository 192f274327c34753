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
| ``shown@3`` | 1 for k ≤ 3 | what is shown: 1 for every filled position |

A `Ratio` is one of these over another: ``revenue@3/clicks@3``, ``ctr@5`` for clicks@5/shown@5.

At least one click is not linear in clicks, but it is in *first* clicks,
``w'(a_k, k) = 1{w(a_k, k) > 0, and w(a_j, j) = 0 for all j < k}``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from foreclick.errors import MetricError
from foreclick.words import nearest

CLICKS = "clicks"
"""The name of the reward that every log with clicks has."""

SHOWN = "__shown"
"""The reward of 1 for whatever is shown, which every log has; no reward of a log may be so called.
"""

_FIRST = "__first_"  # nor so
_THETA: dict[str, Callable[[int], float]] = {
    "dcg": lambda k: 1.0 / math.log2(k + 1),
    "success": lambda _: 1.0,
    "mrr": lambda k: 1.0 / k,
}
_OF_FIRST = ("success", "mrr")
_SHOWN, _CTR = "shown", "ctr"
METRICS = (*_THETA, "ndcg", _SHOWN, _CTR)
"""What a reward cannot be called, because ``mrr@3`` is another metric already."""

USUAL_METRICS = ("clicks@3", "dcg@10")
"""The default metrics of verbs; the first is that of verbs with one metric."""

_LEAST = 1e-12  # of a weight that is not 0; squares of smaller ones are lost in rounding
_SPELLING = re.compile(r"(?:(?P<reward>\w+):)?(?P<kind>\w+)@(?P<depth>\d+)")


@dataclass(frozen=True, init=False, repr=False)
class Metric:
    """A weighted sum of one reward over positions, Σ_k θ_k y_k.

    Args:
        spec: a spelling such as ``"clicks@3"``, ``"dcg@10"`` or ``"orders@3"``, or the weights θ_1,
            θ_2, … themselves.
        reward: the reward that is weighed: "clicks", or the name of another one.

    Attributes:
        name: the spelling, as results show it.
        theta: the weights θ_1, θ_2, ….
        reward: the reward that θ weighs: one of the log, or one that follows from it (`first`).

    Raises:
        MetricError: the spelling is not understood, or a weight is negative.

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

    def __init__(self, spec: str | Sequence[float] | Metric | Ratio, reward: str = CLICKS) -> None:
        if isinstance(spec, Ratio) or (isinstance(spec, str) and _is_ratio(spec)):
            raise MetricError(
                f"metric '{spec}' is a ratio of two, which evaluate and compare take. Here, ask "
                "for its numerator and its denominator one by one."
            )
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
        """The last position with a weight: the largest k with θ_k > 0."""
        return len(self.theta)

    @property
    def first(self) -> bool:
        """Whether only the first click of a list counts, as in ``success@K`` and ``mrr@K``."""
        return self.reward.startswith(_FIRST)

    @property
    def source(self) -> str:
        """The reward of the log from which the metric is computed."""
        return self.reward.removeprefix(_FIRST)

    @property
    def shown(self) -> bool:
        """Whether the metric counts shown items, as the denominator of ``ctr@K`` does."""
        return self.reward == SHOWN

    @property
    def parts(self) -> tuple[Metric, ...]:
        """The weighted sums that the metric consists of: the metric itself."""
        return (self,)

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


@dataclass(frozen=True, init=False, repr=False)
class Ratio:
    """The ratio of two metrics' means, such as revenue per click.

    It is not the mean of ratios: a list without clicks adds to neither mean.

    Args:
        spec: a spelling such as ``"revenue@3/clicks@3"``, in short ``"revenue/clicks@3"``, or
            ``"ctr@5"``, the clicks per item shown; or the numerator.
        denominator: a metric, if `spec` is the numerator.

    Raises:
        MetricError: a spelling is not understood, or both metrics are the same.

    Examples:
        >>> Ratio("revenue/clicks@3")
        revenue@3/clicks@3
        >>> Ratio("ctr@5") == Ratio("clicks@5", "shown@5")
        True
    """

    name: str
    numerator: Metric
    denominator: Metric

    def __init__(
        self,
        spec: str | Sequence[float] | Metric | Ratio,
        denominator: str | Sequence[float] | Metric | None = None,
    ) -> None:
        if isinstance(spec, Ratio):
            over, under = spec.parts
        elif denominator is not None:
            over, under = Metric(spec), Metric(denominator)
        elif not isinstance(spec, str) or not _is_ratio(spec):
            raise MetricError(
                f"{spec!r} is no ratio. Write 'revenue@3/clicks@3', or give both metrics."
            )
        elif "/" not in spec:
            depth = spec.strip().removeprefix(f"{_CTR}@")
            over, under = Metric(f"{CLICKS}@{depth}"), Metric(f"{_SHOWN}@{depth}")
        else:
            top, _, bottom = (part.strip() for part in spec.partition("/"))
            if "@" not in top:  # down to where the denominator counts
                top = f"{top}@{bottom.partition('@')[2]}"
            over, under = Metric(top), Metric(bottom)
        if over == under:
            raise MetricError(f"metric '{over}/{under}' is 1 whatever is shown. Divide by another.")
        rate = over.name == f"clicks@{over.depth}" and under.name == f"{_SHOWN}@{over.depth}"
        name = f"{_CTR}@{over.depth}" if rate else f"{over}/{under}"
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "numerator", over)
        object.__setattr__(self, "denominator", under)

    @property
    def parts(self) -> tuple[Metric, Metric]:
        """The numerator and the denominator."""
        return self.numerator, self.denominator

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


AnyMetric: TypeAlias = Metric | Ratio
"""What `evaluate` and `compare` estimate."""


def first_of(reward: str) -> str | None:
    """The reward whose first click a derived reward counts; None for a reward of the log."""
    return reward.removeprefix(_FIRST) if reward.startswith(_FIRST) else None


def parse_metric(spec: Any) -> AnyMetric:  # noqa: ANN401 - a user's
    """A metric or a ratio of two, in any accepted spelling."""
    if isinstance(spec, Ratio) or (isinstance(spec, str) and _is_ratio(spec)):
        return Ratio(spec)
    return Metric(spec)


def parse_metrics(metrics: object) -> tuple[Metric, ...]:
    """One reward or several by position, in any accepted spelling, without repeats.

    Ratios are refused, and what is shown, which is known without a log.
    """
    parsed = tuple(dict.fromkeys(Metric(m) for m in _listed(metrics)))
    for metric in parsed:
        if metric.shown:
            raise MetricError(
                f"metric '{metric}' counts what is shown, which is known without a log. It is for "
                "evaluate and compare, as the denominator of a ratio: 'clicks@5/shown@5'."
            )
    return parsed


def only_metric(metrics: object, why: str) -> Metric:
    """The one reward by position that is named, however it is spelt.

    Args:
        metrics: one metric, perhaps in a list.
        why: what takes one metric alone, such as "traffic is planned for".
    """
    parsed = parse_metrics(metrics)
    if len(parsed) > 1:
        listed = ", ".join(metric.name for metric in parsed)
        raise MetricError(f"metrics={listed}: {why} one metric. Call it for each metric.")
    return parsed[0]


def parse_any(metrics: object) -> tuple[AnyMetric, ...]:
    """One metric or several, in any accepted spelling, without repeats; ratios among them."""
    return tuple(dict.fromkeys(parse_metric(m) for m in _listed(metrics)))


def _listed(metrics: object) -> list[Any]:
    if isinstance(metrics, str | Metric | Ratio):
        metrics = [metrics]
    if not isinstance(metrics, Iterable):
        raise MetricError(
            f"metrics={metrics!r}: give a metric, such as 'clicks@3', or a list of metrics."
        )
    items = list(metrics)
    if items and all(isinstance(m, int | float) and not isinstance(m, bool) for m in items):
        items = [items]  # a bare list of weights is one metric
    if not items:
        raise MetricError('metrics is empty. Name at least one, for instance metrics=["clicks@3"].')
    return items


def _is_ratio(spelling: str) -> bool:
    return "/" in spelling or spelling.strip().startswith(f"{_CTR}@")


def _parse(spelling: str) -> tuple[str, tuple[float, ...], str]:
    match = _SPELLING.fullmatch(spelling.strip())
    if "ndcg" in spelling.lower():
        raise MetricError(
            f"metric {spelling!r} is not offered: its divisor, the ideal list, is itself estimated "
            "from the log, so it can order policies differently from what they earn. Use 'dcg@K'."
        )
    if match is None or int(match["depth"]) < 1:
        raise MetricError(f"metric {spelling!r} is not understood.{meant(spelling) or _WRITE}")
    depth, kind = int(match["depth"]), match["kind"]
    if kind != kind.lower() and kind.lower() in METRICS:
        raise MetricError(f"there is no metric {spelling!r}.{meant(spelling)}")
    if kind in _THETA:
        theta = tuple(_THETA[kind](k) for k in range(1, depth + 1))
        reward = match["reward"] or CLICKS
    elif kind == _SHOWN and match["reward"] is None:
        return spelling.strip(), (1.0,) * depth, SHOWN
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


_WRITE = (
    " Write 'clicks@3', 'dcg@10', 'success@3', 'mrr@10', 'orders@3' for another reward of the log, "
    "'orders@3/clicks@3' for a ratio, or give the weights, for instance Metric([1, 0.5])."
)


def meant(spelling: str, rewards: Sequence[str] = (CLICKS,)) -> str:
    """The question "Did you mean …?" with a metric that is spelt alike; empty if there is none.

    Args:
        spelling: of the metric.
        rewards: those that the log has.
    """
    kind, _, depth = spelling.replace(" ", "").partition("@")
    known = [name for name in (*rewards, *METRICS) if name != "ndcg"]
    near = nearest(kind.rpartition(":")[2], known)
    if near is None:
        return ""
    likely = f"{near}@{depth if depth.isdecimal() and int(depth) > 0 else 3}"
    return "" if likely == spelling else f" Did you mean {likely!r}?"


def _weights(theta: Sequence[float], reward: str) -> tuple[str, tuple[float, ...]]:
    try:
        values = tuple(float(t) for t in theta)
    except (TypeError, ValueError):
        raise MetricError(
            f"{theta!r} is no metric. Give a spelling such as 'clicks@3', or a list of weights."
        ) from None
    wrong = [t for t in values if not (t == 0 or _LEAST <= t <= 1 / _LEAST)]
    if wrong or not any(values):
        raise MetricError(
            f"the weights of a metric must be 0, or from {_LEAST:g} to {1 / _LEAST:g}, and not all "
            f"0; got {values}"
            + (f", of which {wrong[0]} is the first that is wrong." if wrong else ".")
        )
    while values[-1] == 0:  # positions behind the last weight must not split lists into cells
        values = values[:-1]
    spelt = f"theta[{','.join(str(t).removesuffix('.0') for t in values)}]"
    return (spelt if reward == CLICKS else f"{reward}:{spelt}"), values
