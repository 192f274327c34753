"""A simulated log as files, and a candidate for it with its true value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from foreclick.engines import checked_file, local_path, write_rows
from foreclick.errors import SourceError
from foreclick.results import Result
from foreclick.simulate import PRESETS, Simulation

if TYPE_CHECKING:
    from pathlib import Path

    from foreclick.cli.commands import Simulate
    from foreclick.progress import WriteLine

_METRIC = "clicks@3"
SHOP = "shop"
"""The world that is a directory of files."""


def write_simulation(args: Simulate, target: str, say: WriteLine) -> Result:
    """Write the log, and the candidate if one is wanted."""
    if args.world == SHOP:
        return _write_shop(args, target, say)
    out = _checked(args, target)
    seed = args.seed or 0  # of the world, its history and its log alike
    say("Drawing the world")
    sizes = {"records": args.records, "queries": args.queries}
    given: dict[str, Any] = {name: size for name, size in sizes.items() if size is not None}
    simulation = PRESETS[args.world or "yandex-like"](**given, seed=seed)
    simulation.write_parquet(out, seed=seed)
    files = sorted(out.glob("*.parquet")) if out.is_dir() else [out]
    row: dict[str, Any] = {
        "log": target,
        "records": simulation.records,
        "files": len(files),
        "bytes": sum(file.stat().st_size for file in files),
    }
    notes = ["Read it with --context query --period day --unit user."]
    if args.candidate is not None:
        say("Drawing a candidate")
        notes.append(_write_candidate(simulation, args.candidate, seed))
    return Result((row,), tuple(row), tuple(notes))


def _write_shop(args: Simulate, target: str, say: WriteLine) -> Result:
    """Write the log of a shop, three candidates, and the A/B tests that came later."""
    from foreclick.simulate.shop import Shop, draw_tests

    out = local_path(target)
    if out.suffix or args.candidate is not None:
        raise SourceError(
            f"a shop is a directory with a log, candidates and A/B tests, and {target!r} is a file "
            "or has --candidate. Name a directory, without --candidate."
        )
    say("Drawing the shop")
    records, models = args.records or 60_000, ("better", "equal", "worse")
    days, start = 42, 28  # four weeks, and two of tests
    alike = (1.05,) * 6  # a new model a week, as good as the last: answers hold for the tests too
    total, queries = records * days // start, args.queries or 400
    shop = Shop(total, queries, days=days, start=start, versions=alike)
    before, tests = draw_tests(shop, models, args.seed or 0)
    out.mkdir(parents=True, exist_ok=True)
    tables = {"log": before.log, **before.candidates, "tests": tests}
    for name, table in tables.items():
        write_rows(table, out / f"{name}.parquet")
    rows: list[dict[str, Any]] = [
        {"file": str(out / f"{n}.parquet"), "rows": len(t)} for n, t in tables.items()
    ]
    lifts = ", ".join(f"{name} {before.lift(name, _METRIC):+.1%}" for name in models)
    columns = "--context query --period day --unit user"
    notes = (
        f"Read the log with {columns}, and the tests with --experiment model as well.",
        f"True lifts of {_METRIC}: {lifts}.",
    )
    return Result(tuple(rows), tuple(rows[0]), notes)


def _checked(args: Simulate, target: str) -> Path:
    """Refuse what could not be written, or would change nothing, before the work."""
    out = local_path(target)
    if out.suffix not in ("", ".parquet") and not out.is_dir():
        raise SourceError(
            f"a simulated log cannot be written to {target!r}: OUT is a directory, for one file "
            "a day, or a file that ends in .parquet."
        )
    if args.world == "illustrative-query" and args.queries is not None:
        raise SourceError(
            "illustrative-query is one query: --queries would change nothing. Leave it out."
        )
    if args.candidate is not None:
        checked_file(args.candidate)
        if local_path(args.candidate).parent.resolve() == out.resolve():
            raise SourceError(
                f"{args.candidate!r} would be read as part of the log in {target!r}: give the "
                "candidate a place of its own."
            )
    return out


def _write_candidate(simulation: Simulation, path: str, seed: int) -> str:
    """Write a candidate; what it is truly worth, in words."""
    candidate = simulation.candidate(seed=seed)
    write_rows(candidate.table, path)
    truth = simulation.value(candidate, _METRIC)
    today = simulation.value(simulation.logging(), _METRIC)
    return (
        f"{path} is a candidate. Its true {_METRIC} is {truth:.4f}, production's {today:.4f}: "
        f"{truth / today - 1:+.1%}."
    )
