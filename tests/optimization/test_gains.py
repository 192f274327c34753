"""Where the gain comes from: rows that add up to it, few, and in their order."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.optimization import CHANGED, IMPOSSIBLE, UNSURE
from foreclick.optimization.result import gains

SMALL = pa.table(
    {
        "why": [UNSURE, CHANGED, CHANGED, CHANGED, CHANGED, IMPOSSIBLE],
        "records": [10.0, 20.0, 40.0, 10.0, 10.0, 10.0],
        "production": [0.5, 0.5, 0.5, 0.5, 0.5, 0.5],
        "sure": [0.5, 0.6, 0.55, 0.8, 0.4, 0.5],
    }
)


def test_the_largest_gain_first_and_losses_last():
    found = gains(SMALL)
    assert found.columns == ("contexts", "changed", "records", "gain")
    assert found["contexts"] == [1, 2, 2, 1]  # 20 × 0.1 and 40 × 0.05 are alike
    assert found["changed"] == [1, 2, 0, 1]
    assert found["records"] == [10, 60, 20, 10]
    assert found["gain"] == pytest.approx([0.03, 0.04, 0, -0.01])


def test_however_many_there_are_rows_are_few_and_add_up():
    rng = np.random.default_rng(0)
    n = 20_000
    records = np.ceil(1e6 / np.arange(1, n + 1))
    sure = 0.5 + rng.normal(0, 1, n) ** 5 / 1e3
    columns = {"records": records, "production": np.full(n, 0.5), "sure": sure}
    found = gains(pa.table({"why": [CHANGED] * n, **columns}))
    assert len(found) <= 200
    assert sum(found["contexts"]) == n
    assert sum(found["records"]) == records.sum()
    each = np.sort(records * (sure - 0.5))[::-1]
    assert math.fsum(found["gain"]) == pytest.approx(each.sum() / records.sum())
    means = [row["gain"] / row["contexts"] for row in found]
    assert all(a >= b for a, b in pairwise(means))
    first = np.cumsum(found["contexts"])[20]  # of sorted contexts, the first ones
    assert math.fsum(found["gain"][:21]) == pytest.approx(each[:first].sum() / records.sum())


def test_of_a_real_one():
    log = {
        "context": ["good"] * 400 + ["poor"] * 4,
        "items": [[1, 2], [2, 1]] * 202,
        "clicks": [[0, 1], [1, 0]] * 200 + [[1, 0], [1, 0]] * 2,
    }
    best = fc.optimize(log, metrics="clicks@1")
    sure = {row["context"]: row["sure"] for row in best.contexts.to_pylist()}
    first, *others = best.gains
    assert (first["contexts"], first["changed"], first["records"]) == (1, 1, 400)
    assert first["gain"] == pytest.approx((sure["good"] - 0.5) * 400 / 404)
    assert [row["gain"] for row in others] == [0]
    assert "lists" not in best.shown  # one for each that is changed
    assert "naive" in best.shown
    assert max(len(line) for line in str(best).splitlines()[:4]) <= 120
