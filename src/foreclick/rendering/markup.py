"""HTML and SVG by templates, in which everything that comes from data is escaped."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from foreclick.rendering.drawing import COLOURS, PATHS
from foreclick.rendering.wording import (
    VERDICTS,
    change_of,
    metric_words,
    per_list,
    span_words,
    words,
)
from foreclick.secrets import printable
from foreclick.words import number_of, plural

_WORDS = (change_of, metric_words, number_of, per_list, plural, span_words, words)


def render(template: str, **values: Any) -> str:  # noqa: ANN401 - what the template names
    """A template, filled in."""
    return _environment().get_template(template).render(**values)


def _shown(value: Any) -> Any:  # noqa: ANN401 - whatever a template prints
    """Text without secrets, with its control characters spelt out; markup as it is."""
    return printable(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("foreclick.rendering", "templates"),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = made.get_template("page.css").render()
    made.globals |= {
        "digest": base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
        "colours": COLOURS,
        "paths": PATHS,
        "verdicts": VERDICTS,
        **{call.__name__: call for call in _WORDS},
    }
    return made
