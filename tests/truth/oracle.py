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


class Ratio(NamedTuple):
    """An importance weight before clipping, and the credit it is to multiply."""

    credit: float
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


def _list_side(draws: Draws, items: ItemList, k: int, theta: Theta, p: Sequence[float]) -> float:
    """π(A | x), lists being compared up to the last position that counts."""
    end = last_counted(theta)
    return probability(draws, lambda other: other[:end] == items[:end])


def _prefix_side(draws: Draws, items: ItemList, k: int, theta: Theta, p: Sequence[float]) -> float:
    """π(a_1, …, a_k | x)."""
    return probability(draws, lambda other: other[:k] == items[:k])


def _ip_side(draws: Draws, items: ItemList, k: int, theta: Theta, p: Sequence[float]) -> float:
    """π(a_k, k | x)."""
    return shows(draws, items[k - 1], k)


def _item_side(draws: Draws, items: ItemList, k: int, theta: Theta, p: Sequence[float]) -> float:
    """⟨θ, π(a_k, · | x)⟩."""
    return sum(at(theta, j) * shows(draws, items[k - 1], j) for j in range(1, len(theta) + 1))


def _pbm_side(draws: Draws, items: ItemList, k: int, theta: Theta, p: Sequence[float]) -> float:
    """⟨θ ∘ p, π(a_k, · | x)⟩."""
    return sum(
        at(theta, j) * at(p, j) * shows(draws, items[k - 1], j) for j in range(1, len(theta) + 1)
    )


def _rctr_side(draws: Draws, items: ItemList, k: int, theta: Theta, p: Sequence[float]) -> float:
    """The probability that position k is filled: 1 in the paper, where lists are equally long."""
    return fills(draws, k)


def _rcm_side(draws: Draws, items: ItemList, k: int, theta: Theta, p: Sequence[float]) -> float:
    """The expected Σ θ over filled positions: constant where lists are equally long."""
    return sum(at(theta, j) * fills(draws, j) for j in range(1, len(theta) + 1))


_SIDES = {
    "list": _list_side,
    "prefix": _prefix_side,
    "ip": _ip_side,
    "item": _item_side,
    "pbm": _pbm_side,
    "rctr": _rctr_side,
    "rcm": _rcm_side,
}


def ratios(
    model: str,
    record: Record,
    candidate: Draws,
    logged: Draws,
    theta: Theta,
    p: Sequence[float],
) -> list[Ratio]:
    """Each slot of a record: θ_k w(a_k, k), and the two sides of its importance weight."""
    side = _SIDES[model]
    return [
        Ratio(
            at(theta, k) * click,
            side(candidate, record.items, k, theta, p),
            side(logged, record.items, k, theta, p),
        )
        for k, click in enumerate(record.clicks, start=1)
        if at(theta, k) * click > 0  # no click, no credit
    ]


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
    examined = reciprocal_ranks(len(theta)) if p is None else p
    total: float = 0
    for record in records:
        h, logged = candidate.get(record.context, {}), pi.get(record.context, {})
        for slot in ratios(model, record, h, logged, theta, examined):
            total += record.weight * slot.credit * slot.clipped(clip)
    return total / sum(record.weight for record in records)


def production(records: Sequence[Record], theta: Theta) -> float:
    """V̂_R of the paper: the mean reward of what was logged."""
    total = sum(record.weight * reward(record, theta) for record in records)
    return total / sum(record.weight for record in records)


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


def exposures(model: str, draws: Draws, theta: Theta, p: Sequence[float]) -> dict[Cell, float]:
    """The expected exposure Σ θ_k p_k of each cell, for lists drawn from one context's policy."""
    found: dict[Cell, float] = {}
    for items, chance in draws.items():
        for k in range(1, len(items) + 1):
            examined = at(p, k) if model == "pbm" else 1
            g = cell(model, items, k, theta)
            found[g] = found.get(g, 0) + chance * at(theta, k) * examined
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

    def plus(self, n: float, h: float, p: float, clip: float) -> Mass:
        """This mass with one more cell."""
        seen = p > 0
        w = min(h / p, clip) if seen else 0
        return Mass(
            self.candidate + n * h,
            self.covered + n * h * seen,
            self.clipped + (n * max(h - clip * p, 0) if seen and math.isfinite(clip) else 0),
            self.logged + n * p,
            self.weighted + n * p * w,
            self.squared + n * p * w * w,
        )


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
    examined = reciprocal_ranks(len(theta)) if p is None else p
    size: dict[Context, float] = {}
    for record in records:
        size[record.context] = size.get(record.context, 0) + record.weight
    total = Mass()
    for context, n in size.items():
        if context in candidate:
            h = exposures(model, candidate[context], theta, examined)
            known = shown[context] if logging is None else logging.get(context, {})
            logged = exposures(model, known, theta, examined)
            limit = clip
        else:
            h = logged = exposures(model, shown[context], theta, examined)
            limit = math.inf
        for g in h.keys() | logged.keys():
            total = total.plus(n, h.get(g, 0), logged.get(g, 0), limit)
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
    absent = {record.context for record in records} - set(candidate)
    used = list(records)
    if missing == "drop":
        used = [record for record in records if record.context not in absent]
    n = sum(record.weight for record in used)
    now = production(used, theta)

    estimate = value(model, used, candidate, theta, clip, logging=logging, p=p)
    silent = [record for record in used if record.context in absent]
    estimate += sum(record.weight * reward(record, theta) for record in silent) / n

    sums = mass(model, used, candidate, theta, clip, logging=logging, p=p)
    spread = sums.logged * sums.squared
    if (model in BLIND or logging is not None) and not in_sight(used, candidate, len(theta)):
        sums = sums._replace(covered=0.0, squared=0.0)
        spread = 0.0
    seen = sums.covered > 0
    return Row(
        value=estimate if seen else None,
        production=now,
        change=estimate - now if seen else None,
        lift=(estimate - now) / now if seen and now > 0 else None,
        covered=sums.covered / sums.candidate if sums.candidate else 0.0,
        clipped=sums.clipped / sums.candidate if sums.candidate else 0.0,
        ess=n * sums.weighted**2 / spread if spread > 0 else 0.0,
        contexts=len({record.context for record in used}),
        records=n,
        missing_contexts=len(absent),
    )
