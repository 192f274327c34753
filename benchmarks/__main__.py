"""Runs a study or a measurement by its name: `python -m benchmarks NAME [options]`."""

from __future__ import annotations

import sys
from importlib import import_module

from benchmarks import study

MODULES = {
    "shop": "shop parts drawing",
    "exam": "exam",
    "notes": "notes",
    "replay": "replay",
    "headline": "headline",
    "ladder": "ladder",
    "coverage": "coverage",
    "verdicts": "verdicts pairs",
    "anytime": "anytime",
    "examination": "examination",
    "judgments": "judgments",
    "ratios": "ratios",
    "success": "success",
    "optimize": "optimize",
    "unexplored": "unexplored",
    "real": "real",
}
"""The first words of the studies of each module."""


def main() -> None:
    """Find the study by one or two words, and run it with the rest."""
    words = sys.argv[1:]
    module = next((m for m, names in MODULES.items() if words and words[0] in names.split()), None)
    if module is None:
        every = " ".join(MODULES.values())
        raise SystemExit(f"{__doc__}\n\n{every}\n\nNAME --help says what each may be asked.")
    import_module(f"benchmarks.{module}")
    two = " ".join(words[:2])
    name, rest = (two, words[2:]) if two in study.STUDIES else (words[0], words[1:])
    if name not in study.STUDIES:
        raise SystemExit(f"{name!r} has parts: {', '.join(study.STUDIES)}")
    study.run(name, rest)


if __name__ == "__main__":
    main()
