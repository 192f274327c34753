"""Results to look at: charts, pages and files.

The page of a report: `page` puts it together from `sections` and `details`, which are made of
`tables` and `figures` (SVG by `markup`), in the words of `wording` and the style of `page.css`.

Charts of single results: `style` says how they look, `curves` and `dots` draw, `charts` knows which
chart a result has (a policy's is in `optimized`), and `files` writes. matplotlib, an extra, is
imported only when such a chart is asked for.
"""

from foreclick.rendering.files import chart, checked_picture, checked_result, page, save

__all__ = ["chart", "checked_picture", "checked_result", "page", "save"]
