"""A ladder over a log, in the log's engine: counts climb up, rates come down.

lists ─► cells of the top ─► item at position ─► item ─► context ─► log      n, c of each rung
candidate's slots ◄── rates, rung by rung; and how far each cell of the log moves the answer
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from foreclick._tally import FEW_PERIODS, Tally, count_periods
from foreclick.engines import Engine, real, whole
from foreclick.errors import ModelError
from foreclick.logs import BUCKET, CONTEXT, ITEM, PERIOD, N, numbered
from foreclick.models import POSITION, ClickModel, stacked
from foreclick.sqlkernel.cells import filler, list_key, looked_up
from foreclick.sqlkernel.ladder import Fitted, Ladder
from foreclick.sqlkernel.logged import Keep
from foreclick.sqlkernel.prepared import code_of, per
from foreclick.sqlkernel.question import check_columns
from foreclick.sqlkernel.strengths import Integers, Sample, dealt, examined, strengths

CREDIT, RATE, CLASS = "c", "rate", "class"
SAMPLE_ROWS = 60_000
"""Rows of a tally that strengths are learnt from: a second's work, and more hardly change them."""


# --- what is learnt of the log as a whole ---------------------------------------------------------


def fitted(tally: Tally, ladder: Ladder, reward: str, depth: int = 0) -> Fitted:
    """The ladder with its strengths and examination, learnt from a sample of contexts.

    What is learnt ends where the log's lists do: further down nobody is known to look. A given
    examination may reach as deep as a metric counts.
    """
    check_columns(tally.shape, (), ladder.segments)
    given = None
    if ladder.examination is not None:
        depth = max(depth, tally.shape.depth)
        given = np.array(ClickModel(ladder.name, (), ladder.examination).examined(depth))
    if ladder.strengths is not None and given is not None:
        return Fitted(ladder, ladder.strengths, tuple(given.tolist()))
    key = tally.table.op(), ladder, reward, None if given is None else tuple(given)
    if key not in tally.learnt:
        sample = _sampled(tally, reward, ladder.segments)
        p = examined(sample) if given is None else given
        learnt = ladder.strengths or strengths(ladder, sample, p)
        tally.learnt[key] = Fitted(ladder, learnt, tuple(p.tolist()))
    return cast("Fitted", tally.learnt[key])


def _sampled(tally: Tally, reward: str, segments: Sequence[str]) -> Sample:
    """A sample that ladders of one log share."""
    key = tally.table.op(), reward, segments
    if key not in tally.learnt:
        tally.learnt[key] = sampled(tally, reward, segments)
    return cast("Sample", tally.learnt[key])


def sampled(tally: Tally, reward: str, segments: Sequence[str] = ()) -> Sample:
    """Some contexts of a log, the same on every engine, in parts that vary on their own."""
    engine, table, shape = tally.engine, tally.table, tally.shape
    apart = _apart(tally)
    rewards = numbered(reward, shape.depth)
    rows = table.select(
        CONTEXT,
        *shape.items,
        **({"part": table[apart]} if apart else {}),
        **{f"{CLASS}_{j}": code_of(table[c]) for j, c in enumerate(segments)},
        **{c: table[c].fill_null(0).cast("float64") for c in rewards},
        **{N: table[N].cast("float64")},
    )
    # Clicks add up within a part; where records are to be dealt out, their patterns must stay.
    keys = [c for c in rows.columns if c != N and not (apart and c in rewards)]
    if apart:
        rows = rows.mutate(**{c: rows[N] * rows[c] for c in rewards})
    sums = [c for c in rows.columns if c not in keys]

    def grouped(some: ir.Table) -> ir.Table:
        return some.group_by(keys).aggregate(**{c: some[c].sum() for c in sums})

    every = engine.rows(table.aggregate(rows=table.count()))[0]["rows"]
    share, found = SAMPLE_ROWS / max(every, 1), None
    while found is None and share < 1:
        some = engine.fetch(grouped(rows.filter(engine.drawn(rows[CONTEXT], share))))
        found = some if some.num_rows >= SAMPLE_ROWS / 20 else None
        share *= 4  # a few contexts may have most of the log
    found = engine.fetch(grouped(rows)) if found is None else found
    return _as_sample(found.sort_by([(key, "ascending") for key in keys]), shape.items, rewards)


def _apart(tally: Tally) -> str | None:
    """The column of what varies on its own: periods, if there are enough; else units, if any."""
    if tally.shape.period and count_periods(tally) >= FEW_PERIODS:
        return PERIOD
    return BUCKET if tally.shape.unit else None


def _as_sample(rows: pa.Table, items: list[str], rewards: list[str]) -> Sample:
    n = rows[N].to_numpy()
    clicks = np.stack([rows[c].to_numpy() for c in rewards], axis=1)
    listed = _codes(pa.chunked_array([chunk for c in items for chunk in rows[c].chunks]))
    shown = listed.reshape(len(items), len(n)).T
    contexts = _codes(rows[CONTEXT])
    classes = [_codes(rows[c]) for c in rows.column_names if c.startswith(f"{CLASS}_")]
    if "part" in rows.column_names:
        return Sample(contexts, _codes(rows["part"]), shown, n, clicks, tuple(classes))
    row, part, times = dealt(np.arange(len(n)), n)
    dealt_out = clicks[row] * times[:, None]
    mine = tuple(c[row] for c in classes)
    return Sample(contexts[row], part, shown[row], times, dealt_out, mine)


def _codes(column: pa.ChunkedArray) -> Integers:
    """A number for each value, -1 for none."""
    coded = column.combine_chunks().dictionary_encode()
    coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    return np.asarray(coded.indices.fill_null(-1), dtype=np.int64)


def classes_of(tally: Tally, ladder: Ladder) -> ir.Table | None:
    """By context, what it has in common with others; None for a ladder that does not ask."""
    if not ladder.segments:
        return None
    key = tally.table.op(), ladder.segments
    if key not in tally.learnt:
        tally.learnt[key] = _classes(tally, ladder.segments)
    return cast("ir.Table", tally.learnt[key])


def _classes(tally: Tally, segments: Sequence[str]) -> ir.Table:
    """By context, its value of each segment column; refused where it has several."""
    table = tally.table
    values = {f"{CLASS}_{j}": code_of(table[c]) for j, c in enumerate(segments)}
    found = table.select(CONTEXT, **values).distinct()
    counts = found.group_by(CONTEXT).aggregate(n=found.count())
    several = counts.filter(counts[N] > 1)
    some = tally.engine.rows(several.order_by(CONTEXT).limit(1))
    if some:
        count = tally.engine.rows(several.aggregate(n=several.count()))[0]["n"]
        raise ModelError(
            f"{count:,} contexts have several values of {', '.join(segments)}, for example "
            f"{some[0][CONTEXT]!r}, so it is no class of contexts. Name a column that says the "
            "same of every record of a context, or make it part of the context."
        )
    return found


# --- rungs ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Climb:
    """One fitted ladder over the lists of a log.

    Attributes:
        keys: the context and what else keeps strata apart; `by`: the latter alone.
        depth: how many positions the key of a list or prefix has.
        classes: what `classes_of` gave.
    """

    fit: Fitted
    keys: list[str]
    by: list[str]
    depth: int
    keep: Keep
    classes: ir.Table | None = None

    def slots(
        self, lists: ir.Table, keys: Sequence[str], columns: Mapping[str, str]
    ) -> tuple[list[str], ir.Table]:
        """Lists spread over their slots, each with the cell of the top rung; nothing is summed.

        Args:
            lists: the keys, `item_1` …, and what is kept.
            keys: columns that are kept as they are.
            columns: further ones, by new names: a column, or the stem of one at each position.

        Returns:
            The columns that name a cell of the top, beside the keys; and the slots.
        """
        spread = [self._at(k, lists, keys, columns) for k in range(1, self.depth + 1)]
        tables = [rows.mutate(**constant) for rows, _, constant in spread]
        cell = [*spread[0][1], *spread[0][2]]
        return cell, stacked([table.select(*keys, *columns, *cell) for table in tables])

    def cells(
        self, lists: ir.Table, keys: Sequence[str], columns: Mapping[str, str]
    ) -> tuple[list[str], ir.Table]:
        """The same, with `columns` summed over each cell, as doubles.

        Position by position: a key of few columns is grouped faster than one of many.
        """
        tables: list[ir.Table] = []
        cell: list[str] = []
        for k in range(1, self.depth + 1):
            rows, own, constant = self._at(k, lists, keys, columns)
            sums = {c: rows[c].cast("float64").sum() for c in columns}
            grouped = rows.group_by([*keys, *own]).aggregate(**sums).mutate(**constant)
            cell = cell or [*own, *constant]
            tables.append(grouped.select(*keys, *columns, *cell))
        return cell, stacked(tables)

    def _at(
        self, k: int, lists: ir.Table, keys: Sequence[str], columns: Mapping[str, str]
    ) -> tuple[ir.Table, list[str], dict[str, ir.Value]]:
        """Slots at position k, the columns that tell their cells apart, and those that do not."""
        rows = lists.filter(lists[f"{ITEM}_{k}"].notnull())
        kept = {new: rows[c if c in rows.columns else f"{c}_{k}"] for new, c in columns.items()}
        own, constant = {ITEM: rows[f"{ITEM}_{k}"]}, {POSITION: whole(k)}
        if self.fit.ladder.top == "prefix":
            own |= list_key(rows, k)
            constant |= {c: filler(rows[c]) for c in numbered(ITEM, self.depth)[k:]}
        elif self.fit.ladder.top == "list":
            own |= list_key(rows, self.depth)
        return rows.select(*keys, **kept, **own), list(own), constant

    def climb(self, cells: ir.Table) -> list[ir.Table]:
        """The rungs of the log, from the cells of the top: each by its keys, with n and c."""
        rungs = [self.keep(cells, "rung_0")]
        for i, keys in enumerate(self.rung_keys[1:]):
            rows = rungs[-1].mutate(**self.told(rungs[-1], i))
            sums = per(rows, keys).aggregate(**{c: rows[c].sum() for c in (N, CREDIT)})
            rungs.append(self.keep(self.classed(sums, i + 1), f"rung_{i + 1}"))
        return rungs

    def told(self, rung: ir.Table, i: int, stem: str = "") -> dict[str, ir.Value]:
        """What cells of rung i tell the next: n s / (n + s) records, and the clicks of these."""
        n, c = rung[f"{stem}{N}"], rung[f"{stem}{CREDIT}"]
        share = told(n, self.fit.strengths[i])
        return {N: n * share * self.exposed(rung, i), CREDIT: c * share}

    def exposed(self, rows: ir.Table, i: int) -> ir.Value:
        """How much a record of a cell of rung i exposes the cell below: p_k at a position."""
        if self.names[i] == "position":
            return looked_up(rows[POSITION], self.fit.examined)
        return real(1)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the rungs, from the top."""
        return self.fit.ladder.rungs

    @property
    def rung_keys(self) -> list[list[str]]:
        """The columns that name the cells of each rung; of the top, what `slots` says and keys."""
        kinds = [f"{CLASS}_{j}" for j in range(len(self.fit.ladder.segments))]
        classes = [[*self.by, *kinds[j:]] for j in range(len(kinds))]
        coarse = [[*self.keys, ITEM, POSITION], [*self.keys, ITEM], self.keys, *classes, self.by]
        return coarse if self.fit.ladder.top == "ip" else [[], *coarse]

    def classed(self, rows: ir.Table, i: int) -> ir.Table:
        """Rows of rung i; those of contexts with their classes, which the next rung is by."""
        if self.classes is None or self.names[i] != "context":
            return rows
        return rows.join(self.classes, CONTEXT)

    # --- rates ------------------------------------------------------------------------------------

    def beside(self, rows: ir.Table, rungs: Sequence[ir.Table], cell: Sequence[str]) -> ir.Table:
        """Rows with the counts of every rung above them, n_i and c_i, and their `rate`.

        Args:
            rows: the keys and `cell`.
            rungs: what `climb` gave.
            cell: the columns that name a cell of the top.
        """
        keys = [[*self.keys, *cell], *self.rung_keys[1:]]
        if self.classes is not None:
            rows = rows.join(self.classes, CONTEXT)
        for i, (rung, on) in enumerate(zip(rungs, keys, strict=True)):
            named = rung.select(*on, **{f"{N}_{i}": rung[N], f"{CREDIT}_{i}": rung[CREDIT]})
            joined = rows.left_join(named, on) if on else rows.cross_join(named)
            new = {c: joined[c].fill_null(real(0)) for c in (f"{N}_{i}", f"{CREDIT}_{i}")}
            rows = joined.select(*rows.columns, **new)
        return rows.mutate(**{RATE: self.rate(rows)})

    def rate(self, rows: ir.Table) -> ir.Value:
        """The rate of the top rung."""
        return self.rates(rows)[0]

    def rates(self, rows: ir.Table) -> list[ir.Value]:
        """The rate of every rung, from the top: from the coarsest down, (c + s r') / (n + s)."""
        last = len(self.names) - 1
        n, c = rows[f"{N}_{last}"], rows[f"{CREDIT}_{last}"]
        found = [(n > 0).ifelse(c / (n > 0).ifelse(n, real(1)), real(0))]
        for i in reversed(range(last)):
            n, c, s = rows[f"{N}_{i}"], rows[f"{CREDIT}_{i}"], self.fit.strengths[i]
            found.append(c * own(n, s) + found[-1] * self.exposed(rows, i) * told(n, s))
        return found[::-1]

    def shares(self, rows: ir.Table) -> list[ir.Value]:
        """For every rung, which share of a rate comes from it."""
        left, found = real(1), []
        for i, s in enumerate(self.fit.strengths):
            passed = told(rows[f"{N}_{i}"], s)
            found.append(left * (real(1) - passed))
            left = left * passed
        return [*found, left]


def climbed(engine: Engine, fit: Fitted, cells: ir.Table, keep: Keep) -> tuple[float, float]:
    """What reaches the last rung of a ladder, from the cells of its top: records and clicks."""
    last = Climb(fit, [CONTEXT], [], len(fit.examined), keep).climb(cells)[-1]
    row = engine.rows(last)[0]
    return row[N] or 0.0, row[CREDIT] or 0.0


def told(n: ir.Value, s: float) -> ir.Value:
    """Which share of a cell's rate comes from the rungs below: s / (n + s)."""
    return real(1) if math.isinf(s) else real(s) / (n + real(s))


def own(n: ir.Value, s: float) -> ir.Value:
    """How far a click in the cell moves its rate: 1 / (n + s)."""
    return real(0) if math.isinf(s) else real(1) / (n + real(s))
