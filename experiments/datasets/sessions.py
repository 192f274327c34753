"""Logs of sessions, one line a query or a click: the two Yandex challenges.

The lines of a session stand together, so one session is held at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from experiments.datasets.formats import CLICKS, ITEMS, Format
from experiments.datasets.ledger import Click, Oddity, ids
from foreclick.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from experiments.datasets.formats import Record
    from experiments.datasets.ledger import Ledger
    from experiments.datasets.source import Source

_ENDLESS = 100_000
"""Lines with one session id, from which on it is no session and would fill the memory."""

Line = tuple[int, list[bytes]]
"""The number of the line, and its fields."""


def _sessions(source: Source, ledger: Ledger, lists_at: int) -> Iterator[list[Line]]:
    """The lines of each session; a session ends where another id begins.

    Of a query, everything from field `lists_at` on, its list, is left in one piece.
    """
    for stream in source.streams():
        session: list[Line] = []
        current, number = b"", 0
        for number, line in enumerate(stream, start=1):
            fields = line.rstrip().split(b"\t", lists_at)
            if fields[0] != current:
                if session:
                    yield session
                session, current = [], fields[0]
            session.append((number, fields))
            if len(session) > _ENDLESS:
                raise SourceError(
                    f"{str(source.file)!r} is not in this format: more than {_ENDLESS:,} lines in "
                    f"a row begin with {current[:40].decode(errors='replace')!r}, which is no "
                    "session's number. Check the path and the name of the dataset."
                )
        if session:
            yield session
        ledger.lines += number


# --- Kaggle, Personalized Web Search Challenge --------------------------------------------------


class _Serps:
    """The session of which the lines say who saw what: its lists by SERP, and its clicks."""

    def __init__(self) -> None:
        self.day: int | None = None
        self.user = 0
        self.shown: dict[bytes, tuple[int, int, list[bytes], list[Click]]] = {}
        self.withheld: dict[bytes, int] = {}
        self.clicks: list[tuple[int, bytes, bytes]] = []

    def read(self, number: int, fields: list[bytes]) -> None:
        """Take a line in; a ValueError or IndexError says that it is malformed."""
        kind = fields[1] if fields[1] == b"M" else fields[2]
        if kind == b"C":
            serp, url = ids(fields[3:5])
            self.clicks.append((number, serp, url))
        elif kind == b"Q":
            self.shown[self._new(fields[3])] = number, int(fields[4]), _urls(fields[6]), []
        elif kind == b"M" and self.day is None:
            self.day, self.user = int(fields[2]), int(fields[3])
        elif kind == b"T":
            self.withheld[self._new(fields[3])] = number
        else:
            raise ValueError("no M, Q, T or C, or a second M")

    def _new(self, serp: bytes) -> bytes:
        if serp in self.shown or serp in self.withheld:
            raise ValueError("a second query with this SERP")
        return serp


def _urls(pairs: bytes) -> list[bytes]:
    """The urls of "url,domain" pairs."""
    flat = pairs.replace(b"\t", b",").split(b",")
    if len(flat) != 2 * pairs.count(b"\t") + 2:
        raise ValueError("no list of pairs")
    return ids(flat[::2])


def _yandex(source: Source, ledger: Ledger) -> Iterator[Record]:
    for lines in _sessions(source, ledger, lists_at=6):
        session = _Serps()
        for number, fields in lines:
            try:
                session.read(number, fields)
            except (ValueError, IndexError):
                ledger.malformed(number, b"\t".join(fields))
        yield from _serps(session, ledger)


def _serps(session: _Serps, ledger: Ledger) -> Iterator[Record]:
    shown = session.shown
    for serp, number in session.withheld.items():
        ledger.note(Oddity.WITHHELD, number, f"SERP {serp.decode()}")
    if session.day is None:
        for number, query, _, _ in shown.values():
            ledger.note(Oddity.NO_SESSION, number, f"query {query}")
    for number, serp, item in session.clicks:
        if serp in session.withheld or (serp in shown and session.day is None):
            ledger.note(Oddity.LEFT_OUT, number, item)
        elif serp not in shown:
            ledger.note(Oddity.NO_LIST, number, item)
        else:
            if number < shown[serp][0]:
                ledger.note(Oddity.WRITTEN_EARLY, number, item)
            shown[serp][3].append((number, item))
    if session.day is not None:
        for number, query, items, clicked in shown.values():
            yield (query, *ledger.mark(items, clicked, number), session.day, session.user)


YANDEX = Format(
    name="yandex",
    schema=pa.schema(
        [("query", pa.int64()), ITEMS, CLICKS, ("day", pa.int16()), ("user", pa.int64())]
    ),
    roles={"context": "query", "period": "day", "unit": "user"},
    records=_yandex,
)


# --- Relevance Prediction Challenge 2011 --------------------------------------------------------


def _relevance_prediction(
    source: Source, ledger: Ledger, day_length: int | None
) -> Iterator[Record]:
    for lines in _sessions(source, ledger, lists_at=5):
        shown: list[tuple[int, list[bytes], list[Click], tuple[Any, ...]]] = []
        clicks: list[Click] = []
        for number, fields in lines:
            try:
                if fields[2] == b"Q":
                    columns = _columns(fields, day_length)
                    shown.append((number, ids(fields[5].split(b"\t")), [], columns))
                elif fields[2] == b"C":
                    (url,) = ids(fields[3:4])
                    clicks.append((number, url))
                else:
                    raise ValueError("neither Q nor C")  # noqa: TRY301 - as for any bad field
            except (ValueError, IndexError):
                ledger.malformed(number, b"\t".join(fields))
        for click in clicks:
            _attribute(click, [(number, items, into) for number, items, into, _ in shown], ledger)
        for number, items, clicked, (query, *others) in shown:
            yield (query, *ledger.mark(items, clicked, number), *others)


def _columns(fields: list[bytes], day_length: int | None) -> tuple[Any, ...]:
    """Query, region, session, and the day if the time tells it."""
    known = int(fields[3]), fields[4].decode().strip(), int(fields[0])
    return known if day_length is None else (*known, int(fields[1]) // day_length)


def _attribute(
    click: Click, shown: list[tuple[int, list[bytes], list[Click]]], ledger: Ledger
) -> None:
    """Give a click to the last list before it that has the item."""
    line, item = click
    having = [(number, into) for number, items, into in shown if item in items]
    before = [(number, into) for number, into in having if number < line]
    if not having:
        ledger.note(Oddity.NO_LIST, line, item)
    elif not before:
        ledger.note(Oddity.EARLY, line, item)
    else:
        number, into = before[-1]
        if any(number < other < line for other, _, _ in shown):
            ledger.note(Oddity.EARLIER_LIST, line, item)
        into.append(click)


def relevance_prediction(day_length: int | None = None) -> Format:
    """The format of 2011, with days of so many units of TimePassed, or without."""
    fields = [
        ("query", pa.int64()),
        *(ITEMS, CLICKS),
        *(("region", pa.string()), ("session", pa.int64())),
    ]
    roles: dict[str, Any] = {"context": "query", "unit": "session", "segments": ["region"]}
    if day_length is not None:
        fields.append(("day", pa.int32()))
        roles["period"] = "day"
    return Format(
        name="relevance_prediction",
        schema=pa.schema(fields),
        roles=roles,
        records=lambda source, ledger: _relevance_prediction(source, ledger, day_length),
    )
