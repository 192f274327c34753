"""What a ladder is fitted to: some contexts of a log, drawn by the hash of their text.

Strengths, coefficients, examination and stopping are a few numbers that contexts share, so a sample
of contexts tells them. Rates are those of all contexts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from foreclick.batches import Batch, Batches, Bools
from foreclick.batches.batch import BatchPart
from foreclick.kept import kept, kept_latest
from foreclick.metrics import CLICKS

FIT_SLOTS = 1_000_000
"""Positions of lists, each in each period, of the contexts that are drawn: more change little.

Of three shops of 400,000 lists (seeds 8101 to 8103, 18 lifts), intervals were 1.05 times as wide as
by all contexts, 1.03 times with half as many positions more; all held, as by all contexts."""

LEAST_CONTEXTS = 30
"""Contexts that a sample has on average at least: few large ones would leave it empty by chance."""

ENOUGH_DAYS = 5
"""Periods that a log must have for clicks of a day to be predicted from earlier days."""


class Sample(NamedTuple):
    """A sample of contexts, by the hash of their text.

    Attributes:
        probability: the inclusion probability of a context.
    """

    probability: float = 1.0


EVERYTHING = Sample()


@kept
def sampled(batch: Batch, sample: Sample) -> BatchPart:
    """The contexts of a batch that are in the sample."""
    if sample.probability >= 1:
        return batch.part(np.ones(batch.context_count, dtype=np.bool_))
    return batch.part(batch.draws < sample.probability)


def known_contexts(batch: Batch, known: Bools) -> BatchPart:
    """The contexts of a batch, shape (X,), that all candidates know."""
    return _known_contexts(batch, known.tobytes()) if not known.all() else batch.part(known)


@kept_latest
def _known_contexts(batch: Batch, known: bytes) -> BatchPart:
    return batch.part(np.frombuffer(known, dtype=np.bool_))


# --- the log --------------------------------------------------------------------------------------


class LogFacts(NamedTuple):
    """What a fit must know of a log before it begins.

    Attributes:
        sample: the contexts that it learns from.
        dated: whether the log has enough periods for clicks to be predicted from those before.
        periods: how many it has.
        units: by reward, how much of it counts as one click.
        earned_by_clicks: the rewards, other than clicks, that clicks alone earn.
    """

    sample: Sample
    dated: bool
    periods: int
    units: dict[str, float]
    earned_by_clicks: frozenset[str]


class FitLog(NamedTuple):
    """What a ladder is fitted to.

    Attributes:
        facts: of all contexts.
        batches: those that are in the sample.
    """

    facts: LogFacts
    batches: tuple[Batch, ...]


@kept
def log_facts(batches: Batches) -> LogFacts:
    """What a fit must know of a log before it begins."""
    return _facts(batches, batches)


def earned_by_clicks(batches: Batches, reward: str) -> bool:
    """Whether clicks alone earn a reward, other than clicks themselves."""
    if reward == CLICKS or not {CLICKS, reward} <= set(batches.shape.rewards):
        return False
    return reward in log_facts(batches).earned_by_clicks


@kept
def fit_log(batches: Batches) -> FitLog:
    """What a ladder is fitted to, of all contexts of a log."""
    return _sampled_log(log_facts(batches), batches)


def fit_known(batches: Batches, known: Iterable[Batch]) -> FitLog:
    """The same of some contexts of a log, whose batches `known` has."""
    return _sampled_log(_facts(batches, known), known)


def _sampled_log(facts: LogFacts, batches: Iterable[Batch]) -> FitLog:
    return FitLog(facts, tuple(sampled(batch, facts.sample).batch for batch in batches))


def _facts(batches: Batches, known: Iterable[Batch]) -> LogFacts:
    """One pass over a log."""
    rewards, periods = batches.shape.rewards, batches.codebook.periods
    days, size, contexts = set[int](), 0.0, 0
    value, square = dict.fromkeys(rewards, 0.0), dict.fromkeys(rewards, 0.0)
    by_clicks = {reward for reward in rewards if CLICKS in rewards and reward != CLICKS}
    for batch in known:
        contexts += int((batch.context_n > 0).sum())
        # Slots of lists, each in each period; whatever else tells rows apart does not matter.
        size += float(np.minimum(batch.list_n, len(periods or (1,))).sum() * batch.depth)
        for reward in rewards:
            earned = batch.reward(reward)
            value[reward] += float(batch.n[earned.row] @ earned.value)
            square[reward] += float(batch.n[earned.row] @ earned.value**2)
        if by_clicks:
            unclicked = batch.reward_table(CLICKS) == 0
            by_clicks = {r for r in by_clicks if not np.any(batch.reward_table(r)[unclicked])}
        if periods is not None:
            days |= set(np.unique(batch.clusters["period"]).tolist())
    probability = max(FIT_SLOTS / max(size, 1.0), LEAST_CONTEXTS / max(contexts, 1))
    units = {r: square[r] / value[r] if value[r] > 0 else 1.0 for r in rewards}
    dated, count = len(days) >= ENOUGH_DAYS, 0 if periods is None else periods.known
    return LogFacts(Sample(probability), dated, count, units, frozenset(by_clicks))
