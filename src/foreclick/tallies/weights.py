"""How much the records of a period count, where some periods count less than others."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from foreclick.errors import TallyError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def weights_of(
    periods: Sequence[Any], half_life: float | None, weights: Mapping[Any, float]
) -> dict[Any, float]:
    """The weight of each period: faded by its age, times what the user says.

    Args:
        periods: all that the tally has.
        half_life: after how many days or steps a record counts half; None: they do not fade.
        weights: what the user says of some periods.
    """
    found = {p: 1.0 if half_life is None else _faded(p, periods, half_life) for p in periods}
    found |= _named(weights, found)
    if not any(found.values()):
        raise TallyError("weights: every period weighs 0, so nothing is left.")
    return found


def _named(weights: Mapping[Any, float], faded: dict[Any, float]) -> dict[Any, float]:
    """The weights of the periods that the user named, each of which the tally must have."""
    for period, weight in weights.items():
        if period not in faded:
            raise TallyError(
                f"weights: {period!r} is no period of the tally, which has for instance "
                f"{next(iter(faded))!r}."
            )
        if not 0 <= weight < math.inf:
            raise TallyError(f"weights: {weight!r} is no weight; give 0 or more.")
    return {period: faded[period] * float(weight) for period, weight in weights.items()}


def _faded(period: Any, periods: Sequence[Any], half_life: float) -> float:  # noqa: ANN401
    try:
        age = max(periods) - period
        steps = age.total_seconds() / 86_400 if isinstance(age, timedelta) else float(age)
    except TypeError as error:
        raise TallyError(
            f"half_life= needs periods that are dates or numbers, not {period!r}. Give weights= "
            "by period instead."
        ) from error
    return float(0.5 ** (steps / half_life))
