"""The answer to a question: a map over batches of contexts, and one sum over contexts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from foreclick.batches import (
    Batch,
    Batches,
    Candidate,
    Coding,
    Floats,
    Ints,
    Totals,
    batches_of,
    sums,
)
from foreclick.batches.encode import Codes
from foreclick.errors import PolicyError
from foreclick.estimators import variance
from foreclick.estimators.cells import Ask, counted, row_credit
from foreclick.estimators.first_clicks import weigh_hazards
from foreclick.estimators.influence import Clustering, Counting, Influence, Spread, clustered
from foreclick.estimators.kernel import (
    Clustered,
    WeighedCells,
    context_rows,
    context_sums,
    largest_weight,
    weigh,
)
from foreclick.estimators.ladder.estimate import LadderEstimate
from foreclick.estimators.ladder.fit import fitted
from foreclick.estimators.ladder.spec import Ladder
from foreclick.estimators.ladder.work import LadderWork, Placed
from foreclick.estimators.question import Part, Question, Stratum, check_question
from foreclick.estimators.slots import context_slots
from foreclick.estimators.support import Sight, Tail, context_support, sights
from foreclick.logs import PERIOD, Shape
from foreclick.metrics import Metric
from foreclick.models import ClickModel
from foreclick.policies import Observed, Policy
from foreclick.tallies.base import Tally

_EXAMPLES = 3
_SUMS = ("mass", "covered", "cells", "seen", "unlogged")
_CLIP_SUMS = ("credit", "clipped", "weighted", "squared", "lost")


@dataclass(frozen=True)
class Seen:
    """What of a candidate the log sees, for one ask, clip and stratum.

    Attributes:
        repeated: the share of the covered exposure that was seen in several periods; None if the
            log has no periods, or sees nothing.
        contexts: how many contexts are out of sight: nothing is covered that is shown there.
        records: how many records they have.
        heaviest: the cells with the largest weights: context, cell, weight, exposure, records, and
            their share of Σ E W².
        darkest: the contexts that hold most of the uncovered exposure: context, records, covered,
            and their share of it.
        tail: the largest weights of all.
    """

    repeated: float | None
    contexts: int
    records: float
    heaviest: list[dict[str, Any]]
    darkest: list[dict[str, Any]]
    tail: Tail


@dataclass(frozen=True)
class Sums:
    """Sums over cells for one (estimator, metric, clip) in one stratum.

    Attributes:
        credit: Σ n_x C_g W_g, the estimate times the number of records.
        mass: Σ n_x H_g; `covered`: that of the cells that were logged; `clipped`: what M cut off.
        exposure, weighted, squared: Σ E, Σ E W and Σ E W², with E_g = n_x P_g.
        cells, seen: how many cells the candidate would use, and how many of them were logged.
        largest: the largest weight that a record can have, before it is clipped; infinite where
            propensities tell only of the cells that were shown.
        unlogged: records in cells that the given logging policy calls impossible.
        lost: Σ n_x r_g (H_g − M P_g)₊, what the clip took from cells whose rate is known.
        asked: whether the variance was asked for.
        spread: how far the value would move from log to log, where that can be told.
        sight: what of the candidate the log sees, if that was asked.
        repeated: the share of what is covered that was seen in several periods, if they were asked.
        rungs: of a ladder, how much of the exposure took its rate from which rung.
    """

    ask: Ask
    clip: float
    stratum: Stratum
    credit: float
    mass: float
    covered: float
    clipped: float
    exposure: float
    weighted: float
    squared: float
    cells: float
    seen: float
    largest: float
    unlogged: float
    lost: float
    asked: bool = False
    spread: Spread | None = None
    repeated: float | None = None
    rungs: dict[str, float] | None = None
    sight: Seen | None = None
    name: str | None = None

    @property
    def model(self) -> ClickModel:
        """The click model that the estimate assumes."""
        return self.ask.model

    @property
    def estimator(self) -> str:
        """What the `estimator` column shows."""
        return self.name or self.ask.model.name

    @property
    def metric(self) -> Metric:
        """What is counted."""
        return self.ask.metric

    @property
    def value(self) -> float | None:
        """The estimate of V(h), or None where the log shows nothing of the candidate."""
        if not self.stratum.records or self.covered <= 0:
            return None
        return self.credit / self.stratum.records

    @property
    def steepest(self) -> float:
        """The largest weight that a record can have, after it is clipped."""
        # Records with logging probability 0 get weight M, if they happen all the same.
        found = self.clip if self.unlogged else min(self.clip, self.largest)
        return max(found, 1.0) if self.stratum.used and self.stratum.unknown.records else found

    @property
    def covered_share(self) -> float:
        """The share of the candidate's exposure that was ever logged."""
        return self.covered / self.mass if self.mass else 0.0

    def margin(self, cap: float | None = None) -> float:
        """What the log cannot see, at most: exposure that the clip cut off or that was never shown.

        The first is worth its own click rate, the second at most `cap` per unit of exposure: by
        default the click rate of the best position, as if all that is new were as good.
        """
        if not self.stratum.records:
            return 0.0
        if cap is None:
            cap = self.stratum.best_rate(self.model, self.metric)
        return (self.lost + cap * max(self.mass - self.covered, 0.0)) / self.stratum.records

    @property
    def ess(self) -> float | None:
        """The effective number of records, n (Σ E W)² / (Σ E · Σ E W²).

        None for a ladder whose variance was not asked for: its weights are its influence.
        """
        if self.rungs is not None and not self.asked and self.covered > 0:
            return None
        if not self.squared or self.covered <= 0:
            return 0.0
        return self.stratum.records * self.weighted**2 / (self.exposure * self.squared)


@dataclass(frozen=True)
class Estimate:
    """The answer to a question.

    Attributes:
        sums: one entry per estimator, metric, clip and stratum, in the order they were asked.
        ignored_contexts: contexts that only the candidate has.
    """

    sums: list[Sums]
    ignored_contexts: int


def estimate(tally: Tally, question: Question) -> Estimate:
    """Answer a question from a tally."""
    check_question(tally.shape, question)
    batches = batches_of(tally)
    strata = Strata.of(batches, question.by)
    policy = question.candidate
    sample = isinstance(policy, Observed) and not policy.counted.same(tally)
    work = BatchWork(question, tally.shape, strata, sample=sample)
    totals, facts = Totals(strata.count), Facts()
    for found in batches.map(work, question.workers):
        found.add_to(totals)
        facts.add(found.facts)
    answer = Answer(question, tally.shape, strata, totals, facts)
    answer.check()
    for ladder, asks in question.ladders:
        _climb(tally, work, ladder, asks, totals)
    return answer.estimate()


def _climb(
    tally: Tally, work: BatchWork, ladder: Ladder, asks: list[tuple[int, Ask]], totals: Totals
) -> None:
    """Add what a ladder says, for asks of one reward."""
    question, batches = work.question, batches_of(tally)
    metrics = [ask.metric for _, ask in asks]
    fit = fitted(tally, ladder, metrics[0].reward, work.depth)
    end = metrics[0].depth if ladder.top == "list" else None
    key = "ladder counts", fit, metrics[0].reward, end, question.by
    counts = batches.kept.setdefault(key, {})
    estimate = LadderEstimate(fit, metrics, batches, work.strata.count, counts)
    drops = question.missing == "drop"
    sample = tally.shape.sample
    drawn = sample is not None and sample[0] == "context"
    climb = LadderWork(estimate, asks, question.clusters, drops, work.sample, drawn)
    placed = [work.placed(batch) for batch in batches]
    for each, values in climb.values(placed):
        Found(each.counting.batch.stratum, values).add_to(totals)
    if question.clusters:
        for j, (i, _) in enumerate(asks):
            totals.more((i, 0, "alone"), estimate.coarse_unsettled()[:, j])


# --- strata -------------------------------------------------------------------------------------


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

    def segment(self, number: int) -> dict[str, Any]:
        """The values of a stratum by column."""
        found = {}
        for name, code in reversed(list(zip(self.by, self.codes, strict=True))):
            number, own = divmod(number, len(code))
            found[name] = code.values[own].as_py()
        return {name: found[name] for name in self.by}


# --- one batch ----------------------------------------------------------------------------------


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
    """

    stratum: Ints
    sums: dict[Any, Floats] = field(default_factory=dict)
    largest: dict[Any, Floats] = field(default_factory=dict)
    facts: Facts = field(default_factory=Facts)

    def add_to(self, totals: Totals) -> None:
        """Add the values of all contexts."""
        for name, values in self.sums.items():
            totals.add(name, values, self.stratum)
        for name, values in self.largest.items():
            totals.most(name, values, self.stratum)


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

    def placed(self, batch: Batch) -> Placed:
        """The batch by strata, with the candidate in its numbers."""
        q, batch = self.question, self.strata.split(batch)
        coding = Coding(batch, self.depth)
        within = None
        if q.baseline is not None and q.missing == "drop":
            within = Candidate(coding, q.baseline).known
        candidate = Candidate(coding, q.candidate, within)
        counting = Counting(batch, candidate.known, q.missing == "production", q.fixed_mix)
        return Placed(candidate, counting)

    def __call__(self, batch: Batch) -> Found:
        """What the batch adds to the answer."""
        q, placed = self.question, self.placed(batch)
        candidate, counting, coding = placed.candidate, placed.counting, placed.candidate.coding
        batch = counting.batch
        found = Found(batch.stratum)
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
        for metric in self.question.metrics:
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
        """Where the log shows any item of the candidate, or the candidate what the log did."""
        slots, batch = candidate.slots, candidate.batch
        other = counting.used & ~counting.known
        for depth in {metric.depth for metric in self.question.metrics}:
            shown = np.append((batch.shown[:, :depth] > 0).any(axis=1), False)
            logged = shown[np.minimum(slots.pair, batch.pair_count)]
            both = logged & (slots.mass[:, :depth] > 0).any(axis=1)
            seen = sums(slots.context, 1.0 * both, batch.context_count)
            found.sums["in sight", depth] = seen + other

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
            for metric in self.question.metrics:
                found.sums[kind, "f", metric] = clustering.rewards(metric)
        asks = [(i, ask) for i, ask in enumerate(self.question.asks) if ask.ladder is None]
        for cell in dict.fromkeys(ask.cell for _, ask in asks):
            same = [(i, ask) for i, ask in asks if ask.cell == cell]
            mine = [ask for _, ask in same]
            hazard = mine[0].hazard
            weighed = weigh_hazards(candidate, mine) if hazard else weigh(candidate, mine, logging)
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
        self._samples(found, values)

    def _support(self, found: Found, top: int) -> None:
        w = self.weighed
        self._note(found, context_support(w))
        for stratum, sight in sights(w, self.candidate, top).items():
            found.facts.sights[self.number, stratum] = sight
        if "period" in self.clusterings:
            periods = _periods(w, self.clusterings["period"].slots.of(w))
            self._note(found, variance.repeated(w, periods), "period")

    def _records(
        self, found: Found, influence: Influence, residual: variance.Residuals | None
    ) -> None:
        f = self.counting.rewards(self.weighed.ask.metric)
        for m in range(len(self.weighed.ask.clips)):
            moments = variance.record_moments(self.counting, influence.rows(m), f)
            self._note(found, moments, m, "record")
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
        cells = clustering.slots.of(w)
        for m in range(len(w.ask.clips)):
            found.sums[self.number, m, kind, "psi"] = influence.clusters(m, cells, clustering)
        if residual is not None:
            self._note(found, variance.few_clusters(w, residual, cells), kind)
        if kind == "period" and w.ask.model.sees_items:
            self._note(found, variance.repeated(w, _periods(w, cells)), kind)

    def _samples(self, found: Found, values: dict[Any, Floats]) -> None:
        w, policy, shape = self.weighed, self.candidate.policy, self.work.shape
        clips = range(len(w.ask.clips))
        if self.work.sample and isinstance(policy, Observed):
            sizes = policy.records(self.candidate.coding.view)[self.candidate.batch.context_value]
            worth = [variance.list_worth(w, self.candidate, m) for m in clips]
            self._note(found, variance.sampled_candidate(self.candidate, sizes, worth))
        if shape.sample is not None and shape.sample[0] == "context":
            batch = self.candidate.batch
            credit = context_rows(batch, batch.n * row_credit(batch, w.ask.metric))
            for m in clips:
                moments = variance.drawn_contexts(self.counting, values[m, "credit"], credit)
                self._note(found, moments, m)

    def _note(self, found: Found, values: dict[Any, Floats], *where: Any) -> None:  # noqa: ANN401
        """Keep values under the ask, where they belong, and their own name."""
        for name, each in values.items():
            own = name if isinstance(name, tuple) else (name,)
            found.sums[(self.number, *where, *own)] = each


def _periods(weighed: WeighedCells, cells: Clustered) -> Floats:
    """Shape (G,): in how many periods each cell was exposed."""
    if not weighed.by_row:
        return cells.clusters
    # Rows of one cell may be of one period.
    own, entries = weighed.cells.key, cells.entries
    seen = (entries.exposed > 0) & (cells.exposure > 0)[entries.cell]
    pairs = np.unique(np.stack([own[entries.cell[seen]], entries.cluster[seen]]), axis=1)
    return sums(pairs[0], np.ones(pairs.shape[1]), int(own.max(initial=-1)) + 1)[own]


def _filled(logging: Candidate) -> Floats:
    """Shape (X, D): n_x times the chance that the logging policy fills each position."""
    slots, batch = logging.slots, logging.batch
    found = np.zeros((batch.context_count, logging.depth))
    np.add.at(found, slots.context, slots.mass)
    return found * batch.context_n[:, None]


def policy_depth(question: Question, shape: Shape) -> int:
    """Down to which position policies are asked.

    The probability of a whole list is for the whole list, however little a metric counts; one
    position more tells a longer list from it. A ladder learns from all positions.
    """
    whole_list = question.logging == "propensity" and (
        shape.propensity == "list" or shape.depth == 1
    )
    ladders = any(isinstance(e, Ladder) for e in question.estimators)
    return max(question.depth, shape.depth + 1 if whole_list else 0, shape.depth if ladders else 0)


# --- the answer ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Answer:
    """Sums over all contexts, and what follows from them."""

    question: Question
    shape: Shape
    strata: Strata
    totals: Totals
    facts: Facts

    def check(self) -> None:
        """Refuse contexts that have no answer."""
        self._refuse_missing(self._strata())

    def estimate(self) -> Estimate:
        """One entry per estimator, metric, clip and stratum."""
        strata = self._strata()
        asks = self.question.asks
        found = [
            self._in_sight(i, m, self._with_spread(i, m, self._finish(i, m, ask, clip, stratum)))
            for i, ask in enumerate(asks)
            for m, clip in enumerate(ask.clips)
            for stratum in strata
        ]
        return Estimate(found, self.question.candidate.context_count() - self.facts.shared)

    def _number(self, stratum: int, *name: Any) -> float:  # noqa: ANN401 - parts of a name
        return float(self.totals.sum(name if len(name) > 1 else name[0])[stratum])

    # --- what it rests on -------------------------------------------------------------------------

    def _strata(self) -> list[Stratum]:
        used = self.question.missing == "production"
        return [
            Stratum(
                segment=self.strata.segment(s),
                number=s,
                known=self._part(s, known=True),
                unknown=self._part(s, known=False),
                used=used,
            )
            for s in range(self.strata.count)
            if self._number(s, "contexts", True) + self._number(s, "contexts", False) > 0
        ]

    def _part(self, s: int, *, known: bool) -> Part:
        def by_position(*name: Any) -> list[float]:  # noqa: ANN401 - parts of a name
            return list(self.totals.sum((*name, known))[s].tolist())

        metrics = self.question.metrics
        return Part(
            contexts=round(self._number(s, "contexts", known)),
            records=whole_number(self._number(s, "records", known)),
            shown=by_position("shown"),
            rewards={m: by_position(("reward", m)) for m in metrics},
            at_risk={m: by_position(("risk", m)) for m in metrics if m.first},
        )

    def _refuse_missing(self, strata: list[Stratum]) -> None:
        """A context without a list is an error, unless the user says what to do with it."""
        self._complain("logging policy", "the logging policy has no list for")
        if not any(s.known.contexts for s in strata):
            self._complain("candidate", "the candidate has no list for any of the")
        if self.question.missing == "error":
            self._complain(
                "candidate",
                "the candidate has no list for",
                " Say what they should count as: missing='production' (as they are today) or "
                "missing='drop' (leave them out of everything).",
            )

    def _complain(self, who: str, what: str, remedy: str = "") -> None:
        if who in self.facts.missing:
            count, some = self.facts.missing[who]
            examples = ", ".join(repr(value) for value in some)
            raise PolicyError(
                f"{what} {count:,} contexts of the log, for example {examples}.{remedy}"
            )

    # --- sums -------------------------------------------------------------------------------------

    def _finish(self, i: int, m: int, ask: Ask, clip: float, stratum: Stratum) -> Sums:
        """Sums of cells, and of the contexts in which the candidate shows what production did.

        Their weights are 1 and their exposure is their own, whatever the clip.
        """
        s = stratum.number
        found: dict[str, Any] = {name: self._number(s, i, None, name) for name in _SUMS}
        found |= {name: self._number(s, i, m, name) for name in _CLIP_SUMS}
        largest = float(self.totals.largest(i)[s])
        exposed = stratum.known.counted(ask)
        if isinstance(self.question.logging, Policy):
            filled = self.totals.sum("filled")[s].tolist()
            exposed = sum(e * n for e, n in zip(ask.exposure, filled, strict=False))
        elif self.question.logging == "propensity":
            largest = math.inf
        rungs = None
        if ask.ladder is not None:
            # As if all positions counted alike: then production is worth as many as it has.
            found["squared"] *= stratum.known.unevenness(ask.metric)
            shares = self.totals.sum((i, "rungs"))[s].tolist()
            rungs = dict(zip(ask.ladder.rungs, shares, strict=True))
        if stratum.used:
            shown, absent = stratum.unknown.exposure(ask), stratum.unknown.counted(ask)
            added = {"mass": shown, "covered": shown, "weighted": absent, "squared": absent}
            added["credit"] = stratum.unknown.credit(ask.metric)
            found |= {name: found[name] + more for name, more in added.items()}
            exposed += absent
        return Sums(ask, clip, stratum, exposure=exposed, largest=largest, rungs=rungs, **found)

    def _in_sight(self, i: int, m: int, found: Sums) -> Sums:
        """Where no item of the candidate was ever shown, nothing of it is covered.

        A model that is blind to items, or a logging policy that could have shown them, says
        otherwise.
        """
        doubtful = isinstance(self.question.logging, Policy) or not found.model.sees_items
        if doubtful and not self._number(found.stratum.number, "in sight", found.metric.depth):
            found = replace(found, covered=0.0, spread=None)
        sight = self.facts.sights.get((i, found.stratum.number))
        return found if sight is None else replace(found, sight=self._seen(i, m, found, sight))

    def _seen(self, i: int, m: int, found: Sums, sight: Sight) -> Seen:
        s = found.stratum.number
        squared, dark = self._number(s, i, m, "squared"), self._number(s, i, "dark")
        covered = self._number(s, i, "period", "covered")
        return Seen(
            repeated=self._number(s, i, "period", "often") / covered if covered else None,
            contexts=round(self._number(s, i, "out")),
            records=whole_number(self._number(s, i, "out records")),
            heaviest=[
                _shared(row, "squared", row["squared"][m] / squared if squared else None)
                for _, row in sight.heaviest.rows
            ],
            darkest=[_shared(row, "dark", row["dark"] / dark) for _, row in sight.darkest.rows],
            tail=sight.tail,
        )

    # --- variance ---------------------------------------------------------------------------------

    def _with_spread(self, i: int, m: int, found: Sums) -> Sums:
        """The same sums with their variance: by several kinds of clusters, the widest of them."""
        if not self.question.clusters:
            return found
        s, repeated = found.stratum.number, None
        spreads = []
        for kind in self.question.clusters:
            spread = self._spread(i, m, found, kind)
            if spread is None:
                continue
            spreads.append(spread)
            enough = kind == "period" and spread.clusters >= variance.ENOUGH_PERIODS
            covered = self._number(s, i, kind, "covered")
            if enough and covered:
                repeated = self._number(s, i, kind, "often") / covered
        widest = max(spreads, key=lambda spread: float(spread.covariance[0, 0]), default=None)
        if widest is not None:
            widest = self._sampled(i, m, found, widest)
        return replace(found, asked=True, spread=widest, repeated=repeated)

    def _spread(self, i: int, m: int, found: Sums, kind: Any) -> Spread | None:  # noqa: ANN401
        if found.value is None:
            return None
        s = found.stratum.number
        if kind == "record":
            spread = _independent({c: self._number(s, i, m, kind, c) for c in _MOMENTS})
        else:
            n = self.totals.sum((kind, "n"))[s]
            f = self.totals.sum((kind, "f", found.metric))[s]
            psi = self.totals.sum((i, m, kind, "psi"))[s]
            there = np.flatnonzero(n > 0)
            both = np.stack([psi, f], axis=1)[there]
            if not self.question.fixed_mix:
                both -= n[there, None] * np.array([found.value, f.sum() / n.sum()])
            spread = replace(clustered(both / n.sum()), kind=kind, present=there)
        hidden = self._hidden(i, m, s, kind) / found.stratum.records**2
        return replace(spread, covariance=spread.covariance + hidden)

    def _hidden(self, i: int, m: int, s: int, kind: str) -> Floats:
        """Shape (2, 2): the variance of n V̂ and n F̂ that small cells and few clusters hide."""
        pool = self.totals.sum((i, "pool"))[s]
        usual = float(pool[0] / pool[1]) if np.ndim(pool) and pool[1] > 0 else 0.0
        over = self._number(s, i, kind, "over") + usual * self._number(s, i, kind, "over s²")
        under = self._number(s, i, kind, "under")
        shock = max(over, 0.0) / under if under > 0 else 0.0
        ww, w, d = (
            self._number(s, i, kind, m, name)
            + usual * self._number(s, i, kind, m, f"{name} s²")
            + shock * self._number(s, i, kind, m, f"shock {name}")
            for name in ("ww", "w", "d")
        )
        return np.array([[ww, w], [w, d]])

    def _sampled(self, i: int, m: int, found: Sums, spread: Spread) -> Spread:
        """With what a log of drawn contexts and a candidate that is a sample add."""
        s, sample = found.stratum.number, self.shape.sample
        if sample is not None and sample[0] == "context":
            names = ("count", "n", "nn", "v", "f", "vv", "vf", "ff", "vn", "fn")
            moments = {name: self._number(s, i, m, "drawn", name) for name in names}
            between = variance.drawn_covariance(moments, sample[1])
            spread = replace(spread, covariance=spread.covariance + between)
        own, squares, freedom, alone = (
            self._number(s, i, m, f"sample{name}")
            for name in ("", " squares", " freedom", " alone")
        )
        more = own + (squares / freedom if freedom else 0.0) * alone
        more += self._number(s, i, m, "alone")
        return spread.wider(more / found.stratum.records**2) if more else spread


def _shared(row: dict[str, Any], part: str, share: float | None) -> dict[str, Any]:
    """A row with its share of a sum, instead of what it adds to it."""
    return {name: value for name, value in row.items() if name != part} | {"share": share}


_MOMENTS = ("n", "v", "f", "vv", "vf", "ff")


def _independent(moments: dict[str, float]) -> Spread:
    """The covariance of means of independent records, from their moments."""
    n = moments["n"]
    raw = np.array([[moments["vv"], moments["vf"]], [moments["vf"], moments["ff"]]])
    mean = np.array([moments["v"], moments["f"]]) / n
    centred = raw - n * np.outer(mean, mean)
    return Spread(centred / (n * max(n - 1, 1)), math.inf, n, None)


def whole_number(value: float) -> float:
    """A count as an integer, if it is one."""
    return int(value) if float(value).is_integer() else value
