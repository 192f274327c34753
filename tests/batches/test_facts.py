"""How large a log is, by its batches or by one query."""

import pytest

import foreclick as fc
from foreclick.batches import size_of, source


@pytest.mark.parametrize("count", [None, "times"])
def test_a_log_that_does_not_stay_in_memory_is_not_read_to_tell_its_size(count, monkeypatch):
    records = {
        "context": ["a", "a", "a", "b", "c"],
        "items": [["x", "y"], ["y", "x"], ["x", "y"], ["x"], ["z", "x"]],
        "clicks": [[1, 0], [0, 0], [0, 1], [1], [0, 0]],
        "times": [2.0, 2.0, 2.0, 2.0, 2.0],
    }
    counted = size_of(fc.tally(fc.read_log(records, count=count)))
    assert (counted.contexts, counted.rows, counted.largest, counted.pairs) == (3, 5, 3, 5)
    monkeypatch.setattr(source, "KEPT_SLOTS", 0)
    monkeypatch.setattr(source.Batches, "__iter__", None)
    asked = size_of(fc.tally(fc.read_log(records, count=count)))
    assert asked._replace(pairs=5) == counted
    assert asked.pairs == 10
