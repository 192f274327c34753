"""What would take the machine with it is refused; what would fill the screen is summed up."""

from __future__ import annotations

import pytest

import foreclick as fc
from foreclick.cli import main
from foreclick.errors import ModelError, OptionError
from foreclick.learn import effort
from foreclick.options import AT_ONCE, check
from foreclick.progress import working


def test_threads_and_processes_are_bounded(tmp_path, capsys):
    for name in ("threads", "workers"):
        check(**{name: AT_ONCE})
        for wrong in (0, AT_ONCE + 1, 100_000):
            with pytest.raises(OptionError, match=f"a whole number from 1 to {AT_ONCE}"):
                check(**{name: wrong})
    assert main(["check", "log.parquet", "--threads", "100000"]) == 2
    assert "threads=100000" in capsys.readouterr().err


def test_check_sums_up_periods_that_are_too_many_to_print():
    count = 2_000
    log = {
        "context": [1] * count,
        "items": [[1, 2], [2, 1]] * (count // 2),
        "clicks": [[1, 0]] * count,
        "step": range(count),
    }
    found = fc.check(fc.read_log(log, period="step"))
    assert len(str(found).splitlines()) < 25
    assert len(found) < 25
    facts = {row["fact"]: row["found"] for row in found if row["section"] == "periods"}
    assert facts == {"from 0 to 1999": 2_000, "records in the median period": 1.0}
    assert any("2,000 periods" in note for note in found.notes)


def test_millions_of_periods_are_refused_before_the_work():
    count = 20_001
    log = {
        "context": [1] * count,
        "items": [[1, 2]] * count,
        "clicks": [[1, 0]] * count,
        "step": range(count),
    }
    tally = fc.tally(fc.read_log(log, period="step"))
    with pytest.raises(ModelError, match=r"20,001 periods; .* coarser one"):
        fc.evaluate(tally, {"context": [1], "items": [[1, 2]]})
    found = fc.evaluate(
        tally,
        {"context": [1], "items": [[1, 2]]},
        confidence=fc.Confidence(clusters="record"),
        estimators="item",
    )
    assert set(found["value"]) == {1.0}


# --- what takes long is announced -----------------------------------------------------------------

COUNT = 20
RANKING = {"context": range(COUNT), "items": [[1]] * COUNT}
SEVERAL = {
    "context": [number % COUNT for number in range(2 * COUNT)],
    "items": [[1]] * (2 * COUNT),
    "clicks": [[0]] * (2 * COUNT),
    "day": range(2 * COUNT),
}


def _announced(monkeypatch, ask, **limits):
    for name, value in limits.items():
        monkeypatch.setattr(effort, name, value)
    heard: list[str] = []
    ask(heard.append)
    return [line for line in heard if "This takes about" in line or "One context" in line]


@pytest.mark.parametrize(
    ("period", "estimator", "said"),
    [
        (None, "item", "20 contexts hardly repeat (records in the median one: 2). A coarser"),
        ("day", "item", "20 contexts × 40 periods. A coarser period is faster."),
        ("day", "ladder", "lists have up to 1 positions. Fewer (read_log(…, depth=10)) are"),
    ],
)
@pytest.mark.filterwarnings("ignore:the contexts hardly repeat")
def test_slow_work_is_announced_with_its_cause_and_a_remedy(monkeypatch, period, estimator, said):
    tally = fc.tally(fc.read_log(SEVERAL, period=period))

    def ask(say):
        with working(say):
            fc.evaluate(tally, RANKING, estimators=estimator, metrics="clicks@1")

    assert not _announced(monkeypatch, ask)
    (line,) = _announced(monkeypatch, ask, SLOW=0.0)
    assert line.startswith("This takes about 0 s of one core: ")
    assert said in line
    (memory,) = _announced(monkeypatch, ask, HUGE_CONTEXT=1)  # the other was said
    assert "rows, which are worked on in one piece" in memory
