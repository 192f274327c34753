"""A client of Spark Connect, as of a managed cluster: the same tally, and nothing is left there."""

import gc

import pytest

import foreclick as fc
from foreclick.engines import engine_of
from tests.engines.random_roles import LOGS, assert_same_tally
from tests.tries import LONG

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("log", [log for log in LOGS if LONG or log.name == "all roles"], ids=str)
def test_the_tally_is_the_same_to_the_last_bit(spark_client, log):
    there = fc.read_log(spark_client.createDataFrame(log.table), **log.roles)
    assert_same_tally(there, log)
    session = there.engine.connection
    del there
    gc.collect()
    engine_of(session).drop_unused()
    assert spark_client.catalog.listTables() == []
