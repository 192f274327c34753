"""From a batch back to rows of a tally: the inverse of `encode`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from foreclick.batches.arrays import Floats, Ints
from foreclick.batches.batch import EMPTY, Batch
from foreclick.batches.encode import Codebook, Codes
from foreclick.logs import BUCKET, CONTEXT, PERIOD, N, Shape


def row_schema(shape: Shape, kinds: pa.Schema) -> pa.Schema:
    """The columns of rows with one column a position, in the types that the tally has.

    Args:
        shape: of the tally.
        kinds: its columns; rewards that it keeps as masks become small integers.
    """
    return pa.schema(
        (name, kinds.field(name).type if name in kinds.names else pa.int8())
        for name in shape.columns
    )


def decode(batch: Batch, shape: Shape, codebook: Codebook, schema: pa.Schema) -> pa.Table:
    """The rows of a batch, a column for each key of the tally and the count.

    Args:
        batch: some records.
        shape: of the tally.
        codebook: the values behind the numbers of periods and segments.
        schema: the columns wanted; see `row_schema`.
    """
    lists = batch.lists[batch.row_list]
    there = lists != EMPTY
    columns = {CONTEXT: batch.contexts.take(pa.array(batch.context_value[batch.row_context]))}
    if shape.period and codebook.periods is not None:
        columns[PERIOD] = _values(codebook.periods, batch.clusters["period"])
    for name in shape.segments:
        columns[name] = _values(codebook.segments[name], batch.segments[name])
    if shape.unit:
        columns[BUCKET] = pa.array(batch.clusters["unit"])
    for k, name in enumerate(shape.items):
        at = pa.array(batch.pair_item[lists[:, k]], mask=~there[:, k])
        columns[name] = batch.items.take(at)
    for reward in shape.rewards:
        values = _dense(batch, reward)
        for k, name in enumerate(shape.reward(reward)):
            columns[name] = pa.array(values[:, k], mask=~there[:, k])
    if batch.propensity is not None:
        whole = shape.propensity == "list"
        for k, name in enumerate(shape.propensities):
            column = batch.propensity if whole else batch.propensity[:, k]
            columns[name] = pa.array(column, mask=None if whole else ~there[:, k])
    columns[N] = pa.array(batch.n)
    return pa.table(
        [columns[name].cast(schema.field(name).type) for name in schema.names], schema=schema
    )


def _values(codes: Codes, number: Ints) -> pa.Array:
    return codes.values.take(pa.array(number))


def _dense(batch: Batch, name: str) -> Floats:
    """Shape (R, K): the reward of every row at every position."""
    row, position, value = batch.rewards[name]
    found = np.zeros((len(batch.n), batch.depth))
    found[row, position] = value
    return found
