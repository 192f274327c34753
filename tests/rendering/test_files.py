"""If this fails, a file that was saved is not what its ending says."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET

import pyarrow.parquet as pq
import pytest

from foreclick.errors import ReportError
from foreclick.results import Result
from tests.rendering.samples import Page, backtest, evaluation, support


@pytest.mark.parametrize("make", [backtest, evaluation, support])  # lines, dots, bars
def test_pictures(tmp_path, make):
    for ending in ("png", "svg", "pdf", "PNG"):
        make().save(tmp_path / f"chart.{ending}")
    png = (tmp_path / "chart.png").read_bytes()
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert png.endswith(b"IEND\xaeB`\x82")
    assert (tmp_path / "chart.PNG").read_bytes() == png
    assert ET.parse(tmp_path / "chart.svg").getroot().tag.endswith("}svg")  # noqa: S314 - our own
    assert (tmp_path / "chart.pdf").read_bytes().startswith(b"%PDF-")


def test_a_title_reaches_the_chart_and_the_page(tmp_path):
    for ending in ("svg", "html"):
        backtest().save(tmp_path / f"chart.{ending}", title="A <title>")
        assert "A &lt;title&gt;" in (tmp_path / f"chart.{ending}").read_text(encoding="utf-8")
    with pytest.raises(ReportError, match="holds no chart, so title would do nothing"):
        backtest().save(tmp_path / "rows.csv", title="A title")


def test_a_page_has_chart_table_and_notes_and_fetches_nothing(tmp_path):
    backtest().save(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    page = Page(text)
    assert text.startswith("<!DOCTYPE html>")
    assert page.tags.count("caption") == 2
    assert text.count('scope="col"') > len(backtest().columns)
    assert "0.3000" in text
    assert page.links() == []
    assert len(page.values("id")) == len(set(page.values("id"))), "an id twice"
    assert "ip predicted best." in text
    assert "<h1>Backtest</h1>" in text


def test_what_cannot_be_drawn_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "chart.png"
    path.write_bytes(b"before")
    with pytest.raises(ReportError, match="Result has no chart"):
        Result(({"value": 1.0},), ("value",)).save(path)
    assert path.read_bytes() == b"before"


# --- without matplotlib -------------------------------------------------------------------------

WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "matplotlib":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
import foreclick as fc
from foreclick.cli import main
from foreclick.questions.support import Support
rows = ({"estimator": "ip", "metric": "clicks@3", "covered": 0.5, "records": 9},)
result = Support(rows, tuple(rows[0]))
for ending in ("png", "pdf", "html", "svg", "csv", "json", "parquet"):
    try:
        result.save(f"rows.{ending}")
    except fc.errors.MissingDependency as error:
        print(error)
print(main(["reproduce", "rows.csv", "-o", "figures"]))
sys.exit(main(["backtest", "none.parquet", "-o", "chart.png"]))
"""


def test_without_matplotlib_everything_but_pictures_is_written(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    remedy = "matplotlib is not installed; run: pip install 'foreclick[charts]'"
    assert done.stdout.splitlines() == [remedy, remedy, "2"], done.stderr
    # Before the work.
    assert (done.returncode, done.stderr.count("foreclick[charts]")) == (2, 2), done.stderr
    written = sorted(file.name for file in tmp_path.iterdir())
    assert written == [f"rows.{e}" for e in ("csv", "html", "json", "parquet", "svg")]
    text = (tmp_path / "rows.html").read_text(encoding="utf-8")
    assert "50.0%" in text
    assert "<svg" in text
    assert "<svg" in (tmp_path / "rows.svg").read_text(encoding="utf-8")
    assert pq.read_table(tmp_path / "rows.parquet").num_rows == 1
