"""Examination curves that a log tells: from which moves of items, and with which errors.

`examination` shows them, `judgments` grades by them, and `pbm` takes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from foreclick import inference
from foreclick.analysis.clusters import TOO_MANY_PERIODS, clusters_of
from foreclick.analysis.trends import Drift, drift_of
from foreclick.batches import Batches, Bools, batches_of, count_periods, some_contexts
from foreclick.errors import ModelError
from foreclick.estimators import Clusters, Ladder, Weighted
from foreclick.estimators.examination import Examined, Segment, Spread, examine
from foreclick.estimators.spec import LearntCurve
from foreclick.metrics import AnyMetric
from foreclick.progress import say
from foreclick.tallies import FEW_PERIODS
from foreclick.tallies.base import Tally
from foreclick.words import number_of

Floats = NDArray[np.float64]

WORTH = 0.01
"""Of p_1; what is known to less than this is known well enough."""

DIFFER = 0.1
"""Of log p; contexts or items that differ by less are alike."""

_SURE_SE = 3.0  # standard errors from which they differ
_MUCH = 4  # times the variance, for which moves across periods are worth their doubts
_FACTOR = math.log(2.0)  # a standard error of log p; what is known to less than that is not known
_SAMPLE_ROWS = 300_000  # of the tally, of the contexts from which an estimator's curve is learnt
_MORE = 4  # times as many contexts, where a curve from some is not sharp
_MISSED = 10  # clicks of the same items elsewhere, from which none here is no chance


Answer = dict[Segment, Examined]
"""The curve of each segment."""


def learnt_curves(
    counted: Tally,
    places: tuple[int, ...],
    reward: str,
    *,
    by: tuple[str, ...] = (),
    within: str = "auto",
    clusters: Literal["auto", "record"] = "auto",
) -> tuple[Answer, list[str]]:
    """The curve of each segment with its errors, and notes on what it rests on.

    Args:
        counted: the log.
        places: for each position its place, from 0; −1 for those that are left out.
        reward: what is counted as a click.
        by: segment columns.
        within: which moves count; see `examination`.
        clusters: whose records vary together.
    """
    varying, doubts = clusters_of(counted, clusters)
    found, said = _found(batches_of(counted), places, reward, by, within, varying)
    if not any(one.graph.told.sum() > 1 for one in found.values()):
        raise ModelError(_NOTHING)
    return found, doubts + said + _undated(batches_of(counted), within, varying)


def _found(
    batches: Batches,
    places: tuple[int, ...],
    reward: str,
    by: tuple[str, ...],
    within: str,
    varying: Sequence[Clusters],
) -> tuple[Answer, list[str]]:
    """The curves, whether they tell anything or not, and notes on which moves they rest on."""

    def ask(*, dated: bool) -> Answer:
        kinds = [kind for kind in varying if kind != "record"]
        return examine(batches, reward=reward, places=places, by=by, dated=dated, clusters=kinds)

    found, said = _asked(batches, within, ask, _drifting(batches, reward, places))
    return {code: _between_contexts(one) for code, one in found.items()}, said


_NOTHING = (
    "no two positions can be compared: items hardly moved between positions of the same context, "
    "or were hardly clicked where they did. Use a coarser context (a query class, or "
    "context=None), more days, within='context', or swap neighbours at random for a while; or say "
    "what is known from elsewhere, Weighted('pbm', examination=[1, 0.6, …])."
)


def _drifting(batches: Batches, reward: str, places: Sequence[int]) -> Callable[[Floats], Drift]:
    """Whether click rates change over time, given how much places are examined."""

    def drift(p: Floats) -> Drift:
        by_position = np.zeros(batches.shape.depth)
        by_position[: len(places)] = [p[place] if place >= 0 else 0.0 for place in places]
        return drift_of(batches, reward, np.nan_to_num(by_position))

    return drift


def _asked(
    batches: Batches, within: str, ask: Callable[..., Answer], drift: Callable[[Floats], Drift]
) -> tuple[Answer, list[str]]:
    """The answer, from moves within periods if those do, and a note where they do not.

    Where click rates change over time, moves across periods are taken only if there are no others,
    and their errors allow for the change.
    """
    if within == "auto" and not batches.shape.period:
        said = (
            "The log has no periods, so whatever changed while items moved (taste, season, the "
            "ranker) counts as examination, which no interval here allows for. Read it with "
            "period= to compare positions within days."
        )
        return ask(dated=False), [said]
    if within == "context":
        return ask(dated=False), []
    if not batches.shape.period:
        raise ModelError(
            "within='period', but the log was read without. Name the column: "
            "read_log(…, period='…')."
        )
    found = ask(dated=True)
    if within == "period" or all(_sharp(one) for one in found.values()):
        return found, []
    across = ask(dated=False)
    if not _better(across, found):
        return found, []
    moving = drift(next(iter(across.values())).p)
    if moving.fastest:
        return _despite(moving, found, across)
    said = (
        "Within periods few items moved, so clicks are compared across periods, and what changed "
        "in the meantime counts as examination; within='period' rules that out."
    )
    return across, [said]


def _despite(drift: Drift, within: Answer, across: Answer) -> tuple[Answer, list[str]]:
    """The answer where click rates change over time, and a note."""
    if any(one.graph.told.sum() > 1 for one in within.values()):
        said = (
            f"Click rates of items change by {drift.fastest:.1%} a period, so only moves within "
            "periods count, though they are few."
        )
        return within, [said]
    said = (
        f"Within periods no items moved, and their click rates change by {drift.fastest:.1%} a "
        "period: this curve may be taste that changed and a ranker that followed it, rather than "
        "examination. The intervals allow for that; do not use it without an experiment."
    )
    return {code: _moving(one, drift) for code, one in across.items()}, [said]


def _moving(found: Examined, drift: Drift) -> Examined:
    """The errors with what items may have changed on the way from one place to the next."""
    steps = np.abs(np.arange(len(found.p)) - found.graph.reference)
    off = drift.fastest * drift.ahead * steps
    more = Spread(np.outer(off, off), math.inf)
    wide = [Spread(s.covariance + more.covariance, s.freedom) for s in found.spreads]
    return replace(found, spreads=tuple(wide))


def _between_contexts(found: Examined) -> Examined:
    """The errors with those between contexts, where these are not looked at alike."""
    if not contexts_differ(found):
        return found
    return replace(found, spreads=(*found.spreads, Spread(found.contexts, math.inf)))


def contexts_differ(found: Examined) -> float:
    """By how much log p differs between contexts, beyond chance; 0 if that may be chance."""
    spread, sure = inference.excess(*found.scatter.tolist())
    return spread if sure > _SURE_SE and spread > DIFFER else 0.0


def _sharp(found: Examined) -> bool:
    """Whether all positions are told, and so well that no more moves are needed."""
    return bool(found.graph.told.all() and (_errors(found) < WORTH).all())


def _better(one: Answer, other: Answer) -> bool:
    """Whether an answer tells of more positions, or errs less than half as much."""
    told = [sum(int(e.graph.told.sum()) for e in answer.values()) for answer in (one, other)]
    if told[0] != told[1]:
        return told[0] > told[1]
    mine, theirs = (
        np.nansum([np.nansum(_errors(e) ** 2) for e in answer.values()]) for answer in (one, other)
    )
    return bool(mine < theirs / _MUCH)


def _errors(found: Examined) -> Floats:
    """The standard error of each p, the widest."""
    variances = [np.diag(spread.covariance) for spread in found.spreads]
    return np.asarray(found.p * np.sqrt(np.max(variances, axis=0)))


def _undated(batches: Batches, within: str, varying: Sequence[Clusters]) -> list[str]:
    """Records that belong to no period, where periods are told apart."""
    periods = batches.codebook.periods
    if periods is None or (within == "context" and "period" not in varying):
        return []
    without = batches.map(lambda b: b.n[b.clusters["period"] == periods.known].sum())
    lost = sum(without) if periods.known < len(periods) else 0
    return [f"Left out: {number_of(lost, 'record')} without a period."] if lost else []


def listed(labels: list[Any], name: str) -> str:
    """Places in words: "positions 1–3 and 5"; labels one by one."""
    if not all(isinstance(label, int) for label in labels) or name != "position":
        words = [repr(label) if isinstance(label, str) else str(label) for label in labels]
    else:
        starts = [k for i, k in enumerate(labels) if i == 0 or k != labels[i - 1] + 1]
        ends = [a for a, b in pairwise([*labels, math.inf]) if b != a + 1]
        words = [f"{a}–{b}" if a != b else str(a) for a, b in zip(starts, ends, strict=True)]
    joined = ", ".join(words[:-1]) + (" and " if len(words) > 1 else "") + words[-1]
    return f"{name}{'s' if len(labels) > 1 else ''} {joined}"


# --- for estimators -------------------------------------------------------------------------------


class _Known(NamedTuple):
    """What a log tells of examination.

    Attributes:
        curve: None if it tells of no two positions.
        told: Shape (K,): the positions that it tells of.
    """

    curve: LearntCurve | None
    told: Bools


def with_curves(
    counted: Tally, estimators: Sequence[Weighted | Ladder], metrics: Sequence[AnyMetric]
) -> tuple[list[Weighted | Ladder], list[str]]:
    """Estimators whose click models have learnt their examination, and a note where they could not.

    It is that of the log's first reward, whatever is asked: what is looked at is the same.
    """
    learning = [isinstance(by, Weighted) and by.model.learns for by in estimators]
    counts = max(part.depth for metric in metrics for part in metric.parts)
    depth = min(counts, counted.shape.depth)
    if not any(learning) or depth == 1 or not counted.shape.rewards:
        return list(estimators), []
    known = _known(counted)
    found: list[Weighted | Ladder] = []
    for by, learns in zip(estimators, learning, strict=True):
        if learns and isinstance(by, Weighted) and known.curve is not None:
            found.append(Weighted(by.model, by.clip, known.curve))
        else:
            found.append(by)
    names = ", ".join(
        dict.fromkeys(by.name for by, learns in zip(estimators, learning, strict=True) if learns)
    )
    return found, _assumed(names, known.told[:depth])


def _assumed(names: str, told: Bools) -> list[str]:
    """A note where examination is assumed to fall as 1/k does."""
    if told.all():
        return []
    few = "too few clicks of items that moved"
    if not told.any():
        where = f"The log does not tell how much positions are examined: {few}."
        so = f"{names} takes 1/k, and intervals take it as given"
    else:
        some = listed((np.flatnonzero(~told) + 1).tolist(), "position")
        where = f"The log does not tell the examination of {some}: {few}."
        so = f"There {names} goes on as 1/k does, and intervals take that as given"
    return [f"{where} {so}. Weighted('pbm', examination=[…]) says otherwise."]


def _known(counted: Tally) -> _Known:
    """What a log tells of examination, of all positions; kept with it."""
    key = "examination", counted.stored.op()
    if key not in counted.learnt:
        say("Learning how much positions are examined")
        none = _Known(None, np.zeros(counted.shape.depth, dtype=np.bool_))
        counted.learnt[key] = next(map(_usable, _from_some_contexts(counted)), none)
    return counted.learnt[key]  # type: ignore[no-any-return]


def _from_some_contexts(counted: Tally) -> list[Examined]:
    """One curve, or none of a log without records: from some contexts, if it is sharp; or from all.

    Of a log of 5.3 million rows, the contexts of 330,000 gave intervals of `pbm` that were as wide
    as those by all contexts, in a twentieth of the time.
    """
    varying: list[Clusters] = []
    if counted.shape.period and FEW_PERIODS <= count_periods(counted) <= TOO_MANY_PERIODS:
        varying.append("period")
    varying += ["unit"] if counted.shape.unit else []
    places, reward = tuple(range(counted.shape.depth)), counted.shape.rewards[0]
    batches = batches_of(counted)
    share = _SAMPLE_ROWS / max(batches.rows, 1)
    while True:
        some = some_contexts(batches, share)
        answer, _ = _found(some, places, reward, (), "auto", varying)
        found = list(answer.values())
        if share >= 1 or (found and all(map(_sharp, found))):
            return found
        share *= _MORE


def _usable(found: Examined) -> _Known:
    """The curve with its errors; positions that are not known go on from the next as 1/k does.

    A position is known to a factor of two, by one standard error; or it is 0, if its items were
    clicked elsewhere often enough.
    """
    graph, size = found.graph, len(found.p)
    nothing = np.zeros(size, dtype=np.bool_)
    square = np.ix_(graph.told, graph.told)
    spreads = [s.covariance for s in found.spreads if np.isfinite(s.covariance[square]).all()]
    if not spreads or not found.converged:
        return _Known(None, nothing)
    covariance = np.nan_to_num(max(spreads, key=lambda each: float(np.nansum(np.diag(each)))))
    known = graph.told & (np.sqrt(np.diag(covariance)) <= _FACTOR)
    zero = graph.nothing & (graph.won.max(axis=0) >= _MISSED)
    if known.sum() < 2:  # noqa: PLR2004 - one place is no curve
        return _Known(None, nothing)
    at = np.arange(size)
    above = np.maximum.accumulate(np.where(known, at, -1))
    source = np.where(above >= 0, above, np.argmax(known))
    p = np.where(zero, 0.0, found.p[source] * (source + 1) / (at + 1))
    values, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(np.maximum(values, 0.0)))[source] * ~zero[:, None]
    curve = LearntCurve(tuple(p.tolist()), tuple(map(tuple, root.tolist())))
    return _Known(curve, known | zero)
