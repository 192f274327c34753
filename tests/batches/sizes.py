"""Tallies read in batches of a size that a test chooses."""

from __future__ import annotations

from dataclasses import replace

import foreclick as fc
from foreclick.batches import Batches, batches_of


def in_batches(tally: fc.Tally, slots: int) -> fc.Tally:
    """The same tally, of which nothing is known yet, in batches of so many slots; 1: of a context.

    Whatever is asked of it goes through these batches, wherever `batches_of` is called.
    """
    found = replace(tally)
    batches_of.put(found, Batches(replace(tally), slots))
    return found
