"""Answers as plain values: taken from results, kept in a file, and compared.

An answer is tables, each a list of values by column. All that a result says in numbers and verdicts
is in it, and nothing that it says in sentences.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import foreclick as fc
from foreclick.optimization.explore import Explored
from foreclick.optimization.optimize import Optimized
from foreclick.questions.backtest import Backtest
from foreclick.questions.check import Contexts
from foreclick.questions.judgments import Judgments
from foreclick.questions.support import Support

if TYPE_CHECKING:
    from tests.goldens.questions import Question

FILE = Path(__file__).parent / "answers.json"

Table = dict[str, list[Any]]
Answer = dict[str, Table]

RELATIVE = 1e-9
"""How far two numbers may be apart, as a share of the larger one."""

FLOOR = 1e-12
"""How far they may be apart in any case. Most numbers are sums and differences of rates between 0
and 1: a change of exactly 0 comes out as some 1e-16, of which no digit is right."""

NO_SPREAD = 1e-7
"""A standard error below it is 0, and so is the width of an interval. It is the root of a variance,
and a variance of exactly 0 is a difference of sums of squares that comes out as some 1e-16; its
root, some 1e-8, has no digit that is right. Before and now it must be 0, in this sense."""

ENDS = {
    f"{of}{end}": (f"{of}low", f"{of}high")
    for of in ("", "change_", "lift_", "all_", "slope_")
    for end in ("low", "high")
}
"""Columns that are ends of an interval, and both ends of it."""

_ROWS = 24  # of a table that are kept
_DIGITS = 15  # of text in a message


# --- taken from results ---------------------------------------------------------------------------


def answer_of(question: Question) -> Answer:
    """Ask, and take the tables of the result; an error of the library is an answer too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fc.errors.ForeclickWarning)
        try:
            result = question.ask()
        except fc.errors.ForeclickError as error:
            return {"error": {"type": [type(error).__name__]}}
        return {name: _plain(table) for name, table in _tables(result)}


def _tables(result: Any) -> Iterator[tuple[str, Table]]:  # noqa: ANN401 - any result
    """The tables of a result, by name: its rows, and what it has beside them."""
    by = {Explored: ("context",)}.get(type(result), ())
    yield "rows", _sorted(_columns(result), *by)
    for name, order in _PARTS.get(type(result), {}).items():
        part = getattr(result, name)
        if part is not None:
            yield name, _sorted(_columns(part), *order)
    if isinstance(result, Explored):
        plan = ("share", "days", "records", "se", "effect")
        yield "plan", {name: [getattr(result, name)] for name in plan}
    if isinstance(result, Optimized) and "ladder" in result["estimator"][0]:
        policy = _columns(result.policy.table)  # by others there are ties, and any of them is right
        yield "policy", _sorted(policy, "context", *(name for name in policy if "item" in name))


_PARTS: dict[type, dict[str, tuple[str, ...]]] = {
    Backtest: {"periods": ()},
    Contexts: {"lists": ()},
    Explored: {"evaluation": ()},
    Judgments: {"items": ("context", "item")},
    Optimized: {"contexts": ("context",)},
    fc.Report: dict.fromkeys(("models", "support", "contexts", "check", "backtest"), ()),
    Support: {"contexts": ("estimator", "metric", "context")},
}
"""The tables beside the rows of a result, and the columns that each is sorted by."""


def _columns(table: Any) -> Table:  # noqa: ANN401 - a Result, or an Arrow table
    if isinstance(table, pa.Table):
        return {name: table[name].to_pylist() for name in table.column_names}
    return {name: table[name] for name in table.columns}


def _sorted(table: Table, *by: str) -> Table:
    """The rows in an order that does not depend on how they were found."""
    keys = [name for name in by if name in table]
    size = len(next(iter(table.values()), []))

    def key(row: int) -> list[tuple[str, float, str]]:
        values = [table[name][row] for name in keys]
        return [("", v, "") if isinstance(v, int | float) else ("text", 0, repr(v)) for v in values]

    order = sorted(range(size), key=key)
    return {name: [values[row] for row in order] for name, values in table.items()}


def _plain(table: Table) -> Table:
    """The first rows, as values that JSON has."""
    return {name: [_value(value) for value in values[:_ROWS]] for name, values in table.items()}


def _value(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, list | tuple):
        return [_value(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


# --- kept in a file -------------------------------------------------------------------------------


def write(answers: Mapping[str, Answer], path: Path = FILE) -> None:
    """Keep the answers, a line for each; floats are written so that they are read as they were."""
    lines = [
        f"{json.dumps(name)}:{json.dumps(answer, separators=(',', ':'), allow_nan=False)}"
        for name, answer in answers.items()
    ]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def read(path: Path = FILE) -> dict[str, Answer]:
    """The answers that were kept."""
    kept: dict[str, Answer] = json.loads(path.read_text(encoding="utf-8"))
    return kept


# --- compared -------------------------------------------------------------------------------------


def differences(was: Answer, now: Answer) -> list[str]:
    """What of an answer is not as it was; more columns and tables are no harm."""
    found: list[str] = []
    for name, table in was.items():
        for column, values in table.items():
            place, other = f"{name}.{column}", now.get(name, {}).get(column)
            if other is None or len(other) != len(values):
                found.append(f"{place}: had {len(values)} rows, has {len(other or ())}")
                continue
            for row, (before, after) in enumerate(zip(values, other, strict=True)):
                floor = NO_SPREAD if _no_spread(column, table, now[name], row) else FLOOR
                if not same(before, after, floor):
                    found.append(
                        f"{place}[{row}{_labels(table, row)}]: {before!r} became {after!r}"
                    )
    return found


def _no_spread(column: str, was: Table, now: Table, row: int) -> bool:
    """Whether a column is a standard error, or an end of an interval, that is 0 then and now."""
    if column != "se" and column not in ENDS:
        return False
    return all(_is_zero(column, table, row) for table in (was, now))


def _is_zero(column: str, table: Table, row: int) -> bool:
    low, high = (table.get(end, [])[row : row + 1] for end in ENDS.get(column, ("", "")))
    numbers = [value for value in (*low, *high) if isinstance(value, int | float)]
    spread = [value for value in table.get("se", [])[row : row + 1] if value is not None]
    if column != "se" and len(numbers) == len(ENDS[column]):
        spread.append(max(numbers) - min(numbers))
    return bool(spread) and min(map(abs, spread)) < NO_SPREAD


def _labels(table: Table, row: int) -> str:
    """What a row is about, for a message."""
    names = ("estimator", "metric", "clip", "candidate", "against", "context", "fact", "position")
    told = [str(table[name][row])[:_DIGITS] for name in names if name in table]
    return f" {' '.join(told)}" if told else ""


def same(was: object, now: object, floor: float = FLOOR) -> bool:
    """Whether two values are the same; numbers up to rounding."""
    if isinstance(was, bool) or isinstance(now, bool):
        return was is now
    if isinstance(was, int | float) and isinstance(now, int | float):
        return math.isclose(was, now, rel_tol=RELATIVE, abs_tol=floor)
    if isinstance(was, Sequence) and isinstance(now, Sequence) and not isinstance(was, str):
        return len(was) == len(now) and all(map(same, was, now))
    return was == now
