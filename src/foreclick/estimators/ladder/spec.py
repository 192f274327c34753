"""The ladder: an estimator that climbs from fine cells to coarse ones, as far as counts carry it.

A slot's click rate is that of its own cell as far as the cell was seen often, and otherwise backed
off to cells that share fewer of its circumstances:

    rung        what shares a click rate
    list        the position of the same list
    prefix      the item below the same items
    position    the item at this position, times how much the slot is examined
    item        the item at any position
    context     any item of the context
    log         anything

A rung of *strength* s lets the one below it count as much as s records of its own. With n records
and c clicks in a cell, and a rate r' of the rung below,

    r = (c + s r' e) / (n + s)                                                      (downwards)

and a cell counts on the rung below as n s / (n + s) records, at most s of them: a list shown a
million times is still one list,

    n' = Σ n e s / (n + s),    c' = Σ c s / (n + s)                                     (upwards)

This is the mean of every rate, given all counts, if rates vary around those of the rung below with
variance r'/s: belief propagation on a tree. With s = ∞ a rung has no rate of its own. The ladder is
`item`, `pbm` or `ip` where these are right, and departs from them where the log says otherwise.

The examination e of a slot depends on its position and on what stands above it: some of those who
liked an item above have stopped reading. With μ the rate of an item, that of the rung `item`,

    e = E_k(A) = p_k Π_{j<k} (1 − κ μ_{a_j})

It is 1 on all rungs but one: `prefix`, the coarsest that knows what stands above.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from foreclick.errors import ModelError
from foreclick.models import LEARNT, ClickModel, Examination

Top = Literal["list", "ip"]

_CELLS: dict[Top, str | tuple[str, ...]] = {
    "list": "list",
    "ip": ("item", "position"),
}


@dataclass(frozen=True, init=False)
class Ladder:
    """Click rates by as much of the circumstances as the log has seen often enough.

    What was never shown gets the rate of what is most like it; `evaluate` says how much of an
    estimate came from which rung.

    Args:
        top: the finest cells: "list" (the same list) or "ip" (an item at the same position). A
            candidate with marginal probabilities needs "ip".
        strengths: for each rung from the top, as how many records the one below it counts. None:
            those that predict parts of the log best, each from the others.
        examination: how much each position is looked at: a number for each, a function of the
            position, or "1/k". None, or "learnt": learnt from items that moved.
        stopping: κ, which share of the clicks above a slot end the reading: 1 if every click does,
            0 if what stands above does not matter. None: learnt. Always 0 for the top "ip", which
            does not know what stands above.

    Examples:
        >>> Ladder().name, Ladder("ip").name
        ('ladder', 'ladder-ip')
        >>> Ladder("ip", strengths=[20, 5, 5]).rungs
        ('position', 'item', 'context', 'log')
    """

    top: Top
    strengths: tuple[float, ...] | None
    examination: Examination
    stopping: float | None

    def __init__(
        self,
        top: Top = "list",
        strengths: Sequence[float] | None = None,
        examination: Examination = None,
        stopping: float | None = None,
    ) -> None:
        if top not in _CELLS:
            raise ModelError(f"top={top!r}: say 'list' or 'ip'.")
        object.__setattr__(self, "top", top)
        given = None if strengths is None else tuple(float(s) for s in strengths)
        object.__setattr__(self, "strengths", given)
        if isinstance(examination, list):
            examination = tuple(examination)
        learnt = isinstance(examination, str) and examination == LEARNT
        object.__setattr__(self, "examination", None if learnt else examination)
        object.__setattr__(self, "stopping", self._checked(stopping))
        wanted = len(self.rungs) - 1
        if given is not None and (len(given) != wanted or not all(s > 0 for s in given)):
            raise ModelError(
                f"strengths={strengths!r}: give {wanted} numbers above 0, for the rungs "
                f"{', '.join(self.rungs[:-1])}; math.inf for a rung without a rate of its own."
            )

    def _checked(self, stopping: float | None) -> float | None:
        if self.top == "ip":
            if stopping:
                raise ModelError(
                    f"stopping={stopping!r}: the top 'ip' does not know what stands above an item. "
                    "Use the top 'list', or leave stopping= out."
                )
            return 0.0
        if stopping is not None and not 0 <= stopping <= 1:
            raise ModelError(f"stopping={stopping!r}: give a share of clicks, from 0 to 1.")
        return None if stopping is None else float(stopping)

    @property
    def name(self) -> str:
        """What the `estimator` column shows."""
        return "ladder" if self.top == "list" else f"ladder-{self.top}"

    @property
    def rungs(self) -> tuple[str, ...]:
        """Names of the rungs, finest first."""
        fine = ("list", "prefix") if self.top == "list" else ()
        return (*fine, "position", "item", "context", "log")

    @property
    def exposing(self) -> int:
        """The number of the rung whose cells have an examination: `prefix`, else `position`."""
        return 1 if self.top == "list" else 0

    @property
    def model(self) -> ClickModel:
        """The click model of its finest cells, under the ladder's name."""
        return ClickModel(self.name, cell=_CELLS[self.top])

    @property
    def clip(self) -> tuple[float, ...]:
        """Infinite: shrinkage does what clipping is for."""
        return (math.inf,)


LADDERS = {ladder.name: ladder for ladder in (Ladder(), Ladder("ip"))}
"""The ladders that an estimator's name may request."""


@dataclass(frozen=True)
class Fitted:
    """A ladder with its strengths and examination, given or learnt.

    Attributes:
        strengths: s of each rung but the coarsest, finest first.
        examined: p_1, p_2, …, down to the last position of the log, or as deep as it was given.
        stopping: κ.
        base: the rate of the log's rung in the sample that was learnt from: what the rates μ of
            items in the examination are backed off to, so that each context has its own.
        rounds: in how many rounds rates and examination are found.
    """

    ladder: Ladder
    strengths: tuple[float, ...]
    examined: tuple[float, ...]
    stopping: float = 0.0
    base: float = 0.0
    rounds: int = 0
