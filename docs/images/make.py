"""Draw the pictures of the documentation: PYTHONPATH=. python docs/images/make.py."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import foreclick as fc
from foreclick import simulate
from foreclick.questions.examination import Examination
from foreclick.questions.replay import Replay
from foreclick.simulate import shop
from tests import docs_files

HERE = Path(__file__).parent


def main() -> None:
    """Write every picture beside this file."""
    answer()
    world = simulate.yandex_like(records=400_000, queries=50, seed=1)
    log = fc.tally(fc.read_log(world.sample(), context="query", period="day"))
    result = fc.backtest(
        log,
        metrics=["clicks@2", "dcg@10"],
        estimators=["ladder", "list", "ip", "item", "pbm", "rctr"],
    )
    result.save(HERE / "backtest.svg")
    examined().save(HERE / "examination.svg")
    replayed().save(HERE / "replay.svg", title="Twelve A/B tests, predicted and measured")


def replayed() -> Replay:
    """Twelve A/B tests of simulated shops."""
    found = []
    for number in range(12):
        model = ("better", "similar", "worse", "tweak")[number % 4]
        drawn = shop.draw(shop.Shop(60_000, 1_000, days=14, test=model, candidates=()), number)
        log = fc.read_log(drawn.log, **docs_files.ROLES, segments="variant")
        found.append(fc.replay(log, metrics="clicks@3"))
    first, *others = found
    return sum(others, first)


def answer() -> None:
    """The picture of the home page: the shop of the tutorial."""
    with tempfile.TemporaryDirectory() as directory:
        shop = docs_files.shop(Path(directory))
    found = fc.evaluate(shop["log"], shop["candidate"], metrics="clicks@3")
    found.save(HERE / "answer.svg", title="Clicks in the first three positions")


def examined() -> Examination:
    """A log of a ranker that drifts, clicked as a position-based model says."""
    preset: Any = simulate.pbm_drift(records=40_000, queries=50, seed=1)
    p = np.array([1.0, 0.9, 0.8, 0.5, 0.5, 0.45, 0.3, 0.3, 0.2, 0.15])
    world = simulate.Simulation(
        simulate.PBM(preset.world.attraction, examination=p), preset.production, preset.records
    )
    return fc.examination(fc.read_log(world.sample(), context="query", period="day"))


if __name__ == "__main__":
    main()
