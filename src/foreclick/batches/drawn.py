"""Some contexts of a log, drawn by the hash of their text: the same ones wherever the log lives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np
import pyarrow as pa

from foreclick.batches.arrays import Ints
from foreclick.batches.batch import Batch
from foreclick.batches.source import Batches
from foreclick.engines import HASHES, hashed_here


def context_hashes(batch: Batch) -> Ints:
    """Shape (C,): the hash of each context's text, below `HASHES`."""

    def make() -> Ints:
        text = batch.contexts.cast(pa.string()).fill_null("").to_pylist()
        return np.array([hashed_here(f"foreclick:{t}") for t in text], dtype=np.int64)

    return cast("Ints", batch.keep("hashes", make))


def some_contexts(batches: Batches, share: float) -> Batches:
    """The batches of about that share of the contexts, with all their records."""
    return Batches(batches.tally, source=_Drawn(batches, share)) if share < 1 else batches


class _Drawn:
    """Batches without the contexts that were not drawn."""

    def __init__(self, batches: Batches, share: float) -> None:
        self._batches, self._limit = batches, round(share * HASHES)
        self.codebook, self.rows = batches.codebook, round(share * batches.rows)

    def __iter__(self) -> Iterator[Batch]:
        for batch in self._batches:
            drawn = context_hashes(batch) < self._limit
            found = batch.among(drawn[batch.context_value[batch.row_context]])
            if len(found.n):
                yield found
