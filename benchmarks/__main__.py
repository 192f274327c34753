"""Runs a study or a measurement by its name: `python -m benchmarks NAME [options]`."""

from __future__ import annotations

import sys
from importlib import import_module

from benchmarks import study

MODULES = {
    "shop": "shop parts drawing",
    "exam": "exam",
    "replay": "replay",
    "notes": "notes",
    "headline": "headline",
    "ladder": "ladder",
    "coverage": "coverage",
    "verdicts": "verdicts pairs",
    "examination": "examination",
    "judgments": "judgments",
    "ratios": "ratios",
    "optimize": "optimize",
    "unexplored": "unexplored",
    "real": "real",
    "torture": "torture",
}
"""The first words of the studies of each module."""

COMMANDS = {"perf": "perf", "spark": "on_spark", "evidence": "evidence"}
"""What measures or makes something else, and the module whose `main` does it."""


def main() -> None:
    """Find the study by one or two words, and run it with the rest."""
    first, *rest = sys.argv[1:] or [""]
    if first in COMMANDS:
        import_module(f"benchmarks.{COMMANDS[first]}").main(rest)
        return
    module = next((m for m, names in MODULES.items() if first in names.split()), None)
    if module is None:
        every = " ".join([*MODULES.values(), *COMMANDS])
        raise SystemExit(f"{__doc__}\n\n{every}\n\nNAME --help says what each may be asked.")
    import_module(f"benchmarks.{module}")
    two = " ".join([first, *rest[:1]])
    name, given = (two, rest[1:]) if two in study.STUDIES else (first, rest)
    if name not in study.STUDIES:
        raise SystemExit(f"{name!r} has parts: {', '.join(study.STUDIES)}")
    study.run(name, given)


if __name__ == "__main__":
    main()
