"""Tallies that leave the house: rows that few people share are left out, and buckets of users.

Whether a row is left out depends on what was shown to whom, never on what was clicked, so the click
rates of what stays are those of the log.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from foreclick.engines import total
from foreclick.errors import TallyError
from foreclick.logs import BUCKET, CONTEXT, PERIOD, N, Shape

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from foreclick.engines import Engine

USERS = 5
"""Different buckets of users that must share a row, or `least` if that is less."""

_SHARED, _USERS = "shared", "users"


def cause_of(shape: Shape, least: int) -> str:
    """Why rows are left out, in words."""
    others = [*([PERIOD] if shape.period else []), *shape.segments]
    alike = ", ".join([CONTEXT, "list", *others])
    return f"fewer than {least} records with the same {alike}"


def shared_rows(
    home: Engine, rows: ir.Table, shape: Shape, least: int, inflation: float = 1.0
) -> tuple[Shape, ir.Table, int]:
    """The rows whose context, list, period and segments at least so many records share.

    Args:
        home: where the rows are; it must have window functions.
        rows: the compact rows of a tally.
        shape: their columns.
        least: how many records at least; of a log with units also of `USERS` buckets of them.
        inflation: for how many records a row of the log was kept.

    Returns:
        The columns without the buckets of users, the rows, and how many records were left out.
    """
    keys = [CONTEXT, *shape.items, *([PERIOD] if shape.period else []), *shape.segments]
    alike = rows.group_by(keys)
    counted = alike.mutate(**{_SHARED: total(rows[N])})
    enough = counted[_SHARED] >= least * inflation
    if shape.unit:
        counted = counted.group_by(keys).mutate(**{_USERS: counted[BUCKET].nunique()})
        enough = (counted[_SHARED] >= least * inflation) & (counted[_USERS] >= min(USERS, least))
    without = replace(shape, unit=False)
    kept = counted.filter(enough)
    summed = kept.group_by(without.order).aggregate(**{N: total(kept[N])})
    made = home.materialise(summed, "shared").select(without.stored)
    before, after = (home.rows(t.aggregate(n=total(t[N])))[0]["n"] for t in (rows, made))
    if not after:
        raise TallyError(
            f"min_count={least}: nothing would be left; there are {cause_of(shape, least)} "
            "everywhere. Read the log with coarser contexts, or without period= and segments=."
        )
    return without, made, round(before - after)
