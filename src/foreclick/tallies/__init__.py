"""Tallies: a log compressed by one group-by; adding, files, part by part."""

from foreclick.tallies.base import FEW_PERIODS, LogLike, Tally, is_tally, read_tally, settle, tally
from foreclick.tallies.parts import Tallies, write_tallies

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
