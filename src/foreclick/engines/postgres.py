"""PostgreSQL: a log in a database server."""

from __future__ import annotations

from foreclick.engines.base import Engine


class Postgres(Engine):
    """Ibis's PostgreSQL backend."""
