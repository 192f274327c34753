"""`compare`: several candidates with production and with each other, paired."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from foreclick import inference
from foreclick.batches import count_periods
from foreclick.errors import ModelError
from foreclick.estimation.clusters import clusters_of
from foreclick.estimation.estimates import Estimate
from foreclick.estimators import EstimatorLike, parse_estimators
from foreclick.logs import CONTEXT
from foreclick.metrics import USUAL_METRICS, AnyMetric, Metric, parse_any
from foreclick.options import verb
from foreclick.policies import Policy, PolicyLike, policy_for
from foreclick.progress import planned
from foreclick.questions.agreement import check_words, sense_of
from foreclick.questions.answers import fit_notes, lift_words, training_assumed
from foreclick.questions.asked import LOGGING, largest_slots, make_question
from foreclick.questions.depth import compared_down
from foreclick.questions.evidence import beyond, evidence_for
from foreclick.questions.intervals import ALL_SEEN, Pair, difference_ends
from foreclick.questions.plan import answer_stages
from foreclick.questions.reasons import DISAGREE, NEXT_BACKTEST
from foreclick.questions.verdicts import BETTER, OPPOSITE, UNKNOWN, contradicts, judge
from foreclick.results import Headline, Result, format_value
from foreclick.rules import choice
from foreclick.run.effort import announce_effort
from foreclick.run.estimate import estimate
from foreclick.tallies import FEW_PERIODS, LogLike, local_tally, notes_in_order
from foreclick.words import few, number_of

PRODUCTION = "production"
_LINES = 20  # candidates that an answer lists; the table has them all


@dataclass(frozen=True, repr=False)
class Comparison(Result):
    """Candidates compared with production and with each other: one row per pair.

    | column | meaning |
    |---|---|
    | estimator, metric | those of the comparison, the same for all pairs |
    | candidate, against | the pair; "production" is the log's own mean |
    | value, other | the estimate of each |
    | change, se | value − other, and its standard error, paired |
    | low, high | its interval: sampling errors, and what the log does not show of either |
    | all_low, all_high | intervals of the change that hold jointly for all pairs |
    | lift, lift_low, lift_high | the change over `other`, and its joint interval |
    | covered | the share of the candidate's exposure that was ever logged |
    | verdict | better, worse, no difference (worth having), or cannot tell; by joint intervals |

    Attributes:
        confidence: the confidence level of intervals.
        compared: a sentence on the depth of the comparison, if some candidate's lists are shorter.
        assumed: a sentence on what the answer assumes about the candidates.
    """

    confidence: float = 0.95
    compared: str = ""
    assumed: str = ""
    _hidden = "estimator metric change se low high all_low all_high"

    @property
    def headline(self) -> Headline:
        """Every candidate against production, the best first, and which are better than which."""
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
        sentences = [self.compared] if self.compared else []
        sentences += [] if len(ranked) <= _LINES else [f"The best {_LINES} of {len(ranked):,}."]
        best = str(ranked[0]["candidate"])
        if ranked[0]["value"] is not None and len(ranked) > 1:
            words: dict[str, str | None] = {}
            for row in self.rows:
                one, other, word = (str(row[c]) for c in ("candidate", "against", "verdict"))
                if one == best and other != PRODUCTION:
                    words[other] = word
                elif other == best:
                    words[one] = OPPOSITE.get(word)
            above = [name for name, word in words.items() if word == BETTER]
            unclear = [name for name in words if name not in above]
            parts = [f"is better than {few(above)}"] if above else []
            parts += [f"cannot be told from {few(unclear)}"] if unclear else []
            sentences.append(f"{best} {' and '.join(parts)}.")
        if sense := sense_of(str(ranked[0]["estimator"])):
            sentences.append(f"Seen means: {sense}.")
        sentences += [self.assumed] if self.assumed else []
        title = f"Candidates against production: {self.title}"
        return Headline(title, tuple(lines), tuple(sentences))


@verb(missing=choice("error", "production"), logging=LOGGING)
def compare(
    log: LogLike,
    candidates: Mapping[str, PolicyLike],
    *,
    metrics: str | AnyMetric | Sequence[str | AnyMetric] = USUAL_METRICS[0],
    estimators: EstimatorLike | Sequence[EstimatorLike] | None = None,
    missing: Literal["error", "production"] = "error",
    logging: Policy | Literal["frequency", "propensity"] | None = None,
    confidence: float = 0.95,
    min_effect: float = 0.0,
) -> Comparison:
    """Compare several candidates with production and with each other, from one log.

    Differences are paired: candidates that share most of their lists share most of their noise,
    which cancels in the difference. The intervals of all pairs hold jointly (`all_low`,
    `all_high`), so that the chance of any false alarm is that of a single pair.

    Args:
        log: a Log or Tally with a period or a unit, by which differences are paired.
        candidates: policies, or tables of rankings, by name.
        metrics: one metric.
        estimators: one estimator. By default the ladder answers and `ip` checks it, as in
            `evaluate`, where it covers 90 % of a candidate: if the two contradict each other, the
            verdict is "cannot tell".
        missing: how to treat contexts without a list: "error" or "production", as in `evaluate`.
        logging: the logging policy, if it is known; "propensity" or "frequency", as in `evaluate`.
        confidence: the confidence level of intervals.
        min_effect: the smallest change worth having, as a share of production, such as 0.01 for 1
            %; verdicts are about changes of at least this size.

    Returns:
        A `Comparison`: one row per pair of candidates, and per candidate and production.

    Raises:
        ModelError: the log has no period and no unit, or too few of them; candidates have no names;
            more than one estimator is given.
        MetricError: more than one metric is given, or it cannot be counted.
        PolicyError: a candidate is not a policy for this log.

    Examples:
        >>> log = {
        ...     "context": ["q"] * 40,
        ...     "items": [[1, 2], [2, 1]] * 20,
        ...     "clicks": [[0, 1], [1, 0], [0, 0], [1, 0]] * 10,
        ...     "period": [1, 1, 2, 2, 3, 3, 4, 4] * 5,
        ... }
        >>> from foreclick import read_log
        >>> rankings = {"old": {"q": [1, 2]}, "new": {"q": [2, 1]}}
        >>> c = compare(read_log(log, period="period"), rankings, metrics="clicks@1")
        >>> list(zip(c["candidate"], c["against"], c["verdict"], strict=True))
        [('old', 'production', 'worse'), ('new', 'production', 'better'), ('old', 'new', 'worse')]
    """
    given: Any = candidates  # which may be anything
    given = given if isinstance(given, Mapping) else {"items": given}
    if {CONTEXT, "items"} & set(given) or any(isinstance(v, list | tuple) for v in given.values()):
        what = "a table" if given is candidates else f"a {type(candidates).__name__}"
        raise ModelError(f"candidates is {what}. Give them by name: {{'a': …, 'b': …}}.")
    if not given or PRODUCTION in given:
        raise ModelError(
            "give candidates by name, {'a': …, 'b': …}; production itself is always among them."
        )
    tally, notes = local_tally(log)
    clusters, doubts = clusters_of(tally, "auto")
    if clusters == ("record",):
        periods = count_periods(tally) if tally.shape.period else 0
        has = f"only {number_of(periods, 'period')}" if periods else "no period"
        ask = f"{FEW_PERIODS} periods or more, or with unit=" if periods else "period= or unit="
        raise ModelError(
            f"the log has {has} and no unit, so differences cannot be paired. Read it with {ask}; "
            "or compare one candidate with production by fc.evaluate."
        )
    metric, *others = parse_any(metrics)
    several: dict[str, Sequence[object]] = {"metric": [m.name for m in (metric, *others)]}
    if estimators is not None:
        estimators = parse_estimators(estimators)
        several |= {"estimator": [e.name for e in estimators], "clip": estimators[0].clip or ()}
    for option, values in several.items():
        if len(values) > 1:
            raise ModelError(
                f"compare takes one {option}, and was given {len(values)}: "
                f"{', '.join(map(str, values))}. Compare by each in turn."
            )
    policies = [
        policy_for(tally, policy, f"candidate {name!r}") for name, policy in candidates.items()
    ]
    named = {repr(name): policy for name, policy in zip(candidates, policies, strict=True)}
    (metric,), depth_words = compared_down(tally, named, [metric], USUAL_METRICS[:1])
    names = ["ladder", "ip"] if estimators is None else [e.name for e in estimators]
    with planned(answer_stages(tally, names, 1, len(policies))):
        question, assumed = make_question(
            tally, policies, [metric], estimators, missing, logging, clusters=clusters
        )
        announce_effort(tally, question.estimators, len(policies))
        estimates = estimate(tally, question)
    notes, facts = notes_in_order(tally, notes)
    notes += doubts + fit_notes(tally, question, estimates) + assumed
    each = [estimates.of_candidate(c) for c in range(len(policies))]
    by_estimator = [dict(zip(candidates, ones, strict=True)) for ones in zip(*each, strict=True)]
    largest = largest_slots(tally, [one for ones in each for one in ones])
    tables = [_pairs(named, largest, confidence, min_effect) for named in by_estimator]
    answers, rows = by_estimator[0], tables[0]
    for checks, table in zip(by_estimator[1:], tables[1:], strict=True):
        notes += _check(rows, table, answers, checks)
    if trained := [name for name, one in answers.items() if one.leakage_z]:
        z = max(answers[name].leakage_z for name in trained)
        notes.append(
            f"{few(trained)} {'seems' if len(trained) == 1 else 'seem'} to have been trained on "
            f"these clicks, because chance in them is followed (z = {z:.0f}). Next: evaluate with "
            "trained_until=…, the last period of the training."
        )
    if unseen := [name for name, one in answers.items() if one.value is None]:
        notes.append(f"Nothing of {', '.join(unseen)} was ever shown: the log cannot tell.")
    notes += _next_step(rows)
    untold = [
        policy for name, policy in zip(candidates, policies, strict=True) if name not in trained
    ]
    who = "the other candidates were" if trained else "the candidates were"
    name, hidden = question.estimators[0].name, {"because"}
    rows = [
        {"estimator": name, "metric": metric.name}
        | {column: value for column, value in row.items() if column not in hidden}
        for row in rows
    ]
    title = f"{metric.name} by {name} ({100 * confidence:g}% confidence for all pairs)"
    notes += facts
    return Comparison(
        tuple(rows),
        tuple(rows[0]),
        tuple(notes),
        title,
        confidence,
        depth_words,
        training_assumed(untold, who),
    )


def _check(
    rows: Sequence[dict[str, Any]],
    table: Sequence[Mapping[str, Any]],
    answers: Mapping[str, Estimate],
    checks: Mapping[str, Estimate],
) -> list[str]:
    """Open the verdicts that a check contradicts; which these are, and what was not compared.

    Args:
        rows: the pairs, by the estimator that answers.
        table: the same, by the one that checks.
        answers: the candidates, by the estimator that answers.
        checks: the same, by the one that checks.
    """
    words = {(row["candidate"], row["against"]): row["verdict"] for row in table}
    disputed = []
    for row in rows:
        pair = row["candidate"], row["against"]
        one, check = ([of[name] for name in pair if name != PRODUCTION] for of in (answers, checks))
        if contradicts(one, check, (row["verdict"], words.get(pair, row["verdict"]))):
            row |= {"verdict": UNKNOWN, "because": ""}
            disputed.append(pair)
    doubtful = {name for pair in disputed for name in pair}
    covered = {name: one.covered for name, one in checks.items() if name not in doubtful}
    said = check_words(next(iter(checks.values())).estimator, covered)
    if not disputed:
        return said
    pairs = few([" against ".join(pair) for pair in disputed])
    return [f"{DISAGREE.capitalize()} on {pairs}. {NEXT_BACKTEST}", *said]


def _next_step(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why production and the best candidate that is open are not told apart, and what helps."""
    unknown = [
        row
        for row in rows
        if row["against"] == PRODUCTION and row["verdict"] == UNKNOWN and row["because"]
    ]
    best = max(unknown, key=lambda row: float(row["value"]), default=None)
    if best is None:
        return []
    return [f"Cannot tell for {best['candidate']}: {best['because']}"]


def _pairs(
    named: Mapping[str, Estimate],
    largest: Mapping[Metric, float],
    confidence: float,
    min_effect: float,
) -> list[dict[str, Any]]:
    """One row per pair: every candidate with production, then with every other; and why.

    Args:
        named: the estimate of each candidate by one estimator.
        largest: the most that a slot can earn, by metric, where that is known.
        confidence: of the intervals.
        min_effect: the smallest change worth having, as a share of production.
    """
    seen = {name: one for name, one in named.items() if one.value is not None}
    if not all(one.has_variance for one in seen.values()):
        raise ModelError("the log has too few periods or units to pair differences.")
    first, last = next(iter(named.values())), len(seen)
    names, production = [*seen, PRODUCTION], first.production or 0.0
    values = [float(one.value or 0.0) for one in seen.values()] + [production]
    pairs = [(i, last) for i in range(last)] + list(itertools.combinations(range(last), 2))
    joint, freedom = np.zeros((1, 1)), 1.0
    if seen:
        joint = first.estimates.joint(list(seen.values()), production=True)
        freedom = first.estimates.freedom(0)
    paired = inference.contrasts(values, joint, pairs, confidence, freedom)
    unseen = [*(one.unseen() for one in seen.values()), ALL_SEEN]
    further = [*(beyond(one, largest) for one in seen.values()), 0.0]
    rows: list[dict[str, Any]] = []
    for (i, j), change, se in zip(pairs, paired.change.tolist(), paired.se.tolist(), strict=True):
        apart = unseen[i].against(unseen[j])
        both = joint[np.ix_([i, j], [i, j])]
        ends = difference_ends(values[i], values[j], both, paired.joint, apart)
        pair = Pair(seen[names[i]], seen.get(names[j]))
        evidence = evidence_for(pair, ends, largest, confidence, production=production)
        evidence = replace(
            evidence,
            low=(evidence.low or 0.0) - further[j],
            unseen=evidence.unseen + sum(unseen[j]) + further[j],
        )
        verdict = judge(evidence, min_effect)
        rows.append(
            {
                "candidate": names[i],
                "against": names[j],
                "value": values[i],
                "other": values[j],
                "change": change,
                "se": se,
                "low": change - apart.less - paired.reach * se,
                "high": change + apart.more + paired.reach * se,
                "all_low": ends["change_low"],
                "all_high": ends["change_high"],
                "lift": change / values[j] if values[j] > 0 else None,
                "lift_low": ends["lift_low"],
                "lift_high": ends["lift_high"],
                "covered": seen[names[i]].covered,
                "verdict": verdict.word,
                "because": "" if evidence.leakage_z else verdict.because,
            }
        )
    blank = dict.fromkeys(("change", "se", "low", "high", "all_low", "all_high"))
    blank |= dict.fromkeys(("lift", "lift_low", "lift_high"))
    for name in (name for name in named if name not in seen):
        row = {"candidate": name, "against": PRODUCTION, "value": None, "other": production}
        row |= blank | {"covered": named[name].covered, "verdict": UNKNOWN, "because": ""}
        rows.append(row)
    return rows
