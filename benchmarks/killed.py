"""A partitioned tally is killed at random moments and started again: `python -m benchmarks.killed`.

Each time the process gets SIGKILL, which it cannot see coming, at a moment drawn from the time that
an undisturbed run works. Started again, it must give the tally that the undisturbed run gave, and
leave nothing else behind.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import foreclick as fc

_RUN = """
import sys, foreclick as fc
print("ready", flush=True)
fc.write_tallies(sys.argv[1], sys.argv[2], context="query", period="day")
print("done", flush=True)
"""


def killed(logs: Path, folder: Path, times: int, seed: int = 7) -> list[tuple[int, bool]]:
    """Kill and start again so many times.

    Returns:
        Of each kill how many parts were done, and whether it came before the work was.
    """
    spill = folder / "spill"
    spill.mkdir()
    environment = os.environ | {"TMPDIR": str(spill)}
    command = [sys.executable, "-c", _RUN, str(logs)]
    whole = folder / "undisturbed"
    with subprocess.Popen([*command, str(whole)], stdout=subprocess.PIPE, env=environment) as child:
        assert child.stdout is not None
        child.stdout.readline()
        start = time.perf_counter()
        child.stdout.readline()
        takes = time.perf_counter() - start
    assert child.returncode == 0
    expected, files = fc.read_tally(whole).to_arrow(), sorted(p.name for p in whole.iterdir())
    rng, done = np.random.default_rng(seed), []
    for number in range(times):
        target = folder / f"killed-{number}"
        with subprocess.Popen(
            [*command, str(target)], stdout=subprocess.PIPE, env=environment
        ) as child:
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(rng.uniform(0, takes))
            child.send_signal(signal.SIGKILL)
            in_time = not child.stdout.readline()
        done.append((len(list(target.glob("*.parquet"))), in_time))
        subprocess.run(
            [*command, str(target)], check=True, env=environment, stdout=subprocess.DEVNULL
        )
        assert sorted(p.name for p in target.iterdir()) == files, "something was left behind"
        assert fc.read_tally(target).to_arrow().equals(expected), "the tally differs"
    assert not list(spill.iterdir()), "spilled files were left behind"
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("logs", type=Path, help="a directory of Parquet files with query and day")
    parser.add_argument("--times", type=int, default=10)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        done = killed(args.logs, Path(folder), args.times)
    parts, in_time = [n for n, _ in done], sum(early for _, early in done)
    print(f"killed {args.times} times, {in_time} of them at work, after {parts} parts; ", end="")
    print("the same every time, nothing left")


if __name__ == "__main__":
    main()
