"""Results to look at: charts, pages and files.

`charts` has the charts of each result, as values that `drawing` turns into marks. `page` makes HTML
by templates, in the words of `wording`; `files` writes. matplotlib, an extra, is imported only for
.png and .pdf.
"""

from foreclick.rendering.files import checked, plot, save
from foreclick.rendering.page import fragment, page

__all__ = ["checked", "fragment", "page", "plot", "save"]
