"""`replay` on simulated A/B tests, beside the truth. `make replay`.

Each test is a shop of its own (`foreclick.simulate.shop`): half of its users are shown another
model. In half of the tests that model is about as good as production ("similar"), in the others
better, worse, or production's own with a part of its error taken away. In half of them both models
are retrained every night on the clicks of their own users (feedback).

    python -m benchmarks.replay                                # 60 tests, 200,000 lists an arm
    python -m benchmarks.replay --records 100000 --forward     # in an eighth of the time
    python -m benchmarks.replay --tests 20 --records 60000 --forward --world short
    python -m benchmarks.replay --tests 20 --records 60000 --forward --world pooled

"short" is a world whose intervals are too short by design: every record was written nine times, and
the log is read without days and users, so that copies count as independent and chance seems a third
of what it is. In "pooled", both models are
trained on the clicks of all users, so that the tested one knows the clicks that predict it.

*Right* and *wrong* are verdicts of the prediction beside the true lift: right of all true lifts of
3 % or more that were called as they are; wrong of all tests that were called the contrary.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np
import pyarrow as pa

import foreclick as fc
from benchmarks.shop import everywhere
from foreclick.questions import replay as replaying
from foreclick.simulate.shop import Shop, draw

METRICS = ("clicks@3", "dcg@10")
WORTH = 0.03
"""The least true lift whose verdict is counted as right or not."""

COPIES = 9
"""How often each record of "short" was written."""

WORLDS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "shop": ({}, {"period": "day", "unit": "user"}),
    "short": ({}, {}),
    "pooled": ({"pooled": True}, {"period": "day", "unit": "user"}),
}


def shop_of(number: int, records: int, world: str) -> Shop:
    """The shop of a test: the models in turn, with and without feedback."""
    model = ("similar", ("better", "worse", "tweak")[number // 4 % 3])[number % 2]
    feedback = 0.5 if world == "pooled" or (number // 2 % 2 and world == "shop") else 0.0
    return Shop(records=records, test=model, feedback=feedback, candidates=(), **WORLDS[world][0])


def tested(number: int, records: int, world: str, forward: bool) -> list[Any]:  # noqa: FBT001
    """One test: its replay, its true lifts by metric, and what it was."""
    if forward:
        replaying.ENOUGH = sys.maxsize  # no arm has so many records
    shop, start = shop_of(number, records, world), time.process_time()
    drawn = draw(shop, 1000 + number)
    table = pa.concat_tables([drawn.log] * (COPIES if world == "short" else 1))
    log = fc.read_log(table, context="query", segments="variant", **WORLDS[world][1])
    found = fc.replay(fc.tally(log), metrics=METRICS)
    truths = {metric: drawn.lift("treatment", metric, "control") for metric in METRICS}
    return [found, truths, shop, time.process_time() - start]


def summary(found: list[list[Any]], *, forward: bool) -> list[str]:
    """A row for each estimator and metric."""
    lines = []
    first = found[0][0]
    for estimator, metric in dict.fromkeys((row["estimator"], row["metric"]) for row in first.rows):
        rows, truth = [], []
        for each, truths, _, _ in found:
            for row in each.rows:
                if (row["estimator"], row["metric"], row["forward"]) == (
                    estimator,
                    metric,
                    forward,
                ):
                    rows.append(row)
                    lift = truths[metric]
                    truth.append(lift if forward else 1 / (1 + lift) - 1)
        true = np.array(truth)
        sign = np.array([{"better": 1, "worse": -1}.get(row["verdict"], 0) for row in rows])
        low, high, predicted = (
            np.array([row[c] for row in rows], float)
            for c in ("predicted_low", "predicted_high", "predicted")
        )
        large = np.abs(true) >= WORTH
        cells = [
            f"{np.mean([row['holds'] for row in rows]):.0%}",
            f"{((low <= true) & (true <= high)).mean():.0%}",
            f"{(predicted - true).mean():+.2%}",
            f"{np.sqrt(((predicted - true) ** 2).mean()):.2%}",
            f"{(high - low).mean():.1%}",
            f"{(sign == np.sign(true))[large].mean():.0%} of {large.sum()}",
            f"{(sign == -np.sign(true)).mean():.1%}",
        ]
        lines.append(f"| `{estimator}` | {metric} | {len(rows)} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Print each test to the standard error, and the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tests", type=int, default=60)
    parser.add_argument("--records", type=int, default=400_000, help="of both arms")
    parser.add_argument("--world", choices=list(WORLDS), default="shop")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--output", help="where all tests go, a .json or .csv file")
    parser.add_argument("--forward", action="store_true", help="the control from no arm")
    options = parser.parse_args()
    tasks = [
        (number, options.records, options.world, options.forward) for number in range(options.tests)
    ]
    found: list[list[Any]] = []
    for each in everywhere(tested, tasks, options.jobs):
        found.append(each)
        row, truth, shop = each[0].rows[0], each[1][METRICS[0]], each[2]
        print(
            f"{len(found):3} {shop.test:7} feedback {shop.feedback:g} truth {truth:+.2%} predicted "
            f"{row['predicted']:+.2%} {row['verdict']:11} measured {row['measured']:+.2%} "
            f"{row['outcome']:11} {'holds' if row['holds'] else 'MISSED'} {each[3]:.0f} s "
            + " ".join(note for note in each[0].notes if "mismatch" in note or "other" in note),
            file=sys.stderr,
            flush=True,
        )
    groups = {"all": found}
    for feedback in dict.fromkeys(shop.feedback for _, _, shop, _ in found):
        groups[f"feedback {feedback:g}"] = [each for each in found if each[2].feedback == feedback]
    for name, some in groups.items():
        for forward in (True, False) if name == "all" and not options.forward else (True,):
            print(f"\n{name}, {'from the control' if forward else 'from the other arm'}\n")
            print(
                "| estimator | metric | tests | difference holds 0 | prediction holds truth | bias "
                "| RMSE | width | right | wrong |\n" + "|---" * 10 + "|"
            )
            print("\n".join(summary(some, forward=forward)))
    together = found[0][0]
    for each in found[1:]:
        together = together + each[0]
    if options.output:
        together.save(options.output)
    print(f"\n{together.headline.title}\n", *together.headline.sentences, sep="\n")
    print(f"\n{together.summary.table}")


if __name__ == "__main__":
    main()
