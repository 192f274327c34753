"""First steps: `simulate` writes a log with a known truth, `demo` runs every step on one."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

from foreclick.cli.app import Options, app, command, given
from foreclick.errors import ForeclickError, SourceError
from foreclick.progress import report_step
from foreclick.results import Result

_METRIC = "clicks@3"
_MODELS = ("better", "similar", "worse")
_COLUMNS = "--context query --period day --unit user"


@command(
    "OUT",
    "world records queries seed candidate:candidate_file format quiet debug",
    group="Start here",
)
def simulate(files: list[str], options: Options) -> Result:
    """Write a log with a known truth, and a candidate for it.

    OUT is a directory, for one file a day, or a .parquet file. A shop is a directory with a log,
    three candidates, and their later A/B tests.

    Examples:
      foreclick simulate my-shop --world shop
      foreclick simulate log.parquet --records 200000 --candidate candidate.parquet
    """
    from foreclick.engines import write_rows
    from foreclick.engines.files import checked_file, local_path
    from foreclick.simulate import PRESETS

    target, candidate = files[0], options.candidate
    out = local_path(target)
    if options.world == "shop":
        return _write_shop(options, out)
    if out.suffix not in ("", ".parquet") and not out.is_dir():
        raise SourceError(
            f"a simulated log cannot be written to {target!r}: OUT is a directory, for one file "
            "a day, or a file that ends in .parquet."
        )
    if candidate is not None:
        checked_file(candidate)
        if local_path(candidate).parent.resolve() == out.resolve():
            raise SourceError(
                f"{candidate!r} would be read as part of the log in {target!r}: give the "
                "candidate a place of its own."
            )
    seed = options.seed or 0  # of the world, its history and its log alike
    report_step("Drawing the world")
    world = PRESETS[options.world or "yandex-like"]
    simulation = world(**given(options, "records queries"), seed=seed)
    simulation.write_parquet(out, seed=seed)
    written = sorted(out.glob("*.parquet")) if out.is_dir() else [out]
    row: dict[str, Any] = {
        "log": target,
        "records": simulation.records,
        "files": len(written),
        "bytes": sum(file.stat().st_size for file in written),
    }
    notes = [f"Read it with {_COLUMNS}."]
    if candidate is not None:
        report_step("Drawing a candidate")
        drawn = simulation.candidate(seed=seed)
        write_rows(drawn.table, candidate)
        truth = simulation.value(drawn, _METRIC)
        today = simulation.value(simulation.logging(), _METRIC)
        notes.append(
            f"{candidate} is a candidate. Its true {_METRIC} is {truth:.4f}, production's "
            f"{today:.4f}: {truth / today - 1:+.1%}."
        )
    return Result((row,), tuple(row), tuple(notes))


@command(
    "[RAW]",
    "figures world records:reproduced seed format quiet debug",
    group="Start here",
    saves=False,
)
def reproduce(files: list[str], options: Options) -> Result:
    """Run the paper's experiments, on Kaggle's log of Yandex.

    RAW is that log as downloaded, plain or gzip, or a tally of any log with lists of ten. Without
    RAW, the log is simulated. With -o, write the figures to a directory.

    Examples:
      foreclick reproduce train.gz -o figures
      foreclick reproduce -o figures --seed 700
    """
    from foreclick.engines.files import matches, no_file

    made = given(options, "records seed world")
    if files and made:
        raise SourceError(
            f"{files[0]!r} is a log, and --{next(iter(made))} is for a simulated one: give one."
        )
    if files and not matches(files[0]):  # before imports that take seconds
        raise SourceError(no_file(files[0]))
    from foreclick.reproduce import reproduce as experiments
    from foreclick.simulate import PRESETS

    if options.world is not None:
        made["world"] = PRESETS[options.world]
    return experiments(*files, out=options.figures, **made)


def _write_shop(options: Options, out: Path) -> Result:
    """Write the log of a shop, three candidates, and the A/B tests that came later."""
    from foreclick.engines import write_rows
    from foreclick.simulate.shop import Shop, draw_tests

    if out.suffix or options.candidate is not None:
        raise SourceError(
            f"a shop is a directory with a log, candidates and A/B tests, and {str(out)!r} is a "
            "file or has --candidate. Name a directory, without --candidate."
        )
    report_step("Drawing the shop")
    days, start = 42, 28  # four weeks, and two of tests
    versions = (
        1.05,
    ) * 6  # a new model a week, as good as the last: answers hold for the tests too
    total = (options.records or 60_000) * days // start
    shop = Shop(total, options.queries or 400, days=days, start=start, versions=versions)
    before, tests = draw_tests(shop, _MODELS, options.seed or 0)
    out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for name, table in {"log": before.log, **before.candidates, "tests": tests}.items():
        write_rows(table, out / f"{name}.parquet")
        rows.append({"file": str(out / f"{name}.parquet"), "rows": len(table)})
    lifts = ", ".join(f"{name} {before.lift(name, _METRIC):+.1%}" for name in _MODELS)
    notes = (
        f"Read the log with {_COLUMNS}, and the tests with --experiment model as well.",
        f"True lifts of {_METRIC}: {lifts}.",
    )
    return Result(tuple(rows), tuple(rows[0]), notes)


# --- the demo -------------------------------------------------------------------------------------

STEPS = (
    (
        "A search shop: a log of four weeks, and three new models that nobody has shown yet.",
        "simulate {0} --world shop --records 60000 --queries 200",
    ),
    (
        "Compress the log once. The tally answers everything that the log would.",
        f"tally {{0}}/log.parquet {_COLUMNS} -o {{0}}/tally.parquet",
    ),
    (
        "How many clicks would the first model get?",
        f"evaluate {{0}}/tally.parquet {{0}}/better.parquet -m {_METRIC}",
    ),
    (
        "Which of the three is the best?",
        f"compare {{0}}/tally.parquet -m {_METRIC} "
        + " ".join(f"--candidate {name}={{0}}/{name}.parquet" for name in _MODELS),
    ),
    (
        "Was that right? The A/B tests that came later: predicted by the control, and measured.",
        f"replay {{0}}/tests.parquet -m {_METRIC} --experiment model {_COLUMNS}",
    ),
)
"""The commands of the demo, each with its reason."""

_NEXT = """
Try next, on these files and on yours:

$ foreclick report {0}/tally.parquet {0}/better.parquet -o {0}/report.html
$ foreclick optimize {0}/tally.parquet -m clicks@3 -o {0}/policy.parquet
$ foreclick check {0}/tally.parquet --candidate {0}/similar.parquet
$ foreclick check your_log.parquet --context … --period …

"""


@command("[DIRECTORY]", "format quiet debug", group="Start here")
def demo(files: list[str], options: Options) -> Result:  # noqa: ARG001 - as every command
    """Run every step on a simulated shop, in 20 seconds.

    Its files go to DIRECTORY, by default foreclick-demo.

    Examples:
      foreclick demo
      foreclick demo /tmp/demo
    """
    directory = files[0] if files else "foreclick-demo"
    Path(directory).mkdir(parents=True, exist_ok=True)
    for number, (why, words) in enumerate(STEPS, start=1):
        line = words.format(shlex.quote(directory))
        report_step(f"Step {number} of {len(STEPS)}")
        sys.stdout.write(f"\n{number}. {why}\n\n$ foreclick {line}\n\n")
        if app(shlex.split(line)):
            raise ForeclickError(f"the demo ends here, at its step {number}.")
    sys.stdout.write(_NEXT.format(shlex.quote(directory)))
    return Result((), (), (f"The files are in {directory}.",))
