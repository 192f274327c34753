"""Spark: the engine of a cluster."""

from __future__ import annotations

from typing import Any

import ibis
import ibis.expr.types as ir

from foreclick.engines.base import Engine


class Spark(Engine):
    """Ibis's PySpark backend, classic or Connect."""

    @classmethod
    def open(cls, frame: Any) -> tuple[Engine, ir.Table]:  # noqa: ANN401 - pyspark is optional
        """The Ibis table of a Spark DataFrame."""
        backend = ibis.pyspark.connect(frame.sparkSession)
        name = cls.unique("source")
        frame.createOrReplaceTempView(name)
        return cls(backend), backend.table(name)
