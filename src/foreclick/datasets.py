r"""Public click logs, each as its publisher wrote it, as logs.

A format is two SELECTs over its files: the lists that were shown, and the clicks on them.
`from_events` puts them together, so the log's `ledger` says what became of every list and click.
Nothing of the data is part of foreclick: each has its terms, and comes from its publisher.

A path is a file, a glob, or a directory, which stands for the files in it that are not hidden.

Examples:
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "trainSample")
    >>> _ = path.write_text("q\t1,2,3 : 2 , 2 ; q\t2,1,3 : 9 ;")
    >>> log = pyclick(path)
    >>> log
    <Log: 2 records of up to 3 items in duckdb; rewards: clicks>
    >>> log.ledger.losses
    {'clicks, repeated': 1, 'clicks on items that their list did not show': 1}
"""

from __future__ import annotations

import glob
import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from foreclick.engines import DUCKDB, Engine, Table, Value, default_engine, engine_of
from foreclick.engines.files import matches, no_file
from foreclick.errors import STATEMENT, EngineError, SourceError
from foreclick.events import from_events
from foreclick.logs import Log, read_log
from foreclick.words import number_of, plural

DAYS = 27
"""Days of the Yandex log; clicks of the three days after them were withheld."""

_PIECE = 1 << 20  # bytes that are decompressed at once

__all__ = ["READERS", "open_bandit", "pyclick", "relevance_prediction", "trivago", "yandex"]


@dataclass(frozen=True)
class Format:
    """How a public log is written down, as SQL of DuckDB.

    Attributes:
        name: of the reader.
        source: a row for each line, record or row of `{files}`.
        shown: a SELECT of lists from `{source}`: `list_id`, `items`, and what belongs to a list.
        clicks: a SELECT of clicks from `{source}` or `{shown}`: `list_id`, and the `item`.
        roles: which columns of `shown` play which part.
    """

    name: str
    source: str
    shown: str
    clicks: str
    roles: Mapping[str, Any] = field(default_factory=dict)


_LINES = """read_csv({files}, columns = {{'line': 'VARCHAR'}}, delim = '\x01', quote = '',
    escape = '', header = false, auto_detect = false)"""
_ROWS = "read_csv({files}, header = true, all_varchar = true, filename = true)"
_PARQUET = "read_parquet({files}, filename = true)"


_UNPADDED = "rtrim(line, '\t\r ')"  # slow; the log of 2011 is small


def _fields(word: str, line: str = "line") -> str:
    """The fields `f` of the lines that have a word, between tabs."""
    return f"""(SELECT string_split({line}, '\t') AS f FROM {{source}}
        WHERE contains(line, '\t{word}\t'))"""


def _whole(text: str) -> str:
    return f"TRY_CAST({text} AS BIGINT)"


def _each(text: str, value: str = "i") -> str:
    """A list of texts as one of integers."""
    return f"[{_whole(value)} FOR i IN {text}]"


_YANDEX = Format(
    "yandex",
    _LINES,
    f"""
    SELECT concat(f[1], ' ', f[4]) AS list_id, {_whole("f[5]")} AS query,
        {_each("f[7:]", "split_part(i, ',', 1)")} AS items, day, person
    FROM {_fields("Q")} AS q INNER JOIN (
        SELECT f[1] AS session, {_whole("f[3]")} AS day, {_whole("f[4]")} AS person
        FROM {_fields("M")} AS m
    ) ON session = f[1]
    WHERE day <= {DAYS}""",
    f"SELECT concat(f[1], ' ', f[4]) AS list_id, {_whole('f[5]')} AS item FROM {_fields('C')} AS c",
    {"context": "query", "period": "day", "unit": "person"},
)

_RELEVANCE_PREDICTION = Format(
    "relevance_prediction",
    _LINES,
    f"""
    SELECT row_number() OVER () AS list_id, {_whole("f[1]")} AS session,
        {_whole("f[2]")} AS moment, {_whole("f[4]")} AS query, trim(f[5]) AS region,
        {_each("f[6:]")} AS items
    FROM {_fields("Q", _UNPADDED)} AS q""",
    # The last list before the click, in its session, that has the item.
    f"""
    SELECT list_id, c.item FROM (
        SELECT {_whole("f[1]")} AS session, {_whole("f[2]")} AS moment, {_whole("f[4]")} AS item
        FROM {_fields("C")} AS l
    ) AS c ASOF LEFT JOIN (
        SELECT session, moment, list_id, unnest(items) AS item FROM {{shown}} AS s
    ) AS q ON c.session = q.session AND c.item = q.item AND c.moment >= q.moment""",
    {"context": "query", "unit": "session", "segments": ["region"]},
)

_PYCLICK = Format(
    "pyclick",
    r"""(SELECT translate(line, chr(10) || chr(13) || ' ', '') AS line
        FROM (SELECT unnest(string_split(content, ';')) AS line FROM read_text({files}))
        WHERE trim(line, chr(10) || chr(13) || ' ') <> '')""",
    f"""
    SELECT row_number() OVER () AS list_id, f[1] AS query, f[3] AS clicked,
        {_each("string_split(f[2], ',')")} AS items
    FROM (SELECT string_split_regex(line, '[\t:]') AS f FROM {{source}} AS l)
    WHERE len(f) = 3""",
    f"""
    SELECT list_id, {_whole("item")} AS item
    FROM (SELECT list_id, unnest(string_split(clicked, ',')) AS item FROM {{shown}} AS s)
    WHERE item <> ''""",
    {"context": "query"},
)

_TRIVAGO = Format(
    "trivago",
    _ROWS,
    f"""
    SELECT row_number() OVER () AS list_id, city, {_whole("reference")} AS item,
        {_each("string_split(impressions, '|')")} AS items, user_id, platform, device,
        DATE '1970-01-01' + CAST({_whole('"timestamp"')} // 86400 AS INTEGER) AS day
    FROM {{source}} AS s WHERE action_type = 'clickout item' AND reference <> ''""",
    "SELECT list_id, item FROM {shown} AS s",
    {
        "context": "city",
        "period": "day",
        "unit": "user_id",
        "segments": ["platform", "device"],
    },
)


def yandex(
    path: str | Path,
    *,
    queries: Iterable[int] | None = None,
    engine: Any = None,  # noqa: ANN401 - a connection
    **options: Any,  # noqa: ANN401
) -> Log:
    """Read the log of Kaggle's "Personalized Web Search Challenge", which the paper evaluates on.

    Its lines have fields between tabs: ``session M day user``; ``session time Q serp query terms
    url,domain url,domain …``; ``session time C serp url``. A click belongs to the list of its
    session with the same SERP. The context is the query, the items are urls, the period is the day,
    the unit the user. Days 28 to 30, whose clicks were withheld (``T``), are left out.

    Args:
        path: a file, plain or gzip, a glob, or a directory of such files.
        queries: ids of queries, to read only their lists; by default all.
        engine: a connection of DuckDB; by default that of this process.
        **options: of `from_events`, such as ``unit=None``.

    Returns:
        A `Log` with a `ledger`.

    Raises:
        SourceError: there is no such file, or it has another format.
    """
    return _read(_YANDEX, path, engine, queries, **options)


def yandex_counts(path: str | Path, engine: Any = None) -> Table:  # noqa: ANN401 - a connection
    """How many lists (`n`) each `query` of the same log has on days 1 to 27."""
    home, shown, _ = _opened(_YANDEX, path, engine)
    counts = f"SELECT query, count(*) AS n FROM ({shown}) WHERE query IS NOT NULL GROUP BY query"
    with _explained(_YANDEX, path):
        return home.keep("queries", home.table(f"({counts})"))


def relevance_prediction(
    path: str | Path,
    *,
    day_length: int | None = None,
    engine: Any = None,  # noqa: ANN401 - a connection
) -> Log:
    """Read a log in the format of Yandex's Relevance Prediction Challenge of 2011.

    Its lines have fields between tabs: ``session time Q query region url url …`` and ``session time
    C url``. A click does not name its query: it belongs to the last list of its session before it
    that has the url. The context is the query, the items are urls, the unit is the session, and the
    region is a segment.

    Args:
        path: as for `yandex`.
        day_length: the length of a day in units of time, for logs whose time runs through the whole
            log; Naver's CLARA2 counts milliseconds: 86_400_000. In the original, time starts anew
            with each session and no day is known: None, no period.
        engine: as for `yandex`.

    Returns:
        A `Log` with a `ledger`.

    Raises:
        SourceError: as for `yandex`.
    """
    layout = _RELEVANCE_PREDICTION
    if day_length is not None:
        shown = f"SELECT *, moment // {int(day_length)} AS day FROM ({layout.shown})"
        layout = replace(layout, shown=shown, roles={**layout.roles, "period": "day"})
    return _read(layout, path, engine)


def pyclick(path: str | Path, *, engine: Any = None) -> Log:  # noqa: ANN401 - a connection
    """Read the sample of the 2011 challenge that PyClick came with.

    Records end in semicolons: ``query_region<TAB>url,url,… : clicked url , clicked url``. The
    context is the query with its region. There is no day and no user.

    Args:
        path: as for `yandex`, not compressed.
        engine: as for `yandex`.

    Returns:
        A `Log` with a `ledger`.

    Raises:
        SourceError: as for `yandex`.
    """
    return _read(_PYCLICK, path, engine)


def trivago(path: str | Path, *, engine: Any = None) -> Log:  # noqa: ANN401 - a connection
    """Read the log of trivago's RecSys Challenge 2019, as CSV or Parquet.

    Each row with the action "clickout item" is one list; other actions show no list. The context is
    the city, because with filters and sort orders in it almost no list would occur twice. The items
    are the impressions, the period is the day (UTC), the unit the user; segments are platform and
    device.

    Only lists with a click are logged, so each has exactly one: a value says where the click is,
    not whether there is one.

    Args:
        path: as for `yandex`.
        engine: as for `yandex`.

    Returns:
        A `Log` with a `ledger`.

    Raises:
        SourceError: as for `yandex`.
    """
    return _read(_TRIVAGO, path, engine)


def open_bandit(path: str | Path, *, engine: Any = None) -> Log:  # noqa: ANN401 - a connection
    """Read a campaign of the Open Bandit Dataset, with its propensities.

    Three items were shown at a time, but the rows do not tell which belong together. So each row is
    a list of one item, and its position on the page is the context: propensities and click rates
    are those of an item at a position, and a candidate names its item for each. The period is the
    day. The segment `policy` is the directory of the file, "random" or "bts".

    Args:
        path: as for `yandex`; all files are of one campaign.
        engine: as for `yandex`.

    Returns:
        A `Log` with a `ledger`.

    Raises:
        SourceError: as for `yandex`, or the files are of several campaigns.
    """
    files = _files(path, (".csv",))
    campaigns = sorted({Path(file).name.partition(".")[0] for file in files})
    if len(campaigns) > 1:
        raise SourceError(
            f"{str(path)!r} holds {len(campaigns)} campaigns ({', '.join(campaigns)}), and an "
            "item's number means another thing in each. Read one at a time, for instance with the "
            f"glob '**/{campaigns[0]}.csv*'."
        )
    layout = Format(
        "open_bandit",
        _ROWS,
        f"""
        SELECT {_whole("position")} AS position, {_whole("item_id")} AS item, {_whole("click")} AS
            click, TRY_CAST("timestamp"[:10] AS DATE) AS day, CAST(propensity_score AS DOUBLE) AS
            propensity, coalesce(nullif(regexp_extract(filename, '(random|bts)/[^/]*$', 1), ''),
            'unknown') AS policy
        FROM {{source}} AS s""",
        "",
    )
    home, shown, _ = _opened(layout, path, engine)
    with _explained(layout, path):
        return read_log(
            home.keep("shown", home.table(f"({shown})")),
            context="position",
            items=["item"],
            clicks=["click"],
            period="day",
            propensity="propensity",
            segments=["policy"],
            invalid="drop",
            sample=None,
        )


READERS: dict[str, Callable[..., Log]] = {
    reader.__name__: reader
    for reader in (yandex, relevance_prediction, pyclick, trivago, open_bandit)
}
"""Readers by their names."""


# --- what formats share ---------------------------------------------------------------------------


def _read(
    layout: Format,
    path: str | Path,
    engine: Any,  # noqa: ANN401 - a connection
    contexts: Iterable[int] | None = None,
    **options: Any,  # noqa: ANN401 - of from_events
) -> Log:
    """The log that a format's two SELECTs make; of all contexts, with what became of every line."""
    home, lists, source = _opened(layout, path, engine)
    rest = ""
    if contexts is not None:
        wanted = home.show(pa.table({"wanted": pa.array(list(contexts), pa.int64())}))
        lists += f" AND query IN (SELECT wanted FROM {wanted.rows} AS w)"
        rest = "WHERE list_id IN (SELECT list_id FROM {shown} AS s)"
    with _explained(layout, path):
        shown = home.keep("shown", home.table(f"({lists})"))
        found = f"(SELECT * FROM ({layout.clicks}) AS c {rest})"
        clicks = home.keep("clicks", home.table(found.format(source=source, shown=shown.rows)))
        rows = _count(shown)
        lines = _count(home.table(source)) if contexts is None or not rows else 0
    if not rows:
        raise SourceError(
            f"{str(path)!r} holds no list in the format of {layout.name}: "
            f"{number_of(lines, 'line')} {plural(lines, 'was', 'were')} read. Check the path "
            "and the name of the dataset."
        )
    named: dict[str, Any] = {"items": ("items", "item"), "position": None, "action": None}
    log = from_events(shown, clicks, **(named | {**layout.roles} | options))
    if contexts is not None:
        return log
    own = rows + ("{source}" in layout.clicks and _count(clicks))  # others have both in a line
    facts = {"lines": lines, "lines that are neither a list nor a click of the log": lines - own}
    added = [
        {"fact": fact, "found": found, "done": None, "example": None}
        for fact, found in facts.items()
    ]
    return replace(log, ledger=replace(log.ledger, rows=(*added, *log.ledger.rows)))


def _count(table: Table) -> int:
    return int(table.aggregate({"n": Value("count(*)")})["n"])


def _opened(layout: Format, path: str | Path, engine: Any) -> tuple[Engine, str, str]:  # noqa: ANN401
    """Where the files are read, the SELECT of lists, and what stands for its source."""
    rows = layout.source == _ROWS
    files = _files(path, (".csv", ".parquet") if rows else ())
    parquet = rows and ".parquet" in Path(files[0]).suffixes
    source = (_PARQUET if parquet else layout.source).format(
        files=f"[{', '.join(map(DUCKDB.literal, files))}]"
    )
    home = default_engine() if engine is None else engine_of(engine)
    return home, layout.shown.format(source=source), source


def _files(path: str | Path, endings: tuple[str, ...]) -> list[str]:
    """The files that a path names; of a directory, those that are not hidden and end so."""
    folder = Path(path).is_dir()
    found = matches(f"{glob.escape(str(path).rstrip('/'))}/**" if folder else str(path))
    files = [Path(file) for file in found if Path(file).is_file()]
    if folder:
        files = [file for file in files if not file.name.startswith(("_", "."))]
        files = [file for file in files if not endings or {*endings} & {*file.suffixes}]
    if not files:
        raise SourceError(no_file(str(path)))
    for file in files:
        if ".gz" in file.suffixes:
            _check_gzip(file, file.stat().st_mtime_ns)
    return list(map(str, files))


@cache
def _check_gzip(file: Path, _: int) -> None:
    """Refuse a file that is damaged or cut off, of which DuckDB reads what there is."""
    try:
        with gzip.open(file) as opened:
            while opened.read(_PIECE):
                pass
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise SourceError(
            f"{str(file)!r} is gzip, but damaged or cut off: {error}. Fetch it again; gzip -t "
            "tells whether it is whole."
        ) from error


@contextmanager
def _explained(layout: Format, path: str | Path) -> Iterator[None]:
    """Turn a failure of the engine into what is wrong with the files."""
    try:
        yield
    except EngineError as error:
        reason = str(error).partition(STATEMENT)[0].strip()
        raise SourceError(
            f"{str(path)!r} cannot be read as {layout.name}: {reason} Check that the file is "
            "whole, and the name of the dataset."
        ) from error
