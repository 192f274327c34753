"""A real Spark cluster: a master and two workers, in processes of their own.

The short version of `make bench-spark`: the same tally and answers as DuckDB, also when a worker is
killed in the middle of it.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.skipif(shutil.which("java") is None, reason="no java")
def test_answers_are_the_same_on_a_cluster_whose_worker_dies():
    """In a process of its own: this one's JVM, if there is one, belongs to another session."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.on_spark", "same", "killed", "--records", "2000"],
        cwd=root,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(root), str(root / "src")])},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    said = done.stdout
    assert re.search(r"same: [\d,]+ rows of the tally and \d+ answers", said)
    assert "killed 1:" in said
