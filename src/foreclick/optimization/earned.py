"""What lists, or items at positions, earned: the credit that estimators of the paper weigh."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from foreclick.batches import EMPTY, Batch, Bools, Candidate, Coding, Floats, Ints, sums
from foreclick.batches.candidate import matched_prefixes
from foreclick.errors import PolicyError
from foreclick.policies import Policy
from foreclick.question import Logging
from foreclick.words import examples, number_of

_EXAMPLES = 3  # in a message


class Earned(NamedTuple):
    """What choices earned.

    There is a row for each of them; where records have propensities of their own, for each choice
    and propensity that were clicked.

    Attributes:
        choice: Shape (E,), rising: a slot, pair · D + position; or the number of a list.
        chance: Shape (E,): how likely it was to be shown; None: as often as it was.
        credit: Shape (F, E): Σ θ w, by fold.
        noise: Shape (F, E): Σ θ² w.
    """

    choice: Ints
    chance: Floats | None
    credit: Floats
    noise: Floats

    def of(self, folds: Bools) -> Earned:
        """That of some folds together, without their axis."""
        credit, noise = self.credit[folds].sum(axis=0), self.noise[folds].sum(axis=0)
        return self._replace(credit=credit, noise=noise)

    def between(self, first: int, last: int) -> Earned:
        """The choices from the first to before the last, numbered from 0, after `of`."""
        rows = slice(*np.searchsorted(self.choice, [first, last]))
        chance = None if self.chance is None else self.chance[rows]
        return Earned(self.choice[rows] - first, chance, self.credit[rows], self.noise[rows])


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

    def earned(self, batch: Batch, fold: Ints, folds: int) -> Earned:
        """What choices earned in a batch, whose rows are of folds, shape (R,)."""
        depth, (row, position, value) = len(self.theta), batch.rewards[self.reward]
        shown = batch.lists[batch.row_list[row], position] != EMPTY
        row, position, value = (of[shown & (position < depth)] for of in (row, position, value))
        which = batch.row_list[row]
        choice: Ints = batch.lists[which, position].astype(np.int64) * depth + position
        if self.by_list:
            choice = batch.prefix[which, depth - 1]
        part, choices, chance = choice, np.arange(self.count(batch)), None
        if isinstance(self.logging, Policy):
            chance = self.shown_by(self.logging, batch)
        elif self.logging is not None and batch.propensity is not None:
            own = batch.propensity[row]
            own = own if own.ndim == 1 else own[np.arange(len(row)), position]
            each, part = np.unique(np.stack([choice, own]), axis=1, return_inverse=True)
            choices, chance, part = each[0].astype(np.int64), each[1], part.ravel()
        credit = value * batch.n[row] * self.theta[position]
        noise = credit * self.theta[position]
        return Earned(
            choices,
            chance,
            *(by_fold(fold[row], part, of, folds, len(choices)) for of in (credit, noise)),
        )

    def count(self, batch: Batch) -> int:
        """How many choices there are in a batch."""
        depth = len(self.theta)
        return int(batch.prefix[-1, depth - 1]) + 1 if self.by_list else batch.pair_count * depth

    def shown_by(self, policy: Policy, batch: Batch) -> Floats:
        """Shape (E,): how likely a policy shows each choice in a batch."""
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
            at, mass = matched_prefixes(batch, coded.lists, depth)[:, depth - 1], coded.lists.mass
        else:
            slots = coded.slots
            at = np.where(slots.pair < batch.pair_count, slots.pair, EMPTY)[:, None] * depth
            at, mass = (at + np.arange(depth)).ravel(), slots.mass.ravel()
        return sums(at[at >= 0], mass[at >= 0], self.count(batch))


def by_fold(fold: Ints, group: Ints, values: Floats, folds: int, count: int) -> Floats:
    """Shape (F, count): the sums of values by fold and group."""
    key = fold.astype(np.int64) * count + group
    return sums(key, values, folds * count).reshape(folds, count)
