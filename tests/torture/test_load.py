"""If this fails, the thousandth answer of a process differs from its first, or memory grows."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick.engines import default_engine
from foreclick.errors import ModelError, OptionError
from foreclick.options import AT_ONCE, check
from foreclick.progress import working
from foreclick.run import effort
from tests.torture.asked import ASKED, CANDIDATE, LOG, answer, values
from tests.tries import tries


@pytest.fixture(scope="module")
def tally():
    return fc.tally(fc.read_log(LOG, period="day"))


@pytest.fixture
def path(tally, tmp_path):
    tally.write_parquet(tmp_path / "t.parquet")
    return str(tmp_path / "t.parquet")


def held() -> dict[str, int]:
    """What this process holds; memory in MB."""
    gc.collect()
    default_engine().drop_unused()
    con = default_engine().connection
    views = con.execute("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchall()
    tables = con.execute("SELECT count(*) FROM duckdb_tables()").fetchall()
    status = Path("/proc/self/status").read_text()
    memory = int(status.partition("VmRSS:")[2].split()[0]) // 1_024
    return {
        "files": len(os.listdir("/proc/self/fd")),  # noqa: PTH208 - names, no paths
        "threads": threading.active_count(),
        "views and tables": views[0][0] + tables[0][0],
        "memory": memory,
    }


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at /proc")
def test_evaluations_leave_nothing_behind(path):
    def ask(times: int) -> dict[str, int]:
        for number in range(times):
            fc.evaluate(fc.read_tally(path), CANDIDATE, **ASKED)
            fc.evaluate(LOG, CANDIDATE, **ASKED)
            if not number % 5:
                fc.check(fc.read_log(LOG, period="day"))
        return held()

    first = ask(10)
    later = ask(tries(8, 1_000))
    memory = later.pop("memory") - first.pop("memory")
    assert later == first
    assert memory < 20


def test_threads_ask_one_tally(tally):
    expected = answer(tally)
    fresh = fc.tally(fc.read_log(LOG, period="day"))  # which nobody has asked
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(answer, [fresh] * tries(16, 200)):
            assert found == expected


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_asks_where_its_parent_has_asked(tally, path):
    """The engine's threads are not there in a fork: it must neither hang nor answer otherwise."""
    expected = [answer(tally), answer(path), values(1)]
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        calls: Any = ((answer, tally), (answer, path), (values, 1))
        asked = [pool.submit(*call) for call in calls]
        assert [each.result(timeout=120) for each in asked] == expected


def test_interrupted_in_the_middle_it_goes_on(tally):
    expected = answer(tally)
    fresh = fc.tally(fc.read_log(LOG, period="day"))
    heard: list[str] = []
    with working(heard.append):
        fc.evaluate(tally, CANDIDATE, **ASKED)
    for moment in range(len(heard)):
        said = iter(range(moment))

        def stop(_: str, said: Any = said) -> None:  # noqa: ANN401 - an iterator
            if next(said, None) is None:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt), working(stop):
            fc.evaluate(fresh, CANDIDATE, **ASKED)
    assert heard
    assert answer(fresh) == expected


# --- pickles --------------------------------------------------------------------------------------


def sent(thing: Any) -> Any:  # noqa: ANN401
    """What another process gets."""
    return pickle.loads(pickle.dumps(thing))  # noqa: S301 - our own


def test_values_and_results_are_the_same_after_pickling(tally):
    metrics = [fc.Metric("dcg@3"), fc.Ratio("clicks@1", "clicks@2")]
    values: list[Any] = [fc.Weighted("ip", clip=5), fc.Ladder(), *metrics]
    assert sent(values) == values
    results: list[Any] = [
        fc.evaluate(tally, CANDIDATE, **ASKED),
        fc.compare(tally, {"a": CANDIDATE, "b": CANDIDATE}, metrics="clicks@2"),
        fc.support(tally, CANDIDATE),
        fc.backtest(tally, metrics="clicks@2"),
        fc.check(tally),
        fc.contexts(tally),
        fc.judgments(tally, examination=[1.0, 0.5]),
        fc.report(tally, CANDIDATE),
    ]
    for result, again in zip(results, sent(results), strict=True):
        assert (again.to_dicts(), str(again)) == (result.to_dicts(), str(result))


def test_policies_and_tallies_answer_after_pickling(tally, tmp_path):
    """Without the engine of the process that pickled them."""
    best = fc.optimize(tally, metrics="clicks@2", pessimism=0)
    slots = {"context": [*"qqrr"], "item": [1, 2] * 2, "position": [1, 2] * 2}
    policies = [
        fc.Ranking(CANDIDATE),
        fc.Lists(CANDIDATE | {"probability": [1.0, 1.0]}),
        fc.Marginals(slots | {"probability": [1.0] * 4}),
        fc.Observed(LOG),
        best.policy,
    ]
    for policy in policies:
        again = sent(policy)
        assert repr(again) == repr(policy)
        one, other = (fc.evaluate(tally, each, **ASKED).to_dicts() for each in (policy, again))
        assert one == other
    assert answer(sent(tally)) == answer(tally)
    again = sent(best)
    assert (again.to_dicts(), str(again)) == (best.to_dicts(), str(best))
    for name, each in {"again": again, "best": best}.items():
        each.write(tmp_path / f"{name}.parquet")
    one, other = (pq.read_table(tmp_path / f"{name}.parquet") for name in ("again", "best"))
    assert one.equals(other)


# --- what would take the machine with it is refused; what would fill the screen is summed up ------


@pytest.mark.parametrize("name", ["threads", "workers"])
def test_threads_and_processes_are_bounded(name):
    check(**{name: AT_ONCE})
    for wrong in (0, AT_ONCE + 1, 100_000):
        with pytest.raises(OptionError, match=f"a whole number from 1 to {AT_ONCE}"):
            check(**{name: wrong})


def stepwise(count: int) -> fc.Tally:
    """A log of so many periods, a record each."""
    lists = {"context": [1] * count, "items": [[1, 2]] * count, "clicks": [[1, 0]] * count}
    return fc.tally(fc.read_log(lists | {"step": range(count)}, period="step"))


def test_check_sums_up_periods_that_are_too_many_to_print():
    found = fc.check(stepwise(2_000))
    assert len(str(found).splitlines()) < 25
    assert len(found) < 25
    facts = {row["fact"]: row["found"] for row in found if row["section"] == "periods"}
    assert facts == {"from 0 to 1999": 2_000, "records in the median period": 1.0}
    assert any("2,000 periods" in note for note in found.notes)


def test_millions_of_periods_are_refused_before_the_work():
    tally, shown = stepwise(20_001), {"context": [1], "items": [[1, 2]]}
    with pytest.raises(ModelError, match=r"20,001 periods; .* coarser one"):
        fc.evaluate(tally, shown)
    by_record = fc.Confidence(clusters="record")
    found = fc.evaluate(tally, shown, confidence=by_record, estimators="item")
    assert set(found["value"]) == {1.0}


# --- what takes long is announced -----------------------------------------------------------------

COUNT = 20
RANKING = {"context": range(COUNT), "items": [[1]] * COUNT}
SEVERAL = {
    "context": [*range(COUNT)] * 2,
    "items": [[1]] * (2 * COUNT),
    "clicks": [[1]] * (2 * COUNT),
    "day": range(2 * COUNT),
}


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

    def announced() -> list[str]:
        heard: list[str] = []
        with working(heard.append):
            fc.evaluate(tally, RANKING, estimators=estimator, metrics="clicks@1")
        return [line for line in heard if "This takes about" in line or "One context" in line]

    assert not announced()
    monkeypatch.setattr(effort, "SLOW", 0.0)
    (line,) = announced()
    assert line.startswith("This takes about 0 s of one core: ")
    assert said in line
    monkeypatch.setattr(effort, "HUGE_CONTEXT", 1)
    (memory,) = announced()  # the other was said
    assert "rows, which are worked on in one piece" in memory
