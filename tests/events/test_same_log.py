"""If this fails, the same events make other logs in other engines."""

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from tests.engines.looking import each_on_one_worker
from tests.tries import LONG

NOON = datetime(2026, 5, 1, 12)  # noqa: DTZ001 - as in most logs


def events(lists: int) -> tuple[pa.Table, pa.Table]:
    """Impressions, some twice, and actions, some of which belong nowhere."""
    rng = np.random.default_rng(5)
    shown: dict[str, list[Any]] = {n: [] for n in ("id", "user", "q", "item", "rank", "at")}
    for i in range(lists):
        items = rng.permutation(6)[: rng.integers(2, 6)]
        repeats = 2 if rng.random() < 0.1 else 1
        for rank, item in enumerate([*items] * repeats):
            at = NOON + timedelta(minutes=int(i % 20), seconds=int(i), microseconds=7)
            row = (i, f"u{i % 5}", f"q{i % 3}", f"i{item}", rank % len(items), at)
            for column, value in zip(shown.values(), row, strict=True):
                column.append(value)
    picked = rng.integers(0, len(shown["id"]), 80)
    done = {
        "id": [shown["id"][i] if i % 9 else 999 for i in picked],
        "user": [shown["user"][i] for i in picked],
        "item": [shown["item"][i] if i % 7 else "none" for i in picked],
        "at": [shown["at"][i] + timedelta(seconds=int(i % 50) - 4) for i in picked],
        "what": [("click", "order", "look")[i % 3] for i in picked],
        "price": [float(i) / 4 for i in picked],
    }
    return pa.table(shown), pa.table(done)


OPTIONS: dict[str, Any] = {
    "context": "q",
    "position": "rank",
    "unit": "user",
    "action": "what",
    "rewards": {"clicks": "click", "orders": "order", "revenue": {"order": "price"}},
    "where": "q <> 'q2' OR rank <= 7",
}
BY: list[Any] = [
    fc.events.Match("id", time="at", window=30),
    fc.events.Match(session="user", time="at", window=30, together=3),
]


def assert_same_log(load, way, lists=60):
    """The log of events that were loaded elsewhere is that of DuckDB."""
    here = events(lists=lists)
    ours = fc.from_events(*here, **OPTIONS, list_id=way)
    found = fc.from_events(*map(load, here), **OPTIONS, list_id=way)
    assert fc.tally(found).to_arrow().equals(fc.tally(ours).to_arrow())
    assert found.ledger.rows == ours.ledger.rows
    assert len(ours.ledger.losses) > 5


def test_the_log_is_the_same_everywhere(engine):
    # Spark takes half a minute to compile a way, so it is usually given the harder one alone; and
    # DuckDB, which makes our own answer too, tells only how tables of an engine are read.
    for way in BY if engine.name == "postgres" or LONG else BY[1:]:
        assert_same_log(engine.load, way)


@pytest.mark.parametrize(
    "name", each_on_one_worker(("clickhouse", "datafusion") if LONG else ("clickhouse",))
)
def test_the_log_is_the_same_where_nothing_is_created(opened, name):
    assert_same_log(opened(name), BY[name == "datafusion"], lists=30)
