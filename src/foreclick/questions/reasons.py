"""Why nobody can tell, and the one thing to do next: the sentences behind "cannot tell"."""

from __future__ import annotations

import math

from foreclick import inference
from foreclick.estimation.covariance import ENOUGH_PERIODS
from foreclick.estimation.fits import ALARM
from foreclick.questions.evidence import Evidence
from foreclick.results import format_value
from foreclick.words import about, rounded_up

MIN_COVERED = 0.9  # of the candidate's exposure, for an estimator to agree or disagree
FEW_RECORDS = 30  # with fewer, nothing is called better or worse
REPEATED = 0.5  # the share of what was seen that must have been seen in several periods

DISAGREE = "the ladder and its cautious check disagree"
NEXT_BACKTEST = "Next: fc.backtest(log), which says which of the two predicts this log."
NEXT_TRIAL = "Next: show the candidate to some users; fc.explore says to how many."

_ROUNDING = 1e-9  # of a ratio of times
_SOME_MORE = 1.1  # times as many days; less is not worth saying
_MOST_MORE = 3  # times the days there are; nobody waits for more, and production is another by then
_DECIDES = 0.5  # of the variance
_LARGEST_EFFECT = 0.05  # of production; nobody can call a larger change no difference
_EFFECT, _POWER = 0.02, 0.8  # the change that a trial should show, and how often


def why_unfit(e: Evidence) -> str:
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
        step = next_periods(e.periods or 0.0) or next_trial(e)
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


def why_open(e: Evidence, min_effect: float, without_new: str) -> str:
    """What stands in the way, and what would help.

    Args:
        e: what the verdict rests on.
        min_effect: the smallest change worth having, as a share of production.
        without_new: what would be said if what is new were clicked as the interval allows at most;
            empty where that decides nothing.
    """
    changes, production = e.changes, abs(e.production or 0.0)
    low, high = e.low or 0.0, e.high or 0.0
    unseen = format_value("share", 1 - e.covered)
    missing = f"{unseen} of what the candidate would show was never shown"
    if without_new:
        return (
            f"{changes}, which would be {without_new!r}; but {missing}, and something new may be "
            f"clicked more often than anything in this log. {next_trial(e, min_effect)}"
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
        return f"{missing}, worth up to {e.relative(e.unseen)}. {next_trial(e, min_effect)}"
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
    return f"{changes}; {why}. {next_trial(e, min_effect)}"


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


def next_trial(e: Evidence, min_effect: float = 0.0) -> str:
    """To show the candidate to so many users that a change is seen; `explore` plans it."""
    effect, margin = min_effect or _EFFECT, inference.margins(e.confidence, _POWER)
    size = inference.sample_size(e.varies or 0.0, effect * (e.production or 0.0), margin)
    if e.varies is None or math.isinf(size):
        return NEXT_TRIAL
    return (
        f"Next: show the candidate in about {about(size)} lists, which detects a change of "
        f"{format_value('share', effect)}; fc.explore plans it."
    )
