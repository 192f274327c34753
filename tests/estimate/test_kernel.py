"""The kernel: the same answer however a log is stored and dealt to batches, whatever else is asked.

Contexts are independent, so neither the size of a batch nor the way the log was stored may change
an answer by more than the order of its sums does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
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

# Sums of thousands of terms in another order; standard errors are roots of differences of them.
ROUNDING = 1e-9

EVERY = (
    *("list", "prefix", "ip", "item", "pbm", "rctr", "rcm"),
    fc.ClickModel(
        "own", lambda slot: [slot.item % 3, slot.position > 1], examination=lambda k: 1 / k
    ),
)
LADDERS = ("ladder", "ladder-ip")


def random_log(seed: int) -> pa.Table:
    """Ragged lists of up to 4 of 7 items; days, users and halves."""
    rng = np.random.default_rng(seed)
    context = np.minimum(rng.geometric(0.1, RECORDS), CONTEXTS)
    shown = [rng.permutation(7)[: rng.integers(1, 5)].tolist() for _ in range(RECORDS)]
    return pa.table(
        {
            "context": context,
            "items": shown,
            "clicks": [(rng.random(len(a)) < 0.4).astype(int).tolist() for a in shown],
            "price": [rng.choice([0.0, 0.1, 2.7], len(a)).tolist() for a in shown],
            "day": rng.integers(0, DAYS, RECORDS),
            "user": rng.integers(0, 40, RECORDS),
            "half": rng.choice(["a", "b"], RECORDS),
        }
    )


KINDS = {"period": {"period": "day"}, "unit": {"unit": "user"}}
ROLES: dict[str, dict[str, Any]] = {**KINDS, "both": KINDS["period"] | KINDS["unit"], "record": {}}
"""The columns that say whose records vary together."""


def read(table: pa.Table, where: str | None = None, *, clusters: str = "both") -> fc.Tally:
    return fc.tally(
        fc.read_log(
            table,
            rewards={"price": "price"},
            **ROLES[clusters],
            segments="half",
            where=where,
        )
    )


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return random_log(1)


@pytest.fixture(scope="module")
def whole(table: pa.Table) -> fc.Tally:
    return read(table)


Stored = Callable[[str], dict[str, fc.Tally]]


@pytest.fixture(scope="module")
def stored(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """The same log, in batches and in files of several kinds, by whose records vary together."""

    @cache
    def made(clusters: str) -> dict[str, fc.Tally]:
        folder: Path = tmp_path_factory.mktemp("tallies")

        def some(where: str | None = None) -> fc.Tally:
            return read(table, where, clusters=clusters)

        for day in range(DAYS):
            some(f"day = {day}").write_parquet(folder / f"day-{day}.parquet")
        for rest in range(2):
            some(f"user % 2 = {rest}").write_parquet(folder / f"users-{rest}.parquet")
        days, users = str(folder / "day-*.parquet"), str(folder / "users-*.parquet")
        whole = some()
        return {
            "whole": in_batches(whole, 10**9),
            "a context a batch": in_batches(whole, 1),
            "a few contexts a batch": in_batches(whole, 400),
            "a file a day": fc.read_tally(days),
            "a file a day, a context a batch": in_batches(fc.read_tally(days), 1),
            "files that share days": fc.read_tally(users),
            "files that share days, in batches": in_batches(fc.read_tally(users), 300),
            "added": some("day < 3") + some("day >= 3"),
            "added, in batches": in_batches(some("user < 9") + some("user >= 9"), 300),
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


Rows = list[dict[str, Any]]


def assert_same(found: Rows, right: Rows, what: str = "") -> None:
    """Every number is the same, but for rounding."""
    assert len(found) == len(right) > 0
    for one, other in zip(found, right, strict=True):
        assert same(one, other, ROUNDING), (what, one, other)


FIRST: dict[str, Any] = {"metrics": ["success@2", "mrr@4"], "estimators": (*EVERY, "ladder")}
CLIPPED: dict[str, Any] = {
    "metrics": ["clicks@2", "price:dcg@4"],
    "estimators": clipped(EVERY, [0.8, math.inf]),
}
QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "periods": ("period", CLIPPED),
    "units": ("unit", CLIPPED),
    "records": ("record", CLIPPED),
    "by half": ("both", {"by": "half", **CLIPPED}),
    "by two": ("both", {"estimators": ("ip", "ladder"), "by": ["half", "period"]}),
    "ladders": ("both", {"estimators": LADDERS, "metrics": ["clicks@2", "dcg@4"]}),
    "ladders by half": ("unit", {"estimators": LADDERS, "by": "half"}),
    "ladders of records": ("record", {"estimators": LADDERS}),
    "first clicks by period": ("period", FIRST),
    "first clicks by record": ("record", FIRST),
    "first clicks of halves": ("unit", {"by": "half", **FIRST}),
}
"""Whose records vary together, and what is asked."""


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_answer_is_the_same_however_the_log_is_stored(
    stored: Stored, candidate: fc.Lists, name: str
):
    kind, options = QUESTIONS[name]
    ways, asked = stored(kind), {"missing": "production", **options}
    expected = fc.evaluate(ways["whole"], candidate, **asked).to_dicts()
    assert any(row["se"] > 0 for row in expected if row["se"] is not None)
    for how in some_of(ways, list(QUESTIONS).index(name)):
        assert_same(fc.evaluate(ways[how], candidate, **asked).to_dicts(), expected, how)


def some_of(stored: dict[str, fc.Tally], turn: int) -> list[str]:
    """Two ways to store a log, others for each question; in a long run all of them."""
    ways = list(stored)[1:]
    return ways if LONG else [ways[(turn + 3 * k) % len(ways)] for k in range(2)]


@pytest.mark.parametrize(
    "asked",
    [
        {"missing": "drop", "baseline": True},
        {
            "missing": "drop",
            "logging": True,
            "estimators": clipped(["ip", "list"], [3, math.inf]),
        },
        {"observed": True},
    ],
)
def test_so_has_one_with_other_policies(stored: Stored, candidate: fc.Lists, asked: dict[str, Any]):
    other = fc.Observed(read(random_log(3)))
    policy: fc.Policy = other if "observed" in asked else candidate
    options: dict[str, Any] = {
        name: other if name in {"baseline", "logging"} else value
        for name, value in asked.items()
        if name != "observed"
    }
    ways = stored("both")
    expected = fc.evaluate(ways["whole"], policy, **options).to_dicts()
    for how in ("a context a batch", "a file a day", "added, in batches"):
        assert_same(fc.evaluate(ways[how], policy, **options).to_dicts(), expected, how)


def test_the_other_verbs_answer_the_same(stored: Stored, candidate: fc.Lists):
    other = fc.Observed(random_log(4))

    def asked(log: fc.Tally) -> Rows:
        seen = fc.support(log, candidate, missing="drop", estimators=["list", "ip", "item"])
        compared = fc.compare(
            log, {"a": candidate, "b": other}, missing="production", metrics="clicks@2"
        )
        return [*seen.to_dicts(), *compared.to_dicts()]

    ways = stored("both")
    expected = asked(ways["whole"])
    for how in ("a few contexts a batch", "files that share days, in batches"):
        assert_same(asked(ways[how]), expected, how)


def test_the_batches_are_those_that_were_asked_for(
    whole: fc.Tally, stored: Stored, candidate: fc.Lists
):
    """Otherwise the tests above would compare one batch with itself."""
    contexts = len(next(iter(batches_of(in_batches(whole, 10**9)))).contexts)
    tally = in_batches(whole, 1)
    fc.evaluate(tally, candidate, missing="drop", metrics="clicks@2")
    used = batches_of(tally)
    assert used._kept is not None
    assert len(used._kept) == contexts > 20
    assert 2 < len(list(batches_of(stored("both")["a few contexts a batch"]))) < contexts


# --- beside others --------------------------------------------------------------------------------

Asked = Callable[..., dict[Any, dict[str, Any]]]


@pytest.fixture(scope="module")
def asked(table: pa.Table, candidate: fc.Lists) -> Asked:
    """The rows of an evaluation, by estimator, metric, clip and segment."""
    of_kind = cache(lambda clusters: read(table, clusters=clusters))

    def rows(clusters: str, **options: Any) -> dict[Any, dict[str, Any]]:  # noqa: ANN401
        tally = in_batches(of_kind(clusters), 10**9)
        found = fc.evaluate(tally, candidate, missing="production", **options).to_dicts()
        return {(r["estimator"], r["metric"], r["clip"], r.get("half")): r for r in found}

    return rows


@pytest.mark.parametrize("clusters", ["period", "unit", "record"])
@pytest.mark.parametrize("by", [None, "half"])
def test_an_answer_does_not_depend_on_what_is_asked_beside_it(
    asked: Asked, clusters: str, by: str | None
):
    """The standard error of clicks@3 once changed when dcg@10 was asked too."""
    options: dict[str, Any] = {"by": by}
    alone = asked(clusters, estimators=EVERY, metrics="clicks@3", **options)
    assert all(row["se"] > 0 for row in alone.values())
    others = ["success@2", "price:dcg@1", "clicks@3"]
    beside = [
        asked(clusters, estimators=EVERY, metrics=["clicks@3", "dcg@10"], **options),
        asked(clusters, estimators=EVERY, metrics=others, **options),
        asked(clusters, estimators=(*LADDERS, *EVERY), metrics="clicks@3", **options),
        asked(clusters, estimators=clipped(EVERY, [math.inf, 0.5]), metrics="clicks@3", **options),
    ]
    for found in beside:
        assert_same([found[key] for key in alone], list(alone.values()))


@pytest.mark.parametrize("clusters", ["period", "record"])
def test_nor_does_a_ladder(asked: Asked, clusters: str):
    alone = asked(clusters, estimators=LADDERS, metrics="clicks@3")
    assert all(row["se"] > 0 for row in alone.values())
    for found in (
        asked(clusters, estimators=LADDERS, metrics=["dcg@10", "clicks@3"]),
        asked(clusters, estimators=(*EVERY, *LADDERS), metrics=["price:dcg@1", "clicks@3"]),
    ):
        assert_same([found[key] for key in alone], list(alone.values()))


@pytest.mark.parametrize("seed", range(3))
def test_items_that_only_candidates_have_do_not_change_what_is_added(seed: int):
    """The numbers of unseen items depend on the batch."""
    rng = np.random.default_rng(seed)
    contexts = rng.integers(0, 6, 120).tolist()
    lists = [(2 * x + rng.permutation(5)[: rng.integers(1, 4)]).tolist() for x in contexts]
    log = {
        "context": contexts,
        "items": lists,
        "clicks": [rng.integers(0, 2, len(shown)).tolist() for shown in lists],
    }
    drawn = {
        "context": np.repeat(np.arange(6), 40).tolist(),
        "items": [rng.permutation(15)[:3].tolist() for _ in range(240)],
    }
    policy = fc.Observed(fc.read_log(drawn, clicks=None))
    tally = fc.tally(fc.read_log(log))
    asked: dict[str, Any] = {"estimators": ["list", "prefix", "ip", "item"], "metrics": "dcg@3"}
    one, all_ = (
        fc.evaluate(in_batches(tally, slots), policy, **asked).to_dicts() for slots in (1, 10**9)
    )
    assert_same(one, all_)


def test_a_log_that_stays_in_memory_goes_to_no_other_process(whole: fc.Tally):
    """Where a user's own click model could not follow, if it is a lambda."""
    batches = batches_of(in_batches(whole, 300))
    sizes = list(batches.map(lambda batch: len(batch.contexts), workers=2))
    assert len(sizes) > 1
    assert sizes == [len(batch.contexts) for batch in batches]
