"""The oracle: every estimator, slowly and obviously, from the paper's formulas.

It loops over records and looks lists up in dictionaries, and knows nothing of the library it
judges. The `value` of `list`, `ip`, `item` and `pbm` is the record sum of the paper's table of
estimators ("Weighted Click Estimators"), term by term; `prefix`, and `rctr` and `rcm` on lists of
unequal length, are written in the same way. Only `covered`, `clipped` and `ess` go through cells,
because cells are how they are defined.

A record is a context, the items shown and the clicks they got. A policy maps a context to its
lists and their probabilities. Positions k count from 1. Of fractions it makes fractions, so it can
be exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

MODELS = ("list", "prefix", "ip", "item", "pbm", "rctr", "rcm")
BLIND = ("rctr", "rcm")
"""The models that do not see which item stands where."""

Item = Any
Context = Any
ItemList = tuple[Item, ...]
Draws = Mapping[Any, float]
"""One context of a policy: its lists and their probabilities."""
Policy = Mapping[Any, Draws]
Theta = Sequence[float]
Cell = Any


class Record(NamedTuple):
    """One displayed list; `weight` says how many records the row stands for."""

    context: Context
    items: ItemList
    clicks: tuple[float, ...]
    weight: float = 1.0


def count(records: Iterable[Record]) -> float:
    """|S|: how many records the rows stand for."""
    return sum(record.weight for record in records)


def by_context(records: Iterable[Record]) -> dict[Context, list[Record]]:
    """The records of each context."""
    found: dict[Context, list[Record]] = {}
    for record in records:
        found.setdefault(record.context, []).append(record)
    return found


class Ratio(NamedTuple):
    """An importance weight before clipping."""

    candidate: float
    logged: float

    def clipped(self, clip: float) -> float:
        """min(candidate / logged, M), where 0/0 = 0.

        A logged cell that the given logging policy never shows gets the weight M; without a finite
        M its credit is dropped.
        """
        if self.candidate == 0:
            return 0
        if self.logged == 0:
            return clip if math.isfinite(clip) else 0
        return min(self.candidate / self.logged, clip)


# --- metrics --------------------------------------------------------------------------------------


def clicks_at(depth: int) -> tuple[float, ...]:
    """θ of `clicks@depth`."""
    return (1.0,) * depth


def dcg_at(depth: int) -> tuple[float, ...]:
    """θ of `dcg@depth`."""
    return tuple(1.0 / math.log2(1 + k) for k in range(1, depth + 1))


def reciprocal_ranks(depth: int) -> tuple[float, ...]:
    """p of the paper's experiments: position k is examined with probability 1/k."""
    return tuple(1.0 / k for k in range(1, depth + 1))


def at(vector: Sequence[float], k: int) -> float:
    """The entry of position k; positions beyond a vector's end count nothing."""
    return vector[k - 1] if k <= len(vector) else 0


def last_counted(theta: Theta) -> int:
    """The last position with θ > 0: lists that agree up to it earn the same."""
    return max(k for k in range(1, len(theta) + 1) if at(theta, k) > 0)


def reward(record: Record, theta: Theta) -> float:
    """f(A, w) = Σ_k θ_k w(a_k, k)."""
    return sum(at(theta, k) * click for k, click in enumerate(record.clicks, start=1))


# --- policies -------------------------------------------------------------------------------------


def frequencies(records: Iterable[Record]) -> dict[Context, dict[ItemList, float]]:
    """π̂: how often each list was shown in its context."""
    shown: dict[Context, dict[ItemList, float]] = {}
    for record in records:
        lists = shown.setdefault(record.context, {})
        lists[record.items] = lists.get(record.items, 0) + record.weight
    return {
        context: {items: n / sum(lists.values()) for items, n in lists.items()}
        for context, lists in shown.items()
    }


def probability(draws: Draws, event: Callable[[ItemList], bool]) -> float:
    """The probability that a list drawn from `draws` has a property."""
    return sum(p for items, p in draws.items() if event(items))


def shows(draws: Draws, item: Item, k: int) -> float:
    """π(a, k | x): the probability that the item stands at position k."""
    return probability(draws, lambda items: len(items) >= k and items[k - 1] == item)


def fills(draws: Draws, k: int) -> float:
    """The probability that a list reaches position k."""
    return probability(draws, lambda items: len(items) >= k)


# --- the importance weights of one logged list, position by position ------------------------------


def side(
    model: str, draws: Draws, items: ItemList, k: int, theta: Theta, p: Sequence[float]
) -> float:
    """What Table 2 has of a policy in the importance weight of slot (A, k)."""
    item, positions = items[k - 1], range(1, len(theta) + 1)
    match model:
        case "list":  # π(A | x), lists being compared up to the last position that counts
            end = last_counted(theta)
            return probability(draws, lambda other: other[:end] == items[:end])
        case "prefix":  # π(a_1, …, a_k | x)
            return probability(draws, lambda other: other[:k] == items[:k])
        case "ip":  # π(a_k, k | x)
            return shows(draws, item, k)
        case "item":  # ⟨θ, π(a_k, · | x)⟩
            return sum(at(theta, j) * shows(draws, item, j) for j in positions)
        case "pbm":  # ⟨θ ∘ p, π(a_k, · | x)⟩
            return sum(at(theta, j) * at(p, j) * shows(draws, item, j) for j in positions)
        case "rctr":  # that position k is filled: 1 in the paper, where lists are equally long
            return fills(draws, k)
        case "rcm":  # the expected Σ θ over filled positions: constant in the paper
            return sum(at(theta, j) * fills(draws, j) for j in positions)
    raise KeyError(model)


def value(
    model: str,
    records: Sequence[Record],
    candidate: Policy,
    theta: Theta,
    clip: float = math.inf,
    *,
    logging: Policy | None = None,
    p: Sequence[float] | None = None,
) -> float:
    """V̂(h) = 1/|S| Σ_S Σ_k θ_k w(a_k, k) min{h / π̂, M}.

    Args:
        model: one of `MODELS`.
        records: the logged dataset S.
        candidate: h; contexts it lacks get no clicks.
        theta: the weight of each position.
        clip: M.
        logging: π where it is known; otherwise the frequencies of `records`.
        p: the examination of each position, for `pbm`; 1/k unless given.
    """
    pi = frequencies(records) if logging is None else logging
    curve = reciprocal_ranks(len(theta)) if p is None else p
    total: float = 0
    for record in records:
        for k, click in enumerate(record.clicks, start=1):
            if credit := at(theta, k) * click:  # no click, no credit
                sides = (
                    side(model, policy.get(record.context, {}), record.items, k, theta, curve)
                    for policy in (candidate, pi)
                )
                total += record.weight * credit * Ratio(*sides).clipped(clip)
    return total / count(records)


def production(records: Sequence[Record], theta: Theta) -> float:
    """V̂_R of the paper: the mean reward of what was logged."""
    return sum(r.weight * reward(r, theta) for r in records) / count(records)


# --- cells: for what the estimate rests on --------------------------------------------------------


def cell(model: str, items: ItemList, k: int, theta: Theta) -> Cell:
    """The cell of slot (A, k)."""
    match model:
        case "list":
            return items[: last_counted(theta)]
        case "prefix":
            return items[:k]
        case "ip":
            return items[k - 1], k
        case "item" | "pbm":
            return items[k - 1]
        case "rctr":
            return k
        case "rcm":
            return ()
    raise KeyError(model)


def examined(model: str, p: Sequence[float], k: int) -> float:
    """How much of position k is looked at: all of it, but for `pbm`."""
    return at(p, k) if model == "pbm" else 1


def exposures(model: str, draws: Draws, theta: Theta, p: Sequence[float]) -> dict[Cell, float]:
    """The expected exposure Σ θ_k p_k of each cell, for lists drawn from one context's policy."""
    found: dict[Cell, float] = {}
    for items, chance in draws.items():
        for k in range(1, len(items) + 1):
            g = cell(model, items, k, theta)
            found[g] = found.get(g, 0) + chance * at(theta, k) * examined(model, p, k)
    return found


class Mass(NamedTuple):
    """The sums over contexts and cells behind `covered`, `clipped` and `ess`.

    H and P are a cell's exposure by the candidate and by the log, W = min(H/P, M), E = n_x P.
    """

    candidate: float = 0  # Σ n H
    covered: float = 0  # Σ n H 1{P > 0}
    clipped: float = 0  # Σ n (H − M P)₊ 1{P > 0}
    logged: float = 0  # Σ E
    weighted: float = 0  # Σ E W
    squared: float = 0  # Σ E W²

    def plus(self, *more: float) -> Mass:
        """These sums with as many more."""
        return Mass(*map(sum, zip(self, more, strict=True)))

    def shares(self, n: float) -> dict[str, float]:
        """`covered`, `clipped` and `ess` of n records."""
        spread = self.logged * self.squared
        return {
            "covered": self.covered / self.candidate if self.candidate else 0.0,
            "clipped": self.clipped / self.candidate if self.candidate else 0.0,
            "ess": n * self.weighted**2 / spread if self.covered > 0 and spread > 0 else 0.0,
        }


def mass(
    model: str,
    records: Sequence[Record],
    candidate: Policy,
    theta: Theta,
    clip: float,
    *,
    logging: Policy | None = None,
    p: Sequence[float] | None = None,
) -> Mass:
    """Add up the cells of all contexts; where the candidate is silent, production goes on.

    A context without a candidate list has the log's own exposures for its candidate's, unclipped.
    """
    shown = frequencies(records)
    curve = reciprocal_ranks(len(theta)) if p is None else p
    total = Mass()
    for context, own in by_context(records).items():
        n, limit = count(own), clip if context in candidate else math.inf
        known = shown if logging is None or context not in candidate else logging
        logged = exposures(model, known.get(context, {}), theta, curve)
        wanted = exposures(model, candidate.get(context, shown[context]), theta, curve)
        for g in wanted.keys() | logged.keys():
            h, p_g = wanted.get(g, 0), logged.get(g, 0)
            seen = p_g > 0
            w = min(h / p_g, limit) if seen else 0
            cut = n * max(h - limit * p_g, 0) if seen and math.isfinite(limit) else 0
            total = total.plus(n * h, n * h * seen, cut, n * p_g, n * p_g * w, n * p_g * w * w)
    return total


# --- one row of an evaluation ---------------------------------------------------------------------


class Row(NamedTuple):
    """The columns of an evaluation; None where the log has nothing to say."""

    value: float | None
    production: float
    change: float | None
    lift: float | None
    covered: float
    clipped: float
    ess: float
    contexts: int
    records: float
    missing_contexts: int


def in_sight(records: Sequence[Record], candidate: Policy, depth: int) -> bool:
    """Whether the log showed any item of what the candidate shows down to a position.

    Where it did not, a model that is blind to items, or a logging policy that could have shown
    them, says nothing of the candidate. Where the candidate is silent, it shows what the log did.
    """
    return any(
        r.context not in candidate
        or any(
            item in r.items
            for items, chance in candidate[r.context].items()
            if chance > 0
            for item in items[:depth]
        )
        for r in records
    )


def unchanged(records: Sequence[Record], candidate: Policy, theta: Theta) -> float:
    """What contexts without a candidate list add to an estimate: what production earned there."""
    silent = [r for r in records if r.context not in candidate]
    return sum(r.weight * reward(r, theta) for r in silent) / count(records)


def row_of(used: Sequence[Record], theta: Theta, estimate: float, sums: Mass, absent: int) -> Row:
    """All columns, given V̂ and the sums over the cells of the records that are used."""
    now, seen = production(used, theta), sums.covered > 0
    return Row(
        value=estimate if seen else None,
        production=now,
        change=estimate - now if seen else None,
        lift=(estimate - now) / now if seen and now > 0 else None,
        **sums.shares(count(used)),
        contexts=len(by_context(used)),
        records=count(used),
        missing_contexts=absent,
    )


def evaluate(
    model: str,
    records: Sequence[Record],
    candidate: Policy,
    theta: Theta,
    clip: float = math.inf,
    *,
    missing: str = "production",
    logging: Policy | None = None,
    p: Sequence[float] | None = None,
) -> Row:
    """All columns, for contexts missing from the candidate as `missing` says.

    `"production"` lets production go on there: its value, and no change. `"drop"` leaves the
    records of such contexts out of every quantity.
    """
    absent = by_context(records).keys() - set(candidate)
    used = [r for r in records if missing != "drop" or r.context not in absent]
    estimate = value(model, used, candidate, theta, clip, logging=logging, p=p)
    estimate += unchanged(used, candidate, theta)
    sums = mass(model, used, candidate, theta, clip, logging=logging, p=p)
    if (model in BLIND or logging is not None) and not in_sight(used, candidate, len(theta)):
        sums = sums._replace(covered=0.0)
    return row_of(used, theta, estimate, sums, len(absent))
