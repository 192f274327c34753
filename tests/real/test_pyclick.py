"""If this fails, a real Yandex log, PyClick's sample, is read as another."""

from __future__ import annotations

from typing import Any

import pytest

import foreclick as fc
from foreclick import datasets
from tests.real import DATA

SAMPLE = DATA / "pyclick_wscd" / "trainSample"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SAMPLE.exists(), reason=f"no {SAMPLE}"),
]


def test_the_log_is_the_published_one():
    log = datasets.pyclick(SAMPLE)
    assert log.rows == 35_064
    check = {(r["section"], r["fact"]): r["found"] for r in fc.check(log).to_dicts()}
    assert check["size", "records"] == 35_064
    assert check["size", "contexts"] == 20
    assert check["size", "different lists"] == 951
    assert check["size", "longest list"] == 10
    rates: list[Any] = [check["clicks by position", f"position {k}"] for k in range(1, 11)]
    published = [0.257, 0.249, 0.170, 0.154, 0.106, 0.073, 0.069, 0.047, 0.050, 0.045]
    assert rates == pytest.approx(published, abs=0.0005)
    assert sum(rates) == pytest.approx(1.218, abs=0.001)
