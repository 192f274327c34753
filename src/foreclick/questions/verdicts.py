"""From estimates to intervals and verdicts: what may be said of a candidate, in plain words.

The rules, in this order; `reach` is the smallest change worth having, a share `min_effect` of
production, and 0 unless one is given:

| says | if |
|---|---|
| cannot tell | nothing of the candidate was ever shown, or there is no interval |
| cannot tell | the fit of click rates did not converge |
| cannot tell | there are fewer than 30 records |
| cannot tell | most of what was seen of it was seen in few periods only |
| no difference | the candidate earns what production earns, because it shows the same |
| better | the lower end of the change is above reach |
| worse | its upper end, were all that is new clicked every time, is below −reach |
| no difference | both ends are within ± reach, were all that is new clicked every time |
| cannot tell | anything else, with what stands in the way, and one next step |

Both ends hold whatever is true of what the log cannot see: at the lower one what was never shown
earns nothing, at the upper one as much as the best position. That is no bound for something new
that is better than all before, so a verdict from above does not rest on it.

Where a backtest or a replay of past A/B tests is given, both ends are first moved out by how far
the estimator was off in it, beyond the noise of clicks: what it got wrong there it may get wrong
here. A verdict holds if the click model of its estimator does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from foreclick import inference
from foreclick.batches import Floats
from foreclick.estimation.columns import Unseen
from foreclick.estimation.covariance import ENOUGH_PERIODS
from foreclick.estimation.estimates import Estimate
from foreclick.estimation.fits import ALARM
from foreclick.metrics import AnyMetric, Metric, Ratio
from foreclick.results import format_value, span
from foreclick.words import about, rounded_up

# An anytime interval is shortest after two weeks, and within 6 % of it from day 4 to day 80; or,
# where days do not count, after so many records.
TUNED_PERIODS, TUNED_RECORDS = 14, 10_000
MIN_COVERED = 0.9  # of the candidate's exposure, for an estimator to agree or disagree
FEW_RECORDS = 30  # with fewer, nothing is called better or worse
REPEATED = 0.5  # the share of what was seen that must have been seen in several periods

BETTER, WORSE, SAME, UNKNOWN = "better", "worse", "no difference", "cannot tell"
HELD, BROKEN = "held", "broken"  # of a guardrail; or it cannot be told
OPPOSITE = {BETTER: WORSE, WORSE: BETTER, HELD: BROKEN, BROKEN: HELD}
DISAGREE = "the ladder and its cautious check disagree"
NEXT_BACKTEST = "Next: fc.backtest(log), which says which of the two predicts this log."
NEXT_TRIAL = "Next: show the candidate to some users; fc.explore says to how many."
SEEN = Unseen(0.0, 0.0)  # of production, all was seen

_CERTAIN = 0.99  # of a contradiction
_ROUNDING = 1e-9  # of a value, or of production: what differs by less is the same
_LEAST = 1e-150  # of what a lift is over: its square is a number
_SOME_MORE = 1.1  # times as many days; less is not worth saying
_MOST_MORE = 3  # times the days there are; nobody waits for more, and production is another by then
_DECIDES = 0.5  # of the variance
_LARGEST_EFFECT = 0.05  # of production; nobody can call a larger change no difference
_EFFECT, _POWER = 0.02, 0.8  # the change that a trial should show, and how often
_ENDS = ("se", "low", "high", "change_low", "change_high", "lift_low", "lift_high")


# --- intervals ------------------------------------------------------------------------------------


def difference_ends(
    value: float, other: float, covariance: Floats, reach: float, unseen: Unseen
) -> dict[str, float | None]:
    """The ends of value − other, and of that over other, for chance and for what is unseen.

    Args:
        value: an estimate.
        other: what it is compared with.
        covariance: Shape (2, 2): of the two.
        reach: how many standard errors the intervals reach.
        unseen: how far the difference may be off for what the log cannot see.
    """
    _, low, high = inference.interval(value - other, [1.0, -1.0], covariance, reach)
    ends = dict.fromkeys(_ENDS[3:]) | {
        "change_low": low - unseen.less,
        "change_high": high + unseen.more,
    }
    if other > _LEAST:
        slopes = np.array([1.0, -value / other]) / other
        _, low, high = inference.interval(value / other - 1, slopes, covariance, reach)
        ends["lift_low"] = low - unseen.less / other
        ends["lift_high"] = high + unseen.more / other
    return ends


@dataclass(frozen=True)
class Pair:
    """An estimate and what it is compared with: the log's own mean, or that of a baseline."""

    estimate: Estimate
    baseline: Estimate | None = None

    @property
    def production(self) -> float | None:
        """What the candidate is compared with."""
        return self.estimate.production if self.baseline is None else self.baseline.value

    @property
    def change(self) -> float | None:
        """The difference of the two."""
        value, production = self.estimate.value, self.production
        return None if value is None or production is None else value - production

    def ends(self, confidence: float, *, anytime: bool = False) -> dict[str, float | None]:
        """The standard error of the estimate, and the ends of all intervals; None for no end.

        The ends hold for chance, and whatever is true of what the log cannot see of either side; at
        one look at the log, or (`anytime`) at all looks together.
        """
        one, production, baseline = self.estimate, self.production, self.baseline
        ends: dict[str, float | None] = dict.fromkeys(_ENDS)
        if not one.has_variance or one.value is None:
            return ends

        def reach(freedom: float) -> float:
            """How many standard errors; an anytime interval's time is what the variance falls with.

            That are days where days differ, and records otherwise: the buckets of users are always
            as many, but hold more and more records.
            """
            if not anytime:
                return inference.quantile(confidence, freedom)
            by, clusters = one.estimates.clusters(one.stratum.number)
            days = by == "period"
            time, tuned = (
                (clusters, TUNED_PERIODS) if days else (one.stratum.records, TUNED_RECORDS)
            )
            return inference.anytime(confidence, freedom, time, tuned)

        memory, freedom = one.memory()
        remembered, unseen = one.covariance + np.diag([memory, 0.0]), one.unseen()
        se, low, high = inference.interval(one.value, [1.0, 0.0], remembered, reach(freedom))
        low = max(max(low, 0.0) - unseen.less, 0.0)  # rewards are not negative
        ends |= {"se": se, "low": low, "high": high + unseen.more}
        if production is None or (baseline is not None and not baseline.has_variance):
            return ends
        joint = one.covariance if baseline is None else one.estimates.joint([one, baseline])
        unseen = unseen.against(SEEN if baseline is None else baseline.unseen())
        wide = reach(one.estimates.freedom(one.stratum.number))
        return ends | difference_ends(one.value, production, joint, wide, unseen)

    def lasting(self) -> float:
        """The share of the change's variance that stays, however long the log.

        What a ladder's model may be off by, and what was never shown, no record shows: of these
        errors all that contexts share stays, where others fall as records come.
        """
        one, baseline = self.estimate, self.baseline
        if not (one.ladder and one.has_variance) or not (baseline is None or baseline.has_variance):
            return 0.0
        joint = one.covariance if baseline is None else one.estimates.joint([one, baseline])
        error = (
            one.shared_errors
            if baseline is None
            else one.shared_errors + -1.0 * baseline.shared_errors
        )
        variance = float(np.array([1.0, -1.0]) @ joint @ np.array([1.0, -1.0]))
        return min(error.covariance(error) / variance, 1.0) if variance > 0 else 0.0


# --- what a verdict rests on ----------------------------------------------------------------------


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
        periods: how many it rests on, if it varies by them; None otherwise.
        repeated: the share of what was covered that was seen in several periods; None if unknown.
        error: by how much the estimator was off in a backtest; 0 without one.
        assumes: whether the estimator is a click model, which holds or does not.
        varies: the variance of a record's reward, at most; None if that is not known.
        sees_items: whether the estimate depends on which items are shown.
        past: where predictions were held against what came, in words.
        lasting: the share of the variance that no further record reduces.
        leakage_z: z of a test that the candidate knows these clicks; 0 where it may be chance.
        trained_before: whether it is said to be trained before they came.
        converged: whether the fits of the estimator are solved.
        own_clicks_z: z of a part's own clicks against the click rates that all parts share.
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
    periods: float | None = None
    repeated: float | None = None
    error: float = 0.0
    assumes: bool = True
    varies: float | None = None
    sees_items: bool = True
    leakage_z: float = 0.0
    trained_before: bool = False
    converged: bool = True
    own_clicks_z: float = 0.0
    lasting: float = 0.0
    past: str = "the backtest"


def evidence_for(
    pair: Pair,
    ends: Mapping[str, float | None],
    largest: Mapping[Metric, float],
    confidence: float,
    **rest: Any,  # noqa: ANN401
) -> Evidence:
    """The evidence of an estimate and what it is compared with.

    The interval is that of the change or of the lift, whichever is wider, so that a verdict
    contradicts neither of the two that are printed.

    Args:
        pair: the two.
        ends: of their change and of their lift.
        largest: the most that a slot can earn, by metric, where something was never shown.
        confidence: of the interval.
        rest: other attributes of the evidence.
    """
    one, other = pair.estimate, pair.production
    production = rest.pop("production", other)
    kind, count = one.estimates.clusters(one.stratum.number) if one.has_variance else ("", 0)
    # Of clicks, 0 or 1 at a position that counts at most once, the variance is below the mean.
    simple = not isinstance(one.metric, Ratio) and largest.get(one.metric, 1.0) == 1.0
    simple = simple and max(one.parts[0].metric.theta) <= 1
    low, high = ends["change_low"], ends["change_high"]
    if ends["lift_low"] is not None and ends["lift_high"] is not None and other:
        low = min(low or 0.0, ends["lift_low"] * other)
        high = max(high or 0.0, ends["lift_high"] * other)
    return Evidence(
        estimator=one.estimator,
        metric=one.metric.name,
        change=pair.change,
        low=low,
        high=high,
        unseen=sum(one.unseen()),
        beyond=beyond(one, largest),
        covered=one.covered,
        production=production,
        confidence=confidence,
        records=one.stratum.records,
        periods=count if kind == "period" else None,
        repeated=one.repeated if one.sees_items else None,
        assumes=not one.ladder,
        varies=production if simple else None,
        sees_items=one.sees_items,
        lasting=pair.lasting(),
        leakage_z=max(one.leakage_z, 0.0 if pair.baseline is None else pair.baseline.leakage_z),
        trained_before=one.estimates.question.trained_before,
        converged=one.converged,
        own_clicks_z=one.own_clicks_z if one.ladder and one.has_variance else 0.0,
        **rest,
    )


def beyond(estimate: Estimate, largest: Mapping[Metric, float]) -> float:
    """How much more it may be worth than the log suggests, were all that is new clicked always."""
    if not any(part.metric in largest for part in estimate.parts):
        return 0.0
    return max(estimate.unseen(dict(largest)).more - estimate.unseen().more, 0.0)


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
        largest: the most that a slot can earn, by metric, where something was never shown.
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
            verdicts[i] = verdicts[j] = Verdict(UNKNOWN, because)


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
    changes = f"{e.metric} changes by {_span(e)}"
    if e.error > 0:
        moved = replace(e, low=e.low - e.error, high=e.high + e.error, error=0.0)
        wide, sure = (judge(each, min_effect) for each in (moved, replace(e, error=0.0)))
        if wide.word == sure.word:
            return sure
        return Verdict(
            UNKNOWN,
            f"{changes}, which would be {sure.word!r}; but in {e.past} {e.estimator!r} was off by "
            f"{_share(e, e.error)} beyond the noise of clicks. {_next_trial(e, min_effect)}",
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
    return Verdict(UNKNOWN, _why_open(e, min_effect))


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
    return Verdict(word, f"{evidence.metric} changes by {_span(evidence)}; it may lose {limit}.")


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


# --- why nobody can tell, and one next step -------------------------------------------------------


def _unfit(e: Evidence) -> str:
    """Why nothing can be said whatever the numbers are; empty if something can."""
    if e.change is None and e.covered > 0:
        return f"{e.metric} divides by nothing: its denominator is 0 in this log. Next: log more."
    if e.change is None or e.covered <= 0:
        return (
            "nothing of what the candidate would show was ever shown. Next: check that contexts "
            "and items are spelt as in the log."
        )
    if not e.converged:
        return (
            "the fit of click rates did not converge on this log, so they cannot be relied on. "
            "Next: use an estimator without a fit, estimators='ip'."
        )
    if e.records < FEW_RECORDS:
        return (
            f"{e.records:g} records are too few to call anything better or worse. Next: log "
            f"{FEW_RECORDS - e.records:g} more at least."
        )
    if e.low is None or e.high is None:
        return (
            "the log has too few periods or users to see how much results vary. Next: log 2 "
            "periods at least."
        )
    if e.repeated is not None and e.repeated < REPEATED:
        step = next_periods(e.periods or 0.0) or _next_trial(e)
        return (
            f"only {format_value('share', e.repeated)} of what was seen of the candidate was seen "
            f"in {ENOUGH_PERIODS} periods or more, so its clicks may be due to those days. {step}"
        )
    if e.leakage_z:
        said = " in spite of trained_until='before'" * e.trained_before
        return (
            f"the candidate seems to have been trained on these clicks{said}, because it follows "
            f"chance in them (z = {e.leakage_z:.0f}). Next: give the last day of its training, "
            "trained_until=…, or evaluate it on later days."
        )
    return ""


def next_periods(periods: float) -> str:
    """What helps where little was seen in several periods; empty where there were enough of them.

    What production hardly ever showed in many periods, it will hardly show in a few more.
    """
    few = periods <= _MOST_MORE * ENOUGH_PERIODS
    return f"Next: log {ENOUGH_PERIODS} more periods at least." if few else ""


def _why_open(e: Evidence, min_effect: float) -> str:
    """What stands in the way, and what would help."""
    changes, production = f"{e.metric} changes by {_span(e)}", abs(e.production or 0.0)
    low, high = e.low or 0.0, e.high or 0.0
    unseen = format_value("share", 1 - e.covered)
    missing = f"{unseen} of what the candidate would show was never shown"
    if e.beyond > 0 and (without := judge(replace(e, beyond=0.0), min_effect)).word != UNKNOWN:
        return (
            f"{changes}, which would be {without.word!r}; but {missing}, and something new may be "
            f"clicked more often than anything in this log. {_next_trial(e, min_effect)}"
        )
    if not e.sees_items:
        return f"{e.estimator!r} ignores the ranking. Next: use 'ladder' or 'ip'."
    if e.own_clicks_z > ALARM:
        return (
            f"{changes}; its own clicks differ from the click rates that all segments share "
            f"(z = {e.own_clicks_z:.0f}), which the interval allows for. Next: evaluate these "
            "records alone, read_log(…, where=…)."
        )
    width = (high - low - e.unseen) / 2
    left = abs(abs(e.change or 0.0) - min_effect * production) - e.unseen  # for chance
    if e.unseen > width or (e.unseen > 0 and left <= 0):
        return f"{missing}, worth up to {_share(e, e.unseen)}. {_next_trial(e, min_effect)}"
    there, what = (e.periods, "periods") if e.periods else (e.records, "records")
    times = _times(e, width, left)
    if times <= (1 + _MOST_MORE) * (1 + _ROUNDING):
        more = "more"
        if math.isfinite(there):
            most = min(rounded_up((times - 1) * there), _MOST_MORE * there)
            more = f"about {most:,.0f} more {what}"
        worth = f"whether that is {format_value('share', min_effect)} of production"
        return (
            f"{changes}, which leaves {worth if min_effect else 'its sign'} open. Next: log "
            f"{more}; they decide if the estimate is right."
        )
    furthest = max(abs(low), abs(high + e.beyond))
    share = furthest / production * _SOME_MORE if production else 1.0
    share = math.ceil(1000 * share) / 1000
    if share <= _LARGEST_EFFECT:
        return (
            f"{changes}: too close to call. Next: say which change matters; with "
            f"min_effect={share:g} this is 'no difference'."
        )
    if e.lasting <= _DECIDES and left**2 >= e.lasting * width**2:
        why = f"more than {_MOST_MORE} times as many {what} would be needed to decide it"
    elif e.covered < MIN_COVERED:
        why = f"{missing}, and more {what} of production do not show what it earns"
    else:
        why = f"part of that is model error, which more {what} do not reduce"
    return f"{changes}; {why}. {_next_trial(e, min_effect)}"


def _times(e: Evidence, width: float, left: float) -> float:
    """How many times as many days decide, if the change is what it seems; infinite if none do.

    Only what days reduce falls with their number. Where the rest is most of it, it decides.

    Args:
        e: what the verdict rests on.
        width: half of the interval, for chance.
        left: what half of the interval must come down to.
    """
    stays = e.lasting * width**2
    if left <= 0 or e.lasting > _DECIDES or left**2 <= stays:
        return math.inf
    return max((width**2 - stays) / (left**2 - stays), _SOME_MORE)


def _next_trial(e: Evidence, min_effect: float = 0.0) -> str:
    """To show the candidate to so many users that a change is seen; `explore` plans it."""
    effect, margin = min_effect or _EFFECT, inference.margins(e.confidence, _POWER)
    size = inference.sample_size(e.varies or 0.0, effect * (e.production or 0.0), margin)
    if e.varies is None or math.isinf(size):
        return NEXT_TRIAL
    return (
        f"Next: show the candidate in about {about(size)} lists, which detects a change of "
        f"{format_value('share', effect)}; fc.explore plans it."
    )


def _span(e: Evidence) -> str:
    """The interval of the change, relative to production if that is anything."""
    if e.low is None or e.high is None or not e.production:
        return span("change", e.low, e.high)
    return span("lift", e.low / e.production, e.high / e.production)


def _share(e: Evidence, size: float) -> str:
    """How much something is, relative to production if that is anything."""
    return format_value("share", size / e.production) if e.production else f"{size:.4g}"
