"""If this fails, a log in which nothing was clicked gives an answer."""

import pytest

import foreclick as fc
from foreclick.errors import MetricError
from tests.questions.scenes import counted

LISTS = [[1, 2, 3], [2, 1, 3], [3, 2, 1]]
LOG = counted(*((items, [0, 0, 0], 1) for items in LISTS * 20)) | {
    "price": [[0.0, 0.0, 0.0]] * 60,
    "orders": [[0, 1, 0]] * 60,
    "day": [day for day in range(10) for _ in range(6)],
    "arm": ["a", "b"] * 30,
}
REWARDS = {"orders": "orders", "price": "price"}
CANDIDATE = {"context": ["q"], "items": [[3, 2, 1]]}
VERBS = {
    "evaluate": lambda log: fc.evaluate(log, CANDIDATE),
    "price": lambda log: fc.evaluate(log, CANDIDATE, metrics="price@3"),
    "ratio": lambda log: fc.evaluate(log, CANDIDATE, metrics="orders@3/clicks@3"),
    "guardrails": lambda log: fc.evaluate(
        log, CANDIDATE, metrics="orders@3", guardrails={"clicks@3": 0.01}
    ),
    "compare": lambda log: fc.compare(log, {"new": CANDIDATE}),
    "backtest": fc.backtest,
    "replay": lambda log: fc.replay(log, variant="arm"),
    "optimize": fc.optimize,
    "explore": lambda log: fc.explore(log, CANDIDATE),
    "report": lambda log: fc.report(log, CANDIDATE),
    "judgments": fc.judgments,
    "examination": fc.examination,
}


@pytest.fixture(scope="module")
def log():
    return fc.read_log(LOG, period="day", segments="arm", rewards=REWARDS)


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_answers_by_clicks_that_nobody_made(log, verb):
    reward = "price" if verb == "price" else "clicks"
    with pytest.raises(MetricError, match=f"no {reward}: they are 0 in all of its 60 records"):
        VERBS[verb](log)


def test_other_rewards_and_what_is_shown_are_answered(log):
    answer = fc.evaluate(log, CANDIDATE, metrics=["orders@3", "shown@3"])
    assert set(answer["metric"]) == {"orders@3", "shown@3"}


def test_check_says_it_first(log):
    assert fc.check(log).notes[0].startswith("The log has no clicks")


def test_a_click_on_one_item_is_enough(log):
    one = LOG | {"clicks": [[0, 0, 0]] * 59 + [[0, 0, 1]]}
    assert sorted(fc.tally(log).unearned) == ["clicks", "price"]
    assert sorted(fc.tally(fc.read_log(one, rewards=REWARDS)).unearned) == ["price"]
