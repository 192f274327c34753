"""What a policy can earn in one context: the cells of a click model, in numbers.

The estimate of a policy is Σ_g w_g min(H_g, cap_g): w_g is the click rate of cell g, H_g how much
the policy exposes it, and cap_g = M · P_g as much as the log vouches for; the ladder has no caps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from foreclick.optimize.answers import NOBODY
from foreclick.optimize.rates import Climbing
from foreclick.sqlkernel.strengths import ratio

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from foreclick.optimize.batch import View

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]
    Bools = NDArray[np.bool_]


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

    def of(self, lists: Integers, items: int) -> Cells:
        """The same cells, exposed by lists instead of slots."""
        which, position = np.nonzero(lists != NOBODY)
        filled = np.zeros((items * lists.shape[1], len(lists)))
        filled[lists[which, position] * lists.shape[1] + position, which] = 1.0
        if self.q is None:
            return self._replace(exposure=self.exposure[:, None] * filled)
        by_item = filled.reshape(items, len(self.q), len(lists))
        return self._replace(exposure=np.einsum("akm,k->am", by_item, self.q), q=None)

    def only(self, some: Bools) -> Cells:
        """The same without some of the lists."""
        if self.exposure.ndim == 1:
            return Cells(self.worth[some], self.rate[some], self.cap[some], self.exposure[some])
        return self._replace(exposure=self.exposure[:, some])


@dataclass(frozen=True)
class Model:
    """An estimator as far as a policy is chosen by it.

    Attributes:
        cell: "list", "prefix", "item" or "ip".
        theta: θ_1, θ_2, …, as deep as lists are made.
        examined: p_1, p_2, ….
        clip: M.
        climbing: the ladder; None for an estimator of the paper.
        pessimism: by how many standard errors rates are lowered.
    """

    cell: str
    theta: tuple[float, ...]
    examined: tuple[float, ...]
    clip: float
    climbing: Climbing | None
    pessimism: float

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

    def production(self, view: View) -> float:
        """What a context earns today, per record."""
        return float(np.sum(view.c[:, : self.depth] @ np.array(self.theta))) / view.records

    def cells(self, view: View) -> Cells:
        """The cells of a context, exposed by its lists if it has some to choose from."""
        theta, items = np.array(self.theta), len(view.items)
        n, c = view.n[:, : self.depth], view.c[:, : self.depth]
        if self.climbing is not None:
            rate = view.rate[:, : self.depth] * theta
            se = np.sqrt(view.off[:, : self.depth]) * theta
            free = np.full(rate.size, math.inf)
            worth = rate - self.pessimism * se
            cells = Cells(worth.ravel(), rate.ravel(), free, np.ones(rate.size))
        elif view.lists is not None and self.cell == "list":
            lists = view.lists
            earned, squared = lists.c @ theta, lists.c @ theta**2
            return self._weighed(view, earned, squared, lists.n, np.ones(len(lists.n)))
        elif self.cell == "prefix":
            return self._prefixes(view)
        elif self.cell == "ip":
            counted = (c * theta).ravel(), (c * theta**2).ravel(), (n * self.q).ravel()
            cells = self._weighed(view, *counted, np.tile(self.q, items))
        else:
            counted = c @ theta, c @ theta**2, n @ self.q
            cells = self._weighed(view, *counted, np.empty(0))._replace(q=self.q)
        return cells if view.lists is None else cells.of(view.lists.items, items)

    def _prefixes(self, view: View) -> Cells:
        """An item below the same items: what lists share from the top."""
        assert view.lists is not None  # noqa: S101 - whoever has prefixes has lists
        lists, n, c, _ = view.lists
        rows, clicks = [], []
        for k, theta in enumerate(self.theta):
            cell = np.unique(lists[:, : k + 1], axis=0, return_inverse=True)[1].ravel()
            for g in np.unique(cell[lists[:, k] != NOBODY]):
                rows.append(np.where(cell == g, theta, 0.0))
                clicks.append((float(c[cell == g, k].sum()), theta))
        each = np.array(rows)
        found, theta_of = np.array(clicks).T
        return self._weighed(view, found * theta_of, found * theta_of**2, each @ n, each)

    def _weighed(
        self, view: View, earned: Floats, squared: Floats, exposed: Floats, each: Floats
    ) -> Cells:
        """Cells of an estimator of the paper: rates where there were records, and caps."""
        rate, se = ratio(earned, exposed), ratio(np.sqrt(squared), exposed)
        # What is worth less than nothing is worth nothing: it need not be shown to be counted.
        worth = np.maximum(rate - self.pessimism * se, 0.0)
        seen = exposed > 0
        cap = np.where(seen, self.clip * np.where(seen, exposed, 1.0) / view.records, 0.0)
        return Cells(worth, rate, cap, each)
