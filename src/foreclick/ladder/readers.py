"""Classes of readers: contexts whose lists are read alike.

| class | chance e that position k is read |
|---|---|
| by position | p_k |
| stopping | p_k Π_{j<k} (1 − κ α_j) |
| choice | p_k / (1 + Σ_j p_j α_j): one click a list, for which its items compete |

A context belongs to one class; which one, its click patterns tell (`patterns`). Its lists are read
by the mean over classes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from foreclick.batches import Bools, Floats, ratio
from foreclick.ladder.rates import RateParameters


@dataclass(frozen=True, eq=False)
class ReaderClasses:
    """Classes of readers, J of them, and what their rates lean on.

    Attributes:
        p: Shape (J, K): examination; 1 at the first position.
        kappa: Shape (J,): κ; 0 for those who do not stop.
        choice: Shape (J,): whether items compete.
        reference: Shape (K,): the p that classes share; e of a class is p times its readers.
        share: Shape (J,): of contexts.
        log_level: Shape (J,): the logarithm of the level of rates in a class.
        parameters: β, a and t.
    """

    p: Floats
    kappa: Floats
    choice: Bools
    reference: Floats
    share: Floats
    log_level: Floats
    parameters: RateParameters

    def exposures(self, rate: Floats, variance: Floats | float = 0.0) -> list[Floats]:
        """By class, shape (L, K) each: how much each slot is read.

        Args:
            rate: Shape (L, K'): α of each slot, 0 where nothing is shown.
            variance: of these rates, over their squares.
        """
        return [class_exposure(self, j, rate, variance) for j in range(len(self.p))]

    def at(self, p: Floats) -> ReaderClasses:
        """With another reference, and p of classes in proportion to it."""
        return replace(self, p=self.p * (p / self.reference), reference=p)

    def at_mean_level(self, records: Floats) -> ReaderClasses:
        """With the mean level in the intercept; `records`, (J,), are the shares of classes."""
        mean, beta = float(records @ self.log_level / records.sum()), self.parameters.beta.copy()
        beta[0] += mean
        parameters = replace(self.parameters, beta=beta)
        return replace(self, log_level=self.log_level - mean, parameters=parameters)

    def with_kappa(self, factor: float) -> ReaderClasses:
        """With κ so many times as large."""
        if factor == 1:
            return self
        return replace(self, kappa=np.minimum(factor * self.kappa, 1.0))

    def down_to(self, depth: int) -> ReaderClasses:
        """Down to a depth: beyond the log's, nothing is read."""
        short = depth - self.p.shape[1]
        if short <= 0:
            return replace(self, p=self.p[:, :depth], reference=self.reference[:depth])
        p = np.pad(self.p, ((0, 0), (0, short)))
        return replace(self, p=p, reference=np.pad(self.reference, (0, short), constant_values=1.0))

    def some(self, kept: Bools) -> ReaderClasses:
        """Some of the classes."""
        share = self.share[kept]
        return replace(
            self,
            p=self.p[kept],
            kappa=self.kappa[kept],
            choice=self.choice[kept],
            reference=share @ self.p[kept] / share.sum(),
            share=share / share.sum(),
            log_level=self.log_level[kept],
        )


def class_exposure(
    classes: ReaderClasses, number: int, rate: Floats, variance: Floats | float = 0.0
) -> Floats:
    """Shape (L, K): how much each slot is read in one class, on average over what rates may be.

    In choice, an item whose rate is uncertain takes clicks from itself as well. With q the share of
    readers who click and ρ the relative variance, e is 1 − ρ q + Σ ρ q² times that of known rates,
    to second order. Who stops does so above an item, so there the mean needs no correction.
    """
    p, kappa = classes.p[number], classes.kappa[number]
    if classes.choice[number]:
        read = p / (1 + (p * rate).sum(axis=1, keepdims=True))
        clicked = read * rate
        twice = variance * clicked**2
        return np.asarray(read * (1 - variance * clicked + np.sum(twice, axis=1, keepdims=True)))
    if kappa > 0:
        read = np.ones(rate.shape)
        np.cumprod(1 - kappa * np.clip(rate[:, :-1], 0, 1), axis=1, out=read[:, 1:])
        return np.asarray(p * read)
    return np.broadcast_to(p, rate.shape)


class ListReading(Protocol):
    """How some lists are read."""

    def readers(self) -> Floats:
        """Shape (L, K): readers of each slot; how much it is examined over p."""
        ...

    def by_kappa(self) -> Floats:
        """Shape (L, K): the derivative of the logarithm of readers by that of κ."""
        ...

    def by_rate(self, values: Floats) -> Floats:
        """Shape (L, K): the derivative of Σ values by the rate of the item at each position.

        Args:
            values: Shape (L, K): what slots are worth, in proportion to their readers.
        """
        ...


@dataclass(frozen=True, eq=False)
class MixedLists:
    """Lists that are read by classes, as `ListReading`.

    Attributes:
        classes: these, J of them.
        weights: Shape (J, L): the probability of each, of the contexts of lists.
        rate: Shape (L, K): α of slots; 0 where nothing is shown.
        variance: Shape (L, K): of these rates, over their squares.
    """

    classes: ReaderClasses
    weights: Floats
    rate: Floats
    variance: Floats | float = 0.0

    def _exposures(self) -> list[Floats]:
        """By class, shape (L, K) each: its part of the mean exposure."""
        each = zip(self.weights, self.classes.exposures(self.rate, self.variance), strict=True)
        return [weight[:, None] * exposure for weight, exposure in each]

    def _shares(self) -> list[Floats]:
        """By class, shape (L, K) each: its share of the mean exposure."""
        each = self._exposures()
        total = np.sum(each, axis=0)
        return [ratio(own, total) for own in each]

    def readers(self) -> Floats:
        """Shape (L, K): readers of each slot: exposure, the mean over classes, over p."""
        return np.asarray(np.sum(self._exposures(), axis=0) / self.classes.reference)

    def by_kappa(self) -> Floats:
        """Shape (L, K): the derivative of the logarithm of readers by that of κ."""
        slope = np.zeros(self.rate.shape)
        for share, kappa in zip(self._shares(), self.classes.kappa, strict=True):
            stop = kappa * np.clip(self.rate[:, :-1], 0, 1)
            slope[:, 1:] -= share[:, 1:] * np.cumsum(stop / (1 - stop), axis=1)
        return slope

    def by_rate(self, values: Floats) -> Floats:
        """Shape (L, K): the derivative of Σ values by the rate of the item at each position."""
        classes, moved = self.classes, np.zeros(self.rate.shape)
        for j, share in enumerate(self._shares()):
            own, p = values * share, classes.p[j, : values.shape[1]]
            if classes.choice[j]:
                total = own.sum(axis=1) / (1 + self.rate @ p)
                moved -= total[:, None] * p
            elif classes.kappa[j]:
                below = np.cumsum(own[:, ::-1], axis=1)[:, ::-1] - own
                stop = classes.kappa[j] * np.clip(self.rate, 0, 1)
                moved -= below * classes.kappa[j] / (1 - stop)
        return moved
