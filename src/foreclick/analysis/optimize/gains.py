"""Where the gain of a policy comes from: its contexts by what each of them gains."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.batches import sums
from foreclick.optimization import CHANGED
from foreclick.results import Result

_STEPS = 5  # rows for gains that differ by a factor of e
_MOST = 95  # rows of gains, and of losses: from the largest down to a 10⁸th of it
COLUMNS = ("contexts", "changed", "records", "gain")


def gains(contexts: pa.Table, left: float) -> Result:
    """Contexts from the largest gain to the largest loss, those that gain alike in one row.

    A context gains its share of the records, times what its policy earns more than production,
    after pessimism. So gains of all rows add up to that of the policy. Alike are gains that differ
    by a fifth or less: however many contexts there are, they are 200 rows at most.

    Args:
        contexts: `Optimized.contexts`.
        left: how often the policy is shown, rather than production.
    """
    n, production, sure = (np.asarray(contexts[c]) for c in ("records", "production", "sure"))
    changed = np.asarray(pc.equal(contexts["why"], CHANGED))
    if not n.sum():
        return Result((), COLUMNS)
    gain = np.where(changed, n * (sure - production), 0.0)
    size = np.abs(gain)
    most = size.max() or 1.0
    rank = np.floor(np.log(most / np.where(size > 0, size, most)) * _STEPS)
    keys = np.column_stack([np.sign(gain), np.minimum(rank, _MOST - 1), changed])
    alike, number = np.unique(keys, axis=0, return_inverse=True)
    number = number.ravel()
    count, records, gained = (sums(number, of, len(alike)) for of in (np.ones(len(n)), n, gain))
    # The largest gain first, and of those that gain nothing, the changed ones.
    order = np.lexsort((1 - alike[:, 2], -gained / count))
    rows = (
        {
            "contexts": int(count[i]),
            "changed": int(count[i] * alike[i, 2]),
            "records": float(records[i]),
            "gain": float(gained[i]) * left / float(n.sum()),
        }
        for i in order
    )
    return Result(tuple(rows), COLUMNS)
