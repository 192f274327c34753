"""Cells: slots of the log, or of a policy, grouped as a click model says.

The log's rows and a policy's go through the same functions, so their exposures mean the same. Every
cell has a key without NULLs, because not every engine joins NULLs well: an empty position is filled
in, and a bit mask says which positions were filled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import ibis
import ibis.expr.types as ir

from foreclick.engines import real, total, whole, zero
from foreclick.errors import ModelError
from foreclick.logs import ITEM, PROPENSITY, N, numbered
from foreclick.metrics import Metric
from foreclick.models import MODELS, POSITION, ClickModel, stacked
from foreclick.sqlkernel.ladder import Ladder
from foreclick.sqlkernel.weighted import Weighted

CLUSTER = "cluster"
"""The column of what keeps records apart that vary together."""

SQUARE = "_squared"
PREFIX = MODELS["prefix"]
_MASK = "filled"
_LONGEST = 62  # positions that fit into the bits of a 64-bit mask


def by_hazard(model: ClickModel, metric: Metric) -> bool:
    """Whether an estimate is a product of hazards (see `hazard`) rather than a sum over cells.

    A first click depends on all that stands above it. `list` and `prefix` cells know what that is,
    and cells without items do not mind; a cell of a single slot needs the slots above it.
    """
    return metric.first and model.sees_items and not model.over_lists


def counted_theta(model: ClickModel, metric: Metric) -> tuple[float, ...]:
    """θ_k of credit and exposure: the metric's; a hazard counts all positions alike."""
    return (1.0,) * metric.depth if by_hazard(model, metric) else metric.theta


def exposure(model: ClickModel, metric: Metric) -> list[float]:
    """e_k = θ_k p_k, for every position that the metric counts."""
    examined = model.examined(metric.depth)
    return [t * p for t, p in zip(counted_theta(model, metric), examined, strict=True)]


@dataclass(frozen=True)
class Ask:
    """One thing asked of cells: a model (for its examination), a metric, and the clips.

    A ladder is asked for what its cells are worth together with those of its other rungs.
    """

    model: ClickModel
    metric: Metric
    clips: tuple[float, ...]
    ladder: Ladder | None = None

    @classmethod
    def of(cls, estimator: Weighted | Ladder, metric: Metric) -> Ask:
        """What an estimator is asked for by one metric."""
        ladder = estimator if isinstance(estimator, Ladder) else None
        return cls(estimator.model, metric, estimator.clip or (math.inf,), ladder)

    @property
    def cell(self) -> object:
        """Asks with the same cell are answered together.

        `item` and `pbm` differ only in what they sum. A `list` cell ends where its metric does.
        """
        if self.ladder is not None:
            end = self.metric.depth if self.ladder.top == "list" else None
            return (self.ladder, self.metric.reward, end)
        if self.hazard:
            return "hazard", self.model.cell
        return ("list", self.metric.depth) if self.model.cell == "list" else self.model.cell

    @property
    def hazard(self) -> bool:
        """Whether the answer is a product of hazards."""
        return by_hazard(self.model, self.metric)

    @property
    def counted(self) -> str:
        """The column of the records that expose a slot: all that show it, or those at risk."""
        return self.metric.at_risk if self.hazard else N

    @property
    def theta(self) -> tuple[float, ...]:
        """θ_k of credit and exposure."""
        return counted_theta(self.model, self.metric)

    @property
    def exposure(self) -> list[float]:
        """e_k, for every position that the metric counts."""
        return exposure(self.model, self.metric)


def grouped_cells(
    rows: ir.Table,
    asks: Sequence[Ask],
    keys: list[str],
    side: str,
    within: ir.Table | None = None,
    depth: int | None = None,
    *,
    spread: bool = False,
) -> tuple[list[str], ir.Table]:
    """Lists, prefixes or slots, grouped by the cells that the asks share.

    Args:
        rows: the keys, the lists, prefixes or slots, and what is summed: see `side`.
        asks: each has its own sums, numbered from 0; they share their cells.
        keys: the context and what else keeps records apart.
        side: "log" for counts and rewards: n, p_i = Σ e n and c_i = Σ θ w.
            Otherwise the name of a column of probabilities: for "mass", mass_i = Σ e mass.
        within: cells; others are left out before anything is summed.
        depth: where the lists of `list` cells end, if not where the metric does.
        spread: of the log, also what the spread of credit within a cell needs: n_i, the records
            that expose it, and over them q_i = Σ c², x_i = Σ c e and y_i = Σ e².

    Returns:
        The names of the cell's columns, and the cells.
    """
    if asks[0].model.cell != "list":
        return _slot_cells(rows, asks, keys, side, within, spread=spread)
    end = depth or asks[0].metric.depth
    return _list_cells(rows, asks, keys, side, within, end, spread=spread)


def _slot_cells(
    slots: ir.Table,
    asks: Sequence[Ask],
    keys: list[str],
    side: str,
    within: ir.Table | None,
    *,
    spread: bool,
) -> tuple[list[str], ir.Table]:
    """Group slots, or prefixes, which are slots with a past."""
    model = asks[0].model
    cell = cell_columns(slots, model)
    slots = _only(slots.mutate(**cell), within)
    position = slots[POSITION]
    measures: dict[str, ir.Value] = {N: slots[N]} if side == "log" else {}
    for i, ask in enumerate(asks):
        metric, exposed = ask.metric, looked_up(position, ask.exposure)
        if side == "log":
            n = slots[ask.counted]
            measures[f"p_{i}"] = n.cast("float64") * exposed
            credit = slots[metric.reward].cast("float64") * looked_up(position, ask.theta)
            measures[f"c_{i}"] = credit
            if spread:
                square = slots[squared(slots, metric.reward)].cast("float64")
                theta2 = looked_up(position, [t * t for t in ask.theta])
                measures[f"{N}_{i}"] = (exposed > 0).ifelse(n, zero(n.type()))
                measures[f"q_{i}"] = square * theta2
                measures[f"x_{i}"] = credit * exposed
                measures[f"y_{i}"] = n.cast("float64") * exposed * exposed
        else:
            measures[f"{side}_{i}"] = slots[side] * exposed
    own = {ITEM, POSITION} & set(slots.columns)
    if side == "log" and not callable(model.cell) and set(model.cell) == own:
        return list(cell), slots.select(*keys, *cell, **measures)  # each slot is its own cell
    sums = {name: total(value) for name, value in measures.items()}
    return list(cell), slots.group_by([*keys, *cell]).aggregate(**sums)


def _list_cells(
    lists: ir.Table,
    asks: Sequence[Ask],
    keys: list[str],
    side: str,
    within: ir.Table | None,
    depth: int,
    *,
    spread: bool,
) -> tuple[list[str], ir.Table]:
    """Group lists by their beginning, down to position `depth`: what metrics count, or all of it.

    A list's exposure is summed along its row, so lists need not be spread over their slots.
    """
    cell = list_key(lists, depth)
    rewards = dict.fromkeys(
        f"{a.metric.reward}_{k}" for a in asks for k in range(1, a.metric.depth + 1)
    )
    summed = [N, *rewards] if side == "log" else [side]
    if spread:
        summed += dict.fromkeys(square_of(a.metric) for a in asks)
    lists = _only(lists.mutate(**cell), within)
    grouped = lists
    if side != "log" or _more_than(lists, [*keys, *cell, *summed]):
        grouped = lists.group_by([*keys, *cell]).aggregate(**{c: total(lists[c]) for c in summed})
    columns: dict[str, ir.Value] = {N: grouped[N]} if side == "log" else {}
    for i, ask in enumerate(asks):
        metric, exposed = ask.metric, _along(grouped, ask.exposure)
        if side == "log":
            columns[f"p_{i}"] = grouped[N].cast("float64") * exposed
            columns[f"c_{i}"] = reduce(
                add,
                [
                    grouped[f"{metric.reward}_{k}"].cast("float64") * real(theta)
                    for k, theta in enumerate(metric.theta, start=1)
                ],
            )
            if spread:
                columns[f"{N}_{i}"] = grouped[N]
                columns[f"q_{i}"] = grouped[square_of(metric)]
                columns[f"x_{i}"] = columns[f"c_{i}"] * exposed
                columns[f"y_{i}"] = columns[f"p_{i}"] * exposed
        else:
            columns[f"{side}_{i}"] = grouped[side] * exposed
    return list(cell), grouped.select(*keys, *cell, **columns)


def spread_out(
    lists: ir.Table, asks: Sequence[Ask], keys: list[str], levels: int, depth: int
) -> tuple[list[str], ir.Table]:
    """Every slot of the log with its cell, not grouped: what is to be summed some other way.

    Args:
        lists: the keys, `item_1` …, `n` and rewards; without items, sums by position with how often
            each was `shown`.
        asks: they share their cells.
        keys: columns to keep.
        levels: how many positions the lists reach.
        depth: how many positions the key of a prefix has, or of a list, if not its metric's.

    Returns:
        The names of the cell's columns, and rows with them, the keys, and t_i = Σ θ w and
        e_i = Σ e n.
    """
    model = asks[0].model
    if model.cell == "list":
        rows = lists.mutate(**list_key(lists, depth))
        columns: dict[str, ir.Value] = {}
        for i, ask in enumerate(asks):
            columns[f"t_{i}"] = credit(rows, ask.metric)
            columns[f"e_{i}"] = rows[N].cast("float64") * _along(rows, ask.exposure)
        cell = list(list_key(lists, depth))
        return cell, rows.select(*keys, *cell, **columns)
    tables = []
    counted = [k for k in range(1, levels + 1) if any(k <= a.metric.depth for a in asks)]
    for k in counted:
        blind = f"{ITEM}_{k}" not in lists.columns
        rows = lists if blind else lists.filter(lists[f"{ITEM}_{k}"].notnull())
        n = rows[f"shown_{k}" if blind else N]
        columns = _slot_of(rows, model, k, depth)
        for i, ask in enumerate(asks):
            inside = k <= ask.metric.depth
            reward = rows[f"{ask.metric.reward}_{k}"].cast("float64")
            exposed = rows[f"{ask.counted}_{k}"] if ask.hazard else n
            columns[f"t_{i}"] = reward * real(ask.theta[k - 1] if inside else 0)
            columns[f"e_{i}"] = exposed.cast("float64") * real(ask.exposure[k - 1] if inside else 0)
        own = {key: rows[key if key in rows.columns else f"{key}_{k}"] for key in keys}
        tables.append(rows.select(**own, **columns))
    slots = stacked(tables)
    found = cell_columns(slots, model)
    sums = [f"{stem}_{i}" for i in range(len(asks)) for stem in ("t", "e")]
    return list(found), slots.select(*keys, *sums, **found)


def _slot_of(rows: ir.Table, model: ClickModel, k: int, depth: int) -> dict[str, ir.Value]:
    """What names a slot: its item and position, or all that stands above it."""
    position = {POSITION: whole(k)}
    if model.cell == "prefix":
        beyond = {c: filler(rows[c]) for c in numbered(ITEM, depth)[k:]}
        return position | list_key(rows, k) | beyond
    item = f"{ITEM}_{k}"
    return position | ({ITEM: rows[item]} if item in rows.columns else {})


def prefixes_of(
    lists: ir.Table, levels: int, depth: int, keys: list[str], sums: Sequence[str]
) -> ir.Table:
    """Spread lists over their prefixes: a slot with all that stands above it.

    Args:
        lists: the keys, `item_1` … `item_depth` and the columns to keep.
        levels: how many positions the lists reach.
        depth: how many positions a key has.
        keys: columns to keep; of `propensity`, that of the position where it has one.
        sums: further columns to keep; a reward by its name, for its column at the position.
    """
    tables = []
    for k in range(1, levels + 1):
        rows = lists.filter(lists[f"{ITEM}_{k}"].notnull())
        own = {
            name: rows[name if name in rows.columns else f"{name}_{k}"] for name in (*keys, *sums)
        }
        tables.append(rows.select(**own, **_slot_of(rows, PREFIX, k, depth)))
    return stacked(tables)


def list_key(lists: ir.Table, depth: int) -> dict[str, ir.Value]:
    """The first `depth` items without NULLs, and which of them are there."""
    if depth > _LONGEST:
        raise ModelError(
            f"the click models 'list' and 'prefix' look at {_LONGEST} positions at most; a metric "
            f"counts {depth}. Use 'ip', 'item' or 'pbm' for it."
        )
    items = numbered(ITEM, depth)
    bits = [lists[c].notnull().ifelse(whole(2**k), whole(0)) for k, c in enumerate(items)]
    filled = {c: lists[c].fill_null(filler(lists[c])) for c in items}
    return {_MASK: reduce(add, bits)} | filled


def told(model: ClickModel, cell: Mapping[str, Any]) -> str:
    """A cell as a person would name it, from the columns that name it.

    Examples:
        >>> told(MODELS["ip"], {"cell_0": "shoes", "cell_1": 2})
        'shoes at 2'
        >>> told(MODELS["list"], {"filled": 5, "item_1": 7, "item_2": 0, "item_3": 9})
        '7, –, 9'
    """
    if model.over_lists:
        mask, last = cell[_MASK], cell[_MASK].bit_length()
        return ", ".join(
            str(cell[f"{ITEM}_{k}"]) if mask >> (k - 1) & 1 else "–" for k in range(1, last + 1)
        )
    if callable(model.cell):
        values = [
            "–" if cell[f"{name}_none"] else str(value)
            for name, value in cell.items()
            if not name.endswith("_none")
        ]
        return ", ".join(values)
    named = {name: cell[f"cell_{i}"] for i, name in enumerate(model.cell)}
    if ITEM not in named:
        return f"position {named[POSITION]}" if named else "any slot"
    return f"{named[ITEM]} at {named[POSITION]}" if POSITION in named else str(named[ITEM])


def squared(rows: ir.Table, reward: str) -> str:
    """The column of Σ w²; where rewards are 0 or 1 it is that of Σ w."""
    return f"{reward}{SQUARE}" if f"{reward}{SQUARE}" in rows.columns else reward


def square_of(metric: Metric) -> str:
    """The column of lists that holds Σ f², the squared reward of whole records."""
    return f"{SQUARE}_{metric.name}"


def credit(rows: ir.Table, metric: Metric) -> ir.Value:
    """Σ_k θ_k w_k along a row, down to where it reaches."""
    columns = [(f"{metric.reward}_{k}", theta) for k, theta in enumerate(metric.theta, start=1)]
    parts = [
        rows[c].fill_null(0).cast("float64") * real(theta)
        for c, theta in columns
        if c in rows.columns
    ]
    return reduce(add, parts)


def _more_than(lists: ir.Table, columns: list[str]) -> bool:
    """Whether rows are told apart by more than these: further items, propensities, clusters."""
    others = set(lists.columns) - set(columns)
    return any(_is_item(c) or c.startswith(PROPENSITY) or c == CLUSTER for c in others)


def _only(rows: ir.Table, within: ir.Table | None) -> ir.Table:
    return rows if within is None else rows.semi_join(within, within.columns)


def cell_columns(slots: ir.Table, model: ClickModel) -> dict[str, ir.Value]:
    """The columns that name the cell of each slot, or of each prefix; none of them has NULLs."""
    if model.cell == "prefix":
        return {c: slots[c] for c in slots.columns if c in (POSITION, _MASK) or _is_item(c)}
    values = model.cell_of(slots)
    if not callable(model.cell):
        return {f"cell_{i}": value for i, value in enumerate(values)}
    solid: dict[str, ir.Value] = {}
    for i, value in enumerate(values):  # a user's own expressions may be NULL
        solid[f"cell_{i}_none"] = value.isnull().ifelse(whole(1), whole(0))
        solid[f"cell_{i}"] = value.fill_null(filler(value))
    return solid


def _is_item(column: str) -> bool:
    return column.startswith(f"{ITEM}_")


def filler(value: ir.Value) -> ir.Value:
    """What stands in a key where nothing was shown."""
    kind = value.type()
    if kind.is_integer():
        return whole(0)
    if kind.is_boolean():
        return ibis.literal(False)
    return real(0) if kind.is_numeric() else ibis.literal("").cast(kind)


def _along(cells: ir.Table, exposed: Sequence[float]) -> ir.Value:
    """Σ_k e_k over the positions that the mask says are filled."""
    bits = [_bit(cells[_MASK], k).ifelse(real(e), real(0)) for k, e in enumerate(exposed)]
    return reduce(add, bits)


def _bit(mask: ir.Value, k: int) -> ir.BooleanValue:
    return (mask & whole(2**k)) > 0


def looked_up(position: ir.Column, values: Sequence[float]) -> ir.Value:
    """The value that belongs to the position, 0 beyond the last."""
    if len(set(values)) == 1:
        return (position <= len(values)).ifelse(real(values[0]), real(0))
    return position.cases(*[(k, real(v)) for k, v in enumerate(values, 1)], else_=real(0))
