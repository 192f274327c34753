"""Estimators as values: a click model and the clip M of its weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from foreclick import options
from foreclick.errors import ModelError
from foreclick.estimators.ladder.spec import LADDERS, Ladder
from foreclick.models import MODELS, ClickModel, Examination, click_model
from foreclick.words import did_you_mean


@dataclass(frozen=True, init=False)
class Weighted:
    """The paper's estimator for a click model: Σ_g r_g · min(H_g, M·P_g).

    Args:
        model: the name of a click model, or a `ClickModel`.
        clip: M; a number, or several to see each. None: whatever `evaluate` was asked for.
        examination: how much each position is looked at, for `pbm`: a number for each, a function
            of the position, "1/k", or "learnt", which `pbm` is without it.

    Examples:
        >>> Weighted("ip", clip=100).name
        'ip'
    """

    model: ClickModel
    clip: tuple[float, ...] | None

    def __init__(
        self,
        model: str | ClickModel,
        clip: float | Sequence[float] | None = None,
        examination: Examination = None,
    ) -> None:
        object.__setattr__(self, "model", click_model(model, examination))
        object.__setattr__(self, "clip", None if clip is None else clips(clip))

    @property
    def name(self) -> str:
        """What the `estimator` column shows."""
        return self.model.name


@dataclass(frozen=True)
class LearntCurve:
    """An examination that was learnt from a log: a function of the position, with its errors.

    Attributes:
        p: p_1, p_2, …; further down it falls as 1/k does.
        root: Shape (K, D): L, where L Lᵀ is the covariance of log p.
    """

    p: tuple[float, ...]
    root: tuple[tuple[float, ...], ...]

    def __call__(self, position: int) -> float:
        """How much a position, counted from 1, is looked at."""
        last = len(self.p)
        return self.p[position - 1] if position <= last else self.p[-1] * last / position


EstimatorLike: TypeAlias = str | ClickModel | Weighted | Ladder
"""An estimator, or the name of one: "ip", "pbm", "ladder", …."""


ESTIMATORS = (*LADDERS, *MODELS, "dctr")
"""The names of all estimators."""

_ELSEWHERE = ("cascade", "cm", "dcm", "dbn", "sdbn", "ccm", "ubm")  # click models of other packages


def clips(clip: float | Sequence[float]) -> tuple[float, ...]:
    """One value of M or several, as a tuple without repeats."""
    options.clips("clip", clip)
    listed: Sequence[Any] = clip if isinstance(clip, list | tuple) else [clip]
    return tuple(dict.fromkeys(float(m) for m in listed))


def _no_estimator(name: str) -> str:
    """What to use instead of an estimator that there is not."""
    hint = did_you_mean(name, ESTIMATORS)
    if name.lower() in _ELSEWHERE:
        hint = " 'ladder' and 'prefix' allow for what stands above an item."
    return (
        f"there is no estimator {name!r}.{hint} There are {', '.join(ESTIMATORS)}; leave it out "
        "for the usual ones, or declare a click model, ClickModel(name, cell=…)."
    )


def parse_estimators(
    estimators: object, clip: float | Sequence[float] = math.inf
) -> list[Weighted | Ladder]:
    """One estimator or several, in any accepted spelling, each with its clips filled in."""
    if isinstance(estimators, str | ClickModel | Weighted | Ladder):
        estimators = [estimators]
    if not isinstance(estimators, Iterable):
        raise ModelError(
            f"estimators={estimators!r}: give the name of an estimator, such as 'ladder' or 'ip', "
            "or a list of names."
        )
    default = clips(clip)
    found: list[Weighted | Ladder] = []
    for one in estimators:
        ladder = LADDERS.get(one) if isinstance(one, str) else one
        if isinstance(ladder, Ladder):
            found.append(ladder)
            continue
        if isinstance(one, str) and one not in ESTIMATORS:
            raise ModelError(_no_estimator(one))
        if not isinstance(one, str | ClickModel | Weighted):
            raise ModelError(
                f"{one!r} is no estimator. Give a name such as 'ip' or 'ladder', a ClickModel, "
                "Weighted('ip', clip=100) or Ladder()."
            )
        weighted = one if isinstance(one, Weighted) else Weighted(one)
        found.append(Weighted(weighted.model, weighted.clip or default))
    if not found:
        raise ModelError("estimators is empty. Name at least one, for instance 'ip'.")
    return found
