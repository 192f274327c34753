"""What lists, or items at positions, earned: the credit that estimators of the paper weigh."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from foreclick.batches import EMPTY, Batch, Candidate, Coding, Floats, Ints, sums
from foreclick.errors import PolicyError
from foreclick.policies import Policy
from foreclick.question import Logging
from foreclick.words import examples, number_of

_EXAMPLES = 3  # in a message


@dataclass(frozen=True, eq=False)
class Choices:
    """What a policy is made of, and whose credit is counted.

    Attributes:
        reward: whose clicks are counted.
        theta: Shape (D,): θ of the positions that lists are made of.
        by_list: whether lists of the log are chosen; otherwise items at positions.
        logging: where logging probabilities come from.
    """

    reward: str
    theta: Floats
    by_list: bool = False
    logging: Logging = None

    def earned(self, batch: Batch, fold: Ints, folds: int) -> dict[str, Any]:
        """What choices earned in a batch, whose rows are of folds, shape (R,); see `Counts`."""
        depth, (row, position, value) = len(self.theta), batch.rewards[self.reward]
        shown = batch.lists[batch.row_list[row], position] != EMPTY
        row, position, value = (of[shown & (position < depth)] for of in (row, position, value))
        which, size = batch.row_list[row], batch.pair_count * depth
        choice: Ints = batch.lists[which, position].astype(np.int64) * depth + position
        if self.by_list:
            number = batch.prefix[:, depth - 1]
            choice, size = number[which], int(number[-1]) + 1
        part, choices, chance = choice, np.arange(size), None
        if isinstance(self.logging, Policy):
            chance = self._shown_by(self.logging, batch, size)
        elif self.logging is not None and batch.propensity is not None:
            own = batch.propensity[row]
            own = own if own.ndim == 1 else own[np.arange(len(row)), position]
            each, part = np.unique(np.stack([choice, own]), axis=1, return_inverse=True)
            choices, chance, part = each[0].astype(np.int64), each[1], part.ravel()
        credit = value * batch.n[row] * self.theta[position]
        credit, noise = (
            by_fold(fold[row], part, of, folds, len(choices))
            for of in (credit, credit * self.theta[position])
        )
        return {"choice": choices, "chance": chance, "credit": credit, "noise": noise}

    def _shown_by(self, policy: Policy, batch: Batch, size: int) -> Floats:
        """Shape (V,): how likely a policy shows each choice in a batch."""
        depth = len(self.theta)
        coded = Candidate(Coding(batch, depth), policy)
        if not coded.known.all():
            unknown = batch.contexts.filter(pa.array(~coded.known)).to_pylist()
            raise PolicyError(
                f"the logging policy has no list for at least {number_of(len(unknown), 'context')} "
                f"of the log, for example {examples(unknown[:_EXAMPLES])}. Give it the lists that "
                "were shown there, or read the log without these contexts, where=…."
            )
        if self.by_list:
            at, mass = coded.begins[:, depth - 1], coded.lists.mass
        else:
            pair, mass = coded.slots.pair, coded.slots.mass.ravel()
            at = np.where(pair < batch.pair_count, pair, EMPTY)[:, None] * depth
            at = (at + np.arange(depth)).ravel()
        return sums(at[at >= 0], mass[at >= 0], size)


def by_fold(fold: Ints, group: Ints, values: Floats, folds: int, count: int) -> Floats:
    """Shape (F, count): the sums of values by fold and group."""
    key = fold.astype(np.int64) * count + group
    return sums(key, values, folds * count).reshape(folds, count)
