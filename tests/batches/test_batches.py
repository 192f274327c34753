"""How large batches are, which of them stay in memory, and work on them in other processes."""

from __future__ import annotations

import numpy as np
import pytest

import foreclick as fc
from foreclick.batches import pooled, source
from foreclick.errors import EngineError


def test_work_is_done_in_order_in_one_process_or_two():
    parts = [np.arange(i) for i in range(9)]
    assert list(pooled(np.sum, iter(parts))) == list(pooled(np.sum, iter(parts), workers=2))
    assert list(pooled(lambda part: part + 1, [1, 2, 3])) == [2, 3, 4]
    with pytest.raises(EngineError, match=r"workers=2: .* in a module rather than as a lambda"):
        list(pooled(lambda part: part + 1, [1, 2, 3], workers=2))


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
