"""What `evaluate` returns: a table, its headline for readers in a hurry, and notes."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from foreclick.batches import FEW_RECORDS
from foreclick.errors import ForeclickWarning
from foreclick.estimation.estimates import Estimate, Estimates
from foreclick.estimation.fits import ALARM
from foreclick.metrics import CLICKS, AnyMetric, first_of
from foreclick.policies import Lists, Policy
from foreclick.question import Question
from foreclick.questions.agreement import Beside, agreement, is_blind, lifts, seen_words
from foreclick.questions.errors import errors_table
from foreclick.questions.evidence import Evidence
from foreclick.questions.verdicts import UNKNOWN, Verdict
from foreclick.results import Headline, Result, Value, format_value, span
from foreclick.tallies import Tally
from foreclick.words import few, number_of, plural

_LINES = 20  # segments that an answer lists; the table has them all
_THIN = 0.8  # of the candidate's exposure; below it, the missing part is worth a note
_WORTH_SAYING = 0.005  # of an answer that rests on something
_RESTS_ON = {"rankers": "on how the rankers place them", "new": "on items never shown there"}
_NUMBERS = {"value", "se", "low", "high", "borrowed", "margin"}
_NUMBERS |= {"change", "change_low", "change_high", "lift", "lift_low", "lift_high"}
_TRACKED = _NUMBERS - {"borrowed", "margin"} | {"production", "covered", "ess", "records"}

Row = Mapping[str, Any]


def answering_of(names: Sequence[str]) -> str:
    """Which of the estimators that a user named gives the answer."""
    return next((name for name in ("ladder", "ladder-ip", "ip") if name in names), names[0])


@dataclass(frozen=True, repr=False)
class Evaluation(Result):
    """The value of a candidate: one row per estimator × metric × clip (× segment).

    | column | meaning |
    |---|---|
    | value | the estimate of V(h); None where the log shows nothing of the candidate |
    | se | its standard error, if the click model holds |
    | low, high | its interval: sampling errors, and what the log does not show |
    | borrowed | the part of `value` that items never shown contribute; `low` is without it |
    | margin | the most that what was never shown could add; `high` is with it |
    | production | the mean reward of the records that `value` uses, or the baseline's estimate |
    | change, lift | value − production, and that over production, with such intervals |
    | covered | the share of the candidate's exposure that was ever logged |
    | clipped | the share of its exposure that the clip M cuts off |
    | ess | the effective number of records after weighting; of a ladder, only with intervals |
    | contexts, records | the contexts and records that the row rests on |
    | missing_contexts | contexts of the log for which the candidate has no list |
    | dropped | invalid rows that were left out when the log was read |
    | verdict | better, worse, no difference (worth having), or cannot tell |

    Printed, it gives the answer of one estimator and says which others agree; ``print(e.table)``
    shows every row, without idle columns, and no number of an estimator that covers less than 1 %
    of the candidate. `rows` has all columns of all rows.

    Attributes:
        evidence: what the verdict of each row rests on; empty without intervals.
        verdicts: the verdict of each row, with its reason; empty without intervals.
        answering: the estimator whose rows are the answer.
        against: what the candidate is compared with: "production" or "the baseline".
        compared: a sentence on the depth of the comparison, if the candidate's lists are shorter.
        rests: a sentence on the evidence behind the answer's click rates, if the estimator tells.
        assumed: a sentence on what the answer assumes about the candidate.
        by: the segment columns by which it is split.
        whole: if it is split, the rows of the whole log, which the parts add up to.
        sources: the rows of `errors`.
    """

    evidence: tuple[Evidence, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    answering: str = ""
    against: str = "production"
    compared: str = ""
    rests: str = ""
    assumed: str = ""
    by: tuple[str, ...] = ()
    whole: tuple[Mapping[str, Value], ...] = ()
    sources: tuple[Mapping[str, Value], ...] = ()
    _hidden = "se borrowed margin change change_low change_high contexts"
    _idle: ClassVar[Mapping[str, Value]] = {
        "clip": math.inf,
        "clipped": 0,
        "ess": None,
        "missing_contexts": 0,
        "dropped": 0,
    }

    @property
    def headline(self) -> Headline:
        """The answer of one estimator, how much the log covers, and what other estimators say."""
        rows, by, whole, answering = self.rows, self.by, self.whole, self.answering
        confidence = self.evidence[0].confidence if self.evidence else None
        estimators: dict[str, list[Row]] = {}
        for row in rows:
            estimators.setdefault(str(row["estimator"]), []).append(row)
        answers = estimators.pop(answering)
        several = len({row["clip"] for row in answers}) > 1
        totals = [
            {**row, **dict.fromkeys(by, ""), by[0]: "all"}
            for row in whole
            if row["estimator"] == answering
        ]
        lines = [line_of(row, by, several=several) for row in (*totals, *answers[:_LINES])]
        sentences = [self.compared] if self.compared else []
        if len(answers) > _LINES:
            sentences.append(f"The first {_LINES} of {len(answers):,}; the table has them all.")
        if not by:
            sentences.append(
                seen_words(answering, {row["metric"]: row["covered"] for row in answers})
            )
        sentences += [self.rests] if self.rests else []
        if confidence:
            sentences += agreement(self._beside(answers, estimators), by)
        elif estimators:  # no interval says how far apart is far
            names = [f"{n} ({lifts(r)})" if lifts(r) else n for n, r in estimators.items()]
            sentences.append(f"Other click models: {', '.join(names)}.")
        sentences += [self.assumed] if self.assumed else []
        rests = number_of(float((whole or answers)[0]["records"] or 0), "record")
        rests += "" if confidence is None else f", {100 * confidence:g}% confidence"
        title = f"Candidate against {self.against}, by {answering} ({rests})"
        return Headline(title, tuple(lines), tuple(sentences))

    def _beside(
        self, answers: Sequence[Row], others: Mapping[str, Sequence[Row]]
    ) -> dict[str, list[Beside]]:
        """The rows of other estimators beside those that answer the same."""
        keys = ("metric", *self.by)  # not the clip: a ladder has none
        answer_of = {tuple(row[key] for key in keys): row for row in answers}
        verdicts = zip(self.rows, self.verdicts, strict=False)
        disputed = {id(row) for row, verdict in verdicts if verdict.disputed}
        return {
            name: [
                Beside(answer_of[tuple(row[key] for key in keys)], row, id(row) in disputed)
                for row in rows
            ]
            for name, rows in others.items()
        }

    def metrics(self) -> dict[str, float]:
        """The numbers as a flat dict, for MLflow, W&B and the like.

        Keys of the estimator that answers are such as ``clicks_at_3/lift``; those of others contain
        its name, ``clicks_at_3/ip/lift``. If there are several M or segments, they follow. Missing
        numbers are left out.

        Examples:
            >>> log = {"context": ["q"] * 6, "items": [[1, 2], [2, 1]] * 3, "clicks": [[1, 0]] * 6}
            >>> import foreclick as fc
            >>> e = fc.evaluate(log, {"context": ["q"], "items": [[1, 2]]}, metrics="clicks@1")
            >>> e.metrics()["clicks_at_1/production"]
            1.0
        """
        clips, numbers = set(self["clip"]), {}
        for row in self.rows:
            parts = [str(row["metric"]).replace("@", "_at_").replace("/", "_per_")]
            parts += [] if row["estimator"] == self.answering else [str(row["estimator"])]
            parts += [f"clip_{row['clip']:g}"] if len(clips) > 1 else []
            parts += [f"{name}_{row[name]}" for name in self.by]
            # The characters that every tracker takes: of others MLflow refuses the key.
            key = "/".join(re.sub(r"[^\w .-]", "_", part) for part in parts)
            for column in (c for c in row if c in _TRACKED):
                number = row[column]
                if isinstance(number, int | float) and math.isfinite(number):
                    numbers[f"{key}/{column}"] = float(number)
        return numbers

    def errors(self) -> Result:
        """The sources of error behind the intervals of lifts: one row per source.

        | column | meaning |
        |---|---|
        | kind | sampling: falls with records; model: stays, an allowance; unseen: moves an end |
        | source | where the error comes from |
        | lift_se | its standard error, in points of lift |
        | share | its share of the variance |
        | less, more | how far it moves the lower and the upper end |

        The squares of `lift_se` add up to the variance of a lift. Its interval extends by a
        Student's t quantile of standard errors to both sides, and further by `less` and `more`.

        Examples:
            >>> log = {"context": ["q"] * 6, "items": [[1, 2], [2, 1]] * 3, "clicks": [[1, 0]] * 6}
            >>> log["clicks"][1] = [0, 1]
            >>> import foreclick as fc
            >>> new = {"context": ["q"], "items": [[2, 1]]}
            >>> e = fc.evaluate(log, new, metrics="clicks@1", estimators="ip")
            >>> e.errors()["source"]
            ['records', 'small cells', 'never seen']
        """
        return errors_table(self.sources)

    def displayed(self, row: Mapping[str, Value]) -> Mapping[str, Value]:
        """A row without the numbers of an estimator that covers less than 1 % of the candidate."""
        return {**row, **dict.fromkeys(_NUMBERS & row.keys())} if is_blind(row) else row


# --- in words -------------------------------------------------------------------------------------


def line_of(row: Row, by: Sequence[str] = (), *, several: bool = False) -> tuple[str, ...]:
    """What, verdict, how much, between what, from where to where."""
    names = [str(row["metric"]), *(format_value(name, row[name]) for name in by)]
    names += [f"M = {format_value('clip', row['clip'])}"] if several else []
    first = (" ".join(names), *([row["verdict"]] if row.get("verdict") else []))
    if not is_blind(row):
        return (*first, *lift_words(row, "production"))
    if row["value"] is None and row["covered"]:
        return (*first, "no number: the denominator is 0 in this log")
    seen = format_value("covered", row["covered"])
    return (*first, f"no number: the log saw {seen} of what the candidate would show")


def lift_words(row: Row, against: str) -> tuple[str, ...]:
    """How much, between what, from where to where; in units where nothing can be divided by."""
    column = "change" if row["lift"] is None else "lift"
    words = [format_value(column, row[column])]
    if row.get(f"{column}_low") is not None:
        words.append(f"({span(column, row[f'{column}_low'], row[f'{column}_high'])})")
    start, end = (format_value("value", row[c]) for c in (against, "value"))
    return (*words, f"{start} → {end}")


# --- notes ----------------------------------------------------------------------------------------


def policy_notes(policy: Policy, depth: int, metrics: Iterable[AnyMetric]) -> list[str]:
    """Notes on a policy that a log chose, and on metrics that are deeper than the log's lists."""
    notes = []
    if isinstance(policy, Lists) and policy.optimized:
        notes.append(
            "`optimize` chose this policy. On the log that it was chosen by, this value is too "
            "high; the value that `optimize` printed is not."
        )
    deep = [str(m) for m in metrics if any(p.depth > depth for p in m.parts)]
    if deep:
        notes.append(
            f"Deeper than the lists of the log, which have up to {number_of(depth, 'position')}: "
            f"{', '.join(deep)}. Nothing is counted below."
        )
    return notes


def training_assumed(policies: Iterable[Policy], who: str = "the candidate was") -> str:
    """What is assumed of the training of candidates, where nothing is said and nothing was found.

    Only of rankings given as lists or scores: the log itself and marginals were not trained.

    Args:
        policies: the candidates that nothing was found of.
        who: was or were not trained, in words.
    """
    if not any(isinstance(each, Lists) and not each.optimized for each in policies):
        return ""
    which = "it" if who.endswith(" was") else "one"
    return (
        f"Assumes that {who} not trained on these clicks; if {which} was, evaluate it with "
        "trained_until=, the last day of its training."
    )


def repetition_note(answering: str, contexts: int, median: float) -> list[str]:
    """A warning where the answer uses frequencies of contexts that hardly repeat.

    Args:
        answering: the estimator that weighs by frequencies.
        contexts: how many the log has.
        median: the records of the median one.
    """
    if median >= FEW_RECORDS:
        return []
    message = (
        f"the contexts hardly repeat: the median of {number_of(contexts, 'context')} has "
        f"{median:g} {plural(median, 'record')}, fewer than {FEW_RECORDS}. The log then says "
        "little about what else could have been shown, and "
        f"{answering} weighs by its frequencies. Use a coarser "
        "context (a query class, or context=None), read the log with propensity=, or give "
        "the logging policy with logging=."
    )
    warnings.warn(message, ForeclickWarning, stacklevel=6)
    return [message[0].upper() + message[1:]]


def verdict_notes(
    rows: Sequence[Row],
    evidence: Sequence[Evidence],
    verdicts: Sequence[Verdict],
    by: Sequence[str],
    answering: str,
) -> list[str]:
    """What the answer's verdicts do not say themselves: of segments, guardrails and doubts."""
    if len({row["clip"] for row in rows}) > 1:
        return []  # several clips: the column says it shorter
    answers: dict[str, list[tuple[Row, Verdict]]] = {}
    for row, verdict in zip(rows, verdicts, strict=True):
        if row["estimator"] == answering:
            answers.setdefault(row["metric"], []).append((row, verdict))
    if not by:
        each = [pairs[0] for pairs in answers.values()]
        return [str(v) for row, v in each if row["value"] is not None and not v.plain]
    notes = []
    for metric, pairs in answers.items():
        segments: dict[str, list[str]] = {}
        for row, _ in pairs:
            segments.setdefault(row["verdict"], []).append(" ".join(str(row[b]) for b in by))
        unknown = len(segments.pop(UNKNOWN, ()))
        words = [f"{word} in {few(where)}" for word, where in segments.items()]
        if unknown:
            words.append(
                f"cannot tell in {f'{unknown:,}' if segments else 'any'} of {len(pairs):,}"
            )
        notes.append(
            f"{metric} by {answering}: {'; '.join(words)}. The verdicts allow for "
            f"{number_of(len(pairs), 'segment')} at once; each interval holds on its own."
        )
    own = [
        " ".join(str(row[b]) for b in by)
        for row, each in zip(rows, evidence, strict=True)
        if each.own_clicks_z > ALARM
    ]
    if own:
        notes.append(
            f"Clicks in {few(list(dict.fromkeys(own)))} differ from the click rates that all "
            "segments share, and the intervals there allow for it. Next: evaluate such a segment "
            "alone, read_log(…, where=…)."
        )
    return notes


def rests_on(estimates: Sequence[Estimate], answering: str) -> str:
    """What tells the click rates of the answer, by their share of it; empty if nothing says so."""
    totals: dict[str, float] = {}
    for one in estimates:
        for rung, share in (one.parts[0].rungs or {}).items() if one.estimator == answering else ():
            words = _RESTS_ON.get(rung, "on clicks on these items")
            totals[words] = totals.get(words, 0.0) + share
    whole = sum(totals.values())
    shares = [
        f"{s / whole:.0%} {how}" for how, s in totals.items() if s >= _WORTH_SAYING * whole > 0
    ]
    if not shares:
        return ""
    first = shares[0].replace("% ", "% of the answer rests ", 1)
    return f"{', '.join([first, *shares[1:]])}."


def coverage_notes(
    rows: Sequence[Row], estimates: Sequence[Estimate], answering: str, ignored: int
) -> list[str]:
    """What the log cannot see of the candidate."""
    notes = []
    answers = [row for row in rows if row["estimator"] == answering]
    covered = [row["covered"] for row in answers if row["value"] is not None]
    if len(covered) < len(answers):
        where = f" in {len(answers) - len(covered)} of {len(answers)} rows" if covered else ""
        notes.append(
            f"No answer by {answering}{where}: nothing of what the candidate would show was ever "
            "shown. Check that contexts and items are spelt as in the log."
        )
    by_rungs = any(one.parts[0].rungs for one in estimates if one.estimator == answering)
    if not by_rungs and (seen := min(covered, default=1.0)) < _THIN:
        notes.append(f"{answering} counts the {1 - seen:.0%} that it never saw as no clicks.")
    lost = {one.estimator: one.unlogged for one in estimates if one.unlogged}
    if lost:
        named = ", ".join(f"{name} {count:,.0f}" for name, count in lost.items())
        notes.append(
            f"Records that the given logging policy would never show: {named}. They have the "
            "weight M where the estimator is clipped, and are left out elsewhere. Check logging=."
        )
    if ignored:
        notes.append(f"Ignored: {number_of(ignored, 'context')} that only the candidate has.")
    return notes


def fit_notes(tally: Tally, question: Question, estimates: Estimates) -> list[str]:
    """What the click rates of the fit are not: of new stock, of the end of the log, of rewards."""
    asked = {metric.reward for metric in question.parts}
    rewards = [group[0].metric.reward for group in estimates.question.groups if group[0].ladder]
    pairs = zip(estimates.fits, rewards, strict=True)
    fits = [fit for fit, reward in pairs if reward in asked]
    notes = [
        f"{fit.reward} is also earned without clicks, so the ladder treats it as clicks and "
        "learns no value of a click."
        for fit in fits
        if CLICKS in tally.shape.rewards and not fit.click_values
        if fit.reward != CLICKS and first_of(fit.reward) is None
    ]
    for fit in fits[:1] if question.clusters else ():
        if unreachable := max(fit.unreachable, default=0.0):
            notes.append(
                f"Production seems unable to show about {unreachable:.0%} of what the candidate "
                "shows (another retrieval, or new stock). These items are assumed to be as good "
                "as others that the candidate places as high, within a factor of two or three. If "
                "production could have shown them, use "
                "estimators=Ladder(same_retrieval=True)."
            )
        if fit.by_period_fails:
            notes.append(
                "Clicks by period do not identify click rates here, so the fit leaves periods out, "
                "and allows for no ranker that reacts to clicks. Are the periods days in order?"
            )
        notes += fit.drift.of_items()
    return notes
