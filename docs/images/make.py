"""Draw the pictures of the documentation, from a simulated log: python docs/images/make.py."""

import math
from pathlib import Path

import numpy as np

import foreclick as fc
from foreclick import simulate

HERE = Path(__file__).parent
CLIPS = [*(float(f"{m:.4g}") for m in np.geomspace(1, 1000, 20)), math.inf]


def main() -> None:
    """Write every picture beside this file."""
    world = simulate.yandex_like(records=400_000, queries=50, seed=1)
    log = fc.tally(fc.read_log(world.sample(), context="query", period="day"))
    result = fc.backtest(log, metrics=["clicks@2", "dcg@10"], clip=CLIPS)
    result.save(HERE / "backtest.png")
    result.save(HERE / "backtest-periods.png", by="period")


if __name__ == "__main__":
    main()
