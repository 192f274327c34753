"""If this fails, the documentation says other figures than were measured."""

import re
from pathlib import Path

import pytest
from benchmarks import evidence


def aged(page: str) -> str:
    """The page without how old its figures are, which changes with every commit."""
    return re.sub(r"(\d+|\?) changes ago", "… changes ago", page)


@pytest.mark.parametrize("page", evidence.PAGES, ids=lambda page: page.stem)
def test_a_page_is_what_its_results_render_to(page: Path) -> None:
    now = page.read_text()
    assert aged(evidence.rendered(now)) == aged(now), "python -m benchmarks evidence writes it"


def test_a_missed_goal_is_bold() -> None:
    template = "{held:whole>=.9} {rmse:percent<={most}}"
    assert evidence.filled(template, {"held": 0.9, "rmse": 0.02, "most": 0.02}) == "90% 2.0"
    assert (
        evidence.filled(template, {"held": 0.89, "rmse": 0.02, "most": 0.01}) == "**89%** **2.0**"
    )


def test_every_table_stands_on_a_page() -> None:
    text = "".join(page.read_text() for page in evidence.PAGES)
    assert sorted(re.findall(r"<!-- table: (\w+) -->", text)) == sorted(evidence.TABLES)
