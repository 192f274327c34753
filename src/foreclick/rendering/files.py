"""Results as files: a picture, a page, or the rows, by the ending of the name."""

from __future__ import annotations

import html
import io
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet

from foreclick.engines import ending, has_place, located, whole_file
from foreclick.errors import MissingDependency, ReportError, optional
from foreclick.questions.evaluate import Evaluation
from foreclick.questions.report import Report
from foreclick.rendering.page import report_page
from foreclick.results import Result
from foreclick.secrets import printable

if TYPE_CHECKING:
    from foreclick.rendering.style import Chart

PICTURES = (".png", ".svg", ".pdf")
ENDINGS = (*PICTURES, ".html", ".csv", ".json", ".parquet")


def chart(result: Result, **options: Any) -> Chart:  # noqa: ANN401 - those of the result's chart
    """The chart of a result, if matplotlib is there to draw it."""
    optional("matplotlib", "pip install 'foreclick[charts]'")
    # matplotlib is an extra, and takes longer to import than most results to write.
    from foreclick.rendering.charts import draw  # noqa: PLC0415

    return draw(result.evaluation if isinstance(result, Report) else result, **options)


def save(result: Result, path: str | os.PathLike[str], **options: Any) -> None:  # noqa: ANN401
    """Write a result; `Result.save` says as what."""
    target = checked(path, ENDINGS)
    # All of it first: what fails half-way must not have emptied the file.
    content = _content(result, ending(target), options)
    with whole_file(target) as file:
        file.write_bytes(content)


def checked(path: str | os.PathLike[str], endings: tuple[str, ...]) -> str:
    """A path or URL that can be written to, with one of these endings."""
    target = located(os.fspath(path))
    if ending(target) not in endings:
        raise ReportError(
            f"{str(path)!r} does not say what to write: its ending must be one of "
            f"{', '.join(endings)}."
        )
    if not has_place(target):
        place = str(Path(target).parent)
        raise ReportError(f"{str(path)!r} cannot be written: there is no {place!r}.")
    return target


def checked_picture(path: str | os.PathLike[str]) -> str:
    """A path to draw a chart to, when the time has come; said before hours of work, not after."""
    target = checked(path, PICTURES)
    optional("matplotlib", "pip install 'foreclick[charts]'")
    return target


def checked_result(path: str | os.PathLike[str]) -> str:
    """A path to write a result to, when the time has come."""
    target = checked(path, ENDINGS)
    return checked_picture(target) if ending(target) in PICTURES else target


def _content(result: Result, ending: str, options: dict[str, Any]) -> bytes:
    if ending in PICTURES:
        return _picture(chart(result, **options), ending[1:])
    if ending == ".html":
        return page(result, **options).encode()
    if options:
        raise ReportError(f"{ending} holds no chart, so {', '.join(options)} would do nothing.")
    if ending == ".parquet":
        out = io.BytesIO()
        pyarrow.parquet.write_table(result.to_arrow(), out)
        return out.getvalue()
    return (result.to_csv() if ending == ".csv" else result.to_json()).encode()


def _picture(drawn: Chart, form: str) -> bytes:
    out = io.BytesIO()
    # Without the date, the same numbers are the same file.
    undated: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form, {})
    drawn.savefig(out, format=form, metadata=undated)
    if form == "svg":  # matplotlib repeats every text in a comment, whatever it holds
        return re.sub(rb" *<!--.*?-->\n?", b"", out.getvalue(), flags=re.DOTALL)
    return out.getvalue()


# --- page ---------------------------------------------------------------------------------------

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
      content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff;
       margin: 2rem auto; max-width: 75rem; padding: 0 1rem; }}
figure {{ margin: 1rem 0 2rem; }}
figure svg {{ max-width: 100%; height: auto; }}
.foreclick {{ overflow-x: auto; }}
caption {{ font-size: 1.2rem; padding-bottom: .5rem; }}
tbody tr:nth-child(even) {{ background: #f6f6f6; }}
</style>
</head>
<body>
{body}
</body>
</html>
"""


def page(result: Result, **options: Any) -> str:  # noqa: ANN401 - those of the result's chart
    """A result as a page that needs no other file: its chart, if it has one, table and notes."""
    if isinstance(result, Evaluation) and result.rows:
        result = report_of(result, **options)
    if isinstance(result, Report):
        return report_page(result)
    title = html.escape(printable(result.title or type(result).__name__))
    return _PAGE.format(title=title, body=_figure(result, title, options) + result.to_html())


def report_of(evaluation: Evaluation, title: str = "") -> Report:
    """An evaluation as a report without anything around it."""
    return Report(
        evaluation.rows,
        evaluation.columns,
        evaluation.notes,
        title or evaluation.title or "Candidate ranking",
        evaluation=evaluation,
    )


def _figure(result: Result, title: str, options: dict[str, Any]) -> str:
    try:
        optional("matplotlib", "")
    except MissingDependency:  # the numbers are worth having without
        return ""
    from foreclick.rendering.charts import has_chart  # noqa: PLC0415 - as above

    if not has_chart(result):
        return ""
    text = _picture(chart(result, **options), "svg").decode()
    # What stands before is for files of their own: the XML declaration and the document type.
    svg = text[text.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{title}"', 1)
    return f"<figure>\n{svg}</figure>\n"
