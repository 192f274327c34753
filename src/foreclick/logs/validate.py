"""The rules of a log, checked where the log lives.

Every rule is a condition on the *compressed* rows: a list shown a thousand times is judged once.
That makes validation nearly free (0.06 s instead of 3.2 s on ten million lists of ten), and it
needs no second pass over the raw log.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, zip_longest
from typing import Any

import ibis
import ibis.expr.types as ir

from foreclick.engines import Engine, absent, real, total
from foreclick.errors import InvalidLogError
from foreclick.logs.layouts import REPEATED, STRAY
from foreclick.logs.shape import CONTEXT, N, Shape, numbered
from foreclick.metrics import CLICKS
from foreclick.words import number_of, plural

ROWS = "rows"
BAD_WEIGHT = "bad_weight"
_ITEMS = 12  # of a list in an example


@dataclass(frozen=True)
class Rule:
    """A rule that rows may break: its cause in words, the condition, and the remedy."""

    cause: str
    broken: ir.BooleanValue
    remedy: str


def rules(table: ir.Table, shape: Shape, weight: str | None = None) -> list[Rule]:
    """Every rule that applies to compressed rows of this shape."""
    items = [table[c] for c in shape.items]
    empty = reduce(lambda a, b: a & b, [i.isnull() for i in items])
    found = [
        Rule("context is null", table[CONTEXT].isnull(), "give these rows a context"),
        Rule("null or empty list", empty, "leave out requests that showed nothing"),
        Rule(
            "an item twice in a list",
            any_of(a == b for a, b in combinations(items, 2)),
            "keep the first of each item, or make the items distinct",
        ),
    ]
    for name in shape.rewards:
        if name in shape.masks:  # whose rows are 0 or 1 where an item is, and NULL elsewhere
            continue
        values = [table[c] for c in shape.reward(name)]
        ids = "; if it has the ids of clicked items, say clicked_ids=" if name == CLICKS else ""
        found += [
            Rule(
                f"items and {name} of different length, or with a null between",
                # An empty list is its own cause; it should not be counted twice.
                any_of(i.isnull() != absent(v) for i, v in zip(items, values, strict=True))
                & ~empty,
                f"give every item one value in {name} (0 where nothing happened){ids}",
            ),
            Rule(
                f"negative or NaN {name}",
                any_of(not_a_reward(v) for v in values),
                f"{name} must be finite and at least 0",
            ),
        ]
    if shape.propensity == "list":
        found.append(_propensity(_not_a_probability(table[shape.propensities[0]])))
    elif shape.propensity == "slot":
        slots = zip(items, (table[c] for c in shape.propensities), strict=True)
        found.append(_propensity(any_of(i.notnull() & _not_a_probability(p) for i, p in slots)))
    if BAD_WEIGHT in table.columns:
        remedy = f"{weight} must be finite and above 0; leave other rows out"
        found.append(Rule(f"{weight} null, NaN, or not above 0", table[BAD_WEIGHT], remedy))
    if REPEATED in table.columns:
        remedy = "positions count from 1 and hold one item each; check list_id= and position="
        cause = "a position twice in a list or below 1, or no list_id"
        found.append(Rule(cause, table[REPEATED], remedy))
    if STRAY in table.columns:
        remedy = "leave out clicks on what the list did not show, or add it to the items"
        found.append(Rule("clicks on items that are not in the list", table[STRAY], remedy))
    return [Rule(r.cause, r.broken.fill_null(False), r.remedy) for r in found]


def check(
    table: ir.Table, shape: Shape, weight: str | None, engine: Engine
) -> tuple[int, dict[str, int], int]:
    """How many rows there are, how many break each rule, and how many break any."""
    answer = engine.ask(_judged, table, shape, weight).to_pylist()[0]
    broken = rules(table, shape, weight) if answer["any"] else []
    causes = {r.cause: answer[f"c{i}"] for i, r in enumerate(broken) if answer[f"c{i}"]}
    return answer["all"], causes, answer["any"]


def _judged(_: Engine, table: ir.Table, shape: Shape, weight: str | None) -> ir.Table:
    """One row: how many rows of the log break each rule, how many any of them, and all."""
    broken = rules(table, shape, weight)
    rows = table[ROWS] if ROWS in table.columns else table[N]
    judged = table.select(n=rows, **{f"b{i}": r.broken for i, r in enumerate(broken)})
    flags = [judged[f"b{i}"] for i in range(len(broken))]
    counts = {f"c{i}": total(flag.ifelse(judged["n"], 0)) for i, flag in enumerate(flags)}
    any_broken = total(any_of(flags).ifelse(judged["n"], 0))
    return judged.aggregate(all=total(judged["n"]), any=any_broken, **counts)


def complain(
    table: ir.Table,
    shape: Shape,
    broken: list[Rule],
    counts: dict[str, int],
    rows: int,
    engine: Engine,
    *,
    droppable: bool,
) -> InvalidLogError:
    """The error that lists every cause with its count, one example and the remedy."""
    kind = "a log" if droppable else "a policy"
    lines = [f"{number_of(rows, 'row')} {plural(rows, 'breaks', 'break')} the rules of {kind}:"]
    for rule in broken:
        if rule.cause in counts:
            example = engine.rows(table.filter(rule.broken).limit(1))[0]
            count = number_of(counts[rule.cause], "row")
            lines.append(f"- {rule.cause}: {count}, for example {_describe(example, shape)}")
            lines.append(f"  remedy: {rule.remedy}.")
    if droppable:
        lines.append('Or leave them out with invalid="drop"; what was dropped is counted by cause.')
    return InvalidLogError("\n".join(lines))


def valid(table: ir.Table, broken: list[Rule]) -> ir.Table:
    """The rows that break no rule."""
    return table.filter(~any_of(r.broken for r in broken))


def _describe(row: dict[str, Any], shape: Shape) -> str:
    parts = [f"context={row[CONTEXT]!r}"]
    for name in ("item", *shape.rewards):
        values = _values(row, shape, name)
        while values and values[-1] is None:
            values.pop()
        shown = ", ".join(str(v) for v in values[:_ITEMS]) + (", …" if values[_ITEMS:] else "")
        parts.append(f"{'items' if name == 'item' else name}=[{shown}]")
    parts += [f"{c}={row[c]!r}" for c in shape.propensities[:1]]
    return " ".join(parts)


def _values(row: dict[str, Any], shape: Shape, name: str) -> list[Any]:
    """What stands at each position of a row: the items, or the rewards of this name."""
    if name not in shape.masks:
        return [row[column] for column in numbered(name, shape.depth)]
    bits = [(row[name] >> k) & 1 for k in range(shape.depth)]
    return [None if row[i] is None else bit for i, bit in zip(shape.items, bits, strict=True)]


def any_of(conditions: Any) -> ir.BooleanValue:  # noqa: ANN401 - an iterable of conditions
    """Whether one holds; a comparison with NULL holds nowhere (see `rules`)."""
    listed = list(conditions)
    while len(listed) > 1:  # as a balanced tree: lists of 100 have 4,950 pairs of items
        pairs = zip_longest(listed[::2], listed[1::2])
        listed = [a if b is None else a | b for a, b in pairs]
    return listed[0] if listed else ibis.literal(False)


def not_a_reward(value: ir.NumericValue) -> ir.BooleanValue:
    """Whether a reward (or a weight) is negative or no finite number."""
    if value.type().is_integer():
        return value < 0
    # Not `isinf`, which Ibis leaves out on Spark.
    return (value < 0) | value.isnan().fill_null(False) | (value > real(sys.float_info.max))


def _not_a_probability(value: ir.NumericValue) -> ir.BooleanValue:
    # NaN compares differently on each engine, so it is asked for by name.
    wrong = value.isnan().fill_null(False) | (value <= 0) | (value > 1)
    return value.isnull() | wrong


def _propensity(broken: ir.BooleanValue) -> Rule:
    remedy = "a propensity is the probability with which the shown list (or slot) was chosen"
    return Rule("propensity outside (0, 1]", broken, remedy)
