"""Linear programs, solved by HiGHS."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from foreclick.batches import Floats
from foreclick.errors import ForeclickError

TINY = 1e-12
"""Probabilities up to this come from rounding."""

_INFEASIBLE = 2  # a status of `milp`

_LARGEST = 1e4
_UNIT = 1e-4
"""HiGHS errs by up to 1e-7, in what whole lists gain by 1e-6, whatever the scale: so it is told
gains of up to `_LARGEST`, and probabilities in units of `_UNIT`."""


class Rows(NamedTuple):
    """Rows of a program: low ≤ matrix · x ≤ high, with the same bounds for all of them."""

    matrix: Any  # sparse, which has no types
    low: float = -np.inf
    high: float = np.inf


def maximise(gain: Floats, top: Floats, rows: list[Rows], whole: int = 0) -> Floats | None:
    """The x from 0 to `top` for which gain · x is largest, or None if none keeps to the rows.

    The first `whole` numbers of x are whole.
    """
    heights = [part.matrix.shape[0] for part in rows]
    unit = 1.0 if whole else _UNIT
    bounds = np.array([(part.low, part.high) for part in rows]) / unit
    low, high = np.repeat(bounds, heights, axis=0).T
    found = milp(
        gain * (-_LARGEST / (float(np.abs(gain).max(initial=0.0)) or 1.0)),
        integrality=(np.arange(len(gain)) < whole).astype(np.int64),
        bounds=Bounds(0.0, top / unit),
        constraints=LinearConstraint(
            sparse.vstack([part.matrix for part in rows], format="csc"), low, high
        ),
        # Programs are small: solving them at once is faster than making them smaller first.
        options={"mip_rel_gap": 0.0, "presolve": whole > 0},
    )
    if found.status == _INFEASIBLE:
        return None
    if found.x is None:
        raise ForeclickError(f"HiGHS found no policy: {found.message}")
    x = np.clip(found.x * unit, 0.0, top)
    x[:whole] = np.round(x[:whole])
    return np.where(x > TINY, x, 0.0)
