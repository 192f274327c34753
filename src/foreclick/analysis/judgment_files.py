"""Files of judgments: TREC qrels, OpenSearch's JSON, Quepid's CSV, and the table itself."""

from __future__ import annotations

import csv
import json
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

import numpy as np
import pyarrow.compute as pc

from foreclick.engines import ending, has_place, located, whole_file, write_rows
from foreclick.errors import ReportError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

Format = Literal["trec", "opensearch", "quepid", "table"]
FORMATS: tuple[Format, ...] = ("trec", "opensearch", "quepid", "table")
_ENDINGS: dict[str, Format] = {
    ".qrels": "trec",
    ".txt": "trec",
    ".json": "opensearch",
    ".csv": "quepid",
    ".parquet": "table",
}


def checked_format(path: str | Path, asked: str | None) -> Format:
    """The format of a file that can be written; to be known before the work, not after."""
    target = located(path)
    found = asked if asked in FORMATS else _ENDINGS.get(ending(target))
    if found is None or asked not in (None, *FORMATS):
        raise ReportError(
            f"judgments cannot be written to {str(path)!r} as {asked or 'what it ends in'}: end it "
            f"in {', '.join(_ENDINGS)}, or say format= {', '.join(FORMATS)}."
        )
    if not has_place(target):
        raise ReportError(f"there is no directory for {str(path)!r}. Make it first.")
    return found


def write_judgments(table: pa.Table, path: str | Path, format_: Format) -> None:
    """Write judgments, those without a grade only in the table."""
    if format_ == "table":
        write_rows(table, path)
        return
    graded = table.filter(table["grade"].is_valid())
    if format_ == "trec":
        _refuse_blanks(graded)
    with (
        whole_file(located(path)) as partial,
        partial.open("w", encoding="utf-8", newline="") as file,
    ):
        _WRITERS[format_](_rows(graded), file, Path(path).stem)


_Row = tuple[Any, Any, int]


def _rows(table: pa.Table) -> Iterator[_Row]:
    for batch in table.select(["context", "item", "grade"]).to_batches(max_chunksize=50_000):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _trec(rows: Iterator[_Row], file: TextIO, _: str) -> None:
    file.writelines(f"{context} 0 {item} {grade}\n" for context, item, grade in rows)


def _opensearch(rows: Iterator[_Row], file: TextIO, name: str) -> None:
    ratings = [
        {
            "query": str(context),
            "ratings": [{"docId": str(item), "rating": str(grade)} for _, item, grade in some],
        }
        for context, some in groupby(rows, key=lambda row: row[0])
    ]
    body = {
        "name": name,
        "description": "Click rates corrected for examination, as grades from 0 to 3",
        "type": "IMPORT_JUDGMENT",
        "judgmentRatings": ratings,
    }
    json.dump(body, file, ensure_ascii=False, indent=1)
    file.write("\n")


def _quepid(rows: Iterator[_Row], file: TextIO, _: str) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("query", "docid", "rating"))
    writer.writerows(rows)


_WRITERS: dict[str, Callable[[Iterator[_Row], TextIO, str], None]] = {
    "trec": _trec,
    "opensearch": _opensearch,
    "quepid": _quepid,
}


def _refuse_blanks(table: pa.Table) -> None:
    """A field of a TREC file ends at a blank."""
    for name in ("context", "item"):
        column = table[name]
        wrong = pc.match_substring_regex(column.cast("string"), r"\s|^$")
        at = np.flatnonzero(np.asarray(wrong))
        if len(at):
            raise ReportError(
                f"{len(at):,} judgments have a blank in the {name}, for example "
                f"{column[int(at[0])].as_py()!r}, which a TREC file cannot hold. Read the log with "
                f"ids as {name}s, or write .json or .csv."
            )
