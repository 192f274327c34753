"""Commands that ask something of a log."""

# No `from __future__ import annotations`: `command` reads the types of fields.
import inspect
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from cyclopts import Parameter

import foreclick as fc
from foreclick.cli.app import command, typed
from foreclick.cli.options import Candidate, Candidates, Log, Output, Picture, Written, options
from foreclick.cli.questions import (
    Confidence,
    Exploring,
    Guarded,
    Metrics,
    MinEffect,
    Missing,
    MissingOrDropped,
    Places,
    Protocol,
    Question,
    Split,
    Verdicts,
)
from foreclick.cli.values import Column, Count, File, Flag, Period
from foreclick.errors import SourceError
from foreclick.secrets import masked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreclick.progress import Say
    from foreclick.results import Result


@command("LOG…")
class Check(Log, Written):
    """What is in a log, and what can be evaluated with it.

    Examples:
      foreclick check log.parquet --context query --period day --unit user
      foreclick check 'logs/*.parquet' --context query --where "day = '2026-10-01'"
    """

    def run(self, files: list[str], say: "Say") -> "Result":
        say("Reading the log")
        log = self.read(files)
        say("Looking at what is in it")
        return fc.check(log)


@options("Uncertainty")
class _Judged(Candidate, Question, Split, MissingOrDropped, Verdicts):
    """What `evaluate` and `gate` share."""

    replay: File = None
    """a tally of past A/B tests, with the segment variant (and experiment): let the verdict allow
    for how far off predictions of them are"""

    trained_until: Period = None
    """the last period whose clicks the candidate was trained on; later ones alone count"""

    def evaluated(self, files: list[str], say: "Say", **usual: Any) -> "Result":  # noqa: ANN401
        log, candidate = self.read_both(files, say)
        options = usual | self.given(Question, Split, MissingOrDropped, Verdicts)
        guardrails = dict(options.pop("guardrails", ()))
        if self.trained_until is not None:
            options["trained_until"] = self.trained_until
        if self.replay:
            past = _replayed(self.replay, options, guardrails)
            options["confidence"] = fc.Confidence(options.get("confidence", 0.95), past=past)
        say("Evaluating")
        return fc.evaluate(log, candidate, guardrails=guardrails, **options)

    @property
    def several(self) -> bool:
        """Whether more than one estimate is asked for."""
        return any(len(found or ()) > 1 for found in (self.metrics, self.estimators))


def usual_metrics() -> "Sequence[str]":
    """The metrics that `evaluate` has by default."""
    found: Sequence[str] = inspect.signature(fc.evaluate).parameters["metrics"].default
    return found


def _replayed(file: str, options: dict[str, Any], guardrails: dict[str, float]) -> "Result":
    """Past A/B tests by the metrics that an evaluation is about."""
    tests = fc.read_tally(file)
    test = "experiment" if "experiment" in tests.shape.segments else None
    metrics = [*options.get("metrics", usual_metrics()), *guardrails]
    return fc.replay(tests, experiment=test, metrics=metrics)


@command("LOG… CANDIDATE")
class Evaluate(_Judged, Written):
    """How many clicks a candidate would get.

    Examples:
      foreclick evaluate log.parquet new.parquet --context query --period day
      foreclick evaluate tally.parquet scores.csv --score relevance -m dcg@10
      foreclick evaluate tally.parquet new.parquet --all --format table -o all.csv
    """

    verb = "evaluate"
    all: Flag = None
    """every estimator, as --estimator all"""

    def run(self, files: list[str], say: "Say") -> "Result":
        return self.evaluated(files, say, **({"estimators": "all"} if self.all else {}))


@command("LOG… CANDIDATE", title="Output")
class Gate(_Judged, Written):
    """For pipelines: exit 0 if better, 1 if not, 3 if unknown.

    Examples:
      foreclick gate tally.parquet new.parquet -m dcg@10 --min-effect 1%
      foreclick gate tally.parquet new.parquet --format github
      foreclick gate tally.parquet new.parquet --format junit > gate.xml
    """

    verb = "evaluate"
    usual: ClassVar = {"metrics": ["clicks@3"]}  # one, not two
    format: Literal["answer", "table", "json", "csv", "github", "junit"] | None = None  # type: ignore[assignment]
    """how to print: the answer in words (default), all numbers, or what a pipeline shows"""

    def run(self, files: list[str], say: "Say") -> "Result":
        if self.several or self.by:
            raise SourceError(
                "a gate has one answer: give one --metric, one --estimator and no --by."
            )
        return self.evaluated(files, say, **self.usual)


@command("LOG… CANDIDATE -o FILE", title="Output")
class Report(Candidate, Metrics, Split, MissingOrDropped, Confidence, Guarded, Output):
    """A page for the meeting that decides on a candidate.

    Examples:
      foreclick report tally.parquet new.parquet -o report.html
      foreclick report tally.parquet new.parquet -m dcg@10 --title "Ranker 7" -o report.html
    """

    verb = "report"
    title: Annotated[str | None, Parameter(metavar="TEXT")] = None
    """the heading of the page"""
    no_backtest: Flag = None
    """without a backtest, which takes most of the time"""
    replay: File = None
    """a tally of past A/B tests, with the segment variant (and experiment), to be shown too"""

    def run(self, files: list[str], say: "Say") -> "Result":
        from foreclick.rendering import checked

        target = checked(self.needed())  # before the work, not after
        log, candidate = self.read_both(files, say)
        options = self.given(Metrics, Split, MissingOrDropped, Confidence, Guarded)
        options |= {k: v for k in ("title",) if (v := getattr(self, k)) is not None}
        if "guardrails" in options:
            options["guardrails"] = dict(options["guardrails"])
        if self.no_backtest:
            options["backtest"] = False
        if self.replay:
            rails = options.get("guardrails", {})
            past = _replayed(self.replay, options, rails)
            options["confidence"] = fc.Confidence(options.get("confidence", 0.95), past=past)
        found = fc.report(log, candidate, **options)
        command = "Command", f"foreclick {shlex.join(map(masked, typed))}"
        found = replace(found, made=(*found.made, command))
        say(f"Writing {target}")
        found.save(target)
        return found


@command("LOG… --candidate NAME=FILE…")
class Compare(Candidates, Question, Missing, Confidence, MinEffect, Written):
    """Several candidates against each other and against production.

    Examples:
      foreclick compare tally.parquet --candidate a=a.parquet --candidate b=b.parquet
      foreclick compare tally.parquet --candidate a=a.csv --candidate b=b.csv --chart pairs.png
    """

    verb = "compare"

    def run(self, files: list[str], say: "Say") -> "Result":
        from foreclick.cli.inputs import read_candidates, with_names

        asked = self.given(Question)
        if any(len(value) > 1 for value in asked.values()):
            raise SourceError(
                "candidates are compared by one number: give one --metric and one --estimator."
            )
        if not self.candidates:
            raise SourceError("there is nothing to compare: give --candidate NAME=FILE.")
        options = self.given(Missing, Confidence, MinEffect)
        options |= {name: value for name, (value,) in asked.items()}
        say("Reading the candidates")
        candidates = read_candidates(with_names(self, files))
        say("Reading the log")
        log = self.read(files)
        say("Comparing")
        return fc.compare(log, candidates, **options)


@command("LOG… CANDIDATE")
class Support(Candidate, Question, Split, MissingOrDropped, Written):
    """How much of what a candidate shows was ever shown.

    Examples:
      foreclick support tally.parquet new.parquet
      foreclick support tally.parquet new.parquet -m dcg@10 --by country
    """

    verb = "support"

    def run(self, files: list[str], say: "Say") -> "Result":
        log, candidate = self.read_both(files, say)
        say("Looking for what was shown")
        options = self.given(Question, Split, MissingOrDropped)
        return fc.support(log, candidate, **options)


@command("LOG… CANDIDATE")
class Explore(Candidate, Exploring, Missing, Output, Picture):
    """How much traffic, and for how long, to measure a candidate.

    With -o, the policy to show goes to a .parquet or .csv file.

    Examples:
      foreclick explore tally.parquet new.parquet --min-effect 1% --share 5%
      foreclick explore tally.parquet new.parquet --days 14 -o explore.parquet
    """

    verb = "explore"

    def run(self, files: list[str], say: "Say") -> "Result":
        from foreclick.engines import checked_file

        if self.output is not None:
            checked_file(self.output)  # before the work, not after
        log, candidate = self.read_both(files, say)
        say("Planning")
        found = fc.explore(log, candidate, **self.given(Exploring, Missing))
        if self.output is not None:
            found.write(self.output)
        return found


@command("LOG…", title="Protocol")
class Backtest(Log, Question, Protocol, Written):
    """Which estimator would have been right on this log.

    Examples:
      foreclick backtest log.parquet --context query --period day
      foreclick backtest tally.parquet -m dcg@10 --chart backtest.png
    """

    verb = "backtest"
    count_by: Literal["pairs", "records"] | None = None
    """every context and period counts alike, or by its records"""

    def run(self, files: list[str], say: "Say") -> "Result":
        say("Reading the log")
        log = self.read(files)
        options = self.given(Question, Protocol)
        if self.count_by is not None:  # --weight is a column of the log
            options["weight"] = self.count_by
        return fc.backtest(log, **options)


@command("LOG…")
class Replay(Log, Metrics, Confidence, Written):
    """Past A/B tests: predicted beside measured.

    The log has the lists and clicks of all arms. A tally was made with --segments variant.

    Examples:
      foreclick replay tests.parquet --context query --period day --unit user --variant arm
      foreclick replay tally.parquet --experiment test --control old --chart replay.png
    """

    verb = "replay"
    variant: Column = None
    """which arm a record belongs to"""
    experiment: Column = None
    """which test, if there were several"""
    control: Annotated[str | None, Parameter(metavar="ARM")] = None
    """the arm that was there before; by default the one called control, else the largest"""

    def run(self, files: list[str], say: "Say") -> "Result":
        from foreclick.tallies.reading import is_tally

        say("Reading the log")
        names = [self.variant or "variant", *([self.experiment] if self.experiment else [])]
        raw = not all(is_tally(file) for file in files)
        segments = list(dict.fromkeys([*(self.segments or ()), *names])) if raw else self.segments
        log = replace(self, segments=segments).read(files)
        asked = {k: v for k in ("variant", "experiment", "control") if (v := getattr(self, k))}
        return fc.replay(log, **asked, **self.given(Metrics, Confidence))


@command("LOG…")
class Examination(Log, Places, Split, Confidence, Written):
    """How much each position is looked at, from items that moved.

    Examples:
      foreclick examination tally.parquet --chart examination.png
      foreclick examination log.parquet --context query --segments device --by device
    """

    verb = "examination"

    def run(self, files: list[str], say: "Say") -> "Result":
        say("Reading the log")
        log = self.read(files)
        say("Looking for items that moved")
        return fc.examination(log, **self.given(Places, Split, Confidence))


@command("LOG…")
class Contexts(Log, Output):
    """Contexts by traffic, with their items, for a ranker to score.

    With -o, all of them go to a .parquet or .csv file: context, records, share, items, shown.

    Examples:
      foreclick contexts log.parquet --context query -o contexts.parquet
      foreclick contexts tally.parquet --most 1000 --long -o pairs.csv
    """

    verb = "contexts"
    most: Count = None
    """only so many, those with most records"""
    long: Flag = None
    """write a row an item, for a ranker to add a score, rather than a row a context"""

    def run(self, files: list[str], say: "Say") -> "Result":
        from foreclick.engines import checked_file

        if self.output is not None:
            checked_file(self.output)  # before the work, not after
        say("Reading the log")
        log = self.read(files)
        found = fc.contexts(log, most=self.most)
        if self.output is not None:
            found.write(self.output, long=bool(self.long))
        return found
