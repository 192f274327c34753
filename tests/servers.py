"""The engines the tests run on: real ones, started here, on loopback, and gone afterwards.

`spark` and `postgres` are context managers; `Engine` puts tables into an engine and takes them away
again. conftest.py makes fixtures of them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import ibis
import pandas as pd
import pyarrow as pa
from benchmarks.spark_cluster import free_port

from foreclick import engines
from tests.tries import LONG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    import ibis.expr.types as ir
    from duckdb import DuckDBPyRelation
    from ibis.backends import BaseBackend
    from pyspark.sql import DataFrame, SparkSession

    Frame: TypeAlias = pd.DataFrame | pa.Table


class EngineMissing(Exception):
    """This machine lacks what an engine needs (a binary or a Python package)."""


# --- tables ---------------------------------------------------------------------------------------


def arrow(table: Frame) -> pa.Table:
    """`table` as Arrow.

    In pandas, None and NaN are one thing (missing) and become null, within lists too. A test
    that must tell NaN from null passes an Arrow table.
    """
    if isinstance(table, pd.DataFrame):
        table = pa.Table.from_pandas(table, preserve_index=False)
    return table.replace_schema_metadata(None)


@dataclasses.dataclass
class Engine:
    """An engine to test on: `load` gives an Ibis table that lives in it, until `clean`."""

    name: str
    connection: BaseBackend
    put: Callable[[BaseBackend, str, pa.Table], None]
    drop: Callable[[BaseBackend, str], None]
    loaded: list[str] = dataclasses.field(default_factory=list)

    @property
    def scratch_engine(self) -> engines.Engine:
        """Where foreclick keeps what it tallies there: the engine itself, or DuckDB here."""
        return engines.engine_of(self.connection).scratch_engine

    def load(self, table: Frame) -> ir.Table:
        """A new table of this engine, with the rows and the types of `table`."""
        name = f"t_{uuid.uuid4().hex[:12]}"
        self.loaded.append(name)
        self.put(self.connection, name, arrow(table))
        return self.connection.table(name)

    def load_native(self, table: Frame) -> DataFrame | DuckDBPyRelation:
        """The same in the engine's own language: a Spark DataFrame, a DuckDB relation."""
        name = self.load(table).get_name()
        native: DataFrame | DuckDBPyRelation
        if self.name == "spark":
            native = self.connection._session.table(name)
        elif self.name == "duckdb":
            native = self.connection.con.table(name)
        else:
            raise NotImplementedError(self.name)
        return native

    def clean(self) -> None:
        """Drop every loaded table."""
        while self.loaded:
            self.drop(self.connection, self.loaded.pop())


# --- DuckDB ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def duckdb_engine() -> Iterator[Engine]:
    """DuckDB in memory, a database of its own."""
    connection = ibis.duckdb.connect()
    try:
        yield Engine("duckdb", connection, _put_duckdb, _drop_table)
    finally:
        connection.disconnect()


def _put_duckdb(connection: BaseBackend, name: str, table: pa.Table) -> None:
    connection.create_table(name, table)


def _drop_table(connection: BaseBackend, name: str) -> None:
    connection.drop_table(name, force=True)


# --- Spark ----------------------------------------------------------------------------------------

# The JVM logs before a session can set its level; tests want neither.
LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n%ex
"""


@contextlib.contextmanager
def spark() -> Iterator[SparkSession]:
    """A Spark session on two cores of this machine, which leaves no files and no JVM behind."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise EngineMissing("no java")
    try:
        from pyspark import SparkConf  # noqa: PLC0415 - an extra, and slow to import
        from pyspark.sql import SparkSession  # noqa: PLC0415
    except ImportError as error:
        raise EngineMissing("no pyspark") from error

    home = Path(tempfile.mkdtemp(prefix="foreclick-spark-"))
    (home / "log4j2.properties").write_text(LOG4J)
    settings = {
        "spark.master": "local[2]",
        "spark.app.name": "foreclick tests",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": (
            "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
            # Classes of Spark are not verified: a sixth of what a session takes to start.
            "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote "
            f"-Dlog4j2.configurationFile=file:{home}/log4j2.properties "
            f"-Dderby.system.home={home} -Djava.io.tmpdir={home}"
        ),
        "spark.local.dir": str(home),
        "spark.sql.warehouse.dir": f"file:{home}/warehouse",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
        # Few rows: to compile a statement takes longer than to interpret it.
        "spark.sql.codegen.wholeStage": str(LONG).lower(),
        "spark.sql.codegen.factoryMode": "FALLBACK" if LONG else "NO_CODEGEN",
        "spark.ui.enabled": "false",
        # For clients of Spark Connect, in the same JVM.
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(free_port()),
        "spark.ui.showConsoleProgress": "false",
    }
    # Spark's Python workers must be this Python, and its launcher must not look up a host name.
    environment = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with mock.patch.dict(os.environ, environment):
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        session = SparkSession.builder.config(conf=conf).getOrCreate()
    # It prints every failing query's Java stack as one line of JSON; the exception says it too.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    try:
        yield session
    finally:
        session.stop()
        _end_jvm()
        shutil.rmtree(home, ignore_errors=True)


@contextlib.contextmanager
def spark_client(session: SparkSession) -> Iterator[SparkSession]:
    """A client of the session's Spark Connect server."""
    try:
        from pyspark.sql.connect.session import SparkSession as Client  # noqa: PLC0415
    except ImportError as error:
        raise EngineMissing("no pyspark[connect]") from error
    port = session.conf.get("spark.connect.grpc.binding.port")
    client: Any = Client.builder.remote(f"sc://127.0.0.1:{port}").create()
    try:
        yield client
    finally:
        client.stop()


def _end_jvm() -> None:
    """End the JVM now; `stop` would leave it, and its sockets, to the interpreter's exit."""
    from pyspark import SparkContext  # noqa: PLC0415

    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()  # the JVM ends when its stdin does
        gateway.proc.wait(timeout=30)


def spark_engine(session: SparkSession) -> Engine:
    """Spark, with tables as temporary views."""
    return Engine("spark", ibis.pyspark.connect(session), _put_spark, _drop_spark)


def spark_frame(session: SparkSession, table: Frame) -> DataFrame:
    """A Spark DataFrame, through Arrow: types are those of the table, NaN stays NaN."""
    return session.createDataFrame(arrow(table))


def _put_spark(connection: BaseBackend, name: str, table: pa.Table) -> None:
    spark_frame(connection._session, table).createTempView(name)


def _drop_spark(connection: BaseBackend, name: str) -> None:
    connection._session.catalog.dropTempView(name)


# --- PostgreSQL -----------------------------------------------------------------------------------

POSTGRES_USER = "foreclick"
POSTGRES_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "20",
    "shared_buffers": "64MB",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "jit": "off",
    "timezone": "UTC",
}


@contextlib.contextmanager
def postgres() -> Iterator[dict[str, Any]]:
    """A PostgreSQL server; gives the arguments `ibis.postgres.connect` needs to reach it."""
    initdb, pg_ctl = _postgres_binary("initdb"), _postgres_binary("pg_ctl")
    identity = _unprivileged()
    home = Path(tempfile.mkdtemp(prefix="foreclick-postgres-"))
    try:
        if identity:
            os.chown(home, identity["user"], identity["group"])
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "PGDATA": f"{home}/data"}
        how = {**identity, "cwd": home, "env": environment, "stdout": subprocess.DEVNULL}
        options = ["--auth=trust", f"--username={POSTGRES_USER}", "--encoding=UTF8", "--no-sync"]
        subprocess.run([initdb, "--locale=C", *options], check=True, **how)
        port = _start(pg_ctl, home / "log", how)
        try:
            yield {
                "host": "127.0.0.1",
                "port": port,
                "user": POSTGRES_USER,
                "password": "",
                "database": "postgres",
            }
        finally:  # "fast" ends open sessions
            subprocess.run([pg_ctl, "stop", "--mode=fast"], check=True, **how)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _start(pg_ctl: str, log: Path, how: dict[str, Any]) -> int:
    """Start the server and wait for it; again on another port if someone took ours in between."""
    settings = " ".join(f"-c {name}='{value}'" for name, value in POSTGRES_SETTINGS.items())
    for _ in range(5):
        port = free_port()
        command = [pg_ctl, "start", "--wait", f"--log={log}", f"--options=-p {port} {settings}"]
        if subprocess.run(command, check=False, **how).returncode == 0:
            return port
    raise RuntimeError(f"PostgreSQL did not start: {log.read_text()}")


def _postgres_binary(name: str) -> str:
    """Debian keeps the server's binaries off the path, in a directory per version."""
    versions = Path("/usr/lib/postgresql").glob(f"*/bin/{name}")
    newest = max(versions, key=lambda path: float(path.parts[-3]), default=None)
    found = str(newest) if newest else shutil.which(name)
    if found is None:
        raise EngineMissing(f"no {name}")
    try:
        import psycopg  # noqa: F401, PLC0415 - an extra
    except ImportError as error:
        raise EngineMissing("no psycopg") from error
    return found


def _unprivileged() -> dict[str, Any]:
    """Whom to run the server as: PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            user = pwd.getpwnam(name)
            return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise EngineMissing("no user other than root to run PostgreSQL as")


def postgres_engine(connection: BaseBackend) -> Engine:
    """PostgreSQL through an open connection."""
    return Engine("postgres", connection, _put_postgres, _drop_table)


def _put_postgres(connection: BaseBackend, name: str, table: pa.Table) -> None:
    """Ibis chooses the column types, COPY brings the rows: as text, so the server reads them."""
    connection.create_table(name, schema=ibis.Schema.from_pyarrow(table.schema))
    columns = [column.to_pylist() for column in table.columns]
    with connection.con.cursor() as cursor, cursor.copy(f'COPY "{name}" FROM STDIN') as copy:
        for row in zip(*columns, strict=True):
            copy.write_row(row)
    connection.con.commit()
