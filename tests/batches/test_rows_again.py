"""A batch decoded gives the rows it was made of; a part of it is the batch of its contexts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.batches import Batches, batches_of, decode, pooled, row_schema, source
from foreclick.batches.encode import encode

LOG = {
    "context": ["b", "a", "a", "b", "a", "c"],
    "items": [[1, 2], [2], [2, 1], [1, 2], [2], [3, 1]],
    "clicks": [[1, 0], [1], [0, 1], [0, 0], [0], [1, 1]],
    "gain": [[0.5, 0.0], [1.25], [0.0, 0.3], [0.0, 0.0], [0.0], [0.1, 0.2]],
    "propensity": [[0.1, 0.2], [0.7], [1.0, 0.5], [0.3, 0.1], [0.7], [0.4, 0.4]],
    "day": [1, 2, 1, None, 2, 1],
    "user": ["u", "v", "w", "u", "v", "w"],
    "kind": [None, "x", "y", "x", "x", "y"],
}
ROLES: dict[str, Any] = {"rewards": {"gain": "gain"}}


@pytest.mark.parametrize(
    "roles",
    [{}, {"period": "day"}, {"unit": "user"}, {"segments": "kind", "propensity": "propensity"}],
)
def test_rows_come_back_as_they_were(roles: dict[str, Any]):
    tally = fc.tally(fc.read_log(LOG, **ROLES, **roles))
    batches = batches_of(tally)
    schema = row_schema(tally.shape, tally.table.kinds)
    rows = pa.concat_tables(decode(b, tally.shape, batches.codebook, schema) for b in batches)
    keys = [(key, "ascending") for key in tally.shape.keys]
    assert rows.sort_by(keys).to_pylist() == tally.to_arrow().sort_by(keys).to_pylist()


def test_a_part_is_the_batch_of_its_contexts():
    tally = fc.tally(fc.read_log(LOG, **ROLES, period="day", segments="kind"))
    (batch,) = batches_of(tally)
    schema = row_schema(tally.shape, tally.table.kinds)
    codebook = batches_of(tally).codebook
    for first, last in ((0, 1), (1, 3), (0, 3)):
        part = batch.between(first, last)
        rows = decode(part, tally.shape, codebook, schema)
        assert set(rows["context"].to_pylist()) == set("abc"[first:last])
        again = encode(rows, replace(tally.shape, masks=()), codebook)
        assert np.array_equal(again.lists, part.lists)
        assert np.array_equal(again.shown, part.shown)
        assert np.array_equal(again.prefix, part.prefix)
        for mine, theirs in zip(again.rewards["gain"], part.rewards["gain"], strict=True):
            assert np.array_equal(mine, theirs)


def test_work_is_done_in_order_in_one_process_or_two():
    parts = [np.arange(i) for i in range(9)]
    assert list(pooled(np.sum, iter(parts))) == list(pooled(np.sum, iter(parts), workers=2))


def test_batches_can_be_small():
    tally = fc.tally(fc.read_log(LOG, **ROLES))
    assert [len(b.contexts) for b in Batches(tally, slots=2)] == [1, 1, 1]


def test_pairs_count_for_what_stays_in_memory(monkeypatch: pytest.MonkeyPatch):
    """Six rows of two positions are 12 slots; 4 and 8 pairs are 24, which count three times."""
    lists = [[1, 2], [3, 4], [5, 6], [7, 8], [1, 2], [3, 4]]
    log = {"context": list("aabbbb"), "items": lists, "clicks": [[0, 1]] * 6}
    for most, stay in ((84, True), (83, False), (11, False)):
        monkeypatch.setattr(source, "KEPT_SLOTS", most)
        batches = source.Batches(fc.tally(fc.read_log(log)), slots=1)
        first = list(batches)
        assert batches.small == stay
        again = list(batches)
        assert [a is b for a, b in zip(first, again, strict=True)] == [stay] * 2
        assert all(np.array_equal(a.lists, b.lists) for a, b in zip(first, again, strict=True))


def test_many_periods_make_batches_smaller(monkeypatch: pytest.MonkeyPatch):
    """Every context has sums of every period: 3 contexts of 3 periods are 9 of them."""
    monkeypatch.setattr(source, "BATCH_SUMS", 3)
    log = {"context": list("abc"), "items": [[1]] * 3, "clicks": [[1]] * 3, "day": [1, 2, 3]}
    for period, sizes in ((None, [3]), ("day", [1, 1, 1])):
        batches = Batches(fc.tally(fc.read_log(log, period=period)))
        assert [len(batch.contexts) for batch in batches] == sizes
