"""The kernel: the same bits however the log is dealt to batches and files, whatever else is asked.

Contexts are independent and sums are taken in their order, so neither the size of a batch nor the
way the log was stored may change a single bit of an answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.batches import batches_of
from foreclick.estimators.holdout.cells import runs
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


def read(table: pa.Table, where: str | None = None) -> fc.Tally:
    return fc.tally(
        fc.read_log(
            table,
            rewards={"price": "price"},
            period="day",
            unit="user",
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


@pytest.fixture(scope="module")
def stored(
    table: pa.Table, whole: fc.Tally, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, fc.Tally]:
    """The same log, in batches and in files of several kinds."""
    folder: Path = tmp_path_factory.mktemp("tallies")
    for day in range(DAYS):
        read(table, f"day = {day}").write_parquet(folder / f"day-{day}.parquet")
    for rest in range(2):
        read(table, f"user % 2 = {rest}").write_parquet(folder / f"users-{rest}.parquet")
    days, users = str(folder / "day-*.parquet"), str(folder / "users-*.parquet")
    return {
        "a context a batch": in_batches(whole, 1),
        "a few contexts a batch": in_batches(whole, 400),
        "a file a day": fc.read_tally(days),
        "a file a day, a context a batch": in_batches(fc.read_tally(days), 1),
        "files that share days": fc.read_tally(users),
        "files that share days, in batches": in_batches(fc.read_tally(users), 300),
        "added": read(table, "day < 3") + read(table, "day >= 3"),
        "added, in batches": in_batches(read(table, "user < 9") + read(table, "user >= 9"), 300),
    }


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


def bits(found: fc.Evaluation) -> list[str]:
    """Every number as it is; repr tells floats apart that differ in a bit."""
    return [repr(row) for row in found.to_dicts()]


FIRST: dict[str, Any] = {"metrics": ["success@2", "mrr@4"], "estimators": (*EVERY, "ladder")}
CLIPPED: dict[str, Any] = {"metrics": ["clicks@2", "price:dcg@4"], "clip": [0.8, math.inf]}
QUESTIONS: dict[str, dict[str, Any]] = {
    "periods and units": {"estimators": EVERY, **CLIPPED},
    "records": {"clusters": "record", "estimators": EVERY, **CLIPPED},
    "by half": {"estimators": EVERY, "by": "half", **CLIPPED},
    "by two": {"clusters": "record", "estimators": ("ip", "ladder"), "by": ["half", "period"]},
    "ladders": {"estimators": LADDERS, "metrics": ["clicks@2", "dcg@4"]},
    "ladders by half": {"estimators": LADDERS, "by": "half"},
    "first clicks": FIRST,
    "first clicks by record": {"clusters": "record", **FIRST},
    "first clicks of halves": {"by": "half", **FIRST},
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_answer_has_the_same_bits_however_the_log_is_stored(
    whole: fc.Tally, stored: dict[str, fc.Tally], candidate: fc.Lists, name: str
):
    asked: dict[str, Any] = {"missing": "production", **QUESTIONS[name]}
    expected = bits(fc.evaluate(in_batches(whole, 10**9), candidate, **asked))
    assert any("'se': 0." in row for row in expected)
    for how in some_of(stored, list(QUESTIONS).index(name)):
        assert bits(fc.evaluate(stored[how], candidate, **asked)) == expected, how


def some_of(stored: dict[str, fc.Tally], turn: int) -> list[str]:
    """Two ways to store a log, others for each question; in a long run all of them."""
    ways = list(stored)
    return ways if LONG else [ways[(turn + 3 * k) % len(ways)] for k in range(2)]


@pytest.mark.parametrize(
    "asked",
    [
        {"missing": "drop", "baseline": True},
        {"missing": "drop", "logging": True, "clip": [3, math.inf]},
        {"observed": True},
    ],
)
def test_so_has_one_with_other_policies(
    whole: fc.Tally, stored: dict[str, fc.Tally], candidate: fc.Lists, asked: dict[str, Any]
):
    other = fc.Observed(read(random_log(3)))
    policy: fc.Policy = other if "observed" in asked else candidate
    options: dict[str, Any] = {
        name: other if name in {"baseline", "logging"} else value
        for name, value in asked.items()
        if name != "observed"
    }
    expected = bits(fc.evaluate(in_batches(whole, 10**9), policy, **options))
    for how in ("a context a batch", "a file a day", "added, in batches"):
        assert bits(fc.evaluate(stored[how], policy, **options)) == expected, how


def test_the_other_verbs_have_the_same_bits(
    whole: fc.Tally, stored: dict[str, fc.Tally], candidate: fc.Lists
):
    other = fc.Observed(random_log(4))

    def asked(log: fc.Tally) -> list[str]:
        seen = fc.support(log, candidate, missing="drop", estimators=["list", "ip", "item"])
        compared = fc.compare(
            log, {"a": candidate, "b": other}, missing="production", metric="clicks@2"
        )
        return [repr(row) for row in (*seen.to_dicts(), *compared.to_dicts())]

    expected = asked(in_batches(whole, 10**9))
    for how in ("a few contexts a batch", "files that share days, in batches"):
        assert asked(stored[how]) == expected, how


def test_the_batches_are_those_that_were_asked_for(
    whole: fc.Tally, stored: dict[str, fc.Tally], candidate: fc.Lists
):
    """Otherwise the tests above would compare one batch with itself."""
    contexts = len(next(iter(batches_of(in_batches(whole, 10**9)))).contexts)
    tally = in_batches(whole, 1)
    fc.evaluate(tally, candidate, missing="drop", metrics="clicks@2")
    used = batches_of(tally)
    assert used._kept is not None
    assert len(used._kept) == contexts > 20
    assert 2 < len(list(batches_of(stored["a few contexts a batch"]))) < contexts


# --- beside others --------------------------------------------------------------------------------

Asked = Callable[..., dict[Any, dict[str, Any]]]


@pytest.fixture(scope="module")
def asked(whole: fc.Tally, candidate: fc.Lists) -> Asked:
    """The rows of an evaluation, by estimator, metric, clip and segment."""

    def rows(**options: Any) -> dict[Any, dict[str, Any]]:  # noqa: ANN401
        tally = in_batches(whole, 10**9)
        found = fc.evaluate(tally, candidate, missing="production", **options).to_dicts()
        return {(r["estimator"], r["metric"], r["clip"], r.get("half")): r for r in found}

    return rows


@pytest.mark.parametrize("clusters", ["auto", "record"])
@pytest.mark.parametrize("by", [None, "half"])
def test_an_answer_does_not_depend_on_what_is_asked_beside_it(
    asked: Asked, clusters: str, by: str | None
):
    """The standard error of clicks@3 once changed when dcg@10 was asked too."""
    options: dict[str, Any] = {"clusters": clusters, "by": by}
    alone = asked(estimators=EVERY, metrics="clicks@3", **options)
    assert all(row["se"] > 0 for row in alone.values())
    beside = [
        asked(estimators=EVERY, metrics=["clicks@3", "dcg@10"], **options),
        asked(estimators=EVERY, metrics=["success@2", "price:dcg@1", "clicks@3"], **options),
        asked(estimators=(*LADDERS, *EVERY), metrics="clicks@3", **options),
        asked(estimators=EVERY, metrics="clicks@3", clip=[math.inf, 0.5], **options),
    ]
    for found in beside:
        assert {key: repr(found[key]) for key in alone} == {k: repr(r) for k, r in alone.items()}


@pytest.mark.parametrize("clusters", ["auto", "record"])
def test_nor_does_a_ladder(asked: Asked, clusters: str):
    options: dict[str, Any] = {"clusters": clusters}
    alone = asked(estimators=LADDERS, metrics="clicks@3", **options)
    assert all(row["se"] > 0 for row in alone.values())
    for found in (
        asked(estimators=LADDERS, metrics=["dcg@10", "clicks@3"], **options),
        asked(estimators=(*EVERY, *LADDERS), metrics=["price:dcg@1", "clicks@3"], **options),
    ):
        assert {key: repr(found[key]) for key in alone} == {k: repr(r) for k, r in alone.items()}


@pytest.mark.parametrize("seed", range(3))
def test_items_that_only_candidates_have_do_not_change_the_order_of_sums(seed: int):
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
    assert one == all_


def test_runs_of_equal_values_are_numbered_from_0():
    assert runs(np.array([5, 5, 2, 9, 9, 9])).tolist() == [0, 0, 1, 2, 2, 2]
    assert runs(np.array([], dtype=np.int64)).tolist() == []


def test_a_log_that_stays_in_memory_goes_to_no_other_process(whole: fc.Tally):
    """Where a user's own click model could not follow, if it is a lambda."""
    batches = batches_of(in_batches(whole, 300))
    sizes = list(batches.map(lambda batch: len(batch.contexts), workers=2))
    assert len(sizes) > 1
    assert sizes == [len(batch.contexts) for batch in batches]
