"""If this fails, a simulated log cannot be drawn again, or is not distributed as said."""

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


def matrix(column, width=10):
    return column.combine_chunks().values.to_numpy().reshape(-1, width)


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


class TestWhatIsInIt:
    def test_read_log_takes_it_without_complaint(self, table):
        log = fc.read_log(table, context="query", period="day", unit="user")
        assert (log.rows, log.dropped_rows, log.shape.depth) == (30_000, 0, 10)

    def test_lists_come_as_often_as_production_shows_them(self):
        shown = Stationary([0, 0, 1], [[0, 1], [1, 0], [0, -1]], [0.8, 0.2, 1.0], days=3)
        world = PBM([[0.5, 0.2], [0.3, 0.0]], [1.0, 0.5])
        log = Simulation(world, shown, records=20_000, frequencies=[1, 3]).sample()
        lists = [tuple(a) for a in log["items"].to_pylist()]
        share = {a: lists.count(a) / 20_000 for a in set(lists)}
        assert set(share) == {(0, 1), (1, 0), (1000,)}  # short lists are short in the log
        for a, p in {(0, 1): 0.2, (1, 0): 0.05, (1000,): 0.75}.items():
            assert abs(share[a] - p) < SIGMAS * np.sqrt(p * (1 - p) / 20_000)
        assert all(len(a) == len(c) for a, c in zip(lists, log["clicks"].to_pylist(), strict=True))

    def test_clicks_have_the_value_of_the_logging_policy(self):
        """End to end: the mean of a log without shocks is V(π), exactly known."""
        calm = yandex_like(records=200_000, queries=20, seed=3)
        calm = Simulation(calm.world, calm.production, calm.records, calm.frequencies)
        clicks = matrix(calm.sample()["clicks"])
        for metric, theta in (("clicks@3", np.ones(3)), ("dcg@10", 1 / np.log2(np.arange(2, 12)))):
            reward = clicks[:, : len(theta)] @ theta
            truth = calm.value(calm.logging(), metric)
            assert abs(reward.mean() - truth) < SIGMAS * reward.std() / np.sqrt(len(reward))


class TestDisturbances:
    def test_shocks_have_mean_one_the_stated_spread_and_persistence(self):
        shocks = yandex_like(records=10, queries=1000).shocks(0)
        assert shocks.shape == (1000, 27)
        assert shocks.mean() == pytest.approx(1, abs=0.005)
        assert shocks.std() == pytest.approx(0.10, abs=0.005)
        before, after = np.log(shocks[:, :-1]).ravel(), np.log(shocks[:, 1:]).ravel()
        assert np.corrcoef(before, after)[0, 1] == pytest.approx(0.6, abs=0.03)
        assert shocks[:, 0].std() == pytest.approx(shocks[:, 26].std(), rel=0.15)  # stationary


class TestPresets:
    def test_the_frequent_queries_have_the_papers_sizes(self):
        """455k, 15k and 3k records at ranks 1, 100 and 1,000."""
        simulation = yandex_like()
        sizes = simulation.records * np.asarray(simulation.frequencies)[[0, 99, 999]]
        assert sizes == pytest.approx([455_000, 15_000, 3_000], rel=0.12)


def test_a_directory_that_holds_another_log_is_refused(simulation, tmp_path):
    simulation.write_parquet(tmp_path / "log", records=100)
    with pytest.raises(SimulationError, match="already holds"):
        simulation.write_parquet(tmp_path / "log", records=100)


# --- the drifting ranker does what its parameters say ---------------------------------------------


CONTEXTS, ITEMS, POSITIONS = 400, 40, 10


@pytest.fixture(scope="module")
def ranker():
    return Drifting(CONTEXTS, ITEMS, POSITIONS, seed=7)


def test_the_base_list_has_its_mass_and_the_variants_are_zipf(ranker):
    shown = ranker.on(3)
    mass = np.bincount(shown.contexts, shown.probabilities)
    np.testing.assert_allclose(mass, 1, atol=1e-12)
    base, variants = shown.probabilities[:CONTEXTS], shown.probabilities[CONTEXTS:]
    assert 0.23 <= base.min() < 0.24
    assert 0.34 < base.max() <= 0.35
    first = variants[shown.contexts[CONTEXTS:] == 5]
    np.testing.assert_allclose(first[1] / first[0], 2**-0.7, rtol=1e-12)
    np.testing.assert_allclose(first[2] / first[0], 3**-0.7, rtol=1e-12)


def test_few_variants_come_back(ranker):
    """87 % are drawn anew, so that most of yesterday's lists are gone today."""
    yesterday, today = (
        {(x, *a) for x, a in zip(s.contexts.tolist(), s.lists.tolist(), strict=True)}
        for s in (ranker.on(8), ranker.on(9))
    )
    assert 0.03 < len(yesterday & today) / len(today) < 0.25
    lasting = Drifting(CONTEXTS, ITEMS, POSITIONS, seed=7, fresh=0.0, events=0.0)
    first, second = lasting.on(8), lasting.on(9)
    both = (first.contexts == 3).sum(), (second.contexts == 3).sum()
    here = [s.lists[s.contexts == 3][: min(both)].tolist() for s in (first, second)]
    assert here[0] == here[1]
