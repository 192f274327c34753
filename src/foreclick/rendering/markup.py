"""HTML and SVG from Python calls, with everything that is not markup escaped."""

from __future__ import annotations

import html
from typing import TypeAlias

from foreclick.results import Value, format_value


class Markup(str):
    """Text that is markup already: whatever is not is escaped when it becomes a part of one."""

    __slots__ = ()


Child: TypeAlias = str | Markup | None
Attribute: TypeAlias = str | float | bool | None

_VOID = frozenset({"meta", "line", "circle", "rect", "path", "polyline", "polygon", "use"})
_TIDY = 4  # decimal places of a coordinate


def element(name: str, /, *children: Child, **attributes: Attribute) -> Markup:
    """An element; attributes that are None or False are left out.

    `class_` is the attribute class, and an underscore in a name is a hyphen.

    Examples:
        >>> element("p", "1 < 2", class_="small")
        '<p class="small">1 &lt; 2</p>'
    """
    given = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID and not children:
        return Markup(f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{joined(*children)}</{name}>")


def joined(*children: Child) -> Markup:
    """Markup one after the other; text is escaped, None is left out."""
    return Markup("".join(escaped(child) for child in children if child is not None))


def escaped(text: str) -> Markup:
    """Text as markup: what is markup stays, control characters are spelt out.

    Examples:
        >>> escaped("<script>")
        '&lt;script&gt;'
    """
    if isinstance(text, Markup):
        return text
    return Markup(html.escape(format_value("", text)))


def words(column: str, value: Value) -> str:
    """A value as a person reads it, with a true minus sign before a number."""
    text = format_value(column, value)
    return text.replace("-", "−") if isinstance(value, int | float) else text


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = key.removesuffix("_").replace("_", "-")
    if value is True:
        return f" {name}"
    if isinstance(value, float):
        value = f"{round(value, _TIDY):g}"
    return f' {name}="{escaped(str(value))}"'
