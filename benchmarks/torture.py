"""What if it dies here: every command that writes is killed at many moments. `make torture`.

    python -m benchmarks.torture --moments 20

Each command is run undisturbed, then killed (SIGKILL, SIGTERM and SIGINT in turn) at moments spread
evenly over its work. After each kill the file under the target name must be absent or whole, and
equal to the undisturbed one; after SIGTERM and SIGINT nothing else may be there, and no process is
left. The next run must leave the target and nothing else.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

CODES = {signal.SIGKILL: {-9}, signal.SIGTERM: {143, -15}, signal.SIGINT: {130, -2}}
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


def tortured(name: str, words: str, home: Path, moments: int) -> Counter[str]:
    """Kill one command at so many moments; what was wrong, by kind."""
    whole = home / "whole"
    start = time.perf_counter()
    with started(words, whole) as process:
        _, said = process.communicate()
    takes = time.perf_counter() - start
    assert process.returncode == 0, said.decode()
    expected = content(whole)
    found: Counter[str] = Counter()
    for number in range(moments):
        number_signal = list(CODES)[number % 3]
        target = home / f"killed-{number}"
        with started(words, target) as process:
            time.sleep(takes * (number + 0.5) / moments)
            process.send_signal(number_signal)
            _, said = process.communicate()
        done = process.returncode == 0
        found["after the work" if done else "at work"] += 1
        there = content(target)
        partial = [file for file in there if file.endswith(".partial") or ".partial" in file]
        found["half-written"] += sum(
            there[file] != expected.get(file) for file in there if file not in partial
        )
        if number_signal != signal.SIGKILL and not done:
            found["left behind"] += len(partial)
            if process.returncode not in CODES[number_signal]:
                found["wrong code"] += 1
                print(f"{name}: {number_signal.name}: {process.returncode}: {said.decode()}")
            found["traceback"] += b"Traceback" in said
        time.sleep(0.5)
        found["processes left"] += len(survivors(process.pid))
        with started(words, target) as process:
            _, said = process.communicate()
        found["failed afterwards"] += process.returncode != 0 and b"already holds" not in said
        found["differs afterwards"] += content(target) != expected
        shutil.rmtree(target)
    found["in the temporary directory"] = len(list((home / "spill").iterdir()))
    shutil.rmtree(whole)
    print(
        f"{name:14} {takes:5.1f} s  " + ", ".join(f"{k}: {v}" for k, v in found.items() if v),
        flush=True,
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--moments", type=int, default=20)
    parser.add_argument("--commands", nargs="*", choices=COMMANDS, default=list(COMMANDS))
    args = parser.parse_args()
    bad: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        home.mkdir()
        for words in (
            "simulate log.parquet --records 60000 --queries 200 --candidate candidate.parquet",
            "tally log.parquet --context query --period day --unit user -o tally.parquet",
        ):
            subprocess.run(
                [sys.executable, "-m", "foreclick", *words.split()], cwd=folder, check=True
            )
        for name in args.commands:
            bad += tortured(name, COMMANDS[name], home, args.moments)
    fine = {"at work", "after the work"}
    wrong = {kind: count for kind, count in bad.items() if kind not in fine}
    print(f"killed {bad['at work']} times at work; wrong: {wrong or 'nothing'}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
