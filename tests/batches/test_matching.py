"""Prefixes of a candidate's lists, found among those of the log."""

from __future__ import annotations

import numpy as np
import pytest

import foreclick as fc
from foreclick.batches import EMPTY, Batch, Batches, Candidate, Coding
from foreclick.batches.candidate import matched_prefixes
from tests.drawn import drawn, lists_table, log_table


def compared(batch: Batch, candidate: Candidate, depth: int) -> None:
    """One list after the other, as tuples of pairs."""
    empty = np.full((len(batch.lists), max(depth - batch.depth, 0)), EMPTY)
    lists = np.hstack([batch.lists, empty])
    logged = {
        (int(context), *row[:k].tolist()): int(numbers[min(k, batch.depth) - 1])
        for context, row, numbers in zip(batch.list_context, lists, batch.prefix, strict=True)
        for k in range(1, depth + 1)
    }
    found = matched_prefixes(batch, candidate.lists, depth)
    for context, row, numbers in zip(
        candidate.lists.context, candidate.lists.pairs, found, strict=True
    ):
        wanted = [logged.get((int(context), *row[:k].tolist()), -1) for k in range(1, depth + 1)]
        assert numbers.tolist() == wanted


@pytest.mark.parametrize("seed", range(2))
def test_prefixes_are_those_of_equal_lists(seed: int):
    case = drawn(seed, records=40, ragged=True, missing=True, text=seed % 2 == 0)
    tally = fc.tally(fc.read_log(log_table(case.records)))
    for slots in (1, 10_000):
        for batch in Batches(tally, slots):
            for depth in (1, batch.depth, batch.depth + 2):
                coding = Coding(batch, depth)
                compared(batch, Candidate(coding, fc.Lists(lists_table(case.candidate))), depth)
                production = Candidate(coding, fc.Observed(tally))
                found = matched_prefixes(batch, production.lists, depth)
                assert (found >= 0).all()


def test_parts_of_a_context_have_prefixes_of_their_own():
    case = drawn(3, records=40, ragged=True, missing=True)
    tally = fc.tally(fc.read_log(log_table(case.records)))
    (batch,) = Batches(tally)
    parts = batch.split(np.arange(len(batch.n)) % 2, 2)
    candidate = Candidate(Coding(parts, batch.depth), fc.Lists(lists_table(case.candidate)))
    compared(parts, candidate, batch.depth)
