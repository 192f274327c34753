"""The hostile generator: odd names, weights, sizes and days; one seed, one case."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import random
from collections.abc import Sequence
from functools import cache
from typing import Any

from tests.cases.case import Asked, Case, Measure, Row, columns_of
from tests.engines.looking import bucket_of
from tests.truth import firsts, oracle
from tests.truth.oracle import Policy

TEXTS = (
    *("", " ", "a", "A", "b", "NULL", "null", "None", "NaN", "inf", "0", "1", "01", "-1", "1e3"),
    *("zoë", "zoe\u0308", "東京", "🦆", "\u202eabc", "\u200b", "\ufeff", "ß", "İ", "ﬁ"),
    *("'", '"', "\\", "a\\b", "a,b", "a;b", "a\tb", "a\nb", "\r", "%s", "{0}", "$1", "--", "/*"),
    *("'; DROP TABLE log; --", "item_1", "__unseen", "clicks", "=1+1", "<b>", "x" * 300),
)
"""Names that have misled programs before."""

NUMBERS = (0, 1, -1, 2, 7, 10, 2**31 - 1, 2**31, 2**32, 2**53, 2**53 + 1, 2**63 - 1, -(2**63))
LANDS = ("NL", "BE", "", None)
LISTED = ("Lists", "Ranking", "Observed")
KINDS = (*LISTED, *LISTED, "Marginals", "Lists")
BUCKETS = 30


def case_of(
    rows: Sequence[Row],
    candidate: Policy,
    *,
    seed: int = 0,
    units: bool = False,
    propensity: str = "chances",
    **asked: Any,  # noqa: ANN401 - fields of the question
) -> Case:
    """These rows, a candidate and a question about it."""
    roles: dict[str, Any] = {"count": "times", "period": "day", "segments": ("land",)}
    roles |= {"unit": "user"} if units else {}
    roles |= {"propensity": propensity} if asked.get("logging") == "propensity" else {}
    return Case(seed, columns_of(rows), roles, {"new": candidate}, asked=Asked(**asked))


@cache
def user_of(bucket: int) -> str:
    """A user whose records fall into a bucket."""
    return next(name for name in map(str, itertools.count()) if bucket_of(name) == bucket)


def draw(seed: int) -> Case:
    """The case of this number."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    contexts, pool = _names(rng, 6), _names(rng, rng.choice((2, 4, 7)))
    logged = contexts[: rng.randint(1, 5)]
    days = _days(rng)
    rows = [row for x in logged for row in _rows(rng, x, pool, days)]
    if not any(map(any, (row.clicks for row in rows))):  # which every question refuses
        rows[0] = rows[0]._replace(clicks=(1.0, *rows[0].clicks[1:]))
    _weigh(rng, rows)
    kind = rng.choice(KINDS)
    known = [x for x in logged if rng.random() < 0.85]
    if rng.random() < 0.97 and not known:
        known = logged[:1]
    known += contexts[len(logged) :][: rng.randint(0 if known else 1, 1)]
    rng.randrange(3), rng.randrange(4)  # of no use now; without them all seeds would be other cases
    candidate = {x: _lists(rng, x, pool, rows, single=kind == "Ranking") for x in known}
    logging, pi = _logging(rng, rows, pool, candidate)
    depth = max(len(row.items) for row in rows)
    measures = tuple(dict.fromkeys(_measure(rng, depth) for _ in range(rng.randint(1, 4))))
    models = tuple(rng.sample(oracle.MODELS, rng.randint(1, 7)))
    if logging == "propensity" and rng.random() < 0.8:
        models = rng.choice((("list",), ("ip",), ("prefix",), ("ip", "prefix")))
    clips = (math.inf,) if any(m.first for m in measures) and rng.random() < 0.8 else _clips(rng)
    rng.shuffle(rows)
    asked: dict[str, Any] = {
        "missing": rng.choice(("production", "production", "drop", "drop", "error")),
        "by": rng.random() < 0.2,
        "clusters": rng.choice((None, None, "record", "period")),
    }
    return case_of(
        rows,
        candidate,
        seed=seed,
        units=rng.random() < 0.3,
        propensity="chance" if models == ("list",) else "chances",
        kind=kind,
        models=models,
        measures=measures,
        clips=clips,
        logging=logging,
        pi=pi,
        slots=rng.choice((1, 7, 50, 4_000_000, 4_000_000, 4_000_000)),
        **asked,
    )


def _clips(rng: random.Random) -> tuple[float, ...]:
    some = (1e-9, 0.37, 1.0, 1.37, 5.3, 97.1, 1e9, math.inf)
    return tuple(rng.sample(some, rng.randint(1, 3)))


def _names(rng: random.Random, count: int) -> list[Any]:
    """Distinct contexts or items: text or integers, plain or not."""
    style = rng.random()
    if style < 0.3:
        return rng.sample(TEXTS, count)
    if style < 0.5:
        return rng.sample(NUMBERS, count)
    if style < 0.7:
        return [f"name {i}" for i in range(count)]
    return list(range(count))


def _days(rng: random.Random) -> list[Any]:
    count = rng.randint(2, 5)
    match rng.randrange(4):
        case 0:
            return [dt.date(2026, 2, 27) + dt.timedelta(days=i) for i in range(count)]
        case 1:
            return rng.sample(TEXTS, count)
        case 2:
            return [*range(count), None]
        case _:
            return list(range(-1, count))


def _rows(rng: random.Random, context: Any, pool: Sequence[Any], days: list[Any]) -> list[Row]:  # noqa: ANN401
    """Rows of one context: a few lists, shown again and again with other clicks."""
    shown = [_list(rng, pool) for _ in range(rng.randint(1, 4))]
    scale = rng.choice((1.0, 1.0, 1.0, 2.25, 1e-6, 1e6))
    rate = rng.choice((0.0, 0.2, 0.5, 1.0))
    chances = [rng.choice((1.0, 0.5, 0.1, 1 / 3, 1e-6)) for _ in shown]
    rows = []
    for _ in range(rng.randint(1, 10)):
        number = rng.randrange(len(shown))
        items = shown[number]
        clicks = tuple(
            scale * rng.choice((1, 1, 0.5) if scale == 2.25 else (1,)) * (rng.random() < rate)
            for _ in items
        )
        odd = rng.random() < 0.2  # the same list with another propensity
        chance = rng.uniform(0.01, 1) if odd else chances[number]
        rows.append(
            Row(
                context,
                items,
                clicks,
                1,
                rng.choice(days),
                rng.choice(LANDS),
                user_of(rng.randrange(BUCKETS)),
                chance,
                tuple(min(1.0, chance * (1 + k)) for k in range(len(items))),
            )
        )
    return rows


def _list(rng: random.Random, pool: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(rng.sample(pool, rng.randint(1, min(len(pool), 5))))


def _weigh(rng: random.Random, rows: list[Row]) -> None:
    """Give every row how many records it stands for: one, many, very many, or a fraction."""
    ways: list[tuple[float, ...]] = [
        *((1,), (1,), (1, 2, 3, 10), (1, 10**6, 10**9), (10**12,)),
        *((0.125, 0.5, 3.25), (0.1, 1 / 3, 2.7)),
    ]
    way = rng.choice(ways)
    rows[:] = [row._replace(times=rng.choice(way)) for row in rows]


def _lists(
    rng: random.Random,
    context: Any,  # noqa: ANN401
    pool: Sequence[Any],
    rows: Sequence[Row],
    *,
    single: bool,
) -> dict[tuple[Any, ...], float]:
    """Lists of a candidate: some as logged, some new, and what the log never showed."""
    logged = [row.items for row in rows if row.context == context]
    ways = ((1.0,), (0.25, 0.75), (1 / 3, 1 / 3, 1 / 3), (1 - 1e-9, 1e-9), (1e-300, 1.0))
    weights = (1.0,) if single else rng.choice(ways)
    found: dict[tuple[Any, ...], float] = {}
    new = [*pool, _stranger(pool)]
    for mass in weights:
        for _ in range(20):
            one = rng.choice(logged) if logged and rng.random() < 0.5 else _list(rng, new)
            if one not in found:
                found[one] = mass
                break
    everything = sum(found.values())
    return {one: mass / everything for one, mass in found.items()}


def rival(case: Case) -> Case:
    """The same question about another candidate, of lists; it may know other contexts."""
    rng = random.Random(case.seed)  # noqa: S311 - no secret
    pool = list(dict.fromkeys(item for row in case.rows for item in row.items))
    known = [x for x in case.candidate if rng.random() < 0.9] or list(case.candidate)
    found = {}
    for x in known:
        alike = case.asked.kind in LISTED and rng.random() < 0.3
        found[x] = case.candidate[x] if alike else _lists(rng, x, pool, case.rows, single=False)
    return case.proposing(new=found).asking(kind="Lists")


def _stranger(pool: Sequence[Any]) -> Any:  # noqa: ANN401
    """An item that no log shows."""
    return "an item never shown" if isinstance(pool[0], str) else 123_456_789


def _logging(
    rng: random.Random, rows: list[Row], pool: Sequence[Any], candidate: dict[Any, Any]
) -> tuple[str | None, dict[Any, Any] | None]:
    """Whether the logging policy is known: by propensities, or as lists, perhaps not as logged."""
    how = rng.random()
    if how < 0.7:
        return None, None
    if how < 0.85:
        return "propensity", None
    pi: dict[Any, Any] = {}
    for x in dict.fromkeys(row.context for row in rows):
        lists = {row.items for row in rows if row.context == x}
        lists |= {_list(rng, pool)} | set(candidate.get(x, {}))
        some = sorted(lists, key=repr)
        if len(some) > 1 and rng.random() < 0.3:
            some.pop(rng.randrange(len(some)))
        raw = [rng.choice((1.0, 0.3, 1e-9)) for _ in some]
        pi[x] = {one: r / sum(raw) for one, r in zip(some, raw, strict=True)}
    if rng.random() < 0.05 and len(pi) > 1:
        pi.pop(next(iter(pi)))
    return "policy", pi


def _measure(rng: random.Random, depth: int) -> Measure:
    deep = rng.choice((1, 2, 3, depth, depth + 3))
    match rng.randrange(6):
        case 0:
            return Measure(f"clicks@{deep}", oracle.clicks_at(deep))
        case 1:
            return Measure(f"dcg@{deep}", oracle.dcg_at(deep))
        case 2:
            return Measure(f"success@{deep}", firsts.success_at(deep), True)
        case 3:
            return Measure(f"mrr@{deep}", firsts.mrr_at(deep), True)
        case _:
            size = rng.choice((1.0, 1e-9, 1e9, 1.0))
            theta = [size * rng.choice((0, 1, 0.5, 0.1)) for _ in range(deep)]
            theta[rng.randrange(deep)] = size
            while theta[-1] == 0:
                theta.pop()
            return Measure(tuple(theta), tuple(theta))
