"""Tallies: a log compressed by one group-by; adding, files."""

from foreclick.tallies.base import FEW_PERIODS, LogLike, Tally, settle, tally
from foreclick.tallies.reading import is_tally, read_tally
