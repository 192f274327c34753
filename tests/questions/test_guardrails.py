"""Metrics that must not fall, judged together with the one that should rise."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick.cli import main
from foreclick.questions.verdicts import BETTER, BROKEN, HELD, UNKNOWN, WORSE, Verdict, guarded


def shop(orders, *, records=8000, seed=3):
    """List [2, 1] has twice the clicks; its orders are as given, those of [1, 2] are one half."""
    rng = np.random.default_rng(seed)
    shown = rng.integers(0, 2, records)
    clicks = rng.random(records) < np.array([0.3, 0.6])[shown]
    bought = rng.random(records) < np.array([0.5, orders])[shown]
    none = np.zeros(records)
    return {
        "context": ["q"] * records,
        "items": np.where(shown[:, None] == 1, [[2, 1]], [[1, 2]]).tolist(),
        "clicks": np.stack([clicks, none], axis=1).astype(int).tolist(),
        "bought": np.stack([bought, none], axis=1).astype(int).tolist(),
        "day": rng.integers(0, 10, records),
    }


def ask(table, **options):
    log = fc.read_log(table, rewards={"orders": "bought"}, period="day")
    asked = {"metrics": "clicks@1", "estimators": "ip"} | options
    return fc.evaluate(log, {"context": ["q"], "items": [[2, 1]]}, **asked)


@pytest.mark.parametrize(
    ("orders", "share", "words"),
    [
        (0.5, 0.2, ["better", "held"]),
        (0.5, 0.001, ["cannot tell", "cannot tell"]),
        (0.3, 0.01, ["worse", "broken"]),
    ],
)
def test_better_needs_all_of_them_to_hold(orders, share, words):
    found = ask(shop(orders), guardrails={"orders@1": share})
    assert found["metric"] == ["clicks@1", "orders@1"]
    assert found["verdict"] == words
    assert "guardrail" in found.notes[0]


def test_the_verdicts_hold_together():
    """A change that alone is just better is open beside a guardrail."""
    clicked = [1] * 476 + [0] * 524 + [1] * 523 + [0] * 477
    table = {
        "context": ["q"] * 2000,
        "items": [[1, 2]] * 1000 + [[2, 1]] * 1000,
        "clicks": [[click, 0] for click in clicked],
        "bought": [[1, 0], [0, 0]] * 1000,
        "day": [1] * 2000,
    }
    alone = ask(table, confidence=fc.Confidence(clusters="record"))
    assert alone["verdict"] == ["better"]
    errors = 1.96 * alone["change"][0] / (alone["change_high"][0] - alone["change"][0])
    assert 1.96 < errors < 2.24  # the reach at 97.5 %
    found = ask(table, confidence=fc.Confidence(clusters="record"), guardrails={"orders@1": 0.9})
    assert found["verdict"] == ["cannot tell", "held"]


def test_a_gate_closes_where_a_guardrail_breaks(tmp_path, capsys):
    pq.write_table(pa.table(shop(0.3)), tmp_path / "log.parquet")
    new = pa.table({"context": ["q"], "items": [[2, 1]]})
    pq.write_table(new, tmp_path / "new.parquet")
    words = ["gate", str(tmp_path / "log.parquet"), str(tmp_path / "new.parquet")]
    words += ["--period", "day", "--reward", "orders=bought", "--metric", "clicks@1"]
    assert main(words) == 0
    assert main([*words, "--guardrail", "orders@1=1%"]) == 1
    assert "a guardrail breaks: orders@1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("word", "guards", "expected"),
    [
        (BETTER, [], BETTER),
        (BETTER, [HELD, HELD], BETTER),
        (BETTER, [HELD, UNKNOWN], UNKNOWN),
        (BETTER, [BROKEN, UNKNOWN], WORSE),
        (UNKNOWN, [BROKEN], WORSE),
        (UNKNOWN, [HELD], UNKNOWN),
        (WORSE, [HELD], WORSE),
    ],
)
def test_rules(word, guards, expected):
    assert guarded(Verdict(word, "."), [Verdict(g, ".") for g in guards]).word == expected
