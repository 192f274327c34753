r"""The one kernel: every estimator of the paper, from cells.

A click model puts each slot into a cell g of its context x. With n_x records in the context,
credit C_g and exposure P_g of a cell per record, and the candidate's exposure H_g,

.. math:: V = \frac1n \sum_x n_x \sum_g C_g \min(H_g / P_g, M).

The steps, each a relation in the log's engine:

    tally ─► lists ─► slots ─► cells ─► weights ─► sums
              (context, list)    │ item, position   │ one row per stratum
                                 └ the policy's rows join by being stacked and grouped alike

The log's rows carry counts and credit, a policy's rows carry probability; stacked and grouped by
cell they give P, C and H side by side. No join by cell is needed (lists hold NULLs, which not every
engine joins well), and what only one side has is there too: the uncovered part of the candidate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Literal

import ibis
import ibis.expr.types as ir

from foreclick._tally import Tally
from foreclick.engines import Engine, real, total, whole, zero
from foreclick.errors import MetricError, ModelError, PolicyError
from foreclick.estimators.weighted import Weighted
from foreclick.logs import CONTEXT, ITEM, N, PROPENSITY, Shape, numbered
from foreclick.metrics import Metric
from foreclick.models import MASS, POSITION, ClickModel, slots_of
from foreclick.policies import Policy, View

Missing = Literal["error", "production", "drop"]
Keep = Callable[[ir.Table, str], ir.Table]

RECORDS, KNOWN, LOGGING = "records", "known", "logging"
_EXAMPLES = 3


@dataclass(frozen=True)
class Stratum:
    """What a part of the log (all of it, or one segment) rests on.

    Attributes:
        segment: the values of the `by` columns.
        contexts, records: what the estimate uses.
        missing_contexts: contexts of the log that the candidate has no list for.
        rewards: the sum of each reward at each position, over the records that are used.
    """

    segment: dict[str, Any]
    contexts: int
    records: float
    missing_contexts: int
    rewards: dict[str, list[float]]

    def production(self, metric: Metric) -> float:
        """The mean reward of the records that are used."""
        gained = sum(t * r for t, r in zip(metric.theta, self.rewards[metric.reward], strict=False))
        return gained / self.records if self.records else math.nan


@dataclass(frozen=True)
class Sums:
    """Sums over cells for one (estimator, metric, clip) in one stratum.

    Attributes:
        credit: Σ n_x C_g W_g, the estimate times the number of records.
        mass: Σ n_x H_g; `covered`: that of the cells that were logged; `clipped`: what M cut off.
        exposure, weighted, squared: Σ E, Σ E W and Σ E W², with E_g = n_x P_g.
        cells, seen: how many cells the candidate would use, and how many of them were logged.
        largest: the largest weight.
        unlogged: records in cells that the given logging policy calls impossible.
    """

    model: ClickModel
    metric: Metric
    clip: float
    stratum: Stratum
    credit: float
    mass: float
    covered: float
    clipped: float
    exposure: float
    weighted: float
    squared: float
    cells: int
    seen: int
    largest: float
    unlogged: float

    @property
    def value(self) -> float | None:
        """The estimate of V(h), or None where the log shows nothing of the candidate."""
        if not self.stratum.records or self.covered <= 0:
            return None
        return self.credit / self.stratum.records

    @property
    def ess(self) -> float:
        """The effective number of records, n (Σ E W)² / (Σ E · Σ E W²)."""
        if not self.squared or self.covered <= 0:
            return 0.0
        return self.stratum.records * self.weighted**2 / (self.exposure * self.squared)


@dataclass(frozen=True)
class Question:
    """What is asked of a log: a candidate, by which estimators and metrics, over which part.

    Attributes:
        logging: the logging policy where it is known; "propensity" for the log's own propensities;
            None for the frequencies of the log.
    """

    candidate: Policy
    estimators: Sequence[Weighted]
    metrics: Sequence[Metric]
    missing: Missing = "error"
    logging: Policy | Literal["propensity"] | None = None
    by: tuple[str, ...] = ()

    @property
    def depth(self) -> int:
        """The last position that any metric counts."""
        return max(metric.depth for metric in self.metrics)

    @property
    def rewards(self) -> tuple[str, ...]:
        """The rewards that the metrics weigh."""
        return tuple(dict.fromkeys(metric.reward for metric in self.metrics))


@dataclass(frozen=True)
class Estimate:
    """The answer to a question.

    Attributes:
        sums: one entry per estimator, metric, clip and stratum, in the order they were asked.
        ignored_contexts: contexts that only the candidate has.
    """

    sums: list[Sums]
    ignored_contexts: int


def estimate(tally: Tally, question: Question) -> Estimate:
    """Answer a question from a tally."""
    _check(tally.shape, question)
    with tally.engine.scratch() as keep:
        log = _Logged(tally, question, keep)
        strata = log.strata()
        found = []
        for estimator in question.estimators:
            for metrics, cells in log.cells(estimator.model):
                found += _sum_up(log, strata, estimator, metrics, cells)
        if not all(e.model.sees_items for e in question.estimators):
            blind = log.blind_segments(strata)
            found = [_unless_blind(s, blind) for s in found]
        ignored = log.ignored_contexts()
        order = {metric: i for i, metric in enumerate(question.metrics)}
        rank = {id(e.model): i for i, e in enumerate(question.estimators)}
        found.sort(key=lambda s: (rank[id(s.model)], order[s.metric]))
        return Estimate(found, ignored)


def _check(shape: Shape, question: Question) -> None:
    absent = [r for r in question.rewards if r not in shape.rewards]
    if absent:
        raise MetricError(
            f"the log has no reward {absent[0]!r}; it was read with "
            f"{', '.join(shape.rewards) or 'no rewards at all (clicks=None)'}. Read it with "
            f"rewards={{{absent[0]!r}: …}} or use another metric."
        )
    unknown = [b for b in question.by if b not in (*shape.segments, *_extra_strata(shape))]
    if unknown:
        raise ModelError(
            f"by={unknown[0]!r}: the log was read with the segments "
            f"{', '.join(shape.segments) or '(none)'}. Read it with segments=({unknown[0]!r},)."
        )
    if question.logging == "propensity":
        for estimator in question.estimators:
            if not propensities_answer(shape, estimator.model, question.depth):
                raise ModelError(
                    f"propensities of each {shape.propensity} cannot answer for "
                    f"{estimator.name!r}: 'list' needs the probability of the shown list, 'ip' and "
                    "'prefix' that of each slot. Use logging=None (the log's frequencies), or give "
                    "the logging policy itself, logging=Lists(…)."
                )


def _extra_strata(shape: Shape) -> tuple[str, ...]:
    return ("period",) if shape.period else ()


def propensities_answer(shape: Shape, model: ClickModel, depth: int) -> bool:
    """Whether the log's propensities are those of the model's cells.

    A list's probability is that of a `list` cell; a slot's is that of an `ip` cell, or of a
    `prefix` cell if it was logged as such. With one position all of these are the same.
    """
    if shape.propensity is None:
        return False
    if min(depth, shape.depth) == 1:
        return model.sees_items
    fits = {"list": ("list",), "slot": ("prefix", ("item", "position"))}
    return model.cell in fits[shape.propensity]


class _Logged:
    """A tally prepared for one question: its lists, its contexts, and the policies beside them."""

    def __init__(self, tally: Tally, question: Question, keep: Keep) -> None:
        self.engine: Engine = tally.engine
        self.question, self.keep = question, keep
        self.depth = question.depth
        self.by = list(question.by)
        self.keys = [CONTEXT, *self.by]
        self.items = numbered(ITEM, self.depth)
        self.propensity = tally.shape.propensity if question.logging == "propensity" else None
        self.lists = keep(self._lists(tally), "lists")
        self.view = View(self.engine, self.depth, self.lists, keep)
        self.policies: dict[str, Policy] = {MASS: question.candidate}
        if isinstance(question.logging, Policy):
            self.policies[LOGGING] = question.logging
        self.contexts = keep(self._contexts(), "contexts")
        self._slots: ir.Table | None = None
        self._stacked: ir.Table | None = None

    # --- the log's own relations ----------------------------------------------------------------

    def _lists(self, tally: Tally) -> ir.Table:
        """(context, by, list [, propensity]) → n and the sum of each reward at each position."""
        table, shape = tally.table, tally.shape
        reached = min(self.depth, shape.depth)
        n = table[N]
        sums = {
            f"{reward}_{k}": total(n * table[f"{reward}_{k}"])
            for reward in self.question.rewards
            for k in range(1, reached + 1)
        }
        propensities = [PROPENSITY] if self.propensity == "list" else []
        if self.propensity == "slot":
            propensities = numbered(PROPENSITY, reached)
        keys = [*self.keys, *self.items[:reached], *propensities]
        lists = table.group_by(keys).aggregate(**{N: total(n)}, **sums)
        # A metric may look further down than any logged list; a candidate may be longer too.
        kinds = {ITEM: table[self.items[0]].type(), PROPENSITY: "float64"}
        stems = [ITEM, *self.question.rewards]
        stems += [PROPENSITY] if self.propensity == "slot" else []
        beyond = {
            f"{stem}_{k}": ibis.null(kinds[stem]) if stem in kinds else _zero(lists, f"{stem}_1")
            for stem in stems
            for k in range(reached + 1, self.depth + 1)
        }
        return lists.mutate(**beyond) if beyond else lists

    def _contexts(self) -> ir.Table:
        """(context, by) → records, rewards by position, and whether the candidate knows it."""
        lists = self.lists
        sums = {
            f"{reward}_{k}": total(lists[f"{reward}_{k}"])
            for reward in self.question.rewards
            for k in range(1, self.depth + 1)
        }
        contexts = lists.group_by(self.keys).aggregate(**{RECORDS: total(lists[N])}, **sums)
        return self._mark(contexts, self.policies[MASS], KNOWN)

    def _mark(self, contexts: ir.Table, policy: Policy, name: str) -> ir.Table:
        answered = policy.contexts(self.view).mutate(**{name: ibis.literal(True)})
        joined = contexts.left_join(answered, CONTEXT)
        return joined.select(
            *[joined[c] for c in contexts.columns], **{name: joined[name].fill_null(False)}
        )

    # --- what the estimate rests on -----------------------------------------------------------

    def strata(self) -> list[Stratum]:
        """Contexts, records and rewards of each part, after the rule for missing contexts."""
        contexts = self.contexts
        used = contexts[KNOWN] | ibis.literal(self.question.missing != "drop")
        columns = {
            f"{reward}_{k}": total(used.ifelse(contexts[f"{reward}_{k}"], 0))
            for reward in self.question.rewards
            for k in range(1, self.depth + 1)
        }
        summed = _per(contexts, self.by).aggregate(
            contexts=total(used.ifelse(1, 0)),
            missing=total(contexts[KNOWN].ifelse(0, 1)),
            all=contexts.count(),
            **{RECORDS: total(used.ifelse(contexts[RECORDS], 0))},
            **columns,
        )
        rows = self.engine.rows(summed)
        self._refuse_missing(sum(row["missing"] for row in rows), sum(row["all"] for row in rows))
        rows.sort(key=lambda row: tuple((row[b] is None, row[b]) for b in self.by))
        return [
            Stratum(
                segment={b: row[b] for b in self.by},
                contexts=row["contexts"],
                records=row[RECORDS],
                missing_contexts=row["missing"],
                rewards={
                    r: [row[f"{r}_{k}"] for k in range(1, self.depth + 1)]
                    for r in self.question.rewards
                },
            )
            for row in rows
        ]

    def ignored_contexts(self) -> int:
        """How many contexts only the candidate has."""
        theirs = self.policies[MASS].contexts(self.view)
        only = theirs.anti_join(self.contexts, CONTEXT)
        return int(self.engine.rows(only.aggregate(n=only.count()))[0]["n"])

    def blind_segments(self, strata: list[Stratum]) -> set[tuple[Any, ...]]:
        """Strata in which the log shows no item of the candidate.

        A model that is blind to items (rctr, rcm) would answer there all the same.
        """
        slots = self._by_slot()
        items = slots.group_by([*self.keys, ITEM]).aggregate(
            **{N: total(slots[N]), MASS: slots[MASS].sum()}
        )
        shared = items.filter((items[N] > 0) & (items[MASS] > 0))
        found = self.engine.rows(_per(shared, self.by).aggregate(shared=shared.count()))
        seeing = {tuple(row[b] for b in self.by) for row in found if row["shared"]}
        if self.question.missing == "production":
            seeing |= {tuple(s.segment.values()) for s in strata if s.missing_contexts}
        return {tuple(s.segment.values()) for s in strata} - seeing

    def _refuse_missing(self, missing: int, contexts: int) -> None:
        """A context without a list is an error, unless the user says what to do with it."""
        if LOGGING in self.policies:
            logged = self._mark(self.contexts, self.policies[LOGGING], LOGGING)
            self._complain(logged.filter(~logged[LOGGING]), "the logging policy has no list for")
        unknown = self.contexts.filter(~self.contexts[KNOWN])
        if missing == contexts:
            self._complain(unknown, "the candidate has no list for any of the")
        if missing and self.question.missing == "error":
            self._complain(
                unknown,
                "the candidate has no list for",
                " Say what they should count as: missing='production' (as they are today) or "
                "missing='drop' (leave them out of everything).",
            )

    def _complain(self, contexts: ir.Table, what: str, remedy: str = "") -> None:
        found = contexts.select(CONTEXT).distinct()
        count = self.engine.rows(found.aggregate(n=found.count()))[0]["n"]
        if count:
            some = self.engine.rows(found.order_by(CONTEXT).limit(_EXAMPLES))
            examples = ", ".join(repr(row[CONTEXT]) for row in some)
            raise PolicyError(f"{what} {count:,} contexts of the log, for example {examples}.{remedy}")

    # --- cells ----------------------------------------------------------------------------------

    def cells(self, model: ClickModel) -> list[tuple[list[Metric], ir.Table]]:
        """The cells of a model, with the metrics that can share them.

        Columns: the keys, `n`, and for metric i the sums over the cell's slots p_i (exposure of
        the log), c_i (credit), h_i (the candidate) and g_i (the logging policy).
        """
        metrics = list(self.question.metrics)
        if model.cell == "list":  # the list ends where the metric stops looking
            depths = dict.fromkeys(m.depth for m in metrics)
            grouped = [[m for m in metrics if m.depth == depth] for depth in depths]
            return [(same, self._list_cells(model, same)) for same in grouped]
        slots = self._prefixes() if model.cell == "prefix" else self._by_slot()
        cell = (
            [slots[c] for c in (POSITION, *self.items)]
            if model.cell == "prefix"
            else model.cell_of(slots)
        )
        return [(metrics, self._slot_cells(model, metrics, slots, cell))]

    def _slot_cells(
        self, model: ClickModel, metrics: list[Metric], slots: ir.Table, cell: list[ir.Value]
    ) -> ir.Table:
        named = {f"cell_{i}": value for i, value in enumerate(cell)}
        own = [PROPENSITY] if self.propensity else []
        position = slots[POSITION]
        sums: dict[str, ir.Value] = {}
        for i, metric in enumerate(metrics):
            exposure = _looked_up(position, _exposure(model, metric))
            sums[f"p_{i}"] = _weighed(slots[N], exposure)
            sums[f"c_{i}"] = _weighed(slots[metric.reward], _looked_up(position, metric.theta))
            for name, column in _SIDES.items():
                if name in self.policies:
                    sums[f"{column}_{i}"] = _weighed(slots[name], exposure)
        grouped = slots.group_by([*self.keys, *own], **named).aggregate(
            **{N: total(slots[N])}, **sums
        )
        return self._whole(grouped, metrics, [*self.keys, *named])

    def _list_cells(self, model: ClickModel, metrics: list[Metric]) -> ir.Table:
        """Lists are cells of their own: their exposure is summed along the row."""
        depth = metrics[0].depth
        items = self.items[:depth]
        lists = self._lists_with_policies()
        own = [PROPENSITY] if self.propensity else []
        rewards = [f"{m.reward}_{k}" for m in metrics for k in range(1, depth + 1)]
        summed = [N, *dict.fromkeys(rewards), *self.policies]
        grouped = lists.group_by([*self.keys, *items, *own]).aggregate(
            **{column: total(lists[column]) for column in summed}
        )
        columns: dict[str, ir.Value] = {}
        for i, metric in enumerate(metrics):
            e = _exposure(model, metric)
            shown = [grouped[c].notnull().ifelse(real(e[k]), real(0)) for k, c in enumerate(items)]
            exposure = reduce(lambda a, b: a + b, shown)
            columns[f"p_{i}"] = grouped[N].cast("float64") * exposure
            credit = [
                grouped[f"{metric.reward}_{k}"].cast("float64") * real(theta)
                for k, theta in enumerate(metric.theta, start=1)
                if theta
            ]
            columns[f"c_{i}"] = reduce(lambda a, b: a + b, credit)
            for name, column in _SIDES.items():
                if name in self.policies:
                    columns[f"{column}_{i}"] = grouped[name] * exposure
        cells = grouped.select(*self.keys, *items, *own, N, **columns)
        return self._whole(cells, metrics, [*self.keys, *items])

    def _whole(self, cells: ir.Table, metrics: list[Metric], cell: list[str]) -> ir.Table:
        """Beside each row, the candidate's exposure (all_i) and the records (all_n) of its cell.

        A cell is one row, unless propensities split it: then the candidate's is a row of its own.
        """
        columns = ["n", *(f"h_{i}" for i in range(len(metrics)))]
        if not self.propensity:
            return cells.mutate(**{f"all_{c}": cells[c] for c in columns})
        over = ibis.window(group_by=cell)
        return cells.mutate(**{f"all_{c}": cells[c].sum().over(over) for c in columns})

    # --- the log and the policies, stacked --------------------------------------------------------

    def _beside(self, name: str, rows: ir.Table) -> ir.Table:
        """A policy's rows, once for every stratum of the log that has the context."""
        if not self.by:
            return rows.semi_join(self.contexts, CONTEXT)
        strata = self.contexts.select(*self.keys)
        return strata.join(rows, CONTEXT).select(*self.keys, *[c for c in rows.columns if c != CONTEXT])

    def _stack(self, log: ir.Table, key: list[str], shown: Callable[[Policy], ir.Table]) -> ir.Table:
        """The rows of the log and of the policies under one another, 0 where one has no say."""
        counts = [c for c in log.columns if c not in key]
        zeros = {name: real(0) for name in self.policies}
        tables = [log.select(*key, *counts, **zeros)]
        for name, policy in self.policies.items():
            rows = self._beside(name, shown(policy))
            columns: dict[str, ir.Value] = {
                c: rows[c] if c in rows.columns else ibis.null(log[c].type()) for c in key
            }
            columns |= {c: _zero(log, c) for c in counts} | zeros | {name: rows[MASS]}
            tables.append(rows.select(**columns))
        return ibis.union(*tables)

    def _by_slot(self) -> ir.Table:
        """(keys, item, position [, propensity]): the slots of the log and of the policies."""
        if self._slots is None:
            keys = [*self.keys, *([PROPENSITY] if self.propensity else [])]
            sums: dict[str, str | None] = {N: None} | {r: r for r in self.question.rewards}
            log = slots_of(self.lists, self.depth, keys, sums)
            stacked = self._stack(log, [*keys, ITEM, POSITION], lambda p: p.slots(self.view))
            self._slots = self.keep(stacked, "slots")
        return self._slots

    def _lists_with_policies(self) -> ir.Table:
        if self._stacked is None:
            own = [c for c in self.lists.columns if c.startswith(PROPENSITY)]
            key = [*self.keys, *self.items, *own]
            stacked = self._stack(self.lists, key, lambda p: p.lists(self.view))
            self._stacked = self.keep(stacked, "stacked")
        return self._stacked

    def _prefixes(self) -> ir.Table:
        """(keys, position, item_1 … item_k, NULL …): every prefix of the lists."""
        lists = self._lists_with_policies()
        tables = []
        for k in range(1, self.depth + 1):
            rows = lists.filter(lists[f"{ITEM}_{k}"].notnull())
            own = {PROPENSITY: rows[_own(rows, k)]} if self.propensity else {}
            prefix = {c: rows[c] if i < k else ibis.null(rows[c].type()) for i, c in enumerate(self.items)}
            tables.append(
                rows.select(
                    *self.keys,
                    N,
                    *self.policies,
                    **prefix,
                    **own,
                    **{r: rows[f"{r}_{k}"] for r in self.question.rewards},
                    **{POSITION: whole(k)},
                )
            )
        return ibis.union(*tables) if len(tables) > 1 else tables[0]


_SIDES = {MASS: "h", LOGGING: "g"}


def _merged(parts: Iterable[dict[str, ir.Value]]) -> dict[str, ir.Value]:
    return {name: value for part in parts for name, value in part.items()}


def _per(table: ir.Table, keys: list[str]) -> Any:  # noqa: ANN401 - a table, grouped or not
    """A group-by that may be by nothing."""
    return table.group_by(keys) if keys else table


def _own(rows: ir.Table, k: int) -> str:
    return PROPENSITY if PROPENSITY in rows.columns else f"{PROPENSITY}_{k}"


def _zero(table: ir.Table, column: str) -> ir.Value:
    return zero(table[column].type())


def _exposure(model: ClickModel, metric: Metric) -> list[float]:
    """e_k = θ_k p_k."""
    examined = model.examined(metric.depth)
    return [t * p for t, p in zip(metric.theta, examined, strict=True)]


def _looked_up(position: ir.Column, values: Sequence[float]) -> ir.Value:
    """The value that belongs to the position, 0 beyond the last."""
    if len(set(values)) == 1:
        return (position <= len(values)).ifelse(real(values[0]), real(0))
    return position.cases(*[(k, real(v)) for k, v in enumerate(values, 1)], else_=real(0))


def _weighed(column: ir.Column, weight: ir.Value) -> ir.Value:
    return (column.cast("float64") * weight).sum()


# --- weights and sums -------------------------------------------------------------------------


def _sum_up(
    log: _Logged, strata: list[Stratum], estimator: Weighted, metrics: list[Metric], cells: ir.Table
) -> list[Sums]:
    """min(H/P, M) for every cell and clip, summed over the cells: one query, a row a stratum."""
    beside = log.contexts.select(*log.keys, RECORDS, KNOWN)
    rows = _joined(cells, beside, log.by)
    if log.question.missing == "drop":
        rows = rows.filter(rows[KNOWN])
    clips = estimator.clip or (math.inf,)
    number = range(len(metrics))
    # Two projections, whatever the number of metrics and clips: Ibis's time grows with their depth.
    rows = rows.mutate(**_merged(_exposures(log, rows, i) for i in number))
    rows = rows.mutate(
        **{f"w_{i}_{m}": _weight(rows, i, clip) for i in number for m, clip in enumerate(clips)}
    )
    sums = _merged(_sums(log, rows, i, clips) for i in number)
    answers = log.engine.rows(_per(rows, log.by).aggregate(**sums))
    by_segment = {tuple(a[b] for b in log.by): a for a in answers}
    return [
        Sums(
            model=estimator.model,
            metric=metric,
            clip=clip,
            stratum=stratum,
            **{
                name: _number(by_segment.get(tuple(stratum.segment.values()), {}), name, i, m)
                for name in _SUMS
            },
        )
        for i, metric in enumerate(metrics)
        for m, clip in enumerate(clips)
        for stratum in strata
    ]


def _unless_blind(sums: Sums, blind: set[tuple[Any, ...]]) -> Sums:
    """Nothing of the candidate is covered where none of its items was ever shown."""
    lost = not sums.model.sees_items and tuple(sums.stratum.segment.values()) in blind
    return replace(sums, covered=0.0) if lost else sums


_SUMS = (
    "credit", "mass", "covered", "clipped", "exposure", "weighted", "squared", "cells", "seen",
    "largest", "unlogged",
)  # fmt: skip


def _number(row: dict[str, Any], name: str, i: int, m: int) -> float:
    value = row.get(f"{name}_{i}_{m}", row.get(f"{name}_{i}"))
    return 0 if value is None else value


def _joined(cells: ir.Table, contexts: ir.Table, by: list[str]) -> ir.Table:
    """Cells with what is known of their context. Segments may be NULL, contexts never are."""
    right = contexts.rename(**{f"{c}_right": c for c in (CONTEXT, *by)})
    match = [cells[CONTEXT] == right[f"{CONTEXT}_right"]]
    for b in by:
        left, other = cells[b], right[f"{b}_right"]
        match.append((left == other) | (left.isnull() & other.isnull()))
    return cells.join(right, match)


def _exposures(log: _Logged, rows: ir.Table, i: int) -> dict[str, ir.Value]:
    """For metric i, beside each cell: the candidate's exposure (own_i: of this row; want_i: of the
    whole cell), the logged exposure (log_i), and their ratio."""
    n_x = rows[RECORDS].cast("float64")
    known, exposed = rows[KNOWN], rows[f"p_{i}"]
    # Where the candidate has no list, missing="production" lets it do what production did.
    wanted = known.ifelse(rows[f"all_h_{i}"], exposed / n_x)
    logged = _logged_exposure(log, rows, i, n_x)
    possible = logged > 0
    return {
        f"own_{i}": known.ifelse(rows[f"h_{i}"], exposed / n_x),
        f"want_{i}": wanted,
        f"log_{i}": logged,
        f"ratio_{i}": possible.ifelse(wanted / possible.ifelse(logged, real(1)), real(0)),
    }


def _sums(log: _Logged, rows: ir.Table, i: int, clips: Sequence[float]) -> dict[str, ir.Value]:
    """The sums over cells for metric i."""
    n_x, nothing = rows[RECORDS].cast("float64"), real(0)
    own, wanted, logged = rows[f"own_{i}"], rows[f"want_{i}"], rows[f"log_{i}"]
    possible = logged > 0
    there = rows["all_n"] > 0 if log.propensity else possible
    expected = n_x * logged if LOGGING in log.policies else rows[f"p_{i}"]
    sums: dict[str, ir.Value] = {
        f"mass_{i}": (n_x * own).sum(),
        f"covered_{i}": there.ifelse(n_x * own, nothing).sum(),
        f"exposure_{i}": expected.sum(),
        f"cells_{i}": total((own > 0).ifelse(1, 0)),
        f"seen_{i}": total(((own > 0) & there).ifelse(1, 0)),
        f"largest_{i}": (rows[N] > 0).ifelse(rows[f"ratio_{i}"], nothing).max(),
        f"unlogged_{i}": total((~possible & (wanted > 0)).ifelse(rows[N], 0)),
    }
    for m, clip in enumerate(clips):
        weight = rows[f"w_{i}_{m}"]
        sums[f"credit_{i}_{m}"] = (rows[f"c_{i}"] * weight).sum()
        sums[f"weighted_{i}_{m}"] = (expected * weight).sum()
        sums[f"squared_{i}_{m}"] = (expected * weight * weight).sum()
        if math.isfinite(clip):
            cut = wanted - real(clip) * logged
            cut = n_x * (_share(rows) * cut if log.propensity else cut)
            sums[f"clipped_{i}_{m}"] = (rows[KNOWN] & possible & (cut > 0)).ifelse(cut, nothing).sum()
    return sums


def _logged_exposure(log: _Logged, rows: ir.Table, i: int, n_x: ir.Value) -> ir.Value:
    """P_g: by the log's frequencies, by the given policy, or by the record's own propensity."""
    if LOGGING in log.policies:
        return rows[f"g_{i}"]
    if log.propensity:
        n = (rows[N] > 0).ifelse(rows[N], 1).cast("float64")
        return rows[f"p_{i}"] / n * rows[PROPENSITY].fill_null(real(0))
    return rows[f"p_{i}"] / n_x


def _share(rows: ir.Table) -> ir.Value:
    """Which part of its cell's records a row stands for."""
    all_n = (rows["all_n"] > 0).ifelse(rows["all_n"], 1).cast("float64")
    return rows[N].cast("float64") / all_n


def _weight(rows: ir.Table, i: int, clip: float) -> ir.Value:
    """min(H/P, M). Where P = 0: M if it is finite, else the credit is left out; 0/0 = 0."""
    ratio = rows[f"ratio_{i}"]
    if math.isinf(clip):
        weight = ratio
    else:
        bound = real(clip)
        impossible = (rows[f"want_{i}"] > 0).ifelse(bound, real(0))
        weight = (rows[f"log_{i}"] > 0).ifelse(ibis.least(ratio, bound), impossible)
    return rows[KNOWN].ifelse(weight, real(1))
