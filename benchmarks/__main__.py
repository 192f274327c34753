"""Runs a study or a measurement by its name: `python -m benchmarks NAME [options]`."""

from __future__ import annotations

import contextlib
import sys
from importlib import import_module

from benchmarks.study import STUDIES, run

MODULES = (
    *("shop", "exam", "replay", "headline", "ladder", "replications", "candidates", "judgments"),
    *("ratios", "optimize", "unexplored", "real", "torture", "perf"),
)
"""Those with studies, most of which are called as their module is."""

HOMES = {"drawing": "shop", "coverage": "replications", "verdicts": "candidates"}
COMMANDS = {"spark": "perf.spark", "evidence": "evidence.main"}
"""What measures or makes something else, and the function that does it."""


def described() -> str:
    """Every study, and what it asks."""
    for module in MODULES:
        with contextlib.suppress(SystemExit):  # one that wants what is not installed
            import_module(f"benchmarks.{module}")
    said = ((name, each.answers.__doc__ or "") for name, each in STUDIES.items())
    lines = [f"  {name:22}{text.splitlines()[0]}" for name, text in said]
    return "\n".join([*lines, *(f"  {name}" for name in COMMANDS)])


def main() -> None:
    """Find the study by one or two words, and run it with the rest."""
    first, *rest = sys.argv[1:] or [""]
    if first in COMMANDS:
        module, function = COMMANDS[first].split(".")
        getattr(import_module(f"benchmarks.{module}"), function)(rest)
        return
    home = HOMES.get(first, first)
    if home not in MODULES:
        raise SystemExit(f"{__doc__}\n\n{described()}\n\nNAME --help says what each may be asked.")
    import_module(f"benchmarks.{home}")
    two = " ".join([first, *rest[:1]])
    name, given = (two, rest[1:]) if two in STUDIES else (first, rest)
    if name not in STUDIES:
        parts = ", ".join(part for part in STUDIES if part.startswith(first))
        raise SystemExit(f"{name!r} has parts: {parts}")
    run(name, given)


if __name__ == "__main__":
    main()
