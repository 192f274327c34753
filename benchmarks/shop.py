"""The default answer in a search shop, beside the truth. `make shop`.

Logs are those of `foreclick.simulate.shop`: a long tail of queries, a ranker that is replaced
weekly and retrained nightly, and candidates that are other models. Each log of a regime has a seed,
and so a shop, of its own. Asked are clicks@3 and dcg@10; in a shop with prices,
clicks, orders and revenue in three positions.

    python -m benchmarks.shop                                       # the ordinary shop, 10 logs
    python -m benchmarks.shop --regimes all --logs 2 --records 50000 --quiet
    python -m benchmarks.shop --regimes shop dbn --estimators ladder ip pbm --jobs 2
    python -m benchmarks.shop --regimes prices bids --records 50000 --estimators ladder

One row by regime and estimator; with prices, by metric, and for the candidate of dear items too.
Bias, RMSE and width are of lifts, in points of percent; *held* is how many intervals hold the true
lift; *right* is how many true lifts of 2 % or more, up or down, are called better or worse as they
are; *wrong* is how many of all are called the contrary. CPU seconds are those of a candidate,
without reading the log. The last column says for how many logs a warning or a note spoke of
leakage.

The regime "leaky" is asked with `trained_until`, where `evaluate` has it, and without ("untold").
"""

from __future__ import annotations

import argparse
import inspect
import multiprocessing
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import foreclick as fc
from foreclick.simulate.shop import REGIMES, TRAINED_UNTIL, Shop, draw

METRICS = ("clicks@3", "dcg@10")
PRICED = ("clicks@3", "orders@3", "revenue@3")
WORTH = 0.02
"""The least lift whose verdict is counted as right or not."""


class Answer(NamedTuple):
    """One row of an evaluation, beside the truth."""

    regime: str
    seed: int
    candidate: str
    metric: str
    estimator: str
    truth: float
    lift: float
    low: float
    high: float
    verdict: str
    cpu: float
    warned: bool

    def __str__(self) -> str:
        held = "held" if self.low <= self.truth <= self.high else "MISSED"
        return (
            f"{self.regime:14} {self.seed:4} {self.candidate:7} {self.metric:9} "
            f"{self.estimator:8} truth {self.truth:+7.1%} lift {self.lift:+7.1%} "
            f"({self.low:+7.1%} to {self.high:+7.1%}) {held:6} {self.verdict:13} {self.cpu:5.1f} s"
        )


def answers(regime: str, shop: Shop, seed: int, options: dict[str, Any]) -> list[Answer]:
    """What `evaluate` says of every candidate of one log."""
    drawn = draw(shop, seed)
    rewards = {name: name for name in ("orders", "revenue") if shop.prices}
    log = fc.read_log(drawn.log, context="query", period="day", unit="user", rewards=rewards)
    tally = fc.tally(log)
    ways = {regime: options}
    if "leaky" in drawn.candidates and takes_training():
        told = {regime: options | {"trained_until": TRAINED_UNTIL}}
        ways = told | {f"{regime}, untold": options}
    found = []
    for way, keywords in ways.items():
        for name, table in drawn.candidates.items():
            metrics = PRICED if shop.prices else METRICS
            # Told until when it was trained, the answer is of the days after.
            days = " later" if "trained_until" in keywords else ""
            both = name + days, "production" + days
            truths = {metric: drawn.lift(both[0], metric, both[1]) for metric in metrics}
            candidate = fc.Ranking(table, context="query")
            found += asked(way, seed, name, truths, tally, candidate, keywords)
    if shop.prices:
        found = [each._replace(regime=f"{each.regime}: {each.metric}") for each in found]
        found += [
            each._replace(regime=f"{each.regime}, {each.candidate} items")
            for each in found
            if each.candidate == "dear"
        ]
    return found


def takes_training() -> bool:
    """Whether `evaluate` can be told until when a candidate was trained."""
    return "trained_until" in inspect.signature(fc.evaluate).parameters


def asked(
    regime: str,
    seed: int,
    name: str,
    truths: dict[str, float],
    tally: fc.Tally,
    candidate: fc.Policy,
    options: dict[str, Any],
) -> list[Answer]:
    """The answers for one candidate; `truths` are its true lifts by metric."""
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        answer = fc.evaluate(tally, candidate, metrics=list(truths), **options)
    cpu = time.process_time() - start
    words = " ".join([*answer.notes, *(str(warning.message) for warning in caught)])
    found = []
    for row in answer.to_dicts():
        numbers: list[Any] = [row[column] for column in ("lift", "lift_low", "lift_high")]
        lift, low, high = (np.nan if number is None else float(number) for number in numbers)
        metric, estimator, verdict = (str(row[c]) for c in ("metric", "estimator", "verdict"))
        of = (regime, seed, name, metric, estimator, truths[metric], lift, low, high, verdict)
        found.append(Answer(*of, cpu, "have been trained on these clicks" in words))
    return found


HEAD = (
    "| regime | estimator | answers | bias | RMSE | held | width | right | wrong | CPU s "
    "| leakage noticed |\n|---|---|---|---|---|---|---|---|---|---|---|"
)


def summary(found: list[Answer]) -> Iterator[str]:
    """A row for each regime and estimator."""
    for regime, estimator in dict.fromkeys((each.regime, each.estimator) for each in found):
        these = [each for each in found if (each.regime, each.estimator) == (regime, estimator)]
        truth, lift, low, high, cpu = (
            np.array([getattr(each, field) for each in these])
            for field in ("truth", "lift", "low", "high", "cpu")
        )
        verdict = np.array([{"better": 1, "worse": -1}.get(each.verdict, 0) for each in these])
        given = ~np.isnan(lift + low + high)
        error, held = (lift - truth)[given], ((low <= truth) & (truth <= high))[given]
        right, wrong = verdict == np.sign(truth), verdict == -np.sign(truth)
        large = np.abs(truth) >= WORTH
        seeds = {each.seed for each in these}
        warned = {each.seed for each in these if each.warned}
        numbers = (
            f"{error.mean():+.2%}",
            f"{np.sqrt((error**2).mean()):.2%}",
            f"{held.mean():.0%}",
            f"{(high - low)[given].mean():.1%}",
            f"{right[large].mean():.0%}" if large.any() else "–",
            f"{wrong.mean():.1%}",
            f"{cpu.mean():.1f}",
            f"{len(warned)} of {len(seeds)}",
        )
        yield f"| {regime} | `{estimator}` | {given.sum()} | {' | '.join(numbers)} |"


def everywhere(
    work: Callable[..., list[Answer]], tasks: list[tuple[Any, ...]], jobs: int
) -> Iterator[list[Answer]]:
    """The answers of each task, in order, by as many processes."""
    if jobs == 1:
        yield from (work(*task) for task in tasks)
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, spawn) as pool:
        yield from pool.map(work, *zip(*tasks, strict=True))


def main() -> None:
    """Print the answers to the standard error, and a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    names = ", ".join(REGIMES)
    parser.add_argument("--regimes", nargs="+", default=["shop"], help=f"all, or of: {names}")
    parser.add_argument("--logs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--records", type=int, help="instead of the regime's own")
    parser.add_argument("--estimators", nargs="+", help="the default ones otherwise")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--quiet", action="store_true", help="the table alone")
    options = parser.parse_args()
    keywords = {"estimators": options.estimators} if options.estimators else {}
    regimes = list(REGIMES) if options.regimes == ["all"] else options.regimes
    if unknown := set(regimes) - set(REGIMES):
        parser.error(f"no regime is called {min(unknown)!r}; there are {names}")
    print(HEAD, flush=True)
    for regime in regimes:
        shop = REGIMES[regime]
        shop = replace(shop, records=options.records or shop.records)
        seeds = range(options.seed, options.seed + options.logs)
        found: list[Answer] = []
        tasks = [(regime, shop, seed, keywords) for seed in seeds]
        for more in everywhere(answers, tasks, options.jobs):
            found += more
            for each in () if options.quiet else more:
                print(each, file=sys.stderr, flush=True)
        for line in summary(found):
            print(line, flush=True)


if __name__ == "__main__":
    main()
