"""What the command line says of itself: help, defaults, examples, completion, and what it costs."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import resource
import shlex
import shutil
import subprocess
import sys

import pytest

import foreclick as fc
from foreclick.cli import asking, demo, main, making  # noqa: F401 - they register commands
from foreclick.cli.app import COMMANDS, app
from foreclick.cli.defaults import _ALIASES, defaults_of, option_names, shown_defaults, spelled

HEAVY = ("ibis", "pyarrow", "numpy", "duckdb", "pandas", "scipy")


def verb_of(name: str):
    """The library's function behind a command."""
    verb = getattr(COMMANDS[name], "verb", None)
    if verb is None:
        return None
    home, _, function = verb.rpartition(":")
    return getattr(importlib.import_module(f"foreclick.{home}") if home else fc, function)


ASKING = [name for name in COMMANDS if verb_of(name)]


def test_many_commands_ask_the_library():
    assert {"evaluate", "gate", "compare", "optimize", "simulate", "report"} <= set(ASKING)


@pytest.mark.parametrize("name", ASKING)
def test_shown_defaults_are_those_of_the_library(name):
    command, usual = COMMANDS[name], getattr(COMMANDS[name], "usual", {})
    signatures = {
        **inspect.signature(fc.read_log).parameters,
        **inspect.signature(verb_of(name)).parameters,
    }
    keywords = dict(zip(option_names(command), _fields(command), strict=True))
    shown = shown_defaults(command)
    assert shown
    for option, text in shown.items():
        keyword = _ALIASES.get(keywords[option], keywords[option])
        default = usual.get(keyword, getattr(signatures[keyword], "default", None))
        if option == "--weight":
            continue  # of the log, though `backtest` has a keyword of this name
        assert text == spelled(default), option


def _fields(command):
    own = (name for base in command.__mro__ for name in inspect.get_annotations(base))
    names = {field.name for field in dataclasses.fields(command)}
    return [name for name in dict.fromkeys(own) if name in names]


def test_defaults_are_found_in_the_source():
    assert defaults_of("optimize")["folds"] == 2
    assert defaults_of("evaluate")["clip"] == float("inf")
    for verb in ("evaluate", "backtest", "optimize", "read_log", "support"):
        real = inspect.signature(getattr(fc, verb)).parameters
        assert all(real[name].default == value for name, value in defaults_of(verb).items())


def test_help_shows_a_default(capsys):
    assert main(["optimize", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "in how many parts the records are; 1: no judgement [default: 2]" in text


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_of_the_help_is_understood(name, capsys):
    examples = re.findall(r"^ *foreclick (.*)$", COMMANDS[name].__doc__, re.MULTILINE)
    assert examples
    for words in examples:
        command, *rest = shlex.split(words.split(">")[0])
        assert command == name
        *_, unused = app.parse_args([command, *rest], exit_on_error=False, print_error=False)
        assert not unused
    assert main([name, "--help"]) == 0
    assert "Examples" in capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_and_options(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in COMMANDS)
    assert "estimator" in script
    # What a key press costs: the script has it all, and starts no Python.
    assert not re.search(r"[$`(]\s*foreclick|python", script)
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def cpu(code: str) -> float:
    """Seconds of processors that a fresh Python takes: the lesser of two, in a noisy world."""
    taken = []
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(taken)


def test_help_and_version_cost_less_than_an_import():
    whole = cpu("from foreclick import *")
    run = "from foreclick.cli import main; main({})"
    for words in (["--help"], ["--version"]):
        assert cpu(run.format(words)) <= 0.75 * whole, words


@pytest.mark.parametrize("words", [["--help"], ["evaluate", "--help"], ["gamble"]])
def test_help_and_complaints_import_nothing_heavy(words):
    code = (
        f"import sys; from foreclick.cli import main; main({words}); "
        f"sys.exit(str([m for m in {HEAVY} if m in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == "[]"
