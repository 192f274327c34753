"""A page of one file: no script, no network, and a policy that allows neither."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from functools import cache
from importlib.resources import files

from foreclick.questions.report import Report
from foreclick.rendering.details import activity, backtest, caveats, contexts, past, provenance
from foreclick.rendering.markup import Markup, element, joined
from foreclick.rendering.sections import answer, by_segment, clips, estimates, notes, support
from foreclick.rendering.tables import Section

SECTIONS: tuple[Callable[[Report], Section | None], ...] = (
    notes,
    estimates,
    by_segment,
    support,
    clips,
    contexts,
    activity,
    past,
    backtest,
    caveats,
    provenance,
)
"""What follows the answer, in the order of the page."""


def report_page(report: Report) -> str:
    """A report as a page that needs no other file."""
    parts = [part for make in SECTIONS if (part := make(report)) is not None]
    links = [element("li", element("a", part.title, href=f"#{part.name}")) for part in parts]
    contents = element("nav", element("ul", *links), aria_label="Sections")
    body = joined(
        element("a", "Skip to the answer", href="#answer", class_="skip"),
        element(
            "main",
            answer(report),
            contents if len(links) > 1 else None,
            *(part.markup() for part in parts),
            id="answer",
            tabindex="-1",
        ),
    )
    return document(report.title or "foreclick report", body)


def document(title: str, body: Markup) -> str:
    """A whole page around its body."""
    style = _style()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    head = joined(
        element("meta", charset="utf-8"),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy}"/>'),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        Markup(f"<style>{style}</style>"),
    )
    return (
        "<!DOCTYPE html>\n"
        + element("html", element("head", head), element("body", body), lang="en")
        + "\n"
    )


@cache
def _style() -> str:
    return files("foreclick.rendering").joinpath("page.css").read_text(encoding="utf-8")
