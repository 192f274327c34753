"""If this fails, what is said of the paper's Theorems 1 and 2 is wrong."""

import math

import numpy as np
import pytest

import foreclick as fc

RISK = 0.05


def hoeffding(span, records, risk):
    """How far a mean may be from its expectation, to one side, by the range of the records."""
    return span * math.sqrt(math.log(1 / risk) / (2 * records))


def corrected(clip, records, policies):
    """What the corrected theorems allow of clicks at the first position."""
    return fc.selection_bound(policies, records, clip, metrics="clicks@1", confidence=1 - RISK)


def in_print(positions, records, risk):
    """The deviation that the proofs of both theorems allow V̂ of one policy, to either side."""
    return positions * math.sqrt(math.log(4 / risk) / (2 * records))


def test_in_print_one_policy_is_outside_far_more_often_than_it_may():
    """One list in 500 is the candidate's, it is always clicked, and M = 500 does not clip it."""
    clip, n = 500, 500
    shown = np.random.default_rng(1).binomial(n, 1 / clip, 20_000)
    error = np.abs(clip * shown / n - 1.0)
    outside = np.mean(error > in_print(1, n, RISK))
    assert outside == pytest.approx(0.632, abs=0.01)  # unless it was shown exactly once: 1 − 1/e
    assert np.mean(error > hoeffding(clip, n, RISK / 2)) == 0


def chosen(rates, records, replications, seed):
    """V(h*) − V(h̃), where each policy shows one list, all are logged alike, and h̃ has most clicks.

    In every replication V̂(h_A) = |A| · clicks_A / n; ties are broken at random.
    """
    rng = np.random.default_rng(seed)
    shown = rng.multinomial(records, np.full(len(rates), 1 / len(rates)), replications)
    clicks = rng.binomial(shown, rates) + rng.random(shown.shape) / 2
    return rates.max() - rates[clicks.argmax(axis=1)]


def test_in_print_the_chosen_policy_is_worse_than_it_may_be():
    """One list of 500 is always clicked, the others now and then; each is seen about once."""
    lists, n = 500, 500
    loss = chosen(np.array([1.0] + [0.2] * (lists - 1)), n, 4000, seed=2)
    assert np.mean(loss > 2 * in_print(1, n, RISK)) == pytest.approx(0.92, abs=0.02)
    assert np.mean(loss > corrected(lists, n, lists)) == 0


def test_without_the_union_bound_the_right_range_does_not_help():
    """100 contexts with two lists, all clicked half the time; h̃ takes the luckier list of each.

    Every policy is worth 0.5, M = 2 does not clip, and h̃ always looks better than one policy may.
    """
    contexts, each, rng = 100, 100, np.random.default_rng(3)
    shown = rng.binomial(each, 0.5, (2000, contexts))
    clicks = np.maximum(rng.binomial(shown, 0.5), rng.binomial(each - shown, 0.5))
    excess = 2 * clicks.mean(axis=1) / each - 0.5
    n = contexts * each
    assert np.mean(excess > hoeffding(2, n, RISK / 2)) > 0.99
    assert np.mean(excess > hoeffding(2, n, RISK / 2 / 2.0**contexts)) <= RISK / 2


def test_without_the_union_bound_the_chosen_policy_is_worse_than_it_may_be():
    """10,000 contexts with two lists, one a little better; h̃ takes the luckier one of each.

    100 records of a context, M = 2 clips nothing; twice the bound for one policy is what is printed
    with the right range.
    """
    contexts, each, rates = 10_000, 100, np.array([0.535, 0.465])
    n, rng = contexts * each, np.random.default_rng(5)
    printed, losses = 2 * hoeffding(2, n, RISK / 4), []
    for _ in range(60):
        first = rng.binomial(each, 0.5, contexts)
        shown = np.stack([first, each - first], axis=1)
        clicks = rng.binomial(shown, rates) + rng.random(shown.shape) / 2
        losses.append(float((rates[0] - rates[clicks.argmax(axis=1)]).mean()))
    assert printed == pytest.approx(0.0059, abs=5e-5)
    assert np.mean(losses) == pytest.approx(0.0217, abs=5e-4)
    assert min(losses) > 3 * printed
    allowed = corrected(2, n, 2**contexts)
    assert allowed == pytest.approx(0.1205, abs=5e-5)
    assert max(losses) < allowed


def test_the_corrected_bound_is_the_sum_of_both_deviations():
    """By every position that a metric counts; certain of 95 % by default."""
    by_hand = hoeffding(7 * 3, 5000, 0.025 / 12) + hoeffding(7 * 3, 5000, 0.025)
    assert fc.selection_bound(12, 5000, 7, metrics="clicks@3") == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize("gap", [0.1, 0.3])
def test_the_corrected_bound_holds_and_says_something(gap):
    lists, n = 5, 50_000
    allowed = corrected(lists, n, lists)
    assert allowed < gap
    loss = chosen(np.array([0.1 + gap] + [0.1] * (lists - 1)), n, 4000, seed=4)
    assert np.mean(loss > allowed) <= RISK
