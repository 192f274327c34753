"""The work on one batch: from its records and a candidate to values of contexts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.batches import (
    Batch,
    Batches,
    Candidate,
    Coding,
    Floats,
    Ints,
    Totals,
    sums,
)
from foreclick.batches.encode import Codes
from foreclick.estimators import variance
from foreclick.estimators.cells import counted
from foreclick.estimators.first_clicks import weigh_hazards
from foreclick.estimators.influence import Clustering, Counting, Influence
from foreclick.estimators.kernel import (
    CellClusters,
    WeighedCells,
    cell_clusters,
    context_sums,
    examination_slopes,
    largest_weight,
    weigh,
)
from foreclick.estimators.ladder.spec import Ladder
from foreclick.estimators.ladder.work import Placed
from foreclick.estimators.question import Question
from foreclick.estimators.slots import context_slots
from foreclick.estimators.spread import BOTH
from foreclick.estimators.support import Sight, context_support, sights
from foreclick.logs import CONTEXT, PERIOD, Shape
from foreclick.metrics import SHOWN
from foreclick.policies import Observed, Policy

_EXAMPLES = 3


@dataclass(frozen=True)
class Strata:
    """The parts of a log by the values of some columns.

    Attributes:
        by: the columns.
        codes: the values of each.
    """

    by: tuple[str, ...]
    codes: tuple[Codes, ...]

    @classmethod
    def of(cls, batches: Batches, by: tuple[str, ...]) -> Strata:
        """The strata of a log."""
        book = batches.codebook
        codes = [book.periods if name == PERIOD else book.segments[name] for name in by]
        return cls(by, tuple(code for code in codes if code is not None))

    @property
    def count(self) -> int:
        """How many there may be."""
        return math.prod(len(code) for code in self.codes)

    @property
    def apart(self) -> int:
        """How many of them are estimated apart, as if the others were not there."""
        return self.count

    def split(self, batch: Batch) -> Batch:
        """The batch with every stratum of a context as a context of its own."""
        if not self.by:
            return batch

        def make() -> Batch:
            part = np.zeros(len(batch.n), dtype=np.int64)
            for name, code in zip(self.by, self.codes, strict=True):
                own = batch.clusters["period"] if name == PERIOD else batch.segments[name]
                part = part * len(code) + own
            return batch.split(part, self.count)

        return batch.keep(("split", self.by), make)  # type: ignore[return-value]

    def numbers(self, batch: Batch) -> Ints:
        """Shape (X,): the stratum whose sums each context of a batch adds to."""
        return batch.stratum

    def segment(self, number: int) -> dict[str, Any]:
        """The values of a stratum by column."""
        found = {}
        for name, code in reversed(list(zip(self.by, self.codes, strict=True))):
            number, own = divmod(number, len(code))
            found[name] = code.values[own].as_py()
        return {name: found[name] for name in self.by}


@dataclass(frozen=True)
class NamedContexts(Strata):
    """Some contexts, each with sums of its own, and all others together.

    Nothing is estimated apart: a context keeps its part of the answer for the whole log.

    Attributes:
        values: the contexts.
    """

    values: pa.Array = field(kw_only=True)

    @property
    def count(self) -> int:
        """The contexts, and one for the others, which comes last."""
        return len(self.values) + 1

    @property
    def apart(self) -> int:
        """None: there is one estimate, of the whole log."""
        return 1

    def numbers(self, batch: Batch) -> Ints:
        """Shape (X,): which of the contexts each one is."""
        found = pc.fill_null(pc.index_in(batch.contexts, self.values), len(self.values))
        return np.asarray(found, dtype=np.int64)[batch.context_value]

    def segment(self, number: int) -> dict[str, Any]:
        """The context, or None for all others."""
        other = number == len(self.values)
        return {CONTEXT: None if other else self.values[number].as_py()}


@dataclass(eq=False)
class Facts:
    """What is known of a question beside sums.

    Attributes:
        shared: how many contexts the log and the candidate have in common.
        missing: contexts without an answer, by who has none: how many, and some of them.
        sights: what is seen of the candidate, by the number of the ask and the stratum.
    """

    shared: int = 0
    missing: dict[str, tuple[int, list[Any]]] = field(default_factory=dict)
    sights: dict[tuple[int, int], Sight] = field(default_factory=dict)

    def add(self, other: Facts) -> None:
        """Those of other contexts too."""
        self.shared += other.shared
        for who, (count, some) in other.missing.items():
            before, first = self.missing.get(who, (0, []))
            self.missing[who] = before + count, (first + some)[:_EXAMPLES]
        for key, sight in other.sights.items():
            if key in self.sights:
                self.sights[key].add(sight)
            else:
                self.sights[key] = sight

    def note_missing(self, who: str, batch: Batch, known: Any) -> None:  # noqa: ANN401 - (X,) booleans
        """Note the contexts of a batch that somebody has no answer for."""
        values = np.unique(batch.context_value[~known])
        if len(values):
            some = [batch.contexts[int(v)].as_py() for v in values[:_EXAMPLES]]
            self.missing[who] = len(values), some


@dataclass(eq=False)
class Found:
    """What a batch adds to the answer: values of contexts, by name.

    Attributes:
        stratum: Shape (X,).
        sums: Shape (X, …) each.
        largest: Shape (X,) each.
        rows: Shape (R,) each: values of rows, to be summed over buckets of users in a period.
        both: which bucket and period every row is of, if rows have values.
        psi: Shape (R,) each: ψ_t + V of rows by ask and clip, if their products are needed.
    """

    stratum: Ints
    sums: dict[Any, Floats] = field(default_factory=dict)
    largest: dict[Any, Floats] = field(default_factory=dict)
    facts: Facts = field(default_factory=Facts)
    rows: dict[Any, Floats] = field(default_factory=dict)
    both: Both | None = None
    psi: dict[tuple[int, int], Floats] = field(default_factory=dict)

    def add_to(self, totals: Totals) -> None:
        """Add the values of all contexts."""
        if self.both is not None:
            for name, values in self.rows.items():
                totals.scatter(name, self.both.at, values, self.both.size)
        for name, values in self.sums.items():
            totals.add(name, values, self.stratum)
        for name, values in self.largest.items():
            totals.most(name, values, self.stratum)


class Both(NamedTuple):
    """Buckets of users in a period, for clusters of two kinds at once.

    Attributes:
        at: Shape (R,): stratum × size + the bucket and period of each row.
        size: how many there are.
    """

    at: Ints
    size: int

    @classmethod
    def of(cls, batch: Batch, stratum: Ints) -> Both:
        """Those of the rows of a batch, whose contexts add to these strata."""
        periods, units = batch.cluster_count["period"], batch.cluster_count["unit"]
        rows = stratum[batch.row_context].astype(np.int64)
        at = (rows * periods + batch.clusters["period"]) * units + batch.clusters["unit"]
        return cls(at, periods * units)


@dataclass(frozen=True, eq=False)
class BatchWork:
    """The work on one batch: from its records to values of contexts.

    Attributes:
        question: what is asked.
        shape: the columns of the log.
        strata: its parts.
        sample: whether the candidate is the frequencies of another log.
    """

    question: Question
    shape: Shape
    strata: Strata
    sample: bool = False

    @property
    def depth(self) -> int:
        """Down to which position policies are asked."""
        return policy_depth(self.question, self.shape)

    def placed(self, batch: Batch, coding: Coding | None = None) -> Placed:
        """The batch by strata, with the candidate in its numbers.

        Args:
            batch: the records.
            coding: the numbers of the batch by strata that another candidate has.
        """
        q, batch = self.question, self.strata.split(batch)
        coding = Coding(batch, self.depth) if coding is None else coding
        within = None
        if q.baseline is not None and q.missing == "drop":
            within = Candidate(coding, q.baseline).known
        candidate = Candidate(coding, q.candidate, within)
        counting = Counting(batch, candidate.known, q.missing == "production")
        return Placed(candidate, counting)

    def __call__(self, batch: Batch) -> Found:
        """What the batch adds to the answer."""
        q, placed = self.question, self.placed(batch)
        candidate, counting, coding = placed.candidate, placed.counting, placed.candidate.coding
        batch = counting.batch
        found = Found(self.strata.numbers(batch))
        found.facts.shared = candidate.shared
        found.facts.note_missing("candidate", batch, candidate.known)
        self._parts(found, counting)
        logging: Any = q.logging
        if isinstance(q.logging, Policy):
            logging = Candidate(coding, q.logging, candidate.known)
            everywhere = Candidate(coding, q.logging).known
            found.facts.note_missing("logging policy", batch, everywhere)
            found.sums["filled"] = _filled(logging)
        self._sight(found, candidate, counting)
        self._asks(found, candidate, counting, logging)
        return found

    def _parts(self, found: Found, counting: Counting) -> None:
        """Sums by position of the contexts that the candidate knows, and of the others."""
        batch = counting.batch
        slots = context_slots(batch)
        each: dict[Any, Floats] = {"records": batch.context_n}
        for metric in self.question.parts:
            what = counted(batch, metric, hazard=metric.first)
            shape = batch.context_count, batch.depth
            each["reward", metric] = slots.earned(what)[:-1].reshape(shape)
            if metric.first:
                each["risk", metric] = slots.n(what)[:-1].reshape(shape)
                what = counted(batch, metric)
            each["shown"] = slots.n(what)[:-1].reshape(shape)
        for known in (True, False):
            mine = counting.known == known
            found.sums["contexts", known] = 1.0 * mine
            for name, values in each.items():
                found.sums[name, known] = values * mine.reshape(-1, *[1] * (values.ndim - 1))

    def _sight(self, found: Found, candidate: Candidate, counting: Counting) -> None:
        """Where the log shows any item of the candidate, or the candidate what the log did.

        Of the candidate, the positions that a metric counts: its answer must not depend on others.
        """
        slots, batch = candidate.slots, candidate.batch
        shown = np.append((batch.shown > 0).any(axis=1), False)
        logged = shown[np.minimum(slots.pair, batch.pair_count)]
        for depth in {metric.depth for metric in self.question.parts}:
            both = logged & (slots.mass[:, :depth] > 0).any(axis=1)
            seen = sums(slots.context, 1.0 * both, batch.context_count)
            found.sums["in sight", depth] = seen + (counting.used & ~counting.known)

    def _asks(
        self,
        found: Found,
        candidate: Candidate,
        counting: Counting,
        logging: Any,  # noqa: ANN401
    ) -> None:
        kinds: list[Any] = [kind for kind in self.question.clusters if kind != "record"]
        clusterings = {kind: Clustering(counting, kind) for kind in kinds}
        if self.question.top and self.shape.period:
            clusterings.setdefault("period", Clustering(counting, "period"))
        for kind, clustering in clusterings.items() if kinds else ():
            found.sums[kind, "n"] = clustering.records
            for metric in self.question.parts:
                found.sums[kind, "f", metric] = clustering.rewards(metric)
        if self.question.two_way:
            found.both = Both.of(counting.batch, found.stratum)
            found.rows[BOTH, "n"] = counting.by_row(np.ones(len(counting.batch.n)))
            for metric in self.question.parts:
                found.rows[BOTH, "f", metric] = counting.by_row(counting.rewards(metric))
        asks = [(i, ask) for i, ask in enumerate(self.question.asks) if ask.ladder is None]
        for cell in dict.fromkeys(ask.cell for _, ask in asks):
            same = [(i, ask) for i, ask in asks if ask.cell == cell]
            mine = [ask for _, ask in same]
            if mine[0].hazard:
                weighed = weigh_hazards(candidate, mine)
            else:
                weighed = weigh(candidate, mine, None if cell == SHOWN else logging)
            for (i, _), each in zip(same, weighed, strict=True):
                AskWork(i, each, candidate, counting, clusterings, self).add_to(found)


@dataclass(frozen=True, eq=False)
class AskWork:
    """The work on one ask in one batch."""

    number: int
    weighed: WeighedCells
    candidate: Candidate
    counting: Counting
    clusterings: dict[Any, Clustering]
    work: BatchWork
    _kept: dict[Any, CellClusters] = field(default_factory=dict)

    def add_to(self, found: Found) -> None:
        """Add the values of contexts, under the number of the ask."""
        i, w, question = self.number, self.weighed, self.work.question
        values = context_sums(w)
        found.sums.update({(i, *name): each for name, each in values.items()})
        found.largest[i] = largest_weight(w)
        if question.top:
            self._support(found, question.top)
        if not question.clusters:
            return
        hides = w.ask.model.sees_items and not w.known
        residual = variance.residuals(w) if hides else None
        if residual is not None:
            found.sums[i, "pool"] = np.stack(residual.pool, axis=1)
        influence = Influence(self.counting, w)
        if "record" in question.clusters:
            self._records(found, influence, residual)
        for kind, clustering in self.clusterings.items():
            self._clusters(found, influence, residual, kind, clustering)
        for m in range(len(w.ask.clips)) if w.ask.curve is not None and not w.by_row else ():
            found.sums[i, m, "slopes"] = examination_slopes(w, m)
        for m in range(len(w.ask.clips)) if question.two_way else ():
            found.rows[i, m, BOTH, "psi"] = self.counting.by_row(influence.rows(m))
        self._samples(found)

    def _support(self, found: Found, top: int) -> None:
        w = self.weighed
        self._note(found, context_support(w))
        for stratum, sight in sights(w, self.candidate, top).items():
            found.facts.sights[self.number, stratum] = sight
        if "period" in self.clusterings:
            periods = _periods(w, self._cells("period"))
            self._note(found, variance.repeated(w, periods), "period")

    def _records(
        self, found: Found, influence: Influence, residual: variance.Residuals | None
    ) -> None:
        metric = self.weighed.ask.metric
        for m in range(len(self.weighed.ask.clips)):
            psi = influence.rows(m)
            moments = variance.record_moments(self.counting, psi, metric)
            self._note(found, moments, m, "record")
            if self.work.question.products:
                found.psi[self.number, m] = psi
        if residual is not None:
            self._note(found, variance.small_cells(self.weighed, residual), "record")

    def _clusters(
        self,
        found: Found,
        influence: Influence,
        residual: variance.Residuals | None,
        kind: Any,  # noqa: ANN401 - a cluster
        clustering: Clustering,
    ) -> None:
        w = self.weighed
        cells = self._cells(kind)
        for m in range(len(w.ask.clips)):
            found.sums[self.number, m, kind, "psi"] = influence.clusters(m, cells, clustering)
        if residual is not None:
            self._note(found, variance.few_clusters(w, residual, cells), kind)
        if kind == "period" and w.ask.model.sees_items:
            self._note(found, variance.repeated(w, _periods(w, cells)), kind)

    def _samples(self, found: Found) -> None:
        w, policy = self.weighed, self.candidate.policy
        if self.work.sample and isinstance(policy, Observed):
            sizes = policy.records(self.candidate.coding.view)[self.candidate.batch.context_value]
            worth = [variance.list_worth(w, self.candidate, m) for m in range(len(w.ask.clips))]
            self._note(found, variance.sampled_candidate(self.candidate, sizes, worth))

    def _cells(self, kind: Any) -> CellClusters:  # noqa: ANN401 - a cluster
        """What the clusters of a kind have of each cell."""
        if kind not in self._kept:
            self._kept[kind] = cell_clusters(self.weighed, kind)
        return self._kept[kind]

    def _note(self, found: Found, values: dict[Any, Floats], *where: Any) -> None:  # noqa: ANN401
        """Keep values under the ask, where they belong, and their own name."""
        for name, each in values.items():
            own = name if isinstance(name, tuple) else (name,)
            found.sums[(self.number, *where, *own)] = each


def _periods(weighed: WeighedCells, cells: CellClusters) -> Floats:
    """Shape (G,): in how many periods each cell was exposed."""
    if not weighed.by_row:
        return cells.clusters
    # Rows of one cell may be of one period.
    own, seen = weighed.cells.key, cells.exposed > 0
    pairs = np.unique(np.stack([own[cells.cell[seen]], cells.cluster[seen]]), axis=1)
    return sums(pairs[0], np.ones(pairs.shape[1]), int(own.max(initial=-1)) + 1)[own]


def _filled(logging: Candidate) -> Floats:
    """Shape (X, D): n_x times the chance that the logging policy fills each position."""
    slots, batch = logging.slots, logging.batch
    found = np.zeros((batch.context_count, logging.depth))
    np.add.at(found, slots.context, slots.mass)
    return found * batch.context_n[:, None]


def policy_depth(question: Question, shape: Shape) -> int:
    """Down to which position policies are asked.

    No further than the log or a policy shows anything, however deep a metric counts. Where whole
    lists are compared, by their propensities or by a ladder, it is all of the list, however little
    a metric counts; one position more than the log's tells a longer list from a logged one.
    """
    asked = (question.candidate, question.baseline, question.logging)
    filled = max(shape.depth, *(p.longest for p in asked if isinstance(p, Policy)))
    whole_list = question.logging == "propensity" and (
        shape.propensity == "list" or shape.depth == 1
    )
    ladders = any(isinstance(e, Ladder) for e in question.estimators)
    least = shape.depth + 1 if whole_list or ladders else question.depth
    return int(min(max(question.depth, least), filled))
