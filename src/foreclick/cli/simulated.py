"""A simulated log as files, and a candidate for it with its true value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from foreclick.engines import checked_file, local_path, write_rows
from foreclick.errors import SourceError
from foreclick.results import Result
from foreclick.simulate import PRESETS, Simulation

if TYPE_CHECKING:
    from pathlib import Path

    from foreclick.cli.making import Simulate
    from foreclick.progress import Say

_METRIC = "clicks@3"


def write_simulation(args: Simulate, target: str, say: Say) -> Result:
    """Write the log, and the candidate if one is wanted."""
    out = _checked(args, target)
    seed = args.seed or 0  # of the world, its history and its log alike
    say("Drawing the world")
    sizes = {"records": args.records, "queries": args.queries}
    given: dict[str, Any] = {name: size for name, size in sizes.items() if size is not None}
    simulation = PRESETS[args.world or "yandex-like"](**given, seed=seed)
    simulation.write_parquet(out, seed=seed, progress=say)
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
