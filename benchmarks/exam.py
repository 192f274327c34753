"""The exam: logs of a shop whose rankers are really trained, beside the truth.

Nothing here is shared with `foreclick.simulate`, neither code nor form, and nothing was chosen by
what an estimator makes of it. scikit-learn trains the rankers (the dependency group `exam`).

- *Queries*: 3,000 with log-normal frequencies, others on weekends, of three kinds. Navigational:
  one item is meant, and after a click the reader is gone. Browsing: every position is examined on
  its own, and many are clicked. Choosing: readers go down the list until a click satisfies them.
- *Readers*: patient, ordinary and hasty ones examine differently; weekends have more patient ones.
  They trust the ranker: P(click | examined) = r (.9 − .02 k) + (1 − r) .15 / (1 + k), k from 0,
  where r is the relevance of the item for the query.
- *Items*: 8,000 in 40 categories. Two of five are always there; others arrive and leave.
- *Rankers*: trained every night on the clicks of the last seven days, with the features as they
  were when a list was shown: text match, price, rating, age, popularity, clicks of the query so
  far. Each week has another: two logistic regressions, then boosted trees with inverse propensity
  weights, then trees that know the position. Before there are clicks, a formula ranks.
- *Candidates*: trained on days 0 to 20 of 28, with one list for each query of what was there on day
  20, as a team would dump it.

The truth is exact: the mean click probability of every position over the log's own traffic, for the
candidate's lists and for those that were shown.

    python -m benchmarks exam                       # 10 logs of 150,000 lists
    python -m benchmarks exam --logs 1 --lists 20000

The table is that of `benchmarks.shop`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import foreclick as fc
from benchmarks.logs import listed
from benchmarks.shop import ANSWERS, METRICS, asked
from benchmarks.study import Row, study

try:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from threadpoolctl import threadpool_limits
except ImportError as error:
    raise SystemExit("the exam trains rankers: pip install scikit-learn") from error

POSITIONS, POOL, EVERGREEN, CATEGORIES = 10, 48, 14, 40
TRAINED_UNTIL = 20
"""The last day that candidates are trained on; days are numbered from 0."""

FEATURES = ("text", "vector", "title", "price", "rating", "length", "age", "popular", "clicked")
NAVIGATIONAL, BROWSING, CHOOSING = range(3)
MOODS = 3
"""Patient, ordinary and hasty readers."""

GOES_ON = np.array([0.93, 0.85, 0.7])  # by mood: to the next position, of those who read downwards
HALFWAY = np.array([8.0, 5.0, 3.0])  # by mood: where half of those who browse still look
_MARKET, _DAY, _NIGHT, _CANDIDATE = range(4)  # streams of random numbers


# --- what is true ---------------------------------------------------------------------------------


class Market(NamedTuple):
    """Queries, and the items that each could show; Q queries, `POOL` places."""

    kind: Any  # (Q,)
    share: Any  # (2, Q): of queries on workdays and on weekends
    items: Any  # (Q, POOL)
    relevance: Any  # (Q, POOL)
    fixed: Any  # (Q, POOL, 6): the features that no day changes
    arrives: Any  # (Q, POOL): the day from which an item is there
    leaves: Any  # (Q, POOL): the day from which it is gone

    def there(self, day: int) -> Any:
        """Shape (Q, POOL): which items can be shown on a day."""
        return (self.arrives <= day) & (day < self.leaves)


def market(queries: int, items: int, seed: int) -> Market:
    """A market: who asks for what, and how good each item is for it."""
    rng = np.random.default_rng([seed, _MARKET])
    each = items // CATEGORIES
    always = each * 2 // 5
    number = np.arange(items) % each  # within its category
    known = rng.random(items) < 0.5
    arrives = np.where(known, -rng.integers(1, 60, items), rng.integers(0, 28, items))
    leaves = np.maximum(arrives, 0) + 3 + rng.exponential(25, items).astype(int)
    arrives = np.where(number < always, -100, arrives)
    leaves = np.where(number < always, 10_000, leaves)
    price, quality = rng.normal(size=items), rng.normal(size=items)
    rating = quality + rng.normal(0, 0.8, items)

    kind = rng.choice(3, queries, p=[0.3, 0.4, 0.3])
    shares = rng.lognormal(0, 2, queries) * rng.lognormal(0, 0.4, (2, queries))
    category, budget = rng.integers(0, CATEGORIES, queries), rng.normal(size=queries)
    parts = ((0, always, EVERGREEN), (always, each - always, POOL - EVERGREEN))
    pool = np.array(
        [
            np.concatenate([at + rng.choice(of, n, replace=False) for at, of, n in parts])
            for _ in range(queries)
        ]
    )
    pool += category[:, None] * each
    match = rng.normal(size=pool.shape)
    gap = price[pool] - budget[:, None]
    rest = rng.normal(size=pool.shape)
    odds = 1.1 * match - 0.4 * gap**2 + 0.6 * quality[pool] + 0.6 * rest - 1.5
    relevance = 1 / (1 + np.exp(-odds))
    # Whoever navigates means one item, which is always there; others are of little use.
    meant = np.zeros(pool.shape, bool)
    meant[np.arange(queries), rng.integers(0, EVERGREEN, queries)] = True
    meant &= (kind == NAVIGATIONAL)[:, None]
    relevance[kind == NAVIGATIONAL] *= 0.2
    relevance[meant] = rng.uniform(0.7, 0.95, meant.sum())
    match = match + 2.0 * meant
    fixed = np.stack(
        [
            match + rng.normal(0, 0.9, pool.shape),
            match + rng.normal(0, 0.7, pool.shape),
            rng.random(pool.shape) < np.where(meant, 0.8, 0.05),
            gap,
            rating[pool],
            np.broadcast_to((kind + rng.normal(0, 0.7, queries))[:, None], pool.shape),
        ],
        axis=2,
    )
    shares = shares / shares.sum(axis=1, keepdims=True)
    return Market(kind, shares, pool, relevance, fixed, arrives[pool], leaves[pool])


def reading(kind: Any, mood: Any, relevance: Any) -> tuple[Any, Any, Any]:
    """How lists are read, three arrays of shape (n, K).

    P(click | examined), with trust in high positions; of those who read downwards, P(gone | click);
    of those who browse, P(examined).
    """
    k = np.arange(relevance.shape[1])
    rate = relevance * (0.9 - 0.02 * k) + (1 - relevance) * 0.15 / (1 + k)
    gone = np.where((kind == NAVIGATIONAL)[:, None], 0.97, 0.15 + 0.7 * relevance)
    return rate, gone, 1 / (1 + np.exp((k + 1 - HALFWAY[mood][:, None]) / 1.8))


def expected(kind: Any, mood: Any, relevance: Any) -> Any:
    """Shape (n, K): the exact click probability of each slot."""
    rate, gone, looked = reading(kind, mood, relevance)
    reads, clicks = np.ones(len(rate)), np.empty(rate.shape)
    for k in range(rate.shape[1]):
        clicks[:, k] = reads * rate[:, k]
        reads = (reads - clicks[:, k] * gone[:, k]) * GOES_ON[mood]
    return np.where((kind == BROWSING)[:, None], rate * looked, clicks)


def clicked(kind: Any, mood: Any, relevance: Any, rng: np.random.Generator) -> Any:
    """Shape (n, K): the clicks of one reader of each list."""
    rate, gone, looked = reading(kind, mood, relevance)
    likes, stays, goes_on, looks = (rng.random(rate.shape) for _ in range(4))
    likes = likes < rate
    left = (likes & (stays < gone)) | (goes_on >= GOES_ON[mood][:, None])
    reads = np.ones(rate.shape, bool)
    reads[:, 1:] = ~np.logical_or.accumulate(left[:, :-1], axis=1)
    return likes & np.where((kind == BROWSING)[:, None], looks < looked, reads)


# --- rankers that are trained ---------------------------------------------------------------------


@dataclass
class Records:
    """What a team keeps: features of what was shown, counts of lists and clicks, by day and query.

    Attributes:
        features: by day, shape (Q, K, F).
        shown: by day, shape (Q,): how many lists.
        clicks: by day, shape (Q, K).
        popular: shape (items,): clicks so far, older ones counting less.
        liked, expected: shape (Q, POOL): clicks so far, and those usual at these positions.
    """

    features: list[Any]
    shown: list[Any]
    clicks: list[Any]
    popular: Any
    liked: Any
    expected: Any

    def position_rates(self) -> Any:
        """Shape (K,): the mean click rate at each position, so far."""
        lists = max(sum(shown.sum() for shown in self.shown), 1)
        return (sum(clicks.sum(axis=0) for clicks in self.clicks) + 1) / (lists + 10)

    def described(self, place: Market, day: int) -> Any:
        """Shape (Q, POOL, F): all features, as they are on the morning of a day."""
        age = np.log1p(np.minimum(np.maximum(day - place.arrives, 0), 90))
        popular = np.log1p(self.popular)[place.items]
        liked = np.log((self.liked + 1) / (self.expected + 1))
        moving = np.stack([age, popular, liked], axis=2)
        return np.concatenate([place.fixed, moving], axis=2)

    def keep(self, place: Market, features: Any, top: Any, query: Any, clicks: Any) -> None:
        """Add a day: the features and places of what was shown, and who clicked on what."""
        shown = np.bincount(query, minlength=len(top))
        slots = query[:, None] * POSITIONS + np.arange(POSITIONS)
        by_slot = np.bincount(slots[clicks], minlength=top.size).reshape(top.shape)
        self.features.append(np.take_along_axis(features, top[:, :, None], 1))
        self.shown.append(shown)
        self.clicks.append(by_slot)
        self.popular *= 0.95
        np.add.at(self.popular, np.take_along_axis(place.items, top, 1), by_slot)
        rows = np.arange(len(top))[:, None]
        self.liked[rows, top] += by_slot
        self.expected[rows, top] += shown[:, None] * self.position_rates()


@dataclass(frozen=True)
class Learner:
    """A way to train a ranker.

    Attributes:
        method: "linear", "boosted" or "bayes".
        features: names of `FEATURES`.
        debias: "position" (a feature that is the first position at serving), "weights" (clicks
            count by inverse propensity), or None.
        days: how many days before are learnt from; None for all.
    """

    method: str
    features: tuple[str, ...] = FEATURES
    debias: str | None = "position"
    days: int | None = 7

    def trained(self, records: Records, rng: np.random.Generator) -> Callable[[Any], Any]:
        """A function from features (…, F) to scores, learnt from 70 % of queries and days."""
        start = 0 if self.days is None else -self.days
        columns = [FEATURES.index(name) for name in self.features]
        x, shown, clicks = (
            np.concatenate(part[start:])
            for part in (records.features, records.shown, records.clicks)
        )
        used = (shown > 0) & (rng.random(len(shown)) < 0.7)
        position = np.tile(np.arange(POSITIONS), used.sum())
        x = x[used][:, :, columns].reshape(-1, len(columns))
        clicks = clicks[used].ravel().astype(float)
        skips = np.repeat(shown[used], POSITIONS) - clicks
        if self.debias == "weights":
            rates = records.position_rates()
            clicks *= (rates[0] / rates)[position]
        rows = self.rows(x, position)
        weights = np.concatenate([clicks, skips])
        target = np.repeat([1, 0], len(rows))
        there = weights > 0
        model = self.model()
        last = {f"{model.steps[-1][0]}__sample_weight": weights[there]}
        with threadpool_limits(1):  # threads that wait for each other cost more than they gain
            model.fit(np.concatenate([rows, rows])[there], target[there], **last)

        def score(features: Any) -> Any:
            flat = features[..., columns].reshape(-1, len(columns))
            served = self.rows(flat, np.zeros(len(flat), int))
            with threadpool_limits(1):
                return model.predict_proba(served)[:, 1].reshape(features.shape[:-1])

        return score

    def rows(self, x: Any, position: Any) -> Any:
        """What the model is given: trees take positions as numbers, others one by one."""
        if self.debias != "position":
            return x
        if self.method == "boosted":
            return np.column_stack([x, position])
        return np.column_stack([x, np.eye(POSITIONS)[position]])

    def model(self) -> Any:
        """The untrained model."""
        if self.method == "boosted":
            trees = {"max_iter": 60, "max_leaf_nodes": 15, "learning_rate": 0.15, "max_bins": 63}
            own = HistGradientBoostingClassifier(**trees, early_stopping=False, random_state=0)
            return make_pipeline(own)
        last = LogisticRegression(max_iter=300) if self.method == "linear" else GaussianNB()
        return make_pipeline(StandardScaler(), last)


PRODUCTION = (
    Learner("linear", ("text", "rating", "age", "popular")),
    Learner("linear"),
    Learner("boosted", FEATURES[:-1], debias="weights"),
    Learner("boosted"),
)
"""One for each week."""

CANDIDATES = {
    "trees": Learner("boosted", days=None),
    "linear": Learner("linear", debias="weights", days=None),
    "bayes": Learner("bayes", debias=None, days=3),
    "few": Learner("boosted", ("text", "price", "rating"), days=None),
}
"""Beside them, "popular" ranks by clicks so far."""


def by_hand(features: Any) -> Any:
    """The formula of the first day."""
    text, title, rating = (features[..., FEATURES.index(f)] for f in ("text", "title", "rating"))
    return text + 1.5 * title + 0.4 * rating


def ranked(score: Any, there: Any) -> Any:
    """Shape (Q, K): places of the best items that are there."""
    return np.argsort(-np.where(there, score, -np.inf), axis=1, kind="stable")[:, :POSITIONS]


# --- logs -----------------------------------------------------------------------------------------


Expected = dict[str, Any]
"""By name, shape (days, K): expected clicks of all lists of a day; of "production", too."""


def lift(expected: Expected, name: str, metric: str, since: int = 0) -> float:
    """The true lift over production, on the traffic from a day on."""
    theta = np.array(fc.Metric(metric).theta)
    value, shown = (
        expected[who][since:].sum(axis=0)[: len(theta)] @ theta for who in (name, "production")
    )
    return float(value / shown - 1)


def draw(seed: int, lists: int = 150_000) -> tuple[pa.Table, dict[str, pa.Table], Expected]:
    """A log of about so many lists, candidates with a list for each query, and the truth."""
    queries, items, days = 3_000, 8_000, 28
    place = market(queries, items, seed)
    every = np.arange(queries)
    liked, usual = np.zeros((2, queries, POOL))
    records = Records([], [], [], np.zeros(items), liked, usual)
    traffic = np.zeros((days, MOODS, queries))
    parts: list[pa.Table] = []
    production = np.zeros((days, POSITIONS))
    candidates: dict[str, Any] = {}
    for day in range(days):
        features = records.described(place, day)
        score: Callable[[Any], Any] = by_hand
        if day > 0:
            learner = PRODUCTION[min(day // 7, len(PRODUCTION) - 1)]
            score = learner.trained(records, np.random.default_rng([seed, _NIGHT, day]))
        top = ranked(score(features), place.there(day))
        rng, weekend = np.random.default_rng([seed, _DAY, day]), int(day % 7 >= 5)
        n = int(lists / 28 * (0.8 if weekend else 1.08))
        query = rng.choice(queries, n, p=place.share[weekend])
        # Some come often: a user's mood is that of the user, by the remainder of its number.
        user = (rng.pareto(1.5, n) * lists / 60).astype(np.int64) % (lists // 4 + MOODS)
        mood = np.where(rng.random(n) < 0.2 * weekend, 0, user % MOODS)
        relevance = np.take_along_axis(place.relevance, top, 1)
        clicks = clicked(place.kind[query], mood, relevance[query], rng)
        for m in range(MOODS):
            traffic[day, m] = np.bincount(query[mood == m], minlength=queries)
            rates = expected(place.kind, np.full(queries, m), relevance)
            production[day] += traffic[day, m] @ rates
        shown = np.take_along_axis(place.items, top, 1)[query]
        today = {"query": query, "day": np.full(n, day), "user": user}
        own = {"items": listed(shown), "clicks": listed(clicks.astype(np.int64))}
        parts.append(pa.table(today | own))
        records.keep(place, features, top, query, clicks)
        if day == TRAINED_UNTIL:
            candidates = trained(place, records, seed)

    found = {"production": production}
    for name, top in candidates.items():
        relevance = np.take_along_axis(place.relevance, top, 1)
        rates = [expected(place.kind, np.full(queries, m), relevance) for m in range(MOODS)]
        found[name] = np.einsum("dmq,mqk->dk", traffic, np.array(rates))
    tables = {
        name: pa.table({"query": every, "items": listed(np.take_along_axis(place.items, top, 1))})
        for name, top in candidates.items()
    }
    return pa.concat_tables(parts), tables, found


def trained(place: Market, records: Records, seed: int) -> dict[str, Any]:
    """The lists of all candidates, shape (Q, K): places in the pools, at the end of that day."""
    features, there = records.described(place, TRAINED_UNTIL), place.there(TRAINED_UNTIL)
    found = {}
    for number, (name, learner) in enumerate(CANDIDATES.items()):
        score = learner.trained(records, np.random.default_rng([seed, _CANDIDATE, number]))
        found[name] = ranked(score(features), there)
    found["popular"] = ranked(features[..., FEATURES.index("popular")], there)
    return found


# --- foreclick beside the truth -------------------------------------------------------------------


@study("exam", ["estimator"], *ANSWERS, logs=10, seed=1)
def answers(
    seed: int, lists: int = 150_000, since: int = 0, estimators: list[str] = []
) -> list[Row]:
    """The default answer where rankers are really trained; `since`: the truth from a day on."""
    options = {"trained_until": TRAINED_UNTIL, "estimators": estimators or None}
    log, candidates, truth = draw(seed, lists)
    tally = fc.tally(fc.read_log(log, context="query", period="day", unit="user"))
    return [
        {"seed": seed, "candidate": name} | row
        for name, table in candidates.items()
        for row in asked(tally, table, {m: lift(truth, name, m, since) for m in METRICS}, options)
    ]
