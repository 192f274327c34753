"""The readers on real samples: what is published of them, and a slow parse of every record."""

from __future__ import annotations

from itertools import groupby
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


def sessions(path: Path) -> list[list[list[str]]]:
    """The fields of all lines, by session."""
    lines = [line.rstrip().split("\t") for line in path.read_text().splitlines()]
    return [list(session) for _, session in groupby(lines, key=lambda fields: fields[0])]


# --- Kaggle -------------------------------------------------------------------------------------


def slow_yandex(session: list[list[str]]) -> list[dict[str, Any]]:
    (meta,) = [line for line in session if line[1] == "M"]
    rows = []
    for line in session:
        if line[2] == "Q" and line is not meta:
            urls = [int(pair.split(",")[0]) for pair in line[6:]]
            clicked = {int(c[4]) for c in session if c[2] == "C" and c[3] == line[3]}
            clicks = [int(url in clicked) for url in urls]
            day, user = int(meta[2]), int(meta[3])
            rows.append(
                {"query": int(line[4]), "items": urls, "clicks": clicks, "day": day, "user": user}
            )
    return rows


def test_yandex_record_by_record(convert):
    done, rows = convert("yandex", YANDEX)
    assert rows == [row for session in sessions(YANDEX) for row in slow_yandex(session)]
    assert done["found"][:2] == [470, 193]
    assert len({row["user"] for row in rows}) == 18
    assert len({row["query"] for row in rows}) == 148
    assert len({row["day"] for row in rows}) == 24
    # 177 click lines. By their SERP, none is off its list.
    assert done.oddities == {"repeated clicks": 3}
    assert done["found"][2] == 177 - 3


# --- Naver --------------------------------------------------------------------------------------


def slow_naver(session: list[list[str]]) -> list[dict[str, Any]]:
    """Walks through the session once, and looks back from each click."""
    rows: list[dict[str, Any]] = []
    for line in session:
        if line[2] == "Q":
            urls = [int(url) for url in line[5:]]
            first = [urls.index(url) == k for k, url in enumerate(urls)]
            rows.append(
                {
                    "query": int(line[3]),
                    "items": [u if kept else None for u, kept in zip(urls, first, strict=True)],
                    "clicks": [0 if kept else None for kept in first],
                    "region": line[4],
                    "session": int(line[0]),
                    "day": int(line[1]) // DAY,
                }
            )
        else:
            for row in reversed(rows):
                if int(line[3]) in row["items"]:
                    row["clicks"][row["items"].index(int(line[3]))] = 1
                    break
    return rows


def test_naver_record_by_record(convert):
    done, rows = convert("relevance_prediction", NAVER, DAY)
    assert rows == [row for session in sessions(NAVER) for row in slow_naver(session)]
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
