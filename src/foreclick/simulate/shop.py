"""A search shop: a long tail of queries, a learnt ranker, and candidates that are other models.

Production's model is replaced every week and retrained every night, so that most lists of most
queries are shown a few times and never again, as in real logs. A candidate is another model, with
an error of its own, and not one of production's lists with two items exchanged.

    log-odds of item a for query x = match(x, a) + quality(a) + what no model knows − 2.2
    score of a model               = match(x, a) + quality(a) + the model's error

Arrays: n records, K positions, Q queries that occur, `pool` items that each query could show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.errors import MetricError, SimulationError
from foreclick.metrics import CLICKS, Metric
from foreclick.simulate.worlds import (
    DBN,
    PBM,
    Booleans,
    Floats,
    Integers,
    World,
    list_column,
    stream,
)

TRAINED_UNTIL = 20
"""The last day whose clicks the candidate "leaky" is trained on; days are numbered from 0."""

ERRORS = {"better": 0.4, "similar": 1.05, "worse": 2.0, "tweak": 0.0, "leaky": 1.05, "dear": 1.05}
"""The candidates, and the errors of their models as multiples of `Shop.noise`.

"similar" is another model with errors as large as production's: on average over shops as good, in
one of them a few per cent better or worse; "tweak" is production's last model with a quarter of its
error taken away; "leaky" has seen clicks of the log that it is evaluated on; "dear" prefers items
with high prices.
"""

(
    _TRAFFIC,
    _GOODS,
    _ERRORS,
    _NIGHTS,
    _MOODS,
    _TASTES,
    _CLICKS,
    _CANDIDATES,
    _ARMS,
    _WARES,
    _OTHERS,
) = range(11)
"""Purposes of random numbers: each has a stream of its own."""

_PROPERTIES = 16
"""How many properties of an item a query may wish for."""

ARMS = ("control", "treatment")
"""What an A/B test calls production's users and those of the other model."""


@dataclass(frozen=True)
class Shop:
    """The parameters of a simulated search shop; `draw` and `draw_tests` take one.

    Attributes:
        records: n, the number of records.
        queries: the number of queries that could occur; query r has a share proportional to
            r^−zipf.
        zipf: the exponent of these shares; 0 for equal ones.
        positions: K.
        days: the number of days, counted from 0.
        pool: the number of items that a query could show.
        catalogue: the number of all items; queries share them.
        users: "pbm" (position alone decides what is examined: k^−0.8) or "dbn" (a click satisfies
            with probability .6, and the unsatisfied go on with .85).
        noise: the standard deviation of a model's error.
        versions: production's models, one after the other: their errors as multiples of `noise`.
        nightly: the standard deviation of the error that is drawn anew every night.
        alien: the share of items that production never shows and candidates may, and the difference
            of their log-odds from what models know; None for none.
        leak: how far "leaky" follows the log's clicks until day 20.
        feedback: how far production's nightly training follows the log's clicks of earlier days.
        taste: the standard deviation of users' factors of attraction, with mean 1.
        prices: the standard deviation of the logarithm of prices, if the log has orders and
            revenue; 0: it has none.
        bought: the share of clicks on an item of price 1 that become orders; 1 for all.
        candidates: names of `ERRORS`.
        others: the share of users who form a segment, and how far their taste differs: 0 for the
            same taste, 1 for an unrelated one; None for no segment.
        test: one of `ERRORS` whose model is tested against production: it is retrained every night
            as production is, and shown to some users; None for no A/B test.
        share: the share of users in the tested arm.
        start: the first day of the test.
        pooled: whether nightly training of both arms follows the clicks of both, rather than those
            of each arm alone.
    """

    records: int = 200_000
    queries: int = 5_000
    zipf: float = 1.0
    positions: int = 10
    days: int = 28
    pool: int = 40
    catalogue: int = 50_000
    users: str = "pbm"
    noise: float = 0.6
    versions: tuple[float, ...] = (1.2, 1.0, 1.1, 0.9)
    nightly: float = 0.15
    alien: tuple[float, float] | None = None
    leak: float = 0.0
    feedback: float = 0.0
    taste: float = 0.0
    prices: float = 0.0
    bought: float = 0.1
    candidates: tuple[str, ...] = ("better", "similar", "worse", "tweak")
    others: tuple[float, float] | None = None
    test: str | None = None
    share: float = 0.5
    start: int = 0
    pooled: bool = False

    def __post_init__(self) -> None:
        counts = (self.records, self.queries, self.positions, self.days, len(self.versions))
        right = min(counts) >= 1 and self.positions <= self.pool <= self.catalogue
        right &= min(self.noise, self.nightly, self.leak, self.feedback, self.taste) >= 0
        right &= (self.alien is None or 0 <= self.alien[0] <= 1) and 0 < self.share < 1
        right &= self.others is None or (0 < self.others[0] < 1 and 0 <= self.others[1] <= 1)
        right &= self.prices >= 0 and 0 < self.bought <= 1
        right &= self.users in {"pbm", "dbn"} and {*self.candidates} <= {*ERRORS}
        if not right or self.test not in {None, *ERRORS} or not 0 <= self.start < self.days:
            raise SimulationError(
                f"{self} is no shop: counts are at least 1, positions ≤ pool ≤ catalogue, spreads "
                "at least 0, the share of alien items from 0 to 1, those of tested and of other "
                "users between, "
                "the test starts within the days, users 'pbm' or 'dbn', and candidates and test of "
                f"{', '.join(ERRORS)}."
            )


REGIMES: Mapping[str, Shop] = {
    "shop": Shop(),
    "dbn": Shop(users="dbn"),
    "head": Shop(queries=500),
    "tail": Shop(queries=50_000),
    "flat": Shop(zipf=0.8),
    "steep": Shop(zipf=1.2),
    "small": Shop(records=50_000),
    "deep pool": Shop(pool=200),
    "no nights": Shop(nightly=0.0),
    "one ranker": Shop(versions=(1.0,), nightly=0.3),
    "eight rankers": Shop(versions=(1.2, 1.0, 1.1, 0.9, 1.3, 1.0, 0.8, 1.1)),
    "alien, as good": Shop(alien=(0.3, 0.0)),
    "alien, worse": Shop(alien=(0.3, -0.7)),
    "alien, better": Shop(alien=(0.3, 0.7)),
    "leaky": Shop(leak=1.0, candidates=("leaky",)),
    "feedback .25": Shop(feedback=0.25),
    "feedback .5": Shop(feedback=0.5),
    "feedback 1": Shop(feedback=1.0),
    "feedback, dbn": Shop(feedback=0.5, users="dbn"),
    "users differ": Shop(taste=0.5),
    "others": Shop(others=(0.2, 0.5)),
    "personal": Shop(records=60_000, queries=600_000, zipf=0.0),
    "prices": Shop(prices=0.6, candidates=("better", "similar", "worse", "tweak", "dear")),
    "bids": Shop(
        prices=0.6, bought=1.0, candidates=("better", "similar", "worse", "tweak", "dear")
    ),
}
"""Shops by name: the ordinary one, and what may differ in another."""


class ShopLog(NamedTuple):
    """A log, candidates, and what they are worth on the log's own traffic.

    Attributes:
        log: columns query, day, user, items and clicks, of an A/B test variant, which is null
            before it, of a shop with other users taste ("usual" or "other"), and of a shop with
            prices orders and revenue; records in the order of days.
        candidates: by name, a table of query and items, for every query that occurs.
        expected: by name and reward (clicks; of a shop with prices also orders and revenue), shape
            (K,): its true mean at each position, over all records. "production" is what its users
            were shown. "control" and "treatment" are what all users of the A/B test's days would be
            shown. Moods of days and tastes of users are 1. "production later" and "leaky later"
            are sums over the days after `TRAINED_UNTIL`, "production of others" and the like over
            the records of other users.
    """

    log: pa.Table
    candidates: dict[str, pa.Table]
    expected: dict[tuple[str, str], Floats]

    def lift(self, candidate: str, metric: str | Metric, against: str = "production") -> float:
        """The true lift V(h) / V(production) − 1, for a weighted sum of a reward by position."""
        metric = Metric(metric)
        if (candidate, metric.reward) not in self.expected:
            raise MetricError(f"metric {str(metric)!r}: lifts are known of rewards by position.")
        value, shown = (self.expected[name, metric.reward] for name in (candidate, against))
        theta = np.array(metric.theta)[: len(value)]
        value, shown = value[: len(theta)], shown[: len(theta)]
        return float(theta @ value / (theta @ shown) - 1)


class _Goods(NamedTuple):
    """What a query could show, each of shape (Q, pool)."""

    items: Integers
    known: Floats  # what a perfect model would score
    attraction: Floats
    others: Floats  # the attraction to other users
    alien: Booleans
    wares: dict[str, Floats]  # what a click earns, by reward


def draw(shop: Shop, seed: int = 0) -> ShopLog:
    """A log of a shop, its candidates, and what they are worth.

    Args:
        shop: such as ``REGIMES["dbn"]``, or any other `Shop`.
        seed: another seed is another shop of this kind.

    Examples:
        >>> drawn = draw(Shop(records=1000, queries=50), seed=1)
        >>> drawn.log.column_names
        ['query', 'day', 'user', 'items', 'clicks']
        >>> drawn.lift("better", "dcg@10") > drawn.lift("worse", "dcg@10")
        True
    """
    rng = stream(seed, _TRAFFIC)
    shares = np.arange(1, shop.queries + 1) ** -float(shop.zipf)
    ranks = rng.choice(shop.queries, shop.records, p=shares / shares.sum())
    query = np.unique(ranks, return_inverse=True)[1]
    day = np.sort(rng.integers(0, shop.days, shop.records))
    users = -(-shop.records // 5)
    user = rng.integers(0, users, shop.records)
    tastes = np.ones(users)
    if shop.taste:
        tastes = stream(seed, _TASTES).gamma(shop.taste**-2, shop.taste**2, users)
    effect = stream(seed, _MOODS).normal(1, 0.05, shop.days)[day] * tastes[user]

    traffic = np.bincount(query).astype(np.float64)
    goods = _goods(shop, len(traffic), seed)
    examination = np.arange(1, shop.positions + 1) ** -0.8
    worlds = [_world(shop, goods.attraction)]
    other = np.zeros(users, np.bool_)
    if shop.others is not None:
        worlds.append(_world(shop, goods.others))
        other = stream(seed, _OTHERS).random(users) < shop.others[0]
    models = [_model(shop, goods, f, seed, _ERRORS, v) for v, f in enumerate(shop.versions)]
    rival, arm = None, np.zeros(shop.records, np.int64)
    test: tuple[int, ...] = ()
    if shop.test is not None:
        rival = _candidate(shop, goods, shop.test, models[-1], seed)
        # Tests that begin later share the days before, and have lists and clicks of their own.
        test = (list(ERRORS).index(shop.test),) if shop.start else ()
        treated = stream(seed, _ARMS, *test).random(users) < shop.share
        arm = np.where(day >= shop.start, treated[user], 0)
    nights, reading = stream(seed, _NIGHTS), stream(seed, _CLICKS)
    counts = np.zeros((len(ARMS), 2, *goods.known.shape))  # by arm: clicks, and examinations
    leaked = counts[0]  # as "leaky" knows them
    shown = np.empty((shop.records, shop.positions), np.int64)
    clicks = np.empty(shown.shape, np.int8)
    every, earns = np.arange(len(traffic)), {CLICKS: np.ones(goods.known.shape)} | goods.wares
    shows = ("production", "production later", "production of others", *ARMS)
    expected = {(name, reward): np.zeros(shop.positions) for reward in earns for name in shows}

    def earned(top: Integers, requests: Integers | Floats, whose: int = 0) -> dict[str, Floats]:
        """By reward, shape (K,): what requests of each query are expected to earn."""
        rates = worlds[whose].clicks(every, top)
        at_slots = {reward: np.take_along_axis(each, top, 1) for reward, each in earns.items()}
        return {reward: requests @ (rates * each) for reward, each in at_slots.items()}

    for today in range(shop.days):
        testing = rival is not None and today >= shop.start
        scores = [models[today * len(models) // shop.days]]
        scores += [rival] if rival is not None and testing else []
        if testing and shop.start and today == shop.start:
            nights, reading = (stream(seed, each, *test) for each in (_NIGHTS, _CLICKS))
        rows = slice(*np.searchsorted(day, [today, today + 1]))
        queries, tops = query[rows], []
        requests = [
            np.bincount(queries[other[user[rows]] == whose], minlength=len(traffic))
            for whose in range(len(worlds))
        ]
        for name, model, (clicked, examined) in zip(ARMS, scores, counts, strict=False):
            score = model + shop.nightly * nights.normal(size=model.shape)
            if shop.feedback:
                # Clicks over those of an item that is clicked one time in ten that it is examined.
                score += shop.feedback * np.log((clicked + 2) / (0.1 * examined + 2))
            score = np.where(goods.alien & (name == ARMS[0]), -np.inf, score)
            tops.append(_top(score, shop.positions))
            tested = testing / (day >= shop.start).sum()
            for whose, own_requests in enumerate(requests):
                for reward, each in earned(tops[-1], own_requests, whose).items():
                    expected[name, reward] += each * tested
                    own = each * (name == ARMS[0])
                    expected["production", reward] += own / shop.records
                    expected["production later", reward] += own * (today > TRAINED_UNTIL)
                    expected["production of others", reward] += own * whose
        lists = np.stack(tops)[arm[rows], queries]
        shown[rows] = goods.items[queries[:, None], lists]
        clicks[rows] = worlds[0].sample(queries, lists, reading, effect[rows])
        if shop.others is not None:
            theirs = worlds[1].sample(queries, lists, stream(seed, _OTHERS, today), effect[rows])
            clicks[rows] = np.where(other[user[rows], None], theirs, clicks[rows])
        if shop.feedback or shop.leak:
            slots = (queries[:, None] * shop.pool + lists).ravel()
            weights = (clicks[rows].ravel(), np.tile(examination, len(queries)))
            apart = testing and not shop.pooled
            for number in range(len(ARMS)):
                in_arm = np.repeat(arm[rows] == number, shop.positions) if apart else 1
                more = [np.bincount(slots, w * in_arm, goods.known.size) for w in weights]
                counts[number] += np.reshape(more, counts[number].shape)
            leaked = counts[0].copy() if today <= TRAINED_UNTIL else leaked

    candidates = {}
    for name in (name for name in ERRORS if name in shop.candidates):
        score = _candidate(shop, goods, name, models[-1], seed)
        if name == "leaky":
            usual = leaked[0].sum() / max(leaked[1].sum(), 1)
            score += shop.leak * np.log((leaked[0] + 1) / (leaked[1] * usual + 1))
        top = _top(score, shop.positions)
        items = list_column(np.take_along_axis(goods.items, top, 1))
        candidates[name] = pa.table({"query": every, "items": items})
        others: Floats = np.bincount(query[other[user]], minlength=len(traffic)).astype(float)
        for reward, each in earned(top, traffic - others).items():
            expected[name, reward] = each / shop.records
            if shop.others is not None:
                from_others = earned(top, others, 1)[reward]
                expected[f"{name} of others", reward] = from_others
                expected[name, reward] += from_others / shop.records
        if name == "leaky":
            later = np.bincount(query[day > TRAINED_UNTIL], minlength=len(traffic))
            for reward, each in earned(top, later).items():
                expected["leaky later", reward] = each
    columns: dict[str, Any] = {"query": query, "day": day, "user": user}
    if rival is not None:
        columns["variant"] = pa.array(np.array(ARMS)[arm], mask=day < shop.start)
    if shop.others is not None:
        columns["taste"] = np.where(other[user], "other", "usual").tolist()
    columns |= {"items": list_column(shown), "clicks": list_column(clicks)}
    if goods.wares:
        chance, value = (
            goods.wares[name][query[:, None], shown // (shop.catalogue // shop.pool)]
            for name in ("orders", "revenue")
        )
        bought = clicks * (stream(seed, _WARES, 1).random(shown.shape) < chance)
        columns["orders"] = list_column(bought)
        columns["revenue"] = list_column(bought * value / chance)
    return ShopLog(pa.table(columns), candidates, expected)


def draw_tests(
    shop: Shop, models: Sequence[str] = ("better", "similar", "worse"), seed: int = 0
) -> tuple[ShopLog, pa.Table]:
    """A log, its candidates, and the A/B test of each that came later.

    Args:
        shop: with `start`, the first day of all tests.
        models: the candidates.
        seed: another seed is another shop of this kind.

    Returns:
        The log of the days before, with the candidates; and the records of all tests, with a
        column `model` that names the test. `expected` is of all days.

    Examples:
        >>> before, tests = draw_tests(Shop(records=900, queries=9, days=3, start=2), ["worse"])
        >>> len(before.log) + len(tests), tests.column_names
        (900, ['query', 'day', 'user', 'variant', 'items', 'clicks', 'model'])
    """
    drawn = [draw(replace(shop, test=model, candidates=tuple(models)), seed) for model in models]
    later = [pc.greater_equal(each.log["day"], shop.start) for each in drawn]
    tests = [
        each.log.filter(some).append_column("model", pa.array([model] * pc.sum(some).as_py()))
        for each, some, model in zip(drawn, later, models, strict=True)
    ]
    before = drawn[0].log.filter(pc.invert(later[0])).drop_columns("variant")
    return drawn[0]._replace(log=before), pa.concat_tables(tests)


def _candidate(shop: Shop, goods: _Goods, name: str, last: Floats, seed: int) -> Floats:
    """The scores of a candidate's model, without what it learns from the log."""
    if name == "tweak":
        return np.where(goods.alien, -np.inf, 0.75 * last + 0.25 * goods.known)
    found = _model(shop, goods, ERRORS[name], seed, _CANDIDATES, list(ERRORS).index(name))
    if name == "dear" and goods.wares:
        found += 0.5 * np.log(goods.wares["revenue"] / goods.wares["orders"]) / shop.prices
    return found


def _goods(shop: Shop, queries: int, seed: int) -> _Goods:
    """The items of every query, and how attractive they are."""
    rng = stream(seed, _GOODS)
    wishes = rng.normal(size=(queries, _PROPERTIES))
    properties = rng.normal(size=(shop.catalogue, _PROPERTIES))
    quality = 0.7 * rng.normal(size=shop.catalogue)
    # Place p of a pool holds one of the items of part p of the catalogue: none stands there twice.
    part = shop.catalogue // shop.pool
    items = rng.integers(0, part, (queries, shop.pool)) + np.arange(shop.pool) * part
    known = quality[items]
    for d in range(_PROPERTIES):  # one by one: all properties of all pools need not fit memory
        known += 0.9 / 4 * wishes[:, d, None] * properties[items, d]
    odds = known + 0.7 * rng.normal(size=known.shape) - 2.2
    alien = np.zeros(known.shape, np.bool_)
    if shop.alien:
        alien = rng.random(known.shape) < shop.alien[0]
        odds += alien * shop.alien[1]
    theirs = odds
    if shop.others is not None:  # log-odds as spread out as the usual ones
        apart = shop.others[1]
        drawn = odds.std() * stream(seed, _OTHERS, 1 << 20).normal(size=odds.shape)
        theirs = odds.mean() + (1 - apart) * (odds - odds.mean())
        theirs = theirs + np.sqrt(1 - (1 - apart) ** 2) * drawn
    rates, others = 1 / (1 + np.exp(-odds)), 1 / (1 + np.exp(-theirs))
    return _Goods(items, known, rates, others, alien, _wares(shop, items, seed))


def _world(shop: Shop, attraction: Floats) -> World:
    """How lists are clicked by users to whom items are so attractive."""
    if shop.users == "dbn":
        return DBN(attraction, np.full(attraction.shape, 0.6), 0.85, shop.positions)
    return PBM(attraction, np.arange(1, shop.positions + 1) ** -0.8)


def _wares(shop: Shop, items: Integers, seed: int) -> dict[str, Floats]:
    """What a click earns, shape (Q, pool): fewer orders at high prices, and more of some items."""
    if not shop.prices:
        return {}
    rng = stream(seed, _WARES)
    price, liked = rng.normal(size=(2, shop.catalogue))
    price *= shop.prices
    orders = np.ones(items.shape)
    if shop.bought < 1:
        odds = np.log(shop.bought / (1 - shop.bought)) + (0.4 * liked - 0.5 * price)[items]
        orders = 1 / (1 + np.exp(-odds - 0.3 * rng.normal(size=items.shape)))
    return {"orders": orders, "revenue": orders * np.exp(price)[items]}


def _model(shop: Shop, goods: _Goods, error: float, seed: int, *purpose: int) -> Floats:
    """The scores of a model with an error of its own."""
    noise = stream(seed, *purpose).normal(size=goods.known.shape)
    return goods.known + shop.noise * error * noise


def _top(score: Floats, positions: int) -> Integers:
    """Shape (Q, K): the places of the best items of each pool, the best first."""
    return np.argsort(-score, axis=1)[:, :positions]
