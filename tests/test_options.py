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
from tests.test_mistakes import LOG

VERBS: dict[str, Callable[..., Any]] = {
    name: getattr(fc, name)
    for name in (
        *("backtest", "check", "compare", "evaluate", "examination", "explore", "judgments"),
        *("optimize", "read_log", "read_tally", "support"),
    )
}
# What is no plain value: tables, policies, estimators, metrics and mappings have parsers.
PARSED = {
    *("log", "candidate", "candidates", "source", "path", "engine", "where"),
    *("metrics", "estimators", "judge", "baseline"),
    *("rewards", "weights", "pinned", "banned", "examination"),
    *("reward", "block", "ranks", "contexts", "trained_until"),
}


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
    """What stderr now is; pytest puts its own in place of it before each test."""
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
    for part in ("Counting", "50%", "10 s left"):
        assert part in terminal.getvalue()


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
    try:
        fc.settings(progress=said.append)
        fc.check(LOG)
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
