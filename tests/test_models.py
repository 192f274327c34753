"""Click models: seven declarations, and a user's own, over one kernel."""

import math
from typing import Any

import numpy as np
import pytest

import foreclick as fc
from foreclick.errors import ModelError
from foreclick.models import MODELS, ClickModel, click_model
from tests.answers import (
    SAME,
    answer,
    assert_as_oracle,
    clipped,
    log_of,
    settled,
    value_by_cells,
    values,
)
from tests.truth import oracle, random_logs
from tests.truth.oracle import Record
from tests.truth.paper import paper


@pytest.mark.parametrize(
    ("name", "cell", "examined", "over_lists", "sees_items"),
    [
        ("list", "list", (1, 1, 1), True, True),
        ("prefix", "prefix", (1, 1, 1), True, True),
        ("ip", ("item", "position"), (1, 1, 1), False, True),
        ("item", ("item",), (1, 1, 1), False, True),
        ("pbm", ("item",), (1, 1 / 2, 1 / 3), False, True),
        ("rctr", ("position",), (1, 1, 1), False, False),
        ("rcm", (), (1, 1, 1), False, False),
    ],
)
def test_the_seven_declarations(name, cell, examined, over_lists, sees_items):
    model = MODELS[name]
    assert (str(model), model.cell) == (name, cell)
    assert model.examined(3) == examined
    assert (model.over_lists, model.sees_items) == (over_lists, sees_items)


def test_there_are_seven_from_the_finest_to_the_coarsest():
    assert list(MODELS) == ["list", "prefix", "ip", "item", "pbm", "rctr", "rcm"]


def test_dctr_is_another_name_of_item():
    assert click_model("dctr") is MODELS["item"]
    assert fc.Weighted("dctr").name == "item"


def test_an_unknown_model_is_refused_with_those_there_are():
    with pytest.raises(
        ModelError, match=r"no click model 'cascade'.*list, prefix, ip.*ClickModel\("
    ):
        click_model("cascade")


# --- declarations that are none -------------------------------------------------------------------


@pytest.mark.parametrize("cell", ["query", ("item", "day"), ["position", 3], ("list",)])
def test_a_cell_of_something_else_is_refused_with_what_there_is(cell):
    with pytest.raises(ModelError, match=r"cell of click model 'mine'.*lambda slot"):
        ClickModel("mine", cell=cell)


@pytest.mark.parametrize("cell", [3, None])
def test_a_cell_of_the_wrong_kind_is_refused(cell):
    with pytest.raises(ModelError):
        ClickModel("mine", cell=cell)


def test_a_list_of_names_is_kept_as_a_tuple_so_that_models_are_values():
    model = ClickModel("mine", cell=["item", "position"], examination=[1, 0.5])
    assert model == ClickModel("mine", cell=("item", "position"), examination=(1, 0.5))
    assert hash(model) == hash(ClickModel("mine", ("item", "position"), (1, 0.5)))
    assert ClickModel("mine", cell="item").cell == ("item",)


class TestExamination:
    def test_a_sequence_may_be_longer_than_the_metric(self):
        assert ClickModel("mine", "item", [1, 0.5, 0.25]).examined(2) == (1, 0.5)

    def test_a_function_is_asked_for_each_position_from_1(self):
        assert ClickModel("mine", "item", lambda k: 2**-k).examined(3) == (0.5, 0.25, 0.125)

    def test_one_that_is_too_short_is_refused_with_both_lengths(self):
        with pytest.raises(ModelError, match=r"given for 2 positions.*counts 3.*Give 3 numbers"):
            ClickModel("mine", "item", [1, 0.5]).examined(3)

    @pytest.mark.parametrize("wrong", [-0.1, math.nan, math.inf])
    def test_one_that_is_no_examination_is_refused(self, wrong):
        with pytest.raises(ModelError, match="finite and at least 0"):
            ClickModel("mine", "item", [1, wrong]).examined(2)
        with pytest.raises(ModelError, match="finite and at least 0"):
            ClickModel("mine", "item", lambda k: wrong).examined(1)

    def test_it_can_be_given_to_a_built_in_model(self):
        assert click_model("pbm", [0.9, 0.1]).examined(2) == (0.9, 0.1)
        assert click_model("pbm", [0.9, 0.1]).cell == ("item",)
        assert MODELS["pbm"].examined(2) == (1, 1 / 2)

    def test_too_short_a_one_is_refused_by_evaluate(self):
        with pytest.raises(ModelError, match="given for 1 position,"):
            answer(log_of(RECORDS), CANDIDATE_TABLE, fc.Weighted("pbm", examination=[1]))

    def test_evaluate_uses_it_and_only_its_shape_matters(self):
        p = (0.9, 0.3, 0.2)
        found = fc.evaluate(
            log_of(RECORDS),
            CANDIDATE_TABLE,
            estimators=[
                fc.Weighted("pbm", examination=p),
                ClickModel("function", "item", lambda k: p[k - 1]),
                ClickModel("scaled", "item", [10 * x for x in p]),
            ],
            metrics="clicks@3",
            confidence=None,
        )
        expected = oracle.value("pbm", RECORDS, CANDIDATE, (1, 1, 1), p=p)
        assert values(found) == pytest.approx(
            {"pbm": expected, "function": expected, "scaled": expected}, rel=SAME
        )

    def test_positions_that_nobody_examines_earn_nothing(self):
        records = [Record("q", (1, 2), (1, 1))] * 3 + [Record("q", (2, 1), (1, 1))] * 3
        top = ClickModel("top", "item", [1, 0])
        row = answer(log_of(records), {"context": ["q"], "items": [[1, 2]]}, top)
        # Item 1: exposure 1/2 in the log, 1 by the candidate; clicks at both positions count.
        assert row["value"] == pytest.approx(2 * 1.0, rel=SAME)


# --- models of a user's own -----------------------------------------------------------------------


def _random_records():
    rng = np.random.default_rng(11)
    pool = np.array([101, 102, 201, 202, 301])
    lists = [tuple(rng.permutation(pool)[:4].tolist()) for _ in range(6)]
    return [
        Record(context, lists[int(rng.integers(6))], tuple((rng.random(4) < 0.4) * 1.0))
        for context in ("q", "r")
        for _ in range(20)
    ]


RECORDS = _random_records()
CANDIDATE: dict[Any, Any] = {
    "q": {(201, 101, 301, 102): 0.75, (102, 201, 999, 301): 0.25},
    "r": {(301, 202, 201, 101): 1.0},
}
CANDIDATE_TABLE = fc.Lists(random_logs.lists_table(CANDIDATE))

WINDOW = ClickModel("window", cell=lambda slot: [slot.item, (slot.position - 1) // 2])
CATEGORY = ClickModel("category", cell=lambda slot: [slot.item // 100, slot.position])
FOLD = ClickModel(
    "fold", cell=lambda slot: [slot.item, slot.position <= 3], examination=lambda k: 1 / k
)
SINGLE = ClickModel("single", cell=lambda slot: slot.item // 100)


@pytest.mark.parametrize("clip", [1.5, math.inf])
def test_models_of_your_own_follow_the_formula(clip):
    found = fc.evaluate(
        log_of(RECORDS),
        CANDIDATE_TABLE,
        estimators=clipped([WINDOW, CATEGORY, FOLD, SINGLE], clip),
        metrics="dcg@4",
        confidence=None,
    )
    theta = oracle.dcg_at(4)
    by_hand = {
        "window": value_by_cells(
            lambda item, k: (item, (k - 1) // 2), RECORDS, CANDIDATE, theta, clip=clip
        ),
        "category": value_by_cells(
            lambda item, k: (item // 100, k), RECORDS, CANDIDATE, theta, clip=clip
        ),
        "fold": value_by_cells(
            lambda item, k: (item, k <= 3),
            RECORDS,
            CANDIDATE,
            theta,
            clip=clip,
            examined=lambda k: 1 / k,
        ),
        "single": value_by_cells(lambda item, k: item // 100, RECORDS, CANDIDATE, theta, clip=clip),
    }
    assert values(found) == pytest.approx(by_hand, rel=SAME)
    assert len(set(by_hand.values())) == 4, "the models should disagree, or the test says little"


def test_the_hand_formula_agrees_with_the_oracle():
    theta = oracle.dcg_at(4)
    assert value_by_cells(lambda item, k: (item, k), RECORDS, CANDIDATE, theta) == pytest.approx(
        oracle.value("ip", RECORDS, CANDIDATE, theta), rel=SAME
    )


def test_cells_of_item_and_position_are_the_model_ip():
    own = [
        ClickModel("names", cell=("item", "position")),
        ClickModel("turned", cell=("position", "item")),
        ClickModel("function", cell=lambda slot: [slot.item, slot.position]),
    ]
    found = fc.evaluate(
        log_of(RECORDS),
        CANDIDATE_TABLE,
        estimators=clipped(["ip", *own], 2),
        metrics="clicks@3",
        confidence=None,
    )
    rows = [{**row, "estimator": "any"} for row in settled(found)]
    assert rows[1:] == rows[:1] * 3


def test_built_in_models_agree_with_the_oracle_here():
    found = fc.evaluate(
        log_of(RECORDS),
        CANDIDATE_TABLE,
        estimators=paper(["pbm", "prefix", "rctr"]),
        metrics="dcg@4",
        confidence=None,
    )
    assert_as_oracle(found, RECORDS, CANDIDATE)


def test_a_model_of_lists_by_another_name_is_the_list_model():
    mine = ClickModel("mine", cell="list")
    row = answer(log_of(RECORDS), CANDIDATE_TABLE, mine, "clicks@1")
    expected = oracle.value("list", RECORDS, CANDIDATE, (1,))
    assert row["value"] == pytest.approx(expected, rel=SAME)


def test_a_model_blind_to_items_has_no_answer_for_a_candidate_that_shares_none():
    blind = ClickModel("blind", cell=lambda slot: [slot.position <= 1])
    candidate = {"context": ["q", "r"], "items": [[7, 8], [8, 9]]}
    with pytest.raises(fc.errors.PolicyError, match="shows no item of the log"):
        answer(log_of(RECORDS), candidate, blind)


def test_a_model_of_your_own_may_lie_between_item_position_and_item():
    """An item in a half of the list, whose position in it does not matter."""
    records = [
        Record("q", (1, 2, 3, 4), (1.0, 0.0, 1.0, 0.0)),
        Record("q", (2, 1, 4, 3), (0.0, 1.0, 0.0, 0.0)),
        Record("q", (3, 4, 1, 2), (1.0, 1.0, 0.0, 1.0)),
    ]
    log, candidate = log_of(records * 2), {"context": ["q"], "items": [[1, 4, 2, 3]]}

    def value(estimator: object) -> float:
        return float(answer(log, candidate, estimator, "clicks@4")["value"])

    def window(size: int) -> fc.ClickModel:
        return fc.ClickModel("window", lambda slot: [slot.item, (slot.position - 1) // size])

    assert value(window(1)) == pytest.approx(value("ip"))
    assert value(window(4)) == pytest.approx(value("item"))
    # 1 and 4 in the first half: 1 earned 2 of 2 there, 4 earned 1 of 1; 2 and 3 in the second.
    assert value(window(2)) == pytest.approx(2 / 2 + 1 / 1 + 1 / 1 + 1 / 2)
