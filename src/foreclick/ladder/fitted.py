"""What is fitted to a log, and what the fit found: values, without the work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from foreclick.batches import Batch, Bools, Floats
from foreclick.estimation.fits import FitReport, FitSummary
from foreclick.estimators import Ladder
from foreclick.ladder.behaviour import Reading, Stopping
from foreclick.ladder.click_value import ClickValue
from foreclick.ladder.coefficients import Earlier, RateParameters, Solution
from foreclick.ladder.features import Alike


class Sample(NamedTuple):
    """A sample of contexts, by the hash of their text.

    Attributes:
        share: the inclusion probability of a context.
    """

    share: float = 1.0

    def of(self, batch: Batch, known: Bools | None = None) -> Bools:
        """Shape (X,): which contexts take part, of those (X, C) that all candidates know."""
        some = batch.context_n > 0
        if known is not None:
            some = some & known.all(axis=1)
        if self.share < 1:
            some = some & (batch.draws < self.share)
        return some


EVERYTHING = Sample()


@dataclass(frozen=True)
class LadderSpec:
    """What is fitted.

    Attributes:
        ladder: what was asked for; what it gives itself is not learnt.
        reward: what is counted.
        unit: what of the reward counts as one click.
        dated: whether the log has enough periods for clicks to be predicted from those before.
        sample: the contexts that coefficients are learnt from.
        strength_sample: the contexts that strengths are learnt from.
    """

    ladder: Ladder
    reward: str
    unit: float
    dated: bool = True
    sample: Sample = EVERYTHING
    strength_sample: Sample = EVERYTHING


@dataclass(frozen=True, eq=False)
class LadderFit:
    """A ladder fitted to a log, by production's rank features.

    Attributes:
        spec: what was fitted.
        parameters: β, examination, and the strengths of items and contexts.
        strengths: those of the finer rungs: list, prefix and position; position alone if only that
            has rates of its own.
        reading: how far readers of the log's lists get.
        feedback_z: z of the test that production reacts to clicks.
        reports: how its parts ended.
    """

    spec: LadderSpec
    parameters: RateParameters
    strengths: tuple[float, ...]
    reading: Reading
    feedback_z: float = 0.0
    reports: tuple[FitReport, ...] = ()

    @property
    def top(self) -> str:
        """The finest cells: "list" or "ip"."""
        return "ip" if len(self.strengths) == 1 else "list"

    @property
    def stopping(self) -> Stopping | None:
        """How readers stop; None if they do not."""
        return self.reading.stopping

    @property
    def finer(self) -> bool:
        """Whether any of the finer rungs has rates of its own."""
        return bool(np.isfinite(self.strengths).any())


class CandidateOnly(NamedTuple):
    """Clicks regressed on the rank features of one candidate alone.

    Attributes:
        coefficients: Shape (3,): of 1, share and height.
        report: how the fit ended.
    """

    coefficients: Floats
    report: FitReport


@dataclass(frozen=True, eq=False)
class CandidateFit:
    """A ladder fitted to a log and to candidates, by the rank features of all of them.

    Attributes:
        log: the fit to the log alone.
        solution: β and examination by the features of all, and how the score moves them.
        by_stopping: Shape (N,): the derivative of β and log p by log κ.
        distinct: the candidates whose features count: those that are not the same as another's.
        earlier: what records before the log say, if there are some.
        overlaps: of each candidate with production.
        candidate_only: the regression on the features of each candidate alone.
        leakage_z: z of the test that a candidate knows the log's clicks; empty without periods.
        click_values: what clicks earn, where clicks alone earn the reward.
    """

    log: LadderFit
    solution: Solution
    by_stopping: Floats
    distinct: tuple[int, ...]
    earlier: Earlier | None
    overlaps: tuple[Alike, ...]
    candidate_only: tuple[CandidateOnly, ...]
    leakage_z: tuple[float, ...] = ()
    click_values: ClickValue | None = None

    @property
    def parameters(self) -> RateParameters:
        """β, examination, and the strengths of items and contexts."""
        return self.solution.parameters

    @property
    def reports(self) -> tuple[FitReport, ...]:
        """How its parts ended."""
        values = () if self.click_values is None else (self.click_values.report,)
        alone = (each.report for each in self.candidate_only)
        return (*self.log.reports, self.solution.report, *alone, *values)

    @property
    def summary(self) -> FitSummary:
        """What it says beside rates."""
        return FitSummary(
            self.log.spec.reward,
            self.parameters.p,
            self.reports,
            self.log.feedback_z,
            self.leakage_z,
            tuple(each.outside for each in self.overlaps),
            click_values=self.click_values is not None,
        )
