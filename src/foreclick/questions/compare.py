"""`compare`: several candidates with production and with each other, paired."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from foreclick import inference
from foreclick.errors import ModelError
from foreclick.estimate.estimates import Estimate
from foreclick.estimate.work import estimate
from foreclick.estimators import EstimatorLike, parse_estimators
from foreclick.learn.clusters import clusters_of
from foreclick.learn.curves import with_curves
from foreclick.learn.effort import announce_effort
from foreclick.logs import CONTEXT
from foreclick.metrics import USUAL_METRICS, AnyMetric, Metric, parse_any
from foreclick.options import verb
from foreclick.policies import PolicyLike, as_policy
from foreclick.question import Question, check_metrics
from foreclick.questions.answers import lift_words
from foreclick.questions.evaluate import largest_slots, prior_notes, usual_estimators
from foreclick.questions.verdicts import (
    BETTER,
    DISAGREE,
    NEXT_BACKTEST,
    OPPOSITE,
    SEEN,
    UNKNOWN,
    beyond,
    contradicts,
    evidence_for,
    judge,
)
from foreclick.results import Headline, Result, format_value
from foreclick.rules import choice
from foreclick.tallies import LogLike
from foreclick.tallies.base import settle
from foreclick.words import few

PRODUCTION = "production"
_LINES = 20  # candidates that an answer lists; the table has them all


@dataclass(frozen=True, repr=False)
class Comparison(Result):
    """Who is better than whom: one row per pair.

    | column | meaning |
    |---|---|
    | estimator, metric | what was asked, the same for all pairs |
    | candidate, against | the pair; "production" is the log's own mean |
    | value, other | the estimate of each |
    | change, se | value − other, and its standard error, paired |
    | low, high | its interval, for chance and for what the log cannot see of either |
    | all_low, all_high | intervals of the change that hold all together, at the confidence |
    | lift, lift_low, lift_high | the change over `other`, and such an interval of it |
    | covered | the share of the candidate's exposure that was ever logged |
    | verdict | better, worse, no difference (worth having), or cannot tell; by the joint ends |

    Attributes:
        confidence: of the intervals.
    """

    confidence: float = 0.95

    @property
    def shown(self) -> tuple[str, ...]:
        """Without what is the same in all rows, which is the title, and what follows from lifts."""
        dull = {"estimator", "metric", "change", "se", "low", "high", "all_low", "all_high"}
        return tuple(c for c in self.columns if c not in dull)

    @property
    def headline(self) -> Headline:
        """Every candidate against production, the best first, and who is better than whom."""
        ranked = [row for row in self.rows if row["against"] == PRODUCTION]
        ranked.sort(key=lambda row: math.inf if row["value"] is None else -float(row["value"]))
        lines: list[tuple[str, ...]] = []
        for row in ranked[:_LINES]:
            name, verdict = str(row["candidate"]), str(row["verdict"])
            if row["value"] is None:
                lines.append((name, verdict, "no number: nothing of it was ever shown"))
                continue
            seen = f"{format_value('covered', row['covered'])} of it seen"
            lines.append((name, verdict, *lift_words(row, "other"), seen))
        said = [] if len(ranked) <= _LINES else [f"The best {_LINES} of {len(ranked):,}."]
        best = str(ranked[0]["candidate"])
        if ranked[0]["value"] is not None and len(ranked) > 1:
            words = {
                row["against"]: row["verdict"] for row in self.rows if row["candidate"] == best
            }
            words |= {
                row["candidate"]: OPPOSITE.get(str(row["verdict"]))
                for row in self.rows
                if row["against"] == best
            }
            words.pop(PRODUCTION, None)
            above = [str(name) for name, word in words.items() if word == BETTER]
            open_ = [str(name) for name in words if name not in above]
            parts = [f"is better than {few(above)}"] if above else []
            parts += [f"cannot be told from {few(open_)}"] if open_ else []
            said.append(f"{best} {' and '.join(parts)}.")
        return Headline(f"Candidates against production: {self.title}", tuple(lines), tuple(said))


@verb(missing=choice("error", "production"))
def compare(
    log: LogLike,
    candidates: Mapping[str, PolicyLike],
    *,
    metrics: str | AnyMetric | Sequence[str | AnyMetric] = USUAL_METRICS[0],
    estimators: EstimatorLike | Sequence[EstimatorLike] | None = None,
    missing: Literal["error", "production"] = "error",
    confidence: float = 0.95,
    min_effect: float = 0.0,
) -> Comparison:
    """Several candidates against production and against each other, from one log.

    Differences are paired: two candidates that share most of their lists share most of their
    noise, and the interval of their difference knows it. The intervals of all pairs hold together,
    so that the chance of any false alarm is what one pair would have.

    Args:
        log: a Log or Tally; with a period or a unit, or else nothing can be paired.
        candidates: policies, or tables of rankings, by name.
        metrics: what is counted, one metric.
        estimators: one estimator. By default the ladder answers and `ip` checks it, as in
            `evaluate`: where the two contradict each other, the verdict is that nobody can tell.
        missing: what contexts without a list count as: "error", or "production".
        confidence: of the intervals.
        min_effect: the smallest change worth having, as a share of production; the verdict is
            then about changes of this size. 0.01 is 1 % of production.
    """
    _check_names(candidates)
    counted, notes = settle(log)
    kinds, doubts = clusters_of(counted, "auto")
    notes += doubts
    if kinds == ("record",):
        raise ModelError(
            "the log has no period and no unit, so differences cannot be paired. Read it with "
            "period= or unit=; or compare one candidate with production by fc.evaluate."
        )
    asked = parse_any(metrics)
    _check_one("metric", [m.name for m in asked])
    parts = [part for each in asked for part in each.parts]
    check_metrics(counted.shape, parts)
    policies = [
        as_policy(policy, counted.names, f"candidate {name!r}")
        for name, policy in candidates.items()
    ]
    if estimators is None:
        incomplete = [policy for policy in policies if not policy.complete]
        first = [*incomplete, *policies][0]
        wanted = parse_estimators(usual_estimators(counted, first, "frequency", parts))
    else:
        wanted = parse_estimators(estimators)
        _check_one("estimator", [e.name for e in wanted])
        _check_one("clip", list(wanted[0].clip or ()))
    by, assumed = with_curves(counted, wanted, asked)
    question = Question(policies, by, asked, missing=missing, clusters=kinds)
    announce_effort(counted, by, len(policies))
    estimates = estimate(counted, question)
    each = [estimates.of_candidate(c) for c in range(len(policies))]
    notes += prior_notes(counted, estimates) + assumed
    named = [dict(zip(candidates, of, strict=True)) for of in zip(*each, strict=True)]
    largest = largest_slots(counted, [one for of in named for one in of.values()])
    tables = [_pairs(of, largest, confidence, min_effect) for of in named]
    rows = tables[0]
    for other, checks in zip(named[1:], tables[1:], strict=True):
        words = {(row["candidate"], row["against"]): row["verdict"] for row in checks}
        disputed = []
        for row in rows:
            pair = row["candidate"], row["against"]
            word = words.get(pair, row["verdict"])
            if word == row["verdict"]:
                continue
            both = [[of[name] for name in pair if name != PRODUCTION] for of in (named[0], other)]
            if OPPOSITE.get(word) == row["verdict"] or contradicts(both[0], both[1]):
                row["verdict"] = UNKNOWN
                disputed.append(f"{pair[0]} against {pair[1]}")
        if disputed:
            notes.append(f"{DISAGREE.capitalize()} on {few(disputed)}. {NEXT_BACKTEST}")
    if unseen := [name for name, one in named[0].items() if one.value is None]:
        notes.append(f"Nothing of {', '.join(unseen)} was ever shown: the log cannot tell.")
    of_all = {"estimator": by[0].name, "metric": asked[0].name}
    rows = [of_all | row for row in rows]
    title = f"{asked[0].name} by {by[0].name} ({100 * confidence:g}% confidence for all pairs)"
    return Comparison(tuple(rows), tuple(rows[0]), tuple(notes), title, confidence=confidence)


def _check_names(candidates: object) -> None:
    """Refuse what is not candidates by name."""
    given = candidates if isinstance(candidates, Mapping) else {"items": candidates}
    if {CONTEXT, "items"} & set(given) or any(isinstance(v, list | tuple) for v in given.values()):
        what = "a table" if isinstance(candidates, Mapping) else f"a {type(candidates).__name__}"
        raise ModelError(f"candidates is {what}. Give them by name: {{'a': …, 'b': …}}.")
    if not given or PRODUCTION in given:
        raise ModelError(
            "give candidates by name, {'a': …, 'b': …}; production itself is always among them."
        )


def _check_one(option: str, given: Sequence[object]) -> None:
    """Refuse several of what a comparison has one of."""
    if len(given) > 1:
        listed = ", ".join(map(str, given))
        raise ModelError(
            f"compare takes one {option}, and was given {len(given)}: {listed}. Compare by each in "
            "turn."
        )


def _pairs(
    named: Mapping[str, Estimate],
    largest: Mapping[Metric, float],
    confidence: float,
    min_effect: float,
) -> list[dict[str, Any]]:
    """One row per pair: every candidate with production, then with every other.

    Args:
        named: what one estimator says of each candidate.
        largest: the most that a slot can earn, by metric, where something was never shown.
        confidence: of the intervals.
        min_effect: the smallest change worth having, as a share of production.
    """
    seen = {name: one for name, one in named.items() if one.value is not None}
    if not all(one.told for one in seen.values()):
        raise ModelError("the log has too few periods or units to pair differences.")
    one, last = next(iter(named.values())), len(seen)
    names, production = [*seen, PRODUCTION], one.production or 0.0
    values = [float(one.value or 0.0) for one in seen.values()] + [production]
    pairs = [(i, last) for i in range(last)] + list(itertools.combinations(range(last), 2))
    joint, freedom = np.zeros((1, 1)), 1.0
    if seen:
        joint = one.of.joint(list(seen.values()), production=True)
        freedom = one.of.freedom(0)
    paired = inference.contrasts(values, joint, pairs, confidence, freedom)
    unseen = [*(one.unseen() for one in seen.values()), SEEN]
    further = [*(beyond(one, largest) for one in seen.values()), 0.0]
    rows = []
    for number, (i, j) in enumerate(pairs):
        change, se = float(paired.change[number]), float(paired.se[number])
        less, more = unseen[i].against(unseen[j])
        row: dict[str, Any] = {
            "candidate": names[i],
            "against": names[j],
            "value": values[i],
            "other": values[j],
            "change": change,
            "se": se,
            "low": change - less - paired.reach * se,
            "high": change + more + paired.reach * se,
            "all_low": change - less - paired.joint * se,
            "all_high": change + more + paired.joint * se,
            "lift": None,
            "lift_low": None,
            "lift_high": None,
            "covered": seen[names[i]].covered,
        }
        low, high = row["all_low"], row["all_high"]
        if values[j] > 0:
            slopes = np.array([1.0, -values[i] / values[j]]) / values[j]
            ends = inference.interval(
                change / values[j], slopes, joint[np.ix_([i, j], [i, j])], paired.joint
            )
            row["lift"] = change / values[j]
            row["lift_low"] = ends.low - less / values[j]
            row["lift_high"] = ends.high + more / values[j]
            low = min(low, row["lift_low"] * values[j])
            high = max(high, row["lift_high"] * values[j])
        evidence = evidence_for(
            seen[names[i]],
            largest,
            change=change,
            low=low - further[j],
            high=high,
            unseen=sum(unseen[i]) + sum(unseen[j]) + further[j],
            beyond=further[i],
            production=production,
            confidence=confidence,
        )
        rows.append(row | {"verdict": judge(evidence, min_effect).word})
    columns = [*("change", "se", "low", "high", "all_low", "all_high"), "lift"]
    blank = dict.fromkeys([*columns, "lift_low", "lift_high"])
    for name in (name for name in named if name not in seen):
        pair = {"candidate": name, "against": PRODUCTION, "value": None, "other": production}
        rows.append({**pair, **blank, "covered": named[name].covered, "verdict": UNKNOWN})
    return rows
