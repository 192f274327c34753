"""Tallies: a log compressed by one group-by; adding, files, part by part."""

from foreclick.tallies.parts import Tallies, write_tallies
from foreclick.tallies.tally import FEW_PERIODS, Tally, is_tally, read_tally, settle, tally

__all__ = [
    "FEW_PERIODS",
    "Tallies",
    "Tally",
    "is_tally",
    "read_tally",
    "settle",
    "tally",
    "write_tallies",
]
