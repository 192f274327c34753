"""Files of tallies, altered."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def altered(path: Any, **changes: Any) -> pa.Table:  # noqa: ANN401
    """The rows of a tally's file with other metadata, under the old digest."""
    meta = json.loads(pq.read_metadata(path).metadata[b"foreclick"])
    text = json.dumps(meta | changes)
    return pq.read_table(path).replace_schema_metadata({"foreclick": text})
