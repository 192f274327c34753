"""The answer to a question: a map over batches of contexts, and one sum over contexts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from foreclick.batches import (
    Floats,
    Remembered,
    Totals,
    batches_of,
)
from foreclick.errors import PolicyError
from foreclick.estimators import variance
from foreclick.estimators.cells import Ask
from foreclick.estimators.ladder.estimate import LadderEstimate
from foreclick.estimators.ladder.fit import fitted
from foreclick.estimators.ladder.spec import Ladder
from foreclick.estimators.ladder.work import LadderWork
from foreclick.estimators.question import Part, Question, Stratum, check_question
from foreclick.estimators.ratios import (
    AnySums,
    Psi,
    RatioSums,
    add_products,
    product_name,
    spread_of,
)
from foreclick.estimators.spread import BOTH, ByCluster, Spread, clustered
from foreclick.estimators.sums import Seen, Sums
from foreclick.estimators.support import Sight
from foreclick.estimators.work import BatchWork, Both, Facts, Found, Strata
from foreclick.metrics import Ratio
from foreclick.policies import Observed, Policy
from foreclick.progress import say
from foreclick.tallies.base import Tally
from foreclick.words import examples, number_of

_SUMS = ("mass", "covered", "cells", "seen", "unlogged")
_CLIP_SUMS = ("credit", "clipped", "weighted", "squared", "lost")
_ROUNDING = 1e-12  # the part of a sum that a difference must have to be more than rounding


@dataclass(frozen=True)
class Estimate:
    """The answer to a question.

    Attributes:
        sums: one entry per estimator, metric, clip and stratum, in the order they were asked.
        ignored_contexts: contexts that only the candidate has.
    """

    sums: list[AnySums]
    ignored_contexts: int


def estimate(tally: Tally, question: Question) -> Estimate:
    """Answer a question from a tally."""
    check_question(tally.shape, question)
    strata = Strata.of(batches_of(tally), question.by)
    return answered(tally, question, strata).estimate()


def answered(
    tally: Tally, question: Question, strata: Strata, totals: Totals | None = None
) -> Answer:
    """All sums of a question.

    Args:
        tally: the log.
        question: what is asked.
        strata: the parts of the log that have sums of their own.
        totals: where values of contexts are added; by default one sum for each stratum.
    """
    batches = batches_of(tally)
    policy = question.candidate
    sample = isinstance(policy, Observed) and not policy.counted.same(tally)
    work = BatchWork(question, tally.shape, strata, sample=sample)
    totals = Totals(strata.count) if totals is None else totals
    facts, psi = Facts(), _Influences()
    weighted = [e.name for e in question.estimators if not isinstance(e, Ladder)]
    say(f"Estimating by {', '.join(weighted)}" if weighted else "Reading the log")
    for number, found in enumerate(batches.map(work, question.workers)):
        found.add_to(totals)
        facts.add(found.facts)
        psi.add(number, found.psi)
    answer = Answer(question, strata, totals, facts)
    answer.check()
    for ladder, asks in question.ladders:
        _climb(tally, work, ladder, asks, answer, psi)
    if question.products:
        counted = (placed.counting for placed in Remembered(work.placed, batches))
        add_products(question, zip(counted, psi.batches, strict=True), totals)
    return answer


class _Influences:
    """ψ_t of the rows of all batches, where products of those of single records are needed."""

    def __init__(self) -> None:
        self.batches: list[Psi] = []

    def add(self, number: int, psi: Psi) -> None:
        """Keep those of a batch."""
        if number == len(self.batches):
            self.batches.append({})
        self.batches[number] |= psi


def _climb(
    tally: Tally,
    work: BatchWork,
    ladder: Ladder,
    asks: list[tuple[int, Ask]],
    answer: Answer,
    psi: _Influences,
) -> None:
    """Add what a ladder says, for asks of one reward."""
    question, batches, totals = work.question, batches_of(tally), answer.totals
    metrics = [ask.metric for _, ask in asks]
    fit = fitted(tally, ladder, metrics[0].reward, question.depth)
    say(f"Estimating by {ladder.name}")
    key = "ladder counts", fit, metrics[0].reward, question.by
    counts = batches.kept.setdefault(key, {})
    estimate = LadderEstimate(fit, metrics, work.strata.apart, counts)
    drops = question.missing == "drop"
    climb = LadderWork(
        estimate,
        asks,
        question.clusters,
        drops,
        work.sample,
        two_way=question.two_way,
        products=question.products,
    )
    for turn, (each, values, rows) in enumerate(climb.values(Remembered(work.placed, batches))):
        batch = each.counting.batch
        found = Found(work.strata.numbers(batch), values)
        if question.two_way and rows:
            found = replace(found, rows=rows, both=Both.of(batch, found.stratum))
        found.add_to(totals)
        if question.products:
            psi.add(turn % len(psi.batches), rows)


# --- from sums to estimates ---------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Answer:
    """Sums over all contexts, and what follows from them."""

    question: Question
    strata: Strata
    totals: Totals
    facts: Facts

    def check(self) -> None:
        """Refuse contexts that have no answer."""
        self._refuse_missing(self._strata())

    def estimate(self) -> Estimate:
        """One entry per estimator, metric, clip and stratum."""
        strata, q = self._strata(), self.question
        asks, each = q.asks, {}
        for i, ask in enumerate(asks):
            each[divmod(i, len(q.parts))] = [
                self._in_sight(i, m, self._with_spread(i, m, self._finish(i, m, ask, clip, s)))
                for m, clip in enumerate(ask.clips)
                for s in strata
            ]
        found: list[AnySums] = []
        for e in range(len(q.estimators)):
            for metric in q.metrics:
                parts = [each[e, q.parts.index(part)] for part in metric.parts]
                if isinstance(metric, Ratio):
                    found += self._ratios(e, metric, parts, len(strata))
                else:
                    found += parts[0]
        return Estimate(found, q.candidate.context_count() - self.facts.shared)

    def _ratios(
        self, e: int, metric: Ratio, parts: list[list[Sums]], strata: int
    ) -> list[RatioSums]:
        """A ratio, for every clip and stratum, from the estimates of its parts."""
        names = self.question.parts
        numbers = [e * len(names) + names.index(part) for part in metric.parts]
        found = []
        for turn, both in enumerate(zip(parts[0], parts[1], strict=True)):
            m, spread = turn // strata, None
            if self.question.clusters and both[0].value is not None and both[1].value:
                bases = [self._shown(i, m, part) for i, part in zip(numbers, both, strict=True)]
                across = None
                if self.question.products:
                    across = self._across(numbers, product_name(e, metric, m), m, both[0])
                spread = spread_of(metric, both, bases, across)
            found.append(RatioSums(metric, *both, spread))
        return found

    def _across(self, numbers: list[int], products: Any, m: int, found: Sums) -> Floats:  # noqa: ANN401
        """Shape (2, 2): the covariance of (V̂, F̂) of two metrics, of independent records."""
        s = found.stratum.number
        one, other = (np.array([self._number(s, i, m, "record", c) for c in "vf"]) for i in numbers)
        n = self._number(s, numbers[0], m, "record", "n")
        raw = self.totals.sum(products)[s]
        return np.asarray((raw - np.outer(one, other) / n) / (n * max(n - 1, 1)))

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

        metrics = self.question.parts
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
            self._refuse_strangers()
        if self.question.missing == "error":
            self._complain(
                "candidate",
                "the candidate has no list for",
                " Say what they should count as: missing='production' (as they are today) or "
                "missing='drop' (leave them out of everything).",
            )

    def _refuse_strangers(self) -> None:
        """A candidate and a log without a common context are probably written differently."""
        if "candidate" in self.facts.missing:
            _, ours = self.facts.missing["candidate"]
            theirs = self.question.candidate.first_contexts()
            raise PolicyError(
                "the candidate has no list for any context of the log: the log has "
                f"{examples(ours)}, the candidate {examples(theirs)}. Write them alike; '7', '07' "
                "and '7 ' are different texts."
            )

    def _complain(self, who: str, what: str, remedy: str = "") -> None:
        if who in self.facts.missing:
            count, some = self.facts.missing[who]
            raise PolicyError(
                f"{what} {number_of(count, 'context')} of the log, for example "
                f"{', '.join(map(repr, some))}.{remedy}"
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
            found["borrowed"] = self._number(s, i, 0, "borrowed")
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
        doubtful = doubtful and not found.metric.shown  # which is known without a log
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
        )

    # --- variance ---------------------------------------------------------------------------------

    def _with_spread(self, i: int, m: int, found: Sums) -> Sums:
        """The same sums with their variance, by clusters of one kind or of two at once."""
        kinds = self.question.clusters
        if not kinds:
            return found
        if found.value is None:
            return replace(found, asked=True)
        s = found.stratum.number
        spread = self._shown(i, m, found)
        # What few periods hide and what few units hide are different things. Of both together,
        # which are many, hardly anything is hidden.
        hidden = np.sum([self._hidden(i, m, s, kind) for kind in kinds], axis=0)
        spread = spread.plus(hidden / found.stratum.records**2)
        repeated, covered = None, self._number(s, i, "period", "covered")
        if "period" in kinds and spread.clusters >= variance.ENOUGH_PERIODS and covered:
            repeated = self._number(s, i, "period", "often") / covered
        spread = self._examined(i, m, found, self._sampled(i, m, found, spread))
        return replace(found, asked=True, spread=spread, repeated=repeated)

    def _examined(self, i: int, m: int, found: Sums, spread: Spread) -> Spread:
        """With the errors of an examination that was learnt.

        They add to those of rates given the examination: if clicks are Poisson, the two are
        uncorrelated, as those of any maximum of a likelihood are.
        """
        curve = found.ask.curve
        slopes = self.totals.sum((i, m, "slopes"))[found.stratum.number]
        if curve is None or not np.ndim(slopes):
            return spread
        root = np.array(curve.root)[: len(slopes)]
        return spread.off_by(slopes[: len(root)] @ root / found.stratum.records)

    def _shown(self, i: int, m: int, found: Sums) -> Spread:
        """The spread that the influence of records shows."""
        if self.question.clusters == ("record",):
            s = found.stratum.number
            return _independent({c: self._number(s, i, m, "record", c) for c in _MOMENTS})
        kinds = (*self.question.clusters, *([BOTH] if self.question.two_way else []))
        return clustered([self._by_cluster(i, m, found, kind) for kind in kinds])

    def _by_cluster(self, i: int, m: int, found: Sums, kind: str) -> ByCluster:
        s = found.stratum.number
        n = self.totals.sum((kind, "n"))[s]
        f = self.totals.sum((kind, "f", found.metric))[s]
        psi = self.totals.sum((i, m, kind, "psi"))[s]
        there = np.flatnonzero(n > 0)
        both = np.stack([psi, f], axis=1)[there]
        both -= n[there, None] * np.array([found.value, f.sum() / n.sum()])
        return ByCluster(kind, both / n.sum(), there)

    def _hidden(self, i: int, m: int, s: int, kind: str) -> Floats:
        """Shape (2, 2): the variance of n V̂ and n F̂ that small cells and few clusters hide."""
        pool = self.totals.sum((i, "pool"))[s]
        usual = float(pool[0] / pool[1]) if np.ndim(pool) and pool[1] > 0 else 0.0
        known, pooled = (self._number(s, i, kind, f"over{name}") for name in ("", " s²"))
        over, under = known + usual * pooled, self._number(s, i, kind, "under")
        if over <= _ROUNDING * (abs(known) + abs(usual * pooled)):
            over = 0.0  # a difference of equal numbers, which large rewards would make large
        shock = over / under if under > 0 else 0.0
        ww, w, d = (
            self._number(s, i, kind, m, name)
            + usual * self._number(s, i, kind, m, f"{name} s²")
            + shock * self._number(s, i, kind, m, f"shock {name}")
            for name in ("ww", "w", "d")
        )
        return np.array([[ww, w], [w, d]])

    def _sampled(self, i: int, m: int, found: Sums, spread: Spread) -> Spread:
        """With what a candidate that is a sample adds, and what a ladder borrowed."""
        s = found.stratum.number
        own, squares, freedom, alone = (
            self._number(s, i, m, f"sample{name}")
            for name in ("", " squares", " freedom", " alone")
        )
        more = own + (squares / freedom if freedom else 0.0) * alone
        borrowed = self._number(s, i, m, "borrowed variance")
        more += borrowed
        records = found.stratum.records**2
        return spread.wider(more / records, borrowed / records) if more else spread


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
    return Spread(centred / (n * max(n - 1, 1)), math.inf, n)


def whole_number(value: float) -> float:
    """A count as an integer, if it is one."""
    return int(value) if float(value).is_integer() else value
