"""Results to look at: charts, pages and files.

`charts` says which charts a result has, as values that `drawing` turns into marks. Templates make
SVG, HTML and the page of a report of them (`markup`, `page`, in the words of `wording`); `files`
writes. matplotlib, an extra, is imported only for .png and .pdf.
"""

from foreclick.rendering.files import PICTURES, checked, fragment, page, plot, save

__all__ = ["PICTURES", "checked", "fragment", "page", "plot", "save"]
