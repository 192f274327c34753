"""If this fails, an answer has changed, and nobody meant it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases.asking import same
from tests.goldens import answers
from tests.goldens.questions import Question, questions, quick


@pytest.fixture(scope="module")
def kept() -> dict[str, answers.Answer]:
    return answers.read()


@pytest.mark.parametrize("question", quick(), ids=lambda question: question.name)
def test_an_answer_stays(question: Question, kept: dict[str, answers.Answer]) -> None:
    found = answers.differences(kept[question.name], answers.answer_of(question))
    assert not found, "\n".join(found)


def test_every_question_has_an_answer(kept: dict[str, answers.Answer]) -> None:
    assert not {question.name for question in questions()} - kept.keys()


def test_a_change_is_found_in_its_column_and_rounding_is_none() -> None:
    alike: list[Any] = [(0.5, 0.5 + 4e-10), (0.0, 1e-13), ("inf", "inf"), (3, 3.0)]
    assert all(same(*pair) for pair in alike)
    other: list[Any] = [(0.5, 0.5 + 6e-10), (0.0, 1e-11), (None, 0.0), ("a", "b"), ([1], [2])]
    assert not any(same(*pair) for pair in other)
    row: answers.Table = {"value": [0.5], "se": [0.1], "low": [0.3], "high": [0.7]}
    changes: list[Any] = [{"value": [0.501]}, {"se": [0.1001]}]
    changes += [{"value": [0.5] * 2}, {"low": [None]}]
    for changed in changes:
        assert len(answers.differences({"rows": row}, {"rows": row | changed})) == 1
    assert answers.differences({"rows": row}, {"rows": row | {"more": [1]}}) == []
    assert len(answers.differences({"rows": row}, {})) == 4
    error: answers.Answer = {"rows": {"se": [3e-9], "low": [0.5], "high": [0.5]}}
    none: answers.Answer = {"rows": {"se": [0.0], "low": [0.5 - 6e-9], "high": [0.5 + 6e-9]}}
    assert answers.differences(error, none) == []
    none["rows"]["se"] = [1e-6]
    assert answers.differences(error, none)
