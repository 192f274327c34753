"""Estimates as sums over cells, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from foreclick.estimators.cells import Ask
from foreclick.estimators.question import Stratum
from foreclick.estimators.spread import Spread
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
    """

    repeated: float | None
    contexts: int
    records: float
    heaviest: list[dict[str, Any]]
    darkest: list[dict[str, Any]]


class Unseen(NamedTuple):
    """How far a value may be off for what the log cannot see.

    Attributes:
        less: how much less it may be.
        more: how much more.
    """

    less: float
    more: float

    def against(self, other: Unseen) -> Unseen:
        """How far a difference may be off: what either side may be worth is on its own side."""
        return Unseen(self.less + other.more, self.more + other.less)


Caps: TypeAlias = float | Mapping[Metric, float] | None
"""The highest reward of what was never shown: of all metrics, of some, or that of its stratum."""


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
        borrowed: of a ladder, the part of the credit that went to items never shown in the context.
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
    sight: Seen | None = None
    borrowed: float = 0.0

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
    def production(self) -> float | None:
        """The mean reward of the records that are used."""
        return self.stratum.production(self.metric)

    @property
    def parts(self) -> tuple[Sums, ...]:
        """The sums over cells that it is made of: itself."""
        return (self,)

    @property
    def covered_share(self) -> float:
        """The share of the candidate's exposure that was ever logged."""
        return self.covered / self.mass if self.mass else 0.0

    @property
    def clipped_share(self) -> float:
        """The share of the candidate's exposure that the clip cut off."""
        return self.clipped / self.mass if self.mass else 0.0

    def unseen(self, cap: Caps = None) -> Unseen:
        """What the log cannot see: how much less and how much more than `value` it may be worth.

        What a ladder borrowed for items never shown may be worth nothing. On the other side, what
        the clip cut off is worth its own click rate, and what was never shown at most `cap` per
        unit of exposure: by default the click rate of the best position, as if all that is new were
        as good.
        """
        if not self.stratum.records:
            return Unseen(0.0, 0.0)
        if isinstance(cap, Mapping):
            cap = cap.get(self.metric)
        if cap is None:
            cap = self.stratum.best_rate(self.model, self.metric)
        new = cap * max(self.mass - self.covered, 0.0)
        more = self.lost + max(new - self.borrowed, 0.0)
        return Unseen(self.borrowed / self.stratum.records, more / self.stratum.records)

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
