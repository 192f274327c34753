"""If this fails, an option means something else in another verb, or fails after an hour."""

import inspect
import io
import sys
from collections.abc import Callable
from typing import Any

import pytest

import foreclick as fc
from foreclick.errors import OptionError
from foreclick.options import OPTIONS
from foreclick.progress import working

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
            OPTIONS[name].rule(name, parameter.default)


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


# --- how far the work is: what is told, and how often ---------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets."""
    now = [0.0]
    monkeypatch.setattr("foreclick.progress.time.monotonic", lambda: now[0])
    return now


def test_a_log_gets_few_lines_and_short_work_none(clock, capsys):
    with working() as progress:
        for second in range(1000):
            clock[0] = float(second)
            progress("Counting", second / 1000)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "[5 s] Counting, 0%, 17 min left"
    assert 5 <= len(lines) <= 12
    with working() as progress:
        progress("Counting")
        clock[0] += 4
        progress("Writing")
    assert capsys.readouterr().err == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def as_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    return made


def test_a_terminal_shows_a_bar(clock, monkeypatch):
    terminal = as_terminal(monkeypatch)
    with working() as progress:
        progress("Counting", 0.0)
        clock[0] = 10
        progress("Counting", 0.5)
    shown = terminal.getvalue()
    assert "Counting" in shown
    assert "50%" in shown
    assert "10 s left" in shown


@pytest.mark.parametrize("place", ["notebook", "ci", "dumb"])
def test_notebooks_and_logs_that_call_themselves_terminals_get_lines(clock, monkeypatch, place):
    terminal = as_terminal(monkeypatch)
    if place == "notebook":
        monkeypatch.setitem(sys.modules, "ipykernel", io)
    else:
        monkeypatch.setenv(*{"ci": ("CI", "true"), "dumb": ("TERM", "dumb")}[place])
    with working() as progress:
        for second in range(60):
            clock[0] = float(second)
            progress("Counting", second / 60)
    assert terminal.getvalue().splitlines() == [
        "[5 s] Counting, 8%, 55 s left",
        "[10 s] Counting, 17%, 50 s left",
        "[20 s] Counting, 33%, 40 s left",
        "[40 s] Counting, 67%, 20 s left",
    ]


def test_one_switch_says_where_all_verbs_show_it(clock, capsys):
    said: list[str] = []
    log = {"context": ["q"] * 2, "items": [[1, 2]] * 2, "clicks": [[1, 0]] * 2}
    try:
        fc.settings(progress=said.append)
        fc.check(log)
        assert said
        fc.settings(progress="never")
        with working() as progress:
            clock[0] = 1e6
            progress("Counting")
    finally:
        fc.settings(progress="auto")
    assert capsys.readouterr().err == ""
    with pytest.raises(OptionError, match="a function of one line of text"):
        fc.settings(progress=False)
