"""If this fails, a study or a measurement does not run, and nobody notices before a release."""

import inspect
import json

import pytest
from benchmarks import __main__ as command
from benchmarks import logs, perf, study

for module in command.MODULES:
    if module != "exam":  # which needs scikit-learn
        __import__(f"benchmarks.{module}")


@pytest.mark.parametrize("name", sorted(study.STUDIES))
def test_a_study_takes_its_defaults_from_the_command_line(name: str) -> None:
    asked = study.STUDIES[name]
    options = vars(study.parser_of(asked).parse_args([]))
    del options["jobs"], options["quiet"], options["save"]
    task = next(asked.tasks(**options))
    inspect.signature(asked.answers).bind(**task.keywords)


def test_cases_are_all_combinations_of_the_axes() -> None:
    def answers(world: str, seed: int, records: int = 5) -> list[study.Row]:
        """The case itself."""
        return [{"case": (world, seed, records)}]

    asked = study.Study("some", answers, {"worlds": ["a"], "logs": 1, "seed": 1}, (), ())
    options = vars(study.parser_of(asked).parse_args(["--worlds", "a", "b", "--seed", "7"]))
    found = asked.tasks(worlds=options["worlds"], logs=2, seed=options["seed"], records=3)
    cases = [row["case"] for task in found for row in task()]
    assert cases == [("a", 7, 3), ("a", 8, 3), ("b", 7, 3), ("b", 8, 3)]


def test_a_run_is_kept_with_what_made_it(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(study, "RESULTS", tmp_path)
    for _ in range(2):  # the second in place of the first
        study.run("judgments", ["--logs", "1", "--sizes", "100", "--save", "--quiet"])
    (kept,) = json.loads((tmp_path / "judgments.json").read_text())
    assert kept["command"] == "python -m benchmarks judgments --logs 1 --sizes 100"
    assert kept.keys() == {"command", "commit", "date", "machine", "rows"}
    assert len(kept["rows"]) == 4
    assert capsys.readouterr().out.count("| any order | given | 100 |") == 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["shop", "unique"])
def test_steps_run_on_kinds_of_logs(kind: str, tmp_path) -> None:
    folder = tmp_path / f"{kind}-400"
    folder.mkdir()
    logs.KINDS[kind].write(folder, 400)
    watch = perf.Watch(folder, "1GB", 3)
    for step in logs.KINDS[kind].steps[:4]:
        perf.perform(step, watch)
    assert all(step["cpu"] >= 0 for step in watch.steps.values())
    assert len(watch.steps) >= 2
