"""How far an estimate would move if the log were drawn again: influence functions, from the tally.

For a record t of context x, with u_g = 1 where the weight of a cell is not clipped
(STATISTICS, section 2):

    ψ_t = Σ_g W_g (c_g(t) − u_g r_g e_g(t)) − Σ_g (1 − u_g) M C_g  +  V_x − V

and V̂ − V is about the mean of ψ. The reward of the record itself, φ_t = f_t − F, is production's.
Both are sums over slots, so over a *cluster* of records (a day, a bucket of users) they are sums
over the cluster's cells, of which the candidate's alone count. Where records are independent, each
row of the tally is a cluster of its own: the same relation, one key finer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import ibis.expr.types as ir
import numpy as np

from foreclick.engines import real
from foreclick.logs import PROPENSITY, N
from foreclick.sqlkernel.cells import CLUSTER, Ask, credit, grouped_cells, spread_out
from foreclick.sqlkernel.climb import CREDIT
from foreclick.sqlkernel.hidden import (
    few_clusters,
    fits_rates,
    moments,
    shock_columns,
    shocked,
    shocks,
    small_cells,
    still_shown,
)
from foreclick.sqlkernel.logged import RECORDS
from foreclick.sqlkernel.prepared import KNOWN, LOGGING, Code, Prepared, per
from foreclick.sqlkernel.question import Clusters, Stratum
from foreclick.sqlkernel.repeated import ENOUGH_PERIODS, in_periods, repeated
from foreclick.sqlkernel.weighed import Weighed, earned, names, rate_of, unclipped, worth

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Spread:
    """The covariance of an estimate and production's mean, over samples like the log.

    Attributes:
        covariance: (2, 2), of V̂ and F̂.
        freedom: degrees of freedom of Student's t; infinite for independent records.
        clusters: over how many clusters it was taken.
        sums: (clusters, 2): Σψ / n and Σφ / n by cluster, for joint use with other candidates;
            None for independent records.
        kind: whose records vary together.
        alone: what of the variance of V̂ is the candidate's own: of its sample, if it is one, and of
            what a ladder borrowed from other cells.
    """

    covariance: Floats
    freedom: float
    clusters: float
    sums: Floats | None
    kind: Clusters = "record"
    alone: float = 0.0

    def wider(self, alone: float) -> Spread:
        """The same for a candidate that was sampled, which adds so much variance."""
        more = np.array([[alone, 0.0], [0.0, 0.0]])
        return replace(self, covariance=self.covariance + more, alone=alone)

    def beside(self, other: Spread | None) -> Floats | None:
        """The covariance with another candidate's estimate instead of production's.

        Clusters tell it exactly. Of independent records only the two variances are known here, and
        the covariance is taken to be 0, which makes the difference look more uncertain than it is.
        """
        if other is None:
            return None
        pairs = self.sums is not None and other.sums is not None and self.kind == other.kind
        if pairs and self.clusters == other.clusters:
            return together([self, other])[:2, :2]
        return np.diag([self.covariance[0, 0], other.covariance[0, 0]])


def together(spreads: Sequence[Spread]) -> Floats:
    """The covariance of several candidates and production, which is last, from the same clusters.

    The sums over clusters give it. What cells hide that were hardly seen is known of each candidate
    against production; two candidates share it as far as their clusters move together. What comes
    of a candidate's own sample it shares with nobody.
    """
    sums = [spread.sums for spread in spreads if spread.sums is not None]
    columns = np.stack([*(own[:, 0] for own in sums), sums[0][:, 1]], axis=1)
    count, last = len(columns), len(spreads)
    shown = columns.T @ columns * (count / max(count - 1, 1))
    hidden = np.zeros(last)
    for j, spread in enumerate(spreads):
        extra = spread.covariance - shown[np.ix_([j, last], [j, last])]
        extra[0, 0] -= spread.alone
        # Only differences are asked for, so all that a difference hides may stand with one side.
        hidden[j] = max(float(extra[0, 0] - 2 * extra[0, 1] + extra[1, 1]), 0.0)
    scale = np.sqrt(np.diag(shown)[:last])
    both = np.outer(scale, scale)
    alike = shown[:last, :last] / np.where(both > 0, both, 1.0)
    np.fill_diagonal(alike, 1.0)
    found = shown.copy()
    found[:last, :last] += alike * np.sqrt(np.outer(hidden, hidden))
    found[:last, :last] += np.diag([spread.alone for spread in spreads])
    return np.asarray(found, dtype=np.float64)


class Influence:
    """The sums of ψ and φ over clusters, for one prepared log.

    Args:
        log: the prepared log.
        strata: its parts.
        clusters: whose records vary together.
        fixed: whether the mix of contexts is fixed, rather than as random as the rest.
    """

    def __init__(
        self, log: Prepared, strata: list[Stratum], clusters: Clusters, *, fixed: bool = False
    ) -> None:
        self.log, self.strata, self.clusters, self.fixed = log, strata, clusters, fixed
        self.clustered = log.clustered(clusters)
        self.summed = log.keep(self.clustered.summed(), "clusters")
        self.repeated: dict[tuple[Ask, Code], float] = {}

    def spreads(
        self, weighed: Weighed, values: dict[tuple[Ask, float, Code], float | None]
    ) -> dict[tuple[Ask, float, Code], Spread]:
        """The spread of every estimate; `values` are the estimates."""
        if self.clusters == "record":
            found = self._second_moments(weighed, values)
            more = small_cells(self.log, self.strata, weighed)
        else:
            slots, more = self.slots(weighed), {}
            hides = fits_rates(self.log, weighed)
            by_cell = weighed.asks[0].model.sees_items and weighed.rated is None
            days = self.clusters == "period" and by_cell
            if hides or days:
                slots = self.log.keep(slots, "shares")  # it is looked at twice
                seen = self.seen(weighed, slots, hides=hides)
            rows = self.log.engine.rows(self._clusters(weighed, slots))
            found = self._by_cluster(weighed, rows, values)
            if hides:
                more = few_clusters(self.log, self.strata, weighed, seen, rows)
            if days:
                self.repeated |= repeated(self.log, weighed, seen)
            # With fewer periods than would be enough, freedom is what says so.
            few = {(a, code) for (a, _, code), s in found.items() if s.clusters < ENOUGH_PERIODS}
            self.repeated = {k: share for k, share in self.repeated.items() if k not in few}
        return {key: self._add(spread, more.get(key)) for key, spread in found.items()}

    # --- sums over clusters ---------------------------------------------------------------------

    def slots(self, weighed: Weighed) -> ir.Table:
        """(by, context, cluster, cell): credit t_i and exposure e_i, of the candidate's cells."""
        log, asks = self.log, weighed.asks
        keys = [*log.keys, CLUSTER, *self._given]
        if weighed.rated is not None:
            slots = weighed.rated.slots(self.clustered.lists, keys)
            return slots.select(
                *keys,
                *weighed.cell,
                **{f"t_{i}": slots[CREDIT].cast("float64") for i in range(len(asks))},
                **{f"e_{i}": slots[N].cast("float64") for i in range(len(asks))},
            )
        if self.clusters == "record":  # a record has hardly two slots in a cell: no use to group
            source = self.clustered.lists if asks[0].model.sees_items else self.summed
            return spread_out(source, asks, keys, log.log.reached, log.key_depth(asks))[1]
        rows = self.clustered.rows(asks[0].model, self.summed)
        within = weighed.table.select(*log.keys, *weighed.cell).distinct()
        cell, cells = grouped_cells(rows, asks, keys, "log", within, log.cell_depth)
        numbers = range(len(asks))
        return cells.select(
            *keys,
            *cell,
            **{f"t_{i}": cells[f"c_{i}"] for i in numbers if earned(asks, i) == i},
            **{f"e_{i}": cells[f"p_{i}"] for i in numbers},
        )

    def seen(self, weighed: Weighed, slots: ir.Table, *, hides: bool) -> ir.Table:
        """The cells with what their clusters say of them, one row a cell."""
        counts = in_periods(self.log, weighed.asks, slots)
        more = moments(slots, weighed.asks) if hides else {}
        cells = slots.group_by([*self.log.keys, *weighed.cell]).aggregate(**counts, **more)
        return self.log.keep(cells, "seen") if hides else cells

    @property
    def _given(self) -> list[str]:
        return [PROPENSITY] if self.log.propensity else []

    def _clusters(self, weighed: Weighed, slots: ir.Table) -> ir.Table:
        """(by, cluster) → n, Σφ + F n, and Σψ + V n as s (of cells) and x (of whole contexts).

        Where rates were fitted, also what a shock of a context would move.
        """
        log, asks, by = self.log, weighed.asks, [*self.log.by, CLUSTER]
        keys = [*log.keys, CLUSTER]
        hides = fits_rates(log, weighed)
        cells = self._coefficients(weighed.table, weighed)
        on = [*log.keys, *weighed.cell, *self._given]
        more = shock_columns(cells, asks) if hides else {}
        exposed = [f"p_{i}" for i in range(len(asks))] if hides else []
        joined = slots.join(cells.select(*on, *_pairs(asks), *exposed, **more), on)
        joined = joined.mutate(**still_shown(joined, asks)) if hides else joined
        parts = joined.group_by(keys).aggregate(
            **_from_cells(joined, asks), **(shocked(joined, asks) if hides else {})
        )
        whole, sums = self._whole(weighed)
        found = whole.select(*keys, **sums).left_join(parts, keys)
        known = [*sums, *_from_cells(joined, asks)]
        return found.group_by(by).aggregate(
            **{c: found[c].sum() for c in known},
            **(shocks(found, asks) if hides else {}),
        )

    def _records(self, weighed: Weighed) -> ir.Table:
        """The same where each record is a cluster of its own; there are no others in its row."""
        asks, by = weighed.asks, [*self.log.by, CLUSTER]
        on = [*self.log.keys, *weighed.cell, *self._given]
        slots, cells = self.slots(weighed), self._coefficients(weighed.table, weighed)
        joined = slots.join(cells.select(*on, *_pairs(asks)), on)
        from_cells = joined.group_by(by).aggregate(**_from_cells(joined, asks))
        whole, sums = self._whole(weighed)
        return whole.select(*by, **sums).left_join(from_cells, by)

    def _whole(self, weighed: Weighed) -> tuple[ir.Table, dict[str, ir.Value]]:
        """(by, context, cluster), and of each n, f_i, and x_i_m, which a context has in common."""
        whole = self.summed.join(self._contexts(weighed), self.log.keys)
        n = whole[RECORDS].cast("float64")
        sums: dict[str, ir.Value] = {N: n}
        for i, ask in enumerate(weighed.asks):
            reward = credit(whole, ask.metric)
            known = whole[KNOWN]
            center = n * whole[f"f_{i}"] if self.fixed else real(0)
            sums[f"f_{i}"] = reward - center
            for m in range(len(ask.clips)):
                # A context that the candidate does not know is worth what it was.
                sums[f"x_{i}_{m}"] = known.ifelse(n * whole[f"x_{i}_{m}"], reward - center)
        return whole, sums

    def _coefficients(self, table: ir.Table, weighed: Weighed) -> ir.Table:
        """Factors a = W and b = W u r of each cell; where π is known, no rate was estimated."""
        if weighed.rated is not None:
            return table
        known = LOGGING in self.log.policies or self.log.propensity is not None
        columns: dict[str, ir.Value] = {}
        for i, m in names(weighed.asks):
            weight = table[f"w_{i}_{m}"]
            columns[f"a_{i}_{m}"] = weight
            columns[f"b_{i}_{m}"] = (
                real(0)
                if known
                else unclipped(table, weighed.asks, i, m).ifelse(
                    weight * rate_of(table, i), real(0)
                )
            )
        return table.mutate(**columns)

    def _contexts(self, weighed: Weighed) -> ir.Table:
        """(context, by) → x, what every record of it has in common, and f, its mean reward."""
        log, asks = self.log, weighed.asks
        cells = self._in_common(weighed)
        contexts = log.contexts
        used = contexts if any(s.used for s in self.strata) else contexts.filter(contexts[KNOWN])
        joined = used.left_join(cells, log.keys)
        n = joined[RECORDS].cast("float64")
        return joined.select(
            *log.keys,
            KNOWN,
            **{f"f_{i}": credit(joined, ask.metric) / n for i, ask in enumerate(asks)},
            **{name: joined[name].fill_null(real(0)) / n for name in _numbered("x", asks)},
        )

    def _in_common(self, weighed: Weighed) -> ir.Table:
        """(context, by) → x_i_m, from its cells."""
        log, asks, table = self.log, weighed.asks, weighed.table
        if weighed.rated is not None:
            cells = weighed.rated.by_context("x")
            nothing = {f"x_{i}_0": real(0) for i in range(len(asks))}
            return cells.mutate(**nothing) if self.fixed else cells
        known = LOGGING in log.policies or log.propensity is not None
        sums: dict[str, ir.Value] = {}
        for i, m in names(asks):
            # Known π: ψ = Σ W c − V_x + (V_x − V). Otherwise Σ … − κ_x + (V_x − V), where κ is what
            # clipped cells earn. V is subtracted in the end.
            earned, clip = table[f"c_{i}"], asks[i].clips[m]
            value = worth(table, i, m)
            kept = unclipped(table, weighed.asks, i, m)
            bound = real(clip if math.isfinite(clip) else 0)
            common = value if known else kept.ifelse(real(0), earned * bound)
            sums[f"x_{i}_{m}"] = (-common if self.fixed else value - common).sum()
        return table.group_by(log.keys).aggregate(**sums)

    def _by_cluster(
        self,
        weighed: Weighed,
        rows: list[dict[str, Any]],
        values: dict[tuple[Ask, float, Code], float | None],
    ) -> dict[tuple[Ask, float, Code], Spread]:
        wholes = {_key(row, self.log.by): row for row in rows}
        own: dict[Code, list[tuple[Code, Any]]] = {stratum.code: [] for stratum in self.strata}
        for key in sorted(wholes, key=repr):
            own[key[0]].append(key)
        found = {}
        for stratum in self.strata:
            mine = own[stratum.code]
            n = np.array([wholes[key][N] for key in mine])
            for i, ask in enumerate(weighed.asks):
                f = np.array([wholes[key][f"f_{i}"] for key in mine])
                for m, clip in enumerate(ask.clips):
                    value = values[ask, clip, stratum.code]
                    if value is None:
                        continue
                    s = np.array([wholes[key][f"s_{i}_{m}"] or 0.0 for key in mine])
                    x = np.array([wholes[key][f"x_{i}_{m}"] for key in mine])
                    both = np.stack([s + x, f], axis=1)
                    if not self.fixed:
                        both -= n[:, None] * np.array([value, f.sum() / n.sum()])
                    found[ask, clip, stratum.code] = replace(
                        clustered(both / n.sum()), kind=self.clusters
                    )
        return found

    def _second_moments(
        self,
        weighed: Weighed,
        values: dict[tuple[Ask, float, Code], float | None],
    ) -> dict[tuple[Ask, float, Code], Spread]:
        """Independent records: each row of the tally stands for n equal ones."""
        rows = self._records(weighed)
        n = rows[N]
        sums: dict[str, ir.Value] = {N: n.sum()}
        for i, ask in enumerate(weighed.asks):
            f = rows[f"f_{i}"]
            sums |= {f"f_{i}": f.sum(), f"ff_{i}": (f * f / n).sum()}
            for m in range(len(ask.clips)):
                s = rows[f"s_{i}_{m}"].fill_null(real(0)) + rows[f"x_{i}_{m}"]
                sums |= {
                    f"v_{i}_{m}": s.sum(),
                    f"vv_{i}_{m}": (s * s / n).sum(),
                    f"vf_{i}_{m}": (s * f / n).sum(),
                }
        found = {}
        answers = {
            tuple(row[b] for b in self.log.by): row
            for row in self.log.engine.rows(per(rows, self.log.by).aggregate(**sums))
        }
        for stratum in self.strata:
            row = answers.get(stratum.code)
            if row is None:
                continue
            n_all = row[N]
            for i, ask in enumerate(weighed.asks):
                for m, clip in enumerate(ask.clips):
                    if values[ask, clip, stratum.code] is None:
                        continue
                    v, f = row[f"v_{i}_{m}"], row[f"f_{i}"]
                    moment = np.array(
                        [
                            [row[f"vv_{i}_{m}"], row[f"vf_{i}_{m}"]],
                            [row[f"vf_{i}_{m}"], row[f"ff_{i}"]],
                        ]
                    )
                    mean = np.array([v, f]) / n_all
                    centred = moment - n_all * np.outer(mean, mean)
                    found[ask, clip, stratum.code] = Spread(
                        centred / (n_all * max(n_all - 1, 1)), math.inf, n_all, None
                    )
        return found

    @staticmethod
    def _add(spread: Spread, small: Floats | None) -> Spread:
        if small is None:
            return spread
        return replace(spread, covariance=spread.covariance + small)


def clustered(sums: Floats) -> Spread:
    """The covariance of totals of independent clusters: G / (G − 1) Σ_c s_c s_cᵀ."""
    count = len(sums)
    covariance = sums.T @ sums * (count / max(count - 1, 1))
    return Spread(covariance, count - 1, count, sums)


# --- parts of formulas --------------------------------------------------------------------------


def _from_cells(joined: ir.Table, asks: Sequence[Ask]) -> dict[str, ir.Value]:
    """Σ (a t − b e), for every ask and clip."""
    return {
        f"s_{i}_{m}": (
            joined[f"a_{i}_{m}"] * joined[f"t_{earned(asks, i)}"]
            - joined[f"b_{i}_{m}"] * joined[f"e_{i}"]
        ).sum()
        for i, m in names(asks)
    }


def _pairs(asks: Sequence[Ask]) -> list[str]:
    return [f"{stem}_{i}_{m}" for i, m in names(asks) for stem in ("a", "b")]


def _numbered(stem: str, asks: Sequence[Ask]) -> list[str]:
    return [f"{stem}_{i}_{m}" for i, m in names(asks)]


def _key(row: dict[str, Any], by: list[str]) -> tuple[Code, Any]:
    return tuple(row[b] for b in by), row[CLUSTER]
