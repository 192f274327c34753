"""If this fails, the action lets a worse ranking through, or stops a better one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parents[1]
BASH = ["bash", "--noprofile", "--norc", "-eo", "pipefail"]
LOG = {
    "query": ["q"] * 80,
    "items": [[1, 2], [2, 1]] * 40,
    "clicks": [[1, 0], [0, 1]] * 40,
}


def steps() -> list[dict[str, Any]]:
    """The id, environment and script of each step, from the few forms that action.yml uses."""
    text = (ROOT / "action.yml").read_text()
    found = []
    for step in text.split("    - id: ")[1:]:
        name, _, rest = step.partition("\n")
        env = dict(re.findall(r"^        (\w+): \$\{\{ inputs\.(\w+) \}\}$", rest, re.MULTILINE))
        script = rest.partition("      run: ")[2].removeprefix("|\n")
        lines = [line.removeprefix("        ") for line in script.splitlines()]
        found.append({"id": name, "env": env, "run": "\n".join(lines)})
    return found


@pytest.fixture
def runner(tmp_path, monkeypatch):
    """Runs all steps; a `pip` that installs nothing, and this checkout as the package."""
    monkeypatch.chdir(tmp_path)
    shim = tmp_path / "bin" / "python"
    shim.parent.mkdir()
    shim.write_text(
        f'#!/bin/sh\n[ "$2" = pip ] && echo "$@" > {tmp_path}/pip && exit 0\n'
        f'exec {sys.executable} "$@"\n'
    )
    shim.chmod(0o755)
    pq.write_table(pa.table(LOG), "log.parquet")
    for name, items in (("best", [1, 2]), ("worst", [2, 1])):
        pq.write_table(pa.table({"query": ["q"], "items": [items]}), f"{name}.parquet")

    def run(**inputs: str) -> tuple[int, str, str, str]:
        given = {"options": "", "unknown": "pass", "package": "foreclick"} | inputs
        files = {"GITHUB_OUTPUT": tmp_path / "output", "GITHUB_STEP_SUMMARY": tmp_path / "summary"}
        base = os.environ | {name: str(path) for name, path in files.items()}
        base |= {"PATH": f"{shim.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src")}
        code, out = 0, ""
        for step in steps():
            env = base | {name: given[value] for name, value in step["env"].items()}
            done = subprocess.run(
                [*BASH, "-c", step["run"]], env=env, capture_output=True, text=True, check=False
            )
            code, out = done.returncode, out + done.stdout
            assert "Traceback" not in done.stderr
            if code:
                break
        output, summary = (p.read_text() if p.exists() else "" for p in files.values())
        return code, out, output, summary

    return run


def declared() -> set[str]:
    """The inputs of the action."""
    inputs = (ROOT / "action.yml").read_text().partition("\noutputs:")[0].partition("inputs:")[2]
    return set(re.findall(r"^  (\w+):$", inputs, re.MULTILINE))


def test_every_input_reaches_a_step():
    assert declared() == {value for step in steps() for value in step["env"].values()}


@pytest.mark.parametrize(
    ("candidate", "code", "verdict", "level"),
    [("best", 0, "better", "notice"), ("worst", 1, "no", "error")],
)
def test_the_verdict_is_the_exit_code_and_the_summary(runner, candidate, code, verdict, level):
    options = "--context query -m clicks@1"
    found = runner(log="log.parquet", candidate=f"{candidate}.parquet", options=options)
    status, out, output, summary = found
    assert (status, output) == (code, f"verdict={verdict}\n")
    assert f"::{level} title=foreclick gate" in out
    assert summary.startswith("### foreclick gate: ")
    assert "| estimator | metric |" in summary
    assert Path("pip").read_text().split()[-1] == "foreclick"


def test_what_cannot_be_read_fails(runner):
    status, _, output, _ = runner(log="none.parquet", candidate="best.parquet")
    assert (status, output) == (2, "verdict=error\n")


def test_the_recipe_has_the_dependencies():
    recipe = (ROOT / "recipe" / "recipe.yaml").read_text()
    project = (ROOT / "pyproject.toml").read_text()
    listed = project.partition("dependencies = [")[2].partition("\n]")[0]
    for name, bounds in re.findall(r'^    "([a-z0-9]+)(.*)",$', listed, re.MULTILINE):
        assert re.search(rf"- (python-)?{name} {re.escape(bounds)}$", recipe, re.MULTILINE), name


def test_the_workflow_to_copy_gives_what_the_action_takes() -> None:
    page = (ROOT / "docs" / "howto" / "gate.md").read_text()
    example = page.partition("        with:\n          package")[2].partition("```")[0]
    given = {"package", *re.findall(r"^          (\w+):", example, re.MULTILINE)}
    assert given == declared()
