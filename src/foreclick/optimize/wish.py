"""What people ask of a policy besides clicks, in one context."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from foreclick.optimize.batch import View
    from foreclick.optimize.cells import Model

    Bools = NDArray[np.bool_]

_TINY = 1e-9


@dataclass(frozen=True)
class Wish:
    """What people ask of a policy besides clicks.

    Attributes:
        pinned: by context, the item at a position.
        banned: items that are shown nowhere; `banned_in`: by context.
        groups: items, and the least share of the slots that they get in every context which has
            any of them.
        change: the share of the slots that may differ from production's.
        lists: how many lists a context has at most; None for as many as it takes.
        seen: how often a cell must have been shown to be used.
        fallback: whether production stays where nothing is sure to be better.
        explore: how often production's own lists are shown instead.
    """

    pinned: Mapping[Hashable, Mapping[int, Hashable]] = field(default_factory=dict)
    banned: frozenset[Hashable] = frozenset()
    banned_in: Mapping[Hashable, frozenset[Hashable]] = field(default_factory=dict)
    groups: tuple[tuple[frozenset[Hashable], float], ...] = ()
    change: float | None = None
    lists: int | None = None
    seen: float = 0.0
    fallback: bool = True
    explore: float = 0.0

    @property
    def by_share(self) -> bool:
        """Whether something is asked of probabilities, for which there is only the program."""
        return bool(self.groups) or self.change is not None

    @property
    def single(self) -> bool:
        """Whether a context has one list."""
        return self.lists == 1

    def forbidden(self, view: View, depth: int) -> Bools:
        """Which items must not be where."""
        found = np.zeros((len(view.items), depth), dtype=np.bool_)
        banned = self.banned | self.banned_in.get(view.context, frozenset())
        if banned:
            found[[item in banned for item in view.items]] = True
        for position, item in self.pinned.get(view.context, {}).items():
            row = [value == item for value in view.items]
            others = np.ones(len(row), dtype=np.bool_)
            others[row] = found[row, position - 1]
            found[row] = True
            found[:, position - 1] = others
        return found

    def unseen(self, view: View, model: Model) -> Bools:
        """Which items were not shown often enough to be shown."""
        n = view.n[:, : model.depth]
        if model.cell == "item":
            n = np.repeat(n.sum(axis=1, keepdims=True), model.depth, axis=1)
        return n < self.seen if model.cell in ("ip", "item") else np.zeros(n.shape, np.bool_)

    def kept_by_production(self, view: View, forbidden: Bools) -> bool:
        """Whether what is shown today is as wished, so that it may stay."""
        shown = view.n[:, : forbidden.shape[1]]
        if shown[forbidden].any():
            return False
        slots = shown.sum()
        mine = ((self.members(view, items), least) for items, least in self.groups)
        return all(
            shown[members].sum() >= least * slots - _TINY
            for members, least in mine
            if members.any()
        )

    def members(self, view: View, items: frozenset[Hashable]) -> Bools:
        """Which items of a context are of a group."""
        return np.array([item in items for item in view.items])
