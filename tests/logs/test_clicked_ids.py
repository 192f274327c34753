"""If this fails, ids of clicked items are taken for numbers of clicks."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.errors import InvalidLogError

LISTS = 400


def some_lists(catalogue: int = 500, length: int = 4) -> list[list[int]]:
    rng = np.random.default_rng(1)
    return [(rng.permutation(catalogue)[:length] + 1).tolist() for _ in range(LISTS)]


def clicked_of(lists: list[list[int]]) -> list[list[int]]:
    """The ids of some items of each list, in the order of their clicks."""
    rng = np.random.default_rng(2)
    return [rng.permutation(items)[: rng.integers(0, 3)].tolist() for items in lists]


def in_front(items: list[int], clicked: list[int]) -> list[int]:
    return clicked + [0] * (len(items) - len(clicked))


def at_their_places(items: list[int], clicked: list[int]) -> list[int]:
    return [item if item in clicked else 0 for item in items]


def everywhere(items: list[int], clicked: list[int]) -> list[int]:
    """One column of a table with one row a result."""
    return [clicked[0] if clicked else 0] * len(items)


def log_of(lists: list[Any], clicks: list[Any], **more: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"context": ["q"] * len(lists), "items": lists, "clicks": clicks, **more}


def ids_of(lists: list[list[int]], written: Any = in_front) -> list[list[int]]:  # noqa: ANN401
    return [written(*pair) for pair in zip(lists, clicked_of(lists), strict=True)]


@pytest.mark.parametrize("written", [in_front, at_their_places, everywhere])
@pytest.mark.parametrize("catalogue", [4, 500])
def test_ids_of_clicked_items_are_no_flags(written, catalogue):
    lists = some_lists(catalogue)
    with pytest.raises(InvalidLogError, match=r"clicks seem to be the ids .* fc\.from_events\("):
        fc.read_log(log_of(lists, ids_of(lists, written)))


def test_so_they_are_not_on_any_engine(engine):
    lists = some_lists()
    log = log_of(lists, ids_of(lists, at_their_places))
    with pytest.raises(InvalidLogError, match="clicks seem to be the ids"):
        fc.read_log(engine.load(pa.table(log)))


def test_so_they_are_not_beside_items_of_text_or_as_another_reward():
    lists = some_lists()
    words = [[str(item) for item in items] for items in lists]
    with pytest.raises(InvalidLogError, match="clicks seem to be the ids"):
        fc.read_log(log_of(words, ids_of(lists)))
    log = log_of(lists, [[0, 1, 0, 0]] * LISTS, bought=ids_of(lists))
    with pytest.raises(InvalidLogError, match="bought seem to be the ids"):
        fc.read_log(log, rewards={"bought": "bought"}, invalid="drop")


def alone(_: list[int], clicked: list[int]) -> list[int] | None:
    """Which the rules of a log refuse, with the same remedy."""
    return clicked or None


@pytest.mark.parametrize("written", [in_front, alone])
def test_the_remedy_reads_these_ids_as_clicks(written):
    lists = some_lists()
    log = log_of(lists, ids_of(lists, written), request=list(range(LISTS)))
    read = fc.from_events(log, log, list_id="request", items=("items", "clicks"), action=None)
    clicked = zip(lists, clicked_of(lists), strict=True)
    flags = [[int(i in c) for i in items] for items, c in clicked]
    right, found = (fc.tally(each).to_arrow() for each in (fc.read_log(log_of(lists, flags)), read))
    assert found.equals(right)


def grades(length: int) -> dict[str, Any]:
    rng = np.random.default_rng(length)
    examined = 1 / np.arange(1, length + 1)
    found = rng.integers(1, 5, (LISTS, length)) * (rng.random((LISTS, length)) < 0.6 * examined)
    return log_of(some_lists(max(length, 5), length), found.tolist())


def revenue() -> dict[str, Any]:
    rng = np.random.default_rng(5)
    amounts = rng.integers(1, 60, (LISTS, 4)) * (rng.random((LISTS, 4)) < 0.2)
    return log_of(some_lists(50), (amounts > 0).astype(int).tolist(), orders=amounts.tolist())


FLAGS = [[0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 0, 0]] * (LISTS // 4)
NO_IDS: dict[str, dict[str, Any]] = {
    # Items are numbered from 0 or 1, so that a flag is always the id of an item of its list.
    **{f"flags of items from {i}": log_of([[i, i + 1, i + 2]] * LISTS, FLAGS) for i in (0, 1)},
    # All items are numbered from 1 and in every list, so nearly every grade is the id of one.
    **{f"grades of {length} items": grades(length) for length in (1, 2, 5, 10)},
    # Every order is worth 2, which happens to be an item of every list.
    "one amount": log_of([[1, 2], [2, 1]] * 3, [[1, 0]] * 6, orders=[[0, 2], [0, 0]] * 3),
    "amounts that are rarely ids": revenue(),
}


@pytest.mark.parametrize("name", NO_IDS)
def test_what_is_no_id_is_read_as_it_is(name):
    log = NO_IDS[name]
    rewards = {"orders": "orders"} if "orders" in log else {}
    assert fc.read_log(log, rewards=rewards).rows == len(log["items"])
