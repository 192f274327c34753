"""If this fails, a far log is read again for every question."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import pytest

import foreclick as fc
from foreclick.engines import default_engine, files
from foreclick.engines.duckdb import DuckDB, laptop
from foreclick.tallies import local_tally
from tests.cases.plain import drawn

CASE = drawn(1, records=60, contexts=1, depth=2, periods=6)


class Far(DuckDB):
    """A server, as far as anybody can tell; it counts what is fetched from it."""

    far = True
    fetched = 0

    def ask(self, sql, schema=None, step=None):
        self.fetched += sql.startswith("SELECT * FROM")
        return super().ask(sql, schema, step)


def test_rows_come_home_once():
    far, candidate = Far(duckdb.connect()), CASE.policy
    log = CASE.read(engine=far)
    assert log.engine is far
    tally, notes = local_tally(log)
    assert tally.engine is default_engine()
    assert notes == []
    here = fc.tally(CASE.log)
    assert tally.to_arrow().equals(here.to_arrow())
    assert local_tally(here) == (here, [])
    before = far.fetched
    assert before > 0
    assert local_tally(log)[0] is local_tally(fc.tally(log))[0] is tally
    fc.evaluate(log, candidate, estimators="ip", metrics="clicks@2")
    fc.backtest(log, estimators="ip")
    fc.support(log, candidate, estimators="ip", metrics="clicks@2")
    fc.compare(log, {"a": candidate}, estimators="ip", metrics="clicks@2")
    assert far.fetched == before


# --- files of processes that share a directory ----------------------------------------------------


SETTING = "SELECT current_setting('temp_directory')"


@pytest.fixture
def containers(monkeypatch, tmp_path):
    """Two containers that share a directory, the name of the machine, and process numbers."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))

    def within(number):
        monkeypatch.setattr(Path, "readlink", lambda _: Path(f"pid:[{number}]"))
        return laptop().connection.sql(SETTING).fetchone()[0]

    return within


def test_containers_with_the_same_process_number_spill_to_different_directories(containers):
    one, other = containers(4026531836), containers(4026532001)
    assert one != other
    assert Path(one).parent == Path(other).parent
    assert containers(4026531836) == one


def test_what_a_process_of_another_container_spills_is_not_removed(containers, tmp_path):
    """No process here has that number, but one there may."""
    dead = 2**22 + 1  # more than there can be
    mine, theirs = (Path(containers(space)) for space in (1, 2))
    left = [at.with_name(at.name.replace(f"-{os.getpid()}", f"-{dead}")) for at in (mine, theirs)]
    for directory in left:
        directory.mkdir()
    containers(1)
    assert [directory.exists() for directory in left] == [False, True]
    assert files.machine()


def test_duckdb_draws_no_bar_of_its_own_into_what_is_printed(capfd):
    home = laptop(threads=1)
    home.connection.execute("SET progress_bar_time = 1")  # ms
    home.ask("SELECT sum(hash(a.range, b.range) % 7) AS n FROM range(2000) AS a, range(2000) AS b")
    assert capfd.readouterr() == ("", "")


IN_A_NOTEBOOK = """
import sys, types
notebook = types.ModuleType("IPython")
notebook.get_ipython = lambda: types.SimpleNamespace(config={"IPKernelApp": {}})
sys.modules |= {"IPython": notebook, "ipywidgets": None}
import duckdb
import foreclick as fc
try:
    duckdb.connect().execute("SET enable_progress_bar_print = false")
except duckdb.Error as error:
    print("ipywidgets" in str(error))
print(fc.read_log({"context": ["q"], "items": [[1, 2]], "clicks": [[0, 1]]}))
"""


def test_a_notebook_needs_no_ipywidgets():
    """DuckDB takes no setting of its progress bar there, and has none."""
    command = [sys.executable, "-c", IN_A_NOTEBOOK]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "True"
    assert "1 record of up to 2 items" in done.stdout
