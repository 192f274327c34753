"""`replay` on simulated A/B tests, beside the truth.

Each test is a shop of its own (`foreclick.simulate.shop`): half of its users are shown another
model. In half of the tests that model is about as good as production ("similar"), in the others
better, worse, or production's own with a part of its error taken away. In half of them both models
are retrained every night on the clicks of their own users (feedback).

    python -m benchmarks replay                                # 60 tests, 200,000 lists an arm
    python -m benchmarks replay --records 100000 --forward     # in an eighth of the time
    python -m benchmarks replay --tests 20 --records 60000 --forward --world short
    python -m benchmarks replay --tests 20 --records 60000 --forward --world pooled

"short" is a world whose intervals are too short by design: every record was written nine times, and
the log is read without days and users, so that copies count as independent and chance seems a third
of what it is. In "pooled", both models are trained on the clicks of all users, so that the tested
one knows the clicks that predict it.

*Right* and *wrong* are verdicts of the prediction beside the true lift: right of all true lifts of
3 % or more that were called as they are; wrong of all tests that were called the contrary.
"""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa

import foreclick as fc
from benchmarks.study import Column, Row, beside, right, study
from foreclick.questions import replay as replaying
from foreclick.simulate.shop import Shop, draw

METRICS = ("clicks@3", "dcg@10")
WORTH = 0.03
"""The least true lift whose verdict is counted as right or not."""

COPIES = 9
"""How often each record of "short" was written."""

WORLDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "shop": ({}, {"period": "day", "unit": "user"}),
    "short": ({}, {}),
    "pooled": ({"pooled": True}, {"period": "day", "unit": "user"}),
}


def shop_of(number: int, records: int, world: str) -> Shop:
    """The shop of a test: the models in turn, with and without feedback."""
    model = ("similar", ("better", "worse", "tweak")[number // 4 % 3])[number % 2]
    feedback = 0.5 if world == "pooled" or (number // 2 % 2 and world == "shop") else 0.0
    return Shop(records=records, test=model, feedback=feedback, candidates=(), **WORLDS[world][0])


@study(
    "replay",
    ["from", "feedback", "estimator", "metric"],
    "logs, difference holds 0=holds:.0%, held, bias, rmse, width",
    Column("right", right(WORTH), ".0%"),
    Column("of", lambda rows: int((abs(rows.of("truth")) >= WORTH).sum())),
    "wrong",
    tests=60,
)
def predicted(
    test: int, records: int = 400_000, world: str = "shop", forward: bool = False
) -> list[Row]:
    """Simulated A/B tests, predicted and measured; `forward`: from the control alone."""
    if forward:
        replaying.ENOUGH = sys.maxsize  # no arm has so many records
    shop = shop_of(test, records, world)
    drawn = draw(shop, 1000 + test)
    table = pa.concat_tables([drawn.log] * (COPIES if world == "short" else 1))
    log = fc.read_log(table, context="query", segments="variant", **WORLDS[world][1])
    found = []
    for row in fc.replay(fc.tally(log), metrics=METRICS):
        lift = drawn.lift("treatment", row["metric"], "control")
        truth = lift if row["forward"] else 1 / (1 + lift) - 1
        key = {"from": "control" if row["forward"] else "other arm", "holds": row["holds"]}
        found.append(key | beside(row, truth, "predicted"))
    return [{"feedback": of} | row for of in ("all", f"{shop.feedback:g}") for row in found]
