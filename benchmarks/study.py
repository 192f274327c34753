"""Studies: what foreclick says of many logs, beside the truth. `python -m benchmarks NAME --help`.

A study is a function of its options that yields tasks. A task draws a log, asks, and returns rows:
dicts with the *truth*, the *value* that was found, the ends of its interval (*low*, *high*), its
*se* and *verdict*, as far as there are any. Rows that agree in the columns `by` become one row of
the table, by statistics that studies share. `--save` keeps the table as JSON, with the commit, the
command and the machine; `benchmarks.evidence` renders docs/evidence.md from these files.
"""

from __future__ import annotations

import argparse
import inspect
import itertools
import json
import multiprocessing
import os
import platform
import shlex
import subprocess
import sys
import time
import types
import typing
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

RESULTS = Path(__file__).parent / "results"

Row = dict[str, Any]
Task = Callable[[], list[Row]]
Floats = NDArray[np.float64]


class Rows(list[Row]):
    """Rows of one group."""

    def of(self, name: str) -> NDArray[Any]:
        """A column as an array; NaN where there is None."""
        values = [row[name] for row in self]
        return np.array([np.nan if value is None else value for value in values])

    @property
    def signs(self) -> NDArray[Any]:
        """The verdicts: 1 (better), −1 (worse) or 0."""
        return np.array([{"better": 1, "worse": -1}.get(row["verdict"], 0) for row in self])


class Column(NamedTuple):
    """A statistic of a group, and how it is printed."""

    name: str
    statistic: Callable[[Rows], Any]
    format: str = ""


# --- statistics that studies share ----------------------------------------------------------------


def inside(rows: Rows, truth: str = "truth", low: str = "low", high: str = "high") -> NDArray[Any]:
    """Whether intervals hold the truth; those that are not there do not."""
    right = rows.of(truth)
    return np.asarray((rows.of(low) <= right) & (right <= rows.of(high)))


def answered(rows: Rows) -> Rows:
    """The rows that have a value and an interval."""
    return Rows(r for r in rows if not np.isnan([r["value"], r["low"], r["high"]]).any())


def errors(rows: Rows) -> Floats:
    """Values less the truth."""
    return np.asarray(rows.of("value") - rows.of("truth"), float)


def right(least: float) -> Callable[[Rows], float | None]:
    """The share of truths of at least so much, up or down, that get the verdict they deserve."""

    def share(rows: Rows) -> float | None:
        truth = rows.of("truth")
        large = np.abs(truth) >= least
        return float((rows.signs == np.sign(truth))[large].mean()) if large.any() else None

    return share


def holds(name: str, of: str = "", form: str = ".1%") -> Column:
    """How often an interval holds the truth; with `of`, that of another column."""
    truth, ends = of or "truth", f"{of}_" if of else ""
    return Column(
        name, lambda rows: float(inside(rows, truth, f"{ends}low", f"{ends}high").mean()), form
    )


def mean(name: str, shown: str = "", form: str = "") -> Column:
    """The mean of a column, without what is not there."""
    return Column(shown or name, lambda rows: float(np.nanmean(rows.of(name).astype(float))), form)


def total(name: str, shown: str = "") -> Column:
    """The sum of a column."""
    return Column(shown or name, lambda rows: int(rows.of(name).sum()), ",")


COUNT = Column("answers", lambda rows: len(answered(rows)), ",")
LOGS = Column("logs", len, ",")
BIAS = Column("bias", lambda rows: float(errors(answered(rows)).mean()), "+.2%")
RMSE = Column("rmse", lambda rows: float(np.sqrt((errors(answered(rows)) ** 2).mean())), ".2%")
HELD = Column("held", lambda rows: float(inside(answered(rows)).mean()), ".1%")
WIDTH = Column(
    "width", lambda r: float((r.of("high") - r.of("low"))[~np.isnan(r.of("low"))].mean()), ".1%"
)
WRONG = Column("wrong", lambda r: float((r.signs == -np.sign(r.of("truth"))).mean()), ".1%")
VERDICTS = Column("verdicts", lambda rows: words(row["verdict"] for row in rows))
RATIO = Column("se / sd", lambda r: float(r.of("se").mean() / errors(r).std()), ".2f")


def words(said: Iterable[Any]) -> str:
    """How often each word was said."""
    each = list(map(str, said))
    return ", ".join(f"{word} {each.count(word)}" for word in sorted(set(each)))


# --- a study --------------------------------------------------------------------------------------


def grouped(rows: Iterable[Row], by: Sequence[str]) -> dict[tuple[Any, ...], Rows]:
    """Rows that agree in these columns, groups in the order in which they came."""
    groups: dict[tuple[Any, ...], Rows] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), Rows()).append(row)
    return groups


@dataclass(frozen=True)
class Study:
    """Tasks, and the table that is made of their rows.

    Attributes:
        name: its words on the command line.
        tasks: a function of the options, whose defaults and types are the options' own.
        by: columns that tell the rows of the table apart.
        columns: what is said of each group.
    """

    name: str
    tasks: Callable[..., Iterable[Task]]
    by: tuple[str, ...]
    columns: tuple[Column, ...]

    def summed(self, rows: Iterable[Row]) -> list[Row]:
        """The rows of the table."""
        return [
            dict(zip(self.by, key, strict=True))
            | {c.name: c.statistic(group) for c in self.columns}
            for key, group in grouped(rows, self.by).items()
        ]

    def table(self, summed: Sequence[Row]) -> Iterator[str]:
        """The table as Markdown."""
        heads = [*self.by, *(column.name for column in self.columns)]
        forms = ["", *[""] * (len(self.by) - 1), *(column.format for column in self.columns)]
        yield f"| {' | '.join(heads)} |"
        yield "|---" * len(heads) + "|"
        for row in summed:
            cells = (
                "–" if row[head] is None else format(row[head], form)
                for head, form in zip(heads, forms, strict=True)
            )
            yield f"| {' | '.join(cells)} |"


STUDIES: dict[str, Study] = {}


def study(
    name: str, by: Sequence[str], *columns: Column
) -> Callable[[Callable[..., Iterable[Task]]], Callable[..., Iterable[Task]]]:
    """Make a study of a function that yields tasks."""

    def made(tasks: Callable[..., Iterable[Task]]) -> Callable[..., Iterable[Task]]:
        STUDIES[name] = Study(name, tasks, tuple(by), columns)
        return tasks

    return made


# --- a run ----------------------------------------------------------------------------------------


def taken(row: Mapping[str, Any], *names: str, **others: str) -> Row:
    """Columns of an answer, some of them by another name."""
    return {name: row[name] for name in names} | {new: row[name] for new, name in others.items()}


def grid(work: Callable[..., list[Row]], *axes: Iterable[Any]) -> Iterator[Task]:
    """A task for each combination of the axes' values, the last of which varies fastest."""
    return (partial(work, *values) for values in itertools.product(*axes))


def run(name: str, given: Sequence[str]) -> None:
    """Run a study with the options of a command line, and print its table."""
    asked = STUDIES[name]
    options = vars(parser_of(asked).parse_args(given))
    jobs, quiet, save = (options.pop(word) for word in ("jobs", "quiet", "save"))
    rows: list[Row] = []
    start = time.perf_counter()
    for more in everywhere(list(asked.tasks(**options)), jobs):
        rows += more
        for row in () if quiet else more:
            print(said(row), file=sys.stderr, flush=True)
        if not quiet:
            print(f"[{time.perf_counter() - start:.0f} s]", file=sys.stderr, flush=True)
        if save:
            keep(name, command_of(name, given), asked.summed(rows))
    print("\n".join(asked.table(asked.summed(rows))))


def parser_of(asked: Study) -> argparse.ArgumentParser:
    """The command line of a study: an option for each parameter of its function."""
    text = (inspect.getdoc(asked.tasks) or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {asked.name}", description=text)
    hints = typing.get_type_hints(asked.tasks)
    for name, parameter in inspect.signature(asked.tasks).parameters.items():
        hint, default = hints[name], parameter.default
        if isinstance(hint, types.UnionType):
            hint = typing.get_args(hint)[0]  # int | None
        if hint is bool:
            parser.add_argument(f"--{name}", action="store_true")
        elif typing.get_origin(hint) is list:
            kind = typing.get_args(hint)[0]
            parser.add_argument(
                f"--{name}", nargs="+", type=kind, default=default, help=f"({default})"
            )
        else:
            parser.add_argument(f"--{name}", type=hint, default=default, help=f"({default})")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--quiet", action="store_true", help="the table alone")
    parser.add_argument("--save", action="store_true", help=f"also into {RESULTS.name}/")
    return parser


def everywhere(tasks: list[Task], jobs: int) -> Iterator[list[Row]]:
    """The rows of each task, in order, by as many processes."""
    if jobs == 1:
        yield from map(_quietly, tasks)
        return
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(_quietly, tasks)


def _quietly(task: Task) -> list[Row]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return task()


def said(row: Row) -> str:
    """A row on one line."""
    cells = (f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
    return "  ".join(cells)


# --- what is kept ---------------------------------------------------------------------------------


def keep(name: str, command: str, rows: Sequence[Row]) -> None:
    """Write a run to the file of its study, in place of an earlier run by the same command."""
    path = RESULTS / f"{name.replace(' ', '-')}.json"
    before = json.loads(path.read_text()) if path.exists() else []
    others = [each for each in before if each["command"] != command]
    found = {"command": command, **circumstances(), "rows": [_rounded(row) for row in rows]}
    path.write_text(json.dumps([*others, found], indent=1, ensure_ascii=False) + "\n")


def command_of(name: str, given: Sequence[str]) -> str:
    """The command line of a run."""
    rest = [word for word in given if word not in ("--save", "--quiet")]
    return f"python -m benchmarks {' '.join([name, shlex.join(rest)])}".strip()


def circumstances() -> dict[str, str]:
    """The commit, the day and the machine."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude", "*"],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "duckdb"))
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    return {
        "commit": described.stdout.strip() or "unknown",
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{machine}, {packages}",
    }


def _rounded(row: Row) -> Row:
    return {k: float(f"{v:.6g}") if isinstance(v, float) else v for k, v in row.items()}
