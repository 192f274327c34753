"""`contexts`: contexts by traffic, with the items that were shown in them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.batches import Batch, Floats, batches_of
from foreclick.engines import checked_file, ending, write_rows
from foreclick.logs import N
from foreclick.options import checked, whole
from foreclick.progress import Say, say
from foreclick.results import Result, format_value
from foreclick.tallies import LogLike
from foreclick.tallies.base import tally

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


@checked(most=whole(1, "the number of contexts", "1000", optional=True))
def contexts(
    log: LogLike,
    *,
    most: int | None = None,
    progress: Say | None = None,  # noqa: ARG001 - `checked` heeds it
) -> Contexts:
    """Contexts by traffic, with their logged items: what a new ranker should be asked to rank.

    Args:
        log: a log or a tally.
        most: only so many contexts, those with most records.
        progress: called with what is being done; by default it is shown on a terminal.

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
    if counted.stored[N].type().is_integer():
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
