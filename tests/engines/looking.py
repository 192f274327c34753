"""What the tests see of an engine from outside."""

import hashlib


def kept(engine, step="foreclick_"):
    """The names of what foreclick keeps in the engine."""
    connection = engine.connection
    if engine.name == "spark":
        names = [table.name for table in connection._session.catalog.listTables()]
    elif engine.name == "duckdb":
        found = connection.con.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        names = [name for (name,) in found]
    else:
        with connection.con.cursor() as cursor:
            cursor.execute("SELECT relname FROM pg_class WHERE relkind = 'r'")
            names = [name for (name,) in cursor.fetchall()]
        connection.con.commit()
    return sorted(name for name in names if name.startswith(step))


def bucket_of(unit):
    """The reference: a unit's bucket without any engine."""
    text = "" if unit is None else str(unit)
    return int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:7], 16) % 30
