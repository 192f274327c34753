"""Files of processes that share a directory."""

import os
import tempfile
from pathlib import Path

import pytest

from foreclick.engines import duckdb, files

SETTING = "SELECT current_setting('temp_directory')"


@pytest.fixture
def containers(monkeypatch, tmp_path):
    """Two containers that share a directory, the name of the machine, and process numbers."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))

    def within(number):
        monkeypatch.setattr(Path, "readlink", lambda _: Path(f"pid:[{number}]"))
        return duckdb.laptop().connection.sql(SETTING).fetchone()[0]

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
