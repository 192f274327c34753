"""A log of which only some contexts were read: what the others may add.

A share f of the contexts was drawn, each with all its records. Over such draws, V̂ and F̂ vary by

    (1 − f) · m / (m − 1) · Σ_x d_x d_xᵀ / n²,    d_x = n_x (V_x − V, F_x − F)

besides what the records do. A draw of units needs nothing more: they are clusters already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import ibis.expr.types as ir
import numpy as np

from foreclick.engines import real
from foreclick.sqlkernel.cells import Ask, credit
from foreclick.sqlkernel.logged import RECORDS
from foreclick.sqlkernel.prepared import KNOWN, Code, Prepared, per
from foreclick.sqlkernel.question import Stratum
from foreclick.sqlkernel.weighed import Weighed, names

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def drawn(
    log: Prepared, strata: list[Stratum], weighed: Weighed
) -> dict[tuple[Ask, float, Code], Floats]:
    """The covariance to add, by ask, clip and stratum; nothing if all contexts were read."""
    sample = log.tally.shape.sample
    if sample is None or sample[0] != "context":
        return {}
    asks = weighed.asks
    contexts = log.contexts
    used = contexts if any(s.used for s in strata) else contexts.filter(contexts[KNOWN])
    joined = used.left_join(weighed.worth(log.keys), log.keys)
    earned = {f"f_{i}": credit(joined, ask.metric) for i, ask in enumerate(asks)}
    # A context that the candidate does not know is worth what it was.
    own = {
        f"v_{i}_{m}": joined[KNOWN].ifelse(
            joined[f"v_{i}_{m}"].fill_null(real(0)), earned[f"f_{i}"]
        )
        for i, m in names(asks)
    }
    rows = joined.select(*log.by, n=joined[RECORDS].cast("float64"), **earned, **own)
    found = {}
    for row in log.engine.rows(per(rows, log.by).aggregate(**_moments(rows, asks))):
        m_x, n = row["contexts"], row["n"]
        scale = (1 - sample[1]) * m_x / max(m_x - 1, 1) / n**2
        for i, m in names(asks):
            v, f = f"v_{i}_{m}", f"f_{i}"
            mean = np.array([row[v], row[f]]) / n
            raw = np.array([[row[f"{v}_{v}"], row[f"{v}_{f}"]], [row[f"{v}_{f}"], row[f"{f}_{f}"]]])
            with_n = np.array([row[f"{v}_n"], row[f"{f}_n"]])
            across = np.outer(mean, with_n)
            centred = raw - across - across.T + row["n_n"] * np.outer(mean, mean)
            code = tuple(row[b] for b in log.by)
            found[asks[i], asks[i].clips[m], code] = scale * centred
    return found


def _moments(rows: ir.Table, asks: list[Ask]) -> dict[str, ir.Value]:
    """Sums over contexts, and sums of products."""
    n = rows["n"]
    sums: dict[str, ir.Value] = {"contexts": rows.count(), "n": n.sum(), "n_n": (n * n).sum()}
    for i, ask in enumerate(asks):
        own = [f"f_{i}", *(f"v_{i}_{m}" for m in range(len(ask.clips)))]
        for name in own:
            value = rows[name]
            sums |= {
                name: value.sum(),
                f"{name}_{name}": (value * value).sum(),
                f"{name}_n": (value * n).sum(),
                f"{name}_f_{i}": (value * rows[f"f_{i}"]).sum(),
            }
    return sums
