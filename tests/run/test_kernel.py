"""If this fails, an answer depends on what else is asked, or on the size of batches.

However a log is stored and dealt to batches, the answer is the same: `tests/fuzz/changes.py`.
"""

import math
from typing import Any

import pytest

import foreclick as fc
from foreclick.batches import batches_of
from tests.answers import clipped, same
from tests.batches.sizes import in_batches
from tests.cases.plain import drawn, half_new
from tests.cases.tables import lists_table

pytestmark = pytest.mark.filterwarnings("ignore::foreclick.errors.ForeclickWarning")

EVERY = (
    *("list", "prefix", "ip", "item", "pbm", "rctr", "rcm"),
    fc.ClickModel(
        "own", lambda slot: [slot.item % 3, slot.position > 1], examination=lambda k: 1 / k
    ),
)
LADDERS = ("ladder", "ladder-ip")
LOG: dict[str, Any] = {"records": 600, "contexts": 25, "items": 8, "orders": True}
LOG |= {"ragged": True, "missing": True, "segments": True}


@pytest.mark.parametrize("roles", [{"periods": 6}, {"unit": True}, {}], ids=str)
def test_an_answer_does_not_depend_on_what_is_asked_beside_it(roles):
    """The standard error of clicks@3 once changed when dcg@10 was asked too."""
    case = drawn(1, **LOG, **roles)
    by = "land" if "unit" in roles else None
    tally, candidate = fc.tally(case.log), fc.Lists(lists_table(half_new(case)))

    def asked(estimators: Any, *metrics: str) -> dict[Any, Any]:  # noqa: ANN401
        options: dict[str, Any] = {"metrics": metrics, "by": by, "missing": "production"}
        found = fc.evaluate(in_batches(tally, 10**9), candidate, estimators=estimators, **options)
        return {(r["estimator"], r["metric"], r["clip"], r.get("land")): r for r in found}

    def assert_same(found: dict[Any, Any], right: dict[Any, Any]) -> None:
        assert all(same(found[key], row, 1e-9) for key, row in right.items())

    alone = asked((*EVERY, *LADDERS), "clicks@3")
    assert all(row["se"] > 0 for row in alone.values())
    assert_same(asked((*EVERY, *LADDERS), "dcg@10", "clicks@3"), alone)
    others = (*LADDERS, *clipped(EVERY, [math.inf, 0.5]))
    assert_same(asked(others, "clicks@3", "price:dcg@1"), alone)
    weighted = {key: row for key, row in alone.items() if key[0] not in LADDERS}
    assert_same(asked(EVERY, "success@2", "clicks@3"), weighted)


@pytest.mark.parametrize(
    "roles", [{"periods": 6, "unit": True}, {"propensity": "slot"}], ids=["clusters", "propensity"]
)
def test_a_batch_that_is_worked_on_in_blocks_gives_the_same(roles, monkeypatch):
    case = drawn(3, **LOG, **roles)
    asked: dict[str, Any] = {"metrics": ["clicks@3", "price@2"], "by": "land", "missing": "drop"}
    asked |= {"logging": "propensity", "estimators": "ip"} if "propensity" in roles else {}

    def ask() -> list[dict[str, Any]]:
        candidate = fc.Lists(lists_table(half_new(case)))
        return fc.evaluate(fc.tally(case.log), candidate, **asked).to_dicts()

    whole = ask()
    monkeypatch.setattr("foreclick.run.estimate.BLOCK", 50)
    assert all(map(same, ask(), whole))


def test_a_log_that_stays_in_memory_goes_to_no_other_process():
    """Where a user's own click model could not follow, if it is a lambda."""
    batches = batches_of(in_batches(fc.tally(drawn(2, **LOG).log), 300))
    sizes = list(batches.map(lambda batch: len(batch.contexts), workers=2))
    assert len(sizes) > 1
    assert sizes == [len(batch.contexts) for batch in batches]
