"""Parts of an answer: their values by hand, what they add up to, and how much they vary."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.estimate.work import estimate
from foreclick.estimators import parse_estimators
from foreclick.metrics import parse_any
from foreclick.question import Question
from tests.truth import oracle, parts
from tests.truth.oracle import Record


def ask(table, candidate, models, **options):
    tally = fc.tally(fc.read_log(table, segments=["land"]))
    question = Question([candidate], parse_estimators(models), parse_any("clicks@2"), **options)
    return estimate(tally, question)


TABLE: dict[str, list[Any]] = {
    "context": ["q"] * 4,
    "items": [["a"], ["a"], ["b"], ["b"]],
    "clicks": [[1], [0], [0], [0]],
    "land": ["NL", "BE", "NL", "BE"],
}


def test_a_part_is_what_its_records_stand_for():
    """W = 2 and r = ½ of a, so V = ½; its records stand for 2 (1 − ½) + ½ and 2 (0 − ½) + ½."""
    found = ask(TABLE, fc.Ranking({"context": ["q"], "items": [["a"]]}), ["ip"], by=("land",))
    values = {e.stratum.segment["land"]: e.value for e in found.of_candidate(0)}
    assert values == pytest.approx({"NL": (1.5 + 0.5) / 2, "BE": (-0.5 + 0.5) / 2})
    (whole,) = found.of_candidate(0, whole=True)
    assert whole.value == pytest.approx(0.5)
    records = [
        Record("q", tuple(items), tuple(map(float, clicks)))
        for items, clicks in zip(TABLE["items"], TABLE["clicks"], strict=True)
    ]
    own = parts.of_cells("ip", records, {"q": {("a",): 1.0}}, oracle.clicks_at(2))
    assert [each.worth for each in own] == pytest.approx([1.5, -0.5, 0.5, 0.5])


@pytest.mark.parametrize("models", [["ip", "list", "pbm"], ["ladder", "ladder-ip"]])
@pytest.mark.parametrize("named", [False, True], ids=["by a column", "named contexts"])
def test_parts_add_up_to_the_whole(models, named):
    rng = np.random.default_rng(3)
    shown = [[1, 2], [2, 1], [3, 1], [1, 3]]
    table = {
        "context": [f"q{i}" for i in rng.integers(0, 4, 80)],
        "items": [shown[i] for i in rng.integers(0, 4, 80)],
        "clicks": rng.integers(0, 2, (80, 2)).tolist(),
        "land": [["NL", "BE", None][i] for i in rng.integers(0, 3, 80)],
    }
    contexts = [f"q{i}" for i in range(4)]
    candidate = fc.Ranking({"context": contexts, "items": [[3, 1], [2, 1], [1, 3], [3, 2]]})
    split = {"contexts": pa.array(["q2", "q0"])} if named else {"by": ("land",)}
    alone = ask(table, candidate, models).of_candidate(0)
    found = ask(table, candidate, models, **split)
    each = found.of_candidate(0)
    for before, whole in zip(alone, found.of_candidate(0, whole=True), strict=True):
        mine = [e for e in each if e.estimator == whole.estimator]
        assert len(mine) == 3
        assert sum(e.stratum.records for e in mine) == whole.stratum.records == 80
        for name in ("value", "production"):
            total = sum(getattr(e, name) * e.stratum.records for e in mine)
            assert total / 80 == pytest.approx(getattr(whole, name), rel=1e-9)
        assert whole.value == pytest.approx(before.value, rel=1e-9)


def test_what_cells_hide_takes_nothing_from_the_variance_of_a_part():
    """All that varies is in one segment; that of the other was below 0."""
    table = {
        "context": ["q"] * 8 + ["r"] * 40,
        "items": [["a"]] * 48,
        "clicks": [[1]] + [[0]] * 47,
        "land": ["NL"] + ["BE"] * 47,
    }
    candidate = fc.Ranking({"context": ["q", "r"], "items": [["a"]] * 2})
    found = ask(table, candidate, ["ip", "item"], by=("land",), clusters=("record",))
    for e in found.of_candidate(0):
        assert np.linalg.eigvalsh(e.hidden).min() >= -1e-18
        assert e.covariance[0, 0] >= 0
    for e in found.of_candidate(0, whole=True):
        assert e.hidden[0, 0] < 0
        assert e.covariance[0, 0] > 0
