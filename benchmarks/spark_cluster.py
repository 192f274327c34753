"""A real Spark cluster on loopback: a master and workers, each a process of its own.

Everything comes with the pyspark package. Tests and benchmarks start theirs with `Cluster()`, and
may kill a worker.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

HOST = "127.0.0.1"
PATIENCE = 90.0
"""Seconds until all of it must be there."""

_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_FAST = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Cluster:
    """A standalone master and two workers, each with a core and two gigabytes."""

    def __init__(self) -> None:
        import pyspark

        self.home = Path(pyspark.__file__).parent
        self._folder = tempfile.TemporaryDirectory(
            prefix="spark-cluster-", ignore_cleanup_errors=True
        )
        self._logs: list[Path] = []
        self.workers: list[subprocess.Popen[bytes]] = []
        self.port = free_port()
        self.url = f"spark://{HOST}:{self.port}"
        self.master = self._start(
            _MASTER, "--host", HOST, "--port", str(self.port), "--webui-port", "0"
        )
        try:
            self._await(self._logs[0], "I have been elected leader|Starting Spark master")
            for _ in range(2):
                self.add_worker()
            for log in self._logs[1:]:
                self._await(log, "Successfully registered with master")
        except BaseException:
            self.stop()
            raise

    def add_worker(self) -> None:
        """Start one more worker."""
        work = Path(self._folder.name, f"work-{len(self._logs)}")
        options = ["--host", HOST, "--webui-port", "0", "--work-dir", str(work)]
        options += ["--cores", "1", "--memory", "2g"]
        self.workers.append(self._start(_WORKER, *options, self.url))

    def kill_worker(self) -> None:
        """Kill the oldest worker and its executors, as a machine that is switched off."""
        _end(self.workers.pop(0), signal.SIGKILL)

    def busy(self) -> float:
        """Seconds of processor time that the workers and their executors took so far; on Linux."""
        groups, ticks = {worker.pid for worker in self.workers}, 0
        for status in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = status.read_text().rpartition(")")[2].split()
            except OSError:  # gone already
                continue
            if int(fields[2]) in groups:
                ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def session(self, *, fast: bool = False) -> Any:
        """A quiet Spark session on this cluster; `fast`: its JVMs start fast, and work slowly."""
        from pyspark.sql import SparkSession

        os.environ["SPARK_LOCAL_IP"] = HOST  # its launcher must not look up a host name
        os.environ["PYSPARK_PYTHON"] = sys.executable  # that of the workers, with foreclick
        builder = SparkSession.builder.master(self.url).appName("foreclick")
        settings = {
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.executor.memory": "1500m",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "4",
            "spark.sql.session.timeZone": "UTC",
            "spark.local.dir": self._folder.name,
            "spark.sql.warehouse.dir": str(Path(self._folder.name, "warehouse")),
        }
        if fast:
            options = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")
            settings |= dict.fromkeys(options, _FAST)
        for key, value in settings.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        return session

    def stop(self) -> None:
        """Stop everything."""
        for process in [*self.workers, self.master]:
            _end(process, signal.SIGTERM)
        self._folder.cleanup()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        log = Path(self._folder.name, f"{len(self._logs)}.log")
        self._logs.append(log)
        environment = os.environ | {
            "SPARK_HOME": str(self.home),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_DAEMON_JAVA_OPTS": _FAST,  # it only waits
        }
        with log.open("wb") as out:
            return subprocess.Popen(
                [str(self.home / "bin" / "spark-class"), *words],
                stdout=out,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,  # so that its executors can be killed with it
            )

    def _await(self, log: Path, said: str) -> None:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if re.search(said, log.read_text(errors="replace")):
                return
            time.sleep(0.1)
        raise RuntimeError(f"the cluster did not start:\n{log.read_text(errors='replace')[-2000:]}")


def _end(process: subprocess.Popen[bytes], how: int) -> None:
    try:
        os.killpg(process.pid, how)
        process.wait(timeout=20)
    except ProcessLookupError:
        pass
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def free_port() -> int:
    """A port of this machine that nobody uses now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
