"""How well a change is told, by how much of a candidate each context is shown."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from foreclick.analysis.arms import Arms
from foreclick.batches import Floats, Ints
from foreclick.inference.planning import Allocation, Differences
from foreclick.results import Value

_SEARCH = 60  # halvings of the share of traffic


@dataclass(frozen=True, eq=False)
class Plan:
    """How well a change is told, by how much of the candidate each context is shown.

    Attributes:
        arms: what both policies show and earn.
        lists: where they differ.
        most: the share of a context that may be shown the candidate.
        margin: how many standard errors a change must have.
        goal: the change to be told.
    """

    arms: Arms
    lists: Differences
    most: float
    margin: float
    goal: float

    @property
    def change(self) -> Floats:
        """Shape (X,): what the candidate is predicted to change; 0 where it shows the same."""
        return np.where(self.lists.apart() > 0, self.arms.predicted - self.arms.production, 0.0)

    def of_record(self, dealt: Floats) -> float:
        """The variance of the change times records."""
        q, change = self.arms.weight, self.change
        mix = float(q @ (change - q @ change) ** 2)
        return float(q @ self.lists.variances(dealt)) + mix

    def enough(self, records: float) -> Floats:
        """Shape (X,): the share of each context, as little as so many records need."""
        low, high = 0.0, self.most
        for _ in range(_SEARCH):
            middle = (low + high) / 2
            found = self.told(self.best(middle), records) <= self.goal
            low, high = (low, middle) if found else (middle, high)
        return self.best(high)

    def best(self, budget: float) -> Floats:
        """Shape (X,): the share of each context, for a share of all traffic."""
        return self._allocation.best(budget)

    @cached_property
    def _allocation(self) -> Allocation:
        return Allocation(self.lists, self.arms.weight, self.most)

    def se(self, dealt: Floats, records: float) -> float:
        """The standard error of the change."""
        return math.sqrt(self.of_record(dealt) / records) if records > 0 else 0.0

    def told(self, dealt: Floats, records: float) -> float:
        """The change that so many records tell from none."""
        return self.margin * self.se(dealt, records)

    def records(self, dealt: Floats) -> float:
        """How many records tell the change that is asked for."""
        return self.of_record(dealt) * (self.margin / self.goal) ** 2 if self.goal else math.inf

    def rows(self, dealt: Floats, records: float, count: int) -> list[dict[str, Value]]:
        """The contexts that take most of the candidate's traffic, and the others in one row."""
        q, spent = self.arms.weight, self.arms.weight * dealt
        order = np.lexsort((np.arange(len(q)), -q, -spent))
        variances = self.lists.variances(dealt)
        found = [self._row(order[i : i + 1], dealt, variances, records) for i in range(count)]
        found = found[: len(order)]
        if len(order) > count:
            found.append(self._row(order[count:], dealt, variances, records))
        return found

    def _row(
        self, some: Ints, dealt: Floats, variances: Floats, records: float
    ) -> dict[str, Value]:
        q, n = self.arms.weight[some], self.arms.n[some]
        total = q.sum()
        own = q / total if total else q
        everything = float(self.arms.weight @ dealt)
        expected = records * total
        alone = len(some) == 1
        name = str(self.arms.contexts[int(some[0])].as_py()) if alone else f"{len(some):,} others"
        variance = float(own @ variances[some])
        return {
            "context": name,
            "records": float(n.sum()),
            "differs": float(own @ self.lists.apart()[some]),
            "share": float(own @ dealt[some]),
            "part": float(q @ dealt[some]) / everything if everything else 0.0,
            "change": float(own @ self.change[some]),
            "se": math.sqrt(variance / expected) if expected > 0 else None,
        }
