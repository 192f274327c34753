"""Streams and datasets of Arrow: scanned where they lie, or spooled if they come only once."""

import pyarrow as pa
import pyarrow.dataset as pads
import pytest

import foreclick as fc
from tests.logs.samples import counted, reference, table


class Once:
    """Anything that gives its rows once, as an Arrow stream."""

    def __init__(self, rows):
        self.reader = pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches())

    def __arrow_c_stream__(self, requested_schema=None):
        reader, self.reader = self.reader, None
        return reader.__arrow_c_stream__(requested_schema)


def viewed(rows):
    """Types that not every engine takes."""
    kinds = {"context": pa.string_view(), "items": pa.large_list(pa.int64())}
    return rows.cast(
        pa.schema({**dict(zip(rows.schema.names, rows.schema.types, strict=True)), **kinds})
    )


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(lambda: table().to_reader(), id="reader"),
        pytest.param(lambda: viewed(table()).to_reader(), id="reader of views"),
        pytest.param(lambda: Once(table()), id="stream"),
        pytest.param(lambda: table().combine_chunks().to_batches()[0], id="batch"),
        pytest.param(lambda: pads.dataset(table()), id="dataset in memory"),
        pytest.param(lambda: pads.dataset(table()).scanner(), id="scanner"),
    ],
)
def test_streams_and_datasets(source):
    assert counted(fc.read_log(source())) == reference()


def test_the_rows_of_a_stream_are_never_in_memory_together():
    """The stream makes 100 batches of 800 kB; at no time is a fifth of them held."""
    one = pa.record_batch(
        {
            "context": pa.array(range(1_000)),
            "items": pa.array([list(range(50))] * 1_000),
            "clicks": pa.array([[1] + [0] * 49] * 1_000),
        }
    )
    most = 0

    def batches():
        nonlocal most
        for _ in range(100):
            batch = pa.RecordBatch.from_arrays(
                [pa.concat_arrays([column, column.slice(0, 0)]) for column in one.columns],
                schema=one.schema,
            )
            yield batch
            most = max(most, pa.total_allocated_bytes())

    before = pa.total_allocated_bytes()
    log = fc.read_log(pa.RecordBatchReader.from_batches(one.schema, batches()))
    assert log.rows == 100_000
    assert most - before < one.nbytes * 20
