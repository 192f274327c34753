"""Results as charts, pages and files, by the ending of a file's name."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass

import pyarrow.parquet

from foreclick.engines.files import checked_file, ending, whole_file
from foreclick.errors import ReportError, optional
from foreclick.questions.report import Report
from foreclick.rendering.charts import charts_of
from foreclick.rendering.drawing import COLOURS, WIDTH, LineChart, Mark, RowChart
from foreclick.rendering.page import page, render
from foreclick.results import Result
from foreclick.secrets import printable

MATPLOTLIB = ("matplotlib", "pip install 'foreclick[charts]'")
PICTURES = (".png", ".svg", ".pdf")
ENDINGS = (*PICTURES, ".html", ".csv", ".json", ".parquet")

_MARKERS = {"circle": "o", "square": "s", "diamond": "D", "triangle": "^", "down": "v"}
_MARKERS |= {"left": "<", "right": ">"}


@dataclass(frozen=True, repr=False)
class Chart:
    """Charts below each other, which a notebook shows; `Result.save` writes them to a file.

    Attributes:
        title: a line above them.
        parts: the charts.
    """

    title: str
    parts: tuple[RowChart | LineChart, ...]

    def layout(self) -> tuple[list[Mark], float]:
        """All marks, and the height."""
        marks: list[Mark] = []
        y = 12.0
        if self.title:
            marks.append(Mark("text", "start bold ink", 0, 26, text=self.title))
            y = 40.0
        for part in self.parts:
            drawn, height = part.marks()
            marks += [mark.moved(0, 100, y) for mark in drawn]
            y += height + 22
        return [m._replace(text=printable(m.text)).moved(2, 98, 0) for m in marks], y

    def svg(self) -> str:
        """The chart as SVG, with its own colours on white."""
        marks, height = self.layout()
        label = self.title or "; ".join(part.title for part in self.parts)
        return render("chart.svg", label=label, marks=marks, width=WIDTH, height=height)

    _repr_svg_ = svg

    def __repr__(self) -> str:
        names = ", ".join(part.title for part in self.parts)
        return f"<a chart of {printable(names)}; a notebook shows it, save() writes it>"

    def picture(self, form: str) -> bytes:
        """The chart as PNG or PDF, drawn by matplotlib."""
        # An extra, which takes longer to import than most results to write.
        optional(*MATPLOTLIB)
        import matplotlib.style  # noqa: PLC0415
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415
        from matplotlib.patches import Rectangle  # noqa: PLC0415

        marks, height = self.layout()
        out = io.BytesIO()
        style = {"text.parse_math": False, "font.family": ["DejaVu Sans"], "pdf.fonttype": 42}
        with matplotlib.style.context(["default", style]):
            figure = Figure(figsize=(WIDTH / 96, height / 96), dpi=192, facecolor="white")
            FigureCanvasAgg(figure)
            axes = figure.add_axes((0, 0, 1, 1))
            axes.set_axis_off()
            axes.set_xlim(0, WIDTH)
            axes.set_ylim(height, 0)
            for z, mark in enumerate(marks):
                *how, look = mark.look.split()
                colour, x, x2 = COLOURS[look], mark.x * WIDTH / 100, mark.x2 * WIDTH / 100
                if mark.kind == "text":
                    side = "left" if "start" in how else "right" if "end" in how else "center"
                    weight = "bold" if "bold" in how else "normal"
                    size = 8 if look == "soft" else 8.6
                    axes.text(x, mark.y, mark.text, size=size, color=colour, ha=side, weight=weight)
                elif mark.kind == "box":
                    box = Rectangle((x, mark.y), x2 - x, mark.y2 - mark.y, color=colour, lw=0)
                    axes.add_patch(box)
                elif mark.kind == "dot":
                    shape = _MARKERS[mark.shape]
                    axes.plot(x, mark.y, shape, color=colour, ms=6.5, mec="white", zorder=z)
                else:
                    wide = 3.0 if "span" in how else 0.75 if "thin" in how else 1.3
                    dashes = (0, (3, 2)) if look == "level" or "dashed" in how else "-"
                    pale = 0.55 if "span" in how else 1.0
                    axes.plot([x, x2], [mark.y, mark.y2], lw=wide, color=colour, ls=dashes,
                              alpha=pale, zorder=z, solid_capstyle="round")  # fmt: skip
            # Without the date, the same numbers are the same file.
            undated = {"CreationDate": None} if form == "pdf" else {}
            figure.savefig(out, format=form, metadata=undated)
        return out.getvalue()


def plot(result: Result, title: str = "") -> Chart:
    """The chart of a result."""
    drawn = result.evaluation if isinstance(result, Report) else result
    return Chart(title, tuple(charts_of(drawn)))


def save(result: Result, path: str | os.PathLike[str], title: str = "") -> None:
    """Write a result; `Result.save` says as what."""
    target = checked(path)
    kind = ending(target)
    # All of it first: what fails half-way must not have emptied the file.
    if kind == ".svg":
        content = plot(result, title).svg().encode()
    elif kind in PICTURES:
        content = plot(result, title).picture(kind[1:])
    elif kind == ".html":
        content = page(result, title).encode()
    elif title:
        raise ReportError(f"{kind} holds no chart, so title would do nothing.")
    elif kind == ".parquet":
        out = io.BytesIO()
        pyarrow.parquet.write_table(result.to_arrow(), out)
        content = out.getvalue()
    else:
        content = (result.to_csv() if kind == ".csv" else result.to_json()).encode()
    with whole_file(target) as file:
        file.write_bytes(content)


def checked(path: str | os.PathLike[str]) -> str:
    """A path or URL that a result can be written to."""
    target = checked_file(path, ENDINGS)
    if ending(target) in (".png", ".pdf"):
        optional(*MATPLOTLIB)
    return target
