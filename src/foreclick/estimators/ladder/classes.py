"""Classes of contexts: segments of the log, as rungs between the context and the log."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foreclick.batches import Batch, Batches, Bools, Ints, batches_of
from foreclick.errors import ModelError
from foreclick.tallies.base import Tally
from foreclick.words import number_of


def classes_of(batch: Batch, segments: Sequence[str], codebook: Batches) -> Ints:
    """Shape (C, X): the number of each context's class, finest classes first.

    Classes are nested: two contexts share class j if they agree in the segments j, j + 1, ….
    """
    row = np.zeros(batch.context_count, dtype=np.int64)
    row[batch.row_context] = np.arange(len(batch.n))
    found = np.zeros((len(segments), batch.context_count), dtype=np.int64)
    coarser: Ints = np.zeros(batch.context_count, dtype=np.int64)
    for j in reversed(range(len(segments))):
        size = len(codebook.codebook.segments[segments[j]])
        found[j] = coarser = coarser * size + batch.segments[segments[j]][row]
    return found


def check_classes(tally: Tally, segments: Sequence[str]) -> None:
    """Refuse segments of which a context has several values."""
    key = "classes", tally.stored.op(), tuple(segments)
    if not segments or key in tally.learnt:
        return
    several = 0
    example = None
    for batch in batches_of(tally):
        mixed = _mixed(batch, segments)
        if example is None and mixed.any():
            example = batch.contexts[int(np.flatnonzero(mixed)[0])].as_py()
        several += int(mixed.sum())
    if several:
        raise ModelError(
            f"{number_of(several, 'context')} with several values of {', '.join(segments)}, "
            f"for example {example!r}, so it is no class of contexts. Name a column that says the "
            "same of every record of a context, or make it part of the context."
        )
    tally.learnt[key] = True


def _mixed(batch: Batch, segments: Sequence[str]) -> Bools:
    """Which contexts have several values of a segment."""
    found = np.zeros(batch.context_count, dtype=np.bool_)
    for name in segments:
        code = batch.segments[name]
        one = np.zeros(batch.context_count, dtype=code.dtype)
        one[batch.row_context] = code
        np.logical_or.at(found, batch.row_context, one[batch.row_context] != code)
    return found
