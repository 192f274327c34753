"""Verdicts: what may be said of a candidate, in plain words.

The rules, in this order; `reach` is the smallest change worth having, a share `min_effect` of
production, and 0 unless one is given:

| says | if |
|---|---|
| cannot tell | nothing of the candidate was ever shown, or there is no interval |
| cannot tell | the fit of click rates did not converge |
| cannot tell | there are fewer than 30 records |
| cannot tell | most of what was seen of it was seen in few periods only |
| cannot tell | it follows the chance in these clicks, as if trained on them |
| no difference | the candidate earns what production earns, because it shows the same |
| better | the lower end of the change is above reach |
| worse | its upper end, were all that is new clicked every time, is below −reach |
| no difference | both ends are within ± reach, were all that is new clicked every time |
| cannot tell | anything else, with what stands in the way, and one next step |

At its upper end an interval takes what was never shown for as good as the best position. That is no
bound for something new that is better than all before, so a verdict from above does not rest on it.

Where a backtest or a replay of past A/B tests is given, both ends are first moved out by how far
the estimator was off in it, beyond the noise of clicks: what it got wrong there it may get wrong
here. A verdict holds if the click model of its estimator does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from foreclick import inference
from foreclick.estimation.estimates import Estimate
from foreclick.metrics import AnyMetric, Metric
from foreclick.questions.evidence import Evidence, evidence_for
from foreclick.questions.intervals import Pair
from foreclick.questions.reasons import (
    DISAGREE,
    MIN_COVERED,
    NEXT_BACKTEST,
    next_trial,
    why_open,
    why_unfit,
)
from foreclick.results import format_value

BETTER, WORSE, SAME, UNKNOWN = "better", "worse", "no difference", "cannot tell"
HELD, BROKEN = "held", "broken"  # of a guardrail; or it cannot be told
OPPOSITE = {BETTER: WORSE, WORSE: BETTER, HELD: BROKEN, BROKEN: HELD}

_CERTAIN = 0.99  # of a contradiction
_ROUNDING = 1e-9  # of a value, or of production: what differs by less is the same


def judge_pairs(
    pairs: Sequence[Pair],
    largest: Mapping[Metric, float],
    confidence: float,
    *,
    anytime: bool = False,
    min_effect: float = 0.0,
    guardrails: Mapping[AnyMetric, float] | None = None,
    errors: Sequence[float] = (),
    past: str = "",
) -> tuple[list[Evidence], list[Verdict]]:
    """What the verdict on each pair rests on, and the verdict.

    Args:
        pairs: estimates and what they are compared with.
        largest: the most that a slot can earn, by metric, where that is known.
        confidence: of all verdicts of an estimator together: segments, and metrics with guardrails.
        anytime: whether they hold at all looks at the log together.
        min_effect: the smallest change worth having, as a share of production.
        guardrails: the metrics that must not fall, and the share that each may lose.
        errors: how far each estimator was off in a backtest, if there is one.
        past: where it was off, in words.
    """
    guardrails, estimates = guardrails or {}, [pair.estimate for pair in pairs]
    segments = len({one.stratum.number for one in estimates})
    metrics = len({one.metric for one in estimates}) if guardrails else 1
    each = 1 - (1 - confidence) / (segments * metrics)
    evidence, verdicts = [], []
    for pair, one, error in zip(pairs, estimates, errors or [0.0] * len(pairs), strict=True):
        rests_on = evidence_for(
            pair,
            pair.ends(each, anytime=anytime),
            largest,
            confidence,
            error=error,
            past=past,
        )
        evidence.append(rests_on)
        share = guardrails.get(one.metric)
        verdicts.append(judge(rests_on, min_effect) if share is None else guard(rests_on, share))
    _cross_check(estimates, verdicts)
    guards: dict[object, list[Verdict]] = {}
    keys = [(one.estimator, one.clip, one.stratum.number) for one in estimates]
    guarding = [one.metric in guardrails for one in estimates]
    for key, verdict, guards_it in zip(keys, verdicts, guarding, strict=True):
        guards.setdefault(key, []).extend([verdict] * guards_it)
    return evidence, [
        verdict if guards_it else guarded(verdict, guards[key])
        for key, verdict, guards_it in zip(keys, verdicts, guarding, strict=True)
    ]


def _cross_check(estimates: Sequence[Estimate], verdicts: list[Verdict]) -> None:
    """Where a ladder and `ip` contradict each other, the verdict of both is "cannot tell".

    Of guardrails too, and before they count: a metric is not better by a guardrail that one of the
    two denies.
    """
    answers: dict[object, int] = {}
    checks: dict[object, int] = {}
    for i, one in enumerate(estimates):
        if one.ladder or one.estimator == "ip":
            (answers if one.ladder else checks).setdefault((one.metric, one.stratum.number), i)
    for key in answers.keys() & checks.keys():
        i, j = answers[key], checks[key]
        one, other, words = estimates[i], estimates[j], (verdicts[i].word, verdicts[j].word)
        if contradicts([one], [other], words):
            values = " and ".join(format_value("value", each.value) for each in (one, other))
            because = f"{DISAGREE} on {one.metric.name} ({values}). {NEXT_BACKTEST}"
            verdicts[i] = verdicts[j] = Verdict(UNKNOWN, because, disputed=True)


def contradicts(
    answer: Sequence[Estimate], check: Sequence[Estimate], words: tuple[str, str]
) -> bool:
    """Whether two estimators have other verdicts, and are further apart than chance puts them.

    If both click models hold, the two differ by chance and by what either did not see. The test of
    Hausman (1978), from the influence of the same records on both.

    Args:
        answer: what one of them says of a candidate; or of two, for their difference.
        check: what the other says.
        words: their verdicts; if one is the opposite of the other, they contradict anyway.
    """
    every = [*answer, *check]
    if words[0] == words[1] or OPPOSITE.get(words[0]) == words[1]:
        return words[0] != words[1]
    if (
        not all(one.has_variance for one in every)
        or min(one.covered for one in every) < MIN_COVERED
    ):
        return False
    values = np.array([one.value or 0.0 for one in every])
    sign = np.array([1.0, -1.0][: len(answer)])
    sign = np.concatenate([sign, -sign])
    apart = float(sign @ values)
    if abs(apart) <= _ROUNDING * np.abs(values).max():
        return False
    estimates, s = every[0].estimates, every[0].stratum.number
    reach = inference.quantile(_CERTAIN, estimates.freedom(s))
    chance = reach * math.sqrt(max(float(sign @ estimates.joint(every) @ sign), 0.0))
    unseen = [one.unseen() for one in every]
    less = sum(u.less if s > 0 else u.more for u, s in zip(unseen, sign, strict=True))
    more = sum(u.more if s > 0 else u.less for u, s in zip(unseen, sign, strict=True))
    return not apart - chance - less <= 0 <= apart + chance + more


# --- the verdict ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """A word, and the sentence behind it.

    Attributes:
        word: better, worse, no difference, cannot tell; of a guardrail also held and broken.
        because: the sentence.
        plain: whether the sentence says no more than the word and the interval do.
        disputed: whether it is open because another estimator contradicts it.
    """

    word: str
    because: str
    plain: bool = False
    disputed: bool = False

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
    unfit = why_unfit(e)
    if unfit or e.low is None or e.high is None:
        return Verdict(UNKNOWN, unfit)
    changes = e.changes
    if e.error > 0:
        moved = replace(e, low=e.low - e.error, high=e.high + e.error, error=0.0)
        wide, sure = (judge(each, min_effect) for each in (moved, replace(e, error=0.0)))
        if wide.word == sure.word:
            return sure
        return Verdict(
            UNKNOWN,
            f"{changes}, which would be {sure.word!r}; but in {e.past} {e.estimator!r} was off by "
            f"{e.relative(e.error)} beyond the noise of clicks. {next_trial(e, min_effect)}",
        )
    top, nothing = e.high + e.beyond, _ROUNDING * abs(e.production or 0.0)
    whose = f"if clicks follow {e.estimator!r}" if e.assumes else f"by {e.estimator!r}"
    assumed = f"{whose}, {100 * e.confidence:g}% confidence"
    if e.sees_items and -nothing <= e.low and top <= nothing:
        return Verdict(SAME, f"{e.metric} stays as it is ({assumed}).", plain=True)
    if e.low > reach + nothing or top < -reach - nothing:
        return Verdict(BETTER if e.low > 0 else WORSE, f"{changes} ({assumed}).", plain=True)
    if reach > 0 and e.low > -reach and top < reach:
        within = f"within ± {format_value('share', min_effect)} of production"
        return Verdict(SAME, f"{changes}, {within} ({assumed}).")
    without_new = judge(replace(e, beyond=0.0), min_effect).word if e.beyond > 0 else UNKNOWN
    return Verdict(UNKNOWN, why_open(e, min_effect, "" if without_new == UNKNOWN else without_new))


def guard(evidence: Evidence, share: float) -> Verdict:
    """Whether a metric that must not fall loses less than this share of production.

    Examples:
        >>> seen = Evidence("ip", "orders@3", -0.01, -0.03, 0.01, 0.0, 0.0, 1.0, 0.5, 0.95)
        >>> guard(seen, 0.1).word, guard(seen, 0.01).word
        ('held', 'cannot tell')
    """
    if evidence.low is None or evidence.high is None:
        return Verdict(UNKNOWN, judge(evidence).because)
    reach = share * abs(evidence.production or 0.0)
    lost = replace(evidence, low=evidence.low + reach, high=evidence.high + reach)
    word = {BETTER: HELD, WORSE: BROKEN}.get(judge(lost).word, UNKNOWN)
    limit = f"{format_value('share', share)} of production"
    return Verdict(word, f"{evidence.changes}; it may lose {limit}.")


def guarded(verdict: Verdict, guards: Sequence[Verdict]) -> Verdict:
    """A verdict with those of the guardrails: better if all hold, worse if one does not."""
    broken = [g for g in guards if g.word == BROKEN]
    unknown = [g for g in guards if g.word == UNKNOWN]
    if broken:
        return Verdict(WORSE, f"a guardrail breaks: {broken[0].because}")
    if verdict.word == BETTER and unknown:
        because = f"{verdict.because} That would be {BETTER!r}, but a guardrail is undecided: "
        return Verdict(UNKNOWN, because + unknown[0].because)
    if verdict.word == BETTER and guards:
        held = " ".join(g.because for g in guards)
        return Verdict(BETTER, f"{verdict.because} All guardrails hold: {held}")
    return verdict
