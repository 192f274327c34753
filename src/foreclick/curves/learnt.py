"""Examination curves that a log tells: from which moves of items, and with which errors.

`examination` shows them, and `pbm` takes them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Literal

import numpy as np

from foreclick.batches import (
    Batches,
    Bools,
    Candidate,
    Coding,
    Floats,
    batches_of,
    only_contexts,
    some_contexts,
)
from foreclick.batches.facts import records_without_period
from foreclick.curves.errors import CurveError, Examined, Segment, examine
from foreclick.errors import ModelError
from foreclick.estimation.clusters import TOO_MANY_PERIODS, clusters_of
from foreclick.estimators import Estimator, LearntCurve, Weighted
from foreclick.kept import kept
from foreclick.ladder.sample import log_facts
from foreclick.ladder.trend import drift_by_positions
from foreclick.metrics import AnyMetric
from foreclick.models import ByContext, ClickModel
from foreclick.policies import Policy
from foreclick.progress import report_step
from foreclick.question import Clusters
from foreclick.tallies import FEW_PERIODS, Tally
from foreclick.words import listed, number_of, plural

WORTH = 0.01
"""Of p_1; what is known to less than this is known well enough."""

SAMPLE_RECORDS = 500_000
"""Records of the contexts that an estimator's curve is first learnt from.

Neither segments nor further rewards, periods, users or parts of the tally change how many records a
log has, so the same contexts are drawn with and without them.
"""

_MUCH = 4  # times the variance, for which moves across periods are worth their doubts
_FACTOR = math.log(2.0)  # a standard error of log p; what is known to less than that is not known
_MORE = 4  # times as many contexts, where a curve from some is not sharp
_MISSED = 10  # clicks of the same items elsewhere, from which none here is no chance

Curves = dict[Segment, Examined]
"""The curve of each segment."""


def learn_curves(
    tally: Tally,
    places: tuple[int, ...],
    reward: str,
    *,
    by: tuple[str, ...] = (),
    within: str = "auto",
    clusters: Literal["auto", "record"] = "auto",
) -> tuple[Curves, list[str]]:
    """The curve of each segment with its errors, and notes on what it rests on.

    Args:
        tally: the log.
        places: for each position its place, from 0; −1 for those that are left out.
        reward: what is counted as a click.
        by: segment columns.
        within: which moves count; see `examination`.
        clusters: whose records vary together.
    """
    varying, doubts = clusters_of(tally, clusters)
    curves, notes = _curves(batches_of(tally), places, reward, by, within, varying)
    if not any(each.places.identified.sum() > 1 for each in curves.values()):
        raise ModelError(
            "no two positions can be compared: items hardly moved between positions of the same "
            "context, or were hardly clicked where they did. Use a coarser context (a query class, "
            "or context=None), more days, within='context', or swap neighbours at random for a "
            "while; or give a curve that is known from elsewhere, Weighted('pbm', examination=[1, "
            "0.6, …])."
        )
    lost = records_without_period(tally)
    if lost and (within != "context" or "period" in varying):
        notes.append(f"Left out: {number_of(lost, 'record')} without a period.")
    return curves, doubts + notes


def _curves(
    batches: Batches,
    places: tuple[int, ...],
    reward: str,
    by: tuple[str, ...],
    within: str,
    varying: Sequence[Clusters],
) -> tuple[Curves, list[str]]:
    """The curves, from moves within periods if those do, and a note where they do not.

    Where click rates change over time, moves across periods are taken only if there are no others,
    and their errors allow for the change.
    """
    clusters = [kind for kind in varying if kind != "record"]
    ask = partial(examine, batches, reward=reward, places=places, by=by, clusters=clusters)
    notes: list[str] = []
    if within == "period" and not batches.shape.period:
        raise ModelError(
            "within='period', but the log was read without a period. Name the column: "
            "read_log(…, period='…')."
        )
    if within == "context" or not batches.shape.period:
        curves = ask(dated=False)
        if within == "auto":
            notes.append(
                "The log has no periods, so whatever changed while items moved (taste, season, the "
                "ranker) counts as examination, which no interval here allows for. Read it with "
                "period= to compare positions within days."
            )
    else:
        curves = ask(dated=True)
        if within == "auto" and not all(map(_sharp, curves.values())):
            across = ask(dated=False)
            if _better(across, curves):
                curves, note = _across_periods(batches, places, reward, curves, across)
                notes.append(note)
    for segment, each in curves.items():
        if each.context_spread:
            curves[segment] = replace(each, errors=(*each.errors, each.context_error))
    return curves, notes


def _across_periods(
    batches: Batches, places: tuple[int, ...], reward: str, within: Curves, across: Curves
) -> tuple[Curves, str]:
    """Curves where moves across periods tell more than those within them, and a note."""
    p = np.zeros(batches.shape.depth)
    first = next(iter(across.values())).p
    p[: len(places)] = [first[place] if place >= 0 else 0.0 for place in places]
    drift = drift_by_positions(batches, reward, tuple(np.nan_to_num(p).tolist()))
    if not drift.fastest:
        return across, (
            "Within periods few items moved, so clicks are compared across periods, and what "
            "changed in the meantime counts as examination; within='period' rules that out."
        )
    if any(each.places.identified.sum() > 1 for each in within.values()):
        return within, (
            f"Click rates of items change by {drift.fastest:.1%} a period, so only moves within "
            "periods count, though they are few."
        )
    wider = {}
    for segment, each in across.items():
        # What items may have changed on the way from one place to the next.
        change = (
            np.abs(np.arange(len(each.p)) - each.places.reference) * drift.fastest * drift.ahead
        )
        errors = (CurveError(c + np.outer(change, change), freedom) for c, freedom in each.errors)
        wider[segment] = replace(each, errors=tuple(errors))
    return wider, (
        f"Within periods no items moved, and their click rates change by {drift.fastest:.1%} a "
        "period: this curve may be taste that changed and a ranker that followed it, rather than "
        "examination. The intervals allow for that; do not use it without an experiment."
    )


def _sharp(curve: Examined) -> bool:
    """Whether all positions are identified, and so well that no more moves are needed."""
    return bool(curve.places.identified.all() and (_widest(curve) < WORTH).all())


def _better(one: Curves, other: Curves) -> bool:
    """Whether curves tell of more positions, or err less than half as much."""
    identified = [
        sum(int(e.places.identified.sum()) for e in each.values()) for each in (one, other)
    ]
    if identified[0] != identified[1]:
        return identified[0] > identified[1]
    a, b = (np.nansum([np.nansum(_widest(e) ** 2) for e in each.values()]) for each in (one, other))
    return bool(a < b / _MUCH)


def _widest(curve: Examined) -> Floats:
    """Shape (S,): the standard error of each p, the widest."""
    variances = [np.diag(error.covariance) for error in curve.errors]
    return np.asarray(curve.p * np.sqrt(np.max(variances, axis=0)))


def named_positions(positions: Sequence[int]) -> str:
    """Positions in words, runs as ranges: "positions 1–3 and 5"."""
    starts = [k for i, k in enumerate(positions) if i == 0 or k != positions[i - 1] + 1]
    ends = [a for a, b in pairwise([*positions, math.inf]) if b != a + 1]
    runs = [f"{a}–{b}" if a != b else str(a) for a, b in zip(starts, ends, strict=True)]
    return f"{plural(len(positions), 'position')} {listed(runs)}"


# --- for estimators -------------------------------------------------------------------------------


def _known_contexts(tally: Tally, policies: Sequence[Policy]) -> list[Bools] | None:
    """Shape (X,) by batch: the contexts that all policies know; None if these are all, or none."""
    known = []
    for batch in batches_of(tally):
        coding = Coding(batch, 1)
        by_policy = [Candidate(coding, policy).known for policy in policies]
        known.append(np.logical_and.reduce(by_policy))
    return None if all(each.all() for each in known) or not any(map(np.any, known)) else known


def _check_contexts(tally: Tally, model: ClickModel, depth: int) -> None:
    """Refuse an examination by context that lacks contexts of the log, or positions of one."""
    curves = model.examination
    if isinstance(curves, ByContext):
        contexts = [x for batch in batches_of(tally) for x in batch.contexts.to_pylist()]
        lacking = [x for x in contexts if x not in curves]
        if lacking:
            raise ModelError(
                f"the examination of click model {model.name!r} is given by context, and has no "
                f"curve for {len(lacking):,} of {number_of(len(contexts), 'context')} of the log, "
                f"for example {lacking[0]!r}. Give every context one: "
                "{context: curves.get(context, '1/k') for context in …}."
            )
        for x in contexts:
            model.examined(depth, x)


def with_curves(
    tally: Tally,
    estimators: Sequence[Estimator],
    metrics: Sequence[AnyMetric],
    knowing: Sequence[Policy] = (),
) -> tuple[list[Estimator], list[str]]:
    """Estimators whose click models have learnt their examination, and a note where they could not.

    It is that of the log's first reward, whatever is asked: what is looked at is the same.

    Args:
        tally: the log.
        estimators: those asked for.
        metrics: those asked for.
        knowing: the policies whose contexts alone count, where others are dropped.
    """
    asked = max(part.depth for metric in metrics for part in metric.parts)
    for by in estimators:
        _check_contexts(tally, by.model, asked)
    names = {by.name: 0 for by in estimators if isinstance(by, Weighted) and by.model.learns}
    depth = min(asked, tally.shape.depth)
    if not names or depth == 1 or not tally.shape.rewards:
        return list(estimators), []
    if knowing or not knows_curve(tally):
        report_step("Learning how much positions are examined")
    contexts = _known_contexts(tally, knowing) if knowing else None
    if contexts is not None:
        curve, positions = _known(only_contexts(batches_of(tally), contexts))
    else:
        curve, positions = _curve_of(tally)
    estimators_with_curves = [
        Weighted(by.model, by.clip, curve)
        if curve is not None and isinstance(by, Weighted) and by.model.learns
        else by
        for by in estimators
    ]
    known = positions[:depth]
    if known.all():
        return estimators_with_curves, []
    reason, who = "too few clicks of items that moved", ", ".join(names)
    if known.any():
        some = named_positions((np.flatnonzero(~known) + 1).tolist())
        note = f"The log does not tell the examination of {some}: {reason}. "
        note += f"There {who} goes on as 1/k does, and intervals take that as given."
    else:
        note = f"The log does not tell how much positions are examined: {reason}. "
        note += f"{who} takes 1/k, and intervals take it as given."
    return estimators_with_curves, [note + " Weighted('pbm', examination=[…]) says otherwise."]


@kept
def _curve_of(tally: Tally) -> tuple[LearntCurve | None, Bools]:
    """The curve of a log, and which positions it tells of."""
    return _known(batches_of(tally), float(tally.counts()["records"]))


def curve_passes(tally: Tally) -> int:
    """How often the log will be read to learn its curve: once, if some contexts are enough."""
    if _curve_of.knows(tally) or not batches_of(tally).asks:
        return 0
    return 1 if float(tally.counts()["records"]) > SAMPLE_RECORDS else 2


def knows_curve(tally: Tally) -> bool:
    """Whether the curve of a log is learnt already."""
    return _curve_of.knows(tally)


def _known(batches: Batches, records: float | None = None) -> tuple[LearntCurve | None, Bools]:
    """The curve of a log, None if it tells of no two positions, and which it tells of, shape (K,).

    It is learnt from some contexts, if that is sharp; or from all.

    Of a log of 5.3 million rows, the contexts of 330,000 gave intervals of `pbm` that were as wide
    as those by all contexts, in a twentieth of the time.

    A position is known to a factor of two, by one standard error; or it is 0, if its items were
    clicked elsewhere often enough. Positions that are not known go on from the next as 1/k does.

    Args:
        batches: the log.
        records: how many it has, if that is known.
    """
    varying: list[Clusters] = []
    shape, periods = batches.shape, batches.codebook.periods
    if periods is not None and FEW_PERIODS <= periods.known <= TOO_MANY_PERIODS:
        varying.append("period")
    varying += ["unit"] if shape.unit else []
    size, reward = shape.depth, shape.rewards[0]
    if records is None:
        records = sum(float(batch.n.sum()) for batch in batches)
    share = SAMPLE_RECORDS / max(records, 1.0)
    while True:
        some = some_contexts(batches, share, partial(log_facts, batches))  # a ladder needs them
        curves, _ = _curves(some, tuple(range(size)), reward, (), "auto", varying)
        if share >= 1 or (curves and all(map(_sharp, curves.values()))):
            break
        share *= _MORE
    known = zero = np.zeros(size, dtype=np.bool_)
    for curve in curves.values():  # one; none of a log without records
        places = curve.places
        square = np.ix_(places.identified, places.identified)
        finite = [c for c, _ in curve.errors if np.isfinite(c[square]).all()]
        if finite and curve.converged:
            covariance = np.nan_to_num(max(finite, key=lambda c: float(np.nansum(np.diag(c)))))
            known = places.identified & (np.sqrt(np.diag(covariance)) <= _FACTOR)
            zero = places.zero & (places.wins.max(axis=0) >= _MISSED)
    if known.sum() < 2:
        return None, np.zeros_like(known)
    at = np.arange(size)
    above = np.maximum.accumulate(np.where(known, at, -1))
    source = np.where(above >= 0, above, np.argmax(known))
    p = np.where(zero, 0.0, curve.p[source] * (source + 1) / (at + 1))
    values, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(np.maximum(values, 0.0)))[source] * ~zero[:, None]
    return LearntCurve(tuple(p.tolist()), tuple(map(tuple, root.tolist()))), known | zero
