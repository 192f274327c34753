"""Fixtures every test may use; above all `engine`, which runs a test on each real engine.

Engines read, validate and tally; statistics are computed at home from the tally. So only tests of
`EVERY_ENGINE` run on each engine, the others that ask for one on DuckDB.
"""

from __future__ import annotations

import contextlib
import gc
import os
import random
from typing import TYPE_CHECKING

import ibis
import pytest
from hypothesis import settings

from foreclick.engines.duckdb import default_engine
from tests import servers
from tests.engines import elsewhere
from tests.tries import LONG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ibis.backends import BaseBackend
    from pyspark.sql import SparkSession

    from tests.engines.elsewhere import Load
    from tests.servers import Engine

# CI sets this: there a missing engine is a failure, not a reason to skip.
REQUIRE_ENGINES = os.environ.get("FORECLICK_REQUIRE_ENGINES") == "1"

# `.ci/run shuffled` sets this: files in another order, and their tests.
SHUFFLED = os.environ.get("FORECLICK_SHUFFLED")


# How long an example takes depends on what else the machine does; it is no property of the code.
settings.register_profile("foreclick", deadline=None)
settings.load_profile("foreclick")


def pytest_configure() -> None:
    """Logs of tests are small: a second thread of DuckDB would only cost time."""
    default_engine().connection.execute("SET threads = 1")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Whether to look for no tests there: what tests share has no doctests, and takes seconds."""
    name = collection_path.name
    return True if name.endswith(".py") and not name.startswith(("test_", "__init__")) else None


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests against the truth, and group tests that should share a worker.

    All tests on Spark in one: a second session would cost ten seconds and a GB. And those that
    share a fixture of their class or module, which each worker would make for itself. Slow ones
    come first, so that no worker has one left to do when the other has finished; xdist itself
    begins with the largest group, Spark's.
    """
    if SHUFFLED:
        draw = random.Random(SHUFFLED).random  # noqa: S311 - no secret
        place = {item.path: draw() for item in items}
        items.sort(key=lambda item: (place[item.path], draw()))
    else:
        items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    for item in items:
        if "truth" in item.path.parent.parts:
            item.add_marker("truth")
        if item.get_closest_marker("long") and not LONG:
            item.add_marker(pytest.mark.skip("it runs in `make test-long`"))
        group = _group_of(item)
        if group and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(group))


def pytest_collection_finish() -> None:
    """Leave what was collected out of later collections of garbage: half a second each."""
    gc.collect()
    gc.freeze()


def _group_of(item: pytest.Item) -> str | None:
    """What tests that should run on the same worker have in common."""
    if not isinstance(item, pytest.Function):
        return None
    if item.get_closest_marker("spark") or "spark_session" in item.fixturenames:
        return "spark"
    shared = {found[-1].scope for found in item._fixtureinfo.name2fixturedefs.values()}
    if "module" in shared:
        return str(item.path)
    return f"{item.path}::{item.cls.__name__}" if "class" in shared and item.cls else None


EVERY_ENGINE = {"engines", "events", "logs", "tallies", "test_serving.py"}
"""The folders and files whose tests of `engine` run on all of them."""

ENGINES = [
    "duckdb",
    pytest.param("spark", marks=pytest.mark.spark),
    pytest.param("postgres", marks=pytest.mark.postgres),
]


@contextlib.contextmanager
def _skip_where_missing() -> Iterator[None]:
    try:
        yield
    except servers.EngineMissing as missing:
        if REQUIRE_ENGINES:
            pytest.fail(f"FORECLICK_REQUIRE_ENGINES=1, but there is {missing}", pytrace=False)
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def opened() -> Callable[[str], Load]:
    """A function from the name of an engine of `elsewhere` to a new instance of it."""

    def open_engine(name: str) -> Load:
        with _skip_where_missing():
            return elsewhere.opened(name)

    return open_engine


@pytest.fixture(scope="session")
def spark_session(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """The tests' Spark session, `local[2]`; one for all workers, where tests are grouped."""
    if getattr(pytestconfig.option, "loadgroup", False):  # of a worker of pytest-xdist
        # pytest 9.2 deals a group to all workers (pytest-xdist issue 1386).
        (tmp_path_factory.getbasetemp().parent / "spark").touch(exist_ok=False)
    with contextlib.ExitStack() as stack:
        with _skip_where_missing():
            session = stack.enter_context(servers.spark())
        yield session


@pytest.fixture(scope="session")
def spark_client(spark_session: SparkSession) -> Iterator[SparkSession]:
    """A client of Spark Connect, of the same JVM."""
    with contextlib.ExitStack() as stack:
        with _skip_where_missing():
            client = stack.enter_context(servers.spark_client(spark_session))
        yield client


@pytest.fixture(scope="session")
def postgres() -> Iterator[BaseBackend]:
    """An Ibis connection to the tests' own PostgreSQL server."""
    with contextlib.ExitStack() as stack:
        with _skip_where_missing():
            address = stack.enter_context(servers.postgres())
        connection = ibis.postgres.connect(**address)
        stack.callback(connection.disconnect)
        yield connection


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give `engine` its values, unless the test names them itself."""
    if "engine" not in metafunc.fixturenames or _names_engines(metafunc.definition):
        return
    everywhere = not EVERY_ENGINE.isdisjoint(metafunc.definition.path.parts)
    metafunc.parametrize("engine", ENGINES if everywhere else ENGINES[:1], indirect=True)


def _names_engines(test: pytest.Item) -> bool:
    return any("engine" in str(mark.args[0]) for mark in test.iter_markers("parametrize"))


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Each engine in turn; what a test loads into it is dropped when the test ends.

    The servers start when a test first asks for them, so `-m "not spark"` starts no JVM.
    """
    with contextlib.ExitStack() as stack:
        match request.param:
            case "duckdb":
                engine = stack.enter_context(servers.duckdb_engine())
            case "spark":
                engine = servers.spark_engine(request.getfixturevalue("spark_session"))
            case "postgres":
                engine = servers.postgres_engine(request.getfixturevalue("postgres"))
        stack.callback(engine.clean)
        yield engine
