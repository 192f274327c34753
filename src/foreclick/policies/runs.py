"""Runs of retrieval systems as lists: TREC files, or ``{query: {document: score}}``.

A run has a score for each document of a query. A field of a TREC file ends at a blank, so queries
of several words are written with theirs percent-encoded: ``red%20shoes``.
"""

from __future__ import annotations

import gzip
import re
import warnings
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa

from foreclick.engines import default_engine
from foreclick.engines.files import no_file
from foreclick.errors import ForeclickWarning, SourceError
from foreclick.logs import CONTEXT
from foreclick.options import check
from foreclick.words import number_of

_ENDINGS = re.compile(r"\.(run|trec)(\.gz)?$", re.IGNORECASE)
_FIELDS = 6  # query Q0 document rank score tag; some leave the tag out
_BLANK = re.compile(r"\s")
_ENCODED = re.compile(r"[\s%]")
_PORTION = 500_000  # lines that are Python objects at a time
_WORDS = {CONTEXT: "queries", "item": "documents"}
_ORDER = "score DESC, rank, item"


def is_run(source: object) -> bool:
    """Whether a source is a run: a file by its ending, a dict by what it holds."""
    if isinstance(source, str | Path):
        return _ENDINGS.search(str(source)) is not None
    if not isinstance(source, Mapping) or not source:
        return False
    return all(isinstance(scores, Mapping) for scores in source.values())


def lists_of_run(run: Any, depth: int | None = None) -> pa.Table:  # noqa: ANN401 - any form of run
    """`context` and `items` of a run; see `Ranking.from_trec`."""
    check(depth=depth)
    rows = _rows(run)
    parts = [_table(part) for part in iter(lambda: list(islice(rows, _PORTION)), [])]
    if not parts:
        raise SourceError("the run is empty: there is no list in it. Check what wrote it.")
    table = pa.concat_tables(parts)
    wrong = np.flatnonzero(~np.isfinite(np.asarray(table["score"])))
    if len(wrong):
        row = table.slice(int(wrong[0]), 1).to_pylist()[0]
        raise SourceError(
            f"{len(wrong):,} scores of the run are no finite numbers, for example that of "
            f"{row['item']!r} for {row[CONTEXT]!r}. Give every document a number, or leave it out."
        )
    for at, name in enumerate(_WORDS):
        table = table.set_column(at, name, _plain_ids(table[name]))
    shown = default_engine().show(table)
    before = f"lag({{0}}) OVER (PARTITION BY {CONTEXT} ORDER BY {_ORDER}) AS {{0}}_above"
    above = ", ".join(before.format(name) for name in ("item", "rank", "score"))
    odd = (
        f"SELECT *, count(*) OVER () AS n FROM (SELECT *, {above} FROM {shown.rows}) "
        f"WHERE rank < rank_above ORDER BY {CONTEXT}, {_ORDER} LIMIT 1"
    )
    for row in shown.engine.ask(odd).to_pylist():
        warnings.warn(
            f"{number_of(row['n'], 'document')} of the run below one with a higher rank number: "
            f"for {row[CONTEXT]!r}, {row['item_above']!r} has rank {row['rank_above']} and the "
            f"score {row['score_above']:g}, {row['item']!r} rank {row['rank']} and "
            f"{row['score']:g}. Scores decide, as in trec_eval. If ranks should, write −rank as "
            "the score.",
            ForeclickWarning,
            stacklevel=4,
        )
    most = "" if depth is None else f"[:{depth}]"
    return shown.engine.ask(
        f"SELECT {CONTEXT}, list(item ORDER BY {_ORDER}){most} AS items FROM {shown.rows} "
        f"GROUP BY {CONTEXT} ORDER BY {CONTEXT}"
    )


def trec_query(text: str) -> str:
    """A query as a field of a TREC file: blanks are percent-encoded, and then its % too.

    Examples:
        >>> trec_query("red shoes"), trec_query("50% off"), trec_query("50%")
        ('red%20shoes', '50%25%20off', '50%')
    """
    if query_of_trec(text) == text and not _BLANK.search(text):
        return text
    return _ENCODED.sub(lambda found: quote(found[0]), text)


def query_of_trec(field: str) -> str:
    """The query behind a field of a TREC file; a field that no blank was taken from is the query.

    Examples:
        >>> query_of_trec("red%20shoes"), query_of_trec("50%25%20off"), query_of_trec("%C3%BCber")
        ('red shoes', '50% off', '%C3%BCber')
    """
    try:
        text = unquote(field, errors="strict")
    except UnicodeDecodeError:
        return field
    return text if _BLANK.search(text) or "%25" in field else field


def _plain_ids(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Ids as integers, if that loses nothing: they then match either in a log.

    What is written "007" stays text, and so do all ids beside it.
    """
    try:
        whole = column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column
    return whole if whole.cast(pa.string()).equals(column) else column


def _rows(run: Any) -> Iterator[tuple[Any, Any, Any, int]]:  # noqa: ANN401 - any form of run
    """Query, document, score and rank of each row."""
    if isinstance(run, str | Path):
        return _read_file(Path(run))
    if is_run(run):
        return ((q, d, s, 0) for q, scores in run.items() for d, s in scores.items())
    raise SourceError(
        f"a {type(run).__name__} is no run. Give the path of a TREC file, or a dict {{query: "
        "{document: score}}."
    )


def _read_file(path: Path) -> Iterator[tuple[str, str, float, int]]:
    """The rows of a TREC file; all wrong lines are counted before one is reported."""
    if not path.is_file():
        raise SourceError(no_file(str(path)))
    wrong, example = 0, ""
    opener: Any = gzip.open if path.suffix.lower() == ".gz" else Path.open
    with opener(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            fields = line.split()
            if not fields:
                continue
            try:
                context, _, item, rank, score = fields[: _FIELDS - (len(fields) == _FIELDS)]
                row = query_of_trec(context), item, float(score), int(rank)
            except ValueError:
                wrong += 1
                example = example or f"line {number}: {line.strip()!r}"
            else:
                yield row
    if wrong:
        raise SourceError(
            f"{wrong:,} lines of {str(path)!r} are not of a TREC run, for example {example}. A "
            "line is 'query Q0 document rank score tag', with whole numbers as ranks and nothing "
            "blank within a field."
        )


def _table(rows: list[tuple[Any, Any, Any, int]]) -> pa.Table:
    """Rows in Arrow; ids are text, and scores that are no numbers NaN."""
    *ids, scores, ranks = zip(*rows, strict=True)
    columns: dict[str, Any] = {}
    for (name, what), values in zip(_WORDS.items(), ids, strict=True):
        refused = [
            v for v in values if isinstance(v, bool) or not isinstance(v, str | int | np.integer)
        ]
        if refused:
            raise SourceError(
                f"{len(refused):,} of the run's {what} are neither text nor integers, for example "
                f"{refused[0]!r}. Convert them, for instance with str()."
            )
        columns[name] = pa.array(map(str, values), pa.string())
    columns["score"] = np.fromiter(map(_score, scores), np.float64, len(rows))
    return pa.table(columns | {"rank": pa.array(ranks, pa.int64())})


def _score(value: Any) -> float:  # noqa: ANN401 - whatever stands for a score
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")
