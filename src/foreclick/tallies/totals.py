"""Sums over all records of a log whose contexts were drawn, by period and segments.

See `foreclick.logs.drawing.totals_of`, which makes them: one small Arrow table.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from foreclick.logs import Shape
from foreclick.logs.drawing import groups


def concatenated(parts: Sequence[pa.Table | None]) -> pa.Table | None:
    """Those of several logs together; None if they are not known of one."""
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None
    together = pa.concat_tables(known, promote_options="permissive")
    for i, name in enumerate(together.column_names):  # positions that some logs do not reach
        if together[name].null_count and pa.types.is_floating(together[name].type):
            together = together.set_column(i, name, pc.fill_null(together[name], 0.0))
    return together


def scaled(totals: pa.Table, shape: Shape, factor: NDArray[np.float64]) -> pa.Table:
    """Every sum times the factor of its row."""
    by, weight = groups(shape), pa.array(factor)
    columns = {
        name: totals[name] if name in by else pc.multiply(totals[name], weight)
        for name in totals.column_names
    }
    return pa.table(columns)


def written(totals: pa.Table | None) -> str | None:
    """As text, for the metadata of a file."""
    if totals is None:
        return None
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, totals.schema, options=options) as writer:
        writer.write_table(totals)
    return base64.b64encode(sink.getvalue()).decode()


def read(text: str | None) -> pa.Table | None:
    """What was written as text."""
    if text is None:
        return None
    return pa.ipc.open_stream(base64.b64decode(text)).read_all()
