"""The seal of a tally's file: how many rows it has, and a digest of all its bytes.

The digest stands in the file's own metadata. While it is computed, zeros stand in its place.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import IO, Any

import pyarrow.parquet as pq

from foreclick.errors import TallyError
from foreclick.words import number_of

DIGEST = "digest"
BLANK = "0" * 32
_MARK = f'"{DIGEST}": "'.encode()
_CHUNK = 1 << 20


def seal(path: Path) -> None:
    """Put the digest of a file where its metadata has zeros."""
    with path.open("rb+") as file:
        digest, start = _digest(file, BLANK)
        file.seek(start)
        file.seek(start + file.read().rindex(_MARK) + len(_MARK))
        file.write(digest.encode())


def check_seal(path: str, meta: dict[str, Any], name: str) -> None:
    """Refuse a file without rows, or one that is not as it was written.

    Args:
        path: of the file, on this machine.
        meta: what it says of itself; before version 3 that was no digest.
        name: what the user calls it.
    """
    with Path(path).open("rb") as file:
        rows = int(pq.read_metadata(file).num_rows)
        if not rows:
            raise TallyError(f"{name!r} is a tally without rows. Tally the log again.")
        written = meta.get("rows", rows)
        if rows != written:
            raise TallyError(
                f"{name!r} has {number_of(rows, 'row')}, and was written with {written:,}. Copy it "
                "again, or tally the log again."
            )
        if DIGEST in meta and _digest(file, meta[DIGEST])[0] != meta[DIGEST]:
            raise TallyError(
                f"{name!r} is not as it was written: its digest is another. Copy it again, or "
                "tally the log again."
            )


def _digest(file: IO[bytes], written: str) -> tuple[str, int]:
    """The digest of a Parquet file that has this one in it, and where its footer begins."""
    file.seek(-8, 2)
    end = file.tell()
    start = max(end - int.from_bytes(file.read(4), "little"), 0)
    found, left = blake2b(digest_size=len(BLANK) // 2), start
    file.seek(0)
    while left:
        chunk = file.read(min(left, _CHUNK))
        found.update(chunk)
        left -= len(chunk)
    found.update(file.read().replace(written.encode(), BLANK.encode()))
    return found.hexdigest(), start
