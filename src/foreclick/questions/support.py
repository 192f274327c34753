"""`support`: how far a log can see of a candidate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from foreclick.batches import count_periods
from foreclick.errors import ModelError, PolicyError
from foreclick.estimation.covariance import ENOUGH_PERIODS
from foreclick.estimation.estimates import Estimate, Estimates
from foreclick.estimators import MEANINGS, Estimator, EstimatorLike, Ladder, parse_estimators
from foreclick.metrics import USUAL_METRICS, AnyMetric, Metric, parse_metrics
from foreclick.options import verb
from foreclick.policies import Marginals, Policy, PolicyLike, policy_for
from foreclick.progress import planned
from foreclick.question import Missing, Question
from foreclick.questions.asked import estimates_for, make_question
from foreclick.questions.plan import answer_stages
from foreclick.questions.reasons import NEXT_TRIAL, next_periods
from foreclick.results import Headline, Result, Value, format_value
from foreclick.run.estimate import estimate
from foreclick.tallies import LogLike, Tally, local_tally
from foreclick.words import number_of

LATTICE = ("list", "prefix", "ip", "item")  # from the cells that are hardest to have seen
TOP = 10  # so many contexts are named
_MOST = 0.9  # of the candidate, or of what is covered; below it, the rest is worth a note


@dataclass(frozen=True, repr=False)
class Support(Result):
    """How much of a candidate the log covers: one row per click model × metric.

    | column | meaning |
    |---|---|
    | covered | the share of the candidate's exposure that was ever logged |
    | repeated | the share of covered exposure in cells that were logged in 5 periods or more |
    | cells, seen | the number of cells (lists, prefixes, …) of the candidate, and of those logged |
    | largest | the largest weight, candidate's exposure over logged exposure |
    | ess | the effective number of records after weighting |
    | lowest, highest | bounds of V(h): what was never shown earns nothing, or as much as it can |
    | out_of_sight, out_share | the contexts of which nothing is covered; their share of records |
    | contexts, records | the contexts and records that the row rests on |
    | missing_contexts | contexts of the log for which the candidate has no list |

    `lowest` and `highest` are not a confidence interval: more records do not bring them closer.

    Attributes:
        contexts: the contexts with most of the exposure that was never shown, with their records,
            the covered share of their exposure, and their share of what is not covered.
    """

    contexts: Result = field(default_factory=lambda: Result((), ()))
    _idle: ClassVar[Mapping[str, Value]] = {
        "repeated": None,
        "out_of_sight": 0,
        "out_share": 0,
        "missing_contexts": 0,
    }

    @property
    def headline(self) -> Headline:
        """The covered share by click model."""
        groups: dict[str, list[str]] = {}
        for row in self.rows:
            share = f"{format_value('covered', row['covered'])} of {row['metric']}"
            groups.setdefault(str(row["estimator"]), []).append(share)
        lines = [(name, MEANINGS.get(name, ""), *shares) for name, shares in groups.items()]
        records = format_value("records", self["records"][0])
        title = f"How much of what the candidate would show was shown before ({records} records)"
        return Headline(title, tuple(lines))


@verb()
def support(
    log: LogLike,
    candidate: PolicyLike,
    *,
    metrics: str | Metric | Sequence[str | Metric] = USUAL_METRICS,
    estimators: EstimatorLike | Sequence[EstimatorLike] = LATTICE,
    missing: Missing = "error",
) -> Support:
    """Measure how much of what a candidate would show was ever shown, by click model.

    The value of what was shown is known up to chance; what was never shown may earn from 0 to b per
    unit of exposure, with b the click rate of the log's best position. So V(h) lies, with all
    exposure H_g of cells g never logged, between

        lowest = V  and  highest = V + b · 1/n Σ_x n_x Σ_g H_g,

    if the click model holds; `list` assumes none.

    Args:
        log: a Log, a Tally, or anything `read_log` accepts with the default column names.
        candidate: a policy; or a table, from which a policy is made, as in `evaluate`.
        metrics: spellings such as "clicks@3", or `Metric` values: which positions count, and with
            what weights.
        estimators: the click models by whose cells coverage is measured.
        missing: how to treat contexts without a list of the candidate, as in `evaluate`.

    Returns:
        A `Support`: one row per click model × metric.

    Raises:
        PolicyError: the candidate is not a policy for this log, or lacks contexts of it.
        ModelError: an estimator is not a click model.

    Examples:
        >>> log = {"context": ["q"] * 2, "items": [[1, 2], [2, 3]], "clicks": [[0, 1], [1, 0]]}
        >>> s = support(log, {"context": ["q"], "items": [[1, 3]]}, metrics="clicks@2")
        >>> dict(zip(s["estimator"], s["covered"]))
        {'list': 0.0, 'prefix': 0.5, 'ip': 1.0, 'item': 1.0}
        >>> s["lowest"], s["highest"]
        ([0.0, 0.0, 0.0, 0.0], [1.0, 0.5, 0.0, 0.0])
    """
    tally, notes = local_tally(log)
    policy = policy_for(tally, candidate)
    models, counted = parse_estimators(estimators), parse_metrics(metrics)
    depths = len({metric.depth for metric in counted})
    with planned(answer_stages(tally, [e.name for e in models], depths, support=True)):
        question, said = support_question(tally, policy, counted, models, missing)
        estimates = estimate(tally, question)
    return support_of(tally, question, estimates, [*notes, *said])


def support_question(
    tally: Tally,
    policy: Policy,
    metrics: Sequence[AnyMetric],
    estimators: Sequence[Estimator],
    missing: Missing,
) -> tuple[Question, list[str]]:
    """What is asked of a log to tell its support, and notes on what it cannot be asked."""
    notes: list[str] = []
    if any(isinstance(e, Ladder) for e in estimators):
        raise ModelError(
            "a ladder has the support of its rungs. Ask for 'prefix', 'ip' and 'item'."
        )
    if isinstance(policy, Marginals):
        lists = [e for e in estimators if e.model.over_lists]
        estimators = [e for e in estimators if e not in lists]
        if not estimators:
            raise PolicyError("Marginals say nothing of whole lists. Ask for 'ip' or 'item'.")
        if lists:
            names = ", ".join(e.name for e in lists)
            notes.append(f"Left out: {names}. Marginals say nothing of whole lists.")
    question, assumed = make_question(tally, [policy], metrics, estimators, missing, "frequency")
    return replace(question, top=TOP), notes + assumed


def support_of(
    tally: Tally, question: Question, estimates: Estimates, notes: Sequence[str]
) -> Support:
    """What estimates say of the support, those of this question or of one that asks for more."""
    rows = [_row(one) for one in estimates_for(question, estimates)]
    periods = count_periods(tally) if tally.shape.period else 0
    return Support(
        tuple(rows),
        tuple(rows[0]),
        (*notes, *_notes(rows, periods)),
        contexts=_least_covered(estimates_for(question, estimates, whole=True)),
    )


def _row(one: Estimate) -> dict[str, Value]:
    stratum, part = one.stratum, one.parts[0]
    found, lowest = part.coverage, one.value or 0.0
    # A model that is blind to items might say otherwise where nothing was seen.
    seen = found.covered > 0
    out, records = (found.out, found.out_records) if seen else (stratum.contexts, stratum.records)
    return {
        "estimator": one.estimator,
        "metric": one.metric.name,
        "covered": one.covered,
        "repeated": part.repeated if seen else None,
        "cells": round(found.cells),
        "seen": round(found.seen),
        "largest": found.largest,
        "ess": one.ess,
        "lowest": lowest,
        "highest": lowest + one.unseen().more,
        "out_of_sight": round(out),
        "out_share": records / stratum.records if stratum.records else 0.0,
        "contexts": stratum.contexts,
        "records": stratum.records,
        "missing_contexts": stratum.missing_contexts,
    }


def _least_covered(estimates: Sequence[Estimate]) -> Result:
    """The contexts with most of what was never shown, of all estimators and metrics."""
    rows = []
    for one in estimates:
        part = one.parts[0]
        for each in part.least_covered if part.coverage.covered > 0 else ():
            row = {"estimator": one.estimator, "metric": one.metric.name, **each._asdict()}
            row["share"] = row.pop("uncovered") / (part.coverage.mass - part.coverage.covered)
            rows.append(row)
    return Result(tuple(rows), ("estimator", "metric", "context", "records", "covered", "share"))


def _notes(rows: list[dict[str, Value]], periods: int) -> list[str]:
    """In plain words: how often the log saw the candidate, and where it saw nothing of it."""
    lowest: dict[str, float] = {}
    for row in rows:
        name = str(row["estimator"])
        lowest[name] = min(float(row["covered"] or 0), lowest.get(name, 1.0))
    best = max(reversed(lowest), key=lambda name: lowest[name])
    if lowest[best] == 0:
        nothing = "The log never showed any of what the candidate would show. "
        return [nothing + "Check that contexts and items are spelt as in the log."]
    name = next((name for name, covered in lowest.items() if covered >= _MOST), best)
    notes = []
    seen = [row for row in rows if row["estimator"] == name and row["covered"]]
    often = min((float(r["repeated"]) for r in seen if r["repeated"] is not None), default=1.0)
    if often < _MOST:
        notes.append(
            f"{1 - often:.0%} of what {name!r} saw was seen in fewer than {ENOUGH_PERIODS} "
            "periods: its clicks may be due to those days. " + (next_periods(periods) or NEXT_TRIAL)
        )
    dark = max(seen, key=lambda row: float(row["out_share"] or 0))
    if dark["out_of_sight"]:
        contexts = number_of(int(dark["out_of_sight"]), "context")
        notes.append(
            f"In {contexts}, with {dark['out_share']:.0%} of the records, the log saw nothing of "
            f"the candidate by {name}: see .contexts."
        )
    return notes
