"""What a policy can earn in one context: the cells of a click model, in numbers.

The estimate of a policy is Σ_g w_g min(H_g, cap_g): w_g is the click rate of cell g, H_g how much
the policy exposes it, and cap_g = M · P_g as much as the log vouches for; the ladder has no caps.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from foreclick.batches import EMPTY, Bools, Floats, Ints, ratio
from foreclick.estimate.ladder import borrowed, own_weight
from foreclick.optimization.examination import Derivatives, ExaminationError
from foreclick.optimization.ladder import LadderRates, SlotCounts


class ListCounts(NamedTuple):
    """The lists of a context, and what the log has of them.

    Attributes:
        items: Shape (M, D): items by number, `EMPTY` where nothing is shown.
        n: Shape (M,): how often each was shown.
        c: Shape (M, D): its clicks.
        offered: Shape (M,): which of them may be chosen; the others only tell of clicks.
    """

    items: Ints
    n: Floats
    c: Floats
    offered: Bools


class Rates(NamedTuple):
    """Click rates of items at positions by a ladder.

    Attributes:
        rate: Shape (P, K).
        variance: Shape (P, K): by the noise of clicks and the errors of the examination.
        step: Shape (P, K): how far one click moves a rate, which may be all that it rests on.
        by_p: how they depend on the examination, if that is estimated.
    """

    rate: Floats
    variance: Floats
    step: Floats
    by_p: Derivatives | None


class Context(NamedTuple):
    """One context: L items at K positions.

    Attributes:
        n: Shape (L, K): how often each item was shown at each position.
        c: Shape (L, K): its clicks there.
        records: how many there are.
        rate: Shape (L, K): click rates by the ladder; empty without one.
        variance: Shape (L, K): of these rates.
        step: Shape (L, K): how far one click moves them.
        by_p: how they depend on the examination; None if that is given.
        lists: those to choose from; None for every order of the items.
        value: the context itself, where constraints name contexts or items.
        items: L values, likewise.
    """

    n: Floats
    c: Floats
    records: float
    rate: Floats
    variance: Floats
    step: Floats
    by_p: Derivatives | None = None
    lists: ListCounts | None = None
    value: Hashable = None
    items: Sequence[Hashable] = ()

    def among(self, some: Collection[Hashable]) -> Bools:
        """Shape (L,): which of its items are among these."""
        return np.fromiter((item in some for item in self.items), np.bool_, len(self.items))


def one_click(ladder: LadderRates, counts: SlotCounts) -> Floats:
    """Shape (P, K): how far one click of an item at a position moves the ladder's rate there.

    Of what the slot was shown, and of what the item was shown at all positions; 0 where it was not.
    """
    of_position, of_item, _ = ladder.strengths
    p, lent = np.array(ladder.examined[: counts.n.shape[1]]), borrowed(counts.n, of_position)
    exposed = (counts.n * lent * p).sum(axis=1)
    of_all = np.where(exposed > 0, own_weight(exposed, of_item), 0.0)
    at_slot = np.where(counts.n > 0, own_weight(counts.n, of_position), 0.0)
    return np.asarray(at_slot + lent * p * of_all[:, None])


class Cells(NamedTuple):
    """The cells of one context.

    Attributes:
        worth: Shape (G,): what a unit of exposure earns, after pessimism.
        rate: Shape (G,): the same before it.
        cap: Shape (G,): how much exposure counts.
        exposure: Shape (G, V): how much each slot (items before positions), or each list, exposes
            each cell. Where each is a cell of its own, the diagonal alone, shape (G,).
        q: Shape (K,): where items are cells, how much each position exposes them; that is all there
            is to their exposure, which is then empty.
    """

    worth: Floats
    rate: Floats
    cap: Floats
    exposure: Floats
    q: Floats | None = None

    def earned(self, v: Floats, what: Floats) -> float:
        """Σ what min(H, cap), for probabilities of slots or of lists."""
        if self.q is not None:
            exposed = v.reshape(-1, len(self.q)) @ self.q
        else:
            exposed = self.exposure * v if self.exposure.ndim == 1 else self.exposure @ v
        return float(what @ np.minimum(exposed, self.cap))

    def alone(self) -> Floats:
        """What each slot, or each list, earns in a policy that is one list."""
        if self.q is not None:
            return (self.worth[:, None] * np.minimum(self.q, self.cap[:, None])).ravel()
        if self.exposure.ndim == 1:
            return np.asarray(self.worth * np.minimum(self.exposure, self.cap))
        return np.asarray(self.worth @ np.minimum(self.exposure, self.cap[:, None]))

    def matrix(self) -> Any:  # noqa: ANN401 - dense or sparse
        """The exposure as a matrix."""
        from scipy import sparse  # noqa: PLC0415 - slow to import, and needed by few

        if self.q is not None:
            return sparse.kron(sparse.eye_array(len(self.worth)), self.q[None])
        return sparse.diags_array(self.exposure) if self.exposure.ndim == 1 else self.exposure

    def of(self, lists: Ints, items: int) -> Cells:
        """The same cells, exposed by lists instead of slots."""
        which, position = np.nonzero(lists != EMPTY)
        filled = np.zeros((items * lists.shape[1], len(lists)))
        filled[lists[which, position] * lists.shape[1] + position, which] = 1.0
        if self.q is None:
            return self._replace(exposure=self.exposure[:, None] * filled)
        by_item = filled.reshape(items, len(self.q), len(lists))
        return self._replace(exposure=np.einsum("akm,k->am", by_item, self.q), q=None)

    def only(self, some: Bools) -> Cells:
        """The cells as some of the lists expose them."""
        if self.exposure.ndim == 1:
            return Cells(self.worth[some], self.rate[some], self.cap[some], self.exposure[some])
        return self._replace(exposure=self.exposure[:, some])


@dataclass(frozen=True)
class Model:
    """The estimator that a policy is chosen by.

    Attributes:
        cell: "list", "prefix", "item" or "ip".
        theta: θ_1, θ_2, …, as deep as lists are made.
        examined: p_1, p_2, ….
        clip: M.
        ladder: the ladder's rates; None for an estimator of the paper.
        pessimism: by how many standard errors rates are lowered; a ladder's by as many clicks too,
            as those of a few lucky records are known to no standard error.
        examination: how uncertain the ladder's examination is; None where it is given.
    """

    cell: str
    theta: tuple[float, ...]
    examined: tuple[float, ...]
    clip: float
    ladder: LadderRates | None
    pessimism: float
    examination: ExaminationError | None = None

    @property
    def depth(self) -> int:
        """How long lists are."""
        return len(self.theta)

    @property
    def capped(self) -> bool:
        """Whether there is a limit to what the log vouches for."""
        return math.isfinite(self.clip)

    @property
    def q(self) -> Floats:
        """How much each position exposes an item: θ_k p_k."""
        return np.asarray(np.array(self.theta) * np.array(self.examined[: self.depth]))

    def rates(self, counts: SlotCounts) -> Rates:
        """The ladder's rates and how far they may be off; without a ladder, there are none."""
        if self.ladder is None:
            none = counts.n[:, :0]
            return Rates(none, none, none, None)
        rate, variance = self.ladder.rates(counts)
        step = one_click(self.ladder, counts)
        if self.examination is None:
            return Rates(rate, variance, step, None)
        by_p = self.examination.derivatives(self.ladder, counts)
        return Rates(rate, variance + self.examination.variance(by_p), step, by_p)

    def production(self, context: Context) -> float:
        """What a context earns today, per record."""
        return float(np.sum(context.c[:, : self.depth] @ np.array(self.theta))) / context.records

    def cells(self, context: Context) -> Cells:
        """The cells of a context, exposed by its lists if it has some to choose from."""
        theta, items = np.array(self.theta), len(context.n)
        n, c = context.n[:, : self.depth], context.c[:, : self.depth]
        if self.ladder is not None:
            rate = context.rate[:, : self.depth] * theta
            off = np.sqrt(context.variance[:, : self.depth]) + context.step[:, : self.depth]
            free = np.full(rate.size, math.inf)
            worth = rate - self.pessimism * off * theta
            cells = Cells(worth.ravel(), rate.ravel(), free, np.ones(rate.size))
        elif context.lists is not None and self.cell == "list":
            lists = context.lists
            earned, squared = lists.c @ theta, lists.c @ theta**2
            return self._weighed(context, earned, squared, lists.n, np.ones(len(lists.n)))
        elif self.cell == "prefix":
            return self._prefixes(context)
        elif self.cell == "ip":
            counted = (c * theta).ravel(), (c * theta**2).ravel(), (n * self.q).ravel()
            cells = self._weighed(context, *counted, np.tile(self.q, items))
        else:
            counted = c @ theta, c @ theta**2, n @ self.q
            cells = self._weighed(context, *counted, np.empty(0))._replace(q=self.q)
        return cells if context.lists is None else cells.of(context.lists.items, items)

    def _prefixes(self, context: Context) -> Cells:
        """An item below the same items: what lists share from the top."""
        assert context.lists is not None  # noqa: S101 - prefixes are those of lists
        lists, n, c, _ = context.lists
        rows, clicks = [], []
        for k, theta in enumerate(self.theta):
            cell = np.unique(lists[:, : k + 1], axis=0, return_inverse=True)[1].ravel()
            for g in np.unique(cell[lists[:, k] != EMPTY]):
                rows.append(np.where(cell == g, theta, 0.0))
                clicks.append((float(c[cell == g, k].sum()), theta))
        each = np.array(rows)
        found, theta_of = np.array(clicks).T
        return self._weighed(context, found * theta_of, found * theta_of**2, each @ n, each)

    def _weighed(
        self, context: Context, earned: Floats, squared: Floats, exposed: Floats, each: Floats
    ) -> Cells:
        """Cells of an estimator of the paper: rates where there were records, and caps."""
        rate, se = ratio(earned, exposed), ratio(np.sqrt(squared), exposed)
        # What is worth less than nothing is worth nothing: it need not be shown to be counted.
        worth = np.maximum(rate - self.pessimism * se, 0.0)
        seen = exposed > 0
        cap = np.where(seen, self.clip * np.where(seen, exposed, 1.0) / context.records, 0.0)
        return Cells(worth, rate, cap, each)
