"""`contexts`: contexts by traffic; and which of them gain and lose most by a candidate."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.batches import EMPTY, Batch, Candidate, Coding, Floats, Ints, batches_of, sums
from foreclick.engines import checked_file, ending, write_rows
from foreclick.estimate.work import context_values, estimate
from foreclick.logs import N
from foreclick.options import verb, whole
from foreclick.policies import Policy
from foreclick.progress import say
from foreclick.question import Question
from foreclick.questions.verdicts import Pair
from foreclick.results import Result, format_value
from foreclick.tallies import LogLike
from foreclick.tallies.base import Tally, tally

_PRINTED = 10
_HALF = 0.5


@dataclass(frozen=True, repr=False)
class Contexts(Result):
    """Contexts by traffic: a row for each of the ten with most records.

    | column | meaning |
    |---|---|
    | context | the context |
    | records | its records |
    | share | of all records of the log |
    | items | how many different items were shown in it |

    Attributes:
        lists: an Arrow table of all contexts: context, records, share, `items`, the list of items
            that were shown, most often shown first, and `shown`, how often each of them was.
    """

    lists: pa.Table = field(kw_only=True, compare=False)

    @property
    def pairs(self) -> pa.Table:
        """A row an item: context, item, and `shown`, how often.

        A ranker adds a column `score`, and `Ranking.from_scores` makes a candidate of it.
        """
        items = self.lists["items"].combine_chunks()
        return pa.table(
            {
                "context": self.lists["context"].take(pc.list_parent_indices(items)),
                "item": pc.list_flatten(items),
                "shown": pc.list_flatten(self.lists["shown"].combine_chunks()),
            }
        )

    def write(self, path: str | Path, *, long: bool = False) -> None:
        """Write all of them to a .parquet or .csv file; in a CSV file, lists are JSON.

        Args:
            path: the file.
            long: a row an item, `pairs`, rather than a row a context, `lists`.
        """
        rows = self.pairs if long else self.lists
        if not long and ending(checked_file(path)) == ".csv":
            for place, name in enumerate(rows.column_names):
                if pa.types.is_list(rows[name].type):
                    texts = [json.dumps(v, ensure_ascii=False) for v in rows[name].to_pylist()]
                    rows = rows.set_column(place, name, pa.array(texts))
        write_rows(rows, path)


@verb(most=whole(1, "the number of contexts", "1000", optional=True))
def contexts(
    log: LogLike,
    *,
    most: int | None = None,
) -> Contexts:
    """Contexts by traffic, with their logged items: what a new ranker should be asked to rank.

    Args:
        log: a log or a tally.
        most: only so many contexts, those with most records.

    Examples:
        >>> rows = {"context": ["r", "q", "q"], "items": [[4, 5], [1, 3], [1, 2]]}
        >>> found = contexts(rows | {"clicks": [[0, 1], [1, 0], [0, 0]]})
        >>> found.lists.select(["context", "items"]).to_pylist()
        [{'context': 'q', 'items': [1, 2, 3]}, {'context': 'r', 'items': [4, 5]}]
    """
    counted = tally(log)
    say("Counting the items of each context")
    found = pa.concat_tables(_of_batch(batch) for batch in batches_of(counted)).combine_chunks()
    records = found["records"].to_numpy()
    order = np.argsort(-records, kind="stable")  # of equals, the smaller context first
    lists = found.take(order[:most])
    shares = pa.array(records[order[:most]] / records.sum())
    if pa.types.is_integer(counted.stored.kinds.field(N).type):
        kinds = {"records": pa.int64(), "shown": pa.list_(pa.int64())}
        for name, kind in kinds.items():
            lists = lists.set_column(lists.column_names.index(name), name, lists[name].cast(kind))
    lists = lists.add_column(2, "share", shares)
    rows = [
        {name: row[name] for name in ("context", "records", "share")} | {"items": len(row["items"])}
        for row in lists.slice(0, _PRINTED).to_pylist()
    ]
    notes = _notes(records[order] / records.sum(), lists)
    return Contexts(tuple(rows), ("context", "records", "share", "items"), notes, lists=lists)


def _of_batch(batch: Batch) -> pa.Table:
    """The contexts of a batch, in their order, each with its items."""
    shown = batch.shown.sum(axis=1)
    # Most shown first; of equals, the smaller item: pairs are in the order of their items.
    order = np.lexsort((-shown, batch.pair_context))
    starts = pa.array(batch.context_pairs.astype(np.int32))
    items = batch.items.take(pa.array(batch.pair_item[order]))
    return pa.table(
        {
            "context": batch.contexts.take(pa.array(batch.context_value)),
            "records": pa.array(batch.context_n),
            "items": pa.ListArray.from_arrays(starts, items),
            "shown": pa.ListArray.from_arrays(starts, pa.array(shown[order])),
        }
    )


def _notes(shares: Floats, lists: pa.Table) -> tuple[str, ...]:
    """How concentrated the traffic is, and what to do with the table."""
    half = int(np.searchsorted(np.cumsum(shares), _HALF)) + 1
    covered = float(shares[: len(lists)].sum())
    pairs = int(pc.sum(pc.list_value_length(lists["items"])).as_py())
    some = "context has" if half == 1 else "contexts have"
    ranker = (
        f"A ranker that scores these {pairs:,} pairs of a context and an item covers "
        f"{format_value('share', covered)} of the records."
    )
    return f"{half:,} of {len(shares):,} {some} half of all records.", ranker


# --- contexts that gain and lose ------------------------------------------------------------------

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
        question: of one estimator and one metric that is a sum over positions, about a candidate,
            and a baseline if there is one.
        top: how many contexts that gain, and how many that lose.
        confidence: of each interval on its own.
    """
    contexts, weight, value, before = context_values(tally, question)
    change = value - before
    total = float(weight.sum())
    least = _ROUNDING * max(float(np.abs(before).sum()), _ROUNDING)
    order = np.lexsort((np.arange(len(change)), -change))
    up, down = order[change[order] > least][:top], order[change[order] < -least][::-1][:top]
    chosen = np.concatenate([up, down])
    rows = []
    if len(chosen):
        some = contexts.take(pa.array(chosen))
        found = estimate(tally, replace(question, contexts=some))
        mine = found.of_candidate(0)[: len(chosen)]
        both = len(question.candidates) > 1
        others = found.of_candidate(1) if both else [None] * len(mine)
        for x, own, other in zip(chosen, mine, others, strict=False):
            pair = Pair(own, other)
            ends = pair.ends(confidence, "sampling")
            rows.append(
                {
                    "context": own.stratum.segment["context"],
                    "records": own.stratum.records,
                    "share": weight[x] / total,
                    "production": pair.production,
                    "value": own.value,
                    "change": pair.change,
                    "change_low": ends["change_low"],
                    "change_high": ends["change_high"],
                    "adds": change[x] / total,
                }
            )
    return ContextChanges(
        tuple(rows),
        _CHANGES,
        estimator=question.estimators[0].name,
        metric=question.parts[0].name,
        lists=_sides(tally, question, [row["context"] for row in rows]),
        gain=_group(change > least, change, weight),
        lose=_group(change < -least, change, weight),
        same=_group(np.abs(change) <= least, change, weight),
    )


_CHANGES = (
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


def _group(which: Any, change: Floats, weight: Floats) -> Group:  # noqa: ANN401 - (X,) booleans
    there = which & (weight > 0)
    total = float(weight.sum()) or 1.0
    return Group(int(there.sum()), float(weight[there].sum()), float(change[there].sum()) / total)


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
        new, *old = question.candidates
        before = _policy(coding, old[0], there) if old else _logged(batch, coding)
        after = _policy(coding, new, there)
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
            _items_of(coding, batch.lists[at][:top]), float(shown.max() / batch.context_n[x])
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
        return MostShown(_items_of(coding, lists.pairs[at]), float(lists.mass[at]))

    def by_slot(x: int) -> MostShown:
        slots = candidate.slots
        mine = np.flatnonzero(slots.context == x)
        if not len(mine):
            return MostShown((), 0.0)
        mass = slots.mass[mine]
        best = np.where(mass.max(axis=0) > 0, slots.pair[mine][mass.argmax(axis=0)], EMPTY)
        return MostShown(_items_of(coding, best), float(mass.max(axis=0)[0]))

    return listed if policy.complete else by_slot


def _items_of(coding: Coding, pairs: Ints) -> tuple[Any, ...]:
    shown = np.asarray(pairs)[np.asarray(pairs) != EMPTY]
    return tuple(coding.view.values.take(pa.array(coding.items_of(shown))).to_pylist())
