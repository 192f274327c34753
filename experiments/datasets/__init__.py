"""Public click logs, each in its own format, as logs.

Every reader streams its source to canonical Parquet and reads that: nothing is held in memory as a
whole. What is odd in the source is counted by name and reported, as a `ForeclickWarning` by the
readers and as a table by `convert`. Nothing is lost silently.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import warnings
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.datasets import conversion
from experiments.datasets._pyclick import PYCLICK
from experiments.datasets.conversion import Conversion
from experiments.datasets.sessions import YANDEX
from experiments.datasets.sessions import relevance_prediction as _relevance_prediction
from experiments.datasets.tables import OPEN_BANDIT, TRIVAGO
from foreclick.errors import ForeclickWarning, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from experiments.datasets.formats import Format
    from foreclick.logs import Log

__all__ = [
    "FORMATS",
    "Conversion",
    "convert",
    "open_bandit",
    "pyclick",
    "relevance_prediction",
    "trivago",
    "yandex",
]

_FORMATS: dict[str, Format] = {
    layout.name: layout
    for layout in (YANDEX, _relevance_prediction(), PYCLICK, TRIVAGO, OPEN_BANDIT)
}
FORMATS = tuple(_FORMATS)
"""The names of the formats."""


_NUMBERS = count(1)  # of temporary files


def convert(
    dataset: str,
    path: str | Path,
    out: str | Path,
    *,
    day_length: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> Conversion:
    r"""Stream a dataset to canonical Parquet, in bounded memory, and count every oddity.

    Args:
        dataset: the format: "yandex", "relevance_prediction", "pyclick", "trivago" or
            "open_bandit". The function of that name says what it reads and how.
        path: a file (plain or gzip), a glob, or a directory.
        out: the Parquet file to write, one row a list. It appears when it is whole.
        day_length: see `relevance_prediction`.
        progress: called from time to time with a line that says how far it is; by default such
            a line stands on the terminal, if there is one.

    Returns:
        What was written and what was odd; its `log()` reads the log.

    Raises:
        SourceError: the source is not there, damaged, or in another format.

    Examples:
        >>> import tempfile, pathlib
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "log").write_text("q\t1,2,3 : 2 , 2 ; q\t2,1,3 : 9 ;")
        >>> done = convert("pyclick", folder / "log", folder / "log.parquet")
        >>> done.oddities
        {'clicks on items not in the list': 1, 'repeated clicks': 1}
        >>> done.log()
        <Log: 2 records of up to 3 items in duckdb; rewards: clicks>
    """
    return conversion.convert(_layout(dataset, day_length), path, out, progress)


def yandex(path: str | Path, *, parquet: str | Path | None = None) -> Log:
    """Read the log of Kaggle's "Personalized Web Search Challenge", which the paper evaluates on.

    Lines, with tabs between: ``session M day user``; ``session time Q serp query terms url,domain
    url,domain …``; ``session time C serp url``. A click belongs to the list with its SERP in its
    session. Queries of the test period (``T``) have no clicks and are left out. The context is
    the query, the items are urls, the period is the day (1 to 27), the unit the user. All of it
    (16 GB) takes minutes: convert it once.

    Args:
        path: a file (plain or gzip), a glob, or a directory. The lines of a session stand
            together in one file.
        parquet: where to keep the canonical Parquet; by default in a temporary file, which is
            removed when Python ends.

    Warns:
        ForeclickWarning: something is odd in the source; each oddity with its count.

    Raises:
        SourceError: the source is not there, damaged, or in another format.
    """
    return _read(YANDEX, path, parquet)


def relevance_prediction(
    path: str | Path, *, day_length: int | None = None, parquet: str | Path | None = None
) -> Log:
    """Read a log in the format of Yandex's Relevance Prediction Challenge of 2011.

    Lines, with tabs between: ``session time Q query region url url …`` and ``session time C url``.
    A click does not tell its query: it belongs to the last list before it, in its session, that
    has the url. The context is the query, the items are urls, the unit is the session, and the
    region is a segment.

    Args:
        path: as for `yandex`.
        day_length: how many units of time make a day, for logs whose time runs through the whole
            log; Naver's CLARA2 counts milliseconds: 86_400_000. The original's time starts anew
            with each session and tells no day: None, no period.
        parquet: as for `yandex`.

    Warns:
        ForeclickWarning: something is odd in the source; each oddity with its count.

    Raises:
        SourceError: the source is not there, damaged, or in another format.
    """
    return _read(_layout("relevance_prediction", day_length), path, parquet)


def pyclick(path: str | Path, *, parquet: str | Path | None = None) -> Log:
    """Read the sample of the 2011 challenge that PyClick came with.

    Records end in semicolons: ``query_region<TAB>url,url,… : clicked url , clicked url``. The
    context is the query with its region. There is no day and no user.

    Args:
        path: as for `yandex`.
        parquet: as for `yandex`.

    Warns:
        ForeclickWarning: something is odd in the source; each oddity with its count.

    Raises:
        SourceError: the source is not there, damaged, or in another format.
    """
    return _read(PYCLICK, path, parquet)


def trivago(path: str | Path, *, parquet: str | Path | None = None) -> Log:
    """Read the log of trivago's RecSys Challenge 2019, as CSV or Parquet.

    One list is one row with the action "clickout item"; other actions show no list. The context is
    the city, because filters and sort orders on top of it leave almost no list twice. The items
    are the impressions, the period is the day (UTC), the unit the user, segments are platform and
    device.

    Only lists with a click are logged, so each has exactly one: a value says where the click is,
    not whether there is one.

    Args:
        path: as for `yandex`; of a directory only CSV and Parquet files.
        parquet: as for `yandex`.

    Warns:
        ForeclickWarning: something is odd in the source; each oddity with its count.

    Raises:
        SourceError: the source is not there, damaged, or in another format.
    """
    return _read(TRIVAGO, path, parquet)


def open_bandit(path: str | Path, *, parquet: str | Path | None = None) -> Log:
    """Read a campaign of the Open Bandit Dataset, with its propensities.

    Three items were shown at a time, but the rows do not tell which belong together. So each row
    is a list of one item, and its position on the page is the context: propensities and click
    rates are those of an item at a position, and a candidate names its item for each. The period
    is the day. The segment `policy` is the directory the file lies in, "random" or "bts".

    Args:
        path: as for `yandex`; of a directory only CSV and Parquet files, all of one campaign.
        parquet: as for `yandex`.

    Warns:
        ForeclickWarning: something is odd in the source; each oddity with its count.

    Raises:
        SourceError: the source is not there, damaged, in another format, or of several campaigns.
    """
    return _read(OPEN_BANDIT, path, parquet)


def _layout(dataset: str, day_length: int | None) -> Format:
    if dataset not in _FORMATS:
        raise SourceError(f"there is no dataset {dataset!r}; there are {', '.join(FORMATS)}.")
    if day_length is None:
        return _FORMATS[dataset]
    if dataset != "relevance_prediction" or day_length < 1:
        raise SourceError(
            f"dataset={dataset!r}, day_length={day_length!r}: only the time of "
            "'relevance_prediction' may need the length of a day, a whole number above 0."
        )
    return _relevance_prediction(day_length)


def _read(layout: Format, path: str | Path, parquet: str | Path | None) -> Log:
    out = _scratch() / f"{next(_NUMBERS)}.parquet" if parquet is None else parquet
    done = conversion.convert(layout, path, out)
    if done.oddities:
        counts = "; ".join(
            f"{row['fact']}: {row['found']:,} ({row['done']})" for row in done if row["done"]
        )
        warnings.warn(
            f"{layout.name}: {counts}. datasets.convert tells where.",
            ForeclickWarning,
            stacklevel=3,
        )
    return done.log()


@cache
def _scratch() -> Path:
    """A directory for this process. Logs refer to its files, so it stays until the end."""
    folder = tempfile.mkdtemp(prefix="foreclick-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
