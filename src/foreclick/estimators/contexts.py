"""What each context adds to an answer: its values one by one, and estimates of some contexts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from foreclick.batches import Floats, Ints, Totals, batches_of
from foreclick.estimators.answer import Estimate, answered
from foreclick.estimators.paired import pair_up
from foreclick.estimators.question import Question
from foreclick.estimators.ratios import AnySums
from foreclick.estimators.work import NamedContexts, Strata
from foreclick.tallies.base import Tally


@dataclass(frozen=True, eq=False)
class ContextValues:
    """An answer, and what each of X contexts adds to it.

    Attributes:
        whole: the answer.
        contexts: their values, in the order of the log.
        records: Shape (X,).
        known: Shape (X,): 1 where the candidate has a list, 0 where it has none.
        credit: Shape (X,): Σ n_x V_x of the candidate; 0 where it has no list.
        production: Shape (X,): Σ n_x F_x of the log.
    """

    whole: Estimate
    contexts: pa.Array
    records: Floats
    known: Floats
    credit: Floats
    production: Floats


class _Kept(Totals):
    """Sums over contexts that keep the values of some names, context by context."""

    def __init__(self, names: Sequence[Any]) -> None:
        super().__init__()
        self._values: dict[Any, list[Floats]] = {name: [] for name in names}

    def add(self, name: Any, values: Floats, stratum: Ints) -> None:  # noqa: ANN401 - a dict's key
        """Add the values of contexts, shape (X, …), and keep them if they are asked for."""
        super().add(name, values, stratum)
        if name in self._values:
            self._values[name].append(values)

    def values(self, name: Any) -> Floats:  # noqa: ANN401 - a dict's key
        """Shape (X, …): the values of all contexts."""
        return np.concatenate(self._values[name])


def context_values(tally: Tally, question: Question) -> ContextValues:
    """What each context adds to the answer to a question.

    Args:
        tally: the log.
        question: of one estimator and one metric that is a sum over positions; of the whole log.
    """
    metric, credit = question.parts[0], (0, 0, "credit")
    earned = ("reward", metric)
    names = [credit, ("contexts", True), *((n, k) for n in (earned, "records") for k in _BOTH)]
    totals = _Kept(names)
    answer = answered(tally, replace(question, clusters=()), Strata((), ()), totals)
    rewards = sum(totals.values((earned, known)) for known in _BOTH)
    theta = np.array(metric.theta[: np.shape(rewards)[1]])
    return ContextValues(
        whole=answer.estimate(),
        contexts=pa.concat_arrays([b.contexts.take(b.context_value) for b in batches_of(tally)]),
        records=np.asarray(sum(totals.values(("records", known)) for known in _BOTH)),
        known=totals.values(("contexts", True)),
        credit=totals.values(credit),
        production=np.asarray(rewards)[:, : len(theta)] @ theta,
    )


_BOTH = (True, False)


def context_estimates(
    tally: Tally, questions: Sequence[Question], contexts: pa.Array
) -> list[list[AnySums]]:
    """The estimates of some contexts, as parts of the answer for the whole log, by question.

    Args:
        tally: the log.
        questions: of one estimator and one metric that is a sum over positions, of the whole log;
            the same about each of several candidates.
        contexts: some of the log's.
    """
    strata = NamedContexts((), (), values=contexts)
    answers = [answered(tally, question, strata).estimate() for question in questions]
    return [
        [sums for sums in answer.sums if sums.stratum.number < len(contexts)]
        for answer in pair_up(tally, questions, answers, strata)
    ]
