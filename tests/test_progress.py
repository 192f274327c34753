"""How far the work is: what is told, and how often."""

import io
import sys

import pytest

import foreclick as fc
from foreclick.errors import OptionError
from foreclick.progress import working


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
    assert lines[0] == "[20 s] Counting, 2%, 16 min left"
    assert 5 <= len(lines) <= 12
    with working() as progress:
        progress("Counting")
        clock[0] += 19
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
        "[20 s] Counting, 33%, 40 s left",
        "[30 s] Counting, 50%, 30 s left",
        "[45 s] Counting, 75%, 15 s left",
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
