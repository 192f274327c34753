"""If this fails, a public log does not have the figures that were published of it."""

from __future__ import annotations

from typing import Any

import pytest

import foreclick as fc
from foreclick import datasets
from tests.real import DATA

YANDEX = DATA / "yandex_kaggle_head100" / "train_head100.tsv"
PYCLICK = DATA / "pyclick_wscd" / "trainSample"
NAVER = DATA / "naver_clara2" / "CLARA2SearchLog_beta"
DAY = 86_400_000  # milliseconds


def facts(log: fc.Log) -> dict[str, Any]:
    return {row["fact"]: row["found"] for row in (*log.ledger, *fc.check(log))}


@pytest.mark.skipif(not YANDEX.exists(), reason=f"no {YANDEX}")
def test_yandex():
    log = datasets.yandex(YANDEX)
    found = facts(log)
    assert (found["lines"], found["records"], found["contexts"]) == (470, 193, 148)
    assert len(set(fc.tally(log).to_arrow()["period"].to_pylist())) == 24
    # 177 click lines. By their SERP, none is off its list.
    assert (found["clicks"], log.ledger.losses) == (177 - 3, {"clicks, repeated": 3})


@pytest.mark.slow
@pytest.mark.skipif(not PYCLICK.exists(), reason=f"no {PYCLICK}")
def test_the_yandex_sample_of_pyclick():
    log = datasets.pyclick(PYCLICK)
    check = {(row["section"], row["fact"]): row["found"] for row in fc.check(log).to_dicts()}
    size = [check["size", f] for f in ("records", "contexts", "different lists", "longest list")]
    assert size == [log.rows, 20, 951, 10] == [35_064, 20, 951, 10]
    rates = [check["clicks by position", f"position {k}"] for k in range(1, 11)]
    published = [0.257, 0.249, 0.170, 0.154, 0.106, 0.073, 0.069, 0.047, 0.050, 0.045]
    assert rates == pytest.approx(published, abs=0.0005)


@pytest.mark.skipif(not NAVER.exists(), reason=f"no {NAVER}")
def test_naver():
    log = datasets.relevance_prediction(NAVER, day_length=DAY)
    found, losses = facts(log), log.ledger.losses
    assert (found["records"], found["contexts"]) == (31_564, 1_951)
    # 701 on no list of their session, and 17 + 2 before their query.
    assert losses["clicks without a list or an item"] == 701 + 17 + 2
    # Every click line is either a click or accounted for.
    assert found["clicks"] + 720 + losses["clicks, repeated"] == 11_613
    published = [0.151, 0.062, 0.031, 0.017, 0.013, 0.007, 0.005, 0.004, 0.003, 0.003]
    rates = [found[f"position {k}"] for k in range(1, 11)]
    assert rates == pytest.approx(published, abs=0.0006)
    models = ["list", "ip", "item", "pbm"]
    options: dict[str, Any] = {"metrics": "clicks@10", "confidence": None, "estimators": models}
    same = fc.evaluate(log, fc.Observed(log), **options)
    assert same["value"] == pytest.approx([9_328 / 31_564] * 4)
    assert same["covered"] == pytest.approx([1] * 4)
