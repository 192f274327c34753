"""`check`: what is in a log."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from foreclick.batches import Batch, Floats, batches_of, contexts_repeat
from foreclick.batches.arrays import accumulate
from foreclick.engines import total, whole
from foreclick.logs import Log, N
from foreclick.options import checked
from foreclick.progress import Say, say
from foreclick.results import Headline, Result, Value, format_value
from foreclick.tallies import LogLike
from foreclick.tallies.base import Tally, tally
from foreclick.words import number_of

BOT_FACTOR = 50
BOT_RECORDS = 200
"""A unit is bot-like with more records than BOT_FACTOR medians and than BOT_RECORDS."""

_VARIATION = "can be evaluated"
_NOBODY = "records without a unit"


@dataclass(frozen=True, repr=False)
class Check(Result):
    """What is in a log: one row per fact, grouped by section."""

    @property
    def headline(self) -> Headline | None:
        """What is in it at a glance; the table has every period and position."""
        sections: dict[str, dict[str, Value]] = {}
        for row in self.rows:
            sections.setdefault(str(row["section"]), {})[str(row["fact"])] = row["found"]
        size = sections.pop("size", None)
        if size is None:
            return None
        median, longest = size["records in the median context"], size["longest list"]
        lines = [
            ("records", f"{_told(size['records'])}, {_told(median)} in the median context"),
            ("contexts", _told(size["contexts"])),
            ("lists", f"{_told(size['different lists'])}, of up to {_told(longest)} items"),
        ]
        lines += [(section, _glance(section, facts)) for section, facts in sections.items()]
        return Headline("What is in this log", tuple(lines))


@checked()
def check(log: LogLike, *, progress: Say | None = None) -> Check:  # noqa: ARG001 - see `checked`
    """What is in this log, and what can be evaluated with it.

    Args:
        log: a Log, a Tally, or anything `read_log` accepts with the default column names.
        progress: called with what is being done; by default it is shown on a terminal.

    Examples:
        >>> c = check({"context": ["q"] * 2, "items": [[1, 2], [2, 1]], "clicks": [[0, 1]] * 2})
        >>> c["found"][c["fact"].index("records")]
        2
    """
    counted = tally(log)
    say("Counting")
    counts = _Counts(counted)
    facts = [*_size(counts), *_clicks(counts), *_periods(counts), *_variation(counts)]
    if isinstance(log, Log) and log.roles.unit is not None:
        facts += _units(log)
    facts += [("dropped", cause, rows) for cause, rows in counted.dropped.items()]
    rows = tuple({"section": s, "fact": f, "found": v} for s, f, v in facts)
    return Check(rows, ("section", "fact", "found"), tuple(_advice(facts)))


Fact = tuple[str, str, Value]
MANY_PERIODS = 400
"""With more periods than this, they are summed up: a year of days has fewer."""

_PERIODS = "periods"
_POSITIONS = 6  # that a glance shows


def _told(value: Value) -> str:
    return format_value("found", value)


def _glance(section: str, facts: Mapping[str, Value]) -> str:
    """A section in one text: periods by their range, positions one by one, else every fact."""
    if section.endswith("by period"):
        numbers = [float(value or 0.0) for value in facts.values()]
        names = list(facts)
        where = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
        count = f"{number_of(len(names), 'period')} ({where})"
        return f"{_told(min(numbers))} to {_told(max(numbers))} in {count}"
    if section.endswith("by position"):
        told = [f"{float(value or 0.0):.3f}" for value in list(facts.values())[:_POSITIONS]]
        return " ".join(told) + (" …" if len(facts) > _POSITIONS else "")
    if section == _VARIATION:
        return "; ".join(f"{format_value('share', v)} of {fact}" for fact, v in facts.items())
    return "; ".join(f"{_told(value)} {fact}" for fact, value in facts.items())


class _Counts:
    """What is counted of a log, in one pass over its batches.

    Attributes:
        lists: how many different lists contexts showed.
        shown: Shape (K,): records that fill each position.
        earned: by reward, shape (K,): its sum at each position.
        records: Shape (T,): records by period; a log without periods is one.
        rewards: by reward, shape (T,): its sum in each period.
        varied: records of contexts with several lists, and all of them.
        moved: slots with items that their context showed at several positions, and all of them.
    """

    def __init__(self, counted: Tally) -> None:
        self.tally, self.batches, self.shape = counted, batches_of(counted), counted.shape
        names, depth = self.shape.rewards, self.shape.depth
        self.periods = self.batches.codebook.periods
        self.lists = 0
        self.shown = np.zeros((1, depth))
        self.earned = {name: np.zeros((1, depth)) for name in names}
        self.records = np.zeros(len(self.periods or (None,)))
        self.rewards = {name: np.zeros_like(self.records) for name in names}
        self.varied, self.moved = np.zeros((1, 2)), np.zeros((1, 2))
        for batch in self.batches:
            self._add(batch)

    def _add(self, batch: Batch) -> None:
        """Add a batch to all counts, row by row, so that its size does not matter."""
        self.lists += len(batch.lists)
        period = batch.clusters.get("period", np.zeros(len(batch.n), dtype=np.intp))
        accumulate(self.records, period, batch.n)
        _add_all(self.shown, batch.shown)
        for name, reward in batch.rewards.items():
            worth = reward.value * batch.n[reward.row]
            accumulate(self.earned[name][0], reward.position, worth)
            accumulate(self.rewards[name], period[reward.row], worth)
        several = np.diff(batch.context_lists) > 1
        _add_all(self.varied, np.stack([batch.context_n * several, batch.context_n], axis=1))
        slots, places = batch.shown.sum(axis=1), (batch.shown > 0).sum(axis=1)
        _add_all(self.moved, np.stack([slots * (places > 1), slots], axis=1))

    def number(self, records: float) -> Value:
        """A number of records: an integer unless records are weighted."""
        return int(records) if self.tally.stored[N].type().is_integer() else float(records)


def _add_all(total: Floats, values: Floats) -> None:
    """Add all rows of values, shape (N, …), to the total, shape (1, …)."""
    accumulate(total, np.zeros(len(values), dtype=np.intp), values)


def _size(counts: _Counts) -> list[Fact]:
    contexts, median = contexts_repeat(counts.tally)
    return [
        ("size", "records", counts.number(counts.varied[0, 1])),
        ("size", "rows of the tally", counts.batches.rows),
        ("size", "contexts", contexts),
        ("size", "records in the median context", median),
        ("size", "different lists", counts.lists),
        ("size", "different lists per context", counts.lists / contexts),
        ("size", "longest list", counts.shape.depth),
    ]


def _clicks(counts: _Counts) -> list[Fact]:
    """Each reward by position."""
    return [
        (f"{reward} by position", f"position {k}", float(earned / shown))
        for reward in counts.shape.rewards
        for k, (earned, shown) in enumerate(
            zip(counts.earned[reward][0], counts.shown[0], strict=True), start=1
        )
        if shown
    ]


def _periods(counts: _Counts) -> list[Fact]:
    """Records of each period, and each reward per list."""
    if counts.periods is None:
        return []
    count = len(counts.periods)
    if count > MANY_PERIODS:  # seconds since 1970, for instance: a line each would be no answer
        first, last = (counts.periods.values[at].as_py() for at in (0, counts.periods.known - 1))
        return [
            (_PERIODS, f"from {first} to {last}", count),
            (_PERIODS, "records in the median period", float(np.median(counts.records))),
        ]
    names = [str(value) for value in counts.periods.values.to_pylist()]
    records = [
        ("records by period", name, counts.number(n))
        for name, n in zip(names, counts.records, strict=True)
    ]
    return records + [
        (f"{reward} per list by period", name, float(earned / n))
        for reward in counts.shape.rewards
        for name, earned, n in zip(names, counts.rewards[reward], counts.records, strict=True)
    ]


def _variation(counts: _Counts) -> list[Fact]:
    """What an estimate can rest on: contexts with several lists, items at several positions."""
    section = _VARIATION
    return [
        (section, "records in contexts with 2 lists or more", _share(*counts.varied[0])),
        (section, "slots with items seen at 2 positions or more", _share(*counts.moved[0])),
    ]


def _share(some: float, every: float) -> float:
    return float(some / every) if every else math.nan


def _units(log: Log) -> list[Fact]:
    """Units with far more records than others: crawlers, monitors, shared accounts."""
    raw, roles = log.raw, log.roles
    unit, weight = raw[roles.unit], whole(1) if roles.weight is None else raw[roles.weight]
    lists = raw.select(unit=unit, weight=weight)
    if roles.list_id is not None:  # one row an impression: count each list once
        ids = {f"list_{i}": raw[name] for i, name in enumerate(roles.list_ids)}
        lists = raw.select(unit=unit, weight=weight, **ids).distinct()
    counts = lists.group_by("unit").aggregate(**{N: total(lists["weight"])})
    middle = counts.aggregate(units=counts.count(), median=counts[N].cast("float64").median())
    row = log.source.rows(middle)[0]
    limit = max(BOT_FACTOR * (row["median"] or 0), BOT_RECORDS)
    many = counts[N] > limit
    bots = log.source.rows(
        counts.aggregate(
            bots=total(many.ifelse(1, 0)),
            theirs=total(many.ifelse(counts[N], 0)),
            all=total(counts[N]),
            nobody=total(counts["unit"].isnull().ifelse(counts[N], 0)),
        )
    )[0]
    nobody = [("units", _NOBODY, bots["nobody"])] if bots["nobody"] else []
    return [
        ("units", "units", row["units"]),
        ("units", "records of the median unit", row["median"]),
        ("units", f"bot-like units (more than {limit:g} records)", bots["bots"]),
        ("units", "share of records that are theirs", bots["theirs"] / bots["all"]),
        *nobody,
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
    if _NOBODY in known:
        notes.append(
            f"{number_of(known[_NOBODY], 'record')} without a unit, counted as one user. Name "
            "another column, or leave them out with where=."
        )
    periods = next((value for section, _, value in facts if section == _PERIODS), None)
    if periods:
        notes.append(
            f"The log has {_told(periods)} periods. A period is a day or a week: everything "
            "by period is slow with so many, and says little. Read the log with a coarser one."
        )
    bots = known.get("share of records that are theirs", 0)
    if bots > 0.01:  # noqa: PLR2004
        notes.append(f"Bot-like units made {bots:.0%} of the records. Leave them out with where=.")
    return notes
