"""Studies: what foreclick says of many logs, beside the truth. `python -m benchmarks NAME --help`.

A study is a function of a case (a world, candidates and a question to foreclick), and the values of
its axes; it is called for each combination of them. It returns rows: dicts with the *truth*, the
*value* that was found, the ends of its interval (*low*, *high*), its *se* and *verdict*, as far as
there are any. Rows that agree in the columns `by` become one row of the table, by measures that
studies share. `--save` keeps the table as JSON, with the commit, the command and the machine;
`benchmarks.evidence` renders docs/evidence.md from these files.
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

import foreclick as fc

RESULTS = Path(__file__).parent / "results"
NAMED = ("estimator", "metric", "se", "verdict")
"""Columns of answers that rows take as they are."""

Row = dict[str, Any]


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


# --- what an answer says, beside the truth --------------------------------------------------------


def beside(row: Mapping[str, Any], truth: float, of: str = "value", **truths: float) -> Row:
    """What a row of an answer says of a quantity, beside what is true.

    Args:
        row: with the quantity and the ends of its interval.
        truth: the true value.
        of: the quantity.
        truths: true values of other quantities; their intervals keep their names.
    """
    found: Row = {name: row[name] for name in NAMED if name in row} | {"truth": truth}
    ends = f"{of}_" if f"{of}_low" in row else ""
    columns = {"value": of, "low": f"{ends}low", "high": f"{ends}high"}
    for other, right in truths.items():
        found[other] = right
        columns |= {name: name for name in (f"{other}_low", f"{other}_high")}
    given = {name: row[column] for name, column in columns.items()}
    return found | {k: np.nan if v is None else float(v) for k, v in given.items()}


def evaluated(
    log: Any, candidate: Any, truths: Mapping[str, float], of: str = "value", **asked: Any
) -> list[Row]:
    """What `evaluate` says of a candidate by these metrics, beside their true values."""
    answer = fc.evaluate(log, candidate, metrics=list(truths), **asked)
    return [beside(row, truths[str(row["metric"])], of) for row in answer]


# --- statistics that studies share ----------------------------------------------------------------


def inside(rows: Rows, truth: str = "truth", low: str = "low", high: str = "high") -> NDArray[Any]:
    """Whether intervals hold the truth; those that are not there do not."""
    right = rows.of(truth)
    return np.asarray((rows.of(low) <= right) & (right <= rows.of(high)))


def answered(rows: Rows) -> Rows:
    """The rows that have a value and an interval."""
    return Rows(r for r in rows if not np.isnan([r["value"], r["low"], r["high"]]).any())


def errors(rows: Rows) -> NDArray[Any]:
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


def mean(name: str, column: str, form: str) -> Column:
    """The mean of a column, without what is not there."""

    def of(rows: Rows) -> float | None:
        values = rows.of(column).astype(float)
        return None if np.isnan(values).all() else float(np.nanmean(values))

    return Column(name, of, form)


def total(name: str, shown: str = "") -> Column:
    """The sum of a column."""
    return Column(shown or name, lambda rows: int(rows.of(name).sum()), ",")


def width(rows: Rows) -> float:
    """The mean width of the intervals that are there."""
    return float(np.nanmean((rows.of("high") - rows.of("low")).astype(float)))


MEASURES = {
    column.name: column
    for column in (
        Column("answers", lambda rows: len(answered(rows)), ","),
        Column("logs", len, ","),
        Column("bias", lambda rows: float(errors(answered(rows)).mean()), "+.2%"),
        Column("rmse", lambda rows: float(np.sqrt((errors(answered(rows)) ** 2).mean())), ".2%"),
        Column("held", lambda rows: float(inside(answered(rows)).mean()), ".1%"),
        Column("width", width, ".1%"),
        Column("wrong", lambda r: float((r.signs == -np.sign(r.of("truth"))).mean()), ".1%"),
        Column("se / sd", lambda rows: float(rows.of("se").mean() / errors(rows).std()), ".2f"),
    )
}
"""What studies say of answers, by name."""


def measured(said: str | Column) -> Iterator[Column]:
    """A column, or several: names of `MEASURES`, means "column:format", "name=column:format"."""
    if isinstance(said, Column):
        yield said
        return
    for each in said.split(", "):
        column, _, form = each.partition(":")
        name, _, of = column.partition("=")
        yield MEASURES[each] if each in MEASURES else mean(name, of or name, form)


# --- a study --------------------------------------------------------------------------------------


def grouped(rows: Iterable[Row], by: Sequence[str]) -> dict[tuple[Any, ...], Rows]:
    """Rows that agree in these columns, groups in the order in which they came."""
    groups: dict[tuple[Any, ...], Rows] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), Rows()).append(row)
    return groups


@dataclass(frozen=True)
class Study:
    """A function of a case, the axes that its cases come from, and the table of its rows.

    Attributes:
        name: its words on the command line.
        answers: the rows of a case; its parameters with defaults are options, too.
        axes: by option, its values, or how many there are. Each is a parameter of the function, by
            that name or without the s. With both, `logs` says how many seeds follow `seed`.
        by: columns that tell the rows of the table apart.
        columns: what is said of each group.
    """

    name: str
    answers: Callable[..., Iterable[Row]]
    axes: Mapping[str, Any]
    by: tuple[str, ...]
    columns: tuple[Column, ...]

    def tasks(self, **options: Any) -> Iterator[partial[Iterable[Row]]]:
        """A task for each combination of the axes' values, the last of which varies fastest."""
        known = inspect.signature(self.answers).parameters
        values = {name: options.pop(name) for name in self.axes}
        if "seed" in values:
            seed, logs = values["seed"], values.pop("logs")
            values["seed"] = range(seed, seed + logs)
        each = [range(v) if isinstance(v, int) else v for v in values.values()]
        names = [name if name in known else name.removesuffix("s") for name in values]
        for case in itertools.product(*each):
            yield partial(self.answers, **dict(zip(names, case, strict=True)), **options)

    def options(self) -> dict[str, Any]:
        """The options, with their defaults."""
        known = inspect.signature(self.answers).parameters.values()
        return {**self.axes, **{p.name: p.default for p in known if p.default is not p.empty}}

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
        forms = [*[""] * len(self.by), *(column.format for column in self.columns)]
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
    name: str, by: Sequence[str], *measures: str | Column, **axes: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a study of a function of a case."""

    def made(answers: Callable[..., Any]) -> Callable[..., Any]:
        columns = itertools.chain.from_iterable(map(measured, measures))
        STUDIES[name] = Study(name, answers, axes, tuple(by), tuple(columns))
        return answers

    return made


# --- a run ----------------------------------------------------------------------------------------


def run(name: str, given: Sequence[str]) -> None:
    """Run a study with the options of a command line, and print its table."""
    asked = STUDIES[name]
    options = vars(parser_of(asked).parse_args(given))
    jobs, quiet, save = (options.pop(word) for word in ("jobs", "quiet", "save"))
    rows: list[Row] = []
    start = time.perf_counter()
    for more in everywhere(asked.tasks(**options), jobs):
        for row in more:
            rows.append(row)
            if not quiet:
                print(said(row), file=sys.stderr, flush=True)
        if not quiet:
            print(f"[{time.perf_counter() - start:.0f} s]", file=sys.stderr, flush=True)
        if save:
            keep(name, command_of(name, given), asked.summed(rows))
    print("\n".join(asked.table(asked.summed(rows))))


def parser_of(asked: Study) -> argparse.ArgumentParser:
    """The command line of a study."""
    text = (inspect.getdoc(asked.answers) or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {asked.name}", description=text)
    for name, default in asked.options().items():
        if isinstance(default, bool):
            parser.add_argument(f"--{name}", action="store_true")
            continue
        several = "+" if isinstance(default, list) else None
        kind = type((default or [""])[0] if several else default)
        note = f"({default})"
        parser.add_argument(f"--{name}", type=kind, nargs=several, default=default, help=note)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--quiet", action="store_true", help="the table alone")
    parser.add_argument("--save", action="store_true", help=f"also into {RESULTS.name}/")
    return parser


def everywhere(tasks: Iterable[Callable[[], Iterable[Row]]], jobs: int) -> Iterator[Iterable[Row]]:
    """The rows of each task, in order, by as many processes."""
    if jobs > 1:
        with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
            yield from pool.map(_quietly, tasks)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from (task() for task in tasks)


def _quietly(task: Callable[[], Iterable[Row]]) -> list[Row]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(task())


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
