"""Tallies: a log compressed by one group-by; adding, files."""

from foreclick.tallies.base import (
    FEW_PERIODS,
    LogLike,
    Tally,
    drawn_from,
    is_tally,
    local_tally,
    notes_in_order,
    read_tally,
    refuse_drawn,
    tally,
)
