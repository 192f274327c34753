"""How fits ended, and their tests of a log and its candidates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from foreclick.batches import Floats
from foreclick.words import plural

ALARM = 3.0
"""Standard errors from which on something is taken for real."""


class FitReport(NamedTuple):
    """How a fit ended.

    Attributes:
        converged: whether its equations are solved.
        iterations: the steps that it took.
        score: the largest score, in its standard errors.
        condition: the condition number of the slope, scaled to a diagonal of 1.
    """

    converged: bool
    iterations: int
    score: float = 0.0
    condition: float = 1.0

    def __str__(self) -> str:
        """In words, for `--debug`."""
        how = "converged" if self.converged else "did not converge"
        steps = f"{self.iterations} {plural(self.iterations, 'step')}"
        return f"{how} in {steps}, score {self.score:.1e}, condition {self.condition:.3g}"

    @classmethod
    def of(cls, iterations: int, score: Floats, slope: Floats, *, converged: bool) -> FitReport:
        """Of the score, shape (N,), and its slope, shape (N, N), at the end."""
        scale = 1 / np.sqrt(np.maximum(np.abs(np.diag(slope)), 1e-300))
        condition = float(np.linalg.cond(slope * np.outer(scale, scale)))
        return cls(converged, iterations, float(np.abs(score * scale).max(initial=0)), condition)


@dataclass(frozen=True, eq=False)
class FitSummary:
    """The result of a fit of click rates, without the rates.

    Attributes:
        reward: what was counted.
        examination: Shape (K,): p of each position.
        reports: how its parts ended.
        feedback_z: z of the test that production's ranks follow the log's clicks.
        leakage_z: by candidate, z of the test that it knows these clicks; empty if the log has too
            few periods.
        unreachable: by candidate, the share of what it shows that production cannot show.
        click_values: whether the reward was counted as clicks times what a click earns.
    """

    reward: str
    examination: Floats
    reports: tuple[FitReport, ...]
    feedback_z: float
    leakage_z: tuple[float, ...]
    unreachable: tuple[float, ...]
    click_values: bool

    @property
    def converged(self) -> bool:
        """Whether all its equations are solved."""
        return all(report.converged for report in self.reports)

    @property
    def feedback(self) -> float:
        """`feedback_z` above `ALARM`; else 0."""
        return self.feedback_z if self.feedback_z > ALARM else 0.0

    def leakage(self, candidate: int) -> float:
        """The `leakage_z` of a candidate above `ALARM`; else 0."""
        z = self.leakage_z[candidate] if self.leakage_z else 0.0
        return z if z > ALARM else 0.0
