"""Constraints that a policy must keep to, in one context."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from foreclick.batches import Bools, Floats

if TYPE_CHECKING:
    from foreclick.optimization.cells import Context, Model

_TINY = 1e-9


@dataclass(frozen=True, eq=False)
class Limits:
    """What a policy must keep to in a context with L items and K positions.

    Attributes:
        forbidden: Shape (L, K): which items must not be where. A banned item is forbidden
            everywhere; of a pinned one, all else in its row and in its column is.
        groups: Each has members, shape (L,), and the least share of all exposure that they get.
        exposure: Shape (K,): how much positions are exposed, for `groups`; all alike if None.
        near: Production's marginals, shape (L, K), and the share of slots that may differ from
            them: Σ (h − production)⁺ ≤ share · K.
        whole: One list only, all the time.
    """

    forbidden: Bools | None = None
    groups: tuple[tuple[Bools, float], ...] = ()
    exposure: Floats | None = None
    near: tuple[Floats, float] | None = None
    whole: bool = False


@dataclass(frozen=True)
class Constraints:
    """What a policy must keep to.

    Attributes:
        pinned: by context, the item at a position.
        banned: items that are shown nowhere.
        banned_in: by context, items that are not shown there.
        groups: items, and the least share of the slots that they get in every context which has
            any of them.
        max_change: the share of the slots that may differ from production's.
        max_lists: how many lists a context may have; None for any number.
        min_shown: how often a cell must have been shown to be used.
        fallback: whether production stays where no policy is better after pessimism.
        explore: how often production's own lists are shown instead.
    """

    pinned: Mapping[Hashable, Mapping[int, Hashable]] = field(default_factory=dict)
    banned: frozenset[Hashable] = frozenset()
    banned_in: Mapping[Hashable, frozenset[Hashable]] = field(default_factory=dict)
    groups: tuple[tuple[frozenset[Hashable], float], ...] = ()
    max_change: float | None = None
    max_lists: int | None = None
    min_shown: float = 0.0
    fallback: bool = True
    explore: float = 0.0

    @property
    def by_share(self) -> bool:
        """Whether probabilities are constrained, which only the linear program can do."""
        return bool(self.groups) or self.max_change is not None

    @property
    def single(self) -> bool:
        """Whether a context has one list."""
        return self.max_lists == 1

    @property
    def by_item(self) -> bool:
        """Whether some constraint names contexts or items."""
        return bool(self.pinned or self.banned or self.banned_in or self.groups)

    def forbidden(self, context: Context, depth: int) -> Bools:
        """Shape (L, D): which items must not be where, because of what is pinned and banned."""
        found = np.zeros((len(context.n), depth), dtype=np.bool_)
        banned = self.banned | self.banned_in.get(context.value, frozenset())
        if banned:
            found[context.among(banned)] = True
        for position, item in self.pinned.get(context.value, {}).items():
            row = context.among({item})
            others = np.ones(len(row), dtype=np.bool_)
            others[row] = found[row, position - 1]
            found[row] = True
            found[:, position - 1] = others
        return found

    def shown_too_rarely(self, context: Context, model: Model) -> Bools:
        """Shape (L, D): which items were not shown often enough to be used."""
        n = context.n[:, : model.depth]
        if model.cell == "item":
            n = np.repeat(n.sum(axis=1, keepdims=True), model.depth, axis=1)
        known = model.cell in ("ip", "item")  # of lists, the lists are counted
        return n < self.min_shown if known else np.zeros(n.shape, np.bool_)

    def kept_by_production(self, context: Context, forbidden: Bools) -> bool:
        """Whether production keeps to the constraints, so that it may stay."""
        shown = context.n[:, : forbidden.shape[1]]
        if shown[forbidden].any():
            return False
        slots = shown.sum()
        return all(shown[some].sum() >= least * slots - _TINY for some, least in self._in(context))

    def limits(self, context: Context, forbidden: Bools) -> Limits:
        """The constraints as those of the linear program."""
        near = None
        if self.max_change is not None:
            near = context.n[:, : forbidden.shape[1]] / context.records, self.max_change
        return Limits(forbidden, tuple(self._in(context)), None, near, self.single)

    def _in(self, context: Context) -> list[tuple[Bools, float]]:
        """Members of each group in a context that has any, and their least share."""
        groups = [(context.among(items), least) for items, least in self.groups]
        return [(members, least) for members, least in groups if members.any()]
