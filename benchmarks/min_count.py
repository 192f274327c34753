"""What `write_parquet(min_count=k)` costs in accuracy, in a simulated world. `make min-count`."""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path
from typing import Any

import foreclick as fc


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=1_000)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    world = fc.simulate.yandex_like(records=args.records, queries=args.queries)
    candidate = world.candidate()
    truth, today = (world.value(each, "clicks@3") for each in (candidate, world.logging()))
    table = world.sample()
    print(f"truth: {truth / today - 1:+.2%}")
    print("| read with | min_count | records kept | contexts | lift | interval | covered |")
    print("|---|---|---|---|---|---|---|")
    for name, roles in (("day, user", {"period": "day", "unit": "user"}), ("neither", {})):
        counted = fc.tally(fc.read_log(table, context="query", **roles))
        for least in (None, 2, 5, 10, 20):
            print(f"| {name} | {least or '–'} | {_row(counted, candidate, least)} |", flush=True)


def _row(counted: fc.Tally, candidate: Any, least: int | None) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.parquet")
        try:
            counted.write_parquet(path, min_count=least)
        except fc.errors.TallyError:
            return "0% | 0 | – | – | –"
        found = fc.read_tally(path)
        row = fc.evaluate(
            found, candidate, metrics="clicks@3", estimators="ladder-ip", missing="drop"
        ).to_dicts()[0]
        kept = row["records"] / (row["records"] + found.dropped_rows)
        return (
            f"{kept:.0%} | {row['contexts']:,} | {row['lift']:+.2%} | "
            f"{row['lift_low']:+.2%} to {row['lift_high']:+.2%} | {row['covered']:.0%}"
        )


if __name__ == "__main__":
    main()
