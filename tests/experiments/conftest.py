from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest

from experiments import datasets


class Written(NamedTuple):
    """What a conversion wrote, and what it said."""

    rows: list[dict[str, Any]]
    oddities: dict[str, int]
    done: datasets.Conversion


@pytest.fixture
def write(tmp_path: Path):
    """Writes a source, compressed if its name says so; its path."""

    def put(text: str, name: str = "source") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        content = text.encode()
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
        return path

    return put


@pytest.fixture
def convert(tmp_path: Path, write):
    """Converts a text in a format; the rows of the Parquet, and the oddities."""

    def run(
        dataset: str, text: str, name: str = "source", day_length: int | None = None
    ) -> Written:
        out = tmp_path / "out.parquet"
        done = datasets.convert(dataset, write(text, name), out, day_length=day_length)
        return Written(pq.read_table(out).to_pylist(), done.oddities, done)

    return run
