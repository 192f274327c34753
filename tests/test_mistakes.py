"""If this fails, a likely mistake gets a message that does not say what to do.

A message says what is wrong, how much of it there is, one example, and what to do instead. Read
them as a user would: no name of ours, no SQL, no stack of another package.
"""

import datetime as dt
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import foreclick as fc
from foreclick import simulate
from foreclick.errors import ForeclickError

KEPT = Path(__file__).with_name("mistakes.txt")
HEAD = """\
# Messages of tests/test_mistakes.py, as users see them. UPDATE=1 pytest tests/test_mistakes.py
# rewrites this file: read the difference as a user would.
"""

LOG: dict[str, Any] = {
    "context": ["q", "q", "r", "r"] * 10,
    "items": [[1, 2], [2, 1], [3, 4], [4, 3]] * 10,
    "clicks": [[1, 0], [0, 1], [0, 0], [1, 0]] * 10,
    "day": [day for day in range(10) for _ in range(4)],
    "device": ["phone", "tablet"] * 20,
}
CANDIDATE: dict[str, Any] = {"context": ["q", "r"], "items": [[2, 1], [3, 4]]}
PAIR = [1, 2]
IMPRESSIONS = {"context": ["q"] * 2, "request": [7, 7], "rank": PAIR, "doc": PAIR, "click": [0, 1]}
SCORES = {"context": ["q", "q"], "item": PAIR, "scores": [0.2, 0.7]}
NUMBERED = {"context": [7] * 5, "items": [[1, 2]] * 5, "clicks": [[1, 0]] * 5}
SLOTS = {"context": ["q"] * 2, "item": [1, 2], "position": [1, 2], "probability": [1.0, 1.0]}
MARGINALS = fc.Marginals(SLOTS)
NAMED = {"a": CANDIDATE}
FOLD = fc.ClickModel("fold", cell=lambda slot: slot.position <= 3)
NO_CLICKS = [[0, 0]] * 40
ELSEWHERE = fc.Ranking({"context": ["other"], "items": [[1, 2, 3]]})
OF_WORLD = {"context": [0], "items": [[0]]}
TWO = fc.Lists({"context": ["q"] * 2, "items": [[1, 2], [2, 1]], "probability": [0.7, 0.3]})
BY_CONTEXT = fc.Weighted("pbm", examination={"q": [1, 0.5], "r": [1, 0.5]})
BY_PROPENSITY: dict[str, Any] = {"estimators": "ip", "logging": "propensity"}
ARMS = {**LOG, "variant": ["control"] * 40}
SHOWN = {"list_id": [1, 1], "context": ["shoe"] * 2, "item": ["a", "b"], "position": [1, 2]}
DONE = {"list_id": [1], "item": ["b"], "action": ["click"]}
PBM = simulate.PBM([[0.5, 0.5]], [1.0, 0.5])

Mistake = Callable[[fc.Log], Any]


def evaluate(**asked: Any) -> Mistake:  # noqa: ANN401
    return lambda log: fc.evaluate(log, CANDIDATE, **asked)


def ranked(*items: Any, **asked: Any) -> Mistake:  # noqa: ANN401
    """A candidate with these lists."""
    return candidate({"context": ["q", "r"], "items": items}, **asked)


def candidate(table: Any, **asked: Any) -> Mistake:  # noqa: ANN401
    return lambda log: fc.evaluate(log, table, **asked)


def read(table: Any = LOG, **roles: Any) -> Mistake:  # noqa: ANN401
    return lambda _: fc.read_log(table, **roles)


def one(change: Any = None, **roles: Any) -> Mistake:  # noqa: ANN401
    """A log of one list, changed."""
    return read({"context": ["q"], "items": [[1, 2]], "clicks": [[0, 1]]} | (change or {}), **roles)


def ask(verb: Callable[..., Any], *given: Any, **asked: Any) -> Mistake:  # noqa: ANN401
    """A verb about the log."""
    return lambda log: verb(log, *given, **asked)


def best(**asked: Any) -> Mistake:  # noqa: ANN401
    return ask(fc.optimize, **asked)


def curve(examination: Any, **asked: Any) -> Mistake:  # noqa: ANN401
    """An evaluation by a model with this examination."""
    return lambda log: fc.evaluate(
        log, CANDIDATE, estimators=fc.Weighted("pbm", examination=examination), **asked
    )


def change(columns: Any, verb: Callable[..., Any], *given: Any, **roles: Any) -> Mistake:  # noqa: ANN401
    """A verb about the log with other columns."""
    return lambda _: verb(fc.read_log(LOG | columns, **roles), *given)


def do(call: Callable[..., Any], *given: Any, **asked: Any) -> Mistake:  # noqa: ANN401
    """A call that needs no log."""
    return lambda _: call(*given, **asked)


def weighed(log: Any) -> fc.Tally:  # noqa: ANN401
    return fc.tally(log).weigh(half_life=1)


def slots(**change: Any) -> Mistake:  # noqa: ANN401
    """Probabilities of items at positions, changed; None leaves a column out."""
    return do(fc.Marginals, {k: v for k, v in (SLOTS | change).items() if v is not None})


def lists(*probability: Any) -> Mistake:  # noqa: ANN401
    """Lists of two contexts with these probabilities."""
    return do(fc.Lists, {"context": [*"aab"], "items": [[1], [2], [1]], "probability": probability})


def scores(items: list[Any], values: list[Any]) -> Mistake:
    return do(fc.Ranking.from_scores, {"context": ["q"] * 2, "item": items, "score": values})


def events(**options: Any) -> Mistake:  # noqa: ANN401
    return do(fc.from_events, SHOWN, DONE, **options)


def world(**shown: Any) -> Mistake:  # noqa: ANN401
    """A log of two items by a production that cannot show what it should."""
    given: dict[str, Any] = {"contexts": [0], "lists": [[0]], "probabilities": [1.0]}
    return lambda _: simulate.Simulation(PBM, simulate.Stationary(**given | shown), 9).sample()


MISTAKES: dict[str, Mistake] = {
    "a confidence in per cent": evaluate(confidence=95),
    "a confidence as text": evaluate(confidence="95%"),
    "a confidence of nothing": evaluate(confidence="high"),
    "a confidence that is a flag": evaluate(confidence=True),
    "a negative smallest change": evaluate(min_effect=-1),
    "a smallest change in per cent": evaluate(min_effect=5),
    "a clip of 0": do(fc.Weighted, "ip", clip=0),
    "a flag that is none": do(fc.Confidence, anytime="bayes"),
    "a choice that there is not": evaluate(missing="skip"),
    "clusters that there are not": do(fc.Confidence, clusters="days"),
    "a guardrail in per cent": evaluate(guardrails={"clicks@2": 5}),
    "a clip of what weighs nothing": do(fc.Weighted, "rctr", 0.5),
    "a clip of a model of one's own that weighs nothing": do(fc.Weighted, FOLD, [math.inf, 10]),
    "an M that is no number": evaluate(estimators="ip:many"),
    "an M of 0": evaluate(estimators="list:0"),
    "an M of a ladder": evaluate(estimators="ladder:10"),
    "an M of what weighs nothing": evaluate(estimators=["ip:10", "rctr:10"]),
    "an M of nobody": evaluate(estimators="ipp:10"),
    "a clip for all estimators": evaluate(clip=10),
    "a misspelt option": evaluate(confident=0.9),
    "an option in the singular": evaluate(metric="clicks@1"),
    "weights out of bounds": evaluate(metrics=[1e308, 1e308]),
    "a metric without an s": evaluate(metrics="click@3"),
    "a metric in capitals": evaluate(metrics="DCG@10"),
    "a metric without a depth": evaluate(metrics="clicks"),
    "ndcg": evaluate(metrics="ndcg@10"),
    "a metric of a reward that was not read": evaluate(metrics="orders@3"),
    "a misspelt estimator": evaluate(estimators="pmb"),
    "a click model of another package": evaluate(estimators="dcm"),
    "a misspelt segment": evaluate(by="devise"),
    "a misspelt column": read(context="Context", period="dya"),
    "columns in capitals": read({"Context": ["q"], "Items": [[1]], "Clicks": [[0]]}),
    "a column called otherwise": read({"query": ["q"], "items": [[1]], "clicks": [[0]]}),
    "a long table without its layout": read(IMPRESSIONS),
    "a column of items that are no lists": read(IMPRESSIONS, items="doc", clicks="click"),
    "a long table with other names": read(IMPRESSIONS, long=("list_id", "position"), items="docs"),
    "text ids of clicks instead of 0 and 1": one({"items": [["a", "b"]], "clicks": [["b"]]}),
    "ids of clicks instead of 0 and 1": one({"items": [[10, 20]], "clicks": [[20]]}),
    "ids of clicks at all positions": read(
        {"context": ["q"] * 2, "items": [[10, 20], [30, 40]], "clicks": [[20, 0], [30, 0]]}
    ),
    "a log in which nothing was clicked": change({"clicks": NO_CLICKS}, fc.evaluate, CANDIDATE),
    "a metric deeper than the candidate": ranked([1], [3], metrics="clicks@2"),
    "an action that nobody did": events(rewards={"clicks": "clicked"}),
    "searches of Snowplow without their term": do(fc.events.snowplow, {"event_id": [1]}),
    "a negative click": one({"items": [[10, 20]], "clicks": [[-1, 0]]}),
    "items that are floats": one({"items": [[1.0, 2.0]], "clicks": [[1, 0]]}),
    "an empty frame": read(pd.DataFrame()),
    "a frame without rows": read(pd.DataFrame({"context": [], "items": [], "clicks": []})),
    "a filter by a misspelt column": read(where="dya > 3"),
    "a filter that keeps nothing": read(where="day > 99"),
    "a segment called as a result is": read({**LOG, "verdict": ["x"] * 40}, segments="verdict"),
    "a depth of 0": read(depth=0),
    "nothing at all": candidate(None),
    "a candidate that is not there": candidate("candidates.parquet"),
    "a candidate in no directory": candidate("policies/new.parquet"),
    "a candidate with other columns": candidate(
        {"query": ["q"], "locale": ["en"], "items": [[1, 2]]}
    ),
    "a candidate with scores of something": candidate(
        {"context": ["q"], "sku": [1], "shop": [2], "score": [0.5]}
    ),
    "a candidate without scores": candidate({"context": ["q"], "item": [1], "price": [2.5]}),
    "a candidate with two items at one position": candidate(
        {"context": ["q", "q"], "item": [1, 2], "position": [1, 1]}
    ),
    "no common contexts": candidate({"context": ["Q", "R"], "items": [[1, 2], [3, 4]]}),
    "text against integers": lambda _: fc.evaluate(NUMBERED, {"context": ["7"], "items": [[1, 2]]}),
    "items as text against integers": ranked(["1"], ["3"]),
    "a context without a list": candidate({"context": ["q"], "items": [[2, 1]]}),
    "two lists for a context": candidate({"context": ["q", "q"], "items": [[1, 2], [2, 1]]}),
    "an item twice in a list": ranked([1, 1], [3, 4]),
    "a misspelt score": do(fc.Ranking.from_scores, SCORES),
    "probabilities that do not sum to 1": do(fc.Lists, CANDIDATE | {"probability": [0.5, 1.0]}),
    "a table of lists without probabilities": do(fc.Lists, CANDIDATE),
    "candidates without names": ask(fc.compare, CANDIDATE),
    "a comparison by two metrics": ask(fc.compare, NAMED, metrics=["clicks@1", "clicks@2"]),
    "a comparison without days or users": do(fc.compare, LOG, NAMED),
    "a comparison of two days": change({"day": [1, 2] * 20}, fc.compare, NAMED, period="day"),
    "a backtest without days": do(fc.backtest, LOG),
    "propensities that were not read": evaluate(logging="propensity"),
    "folds of a policy": best(folds=0),
    "an effect in per cent": ask(fc.explore, CANDIDATE, min_effect=2),
    "no tally": do(fc.read_tally, "tallies/*.parquet"),
    # --- metrics, models, estimators
    "a weight that is no number": do(fc.Metric, [1, math.nan]),
    "a negative weight": do(fc.Metric, [1, -2, -3]),
    "weights of nothing": do(fc.Metric, [0, 0]),
    "a metric without a name": do(fc.Metric, "@3"),
    "a metric of no position": do(fc.Metric, "clicks@0"),
    "a metric with a blank": do(fc.Metric, "dcg @10"),
    "a reward and a sum": do(fc.Metric, "orders:clicks@3"),
    "a metric that is a number": evaluate(metrics=3),
    "no metric": evaluate(metrics=[]),
    "a log without rewards": change({}, fc.evaluate, CANDIDATE, clicks=None),
    "a reward called as a metric": read(rewards={"dcg": "clicks"}),
    "a reward called as what is shown": read(rewards={"shown": "clicks"}),
    "a cell of something else": do(fc.ClickModel, "mine", cell=("item", "day")),
    "a cell that is a number": do(fc.ClickModel, "mine", cell=3),
    "a name of a curve": do(fc.ClickModel, "mine", cell="item", examination="1/x"),
    "a curve that is too short": curve([1]),
    "contexts without a curve": curve({"q": [1, 0.5, 0.3]}),
    "a curve of a context that is too short": curve({"q": [1, 0.5, 0.3], "r": [1]}),
    "a curve of a context that is none": do(fc.Weighted, "pbm", examination={"q": "learnt"}),
    "a number for a curve": do(fc.Weighted, "pbm", examination=5),
    "first clicks by curves of contexts": evaluate(estimators=BY_CONTEXT, metrics="success@2"),
    "the best by curves of contexts": best(estimators=BY_CONTEXT, metrics="clicks@2"),
    "a judge with curves of contexts": best(metrics="clicks@2", estimators="ip", judge=BY_CONTEXT),
    "a ladder with curves of contexts": do(fc.Ladder, examination={"q": [1, 0.5]}),
    "a negative examination": curve([1, -0.1], metrics="clicks@2"),
    "no estimator": evaluate(estimators=[]),
    "an estimator that is a number": evaluate(estimators=3),
    "a rung that is no top": do(fc.Ladder, "item"),
    "readers who stop at slots": do(fc.Ladder, "ip", stopping=0.5),
    "more than all stop": do(fc.Ladder, stopping=1.5),
    "a ladder with a logging policy": evaluate(estimators="ladder", logging=TWO, missing="drop"),
    "the support of a ladder": ask(fc.support, CANDIDATE, estimators=["ladder"]),
    "the support of slots by lists": ask(fc.support, MARGINALS, estimators="list"),
    "lists of slots": candidate(MARGINALS, estimators="list", missing="drop"),
    "first clicks of slots": candidate(
        MARGINALS, estimators="ip", metrics="success@2", missing="drop"
    ),
    "first clicks with a clip": evaluate(estimators=fc.Weighted("pbm", 10), metrics="success@2"),
    "first clicks with a logging policy": evaluate(
        estimators="item", metrics="success@2", logging=TWO, missing="drop"
    ),
    "first clicks by a ladder of slots": evaluate(estimators="ladder-ip", metrics="success@2"),
    "propensities of something else": lambda _: fc.evaluate(
        fc.read_log({**LOG, "p": [0.5] * 40}, propensity="p"), CANDIDATE, **BY_PROPENSITY
    ),
    # --- verbs
    "nothing to compare": ask(fc.compare, {}),
    "production as a candidate": ask(fc.compare, {"production": CANDIDATE}),
    "a comparison that drops": ask(fc.compare, {"a": CANDIDATE}, missing="drop"),
    "a guardrail as text": evaluate(guardrails={"clicks@2": "1%"}),
    "a backtest of no rank": ask(fc.backtest, ranks=0),
    "a backtest of ranks turned": ask(fc.backtest, ranks=(3, 2)),
    "a backtest of blocks that are none": ask(fc.backtest, block="week"),
    "a backtest of one block": ask(fc.backtest, block=20),
    "a backtest of contexts that never come back": change(
        {"context": LOG["day"]}, fc.backtest, period="day"
    ),
    "a backtest of a ratio": ask(fc.backtest, metrics="clicks@2/clicks@1"),
    "a backtest of what is shown": ask(fc.backtest, metrics="shown@2"),
    "a backtest of something else": lambda log: fc.evaluate(
        log,
        CANDIDATE,
        metrics="clicks@1",
        estimators="ip",
        confidence=fc.Confidence(past=fc.backtest(log, metrics="clicks@2", estimators="ip")),
    ),
    "a past that is none": lambda log: fc.Confidence(past=fc.check(log)),
    "a log in which nothing moves": do(fc.examination, NUMBERED),
    "curves within something else": ask(fc.examination, within="day"),
    "curves within periods that were not read": do(fc.examination, LOG, within="period"),
    "curves by another segment": ask(fc.examination, by="shop"),
    "judgments with too few positions": ask(fc.judgments, examination=[1.0]),
    "a replay of one arm": do(fc.replay, ARMS),
    "a replay without its column": ask(fc.replay),
    "columns with a usual word in their names": read(
        {"search_query": ["q"], "product_ids": [[1]], "is_clicked": [[0]], "visitor_id": [1]}
    ),
    "a replay of a table whose arm is called otherwise": do(fc.replay, LOG | {"arm": ["a"] * 40}),
    "a control that is no arm": do(
        fc.replay, {**ARMS, "variant": ["control", "new"] * 20}, control="old"
    ),
    "a plan of a ratio": ask(fc.explore, CANDIDATE, metrics="ctr@2"),
    "a plan of slots": ask(fc.explore, MARGINALS),
    "a plan of days without days": do(fc.explore, LOG, CANDIDATE, days=10),
    "the best by first clicks": best(metrics="success@2"),
    "the best by what sees no items": best(estimators="rctr"),
    "the best by two": best(estimators=["ip", "item"]),
    "the best with two clips": best(estimators=fc.Weighted("ip", clip=[2, 5])),
    "the best ladder with a logging policy": best(logging=fc.Ranking(CANDIDATE)),
    "the best by propensities that are not there": best(**BY_PROPENSITY),
    "a logging policy of another context": best(estimators="ip", logging=ELSEWHERE),
    "the best of no policies": do(fc.selection_bound, 0, 1000, 2),
    "a ladder with a clip": do(fc.Weighted, "ladder", clip=2),
    "a change of more than all": best(max_change=1.5),
    "pessimism that is no number": best(pessimism=math.nan),
    "a ban of another item": best(banned=["one"]),
    "a pin without a position": best(pinned={"context": ["q"], "item": [1]}),
    "a pin below all lists": best(pinned={"context": ["q"], "item": [1], "position": [4]}),
    "two pins at a position": best(
        pinned={"context": ["q"] * 2, "item": [1, 2], "position": [1, 1]}
    ),
    "tallies of different roles": lambda log: fc.tally(log) + fc.tally(LOG),
    "tallies of texts and numbers": lambda _: fc.tally(LOG) + fc.tally(NUMBERED),
    "a half-life of 0": lambda log: fc.tally(log).weigh(half_life=0),
    "a half-life without periods": do(weighed, LOG),
    "a half-life of what is no day": change({}, weighed, period="device"),
    "nothing later than the last day": evaluate(trained_until=9),
    "trained until something else": evaluate(trained_until="noon"),
    # --- tables and roles
    "items that are no lists": one({"items": [3]}),
    "clicks that are no lists": one({"clicks": [1]}),
    "clicks that are dates": one({"clicks": [[dt.date(2024, 1, 1)] * 2]}),
    "counts as text": one({"w": ["2"]}, count="w"),
    "contexts that are floats": one({"context": [1.0]}),
    "units that are floats": one({"u": [1.0]}, unit="u"),
    "rewards without plain names": one(rewards={"a b": "clicks"}),
    "clicks twice": one(rewards={"clicks": "clicks"}),
    "no column of items": one(items=None),
    "a list without its position": one(long="position"),
    "rows that are neither refused nor dropped": one(invalid="ignore"),
    "positions that are fractions": read(
        {**IMPRESSIONS, "rank": [1.0, 2.0]}, long=("request", "rank"), items="doc", clicks="click"
    ),
    "a hundred and one positions": one({"items": [[*range(101)]], "clicks": [[0] * 101]}),
    "a number as a log": do(fc.read_log, 7),
    "lists of several types": one({"items": [[1, "a"]]}),
    "a filter that is no condition": read(where="day = = 3"),
    "a scheme that is not read": do(fc.read_log, "ftp://a/b.parquet"),
    # --- policies
    "items that only others have shown": ranked([8], [9]),
    "a score that is missing": scores([1, 2], [0.5, None]),
    "an item with two scores": scores([7, 7], [1.0, 2.0]),
    "probabilities of nothing": lists(0.0, 0.0, 1.0),
    "a negative probability": lists(1.0, -0.5, 1.0),
    "slots from position 0": slots(position=[0, 1]),
    "slots at fractions": slots(position=[1.0, 2.0]),
    "two items at a position": slots(position=[1, 1], probability=[1.0, 0.75]),
    "an item at two positions": slots(item=[1, 1], probability=[1.0, 0.5]),
    "slots without positions": slots(position=None),
    "a run that is none": do(fc.Ranking.from_trec, 7),
    "a run without numbers": do(fc.Ranking, {"q": {"a": 1.0, "b": math.nan}}),
    "ids of a run that are fractions": do(fc.Ranking, {"q": {"a": 1.0, 1.5: 2.0}}),
    "requests without ids": do(TWO.sample, {"request": [1, None], "context": ["q"] * 2}),
    "requests without a column": do(TWO.sample, {"id": [1], "context": ["q"]}),
    "requests that are fractions": do(TWO.sample, {"request": [1.5], "context": ["q"]}),
    # --- events
    "events by another id": events(list_id="request"),
    "events without an id": events(list_id=None),
    "positions of text": events(position="context"),
    "events without rewards": events(rewards={}),
    "two rewards without an action": events(
        rewards={"clicks": "click", "orders": "buy"}, action=None
    ),
    "a value that is no column": events(rewards={"revenue": {"buy": "price"}}),
    "a window of nothing": do(fc.events.Match, "list_id", window=0),
    # --- files and worlds
    "a result in no known form": ask(lambda log: fc.check(log).save("check.gif")),
    "a result in no directory": ask(lambda log: fc.check(log).save("none/check.csv")),
    "a chart that there is not": ask(lambda log: fc.check(log).plot()),
    "a policy in no known form": lambda log: fc.optimize(log, judge=None).write("policy.txt"),
    "judgments in no known form": ask(lambda log: fc.judgments(log).write("judgments.xlsx")),
    "a world of no record": do(simulate.yandex_like(records=9, queries=3).sample, records=0),
    "an item that no world has": world(lists=[[2]]),
    "a context that no world has": world(contexts=[1]),
    "a hole in a list": world(lists=[[-1, 0]]),
    "lists that are not all": world(probabilities=[0.5]),
    "a drift of too few items": do(simulate.Drifting, 1, 10),
    "attraction without contexts": do(simulate.DCTR, [0.5]),
    "attraction above 1": do(simulate.DCTR, [[1.5]]),
    "the value of another world's item": do(PBM.value, OF_WORLD | {"items": [[7]]}, "clicks@1"),
    "the value of orders": do(PBM.value, OF_WORLD, "orders@1"),
    "frequencies of other contexts": do(PBM.value, OF_WORLD, "clicks@1", [1, 2]),
    "a drift that is none": do(simulate.Drifting, 1, 11, fresh=1.2),
}


def message_of(mistake: Mistake, log: fc.Log) -> str:
    with pytest.raises(ForeclickError) as error:
        mistake(log)
    return f"{type(error.value).__name__}: {error.value}"


def test_messages_say_what_is_wrong_and_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "candidate.parquet").touch()
    log = fc.read_log(LOG, period="day", segments="device")
    messages = {name: message_of(mistake, log) for name, mistake in MISTAKES.items()}
    for message in messages.values():
        assert len(message) < 450
        assert message[-1] in ".?"
        assert not re.search("SELECT|foreclick_|NoneType|Traceback", message)
    text = HEAD + "".join(f"\n## {name}\n{message}\n" for name, message in messages.items())
    if os.environ.get("UPDATE") == "1":
        KEPT.write_text(text)
    assert text == KEPT.read_text(), "UPDATE=1 rewrites it, if the change is meant"
