"""Policies that lie in a file: written and read part by part, or mapped."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.policies import LogView, filed
from foreclick.policies.filed import FiledLists, TableFile


def parts() -> list[pa.Table]:
    """Lists of the contexts 0 and 1, of none, of 4, and of 7 to 9; some with the probability 0."""
    rows = [
        ([1, 0, 0], [5, 6, 7], [6, None, 5], [1.0, 0.25, 0.75]),
        ([], [], [], []),
        ([4, 4], [9, 8], [8, 9], [1.0, 0.0]),
        ([7, 8, 9, 9], [1, 1, 2, 1], [2, 2, None, None], [1.0, 1.0, 0.5, 0.5]),
    ]
    kinds = [pa.int64(), pa.int64(), pa.int64(), pa.float64()]
    names = ["context", "item_1", "item_2", "probability"]
    return [
        pa.table({n: pa.array(c, k) for n, c, k in zip(names, columns, kinds, strict=True)})
        for columns in rows
    ]


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize(("low", "high"), [(0, 10), (0, 2), (2, 4), (3, 5), (1, 8), (9, 12)])
def test_lists_of_a_file_are_those_of_a_table(low: int, high: int, text: bool):
    whole = fc.Lists(pa.concat_tables(parts()))
    found = FiledLists("probability")
    for part in parts():
        found.add(part)
    found.close()
    items = pa.array(list(range(10)))
    contexts = pa.array(range(low, high), pa.int64())
    views = [LogView(contexts, items.cast(pa.string()) if text else items, 3) for _ in range(2)]
    assert (len(found), found.context_count()) == (8, whole.context_count())
    assert found.first_contexts() == whole.first_contexts()[:1] == [0]
    assert found.known(views[0]).tolist() == whole.known(views[1]).tolist()
    for mine, theirs in zip(found.list_rows(views[0]), whole.list_rows(views[1]), strict=True):
        assert np.array_equal(mine, theirs)


def test_a_large_table_is_mapped_and_a_small_one_is_read(monkeypatch: pytest.MonkeyPatch):
    table = pa.table({"n": np.arange(100_000)})
    for held, allocated in ((0, False), (2**30, True)):
        monkeypatch.setattr(filed, "HELD", held)
        file = TableFile("some")
        assert file.add(table.slice(0, 60_000))
        assert not file.add(table.slice(0, 0))
        assert file.add(table.slice(60_000))
        file.close()
        before = pa.total_allocated_bytes()
        found = file.whole()
        assert (pa.total_allocated_bytes() - before >= table.nbytes) == allocated
        del file  # and what it wrote
        assert found.equals(table)
