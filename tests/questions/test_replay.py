"""If this fails, a past A/B test is predicted from the arm it is compared with."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet
import pytest

import foreclick as fc
from foreclick.cli import main
from foreclick.errors import SourceError
from foreclick.questions.replay import Replay
from foreclick.simulate.shop import Shop, draw


def arms(control, new, **columns):
    """A log of one context from (list, clicks, count) of each arm."""
    rows = [(a, *row) for a, part in (("control", control), ("new", new)) for row in part]
    n = [count for *_, count in rows]
    return pa.table(
        {
            "context": ["q"] * sum(n),
            "items": [row[1] for row, k in zip(rows, n, strict=True) for _ in range(k)],
            "clicks": [row[2] for row, k in zip(rows, n, strict=True) for _ in range(k)],
            "variant": [row[0] for row, k in zip(rows, n, strict=True) for _ in range(k)],
            **columns,
        }
    )


AB, BA = [1, 2], [2, 1]
CONTROL = [(AB, [1, 0], 20), (AB, [0, 0], 80), (BA, [1, 0], 40), (BA, [0, 0], 60)]
NEW = [(BA, [1, 0], 45), (BA, [0, 0], 55)]


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
    few, many = (
        [(a, clicks, n) for a in (AB, BA) for clicks, n in (([1, 0], k), ([0, 0], 100 - k))]
        for k in (30, 60)
    )
    for new, measured in ((few, 0), (many, 1)):
        found = fc.replay(arms(few, new), metrics="clicks@2")
        for row in found.rows:
            assert row["predicted"] == pytest.approx(0, abs=1e-12)
            assert row["measured"] == pytest.approx(measured, abs=1e-12)
            assert row["difference_se"] == pytest.approx(row["measured_se"], rel=1e-6)
            assert row["verdict"] not in ("better", "worse")


def test_what_days_do_to_both_arms_cancels():
    """On day d, both arms are clicked d times as often: their ratio has no error at all."""
    days = range(1, 7)
    parts = []
    for day in days:
        day_arms = arms(
            [(AB, [1, 0], 10 * day), (AB, [0, 0], 100 - 10 * day)],
            [(AB, [1, 0], 15 * day), (AB, [0, 0], 100 - 15 * day)],
        )
        parts.append(day_arms.append_column("day", pa.array([day] * 200)))
    log = fc.read_log(pa.concat_tables(parts), period="day", segments="variant")
    row = one(fc.replay(log, metrics="clicks@1"), estimator="ip")
    assert row["measured"] == pytest.approx(0.5)
    assert row["measured_se"] == pytest.approx(0, abs=1e-8)
    assert row["predicted"] == pytest.approx(0, abs=1e-8)
    assert row["difference_se"] == pytest.approx(0, abs=1e-8)
    assert not row["holds"]  # the same lists, and yet half as many clicks more: another traffic


@pytest.fixture(scope="module")
def drawn():
    return draw(Shop(records=24_000, queries=300, days=10, test="worse", candidates=()), seed=5)


@pytest.fixture(scope="module")
def log(drawn):
    roles: dict[str, Any] = {
        "context": "query",
        "period": "day",
        "unit": "user",
        "segments": "variant",
    }
    return fc.tally(fc.read_log(drawn.log, **roles))


@pytest.fixture(scope="module")
def found(log):
    return fc.replay(log, metrics="clicks@3")


class TestShop:
    """A long tail of queries, other models, users and days: the truth is known."""

    def test_both_directions_agree_with_what_was_measured(self, drawn, found):
        truth = drawn.lift("treatment", "clicks@3", "control")
        for forward, lift in ((True, truth), (False, 1 / (1 + truth) - 1)):
            row = one(found, estimator="ladder", forward=forward)
            assert row["predicted_low"] <= lift <= row["predicted_high"]
            assert row["measured_low"] <= lift <= row["measured_high"]
            assert row["holds"]

    def test_verdicts_allow_for_errors_of_the_past(self, log, found):
        candidate = fc.Observed(fc.read_log(draw_arm(log), clicks=None))
        asked: dict[str, Any] = {"metrics": "clicks@3", "missing": "drop"}
        before = fc.evaluate(log, candidate, **asked)
        assert before["verdict"][0] == "worse"
        rows = [row | {"predicted": row["measured"] + 0.9} for row in found.to_dicts()]
        past = Replay(tuple(rows), found.columns)
        after = fc.evaluate(log, candidate, confidence=fc.Confidence(past=past), **asked)
        assert after["verdict"][0] == "cannot tell"
        assert "in past A/B tests 'ladder' was off by" in after.verdicts[0].because
        assert (
            fc.evaluate(log, candidate, confidence=fc.Confidence(past=found), **asked)["lift"]
            == before["lift"]
        )

    def test_of_other_estimators_nothing_is_known(self, log, found):
        with pytest.raises(SourceError, match="the replay has no test of 'clicks@3' by 'item'"):
            fc.evaluate(
                log,
                log,
                confidence=fc.Confidence(past=found),
                estimators="item",
                metrics="clicks@3",
            )


def test_of_the_command_line(tmp_path, capsys):
    path = str(tmp_path / "log.parquet")
    pa.parquet.write_table(arms(CONTROL, NEW), path)
    assert main(["replay", path, "-m", "clicks@1", "--quiet"]) == 0
    found = fc.replay(arms(CONTROL, NEW), metrics="clicks@1")
    assert str(found).splitlines()[0] in capsys.readouterr().out
    new, past = (str(tmp_path / f"{name}.parquet") for name in ("new", "past"))
    fc.tally(fc.read_log(arms(CONTROL, NEW), segments="variant")).write_parquet(past)
    pa.parquet.write_table(pa.table({"context": ["q"], "items": [BA]}), new)
    assert main(["gate", path, new, "--replay", past, "-m", "clicks@1", "--quiet"]) in (0, 1, 3)
    assert "clicks@1" in capsys.readouterr().out


def draw_arm(log):
    """The lists of the tested arm."""
    table = log.to_arrow()
    table = table.filter(pa.compute.equal(table["variant"], "treatment"))
    items = np.stack([table[f"item_{k}"].to_numpy() for k in range(1, 11)], axis=1)
    return pa.table({"context": table["context"], "items": items.tolist()})


class TestSeveralTests:
    @pytest.fixture
    def log(self):
        some = [arms(CONTROL, NEW), arms(NEW, CONTROL), arms(CONTROL, CONTROL)]
        named = [
            part.append_column("test", pa.array([name] * len(part)))
            for part, name in zip(some, "abc", strict=True)
        ]
        return pa.concat_tables(named)

    def test_replays_add_up(self, log):
        together = fc.replay(log, experiment="test", metrics="clicks@1")
        parts = [
            fc.replay(
                log.filter(pa.compute.equal(log["test"], name)),
                experiment="test",
                metrics="clicks@1",
            )
            for name in "abc"
        ]
        added = parts[0] + parts[1] + parts[2]
        assert added.rows == together.rows
        assert added.summary.rows == together.summary.rows
        assert added.summary["tests"] == [3, 3]

    def test_a_test_with_one_arm_is_left_out_and_said(self, log):
        lone = log.filter(pa.compute.equal(log["variant"], "new")).slice(0, 50)
        lone = lone.set_column(lone.column_names.index("test"), "test", pa.array(["lone"] * 50))
        found = fc.replay(pa.concat_tables([log, lone]), experiment="test", metrics="clicks@1")
        assert found.notes[0] == "Left out: 1 test with one arm, lone."


def with_column(table, name, values):
    at = table.schema.get_field_index(name)
    column = pa.array(values)
    return table.append_column(name, column) if at < 0 else table.set_column(at, name, column)


def odd(kind):
    """A log about which something is odd."""
    log = arms(CONTROL, NEW)
    variant = log["variant"].to_pylist()
    rare = [v if v == "new" or i % 3 else "r" for i, v in enumerate(variant * 5)]
    few = [f"q{i % (4 if v == 'new' else 8)}" for i, v in enumerate(variant)]
    uneven = [[(AB, [1, 0], c), (AB, [0, 0], n)] for c, n in ((5300, 4700), (4300, 4900))]
    return {
        "a sample-ratio mismatch": lambda: arms(*uneven),
        "arms on other days": lambda: with_column(log, "day", [1, 2] * 100 + [2, 3] * 50),
        "an arm that grows": lambda: with_column(
            log, "day", [1] * 100 + [2] * 100 + [1] * 20 + [2] * 80
        ),
        "an arm with other traffic": lambda: with_column(
            pa.concat_tables([log] * 5), "context", ["r" if v == "r" else "q" for v in rare]
        ),
        "arms without a common context": lambda: with_column(log, "context", variant),
        "arms with few common contexts": lambda: with_column(log, "context", few),
    }[kind]()


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("a sample-ratio mismatch", "'new' has 47.92% of the records"),
        ("arms on other days", "2 days have one of them alone (1, 3)"),
        ("an arm that grows", "the share of 'new' changed from day to day"),
        ("an arm with other traffic", "the arms have other traffic: 'q' is 100"),
        ("arms without a common context", "not predicted, because no context is in both arms"),
        ("arms with few common contexts", "50% of the records of 'control' are in contexts"),
    ],
)
def test_what_is_odd_is_said(kind, said):
    log = odd(kind)
    period = "day" if "day" in log.column_names else None
    found = fc.replay(fc.read_log(log, segments="variant", period=period), metrics="clicks@1")
    assert any(said in note for note in found.notes)
    if kind == "arms without a common context":
        assert found["predicted"] == [None, None]
        assert found.headline.title == "No A/B test could be predicted (clicks@1)"
    if "few" in kind:
        assert found["shared"] == [0.5, 0.5]
