"""Which contexts gain and lose most by a candidate, with what each shows before and after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.analysis.verdicts import Pair
from foreclick.batches import EMPTY, Batch, Candidate, Coding, Floats, Ints, batches_of, sums
from foreclick.estimators import Question
from foreclick.estimators.contexts import ContextValues, context_estimates, context_values
from foreclick.policies import Policy
from foreclick.results import Result
from foreclick.tallies.base import Tally

_ROUNDING = 1e-12  # of production; a change below it is none


class MostShown(NamedTuple):
    """The list that a context shows most often, and the share of its requests that get it."""

    items: tuple[Any, ...]
    share: float


class Sides(NamedTuple):
    """What a context shows most often today, and what the candidate would show there."""

    before: MostShown
    after: MostShown


class Group(NamedTuple):
    """Contexts that gain, lose, or stay as they are.

    Attributes:
        contexts: how many.
        records: how many records they have.
        adds: what they add to the change of the whole log.
    """

    contexts: int
    records: float
    adds: float


_NONE = Group(0, 0.0, 0.0)


@dataclass(frozen=True, repr=False)
class ContextChanges(Result):
    """The contexts that gain most, then those that lose most: one row per context.

    | column | meaning |
    |---|---|
    | context | its value in the log |
    | records, share | its records, and its share of all records |
    | production, value | the mean reward of a record today, and by the estimate for the candidate |
    | change, change_low, change_high | their difference, with its interval |
    | adds | what it adds to the change of the whole log: share × change |

    Attributes:
        estimator, metric: by which click model, and what is counted.
        lists: for each row, what it shows before and after.
        gain, lose, same: all contexts of the log by the sign of their change.
    """

    estimator: str = ""
    metric: str = ""
    lists: tuple[Sides, ...] = ()
    gain: Group = _NONE
    lose: Group = _NONE
    same: Group = _NONE


def context_changes(
    tally: Tally, question: Question, top: int, confidence: float
) -> ContextChanges:
    """The contexts that gain and lose most; what all contexts add makes up the change of the log.

    Args:
        tally: the log.
        question: of one estimator and one metric that is a sum over positions; of the whole log.
        top: how many contexts that gain, and how many that lose.
        confidence: of each interval on its own.
    """
    new = context_values(tally, question)
    against = None
    if question.baseline is not None:
        against = context_values(tally, question.turned)
    change, weight = _changes(new, against, drops=question.missing == "drop")
    total = float(weight.sum())
    least = _ROUNDING * max(float(new.production.sum()), _ROUNDING)
    order = np.lexsort((np.arange(len(change)), -change))
    up, down = order[change[order] > least][:top], order[change[order] < -least][::-1][:top]
    chosen = np.concatenate([up, down])
    rows = []
    if len(chosen):
        whole = new.whole.sums[0].parts[0]
        cap = whole.stratum.best_rate(whole.model, question.parts[0])
        rows = _rows(tally, question, new.contexts.take(pa.array(chosen)), confidence, cap)
    for row, x in zip(rows, chosen, strict=True):
        row |= {"share": weight[x] / total, "adds": change[x] / total}
    return ContextChanges(
        tuple({name: row[name] for name in _COLUMNS} for row in rows),
        _COLUMNS,
        estimator=question.estimators[0].name,
        metric=question.parts[0].name,
        lists=_sides(tally, question, [row["context"] for row in rows]),
        gain=_group(change > least, change, weight),
        lose=_group(change < -least, change, weight),
        same=_group(np.abs(change) <= least, change, weight),
    )


_COLUMNS = (
    "context",
    "records",
    "share",
    "production",
    "value",
    "change",
    "change_low",
    "change_high",
    "adds",
)


def _changes(
    new: ContextValues, old: ContextValues | None, *, drops: bool
) -> tuple[Floats, Floats]:
    """Shape (X,) each: Σ n_x (V_x − F_x), and the records that count."""
    # Where a policy has no list, it is worth what the log shows.
    value = np.where(new.known > 0, new.credit, new.production)
    before, known = new.production, new.known > 0
    if old is not None:
        before = np.where(old.known > 0, old.credit, old.production)
        known &= old.known > 0
    return (value - before) * (known if drops else 1.0), new.records * (known if drops else 1.0)


def _group(which: Any, change: Floats, weight: Floats) -> Group:  # noqa: ANN401 - (X,) booleans
    there = which & (weight > 0)
    total = float(weight.sum()) or 1.0
    return Group(int(there.sum()), float(weight[there].sum()), float(change[there].sum()) / total)


def _rows(
    tally: Tally, question: Question, contexts: pa.Array, confidence: float, cap: float
) -> list[dict[str, Any]]:
    """Estimates of some contexts, in their order."""
    both = [question] if question.baseline is None else [question, question.turned]
    estimates, *baselines = context_estimates(tally, both, contexts)
    others: list[Any] = baselines[0] if baselines else [None] * len(estimates)
    found = []
    for own, other in zip(estimates, others, strict=True):
        pair = Pair(own, other, cap)
        ends = pair.ends(confidence, "sampling")
        found.append(
            {
                "context": own.stratum.segment["context"],
                "records": own.stratum.records,
                "production": pair.production,
                "value": own.value,
                "change": pair.change,
                "change_low": ends.get("change_low"),
                "change_high": ends.get("change_high"),
            }
        )
    return found


# --- lists --------------------------------------------------------------------------------------


def _sides(tally: Tally, question: Question, contexts: list[Any]) -> tuple[Sides, ...]:
    """What some contexts show before and after, as far as the metric counts."""
    found: dict[Any, Sides] = {}
    depth = min(max(question.depth, 3), 10)
    for batch in batches_of(tally) if contexts else ():
        wanted = pa.array(contexts, batch.contexts.type)
        there = np.asarray(pc.is_in(batch.contexts, value_set=wanted))[batch.context_value]
        if not there.any():
            continue
        coding = Coding(batch, depth)
        old = question.baseline
        before = _logged(batch, coding) if old is None else _policy(coding, old, there)
        after = _policy(coding, question.candidate, there)
        for x in np.flatnonzero(there):
            name = batch.contexts[int(batch.context_value[x])].as_py()
            found[name] = Sides(before(x), after(x))
    return tuple(found[name] for name in contexts)


def _logged(batch: Batch, coding: Coding) -> Any:  # noqa: ANN401 - from a context to its list
    """What the log shows most often at the top of a context's lists; of several, the first."""
    top = min(coding.depth, batch.depth)
    beginning = batch.prefix[:, top - 1]

    def most(x: int) -> MostShown:
        begin, end = batch.context_lists[x : x + 2]
        alike = beginning[begin:end] - beginning[begin]
        shown = sums(alike, batch.list_n[begin:end], int(alike.max()) + 1)
        at = begin + int(np.argmax(alike == np.argmax(shown)))
        return MostShown(
            _items(coding, batch.lists[at][:top]), float(shown.max() / batch.context_n[x])
        )

    return most


def _policy(coding: Coding, policy: Policy, within: Any) -> Any:  # noqa: ANN401
    """The likeliest list of a policy in a context; of marginals, the likeliest item by position."""
    candidate = Candidate(coding, policy, within)

    def listed(x: int) -> MostShown:
        lists = candidate.lists
        mine = np.flatnonzero(lists.context == x)
        if not len(mine):
            return MostShown((), 0.0)
        at = mine[int(np.argmax(lists.mass[mine]))]
        return MostShown(_items(coding, lists.pairs[at]), float(lists.mass[at]))

    def by_slot(x: int) -> MostShown:
        slots = candidate.slots
        mine = np.flatnonzero(slots.context == x)
        if not len(mine):
            return MostShown((), 0.0)
        mass = slots.mass[mine]
        best = np.where(mass.max(axis=0) > 0, slots.pair[mine][mass.argmax(axis=0)], EMPTY)
        return MostShown(_items(coding, best), float(mass.max(axis=0)[0]))

    return listed if policy.complete else by_slot


def _items(coding: Coding, pairs: Ints) -> tuple[Any, ...]:
    shown = np.asarray(pairs)[np.asarray(pairs) != EMPTY]
    return tuple(coding.view.values.take(pa.array(coding.items_of(shown))).to_pylist())
