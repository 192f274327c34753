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
    found = answers.differences(kept[question.name], answers.answer_of(question))
    assert not found, "\n".join(found)


def test_every_question_has_an_answer(kept: dict[str, answers.Answer]) -> None:
    assert not {question.name for question in questions()} - kept.keys()


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


@pytest.mark.parametrize(
    ("now", "wrong"),
    [
        ({}, 0),
        ({"value": [0.501]}, 1),
        ({"se": [0.1001]}, 1),
        ({"more": [1]}, 0),
        ({"value": [0.5, 0.5]}, 1),
        ({"low": [None]}, 1),
    ],
)
def test_a_change_is_found_in_its_column(now: dict[str, list[object]], wrong: int) -> None:
    was = {"value": [0.5], "se": [0.1], "low": [0.3], "high": [0.7]}
    assert len(answers.differences({"rows": was}, {"rows": was | now})) == wrong
    assert len(answers.differences({"rows": was}, {})) == 4


def test_a_standard_error_of_rounding_is_none() -> None:
    was: answers.Answer = {"rows": {"se": [3e-9], "low": [0.5], "high": [0.5]}}
    now: answers.Answer = {"rows": {"se": [0.0], "low": [0.5 - 6e-9], "high": [0.5 + 6e-9]}}
    assert answers.differences(was, now) == []
    now["rows"]["se"] = [1e-6]
    assert answers.differences(was, now)
