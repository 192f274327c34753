"""The commands: each is a group of options with a method `run`."""

# No `from __future__ import annotations`: `options` reads the types of fields.
import inspect
import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from cyclopts import Parameter

import foreclick as fc
from foreclick.cli.app import command, typed
from foreclick.cli.options import (
    Candidate,
    Choice,
    Confidence,
    Exploring,
    Listed,
    Log,
    Metrics,
    Missing,
    Output,
    Protocol,
    Question,
    Reading,
    Run,
    Split,
    Verdicts,
    options,
)
from foreclick.cli.values import Column, Count, File, Flag, Period, Share, Whole, pair, several
from foreclick.errors import SourceError
from foreclick.secrets import masked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreclick.progress import WriteLine
    from foreclick.results import Result


@command("LOG…")
@options()
class Check(Candidate, Reading, Output):
    """What is in a log, and what can be evaluated with it.

    With a candidate: how much of what it shows was ever shown.

    Examples:
      foreclick check log.parquet --context query --period day --unit user
      foreclick check tally.parquet --candidate new.parquet
    """

    candidate: File = None
    """how much of this candidate was ever shown"""

    def run(self, files: list[str], say: "WriteLine") -> "Result":
        if self.candidate is not None:
            log, candidate = self.read_both([*files, self.candidate], say)
            return fc.support(log, candidate)
        say("Reading the log")
        return fc.check(self.read(files))


@options()
class _Judged(Candidate, Question, Missing, Verdicts, Output):
    """What `evaluate` and `gate` share."""

    verb = "evaluate"
    logging: Literal["frequency", "propensity"] | None = None
    """weigh by frequency or propensity; by default what suits the log"""
    trained_until: Period = None
    """the last period whose clicks the candidate was trained on; later ones alone count"""
    replay: File = None
    """a tally of past A/B tests: the verdict allows for how far off predictions of them are"""

    def evaluated(self, files: list[str], say: "WriteLine", **usual: Any) -> "Result":  # noqa: ANN401
        log, candidate = self.read_both(files, say)
        asked = usual | self.given(Question, Missing, Verdicts)
        for name in ("logging", "trained_until"):
            if getattr(self, name) is not None:
                asked[name] = getattr(self, name)
        say("Evaluating")
        return fc.evaluate(log, candidate, **_with_past(asked, self.replay))


def usual_metrics() -> "Sequence[str]":
    """The metrics that `evaluate` has by default."""
    found: Sequence[str] = inspect.signature(fc.evaluate).parameters["metrics"].default
    return found


def _with_past(asked: dict[str, Any], file: str | None) -> dict[str, Any]:
    """Options of an evaluation, with guardrails as a mapping and the errors of past A/B tests."""
    asked = asked | {"guardrails": dict(asked.get("guardrails", ()))}
    if file is None:
        return asked
    tests = fc.read_tally(file)
    test = "experiment" if "experiment" in tests.shape.segments else None
    metrics = [*asked.get("metrics", usual_metrics()), *asked["guardrails"]]
    past = fc.replay(tests, experiment=test, metrics=metrics)
    return asked | {"confidence": fc.Confidence(asked.get("confidence", 0.95), past=past)}


@command("LOG… CANDIDATE")
@options()
class Evaluate(_Judged, Split):
    """How many clicks a candidate would get.

    Examples:
      foreclick evaluate log.parquet new.parquet --context query --period day
      foreclick evaluate tally.parquet scores.csv --score relevance -m dcg@10
    """

    def run(self, files: list[str], say: "WriteLine") -> "Result":
        return self.evaluated(files, say, **self.given(Split))


@command("LOG… CANDIDATE")
@options()
class Gate(_Judged):
    """For pipelines: exit 0 if better, 1 if not, 3 if unknown.

    Examples:
      foreclick gate tally.parquet new.parquet -m dcg@10 --min-effect 1%
      foreclick gate tally.parquet new.parquet --format github
    """

    usual: ClassVar = {"metrics": ["clicks@3"]}  # one, not two
    format: Literal["answer", "table", "json", "csv", "github", "junit"] | None = None  # type: ignore[assignment]
    """how to print: the answer in words (default), all numbers, or what a pipeline shows"""

    def run(self, files: list[str], say: "WriteLine") -> "Result":
        if any(len(found or ()) > 1 for found in (self.metrics, self.estimators)):
            raise SourceError("a gate has one answer: give one --metric and one --estimator.")
        return self.evaluated(files, say, **self.usual)


@command("LOG… CANDIDATE -o FILE")
@options()
class Report(Candidate, Metrics, Split, Missing, Verdicts, Output):
    """A page for the meeting that decides on a candidate.

    Examples:
      foreclick report tally.parquet new.parquet -o report.html
      foreclick report tally.parquet new.parquet --title "Ranker 7" -o r.html
    """

    verb = "report"
    title: Annotated[str | None, Parameter(metavar="TEXT")] = None
    """the heading of the page"""
    no_backtest: Flag = None
    """without a backtest, which takes most of the time"""
    replay: File = None
    """a tally of past A/B tests, to be shown too"""

    def run(self, files: list[str], say: "WriteLine") -> "Result":
        self.needed()
        log, candidate = self.read_both(files, say)
        asked = self.given(Metrics, Split, Missing, Verdicts)
        asked |= {"title": self.title, "backtest": not self.no_backtest}
        found = fc.report(log, candidate, **_with_past(asked, self.replay))
        line = "Command", f"foreclick {shlex.join(map(masked, typed))}"
        return replace(found, made=(*found.made, line))


@command("LOG… --candidate NAME=FILE…")
@options()
class Compare(Candidate, Question, Missing, Confidence, Output):
    """Several candidates against each other and against production.

    Examples:
      foreclick compare tally.parquet --candidate a=a.parquet --candidate b=b.parquet
      foreclick compare t.parquet --candidate a=a.csv --candidate b=b.csv -o ab.png
    """

    verb = "compare"
    candidates: Annotated[
        list[tuple[str, str]] | None, several(pair, "NAME=FILE"), Parameter(name=["--candidate"])
    ] = None
    """a file, directory or glob, or a tally, and what to call it; repeatable"""
    min_effect: Share = None
    """the smallest change worth having, as a share of production: 1% or 0.01"""

    def run(self, files: list[str], say: "WriteLine") -> "Result":
        from foreclick.cli.inputs import read_candidate

        asked = self.given(Question)
        if any(len(value) > 1 for value in asked.values()):
            raise SourceError(
                "candidates are compared by one number: give one --metric and one --estimator."
            )
        pairs = self.candidates or []
        if not pairs:
            raise SourceError("there is nothing to compare: give --candidate NAME=FILE.")
        called = [name for name, _ in pairs]
        twice = next((name for name in called if called.count(name) > 1), None)
        if twice is not None:
            raise SourceError(f"two candidates are called {twice!r}. Give each a name of its own.")
        asked = {name: value for name, (value,) in asked.items()} | self.given(Missing, Confidence)
        if self.min_effect is not None:
            asked["min_effect"] = self.min_effect
        say("Reading the candidates")
        candidates = {name: read_candidate(path, self, files) for name, path in pairs}
        say("Reading the log")
        log = self.read(files)
        say("Comparing")
        return fc.compare(log, candidates, **asked)


@command("LOG… CANDIDATE")
@options()
class Explore(Candidate, Exploring, Missing, Output):
    """How much traffic, and for how long, to measure a candidate.

    With -o, the policy to show goes to a .parquet or .csv file.

    Examples:
      foreclick explore tally.parquet new.parquet --min-effect 1% --share 5%
      foreclick explore tally.parquet new.parquet --days 14 -o explore.parquet
    """

    verb = "explore"
    writes: ClassVar = True

    def run(self, files: list[str], say: "WriteLine") -> "Result":
        from foreclick.engines import checked_file

        if self.output is not None:
            checked_file(self.output)  # before the work, not after
        log, candidate = self.read_both(files, say)
        say("Planning")
        found = fc.explore(log, candidate, **self.given(Exploring, Missing))
        if self.output is not None:
            found.write(self.output)
        return found


@command("LOG…")
@options()
class Backtest(Log, Question, Protocol, Output):
    """Which estimator would have been right on this log.

    Examples:
      foreclick backtest log.parquet --context query --period day
      foreclick backtest tally.parquet -m dcg@10 -o backtest.png
    """

    verb = "backtest"

    def run(self, files: list[str], say: "WriteLine") -> "Result":
        say("Reading the log")
        return fc.backtest(self.read(files), **self.given(Question, Protocol))


@command("LOG…")
@options()
class Replay(Log, Metrics, Confidence, Output):
    """Past A/B tests: predicted beside measured.

    The log has the lists and clicks of all arms. A tally was made with --segments variant.

    Examples:
      foreclick replay tests.parquet --context query --period day --unit user --variant arm
      foreclick replay tally.parquet --experiment test --control old -o replay.png
    """

    verb = "replay"
    variant: Column = None
    """which arm a record belongs to"""
    experiment: Column = None
    """which test, if there were several"""
    control: Annotated[str | None, Parameter(metavar="ARM")] = None
    """the arm that was there before; by default the one called control, else the largest"""

    def run(self, files: list[str], say: "WriteLine") -> "Result":
        from foreclick.tallies.reading import is_tally

        say("Reading the log")
        named = [self.variant or "variant", *([self.experiment] if self.experiment else [])]
        raw = not all(is_tally(file) for file in files)
        segments = list(dict.fromkeys([*(self.segments or ()), *named])) if raw else self.segments
        log = replace(self, segments=segments).read(files)
        asked = {k: v for k in ("variant", "experiment", "control") if (v := getattr(self, k))}
        return fc.replay(log, **asked, **self.given(Metrics, Confidence))


# --- files ----------------------------------------------------------------------------------------


@command("LOG… -o FILE", "Make files")
@options()
class Tally(Reading, Output):
    """Compress logs to one small file; add up tallies; read the events of a tracker.

    Examples:
      foreclick tally log.parquet --context query --period day --unit user -o tally.parquet
      foreclick tally monday.parquet tuesday.parquet -o both.parquet
      foreclick tally queries.parquet events.parquet --tracker ubi -o tally.parquet
    """

    writes: ClassVar = True
    tracker: Literal["ubi", "ga4", "snowplow", "algolia"] | None = None
    """LOG are its events; of ubi and algolia the searches, then the events"""

    def run(self, files: list[str], say: "WriteLine") -> "Result":
        from foreclick.engines import ending, has_place, located
        from foreclick.results import Result

        path = located(self.needed())
        if ending(path) not in {".parquet", ".pq"} or not has_place(path):
            raise SourceError(
                f"the tally cannot be written to {self.output!r}: it is a Parquet file in a "
                "directory that exists. Give, for instance, -o tally.parquet."
            )
        say("Reading and counting the log")
        log = self.read(files) if self.tracker is None else self._events(files)
        counted = fc.tally(log)
        say(f"Writing {Path(path).name}")
        counted.write_parquet(path)
        if self.tracker is not None:
            ledger: Result = log.ledger  # type: ignore[union-attr]
            return replace(ledger, notes=(*ledger.notes, f"{path} is a tally."))
        row = {"tally": path, **counted.counts(), "dropped": counted.dropped_rows}
        notes = [f"Left out, {cause}: {rows:,} rows." for cause, rows in counted.dropped.items()]
        return Result((row,), tuple(row), tuple(notes))

    def _events(self, files: list[str]) -> "fc.Log":
        reader = fc.events.READERS[str(self.tracker)]
        parameters = inspect.signature(reader).parameters.values()
        needed = sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
        if len(files) != needed:
            raise SourceError(
                "ubi and algolia have two tables, searches and events; other trackers have one."
            )
        log: fc.Log = reader(*files)
        return log


@command("LOG… -o FILE", "Make files")
@options()
class Optimize(Log, Choice, Listed, Output):
    """The best ranking policy that a log supports, honestly judged.

    It goes to a .parquet or .csv file, which `evaluate` reads as a CANDIDATE.

    Examples:
      foreclick optimize tally.parquet -m dcg@10 -o policy.parquet
      foreclick optimize tally.parquet --max-change 20% -o policy.csv
    """

    verb = "optimize"
    writes: ClassVar = True
    contexts: File = None
    """also what every context earns, would earn, and why it stays as it is"""

    def run(self, files: list[str], say: "WriteLine") -> "Result":
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
        fc.settings(workers=os.cpu_count() or 1)
        found = fc.optimize(log, **self.given(Choice), **read_constraints(self))
        say(f"Writing {Path(targets[0]).name}")
        found.write(targets[0])
        if self.contexts is not None:
            write_rows(found.contexts, self.contexts)
        return found


@command("OUT", "Start here")
@options()
class Simulate(Run):
    """Write a log with a known truth, and a candidate for it.

    OUT is a directory, for one file a day, or a .parquet file. A shop is a directory with a log,
    three candidates, and the A/B tests of them that came later.

    Examples:
      foreclick simulate my-shop --world shop
      foreclick simulate log.parquet --records 200000 --candidate candidate.parquet
    """

    world: Literal["yandex-like", "pbm-drift", "illustrative-query", "shop"] | None = None
    """which world; by default the first"""
    records: Count = None
    """how many records"""
    queries: Count = None
    """how many queries"""
    seed: Whole = None
    """another is another world"""
    candidate: File = None
    """also write a candidate, a .parquet file, and say what it is truly worth"""

    def run(self, files: list[str], say: "WriteLine") -> "Result":
        from foreclick.cli.simulated import write_simulation

        return write_simulation(self, files[0], say)
