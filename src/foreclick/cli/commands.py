"""The commands: each reads what its options name, asks the library, and returns a result."""

from __future__ import annotations

import inspect
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import foreclick as fc
from foreclick.analysis.judgment_files import checked_format
from foreclick.cli.inputs import (
    ROLES,
    engine_of,
    estimators,
    given,
    read_candidate,
    read_candidates,
    read_constraints,
    read_logs,
    refuse_idle,
    roles_of,
)
from foreclick.engines import (
    checked_file,
    ending,
    has_place,
    local_path,
    located,
    total,
    write_rows,
)
from foreclick.errors import SourceError
from foreclick.logs import N
from foreclick.metrics import parse_any
from foreclick.reproduce import reproduce as paper
from foreclick.results import Result
from foreclick.simulate import PRESETS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    Say = Callable[[str], None]


def check(args: argparse.Namespace, say: Say) -> Result:
    """What is in a log."""
    say("Reading the log")
    log = read_logs(args, engine_of(args))
    say("Looking at what is in it")
    return fc.check(log)


def tally(args: argparse.Namespace, say: Say) -> Result:
    """Compress logs, or add up tallies, and write the sum; or each part of a log by itself."""
    if args.into:
        return _tallied_by_part(args, say)
    path = located(args.output)
    if ending(path) not in {".parquet", ".pq"} or not has_place(path):
        raise SourceError(
            f"the tally cannot be written to {args.output!r}: it is a Parquet file in a directory "
            "that exists. Give, for instance, -o tally.parquet."
        )
    say("Reading and counting the log")
    counted = fc.tally(read_logs(args, engine_of(args)))
    say(f"Writing {Path(path).name}")
    counted.write_parquet(path)
    sums = counted.table.aggregate(records=total(counted.table[N]), rows=counted.table.count())
    row = {"tally": path, **counted.engine.rows(sums)[0], "dropped": counted.dropped_rows}
    notes = [f"Left out, {cause}: {rows:,} rows." for cause, rows in counted.dropped.items()]
    return Result((row,), tuple(row), tuple(notes))


def _tallied_by_part(args: argparse.Namespace, say: Say) -> Result:
    if len(args.log) > 1 or args.half_life is not None:
        raise SourceError(
            "--into takes one LOG, a glob or a directory in quotes, and no --half-life, which is "
            "for reading the tallies."
        )
    found = fc.write_tallies(
        args.log[0], args.into, engine=engine_of(args), progress=say, **roles_of(args)
    )
    row: dict[str, str | int] = {
        "tallies": str(found.directory),
        "made": len(found.made),
        "kept": len(found.kept),
    }
    return Result((row,), tuple(row), (f"{found}.",))


def convert(args: argparse.Namespace, say: Say) -> Result:
    """A public dataset as Parquet."""
    say(f"Reading {args.path}")
    if args.dataset in fc.events.READERS:
        return _of_events(args)
    if args.events is not None:
        raise SourceError(f"--events: {args.dataset} has one table, {args.path}.")
    return fc.datasets.convert(
        args.dataset, args.path, args.out, day_length=args.day_length, progress=say
    )


def _of_events(args: argparse.Namespace) -> Result:
    """A tally of the events of a tracker, and their ledger."""
    tables = [args.path] if args.events is None else [args.path, args.events]
    reader = fc.events.READERS[args.dataset]
    parameters = inspect.signature(reader).parameters.values()
    if len(tables) != sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters):
        raise SourceError(
            "ubi and algolia have two tables, PATH and --events; other trackers have one."
        )
    log = reader(*tables)
    fc.tally(log).write_parquet(args.out)
    row: dict[str, str | int] = {"fact": "records", "found": log.rows}
    found: Result = log.ledger or Result((row,), tuple(row))
    return replace(found, notes=(*found.notes, f"{args.out} is a tally."))


def evaluate(args: argparse.Namespace, say: Say) -> Result:
    """The value of a candidate."""
    log, candidate = _log_and_candidate(args, say)
    options = given(args, (*_ASKED, "by")) | estimators(args, "ladder", "ip")
    return _evaluated(args, say, log, candidate, options)


def gate(args: argparse.Namespace, say: Say) -> Result:
    """One estimate and its verdict, for a pipeline to act on."""
    options = {"metrics": ["clicks@3"]} | given(args, _ASKED) | estimators(args, "ladder", "ip")
    if _several(args) or args.by:
        raise SourceError(
            "a gate has one answer: give one --metric, one --estimator and at most one --clip, and "
            "no --by."
        )
    log, candidate = _log_and_candidate(args, say)
    return _evaluated(args, say, log, candidate, options)


def _evaluated(
    args: argparse.Namespace,
    say: Say,
    log: fc.Log | fc.Tally,
    candidate: fc.Policy,
    options: dict[str, Any],
) -> Result:
    guardrails = dict(options.pop("guardrails", ()))
    if args.backtest:
        say("Holding out one period after the other")
        log = fc.tally(log)
        same = {k: v for k, v in options.items() if k in ("metrics", "estimators", "clip")}
        usual = inspect.signature(fc.evaluate).parameters["metrics"].default
        asked = parse_any([*same.get("metrics", usual), *guardrails])
        parts = [part for metric in asked for part in metric.parts if not part.shown]
        same["metrics"] = list(dict.fromkeys(parts))
        options = options | {"backtest": fc.backtest(log, **same, progress=say)}
    say("Evaluating")
    return fc.evaluate(log, candidate, guardrails=guardrails, **options)


def compare(args: argparse.Namespace, say: Say) -> Result:
    """Several candidates, paired."""
    if _several(args):
        raise SourceError(
            "candidates are compared by one number: give one --metric, one --estimator and at most "
            "one --clip."
        )
    options = given(args, ("missing", "confidence", "clusters", "practical", "cap"))
    one = {"metrics": "metric", "estimators": "estimator", "clip": "clip"}
    asked = given(args, tuple(one)) | estimators(args, "ladder")
    options |= {one[name]: value for name, (value,) in asked.items()}
    engine = engine_of(args)
    say("Reading the candidates")
    candidates = read_candidates(args, engine)
    say("Reading the log")
    log = read_logs(args, engine)
    say("Comparing")
    return fc.compare(log, candidates, **options)


def _several(args: argparse.Namespace) -> bool:
    """Whether more than one estimate is asked for."""
    return any(len(v) > 1 for v in given(args, ("metrics", "estimators", "clip")).values())


_ASKED = (
    *("metrics", "estimators", "clip", "missing", "logging"),
    *("confidence", "clusters", "interval", "practical", "cap", "guardrails"),
)


def support(args: argparse.Namespace, say: Say) -> Result:
    """How far the log can see."""
    log, candidate = _log_and_candidate(args, say)
    say("Looking for what was shown")
    asked = ("metrics", "estimators", "missing", "by", "cap")
    return fc.support(log, candidate, **given(args, asked))


def explore(args: argparse.Namespace, say: Say) -> Result:
    """What to show next, into a file if one is given."""
    if args.out is not None:
        checked_file(args.out)
    log, candidate = _log_and_candidate(args, say)
    say("Planning")
    options = given(args, _EXPLORE)
    if args.rows is not None:
        options["contexts"] = args.rows
    found = fc.explore(log, candidate, **options)
    if args.out is not None:
        found.write(args.out)
    return found


_EXPLORE = (
    *("metric", "effect", "share", "days", "power", "most", "records_per_day"),
    *("confidence", "missing"),
)


def backtest(args: argparse.Namespace, say: Say) -> Result:
    """Which estimator would have been right."""
    say("Reading the log")
    log = read_logs(args, engine_of(args))
    say("Holding out one period after the other")
    asked = ("metrics", "estimators", "clip", "ranks", "min_records", "min_held", "block")
    options = given(args, (*asked, "forward")) | estimators(args, "ladder", "ip")
    if args.count_by is not None:  # --weight is a column of the log
        options["weight"] = args.count_by
    return fc.backtest(log, **options, progress=say)


def optimize(args: argparse.Namespace, say: Say) -> Result:
    """The best policy, into a file."""
    files = [path for path in (args.out, args.contexts) if path is not None]
    for path in files:  # before the work, not after
        checked_file(path)
    if len({Path(path).resolve() for path in files}) < len(files):
        raise SourceError(f"--out and --contexts are both {args.out!r}. Give each a file.")
    say("Reading the log")
    log = read_logs(args, engine_of(args))
    options = given(args, _OPTIMIZE) | read_constraints(args, log)
    found = fc.optimize(log, workers=args.workers or os.cpu_count() or 1, **options)
    say(f"Writing {Path(args.out).name}")
    found.write(args.out)
    if args.contexts is not None:
        write_rows(found.contexts, args.contexts)
    return found


_OPTIMIZE = (
    *("metric", "estimator", "clip", "pessimism", "fallback", "max_change", "explore", "min_shown"),
    *("max_lists", "deterministic", "judge", "folds", "confidence"),
)


def examination(args: argparse.Namespace, say: Say) -> Result:
    """How much each position is looked at."""
    say("Reading the log")
    log = read_logs(args, engine_of(args))
    say("Looking for items that moved")
    options = given(args, ("depth", "slots", "within", "by", "confidence", "clusters"))
    if args.of is not None:  # --reward is a column of the log
        options["reward"] = args.of
    return fc.examination(log, **options)


def judgments(args: argparse.Namespace, say: Say) -> Result:
    """Grades of items, into a file."""
    checked_format(args.out, args.file_format)  # before the work, not after
    say("Reading the log")
    log = read_logs(args, engine_of(args))
    say("Looking for items that moved")
    options = given(args, ("examination", "max_error", "confidence", "clusters"))
    if args.of is not None:  # --reward is a column of the log
        options["reward"] = args.of
    found = fc.judgments(log, **options)
    say(f"Writing {Path(args.out).name}")
    found.write(args.out, format=args.file_format)
    return found


def simulate(args: argparse.Namespace, say: Say) -> Result:
    """A log with a known truth, as Parquet."""
    out = local_path(args.out)
    if out.suffix not in ("", ".parquet") and not out.is_dir():
        raise SourceError(
            f"a simulated log cannot be written to {args.out!r}: OUT is a directory, for one file "
            "a day, or a file that ends in .parquet."
        )
    if args.world == "illustrative-query":
        refuse_idle(args, ["queries"], "illustrative-query is one query")
    seed = args.seed or 0  # of the world, its history and its log alike
    say("Drawing the world")
    world = PRESETS[args.world](**given(args, ("records", "queries")), seed=seed)
    world.write_parquet(out, seed=seed, progress=say)
    files = sorted(out.glob("*.parquet")) if out.is_dir() else [out]
    row = {
        "log": args.out,
        "records": world.records,
        "files": len(files),
        "bytes": sum(file.stat().st_size for file in files),
    }
    note = "Read it with --context query --period day --unit user."
    return Result((row,), tuple(row), (note,))


def reproduce(args: argparse.Namespace, say: Say) -> Result:
    """The paper's experiments."""
    made_up = ("records", "seed", "world")
    if not args.log:
        refuse_idle(args, ROLES, "without a LOG one is simulated")
        options = given(args, made_up)
        if "world" in options:
            options["world"] = PRESETS[options["world"]]
        return paper(out=args.out, engine=engine_of(args), progress=say, **options)
    refuse_idle(args, made_up, "LOG is a log, and nothing is simulated")
    say("Reading the log")
    log = read_logs(args, engine_of(args), context="query", period="day")
    return paper(log, out=args.out, progress=say)


def _log_and_candidate(args: argparse.Namespace, say: Say) -> tuple[fc.Log | fc.Tally, fc.Policy]:
    """The candidate is read first: it is small, and a mistake in it is known at once."""
    engine = engine_of(args)
    say("Reading the candidate")
    candidate = read_candidate(args.candidate, args, engine)
    say("Reading the log")
    return read_logs(args, engine), candidate


COMMANDS = {
    "check": check,
    "convert": convert,
    "tally": tally,
    "evaluate": evaluate,
    "gate": gate,
    "compare": compare,
    "support": support,
    "explore": explore,
    "backtest": backtest,
    "optimize": optimize,
    "examination": examination,
    "judgments": judgments,
    "simulate": simulate,
    "reproduce": reproduce,
}
