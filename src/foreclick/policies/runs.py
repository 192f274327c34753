"""Runs of retrieval systems as lists: TREC files, and what Python packages have of them in memory.

A run has a score for each document of a query. Forms are told by their shape, so that none of the
packages is needed: a TREC file, ``{query: {document: score}}`` (pytrec_eval), an object ``Run``
with ``to_dict()`` (ranx), and rows with ``query_id``, ``doc_id`` and ``score`` (ir_measures).
"""

from __future__ import annotations

import gzip
import inspect
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.engines import no_file
from foreclick.errors import ForeclickWarning, SourceError
from foreclick.logs import CONTEXT
from foreclick.options import check
from foreclick.policies.serving import ITEMS
from foreclick.words import number_of

_ENDINGS = re.compile(r"\.(run|trec)(\.gz)?$", re.IGNORECASE)
_FIELDS = 6  # query Q0 document rank score tag; some leave the tag out
_PORTION = 500_000  # lines that are Python objects at a time
_INTEGER = r"^(0|-?[1-9][0-9]{0,17})$"  # what is the same as text and as a 64-bit integer
_ID = (str, int, np.integer)
_KEYS = [(CONTEXT, "ascending"), ("score", "descending"), ("rank", "ascending")]


class _Row(NamedTuple):
    context: Any
    item: Any
    score: Any
    rank: int


def is_run(source: object) -> bool:
    """Whether a source has the shape of a run. A generator can be nothing else."""
    if isinstance(source, str | Path):
        return _ENDINGS.search(str(source)) is not None
    if isinstance(source, Mapping):
        return bool(source) and all(isinstance(scores, Mapping) for scores in source.values())
    if isinstance(source, Sequence):
        return bool(source) and _is_scored(source[0])
    return _is_ranx(source) or inspect.isgenerator(source)


def lists_of_run(run: Any, depth: int | None = None) -> pa.Table:  # noqa: ANN401 - any form of run
    """`context` and `items` of a run; see `Ranking.from_trec`."""
    check(depth=depth)
    rows = _rows(run)
    table = pa.concat_tables(_tables(rows))
    if not table.num_rows:
        raise SourceError("the run is empty: there is no list in it. Check what wrote it.")
    _check_scores(table)
    for name in (CONTEXT, "item"):
        table = table.set_column(table.column_names.index(name), name, _plain_ids(table[name]))
    table = table.sort_by([*_KEYS, ("item", "ascending")]).combine_chunks()
    _warn_of_ranks(table)
    return _listed(table, depth)


def _plain_ids(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Ids that are text as integers, if that loses nothing: they then match either in a log.

    What is written "007" stays text, and so do all ids beside it.
    """
    if not pa.types.is_string(column.type):
        return column
    same = pc.all(pc.match_substring_regex(column, _INTEGER)).as_py()
    return column.cast(pa.int64()) if same else column


# --- forms ----------------------------------------------------------------------------------------


def _is_scored(row: object) -> bool:
    return all(hasattr(row, name) for name in ("query_id", "doc_id", "score"))


def _is_ranx(source: object) -> bool:
    return type(source).__name__ == "Run" and hasattr(source, "to_dict")


def _rows(run: Any) -> Iterator[_Row]:  # noqa: ANN401 - any form of run
    if isinstance(run, str | Path):
        return _of_file(Path(run))
    if _is_ranx(run):
        run = run.to_dict()
    if isinstance(run, Mapping) and is_run(run):
        return (_Row(q, d, s, 0) for q, scores in run.items() for d, s in scores.items())
    if isinstance(run, Iterable) and not isinstance(run, Mapping):
        rows = iter(run)
        first = list(islice(rows, 1))
        if not first or _is_scored(first[0]):
            return (_Row(r.query_id, r.doc_id, r.score, 0) for r in chain(first, rows))
    raise SourceError(
        f"a {type(run).__name__} is no run. Give the path of a TREC file, a dict "
        "{query: {document: score}}, a ranx.Run, or rows with query_id, doc_id and score."
    )


def _of_file(path: Path) -> Iterator[_Row]:
    """The rows of a TREC file; all lines that are wrong are counted before one is complained of."""
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
                context, _, item, rank, score, *_tag = fields
                row = _Row(context, item, float(score), int(rank))
            except ValueError:
                row = None
            if row is None or len(fields) > _FIELDS:
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


def _tables(rows: Iterator[_Row]) -> list[pa.Table]:
    """The rows in Arrow, some at a time; ids are all integers, or all text."""
    parts = [_table(part) for part in iter(lambda: list(islice(rows, _PORTION)), [])]
    if not parts:
        nothing: dict[str, list[Any]] = {name: [] for name in (CONTEXT, "item", "score", "rank")}
        return [pa.table(nothing)]
    for name in (CONTEXT, "item"):
        if len({part.schema.field(name).type for part in parts}) > 1:
            parts = [
                part.set_column(i, name, part[name].cast(pa.string()))
                for part in parts
                for i in [part.column_names.index(name)]
            ]
    return parts


def _table(rows: list[_Row]) -> pa.Table:
    context, item, score, rank = zip(*rows, strict=True)
    return pa.table(
        {
            CONTEXT: _ids(context, "queries"),
            "item": _ids(item, "documents"),
            "score": _scores(score),
            "rank": np.array(rank, dtype=np.int64),
        }
    )


def _ids(values: Sequence[Any], what: str) -> pa.Array:
    kinds = set(map(type, values))
    wrong = {kind for kind in kinds if kind is bool or not issubclass(kind, _ID)}
    if wrong:
        strange = [value for value in values if type(value) in wrong]
        raise SourceError(
            f"{len(strange):,} of the run's {what} are neither text nor integers, for example "
            f"{strange[0]!r}. Convert them, for instance with str()."
        )
    if not any(issubclass(kind, str) for kind in kinds):
        return pa.array([int(value) for value in values], pa.int64())
    text = all(issubclass(kind, str) for kind in kinds)
    return pa.array(values if text else [str(value) for value in values], pa.string())


def _scores(values: Sequence[Any]) -> Any:  # noqa: ANN401 - an array of numbers
    """Numbers, NaN where there is none."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        return np.array([_score(value) for value in values])


def _score(value: Any) -> float:  # noqa: ANN401 - whatever stands for a score
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


# --- order ----------------------------------------------------------------------------------------


def _check_scores(table: pa.Table) -> None:
    wrong = np.flatnonzero(~np.isfinite(np.asarray(table["score"])))
    if len(wrong):
        row = table.slice(int(wrong[0]), 1).to_pylist()[0]
        raise SourceError(
            f"{len(wrong):,} scores of the run are no finite numbers, for example that of "
            f"{row['item']!r} for {row[CONTEXT]!r}. Give every document a number, or leave it out."
        )


def _warn_of_ranks(table: pa.Table) -> None:
    """Say where scores order documents in another way than ranks."""
    rank, same = np.asarray(table["rank"]), np.diff(_numbers(table[CONTEXT])) == 0
    wrong = np.flatnonzero(same & (np.diff(rank) < 0))
    if len(wrong):
        above, below = table.slice(int(wrong[0]), 2).to_pylist()
        warnings.warn(
            f"{number_of(len(wrong), 'document')} of the run below one with a higher rank number: "
            f"for {above[CONTEXT]!r}, {above['item']!r} has rank {above['rank']} and the score "
            f"{above['score']:g}, {below['item']!r} rank {below['rank']} and {below['score']:g}. "
            "Scores decide, as in trec_eval. If ranks should, write −rank as the score.",
            ForeclickWarning,
            stacklevel=5,
        )


def _numbers(column: pa.ChunkedArray) -> Any:  # noqa: ANN401 - an array of integers
    return np.asarray(column.combine_chunks().dictionary_encode().indices)


def _listed(table: pa.Table, depth: int | None) -> pa.Table:
    """One row per context, from rows in the order of their lists."""
    number = _numbers(table[CONTEXT])
    starts = np.flatnonzero(np.diff(number, prepend=-1))
    place = np.arange(len(number)) - starts[number]
    if depth is not None:
        kept = np.flatnonzero(place < depth)
        table, number = table.take(pa.array(kept)), number[kept]
        starts = np.flatnonzero(np.diff(number, prepend=-1))
    offsets = pa.array(np.append(starts, len(number)), pa.int32())
    items = table["item"].combine_chunks()
    contexts = table[CONTEXT].combine_chunks().take(pa.array(starts))
    return pa.table({CONTEXT: contexts, ITEMS: pa.ListArray.from_arrays(offsets, items)})
