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
    Confidence,
    Constraints,
    Grading,
    Judgement,
    Listed,
)
from foreclick.cli.values import Count, File, Whole
from foreclick.errors import SourceError

if TYPE_CHECKING:
    from foreclick.progress import Say
    from foreclick.results import Result

World = Literal["yandex-like", "pbm-drift", "illustrative-query", "shop"]


@command("LOG… -o FILE", title="Output", group="Make files")
class Tally(Log, Output):
    """Compress logs to one small file; add up tallies.

    Examples:
      foreclick tally log.parquet --context query --period day --unit user -o tally.parquet
      foreclick tally monday.parquet tuesday.parquet -o both.parquet
    """

    def run(self, files: list[str], say: "Say") -> "Result":
        from foreclick.engines import ending, has_place, located
        from foreclick.results import Result

        path = located(self.needed())
        if ending(path) not in {".parquet", ".pq"} or not has_place(path):
            raise SourceError(
                f"the tally cannot be written to {self.output!r}: it is a Parquet file in a "
                "directory that exists. Give, for instance, -o tally.parquet."
            )
        say("Reading and counting the log")
        counted = fc.tally(self.read(files))
        say(f"Writing {Path(path).name}")
        counted.write_parquet(path)
        row = {"tally": path, **counted.counts(), "dropped": counted.dropped_rows}
        notes = [f"Left out, {cause}: {rows:,} rows." for cause, rows in counted.dropped.items()]
        return Result((row,), tuple(row), tuple(notes))


@command("TRACKER PATH [OUT]", title="Events", group="Make files")
class Convert(Run, Output):
    """Tally the events of a tracker.

    TRACKER is ubi, ga4, snowplow or algolia.

    Examples:
      foreclick convert ga4 events.parquet -o tally.parquet
      foreclick convert ubi queries.parquet --events events.parquet -o tally.parquet
    """

    events: Annotated[str | None, Parameter(metavar="PATH")] = None
    """of ubi and algolia: the table of events; PATH is then that of searches"""

    def run(self, files: list[str], say: "Say") -> "Result":
        from foreclick.words import did_you_mean

        tracker, path, out = files if len(files) == 3 else (*files, self.needed())
        readers = fc.events.READERS
        if tracker not in readers:
            hint = did_you_mean(tracker, readers)
            raise SourceError(f"there is no tracker {tracker!r}, but {', '.join(readers)}.{hint}")
        tables = [path] if self.events is None else [path, self.events]
        parameters = inspect.signature(readers[tracker]).parameters.values()
        if len(tables) != sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters):
            raise SourceError(
                "ubi and algolia have two tables, PATH and --events; other trackers have one."
            )
        say(f"Reading {path}")
        log = readers[tracker](*tables)
        fc.tally(log).write_parquet(out)
        ledger: Result = log.ledger
        return replace(ledger, notes=(*ledger.notes, f"{out} is a tally."))


@command("LOG… -o FILE", group="Make files")
class Optimize(Log, Choice, Constraints, Listed, Judgement, Output):
    """The best ranking policy that a log supports, honestly judged.

    It goes to a .parquet or .csv file, which `evaluate` reads as a CANDIDATE.

    Examples:
      foreclick optimize tally.parquet -m dcg@10 -o policy.parquet
      foreclick optimize tally.parquet -o policy.csv --max-change 0.2 --banned banned.csv
    """

    verb = "optimize"
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
        fc.settings(workers=self.workers or os.cpu_count() or 1)
        found = fc.optimize(log, **options)
        say(f"Writing {Path(targets[0]).name}")
        found.write(targets[0])
        if self.contexts is not None:
            write_rows(found.contexts, self.contexts)
        return found


@command("LOG… -o FILE", group="Make files")
class Judgments(Log, Grading, Confidence, Output):
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
        found = fc.judgments(log, **self.given(Grading, Confidence))
        say(f"Writing {Path(self.needed()).name}")
        found.write(self.needed(), format=self.file_format)
        return found


@command("[OUT]", title="Simulation", group="Start here")
class Simulate(Run, Output):
    """Write a log with a known truth, and a candidate for it.

    OUT, or -o, is a directory, for one file a day, or a .parquet file. A shop is a directory with a
    log, three candidates, and the A/B tests of them that came later.

    Examples:
      foreclick simulate my-shop --world shop
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
