"""The same answer however a log is stored and dealt to batches, and whatever else is asked.

Contexts are independent, so neither the size of a batch nor the way the log was stored may change
an answer by more than the order of its sums does.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.batches import batches_of
from tests.answers import clipped, same
from tests.batches.sizes import in_batches
from tests.tries import LONG

pytestmark = pytest.mark.filterwarnings("ignore::foreclick.errors.ForeclickWarning")

RECORDS, CONTEXTS, DAYS = 900, 25, 6
EVERY = (
    *("list", "prefix", "ip", "item", "pbm", "rctr", "rcm"),
    fc.ClickModel(
        "own", lambda slot: [slot.item % 3, slot.position > 1], examination=lambda k: 1 / k
    ),
)
LADDERS = ("ladder", "ladder-ip")
ROLES: dict[str, dict[str, Any]] = {
    "period": {"period": "day"},
    "unit": {"unit": "user"},
    "both": {"period": "day", "unit": "user"},
    "record": {},
}
"""The columns that say whose records vary together."""


@cache
def random_log(seed: int = 1) -> pa.Table:
    """Ragged lists of up to 4 of 7 items; days, users and halves."""
    rng = np.random.default_rng(seed)
    shown = [rng.permutation(7)[: rng.integers(1, 5)].tolist() for _ in range(RECORDS)]
    return pa.table(
        {
            "context": np.minimum(rng.geometric(0.1, RECORDS), CONTEXTS),
            "items": shown,
            "clicks": [(rng.random(len(a)) < 0.4).astype(int).tolist() for a in shown],
            "price": [rng.choice([0.0, 0.1, 2.7], len(a)).tolist() for a in shown],
            "day": rng.integers(0, DAYS, RECORDS),
            "user": rng.integers(0, 40, RECORDS),
            "half": rng.choice(["a", "b"], RECORDS),
        }
    )


def read(kind: str, where: str | None = None) -> fc.Tally:
    roles = {"rewards": {"price": "price"}, "segments": "half", "where": where, **ROLES[kind]}
    return fc.tally(fc.read_log(random_log(), **roles))


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The same log, in batches and in files of several kinds, by whose records vary together."""

    @cache
    def made(kind: str) -> dict[str, fc.Tally]:
        folder = tmp_path_factory.mktemp("tallies")
        for day in range(DAYS):
            read(kind, f"day = {day}").write_parquet(folder / f"day-{day}.parquet")
        for rest in range(2):
            read(kind, f"user % 2 = {rest}").write_parquet(folder / f"users-{rest}.parquet")
        days, users = (str(folder / f"{name}-*.parquet") for name in ("day", "users"))
        whole = read(kind)
        return {
            "whole": in_batches(whole, 10**9),
            "a context a batch": in_batches(whole, 1),
            "a few contexts a batch": in_batches(whole, 400),
            "a file a day": fc.read_tally(days),
            "a file a day, a context a batch": in_batches(fc.read_tally(days), 1),
            "files that share days, in batches": in_batches(fc.read_tally(users), 300),
            "added": read(kind, "day < 3") + read(kind, "day >= 3"),
            "added, in batches": in_batches(read(kind, "user < 9") + read(kind, "user > 8"), 300),
        }

    return made


@pytest.fixture(scope="module")
def candidate() -> fc.Lists:
    """Lists with probabilities, some with items that the log never showed, for most contexts."""
    rng = np.random.default_rng(2)
    contexts = [x for x in range(CONTEXTS + 3) if x % 6]
    return fc.Lists(
        {
            "context": [x for x in contexts for _ in range(2)],
            "items": [rng.permutation(8)[:3].tolist() for _ in range(2 * len(contexts))],
            "probability": [0.3, 0.7] * len(contexts),
        }
    )


def assert_same(found, right, what=""):
    """Every number is the same but for rounding: thousands of terms in another order."""
    assert len(found) == len(right) > 0
    for one, other in zip(found, right, strict=True):
        assert same(one, other, 1e-9), (what, one, other)


FIRST: dict[str, Any] = {"metrics": ["success@2", "mrr@4"], "estimators": (*EVERY, "ladder")}
CLIPPED: dict[str, Any] = {
    "metrics": ["clicks@2", "price:dcg@4"],
    "estimators": clipped(EVERY, [0.8, math.inf]),
}
QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "periods": ("period", CLIPPED),
    "units by half": ("unit", {"by": "half", **CLIPPED}),
    "records": ("record", CLIPPED),
    "by two": ("both", {"estimators": ("ip", "ladder"), "by": ["half", "period"]}),
    "ladders": ("both", {"estimators": LADDERS, "metrics": ["clicks@2", "dcg@4"]}),
    "ladders by half": ("unit", {"estimators": LADDERS, "by": "half"}),
    "first clicks by period": ("period", FIRST),
    "first clicks of halves": ("unit", {"by": "half", **FIRST}),
    "a baseline": ("both", {"baseline": "another log"}),
    "a logging policy": ("both", {"estimators": ("ip", "list"), "logging": "another log"}),
}
"""Whose records vary together, and what is asked."""


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_answer_is_the_same_however_the_log_is_stored(stored, candidate, name):
    kind, options = QUESTIONS[name]
    other = fc.Observed(random_log(3))
    asked: dict[str, Any] = {"missing": "drop" if "logging" in options else "production"}
    asked |= {key: other if value == "another log" else value for key, value in options.items()}
    ways, turn = stored(kind), list(QUESTIONS).index(name)
    expected = fc.evaluate(ways["whole"], candidate, **asked).to_dicts()
    assert any(row["se"] > 0 for row in expected if row["se"] is not None)
    others = list(ways)[1:]
    some = others if LONG else [others[(turn + 3 * k) % len(others)] for k in range(2)]
    for how in some:
        assert_same(fc.evaluate(ways[how], candidate, **asked).to_dicts(), expected, how)


def test_the_other_verbs_answer_the_same(stored, candidate):
    both = {"a": candidate, "b": fc.Observed(random_log(4))}

    def asked(log: fc.Tally) -> list[Any]:
        seen = fc.support(log, candidate, missing="drop", estimators=["list", "ip", "item"])
        compared = fc.compare(log, both, missing="production", metrics="clicks@2")
        return [*seen.to_dicts(), *compared.to_dicts()]

    expected = asked(stored("both")["whole"])
    for how in ("a few contexts a batch", "files that share days, in batches"):
        assert_same(asked(stored("both")[how]), expected, how)


def test_the_batches_are_those_that_were_asked_for(stored):
    """Otherwise the tests above would compare one batch with itself."""
    ways = stored("both")
    few, one = (batches_of(ways[f"a {how} a batch"]) for how in ("few contexts", "context"))
    contexts = len(next(iter(batches_of(ways["whole"]))).contexts)
    assert 2 < len(list(few)) < len(list(one)) == contexts


@pytest.mark.parametrize(("kind", "by"), [("period", None), ("unit", "half"), ("record", None)])
def test_an_answer_does_not_depend_on_what_is_asked_beside_it(candidate, kind, by):
    """The standard error of clicks@3 once changed when dcg@10 was asked too."""

    def asked(estimators: Any, *metrics: str) -> dict[Any, Any]:  # noqa: ANN401
        tally = in_batches(read(kind), 10**9)
        options: dict[str, Any] = {"metrics": metrics, "by": by, "missing": "production"}
        found = fc.evaluate(tally, candidate, estimators=estimators, **options)
        return {(r["estimator"], r["metric"], r["clip"], r.get("half")): r for r in found}

    alone = asked((*EVERY, *LADDERS), "clicks@3")
    assert all(row["se"] > 0 for row in alone.values())
    for found in (
        asked((*EVERY, *LADDERS), "dcg@10", "clicks@3"),
        asked((*LADDERS, *clipped(EVERY, [math.inf, 0.5])), "clicks@3", "price:dcg@1"),
    ):
        assert_same([found[key] for key in alone], list(alone.values()))
    weighted = {key: row for key, row in alone.items() if key[0] not in LADDERS}
    found = asked(EVERY, "success@2", "clicks@3")
    assert_same([found[key] for key in weighted], list(weighted.values()))


def test_a_log_that_stays_in_memory_goes_to_no_other_process():
    """Where a user's own click model could not follow, if it is a lambda."""
    batches = batches_of(in_batches(read("both"), 300))
    sizes = list(batches.map(lambda batch: len(batch.contexts), workers=2))
    assert len(sizes) > 1
    assert sizes == [len(batch.contexts) for batch in batches]
