"""`support`: how far a log can see of a candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from foreclick.errors import ModelError, PolicyError
from foreclick.estimate.estimates import ENOUGH_PERIODS, Estimate
from foreclick.estimate.work import estimate
from foreclick.estimators import Estimator, EstimatorLike, Ladder, Weighted, parse_estimators
from foreclick.learn.curves import with_curves
from foreclick.metrics import USUAL_METRICS, Metric, parse_metrics
from foreclick.options import verb
from foreclick.policies import Marginals, Policy, PolicyLike, as_policy
from foreclick.question import Missing, Question, check_metrics
from foreclick.results import Headline, Result, Value, format_value
from foreclick.tallies import LogLike
from foreclick.tallies.base import settle
from foreclick.words import number_of

LATTICE = ("list", "prefix", "ip", "item")
"""From the cells that are hardest to have seen to the easiest."""

TOP = 10
"""So many weights and contexts are named."""

_SHOWN = {
    "list": "the same list",
    "prefix": "the item below the same others",
    "ip": "the item at its position",
    "item": "the item at any position that counts",
}
_IDLE = ("repeated", "out_of_sight", "out_share", "missing_contexts")
_MOST = 0.9  # of the candidate, or of what is covered; below it, the rest is worth a note


@dataclass(frozen=True, repr=False)
class Support(Result):
    """How far the log can see: one row per click model × metric (× segment).

    | column | meaning |
    |---|---|
    | covered | the share of the candidate's exposure that was ever logged |
    | repeated | the share of the covered exposure whose cells were seen in 5 periods or more |
    | cells, seen | how many cells (lists, prefixes, …) the candidate would use, and were logged |
    | largest | the largest weight, candidate's exposure over logged exposure |
    | ess | the number of records that the weighted ones are worth |
    | lowest, highest | what V(h) can be if what was never shown earns nothing, or all it can |
    | out_of_sight, out_share | the contexts of which nothing is covered; their share of records |
    | contexts, records | what it rests on |
    | missing_contexts | contexts of the log that the candidate has no list for |

    `lowest` and `highest` are no sampling interval: with any number of records they stay apart.

    Attributes:
        weights: the cells with the largest weights, with their context, the candidate's exposure of
            them, the records that show them, and their share of Σ E W², of which `ess` is made.
        contexts: the contexts with most of the exposure that was never shown, with their records,
            the share of their exposure that is covered, and their share of what is not.
        by: the segments that it is split by.
    """

    weights: Result = field(default_factory=lambda: Result((), ()))
    contexts: Result = field(default_factory=lambda: Result((), ()))
    by: tuple[str, ...] = ()

    @property
    def headline(self) -> Headline | None:
        """The covered share by click model; of segments the table."""
        if self.by:
            return None
        names = dict.fromkeys(str(name) for name in self["estimator"])
        lines = [
            (
                name,
                _SHOWN.get(name, ""),
                *(
                    f"{format_value('covered', row['covered'])} of {row['metric']}"
                    for row in self.rows
                    if row["estimator"] == name
                ),
            )
            for name in names
        ]
        records = format_value("records", self["records"][0])
        title = f"How much of what the candidate would show was shown before ({records} records)"
        return Headline(title, tuple(lines))

    @property
    def shown(self) -> tuple[str, ...]:
        """Without what the log cannot tell, and without counts of nothing."""

        def idle(column: str) -> bool:
            nothing = (None,) if column == "repeated" else (None, 0)
            return column in _IDLE and all(value in nothing for value in self[column])

        return tuple(column for column in self.columns if not idle(column))


@verb()
def support(
    log: LogLike,
    candidate: PolicyLike,
    *,
    metrics: str | Metric | Sequence[str | Metric] = USUAL_METRICS,
    estimators: EstimatorLike | Sequence[EstimatorLike] = LATTICE,
    missing: Missing = "error",
    by: str | Sequence[str] | None = None,
) -> Support:
    """How much of what a candidate would show was ever shown, for every model of the lattice.

    What was shown has a known worth, up to chance; what was not is worth something from 0 to b per
    unit of exposure, the click rate of the log's best position. So V(h) is between, with all
    exposure H_g of cells g never logged,

        lowest = V  and  highest = V + b · 1/n Σ_x n_x Σ_g H_g,

    if the click model holds; `list` assumes none.

    Args:
        log: a Log, a Tally, or anything `read_log` accepts.
        candidate: a policy; a table with `context` and `items` is taken as a Ranking.
        metrics: only the positions that a metric counts matter, by their weights.
        estimators: the click models whose cells are looked for.
        missing: as for `evaluate`.
        by: segment columns (or "period") to split by.

    Examples:
        >>> log = {"context": ["q"] * 2, "items": [[1, 2], [2, 3]], "clicks": [[0, 1], [1, 0]]}
        >>> s = support(log, {"context": ["q"], "items": [[1, 3]]}, metrics="clicks@2")
        >>> dict(zip(s["estimator"], s["covered"]))
        {'list': 0.0, 'prefix': 0.5, 'ip': 1.0, 'item': 1.0}
        >>> s["lowest"], s["highest"]
        ([0.0, 0.0, 0.0, 0.0], [1.0, 0.5, 0.0, 0.0])
    """
    counted, notes = settle(log)
    policy = as_policy(candidate, counted.names)
    wanted, skipped = _answerable(policy, parse_estimators(estimators))
    asked = parse_metrics(metrics)
    check_metrics(counted.shape, asked)
    learnt, assumed = with_curves(counted, wanted, asked, [policy] if missing == "drop" else ())
    notes += skipped + assumed
    segments = (by,) if isinstance(by, str) else tuple(by or ())
    question = Question([policy], learnt, asked, missing, by=segments, top=TOP)
    answer = estimate(counted, question)
    found = answer.of_candidate(0)
    whole = answer.of_candidate(0, whole=True)
    rows = [_row(one) for one in found]
    return Support(
        tuple(rows),
        tuple(rows[0]),
        tuple(notes + _verdict(rows)),
        weights=_named(whole, "largest_weights", _WEIGHTS),
        contexts=_named(whole, "least_covered", _CONTEXTS),
        by=segments,
    )


def _answerable(policy: Policy, asked: list[Estimator]) -> tuple[list[Weighted], list[str]]:
    """The estimators that the policy says enough for, and a note of the others."""
    wanted = [e for e in asked if not isinstance(e, Ladder)]
    if len(wanted) < len(asked):
        raise ModelError(
            "a ladder answers for everything, from what is most like it, so there is no more to "
            "its support than to that of its rungs. Ask for 'prefix', 'ip' and 'item'."
        )
    if not isinstance(policy, Marginals):
        return wanted, []
    skipped = [e.name for e in wanted if e.model.over_lists]
    wanted = [e for e in wanted if not e.model.over_lists]
    if not wanted:
        raise PolicyError("Marginals say nothing of whole lists. Ask for 'ip' or 'item'.")
    if not skipped:
        return wanted, []
    return wanted, [f"Left out: {', '.join(skipped)}. Marginals say nothing of whole lists."]


def _row(one: Estimate) -> dict[str, Value]:
    stratum, part = one.stratum, one.parts[0]
    lowest, seen = one.value or 0.0, part.covered > 0
    # A model that is blind to items might say otherwise where nothing was seen.
    out, records = (part.out, part.out_records) if seen else (stratum.contexts, stratum.records)
    return {
        "estimator": one.estimator,
        "metric": one.metric.name,
        **stratum.segment,
        "covered": one.covered,
        "repeated": part.repeated if seen else None,
        "cells": round(part.cells),
        "seen": round(part.seen),
        "largest": part.largest,
        "ess": one.ess,
        "lowest": lowest,
        "highest": lowest + one.unseen().more,
        "out_of_sight": round(out),
        "out_share": records / stratum.records if stratum.records else 0.0,
        "contexts": stratum.contexts,
        "records": stratum.records,
        "missing_contexts": stratum.missing_contexts,
    }


_WEIGHTS = ("context", "cell", "weight", "exposure", "records", "share")
_CONTEXTS = ("context", "records", "covered", "share")


def _named(found: list[Estimate], which: str, columns: tuple[str, ...]) -> Result:
    """The cells or contexts that were named, of all estimators and metrics of the whole log."""
    rows = []
    for one in found:
        part = one.parts[0]
        if part.detail is None or part.covered <= 0:
            continue
        total = part.squared if which == "largest_weights" else part.mass - part.covered
        adds = "squared" if which == "largest_weights" else "uncovered"
        for each in getattr(part.detail, which):
            share = each[adds] / total if total else None
            row = {"estimator": one.estimator, "metric": one.metric.name, **each, "share": share}
            row.pop(adds)
            rows.append(row)
    return Result(tuple(rows), ("estimator", "metric", *columns))


def _verdict(rows: list[dict[str, Value]]) -> list[str]:
    """In plain words: by which cells the log sees how much, and how often it saw that."""
    lowest: dict[str, float] = {}
    for row in rows:
        name = str(row["estimator"])
        lowest[name] = min(float(row["covered"] or 0), lowest.get(name, 1.0))
    best = max(reversed(lowest), key=lambda name: lowest[name])
    if lowest[best] == 0:
        nothing = "Out of sight: the log never showed any of what the candidate would show. "
        return [nothing + "Check that contexts and items are spelt as in the log."]
    enough = [name for name, covered in lowest.items() if covered >= _MOST]
    said = enough[0] if enough else best
    notes = [
        f"The log saw {lowest[said]:.0%} of the candidate by {said}: {_SHOWN.get(said, said)}."
    ]
    mine = [row for row in rows if row["estimator"] == said and row["covered"]]
    often = min((row["repeated"] for row in mine if row["repeated"] is not None), default=1.0)
    if float(often) < _MOST:
        notes.append(
            f"{1 - float(often):.0%} of that was seen in fewer than {ENOUGH_PERIODS} periods: its "
            f"clicks may be those days' doing. Next: log {ENOUGH_PERIODS} more periods at least."
        )
    dark = max(mine, key=lambda row: float(row["out_share"] or 0))
    if dark["out_of_sight"]:
        contexts = number_of(int(dark["out_of_sight"]), "context")
        notes.append(
            f"By {said}, nothing is seen of {contexts}, {dark['out_share']:.0%} of the records: "
            "see .contexts."
        )
    return notes
