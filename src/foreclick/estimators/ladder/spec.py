"""The ladder: an estimator that climbs from fine cells to coarse ones, as far as counts carry it.

A slot's click rate is looked up where it was seen under the very same circumstances, and, as far as
that was rare, where it was seen under similar ones:

    rung        what shares a click rate
    top         the same items above it (`prefix`), or the same list (`list`)
    position    the item at this position
    item        the item at any position, times how much the position is examined
    context     any item of the context
    log         anything

A rung of *strength* s lets the one below it count as much as s records of its own. With n records
and c clicks in a cell, and a rate r' of the rung below,

    r = (c + s r') / (n + s)                                                        (downwards)

and a cell tells the rung below as much as n s / (n + s) records do, for what it saw is as good as
itself at most: a list shown a million times is one list,

    n' = Σ n s / (n + s),    c' = Σ c s / (n + s)                                       (upwards)

This is the mean of every rate, given all counts, if rates vary around those of the rung below with
variance r'/s: belief propagation on a tree. With s = ∞ a rung says nothing of its own, so that the
ladder is `item`, `pbm` or `ip` where these are right, and finds out where they are not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from foreclick.errors import ModelError
from foreclick.models import ClickModel, Examination

Top = Literal["prefix", "list", "ip"]

_CELLS: dict[Top, str | tuple[str, ...]] = {
    "prefix": "prefix",
    "list": "list",
    "ip": ("item", "position"),
}


@dataclass(frozen=True, init=False)
class Ladder:
    """Click rates by as much of the circumstances as the log has seen often enough.

    It answers for what was never shown, too, from what is most like it; `evaluate` says how much of
    the answer came from which rung.

    Args:
        top: the finest cells: "prefix" (an item below the same items), "list" (in the same list)
            or "ip" (at the same position). A candidate with marginal probabilities needs "ip".
        strengths: for each rung from the top, as how many records the one below it counts. None:
            those that predict the log's own periods best, each from the others.
        examination: how much each position is looked at; None: as items that moved tell.
        segments: what contexts have in common, from the finest to the coarsest (a query's class,
            its language): segment columns of the log, of which each context has one value. They
            are rungs between the context and the log, for contexts with little traffic.

    Examples:
        >>> Ladder().name, Ladder("ip").name
        ('ladder', 'ladder-ip')
        >>> Ladder("ip", strengths=[20, 5, 5]).rungs
        ('position', 'item', 'context', 'log')
        >>> Ladder("ip", segments="class").rungs
        ('position', 'item', 'context', 'class', 'log')
    """

    top: Top
    strengths: tuple[float, ...] | None
    examination: Examination
    segments: tuple[str, ...]

    def __init__(
        self,
        top: Top = "prefix",
        strengths: Sequence[float] | None = None,
        examination: Examination = None,
        segments: str | Sequence[str] = (),
    ) -> None:
        if top not in _CELLS:
            raise ModelError(f"top={top!r}: say 'prefix', 'list' or 'ip'.")
        object.__setattr__(self, "top", top)
        given = None if strengths is None else tuple(float(s) for s in strengths)
        object.__setattr__(self, "strengths", given)
        if isinstance(examination, list):
            examination = tuple(examination)
        object.__setattr__(self, "examination", examination)
        named = (segments,) if isinstance(segments, str) else tuple(segments)
        object.__setattr__(self, "segments", named)
        wanted = len(self.rungs) - 1
        if given is not None and (len(given) != wanted or not all(s > 0 for s in given)):
            raise ModelError(
                f"strengths={strengths!r}: give {wanted} numbers above 0, for the rungs "
                f"{', '.join(self.rungs[:-1])}; math.inf for a rung that says nothing of its own."
            )

    @property
    def name(self) -> str:
        """What the `estimator` column shows."""
        return "ladder" if self.top == "prefix" else f"ladder-{self.top}"

    @property
    def rungs(self) -> tuple[str, ...]:
        """The names of the rungs, from the finest to the coarsest."""
        coarse = ("position", "item", "context", *self.segments, "log")
        return coarse if self.top == "ip" else (self.top, *coarse)

    @property
    def model(self) -> ClickModel:
        """Its finest cells, as a click model of its name."""
        return ClickModel(self.name, cell=_CELLS[self.top])

    @property
    def clip(self) -> tuple[float, ...]:
        """A ladder clips nothing: shrinkage does what clipping is for."""
        return (math.inf,)


LADDERS = {ladder.name: ladder for ladder in (Ladder(), Ladder("list"), Ladder("ip"))}
"""By the names that estimators are asked for."""


@dataclass(frozen=True)
class Fitted:
    """A ladder with all that it had to learn.

    Attributes:
        strengths: s of each rung but the coarsest, from the top.
        examined: p_1, p_2, …, as deep as the log goes.
    """

    ladder: Ladder
    strengths: tuple[float, ...]
    examined: tuple[float, ...]
