"""A tally remembers what the log's columns are called, so that a candidate may call them alike."""

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick.cli import main
from foreclick.errors import SourceError

LOG: dict[str, Any] = {
    "query": ["q", "q", "r", "r"] * 5,
    "ranking": [[1, 2], [2, 1], [3, 4], [4, 3]] * 5,
    "clicks": [[1, 0], [0, 1], [0, 0], [1, 0]] * 5,
    "day": [day for day in range(5) for _ in range(4)],
}
ROLES: Any = {"context": "query", "items": "ranking"}
CANDIDATE = {"query": ["q", "r"], "ranking": [[2, 1], [4, 3]]}
PLAIN = {"context": ["q", "r"], "items": [[2, 1], [4, 3]]}


def answer(log, candidate, **asked):
    return fc.evaluate(log, candidate, metrics="clicks@1", estimators="ip", **asked)["value"]


@pytest.fixture
def log() -> fc.Log:
    return fc.read_log(LOG, **ROLES)


@pytest.fixture
def kept(log, tmp_path) -> fc.Tally:
    fc.tally(log).write_parquet(tmp_path / "tally.parquet")
    return fc.read_tally(tmp_path / "tally.parquet")


def test_a_candidate_may_call_its_columns_as_the_log_does(log, kept):
    named = fc.Ranking(CANDIDATE, **ROLES)
    expected = answer(log, named)
    for each in (log, kept, kept + kept, fc.tally(log)):
        assert answer(each, CANDIDATE) == expected
        assert answer(each, PLAIN) == expected


def test_every_verb_takes_it(kept):
    asked: Any = {"metrics": "clicks@1"}
    assert fc.support(kept, CANDIDATE, **asked)["covered"] == [1.0] * 4
    daily = fc.read_log(LOG, period="day", **ROLES)
    assert fc.compare(daily, {"a": CANDIDATE}, **asked)["candidate"] == ["a"]
    assert (
        fc.explore(daily, CANDIDATE, min_effect=0.5, **asked).evaluation["metric"][0] == "clicks@1"
    )
    assert answer(kept, PLAIN, baseline=CANDIDATE) == answer(kept, PLAIN)


def test_policies_take_the_names_of_the_log(log):
    """A policy is made before it meets a log: what it lacks is called as there."""
    expected, slots = answer(log, PLAIN), {"query": ["q", "q", "r", "r"], "item": [2, 1, 4, 3]}
    sure = {"probability": [1.0, 1.0]}
    for policy in (
        fc.Ranking(pa.table({**CANDIDATE, "model": ["new"] * 2})),
        fc.Ranking({"q": [2, 1], "r": [4, 3]}),
        fc.Lists({**CANDIDATE, **sure}),
        fc.Ranking.from_scores({**slots, "score": [2.0, 1.0, 2.0, 1.0]}),
        fc.Marginals({**slots, "position": [1, 2, 1, 2], "probability": [1.0] * 4}),
    ):
        assert answer(log, policy) == expected
        assert answer(log, policy, baseline=policy) == expected
    assert answer(log, {"q": [2, 1], "r": [4, 3]}) == expected
    logging = {"query": ["q", "q", "r", "r"], "ranking": LOG["ranking"][:4]}
    known = fc.Lists({**logging, "probability": [0.5] * 4})
    assert answer(log, CANDIDATE, logging=known) == expected


def test_a_column_that_nobody_knows_is_an_error(log):
    waiting = fc.Ranking(pa.table({"quest": ["q", "r"], "items": PLAIN["items"]}))
    assert repr(waiting) == "Ranking(columns quest, items)"
    with pytest.raises(SourceError, match=r"^candidate: .*context='context'.* quest, items"):
        answer(log, waiting)
    with pytest.raises(SourceError, match="context='context'"):
        waiting.serving()
    with pytest.raises(SourceError, match="context='context'"):
        fc.Ranking(pa.table({"items": PLAIN["items"]}))


def test_commands_take_the_names_of_a_tally(kept, tmp_path, capsys):
    pq.write_table(pa.table(CANDIDATE), tmp_path / "new.parquet")
    tally, new = str(tmp_path / "tally.parquet"), str(tmp_path / "new.parquet")
    assert answer(kept, new) == answer(kept, CANDIDATE)
    assert main(["evaluate", tally, new, "-m", "clicks@1", "-e", "ip", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["value"] == answer(kept, CANDIDATE)[0]


def test_tallies_of_different_names_forget_them(kept):
    other = fc.tally(
        fc.read_log({**LOG, "search": LOG["query"]}, context="search", items="ranking")
    )
    whole = kept + other
    assert "context" not in whole.names
    assert whole.names["items"] == "ranking"
    assert answer(whole, {"context": ["q", "r"], "ranking": [[2, 1], [4, 3]]})
    with pytest.raises(SourceError, match=r"^candidate: .*Did you mean context='query'\?"):
        answer(whole, CANDIDATE)
