"""Policies that were found some contexts after others, in a file: they grow with the log."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.engines import ScratchFile
from foreclick.logs import CONTEXT, N
from foreclick.policies.base import LogView, Rows
from foreclick.policies.lists import ListPolicy

HELD = 2**26
"""Bytes of a file up to which its table is read into memory."""

_NAME = "Lists"


class TableFile:
    """A table that is written part by part, and read part by part or where it lies.

    Attributes:
        rows: how many it has.
        parts: how many parts have rows.
    """

    def __init__(self, name: str) -> None:
        self._scratch = ScratchFile(f"{name}.arrow")
        self._writer: Any = None
        self.rows = self.parts = 0

    def add(self, table: pa.Table) -> bool:
        """Write a part; whether it has rows."""
        if self._writer is None:
            self._writer = pa.ipc.new_file(self._scratch.path, table.schema)
        if not table.num_rows:
            return False
        (batch,) = table.combine_chunks().to_batches()
        self._writer.write_batch(batch)
        self.rows, self.parts = self.rows + table.num_rows, self.parts + 1
        return True

    def close(self) -> None:
        """No part follows."""
        self._writer.close()

    def read(self, first: int, last: int) -> pa.Table:
        """The parts from `first` on, before `last`."""
        with pa.OSFile(self._scratch.path) as file:
            reader = pa.ipc.open_file(file)
            batches = [reader.get_batch(number) for number in range(first, last)]
            return pa.Table.from_batches(batches, reader.schema)

    def whole(self) -> pa.Table:
        """All parts: a small table in memory, a large one mapped from its file.

        What is mapped stays when the file's name is gone, until the table is.
        """
        if Path(self._scratch.path).stat().st_size <= HELD:
            return self.read(0, self.parts)
        return pa.ipc.open_file(pa.memory_map(self._scratch.path)).read_all()


class FiledLists(ListPolicy):
    """Lists with probabilities that lie in a file; contexts are numbers, which rise part by part.

    Args:
        probability: the column of the list's probability.
    """

    def __init__(self, probability: str) -> None:
        self._probability, self._file = probability, TableFile("lists")
        self._first: list[Any] = []
        self._contexts = 0
        self._read: tuple[slice, Rows] | None = None

    def __len__(self) -> int:
        """How many lists there are."""
        return self._file.rows

    def add(self, table: pa.Table) -> None:
        """Write the lists of some contexts: `context`, `item_1` …, the probability."""
        table = table.filter(pc.field(self._probability) > 0)
        if self._file.add(table):
            context = table[CONTEXT]
            self._first.append(pc.min(context).as_py())
            self._contexts += len(context.unique())

    def close(self) -> None:
        """No context follows."""
        self._file.close()

    def context_count(self) -> int:
        """How many contexts the policy has an answer for."""
        return self._contexts

    @property
    def longest(self) -> float:
        """Of lists that are read part by part, nobody has looked."""
        return math.inf

    def first_contexts(self) -> list[Any]:
        """Some contexts that the policy has an answer for, as examples."""
        return self._first[:1]

    def _rows_of(self, view: LogView) -> Rows:
        """The parts in which contexts of the view may be."""
        low, high = (view.contexts[at].as_py() for at in (0, -1)) if len(view.contexts) else (0, -1)
        begin = max(int(np.searchsorted(self._first, low, side="right")) - 1, 0)
        some = slice(begin, max(int(np.searchsorted(self._first, high, side="right")), begin))
        if self._read is None or self._read[0] != some:
            table = self._file.read(some.start, some.stop)
            names = [N if name == self._probability else name for name in table.column_names]
            self._read = some, Rows(table.rename_columns(names), _NAME)
        return self._read[1]
