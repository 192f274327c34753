"""Tallies: a log compressed by one group-by; adding, files, part by part."""

from foreclick.tallies.base import FEW_PERIODS, LogLike, Tally, settle, tally
from foreclick.tallies.parts import Tallies, write_tallies
from foreclick.tallies.reading import is_tally, read_tally

__all__ = [
    "FEW_PERIODS",
    "LogLike",
    "Tallies",
    "Tally",
    "is_tally",
    "read_tally",
    "settle",
    "tally",
    "write_tallies",
]
