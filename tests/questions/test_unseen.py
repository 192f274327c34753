"""What the log cannot see is on both ends of what is printed and judged."""

import numpy as np
import pytest

import foreclick as fc

EXAMINED = 1 / np.arange(1, 6)
SHOWN = 7  # of the items of a context; the others are new
THETA = 1 / np.log2(np.arange(2, 7))


def pbm_log(attraction, seed, *, contexts=10, records=6000, days=14):
    """Lists of the first seven items, in an order that follows attraction with some noise."""
    rng = np.random.default_rng(seed)
    x, day = rng.integers(0, contexts, records), rng.integers(0, days, records)
    score = np.log(attraction[x, :SHOWN]) + 0.4 * rng.gumbel(size=(records, SHOWN))
    lists = np.argsort(-score, axis=1)[:, :5]
    clicks = rng.random(lists.shape) < attraction[x[:, None], lists] * EXAMINED
    log = {"context": x, "items": lists.tolist(), "clicks": clicks.astype(int).tolist(), "day": day}
    truth = float((attraction[x[:, None], lists] * EXAMINED @ THETA).mean())
    return fc.read_log(log, period="day"), truth


def everywhere(items, contexts=10):
    return fc.Ranking({"context": list(range(contexts)), "items": [list(items)] * contexts})


@pytest.fixture(scope="module")
def duds():
    """A log whose new items would get next to no clicks."""
    rng = np.random.default_rng(41)
    known = np.sort(rng.uniform(0.2, 0.6, (10, SHOWN)), axis=1)[:, ::-1]
    return np.concatenate([known, np.full((10, 5), 0.005)], axis=1)


@pytest.fixture(scope="module")
def dud_log(duds):
    return pbm_log(duds, 42)


@pytest.mark.parametrize("items", [(2, 3, 4, 7, 8), (0, 1, 7, 8, 9), (0, 7, 8, 9, 10)])
def test_no_candidate_is_better_for_items_that_nobody_has_seen(duds, dud_log, items):
    log, production = dud_log
    truth = float((duds[:, list(items)] * EXAMINED @ THETA).mean())
    assert truth < production
    row = fc.evaluate(log, everywhere(items), metrics="dcg@5", estimators="ladder").to_dicts()[0]
    assert row["verdict"] != "better"
    assert row["low"] <= truth <= row["high"]
    assert row["change_low"] <= truth - production <= row["change_high"]
    assert row["lift_low"] <= truth / production - 1 <= row["lift_high"]


@pytest.mark.parametrize("estimator", ["ladder", "ip", "item", "pbm"])
def test_no_candidate_is_worse_while_something_new_may_be_a_star(estimator):
    rng = np.random.default_rng(43)
    known = np.sort(rng.uniform(0.2, 0.4, (10, SHOWN)), axis=1)[:, ::-1]
    log, _ = pbm_log(np.concatenate([known, np.full((10, 2), 0.95)], axis=1), 44)
    star = everywhere((8, 3, 4, 5, 6))
    question = {"metrics": "dcg@5", "estimators": estimator}
    found = fc.evaluate(log, star, **question)
    assert found["verdict"] == ["cannot tell"]


class TestEnds:
    """By hand: of two items one was never shown, and half of the records clicked the other.

    So what was never shown is worth 1/2 at most, and half of what the candidate shows is new.
    """

    LOG = {  # noqa: RUF012 - pytest makes no instances to share it among
        "context": ["q"] * 80,
        "items": [[1]] * 80,
        "clicks": [[1], [0]] * 40,
        "day": [i // 2 % 10 for i in range(80)],
    }
    HALF = fc.Lists({"context": ["q"] * 2, "items": [[1], [2]], "probability": [0.5, 0.5]})

    def ask(self, **options):
        log = fc.read_log(self.LOG, period="day")
        return fc.evaluate(log, self.HALF, metrics="clicks@1", **options).to_dicts()[0]

    @staticmethod
    def middles(row):
        """How far the middles of the intervals are from what they are of: chance is even."""
        names = ("change_low", "change_high")
        change = sum(row[name] for name in names) / 2 - row["change"]
        wide = (row["change_high"] - row["change_low"]) / 2
        return change, wide

    def test_a_weighted_estimate_can_only_be_too_low(self):
        row = self.ask(estimators="ip")
        assert (row["value"], row["borrowed"], row["margin"]) == (0.25, 0.0, 0.25)
        assert self.middles(row)[0] == pytest.approx(0.25 / 2)
        assert row["high"] - row["value"] == pytest.approx(row["value"] - row["low"] + 0.25)
        # Every day is as good as every other, and all cells are large: no chance but of clicks.
        assert self.middles(row)[1] >= 0.25 / 2
        assert row["lift_high"] - row["lift_low"] >= 0.25 / 0.5
