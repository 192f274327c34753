"""If this fails, a verdict is not what the interval and the rules say."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import foreclick as fc
from foreclick.questions.evidence import Evidence
from foreclick.questions.verdicts import (
    BETTER,
    BROKEN,
    HELD,
    SAME,
    UNKNOWN,
    WORSE,
    Verdict,
    guard,
    guarded,
    judge,
)
from foreclick.results import span
from tests.questions.scenes import SMALL, clicked, counted, shop_of


def seen(low=None, high=None, *, margin=0.0, change=None, **rest):
    """An interval by chance, and what was never shown on its upper end."""
    known = low is not None
    told = {"change": (low + high) / 2 if known else change, "low": low, "unseen": margin}
    told |= {"high": high + margin if known else None, "beyond": 0.0, "covered": 1.0}
    usual = {"production": 0.5, "confidence": 0.95}
    return Evidence("ip", "clicks@3", **(told | usual | rest))


@pytest.mark.parametrize(
    ("evidence", "min_effect", "word"),
    [
        (seen(0.01, 0.03), 0.0, BETTER),
        (seen(0.01, 0.03), 0.02, UNKNOWN),  # at the edge is not beyond it
        (seen(-0.03, -0.01), 0.02, UNKNOWN),
        (seen(0.01, 0.03, production=0.0), 0.5, BETTER),  # any share of nothing is nothing
        (seen(0.011, 0.03), 0.02, BETTER),
        (seen(-0.03, -0.01), 0.0, WORSE),
        (seen(-0.03, -0.01), 0.04, UNKNOWN),
        (seen(-0.03, -0.01), 0.08, SAME),
        (seen(-0.01, 0.01), 0.0, UNKNOWN),
        (seen(-0.01, 0.01), 0.04, SAME),
        # What was never shown may be worth more than the interval says, but not less.
        (seen(0.01, 0.03, margin=9.0, covered=0.1), 0.0, BETTER),
        (seen(-0.03, -0.01, margin=0.009), 0.0, WORSE),
        (seen(-0.03, -0.01, margin=0.011), 0.0, UNKNOWN),
        (seen(-0.01, 0.01, margin=0.02), 0.04, UNKNOWN),
        # Something new may be better than all that was seen.
        (seen(0.01, 0.03, beyond=9.0), 0.0, BETTER),
        (seen(-0.03, -0.01, beyond=0.009), 0.0, WORSE),
        (seen(-0.03, -0.01, beyond=0.011), 0.0, UNKNOWN),
        (seen(-0.01, 0.01, beyond=0.02), 0.04, UNKNOWN),
        # Rounding is no change.
        (seen(1e-12, 1e-12), 0.0, SAME),
        (seen(-1e-12, -1e-12), 0.0, SAME),
        (seen(1e-12, 1e-12, production=0.0), 0.0, BETTER),  # than nothing at all
        (seen(0.0, 0.0, sees_items=False), 0.0, UNKNOWN),
        # What was seen on few days may be their doing, whatever it says.
        (seen(0.01, 0.03, repeated=0.5), 0.0, BETTER),
        (seen(0.01, 0.03, repeated=0.49), 0.0, UNKNOWN),
        (seen(-0.03, -0.01, repeated=0.0), 0.0, UNKNOWN),
        (seen(-0.01, 0.01, repeated=0.1), 0.04, UNKNOWN),
        # No answer, or no interval.
        (seen(covered=0.0), 0.0, UNKNOWN),
        (seen(change=0.4), 0.0, UNKNOWN),
    ],
)
def test_words(evidence, min_effect, word):
    assert judge(evidence, min_effect).word == word


@pytest.mark.parametrize(
    ("error", "word"), [(0.0, BETTER), (0.009, BETTER), (0.011, UNKNOWN), (0.5, UNKNOWN)]
)
def test_what_the_backtest_got_wrong_may_be_wrong_here(error, word):
    verdict = judge(seen(0.01, 0.03, error=error))
    assert verdict.word == word
    assert ("in the backtest 'ip' was off" in verdict.because) == (word == UNKNOWN)
    down = judge(seen(-0.03, -0.01, error=error))
    assert down.word == (WORSE if word == BETTER else UNKNOWN)


@pytest.mark.parametrize(
    ("evidence", "helps"),
    [
        (seen(covered=0.0), "Next: check that contexts and items are spelt as in the log."),
        (seen(change=0.4), "Next: log 2 periods at least."),
        (seen(0.01, 0.03, repeated=0.2), "only 20.0% of what was seen"),
        (
            seen(-0.03, -0.01, margin=0.2, covered=0.4),
            "60.0% of what the candidate would show was never shown, worth up to 40.0%. Next: show",
        ),
        (seen(-0.03, -0.01, beyond=0.2, covered=0.4), "something new may be clicked more often"),
        (seen(-0.01, 0.03, periods=14), "Next: log about 42 more periods"),
        (seen(-0.01, 0.03, records=1000), "Next: log about 3,000 more records"),
        (seen(0.0, 0.04, records=1000), "Next: log about 100 more records"),
        (seen(-0.04, 0.0, records=1000), "Next: log about 100 more records"),
        (seen(-0.01, 0.01001, records=1000), "with min_effect=0.023 this is 'no difference'"),
        # More than three times the days there are, nobody waits for.
        (
            seen(-0.01, 0.0298, periods=14),
            "more than 3 times as many periods would be needed to decide it. Next: show",
        ),
        # What days do not reduce, they do not decide, and the rest they must decide alone.
        (seen(-0.01, 0.05, periods=14, lasting=0.1), "Next: log about 23 more periods"),
        (
            seen(-0.01, 0.03, periods=14, lasting=0.26),
            "part of that is model error, which more periods do not reduce. Next: ",
        ),
        (
            seen(-0.01, 0.05, periods=14, lasting=0.6, covered=0.7),
            "was never shown, and more periods of production do not show what it earns. Next: show",
        ),
        (seen(0.01, 0.03, repeated=0.2, periods=15), "Next: log 5 more periods at least."),
        (seen(0.01, 0.03, repeated=0.2, periods=16), "Next: show the candidate"),
        (seen(-0.01, 0.03, sees_items=False), "ignores the ranking"),
        (
            seen(-0.03, -0.01, margin=0.2, covered=0.4, varies=0.5),
            "in about 40,000 lists, which detects a change of 2.0%",
        ),
    ],
)
def test_what_would_help(evidence, helps):
    assert helps in judge(evidence).because


@pytest.mark.parametrize("periods", [7, 28, 112])
def test_no_more_days_than_three_times_those_there_are(periods):
    """Whatever is open: steps that name a number of days can be waited for."""
    counts = []
    for high in np.linspace(0.0101, 0.09, 60).tolist():
        for lasting in (0.0, 0.2, 0.45, 0.9):
            open_ = judge(seen(-0.01, high, periods=periods, lasting=lasting)).because
            counts += re.findall(r"about ([\d,.]+) more periods", open_)
            assert "Next: " in open_
    assert max(float(count.replace(",", "")) for count in counts) <= 3 * periods
    assert len(counts) > 20


@pytest.mark.parametrize("days", [14, 112])
def test_days_are_no_step_where_production_cannot_show_the_items(days):
    _, log, both = shop_of(
        replace(SMALL, days=days, alien=(0.3, 0.4), candidates=("better", "similar")), 7
    )
    said = [str(fc.evaluate(log, each, metrics="clicks@3").verdicts[0]) for each in both.values()]
    compared = fc.compare(log, both)
    assert "cannot tell" in compared["verdict"][:2]
    said += [note for note in compared.notes if note.startswith("Cannot tell for ")]
    assert len(said) == 3
    for because in said:
        assert "Next: show the candidate" in because
        assert "more periods of production do not show" in because


def test_a_guardrail_without_an_interval_says_why_there_is_none():
    assert guard(seen(change=0.4), 0.1) == Verdict(UNKNOWN, judge(seen(change=0.4)).because)


@pytest.mark.parametrize(("share", "word"), [(0.1, UNKNOWN), (0.25, HELD)])
def test_a_guardrail_may_lose_a_share_of_production(share, word):
    found = guard(seen(-0.1, 0.1), share)
    assert found.word == word  # of 0.5
    assert found.because.endswith(f"; it may lose {share:.1%} of production.")


# --- metrics that must not fall, judged together with the one that should rise --------------------


def test_the_verdicts_hold_together():
    """A change that alone is just better is open beside a guardrail."""
    table = counted(*clicked([1, 2], 476, 1000), *clicked([2, 1], 523, 1000), day=1)
    table["bought"] = [[1, 0], [0, 0]] * 1000
    log = fc.read_log(table, rewards={"orders": "bought"}, period="day")
    asked: Any = {"metrics": "clicks@1", "estimators": "ip"}
    asked["confidence"] = fc.Confidence(clusters="record")
    new = {"context": ["q"], "items": [[2, 1]]}
    alone = fc.evaluate(log, new, **asked)
    assert alone["verdict"] == ["better"]
    errors = 1.96 * alone["change"][0] / (alone["change_high"][0] - alone["change"][0])
    assert 1.96 < errors < 2.24  # the reach at 97.5 %
    found = fc.evaluate(log, new, **asked, guardrails={"orders@1": 0.9})
    assert found["verdict"] == ["cannot tell", "held"]


@pytest.mark.parametrize(
    ("word", "guards", "expected"),
    [
        (BETTER, [], BETTER),
        (BETTER, [HELD, HELD], BETTER),
        (BETTER, [HELD, UNKNOWN], UNKNOWN),
        (BETTER, [BROKEN, UNKNOWN], WORSE),
        (UNKNOWN, [BROKEN], WORSE),
        (UNKNOWN, [HELD], UNKNOWN),
        (WORSE, [HELD], WORSE),
    ],
)
def test_rules(word, guards, expected):
    assert guarded(Verdict(word, "."), [Verdict(g, ".") for g in guards]).word == expected


# --- what is printed ----------------------------------------------------------------------------


def test_a_sentence_has_the_interval_of_the_table():
    """The interval of the change, as a share of production, is another one."""
    log = counted(*clicked([1, 2], 30), *clicked([2, 1], 36), day=1)
    new = {"context": ["q"], "items": [[2, 1]]}
    found = fc.evaluate(log, new, metrics="clicks@1", estimators="ip")
    (row,), (evidence,) = found.to_dicts(), found.evidence
    of_lift = row["lift_high"] * row["production"]
    assert of_lift != pytest.approx(row["change_high"], rel=1e-5)
    assert span("lift", row["lift_low"], row["lift_high"]) in found.verdicts[0].because
    assert evidence.high == pytest.approx(max(row["change_high"], of_lift))


@pytest.mark.parametrize("dear", [1.0, 500.0])
def test_lists_to_show_are_counted_only_where_the_variance_is_known(dear):
    """That of clicks is below their mean; that of prices may be anything."""
    table = counted(*clicked([1, 2], 30), *clicked([2, 1], 29))
    table["price"] = [[dear * click for click in row] for row in table["clicks"]]
    log = fc.read_log(table, rewards={"price": "price"})
    new = {"context": ["q"], "items": [[2, 1]]}
    (verdict,) = fc.evaluate(log, new, metrics="price@2", estimators="ip").verdicts
    assert verdict.word == UNKNOWN
    assert ("Next: show the candidate in about" in verdict.because) == (dear == 1)


def test_a_metric_whose_guardrail_is_disputed_is_not_disputed_itself():
    disputed = Verdict(UNKNOWN, "the two disagree.", disputed=True)
    found = guarded(Verdict(BETTER, "."), [disputed])
    assert found.word == UNKNOWN
    assert disputed.because in found.because
    assert not found.disputed
