"""If this fails, a message on the command line tells to type Python."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from foreclick.cli import commands, main  # noqa: F401 - they register commands
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


LOG = {
    "query": ["q", "q"] * 5,
    "items": [[1, 2], [2, 1]] * 5,
    "clicks": [[1, 0]] * 10,
    "day": [d for d in range(5) for _ in range(2)],
    "arm": ["old", "new"] * 5,
}
SCORES = {"query": ["q", "q"], "sku": [1, 2], "shop": [1, 1], "score": [0.2, 0.7]}
WRONG = {
    "a log's columns": (["check", "log.parquet"], "Did you mean --context query?"),
    "the column of arms": (
        ["replay", "log.parquet", "--context", "query", "--period", "day"],
        "Did you mean --variant arm?",
    ),
    "a candidate's columns": (
        ["evaluate", "log.parquet", "scores.parquet", "--context", "query"],
        "Name them: --column context=query --column item=sku.",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_has_a_remedy_that_can_be_typed(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table(LOG), "log.parquet")
    pq.write_table(pa.table(SCORES), "scores.parquet")
    words, remedy = WRONG[name]
    assert main(words) == 2
    assert remedy in capsys.readouterr().err


def test_sentences_are_in_the_words_of_commands_before_they_are_broken_into_lines(capsys):
    note = (
        "Show the candidate to some users of your shop for some days; fc.explore says to how many."
    )
    show(Result(({"a": 1},), ("a",), (note,)), "answer", lambda t: worded(t, COMMANDS["check"]))
    printed = capsys.readouterr().out
    assert "foreclick explore" in " ".join(printed.split())
    assert max(map(len, printed.splitlines())) <= 80
