"""Run the fuzzer: `python -m tests.fuzz --cases 100000`, or one log again by `--seed N`.

A case is one answer that was held against an oracle: one estimator, metric, clip and segment, of a
random log and candidate. A seed is one log with its candidate and its questions.

With `--only changes` a case is an answer about a random log, and the same about the log with its
rows in another order, other names, a segment or a reward more, in files, in another format or in
other batches: numbers are equal to 1e-9, verdicts are the same. With `--only tiny` it is a verdict
of a tiny log, which its interval does not contradict.

With `--engine postgres` (or spark, clickhouse, bigquery, duckdb) a case is a random log with faults
in every column, tallied there: the tally, or the error, is that of DuckDB, to the last bit. With
`--engine pandas` (or polars, pandas-arrow, columns, rows) it is read from such a frame instead.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from typing import Any

from tests.fuzz.engines import ENGINES, difference, started
from tests.fuzz.others import LOGS, MORE, compared

SEEDS = 100
"""Logs from one report to the next."""


def main() -> int:
    """The number of findings, at most 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, help="this log alone")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--cases", type=int, default=100_000, help="stop after so many answers")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--only", choices=[*MORE, *LOGS], help="ask only this")
    parser.add_argument("--engine", choices=ENGINES, help="tally logs there instead")
    asked = parser.parse_args()
    cases = logs = found = 0
    with _answers(asked) as answers:
        while not logs or (asked.seed is None and cases < asked.cases):
            seeds = range(asked.start + logs, asked.start + logs + min(SEEDS, asked.cases - cases))
            for seed, count, wrong in answers(seeds if asked.seed is None else [asked.seed]):
                cases, logs, found = cases + count, logs + 1, found + bool(wrong)
                if wrong:
                    print(f"seed {seed}: {wrong}", flush=True)  # noqa: T201
            print(f"{cases:,} cases of {logs:,} logs, {found} findings", flush=True)  # noqa: T201
    return int(found > 0)


@contextmanager
def _answers(asked: argparse.Namespace) -> Iterator[Any]:
    """A function from seeds to each seed, how many answers it had and what is wrong with them."""
    if asked.engine is not None:
        with started(asked.engine) as load:
            yield partial(map, lambda seed: (seed, 1, difference(seed, load)))
        return
    ask = partial(compared, only=asked.only)
    if asked.jobs == 1:
        yield partial(map, ask)
        return
    with get_context("spawn").Pool(asked.jobs) as pool:
        yield partial(pool.imap, ask, chunksize=10)


if __name__ == "__main__":
    sys.exit(main())
