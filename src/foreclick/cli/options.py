"""Options of commands, as dataclasses: a field is an option, its docstring the help.

Fields are called as the keywords of the library, and None means that an option was not given: the
library's default holds, which the help reads from its signature. A log that needs more than `Log`
says is made a tally first. Nothing heavy is imported here, so that parsing does not wait for NumPy.
"""

# No `from __future__ import annotations`: `options` reads the types of fields.
import inspect
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar, dataclass_transform

from cyclopts import Group, Parameter

from foreclick.cli.values import (
    Column,
    Columns,
    Count,
    File,
    Flag,
    Names,
    Positive,
    Share,
    Sql,
    from_zero,
    guardrail,
    names,
    one,
    pair,
    rank_range,
    reward,
    several,
    size,
)
from foreclick.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import foreclick as fc
    from foreclick.engines import Engine

C = TypeVar("C", bound=type)
LOG, CANDIDATE, OUTPUT = "Log", "Candidate", "Output"
SHARED = (LOG, CANDIDATE, OUTPUT)
"""Groups that many commands have: --help-all shows them."""

_TEXTS = {
    LOG: "Which column plays which part. A tally knows its own; `tally` reads what is unusual.",
    CANDIDATE: "Its columns are called as in the log, or as the words here.",
}
_GROUPS: dict[str, Group] = {}
_plain = dataclass(frozen=True, kw_only=True, eq=False, repr=False)
"""Nobody compares or prints options, and each method that a dataclass makes takes its time."""


@dataclass_transform(kw_only_default=True, frozen_default=True)
def options(title: str = "Options") -> "Callable[[C], C]":
    """Makes a class a group of options, shown in the help under a title."""
    place = SHARED.index(title) + 1 if title in SHARED else 0
    group = _GROUPS.setdefault(title, Group(title, sort_key=place, help=_TEXTS.get(title, "")))

    def make(cls: C) -> C:
        for name, hint in inspect.get_annotations(cls).items():
            if hint is not ClassVar:
                own = Parameter(group=group, negative="", show_default=False)
                cls.__annotations__[name] = Annotated[hint, own]
        made: C = Parameter(name="*")(_plain(cls))  # type: ignore[assignment]
        return made

    return make


@options(OUTPUT)
class Run:
    """What every command has."""

    format: Literal["answer", "table", "json", "csv"] | None = None
    """how to print: the answer in words (default), or all numbers"""
    quiet: Flag = None
    """neither progress nor warnings"""
    debug: Flag = None
    """print each step, its seconds and statements, and the traceback of what fails"""

    def given(self, *groups: type) -> dict[str, Any]:
        """The options of these groups that were given, by their keywords in the library."""
        keys = [field.name for group in groups for field in fields(group)]
        return {key: getattr(self, key) for key in keys if getattr(self, key) is not None}


@options(LOG)
class Log(Run):
    """The roles of columns, as `read_log` takes them."""

    context: Column = None
    """the query, page or user group; '' for one context for all"""
    items: Columns = None
    """the list shown, or a column per position: a,b,c"""
    clicks: Columns = None
    """its clicks, likewise"""
    period: Column = None
    """day or week; a timestamp counts as its day"""
    unit: Column = None
    """user or session"""
    segments: Names = None
    """what results can be split by"""
    rewards: Annotated[
        list[tuple[str, str | list[str]]] | None,
        several(reward, "NAME=COLUMN"),
        Parameter(name="--reward"),
    ] = None
    """a further reward, for the metric NAME@3; repeatable"""
    where: Sql = None
    """which rows of LOG count, such as country='NL'"""

    def roles(self) -> dict[str, Any]:
        """The arguments of `read_log` that were given."""
        found = {f.name: v for f in fields(Log) if (v := getattr(self, f.name)) is not None}
        found = {name: v for name, v in found.items() if name not in {f.name for f in fields(Run)}}
        for role in ("context", "clicks"):
            if found.get(role) == "":
                found[role] = None
        return found | ({"rewards": dict(found["rewards"])} if "rewards" in found else {})

    def engine(self) -> "Engine | None":
        """The library's own engine."""
        return None

    def read(self, files: "Sequence[str]") -> "fc.Log | fc.Tally":
        """The log that files make together."""
        from foreclick.cli.inputs import read_logs

        return read_logs(self, files)


@options("Reading")
class Reading(Log):
    """How unusual logs are read, which are made tallies first."""

    propensity: Columns = None
    """probability of the list shown, or of each slot"""
    count: Column = None
    """of a counted log: how many equal records a row is"""
    invalid: Literal["error", "drop"] | None = None
    """what to do with invalid rows"""
    long: Annotated[str | None, Parameter(metavar="LIST,POSITION")] = None
    """one row an impression: the columns of its list and its position; --items: of the item"""
    memory_limit: Annotated[str | None, one(size, "SIZE")] = None
    """of the engine, such as 2GB; beyond it, disk"""
    threads: Count = None
    """of the engine; by default all cores"""

    def roles(self) -> dict[str, Any]:
        """The arguments of `read_log` that were given."""
        found = super().roles()
        own = ("propensity", "count", "invalid")
        found |= {name: v for name in own if (v := getattr(self, name)) is not None}
        if self.long is not None:
            columns = names(self.long)
            if len(columns) != 2:
                raise SourceError(f"--long {self.long!r}: give two columns, such as list,position.")
            found["long"] = columns
        return found

    def engine(self) -> "Engine | None":
        """An engine within the limits that were set."""
        if self.memory_limit is None and self.threads is None:
            return None
        from foreclick.engines import laptop
        from foreclick.options import check

        check(threads=self.threads)
        return laptop(memory_limit=self.memory_limit, threads=self.threads)


@options(CANDIDATE)
class Candidate(Log):
    """The columns of candidates."""

    score: Column = None
    """items are ranked by it; by default called score"""
    k: Count = None
    """how many items a list of scored items shows"""
    candidate_columns: Annotated[
        list[tuple[str, str]] | None, several(pair, "ROLE=COLUMN"), Parameter(name="--column")
    ] = None
    """another name of its context, items, item, position or probability; repeatable"""

    def read_both(
        self, files: "Sequence[str]", say: "Callable[[str], None]"
    ) -> "tuple[fc.Log | fc.Tally, fc.Policy]":
        """LOG… CANDIDATE. The candidate is read first: it is small, and a mistake known at once."""
        from foreclick.cli.inputs import read_candidate

        *log, path = files
        say("Reading the candidate")
        policy = read_candidate(path, self, log)
        say("Reading the log")
        return self.read(log), policy


@options(OUTPUT)
class Output:
    """A result that may also go to a file."""

    output: Annotated[str | None, Parameter(name=["--output", "-o"], metavar="FILE")] = None
    """also write it, as its ending says: .csv, .json, .parquet, .html, .png or .svg"""

    def needed(self) -> str:
        """The file, of a command that has no other place for its result."""
        if self.output is None:
            raise SourceError("there is no place for the result: give one with -o, --output.")
        return self.output


# --- what is asked --------------------------------------------------------------------------------


@options()
class Metrics:
    """What is estimated."""

    metrics: Annotated[
        list[str] | None, several(names, "METRIC,…"), Parameter(name=["--metric", "-m"])
    ] = None
    """clicks@K, dcg@K, success@K, mrr@K, REWARD@K, ctr@K, or a ratio REWARD@K/clicks@K"""


@options()
class Question(Metrics):
    """What is estimated, and how."""

    estimators: Annotated[
        list[str] | None, several(names, "NAME,…"), Parameter(name=["--estimator", "-e"])
    ] = None
    """ladder, ladder-ip, list, prefix, ip, item, pbm, rctr, rcm or all"""


@options()
class Split:
    """Results by segment."""

    by: Names = None
    """split by a segment, or by period"""


@options()
class Missing:
    """Contexts without a list."""

    missing: Literal["error", "production", "drop"] | None = None
    """what to do with contexts that the candidate lacks"""


@options()
class Confidence:
    """How sure intervals are."""

    confidence: Share = None
    """of the intervals"""


@options()
class Verdicts(Confidence):
    """What a verdict rests on."""

    min_effect: Share = None
    """the smallest change worth having, as a share of production: 1% or 0.01"""
    guardrails: Annotated[
        list[tuple[str, float]] | None,
        several(guardrail, "METRIC=SHARE"),
        Parameter(name=["--guardrail"]),
    ] = None
    """a metric that must not fall, and the share it may lose: orders@3=1%"""


@options()
class Protocol:
    """How a log is held out."""

    ranks: Annotated[int | tuple[int, int] | None, one(rank_range, "N|N-N")] = None
    """only the most frequent contexts: 100, or 101-1000 for those after them"""
    block: Count = None
    """hold out N periods at once, such as 7 days"""
    forward: Flag = None
    """predict a period from earlier ones only"""


@options()
class Choice:
    """By what a policy is the best, and what it keeps to."""

    metrics: Annotated[str | None, Parameter(name=["--metric", "-m"], metavar="METRIC")] = None
    """clicks@K, dcg@K, REWARD@K"""
    estimators: Annotated[str | None, Parameter(name=["--estimator", "-e"], metavar="NAME")] = None
    """ladder-ip, ip, item, pbm or list"""
    pessimism: Annotated[float | None, one(from_zero, "N")] = None
    """by how many standard errors click rates are lowered"""
    max_change: Share = None
    """how much of a list may change, such as 20%"""
    min_shown: Positive = None
    """show only what was shown so often before, at that position"""
    deterministic: Flag = None
    """one list a context"""


@options()
class Listed:
    """Constraints that are tables."""

    pinned: File = None
    """context, item, position: what must be where"""
    banned: File = None
    """item: what must not be shown; or context and item"""


@options()
class Exploring:
    """How an experiment is planned."""

    metrics: Annotated[str | None, Parameter(name=["--metric", "-m"], metavar="METRIC")] = None
    """clicks@K, dcg@K, REWARD@K"""
    min_effect: Share = None
    """the change to be told from none, as a share of production: 2% or 0.02"""
    share: Share = None
    """of all traffic; by default a tenth"""
    days: Positive = None
    """how long it may take"""
    power: Share = None
    """how often it is told"""
    confidence: Share = None
    """of the interval"""
