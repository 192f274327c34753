"""`check`: what is in a log. `contexts`: contexts by traffic. Whether two arms can be compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick import inference
from foreclick.batches import FEW_RECORDS, Batch, Floats, Ints, batches_of, size_of, sums
from foreclick.engines import BUCKETS
from foreclick.estimation.sums import Adds, added, whole_number
from foreclick.logs import BUCKET, CONTEXT, PERIOD, Log, N, unit_counts
from foreclick.options import verb
from foreclick.progress import planned, report_step
from foreclick.questions.plan import check_stages
from foreclick.results import Headline, Result, Value, format_value
from foreclick.tallies import LogLike, Tally, drawn_from, tally
from foreclick.words import few, number_of, plural

# A unit is bot-like with more records than so many medians, and than so many.
BOT_FACTOR, BOT_RECORDS = 50, 200
MANY_PERIODS = 400  # with more, they are summed up: a year of days has fewer

# Shares of an arm that are planned; of others, the nearest of these is taken to be meant.
PLANNED = sorted({n / 20 for n in range(1, 20)} | {1 / 3, 2 / 3, 0.01, 0.02, 0.98, 0.99})
ALARM = 1e-4  # the chance that an alarm about the traffic of two arms is false
CLASSES = 100  # contexts whose share of the traffic is looked at; the others count as one

_PRINTED = 10  # contexts
_HALF = 0.5
_POSITIONS = 6  # that a glance shows
_VARIATION = "can be evaluated"
_SEVERAL = "records in contexts with 2 lists or more"
_NOBODY, _BOTS = "records without a unit", "share of records that are theirs"
_fact = partial(format_value, "found")

Fact = tuple[str, str, Value]


@dataclass(frozen=True, repr=False)
class Check(Result):
    """A description of a log: one row per fact, grouped by section.

    | column | meaning |
    |---|---|
    | section | what the fact is about, such as the log, its periods or its positions |
    | fact | its name |
    | found | its value |
    """

    @property
    def headline(self) -> Headline | None:
        """The main facts; the table has every period and position."""
        sections: dict[str, dict[str, Value]] = {}
        for row in self.rows:
            sections.setdefault(str(row["section"]), {})[str(row["fact"])] = row["found"]
        if (size := sections.pop("size", None)) is None:
            return None
        median, longest = size["records in the median context"], size["longest list"]
        lines = [
            ("records", f"{_fact(size['records'])}, {_fact(median)} in the median context"),
            ("contexts", _fact(size["contexts"])),
            ("lists", f"{_fact(size['different lists'])}, of up to {_fact(longest)} items"),
        ]
        lines += [(section, _glance(section, facts)) for section, facts in sections.items()]
        return Headline("What is in this log", tuple(lines))


@verb()
def check(log: LogLike) -> Check:
    """Describe a log: its records, periods and positions, and what can be evaluated with it.

    Args:
        log: a Log, a Tally, or anything `read_log` accepts with the default column names.

    Returns:
        A `Check`: one row per fact, grouped by section.

    Examples:
        >>> c = check({"context": ["q"] * 2, "items": [[1, 2], [2, 1]], "clicks": [[0, 1]] * 2})
        >>> c["found"][c["fact"].index("records")]
        2
    """
    compressed = tally(log)
    report_step("Counting")
    with planned(check_stages(compressed)):
        counts = [*batches_of(compressed).map(counting(compressed))]
    return check_of(compressed, log, counts)


@dataclass(frozen=True, eq=False)
class LogCounts(Adds):
    """What is counted of a log.

    Attributes:
        lists: how many different ones.
        varied: Shape (2,): records of contexts with several lists, and all.
        moved: Shape (2,): slots of items that were seen at several positions, and all.
        shown: Shape (K,): records with an item at the position.
        records: Shape (T,): by period.
        at_position, in_period: what each reward earned, shape (K,) and (T,).
    """

    lists: int
    varied: Floats
    moved: Floats
    shown: Floats
    records: Floats
    at_position: dict[str, Floats]
    in_period: dict[str, Floats]


def counting(compressed: Tally) -> Callable[[Batch], LogCounts]:
    """What counts a batch of a tally."""
    periods = batches_of(compressed).codebook.periods
    return partial(_counted, count=1 if periods is None else len(periods))


def _counted(batch: Batch, count: int) -> LogCounts:
    several, places = np.diff(batch.context_lists) > 1, (batch.shown > 0).sum(axis=1)
    period = batch.clusters.get("period", np.zeros(len(batch.n), dtype=np.intp))
    n = batch.n if batch.drawn is None else batch.n * batch.drawn.weight
    of_context = sums(batch.row_context, n, batch.context_count)
    at_position, in_period = {}, {}
    for name, reward in batch.rewards.items():
        earned = reward.value * batch.n[reward.row]
        at_position[name] = sums(reward.position, earned, batch.depth)
        in_period[name] = sums(period[reward.row], reward.value * n[reward.row], count)
    return LogCounts(
        len(batch.lists),
        np.array([of_context[several].sum(), of_context.sum()]),
        np.array([batch.shown[places > 1].sum(), batch.shown.sum()]),
        batch.shown.sum(axis=0),
        sums(period, n, count),
        at_position,
        in_period,
    )


def check_of(compressed: Tally, log: LogLike, counts: Iterable[LogCounts]) -> Check:
    """What was counted of a log.

    Args:
        compressed: its tally.
        log: as it was given.
        counts: by batch.
    """
    shape, batches, found = compressed.shape, batches_of(compressed), reduce(added, counts)
    periods = batches.codebook.periods
    count = 1 if periods is None else len(periods)
    number = round if _has_whole_counts(compressed) else float
    contexts, median = size_of(compressed)[:2]
    facts: list[Fact] = [
        ("size", "records", number(compressed.sizes[1])),
        ("size", "rows of the tally", batches.rows),
        ("size", "contexts", contexts),
        ("size", "records in the median context", median),
        ("size", "different lists", found.lists),
        ("size", "different lists per context", found.lists / contexts),
        ("size", "longest list", shape.depth),
    ]
    facts += [
        (
            f"{name} by position",
            f"position {k + 1}",
            float(found.at_position[name][k] / found.shown[k]),
        )
        for name in shape.rewards
        for k in np.flatnonzero(found.shown)
    ]
    if periods is not None and count > MANY_PERIODS:  # seconds since 1970, for instance
        first, last = (periods.values[at].as_py() for at in (0, periods.known - 1))
        facts.append(("periods", f"from {first} to {last}", count))
        facts.append(("periods", "records in the median period", float(np.median(found.records))))
    elif periods is not None:
        names = [str(value) for value in periods.values.to_pylist()]
        facts += [
            ("records by period", day, number(n))
            for day, n in zip(names, found.records, strict=True)
        ]
        facts += [
            (f"{name} per list by period", day, float(earned))
            for name in shape.rewards
            for day, earned in zip(names, found.in_period[name] / found.records, strict=True)
        ]
    facts += [
        (_VARIATION, _SEVERAL, float(found.varied[0] / found.varied[1])),
        (
            _VARIATION,
            "slots with items seen at 2 positions or more",
            float(found.moved[0] / found.moved[1]),
        ),
    ]
    if isinstance(log, Log) and log.roles.unit is not None:
        facts += _units(log)
    facts += [("dropped", cause, rows) for cause, rows in compressed.dropped.items()]
    rows = tuple({"section": s, "fact": f, "found": v} for s, f, v in facts)
    empty = (
        f"The log has no {name}: nothing of it can be evaluated by them. Check which column they "
        f"were read from, {name}=, or of events which actions count, rewards=."
        for name in shape.rewards
        if name in compressed.unearned
    )
    drawn = [f"{drawn_from(compressed)}."] if shape.drawn else []
    return Check(rows, ("section", "fact", "found"), (*drawn, *empty, *_advice(facts)))


def _glance(section: str, facts: Mapping[str, Value]) -> str:
    """A section in one text: periods by their range, positions one by one, else every fact."""
    numbers = [float(value or 0.0) for value in facts.values()] if " by " in section else []
    if section.endswith("by period"):
        names = list(facts)
        where = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
        count = f"{number_of(len(names), 'period')} ({where})"
        return f"{_fact(min(numbers))} to {_fact(max(numbers))} in {count}"
    if section.endswith("by position"):
        more = " …" if len(numbers) > _POSITIONS else ""
        return " ".join(f"{number:.3f}" for number in numbers[:_POSITIONS]) + more
    if section == _VARIATION:
        return "; ".join(f"{format_value('share', v)} of {fact}" for fact, v in facts.items())
    return "; ".join(f"{_fact(value)} {fact}" for fact, value in facts.items())


def _has_whole_counts(tally: Tally) -> bool:
    """Whether records are counted, not weighted."""
    return bool(pa.types.is_integer(tally.stored.kinds.field(N).type))


def _units(log: Log) -> list[Fact]:
    """Units with far more records than others: crawlers, monitors, shared accounts."""
    counted = unit_counts(log)
    size, units, nobody = (np.asarray(counted[name]) for name in (N, "units", "nobody"))
    median = float(np.median(np.repeat(size, units))) if len(size) else 0.0
    limit = max(BOT_FACTOR * median, BOT_RECORDS)
    many, unnamed, records = size > limit, float(nobody.sum()), size * units
    facts: list[Fact] = [
        ("units", "units", int(units.sum())),
        ("units", "records of the median unit", median),
        ("units", f"bot-like units (more than {limit:g} records)", int(units[many].sum())),
        ("units", _BOTS, float(records[many].sum() / records.sum())),
    ]
    return facts + ([("units", _NOBODY, whole_number(unnamed))] if unnamed else [])


def _advice(facts: list[Fact]) -> Iterator[str]:
    known: dict[str, Any] = {fact: value for _, fact, value in facts}
    if (median := known["records in the median context"]) < FEW_RECORDS:
        yield (
            f"The median context has {median:g} {plural(median, 'record')}: with a coarser context "
            "(query class, or context=None), the log would cover more."
        )
    if known[_SEVERAL] > 0:
        yield (
            f"{known[_SEVERAL]:.0%} of the records are in contexts that showed more than one list: "
            "there another ranking can be evaluated."
        )
    else:
        yield "Every context always showed the same list: this log can evaluate nothing else."
    if _NOBODY in known:
        yield (
            f"{number_of(known[_NOBODY], 'record')} without a unit, counted as one user. Name "
            "another column, or leave them out with where=."
        )
    if periods := next((value for section, _, value in facts if section == "periods"), None):
        yield (
            f"The log has {_fact(periods)} periods. A period is a day or a week: everything "
            "by period is slow with so many, and says little. Read the log with a coarser one."
        )
    if (bots := known.get(_BOTS, 0)) > 0.01:
        yield f"Bot-like units made {bots:.0%} of the records. Leave them out with where=."


def _stood_for(batch: Batch) -> Floats:
    """Shape (X,): the records of each context, in the log that these were drawn from."""
    weight = batch.context_weight
    return batch.context_n if weight is None else np.round(batch.context_n * weight)


# --- contexts by traffic --------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Contexts(Result):
    """Contexts by traffic: one row for each of the ten most frequent.

    | column | meaning |
    |---|---|
    | context | the context |
    | records | its records |
    | share | their share of all records of the log |
    | items | the number of different items that it showed |

    Attributes:
        lists: an Arrow table of all contexts: `context`, `records`, `share`, `items` (the list of
            shown items, the most frequent first) and `shown` (how often each was shown).
    """

    lists: pa.Table = field(kw_only=True, compare=False)


@verb()
def contexts(log: LogLike) -> Contexts:
    """List contexts by traffic, with their logged items: what a new ranker has to rank.

    Args:
        log: a Log, a Tally, or anything `read_log` accepts with the default column names.

    Returns:
        A `Contexts`: one row for each of the ten most frequent contexts; `lists` has all of them.

    Examples:
        >>> rows = {"context": ["r", "q", "q"], "items": [[4, 5], [1, 3], [1, 2]]}
        >>> found = contexts(rows | {"clicks": [[0, 1], [1, 0], [0, 0]]})
        >>> found.lists.select(["context", "items"]).to_pylist()
        [{'context': 'q', 'items': [1, 2, 3]}, {'context': 'r', 'items': [4, 5]}]
    """
    compressed = tally(log)
    report_step("Counting the items of each context")
    tables, kind = [], np.int64 if _has_whole_counts(compressed) else np.float64
    for batch in batches_of(compressed):
        shown = batch.shown.sum(axis=1).astype(kind)
        # Most shown first; of equals, the smaller item: pairs are in the order of their items.
        order = np.lexsort((-shown, batch.pair_context))
        starts = pa.array(batch.context_pairs.astype(np.int32))
        items = batch.items.take(pa.array(batch.pair_item[order]))
        columns = {
            "context": batch.contexts,
            "records": pa.array(_stood_for(batch).astype(kind)),
            "items": pa.ListArray.from_arrays(starts, items),
            "shown": pa.ListArray.from_arrays(starts, pa.array(shown[order])),
        }
        tables.append(pa.table(columns))
    lists = pa.concat_tables(tables).combine_chunks()
    records = lists["records"].to_numpy()
    order = np.argsort(-records, kind="stable")  # of equals, the smaller context first
    share = records[order] / records.sum()
    lists = lists.take(order).add_column(2, "share", pa.array(share))
    rows = [
        {name: row[name] for name in ("context", "records", "share")} | {"items": len(row["items"])}
        for row in lists.slice(0, _PRINTED).to_pylist()
    ]
    half = int(np.searchsorted(np.cumsum(share), _HALF)) + 1
    pairs = int(pc.sum(pc.list_value_length(lists["items"])).as_py())
    have = plural(half, "context has", "contexts have")
    notes = (
        f"{half:,} of {len(share):,} {have} half of all records.",
        f"A ranker has {number_of(pairs, 'pair')} of a context and an item to score.",
        *(
            [f"{drawn_from(compressed)}: a candidate needs no other."]
            if compressed.shape.drawn
            else []
        ),
    )
    return Contexts(tuple(rows), ("context", "records", "share", "items"), notes, lists=lists)


# --- whether two arms can be compared -------------------------------------------------------------


def traffic_notes(both: Tally, variant: str, names: tuple[str, str]) -> list[str]:
    """What is odd about two arms: their sizes, their days, their contexts.

    Shares are compared by buckets of users, because records of one user vary together.
    """
    shape = both.shape
    keys = [variant, CONTEXT, *[PERIOD] * shape.period, *[BUCKET] * shape.unit]
    table = both.stored.added(keys, N).to_pyarrow()
    n = table[N].to_numpy().astype(float)
    arm = (table[variant].to_numpy(zero_copy_only=False) == names[1]).astype(np.int64)
    bucket = table[BUCKET].to_numpy() if shape.unit else np.zeros(len(n), np.int64)
    sizes = np.zeros((2, BUCKETS))
    np.add.at(sizes, (arm, bucket), n)
    total, share = sizes.sum(), sizes[1].sum() / sizes.sum()
    planned = min(PLANNED, key=lambda each: abs(each - share))
    spread = ((sizes[1] - share * sizes.sum(axis=0)) ** 2).sum() * BUCKETS / (BUCKETS - 1)
    se = math.sqrt(max(spread * shape.unit, total * share * (1 - share))) / total
    freedom = BUCKETS - 1 if shape.unit else math.inf
    notes = []
    if 2 * float(inference.t_tail(abs(share - planned) / se, freedom)) < ALARM:
        notes.append(
            f"sample-ratio mismatch: {names[1]!r} has {share:.2%} of the records, "
            f"{abs(share - planned) / se:.0f} standard errors from {planned:.3g}. Unless that was "
            "planned, look at how users were assigned and which records are lost."
        )
    if shape.period:
        days, day = np.unique(np.array(table[PERIOD].to_pylist(), str), return_inverse=True)
        there = np.zeros((2, len(days)), bool)
        there[arm, day] = True
        if alone := [str(d) for d in days[there.sum(axis=0) == 1]]:
            notes.append(
                f"the arms were not shown on the same days: {number_of(len(alone), 'day')} have "
                f"one of them alone ({few(alone)}). Differences between days then look like "
                "differences between arms; leave these days out with where=."
            )
        elif odd := _odd(day, arm, bucket, n, freedom):
            notes.append(
                f"the share of {names[1]!r} changed from day to day, most on {days[odd[0]]} "
                f"({odd[1]:.1%} of its records, {odd[2]:.1%} of those of {names[0]!r}). Compare "
                "days on which the shares were alike."
            )
    contexts, context = np.unique(np.array(table[CONTEXT].to_pylist(), str), return_inverse=True)
    order = np.argsort(-np.bincount(context, n), kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.minimum(np.arange(len(order)), CLASSES)
    if odd := _odd(place[context], arm, bucket, n, freedom):
        which = "rare contexts" if odd[0] == CLASSES else repr(str(contexts[order[odd[0]]]))
        notes.append(
            f"the arms have other traffic: {which} is {odd[1]:.2%} of the records of "
            f"{names[1]!r} and {odd[2]:.2%} of those of {names[0]!r}. Look at how users were "
            "assigned."
        )
    return notes


def _odd(
    kind: Ints, arm: Ints, bucket: Ints, n: Floats, freedom: float
) -> tuple[int, float, float] | None:
    """The kind of record whose shares in both arms differ most, if by more than chance."""
    sizes = np.zeros((2, int(kind.max()) + 1, BUCKETS))
    np.add.at(sizes, (arm, kind, bucket), n)
    records = sizes.sum(axis=1)  # (arm, bucket)
    total = records.sum(axis=1)[:, None]
    share = sizes.sum(axis=2) / total  # (arm, kind)
    spread = ((sizes - share[:, :, None] * records[:, None]) ** 2).sum(axis=2)
    spread = np.maximum(spread * (freedom < math.inf), total * share * (1 - share)) / total**2
    z = np.abs(share[1] - share[0]) / np.sqrt(np.maximum(spread.sum(axis=0), 1e-300))
    most = int(z.argmax())
    chance = 2 * float(inference.t_tail(z[most], freedom)) * len(z)
    return (most, float(share[1, most]), float(share[0, most])) if chance < ALARM else None
