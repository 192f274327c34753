"""If this fails, a report cannot be read in a browser, or not by everyone."""

import pytest

from tests.questions.test_report import CANDIDATE, ROWS, log_of, made
from tests.rendering import look
from tests.torture.test_hostile import HOSTILE, hostile_log, hostile_report

pytestmark = pytest.mark.skipif(look.tools() is None, reason="no node, Chromium or node modules")


def test_axe_finds_nothing_serious_and_the_page_asks_for_nothing(tmp_path):
    made(log_of(ROWS), CANDIDATE, by="period").save(tmp_path / "report.html")
    done = look.photograph(tmp_path / "report.html", pictures=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_fault_is_found(tmp_path):
    page = made(log_of(ROWS), CANDIDATE, backtest=False).page()
    broken = page.replace("<h1>", '<h1><img src="http://127.0.0.1/x.png">')
    (tmp_path / "report.html").write_text(broken, encoding="utf-8")
    done = look.photograph(tmp_path / "report.html", pictures=False)
    assert done.returncode == 1
    assert "image-alt" in done.stdout


@pytest.mark.parametrize("inside", ["", *HOSTILE[:2]])
def test_what_comes_from_data_is_never_run(tmp_path, inside):
    """In a browser that does not mind the page's own policy; but for a control, nothing runs."""
    page = hostile_report(hostile_log()).page().replace("<h1>", f"<h1>{inside}", 1)
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    done = look.photograph(tmp_path / "report.html", pictures=False)
    assert ("runs: 1" in done.stdout) == bool(inside), done.stdout + done.stderr
