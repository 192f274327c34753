"""Groups of options that are questions to the library: what is asked, and with which settings."""

# No `from __future__ import annotations`: `options` reads the types of fields.
from typing import Annotated, Literal

from cyclopts import Parameter

from foreclick.cli.options import options
from foreclick.cli.values import (
    Amount,
    Count,
    File,
    Flag,
    Names,
    Positive,
    Share,
    curve,
    from_zero,
    guardrail,
    least,
    names,
    one,
    rank_range,
    several,
)


@options("Question")
class Metrics:
    """What is estimated."""

    metrics: Annotated[
        list[str] | None, several(names, "METRIC,…"), Parameter(name=["--metric", "-m"])
    ] = None
    """clicks@K, dcg@K, success@K, mrr@K, REWARD@K, ctr@K, or a ratio of two, REWARD@K/clicks@K"""


@options("Question")
class Question(Metrics):
    """What is estimated, and how."""

    estimators: Annotated[
        list[str] | None, several(names, "NAME,…"), Parameter(name=["--estimator", "-e"])
    ] = None
    """ladder, ladder-ip, list, prefix, ip, item, pbm, rctr, rcm, auto or all"""


@options("Question")
class Split:
    """Results by segment."""

    by: Names = None
    """split by a segment, or by period"""


@options("Question")
class Missing:
    """Contexts without a list."""

    missing: Literal["error", "production"] | None = None
    """what to do with contexts that the candidate lacks"""


@options("Question")
class MissingOrDropped:
    """Contexts without a list, which may also be left out."""

    missing: Literal["error", "production", "drop"] | None = None
    """what to do with contexts that the candidate lacks"""


@options("Uncertainty")
class Confidence:
    """How sure intervals are."""

    confidence: Share = None
    """of the intervals"""


@options("Uncertainty")
class MinEffect:
    """Changes that are worth having."""

    min_effect: Share = None
    """the smallest change worth having, as a share of production: 1% or 0.01"""


@options("Uncertainty")
class Guarded(MinEffect):
    """What else a verdict rests on."""

    logging: Literal["frequency", "propensity"] | None = None
    """weigh by frequency or propensity; by default what suits the log"""
    guardrails: Annotated[
        list[tuple[str, float]] | None,
        several(guardrail, "METRIC=SHARE"),
        Parameter(name=["--guardrail"]),
    ] = None
    """a metric that must not fall, and the share it may lose: orders@3=1%"""


@options("Uncertainty")
class Verdicts(Confidence, Guarded):
    """What an evaluation's verdict rests on."""


@options("Protocol")
class Protocol:
    """How a log is held out."""

    ranks: Annotated[int | tuple[int, int] | None, one(rank_range, "N|N-N")] = None
    """only the most frequent contexts: 100, or 101-1000 for those after them"""
    min_records: Amount = None
    """only contexts with at least so many records"""
    block: Count = None
    """hold out N periods at once, such as 7 days"""
    forward: Flag = None
    """predict a period from earlier ones only"""


@options("Question")
class Choice:
    """By what a policy is the best."""

    metrics: Annotated[str | None, Parameter(name=["--metric", "-m"], metavar="METRIC")] = None
    """clicks@K, dcg@K, REWARD@K"""
    estimators: Annotated[str | None, Parameter(name=["--estimator", "-e"], metavar="NAME")] = None
    """ladder-ip, ip, item, pbm or list"""
    pessimism: Annotated[float | None, one(from_zero, "N")] = None
    """by how many standard errors click rates are lowered"""


@options("Constraints")
class Constraints:
    """Numbers that a policy must keep to; `Listed` has those of files."""

    max_change: Share = None
    """how much of a list may change, such as 20%"""
    min_shown: Amount = None
    """show only what was shown so often before, at that position"""
    deterministic: Flag = None
    """one list a context"""


@options("Constraints")
class Listed:
    """Constraints that are tables."""

    pinned: File = None
    """context, item, position: what must be where"""
    banned: File = None
    """item: what must not be shown; or context and item"""
    ban: Names = None
    """the same, here; by commas or repeated"""
    at_least: Annotated[list[tuple[str, float]] | None, several(least, "FILE=SHARE")] = None
    """item: those which together get so much of all slots, new.csv=10%; repeatable"""
    lists: Annotated[str | None, Parameter(metavar="logged|FILE")] = None
    """choose from the lists of the log, or from those of a file: context, items"""


@options("Judgement")
class Judgement:
    """How an optimised policy is judged."""

    judge: Annotated[str | None, Parameter(metavar="NAME")] = None
    """the estimator that judges"""


@options("Question")
class Exploring:
    """How an experiment is planned."""

    metrics: Annotated[str | None, Parameter(name=["--metric", "-m"], metavar="METRIC")] = None
    """clicks@K, dcg@K, REWARD@K"""
    min_effect: Share = None
    """the change to be told from none, as a share of production: 2% or 0.02"""
    share: Share = None
    """of all traffic; by default a tenth"""
    days: Positive = None
    """how long it may take"""
    power: Share = None
    """how often it is told"""
    max_share: Share = None
    """of a single context's traffic"""
    confidence: Share = None
    """of the interval"""


@options("Question")
class Places:
    """Which positions are compared."""

    slots: Annotated[list[str] | None, several(names, "LABEL,…")] = None
    """a label for each position; those with the same one are looked at alike"""
    within: Literal["auto", "context", "period"] | None = None
    """which moves of an item count: all within a context, or within a period of it"""
    reward: Annotated[str | None, Parameter(name="--of", metavar="REWARD")] = None
    """what is counted as a click"""


@options("Question")
class Grading:
    """How items are graded."""

    examination: Annotated[list[float] | None, several(curve, "P,…")] = None
    """how much each position is examined; by default learnt from items that moved"""
    max_error: Positive = None
    """how many grades an item with a grade may be off"""
    reward: Annotated[str | None, Parameter(name="--of", metavar="REWARD")] = None
    """what is counted as a click"""
