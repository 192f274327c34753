"""Numbers that look random, the same on every machine: the finaliser of SplitMix64.

References:
    G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2**64 over the golden ratio, odd: its multiples are far apart."""


def mixed(z: NDArray[Any]) -> NDArray[np.uint64]:
    """A hash of each number of 64 bits without sign; no two numbers have the same."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(z ^ (z >> np.uint64(31)), dtype=np.uint64)
