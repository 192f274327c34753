"""Student's t, and the normal distribution that it becomes with many degrees of freedom."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from types import ModuleType

    from numpy.typing import ArrayLike, NDArray


def quantile(upper: float, freedom: float) -> float:
    """Where the distribution function reaches `upper`.

    Examples:
        >>> round(quantile(0.975, math.inf), 3), round(quantile(0.975, 26), 3)
        (1.96, 2.056)
    """
    special = _special()
    return float(special.ndtri(upper) if math.isinf(freedom) else special.stdtrit(freedom, upper))


def beyond(t: ArrayLike, freedom: float) -> NDArray[np.float64]:
    """How often chance alone goes further than `t`, to one side.

    Examples:
        >>> round(float(beyond(1.96, math.inf)), 3), round(float(beyond(2.056, 26)), 3)
        (0.025, 0.025)
    """
    special = _special()
    below = -np.asarray(t, dtype=np.float64)
    found = special.ndtr(below) if math.isinf(freedom) else special.stdtr(freedom, below)
    return np.asarray(found, dtype=np.float64)


def chi_square(upper: float, freedom: float) -> float:
    """Where the distribution function of χ² reaches `upper`.

    Examples:
        >>> round(chi_square(0.95, 1), 2)
        3.84
    """
    return float(_special().chdtri(freedom, 1 - upper))


def _special() -> ModuleType:
    # A third of the time that `import foreclick` would take, for what many sessions never ask.
    from scipy import special  # noqa: PLC0415

    return special
