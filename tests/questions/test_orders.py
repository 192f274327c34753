"""If this fails, an answer depends on what was asked before."""

from itertools import permutations

import pytest

import foreclick as fc
from tests.questions.verbs import VERBS, answer, table
from tests.tries import LONG

ORDERS = [tuple(VERBS), tuple(VERBS)[::-1], *(permutations(VERBS, 2) if LONG else ())]
"""In the first two, every verb comes after each other one."""


@pytest.fixture(scope="module", params=[0, 25], ids=["users", "contexts that are alike"])
def log(request):
    return table(text=True, copies=request.param)


@pytest.fixture(scope="module")
def sampled():
    """The ladder learns from some contexts, as it does of large logs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("foreclick.ladder.sample.FIT_SLOTS", 1_500)
        patch.setattr("foreclick.curves.learnt.SAMPLE_RECORDS", 300)
        yield


@pytest.fixture(scope="module")
def alone(log, sampled):
    """Each verb asked of a tally of which nothing was asked before."""
    source_table, roles, new = log
    return {verb: answer(verb, fc.tally(fc.read_log(source_table, **roles)), new) for verb in VERBS}


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: " ".join(order[:2]))
def test_what_was_asked_before_changes_no_bit(log, alone, order):
    """Draws of contexts that an evaluation left were read by a first backtest of prices."""
    source_table, roles, new = log
    tally = fc.tally(fc.read_log(source_table, **roles))
    changed = [verb for verb in order if answer(verb, tally, new) != alone[verb]]
    assert changed == []
