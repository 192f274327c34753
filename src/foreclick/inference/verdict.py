"""What an estimate and its uncertainty allow to say, in plain words.

The rules, in this order; `reach` is the smallest change worth having, a share `min_effect` of
production, and 0 unless one is given:

| says | if |
|---|---|
| cannot tell | nothing of the candidate was ever shown, or there is no interval |
| cannot tell | there are fewer than 30 records |
| cannot tell | most of what was seen of it was seen in few periods only |
| no difference | the candidate earns what production earns, because it shows the same |
| better | the lower end of the change is above reach |
| worse | its upper end, were all that is new clicked every time, is below −reach |
| no difference | both ends are within ± reach, were all that is new clicked every time |
| cannot tell | anything else, with what stands in the way and what would help |

Both ends hold whatever is true of what the log cannot see: at the lower one what was never shown
earns nothing, at the upper one as much as the best position. That is no bound for something new
that is better than all before, so a verdict from above does not rest on it.

Where a backtest or a replay of past A/B tests is given, both ends are first moved out by how far
the estimator was off in it, beyond the noise of clicks: what it got wrong there it may get wrong
here.

Each is a statement about the click model that the estimator assumes, and names it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from foreclick.results import format_value, span

_ROUNDING = 1e-9  # of production; a change below it is none
_SOME_MORE = 1.1  # times as many days; less is not worth saying
_HOPELESS = 10  # an interval so many times wider than the change is not narrowed by more days

FEW_RECORDS = 30
"""With fewer records than this, nothing is called better or worse."""

REPEATED = 0.5
"""The share of what was seen that must have been seen in several periods."""

BETTER, WORSE, SAME, UNKNOWN = "better", "worse", "no difference", "cannot tell"
DISAGREE = "click models disagree"
HELD, BROKEN = "held", "broken"
"""Of a guardrail; or it cannot be told."""


@dataclass(frozen=True)
class Evidence:
    """What a verdict rests on.

    Attributes:
        estimator: the click model that is assumed.
        metric: what is counted.
        change: candidate − production; None without an answer.
        low: the lower end of its interval, None without one.
        high: the upper end.
        unseen: how much of the interval is what the log cannot see.
        beyond: how much further up it would reach, were all that is new clicked every time.
        covered: the share of the candidate's exposure that was ever shown.
        production: what the change is against.
        confidence: of the interval.
        records: how many it rests on.
        repeated: the share of what was covered that was seen in several periods; None if unknown.
        error: by how much the estimator was off in a backtest; 0 without one.
        assumes: whether the estimator is a click model, which holds or does not.
        unit: what the numbers are of, in words; a ratio has none.
        sighted: whether to the estimator it matters which items are shown.
        past: where predictions were held against what came, in words.
        leaking: z of the candidate's knowing the clicks that it is judged by; 0 if it is no matter.
    """

    estimator: str
    metric: str
    change: float | None
    low: float | None
    high: float | None
    unseen: float
    beyond: float
    covered: float
    production: float | None
    confidence: float
    records: float = math.inf
    repeated: float | None = None
    error: float = 0.0
    assumes: bool = True
    unit: str = " a record"
    sighted: bool = True
    leaking: float = 0.0
    past: str = "the backtest"


@dataclass(frozen=True)
class Verdict:
    """A word, and the sentence behind it.

    Attributes:
        word: better, worse, no difference, cannot tell; of a guardrail also held and broken.
        because: the sentence.
        plain: whether the sentence says no more than the word and the interval do.
    """

    word: str
    because: str
    plain: bool = False

    def __str__(self) -> str:
        return f"{self.word[0].upper()}{self.word[1:]}: {self.because}"


def judge(evidence: Evidence, min_effect: float = 0.0) -> Verdict:
    """The verdict on a change.

    Args:
        evidence: what it rests on.
        min_effect: the smallest change worth having, as a share of production.

    Examples:
        >>> seen = Evidence("ip", "clicks@3", 0.03, 0.01, 0.05, 0.0, 0.0, 1.0, 0.5, 0.95)
        >>> judge(seen).word, judge(seen, min_effect=0.04).word, judge(seen, min_effect=0.2).word
        ('better', 'cannot tell', 'no difference')
    """
    e, reach = evidence, min_effect * abs(evidence.production or 0.0)
    unfit = _unfit(e)
    if unfit or e.low is None or e.high is None:
        return Verdict(UNKNOWN, unfit)
    if e.leaking:
        return Verdict(
            UNKNOWN,
            "the candidate seems to have been trained on these clicks, for it predicts early ones "
            f"better than later ones (z = {e.leaking:.0f}). Say until when: trained_until=….",
        )
    if e.error > 0:
        moved = replace(e, low=e.low - e.error, high=e.high + e.error, error=0.0)
        found, sure = (judge(each, min_effect) for each in (moved, replace(e, error=0.0)))
        return sure if found.word == sure.word else Verdict(UNKNOWN, _doubted(e, sure.word))
    top, nothing = e.high + e.beyond, _ROUNDING * abs(e.production or 0.0)
    whose = f"if clicks follow {e.estimator!r}" if e.assumes else f"by {e.estimator!r}"
    assumed = f"{whose}, {100 * e.confidence:g}% confidence"
    if e.sighted and -nothing <= e.low and top <= nothing:
        return Verdict(SAME, f"{e.metric} stays as it is ({assumed}).", plain=True)
    if e.low > reach + nothing or top < -reach - nothing:
        word = BETTER if e.low > 0 else WORSE
        return Verdict(word, f"{e.metric} changes by {_span(e)} ({assumed}).", plain=True)
    if reach > 0 and e.low > -reach and top < reach:
        within = f"within ± {format_value('share', min_effect)} of production"
        return Verdict(SAME, f"{e.metric} changes by {_span(e)}, {within} ({assumed}).")
    return Verdict(UNKNOWN, _why(e, min_effect))


def guard(evidence: Evidence, share: float) -> Verdict:
    """Whether a metric that must not fall loses less than this share of production.

    Examples:
        >>> seen = Evidence("ip", "orders@3", -0.01, -0.03, 0.01, 0.0, 0.0, 1.0, 0.5, 0.95)
        >>> guard(seen, 0.1).word, guard(seen, 0.01).word
        ('held', 'cannot tell')
    """
    reach = share * abs(evidence.production or 0.0)
    lost = replace(evidence, low=_up(evidence.low, reach), high=_up(evidence.high, reach))
    found = judge(lost)
    word = {BETTER: HELD, WORSE: BROKEN}.get(found.word, UNKNOWN)
    if word == UNKNOWN and evidence.low is None:
        return Verdict(word, found.because)
    limit = f"{format_value('share', share)} of production"
    return Verdict(word, f"{evidence.metric} changes by {_span(evidence)}; it may lose {limit}.")


def _up(end: float | None, by: float) -> float | None:
    return None if end is None else end + by


def guarded(verdict: Verdict, guards: Sequence[Verdict]) -> Verdict:
    """A verdict with those of the guardrails: better if all hold, worse if one does not."""
    broken = [g for g in guards if g.word == BROKEN]
    unknown = [g for g in guards if g.word == UNKNOWN]
    if broken:
        return Verdict(WORSE, f"a guardrail breaks: {broken[0].because}")
    if verdict.word == BETTER and unknown:
        said = f"{verdict.because} That would be {BETTER!r}, but a guardrail is open: "
        return Verdict(UNKNOWN, said + unknown[0].because)
    if verdict.word == BETTER and guards:
        held = " ".join(g.because for g in guards)
        return Verdict(BETTER, f"{verdict.because} All guardrails hold: {held}")
    return verdict


def _unfit(e: Evidence) -> str:
    """Why nothing can be said whatever the numbers are, and what would help; empty if it can."""
    if e.change is None and e.covered > 0:
        return f"{e.metric} divides by nothing: its denominator is 0 in this log. Log more."
    if e.change is None or e.covered <= 0:
        return (
            "nothing of what the candidate would show was ever shown. Show it to a few users, or "
            "check that contexts and items are spelt as in the log."
        )
    if e.records < FEW_RECORDS:
        return (
            f"{e.records:g} records are too few to judge by: with fewer than {FEW_RECORDS} nothing "
            "is called better or worse. Log more."
        )
    if e.low is None or e.high is None:
        return "the log has too few periods or users to see how much results vary. Log more."
    if e.repeated is not None and e.repeated < REPEATED:
        return (
            f"only {format_value('share', e.repeated)} of what was seen of the candidate was seen "
            "in 5 periods or more, so its clicks may be those days' doing. Log more days; or use a "
            "coarser click model (item, pbm), of which fc.support says how often its cells were "
            "seen."
        )
    return ""


def _doubted(e: Evidence, word: str) -> str:
    return (
        f"{e.metric} changes by {_span(e)}, which would be {word!r}; but in {e.past} "
        f"{e.estimator!r} was off by {_number(e.error)}{e.unit} beyond the noise of clicks, which "
        f"leaves it open. Use the estimator that was nearest in {e.past}, or show the candidate to "
        "a few users."
    )


def _span(e: Evidence) -> str:
    return f"{span('change', e.low, e.high)}{e.unit}"


def _number(value: float) -> str:
    return format_value("value", value)


def _open(min_effect: float) -> str:
    """What is to be decided."""
    worth = f"whether that is {format_value('share', min_effect)} of production"
    return worth if min_effect else "it"


def _why(e: Evidence, min_effect: float) -> str:
    """What stands in the way, and what would help."""
    width = ((e.high or 0.0) - (e.low or 0.0) - e.unseen) / 2
    missing = (
        f"{format_value('share', 1 - e.covered)} of what the candidate would show was never shown"
    )
    if e.beyond > 0 and (without := judge(replace(e, beyond=0.0), min_effect)).word != UNKNOWN:
        return (
            f"{e.metric} changes by {_span(e)}, which would be {without.word!r}; but {missing}, "
            "and something new may be clicked more often than anything in this log. Show the "
            "candidate to a few users."
        )
    if not e.sighted:
        return f"{e.estimator!r} assumes that it does not matter which items are shown."
    distance = abs(abs(e.change or 0.0) - min_effect * abs(e.production or 0.0))
    left = distance - e.unseen  # for chance
    if e.unseen > width or (e.unseen > 0 and left <= 0):
        return (
            f"{missing}, worth up to {_number(e.unseen)}{e.unit}. A coarser click model sees more "
            "(item, pbm), fc.support says how much; or show the candidate to a few users."
        )
    if left > 0 and width < _HOPELESS * left:
        times = max((width / left) ** 2, _SOME_MORE)
        return (
            f"{e.metric} changes by {_span(e)}, which leaves {_open(min_effect)} open. About "
            f"{times:.2g} times as many days would decide, if the change is what it seems."
        )
    return f"{e.metric} changes by {_span(e)}: too close to call with any log of this kind."
