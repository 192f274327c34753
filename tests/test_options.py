"""Options: one meaning in every verb, checked before any work is done."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import foreclick as fc
from foreclick.errors import OptionError
from foreclick.options import OPTIONS

VERBS: dict[str, Callable[..., Any]] = {
    verb.__name__: verb
    for verb in (
        fc.backtest,
        fc.check,
        fc.compare,
        fc.evaluate,
        fc.examination,
        fc.explore,
        fc.judgments,
        fc.optimize,
        fc.read_log,
        fc.read_tally,
        fc.support,
    )
}
# What is no plain value: tables, policies, estimators, metrics and mappings have parsers.
PARSED = {
    *("log", "candidate", "candidates", "source", "path", "engine", "where"),
    *("metrics", "estimators", "judge", "baseline"),
    *("rewards", "weights", "pinned", "banned", "examination"),
    *("reward", "block", "ranks", "contexts", "trained_until"),
}
LOG = {
    "context": ["q", "q", "r", "r"] * 10,
    "items": [[1, 2], [2, 1], [3, 4], [4, 3]] * 10,
    "clicks": [[1, 0], [0, 1], [0, 0], [1, 0]] * 10,
    "day": [day for day in range(10) for _ in range(4)],
}
CANDIDATE = {"context": ["q", "r"], "items": [[2, 1], [3, 4]]}


def options_of(verb: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(verb).parameters
    return {name: p for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY}


EACH = [
    (verb, option)
    for verb, function in VERBS.items()
    for option in options_of(function)
    if option not in PARSED
]


@pytest.mark.parametrize(("verb", "option"), EACH)
def test_every_verb_refuses_nonsense_before_it_looks_at_the_log(verb, option):
    with pytest.raises(OptionError, match=rf"^{option}=<object"):
        VERBS[verb](*["nothing"] * 2, **{option: object()})


@pytest.mark.parametrize("verb", VERBS)
def test_options_have_one_spelling_and_no_verb_refuses_its_own_defaults(verb):
    assert not {"metric", "estimator"} & options_of(VERBS[verb]).keys()
    for name, parameter in options_of(VERBS[verb]).items():
        if name in OPTIONS:
            OPTIONS[name](name, parameter.default)


@pytest.mark.parametrize(("option", "verbs"), [("confidence", 5), ("by", 2)])
def test_an_option_has_one_default(option, verbs):
    found = [
        options_of(verb)[option].default for verb in VERBS.values() if option in options_of(verb)
    ]
    assert len(found) >= verbs
    assert len(set(found)) == 1


ASK: dict[str, Callable[..., Any]] = {
    "evaluate": lambda log, **asked: fc.evaluate(log, CANDIDATE, **asked),
    "support": lambda log, **asked: fc.support(log, CANDIDATE, **asked),
    "backtest": fc.backtest,
    "compare": lambda log, **asked: fc.compare(log, {"a": CANDIDATE}, **asked),
    "optimize": lambda log, **asked: fc.optimize(log, judge=None, **asked),
}


@pytest.fixture(scope="module")
def log() -> fc.Log:
    return fc.read_log(LOG, period="day")


@pytest.mark.parametrize("verb", ASK)
def test_a_single_value_will_do(log, verb):
    one = ASK[verb](log, metrics="clicks@1", estimators="ip")
    listed = ASK[verb](log, metrics=["clicks@1"], estimators=["ip"])
    assert one.rows == listed.rows
    assert one.rows != ASK[verb](log, estimators="ip").rows
    with pytest.raises(OptionError, match=r"no option 'metric'\. Did you mean 'metrics'\?"):
        ASK[verb](log, metric="clicks@1")
