"""If this fails, the help tells of options that are not there, or takes seconds."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
import sys
from typing import Any

import pytest

import foreclick as fc
from foreclick.cli import commands, main, start  # noqa: F401 - they register commands
from foreclick.cli.app import COMMANDS, app
from foreclick.options import OPTIONS
from foreclick.reproduce import reproduce

HEAVY = ("ibis", "pyarrow", "numpy", "duckdb", "pandas", "scipy")
SCREEN = 46


def test_there_are_few_commands_and_few_options():
    assert len(COMMANDS) <= 15
    assert sum(len(command.options) for command in COMMANDS.values()) <= 265


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_a_screen_and_ends_with_an_example(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main([name, "--help"]) == 0
    lines = capsys.readouterr().out.rstrip().splitlines()
    assert len(lines) <= SCREEN
    assert lines[-1].startswith(f"foreclick {name}")
    assert not any("--quiet" in line for line in lines)
    examples = lines[lines.index("Examples (--help-all has all options)") + 2 :]
    assert all(line.startswith(f"foreclick {name}") for line in examples), "none is wrapped"
    if {"context", "output"} <= set(COMMANDS[name].flags):
        assert any("--context" in line for line in lines)
        assert any("--output" in line for line in lines)
    assert main([name, "--help-all"]) == 0
    assert "--quiet" in capsys.readouterr().out


def test_help_shows_the_defaults(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["evaluate", "--help-all"]) == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "the confidence level of intervals [default: 0.95]" in text
    assert "[default: clicks@3,dcg@10]" in text
    assert "[default: context]" in text


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {"simulate", "demo"}))
def test_these_are_the_defaults_of_the_library(name):
    command = COMMANDS[name]
    verb: Any = {"gate": fc.evaluate, "reproduce": reproduce}.get(name) or getattr(fc, name)
    parameters = inspect.signature(verb).parameters
    for option in command.options:
        shown = command.defaults.get(option, OPTIONS[option.rpartition(":")[2]].default)
        if option in parameters and (name, option) != ("gate", "metrics"):
            default = parameters[option].default
            if isinstance(shown, tuple) and isinstance(default, str):
                default = (default,)
            assert shown is None or shown == default, option


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_of_the_help_is_understood(name):
    examples = re.findall(r"^ *foreclick (.*)$", str(COMMANDS[name].run.__doc__), re.MULTILINE)
    assert examples
    for words in examples:
        command, *rest = shlex.split(words)
        assert command == name
        *_, unused = app.parse_args([command, *rest], exit_on_error=False, print_error=False)
        assert not unused


@pytest.mark.parametrize("words", [["--help"], ["evaluate", "--help-all"], ["gamble"]])
def test_help_and_complaints_import_nothing_heavy(words):
    code = (
        f"import sys; from foreclick.cli import main; main({words}); "
        f"sys.exit(str([m for m in {HEAVY} if m in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == "[]"


COMPLETED = {
    ("foreclick", "ev"): "evaluate",
    ("foreclick", "evaluate", "--missing", ""): "error production drop",
    ("foreclick", "evaluate", "a-log"): "a-log.parquet",
    ("foreclick", "report", "a", "b", "-o", "a-"): "a-log.parquet",
}


def test_a_shell_completes_commands_options_values_and_files(tmp_path):
    def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        home = {**os.environ, "HOME": str(tmp_path), **more}
        return subprocess.run(
            words, check=False, env=home, cwd=tmp_path, capture_output=True, text=True
        )

    (tmp_path / "a-log.parquet").touch()
    install = (sys.executable, "-m", "foreclick", "--install-completion", "--shell")
    done = run(*install, "bash")
    assert done.returncode == 0
    script = done.stderr.split()[1].rstrip(",")
    for words, found in COMPLETED.items():
        asked = f"COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; _foreclick"
        lines = f"source {script}; {asked}; echo ${{COMPREPLY[@]}}"
        assert run("bash", "--norc", "-c", lines).stdout.strip() == found
    wrong = run(*install, "tcsh")
    assert wrong.returncode == 2
    assert "Traceback" not in wrong.stderr
