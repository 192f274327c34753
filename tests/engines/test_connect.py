"""A client of Spark Connect, as of a managed cluster: the same tally, and nothing is left there."""

import gc

import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.engines import engine_of
from tests.engines.random_roles import LOGS
from tests.tries import LONG

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("log", [log for log in LOGS if LONG or log.name == "all roles"], ids=str)
def test_the_tally_is_the_same_to_the_last_bit(spark_client, log):
    there = fc.tally(fc.read_log(spark_client.createDataFrame(log.table), **log.roles))
    here = fc.tally(fc.read_log(log.table, **log.roles))
    found, expected = (pa.Table.from_batches(t.sorted_batches()) for t in (there, here))
    assert found.equals(expected)
    session = there.engine.connection
    del there
    gc.collect()
    engine_of(session).sweep()
    assert spark_client.catalog.listTables() == []
