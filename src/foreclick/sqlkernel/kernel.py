"""The one kernel: every estimator of the paper, from cells.

A click model puts each slot into a cell g of its context x. With n_x records in the context,
credit C_g and exposure P_g of a cell per record, and the candidate's exposure H_g,

    V = 1/n Σ_x n_x Σ_g C_g min(H_g / P_g, M)

The steps, each a relation in the log's engine:

    tally ─► lists ─► slots ─┐
                             ├─► cells of the candidate ─► weights ─► sums
    policy ─► lists ─► slots ┘    H_g, P_g, C_g             min(H/P, M)

Only cells that the candidate shows can count, so the log's side is cut down to them first. What
needs no cells (production, contexts the candidate does not know) comes from sums per context.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import ibis
import ibis.expr.types as ir

from foreclick._tally import Tally
from foreclick.engines import real, total
from foreclick.logs import PROPENSITY, N
from foreclick.metrics import Metric
from foreclick.models import MASS, ClickModel
from foreclick.sqlkernel import hazard
from foreclick.sqlkernel.cells import Ask
from foreclick.sqlkernel.drawn import drawn
from foreclick.sqlkernel.firsts import with_firsts
from foreclick.sqlkernel.influence import Influence, Spread
from foreclick.sqlkernel.logged import RECORDS
from foreclick.sqlkernel.prepared import LOGGING, Code, Prepared, per
from foreclick.sqlkernel.question import Question, Stratum, check_question
from foreclick.sqlkernel.rated import Rated
from foreclick.sqlkernel.sampled import sampled
from foreclick.sqlkernel.sight import Look, Sight
from foreclick.sqlkernel.weighed import Weighed, rate_of, worth

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


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
        asked: whether the spread was asked for.
        spread: how far the value would move from log to log, where that can be told.
        repeated: the share of what is covered that was seen in several periods, if they were asked.
        sight: what of the candidate the log sees, if that was asked.
        rungs: of a ladder, how much of the exposure was looked up on which rung.
    """

    model: ClickModel
    metric: Metric
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
    sight: Sight | None = None
    rungs: dict[str, float] | None = None

    @property
    def value(self) -> float | None:
        """The estimate of V(h), or None where the log shows nothing of the candidate."""
        if not self.stratum.records or self.covered <= 0:
            return None
        return self.credit / self.stratum.records

    @property
    def steepest(self) -> float:
        """The largest weight that a record can have, after it is clipped."""
        # What the given logging policy calls impossible weighs M, if it happens all the same.
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

        None for a ladder whose spread was not asked for: its weights are what would move it.
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


def estimate(tally: Tally, question: Question) -> Estimate:
    """Answer a question from a tally."""
    check_question(tally.shape, question)
    tally = with_firsts(tally, question.metrics)
    with tally.engine.scratch() as keep:
        log = Prepared(tally, question, keep)
        strata = log.strata()
        moved = [Influence(log, strata, by, fixed=question.fixed) for by in question.clusters]
        look = Look(log, strata) if question.look else None
        asks = [Ask.of(e, metric) for e in question.estimators for metric in question.metrics]
        answers: dict[Ask, list[Sums]] = {}
        for cell in dict.fromkeys(ask.cell for ask in asks):
            same = [ask for ask in asks if ask.cell == cell]
            answers |= dict(zip(same, _sum_up(log, strata, same, moved, look), strict=True))
        found = [sums for ask in asks for sums in answers[ask]]
        return Estimate(_blinded(log, strata, found), log.ignored_contexts())


def _blinded(log: Prepared, strata: list[Stratum], found: list[Sums]) -> list[Sums]:
    """Where no item of the candidate was ever shown, nothing of it is covered.

    A model that is blind to items, or a logging policy that could have shown them, says otherwise.
    """

    def doubtful(sums: Sums) -> bool:
        return LOGGING in log.policies or not sums.model.sees_items

    # Whoever sees items and found some has answered already, and spares the engine the question.
    answered = {sums.stratum.code for sums in found if sums.covered > 0 and not doubtful(sums)}
    if all(sums.stratum.code in answered for sums in found if doubtful(sums)):
        return found
    blind = log.blind(strata)
    return [
        replace(sums, covered=0.0) if doubtful(sums) and sums.stratum.code in blind else sums
        for sums in found
    ]


# --- weights and sums -------------------------------------------------------------------------


def _sum_up(
    log: Prepared,
    strata: list[Stratum],
    asks: list[Ask],
    moved: list[Influence],
    look: Look | None,
) -> list[list[Sums]]:
    """min(H/P, M) for every cell and clip, summed over the cells: one query, a row a stratum."""
    if asks[0].ladder is not None:
        return _climb_up(Rated(log, asks[0].ladder, asks), strata, moved)
    weighed = hazard.weigh(log, asks) if asks[0].hazard else Weighed(asks, *weigh(log, asks))
    rows = weighed.table
    if moved or look:
        rows = log.keep(rows, "weighed")
        weighed = replace(weighed, table=rows)
    sums = _merged(_sums(log, rows, i, ask.clips) for i, ask in enumerate(asks))
    answers = log.engine.rows(per(rows, log.by).aggregate(**sums))
    by_code = {tuple(row[b] for b in log.by): row for row in answers}
    found = [
        [
            _finish(log, ask, clip, stratum, _pick(by_code, stratum, i, m))
            for m, clip in enumerate(ask.clips)
            for stratum in strata
        ]
        for i, ask in enumerate(asks)
    ]
    if moved:
        of_sample, of_draw = sampled(log, weighed), drawn(log, strata, weighed)
        found = _with_spread(weighed, found, moved, of_sample, of_draw)
    if look is None:
        return found
    sights = look.sights(weighed)
    return [
        [replace(s, sight=sights.get((a, s.clip, s.stratum.code))) for s in sums]
        for a, sums in zip(asks, found, strict=True)
    ]


def _climb_up(rated: Rated, strata: list[Stratum], moved: list[Influence]) -> list[list[Sums]]:
    """What a ladder says; its weights, where they are asked for, are what would move it."""
    log, rungs = rated.log, rated.ladder.rungs
    by_code = rated.sums()
    weighing = rated.effective() if moved else {}
    found = []
    for i, ask in enumerate(rated.asks):
        mine = []
        for stratum in strata:
            row = by_code.get(stratum.code, {}) | weighing.get(stratum.code, {})
            sums = _pick({stratum.code: row}, stratum, i, 0)
            # As if all positions counted alike: then production is worth as many as it has.
            sums["squared"] *= stratum.known.unevenness(ask.metric)
            whole = _finish(log, ask, math.inf, stratum, sums)
            shares = {name: row.get(f"share_{i}_{j}") or 0.0 for j, name in enumerate(rungs)}
            mine.append(replace(whole, rungs=shares))
        found.append(mine)
    if not moved:
        return found
    alone, of_draw = sampled(log, rated.moved), drawn(log, strata, rated.moved)
    for code, row in rated.unsettled().items():
        for i, ask in enumerate(rated.asks):
            key = ask, math.inf, code
            alone[key] = alone.get(key, 0.0) + (row[f"rest_{i}"] or 0.0)
    return _with_spread(rated.moved, found, moved, alone, of_draw)


def weigh(log: Prepared, asks: list[Ask]) -> tuple[list[str], ir.Table]:
    """The names of the cell's columns, and the candidate's cells with ratio_i and w_i_m."""
    cell, cells = log.cells(asks)
    # Two projections, whatever the number of metrics and clips: Ibis's time grows with their depth.
    rows = cells.mutate(**_merged(_ratio(log, cells, i) for i in range(len(asks))))
    weights = {
        f"w_{i}_{m}": _weight(rows, i, clip)
        for i, ask in enumerate(asks)
        for m, clip in enumerate(ask.clips)
    }
    return cell, rows.mutate(**weights)


def _with_spread(
    weighed: Weighed,
    found: list[list[Sums]],
    moved: list[Influence],
    of_sample: dict[tuple[Ask, float, Code], float],
    of_draw: dict[tuple[Ask, float, Code], Floats],
) -> list[list[Sums]]:
    """The same sums with their spread: by several kinds of clusters, the widest of them.

    To it comes the variance of a candidate that was sampled, of the estimate times its records, and
    the covariance of a log whose contexts were drawn.
    """
    asked = list(zip(weighed.asks, found, strict=True))
    values = {(a, s.clip, s.stratum.code): s.value for a, sums in asked for s in sums}
    spreads = [influence.spreads(weighed, values) for influence in moved]
    again = {key: share for influence in moved for key, share in influence.repeated.items()}

    def widest(ask: Ask, s: Sums) -> Spread | None:
        key = (ask, s.clip, s.stratum.code)
        mine = [spread[key] for spread in spreads if key in spread]
        found = max(mine, key=lambda spread: float(spread.covariance[0, 0]), default=None)
        if found is not None and key in of_draw:
            found = replace(found, covariance=found.covariance + of_draw[key])
        if found is None or key not in of_sample:
            return found
        return found.wider(of_sample[key] / s.stratum.records**2)

    return [
        [
            replace(
                s,
                asked=True,
                spread=widest(a, s),
                repeated=again.get((a, s.stratum.code)),
            )
            for s in sums
        ]
        for a, sums in asked
    ]


def _ratio(log: Prepared, cells: ir.Table, i: int) -> dict[str, ir.Value]:
    """For metric i, the logged exposure P_g and the ratio H_g / P_g, 0 where P_g = 0."""
    logged = _logged_exposure(log, cells, i)
    possible = logged > 0
    ratio = cells[f"{MASS}_{i}"] / possible.ifelse(logged, real(1))
    return {f"log_{i}": logged, f"ratio_{i}": possible.ifelse(ratio, real(0))}


def _logged_exposure(log: Prepared, cells: ir.Table, i: int) -> ir.Value:
    """P_g: by the log's frequencies, by the given policy, or by the record's own propensity."""
    if LOGGING in log.policies:
        return cells[f"{LOGGING}_{i}"]
    if log.propensity:
        n = (cells[N] > 0).ifelse(cells[N], 1).cast("float64")
        return cells[f"p_{i}"] / n * cells[PROPENSITY].fill_null(real(0))
    return cells[f"p_{i}"] / cells[RECORDS].cast("float64")


def _weight(rows: ir.Table, i: int, clip: float) -> ir.Value:
    """min(H/P, M). Where P = 0: M if it is finite, else the credit is left out; 0/0 = 0."""
    ratio = rows[f"ratio_{i}"]
    if math.isinf(clip):
        return ratio
    bound = real(clip)
    impossible = (rows[f"{MASS}_{i}"] > 0).ifelse(bound, real(0))
    return (rows[f"log_{i}"] > 0).ifelse(ibis.least(ratio, bound), impossible)


def _sums(log: Prepared, rows: ir.Table, i: int, clips: Sequence[float]) -> dict[str, ir.Value]:
    """The sums over cells for metric i, by their names in `Sums`."""
    nothing = real(0)
    n_x, wanted, logged = rows[RECORDS].cast("float64"), rows[f"{MASS}_{i}"], rows[f"log_{i}"]
    possible = logged > 0
    # Propensities may split a cell into rows; each then counts for its part of the cell.
    share = rows["share"] if log.propensity else (wanted > 0).ifelse(real(1), nothing)
    mass = n_x * wanted * share if log.propensity else n_x * wanted
    expected = n_x * logged if LOGGING in log.policies else rows[f"p_{i}"]
    sums: dict[str, ir.Value] = {
        f"mass_{i}": mass.sum(),
        f"covered_{i}": possible.ifelse(mass, nothing).sum(),
        f"cells_{i}": (wanted > 0).ifelse(share, nothing).sum(),
        f"seen_{i}": ((wanted > 0) & possible).ifelse(share, nothing).sum(),
        f"largest_{i}": rows[f"ratio_{i}"].max(),
    }
    if LOGGING in log.policies or log.propensity:
        sums[f"unlogged_{i}"] = total((~possible & (wanted > 0)).ifelse(rows[N], 0))
    for m, clip in enumerate(clips):
        weight = rows[f"w_{i}_{m}"]
        sums[f"credit_{i}_{m}"] = worth(rows, i, m).sum()
        sums[f"weighted_{i}_{m}"] = (expected * weight).sum()
        sums[f"squared_{i}_{m}"] = (expected * weight * weight).sum()
        if math.isfinite(clip):
            cut = n_x * (wanted - real(clip) * logged) * share
            clipped = (possible & (cut > 0)).ifelse(cut, nothing)
            sums[f"clipped_{i}_{m}"] = clipped.sum()
            sums[f"lost_{i}_{m}"] = (clipped * rate_of(rows, i)).sum()
    return sums


def _pick(by_code: dict[Code, dict[str, Any]], stratum: Stratum, i: int, m: int) -> dict[str, Any]:
    """The sums of metric i and clip m in a stratum; nothing where no cell is."""
    row = by_code.get(stratum.code, {})
    names = ("credit", "mass", "covered", "clipped", "weighted", "squared", "cells", "seen")
    return {
        name: row.get(f"{name}_{i}_{m}", row.get(f"{name}_{i}")) or 0.0
        for name in (*names, "largest", "unlogged", "lost")
    }


def _finish(log: Prepared, ask: Ask, clip: float, stratum: Stratum, sums: dict[str, Any]) -> Sums:
    """Add the contexts that the candidate does not know: there it shows what production did.

    Their weights are 1 and their exposure is their own, whatever the clip.
    """
    model, metric = ask.model, ask.metric
    shown, absent, credit = 0.0, 0.0, 0.0
    if stratum.used:
        shown = stratum.unknown.exposure(model, metric)
        absent = stratum.unknown.counted(model, metric)
        credit = stratum.unknown.credit(metric)
    sums = sums | {name: sums[name] + shown for name in ("mass", "covered")}
    sums |= {name: sums[name] + absent for name in ("weighted", "squared")}
    if log.propensity:
        sums["largest"] = math.inf
    exposed = stratum.known.counted(model, metric)
    if LOGGING in log.policies:
        filled = log.logging_shown.get(stratum.code, [])
        exposed = sum(e * n for e, n in zip(ask.exposure, filled, strict=False))
    return Sums(
        model=model,
        metric=metric,
        clip=clip,
        stratum=stratum,
        exposure=exposed + absent,
        **(sums | {"credit": sums["credit"] + credit}),
    )


def _merged(parts: Iterable[dict[str, ir.Value]]) -> dict[str, ir.Value]:
    return {name: value for part in parts for name, value in part.items()}
