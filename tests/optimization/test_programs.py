"""If this fails, a policy chosen under a clip is not the optimum of the paper's program."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from itertools import cycle, product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.optimization.optimize import Optimized
from tests.answers import answer, close, log_of
from tests.cases.tables import lists_table, log_table
from tests.optimization.scenes import ITEMS, K, lists_of, moved, some_records
from tests.tries import LONG, tries
from tests.truth import programs
from tests.truth.oracle import Record, clicks_at, dcg_at

MODELS = ("list", "ip", "item", "pbm")
CLIPS = (0.5, 1.0, 2.0, 5.0, math.inf)
PRINTED = ("clicks@3", "dcg@3")
METRICS = {"clicks@3": clicks_at(3), "dcg@3": dcg_at(3), "dcg@2": (*dcg_at(2), 1e-300)}
PLAIN: dict[str, Any] = {"pessimism": 0, "judge": None}
LEAST = 2
MODEL = pytest.mark.parametrize("model", MODELS)


def by(model: str, clip: float) -> fc.Weighted:
    return fc.Weighted(model, clip, "1/k" if model == "pbm" else None)


def smoothed(records: list[Record]) -> dict[str, dict[tuple[int, ...], float]]:
    """A logging policy of which the log is one sample: it shows other lists too."""
    found: dict[str, dict[tuple[int, ...], float]] = {}
    for r in records:
        found.setdefault(r.context, {(4, 3, 2): 8.0, (0, 1, 2): 8.0}).setdefault(r.items, 5.0)
        found[r.context][r.items] += 1.0
    return {x: {a: v / sum(of.values()) for a, v in of.items()} for x, of in found.items()}


def best_of(
    records: list[Record],
    model: str,
    clip: float,
    metric: str = "dcg@3",
    *,
    log: fc.Log | None = None,
    logging: Any = None,  # noqa: ANN401
    program: Mapping[str, Any] = {},
    **limits: Any,  # noqa: ANN401
) -> Optimized | None:
    """The chosen policy: worth what the program says, and by the estimator what it promises.

    None where no policy keeps to the limits.
    """
    log, estimator = log_of(records) if log is None else log, by(model, clip)
    asked: dict[str, Any] = {"logging": logging}
    best = fc.optimize(log, estimators=estimator, metrics=metric, **asked, **limits, **PLAIN)
    wanted = programs.best_value(model, records, METRICS[metric], clip, **program)
    if wanted is None:
        assert best["kept"][0] > 0
        return None
    assert close(best.naive, wanted, 1e-9)
    assert close(best.naive, answer(log, best.policy, estimator, metric, **asked)["value"], 1e-9)
    return best


@pytest.mark.parametrize(
    ("clip", "metric"), [*(product(CLIPS, PRINTED) if LONG else zip(CLIPS, cycle(PRINTED)))]
)
@pytest.mark.parametrize("known", [False, True])
@MODEL
def test_it_is_the_program_as_printed_and_keeps_its_promise(
    model: str, clip: float, metric: str, *, known: bool
):
    """By the frequencies of the log, or by a logging policy that is known."""
    for seed in range(20 * known, 20 * known + tries(1, 5)):
        records = some_records(seed)
        pi = smoothed(records) if known else None
        logging = fc.Lists(lists_table(pi)) if pi else None
        best_of(records, model, clip, metric, logging=logging, program={"logging": pi})


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize(("model", "metric"), [("list", "dcg@2"), ("ip", "dcg@3")])
def test_with_propensities_of_records_too(model: str, metric: str, clip: float):
    """A list or slot may have been logged with several; a list is the whole list."""
    for seed in range(tries(1, 2)):
        records, rng = some_records(30 + seed), np.random.default_rng(seed)
        slots = rng.choice([0.2, 0.5, 0.9], (len(records), K)).tolist()
        chances = slots if model == "ip" else [[row[0]] * K for row in slots]
        column = slots if model == "ip" else [row[0] for row in slots]
        log = fc.read_log(log_table(records, chance=column), propensity="chance")
        told = {"chances": chances}
        best_of(records, model, clip, metric, log=log, logging="propensity", program=told)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("clip", [0.5, 2.0, math.inf])
@MODEL
def test_pins_and_bans_and_min_shown_hold_under_a_clip(model: str, clip: float, *, whole: bool):
    """The best of the lists that are left, in the mix or as the only one."""
    records = some_records(41, records=60)
    usual, _ = Counter(r.items for r in records if r.context == "q0").most_common(1)[0]
    pinned, banned = usual[1], next(a for a in range(ITEMS) if a not in usual)

    def allowed(context: str, items: tuple[int, ...]) -> bool:
        mine = [r.items for r in records if r.context == context]
        often = [sum(a in x for x in mine) for a in items]
        if model == "ip":
            often = [sum(x[k] == a for x in mine) for k, a in enumerate(items)]
        elif model == "list":
            often = [mine.count(items)]
        fits = context != "q0" or (items[1] == pinned and banned not in items)
        return fits and min(often) > LEAST

    best = best_of(
        records,
        model,
        clip,
        pinned={"context": ["q0"], "item": [pinned], "position": [2]},
        banned={"context": ["q0"], "item": [banned]},
        min_shown=LEAST + 1,
        deterministic=whole,
        program={"allowed": allowed, "whole": whole},
    )
    assert best is not None
    assert best["changed"] == [2]
    found = lists_of(best)
    assert all(allowed(x, items) for x, lists in found.items() for items in lists)
    assert not whole or [len(lists) for lists in found.values()] == [1, 1]


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("clip", [0.5, 2.0, math.inf])
@MODEL
def test_a_first_step_is_the_best_that_is_near_enough(model: str, clip: float, *, whole: bool):
    """By `list`, of the mixes of lists of the log."""
    records = some_records(50)
    logged = {(r.context, r.items) for r in records}
    limits = {"allowed": lambda *one: model != "list" or one in logged, "whole": whole}
    for change in (0.1, 0.3, 0.6) if LONG else (0.1, 0.6):
        program = {"change": change, **limits}
        best = best_of(
            records, model, clip, max_change=change, deterministic=whole, program=program
        )
        for x, lists in lists_of(best).items() if best else ():
            assert moved(lists, [r for r in records if r.context == x]) <= change + 1e-8


@MODEL
def test_what_stays_is_promised_what_the_estimator_says_of_it(model: str):
    """Rates are lowered so much that production stays; by M = 0.5 half of it counts."""
    log = log_of(some_records(60))
    best = fc.optimize(log, estimators=by(model, 0.5), metrics="dcg@3", pessimism=50, judge=None)
    assert best["kept"] == [2]
    assert close(best.naive, answer(log, best.policy, by(model, 0.5), "dcg@3")["value"], 1e-9)


@pytest.mark.parametrize(
    ("estimator", "pessimism", "known"),
    [("ip", 1, False), (by("list", 2.0), 0, True), (by("ip", math.inf), 0, True)],
)
def test_its_value_is_that_of_policies_chosen_without_the_records_that_judge_them(
    estimator: Any,  # noqa: ANN401
    pessimism: float,
    *,
    known: bool,
):
    """From the other days, by the same program: under the clip, by the same logging policy."""
    records = some_records(10, records=90)
    days = [i % 6 for i in range(len(records))]
    log = fc.read_log(log_table(records, day=days), period="day")
    asked: dict[str, Any] = {"estimators": estimator, "pessimism": pessimism, "metrics": "dcg@3"}
    asked["logging"] = fc.Lists(lists_table(smoothed(records))) if known else None
    best, total = fc.optimize(log, judge="ip", **asked), 0.0
    for fold in range(2):
        held = [r for r, d in zip(records, days, strict=True) if d % 2 == fold]
        others = [r for r, d in zip(records, days, strict=True) if d % 2 != fold]
        chosen = fc.optimize(log_of(others), judge=None, **asked)
        new = [r for r in chosen.policy.table.to_pylist() if r["changed"]]
        policy = fc.Lists(pa.Table.from_pylist(new), items=[f"item_{k + 1}" for k in range(K)])
        told = answer(log_of(held), policy, "ip", "dcg@3", missing="production")
        total += told["value"] * len(held)
    assert close(best.value, total / len(records), 1e-9)
    assert best.naive > best.value


def test_a_logging_policy_that_does_not_know_a_context_is_refused():
    records = some_records(80)
    pi = fc.Lists(lists_table({"q0": smoothed(records)["q0"]}))
    with pytest.raises(
        fc.errors.PolicyError, match=r"no list for at least 1 context of the log.*'q1'"
    ):
        fc.optimize(log_of(records), estimators="ip", logging=pi, **PLAIN)


@pytest.mark.parametrize("model", ["list", "ip"])
def test_what_the_logging_policy_never_shows_is_not_chosen(model: str):
    """The log has clicks there, by which no weight can be said."""
    log = log_of([Record("q", (1, 2), (1.0, 1.0))] * 6 + [Record("q", (2, 1), (1.0, 0.0))] * 4)
    pi = fc.Ranking({"context": ["q"], "items": [[2, 1]]})
    estimator = by(model, 2.0)
    best = fc.optimize(log, estimators=estimator, metrics="clicks@2", logging=pi, **PLAIN)
    assert lists_of(best) == {"q": {(2, 1): 1.0}}
    assert close(best.naive, answer(log, best.policy, estimator, logging=pi)["value"], 1e-9)
