"""What a ladder learns of a log as a whole: strengths of its rungs, examination, and κ.

All are a few numbers that contexts share, so a sample of contexts is enough. Strengths and κ are
those that predict each part of the sample best from the others, by squared error of clicks: each
period, or, where there are none, each list of thirty or more. What a list is worth that was seen
before, the strength of the top, is then learnt from buckets of users, or tenths of the records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from foreclick.batches import Floats
from foreclick.estimators.ladder.held_out import HeldOut
from foreclick.estimators.ladder.sample import Sample, sampled
from foreclick.estimators.ladder.spec import Fitted, Ladder
from foreclick.models import ClickModel
from foreclick.progress import say
from foreclick.tallies.base import Tally

_GUESS = {"list": 1000.0, "prefix": 1000.0, "position": 300.0, "item": 10.0, "context": 100.0}
_GRID: Floats = np.array([0.1 * 10 ** (j / 3) for j in range(19)])  # from .1 to 100,000
STOPPING = (0.0, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9, 1.0)
"""The grid of κ."""

_MANY_LISTS = 30  # fewer say too little of each other to learn strengths from
_USUAL_STOPPING = 0.6  # where the search begins
_ROUNDS = 2
_TIE = 1e-6  # a loss that is smaller by less predicts no better


def fitted(tally: Tally, ladder: Ladder, reward: str, depth: int = 0) -> Fitted:
    """The ladder with its strengths and examination, learnt from a sample of contexts.

    Args:
        tally: the log.
        ladder: with or without strengths and examination.
        reward: the reward whose rates are estimated.
        depth: how deep a given examination is to reach; a learnt one ends where the log's lists
            do, and is 0 further down.
    """
    given = None
    if ladder.examination is not None:
        depth = max(depth, tally.shape.depth)
        given = np.array(ClickModel(ladder.name, (), ladder.examination).examined(depth))
    if ladder.strengths is not None and given is not None and ladder.stopping == 0:
        return Fitted(ladder, ladder.strengths, tuple(given.tolist()))
    key = "ladder", tally.stored.op(), ladder, reward, None if given is None else tuple(given)
    if key not in tally.learnt:
        say(f"Learning {ladder.name} from a sample of contexts")
        tally.learnt[key] = learnt(ladder, sampled(tally, reward), given)
    return cast("Fitted", tally.learnt[key])


# --- strengths and κ ------------------------------------------------------------------------------


def learnt(ladder: Ladder, sample: Sample, given: Floats | None = None) -> Fitted:
    """The strengths, examination and κ that predict each part best from the others.

    κ by the strengths so far, strengths by that κ, and both once more.

    Args:
        ladder: what it has of its own is not learnt.
        sample: the records.
        given: Shape (K,) or longer: the examination, if it is not to be learnt.
    """
    curve = sample.curve if given is None else given
    tree = HeldOut(ladder, sample, curve, fixed=given is not None)
    strengths = list(ladder.strengths or (_GUESS[rung] for rung in ladder.rungs[:-1]))
    stopping = 0.0 if ladder.stopping is None else ladder.stopping
    by_list, several = tree, len(np.unique(sample.part)) > 1
    if several and not sample.dated and len(sample.lists) >= _MANY_LISTS:
        by_list = HeldOut(ladder, sample.by_list(), curve, fixed=given is not None)
    if several:  # else there is nothing to predict from
        strengths, stopping = _searched(ladder, (tree, by_list), strengths, stopping)
    tree.examine(strengths, stopping)
    base = float(tree.rates(strengths)[-1][0])
    p = tuple(tree.p.tolist())
    return Fitted(ladder, tuple(strengths), p, stopping, base, tree.rounds)


def _searched(
    ladder: Ladder, trees: tuple[HeldOut, HeldOut], strengths: list[float], stopping: float
) -> tuple[list[float], float]:
    """The strengths and κ that predict best, so far as the ladder has none of its own.

    Args:
        ladder: what is not to be learnt.
        trees: the error by parts, which tells what a list is worth that was seen before, and the
            one that tells everything else.
        strengths: where the search begins.
        stopping: κ, if it is not to be learnt.
    """
    by_part, by_list = trees
    rungs = range(len(strengths))
    seen = [] if by_part is by_list or ladder.top != "list" else [0]
    if ladder.stopping is None:
        stopping = _USUAL_STOPPING
    for _ in range(_ROUNDS):
        before = strengths, stopping
        if ladder.stopping is None:
            stopping = _stopping(by_list, strengths, stopping)
        if ladder.strengths is None:
            by_list.examine(strengths, stopping)
            strengths = _strengths(by_list, strengths, [j for j in rungs if j not in seen])
            if seen:
                by_part.examine(strengths, stopping)
                strengths = _strengths(by_part, strengths, seen)
        if before == (strengths, stopping):
            break
    return strengths, stopping


def _stopping(tree: HeldOut, strengths: list[float], start: float) -> float:
    """κ on its grid, given strengths."""
    known: dict[int, float] = {}

    def loss(where: list[int]) -> float:
        at = where[0]
        if at not in known:
            tree.examine(strengths, STOPPING[at])
            known[at] = tree.loss(strengths)
        return known[at]

    return STOPPING[_descend(loss, [STOPPING.index(start)], 0, len(STOPPING), (2, 1))[0]]


def _strengths(tree: HeldOut, start: list[float], rungs: Sequence[int]) -> list[float]:
    """Strengths on their grid, one of some rungs after the other, from the coarsest."""
    at = [int(np.argmin(np.abs(np.log(_GRID / s)))) for s in start]
    known: dict[tuple[int, ...], float] = {}

    def loss(where: list[int]) -> float:
        key = tuple(where)
        if key not in known:
            known[key] = tree.loss(tuple(_GRID[where].tolist()))
        return known[key]

    for strides in ((3, 1), (1,)):
        for rung in reversed(rungs):
            at = _descend(loss, at, rung, len(_GRID), strides)
    return [float(_GRID[j]) for j in at]


def _descend(
    loss: Callable[[list[int]], float], at: list[int], rung: int, size: int, strides: Sequence[int]
) -> list[int]:
    """Walk along one number's grid as long as it goes down, with strides that shrink."""
    for stride in strides:
        for step in (stride, -stride):
            while 0 <= at[rung] + step < size:
                further = [*at[:rung], at[rung] + step, *at[rung + 1 :]]
                if not loss(further) < loss(at) - _TIE * abs(loss(at)):
                    break
                at = further
    return at
