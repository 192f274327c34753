"""Questions through the public API, and whether two numbers of their answers are the same."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import foreclick as fc

RELATIVE = 1e-9
"""How far two numbers may be apart, as a share of the larger one."""

FLOOR = 1e-12
"""How far they may be apart in any case. Most numbers are sums and differences of rates between 0
and 1: a change of exactly 0 comes out as some 1e-16, of which no digit is right."""

NO_SPREAD = 1e-7
"""A standard error below it is 0, and so is the width of an interval. It is the root of a variance,
and a variance of exactly 0 is a difference of sums of squares that comes out as some 1e-16; its
root, some 1e-8, has no digit that is right."""


def ask(
    verb: Any,  # noqa: ANN401 - of the public API
    log: Any,  # noqa: ANN401 - or its tally
    policies: Mapping[str, Any],
    *names: str,
    **options: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401 - a Result
    """A verb with candidates by name; options that begin with @ are policies by name, too."""
    given = {
        key: policies[value[1:]] if isinstance(value, str) and value.startswith("@") else value
        for key, value in options.items()
    }
    named = {name: policies[name] for name in names}
    return verb(log, *([named] if verb is fc.compare else named.values()), **given)


def same(was: object, now: object, floor: float = FLOOR) -> bool:
    """Whether two values are the same; numbers up to rounding."""
    if isinstance(was, bool) or isinstance(now, bool):
        return was is now
    if isinstance(was, int | float) and isinstance(now, int | float):
        return math.isclose(was, now, rel_tol=RELATIVE, abs_tol=floor)
    if isinstance(was, Sequence) and isinstance(now, Sequence) and not isinstance(was, str):
        return len(was) == len(now) and all(map(same, was, now))
    return was == now
