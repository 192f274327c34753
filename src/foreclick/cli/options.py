"""Options that commands share, as dataclasses: a field is an option, its docstring the help.

Fields are called as the keywords of the library, and None means that an option was not given: the
library's default holds, which the help reads from its signature (`defaults`). Nothing heavy is
imported here, so that help and completion do not wait for Ibis and NumPy.
"""

# No `from __future__ import annotations`: `options` reads the types of fields.
import inspect
from dataclasses import dataclass, fields
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeVar,
    dataclass_transform,
    get_args,
)

from cyclopts import Group, Parameter

from foreclick.cli.values import (
    Column,
    Columns,
    Count,
    File,
    Flag,
    Names,
    Sql,
    above_zero,
    candidate,
    count,
    one,
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
Title = Literal[
    "Question",
    "Candidate",
    "Constraints",
    "Judgement",
    "Protocol",
    "Uncertainty",
    "Simulation",
    "Events",
    "Output",
    "Log",
]
_TEXTS = {
    "Question": "Several values: by commas, or by repeating the option.",
    "Candidate": "Its columns are called as in the log, unless said otherwise.",
    "Constraints": "Columns of files are called context, item, position, items; or as in the log.",
    "Judgement": "A policy is judged by records that had no say in choosing it.",
    "Protocol": "Each period is held out and predicted from the others; so --period is needed.",
    "Log": "Which column plays which part. A tally knows its own.",
}
_GROUPS = {
    title: Group(title, sort_key=place, help=_TEXTS.get(title, ""))
    for place, title in enumerate(get_args(Title))
}


_plain = dataclass(frozen=True, kw_only=True, eq=False, repr=False)
"""Nobody compares or prints options, and each method that a dataclass makes takes its time."""


@dataclass_transform(kw_only_default=True, frozen_default=True)
def options(title: Title) -> "Callable[[C], C]":
    """Makes a class a group of options, shown in the help under a title."""

    def make(cls: C) -> C:
        for name, hint in inspect.get_annotations(cls).items():
            if hint is ClassVar:
                continue
            own = Parameter(group=_GROUPS[title], negative="", show_default=False)
            cls.__annotations__[name] = Annotated[hint, own]
        made: C = Parameter(name="*")(_plain(cls))  # type: ignore[assignment]
        return made

    return make


@options("Output")
class Run:
    """What every command has."""

    format: Literal["answer", "table", "json", "csv"] | None = None
    """how to print: the answer in words (default), or all numbers"""
    quiet: Flag = None
    """neither progress nor warnings"""
    explain: Flag = None
    """also print each step, its seconds, and the statements sent to the engine"""
    debug: Flag = None
    """where something fails, show the traceback"""

    def given(self, *groups: type) -> dict[str, Any]:
        """The options of these groups that were given, by their keywords in the library."""
        keys = [field.name for group in groups for field in fields(group)]
        return {key: getattr(self, key) for key in keys if getattr(self, key) is not None}


@options("Output")
class Engined(Run):
    """What commands have that read a log."""

    memory_limit: Annotated[str | None, one(size, "SIZE")] = None
    """of the engine, such as 2GB; beyond it, disk"""
    threads: Count = None
    """of the engine; by default all cores"""

    def engine(self) -> "Engine | None":
        """An engine within the limits that were set; None, the library's own, if none were."""
        if self.memory_limit is None and self.threads is None:
            return None
        from foreclick.engines import laptop
        from foreclick.options import check

        check(threads=self.threads)
        return laptop(memory_limit=self.memory_limit, threads=self.threads)


@options("Output")
class Output:
    """Where a command writes to."""

    output: Annotated[str | None, Parameter(name=["--output", "-o"], metavar="FILE")] = None
    """where it goes"""

    def needed(self) -> str:
        """The file, of a command that has no other place for its result."""
        if self.output is None:
            raise SourceError("there is no place for the result: give one with -o, --output.")
        return self.output


@options("Output")
class Picture:
    """A result that can be drawn."""

    chart: File = None
    """also draw it, to a .png, .svg or .pdf (needs foreclick[charts])"""


@options("Output")
class Written(Picture):
    """A result that may also go to a file."""

    output: Annotated[str | None, Parameter(name=["--output", "-o"], metavar="FILE")] = None
    """also write it, as its ending says: .csv, .json, .parquet, .html, .png, .svg or .pdf"""


# --- logs and candidates --------------------------------------------------------------------------


@options("Log")
class Log(Engined):
    """The roles of columns, as `read_log` takes them."""

    context: Column = None
    """the query, page or user group"""
    no_context: Flag = None
    """one context for all"""
    items: Columns = None
    """the list shown, or a column per position: a,b,c"""
    clicks: Columns = None
    """its clicks, likewise"""
    no_clicks: Flag = None
    """the log has no clicks"""
    period: Column = None
    """day or week; a timestamp counts as its day"""
    unit: Column = None
    """user or session"""
    segments: Names = None
    """what results can be split by"""
    weight: Column = None
    """of a down-sampled log: for how many a row was kept"""
    count: Column = None
    """of a counted log: how many equal records a row is"""
    propensity: Columns = None
    """probability of the list shown, or of each slot"""
    rewards: Annotated[
        list[tuple[str, str | list[str]]] | None,
        several(reward, "NAME=COLUMN"),
        Parameter(name="--reward"),
    ] = None
    """a further reward, for the metric NAME@3; repeatable"""
    where: Sql = None
    """which rows of LOG count, such as country='NL'"""
    half_life: Annotated[float | None, one(above_zero, "DAYS")] = None
    """so much older than the latest period, a record counts half as much"""
    invalid: Literal["error", "drop"] | None = None
    """what to do with invalid rows"""
    layout: Literal["lists", "long"] | None = None
    """one row a list, or one an impression, with the four columns:"""
    list_id: Column = None
    """which list it belongs to"""
    position: Column = None
    """where it stood"""
    item: Column = None
    """what was shown"""
    click: Column = None
    """whether it was clicked"""

    def roles(self) -> dict[str, Any]:
        """The arguments of `read_log` that were given."""
        found = self.given(Log)
        for name in (*(field.name for field in fields(Engined)), "half_life"):
            found.pop(name, None)
        for role in ("context", "clicks"):
            if found.pop(f"no_{role}", None):
                found[role] = None
        return found | ({"rewards": dict(found["rewards"])} if "rewards" in found else {})

    def read(self, files: "Sequence[str]") -> "fc.Log | fc.Tally":
        """The log that files make together."""
        from foreclick.cli.inputs import read_logs

        return read_logs(self, files)


@options("Candidate")
class Candidate(Log):
    """The columns of candidates."""

    candidate_type: Literal["ranking", "lists", "marginals", "observed"] | None = None
    """by default told from its columns; observed: the frequencies of another log"""
    candidate_context: Column = None
    """the context"""
    candidate_items: Columns = None
    """the list of items"""
    candidate_item: Column = None
    """the item, of scores and marginals"""
    candidate_position: Column = None
    """the position, of marginals"""
    candidate_where: Sql = None
    """which of its rows count"""
    probability: Column = None
    """of lists and marginals; by default called so"""
    score: Column = None
    """items are ranked by it; by default called so"""
    k: Annotated[int | None, one(count, "K")] = None
    """how many items a list of scored items shows"""

    def read_both(
        self, files: "Sequence[str]", say: "Callable[[str], None]"
    ) -> "tuple[fc.Log | fc.Tally, fc.Policy]":
        """LOG… CANDIDATE. The candidate is read first: it is small, and a mistake known at once."""
        from foreclick.cli.inputs import read_candidate, with_names

        *log, path = files
        say("Reading the candidate")
        policy = read_candidate(path, with_names(self, log))
        say("Reading the log")
        return self.read(log), policy


@options("Candidate")
class Candidates(Candidate):
    """Several candidates, each with its name, and columns called alike."""

    candidates: Annotated[
        list[tuple[str, str]] | None,
        several(candidate, "NAME=FILE"),
        Parameter(name=["--candidate"]),
    ] = None
    """a file, directory or glob, or a tally, and what to call it; repeatable"""
