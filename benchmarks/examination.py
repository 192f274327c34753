"""How well `examination` finds a known curve: `make examination` takes some minutes on two cores.

The ranker and the attractions are those of the presets, the most frequent 100 queries and the 900
after them, clicked by position-based models with two curves: 1/k, and one that falls slowly and
unevenly. Days differ by 10 %, as in the presets.

python -m benchmarks.examination --records 900000 --seeds 1
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import foreclick as fc
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
    world = simulate.Simulation(
        simulate.PBM(preset.world.attraction, examination=np.array(p)),
        preset.production,
        preset.records,
        frequencies=preset.frequencies,
        shock_sd=preset.shock_sd,
        shock_persistence=preset.shock_persistence,
    )
    world.write_parquet(path, seed=seed)


def measured(records: int, seed: int, folder: str) -> Iterator[dict[str, Any]]:
    """The largest error of both methods, of every curve and both parts of the queries."""
    path = Path(folder, "log.parquet")
    for name, p in CURVES.items():
        write(p, records, seed, path)
        for part, where in {
            "frequent": f"query < {FREQUENT}",
            "tail": f"query >= {FREQUENT}",
        }.items():
            read = fc.read_log(path, context="query", period="day", where=where)
            counted = fc.tally(read)
            start = time.perf_counter()
            found = fc.examination(counted)
            took = time.perf_counter() - start
            own, other = (np.array(found[c]) for c in ("examination", "allpairs"))
            held = sum(
                row["low"] <= right <= row["high"] for row, right in zip(found, p, strict=True)
            )
            yield {
                "curve": name,
                "part": part,
                "seed": seed,
                "records": int(found["records"][0]),
                "error": float(np.abs(own - p).max()),
                "allpairs": float(np.abs(other - p).max()),
                "se": max(found["se"]),
                "held": f"{held - 1} of {len(p) - 1}",
                "seconds": took,
            }


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--records", type=int, default=9_000_000)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    print(
        "| curve | queries | seed | records | largest error | of AllPairs | largest se | held | s |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(args.seeds):
            for row in measured(args.records, seed, folder):
                worst = max(worst, row["error"])
                print(
                    f"| {row['curve']} | {row['part']} | {row['seed']} | {row['records']:,} "
                    f"| {row['error']:.4f} | {row['allpairs']:.4f} | {row['se']:.4f} "
                    f"| {row['held']} | {math.ceil(row['seconds'])} |",
                    flush=True,
                )
    print(f"\nLargest error of all: {worst:.4f}")


if __name__ == "__main__":
    main()
