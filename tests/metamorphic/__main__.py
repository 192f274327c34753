"""What does not matter must not count: `python -m tests.metamorphic --comparisons 5000`.

A comparison is one answer about a random log, and the same about the log with its rows in another
order, other names of items or contexts, a segment or a reward more, made of two halves, in files,
in another format or in other batches: numbers are equal to 1e-9, verdicts are the same. Then tiny
logs: no verdict contradicts its own interval, and of fewer than 30 records there is none.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from multiprocessing import get_context

from tests.metamorphic.judge import compared, contradictions

LOGS = 40
"""From one report to the next."""


def main() -> int:
    """1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.metamorphic", description=__doc__)
    parser.add_argument("--comparisons", type=int, default=5000, help="stop after so many answers")
    parser.add_argument("--tiny", type=int, default=2000, help="so many tiny logs")
    parser.add_argument("--seed", type=int, help="this log alone")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--only", help="only changes whose name has this in it")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    asked = parser.parse_args()
    if asked.seed is not None:
        found = compared(asked.seed, asked.only)
        _, wrong = contradictions(asked.seed)
        print("\n".join([*found.wrong, *wrong]) or "no difference")  # noqa: T201
        return int(bool(found.wrong or wrong))
    with get_context("spawn").Pool(asked.jobs) as pool:
        wrong_logs = _compare(pool, asked) + _tiny(pool, asked)
    return int(wrong_logs > 0)


def _compare(pool, asked: argparse.Namespace) -> int:
    done = logs = sampled = wrong = 0
    while done < asked.comparisons:
        seeds = range(asked.start + logs, asked.start + logs + LOGS)
        for found in pool.imap(partial(compared, only=asked.only), seeds):
            done, logs, sampled = done + found.comparisons, logs + 1, sampled + found.sampled
            wrong += bool(found.wrong)
            for each in found.wrong:
                print(f"seed {found.seed}: {each}", flush=True)  # noqa: T201
        print(  # noqa: T201
            f"{done:,} comparisons of {logs:,} logs, {sampled} of them sampled: {wrong} differ",
            flush=True,
        )
    return wrong


def _tiny(pool, asked: argparse.Namespace) -> int:
    verdicts = wrong = 0
    for seed, (count, found) in enumerate(pool.imap(contradictions, range(asked.tiny), 10)):
        verdicts += count
        wrong += bool(found)
        for each in found:
            print(f"tiny seed {seed}: {each}", flush=True)  # noqa: T201
    print(  # noqa: T201
        f"{verdicts:,} verdicts of {asked.tiny:,} tiny logs: {wrong} contradict their intervals"
    )
    return wrong


if __name__ == "__main__":
    sys.exit(main())
