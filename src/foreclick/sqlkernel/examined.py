"""How much each place is examined, from items that stood at several places of one context.

Under the position-based model an item a of context x earns w_xak clicks in n_xak records at place
k, with mean n_xak μ_xa p_k. With μ_xa profiled out, the Poisson log-likelihood is

    ℓ(p) = Σ_k w_k log p_k − Σ_xa w_xa log Σ_k p_k n_xak,

concave in log p, and the same as that of which place got each click of an item: no number of items
biases it. A *pair* (x, a) that stood at one place only says nothing, and pairs without clicks say
nothing, so one materialised table of the others, wide by place, serves every pass of Newton's
method: a pass sums the score and the information in one group-by.

The second opinion is AllPairs (Agarwal et al., WSDM 2019): the click rates of items that stood at
both of two places, for all pairs of places. Here an item is weighed by n_k n_j / (n_k + n_j), as
Mantel and Haenszel did, and the pairs of places are brought to one curve as Bradley and Terry did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from foreclick._tally import Tally
from foreclick.engines import Engine, real, total, whole, zero
from foreclick.logs import BUCKET, CONTEXT, ITEM, PERIOD, N, numbered
from foreclick.models import POSITION
from foreclick.sqlkernel.influence import clustered
from foreclick.sqlkernel.logged import Keep, Logged
from foreclick.sqlkernel.places import (
    Graph,
    bradley_terry,
    matrix_of,
    newton_step,
    vector_of,
)
from foreclick.sqlkernel.prepared import Code, code_of, per
from foreclick.sqlkernel.question import Clusters

Floats = NDArray[np.float64]

_PASSES = 60  # of Newton's method; half a dozen are usual
_CLOSE = 1e-9  # a step so small leaves an error of its square, which is less than rounding
_DENOMINATOR, _RATE, _EARNED = "denominator", "rate", "earned"


@dataclass(frozen=True)
class Spread:
    """A covariance of log p.

    Attributes:
        covariance: NaN where p has none; that of the reference is 0.
        freedom: its degrees of freedom.
    """

    covariance: Floats
    freedom: float


@dataclass(frozen=True)
class Examined:
    """How much the places of one stratum are examined.

    Attributes:
        p: by place, 1 at the reference; 0 where nothing was clicked; NaN where the log cannot tell.
        spreads: the covariance of log p, by everything that may make it vary.
        allpairs: the same as `p`, by AllPairs.
        apart: of log allpairs − log p, its standard error; NaN where it is not known.
        graph: which places exchanged items, and which of them are told.
        records: by place, how many records filled it.
        converged: whether the maximum was found.
    """

    p: Floats
    spreads: tuple[Spread, ...]
    allpairs: Floats
    apart: Floats
    graph: Graph
    records: Floats
    converged: bool


def examine(
    tally: Tally,
    *,
    reward: str,
    places: Sequence[int],
    by: Sequence[str] = (),
    dated: bool = False,
    clusters: Sequence[Clusters] = (),
) -> dict[Code, Examined]:
    """How much each place is examined, by stratum.

    Args:
        tally: the log.
        reward: what is counted as clicks.
        places: for each position its place, from 0, which positions may share; −1 for positions
            that are left out, as those beyond the last are.
        by: the columns that make strata.
        dated: whether an item's attraction may be another in each period: then only moves within
            a period count.
        clusters: whose records vary together; by default, or if it is "record", clicks are taken
            as independent.
    """
    table = tally.table
    kinds = [PERIOD if kind == "period" else BUCKET for kind in clusters if kind != "record"]
    if dated or PERIOD in kinds:
        table = table.filter(table[PERIOD].notnull())
    coded = {f"by_{i}": code_of(table[b]) for i, b in enumerate(by)}
    finer = dict.fromkeys([*([PERIOD] if dated else []), *kinds])
    with tally.engine.scratch() as keep:
        depth = min(len(places), tally.shape.depth)
        apart = coded | {name: table[name] for name in finer}
        slots = Logged(tally, [reward], depth, keep, apart, table=table).slots()
        keys = [CONTEXT, *([PERIOD] if dated else [])]
        return examine_slots(
            tally.engine,
            keep,
            slots,
            reward=reward,
            places=places,
            keys=keys,
            by=list(coded),
            clusters=kinds,
        )


def examine_slots(  # noqa: PLR0913 - all but three are keywords
    engine: Engine,
    keep: Keep,
    slots: ir.Table,
    *,
    reward: str,
    places: Sequence[int],
    keys: Sequence[str],
    by: Sequence[str] = (),
    clusters: Sequence[str] = (),
) -> dict[Code, Examined]:
    """The same, from slots.

    Args:
        engine: where the slots are.
        keep: materialises a step of the calculation.
        slots: by, keys, clusters, `item`, `position`, `n`, and the reward's sum; rows need not be
            unique.
        reward: the name of the column with the sum.
        places: as in `examine`.
        keys: what an item's attraction may depend on: the context, or context and period.
        by: keys of the strata, texts without NULLs.
        clusters: columns that tell clusters apart.
    """
    swaps = _Swaps(engine, keep, slots, reward, tuple(places), list(keys), list(by))
    found = swaps.maximum()
    moved = {
        cluster: swaps.moved(found, slots, cluster, second=i == 0)
        for i, cluster in enumerate(clusters)
    }
    return {
        code: swaps.result(code, fit, {cluster: mine[code] for cluster, mine in moved.items()})
        for code, fit in found.items()
    }


@dataclass
class _Fit:
    """Where the search for one stratum's maximum is."""

    graph: Graph
    p: Floats
    allpairs: Floats
    information: Floats
    done: bool


@dataclass(frozen=True)
class _Moved:
    """How much each cluster moves log p, and log allpairs − log p: [cluster, place]."""

    p: Floats
    beside: Floats


class _Swaps:
    """The pairs that stood at several places, and what is summed over them."""

    def __init__(
        self,
        engine: Engine,
        keep: Keep,
        slots: ir.Table,
        reward: str,
        places: tuple[int, ...],
        keys: list[str],
        by: list[str],
    ) -> None:
        self.engine, self.reward, self.places, self.keys, self.by = engine, reward, places, keys, by
        self.size = max(places) + 1
        self.n, self.w = numbered(N, self.size), numbered("w", self.size)
        self.columns = self.n + self.w
        self.records = self._records(slots)
        wide = self._wide(slots, [*by, *keys, ITEM])
        several = reduce(add, [(wide[c] > zero(wide[c].type())).ifelse(1, 0) for c in self.n])
        clicked = reduce(add, [wide[c] for c in self.w]) > zero(wide[self.w[0]].type())
        self.pairs = keep(wide.filter((several > 1) & clicked), "swaps")

    def _wide(self, slots: ir.Table, keys: list[str]) -> ir.Table:
        """One row per pair, with n_1 … and w_1 … by place."""
        sums: dict[str, ir.Value] = {}
        for place in range(self.size):
            mine = [k for k, at in enumerate(self.places, start=1) if at == place]
            here = slots[POSITION].isin(mine)
            for name, column in ((self.n[place], N), (self.w[place], self.reward)):
                value = slots[column]
                sums[name] = total(here.ifelse(value, zero(value.type())))
        return slots.group_by(keys).aggregate(**sums)

    def _records(self, slots: ir.Table) -> dict[Code, Floats]:
        grouped = slots.group_by([*self.by, POSITION]).aggregate(**{N: total(slots[N])})
        found: dict[Code, Floats] = {}
        for row in self.engine.rows(grouped):
            mine = found.setdefault(self._code(row), np.zeros(self.size))
            place = self.places[row[POSITION] - 1] if row[POSITION] <= len(self.places) else -1
            if place >= 0:
                mine[place] += row[N]
        return found

    def _code(self, row: dict[str, Any]) -> Code:
        return tuple(row[b] for b in self.by)

    # --- the maximum ------------------------------------------------------------------------------

    def maximum(self) -> dict[Code, _Fit]:
        """Newton's method, for all strata at once, from the answers of AllPairs."""
        found = {code: self._start(graph) for code, graph in self._graphs().items()}
        for _ in range(_PASSES):
            if all(fit.done for fit in found.values()):
                break
            for row in self.engine.rows(self._pass(found)):
                fit = found[self._code(row)]
                if not fit.done:
                    sums = vector_of(row, "g", self.size), matrix_of(row, "h", self.size)
                    step, fit.information = newton_step(fit.graph, fit.p, *sums)
                    fit.p = fit.p * np.exp(step)
                    fit.done = bool(np.abs(step).max(initial=0.0) < _CLOSE)
        return found

    def _start(self, graph: Graph) -> _Fit:
        allpairs = bradley_terry(graph)
        alone = graph.told.sum() < 2  # noqa: PLR2004 - a single place is examined as much as itself
        nothing = np.zeros((self.size, self.size))
        return _Fit(graph, allpairs.copy(), allpairs, nothing, done=bool(alone))

    def _graphs(self) -> dict[Code, Graph]:
        """Which places exchanged items, and how clicks were shared between them."""
        pairs, sums = self.pairs, {}
        for j in range(self.size):
            n, w = pairs[self.n[j]], pairs[self.w[j]]
            shown = n > zero(n.type())
            sums[f"w_{j}"] = total(w)
            sums[f"items_{j}"] = total(shown.ifelse(whole(1), whole(0)))
            for k in range(self.size):
                m = pairs[self.n[k]]
                both = shown & (m > zero(m.type()))
                if j > k:
                    sums[f"both_{j}_{k}"] = total(both.ifelse(whole(1), whole(0)))
                if j != k:
                    share = (w * m).cast("float64") / both.ifelse((n + m).cast("float64"), real(1))
                    sums[f"won_{j}_{k}"] = total(both.ifelse(share, real(0)))
        rows = self.engine.rows(per(pairs, self.by).aggregate(**sums))
        found = {code: Graph.of({}, self.size) for code in self.records}
        return found | {self._code(row): Graph.of(row, self.size) for row in rows}

    def _pass(self, found: dict[Code, _Fit]) -> ir.Table:
        """The sums of one pass: Σ c/D n_k and Σ c/D² n_j n_k, with D = Σ p n and c = Σ w."""
        rows = self._at(found)
        over = rows[_RATE] / rows[_DENOMINATOR]
        n = [rows[c].cast("float64") for c in self.n]
        sums = {}
        for j in range(self.size):
            sums[f"g_{j}"] = total(rows[_RATE] * n[j])
            sums |= {f"h_{j}_{k}": total(over * n[j] * n[k]) for k in range(j + 1)}
        return per(rows, self.by).aggregate(**sums)

    def _at(self, found: dict[Code, _Fit]) -> ir.Table:
        """The pairs with p_1 …, D = Σ p n, and μ = c / D, of the places that are told."""
        curves = {code: np.where(fit.graph.told, fit.p, 0.0) for code, fit in found.items()}
        p = numbered("p", self.size)
        if self.by:
            columns = {b: [code[i] for code in curves] for i, b in enumerate(self.by)}
            listed = {c: [float(curve[k]) for curve in curves.values()] for k, c in enumerate(p)}
            rows = self.pairs.join(self.engine.show(pa.table(columns | listed)), self.by)
        else:
            rows = self.pairs.mutate(**{c: real(curves[()][k]) for k, c in enumerate(p)})
        return rates(rows, self.size)

    # --- the errors -------------------------------------------------------------------------------

    def moved(
        self, found: dict[Code, _Fit], slots: ir.Table, cluster: str, *, second: bool
    ) -> dict[Code, _Moved]:
        """How much each cluster moves log p.

        A cluster's own rewards and records w, n differ from what the pair's rate makes of them by
        r_k = w_k − μ p_k n_k, and it adds Σ_xa (r_k − q_k Σ_j r_j), with q_k = p_k n_xak / D, to
        the score of p_k. Likewise, what it adds to the sums of AllPairs is their derivative, if
        the second opinion is asked for.
        """
        rows = self._at(found)
        if cluster in self.keys:  # a pair is of one cluster
            rows = rows.mutate(**{f"own_{c}": rows[c] for c in self.columns})
        else:
            key = [*self.by, *self.keys, ITEM]
            own = self._wide(slots, [*key, cluster]).rename({f"own_{c}": c for c in self.columns})
            rows = own.join(rows, key)
        rest = {
            f"r_{k}": (p > 0).ifelse(
                _float(rows[f"own_w_{k}"]) - rows[_RATE] * p * _float(rows[f"own_n_{k}"]), real(0)
            )
            for k in range(1, self.size + 1)
            for p in [rows[f"p_{k}"]]
        }
        rows = rows.mutate(**rest)
        rows = rows.mutate(all_r=reduce(add, [rows[c] for c in rest]))
        sums = {
            f"s_{k - 1}": total(
                rows[f"r_{k}"]
                - rows[f"p_{k}"] * _float(rows[f"n_{k}"]) / rows[_DENOMINATOR] * rows["all_r"]
            )
            for k in range(1, self.size + 1)
        }
        if second:
            sums |= {
                f"won_{j}_{k}": total(_moved(rows, j + 1, k + 1))
                for j in range(self.size)
                for k in range(self.size)
                if j != k
            }
        grouped = self.engine.rows(rows.group_by([*self.by, cluster]).aggregate(**sums))
        clusters: dict[Code, list[dict[str, Any]]] = {code: [] for code in found}
        for row in sorted(grouped, key=lambda row: str(row[cluster])):
            clusters[self._code(row)].append(row)
        return {code: self._moved_of(fit, clusters[code]) for code, fit in found.items()}

    def _moved_of(self, fit: _Fit, rows: list[dict[str, Any]]) -> _Moved:
        graph, shape = fit.graph, (len(rows), self.size)
        scores = np.array([vector_of(row, "s", self.size) for row in rows]).reshape(shape)
        moved = scores @ graph.inverse(fit.information)
        second = [graph.score(fit.allpairs, matrix_of(row, "won", self.size)) for row in rows]
        inverse = graph.inverse(graph.information(fit.allpairs))
        return _Moved(moved, np.array(second).reshape(shape) @ inverse - moved)

    def result(self, code: Code, fit: _Fit, clusters: dict[str, _Moved]) -> Examined:
        """What was found of a stratum.

        Where a pair is spread over several clusters, its own rate hides part of how much they
        differ: half of it, if they are two. So what independent clicks would give is a floor.
        """
        graph = fit.graph
        spreads = [_spread(graph, moved.p) for moved in clusters.values()]
        if not clusters or set(clusters) - set(self.keys):
            spreads.append(Spread(graph.only(graph.inverse(fit.information)), np.inf))
        apart = np.full(self.size, np.nan)
        if clusters:
            beside = _spread(graph, next(iter(clusters.values())).beside)
            apart = np.sqrt(np.diag(beside.covariance))
        return Examined(
            p=graph.with_zeros(fit.p),
            spreads=tuple(spreads),
            allpairs=graph.with_zeros(fit.allpairs),
            apart=apart,
            graph=graph,
            records=self.records[code],
            converged=fit.done,
        )


def _spread(graph: Graph, moved: Floats) -> Spread:
    """By clusters; a single one does not tell how much they differ."""
    found = clustered(moved)
    covariance = found.covariance if found.freedom > 0 else np.full_like(found.covariance, np.nan)
    return Spread(graph.only(covariance), found.freedom)


def rates(pairs: ir.Table, size: int) -> ir.Table:
    """Pairs with D = Σ p n and μ = c / D, where c counts the places that are told (p > 0)."""
    parts, clicks = [], []
    for k in range(1, size + 1):
        p = pairs[f"p_{k}"]
        parts.append(p * pairs[f"{N}_{k}"].cast("float64"))
        clicks.append((p > 0).ifelse(pairs[f"w_{k}"].cast("float64"), real(0)))
    summed = pairs.mutate(**{_DENOMINATOR: reduce(add, parts), _EARNED: reduce(add, clicks)})
    solid = summed.mutate(**{_DENOMINATOR: _or_one(summed[_DENOMINATOR])})
    return solid.mutate(**{_RATE: solid[_EARNED] / solid[_DENOMINATOR]})


def _moved(rows: ir.Table, j: int, k: int) -> ir.Value:
    """How w_j n_k / (n_j + n_k) of a pair grows with the weight of a cluster."""
    w, n, m = (_float(rows[c]) for c in (f"w_{j}", f"n_{j}", f"n_{k}"))
    own_w, own_n, own_m = (_float(rows[f"own_{c}"]) for c in (f"w_{j}", f"n_{j}", f"n_{k}"))
    both = _or_one(n + m)
    grown = (own_w * m + w * own_m - w * m * (own_n + own_m) / both) / both
    return ((n > 0) & (m > 0)).ifelse(grown, real(0))


def _float(column: ir.Value) -> ir.Value:
    return column.cast("float64")


def _or_one(value: ir.Value) -> ir.Value:
    """The value, or 1 where it is 0 and what it divides is 0 as well."""
    return (value > 0).ifelse(value, real(1))
