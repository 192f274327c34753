"""Ratios of two estimates, such as revenue per click, by the delta method.

With R = N / D, a record moves the ratio by what it moves both (STATISTICS, section 2),

    ψ_R = (ψ_N − R ψ_D) / D

and likewise production's. Sums of influence over clusters add, so those of a ratio follow from
those of its parts. Where records are independent there are no clusters, and the products ψ_N ψ_D of
single records are summed instead (`add_products`).

What influence does not show (small cells, few clusters, samples) is known of each part alone. The
two are taken to share it as far as their records move together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from foreclick.batches import Floats, Totals, padded
from foreclick.estimators.influence import Counting
from foreclick.estimators.kernel import context_rows
from foreclick.estimators.question import Question, Stratum
from foreclick.estimators.spread import ByCluster, Spread, clustered, covariance_of
from foreclick.estimators.sums import Caps, Sums, Unseen
from foreclick.metrics import Metric, Ratio

_LEAST = 1e-150  # its square is a number

Psi = dict[tuple[int, int], Floats]
"""Shape (R,) each: ψ_t + V of the rows of a batch, by ask and clip."""


@dataclass(frozen=True)
class RatioSums:
    """One estimate over another, by the same estimator and clip in the same stratum.

    Attributes:
        metric: what is asked.
        over, under: the estimates of its parts.
        spread: how far the ratio would move from log to log, where that can be told.
    """

    metric: Ratio
    over: Sums
    under: Sums
    spread: Spread | None

    @property
    def parts(self) -> tuple[Sums, ...]:
        """The sums over cells that it is made of."""
        return self.over, self.under

    @property
    def estimator(self) -> str:
        """What the `estimator` column shows."""
        return self.over.estimator

    @property
    def clip(self) -> float:
        """M."""
        return self.over.clip

    @property
    def stratum(self) -> Stratum:
        """What it rests on."""
        return self.over.stratum

    @property
    def asked(self) -> bool:
        """Whether the variance was asked for."""
        return self.over.asked

    @property
    def value(self) -> float | None:
        """The ratio; None where the log shows nothing of the candidate, or nothing to divide by."""
        over, under = self.over.value, self.under.value
        return over / under if over is not None and under else None

    @property
    def production(self) -> float | None:
        """The ratio of the means of the records that are used."""
        return self.stratum.production(self.metric)

    @property
    def covered_share(self) -> float:
        """The share of the candidate's exposure that was ever logged, of the part seen least."""
        return min(self.over.covered_share, self.under.covered_share)

    @property
    def clipped_share(self) -> float:
        """The share of it that the clip cut off, of the part cut most."""
        return max(self.over.clipped_share, self.under.clipped_share)

    @property
    def ess(self) -> float | None:
        """The effective number of records, of the part that has fewer."""
        known = [part.ess for part in self.parts if part.ess is not None and not part.metric.shown]
        return min(known, default=None)

    @property
    def repeated(self) -> float | None:
        """The share of what is covered that was seen in several periods, of the part seen least."""
        known = [part.repeated for part in self.parts if part.repeated is not None]
        return min(known, default=None)

    @property
    def rungs(self) -> dict[str, float] | None:
        """Of a ladder, how much of the numerator's exposure took its rate from which rung."""
        return self.over.rungs

    @property
    def unlogged(self) -> float:
        """Records in cells that the given logging policy calls impossible."""
        return max(self.over.unlogged, self.under.unlogged)

    def unseen(self, cap: Caps = None) -> Unseen:
        """What the log cannot see: how much less and how much more than `value` it may be.

        At one end the numerator is as low as it may be and the denominator as high, at the other
        the other way round: what was never shown may be clicked and not bought.
        """
        n, d, value = self.over.value, self.under.value, self.value
        if n is None or d is None or value is None:
            return Unseen(0.0, 0.0)
        over, under = self.over.unseen(cap), self.under.unseen(cap)
        least = max(d - under.less, 0.0)
        most = (n + over.more) / least if least > 0 else np.inf
        return Unseen(value - (n - over.less) / (d + under.more), most - value)


AnySums: TypeAlias = Sums | RatioSums
"""What an estimator says of one metric."""


def spread_of(
    metric: Ratio, parts: Sequence[Sums], bases: Sequence[Spread], across: Floats | None
) -> Spread | None:
    """How far a ratio moves from log to log.

    Args:
        metric: the ratio.
        parts: the estimates of its parts.
        bases: the spread of each part by the influence of records alone.
        across: Shape (2, 2): the covariance of (V̂, F̂) of one part with that of the other, for
            independent records; clusters tell it themselves.
    """
    slopes = slopes_of(metric, parts)
    if slopes is None or any(part.spread is None for part in parts):
        return None
    if across is None:
        base = clustered(_combined(bases, slopes))
        columns = [
            (one, np.stack([one.sums[:, 0], two.sums[:, 0]], axis=1))
            for one, two in zip(bases[0].parts, bases[1].parts, strict=True)
        ]
        alike = _correlation(covariance_of(columns))
    else:
        shown = np.block([[bases[0].covariance, across], [across.T, bases[1].covariance]])
        base = Spread(_moved(shown, slopes), bases[0].freedom, bases[0].clusters)
        alike = _correlation(shown[np.ix_([0, 2], [0, 2])])
    return _with_hidden(base, parts, bases, slopes, alike)


def _with_hidden(
    base: Spread, parts: Sequence[Sums], bases: Sequence[Spread], slopes: Floats, alike: float
) -> Spread:
    """A spread with what influence does not show of either part."""
    hidden = []
    for part, own in zip(parts, bases, strict=True):
        assert part.spread is not None  # noqa: S101 - the caller has looked
        extra = part.spread.covariance - own.covariance
        extra[0, 0] -= part.spread.alone + float(part.spread.slips @ part.spread.slips)
        hidden.append(extra)
    both = alike * _root(hidden[0]) @ _root(hidden[1])
    more = _moved(np.block([[hidden[0], both], [both.T, hidden[1]]]), slopes)
    spreads = [part.spread for part in parts if part.spread is not None]
    alone, borrowed = (
        _joined([getattr(spread, name) for spread in spreads], alike, slopes[0])
        for name in ("alone", "borrowed")
    )
    found = base.plus(more).wider(alone, min(borrowed, alone))
    slips = [slope * spread.slips for slope, spread in zip(slopes[0], spreads, strict=True)]
    width = max(map(len, slips))
    return found.off_by(np.sum([padded(each, width) for each in slips], axis=0)) if width else found


def _joined(variances: Sequence[float], alike: float, slopes: Floats) -> float:
    """The variance of a ratio by that of its parts, which have this correlation."""
    shared = alike * np.sqrt(variances[0] * variances[1])
    both = np.array([[variances[0], shared], [shared, variances[1]]])
    return float(slopes @ both @ slopes)


def slopes_of(metric: Ratio, parts: Sequence[Sums]) -> Floats | None:
    """Shape (2, 2): by how much N and D move the candidate's ratio, and production's.

    None where there is nothing to divide by, or so little that its square is no number: variances
    are then lost.
    """
    found = []
    for values in (
        [part.value for part in parts],
        [parts[0].stratum.production(part) for part in metric.parts],
    ):
        over, under = values
        if over is None or not under or under < _LEAST:
            return None
        found.append([1 / under, -over / under**2])
    return np.array(found)


def _combined(bases: Sequence[Spread], slopes: Floats) -> list[ByCluster]:
    """The sums over clusters of a ratio."""
    return [
        one._replace(sums=one.sums * slopes[:, 0] + two.sums * slopes[:, 1])
        for one, two in zip(bases[0].parts, bases[1].parts, strict=True)
    ]


def _moved(covariance: Floats, slopes: Floats) -> Floats:
    """Shape (2, 2): the covariance of ratios, from that of V̂ and F̂ of both parts, shape (4, 4)."""
    design = np.zeros((2, 4))
    design[0, [0, 2]], design[1, [1, 3]] = slopes
    return np.asarray(design @ covariance @ design.T)


def _correlation(covariance: Floats) -> float:
    one, other = (max(float(variance), 0.0) for variance in np.diag(covariance))  # by rounding, < 0
    scale = float(np.sqrt(one * other))
    return float(covariance[0, 1]) / scale if scale > 0 else 0.0


def _root(covariance: Floats) -> Floats:
    """The symmetric square root; what is below 0 counts as 0."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


# --- independent records ------------------------------------------------------------------------


def add_products(
    question: Question, batches: Iterable[tuple[Counting, Psi]], totals: Totals
) -> None:
    """Sum the products of the influence of single records on both parts of each ratio.

    Args:
        question: what is asked.
        batches: the records of each batch, and their influence.
        totals: sums over contexts, by `product_name`.
    """
    for counting, psi in batches:
        for e, ratio, m in _asked(question):
            over, under = (_columns(question, counting, psi, e, p, m) for p in ratio.parts)
            products = [
                [context_rows(counting.batch, counting.by_row(v * w)) for w in under] for v in over
            ]
            each = np.moveaxis(np.array(products), 2, 0)
            totals.add(product_name(e, ratio, m), each, counting.batch.stratum)


def product_name(e: int, ratio: Ratio, m: int) -> Any:  # noqa: ANN401 - a dict's key
    """What the sums of products are called, by the number of the estimator and that of its clip."""
    return "products", e, ratio, m


def _asked(question: Question) -> Iterable[tuple[int, Ratio, int]]:
    for e, estimator in enumerate(question.estimators):
        for ratio in question.ratios:
            for m in range(len(estimator.clip or (np.inf,))):
                yield e, ratio, m


def _columns(
    question: Question, counting: Counting, psi: Psi, e: int, metric: Metric, m: int
) -> tuple[Floats, Floats]:
    """Shape (R,) each: the influence of rows on a candidate's metric, and on production's."""
    number = e * len(question.parts) + question.parts.index(metric)
    return psi[number, m], counting.rewards(metric)
