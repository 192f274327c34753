"""If this fails, intervals hold the truth less often than they say.

Coverage alone hardly sees a standard error that is too large, so both are asked: how often the
limit is inside, and the mean standard error against the true spread. With so many replications a
standard error that is a fifth too small, or a quarter too large, fails.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from benchmarks.candidates import DAYS, steady, twins
from benchmarks.replications import ESTIMATORS, METRIC, in_each, make_scene, measured, packed
from scipy.special import stdtrit

import foreclick as fc

pytestmark = pytest.mark.slow

SURE = 4  # standard deviations of what chance does; some twenty figures are looked at


class TestIndependentRecords:
    """One context, 10,000 records, a candidate whose list is shown some 180 times."""

    REPLICATIONS = 600

    @pytest.fixture(scope="class")
    @staticmethod
    def cells():
        records, scene, count = 10_000, make_scene("DBN", 1), TestIndependentRecords.REPLICATIONS
        chances, candidate = scene.outcomes[2], scene.candidates["deterministic"]
        log = scene.log(np.random.default_rng(1).multinomial(records, chances, count))
        expected = scene.log(records * chances[None, :])
        truth = scene.world.value(candidate, METRIC)
        found = measured([(log, range(count))], expected, candidate, truth, "record")
        return {cell["estimator"]: cell for cell in found}

    @pytest.mark.parametrize("name", ESTIMATORS)
    def test_intervals_hold_the_limit(self, cells, name):
        chance = SURE * math.sqrt(0.95 * 0.05 / self.REPLICATIONS)
        assert cells[name]["covers"] == pytest.approx(0.95, abs=chance)

    @pytest.mark.parametrize("name", ESTIMATORS)
    def test_standard_errors_are_the_spread_of_the_estimates(self, cells, name):
        chance = SURE * math.sqrt(1 / (2 * self.REPLICATIONS))  # of a standard deviation
        assert cells[name]["ratio"] == pytest.approx(1.0, abs=chance)

    def test_where_the_model_holds_the_limit_is_the_truth(self, cells):
        assert cells["list"]["limit"] == pytest.approx(cells["list"]["truth"])


class TestDays:
    """Shocks of 10 % a day, and a candidate that ranks otherwise but is worth the same."""

    LOGS = 200

    @pytest.fixture(scope="class")
    @staticmethod
    def rows():
        simulation, logs = replace(steady("PBM", 1), shock_sd=0.1, records=2000), range(200)
        log, candidate = packed(simulation, logs, "period"), in_each(twins(simulation), logs)
        asked: Any = {"metrics": METRIC, "estimators": ["ip", "pbm"], "by": "replication"}
        return list(fc.evaluate(log, candidate, **asked))

    @pytest.mark.parametrize("name", ["ip", "pbm"])
    def test_false_verdicts_are_rare(self, rows, name):
        words = [row["verdict"] for row in rows if row["estimator"] == name]
        assert len(words) == self.LOGS
        chance = SURE * math.sqrt(0.05 * 0.95 / self.LOGS)
        assert sum(word != "cannot tell" for word in words) / self.LOGS < 0.05 + chance

    @pytest.mark.parametrize("name", ["ip", "pbm"])
    def test_standard_errors_are_the_spread_of_the_changes(self, rows, name):
        mine = [row for row in rows if row["estimator"] == name]
        widths = np.array([row["change_high"] - row["change_low"] for row in mine])
        se = widths / 2 / stdtrit(DAYS - 1, 0.975)
        spread = np.std([row["change"] for row in mine])
        # Cells of few records a day are given some more than they show: about a tenth here.
        chance = SURE * math.sqrt(1 / (2 * self.LOGS))
        assert math.sqrt(np.mean(se**2)) / spread == pytest.approx(1.1, abs=chance)
