"""Contexts drawn from a large log, in its own engine: some contexts, and some records of each.

Every record is kept with the same probability κ, in two stages (a self-weighting design). A context
of N records is drawn with probability π, by the hash of its text, and of a drawn context about the
share ρ = κ / π of its records is kept:

    N ≤ m          π = κ,          all records: what a small context tells is in all of them
    m < N < m / κ  π = κ N / m,    m records: enough to know the rates of a context
    N ≥ m / κ      π = 1,          κ N records

Of n equal records ⌊ρ n + u⌋ are kept, where u is the hash of what they have in common. A record
that is kept stands for w = N / (π n) of the log's, with n those kept of its context. Both hashes
are the same on every engine, so every engine draws the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import pyarrow as pa

from foreclick.engines import HASHES, Spelling, Table, Value, default_engine
from foreclick.logs.roles import (
    BUCKET,
    CONTEXT,
    INCLUSION,
    PERIOD,
    SAMPLING_WEIGHT,
    N,
    Shape,
    numbered,
    spread,
)
from foreclick.logs.text import Select

SampleSize: TypeAlias = Literal["auto", "all"] | int | None
"""How many lists are drawn: by default `LISTS` of a log with more than `LARGE`; or all, None."""

LISTS = 1_000_000
"""Lists that are drawn: intervals are then little wider than by the whole log."""

LARGE = 2_000_000
"""A log of fewer lists is read as it is: drawing would save little."""

KEPT_OF_CONTEXT = 1_000
"""m, the records of a context that tell its rates: more are kept of the largest contexts alone."""

_CONTEXTS, _RECORDS = "foreclick contexts:", "foreclick records:"  # in front of what is hashed
_RHO = "kept"

SHOWN, FIRST, RISK = "__shown", "__first_", "__risk_"
"""Of columns of `totals_of`."""


@dataclass(frozen=True)
class Drawing:
    """Which contexts of a log are drawn.

    Attributes:
        contexts: the drawn contexts: `context`, how many records it has (`n`), its probability π
            (`inclusion`), and the share ρ of its records that is kept (`kept`).
        records: how many the log has.
        with_null: whether some records have no context, which is an error of the log.
    """

    contexts: Table
    records: int
    with_null: bool

    def drawn(self, select: Select) -> Select:
        """The statements of the rows of drawn contexts; of those kept, if rows can be told apart.

        They can by the ids of lists, or by units and periods. Else equal records are grouped, and
        some of them kept then: see `weighed`.
        """
        say, key, same = select.say, select.context_key("s"), select.identity()
        kept = say.column(_RHO, "o")
        some = f"{kept} >= {say.number_of(1.0)}"
        some += f" OR {_uniform(same, _RECORDS, say)} < {kept}" if same else ""
        if self.with_null:
            some = f"{say.column(CONTEXT, 'o')} IS NULL AND {key} IS NULL OR {some}"
        how = "LEFT JOIN" if self.with_null else "JOIN"
        on = f"{how} {self.contexts.rows} AS o ON {key} = {say.column(CONTEXT, 'o')}"
        where = f"WHERE {some}" if same or self.with_null else ""
        columns = ", ".join(map(say.column, select.used()))
        return replace(select, rows=f"(SELECT {columns} FROM {select.rows} AS s {on} {where})")

    def weighed(self, groups: Table, shape: Shape, *, whole: bool) -> Table:
        """Some of the records of all groups, with their weights and probabilities.

        Args:
            groups: the rows of drawn contexts, grouped.
            shape: what their columns are.
            whole: whether they are of all records of these contexts.
        """
        say = groups.engine.say
        kept, n = say.column(_RHO, "o"), say.cast(say.column(N), "real")
        columns = groups.own(groups.columns)
        if whole:
            some = f"floor({n} * {kept} + {_uniform(_keys(shape, say), _RECORDS, say)})"
            kind = groups.kinds.field(N).type
            count = say.cast(some, "whole" if kind == pa.int64() else "real")
            less = f"{kept} < {say.number_of(1.0)}"
            columns[N] = Value(f"CASE WHEN {less} THEN {count} ELSE {say.column(N)} END", kind)
        columns["total"] = Value(say.column(N, "o"), pa.float64())
        columns[INCLUSION] = Value(say.column(INCLUSION, "o"), pa.float64())
        on = f"{say.column(CONTEXT)} = {say.column(CONTEXT, 'o')}"
        thinned = groups.made(columns, f"LEFT JOIN {self.contexts.rows} AS o ON {on}")
        some_kept = replace(thinned, held=(groups, self.contexts)).where(f"{say.column(N)} > 0")
        columns = some_kept.own([name for name in some_kept.columns if name != "total"])
        all_kept = f"sum({n}) OVER (PARTITION BY {say.column(CONTEXT)})"
        weight = f"{say.column('total')} / ({say.column(INCLUSION)} * {all_kept})"
        columns[SAMPLING_WEIGHT] = Value(weight, pa.float64())
        return some_kept.made(columns)


def drawing_of(raw: Table, select: Select, sample: SampleSize) -> Drawing | None:
    """Which contexts are drawn: by one statement that counts records by context.

    Args:
        raw: the source's own rows.
        select: the statements of the log.
        sample: how many lists are wanted.

    Returns:
        None where the log has no more lists than that.
    """
    say = raw.engine.say
    if sample is None or sample == "all":
        return None
    kinds = pa.schema([(CONTEXT, select.context_type()), (N, pa.float64())])
    counts = raw.query(select.context_counts(), kinds).computed("contexts")
    unnamed = Value.count(f"{say.column(CONTEXT)} IS NULL")
    facts = counts.aggregate({"records": counts.total(N), "unnamed": unnamed})
    lists = LISTS if sample == "auto" else sample
    if facts["records"] <= (LARGE if sample == "auto" else lists):
        return None
    share = lists / facts["records"]
    one, small, n = say.number_of(1.0), say.number_of(float(KEPT_OF_CONTEXT)), say.column(N)
    likely = f"{say.number_of(share)} * {n} / {small}"
    inclusion = (
        f"CASE WHEN {n} <= {small} THEN {say.number_of(share)} "
        f"WHEN {likely} < {one} THEN {likely} ELSE {one} END"
    )
    columns = counts.own([CONTEXT, N]) | {INCLUSION: Value(inclusion, pa.float64())}
    uniform = _uniform([say.column(CONTEXT)], _CONTEXTS, say)
    drawn = counts.where(f"{uniform} < {inclusion}").made(columns)
    kept = Value(f"{say.number_of(share)} / {say.column(INCLUSION)}", pa.float64())
    drawn = drawn.made(drawn.own(drawn.columns) | {_RHO: kept}).computed("drawn")
    return Drawing(drawn, round(facts["records"]), bool(facts["unnamed"]))


def totals_of(rows: Table, shape: Shape) -> pa.Table:
    """Sums over all records by period and segments: what a drawn log knows of the whole.

    Beside the records `n`: those that show an item at each position; what they earn there of each
    reward; those whose first reward is there; and those at risk of it, with none above.

    Args:
        rows: with the columns `Shape.stored`, of a log that was not drawn.
        shape: what they are.
    """
    rows, k = _by_pattern(rows, shape), shape.depth
    say = rows.engine.say
    by = groups(shape)
    each = rows.own([*by, N])
    for column, item in zip(numbered(SHOWN, k), shape.items, strict=True):
        each[column] = Value(f"CASE WHEN {say.column(item)} IS NULL THEN 0 ELSE 1 END")
    for name in shape.rewards:
        values = [f"coalesce({say.column(c)}, 0)" for c in shape.reward(name)]
        each |= {c: Value(v) for c, v in zip(shape.reward(name), values, strict=True)}
        first = " ".join(f"WHEN {v} > 0 THEN {i}" for i, v in enumerate(values, start=1))
        each[f"{FIRST}{name}"] = Value(f"CASE {first} ELSE {k + 1} END")
    sums: dict[str, str] = {column: say.column(column) for column in numbered(SHOWN, k)}
    for name in shape.rewards:
        first = say.column(f"{FIRST}{name}")
        sums |= {column: say.column(column) for column in shape.reward(name)}
        for i, (one, risk) in enumerate(zip(*first_columns(name, k), strict=True), start=1):
            sums[one] = f"CASE WHEN {first} = {i} THEN 1 ELSE 0 END"
            at_risk = f"CASE WHEN {first} >= {i} THEN 1 ELSE 0 END"
            sums[risk] = f"{at_risk} * {say.column(f'{SHOWN}_{i}')}"
    n = say.cast(say.column(N), "real")
    totals = {N: Value.sum(n, say, "real")}
    totals |= {column: Value.sum(f"{n} * {value}", say, "real") for column, value in sums.items()}
    if not by:
        return rows.made(each).made(totals).to_pyarrow()
    made = rows.made(each)
    return made.grouped(made.own(by), totals).to_pyarrow()


def _by_pattern(rows: Table, shape: Shape) -> Table:
    """The rows counted by where they show items and what these earn, if a mask holds all of it."""
    say = rows.engine.say
    if not shape.rewards or shape.masks != shape.rewards:
        return spread(rows, shape)
    bits = (
        f"CASE WHEN {say.column(item)} IS NULL THEN 0 ELSE {1 << i} END"
        for i, item in enumerate(shape.items)
    )
    keys = rows.own(groups(shape)) | {SHOWN: Value(" + ".join(bits))}
    counted = rows.made(keys | rows.own([*shape.masks, N]))
    counted = counted.added([*keys, *shape.masks], N)
    counted = default_engine().show(counted.to_pyarrow())  # few rows; not all engines know bits
    say = counted.engine.say
    shown = say.column(SHOWN)
    items = {
        item: Value(f"CASE WHEN ({shown} & {say.cast(str(1 << i), 'whole')}) <> 0 THEN 1 END")
        for i, item in enumerate(shape.items)
    }
    others = counted.own([name for name in counted.columns if name != SHOWN])
    return spread(counted.made(items | others), shape)


def groups(shape: Shape) -> list[str]:
    """The columns that sums over all records are by."""
    return [*([PERIOD] * shape.period), *shape.segments]


def first_columns(name: str, depth: int) -> tuple[list[str], list[str]]:
    """The columns of first rewards, and of records at risk, in `totals_of`."""
    return numbered(f"{FIRST}{name}", depth), numbered(f"{RISK}{name}", depth)


def _keys(shape: Shape, say: Spelling) -> list[str]:
    """What equal records have in common, as far as every engine writes it alike."""
    masks = [name for name in shape.rewards if name in shape.masks]
    dated = [PERIOD] * shape.period + [BUCKET] * shape.unit
    return [say.column(c) for c in (CONTEXT, *shape.items, *dated, *shape.segments, *masks)]


def _uniform(values: list[str], salt: str, say: Spelling) -> str:
    """A number from 0 to below 1, by the hash of some values."""
    number = say.cast(say.hashed(say.joined(values), salt), "real")
    return f"({number} / {say.number_of(float(HASHES))})"
