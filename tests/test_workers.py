"""Tests of one `xdist_group` share a worker: a second JVM costs ten seconds and a GB."""

import os
import subprocess
import sys

GROUPED = """
import os
import pytest

@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("i", range(6))
def test_grouped(i, pytestconfig):
    with open(pytestconfig.rootpath / "workers", "a") as file:
        file.write(os.environ["PYTEST_XDIST_WORKER"] + "\\n")
"""


def test_a_group_stays_on_one_worker(tmp_path):
    """pytest 9.2 deals a group to all workers, without a word (pytest-xdist issue 1386)."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_a.py").write_text(GROUPED)
    (tmp_path / "test_b.py").write_text(GROUPED)
    arguments = ["-q", "-p", "no:cacheprovider", "-p", "xdist", "-n", "2", "--dist", "loadgroup"]
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    alone["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # xdist alone is enough, and starts faster
    subprocess.run(
        [sys.executable, "-m", "pytest", *arguments, str(tmp_path)],
        cwd=tmp_path,
        env=alone,
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=120,
    )
    workers = (tmp_path / "workers").read_text().split()
    assert len(workers) == 12
    assert len(set(workers)) == 1, workers
