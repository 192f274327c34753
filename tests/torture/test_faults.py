"""If this fails, a full disk or a signal leaves half a file that looks whole."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick.cli import commands, main, process  # noqa: F401 - which registers commands
from foreclick.cli.app import COMMANDS
from foreclick.engines.files import whole_file
from foreclick.errors import EngineError, ForeclickError, SourceError, TallyError
from tests.tallies import altered

LOG: dict[str, list[Any]] = {
    "context": [1, 1, 2, 2] * 5,
    "items": [[1, 2], [2, 1]] * 10,
    "clicks": [[1, 0]] * 20,
}
CANDIDATE = {"context": [1, 2], "items": [[2, 1], [1, 2]]}
ASKED: dict[str, Any] = {"estimators": "ip", "metrics": "clicks@2"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table(LOG), "log.parquet")
    pq.write_table(pa.table(CANDIDATE), "candidate.parquet")
    fc.tally(LOG).write_parquet("tally.parquet")
    return tmp_path


def _half_written(target: Path, failure: BaseException) -> None:
    with whole_file(target) as partial:
        partial.write_text("half")
        raise failure


def test_a_failure_half_way_leaves_what_was_there_and_nothing_else(tmp_path):
    target = tmp_path / "t.txt"
    target.write_text("before")
    for failure in (KeyboardInterrupt, RuntimeError):
        with pytest.raises(failure):
            _half_written(target, failure())
    assert target.read_text() == "before"
    assert list(tmp_path.iterdir()) == [target]


KILLED = """
import os, signal, sys
from foreclick.engines.files import whole_file
with whole_file(sys.argv[1]) as partial:
    partial.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_leaves_is_removed_by_the_next_and_nobody_elses(tmp_path):
    target = tmp_path / "t[1].txt"
    assert subprocess.run([sys.executable, "-c", KILLED, target], check=False).returncode == -9
    (left,) = tmp_path.iterdir()
    with whole_file(target) as mine, whole_file(target) as other:
        assert not left.exists()
        assert mine != other
        for partial in (mine, other):
            partial.write_text("whole")
    assert target.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [target]


def test_every_file_that_outgrows_the_disk_is_refused_by_its_name(folder):
    """A limit on the size of files stands for a full disk: writes fail in the middle."""
    best = fc.optimize(LOG, metrics="clicks@2", estimators="item", pessimism=0, judge=None)
    judged = fc.judgments(LOG, examination=[1.0, 0.5])
    world = fc.simulate.yandex_like(records=500, queries=10)
    writers = {
        "t.parquet": fc.tally(LOG).write_parquet,
        "e.html": fc.evaluate(LOG, CANDIDATE, **ASKED).save,
        "p.parquet": best.write,
        "p.csv": best.write,
        "j.json": judged.write,
        "j.parquet": judged.write,
        "s.parquet": world.write_parquet,
        "days": world.write_parquet,
    }
    before = sorted(folder.iterdir())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for name, write in writers.items():
        resource.setrlimit(resource.RLIMIT_FSIZE, (60, hard))
        try:
            with pytest.raises(SourceError, match=f"{name}' cannot be written: File too large"):
                write(folder / name)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert sorted(folder.iterdir()) == before, name


class TestDamagedFiles:
    def test_a_cut_or_damaged_tally_is_one_sentence_that_names_it(self, folder, capsys):
        content = Path("tally.parquet").read_bytes()
        noise = content[:8] + bytes(byte ^ 0x5A for byte in content[8:200]) + content[200:]
        for damaged in (content[:-20], content[:300], b"", b"PAR1", noise):
            Path("broken.parquet").write_bytes(damaged)
            assert main(["evaluate", "broken.parquet", "candidate.parquet"]) == 2
            out, err = capsys.readouterr()
            assert not out
            assert "broken.parquet" in err
            assert len(err.splitlines()) == 1

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"version": 99}, "has the tally schema 99, this foreclick reads 3"),
            ({"version": "x" * 10**6}, "has the tally schema 'xxx"),
            ({"version": None}, "has the tally schema None"),
            ({"shape": None}, "is not as it was written: its digest is another"),
            ({"dropped_rows": 1e30}, "is not as it was written"),
            ({"digest": "0" * 32}, "is not as it was written"),
            ({"digest": 7}, "is not as it was written"),
        ],
    )
    def test_altered_metadata_are_noticed(self, folder, change, message):
        pq.write_table(altered("tally.parquet", **change), "s.parquet")
        with pytest.raises(TallyError, match=message) as caught:
            fc.read_tally("s.parquet")
        assert len(str(caught.value)) < 300

    @pytest.mark.parametrize("text", ["", "{", "[1]", "[" * 10**5])
    def test_metadata_that_are_no_json_are_noticed(self, folder, text):
        table = altered("tally.parquet").replace_schema_metadata({"foreclick": text})
        pq.write_table(table, "s.parquet")
        with pytest.raises(TallyError, match="has the tally schema None"):
            fc.read_tally("s.parquet")

    def test_altered_rows_are_noticed(self, folder):
        table = altered("tally.parquet")
        at = table.schema.get_field_index("n")
        least = table.set_column(at, "n", pa.array([-1, *[1] * (len(table) - 1)], pa.int64()))
        half, twice = table.slice(0, 2), pa.concat_tables([table, table])
        for other in (least, half, twice, table.slice(0, 0)):
            pq.write_table(other, "s.parquet")
            with pytest.raises(TallyError, match="not as it was written"):
                fc.read_tally("s.parquet")


@pytest.mark.parametrize("how", ["path", "symlink", "link", "copy"])
@pytest.mark.parametrize("name", ["log", "tally"])
def test_a_file_that_is_given_twice_is_refused(folder, name, how):
    """A file, a link to it or a copy: records would count twice."""
    one, other = f"{name}.parquet", f"{name}.parquet" if how == "path" else "other.parquet"
    if how != "path":
        make: Any = {"symlink": os.symlink, "link": os.link, "copy": shutil.copy}[how]
        make(one, other)
    read: Any = fc.read_log if name == "log" else fc.read_tally
    with pytest.raises(ForeclickError, match=rf"{one}' and '{other}' are the same file"):
        read([one, other])


@pytest.mark.parametrize(
    ("changed", "roles"),
    [
        ({"items": pa.array([[2**63, 2]] * 20, pa.list_(pa.uint64()))}, {}),
        ({"context": pa.array([2**63] * 20, pa.uint64())}, {}),
        ({"w": pa.array([2**63] * 20, pa.uint64())}, {"count": "w"}),
        ({"w": [2**62] * 20}, {"count": "w"}),
    ],
)
def test_numbers_that_do_not_fit_in_64_bits(changed, roles):
    with pytest.raises(EngineError, match="has more than 64 bits") as caught:
        fc.read_log(pa.table(LOG | changed), **roles)
    assert "The statement was" not in str(caught.value)


def test_a_url_that_nobody_answers(folder):
    for read in (fc.read_log, fc.read_tally):
        with pytest.raises(ForeclickError) as caught:
            read("http://127.0.0.1:1/x.parquet")
        assert len(str(caught.value).splitlines()) == 1
        assert "127.0.0.1:1/x.parquet' cannot be re" in str(caught.value)
    with pytest.raises(SourceError, match=r"1/x' does not end in one of"):
        fc.read_log("http://127.0.0.1:1/x")


def test_a_tally_that_changed_between_two_questions(folder, monkeypatch):
    monkeypatch.setattr("foreclick.batches.source.KEPT_SLOTS", 0)  # each question reads it
    found = fc.read_tally("tally.parquet")
    fc.evaluate(found, CANDIDATE, **ASKED)
    fc.tally({name: values * 3 for name, values in LOG.items()}).write_parquet("tally.parquet")
    with pytest.raises(TallyError, match=r"tally\.parquet' has changed since it was read"):
        fc.evaluate(found, CANDIDATE, **ASKED)
    Path("tally.parquet").unlink()
    with pytest.raises((ForeclickError, FileNotFoundError), match=r"tally\.parquet"):
        fc.evaluate(found, CANDIDATE, **ASKED)


@pytest.mark.parametrize(
    ("source", "changed"), [("log.parquet", "log.parquet"), ("l*.parquet", "l2.parquet")]
)
def test_a_log_that_changes_while_it_is_read(folder, monkeypatch, source, changed):
    passing = fc.logs.compress

    def appended(*args, **options):
        found = passing(*args, **options)
        pq.write_table(pa.table(LOG).slice(1), changed)
        return found

    monkeypatch.setattr("foreclick.logs.compress", appended)
    with pytest.raises(SourceError, match=r"\.parquet' changed while it was read"):
        fc.read_log(source)


class TestProcess:
    """The command line as a shell sees it, in this process where that is possible."""

    def test_failures_are_said_and_no_verdict_of_a_gate(self, folder, monkeypatch, capsys):
        def fail(command: str, error: BaseException, *files: str) -> str:
            def run(*_: object) -> None:
                raise error

            monkeypatch.setattr(COMMANDS[command], "run", run)
            return f"{main([command, *files])}: {capsys.readouterr().err}"

        assert fail("gate", ZeroDivisionError("oh"), "tally", "candidate") == (
            "70: foreclick: unexpected error: ZeroDivisionError: oh\n"
            "Please report it, with what --debug prints.\n"
        )
        said = fail("check", MemoryError("8 EiB"), "tally")
        assert said.startswith("2: foreclick: there is not enough memory: 8 EiB")
        monkeypatch.undo()
        os.chdir(folder)
        assert main(["check", "log.parquet", "--memory-limit", "1KB"]) == 2
        assert "Out of Memory" in capsys.readouterr().err

    @pytest.fixture
    def interruptible(self):
        """Ctrl-C as in a new process; Spark, which other tests start, has a way of its own."""
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
        signal.signal(signal.SIGINT, before)

    @pytest.mark.usefixtures("interruptible")
    def test_interrupted_and_terminated_are_one_line_each(self, capsys):
        def interrupted() -> int:
            raise KeyboardInterrupt

        def terminated() -> int:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
            return 0

        def converted() -> int:
            with contextlib.suppress(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(5)
            return 2  # as an import that failed

        before = signal.getsignal(signal.SIGTERM)
        for run, code, said in (
            (interrupted, 130, "interrupted"),
            (converted, 130, "interrupted"),
            (terminated, 143, "terminated"),
        ):
            assert process.guarded(run) == code
            assert capsys.readouterr().err == f"foreclick: {said}.\n"
        assert signal.getsignal(signal.SIGTERM) is before

    @pytest.mark.parametrize(
        ("first", "code", "said"),
        [
            (signal.SIGINT, 130, b"foreclick: interrupted.\n"),
            (signal.SIGTERM, 143, b"foreclick: terminated.\n"),
        ],
    )
    def test_the_first_signal_has_the_last_word(self, first, code, said):
        """Others come while Python ends."""
        script = f"""
import os, signal, sys, time
from foreclick.cli.process import guarded
signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a shell, whatever runs the tests
def run():
    os.kill(os.getpid(), {first:d})
    time.sleep(5)
code = guarded(run, last=True)
for number in (signal.SIGINT, signal.SIGTERM):
    os.kill(os.getpid(), number)
time.sleep(0.1)
sys.exit(code)
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (code, said)

    def test_an_engine_that_is_terminated_at_work_stops(self, capsys):
        """DuckDB turns the signal into an error of its own."""

        def terminated() -> int:
            engine = fc.engines.duckdb.laptop(threads=1)
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
            engine.ask("SELECT sum(a.range) FROM range(10000000) a, range(100000) b")
            return 0

        start = time.monotonic()
        assert process.guarded(terminated) == 143
        assert time.monotonic() - start < 20


SHELL = """
cd "$1"
$2 -m foreclick --help 2>err | true
echo "${PIPESTATUS[0]}" >codes
env -i PATH="$PATH" PYTHONPATH="$PYTHONPATH" LANG=C LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 \\
    $2 -m foreclick evaluate tally.parquet candidate.parquet --quiet >plain 2>>err
echo "$?" >>codes
"""


def test_a_broken_pipe_and_a_bare_environment(folder):
    """Two processes, for what cannot be had in this one."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    words = ["bash", "-c", SHELL, "bash", str(folder), sys.executable]
    subprocess.run(words, env=environment, check=True)
    assert Path("codes").read_text().split() == ["141", "0"]
    assert Path("err").read_text() == ""
    assert "→" in Path("plain").read_text(encoding="utf-8")
