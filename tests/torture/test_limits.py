"""What would take the machine with it is refused; what would fill the screen is summed up."""

from __future__ import annotations

import numpy as np
import pytest

import foreclick as fc
from foreclick.batches.encode import wide
from foreclick.cli import main
from foreclick.errors import ModelError, OptionError
from foreclick.options import AT_ONCE, check


def test_threads_and_processes_are_bounded(tmp_path, capsys):
    for name in ("threads", "workers"):
        check(**{name: AT_ONCE})
        for wrong in (0, AT_ONCE + 1, 100_000):
            with pytest.raises(OptionError, match=f"a whole number from 1 to {AT_ONCE}"):
                check(**{name: wrong})
    assert main(["check", "log.parquet", "--threads", "100000"]) == 2
    assert "threads=100000" in capsys.readouterr().err


def test_check_sums_up_periods_that_are_too_many_to_print():
    count = 2_000
    log = {
        "context": [1] * count,
        "items": [[1, 2], [2, 1]] * (count // 2),
        "clicks": [[1, 0]] * count,
        "step": range(count),
    }
    found = fc.check(fc.read_log(log, period="step"))
    assert len(str(found).splitlines()) < 25
    assert len(found) < 25
    facts = {row["fact"]: row["found"] for row in found if row["section"] == "periods"}
    assert facts == {"from 0 to 1999": 2_000, "records in the median period": 1.0}
    assert any("2,000 periods" in note for note in found.notes)


def test_millions_of_periods_are_refused_before_the_work():
    count = 20_001
    log = {
        "context": [1] * count,
        "items": [[1, 2]] * count,
        "clicks": [[1, 0]] * count,
        "step": range(count),
    }
    tally = fc.tally(fc.read_log(log, period="step"))
    for clusters in ("auto", "period"):
        with pytest.raises(ModelError, match=r"20,001 periods; .* coarser one"):
            fc.evaluate(tally, {"context": [1], "items": [[1, 2]]}, clusters=clusters)
    found = fc.evaluate(
        tally, {"context": [1], "items": [[1, 2]]}, clusters="record", estimators="item"
    )
    assert set(found["value"]) == {1.0}


def test_products_of_slots_and_periods_do_not_wrap():
    slots = np.array([2**30], dtype=np.int32)
    assert (slots * wide(4, 2**30)).tolist() == [2**32]
    assert type(wide(4, 100)) is int
