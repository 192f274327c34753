"""Estimates as sums over cells, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from foreclick.estimators.cells import Ask
from foreclick.estimators.influence import Spread
from foreclick.estimators.question import Stratum
from foreclick.estimators.support import Tail
from foreclick.metrics import Metric
from foreclick.models import ClickModel


@dataclass(frozen=True)
class Seen:
    """What of a candidate the log sees, for one ask, clip and stratum.

    Attributes:
        repeated: the share of the covered exposure that was seen in several periods; None if the
            log has no periods, or sees nothing.
        contexts: how many contexts are out of sight: nothing is covered that is shown there.
        records: how many records they have.
        heaviest: the cells with the largest weights: context, cell, weight, exposure, records, and
            their share of Σ E W².
        darkest: the contexts that hold most of the uncovered exposure: context, records, covered,
            and their share of it.
        tail: the largest weights of all.
    """

    repeated: float | None
    contexts: int
    records: float
    heaviest: list[dict[str, Any]]
    darkest: list[dict[str, Any]]
    tail: Tail


@dataclass(frozen=True)
class Sums:
    """Sums over cells for one (estimator, metric, clip) in one stratum.

    Attributes:
        credit: Σ n_x C_g W_g, the estimate times the number of records.
        mass: Σ n_x H_g; `covered`: that of the cells that were logged; `clipped`: what M cut off.
        exposure, weighted, squared: Σ E, Σ E W and Σ E W², with E_g = n_x P_g.
        cells, seen: how many cells the candidate would use, and how many of them were logged.
        largest: the largest weight that a record can have, before it is clipped; infinite where
            propensities tell only of the cells that were shown.
        unlogged: records in cells that the given logging policy calls impossible.
        lost: Σ n_x r_g (H_g − M P_g)₊, what the clip took from cells whose rate is known.
        asked: whether the variance was asked for.
        spread: how far the value would move from log to log, where that can be told.
        sight: what of the candidate the log sees, if that was asked.
        repeated: the share of what is covered that was seen in several periods, if they were asked.
        rungs: of a ladder, how much of the exposure took its rate from which rung.
        new_items: of a ladder, the part of `credit` that items earn which their context never
            showed: all of it is borrowed, from the context and from the log.
        new_slots: of a ladder, the part that items earn which were never shown at the position,
            those of `new_items` among them: borrowed from other positions, or from the context.
    """

    ask: Ask
    clip: float
    stratum: Stratum
    credit: float
    mass: float
    covered: float
    clipped: float
    exposure: float
    weighted: float
    squared: float
    cells: float
    seen: float
    largest: float
    unlogged: float
    lost: float
    asked: bool = False
    spread: Spread | None = None
    repeated: float | None = None
    rungs: dict[str, float] | None = None
    new_items: float = 0.0
    new_slots: float = 0.0
    sight: Seen | None = None

    @property
    def model(self) -> ClickModel:
        """The click model that the estimate assumes."""
        return self.ask.model

    @property
    def estimator(self) -> str:
        """What the `estimator` column shows."""
        return self.ask.model.name

    @property
    def metric(self) -> Metric:
        """What is counted."""
        return self.ask.metric

    @property
    def value(self) -> float | None:
        """The estimate of V(h), or None where the log shows nothing of the candidate."""
        if not self.stratum.records or self.covered <= 0:
            return None
        return self.credit / self.stratum.records

    @property
    def steepest(self) -> float:
        """The largest weight that a record can have, after it is clipped."""
        # Records with logging probability 0 get weight M, if they happen all the same.
        found = self.clip if self.unlogged else min(self.clip, self.largest)
        return max(found, 1.0) if self.stratum.used and self.stratum.unknown.records else found

    @property
    def covered_share(self) -> float:
        """The share of the candidate's exposure that was ever logged."""
        return self.covered / self.mass if self.mass else 0.0

    def margin(self, cap: float | None = None) -> float:
        """What the log cannot see, at most: exposure that the clip cut off or that was never shown.

        The first is worth its own click rate, the second at most `cap` per unit of exposure: by
        default the click rate of the best position, as if all that is new were as good.
        """
        if not self.stratum.records:
            return 0.0
        if cap is None:
            cap = self.stratum.best_rate(self.model, self.metric)
        return (self.lost + cap * max(self.mass - self.covered, 0.0)) / self.stratum.records

    @property
    def ess(self) -> float | None:
        """The effective number of records, n (Σ E W)² / (Σ E · Σ E W²).

        None for a ladder whose variance was not asked for: its weights are its influence.
        """
        if self.rungs is not None and not self.asked and self.covered > 0:
            return None
        if not self.squared or self.covered <= 0:
            return 0.0
        return self.stratum.records * self.weighted**2 / (self.exposure * self.squared)


@dataclass(frozen=True)
class Estimate:
    """The answer to a question.

    Attributes:
        sums: one entry per estimator, metric, clip and stratum, in the order they were asked.
        ignored_contexts: contexts that only the candidate has.
    """

    sums: list[Sums]
    ignored_contexts: int
