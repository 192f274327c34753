"""Sums over a log: typed values that add, batch after batch.

Sizes: S parts of the answer, of which the last is the whole where there are several; K positions, C
candidates, A targets of a group, E = A · C columns, N coefficients that contexts share, G clusters
of a kind. Kinds of clusters stand in the order of `parts.kinds_of_clusters`. What nothing was
added to is None, or 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Generic, NamedTuple, Self, TypeVar

import numpy as np

from foreclick.batches import Floats, Ints
from foreclick.estimation.parts import BatchParts
from foreclick.metrics import Metric
from foreclick.models import ClickModel
from foreclick.question import Target, by_hazard
from foreclick.results import Value

T = TypeVar("T")
V = TypeVar("V")

EXAMPLES = 3
"""Of contexts that are missing."""


@dataclass(frozen=True, eq=False)
class Adds:
    """A value that adds field by field, or as the field's metadata says."""

    def __add__(self, other: Self) -> Self:
        """The sum of both."""
        pairs = ((f, getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return type(self)(*(f.metadata.get("add", added)(one, two) for f, one, two in pairs))


def added(one: T, other: T) -> T:
    """The sum of two values, item by item of tuples and key by key of dictionaries."""
    left: Any = one
    right: Any = other
    if left is None or right is None:
        return other if left is None else one
    if isinstance(left, tuple):
        return tuple(added(a, b) for a, b in zip(left, right, strict=True))  # type: ignore[return-value]
    if isinstance(left, dict):
        return {key: added(left.get(key), right.get(key)) for key in {**left, **right}}  # type: ignore[return-value]
    return left + right  # type: ignore[no-any-return]


# --- records --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RecordSums(Adds):
    """How many records there are, and what is shown and earned at each position.

    Attributes:
        records, contexts: Shape (S,), or of one part a number, as all that follows.
        shown: Shape (S, K): records with an item at the position.
        rewards: Shape (S, K) by metric.
        at_risk: Shape (S, K) by metric of first clicks: records without a click above.
        examined: Shape (S, K) by model with a curve for each context: Σ p(k | x).
    """

    records: Floats
    contexts: Floats
    shown: Floats
    rewards: dict[Metric, Floats]
    at_risk: dict[Metric, Floats]
    examined: dict[ClickModel, Floats]

    def mapped(self, do: Callable[[Floats], Floats]) -> RecordSums:
        """With something done to every sum."""

        def each(found: dict[T, Floats]) -> dict[T, Floats]:
            return {key: do(value) for key, value in found.items()}

        of_records = do(self.records), do(self.contexts), do(self.shown)
        return RecordSums(*of_records, each(self.rewards), each(self.at_risk), each(self.examined))

    def __sub__(self, other: RecordSums) -> RecordSums:
        """The other records."""
        return self + other.mapped(np.negative)

    def of_part(self, s: int) -> RecordSums:
        """Of one part of the answer."""
        return self.mapped(lambda each: each[s])

    def credit(self, metric: Metric) -> float:
        """Σ_k θ_k w_k over the records."""
        return along(metric.theta, self.rewards[metric])

    def counts(self, model: ClickModel, metric: Metric) -> Floats:
        """By position, how many records a click rate is of: all, or those at risk."""
        return self.at_risk[metric] if by_hazard(model, metric) else self.shown

    def looked_at(self, model: ClickModel, metric: Metric, *, at_risk: bool = True) -> Floats:
        """By position, Σ p_k over the records, or over those that click rates are taken from."""
        if model.by_context:
            return self.examined[model][: metric.depth]
        counts = (self.counts(model, metric) if at_risk else self.shown)[: metric.depth]
        return counts * model.examined(metric.depth)[: len(counts)]

    def exposure(self, target: Target, *, at_risk: bool = True) -> float:
        """Σ_k e_k over the records, or over those that click rates are taken from."""
        return along(target.theta, self.looked_at(target.model, target.metric, at_risk=at_risk))


def along(values: Sequence[float], by_position: Floats) -> float:
    """Σ_k of values times sums by position."""
    size = min(len(values), len(by_position))
    return float(np.dot(values[:size], by_position[:size]))


def whole_number(value: float) -> float:
    """A count as an integer, if it is one."""
    return int(value) if float(value).is_integer() else float(value)


# --- columns --------------------------------------------------------------------------------------


_COUNTED = ("cells", "seen", "out")  # in contexts, of which a part of a context has no share


@dataclass(frozen=True, eq=False)
class Coverage(Adds, Generic[V]):
    """How far the log covers what a candidate shows, times records.

    An estimator gives it by column and context, shape (E, X). Sums over contexts have the shape
    (S, E), and of one column each is a number.

    Attributes:
        mass: Σ n_x H_g; `covered`: that of the cells that were logged; `clipped`: what M cut off.
        weighted, squared: Σ E W and Σ E W², with E_g = n_x P_g.
        lost: Σ n_x r_g (H_g − M P_g)₊, what the clip took from cells whose rate is known.
        unlogged: records in cells that the given logging policy calls impossible.
        cells, seen: how many cells the candidate would use, and how many of them were logged.
        out, out_records: contexts of which nothing is covered, and their records.
        largest: the largest weight that a record can have, before it is clipped.
        borrowed: of a ladder, the part of the credit that went to items never shown in the context.
        unreachable_gain: how much more that is, if production could not have shown them.
    """

    mass: V
    covered: V
    weighted: V | float = 0.0
    squared: V | float = 0.0
    clipped: V | float = 0.0
    lost: V | float = 0.0
    unlogged: V | float = 0.0
    cells: V | float = 0.0
    seen: V | float = 0.0
    out: V | float = 0.0
    out_records: V | float = 0.0
    largest: V | float = field(default=0.0, metadata={"add": np.maximum})
    borrowed: V | float = 0.0
    unreachable_gain: V | float = 0.0

    def over_contexts(self, parts: BatchParts) -> Coverage[Floats]:
        """The sums over contexts; of weights, the largest in any part."""

        def total(name: str, value: Floats) -> Floats:
            if name == "largest":
                return np.repeat(value.max(axis=-1, initial=0.0)[None], parts.strata.count, axis=0)
            counts = name in _COUNTED
            weight = 0 if counts else 2 if name == "squared" else 1
            return parts.over_contexts(value, power=0 if counts else 1, weight=weight)

        return Coverage(**{name: total(name, value) for name, value in self._given()})

    def of_column(self, s: int, column: int) -> Coverage[float]:
        """Of one column in one part of the answer."""
        return Coverage(**{name: float(value[s, column]) for name, value in self._given()})

    def _given(self) -> list[tuple[str, Floats]]:
        each = [(f.name, getattr(self, f.name)) for f in fields(self)]
        return [(name, value) for name, value in each if not isinstance(value, float)]


@dataclass(frozen=True, eq=False)
class Products(Adds):
    """Σ h (W, 1)(W, 1)ᵀ: errors of variance h move a candidate by W, and production by 1.

    Attributes:
        candidates: Shape (S, A, C, C): of all pairs of candidates.
        across: Shape (S, E): of each candidate with production.
        production: Shape (S, E): of production, as far as the candidate shows the same.
    """

    candidates: Floats
    across: Floats
    production: Floats


@dataclass(frozen=True, eq=False)
class HiddenByClusters(Adds):
    """What cells hide that were seen in few clusters of a kind, or in few records.

    Attributes:
        constant, usual, shock: what is multiplied by 1, by s² and by τ².
        shocks: Shape (S, 3, E): Σ of squared residuals above what records explain: the constant,
            what is multiplied by s², and what all is divided by for τ²; None of single records.
    """

    constant: Products
    usual: Products
    shock: Products | None = None
    shocks: Floats | None = None


@dataclass(frozen=True, eq=False)
class HiddenSums(Adds):
    """What the cells of a group hide, see `covariance`.

    Attributes:
        pool: Shape (S, 2, E): squared residuals, and degrees of freedom.
        kinds: by kind of the question's clusters.
    """

    pool: Floats
    kinds: tuple[HiddenByClusters, ...]


@dataclass(frozen=True, eq=False)
class ModelErrors(Adds):
    """Products of errors that no record shows, and how coefficients move columns.

    Attributes:
        sensitivity: Shape (S, N, E): how far coefficients move each column, times records.
        columns: Shape (S, E, E): of columns with columns.
        across: Shape (S, E, N): of columns with coefficients.
        coefficients: Shape (N, N): of coefficients, whose errors all parts share.
        known: Shape (N, N): of that, what was known of coefficients beforehand.
    """

    sensitivity: Floats
    columns: Floats
    across: Floats
    coefficients: Floats
    known: Floats


class Uncovered(NamedTuple):
    """A context, its records, the share of exposure that is covered, and how much is not."""

    context: Value
    records: float
    covered: float
    uncovered: float


@dataclass(frozen=True)
class LeastCovered:
    """The contexts with most of the first candidate's uncovered exposure, at most `top`."""

    top: int
    contexts: tuple[Uncovered, ...]

    def __add__(self, other: LeastCovered) -> LeastCovered:
        """The first of both; numbers that are equal but for rounding are equal."""
        both = self.contexts + other.contexts
        order = sorted(both, key=lambda each: -float(np.float32(each.uncovered)))
        return LeastCovered(self.top, tuple(order[: self.top]))


@dataclass(frozen=True, eq=False)
class GroupSums(Adds):
    """What a group of targets comes to.

    Attributes:
        value: Shape (S, E): Σ n_x V_x.
        coverage: how far the log covers the columns.
        rungs: Shape (S, rungs, E): of a ladder, how much exposure took its rate from which rung.
        filled: Shape (S, K) by click model: exposure of a given logging policy at each position.
        hidden: what small cells hide.
        repeated: Shape (S, 2, E): the covered exposure, and that of cells seen in several periods.
        least_covered: by target, for support.
        errors: of a ladder, errors that no record shows.
        shared_errors: Shape (S, D, E) by source: errors of columns that contexts share.
        samples: Shape (S, 4, A) by candidate that is a sample: see `weighted.sampled_errors`.
        influence: Shape (S, G, E + N) by kind of clusters: Σ (ψ + V).
        own_clicks: by kind of clusters, the score of rates of the part's own, beyond those that
            parts share: Shape (S, G, E); of single records, (S, 2, E) with its square.
    """

    value: Floats
    coverage: Coverage[Floats]
    rungs: Floats | None
    errors: ModelErrors | None
    shared_errors: dict[str, Floats]
    samples: dict[int, Floats]
    influence: tuple[Floats, ...]
    own_clicks: tuple[Floats, ...]
    filled: dict[ClickModel, Floats] = field(default_factory=dict)
    hidden: HiddenSums | None = None
    repeated: Floats | None = None
    least_covered: tuple[LeastCovered, ...] = ()


# --- the log --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Absent:
    """Contexts that somebody has no answer for: how many, and some of them."""

    count: int = 0
    examples: tuple[Value, ...] = ()

    def __add__(self, other: Absent) -> Absent:
        """Those of both, in order."""
        return Absent(self.count + other.count, (self.examples + other.examples)[:EXAMPLES])


@dataclass(frozen=True)
class ItemNames:
    """The items of the log and of a candidate; none if it shows one of the log's."""

    log: frozenset[Any] = frozenset()
    candidate: frozenset[Any] = frozenset()

    def __add__(self, other: ItemNames) -> ItemNames:
        """Those of both, unless either shows one of the log's."""
        if not self.log or not other.log:
            return ItemNames()
        return ItemNames(self.log | other.log, self.candidate | other.candidate)


@dataclass(frozen=True, eq=False)
class LogSums(Adds):
    """All that batches add up to.

    Attributes:
        all: all records that count.
        absent: by candidate, records of contexts that it has no list for; None: there are none.
        groups: by group of targets.
        production: Shape (S, G, metrics + 1) by kind of clusters: Σ f, and Σ 1.
        products: of single records, Shape (S, ·, ·): Σ (ψ + V)(ψ + V)ᵀ, production's columns first.
        drawing: if contexts were drawn, Shape (S, ·, ·): Σ (1 − π) y yᵀ of what contexts add, times
            sampling weights, in the order of `products`.
        visible: Shape (S, C) by depth: where the log shows an item that the candidate shows there.
        shared: Shape (C,): how many contexts candidates have in common with the log.
        unlisted: by candidate, the contexts that it has no list for.
        unlogged: the contexts that a given logging policy has no list for.
        items: by candidate, whether it shows any item of the log.
    """

    all: RecordSums
    absent: tuple[RecordSums | None, ...]
    groups: tuple[GroupSums, ...]
    production: tuple[Floats, ...]
    products: Floats | None
    drawing: Floats | None
    visible: dict[int, Floats]
    shared: Ints
    unlisted: tuple[Absent, ...]
    unlogged: Absent
    items: tuple[ItemNames, ...]
