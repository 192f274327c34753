"""Small worlds, and their clicks by an independent, obvious enumeration of every outcome."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from foreclick.simulate import (
    DBN,
    DCM,
    DCTR,
    PBM,
    Cascade,
    ItemPosition,
    ListSpecific,
    World,
)

CONTEXTS, ITEMS, POSITIONS = 2, 4, 3

_rng = np.random.default_rng(5)
ATTRACTION = _rng.uniform(0.05, 0.95, (CONTEXTS, ITEMS))
ATTRACTION[0, 0] = 1.0  # certainties must not break a recursion
ATTRACTION[1, 1] = 0.0
SATISFACTION = _rng.uniform(0, 1, (CONTEXTS, ITEMS))
TABLE = _rng.uniform(0, 1, (CONTEXTS, ITEMS, POSITIONS))
EXAMINATION = _rng.uniform(0.1, 1, POSITIONS)
LAMBDA = _rng.uniform(0, 1, POSITIONS)
GAMMA = 0.7

WORLDS: dict[str, World] = {
    "pbm": PBM(ATTRACTION, EXAMINATION),
    "dctr": DCTR(ATTRACTION, POSITIONS),
    "ip": ItemPosition(TABLE),
    "cascade": Cascade(ATTRACTION, POSITIONS),
    "dcm": DCM(ATTRACTION, LAMBDA),
    "dbn": DBN(ATTRACTION, SATISFACTION, GAMMA, POSITIONS),
    "list": ListSpecific(CONTEXTS, ITEMS, [1.0, 0.6, 0.3], seed=3),
}


def every_list() -> list[tuple[int, ...]]:
    return list(itertools.permutations(range(ITEMS), POSITIONS))


def steps(
    name: str, x: int, shown: Sequence[int], effect: float = 1.0
) -> list[tuple[float, float, float]]:
    """What a reader does at each position, as `outcomes_of` takes it."""
    return [reading(name, x, a, k, effect) for k, a in enumerate(shown)]


def outcomes(name: str, x: int, shown: Sequence[int]) -> list[tuple[float, tuple[int, ...]]]:
    """(probability, clicks) of everything that one user may do, written down from the models."""
    return outcomes_of(steps(name, x, shown))


def outcomes_of(steps: Sequence[tuple[float, float, float]]) -> list[tuple[float, tuple[int, ...]]]:
    """The same of readers, by P(click when read), P(reads on after a click) and after none."""
    if not steps:
        return [(1.0, ())]
    (attracted, after_click, after_skip), *rest = steps
    below, found = outcomes_of(rest), []
    for click, p, goes_on in ((1, attracted, after_click), (0, 1 - attracted, after_skip)):
        found += [(p * goes_on * chance, (click, *clicks)) for chance, clicks in below]
        found.append((p * (1 - goes_on), (click, *[0] * len(rest))))
    return found


def expected(steps: Sequence[tuple[float, float, float]]) -> NDArray[np.float64]:
    """The expected clicks of such readers: a sum over everything that they may do."""
    total: NDArray[np.float64] = np.sum([p * np.array(c) for p, c in outcomes_of(steps)], axis=0)
    return total


def reading(name: str, x: int, a: int, k: int, effect: float) -> tuple[float, float, float]:
    """P(click when read), P(reads on after a click), P(reads on after none)."""
    attracted = min(1.0, ATTRACTION[x, a] * effect)
    return {
        "pbm": (attracted * EXAMINATION[k], 1.0, 1.0),
        "dctr": (attracted, 1.0, 1.0),
        "ip": (min(1.0, TABLE[x, a, k] * effect), 1.0, 1.0),
        "cascade": (attracted, 0.0, 1.0),
        "dcm": (attracted, LAMBDA[k], 1.0),
        "dbn": (attracted, (1 - SATISFACTION[x, a]) * GAMMA, GAMMA),
    }[name]
