"""PyClick's records between semicolons."""

from __future__ import annotations

import pytest

from experiments.datasets import _pyclick

TEXT = "9_0\t1,2,3 : 2 , 1; 9_0\t1,2,3 :;\n 8_1\t3,1\n : 3 , 3 , 7; "


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_records_wherever_lines_and_chunks_end(convert, monkeypatch, chunk):
    monkeypatch.setattr(_pyclick, "_CHUNK", max(chunk, 40))
    rows, oddities, done = convert("pyclick", TEXT)
    assert rows == [
        {"query": "9_0", "items": [1, 2, 3], "clicks": [1, 1, 0]},
        {"query": "9_0", "items": [1, 2, 3], "clicks": [0, 0, 0]},
        {"query": "8_1", "items": [3, 1], "clicks": [1, 0]},
    ]
    assert oddities == {"clicks on items not in the list": 1, "repeated clicks": 1}
    assert done["example"][-1] == "record 3: item 3"


@pytest.mark.parametrize("bad", ["8_1\t3,1", "8_1 3,1 :", "8_1\t3,,1 :", "8_1\t3,1 : x", "8\t : 1"])
def test_malformed_records(convert, bad):
    rows, oddities, _ = convert("pyclick", f"{TEXT}{bad};")
    assert len(rows) == 3
    assert oddities["malformed lines"] == 1
