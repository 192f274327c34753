"""If this fails, a log larger than memory ends the process, or a script starts itself again."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import foreclick as fc
from foreclick.batches import (
    batches_of,
    only_contexts,
    pooled,
    size_of,
    some_contexts,
    source,
)
from foreclick.errors import EngineError
from tests.batches.sizes import in_batches
from tests.cases.plain import drawn


def test_work_is_done_in_order_in_one_process_or_two():
    parts = [np.arange(i) for i in range(9)]
    assert list(pooled(np.sum, iter(parts))) == list(pooled(np.sum, iter(parts), workers=2))
    assert list(pooled(lambda part: part + 1, [1, 2, 3])) == [2, 3, 4]
    with pytest.raises(EngineError, match=r"workers=2: .* in a module rather than in the script"):
        list(pooled(lambda part: part + 1, [1, 2, 3], workers=2))


SCRIPT = """
import foreclick as fc
from foreclick.batches import source

source.KEPT_SLOTS = 0
source.Batches.__init__.__defaults__ = (1,)  # each context
print("begin")
fc.settings(workers=2, progress="never")
log = {"context": [*"abcd"] * 20, "items": [[1, 2], [2, 1]] * 40, "clicks": [[0, 1]] * 80}
new = fc.Ranking({x: [2, 1] for x in "abcd"})

def fold(slot):
    return slot.position

print(*fc.evaluate(log, new, metrics="clicks@1", estimators=ESTIMATOR)["value"])
"""


def script(tmp_path: Path, estimator: str) -> tuple[str, str, int]:
    """What a script that works in two processes prints, what it complains of, and how it ends."""
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.replace("ESTIMATOR", estimator))
    ran = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    return ran.stdout, ran.stderr, ran.returncode


def test_a_script_needs_no_guard_to_work_in_several_processes(tmp_path: Path):
    """Every worker started it anew: it was printed several times, and ended in a RuntimeError."""
    assert script(tmp_path, "'ip'") == ("begin\n0.0\n", "", 0)


def test_a_model_that_only_the_script_has_is_refused(tmp_path: Path):
    _, complaint, end = script(tmp_path, 'fc.ClickModel("fold", cell=fold)')
    assert end == 1
    assert "it is defined in the script or notebook itself" in complaint
    assert "Define its functions (of a click model, say) in a module" in complaint


def test_arrays_are_freed_with_their_tally():
    """At once: whoever asks one log after the other need not wait for the garbage collector."""
    log = {"context": list("ab") * 20, "items": [[1, 2], [2, 1]] * 20, "clicks": [[0, 1]] * 40}
    gc.disable()
    try:
        tally = fc.tally(fc.read_log(log))
        fc.evaluate(tally, fc.Ranking({"a": [2, 1], "b": [1, 2]}))
        arrays = [weakref.ref(batch) for batch in batches_of(tally)]
        assert all(batch() is not None for batch in arrays)
        del tally
        assert all(batch() is None for batch in arrays)
    finally:
        gc.enable()


def test_pairs_count_for_what_stays_in_memory(monkeypatch: pytest.MonkeyPatch):
    """Six rows of two positions are 12 slots; 4 and 8 pairs are 24, which count three times."""
    lists = [[1, 2], [3, 4], [5, 6], [7, 8], [1, 2], [3, 4]]
    log = {"context": list("aabbbb"), "items": lists, "clicks": [[0, 1]] * 6}
    for most, stay in ((84, True), (83, False), (11, False)):
        monkeypatch.setattr(source, "KEPT_SLOTS", most)
        batches = source.Batches(fc.tally(fc.read_log(log)), slots=1)
        first = list(batches)
        assert batches.small == stay
        again = list(batches)
        assert [a is b for a, b in zip(first, again, strict=True)] == [stay] * 2
        assert all(np.array_equal(a.lists, b.lists) for a, b in zip(first, again, strict=True))


# --- some contexts of a log: whole ones, the same ones in any batches, whatever they are called ---


CASE = drawn(4, records=2000, contexts=200, items=5, depth=3, periods=4, even=True)


@pytest.fixture(scope="module")
def tally():
    return fc.tally(CASE.log)


def records_of(batches):
    return {
        context: n
        for batch in batches
        for context, n in zip(batch.contexts.to_pylist(), batch.context_n.tolist(), strict=True)
    }


def test_they_are_whole_and_about_as_many_as_asked(tally):
    everything = records_of(batches_of(tally))
    some = some_contexts(batches_of(tally), 0.3)
    taken = records_of(some)
    assert 0.2 < len(taken) / len(everything) < 0.4
    assert all(everything[context] == n for context, n in taken.items())
    assert records_of(some) == taken  # gone through again
    fewer = records_of(some_contexts(batches_of(tally), 0.1))
    assert set(fewer) < set(taken)
    assert some_contexts(batches_of(tally), 1.0) is batches_of(tally)  # not copied


@pytest.mark.parametrize("slots", [1, 10**9])
def test_periods_of_contexts_that_take_no_part_are_gone(slots):
    """As if the log had never had them: of days 2 to 5, and of no day, two are left."""
    table = {
        "context": ["a", "a", "a", "b", "b", "c"],
        "items": [[1, 2]] * 6,
        "clicks": [[1, 0]] * 6,
        "day": [3, 5, 5, 2, 4, None],
    }
    batches = batches_of(in_batches(fc.tally(fc.read_log(table, period="day")), slots))
    taken = [np.array([x == "a" for x in batch.contexts.to_pylist()]) for batch in batches]
    some = only_contexts(batches, taken)
    assert some.codebook.periods is not None
    assert some.codebook.periods.values.to_pylist() == [3, 5]
    (batch,) = some
    assert batch.cluster_count["period"] == 2
    assert np.bincount(batch.clusters["period"], batch.n).tolist() == [1, 2]


@pytest.mark.parametrize("kept", [0, source.KEPT_SLOTS])
def test_the_same_contexts_are_drawn_whatever_else_the_log_has(monkeypatch, kept):
    """By the hash of their text, whether the log stays in memory or not."""
    monkeypatch.setattr(source, "KEPT_SLOTS", kept)
    taken = records_of(some_contexts(batches_of(fc.tally(CASE.log)), 0.3))
    assert 0.2 < len(taken) / 200 < 0.4
    half = fc.tally(replace(CASE.taking(range(1000)), roles={}).log)
    assert set(records_of(some_contexts(batches_of(half), 0.3))) <= set(taken)


# --- how large a log is, by its batches or by one query -------------------------------------------


@pytest.mark.parametrize("count", [None, "times"])
def test_a_log_that_does_not_stay_in_memory_is_not_read_to_tell_its_size(count, monkeypatch):
    records = {
        "context": ["a", "a", "a", "b", "c"],
        "items": [["x", "y"], ["y", "x"], ["x", "y"], ["x"], ["z", "x"]],
        "clicks": [[1, 0], [0, 0], [0, 1], [1], [0, 0]],
        "times": [2.0, 2.0, 2.0, 2.0, 2.0],
    }
    counted = size_of(fc.tally(fc.read_log(records, count=count)))
    assert (counted.contexts, counted.rows, counted.largest, counted.pairs) == (3, 5, 3, 5)
    monkeypatch.setattr(source, "KEPT_SLOTS", 0)
    monkeypatch.setattr(source.Batches, "__iter__", None)
    asked = size_of(fc.tally(fc.read_log(records, count=count)))
    assert asked._replace(pairs=5) == counted
    assert asked.pairs == 10


def test_contexts_that_only_the_candidate_has_are_counted_once_in_portions_of_a_batch(monkeypatch):
    lists = [[1, 2], [2, 1]] * 3
    log = {"context": list("aabbcc"), "items": lists, "clicks": [[1, 0], [0, 1]] * 3}
    candidate = fc.Ranking({context: [1, 2] for context in "abcxy"})
    for size in (1_000, 1):
        monkeypatch.setattr("foreclick.run.estimate.BLOCK", size)
        notes = fc.evaluate(log, candidate, estimators="ladder").notes
        assert "Ignored: 2 contexts that only the candidate has." in notes
