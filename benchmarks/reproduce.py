"""The paper from a raw file: CPU time and memory of `foreclick reproduce`, beside SQL by hand.

The file is drawn in the format of Kaggle's "Personalized Web Search Challenge": sessions of one to
three lists on 30 days, of which the last three have test queries. Queries are as heavy in the head
as the paper tells of its own: a tenth of all lists are of the 1,000 most frequent ones.

    python -m benchmarks.reproduce --lines 20000000
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np

LINES_OF_A_SESSION = 5.12
DAYS, TEST_DAYS = 27, 3

_PART = 200_000  # sessions that are written at once

_PLACES = "".join(
    f", '\t', {item}, ',', {item} // 7"
    for item in (f"(q * 16 + (turn + step * {k}) % 13)" for k in range(10))
)
_DRAW = f"""
WITH sessions AS (
    SELECT s, 1 + (hash(s, 1) % {DAYS + TEST_DAYS})::INT AS day FROM range($start, $end) AS t(s)
), queries AS (
    SELECT s, day, i, CASE WHEN day > {DAYS} THEN 'T' ELSE 'Q' END AS kind,
        (9e6 * pow(hash(s, i, 2) / 18446744073709551616.0, 4))::INT AS q
    FROM sessions, range(3) AS l(i) WHERE i = 0 OR hash(s, 3) % 24 >= 9 * i
), lists AS (
    SELECT *, (hash(q, day // 4, 4) % 5)::INT AS turn,
        1 + (hash(q, day // 6, 5) % 2 + hash(s, i, 5) % 2)::INT AS step
    FROM queries
), clicks AS (
    SELECT s, i, k, q * 16 + (turn + step * k) % 13 AS item
    FROM lists, range(10) AS p(k) WHERE kind = 'Q'
), lines AS (
    SELECT s, -1 AS i, 0 AS k,
        concat(s, '\tM\t', day, '\t', hash(s, 6) % ($sessions // 6), '\n') AS line
    FROM sessions
    UNION ALL
    SELECT s, i, -1, concat(s, '\t', 30 * i, '\t', kind, '\t', i, '\t', q, '\t', q % 977,
        ',', q % 997 {_PLACES}, '\n') FROM lists
    UNION ALL
    SELECT s, i, k, concat(s, '\t', 30 * i + k + 1, '\tC\t', i, '\t', item, '\n') FROM clicks
    WHERE (hash(s, i, item) % 1000003) / 1000003.0
        < 0.9 * (hash(item, 7) % 1000003) / 1000003.0 / (k + 1)
)
SELECT line FROM lines ORDER BY s, i, k
"""


def draw(path: Path, lines: int) -> None:
    """A file of about so many lines: sessions of one to three lists on 30 days."""
    sessions = round(lines / LINES_OF_A_SESSION)
    with duckdb.connect() as connection, path.open("wb") as file:
        for start in range(0, sessions, _PART):
            end = min(start + _PART, sessions)
            drawn = {"sessions": sessions, "start": start, "end": end}
            for texts in connection.execute(_DRAW, drawn).to_arrow_table()["line"].chunks:
                first, last = texts.offset, texts.offset + len(texts)
                _, offsets, text = texts.buffers()
                at = np.frombuffer(offsets, np.int32)
                file.write(text.slice(int(at[first]), int(at[last] - at[first])))


_BY_HAND = r'''
import duckdb, sys
duckdb.connect(config={"memory_limit": "1GB", "threads": 2}).execute("""
    SET enable_progress_bar_print = false;
    WITH lines AS (
        FROM read_csv('FILE', delim = '\x01', columns = {'line': 'VARCHAR'}, quote = '',
            header = false, auto_detect = false)
    ), lists AS (
        SELECT string_split(line, chr(9)) AS f FROM lines WHERE contains(line, chr(9) || 'Q')
    ), sessions AS (
        SELECT string_split(line, chr(9)) AS f FROM lines WHERE contains(line, chr(9) || 'M')
    )
    SELECT q.f[5]::BIGINT AS query, m.f[3]::INT AS day, count(*) AS n
    FROM lists AS q, sessions AS m WHERE q.f[1] = m.f[1] GROUP BY ALL
""".replace("FILE", sys.argv[1]).replace(r"\x01", chr(1))).fetchone()
'''


def measured(*command: str) -> tuple[float, float, float]:
    """CPU seconds, seconds and gigabytes of a process."""
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, command
    cpu = used.ru_utime + used.ru_stime
    return cpu, time.monotonic() - started, used.ru_maxrss / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=20_000_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder, "train")
        draw(raw, args.lines)
        print(f"{args.lines:,} lines, {raw.stat().st_size / 1e9:.2f} GB\n")
        hand = measured(sys.executable, "-c", _BY_HAND, str(raw))
        ours = measured(
            *(sys.executable, "-m", "foreclick", "reproduce", str(raw), "-o", f"{folder}/figures")
        )
        print("| step | CPU s | s | peak GB |\n|---|---|---|---|")
        for name, figures in {"by hand: queries by day": hand, "foreclick reproduce": ours}.items():
            print(f"| {name} | " + " | ".join(f"{figure:.1f}" for figure in figures) + " |")
        print(f"\nGoal: {1.5 * hand[0] + 60:.0f} CPU s, 2 GB.")


if __name__ == "__main__":
    main()
