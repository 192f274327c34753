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
from pathlib import Path
from typing import NamedTuple

from benchmarks.study import Row, study, total

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
FOUND = (
    "half-written",
    "left behind",
    "wrong code",
    "traceback",
    "processes left",
    "failed afterwards",
    "differs afterwards",
)
"""What may be wrong after a kill."""


def content(folder: Path) -> dict[str, bytes]:
    """Files of a folder, without what a page says of the time it was made."""
    return {
        str(file.relative_to(folder)): b"" if file.suffix == ".html" else file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


class Ended(NamedTuple):
    """A process that is no more."""

    pid: int
    code: int
    said: bytes


def foreclick(words: str, target: Path, kill: tuple[float, signal.Signals] | None = None) -> Ended:
    """Run a command, or kill it after so many seconds."""
    spill = target.parent / "spill"
    for folder in (target, spill):
        folder.mkdir(exist_ok=True)
    with subprocess.Popen(
        [sys.executable, "-m", "foreclick", *words.format(target.name).split()],
        cwd=target.parent,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env=os.environ | {"TMPDIR": str(spill)},
    ) as process:
        if kill is not None:
            time.sleep(kill[0])
            process.send_signal(kill[1])
        _, said = process.communicate()
    return Ended(process.pid, process.returncode, said)


@study(
    "torture",
    ["command"],
    total("at work", "killed at work"),
    *map(total, FOUND),
    commands=list(COMMANDS),
)
def tortured(command: str, moments: int = 20) -> list[Row]:
    """Kill every command that writes; all counts but the first should be 0."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        home.mkdir()
        for first in MADE:
            subprocess.run(
                [sys.executable, "-m", "foreclick", *first.split()], cwd=folder, check=True
            )
        start = time.perf_counter()
        done = foreclick(COMMANDS[command], home / "whole")
        takes = time.perf_counter() - start
        assert done.code == 0, done.said.decode()
        expected, rows = content(home / "whole"), list[Row]()
        for n in range(moments):
            moment = takes * (n + 0.5) / moments
            found = killed(COMMANDS[command], home / "killed", moment, list(CODES)[n % 3], expected)
            rows.append({"command": command} | found)
        rows[-1]["left behind"] += len(list((home / "spill").iterdir()))
    return rows


def killed(
    words: str, target: Path, after: float, by: signal.Signals, expected: dict[str, bytes]
) -> Row:
    """Kill a command after so many seconds by a signal, look at what is there, and run it again."""
    done = foreclick(words, target, (after, by))
    at_work, there = done.code != 0, content(target)
    partial = [file for file in there if ".partial" in file]
    gentle = by != signal.SIGKILL and at_work
    time.sleep(0.5)
    listed = subprocess.run(
        ["ps", "-o", "pid=,args=", "-g", str(done.pid)],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    again = foreclick(words, target)
    after_all = content(target)
    shutil.rmtree(target)
    return {
        "at work": at_work,
        "half-written": sum(there[f] != expected.get(f) for f in there if f not in partial),
        "left behind": len(partial) if gentle else 0,
        "wrong code": gentle and done.code not in CODES[by],
        "traceback": gentle and b"Traceback" in done.said,
        "processes left": sum("defunct" not in line for line in listed.stdout.splitlines()),
        "failed afterwards": again.code != 0 and b"already holds" not in again.said,
        "differs afterwards": after_all != expected,
    }
