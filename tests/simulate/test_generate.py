"""If this fails, a simulated log cannot be drawn again, or is not distributed as said."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick.errors import SimulationError
from foreclick.simulate import (
    PBM,
    Drifting,
    Simulation,
    Stationary,
    yandex_like,
)

SIGMAS = 5.0


@pytest.fixture(scope="module")
def simulation():
    return yandex_like(records=30_000, queries=30, seed=1)


@pytest.fixture(scope="module")
def table(simulation):
    return simulation.sample(seed=4)


class TestSameSeedSameLog:
    def test_in_memory(self, simulation, table):
        again = yandex_like(records=30_000, queries=30, seed=1).sample(seed=4)
        assert table.equals(again)
        assert not table.equals(simulation.sample(seed=5))
        assert not table.equals(yandex_like(records=30_000, queries=30, seed=2).sample(seed=4))

    def test_in_a_file_and_in_a_directory(self, simulation, table, tmp_path):
        simulation.write_parquet(tmp_path / "log.parquet", seed=4)
        simulation.write_parquet(tmp_path / "log", seed=4)
        assert pq.read_table(tmp_path / "log.parquet").equals(table)
        files = sorted((tmp_path / "log").iterdir())
        assert [f.name for f in files] == [f"day-{d:02}.parquet" for d in range(1, 28)]
        assert ds.dataset(files).to_table().cast(table.schema).equals(table)
        assert pq.read_table(files[3])["day"].unique().to_pylist() == [4]
        with pytest.raises(SimulationError, match="already holds"):
            simulation.write_parquet(tmp_path / "log", seed=4)


def test_read_log_takes_it_without_complaint(table):
    log = fc.read_log(table, context="query", period="day", unit="user")
    assert (log.rows, log.dropped_rows, log.shape.depth) == (30_000, 0, 10)


def test_lists_come_as_often_as_production_shows_them():
    shown = Stationary([0, 0, 1], [[0, 1], [1, 0], [0, -1]], [0.8, 0.2, 1.0], days=3)
    world = PBM([[0.5, 0.2], [0.3, 0.0]], [1.0, 0.5])
    log = Simulation(world, shown, records=20_000, frequencies=[1, 3]).sample()
    count = Counter(tuple(a) for a in log["items"].to_pylist())
    right = {(0, 1): 0.2, (1, 0): 0.05, (1000,): 0.75}  # short lists are short in the log
    assert count.keys() == right.keys()
    for a, p in right.items():
        assert abs(count[a] / 20_000 - p) < SIGMAS * np.sqrt(p * (1 - p) / 20_000)
    assert [len(each) for each in log["clicks"]] == [len(each) for each in log["items"]]


def test_clicks_have_the_value_of_the_logging_policy():
    """End to end: the mean of a log without shocks is V(π), exactly known."""
    drifts = yandex_like(records=200_000, queries=20, seed=3)
    calm = Simulation(drifts.world, drifts.production, drifts.records, drifts.frequencies)
    clicks = calm.sample()["clicks"].combine_chunks().values.to_numpy().reshape(-1, 10)
    for metric, theta in (("clicks@3", np.ones(3)), ("dcg@10", 1 / np.log2(np.arange(2, 12)))):
        reward = clicks[:, : len(theta)] @ theta
        truth = calm.value(calm.logging(), metric)
        assert abs(reward.mean() - truth) < SIGMAS * reward.std() / np.sqrt(len(reward))


def test_shocks_have_mean_one_the_stated_spread_and_persistence():
    shocks = yandex_like(records=10, queries=1000).shocks(0)
    assert shocks.shape == (1000, 27)
    assert shocks.mean() == pytest.approx(1, abs=0.005)
    assert shocks.std() == pytest.approx(0.10, abs=0.005)
    before, after = np.log(shocks[:, :-1]).ravel(), np.log(shocks[:, 1:]).ravel()
    assert np.corrcoef(before, after)[0, 1] == pytest.approx(0.6, abs=0.03)
    assert shocks[:, 0].std() == pytest.approx(shocks[:, 26].std(), rel=0.15)  # stationary


def test_the_frequent_queries_have_the_papers_sizes():
    """455k, 15k and 3k records at ranks 1, 100 and 1,000."""
    simulation = yandex_like()
    sizes = simulation.records * np.asarray(simulation.frequencies)[[0, 99, 999]]
    assert sizes == pytest.approx([455_000, 15_000, 3_000], rel=0.12)


# --- the drifting ranker does what its parameters say ---------------------------------------------


RANKER = Drifting(400, 40, 10, seed=7)


def test_the_base_list_has_its_mass_and_the_variants_are_zipf():
    shown = RANKER.on(3)
    mass = np.bincount(shown.contexts, shown.probabilities)
    np.testing.assert_allclose(mass, 1, atol=1e-12)
    base, variants = shown.probabilities[:400], shown.probabilities[400:]
    assert 0.23 <= base.min() < 0.24
    assert 0.34 < base.max() <= 0.35
    first = variants[shown.contexts[400:] == 5][:3]
    np.testing.assert_allclose(first / first[0], np.arange(1, 4) ** -0.7, rtol=1e-12)


def test_few_variants_come_back():
    """87 % are drawn anew, so that most of yesterday's lists are gone today."""
    yesterday, today = (
        {(x, *a) for x, a in zip(s.contexts.tolist(), s.lists.tolist(), strict=True)}
        for s in (RANKER.on(8), RANKER.on(9))
    )
    assert 0.03 < len(yesterday & today) / len(today) < 0.25
    lasting = replace(RANKER, fresh=0.0, events=0.0)
    first, second = (s.lists[s.contexts == 3].tolist() for s in map(lasting.on, (8, 9)))
    both = min(len(first), len(second))
    assert first[:both] == second[:both]
