"""Sums over a log for one column: what an estimate rests on, and how much of it the log saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from foreclick.batches import Floats, sums
from foreclick.estimate.columns import View
from foreclick.estimate.weighted import WeighedCells
from foreclick.metrics import AnyMetric, Metric, Ratio
from foreclick.models import ClickModel
from foreclick.question import Target, by_hazard

Row = dict[str, Any]


class Unseen(NamedTuple):
    """How far a value may be off for what the log cannot see: how much less, how much more."""

    less: float
    more: float

    def against(self, other: Unseen) -> Unseen:
        """How far a difference may be off: what either side may be worth is on its own side."""
        return Unseen(self.less + other.more, self.more + other.less)


Caps: TypeAlias = Mapping[Metric, float] | None
"""The highest reward of what was never shown, by metric; None: as the log suggests."""


@dataclass(frozen=True)
class Part:
    """Sums over some records, and by position how often it was filled and what it earned.

    Attributes:
        shown: by position.
        rewards: by metric and position, what the metric's reward sums to.
        at_risk: by metric and position, for metrics of first clicks: records without a click above.
    """

    contexts: int
    records: float
    shown: Floats
    rewards: dict[Metric, Floats]
    at_risk: dict[Metric, Floats]

    def credit(self, metric: Metric) -> float:
        """Σ_k θ_k w_k over the records."""
        return along(metric.theta, self.rewards[metric])

    def counts(self, model: ClickModel, metric: Metric) -> Floats:
        """By position, how many records a click rate is of: all, or those at risk."""
        return self.at_risk[metric] if by_hazard(model, metric) else self.shown

    def exposure(self, target: Target, *, at_risk: bool = True) -> float:
        """Σ_k e_k over the records, or over those that click rates are taken from."""
        counts = self.counts(target.model, target.metric) if at_risk else self.shown
        return along(target.exposure, counts)

    def without(self, other: Part) -> Part:
        """The other records."""
        return Part(
            self.contexts - other.contexts,
            whole_number(self.records - other.records),
            self.shown - other.shown,
            {m: each - other.rewards[m] for m, each in self.rewards.items()},
            {m: each - other.at_risk[m] for m, each in self.at_risk.items()},
        )


def along(values: Sequence[float], by_position: Floats) -> float:
    """Σ_k of values times sums by position."""
    size = min(len(values), len(by_position))
    return float(np.dot(values[:size], by_position[:size]))


def whole_number(value: float) -> float:
    """A count as an integer, if it is one."""
    return int(value) if float(value).is_integer() else float(value)


@dataclass(frozen=True)
class Stratum:
    """What a part of the answer rests on, for one candidate.

    Attributes:
        segment: the values of the columns it is split by.
        number: among the parts of the answer.
        known: the records of contexts that the candidate has lists for.
        unknown: the others; they count as production does, or not at all.
        used: whether the unknown contexts count.
    """

    segment: dict[str, Any]
    number: int
    known: Part
    unknown: Part
    used: bool

    @property
    def contexts(self) -> int:
        """How many contexts the estimate uses."""
        return self.known.contexts + (self.unknown.contexts if self.used else 0)

    @property
    def records(self) -> float:
        """How many records the estimate uses."""
        return self.known.records + (self.unknown.records if self.used else 0)

    @property
    def missing_contexts(self) -> int:
        """Contexts of the log that the candidate has no list for."""
        return self.unknown.contexts

    def production(self, metric: AnyMetric) -> float | None:
        """The mean reward of the records that are used, or the ratio of two."""
        if not self.records:
            return None
        if isinstance(metric, Ratio):
            over, under = (self.production(part) for part in metric.parts)
            return over / under if over is not None and under else None
        absent = self.unknown.credit(metric) if self.used else 0.0
        return (self.known.credit(metric) + absent) / self.records

    def best_rate(self, model: ClickModel, metric: Metric) -> float:
        """The mean reward of the best position, per unit of examination."""
        parts = (self.known, self.unknown) if self.used else (self.known,)
        shown = np.sum([p.counts(model, metric) for p in parts], axis=0)
        earned = np.sum([p.rewards[metric] for p in parts], axis=0)
        examined = model.examined(metric.depth)
        rates = [w / n / p for w, n, p in zip(earned, shown, examined, strict=False) if n * p > 0]
        return float(max(rates, default=0.0))


@dataclass(frozen=True, eq=False)
class ColumnSums:
    """Sums over cells for one column in one part of the answer.

    Attributes:
        credit: Σ n_x C_g W_g, the estimate times the number of records.
        mass: Σ n_x H_g; `covered`: that of the cells that were logged; `clipped`: what M cut off.
        exposure, weighted, squared: Σ E, Σ E W and Σ E W², with E_g = n_x P_g.
        cells, seen: how many cells the candidate would use, and how many of them were logged.
        out, out_records: contexts of which nothing is covered, and their records.
        largest: the largest weight that a record can have, before it is clipped.
        unlogged: records in cells that the given logging policy calls impossible.
        lost: Σ n_x r_g (H_g − M P_g)₊, what the clip took from cells whose rate is known.
        borrowed: of a ladder, the part of the credit that went to items never shown in the context.
        further: how much more that is, if production could not have shown them.
        rungs: of a ladder, how much of the exposure took its rate from which rung.
        repeated: the share of what is covered that was seen in several periods, if that is known.
        least_covered: contexts with most of the uncovered exposure, for `support`.
    """

    target: Target
    stratum: Stratum
    column: int
    credit: float
    mass: float
    covered: float
    exposure: float
    weighted: float
    squared: float
    clipped: float = 0.0
    cells: float = 0.0
    seen: float = 0.0
    out: float = 0.0
    out_records: float = 0.0
    largest: float = 0.0
    unlogged: float = 0.0
    lost: float = 0.0
    borrowed: float = 0.0
    further: float = 0.0
    rungs: dict[str, float] | None = None
    repeated: float | None = None
    least_covered: Sequence[Row] = ()

    @property
    def metric(self) -> Metric:
        """What is counted."""
        return self.target.metric

    @property
    def value(self) -> float | None:
        """The estimate of V(h), or None where the log shows nothing of the candidate."""
        if not self.stratum.records or self.covered <= 0:
            return None
        return self.credit / self.stratum.records

    def unseen(self, caps: Caps) -> Unseen:
        """What the log cannot see: how much less and how much more than `value` it may be worth.

        What a ladder borrowed for items never shown may be worth nothing. On the other side, what
        the clip cut off is worth its own click rate, and what was never shown at most its cap per
        unit of exposure: by default the click rate of the best position, as if all that is new were
        as good.
        """
        if not self.stratum.records:
            return Unseen(0.0, 0.0)
        if self.target.ladder is not None:
            return Unseen(0.0, self.further / self.stratum.records)
        cap = None if caps is None else caps.get(self.metric)
        if cap is None:
            cap = self.stratum.best_rate(self.target.model, self.metric)
        new = cap * max(self.mass - self.covered, 0.0)
        more = self.lost + max(new - self.borrowed, 0.0)
        return Unseen(self.borrowed / self.stratum.records, more / self.stratum.records)


# --- where the log does not cover a candidate -----------------------------------------------------


def least_covered(w: WeighedCells, view: View, top: int) -> dict[Target, list[Row]]:
    """By target, the contexts of a batch with most of the first candidate's uncovered exposure.

    A row has `context`, `records`, `covered`, and `uncovered`, how much exposure that is.
    """
    batch, rows = view.batch, {}
    for a, target in enumerate(w.targets):
        mass, logged = w.records * w.wanted[a, 0], w.logged[a] > 0
        covered, uncovered = (
            sums(w.cells.context, np.where(logged == seen, mass, 0.0), batch.context_count)
            for seen in (True, False)
        )
        order = np.argsort(-uncovered.astype(np.float32), kind="stable")[:top]
        rows[target] = [
            {
                "context": batch.contexts[int(x)].as_py(),
                "records": float(batch.context_n[x]),
                "covered": float(covered[x] / (covered[x] + uncovered[x])),
                "uncovered": float(uncovered[x]),
            }
            for x in order
            if np.float32(uncovered[x]) > 0
        ]
    return rows


def most_uncovered(rows: list[Row], top: int) -> list[Row]:
    """The first of several rows; numbers that are equal but for rounding are equal."""
    return sorted(rows, key=lambda row: -float(np.float32(row["uncovered"])))[:top]
