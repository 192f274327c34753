"""What if it dies here: every command that writes is killed at many moments.

    python -m benchmarks torture --moments 20

Each command is run undisturbed, then killed (SIGKILL, SIGTERM and SIGINT in turn) at moments spread
evenly over its work. After each kill the file under the target name must be absent or whole, and
equal to the undisturbed one; after SIGTERM and SIGINT nothing else may be there, and no process is
left. The next run must leave the target and nothing else.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.study import Row, Task, grid, study, total

CODES = {signal.SIGKILL: {-9}, signal.SIGTERM: {143, -15}, signal.SIGINT: {130, -2}}
MADE = (
    "simulate log.parquet --records 60000 --queries 200 --candidate candidate.parquet",
    "tally log.parquet --context query --period day --unit user -o tally.parquet",
)
COMMANDS = {
    "tally": "tally ../log.parquet --context query --period day --unit user -o {0}/t.parquet",
    "evaluate": "evaluate ../tally.parquet ../candidate.parquet -o {0}/e.csv",
    "report": "report ../tally.parquet ../candidate.parquet -o {0}/r.html",
    "optimize": "optimize ../tally.parquet -m clicks@3 -o {0}/p.parquet",
    "judgments": "judgments ../tally.parquet -o {0}/j.json",
    "contexts": "contexts ../tally.parquet --long -o {0}/c.csv",
    "simulate": "simulate {0}/s.parquet --records 200000 --queries 300",
    "simulate days": "simulate {0}/days --records 200000 --queries 300",
}


def content(folder: Path) -> dict[str, bytes]:
    """Files of a folder, without what a page says of the time it was made."""
    return {
        str(file.relative_to(folder)): b"" if file.suffix == ".html" else file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def started(words: str, target: Path) -> subprocess.Popen[bytes]:
    target.mkdir(exist_ok=True)
    spill = target.parent / "spill"
    spill.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-m", "foreclick", *words.format(target.name).split()],
        cwd=target.parent,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env=os.environ | {"TMPDIR": str(spill)},
    )


def survivors(group: int) -> list[str]:
    listed = subprocess.run(
        ["ps", "-o", "pid=,args=", "-g", str(group)],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    return [line for line in listed.stdout.splitlines() if "defunct" not in line]


WRONG = (
    "half-written",
    "left behind",
    "wrong code",
    "traceback",
    "processes left",
    "failed afterwards",
    "differs afterwards",
)


@study("torture", ["command"], total("at work", "killed at work"), *map(total, WRONG))
def torture(moments: int = 20, commands: list[str] = list(COMMANDS)) -> Iterator[Task]:
    """Kill every command that writes; all counts but the first should be 0."""
    return grid(tortured, commands, [moments])


def tortured(name: str, moments: int) -> list[Row]:
    """Kill one command at so many moments; what was wrong each time."""
    words = COMMANDS[name]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        home.mkdir()
        for first in MADE:
            subprocess.run(
                [sys.executable, "-m", "foreclick", *first.split()], cwd=folder, check=True
            )
        whole = home / "whole"
        start = time.perf_counter()
        with started(words, whole) as process:
            _, said = process.communicate()
        takes = time.perf_counter() - start
        assert process.returncode == 0, said.decode()
        expected = content(whole)
        rows = [
            killed(words, home, takes * (n + 0.5) / moments, list(CODES)[n % 3], expected)
            for n in range(moments)
        ]
        rows[-1]["left behind"] += len(list((home / "spill").iterdir()))
    return [{"command": name} | row for row in rows]


def killed(
    words: str, home: Path, after: float, by: signal.Signals, expected: dict[str, bytes]
) -> Row:
    """Kill a command after so many seconds by a signal, look at what is there, and run it again."""
    target = home / "killed"
    with started(words, target) as process:
        time.sleep(after)
        process.send_signal(by)
        _, said = process.communicate()
    at_work, there = process.returncode != 0, content(target)
    partial = [file for file in there if ".partial" in file]
    gentle = by != signal.SIGKILL and at_work
    found = {
        "at work": at_work,
        "half-written": sum(there[f] != expected.get(f) for f in there if f not in partial),
        "left behind": len(partial) if gentle else 0,
        "wrong code": gentle and process.returncode not in CODES[by],
        "traceback": gentle and b"Traceback" in said,
    }
    time.sleep(0.5)
    found["processes left"] = len(survivors(process.pid))
    with started(words, target) as process:
        _, said = process.communicate()
    found["failed afterwards"] = process.returncode != 0 and b"already holds" not in said
    found["differs afterwards"] = content(target) != expected
    shutil.rmtree(target)
    return found
