"""If this fails, the page of a report leaves something out, or loads something from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import html
import itertools
import re

import pytest

import foreclick as fc
from foreclick.rendering.wording import words
from tests.questions.test_report import CANDIDATE, NAMES, ROWS, log_of, made
from tests.rendering.samples import Page


@pytest.fixture(scope="module")
def report():
    return made(log_of(ROWS), CANDIDATE, by="period")


@pytest.fixture(scope="module")
def page(report):
    return report.page("A new ranker")


def test_it_has_all_sections_under_real_headings(page):
    found = Page(page)
    ids = found.values("id")
    sections = ["rests", "estimates", "segments", "contexts", "assumptions", "made", "appendix"]
    sections += ["models", "support", "activity", "backtest"]
    assert [name for name in ids if name in sections] == sections
    for name in ("models", "support", "activity", "backtest"):  # the appendix is folded
        assert page.index(f'<details id="{name}">') > page.index('id="appendix"')
    assert len(ids) == len(set(ids))
    levels = [int(tag[1]) for tag in found.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_it_is_one_file_that_may_fetch_and_run_nothing(page):
    found = Page(page)
    assert not {"script", "link", "img", "iframe", "object", "form"} & set(found.tags)
    assert not [a for _, a, _ in found.attributes if a.startswith("on") or a in ("src", "style")]
    policy = next(value for value in found.values("content") if "default-src" in value)
    style = page[page.index("<style>") + 7 : page.index("</style>")]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}';")
    assert "unsafe" not in policy
    assert "http" not in style
    assert "prefers-color-scheme: dark" in style
    assert "@media print" in style
    assert len(page.encode()) < 500_000


def test_its_tables_and_pictures_speak(page):
    found = Page(page)
    assert page.count("<th scope=") == found.tags.count("th") > 0
    assert '<html lang="en">' in page
    pictures = [t for t, a, _ in found.attributes if t == "svg" and a in ("role", "aria-hidden")]
    inner = page.count('overflow="visible"') + page.count('class="legend"')
    assert len(pictures) == page.count("<svg") - inner
    labels = [label for label in found.values("aria-label") if label != "Numbers"]
    assert len(labels) == len(set(labels))


def test_its_numbers_are_those_of_the_library(report, page):
    text = html.unescape(page)
    expected = [
        *report.notes,
        *report.models.headline.sentences,
        *report.support.notes,
        *report.backtest.notes,
    ]
    for row in report.models.rows:
        seen = row["covered"] >= 0.01
        shown = ("value", "low", "high", "lift", "lift_low", "lift_high") if seen else ()
        expected += [words(column, row[column]) for column in (*shown, "covered")]
    lifts = [row["lift"] for row in report.segments.rows if row["estimator"] == "ladder"]
    assert len(lifts) > 3
    expected += [words("lift", lift) for lift in lifts]
    for part, columns in (
        (report.contexts, ("records", "share", "change", "change_low", "adds", "value")),
        (report.backtest, ("rmse", "bias")),
        (report.support, ("covered",)),
    ):
        expected += [words(column, value) for column in columns for value in part[column]]
    sections = ("records by period", "size")
    facts = [row["found"] for row in report.check.rows if row["section"] in sections]
    expected += [words("found", fact) for fact in facts]
    assert len(expected) > 100
    assert [number for number in expected if number not in text] == []


def test_the_answer_comes_first(report, page):
    row = report.evaluation.rows[0]
    start = html.unescape(page[page.index("<main") : page.index("<section")])
    assert "<h1>A new ranker</h1>" in start
    assert words("lift", row["lift"]) in start
    assert row["verdict"] in start
    assert f"between {words('lift_low', row['lift_low'])} and" in start


def test_an_evaluation_alone_is_the_same_page_with_what_it_has(tmp_path):
    found = fc.evaluate(log_of(ROWS), CANDIDATE)
    found.save(tmp_path / "page.html", title="Alone")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    ids = Page(page).values("id")
    assert "<h1>Alone</h1>" in page
    assert "estimates" in ids
    assert not {"support", "contexts", "backtest", "appendix", "made"} & set(ids)
    assert words("lift", found["lift"][0]) in page


def test_a_ratio_is_not_counted_by_lists():
    page = fc.evaluate(log_of(ROWS), CANDIDATE, metrics=["ctr@2", "clicks@2"]).page()
    assert "clicks@2 per list" in page
    assert "ctr@2 per list" not in page


def test_nothing_seen_has_no_number():
    lists = dict(zip(NAMES, ([4, 5, 6], [7, 8, 9], [1, 2, 3]), strict=True))
    rows = [row | {"items": lists[row["context"]]} for row in ROWS]
    strange = {"context": NAMES, "items": [lists[x] for x in ("q1", "q2", "q0")]}
    page = made(log_of(rows), strange, backtest=False).page()
    assert "almost nothing of what the candidate would show" in page
    assert "saw next to nothing" in page


@pytest.mark.parametrize(
    "options",
    [
        {"confidence": None},
        {"by": "period"},
        {"estimators": fc.Weighted("ip", [1, 10])},
        {"metrics": "ctr@2"},
        {"metrics": fc.Metric([1, 0.5])},
        {"metrics": "clicks@2/shown@2"},
        {"estimators": ["list", "ip"]},
    ],
)
def test_any_evaluation_has_a_page(options):
    found = fc.evaluate(log_of(ROWS), CANDIDATE, **options)
    page = found.page()
    value = next(row["value"] for row in found.rows if row["value"])
    column = "lift" if "by" in options else "value"
    shown = found[column][0] if column == "lift" else value
    assert words(column, shown) in page


def test_a_notebook_shows_it_in_a_frame_of_its_own(report, page):
    frame = Page(report._repr_html_())
    assert frame.tags == ["iframe"]
    assert frame.values("srcdoc") == [page.replace("A new ranker", "Candidate ranking")]
    assert frame.values("sandbox") == [""]
