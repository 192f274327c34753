"""A real Spark cluster on loopback: a master and workers, each a process of its own.

Everything comes with the pyspark package. `with cluster() as made` starts one, and may kill a
worker.
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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
PATIENCE = 90.0
"""Seconds until all of it must be there."""

_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_FAST = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Cluster:
    """A standalone master and two workers, each with a core and two gigabytes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.url = f"spark://{HOST}:{self.port}"
        self.logs: list[Path] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        self.workers: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start everything, and wait until it is there."""
        self._start(_MASTER, "--port", str(self.port))
        self._await(self.logs[0], "I have been elected leader|Starting Spark master")
        for _ in range(2):
            self.add_worker()
        for log in self.logs[1:]:
            self._await(log, "Successfully registered with master")

    def add_worker(self) -> None:
        """Start one more worker."""
        options = ["--work-dir", str(self.folder / f"work-{len(self.logs)}")]
        options += ["--cores", "1", "--memory", "2g"]
        self.workers.append(self._start(_WORKER, *options, self.url))

    def kill_worker(self) -> None:
        """Kill the oldest worker and its executors, as a machine that is switched off."""
        oldest = self.workers.pop(0)
        self.processes.remove(oldest)
        _end(oldest, signal.SIGKILL)

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
            "spark.local.dir": str(self.folder),
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
        }
        if fast:
            options = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")
            settings |= dict.fromkeys(options, _FAST)
        for key, value in settings.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        return session

    def _start(self, kind: str, *words: str) -> subprocess.Popen[bytes]:
        import pyspark

        log, home = self.folder / f"{len(self.logs)}.log", Path(pyspark.__file__).parent
        self.logs.append(log)
        environment = os.environ | {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_DAEMON_JAVA_OPTS": _FAST,  # it only waits
        }
        command = [str(home / "bin" / "spark-class"), kind, "--host", HOST, "--webui-port", "0"]
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*command, *words],
                stdout=out,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,  # so that its executors can be killed with it
            )
        self.processes.append(process)
        return process

    def _await(self, log: Path, said: str) -> None:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if re.search(said, log.read_text(errors="replace")):
                return
            time.sleep(0.1)
        raise RuntimeError(f"the cluster did not start:\n{log.read_text(errors='replace')[-2000:]}")


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A cluster that is stopped afterwards."""
    with tempfile.TemporaryDirectory(prefix="spark-cluster-", ignore_cleanup_errors=True) as folder:
        made = Cluster(Path(folder))
        try:
            made.start()
            yield made
        finally:
            for process in reversed(made.processes):
                _end(process, signal.SIGTERM)


def _end(process: subprocess.Popen[bytes], how: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, how)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def free_port() -> int:
    """A port of this machine that nobody uses now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
