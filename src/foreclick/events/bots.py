"""Programs among the users, by how many lists they ask for and how many items they click."""

from __future__ import annotations

from dataclasses import dataclass, replace

import ibis
import ibis.expr.types as ir

from foreclick.engines import Engine, count_of, real, total
from foreclick.errors import SourceError
from foreclick.events.actions import earned
from foreclick.events.ledger import Entries
from foreclick.events.shown import PERIOD, UNIT, Shown


@dataclass(frozen=True)
class Bots:
    """Which users count as programs, to be excluded: either rule is enough.

    Attributes:
        lists: more lists in a period (a day) than a person asks for; None: any number.
        share: a larger share of the items that they were shown than a person clicks; None: any.
        at_least: impressions of a user from which on `share` is judged.
    """

    lists: int | None = 500
    share: float | None = 0.8
    at_least: int = 50


def without_bots(
    shown: Shown, hits: ir.Table, rule: Bots, reward: str, engine: Engine, entries: Entries
) -> Shown:
    """The impressions of all other users; the ledger says whose are left out."""
    rows = earned(shown, hits, [reward])
    if UNIT not in rows.columns or (rule.lists is not None and PERIOD not in rows.columns):
        raise SourceError(
            "programs are told by what a user does in a day: name the column of users, unit=, and "
            "time= (or period=); or give Bots(lists=None) where there is no time."
        )
    found = engine.held(_suspects(rows, shown, rule, reward), "bots")
    sums = {name: total(found[name]) for name in ("lists", "clicks")}
    facts = engine.rows(found.aggregate(users=found.count(), **sums))[0]
    if not facts["users"]:
        return shown
    worst = engine.rows(found.order_by([found["lists"].desc(), found[UNIT]]).limit(1))[0]
    example = f"user {worst[UNIT]}: {worst['lists']:,} lists, {worst['clicks']:,} {reward}"
    entries.odd("users who behave like programs", facts["users"], "left out", example)
    entries.odd("lists of such users", facts["lists"], "left out")
    entries.odd(f"{reward} of such users", facts["clicks"], "left out")
    entries.less(reward, facts["clicks"])
    return replace(shown, table=shown.table.anti_join(found, UNIT), deepest=None)


def _suspects(rows: ir.Table, shown: Shown, rule: Bots, reward: str) -> ir.Table:
    """Users with their lists and clicks, of those who break the rule."""
    days = [UNIT, *([PERIOD] if PERIOD in rows.columns else [])]
    lists = rows.group_by([*days, *(name for name in shown.lists if name not in days)]).aggregate(
        impressions=rows.count(), clicks=count_of(rows[reward] > 0)
    )
    daily = lists.group_by(days).aggregate(
        lists=lists.count(), impressions=total(lists["impressions"]), clicks=total(lists["clicks"])
    )
    users = daily.group_by(UNIT).aggregate(
        most=daily["lists"].max(),
        lists=total(daily["lists"]),
        impressions=total(daily["impressions"]),
        clicks=total(daily["clicks"]),
    )
    broken = ibis.literal(False)
    if rule.lists is not None:
        broken = broken | (users["most"] > rule.lists)
    if rule.share is not None:
        enough = users["impressions"] >= rule.at_least
        greedy = users["clicks"] > users["impressions"].cast("float64") * real(rule.share)
        broken = broken | (enough & greedy)
    return users.filter(users[UNIT].notnull() & broken).drop("most", "impressions")
