"""Answers as plain values: taken from results, kept in a file, and compared.

An answer is tables, each a list of values by column. All that a result says in numbers and verdicts
is in it, and nothing that it says in sentences.
"""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Iterator, Mapping
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
from tests.cases.asking import FLOOR, NO_SPREAD, same

if TYPE_CHECKING:
    from tests.goldens.questions import Question

FILE = Path(__file__).parent / "answers.json"

Table = dict[str, list[Any]]
Answer = dict[str, Table]

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
    for name, order in ({"rows": ()} | _PARTS.get(type(result), {})).items():
        part = result if name == "rows" else getattr(result, name)
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
    Explored: {"rows": ("context",), "evaluation": ()},
    Judgments: {"items": ("context", "item")},
    Optimized: {"contexts": ("context",)},
    fc.Report: dict.fromkeys(("models", "support", "contexts", "check", "backtest"), ()),
    Support: {"contexts": ("estimator", "metric", "context")},
}
"""The tables of a result, and the columns that each is sorted by."""


def _columns(table: Any) -> Table:  # noqa: ANN401 - a Result, or an Arrow table
    if isinstance(table, pa.Table):
        return {name: table[name].to_pylist() for name in table.column_names}
    return {name: table[name] for name in table.columns}


def _sorted(table: Table, *by: str) -> Table:
    """The rows in an order that does not depend on how they were found."""
    columns = [table[name] for name in by if name in table]

    def key(row: int) -> list[tuple[bool, float, str]]:
        values = [column[row] for column in columns]
        return [
            (False, v, "") if isinstance(v, int | float) else (True, 0, repr(v)) for v in values
        ]

    order = sorted(range(len(next(iter(table.values()), []))), key=key)
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


def write(answers: Mapping[str, Answer]) -> None:
    """Keep the answers, a line for each; floats are written so that they are read as they were."""
    lines = [
        f"{json.dumps(name)}:{json.dumps(answer, separators=(',', ':'), allow_nan=False)}"
        for name, answer in answers.items()
    ]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def read() -> dict[str, Answer]:
    """The answers that were kept."""
    kept: dict[str, Answer] = json.loads(FILE.read_text(encoding="utf-8"))
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
                none = max(_spread(column, each, row) for each in (table, now[name])) < NO_SPREAD
                if not same(before, after, NO_SPREAD if none else FLOOR):
                    found.append(
                        f"{place}[{row}{_labels(table, row)}]: {before!r} became {after!r}"
                    )
    return found


def _spread(column: str, table: Table, row: int) -> float:
    """The standard error; of an end of an interval, the width where that is less; of no other."""

    def number(name: str) -> float:
        value = table[name][row] if row < len(table.get(name, ())) else None
        return value if isinstance(value, int | float) else math.inf

    end = re.fullmatch("(|change_|lift_|all_|slope_)(low|high)", column)
    if end is None:
        return number("se") if column == "se" else math.inf
    width = number(f"{end[1]}high") - number(f"{end[1]}low")
    return min(abs(number("se")), math.inf if math.isnan(width) else abs(width))


def _labels(table: Table, row: int) -> str:
    """What a row is about, for a message."""
    names = ("estimator", "metric", "clip", "candidate", "against", "context", "fact", "position")
    told = [str(table[name][row])[:_DIGITS] for name in names if name in table]
    return f" {' '.join(told)}" if told else ""
