"""The commands that ask a log, and those that make files of it: functions of files and options."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import foreclick as fc
from foreclick.cli.app import CANDIDATE, LOG, OUTPUT, READING, Options, command, given, typed
from foreclick.errors import SourceError
from foreclick.options import OPTIONS
from foreclick.progress import report_step
from foreclick.secrets import masked

if TYPE_CHECKING:
    from foreclick.results import Result

_EVALUATE = "confidence min_effect guardrails missing estimators logging trained_until"
_SHARED = f"{LOG} {CANDIDATE} {OUTPUT}"
_GATE = f"metrics {_EVALUATE} replay format:gate_format"
_REPORT = "metrics confidence min_effect guardrails missing by"
_COMPARE = "metrics confidence missing estimators logging candidates min_effect"
_BACKTEST = "metrics ranks block forward estimators"
_EXPLORE = "min_effect missing share days power confidence"
_PLAN = f"metrics:one_metric {_EXPLORE}"
_OPTIMIZE = "pessimism max_change min_shown deterministic logging"


@command("LOG…", "candidate save", READING, _SHARED)
def check(files: list[str], options: Options) -> Result:
    """Describe a log, and what can be evaluated with it.

    With --candidate, also measure how much of what it shows was ever shown. With --save NAME,
    guess the columns that are not named and save all of them: later commands take NAME as LOG.

    Examples:
      foreclick check log.parquet --context query --period day --unit user
      foreclick check "logs/*.parquet" --save shop
      foreclick check tally.parquet --candidate new.parquet
    """
    if options.save is not None:
        _guessed(files, options)
    if options.candidate is not None:
        found: Result = fc.support(*_log_and_candidate(options, [*files, options.candidate]))
    else:
        found = fc.check(_log(options, files))
    if options.save is None:
        return found
    from foreclick.cli.inputs import given_roles
    from foreclick.logs.project import save_log

    said = save_log(options.save, files[0], given_roles(options))
    return replace(found, notes=(said, *found.notes))


@command("LOG… CANDIDATE", "metrics by", _EVALUATE, "replay", _SHARED)
def evaluate(files: list[str], options: Options) -> Result:
    """Estimate how many clicks a candidate would get.

    Examples:
      foreclick evaluate log.parquet new.parquet --context query --period day
      foreclick evaluate tally.parquet scores.csv --score relevance -m dcg@10
    """
    log, candidate = _log_and_candidate(options, files)
    report_step("Evaluating")
    return fc.evaluate(log, candidate, **_with_past(options, f"metrics by {_EVALUATE}"))


@command("LOG… CANDIDATE", _GATE, LOG, CANDIDATE, "output quiet debug", metrics="clicks@3")
def gate(files: list[str], options: Options) -> Result:
    """Gate a pipeline: exit 0 if better, 1 if not, 3 if unknown.

    Examples:
      foreclick gate tally.parquet new.parquet -m dcg@10 --min-effect 1%
      foreclick gate tally.parquet new.parquet --format github
    """
    _refuse_several(options, "a gate has one answer")
    options.metrics = options.metrics or ["clicks@3"]
    return evaluate(files, options)


@command("LOG… CANDIDATE -o FILE", _REPORT, "title no_backtest replay", _SHARED)
def report(files: list[str], options: Options) -> Result:
    """Write a page for the meeting that decides on a candidate.

    Examples:
      foreclick report tally.parquet new.parquet -o report.html
      foreclick report tally.parquet new.parquet --title "Ranker 7" -o r.html
    """
    _needed_output(options)
    log, candidate = _log_and_candidate(options, files)
    arguments = _with_past(options, _REPORT)
    result = fc.report(log, candidate, backtest=not options.no_backtest, **arguments)
    line = "Command", f"foreclick {shlex.join(map(masked, typed))}"
    return replace(result, title=options.title or "", made=(*result.made, line))


@command("LOG… --candidate NAME=FILE…", _COMPARE, _SHARED, metrics="clicks@3")
def compare(files: list[str], options: Options) -> Result:
    """Compare candidates with production and with each other.

    Examples:
      foreclick compare tally.parquet --candidate a=a.parquet --candidate b=b.parquet
      foreclick compare t.parquet --candidate a=a.csv --candidate b=b.csv -o ab.png
    """
    from foreclick.cli.inputs import read_candidate

    _refuse_several(options, "candidates are compared by one number")
    pairs = options.candidates or []
    if not pairs:
        raise SourceError("there is nothing to compare: give --candidate NAME=FILE.")
    names = [name for name, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SourceError(f"two candidates are called {twice!r}. Give each a name of its own.")
    arguments = {name: value for name, (value,) in given(options, "metrics estimators").items()}
    arguments |= given(options, "missing logging confidence min_effect")
    report_step("Reading the candidates")
    candidates = {name: read_candidate(path, options, files) for name, path in pairs}
    log = _log(options, files)
    report_step("Comparing")
    return fc.compare(log, candidates, **arguments)


@command("LOG… CANDIDATE", _PLAN, _SHARED, saves=False, metrics="clicks@3", min_effect=0.02)
def explore(files: list[str], options: Options) -> Result:
    """Plan the traffic and time that it takes to measure a candidate.

    With -o, write the policy to show to a .parquet or .csv file.

    Examples:
      foreclick explore tally.parquet new.parquet --min-effect 1% --share 5%
      foreclick explore tally.parquet new.parquet --days 14 -o explore.parquet
    """
    from foreclick.engines.files import checked_file

    if options.output is not None:
        checked_file(options.output)  # before the work, not after
    log, candidate = _log_and_candidate(options, files)
    report_step("Planning")
    plan = fc.explore(log, candidate, **given(options, f"metrics {_EXPLORE}"))
    if options.output is not None:
        plan.write(options.output)
    return plan


@command("LOG…", _BACKTEST, LOG, OUTPUT, estimators=("ladder", "list", "ip", "item", "pbm", "rctr"))
def backtest(files: list[str], options: Options) -> Result:
    """Measure which estimator would have been right on this log.

    Examples:
      foreclick backtest log.parquet --context query --period day
      foreclick backtest tally.parquet -m dcg@10 -o backtest.png
    """
    return fc.backtest(_log(options, files), **given(options, _BACKTEST))


@command("LOG…", "metrics confidence variant experiment control", LOG, OUTPUT)
def replay(files: list[str], options: Options) -> Result:
    """Predict past A/B tests, beside what they measured.

    The log has the lists and clicks of all arms. A tally of it needs --segments variant.

    Examples:
      foreclick replay tests.parquet --context query --period day --variant arm
      foreclick replay tally.parquet --experiment test --control old -o replay.png
    """
    from foreclick.logs.roles import MissingColumnsError
    from foreclick.tallies import is_tally

    arms = {"variant": options.variant or "variant", "experiment": options.experiment}
    if not all(is_tally(file) for file in files):
        named = [*(options.segments or ()), *filter(None, arms.values())]
        options.segments = list(dict.fromkeys(named))
    try:
        log = _log(options, files)
    except MissingColumnsError as error:
        raise error.by_option(**arms) from None
    return fc.replay(log, **given(options, "variant experiment control metrics confidence"))


@command("LOG…", "by within confidence", LOG, OUTPUT)
def examination(files: list[str], options: Options) -> Result:
    """Estimate how often users examine each position.

    Examples:
      foreclick examination log.parquet --context query --period day
      foreclick examination tally.parquet --by device -o curve.svg
    """
    return fc.examination(_log(options, files), **given(options, "by within confidence"))


@command("LOG… -o FILE", "confidence", LOG, OUTPUT, group="Make files", saves=False)
def judgments(files: list[str], options: Options) -> Result:
    """Grade the items of each query by clicks, as a judgment file.

    FILE ends in .qrels, .txt, .json, .csv or .parquet.

    Examples:
      foreclick judgments log.parquet --context query --period day -o grades.qrels
      foreclick judgments tally.parquet -o grades.csv
    """
    from foreclick.engines.files import checked_file
    from foreclick.questions.judgments import ENDINGS

    path = checked_file(_needed_output(options), ENDINGS)
    found = fc.judgments(_log(options, files), **given(options, "confidence"))
    report_step(f"Writing {Path(path).name}")
    found.save(path)
    return found


def _log(options: Options, files: list[str]) -> fc.Log | fc.Tally:
    report_step("Reading the log")
    from foreclick.cli.inputs import read_log

    return read_log(options, files)


def _log_and_candidate(options: Options, files: list[str]) -> tuple[fc.Log | fc.Tally, fc.Policy]:
    """LOG… CANDIDATE. The candidate is read first: it is small, and a mistake known at once."""
    from foreclick.cli.inputs import read_candidate

    *log, path = files
    report_step("Reading the candidate")
    policy = read_candidate(path, options, log)
    return _log(options, log), policy


def _guessed(files: list[str], options: Options) -> None:
    """Options for the columns that were not named, by their names and types."""
    from foreclick.engines import open_source
    from foreclick.logs.project import proposed

    if len(files) != 1:
        raise SourceError("--save is for one log: give one file, directory or glob.")
    for role, column in proposed(open_source(files[0])).items():
        if getattr(options, role) is None:
            setattr(options, role, column)


def _needed_output(options: Options) -> str:
    """The file of a command that has no other place for its result."""
    if options.output is None:
        raise SourceError("there is no file for the result: name one with -o, --output.")
    return str(options.output)


def _refuse_several(options: Options, why: str) -> None:
    if any(len(values or ()) > 1 for values in (options.metrics, options.estimators)):
        raise SourceError(f"{why}: give one --metric and one --estimator.")


def _with_past(options: Options, names: str) -> dict[str, Any]:
    """Options of an evaluation, with the errors of past A/B tests if there is a file of them."""
    arguments = given(options, names)
    if options.replay is None:
        return arguments
    tests = fc.read_tally(options.replay)
    test = "experiment" if "experiment" in tests.shape.segments else None
    metrics = [*arguments.get("metrics", OPTIONS["metrics"].default)]
    metrics += arguments.get("guardrails", ())
    past = fc.replay(tests, experiment=test, metrics=metrics)
    return arguments | {"confidence": fc.Confidence(arguments.get("confidence", 0.95), past=past)}


# --- files ----------------------------------------------------------------------------------------


@command("LOG… -o FILE", "tracker", READING, LOG, OUTPUT, group="Make files", saves=False)
def tally(files: list[str], options: Options) -> Result:
    """Compress logs or events to one small file; add up tallies.

    With --tracker, LOG has the events of a tracker, or is a public log.

    Examples:
      foreclick tally log.parquet --context query --period day -o tally.parquet
      foreclick tally monday.parquet tuesday.parquet -o both.parquet
      foreclick tally queries.parquet events.parquet --tracker ubi -o tally.parquet
    """
    from foreclick.engines.files import checked_file
    from foreclick.results import Result

    path = checked_file(_needed_output(options), (".parquet", ".pq"))
    ledger: Result | None = None
    if options.tracker is None:
        counted = fc.tally(_log(options, files))
    else:
        if len(files) != (2 if options.tracker in ("ubi", "algolia") else 1):
            raise SourceError(
                "ubi and algolia have two tables, searches and events; others have one."
            )
        public = options.tracker in fc.datasets.READERS  # logs whose columns are known
        named = {} if public else given(options, "context period unit segments where")
        readers: Any = fc.datasets.READERS if public else fc.events.READERS
        events = readers[options.tracker](*files, **named)
        ledger, counted = events.ledger, fc.tally(events)
    report_step(f"Writing {Path(path).name}")
    counted.write_parquet(path)
    if ledger is not None:
        return replace(ledger, notes=(*ledger.notes, f"{path} is a tally."))
    row = {"tally": path, **counted.counts(), "dropped": counted.dropped_rows}
    notes = [f"Left out, {cause}: {rows:,} rows." for cause, rows in counted.dropped.items()]
    return Result((row,), tuple(row), tuple(notes))


@command(
    "LOG… -o FILE",
    "metrics:one_metric estimators:policy_estimator",
    _OPTIMIZE,
    "pinned banned contexts",
    LOG,
    OUTPUT,
    group="Make files",
    saves=False,
    metrics="dcg@10",
    estimators="ladder-ip",
)
def optimize(files: list[str], options: Options) -> Result:
    """Find the best ranking policy that a log supports.

    Held-out records judge its value. FILE ends in .parquet or .csv; `evaluate` reads it as a
    CANDIDATE.

    Examples:
      foreclick optimize tally.parquet -m dcg@10 -o policy.parquet
      foreclick optimize tally.parquet --max-change 20% -o policy.csv
    """
    from foreclick.cli.inputs import read_constraints
    from foreclick.engines import write_rows
    from foreclick.engines.files import checked_file

    targets = [path for path in (_needed_output(options), options.contexts) if path is not None]
    for path in targets:  # before the work, not after
        checked_file(path)
    if len({Path(path).resolve() for path in targets}) < len(targets):
        raise SourceError(f"--output and --contexts are both {options.output!r}. Give each a file.")
    log = _log(options, files)
    fc.settings(workers=os.cpu_count() or 1)
    arguments = given(options, f"metrics estimators {_OPTIMIZE}") | read_constraints(options)
    best = fc.optimize(log, **arguments)
    report_step(f"Writing {Path(targets[0]).name}")
    best.write(targets[0])
    if options.contexts is not None:
        write_rows(best.contexts, options.contexts)
    return best
