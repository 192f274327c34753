"""Logs and candidates that tests of questions share: counted by hand, of two lists, of a shop."""

from __future__ import annotations

from typing import Any

import numpy as np

import foreclick as fc
from foreclick.simulate.shop import Shop, ShopLog, draw

Columns = dict[str, Any]

SMALL = Shop(records=6_000, queries=60, pool=20, catalogue=400, positions=5)


def counted(*rows: tuple[Any, Any, int], **columns: Any) -> Columns:  # noqa: ANN401
    """A log of lists with their clicks, each so many times; any other column has one value."""
    every = [row for *row, times in rows for _ in range(times)]
    items, clicks = ([list(one) for one in each] for each in zip(*every, strict=True))
    found = {"context": ["q"] * len(every), "items": items, "clicks": clicks}
    return found | {name: [value] * len(every) for name, value in columns.items()}


def clicked(items: list[int], clicks: int, times: int = 100) -> list[tuple[Any, Any, int]]:
    """Rows of `counted`: a list of two that is shown so often, with clicks on the first item."""
    return [(items, [1, 0], clicks), (items, [0, 0], times - clicks)]


def joined(*parts: Columns) -> Columns:
    """The rows of all of them."""
    return {name: [value for part in parts for value in part[name]] for name in parts[0]}


def two_lists(turned: Any, clicks: Any, **columns: Any) -> Columns:  # noqa: ANN401
    """A log of [2, 1] where it is turned, else [1, 2]; of one column, clicks are on the first."""
    turned, clicks = np.asarray(turned, dtype=bool), np.asarray(clicks, dtype=np.int64)
    clicks = clicks if clicks.ndim > 1 else np.stack([clicks, np.zeros_like(clicks)], axis=1)
    items = np.where(turned[:, None], [2, 1], [1, 2]).tolist()
    return {"context": ["q"] * len(items), "items": items, "clicks": clicks.tolist(), **columns}


def shop_of(
    like: Shop,
    seed: int,
    **roles: Any,  # noqa: ANN401
) -> tuple[ShopLog, fc.Tally, dict[str, fc.Ranking]]:
    """What is drawn, its log by days and users unless these have other roles, and candidates."""
    drawn = draw(like, seed)
    roles = {"context": "query", "period": "day", "unit": "user"} | roles
    candidates = {name: fc.Ranking(t, context="query") for name, t in drawn.candidates.items()}
    return drawn, fc.tally(fc.read_log(drawn.log, **roles)), candidates
