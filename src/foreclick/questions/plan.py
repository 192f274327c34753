"""What an answer takes, known before the work: passes over the log and fits, by their seconds.

Seconds of one core for each position of a row of the tally, from runs on realistic logs of 200,000
lists. Only their ratios matter, for a bar that says how much of the work is done.
"""

from __future__ import annotations

from collections.abc import Sequence

from foreclick.batches import Batches, batches_of
from foreclick.curves.learnt import curve_passes, knows_curve
from foreclick.ladder.sample import FIT_SLOTS, fit_log, log_facts
from foreclick.progress import BETWEEN, MAP, READ, Stage
from foreclick.tallies import Tally

_READ = 0.14e-6
_FIT_LOG, _FIT_CANDIDATES = 2.0e-6, 0.9e-6  # of the sample
_LADDER, _WEIGHTED, _SUPPORT = 0.9e-6, 0.16e-6, 0.065e-6  # for each metric's depth, if weighted
_CURVE = 0.6e-6
_VALUES, _PARTS, _HELD_OUT, _COUNTED = 0.15e-6, 0.9e-6, 1.1e-6, 0.04e-6

_SORTED = 0.6  # of a reading; it is done before the first batch is there

HELD_OUT, CONTEXTS, SEGMENTS = "held out", "contexts", "segments"

EVERY = ("ladder", "ip", "list", "prefix", "item", "pbm", "rctr")


def answer_stages(
    tally: Tally,
    estimators: Sequence[str],
    depths: int,
    candidates: int = 1,
    *,
    support: bool = False,
) -> list[Stage]:
    """The stages of an answer.

    Args:
        tally: the log.
        estimators: by name.
        depths: down to how many different positions metrics count.
        candidates: how many.
        support: whether nothing but their support is asked for.
    """
    batches = batches_of(tally)
    one = _SUPPORT if support else _WEIGHTED
    ladders = sum(name.startswith("ladder") for name in estimators)
    weighted = len(set(estimators) - {"pbm"}) - ladders  # `item` and `pbm` share cells
    curve = "pbm" in estimators and not knows_curve(tally)
    each = ladders * _LADDER + weighted * depths * one
    return [
        *_first_stages(tally, curve=curve, ladder=ladders > 0, candidates=candidates),
        *_pass(batches, MAP, _slots(batches) * (1 + candidates) / 2 * each),
    ]


def report_stages(
    tally: Tally, depths: int, *, contexts: bool, backtest: bool, segments: bool
) -> list[Stage]:
    """The stages of a report."""
    batches = batches_of(tally)
    stages, slots = answer_stages(tally, EVERY, depths), _slots(batches)
    again = _FIT_CANDIDATES * _fitted(batches)
    parts = [Stage(BETWEEN, again), *_pass(batches, MAP, slots * _PARTS)]
    if segments:
        stages += [Stage(BETWEEN, 0.0, SEGMENTS), *parts]
    if contexts:
        stages.append(Stage(BETWEEN, again + (0.0 if batches.asks else slots * _VALUES), CONTEXTS))
        if batches.asks:
            stages += [*_pass(batches, READ, slots * _VALUES), *_pass(batches, READ)]
        stages += parts
    if backtest:
        stages += _held_out(batches, 0.0)
    return stages


def backtest_stages(tally: Tally, estimators: Sequence[str]) -> list[Stage]:
    """The stages of a backtest, whose fit is made while it holds out."""
    batches = batches_of(tally)
    new = not fit_log.knows(batches)
    curve = "pbm" in estimators and not knows_curve(tally)
    stages = _first_stages(tally, curve=curve)
    stages += _held_out(batches, _FIT_LOG * _fitted(batches) * new)
    return stages + (_pass(batches, READ) if batches.asks and new else [])


def check_stages(tally: Tally) -> list[Stage]:
    """The stages of a check."""
    batches = batches_of(tally)
    return _pass(batches, MAP, _slots(batches) * _COUNTED)


def _held_out(batches: Batches, fit: float) -> list[Stage]:
    held, kind = _slots(batches) * _HELD_OUT + fit, READ if batches.asks else BETWEEN
    return [Stage(BETWEEN, 0.0, HELD_OUT), *_pass(batches, kind, held)]


def _first_stages(
    tally: Tally, *, curve: bool, ladder: bool = False, candidates: int = 0
) -> list[Stage]:
    """Before the pass of an answer: small facts, a curve, the sample, and the fit."""
    batches, stages = batches_of(tally), list[Stage]()
    new = ladder and not fit_log.knows(batches)
    if curve:
        passes = curve_passes(tally)
        stages += _pass(batches, READ) * passes
        stages.append(Stage(BETWEEN, _CURVE * _fitted(batches)))
        beside = passes == 1  # small facts
    if new and batches.asks:
        there = log_facts.knows(batches) or (curve and beside)
        stages += _pass(batches, READ) * (1 if there else 2)
    elif not batches.there and not batches.asks:
        stages = [*_pass(batches, READ), *stages]
    if ladder:
        fit = (_FIT_LOG * new + _FIT_CANDIDATES * (1 + candidates) / 2) * _fitted(batches)
        stages.append(Stage(BETWEEN, fit))
    return stages


def _pass(batches: Batches, kind: str, work: float = 0.0) -> list[Stage]:
    """A pass that works on what it reads, unless all is in memory."""
    read = _slots(batches) * _READ
    if batches.there or (kind != READ and not batches.asks):
        return [Stage(kind, work)]
    return [Stage(BETWEEN, _SORTED * read), Stage(kind, (1 - _SORTED) * read + work)]


def _slots(batches: Batches) -> int:
    return batches.rows * batches.shape.depth


def _fitted(batches: Batches) -> int:
    return min(_slots(batches), FIT_SLOTS)
