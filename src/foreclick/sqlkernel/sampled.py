"""The spread of a candidate that is itself a sample: the frequencies of another log.

A day of shadow rankings shows the candidate's lists about as often as the candidate would. With m_x
records s of a context there, and u_g, r_g as in `influence`, the estimate varies by

    Σ_x (n_x / n)² Var_s(Σ_g u_g r_g e_g(s)) / m_x

besides what the log's own records do. Frequencies of the log itself move with it, and add nothing.
"""

from __future__ import annotations

import ibis.expr.types as ir

from foreclick.engines import real, whole
from foreclick.logs import CONTEXT, N, numbered_all
from foreclick.models import MASS
from foreclick.policies import Observed
from foreclick.sqlkernel.cells import Ask, spread_out
from foreclick.sqlkernel.logged import RECORDS
from foreclick.sqlkernel.prepared import Code, Prepared, per
from foreclick.sqlkernel.weighed import Weighed, names, ratio, unclipped

LIST = "list_id"


def sampled(log: Prepared, weighed: Weighed) -> dict[tuple[Ask, float, Code], float]:
    """The variance to add to that of n V̂, by ask, clip and stratum; nothing for other policies."""
    policy = log.policies[MASS]
    if not isinstance(policy, Observed) or policy.counted.same(log.tally):
        return {}
    asks, keys = weighed.asks, log.keys
    scored = _scores(log, weighed) if weighed.scored is None else weighed.scored()
    sums: dict[str, ir.Value] = {}
    for i, m in names(asks):
        z = scored[f"z_{i}_{m}"]
        sums |= {
            f"zz_{i}_{m}": (scored[MASS] * z * z).sum(),
            f"z_{i}_{m}": (scored[MASS] * z).sum(),
        }
    contexts = scored.group_by([*keys, RECORDS]).aggregate(**sums)
    contexts = contexts.join(policy.sizes(log.view), CONTEXT)
    m_x, n_x = contexts["size"].cast("float64"), contexts[RECORDS].cast("float64")
    several = m_x > real(1)
    over: dict[str, ir.Value] = {}
    for i, m in names(asks):
        mean = contexts[f"z_{i}_{m}"]
        varied = contexts[f"zz_{i}_{m}"] - mean * mean
        varied = (varied > 0).ifelse(varied, real(0))
        own = several.ifelse(ratio(varied, m_x - real(1)), real(0))
        over |= {
            f"own_{i}_{m}": (n_x * n_x * own).sum(),
            # A context with one record shows no spread, and is given the usual one.
            f"spread_{i}_{m}": several.ifelse(m_x * varied, real(0)).sum(),
            f"free_{i}_{m}": several.ifelse(m_x - real(1), real(0)).sum(),
            f"alone_{i}_{m}": several.ifelse(real(0), n_x * n_x / m_x).sum(),
        }
    rows = log.engine.rows(per(contexts, log.by).aggregate(**over))
    found = {}
    for row in rows:
        for i, m in names(asks):
            own, spread, free, alone = (
                row[f"{c}_{i}_{m}"] or 0.0 for c in ("own", "spread", "free", "alone")
            )
            usual = spread / free if free else 0.0
            code = tuple(row[b] for b in log.by)
            found[asks[i], asks[i].clips[m], code] = own + usual * alone
    return found


def _scores(log: Prepared, weighed: Weighed) -> ir.Table:
    """(keys, records, list) → its mass, and z = Σ_g u_g r_g e_g, where that is not 0."""
    asks, table = weighed.asks, weighed.table
    lists = log.keep(log.engine.identified(log.policy_lists(MASS), LIST), "sampled")
    # As if each list were a record without clicks: only its exposure is asked for.
    rewards = {c: real(0) for c in numbered_all(log.question.rewards, log.depth)}
    unclicked, keys = lists.mutate(**{N: whole(1)}, **rewards), [*log.keys, LIST]
    cell, slots = spread_out(unclicked, asks, keys, log.depth, log.key_depth(asks))
    slopes = {}
    for i, m in names(asks):
        slope = ratio(table[f"c_{i}"] / table[RECORDS].cast("float64"), table[f"log_{i}"])
        slopes[f"slope_{i}_{m}"] = unclipped(table, asks, i, m).ifelse(slope, real(0))
    on = [*log.keys, *cell]
    joined = slots.join(table.select(*on, **slopes), on)
    scores = joined.group_by(keys).aggregate(
        **{
            f"z_{i}_{m}": (joined[f"slope_{i}_{m}"] * joined[f"e_{i}"]).sum()
            for i, m in names(asks)
        }
    )
    return scores.join(lists.select(LIST, RECORDS, MASS), LIST)
