"""Several candidates that share what a ladder borrows: their differences are paired in it, too.

What shrinkage takes from a cell, or gives it, is unknown and the same for all candidates. Each of
them is off by its slip times that (`ladder/rates.Rungs.unsettled`), so that two candidates that
show the same are off by the same. With K the covariance of all candidates, K = L Lᵀ, the rows of L
are coordinates: their products are the covariances, whichever candidates are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from foreclick.batches import Batch, Floats, Remembered, Several, batches_of
from foreclick.batches.arrays import accumulate
from foreclick.estimators.answer import Estimate
from foreclick.estimators.cells import Ask
from foreclick.estimators.ladder.estimate import LadderEstimate
from foreclick.estimators.ladder.fit import fitted
from foreclick.estimators.ladder.spec import Ladder
from foreclick.estimators.question import Question
from foreclick.estimators.ratios import AnySums, RatioSums, slopes_of
from foreclick.estimators.work import BatchWork, Strata
from foreclick.tallies.base import Tally


def pair_up(
    tally: Tally,
    questions: Sequence[Question],
    answers: Sequence[Estimate],
    strata: Strata | None = None,
) -> list[Estimate]:
    """The answers for several candidates, with what a ladder borrowed for all of them paired.

    Args:
        tally: the log.
        questions: the same question about each candidate.
        answers: the answer to each.
        strata: the parts of the log that were answered for; by default those of the questions.
    """
    one = questions[0]
    if not one.clusters or not one.ladders or len(questions) == 1:
        return list(answers)
    strata = Strata.of(batches_of(tally), one.by) if strata is None else strata
    moves: dict[int, Floats] = {}
    size = len(questions) * sum(len(asks) for _, asks in one.ladders)
    start = 0
    for ladder, asks in one.ladders:
        roots = _roots(_Pairing(tally, questions, strata, ladder, asks).covariance())
        for j, (i, _) in enumerate(asks):
            moves[i] = np.zeros((len(roots), len(questions), size))
            moves[i][:, :, start : start + roots.shape[2]] = roots[:, j :: len(asks)]
        start += roots.shape[2]
    return [
        replace(answer, sums=[_with_slips(sums, one.asks, moves, c) for sums in answer.sums])
        for c, answer in enumerate(answers)
    ]


def _roots(covariance: Floats) -> Floats:
    """Shape (strata, N, N): L of each covariance."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[:, None])


def _with_slips(
    sums: AnySums, asks: Sequence[Ask], moves: dict[int, Floats], candidate: int
) -> AnySums:
    """What an estimator says of a metric, with the coordinates of what it borrowed."""
    if sums.spread is None or sums.rungs is None:
        return sums
    slopes = np.ones(1)
    if isinstance(sums, RatioSums):
        found = slopes_of(sums.metric, sums.parts)
        slopes = np.zeros(2) if found is None else found[0]
    slips = [
        slope * moves[asks.index(part.ask)][part.stratum.number, candidate]
        for slope, part in zip(slopes, sums.parts, strict=True)
        if asks.index(part.ask) in moves
    ]
    return replace(sums, spread=sums.spread.paired(np.sum(slips, axis=0)))


class _Pairing:
    """One ladder, asked for metrics of one reward, of several candidates."""

    def __init__(
        self,
        tally: Tally,
        questions: Sequence[Question],
        strata: Strata,
        ladder: Ladder,
        asks: Sequence[tuple[int, Ask]],
    ) -> None:
        self._batches, self._strata, question = batches_of(tally), strata, questions[0]
        self._works = [BatchWork(q, tally.shape, strata) for q in questions]
        self._drops = question.missing == "drop"
        self._rows = len(questions) * len(asks)
        metrics = [ask.metric for _, ask in asks]
        fit = fitted(tally, ladder, metrics[0].reward, self._works[0].question.depth)
        kept = self._batches.kept.setdefault(
            ("ladder counts", fit, metrics[0].reward, question.by), {}
        )
        self._estimate = LadderEstimate(fit, metrics, strata.apart, kept)

    def covariance(self) -> Floats:
        """Shape (strata, N, N): of n V̂ of all candidates and metrics, by what was borrowed."""
        pairs = np.triu_indices(self._rows)
        placed = Remembered(self._place, self._batches)
        for number, each in enumerate(placed):
            known = each.members[0].known if self._drops else None
            self._estimate.count(number, each.batch, known)
        for number, each in enumerate(placed):
            self._estimate.values(number, each.batch, each)
        count = self._strata.count
        whole = np.zeros((count, len(pairs[0])))
        for number, each in enumerate(placed):
            stratum = self._strata.numbers(each.batch)
            for some, products in self._estimate.unsettled(number, each.batch, each, pairs):
                sums = whole[:, some].copy()
                accumulate(sums, stratum, products)
                whole[:, some] = sums
        found = np.zeros((count, self._rows, self._rows))
        found[:, pairs[0], pairs[1]] = found[:, pairs[1], pairs[0]] = whole
        return found

    def _place(self, batch: Batch) -> Several:
        """All candidates in the numbers of a batch."""
        one = self._works[0].placed(batch).candidate
        others = [work.placed(batch, one.coding).candidate for work in self._works[1:]]
        return Several([one, *others])
