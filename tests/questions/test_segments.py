"""Verdicts by segment: one each, corrected for their number, and none passed off as the whole."""

import numpy as np
import pytest

import foreclick as fc

EQUAL = {  # two segments with as many records each, one up and one down
    "context": ["q"] * 400,
    "items": [[1, 2], [2, 1]] * 200,
    "clicks": [[0, 0], [1, 0]] * 100 + [[1, 0], [0, 0]] * 100,
    "seg": ["a"] * 200 + ["b"] * 200,
}
SWAPPED = {"context": ["q"], "items": [[2, 1]]}


def test_no_segment_speaks_for_all_of_them():
    log = fc.read_log(EQUAL, segments="seg")
    found = fc.evaluate(log, SWAPPED, metrics="clicks@1", estimators="ip", by="seg")
    assert found["verdict"] == ["better", "worse"]
    assert found.notes[0] == (
        "clicks@1 by ip: better in a; worse in b. The verdicts allow for 2 segments at once; the "
        "intervals are each on its own."
    )


def test_many_segments_that_are_open_are_counted():
    table = EQUAL | {"seg": [f"s{i % 20}" for i in range(400)]}
    log = fc.read_log(table, segments="seg")
    found = fc.evaluate(log, SWAPPED, metrics="clicks@1", estimators="ip", by="seg")
    assert len(found) == 20
    assert " of 20. The verdicts allow for 20 segments at once" in found.notes[0]


@pytest.mark.parametrize("segments", [1, 20])
def test_a_verdict_of_one_of_many_asks_for_more(segments):
    """A change of 2.4 standard errors decides alone, and not among twenty."""
    rng = np.random.default_rng(1)
    n, rates = 40_000, (0.5, 0.5125)
    shown = rng.integers(0, 2, n)
    clicked = rng.random(n) < np.array(rates)[shown]
    table = {
        "context": ["q"] * n,
        "items": np.where(shown[:, None] == 1, [[2, 1]], [[1, 2]]).tolist(),
        "clicks": np.stack([clicked, np.zeros(n)], axis=1).astype(int).tolist(),
        "seg": ["all"] * n,
    }
    for i in range(1, segments):  # each with a few records more, so that there are many
        for name, value in (("context", "q"), ("items", [2, 1]), ("clicks", [0, 0])):
            table[name] += [value] * 2
        table["items"][-1] = [1, 2]
        table["seg"] += [f"s{i}"] * 2
    log = fc.read_log(table, segments="seg")
    row = fc.evaluate(log, SWAPPED, metrics="clicks@1", estimators="ip", by="seg").to_dicts()[0]
    assert row["seg"] == "all"
    errors = 1.96 * row["change"] / (row["change_high"] - row["change"])
    assert 2 < errors < 3
    assert row["verdict"] == ("better" if segments == 1 else "cannot tell")
