"""If this fails, the first lines of an answer mislead, or do not fit a terminal."""

import re
from itertools import product

import numpy as np
import pytest

import foreclick as fc
from foreclick.results.text import WIDTH

SHOES = [[1, 2, 3], [2, 1, 3], [1, 3, 2], [3, 2, 1]]


def log(days=12, click=(0.6, 0.3, 0.1), seed=3, **columns):
    """Queries whose item 2 is the best, by chance at every position."""
    rng = np.random.default_rng(seed)
    rows = [
        (query, items, day)
        for day, query, items in product(range(days), ("shoes", "boots"), SHOES)
        for _ in range(20)
    ]
    rates = {1: 0.2, 2: 0.8, 3: 0.1}
    clicks = [
        [int(rng.random() < rates[i] * p) for i, p in zip(items, click, strict=True)]
        for _, items, _ in rows
    ]
    return {
        "context": [row[0] for row in rows],
        "items": [row[1] for row in rows],
        "clicks": clicks,
        "day": [row[2] for row in rows],
        **columns,
    }


def ranking(*items):
    return {"context": ["shoes", "boots"], "items": [list(items)] * 2}


@pytest.fixture(scope="module")
def tally():
    return fc.tally(fc.read_log(log(), period="day"))


def lines(text):
    return text.splitlines()


def wide(text):
    """Lines beyond 80 columns that have a blank to break at."""
    return [line for line in lines(text) if len(line) > WIDTH and " " in line.strip()]


class TestEvaluation:
    def test_the_answer_comes_first(self, tally):
        e = fc.evaluate(tally, ranking(2, 1, 3), metrics=["clicks@3", "dcg@3"])
        told = lines(str(e))
        assert told[0].startswith("Candidate against production, by ladder (1,920 records")
        assert told[2].split()[:2] == ["clicks@3", "better"]
        assert told[3].split()[:2] == ["dcg@3", "better"]
        assert f"{100 * e['lift'][0]:+.1f}%" in told[2]
        seen = "The log saw all that the candidate would show (same item, any position)."
        assert seen in told
        assert any(
            line.startswith("The cautious check (same item, same position) agrees: +")
            for line in told
        )
        assert not wide(str(e))

    def test_who_saw_next_to_nothing_shows_no_number(self):
        table = log()
        table["items"][0] = [7, 8, 9]
        poor = fc.evaluate(
            fc.read_log(table),
            fc.Lists(
                {
                    "context": ["shoes", "shoes", "boots"],
                    "items": [[7, 8, 9], [31, 32, 33], [31, 32, 33]],
                    "probability": [0.01, 0.99, 1.0],
                }
            ),
            metrics="clicks@3",
            estimators=["ip", "list"],
        )
        assert poor["value"][0] is not None
        assert "%" not in lines(str(poor))[2].split("saw")[0]
        assert "no number: the log saw 0.5% of what the candidate would show" in str(poor)
        assert str(poor.table).count("–") >= 8

    def test_segments_have_a_line_each_and_at_most_twenty(self):
        site = [f"site {i % 30:02}" for i in range(1920)]
        told = fc.read_log(log(site=site), period="day", segments="site")
        text = str(
            fc.evaluate(told, ranking(2, 1, 3), metrics="clicks@3", by="site", missing="drop")
        )
        assert sum(line.startswith("  clicks@3 site") for line in lines(text)) == 20
        assert "The first 20 of 30; the table has them all." in text
        assert not wide(text)

    def test_the_same_as_production_is_no_difference(self):
        table = {"context": ["q"] * 40, "items": [[1, 2]] * 40, "clicks": [[1, 0], [0, 0]] * 20}
        table["day"] = [i // 4 for i in range(40)]
        e = fc.evaluate(
            fc.read_log(table, period="day"),
            {"context": ["q"], "items": [[1, 2]]},
            metrics="clicks@2",
            estimators=["ip", "rctr"],
        )
        assert e["verdict"] == ["no difference", "cannot tell"]
        assert "e-" not in str(e)
        assert "e-" not in str(e.table)
        assert "times as many" not in str(e)

    def test_an_optimised_policy_says_so_on_its_log(self, tally, tmp_path):
        best = fc.optimize(tally, metrics="clicks@3")
        best.write(tmp_path / "policy.parquet")
        read = fc.Lists(tmp_path / "policy.parquet")
        for policy in (best.policy, read):
            e = fc.evaluate(tally, policy, metrics="clicks@3", estimators="ip", confidence=None)
            assert any("`optimize` chose this policy" in note for note in e.notes)
        plain = fc.evaluate(tally, ranking(2, 1, 3), metrics="clicks@3", confidence=None)
        assert not any("optimize" in note for note in plain.notes)
        assert not any("optimize" in note for note in best.notes)
        assert str(best).startswith("The policy chosen by ladder")


class TestOthers:
    def test_compare_names_its_metric_and_estimator_everywhere(self, tally):
        c = fc.compare(tally, {"new": ranking(2, 1, 3), "old": ranking(1, 3, 2)})
        title = f"{c['metric'][0]} by {c['estimator'][0]} (95% confidence for all pairs)"
        assert title in str(c)
        assert title in str(c.table)
        assert title in c.to_html()
        assert c.to_csv().startswith("estimator,metric,candidate,")
        told = lines(str(c))
        assert told[2].split()[0] == "new"  # the best first
        assert "new is better than old." in told
        assert not wide(str(c))

    def test_a_backtest_never_crowns_who_cannot_see_a_change(self):
        """Where nothing depends on the items, `rctr` is nearest, and still does not win."""
        rng = np.random.default_rng(3)
        table = log(days=8)
        table["clicks"] = (rng.random((len(table["day"]), 3)) < 0.3).astype(int).tolist()
        paper = ("list", "ip", "item", "pbm", "rctr")
        b = fc.backtest(fc.read_log(table, period="day"), metrics="clicks@3", estimators=paper)
        rmse = dict(zip(b["estimator"], b["rmse"], strict=True))
        assert min(rmse, key=lambda name: rmse[name]) == "rctr"
        assert any("no estimator predicted better than 'nothing changes'" in n for n in b.notes)
        assert not any("rctr predicted best" in note for note in b.notes)
        assert "the one to beat" in str(b)
        assert not wide(str(b))


# --- an evaluation as trackers of experiments log it ----------------------------------------------


LOG = {
    "context": ["q"] * 40,
    "items": [[1, 2], [2, 1]] * 20,
    "clicks": [[1, 0], [0, 0]] * 20,
    "price": [[2.5, 0], [0, 0]] * 20,
    "land": ["NL", "NL", "B/E", "B/E"] * 10,
}
ROWS = fc.read_log(LOG, segments=["land"], rewards={"price": "price"})
BEST = {"context": ["q"], "items": [[1, 2]]}


def test_keys_are_what_mlflow_takes_and_values_are_numbers():
    e = fc.evaluate(
        ROWS,
        BEST,
        metrics=["price@1/clicks@1", "dcg@2"],
        by="land",
        estimators=[fc.Weighted("ip", [1, 5.5]), "ladder"],
    )
    found = e.metrics()
    assert all(re.fullmatch(r"[\w .\-/]+", key) for key in found)
    assert all(type(value) is float for value in found.values())
    assert "dcg_at_2/clip_inf/land_B_E/lift" in found
    assert "dcg_at_2/ip/clip_5.5/land_B_E/lift" in found
    assert any(key.startswith("price_at_1_per_clicks_at_1/") for key in found)


# --- verdicts by segment --------------------------------------------------------------------------


EQUAL = {  # two segments with as many records each, one up and one down
    "context": ["q"] * 400,
    "items": [[1, 2], [2, 1]] * 200,
    "clicks": [[0, 0], [1, 0]] * 100 + [[1, 0], [0, 0]] * 100,
    "seg": ["a"] * 200 + ["b"] * 200,
}
SWAPPED = {"context": ["q"], "items": [[2, 1]]}


def test_no_segment_speaks_for_all_of_them():
    log = fc.read_log(EQUAL, segments="seg")
    found = fc.evaluate(log, SWAPPED, metrics="clicks@1", estimators="ip", by="seg")
    assert found["verdict"] == ["better", "worse"]
    assert found.notes[0] == (
        "clicks@1 by ip: better in a; worse in b. The verdicts allow for 2 segments at once; "
        "each interval holds on its own."
    )


def test_many_segments_that_are_open_are_counted():
    table = EQUAL | {"seg": [f"s{i % 20}" for i in range(400)]}
    log = fc.read_log(table, segments="seg")
    found = fc.evaluate(log, SWAPPED, metrics="clicks@1", estimators="ip", by="seg")
    assert len(found) == 20
    assert " of 20. The verdicts allow for 20 segments at once" in found.notes[0]


@pytest.mark.parametrize("segments", [1, 20])
def test_a_verdict_of_one_of_many_asks_for_more(segments):
    """A change of 2.4 standard errors decides alone, and not among twenty."""
    rng = np.random.default_rng(1)
    n, rates = 40_000, (0.5, 0.5125)
    shown = rng.integers(0, 2, n)
    clicked = rng.random(n) < np.array(rates)[shown]
    table = {
        "context": ["q"] * n,
        "items": np.where(shown[:, None] == 1, [[2, 1]], [[1, 2]]).tolist(),
        "clicks": np.stack([clicked, np.zeros(n)], axis=1).astype(int).tolist(),
        "seg": ["all"] * n,
    }
    for i in range(1, segments):  # each with a few records more, so that there are many
        for name, value in (("context", "q"), ("items", [2, 1]), ("clicks", [0, 0])):
            table[name] += [value] * 2
        table["items"][-1] = [1, 2]
        table["seg"] += [f"s{i}"] * 2
    log = fc.read_log(table, segments="seg")
    row = fc.evaluate(log, SWAPPED, metrics="clicks@1", estimators="ip", by="seg").to_dicts()[0]
    assert row["seg"] == "all"
    errors = 1.96 * row["change"] / (row["change_high"] - row["change"])
    assert 2 < errors < 3
    assert row["verdict"] == ("better" if segments == 1 else "cannot tell")
