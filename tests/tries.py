"""How often a test of random cases tries: enough for every change, or all of `make test-long`."""

from __future__ import annotations

import os

LONG = os.environ.get("FORECLICK_LONG") == "1"


def tries(short: int, long: int) -> int:
    """So many cases in a usual run, and so many in a long one."""
    return long if LONG else short
