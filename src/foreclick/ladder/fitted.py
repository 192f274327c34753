"""What is fitted to a log, and what the fit found: values, without the work."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foreclick.batches import Floats
from foreclick.estimation.fits import Drift, FitReport, FitSummary, Leakage
from foreclick.estimators import Ladder
from foreclick.ladder.behaviour import Reading, Stopping
from foreclick.ladder.click_value import ClickValue
from foreclick.ladder.coefficients import CandidateOnly, Earlier, Solution
from foreclick.ladder.overlap import Overlap
from foreclick.ladder.rates import RateParameters
from foreclick.ladder.sample import EVERYTHING, Sample


@dataclass(frozen=True)
class LadderSpec:
    """What is fitted.

    Attributes:
        ladder: what was asked for; the examination and stopping that it gives are not learnt.
        reward: what is counted.
        unit: what of the reward counts as one click.
        dated: whether the log has enough periods for clicks to be predicted from those before.
        sample: the contexts that all of it is learnt from.
        rise: whether production's rise may be a feature.
        by_period_fails: whether the fit does not converge by periods, so `dated` is not so.
    """

    ladder: Ladder
    reward: str
    unit: float
    dated: bool = True
    sample: Sample = EVERYTHING
    rise: bool = False
    by_period_fails: bool = False


@dataclass(frozen=True, eq=False)
class LadderFit:
    """A ladder fitted to a log, by production's rank features.

    Attributes:
        spec: what was fitted.
        parameters: β of production's features, with their rise if that counts; examination, and
            the strengths of items and contexts.
        strengths: those of the finer rungs: list, prefix and position; position alone if only that
            has rates of its own.
        reading: how far readers of the log's lists get.
        feedback_z: z of the test that production's ranks follow clicks.
        drift: how click rates change from period to period.
        reports: how its parts ended.
        together: by which share more clicks follow first ones than readers alike would make.
    """

    spec: LadderSpec
    parameters: RateParameters
    strengths: tuple[float, ...]
    reading: Reading
    feedback_z: float = 0.0
    drift: Drift = Drift()  # noqa: RUF009 - a value
    reports: tuple[FitReport, ...] = ()
    together: float = 0.0

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


@dataclass(frozen=True, eq=False)
class CandidateFit:
    """A ladder fitted to a log and to candidates, by the rank features of all of them.

    Attributes:
        log: the fit to the log alone.
        solution: β and examination by the features of all, and how the score moves them.
        by_stopping: Shape (N,): the derivative of β and log p by log κ.
        distinct: the candidates whose features count: those that are not the same as another's.
        earlier: estimates from records before the log, if there are some.
        overlaps: of each candidate with production.
        candidate_only: the regression on the features of each candidate alone.
        leakages: by candidate, tests of whether it knows the log's clicks.
        click_values: what clicks earn, where clicks alone earn the reward.
    """

    log: LadderFit
    solution: Solution
    by_stopping: Floats
    distinct: tuple[int, ...]
    earlier: Earlier | None
    overlaps: tuple[Overlap, ...]
    candidate_only: tuple[CandidateOnly, ...]
    leakages: tuple[Leakage, ...] = ()
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
        """Its results without the rates."""
        return FitSummary(
            self.log.spec.reward,
            self.parameters.p,
            self.reports,
            self.log.feedback_z,
            self.log.drift,
            self.leakages,
            tuple(each.unreachable for each in self.overlaps),
            click_values=self.click_values is not None,
            by_period_fails=self.log.spec.by_period_fails,
        )
