"""Answers stay as they were kept: some of them here, all of them by `make goldens`."""

from __future__ import annotations

import pytest

from tests.goldens import answers
from tests.goldens.questions import Question, questions, quick


@pytest.fixture(scope="module")
def kept() -> dict[str, answers.Answer]:
    return answers.read()


@pytest.mark.parametrize("question", quick(), ids=lambda question: question.name)
def test_an_answer_stays(question: Question, kept: dict[str, answers.Answer]) -> None:
    found = answers.differences(kept[question.name], answers.answer_of(question), question.loose)
    assert not found, "\n".join(map(str, found))


def test_every_question_has_an_answer(kept: dict[str, answers.Answer]) -> None:
    assert not {question.name for question in questions()} - kept.keys()


def test_most_answers_stay_in_full() -> None:
    asked = questions(("random", "docs", "simulated"))
    assert sum(question.tier == "exact" for question in asked) >= 200
    assert all(question.why for question in asked if question.tier != "exact")


@pytest.mark.parametrize(
    ("was", "now", "alike"),
    [
        (0.5, 0.5 + 4e-10, True),
        (0.5, 0.5 + 6e-10, False),
        (0.0, 1e-13, True),
        (0.0, 1e-11, False),
        (None, 0.0, False),
        ("better", "worse", False),
        ("inf", "inf", True),
        ([1, 2], [1, 3], False),
        (3, 3.0, True),
    ],
)
def test_values_are_the_same_up_to_rounding(was: object, now: object, alike: bool) -> None:
    assert answers.same(was, now) is alike


WAS: answers.Answer = {
    "rows": {"value": [0.5], "se": [0.1], "low": [0.3], "high": [0.7], "pareto_k": [0.2]}
}


class TestDifferences:
    def now(self, **columns: list[object]) -> answers.Answer:
        return {"rows": {name: v for name, v in (WAS["rows"] | columns).items() if v}}

    def found(self, now: answers.Answer, tier: str = "exact") -> list[str]:
        return [d.place for d in answers.differences(WAS, now, answers.LOOSE[tier])]

    def test_a_change_is_found_in_its_column(self) -> None:
        assert self.found(self.now(value=[0.501])) == ["rows.value[0]"]
        assert self.found(self.now(se=[0.1001])) == ["rows.se[0]"]

    def test_what_may_change_is_not(self) -> None:
        assert self.found(self.now(se=[0.2], high=[0.9]), "values") == []
        assert self.found(self.now(value=[0.501]), "values") == ["rows.value[0]"]
        assert self.found(self.now(value=[0.501]), "facts") == []

    def test_only_dropped_columns_may_be_missing(self) -> None:
        assert self.found(self.now(pareto_k=[])) == []
        assert answers.gone(WAS, self.now(pareto_k=[])) == {"pareto_k"}
        assert self.found(self.now(se=[])) == ["rows.se"]

    def test_rows_and_tables_may_not_be_missing(self) -> None:
        assert self.found({}) == ["rows"]
        assert "rows.value" in self.found({"rows": {"value": [0.5, 0.5]}})

    def test_a_standard_error_of_rounding_is_none(self) -> None:
        was: answers.Answer = {"rows": {"se": [3e-9], "low": [0.5], "high": [0.5]}}
        now: answers.Answer = {"rows": {"se": [0.0], "low": [0.5 - 6e-9], "high": [0.5 + 6e-9]}}
        assert answers.differences(was, now, frozenset()) == []
        now["rows"]["se"] = [1e-6]
        assert answers.differences(was, now, frozenset())
