"""If this fails, a past A/B test is predicted from the arm it is compared with."""

import math
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet
import pytest

import foreclick as fc
from foreclick.cli import main
from foreclick.errors import SourceError
from foreclick.estimation.covariance import minus, variance_of
from foreclick.questions.replay import Replay
from foreclick.simulate.shop import Shop
from tests.questions.scenes import clicked, counted, joined, shop_of


def arms(control, new, **columns):
    """A log of one context from (list, clicks, count) of each arm."""
    both = (("control", control), ("new", new))
    return joined(*(counted(*rows, variant=arm, **columns) for arm, rows in both))


AB, BA = [1, 2], [2, 1]
CONTROL = clicked(AB, 20) + clicked(BA, 40)
NEW = clicked(BA, 45)


def one(found, **of):
    (row,) = [r for r in found.rows if all(r[key] == value for key, value in of.items())]
    return row


def test_a_test_is_predicted_by_the_control_and_measured_by_the_arm():
    found = fc.replay(arms(CONTROL, NEW), metrics="clicks@1")
    row = one(found, estimator="ip")
    assert (row["log"], row["arm"], row["forward"]) == ("control", "new", True)
    assert row["predicted"] == pytest.approx(0.4 / 0.3 - 1)  # 2 is clicked 40 times of 100
    assert row["measured"] == pytest.approx(0.45 / 0.3 - 1)
    assert row["difference"] == pytest.approx(row["predicted"] - row["measured"])
    # The measured interval is that of a ratio of means.
    control, new = 0.3 * 0.7 / 199, 0.45 * 0.55 / 99
    variance = new / 0.3**2 + control * 0.45**2 / 0.3**4
    assert row["measured_se"] == pytest.approx(math.sqrt(variance))
    assert row["outcome"] == "better"
    # L̂ − M = (V̂(h) − V(new)) / V(control): with 100 records each, to 0.3 of the variance.
    clicks = (0.4 * 0.6 / 100 + 0.45 * 0.55 / 100) / 0.3**2
    assert row["difference_se"] ** 2 == pytest.approx(clicks, rel=0.1)
    assert row["holds"]
    first = str(found).splitlines()[0]
    assert first.startswith("Of 1 A/B test, ladder would have called 1: 1 right, 0 wrong")


def test_an_arm_that_shows_the_same_is_predicted_to_earn_the_same():
    """So the prediction has no error, and the difference has that of what was measured."""
    few, many = (clicked(AB, k) + clicked(BA, k) for k in (30, 60))
    for new, measured in ((few, 0), (many, 1)):
        found = fc.replay(arms(few, new), metrics="clicks@2")
        for row in found.rows:
            assert row["predicted"] == pytest.approx(0, abs=1e-12)
            assert row["measured"] == pytest.approx(measured, abs=1e-12)
            assert row["difference_se"] == pytest.approx(row["measured_se"], rel=1e-6)
            assert row["verdict"] not in ("better", "worse")


def test_what_days_do_to_both_arms_cancels():
    """On day d, both arms are clicked d times as often: their ratio has no error at all."""
    parts = (arms(clicked(AB, 10 * d), clicked(AB, 15 * d), day=d) for d in range(1, 7))
    log = fc.read_log(joined(*parts), period="day", segments="variant")
    row = one(fc.replay(log, metrics="clicks@1"), estimator="ip")
    assert row["measured"] == pytest.approx(0.5)
    assert row["measured_se"] == pytest.approx(0, abs=1e-8)
    assert row["predicted"] == pytest.approx(0, abs=1e-8)
    assert row["difference_se"] == pytest.approx(0, abs=1e-8)
    assert not row["holds"]  # the same lists, and yet half as many clicks more: another traffic


@pytest.fixture(scope="module")
def shop():
    like = Shop(records=24_000, queries=300, days=10, test="worse", candidates=())
    drawn, log, _ = shop_of(like, 5, segments="variant")
    return drawn, log, fc.replay(log, metrics="clicks@3")


class TestShop:
    """A long tail of queries, other models, users and days: the truth is known."""

    def test_both_directions_agree_with_what_was_measured(self, shop):
        drawn, _, found = shop
        truth = drawn.lift("treatment", "clicks@3", "control")
        for forward, lift in ((True, truth), (False, 1 / (1 + truth) - 1)):
            row = one(found, estimator="ladder", forward=forward)
            assert row["predicted_low"] <= lift <= row["predicted_high"]
            assert row["measured_low"] <= lift <= row["measured_high"]
            assert row["holds"]

    def test_verdicts_allow_for_errors_of_the_past(self, shop):
        drawn, log, found = shop
        arm = drawn.log.filter(pa.compute.equal(drawn.log["variant"], "treatment"))
        candidate = fc.Observed(fc.read_log(arm, context="query", clicks=None))

        def ask(past=None):
            sure = fc.Confidence(past=past)
            asked: Any = {"metrics": "clicks@3", "missing": "drop", "confidence": sure}
            return fc.evaluate(log, candidate, **asked)

        assert ask()["verdict"][0] == "worse"
        rows = [row | {"predicted": row["measured"] + 0.9} for row in found.to_dicts()]
        after = ask(Replay(tuple(rows), found.columns))
        assert after["verdict"][0] == "cannot tell"
        assert "in past A/B tests 'ladder' was off by" in after.verdicts[0].because
        assert ask(found)["lift"] == ask()["lift"]

    def test_of_other_estimators_nothing_is_known(self, shop):
        _, log, found = shop
        asked: Any = {"estimators": "item", "metrics": "clicks@3"}
        with pytest.raises(SourceError, match="the replay has no test of 'clicks@3' by 'item'"):
            fc.evaluate(log, log, confidence=fc.Confidence(past=found), **asked)


def test_of_the_command_line(tmp_path, capsys):
    path = str(tmp_path / "log.parquet")
    pa.parquet.write_table(pa.table(arms(CONTROL, NEW)), path)
    assert main(["replay", path, "-m", "clicks@1", "--quiet"]) == 0
    found = fc.replay(arms(CONTROL, NEW), metrics="clicks@1")
    assert str(found).splitlines()[0] in capsys.readouterr().out
    new, past = (str(tmp_path / f"{name}.parquet") for name in ("new", "past"))
    pa.parquet.write_table(pa.table({"context": ["q"], "items": [BA]}), new)
    for clicks, code in ((45, 0), (90, 3)):  # about as predicted, and far from it
        tested = fc.read_log(arms(CONTROL, clicked(BA, clicks)), segments="variant")
        fc.tally(tested).write_parquet(past)
        assert main(["gate", path, new, "--replay", past, "-m", "clicks@1", "--quiet"]) == code


class TestSeveralTests:
    PARTS = (
        arms(CONTROL, NEW, test="a"),
        arms(NEW, CONTROL, test="b"),
        arms(CONTROL, CONTROL, test="c"),
    )

    @staticmethod
    def replay(*parts):
        return fc.replay(joined(*parts), experiment="test", metrics="clicks@1")

    def test_replays_add_up(self):
        together = self.replay(*self.PARTS)
        one, two, three = map(self.replay, self.PARTS)
        added = one + two + three
        assert added.rows == together.rows
        assert added.summary.rows == together.summary.rows
        assert added.summary["tests"] == [3, 3]

    def test_a_test_with_one_arm_is_left_out_and_said(self):
        found = self.replay(*self.PARTS, counted(*NEW, variant="new", test="lone"))
        assert found.notes[0] == "Left out: 1 test with one arm, lone."


LOG = arms(CONTROL, NEW)
UNEVEN = arms(clicked(AB, 5300, 10_000), clicked(AB, 4300, 9200))
FIVE = joined(*[LOG] * 5)
RARE = ["q" if arm == "new" or i % 3 else "r" for i, arm in enumerate(FIVE["variant"])]
FEW = [f"q{i % (4 if arm == 'new' else 8)}" for i, arm in enumerate(LOG["variant"])]
APART, GROWING = [1, 2] * 100 + [2, 3] * 50, [1] * 100 + [2] * 100 + [1] * 20 + [2] * 80
ODD: dict[str, Any] = {
    "'new' has 47.92% of the records": (UNEVEN, 1),
    "2 days have one of them alone (1, 3)": (LOG | {"day": APART}, 1),
    "the share of 'new' changed from day to day": (LOG | {"day": GROWING}, 1),
    "the arms have other traffic: 'q' is 100": (FIVE | {"context": RARE}, 0.665),
    "not predicted, because no context is in both arms": (LOG | {"context": LOG["variant"]}, 0),
    "50% of the records of 'control' are in contexts": (LOG | {"context": FEW}, 0.5),
}


@pytest.mark.parametrize("said", ODD)
def test_what_is_odd_is_said(said):
    log, shared = ODD[said]
    period = "day" if "day" in log else None
    found = fc.replay(fc.read_log(log, segments="variant", period=period), metrics="clicks@1")
    assert any(said in note for note in found.notes)
    assert min(found["shared"]) == pytest.approx(shared)
    assert (None in found["predicted"]) == (not shared)
    nothing = found.headline.title == "No A/B test could be predicted (clicks@1)"
    assert nothing == (not shared)


def test_what_both_errors_have_of_a_cluster_is_together():
    """A day of one alone counts by itself; the variance is that of a sum of independent days."""
    one: Any = {"period": {1: 3.0, 2: 1.0}}
    other: Any = {"period": {2: 4.0, 5: 2.0}}
    found = minus(one, other)
    assert found == {"period": {1: 3.0, 2: -3.0, 5: -2.0}}
    assert variance_of(found) == pytest.approx((9 + 9 + 4) * 3 / 2)
