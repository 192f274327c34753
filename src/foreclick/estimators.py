"""Estimators as values: a click model with the clip M of its weights, or a ladder."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from foreclick.errors import ModelError, OptionError
from foreclick.models import LEARNT, MODELS, ClickModel, Examination, click_model
from foreclick.rules import is_number
from foreclick.words import did_you_mean

Top = Literal["list", "ip"]


@dataclass(frozen=True, init=False)
class Weighted:
    """An estimator of the paper, by importance weights of cells: Σ_g r_g · min(H_g, M·P_g).

    r_g is the mean reward per exposure of cell g in the log, P_g the cell's logged exposure and H_g
    the candidate's.

    Args:
        model: the name of a click model, or a `ClickModel`.
        clip: M, the bound of weights: a number, or several for one row each. None: weights are not
            bounded. `rctr` and `rcm`, whose cells do not depend on items, have none.
        examination: how often each position is examined, for `pbm`: a number for each, a function
            of the position, "1/k", or "learnt", which is the default; or p(k | x), one of the first
            three for every context of the log, ``{context: curve}``.

    Raises:
        ModelError: there is no such click model, or it takes no M.
        OptionError: M is not above 0.

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
        if isinstance(model, str) and model in LADDERS:
            raise ModelError(
                f"Weighted({model!r}): a ladder has no weights, so there is nothing to clip. Use "
                f"{model!r}, or clip 'list', 'ip', 'item' or 'pbm'."
            )
        object.__setattr__(self, "model", click_model(model, examination))
        object.__setattr__(self, "clip", None if clip is None else clips(clip))
        bound = min(self.clip or (math.inf,))
        if math.isfinite(bound) and not self.model.sees_items:
            raise ModelError(
                f"clip={bound:g}: {self.name!r} ignores which items are shown, so all lists of a "
                "length have the same weight: there is no M. Leave it out."
            )

    @property
    def name(self) -> str:
        """The name in the `estimator` column."""
        return self.model.name


@dataclass(frozen=True, init=False)
class Ladder:
    """Click rates from the finest cells of which the log has enough records.

    The rate of a slot is that of its own cell, shrunk towards the rates of ever coarser cells, the
    fewer records the finer ones have:

        rung        what shares a click rate
        list        the position of the same list
        prefix      the item below the same items
        position    the item at this position, times the slot's examination
        item        the item at any position
        rankers     items with the same rank features

    A rung of *strength* s gives the rate of the rung below the weight of s records. With n records
    and c clicks in a cell, and the rate r' of its cell on the rung below,

        r = (c + s r' e) / (n + s)                                                  (downwards)
        n' = Σ n e s / (n + s),    c' = Σ c s / (n + s)                               (upwards)

    This is the posterior mean of every rate, given all counts, if rates vary around those of the
    rung below with variance r'/s: belief propagation on a tree. With s = ∞ a rung has no rate of
    its own.

    The examination e of a slot depends on its position and on the items above it: some of those who
    clicked one have stopped reading. With μ the rate of an item on the rung `item`, e = p_k Π_{j<k}
    (1 − κ μ_{a_j}). It enters one rung: `prefix`, the coarsest one that depends on the items above;
    or `position` where there is no `prefix`. On all others it is 1.

    Args:
        top: the finest cells: "list" (the same list) or "ip" (an item at the same position). A
            candidate with marginal probabilities needs "ip".
        examination: how often each position is examined: a number for each, a function of the
            position, or "1/k". None, or "learnt": estimated from items that moved in the log.
        stopping: κ, the share of clicks after which readers stop: 1 if every click ends the
            reading, 0 if clicks above do not matter. None: estimated, by context and item as far as
            the log shows it. Always 0 for the top "ip", whose cells do not depend on the items
            above.
        same_retrieval: whether production could have shown every item of the candidate. By default
            this is unknown, and the upper end of an interval allows for items that it could not.

    Raises:
        ModelError: `top` or `stopping` has another value.

    Examples:
        >>> Ladder().name, Ladder("ip").name
        ('ladder', 'ladder-ip')
        >>> Ladder("ip").rungs
        ('position', 'item', 'rankers', 'new')
    """

    top: Top
    examination: Examination
    stopping: float | None
    same_retrieval: bool

    def __init__(
        self,
        top: Top = "list",
        examination: Examination = None,
        stopping: float | None = None,
        *,
        same_retrieval: bool = False,
    ) -> None:
        if top not in ("list", "ip"):
            raise ModelError(f"top={top!r}: say 'list' or 'ip'.")
        if top == "ip" and stopping:
            raise ModelError(
                f"stopping={stopping!r}: the top 'ip' does not know what stands above an item. "
                "Use the top 'list', or leave stopping= out."
            )
        if stopping is not None and not 0 <= stopping <= 1:
            raise ModelError(f"stopping={stopping!r}: give a share of clicks, from 0 to 1.")
        model = ClickModel("ladder", (), examination)
        model.examined(0)  # refuses what is no curve for all
        object.__setattr__(self, "top", top)
        learnt = isinstance(model.examination, str) and model.examination == LEARNT
        object.__setattr__(self, "examination", None if learnt else model.examination)
        kappa = 0.0 if top == "ip" else None if stopping is None else float(stopping)
        object.__setattr__(self, "stopping", kappa)
        object.__setattr__(self, "same_retrieval", same_retrieval)

    @property
    def name(self) -> str:
        """The name in the `estimator` column."""
        return "ladder" if self.top == "list" else "ladder-ip"

    @property
    def rungs(self) -> tuple[str, ...]:
        """The names of the rungs, finest first."""
        fine = ("list", "prefix") if self.top == "list" else ()
        return (*fine, "position", "item", "rankers", "new")

    @property
    def model(self) -> ClickModel:
        """The click model of the finest cells, with the ladder's name."""
        return ClickModel(self.name, cell="list" if self.top == "list" else ("item", "position"))

    @property
    def clip(self) -> tuple[float, ...]:
        """Infinity: a ladder shrinks rates, and bounds no weights."""
        return (math.inf,)


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


Estimator: TypeAlias = Weighted | Ladder
EstimatorLike: TypeAlias = str | ClickModel | Weighted | Ladder
"""An estimator, or the name of one: "ip", "pbm", "ladder", …; "ip:10" for M = 10."""

LADDERS = {ladder.name: ladder for ladder in (Ladder(), Ladder("ip"))}
"""The ladders that an estimator's name may request."""

ESTIMATORS = (*LADDERS, *MODELS, "dctr")
"""The names of all estimators."""

MEANINGS = {
    "ladder": "the closest match the log has",
    "ladder-ip": "the closest match the log has",
    "list": "the whole list as shown",
    "prefix": "an item below the same items",
    "ip": "same item, same position",
    "item": "the item at any position",
    "pbm": "the item, times its position",
    "rctr": "the position alone",
    "rcm": "every slot alike",
}
"""What clicks depend on, by estimator."""

_ELSEWHERE = ("cascade", "cm", "dcm", "dbn", "sdbn", "ccm", "ubm")  # click models of other packages


def clips(clip: float | Sequence[float]) -> tuple[float, ...]:
    """One value of M or several, as a tuple without repeats."""
    listed: Sequence[Any] = clip if isinstance(clip, list | tuple) else [clip]
    if not listed or not all(is_number(m) and m > 0 for m in listed):
        raise OptionError(
            f"clip={clip!r}: give the largest weight, a number above 0 such as 100, or a list of "
            "such; math.inf for none."
        )
    return tuple(dict.fromkeys(float(m) for m in listed))


def _named(text: str) -> Estimator:
    """The estimator of a name, with M after a colon if it has one: "ip", "ip:10"."""
    name, colon, bound = text.partition(":")
    if name not in ESTIMATORS:
        hint = did_you_mean(name, ESTIMATORS)
        if name.lower() in _ELSEWHERE:
            hint = " 'ladder' and 'prefix' allow for what stands above an item."
        raise ModelError(
            f"there is no estimator {name!r}.{hint} There are {', '.join(ESTIMATORS)}; leave it "
            "out for the usual ones, or declare a click model, ClickModel(name, cell=…)."
        )
    if not colon:
        return LADDERS.get(name) or Weighted(name)
    if name in LADDERS:
        raise ModelError(f"{text!r}: a ladder has no weights to bound, so no M. Say {name!r}.")
    try:
        return Weighted(name, float(bound))
    except ValueError:
        raise ModelError(
            f"{text!r}: after the colon stands M, the largest weight: a number above 0, 'ip:10'."
        ) from None


def parse_estimators(estimators: object) -> list[Estimator]:
    """One estimator or several, in any accepted spelling, each with its clips filled in."""
    if isinstance(estimators, str | ClickModel | Weighted | Ladder):
        estimators = [estimators]
    if not isinstance(estimators, Iterable):
        raise ModelError(
            f"estimators={estimators!r}: give the name of an estimator, such as 'ladder' or 'ip', "
            "or a list of names."
        )
    parsed: list[Estimator] = []
    for one in estimators:
        by = _named(one) if isinstance(one, str) else one
        by = Weighted(by) if isinstance(by, ClickModel) else by
        if not isinstance(by, Weighted | Ladder):
            raise ModelError(
                f"{one!r} is no estimator. Give a name such as 'ip' or 'ladder', a ClickModel, "
                "Weighted('ip', clip=100) or Ladder()."
            )
        parsed.append(by if isinstance(by, Ladder) else Weighted(by.model, by.clip or (math.inf,)))
    if not parsed:
        raise ModelError("estimators is empty. Name at least one, for instance 'ip'.")
    return parsed
