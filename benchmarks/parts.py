"""Answers by segment in shops where one segment has a taste of its own, beside the truth.

    python -m benchmarks.parts --shares .05 .2 .5 --apart 0 .3 .6 1 --logs 5

One row for each share of users and distance of taste (0: the same): how many intervals of the
segment hold its true lift, how many lifts of 2 % or more get the right verdict, how many any wrong
one, and the width.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import foreclick as fc
from benchmarks.shop import METRICS, WORTH
from foreclick.simulate.shop import Shop, draw


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shares", nargs="+", type=float, default=[0.05, 0.2, 0.5])
    parser.add_argument("--apart", nargs="+", type=float, default=[0.0, 0.3, 0.6, 1.0])
    parser.add_argument("--logs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--records", type=int, default=100_000)
    asked = parser.parse_args()
    print("| share | apart | answers | bias | RMSE | held | width | right | wrong | told |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for share in asked.shares:
        for apart in asked.apart:
            shop = Shop(records=asked.records, others=(share, apart))
            rows = [row for log in range(asked.logs) for row in answers(shop, asked.seed + log)]
            truth, lift, low, high, verdict = np.array(rows).T
            right, large = verdict == np.sign(truth), abs(truth) >= WORTH
            print(
                f"| {share:.0%} | {apart:g} | {len(rows)} | {(lift - truth).mean():+.2%} "
                f"| {np.sqrt(((lift - truth) ** 2).mean()):.2%} "
                f"| {((low <= truth) & (truth <= high)).mean():.0%} | {(high - low).mean():.1%} "
                f"| {right[large].mean():.0%} | {(verdict == -np.sign(truth)).mean():.1%} "
                f"| {(verdict != 0).mean():.0%} |",
                flush=True,
            )


def answers(shop: Shop, seed: int) -> list[tuple[float, ...]]:
    """Truth, lift, its ends and the verdict of the other users, for each candidate and metric."""
    drawn = draw(shop, seed)
    log = fc.read_log(drawn.log, context="query", period="day", unit="user", segments="taste")
    tally, found = fc.tally(log), []
    for name, table in drawn.candidates.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = fc.evaluate(
                tally,
                fc.Ranking(table, context="query"),
                metrics=list(METRICS),
                estimators="ladder",
                by="taste",
            )
        for row in answer:
            if row["taste"] != "other":
                continue
            truth = drawn.lift(f"{name} of others", row["metric"], "production of others")
            word = {"better": 1, "worse": -1}.get(row["verdict"], 0)
            found.append((truth, row["lift"], row["lift_low"], row["lift_high"], word))
    return found


if __name__ == "__main__":
    main()
