"""The options of all verbs and commands: one table for the library and the command line.

An option means the same wherever it stands, so it is checked by its name. A verb is decorated by
`verb` or `checked`, which refuse wrong values before any work is done: what is wrong, what was
given, and what to give instead. Commands take rule and help of their options from the same table.
Whether this log can answer the question is another matter, checked later. Nothing heavy is imported
here, so that the help of a command does not wait for NumPy.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal, ParamSpec, TypeVar

from foreclick import rules
from foreclick.errors import OptionError
from foreclick.metrics import USUAL_METRICS
from foreclick.progress import set_output, working
from foreclick.rules import (
    Choice,
    Number,
    Text,
    ValueRule,
    choice,
    column,
    columns,
    flag,
    names,
    whole,
)
from foreclick.threads import one_blas_thread
from foreclick.words import did_you_mean

P = ParamSpec("P")
R = TypeVar("R")
_Check = Callable[[str, Any], None]

AT_ONCE = max(64, 4 * (os.cpu_count() or 1))
"""The most threads or processes: more only cost memory, and far more take the machine with them."""

_LEVEL = rules.share("0.95")
_FILE = Text("FILE")


@dataclass(frozen=True)
class Option:
    """An option of the library, of commands, or of both.

    Attributes:
        rule: refuses wrong values, and reads texts of the command line.
        help: its line in the help of a command; empty where no command has the option.
        default: what holds without it, as the help shows it. Verbs may have another default.
        flags: how commands spell it, where that is not its name.
    """

    rule: ValueRule
    help: str = ""
    default: Any = None
    flags: str = ""


OPTIONS: dict[str, Option] = {
    # Questions.
    "metrics": Option(
        Text("METRIC,…", rules.split_names, repeats=True),
        "clicks@K, dcg@K, success@K, mrr@K, REWARD@K, ctr@K, or a ratio REWARD@K/clicks@K",
        USUAL_METRICS,
        "--metric -m",
    ),
    "estimators": Option(
        Text("NAME,…", rules.split_names, repeats=True),
        "ladder, ladder-ip, list, prefix, ip, item, pbm, rctr, rcm or all; ip:10 for M = 10",
        flags="--estimator -e",
    ),
    "one_metric": Option(Text("METRIC"), "clicks@K, dcg@K or REWARD@K", flags="--metric -m"),
    "policy_estimator": Option(
        Text("NAME"), "ladder-ip, list, ip, item or pbm", flags="--estimator -e"
    ),
    "by": Option(names, "segment columns to split the answer by, or period"),
    "confidence": Option(_LEVEL, "the confidence level of intervals", 0.95),
    "min_effect": Option(
        rules.below_one("the smallest change worth having, a share of production"),
        "the smallest change worth having, as a share of production: 1% or 0.01",
        0.0,
    ),
    "guardrails": Option(
        rules.Guardrails(),
        "a metric that must not fall, and the share it may lose: orders@3=1%; repeatable",
        flags="--guardrail",
    ),
    "missing": Option(
        choice("error", "production", "drop"),
        "how to treat contexts that the candidate lacks",
        "error",
    ),
    "logging": Option(
        Choice(("frequency", "propensity"), "to let the log decide"),
        "what weights rest on; by default what suits the log",
    ),
    "trained_until": Option(
        Text("PERIOD"),
        "the last period whose clicks trained the candidate, or 'before' for none",
    ),
    "replay": Option(
        _FILE, "a tally of past A/B tests, for whose prediction errors the verdict allows"
    ),
    "save": Option(Text("NAME"), "save the log's columns under this name in foreclick.toml"),
    "candidate": Option(_FILE, "also measure how much of this candidate was ever shown"),
    "candidates": Option(
        Text("NAME=FILE", rules.pair("NAME=VALUE, such as new=new.parquet"), repeats=True),
        "the name of a candidate and its file, directory, glob or tally; repeatable",
        flags="--candidate",
    ),
    "title": Option(ValueRule(), "the heading of the page"),
    "no_backtest": Option(flag, "leave out the backtest, which takes most of the time"),
    "ranks": Option(
        Text("N|N-N", rules.rank_range),
        "only the most frequent contexts: 100, or 101-1000 for those after them",
    ),
    "block": Option(
        whole(1, "the number of periods", "7"),
        "the number of periods that are held out together, such as 7 days",
        1,
    ),
    "forward": Option(flag, "predict a period from earlier ones only"),
    "within": Option(
        choice("auto", "context", "period"),
        "which moves of items count: within a context, or within a period of it",
        "auto",
    ),
    "variant": Option(column, "the arm of a record", "variant"),
    "experiment": Option(column, "the test of a record, if the log has several"),
    "control": Option(
        Text("ARM"), "the arm of production; by default the one called control, else the largest"
    ),
    # Policies and experiments.
    "pessimism": Option(
        rules.from_zero("a number of standard errors", "1"),
        "the number of standard errors by which click rates are lowered",
        1.0,
    ),
    "max_change": Option(
        Number(rules.PART.give, rules.PART.fits, "0.2", optional=True, share=True),
        "the largest share of a list that may change, such as 20%",
    ),
    "min_shown": Option(
        rules.from_zero("how often an item must have been shown"),
        "how often an item must have been shown to be chosen",
        0,
    ),
    "deterministic": Option(flag, "one list per context"),
    "pinned": Option(_FILE, "a table of context, item and position: items with a fixed position"),
    "banned": Option(_FILE, "a table of item, or of context and item: items not to show"),
    "contexts": Option(
        _FILE, "also write a table with a row per context: its rewards, and why its lists changed"
    ),
    "share": Option(
        rules.share("0.1", optional=True),
        "the share of all traffic that may be shown the candidate; by default a tenth",
    ),
    "days": Option(
        rules.above("a number of days", "14", optional=True), "the longest duration in days"
    ),
    "power": Option(rules.share("0.8"), "the probability of detecting the change", 0.8),
    # Logs.
    "context": Option(
        column, "the query, page or user group; '' for one context for all", "context"
    ),
    "items": Option(columns, "the list that was shown, or a column per position: a,b,c", "items"),
    "clicks": Option(columns, "its clicks, or a column per position", "clicks"),
    "period": Option(column, "the day or week; a timestamp counts as its day"),
    "unit": Option(column, "the user or session"),
    "segments": Option(names, "columns by which results can be split"),
    "rewards": Option(
        Text("NAME=COLUMN", rules.pair("NAME=COLUMN, such as orders=n_orders"), repeats=True),
        "a further reward, for the metric NAME@3; repeatable",
        flags="--reward",
    ),
    "where": Option(Text("SQL"), "a filter of the rows of LOG, such as country='NL'"),
    "propensity": Option(columns, "the probability of the shown list, or of each slot"),
    "count": Option(
        column, "in a log of counts, the number of equal records that a row stands for"
    ),
    "invalid": Option(choice("error", "drop"), "how to treat invalid rows", "error"),
    "sample": Option(
        rules.SampleSize(), "the number of lists to draw from a larger log, auto, or all", "auto"
    ),
    "long": Option(
        rules.ColumnPair(),
        "of a log with one row per shown item, the columns of the list's id and the position",
    ),
    "memory_limit": Option(
        Text("SIZE", rules.size),
        "the most memory that the engine takes before it uses disk, such as 2GB",
    ),
    "threads": Option(
        whole(1, "the number of threads", optional=True, most=AT_ONCE),
        "the number of threads of the engine; by default all cores",
    ),
    "tracker": Option(
        choice(
            *("ubi", "ga4", "snowplow", "algolia"),
            *("yandex", "relevance_prediction", "pyclick", "trivago", "open_bandit"),
        ),
        "whose events LOG has (ubi, algolia: searches, then events), or which public log it is",
    ),
    "depth": Option(whole(1, "the number of positions", optional=True)),
    "half_life": Option(rules.above("a number of days or steps", "30", optional=True)),
    # Candidates.
    "score": Option(column, "the score by which items are ranked; by default the column score"),
    "k": Option(
        whole(1, "how many items a list shows", "10", optional=True),
        "the number of items that a list of scored items shows",
    ),
    "candidate_columns": Option(
        Text("ROLE=COLUMN", rules.pair("NAME=VALUE, such as items=docs"), repeats=True),
        "the candidate's column of context, items, item, position or probability; repeatable",
        flags="--column",
    ),
    # Simulated logs.
    "world": Option(
        choice("yandex-like", "pbm-drift", "shop"),
        "the simulated world; by default the first",
    ),
    "records": Option(whole(1, "the number of records"), "the number of records"),
    "queries": Option(whole(1, "the number of queries"), "the number of queries"),
    "seed": Option(whole(0, "the seed"), "the seed of the world"),
    "figures": Option(Text("DIRECTORY"), "the directory of the figures", flags="--output -o"),
    "reproduced": Option(whole(1, "the number of records"), "the number of records", 9_000_000),
    "candidate_file": Option(
        _FILE, "also write a candidate, a .parquet file, with its true value", flags="--candidate"
    ),
    # How commands and verbs work.
    "output": Option(
        _FILE,
        "also write the result to a .csv, .json, .parquet, .html, .png or .svg file",
        flags="--output -o",
    ),
    "format": Option(
        choice("answer", "table", "json", "csv"),
        "what to print: the answer in words (default), or all numbers",
    ),
    "gate_format": Option(
        choice("answer", "table", "json", "csv", "github", "junit"),
        "what to print: the answer in words (default), all numbers, or a pipeline's format",
        flags="--format",
    ),
    "quiet": Option(flag, "print neither progress nor warnings"),
    "debug": Option(
        flag, "print steps, SQL statements, how fits ended, sources of error, and tracebacks"
    ),
    "workers": Option(whole(1, "the number of processes", most=AT_ONCE)),
}
"""Every option by its name in the library, or in `cli` where the library has none."""


# --- values of options ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Confidence:
    """The confidence level of intervals and verdicts, with what else decides their width.

    Verbs that take `confidence` accept a number in its place, which sets `level` alone.

    Args:
        level: the confidence level: the share of intervals that contain the true value, such as
            0.95.
        clusters: "auto": records of the same period are correlated, and so are records of the same
            unit (user), if the log has them. "record": all records are independent.
        anytime: whether intervals hold at all looks jointly (a confidence sequence), for a log that
            is evaluated again and again as it grows.
        past: a result of `backtest` or `replay`. Verdicts then allow for the errors that the same
            estimators made there, for the same metrics.

    Raises:
        OptionError: a value is not among these.

    Examples:
        >>> Confidence(0.9, anytime=True).level
        0.9
    """

    level: float = 0.95
    clusters: Literal["auto", "record"] = "auto"
    anytime: bool = False
    past: Any = None

    def __post_init__(self) -> None:
        _LEVEL("level", self.level)
        choice("auto", "record")("clusters", self.clusters)
        flag("anytime", self.anytime)
        if self.past is not None and not hasattr(self.past, "error"):
            raise OptionError(
                f"past is of type {type(self.past).__name__}: give what fc.backtest or fc.replay "
                "returned, or None."
            )


def sure(name: str, value: Any) -> None:  # noqa: ANN401
    """A share, a `Confidence`, or None for no intervals."""
    if value is not None and not isinstance(value, Confidence):
        _LEVEL(name, value)


_workers = [1]


def settings(*, progress: Any = None, workers: int | None = None) -> None:  # noqa: ANN401
    """Set the progress display and the number of processes for all later calls.

    Args:
        progress: "auto": a progress bar on a terminal, a few lines elsewhere, nothing for short
            work. "never": nothing. A function, such as ``print``: receives each line.
        workers: the number of processes that share the work on a log too large for memory, and that
            of `optimize`.

    Raises:
        OptionError: a value is not among these.

    Examples:
        >>> settings(progress="never", workers=2)
        >>> settings(progress="auto", workers=1)
    """
    if progress is not None:
        if progress not in ("auto", "never") and not callable(progress):
            raise OptionError(
                f"progress={progress!r}: give 'auto', 'never', or a function of one line of text, "
                "such as print."
            )
        set_output(progress)
    if workers is not None:
        check(workers=workers)
        _workers[0] = workers


def worker_count() -> int:
    """How many processes work, by the last call of `settings`."""
    return _workers[0]


def check(**given: Any) -> None:  # noqa: ANN401
    """Refuse options of these names that make no sense."""
    for name, value in given.items():
        OPTIONS[name].rule(name, value)


def verb(**others: _Check) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function a verb: as `checked`, with its progress, and BLAS in one thread."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @checked(**others)
        @wraps(function)
        def working_verb(*args: P.args, **kwargs: P.kwargs) -> R:
            with working(), one_blas_thread():
                return function(*args, **kwargs)

        return working_verb

    return decorate


def checked(**others: _Check) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function refuse options that make no sense, before it does any work.

    Args:
        others: rules of options that mean something else, or less, in this function.
    """
    checks: dict[str, _Check] = {name: option.rule for name, option in OPTIONS.items()} | others

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        known = list(inspect.signature(function).parameters)

        @wraps(function)
        def checking(*args: P.args, **kwargs: P.kwargs) -> R:
            for name, value in kwargs.items():
                if name not in known:
                    hint = did_you_mean(name, known) or f" It has {', '.join(known)}."
                    hint = f" Use {_INSTEAD[name]}." if name in _INSTEAD else hint
                    raise OptionError(f"{function.__name__} has no option {name!r}.{hint}")
                if name in checks:
                    checks[name](name, value)
            return function(*args, **kwargs)

        return checking

    return decorate


_INSTEAD = {
    "clip": "estimators=Weighted('ip', clip=100)",
    "clusters": "confidence=Confidence(clusters='record')",
    "list_id": "long=('list_id', 'position'): the columns of a row's list and position",
    "progress": "fc.settings(progress='never')",
    "session": "list_id=fc.events.Match(session=…, time=…)",
    "time": "list_id=fc.events.Match(session=…, time=…)",
    "window": "list_id=fc.events.Match('list_id', time=…, window=1800)",
    "workers": "fc.settings(workers=4)",
}
"""What to use in place of options that other verbs or other packages have."""
