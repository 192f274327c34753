"""A tally for each day: together they are the whole log's, and old days may count less."""

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import foreclick as fc

ROLES: dict[str, Any] = {"context": "query", "period": "day"}


def day(number, count=40, deep=3):
    rng = np.random.default_rng(number)
    return pa.table(
        {
            "query": rng.integers(0, 4, count),
            "items": [list(rng.permutation(5)[:deep]) for _ in range(count)],
            "clicks": rng.integers(0, 2, (count, deep)).tolist(),
            "day": [number] * count,
        }
    )


@pytest.fixture
def logs(tmp_path):
    """Four days, a file each, of which the third has longer lists."""
    directory = tmp_path / "logs"
    directory.mkdir()
    for number in range(4):
        pq.write_table(day(number, deep=4 if number == 2 else 3), directory / f"{number}.parquet")
    return directory


def write_days(logs, target):
    target.mkdir()
    for file in logs.iterdir():
        fc.tally(fc.read_log(file, **ROLES)).write_parquet(target / file.name)


def test_a_tally_for_each_file_of_a_log_adds_up_to_it(logs, tmp_path):
    write_days(logs, tmp_path / "t")
    whole = fc.tally(fc.read_log(logs, **ROLES)).to_arrow()
    assert fc.read_tally(tmp_path / "t").to_arrow().equals(whole)
    each = [fc.read_tally(file) for file in sorted((tmp_path / "t").iterdir())]
    assert (each[0] + each[1] + each[2] + each[3]).to_arrow().equals(whole)


class TestWeights:
    def test_half_lives_of_days_and_of_numbers(self, logs, tmp_path):
        write_days(logs, tmp_path / "t")
        faded = fc.read_tally(tmp_path / "t").weigh(half_life=2)
        rows = faded.to_arrow().to_pylist()
        by_day = {n: sum(r["n"] for r in rows if r["period"] == n) for n in range(4)}
        assert by_day == pytest.approx({n: 40 * 0.5 ** ((3 - n) / 2) for n in range(4)})
        dates = [dt.date(2026, 10, 31), dt.date(2026, 11, 1)]
        two = {"context": ["q"] * 2, "items": [[1]] * 2, "clicks": [[1]] * 2, "day": dates}
        dated = fc.tally(fc.read_log(two, period="day")).weigh(half_life=1)
        assert dated.to_arrow()["n"].to_pylist() == [0.5, 1.0]
        steps = fc.tally(fc.read_log(two | {"day": [0.5, 1.75]}, period="day")).weigh(half_life=2.5)
        assert steps.to_arrow()["n"].to_pylist() == [0.5**0.5, 1.0]

    def test_records_that_count_less_are_not_taken_for_fewer_records(self, logs):
        faded = fc.tally(fc.read_log(logs, **ROLES)).weigh(half_life=1)
        candidate = {"context": range(4), "items": [[0, 1, 2]] * 4}
        with pytest.raises(fc.errors.ModelError, match="do not vary alike"):
            fc.evaluate(faded, candidate, confidence=fc.Confidence(clusters="record"))
        with pytest.raises(fc.errors.ModelError, match="do not count alike"):
            fc.evaluate(faded.split(0)[1], candidate)
