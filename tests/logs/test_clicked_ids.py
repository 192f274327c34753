"""If this fails, ids of clicked items are taken for numbers of clicks."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.errors import InvalidLogError

LISTS = 400


def some_lists(catalogue: int = 500, length: int = 4, seed: int = 1) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [(rng.permutation(catalogue)[:length] + 1).tolist() for _ in range(LISTS)]


def clicked_of(lists: list[list[int]], seed: int = 2) -> list[list[int]]:
    """The ids of some items of each list, in the order of their clicks."""
    rng = np.random.default_rng(seed)
    return [rng.permutation(items)[: rng.integers(0, 3)].tolist() for items in lists]


def in_front(items: list[int], clicked: list[int]) -> list[int]:
    return clicked + [0] * (len(items) - len(clicked))


def at_their_places(items: list[int], clicked: list[int]) -> list[int]:
    return [item if item in clicked else 0 for item in items]


def everywhere(items: list[int], clicked: list[int]) -> list[int]:
    """One column of a table with one row a result."""
    return [clicked[0] if clicked else 0] * len(items)


def log_of(lists: list[list[int]], clicks: list[Any]) -> dict[str, Any]:
    return {"context": ["q"] * len(lists), "items": lists, "clicks": clicks}


@pytest.mark.parametrize("written", [in_front, at_their_places, everywhere])
@pytest.mark.parametrize("catalogue", [4, 500])
def test_ids_of_clicked_items_are_no_flags(written, catalogue):
    lists = some_lists(catalogue)
    ids = [written(*pair) for pair in zip(lists, clicked_of(lists), strict=True)]
    with pytest.raises(InvalidLogError, match=r"clicks seem to be the ids .* fc\.from_events\("):
        fc.read_log(log_of(lists, ids))


def test_so_they_are_not_on_any_engine(engine):
    lists = some_lists()
    ids = [at_their_places(*pair) for pair in zip(lists, clicked_of(lists), strict=True)]
    with pytest.raises(InvalidLogError, match="clicks seem to be the ids"):
        fc.read_log(engine.load(pa.table(log_of(lists, ids))))


def test_ids_may_be_text_in_one_column_and_numbers_in_the_other():
    lists = some_lists()
    ids = [in_front(*pair) for pair in zip(lists, clicked_of(lists), strict=True)]
    words = [[str(item) for item in items] for items in lists]
    with pytest.raises(InvalidLogError, match="clicks seem to be the ids"):
        fc.read_log(log_of(words, ids))  # type: ignore[arg-type]


def test_ids_as_another_reward_are_refused_too():
    lists = some_lists()
    ids = [in_front(*pair) for pair in zip(lists, clicked_of(lists), strict=True)]
    log = log_of(lists, [[0, 1, 0, 0]] * LISTS) | {"bought": ids}
    with pytest.raises(InvalidLogError, match="bought seem to be the ids"):
        fc.read_log(log, rewards={"bought": "bought"}, invalid="drop")


def test_the_remedy_reads_these_ids_as_clicks():
    lists = some_lists()
    clicked = clicked_of(lists)
    ids = [in_front(*pair) for pair in zip(lists, clicked, strict=True)]
    log = log_of(lists, ids) | {"request": list(range(LISTS))}
    read = fc.from_events(log, log, list_id="request", items=("items", "clicks"), action=None)
    flags = [[int(i in c) for i in items] for items, c in zip(lists, clicked, strict=True)]
    right, found = (fc.tally(each).to_arrow() for each in (fc.read_log(log_of(lists, flags)), read))
    assert found.equals(right)


@pytest.mark.parametrize("first", [0, 1])
def test_flags_are_flags_whatever_items_are_called(first):
    """Items are numbered from 0 or 1, so that a flag is always the id of an item of its list."""
    lists = [[first, first + 1, first + 2]] * LISTS
    log = fc.read_log(log_of(lists, [[0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 0, 0]] * (LISTS // 4)))
    assert log.shape.masks == ("clicks",)


@pytest.mark.parametrize("length", [1, 2, 5, 10])
def test_grades_of_few_items_are_grades(length):
    """All items are numbered from 1 and in every list, so nearly every grade is the id of one."""
    rng = np.random.default_rng(length)
    lists = some_lists(catalogue=max(length, 5), length=length)
    examined = 1 / np.arange(1, length + 1)
    grades = rng.integers(1, 5, (LISTS, length)) * (rng.random((LISTS, length)) < 0.6 * examined)
    log = fc.read_log(log_of(lists, grades.tolist()))
    assert log.rows == LISTS


def test_one_amount_is_an_amount():
    """Every order is worth 2, which happens to be an item of every list."""
    log = log_of([[1, 2], [2, 1]] * 3, [[1, 0]] * 6) | {"orders": [[0, 2], [0, 0]] * 3}
    assert fc.read_log(log, rewards={"orders": "orders"}).rows == 6


def test_amounts_that_are_rarely_ids_are_amounts():
    rng = np.random.default_rng(5)
    lists = some_lists(catalogue=50)
    revenue = rng.integers(1, 60, (LISTS, 4)) * (rng.random((LISTS, 4)) < 0.2)
    log = log_of(lists, (revenue > 0).astype(int).tolist()) | {"revenue": revenue.tolist()}
    assert fc.read_log(log, rewards={"revenue": "revenue"}).rows == LISTS


def test_the_message_says_how_many_and_shows_one():
    log = log_of([[7, 8, 9], [9, 8, 7]], [[8, 0, 0], [9, 0, 0]])
    with pytest.raises(InvalidLogError) as error:
        fc.read_log(log)
    assert str(error.value) == (
        "clicks seem to be the ids of items, not a number for each item: in 2 records they are "
        "items of the same list, for example context='q' items=[7, 8, 9] clicks=[8, 0, 0]. If they "
        "are ids, use fc.from_events(log, log, list_id='…', items=('items', 'clicks'), "
        "action=None). If they are amounts or grades, give the items other names, for instance "
        "'i7' for 7."
    )
