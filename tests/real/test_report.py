"""Reports on real logs: their numbers are the library's, and all contexts make up the change."""

from __future__ import annotations

import html
import warnings
from typing import Any

import pytest

import foreclick as fc
from foreclick.rendering.wording import words
from tests.real import DATA
from tests.rendering import look

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (DATA / "pyclick_wscd").exists(), reason=f"no logs in {DATA}"),
]


@pytest.fixture(scope="module")
def logs():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # oddities of these logs, which other tests are about
        return look.real_logs(DATA)


@pytest.mark.parametrize(
    "name", ["pyclick_wscd", pytest.param("naver_clara2", marks=pytest.mark.long)]
)
def test_the_numbers_of_a_report_are_the_librarys(logs, name):
    log, candidate = logs[name], look.ranked(logs[name])
    report = fc.report(log, candidate, missing="production")
    options: dict[str, Any] = {"missing": "production"}
    found = fc.evaluate(log, candidate, **options, estimators="all")
    text = html.unescape(report.page())
    shown = ("value", "low", "high", "lift", "lift_low", "lift_high")
    expected = [
        words(column, row[column])
        for row in found.to_dicts()
        if row["covered"] >= 0.01
        for column in shown
    ]
    expected += [words("covered", v) for v in fc.support(log, candidate, **options)["covered"]]
    assert [number for number in expected if number not in text] == []
    assert report.evaluation == fc.evaluate(log, candidate, **options)
    assert report.contexts is not None
    total = report.contexts.gain.adds + report.contexts.lose.adds
    assert total == pytest.approx(report.evaluation["change"][0], rel=1e-9)
    assert len(text.encode()) < 3_000_000
