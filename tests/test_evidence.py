"""If this fails, docs/evidence.md says other figures than were measured."""

import re

from benchmarks import evidence


def aged(page: str) -> str:
    """The page without how old its figures are, which changes with every commit."""
    return re.sub(r"(\d+|\?) changes ago", "… changes ago", page)


def test_the_page_is_what_its_results_render_to() -> None:
    page = evidence.PAGE.read_text()
    assert aged(evidence.rendered(page)) == aged(page), "python -m benchmarks evidence writes it"


def test_every_table_stands_on_the_page() -> None:
    stand = re.findall(r"<!-- table: (\w+) -->", evidence.PAGE.read_text())
    assert sorted(stand) == sorted(evidence.TABLES)
