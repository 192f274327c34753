"""How well `examination` finds a known curve.

The ranker and the attractions are those of the presets, the most frequent 100 queries and the 900
after them, clicked by position-based models with two curves: 1/k, and one that falls slowly and
unevenly. Days differ by 10 %, as in the presets.

    python -m benchmarks examination --records 900000 --logs 1
    python -m benchmarks examination coverage --logs 200    # small logs, many times over
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import foreclick as fc
from benchmarks.replications import clicked
from benchmarks.study import LOGS, Column, Row, Task, grid, mean, study
from foreclick import simulate

CURVES = {
    "1/k": tuple(1 / k for k in range(1, 11)),
    "uneven": (1.0, 0.9, 0.8, 0.5, 0.5, 0.45, 0.3, 0.3, 0.2, 0.15),
}
FREQUENT = 100
"""The paper's most frequent queries; the others are the tail."""


def write(p: tuple[float, ...], records: int, seed: int, path: Path) -> None:
    """A log of the preset, clicked with another examination."""
    preset: Any = simulate.pbm_drift(records=records, seed=seed)
    world = simulate.PBM(preset.world.attraction, examination=np.array(p))
    replace(preset, world=world).write_parquet(path, seed=seed)


@study(
    "examination",
    ["curve", "part"],
    LOGS,
    mean("records", form=",.0f"),
    Column("largest error", lambda rows: float(rows.of("error").max()), ".4f"),
    Column("largest se", lambda rows: float(rows.of("se").max()), ".4f"),
    mean("held", form=".1%"),
)
def examination(records: int = 9_000_000, logs: int = 3, seed: int = 0) -> Iterator[Task]:
    """How well a known examination curve is found."""
    return grid(measured, range(seed, seed + logs), CURVES, [records])


def measured(seed: int, curve: str, records: int) -> list[Row]:
    """The largest error for both parts of the queries."""
    p = CURVES[curve]
    parts = {"frequent": f"query < {FREQUENT}", "tail": f"query >= {FREQUENT}"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log.parquet")
        write(p, records, seed, path)
        found = {
            part: fc.examination(fc.read_log(path, context="query", period="day", where=where))
            for part, where in parts.items()
        }
    return [
        {
            "curve": curve,
            "part": part,
            "records": int(each["records"][0]),
            "error": float(np.abs(np.array(each["examination"]) - p).max()),
            "se": max(each["se"]),
            "held": np.mean([r["low"] <= t <= r["high"] for r, t in zip(each, p, strict=True)][1:]),
        }
        for part, each in found.items()
    ]


# --- do intervals cover? ------------------------------------------------------------------------

SHORT = np.array([1, 0.6, 0.45, 0.3, 0.25])
ITEMS = 6


@dataclass(frozen=True)
class Setting:
    """A small log: contexts × days × times lists of five of six items.

    Attributes:
        daily: whether each day has one list, and every day another; else each record has its own.
        most: the highest attraction.
        users: the spread of the log of how much each of 300 users clicks.
        days: the same of contexts on a day.
        within: what is asked of `examination`.
        clusters: what the log is read with.
    """

    name: str
    size: tuple[int, int, int]
    within: Any
    clusters: Any
    daily: bool = False
    most: float = 0.3
    users: float = 0.0
    days: float = 0.0


SETTINGS = [
    Setting("every list another", (10, 10, 20), "period", "period"),
    Setting("every list another, by user", (10, 10, 20), "period", "unit"),
    Setting("every list another, high rates", (10, 10, 20), "period", "period", most=1.0),
    Setting("every day another", (40, 6, 10), "context", "period", daily=True),
    Setting("every day another, by user", (40, 6, 10), "context", "unit", daily=True),
    Setting("two days", (200, 2, 5), "context", "period", daily=True),
    Setting("users differ", (10, 10, 20), "context", "unit", most=0.15, users=0.7),
    Setting("days differ", (40, 6, 30), "context", "period", daily=True, most=0.15, days=0.5),
]


def small(setting: Setting, rng: np.random.Generator) -> dict[str, Any]:
    """One log, by column."""
    contexts, days, times = setting.size
    x, d = np.divmod(np.arange(contexts * days * times) // times, days)
    chance = (
        rng.random((contexts, days, ITEMS))[x, d] if setting.daily else rng.random((len(x), ITEMS))
    )
    # Some items are higher up than others, as in any ranking.
    items = np.argsort(chance + 0.1 * np.arange(ITEMS), axis=1)[:, : len(SHORT)]
    user = rng.integers(0, 300, len(x))
    effect = np.exp(setting.users * rng.standard_normal(300))[user]
    effect = effect * np.exp(setting.days * rng.standard_normal((contexts, days)))[x, d]
    attraction = rng.uniform(0.02, setting.most, (contexts, ITEMS))
    rate = np.minimum(attraction[x[:, None], items] * effect[:, None], 1) * SHORT
    return clicked(x, items, rate, rng) | {"day": d, "user": user}


@study(
    "examination coverage",
    ["lists", "clusters"],
    mean("records", form=",.0f"),
    mean("held", form=".3f"),
    Column("se / true", lambda rows: rows[0]["ratio"], ".2f"),
)
def coverage(logs: int = 100) -> Iterator[Task]:
    """How often intervals hold the curve in small logs."""
    return grid(covered, SETTINGS, [logs])


def covered(setting: Setting, replications: int) -> list[Row]:
    """Coverage and mean error beside the true one, of positions 2 to 5."""
    rng = np.random.default_rng(1)
    logs = [pa.table(small(setting, rng)) for _ in range(replications)]
    numbered = [log.append_column("r", pa.array([i] * len(log))) for i, log in enumerate(logs)]
    roles = {"period": {"period": "day"}, "unit": {"unit": "user"}}[setting.clusters]
    if setting.within == "period":
        roles["period"] = "day"
    log = fc.read_log(pa.concat_tables(numbered), segments=("r",), **roles)
    found = fc.examination(log, by="r", within=setting.within)
    p, se, low, high = (
        np.array(found[c], float).reshape(replications, -1)[:, 1:]
        for c in ("examination", "se", "low", "high")
    )
    held = ((low <= SHORT[1:]) & (high >= SHORT[1:])).mean()
    ratio = float((se.mean(axis=0) / p.std(axis=0)).mean())
    key = {"lists": setting.name, "clusters": setting.clusters, "records": len(logs[0])}
    return [key | {"held": float(held), "ratio": ratio}]
