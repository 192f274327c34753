"""Commands that make files: logs, tallies, policies, judgments."""

# No `from __future__ import annotations`: `command` reads the types of fields.
import inspect
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

import foreclick as fc
from foreclick.cli.app import command
from foreclick.cli.options import Log, Output, Run
from foreclick.cli.questions import (
    Choice,
    Constraints,
    Grading,
    Judgement,
    Listed,
    Uncertainty,
)
from foreclick.cli.values import Count, File, Flag, Whole
from foreclick.errors import SourceError

if TYPE_CHECKING:
    from foreclick.progress import Say
    from foreclick.results import Result

World = Literal["yandex-like", "pbm-drift", "illustrative-query"]
Directory = Annotated[str | None, Parameter(metavar="DIRECTORY")]


@command("LOG… -o FILE", title="Output", group="Make files")
class Tally(Log, Output):
    """Compress logs to one small file, or part by part; add up tallies.

    Examples:
      foreclick tally log.parquet --context query --period day --unit user -o tally.parquet
      foreclick tally monday.parquet tuesday.parquet -o both.parquet
      foreclick tally 'logs/*.parquet' --context query --period day --into tallies
    """

    min_count: Count = None
    """for a tally that leaves the house: leave out what fewer records share, and users' buckets"""
    into: Directory = None
    """instead of -o: a tally for each file of LOG, or for each period of a single one; a run that
    was stopped goes on where it was"""

    def run(self, files: list[str], say: "Say") -> "Result":
        from foreclick.engines import ending, has_place, located, total
        from foreclick.logs import N
        from foreclick.options import check
        from foreclick.results import Result

        if self.into:
            return self._by_part(files, say)
        path = located(self.needed())
        if ending(path) not in {".parquet", ".pq"} or not has_place(path):
            raise SourceError(
                f"the tally cannot be written to {self.output!r}: it is a Parquet file in a "
                "directory that exists. Give, for instance, -o tally.parquet."
            )
        say("Reading and counting the log")
        counted = fc.tally(self.read(files))
        if self.min_count is not None:
            check(min_count=self.min_count)
            counted = counted.shared_by(self.min_count)
        say(f"Writing {Path(path).name}")
        counted.write_parquet(path)
        sums = counted.table.aggregate(records=total(counted.table[N]), rows=counted.table.count())
        row = {"tally": path, **counted.engine.rows(sums)[0], "dropped": counted.dropped_rows}
        notes = [f"Left out, {cause}: {rows:,} rows." for cause, rows in counted.dropped.items()]
        return Result((row,), tuple(row), tuple(notes))

    def _by_part(self, files: list[str], say: "Say") -> "Result":
        from foreclick.results import Result

        idle = (self.half_life, self.output, self.min_count)
        if len(files) > 1 or any(option is not None for option in idle):
            raise SourceError(
                "--into takes one LOG, a glob or a directory in quotes, no -o, no --half-life, "
                "which is for reading the tallies, and no --min-count: add them up with that."
            )
        found = fc.write_tallies(
            files[0], str(self.into), engine=self.engine(), progress=say, **self.roles()
        )
        row: dict[str, str | int] = {
            "tallies": str(found.directory),
            "made": len(found.made),
            "kept": len(found.kept),
        }
        return Result((row,), tuple(row), (f"{found}.",))


@command("DATASET PATH [OUT]", title="Dataset", group="Make files")
class Convert(Run, Output):
    """Write a public dataset, or the events of a tracker, as a log.

    DATASET is yandex, relevance_prediction, pyclick, trivago or open_bandit; or the tracker of the
    events: ubi, ga4, snowplow, algolia or baidu_ultr. Of events, OUT is a tally.

    Examples:
      foreclick convert yandex clicklog.txt.gz -o log.parquet
      foreclick convert ubi queries.parquet --events events.parquet -o tally.parquet
    """

    events: Annotated[str | None, Parameter(metavar="PATH")] = None
    """of ubi and algolia: the table of events; PATH is then that of searches"""
    day_length: Count = None
    """of relevance_prediction: how many units of time make a day (Naver: 86400000)"""

    def run(self, files: list[str], say: "Say") -> "Result":
        dataset, path, out = files if len(files) == 3 else (*files, self.needed())  # noqa: PLR2004
        _refuse_unknown(dataset)
        say(f"Reading {path}")
        if dataset in fc.events.READERS:
            return self._tallied(dataset, path, out)
        if self.events is not None:
            raise SourceError(f"--events: {dataset} has one table, {path}.")
        return fc.datasets.convert(dataset, path, out, day_length=self.day_length, progress=say)

    def _tallied(self, dataset: str, path: str, out: str) -> "Result":
        """A tally of the events of a tracker, and their ledger."""
        from foreclick.results import Result

        tables = [path] if self.events is None else [path, self.events]
        reader = fc.events.READERS[dataset]
        parameters = inspect.signature(reader).parameters.values()
        if len(tables) != sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters):
            raise SourceError(
                "ubi and algolia have two tables, PATH and --events; other trackers have one."
            )
        log = reader(*tables)
        fc.tally(log).write_parquet(out)
        row: dict[str, str | int] = {"fact": "records", "found": log.rows}
        found: Result = log.ledger or Result((row,), tuple(row))
        return replace(found, notes=(*found.notes, f"{out} is a tally."))


def _refuse_unknown(dataset: str) -> None:
    from difflib import get_close_matches

    known = [*fc.datasets.FORMATS, *fc.events.READERS]
    if dataset not in known:
        near = get_close_matches(dataset, known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise SourceError(f"there is no dataset {dataset!r}, but {', '.join(known)}.{hint}")


@command("LOG… -o FILE", group="Make files")
class Optimize(Log, Choice, Constraints, Listed, Judgement, Output):
    """The best ranking policy that a log supports, honestly judged.

    It goes to a .parquet or .csv file, which `evaluate` reads as a CANDIDATE.

    Examples:
      foreclick optimize tally.parquet -m dcg@10 -o policy.parquet
      foreclick optimize tally.parquet -o policy.csv --max-change 0.2 --banned banned.csv
    """

    verb = "optimize"
    no_fallback: Flag = None
    """a new policy also where none is sure to be better than production"""
    contexts: File = None
    """also what every context earns, would earn, and why it stays as it is"""
    workers: Count = None
    """processes that search; by default a core each"""

    def run(self, files: list[str], say: "Say") -> "Result":
        from foreclick.cli.inputs import read_constraints
        from foreclick.engines import checked_file, write_rows

        targets = [path for path in (self.needed(), self.contexts) if path is not None]
        for path in targets:  # before the work, not after
            checked_file(path)
        if len({Path(path).resolve() for path in targets}) < len(targets):
            raise SourceError(
                f"--output and --contexts are both {self.output!r}. Give each a file."
            )
        say("Reading the log")
        log = self.read(files)
        options = self.given(Choice, Constraints, Judgement) | read_constraints(self, log)
        if self.no_fallback:
            options["fallback"] = False
        found = fc.optimize(log, workers=self.workers or os.cpu_count() or 1, **options)
        say(f"Writing {Path(targets[0]).name}")
        found.write(targets[0])
        if self.contexts is not None:
            write_rows(found.contexts, self.contexts)
        return found


@command("LOG… -o FILE", group="Make files")
class Judgments(Log, Grading, Uncertainty, Output):
    """Grades of the items of each context, from clicks.

    By its ending, the file is .qrels (TREC), .json (OpenSearch), .csv (Quepid) or .parquet (all).

    Examples:
      foreclick judgments tally.parquet -o judgments.qrels
      foreclick judgments tally.parquet --max-error 0.5 -o quepid.csv
    """

    verb = "judgments"
    file_format: Literal["trec", "opensearch", "quepid", "table"] | None = None
    """of the file; by default by its ending"""

    def run(self, files: list[str], say: "Say") -> "Result":
        from foreclick.questions.judgments import checked_format

        checked_format(self.needed(), self.file_format)  # before the work, not after
        say("Reading the log")
        log = self.read(files)
        say("Looking for items that moved")
        found = fc.judgments(log, **self.given(Grading, Uncertainty))
        say(f"Writing {Path(self.needed()).name}")
        found.write(self.needed(), format=self.file_format)
        return found


@command("[OUT]", title="Simulation", group="Start here")
class Simulate(Run, Output):
    """Write a log with a known truth, and a candidate for it.

    OUT, or -o, is a directory, for one file a day, or a .parquet file.

    Examples:
      foreclick simulate log.parquet --records 200000 --candidate candidate.parquet
      foreclick simulate logs --world pbm-drift --seed 7
    """

    verb = "simulate.presets:yandex_like"
    world: World | None = None
    """which world; by default the first"""
    records: Count = None
    """how many records; of illustrative-query by default 3553"""
    queries: Count = None
    """how many queries"""
    seed: Whole = None
    """another is another world"""
    candidate: File = None
    """also write a candidate, a .parquet file, and say what it is truly worth"""

    def run(self, files: list[str], say: "Say") -> "Result":
        from foreclick.cli.simulated import write_simulation

        return write_simulation(self, files[0] if files else self.needed(), say)


@command("[LOG…]", title="Simulation", group="Start here")
class Reproduce(Log, Output):
    """The experiments of the paper, on your log or a simulated one.

    With -o, the figures go to a directory (needs foreclick[charts]).

    Examples:
      foreclick reproduce -o figures
      foreclick reproduce yandex.parquet
    """

    verb = "reproduce:reproduce"
    world: Literal["yandex-like", "pbm-drift"] | None = None
    """which world; by default the first"""
    records: Count = None
    """how many records"""
    seed: Whole = None
    """another is another world"""

    def run(self, files: list[str], say: "Say") -> "Result":
        from foreclick.cli.inputs import refuse_idle
        from foreclick.reproduce import reproduce

        made_up = {
            name: value
            for name in ("world", "records", "seed")
            if (value := getattr(self, name)) is not None
        }
        if files:
            refuse_idle(made_up, "LOG is a log, and nothing is simulated")
            say("Reading the log")
            log = self.read(files, context="query", period="day")
            return reproduce(log, out=self.output, progress=say)
        refuse_idle(self.roles(), "without a LOG one is simulated")
        if "world" in made_up:
            made_up["world"] = fc.simulate.PRESETS[str(self.world)]
        return reproduce(out=self.output, engine=self.engine(), progress=say, **made_up)
