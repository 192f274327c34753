"""The readers on real samples: what is published of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import foreclick as fc
from experiments import datasets
from tests.real import DATA

YANDEX = DATA / "yandex_kaggle_head100" / "train_head100.tsv"
NAVER = DATA / "naver_clara2" / "CLARA2SearchLog_beta"
DAY = 86_400_000  # milliseconds

pytestmark = pytest.mark.skipif(not DATA.exists(), reason=f"no {DATA}")

Converted = tuple[datasets.Conversion, list[dict[str, Any]]]


@pytest.fixture
def convert(tmp_path: Path):
    def run(dataset: str, path: Path, day_length: int | None = None) -> Converted:
        if not path.exists():
            pytest.skip(f"no {path}")
        done = datasets.convert(dataset, path, tmp_path / "log.parquet", day_length=day_length)
        return done, pq.read_table(done.path).to_pylist()

    return run


def facts(log: fc.Log) -> dict[tuple[str, str], Any]:
    return {(r["section"], r["fact"]): r["found"] for r in fc.check(log).to_dicts()}


def click_rates(log: fc.Log, positions: int) -> list[float]:
    found = facts(log)
    return [found["clicks by position", f"position {k}"] for k in range(1, positions + 1)]


def test_yandex(convert):
    done, rows = convert("yandex", YANDEX)
    assert done["found"][:2] == [470, 193]
    assert len({row["user"] for row in rows}) == 18
    assert len({row["query"] for row in rows}) == 148
    assert len({row["day"] for row in rows}) == 24
    # 177 click lines. By their SERP, none is off its list.
    assert done.oddities == {"repeated clicks": 3}
    assert done["found"][2] == 177 - 3


def test_naver(convert):
    done, rows = convert("relevance_prediction", NAVER, DAY)
    assert done.records == 31_564
    assert len({row["session"] for row in rows}) == 18_522
    assert {row["day"] for row in rows} == {0, 11, *range(21, 83)}
    odd = done.oddities
    assert odd["clicks on no list of their session"] == 701
    assert odd["clicks before their query"] == 17 + 2  # on a later list, or before any
    assert odd["clicks on another list than the last one"] == 4
    assert odd["lists with an item twice"] == 90
    # Every click line is either a click or accounted for.
    assert done["found"][2] + 701 + 19 + odd["repeated clicks"] == 11_613
    log = done.log()
    assert facts(log)["size", "contexts"] == 1_951
    published = [0.151, 0.062, 0.031, 0.017, 0.013, 0.007, 0.005, 0.004, 0.003, 0.003]
    assert click_rates(log, 10) == pytest.approx(published, abs=0.0006)
    found = fc.evaluate(
        log,
        fc.Observed(log),
        metrics="clicks@10",
        estimators=["list", "ip", "item", "pbm"],
        confidence=None,
    )
    assert found["value"] == pytest.approx([9_328 / 31_564] * 4)
    assert found["covered"] == pytest.approx([1] * 4)
