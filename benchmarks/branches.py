"""Lines and branches that the tests reach, by room: `.ci/run branches`.

Reads what pytest-cov recorded.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

from coverage import Coverage

RECORD = ".cache/branches"
GOAL = 0.95
COUNTED = ("covered_lines", "num_statements", "covered_branches", "num_branches")


def main() -> int:
    """0 if enough branches are reached."""
    coverage = Coverage(data_file=RECORD)
    coverage.load()
    with tempfile.NamedTemporaryFile() as file:
        coverage.json_report(outfile=file.name)
        files = json.loads(Path(file.name).read_text())["files"]
    rooms = defaultdict[str, Counter[str]](Counter)
    for name, found in files.items():
        for room in (Path(name.split("src/foreclick/")[-1]).parts[0], "all"):
            rooms[room].update({key: found["summary"][key] for key in COUNTED})
    print(f"{'room':15} {'lines':>7} {'reached':>8} {'branches':>9} {'reached':>8}")
    for room in sorted(rooms, key=lambda room: (room == "all", room)):
        lines, branches = rooms[room]["num_statements"], rooms[room]["num_branches"]
        reached = rooms[room]["covered_lines"] / max(lines, 1)
        taken = rooms[room]["covered_branches"] / branches if branches else 1.0
        print(f"{room:15} {lines:7,} {reached:8.1%} {branches:9,} {taken:8.1%}")
    return int(taken < GOAL)


if __name__ == "__main__":
    sys.exit(main())
