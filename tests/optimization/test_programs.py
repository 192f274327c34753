"""If this fails, a policy chosen under a clip is not the optimum of the paper's program."""

from __future__ import annotations

import math
from collections import Counter
from itertools import cycle, product
from typing import Any

import numpy as np
import pytest

import foreclick as fc
from tests.answers import answer, close
from tests.cases.tables import log_table
from tests.tries import LONG, tries
from tests.truth import programs
from tests.truth.oracle import Record, clicks_at, dcg_at

MODELS = ("list", "ip", "item", "pbm")
CLIPS = (0.5, 1.0, 2.0, 5.0, math.inf)
METRICS = {"clicks@3": clicks_at(3), "dcg@3": dcg_at(3)}
PLAIN: dict[str, Any] = {"pessimism": 0, "judge": None}
K, ITEMS = 3, 5
LEAST = 2


def some_records(seed: int, contexts: int = 2, records: int = 40) -> list[Record]:
    """Some lists far more often than others, so that clips bind."""
    rng = np.random.default_rng(seed)
    found = []
    for x in range(contexts):
        rates = rng.random((ITEMS, K))
        lists = [tuple(rng.permutation(ITEMS)[:K].tolist()) for _ in range(7)]
        for which in rng.choice(7, records, p=rng.dirichlet(np.ones(7))):
            clicks = tuple(float(rng.random() < rates[a, k]) for k, a in enumerate(lists[which]))
            found.append(Record(f"q{x}", lists[which], clicks))
    return found


def by(model: str, clip: float) -> fc.Weighted:
    return fc.Weighted(model, clip, "1/k" if model == "pbm" else None)


def smoothed(records: list[Record]) -> dict[str, dict[tuple[int, ...], float]]:
    """A logging policy of which the log is one sample: it shows other lists too."""
    found: dict[str, dict[tuple[int, ...], float]] = {}
    for r in records:
        found.setdefault(r.context, {(4, 3, 2): 8.0, (0, 1, 2): 8.0}).setdefault(r.items, 5.0)
        found[r.context][r.items] += 1.0
    return {x: {a: v / sum(of.values()) for a, v in of.items()} for x, of in found.items()}


def as_lists(policy: dict[str, dict[tuple[int, ...], float]]) -> fc.Lists:
    rows = [(x, list(a), mass) for x, of in policy.items() for a, mass in of.items()]
    context, items, probability = zip(*rows, strict=True)
    return fc.Lists({"context": context, "items": items, "probability": probability})


@pytest.mark.parametrize(
    ("clip", "metric"), [*(product(CLIPS, METRICS) if LONG else zip(CLIPS, cycle(METRICS)))]
)
@pytest.mark.parametrize("model", MODELS)
def test_it_is_the_program_as_printed_and_keeps_its_promise(model: str, clip: float, metric: str):
    for seed in range(tries(1, 5)):
        records = some_records(seed)
        log = fc.read_log(log_table(records))
        best = fc.optimize(log, estimators=by(model, clip), metrics=metric, **PLAIN)
        assert close(best.naive, programs.best_value(model, records, METRICS[metric], clip), 1e-9)
        told = answer(log, best.policy, by(model, clip), metric)
        assert close(best.naive, told["value"], 1e-9)


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("model", MODELS)
def test_with_a_known_logging_policy_too(model: str, clip: float):
    for seed in range(tries(1, 2)):
        records = some_records(20 + seed)
        pi = smoothed(records)
        log, logging = fc.read_log(log_table(records)), as_lists(pi)
        best = fc.optimize(
            log, estimators=by(model, clip), metrics="dcg@3", logging=logging, **PLAIN
        )
        wanted = programs.best_value(model, records, dcg_at(3), clip, logging=pi)
        assert close(best.naive, wanted, 1e-9)
        told = answer(log, best.policy, by(model, clip), "dcg@3", logging=logging)
        assert close(best.naive, told["value"], 1e-9)


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize(("model", "metric"), [("list", "dcg@2"), ("ip", "dcg@3")])
def test_with_propensities_of_records_too(model: str, metric: str, clip: float):
    """A list or slot may have been logged with several; a list is the whole list."""
    for seed in range(tries(1, 2)):
        records = some_records(30 + seed)
        rng = np.random.default_rng(seed)
        if model == "list":
            chances = [(float(v),) * K for v in rng.choice([0.1, 0.2, 0.5], len(records))]
            table = log_table(records, chance=[row[0] for row in chances])
            theta: tuple[float, ...] = (*dcg_at(2), 1e-300)
        else:
            chances = [tuple(row) for row in rng.choice([0.2, 0.5, 0.9], (len(records), K))]
            table = log_table(records, chance=[list(row) for row in chances])
            theta = dcg_at(3)
        log = fc.read_log(table, propensity="chance")
        asked: dict[str, Any] = {"logging": "propensity"}
        best = fc.optimize(log, estimators=by(model, clip), metrics=metric, **asked, **PLAIN)
        wanted = programs.best_value(model, records, theta, clip, chances=chances)
        assert close(best.naive, wanted, 1e-9)
        told = answer(log, best.policy, by(model, clip), metric, **asked)
        assert close(best.naive, told["value"], 1e-9)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("clip", [0.5, 2.0, math.inf])
@pytest.mark.parametrize("model", MODELS)
def test_pins_and_bans_and_min_shown_hold_under_a_clip(model: str, clip: float, whole: bool):
    """The best of the lists that are left, in the mix or as the only one."""
    records = some_records(41, records=60)
    usual, _ = Counter(r.items for r in records if r.context == "q0").most_common(1)[0]
    pinned, banned = usual[1], next(a for a in range(ITEMS) if a not in usual)

    def often(context: str, items: tuple[int, ...]) -> bool:
        mine = [r.items for r in records if r.context == context]
        if model == "list":
            return mine.count(items) > LEAST
        at = {"ip": lambda a, k: sum(x[k] == a for x in mine)}
        times = at.get(model, lambda a, k: sum(a in x for x in mine))
        return all(times(a, k) > LEAST for k, a in enumerate(items))

    def allowed(context: str, items: tuple[int, ...]) -> bool:
        fits = context != "q0" or (items[1] == pinned and banned not in items)
        return fits and often(context, items)

    wanted = programs.best_value(model, records, dcg_at(K), clip, allowed=allowed, whole=whole)
    log = fc.read_log(log_table(records))
    best = fc.optimize(
        log,
        estimators=by(model, clip),
        metrics="dcg@3",
        pinned={"context": ["q0"], "item": [pinned], "position": [2]},
        banned={"context": ["q0"], "item": [banned]},
        min_shown=LEAST + 1,
        deterministic=whole,
        **PLAIN,
    )
    assert wanted is not None
    assert best["changed"] == [2]
    assert close(best.naive, wanted, 1e-9)
    rows = best.policy.table.to_pylist()
    assert all(allowed(r["context"], tuple(r[f"item_{k}"] for k in (1, 2, 3))) for r in rows)
    assert not whole or len(rows) == 2


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("clip", [0.5, 2.0, math.inf])
@pytest.mark.parametrize("model", MODELS)
def test_a_first_step_is_the_best_that_is_near_enough(model: str, clip: float, whole: bool):
    """By `list`, of the mixes of lists of the log."""
    records = some_records(50)
    logged = {(r.context, r.items) for r in records}

    def allowed(*one: Any) -> bool:  # noqa: ANN401
        return model != "list" or one in logged

    log = fc.read_log(log_table(records))
    for change in (0.1, 0.3, 0.6) if LONG else (0.1, 0.6):
        wanted = programs.best_value(
            model, records, dcg_at(3), clip, allowed=allowed, whole=whole, change=change
        )
        best = fc.optimize(
            log,
            estimators=by(model, clip),
            metrics="dcg@3",
            max_change=change,
            deterministic=whole,
            **PLAIN,
        )
        if wanted is None:
            assert best["kept"][0] > 0
            continue
        assert close(best.naive, wanted, 1e-9)
        assert close(best.naive, answer(log, best.policy, by(model, clip), "dcg@3")["value"], 1e-9)
        for x in ("q0", "q1"):
            rows = [r for r in best.policy.table.to_pylist() if r["context"] == x]
            mix = ((r["probability"], [r[f"item_{k}"] for k in (1, 2, 3)]) for r in rows)
            h = sum(mass * _slots(items) for mass, items in mix)
            mine = [_slots(r.items) for r in records if r.context == x]
            assert np.maximum(h - sum(mine) / len(mine), 0).sum() <= change * K + 1e-8


def _slots(items: Any) -> np.ndarray:  # noqa: ANN401
    h = np.zeros((ITEMS, K))
    h[list(items), np.arange(K)] = 1
    return h


@pytest.mark.parametrize("model", MODELS)
def test_what_stays_is_promised_what_the_estimator_says_of_it(model: str):
    """Rates are lowered so much that production stays; by M = 0.5 half of it counts."""
    records = some_records(60)
    log = fc.read_log(log_table(records))
    best = fc.optimize(log, estimators=by(model, 0.5), metrics="dcg@3", pessimism=50, judge=None)
    assert best["kept"] == [2]
    told = answer(log, best.policy, by(model, 0.5), "dcg@3")
    assert close(best.naive, told["value"], 1e-9)


@pytest.mark.parametrize(("model", "clip"), [("list", 2.0), ("ip", math.inf)])
def test_folds_choose_by_the_same_program(model: str, clip: float):
    """What is judged was chosen from the other days, under the clip and by the logging policy."""
    records = some_records(70, records=90)
    days = [i % 6 for i in range(len(records))]
    log = fc.read_log(log_table(records, day=days), period="day")
    asked: dict[str, Any] = {
        "estimators": by(model, clip),
        "metrics": "dcg@3",
        "pessimism": 0,
        "logging": as_lists(smoothed(records)),
    }
    best, total = fc.optimize(log, judge="ip", **asked), 0.0
    for fold in range(2):
        held = [r for r, d in zip(records, days, strict=True) if d % 2 == fold]
        others = [r for r, d in zip(records, days, strict=True) if d % 2 != fold]
        chosen = fc.optimize(fc.read_log(log_table(others)), judge=None, **asked)
        told = answer(fc.read_log(log_table(held)), chosen.policy, "ip", "dcg@3")
        total += told["value"] * len(held)
    assert close(best.value, total / len(records), 1e-9)


def test_a_logging_policy_that_does_not_know_a_context_is_refused():
    records = some_records(80)
    pi = {"q0": smoothed(records)["q0"]}
    with pytest.raises(
        fc.errors.PolicyError, match=r"no list for at least 1 context of the log.*'q1'"
    ):
        fc.optimize(log_table(records), estimators="ip", logging=as_lists(pi), **PLAIN)


def test_what_the_logging_policy_never_shows_is_not_chosen():
    """The log has clicks there, by which no weight can be said."""
    records = [Record("q", (1, 2), (1.0, 1.0))] * 6 + [Record("q", (2, 1), (1.0, 0.0))] * 4
    pi = fc.Ranking({"context": ["q"], "items": [[2, 1]]})
    for model in ("list", "ip"):
        best = fc.optimize(
            log_table(records),
            estimators=by(model, 2.0),
            metrics="clicks@2",
            logging=pi,
            **PLAIN,
        )
        (row,) = best.policy.table.to_pylist()
        assert (row["item_1"], row["item_2"]) == (2, 1)
        told = answer(log_table(records), best.policy, by(model, 2.0), logging=pi)
        assert close(best.naive, told["value"], 1e-9)


@pytest.mark.parametrize("name", ["ladder", "ladder-ip"])
def test_a_ladder_has_no_clip(name: str):
    with pytest.raises(fc.errors.ModelError, match="no weights"):
        fc.Weighted(name, clip=2)
