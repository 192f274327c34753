"""Shops, their logs and candidates, and what the ladder says of them."""

from __future__ import annotations

from typing import Any

import foreclick as fc
from foreclick.simulate import shop


def read(found: shop.ShopLog, **roles: Any) -> fc.Log:  # noqa: ANN401
    """The log of a shop, with other roles than days and users, or more."""
    own: dict[str, Any] = {"context": "query", "period": "day", "unit": "user"}
    return fc.read_log(found.log, **own | roles)


def drawn(kind: shop.Shop, seed: int) -> tuple[shop.ShopLog, fc.Tally]:
    """A shop and its log."""
    found = shop.draw(kind, seed)
    return found, fc.tally(read(found))


def ranking(found: shop.ShopLog, name: str) -> fc.Ranking:
    """A candidate."""
    return fc.Ranking(found.candidates[name], context="query")


def told(log: Any, candidate: Any, metric: str = "clicks@3", **options: Any) -> dict[str, Any]:  # noqa: ANN401
    """The one row of the ladder's answer."""
    asked = {"estimators": "ladder"} | options
    (row,) = fc.evaluate(log, candidate, metrics=metric, **asked).to_dicts()
    return row
