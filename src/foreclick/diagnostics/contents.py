"""`check`: what is in a log."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import ibis.expr.types as ir

from foreclick._tally import Tally, contexts_repeat, tally
from foreclick.engines import Engine, total, whole
from foreclick.logs import CONTEXT, ITEM, PERIOD, Log, N
from foreclick.models import slots_of
from foreclick.results import Result, Value

BOT_FACTOR = 50
BOT_RECORDS = 200
"""A unit is bot-like with more records than BOT_FACTOR medians and than BOT_RECORDS."""


@dataclass(frozen=True, repr=False)
class Check(Result):
    """What is in a log: one row per fact, grouped by section."""


def check(log: Any) -> Check:  # noqa: ANN401 - a Log, a Tally, or what read_log accepts
    """What is in this log, and what can be evaluated with it.

    Examples:
        >>> c = check({"context": ["q"] * 2, "items": [[1, 2], [2, 1]], "clicks": [[0, 1]] * 2})
        >>> c["found"][c["fact"].index("records")]
        2
    """
    counted = tally(log)
    facts = [*_size(counted), *_clicks(counted), *_periods(counted), *_variation(counted)]
    if isinstance(log, Log) and log.roles.unit is not None:
        facts += _units(log)
    facts += [("dropped", cause, rows) for cause, rows in counted.dropped.items()]
    rows = tuple({"section": s, "fact": f, "found": v} for s, f, v in facts)
    return Check(rows, ("section", "fact", "found"), tuple(_advice(facts)))


Fact = tuple[str, str, Value]


def _size(t: Tally) -> list[Fact]:
    table = t.table
    whole = t.engine.rows(table.aggregate(records=total(table[N]), rows=table.count()))[0]
    contexts, median = contexts_repeat(t)
    lists = table.select(CONTEXT, *t.shape.items).distinct()
    listed = t.engine.rows(lists.aggregate(lists=lists.count()))[0]["lists"]
    return [
        ("size", "records", whole["records"]),
        ("size", "rows of the tally", whole["rows"]),
        ("size", "contexts", contexts),
        ("size", "records in the median context", median),
        ("size", "different lists", listed),
        ("size", "different lists per context", listed / contexts),
        ("size", "longest list", t.shape.depth),
    ]


def _clicks(t: Tally) -> list[Fact]:
    """Each reward by position."""
    facts: list[Fact] = []
    table = t.table
    for reward in t.shape.rewards:
        shown, gained = {}, {}
        for k in range(1, t.shape.depth + 1):
            there = table[f"{ITEM}_{k}"].notnull()
            shown[f"n_{k}"] = total(there.ifelse(table[N], 0))
            gained[f"c_{k}"] = total((table[N] * table[f"{reward}_{k}"]).fill_null(0))
        row = t.engine.rows(table.aggregate(**shown, **gained))[0]
        facts += [
            (f"{reward} by position", f"position {k}", row[f"c_{k}"] / row[f"n_{k}"])
            for k in range(1, t.shape.depth + 1)
            if row[f"n_{k}"]
        ]
    return facts


def _periods(t: Tally) -> list[Fact]:
    """Records of each period, and each reward per list."""
    if not t.shape.period:
        return []
    gained = {}
    for reward in t.shape.rewards:
        slots = [t.table[c].fill_null(0) for c in t.shape.reward(reward)]
        gained[reward] = total(t.table[N] * sum(slots[1:], slots[0]))
    summed = t.table.group_by(PERIOD).aggregate(n=total(t.table[N]), **gained)
    rows = t.engine.rows(summed.order_by(PERIOD))
    records: list[Fact] = [("records by period", str(row[PERIOD]), row["n"]) for row in rows]
    return records + [
        (f"{reward} per list by period", str(row[PERIOD]), row[reward] / row["n"])
        for reward in t.shape.rewards
        for row in rows
    ]


def _variation(t: Tally) -> list[Fact]:
    """What an estimate can rest on: contexts with several lists, items at several positions."""
    table, depth = t.table, t.shape.depth
    lists = table.group_by([CONTEXT, *t.shape.items]).aggregate(**{N: total(table[N])})
    per_context = lists.group_by(CONTEXT).aggregate(lists=lists.count(), **{N: total(lists[N])})
    slots = slots_of(lists, depth, [CONTEXT], {N: None})
    items = slots.group_by([CONTEXT, ITEM]).aggregate(places=slots.count(), **{N: total(slots[N])})
    return [
        (
            "can be evaluated",
            "records in contexts with 2 lists or more",
            _share(t.engine, per_context, "lists"),
        ),
        (
            "can be evaluated",
            "slots with items seen at 2 positions or more",
            _share(t.engine, items, "places"),
        ),
    ]


def _share(engine: Engine, table: ir.Table, column: str) -> float:
    row = engine.rows(
        table.aggregate(all=total(table[N]), some=total((table[column] > 1).ifelse(table[N], 0)))
    )[0]
    return float(row["some"] / row["all"]) if row["all"] else math.nan


def _units(log: Log) -> list[Fact]:
    """Units with far more records than others: crawlers, monitors, shared accounts."""
    raw, roles = log.raw, log.roles
    unit, weight = raw[roles.unit], whole(1) if roles.weight is None else raw[roles.weight]
    lists = raw.select(unit=unit, weight=weight)
    if roles.list_id is not None:  # one row an impression: count each list once
        lists = raw.select(unit=unit, weight=weight, list=raw[roles.list_id]).distinct()
    counts = lists.group_by("unit").aggregate(**{N: total(lists["weight"])})
    middle = counts.aggregate(units=counts.count(), median=counts[N].cast("float64").median())
    row = log.engine.rows(middle)[0]
    limit = max(BOT_FACTOR * (row["median"] or 0), BOT_RECORDS)
    many = counts[N] > limit
    bots = log.engine.rows(
        counts.aggregate(
            bots=total(many.ifelse(1, 0)),
            theirs=total(many.ifelse(counts[N], 0)),
            all=total(counts[N]),
        )
    )[0]
    return [
        ("units", "units", row["units"]),
        ("units", "records of the median unit", row["median"]),
        ("units", f"bot-like units (more than {limit:g} records)", bots["bots"]),
        ("units", "share of records that are theirs", bots["theirs"] / bots["all"]),
    ]


def _advice(facts: list[Fact]) -> list[str]:
    known: dict[str, Any] = {fact: value for _, fact, value in facts}
    notes = []
    median = known["records in the median context"]
    if median < 5:  # noqa: PLR2004 - the same threshold as in evaluate
        notes.append(
            f"The median context has {median:g} records: a coarser context (query class, or "
            "context=None) would let the log say more."
        )
    several = known["records in contexts with 2 lists or more"]
    notes.append(
        f"{several:.0%} of the records are in contexts that showed more than one list: there "
        "another ranking can be evaluated."
        if several > 0
        else "Every context always showed the same list: this log can evaluate nothing else."
    )
    bots = known.get("share of records that are theirs", 0)
    if bots > 0.01:  # noqa: PLR2004
        notes.append(f"Bot-like units made {bots:.0%} of the records. Leave them out with where=.")
    return notes
