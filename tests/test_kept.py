"""If this fails, an answer is computed from values of another log, or memory is never freed."""

import pickle
import subprocess
import sys
from dataclasses import replace

import foreclick as fc
from foreclick.batches import Batch, batches_of
from foreclick.kept import kept

CALLS: list[int] = []


@kept
def records(batch: Batch, times: int) -> float:
    """Made once for each batch and argument."""
    CALLS.append(times)
    return times * float(batch.n.sum())


def the_batch() -> Batch:
    log = {"context": ["a", "b"], "items": [[1, 2], [2, 1]], "clicks": [[0, 1], [1, 0]]}
    (batch,) = batches_of(fc.tally(fc.read_log(log)))
    return batch


def test_a_value_is_made_once_for_each_batch_and_argument():
    batch = the_batch()
    CALLS.clear()
    assert not records.knows(batch, 1)
    assert [records(batch, 1), records(batch, 1), records(batch, 2)] == [2.0, 2.0, 4.0]
    assert CALLS == [1, 2]
    assert records.knows(batch, 1)
    assert records(replace(batch, n=batch.n * 3), 1) == 6.0  # another batch keeps its own
    batch.forget()
    assert not records.knows(batch, 1)


def test_a_kept_function_and_its_batch_can_be_sent_to_another_process():
    batch = the_batch()
    records(batch, 1)
    same = pickle.loads(pickle.dumps(records))  # noqa: S301 - our own
    assert same is records
    assert records.knows(pickle.loads(pickle.dumps(batch)), 1)  # noqa: S301 - our own


def test_a_script_that_ends_with_a_log_in_hand_ends_in_silence():
    """Modules are taken down before what is kept: `Batches.__del__` found its helpers gone."""
    script = (
        "import foreclick as fc\n"
        "fc.settings(progress=lambda line: None)\n"
        "log = {'context': ['q'] * 40, 'items': [[1, 2], [2, 1]] * 20}\n"
        "log['clicks'] = [[1, 0], [0, 1]] * 20\n"
        "tally = fc.tally(log)\n"
        "found = fc.evaluate(tally, {'context': ['q'], 'items': [[2, 1]]}, metrics='clicks@1')\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(command, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
