"""If this fails, a message on the command line tells to type Python."""

import pytest

from foreclick.cli import commands  # noqa: F401 - which registers commands
from foreclick.cli.app import COMMANDS, worded
from foreclick.cli.output import show
from foreclick.results import Result

SAID = {
    "context='Query'. Did you mean context='query', period='day'?": (
        "--context Query. Did you mean --context query, --period day?"
    ),
    "Name it: read_log(…, period='…').": "Name it: --period ….",
    "Ask for a part, read_log(…,\n  where=…).": "Ask for a part, --where ….",
    "Read it with period= or unit=.": "Read it with --period or --unit.",
    "for example context='q' items=[10, 20]": "for example context='q' items=[10, 20]",
    'Drop them with invalid="drop".': "Drop them with foreclick tally --invalid drop.",
    "Read it with rewards={'orders': …}.": "Read it with --reward orders=….",
    "Say rewards={'clicks': 'click'}.": "Say --reward clicks=click.",
    "long=('request', 'rank'), items='doc'?": "foreclick tally --long request,rank, --items doc?",
    "ask it with trained_until=, the day": "ask it with --trained-until, the day",
    "Next: fc.backtest(log), or compare by fc.evaluate.": (
        "Next: foreclick backtest, or compare by foreclick evaluate."
    ),
    "where=\"country = 'NL'\"": "--where 'country = '\"'\"'NL'\"'\"''",
    "fc.settings(workers=1), by clusters='record'": "fc.settings(workers=1), by clusters='record'",
}


@pytest.mark.parametrize("said", SAID)
def test_parameters_are_options(said):
    assert worded(said, COMMANDS["evaluate"]) == SAID[said]


def test_what_a_command_has_no_option_for_another_has():
    said = "Assumes much; else evaluate(trained_until=…). See clusters='record'."
    assert worded(said, COMMANDS["compare"]) == (
        "Assumes much; else foreclick evaluate --trained-until …. See clusters='record'."
    )


def test_sentences_are_in_the_words_of_commands_before_they_are_broken_into_lines(capsys):
    note = (
        "Show the candidate to some users of your shop for some days; fc.explore says to how many."
    )
    show(Result(({"a": 1},), ("a",), (note,)), "answer", lambda t: worded(t, COMMANDS["check"]))
    printed = capsys.readouterr().out
    assert "foreclick explore" in " ".join(printed.split())
    assert max(map(len, printed.splitlines())) <= 80
