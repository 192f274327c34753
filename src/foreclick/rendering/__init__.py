"""Results to look at: charts, pages and files.

`style` says how charts look, `curves` and `dots` draw, `charts` knows which chart a result has (a
policy's is in `optimized`), and `files` writes. matplotlib, an extra, is imported only when a chart
is asked for.
"""

from foreclick.rendering.files import chart, checked_picture, save

__all__ = ["chart", "checked_picture", "save"]
