"""One question to one small log, which other processes can import."""

from __future__ import annotations

from typing import Any

import foreclick as fc

LOG: dict[str, list[Any]] = {
    "context": ["q", "r"] * 24,
    "items": [[1, 2], [2, 1], [2, 3], [1, 2]] * 12,
    "clicks": [[1, 0], [0, 1], [0, 0]] * 16,
    "day": [day for day in range(6) for _ in range(8)],
}
CANDIDATE = {"context": ["q", "r"], "items": [[2, 1], [1, 2]]}
ASKED: dict[str, Any] = {"metrics": "clicks@2", "estimators": ["item", "rctr"]}


def answer(tally: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - a tally, or its path
    found = fc.read_tally(tally) if isinstance(tally, str) else tally
    return fc.evaluate(found, CANDIDATE, **ASKED).to_dicts()


def values(seed: int) -> list[float]:
    """A log of its own in the process's one engine."""
    log = fc.read_log(LOG | {"clicks": [[seed % 2, 0]] * 48}, period="day")
    return [float(value) for value in fc.evaluate(log, CANDIDATE, **ASKED)["value"]]
