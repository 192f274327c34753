"""The most likely mistakes, each with the message that a user sees.

A message says what is wrong, how much of it there is, one example, and what to do instead. Read
them as a user would: no name of ours, no SQL, no stack of another package.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import foreclick as fc
from foreclick.errors import ForeclickError

LOG: dict[str, Any] = {
    "context": ["q", "q", "r", "r"] * 10,
    "items": [[1, 2], [2, 1], [3, 4], [4, 3]] * 10,
    "clicks": [[1, 0], [0, 1], [0, 0], [1, 0]] * 10,
    "day": [day for day in range(10) for _ in range(4)],
    "device": ["phone", "tablet"] * 20,
}
CANDIDATE: dict[str, Any] = {"context": ["q", "r"], "items": [[2, 1], [3, 4]]}
IMPRESSIONS = {
    "context": ["q"] * 2,
    "request": [7, 7],
    "rank": [1, 2],
    "doc": [1, 2],
    "click": [0, 1],
}
SCORES = {"context": ["q", "q"], "item": [1, 2], "scores": [0.2, 0.7]}
NUMBERED = {"context": [7] * 5, "items": [[1, 2]] * 5, "clicks": [[1, 0]] * 5}

Mistake = Callable[[fc.Log], Any]


def evaluate(**asked: Any) -> Mistake:  # noqa: ANN401
    return lambda log: fc.evaluate(log, CANDIDATE, **asked)


def candidate(table: Any, **asked: Any) -> Mistake:  # noqa: ANN401
    return lambda log: fc.evaluate(log, table, **asked)


def read(table: Any = LOG, **roles: Any) -> Mistake:  # noqa: ANN401
    return lambda _: fc.read_log(table, **roles)


MISTAKES: dict[str, tuple[Mistake, str]] = {
    "a confidence in per cent": (
        evaluate(confidence=95),
        "confidence=95: give a share above 0 and below 1. Did you mean 0.95?",
    ),
    "a confidence as text": (
        evaluate(confidence="95%"),
        "confidence='95%': give a share above 0 and below 1. Did you mean 0.95?",
    ),
    "a confidence of nothing": (
        evaluate(confidence="high"),
        "confidence='high': give a share above 0 and below 1, such as 0.95.",
    ),
    "a confidence that is a flag": (
        evaluate(confidence=True),
        "confidence=True: give a share above 0 and below 1, such as 0.95.",
    ),
    "a negative smallest change": (
        evaluate(min_effect=-1),
        (
            "min_effect=-1: give the smallest change worth having, a share of production from 0 to "
            "below 1, such as 0.01."
        ),
    ),
    "a smallest change in per cent": (
        evaluate(min_effect=5),
        (
            "min_effect=5: give the smallest change worth having, a share of production from 0 to "
            "below 1. Did you mean 0.05?"
        ),
    ),
    "a clip of 0": (
        lambda _: fc.Weighted("ip", clip=0),
        (
            "clip=0: give the largest weight, a number above 0 such as 100, or a list of such; "
            "math.inf for none."
        ),
    ),
    "a choice that there is not": (
        evaluate(missing="skip"),
        "missing='skip': say 'error', 'production' or 'drop'.",
    ),
    "clusters that there are not": (
        lambda _: fc.Confidence(clusters="days"),  # type: ignore[arg-type]
        "clusters='days': say 'auto' or 'record'.",
    ),
    "a guardrail in per cent": (
        evaluate(guardrails={"clicks@2": 5}),
        (
            "guardrails['clicks@2']=5: give the share of production that it may lose, from 0 to "
            "below 1. Did you mean 0.05?"
        ),
    ),
    "a clip for all estimators": (
        evaluate(clip=10),
        "evaluate has no option 'clip'. Use estimators=Weighted('ip', clip=100).",
    ),
    "an option by an older name": (
        evaluate(practical=5),
        (
            "evaluate has no option 'practical'. Use min_effect=0.01: the smallest change worth "
            "having, a share of production."
        ),
    ),
    "a misspelt option": (
        evaluate(confident=0.9),
        "evaluate has no option 'confident'. Did you mean 'confidence'?",
    ),
    "an option in the singular": (
        evaluate(metric="clicks@1"),
        "evaluate has no option 'metric'. Did you mean 'metrics'?",
    ),
    "weights out of bounds": (
        evaluate(metrics=[1e308, 1e308]),
        (
            "the weights of a metric must be 0, or from 1e-12 to 1e+12, and not all 0; got "
            "(1e+308, 1e+308), of which 1e+308 is the first that is wrong."
        ),
    ),
    "a metric without an s": (
        evaluate(metrics="click@3"),
        (
            "metric 'click@3': the log has no reward 'click', it was read with clicks. Did you "
            "mean 'clicks@3'? For another reward, read it with rewards={'click': …}."
        ),
    ),
    "a metric in capitals": (
        evaluate(metrics="DCG@10"),
        "there is no metric 'DCG@10'. Did you mean 'dcg@10'?",
    ),
    "a metric without a depth": (
        evaluate(metrics="clicks"),
        "metric 'clicks' is not understood. Did you mean 'clicks@3'?",
    ),
    "ndcg": (
        evaluate(metrics="ndcg@10"),
        (
            "metric 'ndcg@10' is not offered: its divisor, the ideal list, is itself estimated "
            "from the log, so it can order policies differently from what they earn. Use 'dcg@K'."
        ),
    ),
    "a metric of a reward that was not read": (
        evaluate(metrics="orders@3"),
        (
            "metric 'orders@3': the log has no reward 'orders', it was read with clicks. For "
            "another reward, read it with rewards={'orders': …}."
        ),
    ),
    "a misspelt estimator": (
        evaluate(estimators="pmb"),
        (
            "there is no estimator 'pmb'. Did you mean 'pbm'? There are ladder, ladder-ip, list, "
            "prefix, ip, item, pbm, rctr, rcm, dctr; leave it out for the usual ones, or declare "
            "a click model, ClickModel(name, cell=…)."
        ),
    ),
    "a click model of another package": (
        evaluate(estimators="dcm"),
        (
            "there is no estimator 'dcm'. 'ladder' and 'prefix' allow for what stands above an "
            "item. There are ladder, ladder-ip, list, prefix, ip, item, pbm, rctr, rcm, dctr; "
            "leave it out for the usual ones, or declare a click model, ClickModel(name, cell=…)."
        ),
    ),
    "a misspelt segment": (
        evaluate(by="devise"),
        (
            "by='devise': the log was read with the segments device, period. Did you mean "
            "'device'? For another, read it with segments='devise'."
        ),
    ),
    "a misspelt column": (
        read(context="Context", period="dya"),
        (
            "2 named columns are not in the source: context='Context', period='dya'. It has the "
            "columns context, items, clicks, day, device. Did you mean context='context', "
            "period='day'?"
        ),
    ),
    "columns in capitals": (
        read({"Context": ["q"], "Items": [[1]], "Clicks": [[0]]}),
        (
            "3 named columns are not in the source: context='context', items='items', "
            "clicks='clicks'. It has the columns Context, Items, Clicks. Did you mean "
            "context='Context', items='Items', clicks='Clicks'?"
        ),
    ),
    "a column called otherwise": (
        read({"query": ["q"], "items": [[1]], "clicks": [[0]]}),
        (
            "1 named column is not in the source: context='context'. It has the columns query, "
            "items, clicks. Did you mean context='query'?"
        ),
    ),
    "a long table without its layout": (
        read(IMPRESSIONS),
        (
            "2 named columns are not in the source: items='items', clicks='clicks'. It has the "
            "columns context, request, rank, doc, click. It looks like one row per result: name "
            "the columns of its list and its position, long=('list_id', 'position'), and of its "
            "item and click, items= and clicks=."
        ),
    ),
    "a column of items that are no lists": (
        read(IMPRESSIONS, items="doc", clicks="click"),
        (
            "column 'doc' is of type int64, not a list. For one row per result name the columns of "
            "its list and its position, long=('list_id', 'position'); for one column per position "
            "name them all, for instance items=['item_1', 'item_2']."
        ),
    ),
    "a long table with other names": (
        read(IMPRESSIONS, long=("list_id", "position"), items="docs"),
        (
            "3 named columns are not in the source: long='list_id', long='position', items='docs'. "
            "It has the columns context, request, rank, doc, click. Did you mean "
            "long=('request', 'rank'), items='doc'?"
        ),
    ),
    "a long table by an older name": (
        read(IMPRESSIONS, layout="long"),
        (
            "read_log has no option 'layout'. Use long=('list_id', 'position'): the columns of a "
            "row's list and position."
        ),
    ),
    "text ids of clicks instead of 0 and 1": (
        read({"context": ["q"], "items": [["a", "b"]], "clicks": [["b"]]}),
        (
            "clicks must be numbers (0/1 or graded), and column 'clicks' has 'b'. If it has the "
            "ids of clicked items, use fc.from_events(log, log, list_id='…', items=('items', "
            "'clicks'), action=None)."
        ),
    ),
    "ids of clicks instead of 0 and 1": (
        read({"context": ["q"], "items": [[10, 20]], "clicks": [[20]]}),
        (
            "1 row breaks the rules of a log:\n"
            "- items and clicks of different length, or with a null between: 1 row, for example "
            "context='q' items=[10, 20] clicks=[20]\n"
            "  remedy: give every item one value in clicks (0 where nothing happened); if it has "
            "the ids of clicked items, use fc.from_events(log, log, list_id='…', items=('items', "
            "'clicks'), action=None).\n"
            'Or leave them out with invalid="drop"; what was dropped is counted by cause.'
        ),
    ),
    "a negative click": (
        read({"context": ["q"], "items": [[10, 20]], "clicks": [[-1, 0]]}),
        (
            "1 row breaks the rules of a log:\n"
            "- negative, NaN or too large clicks: 1 row, for example context='q' items=[10, 20] "
            "clicks=[-1, 0]\n"
            "  remedy: clicks must be numbers from 0 to 1e+100.\n"
            'Or leave them out with invalid="drop"; what was dropped is counted by cause.'
        ),
    ),
    "items that are floats": (
        read({"context": ["q"], "items": [[1.0, 2.0]], "clicks": [[1, 0]]}),
        (
            "the items are of type float64; they must be integers or strings. Convert them first,"
            " for instance in pandas with astype('Int64'), which allows gaps."
        ),
    ),
    "an empty frame": (
        read(pd.DataFrame()),
        "the DataFrame is empty: it has no columns. Check how it was made.",
    ),
    "a frame without rows": (
        read(pd.DataFrame({"context": [], "items": [], "clicks": []})),
        (
            "the log has no rows. Check the path, the filter in where=, and that the day you "
            "asked for was logged."
        ),
    ),
    "a filter by a misspelt column": (
        read(where="dya > 3"),
        (
            "where='dya > 3': there is no column 'dya'. Did you mean 'day'? The source has "
            "context, items, clicks, day, device."
        ),
    ),
    "a filter that keeps nothing": (
        read(where="day > 99"),
        (
            "the log has no rows. Check the path, the filter in where=, and that the day you "
            "asked for was logged."
        ),
    ),
    "a segment called as a result is": (
        read({**LOG, "verdict": ["x"] * 40}, segments="verdict"),
        (
            "a segment or reward cannot be called 'verdict', a name that tallies and results use "
            "themselves. Give it another: segments={'my_verdict': 'verdict'}."
        ),
    ),
    "a depth of 0": (
        read(depth=0),
        "depth=0: give how many positions to read, a whole number from 1 to 100, such as 10.",
    ),
    "nothing at all": (
        candidate(None),
        (
            "candidate: cannot read None; give a path, a glob, a URL or a list of them (Parquet, "
            "CSV or JSON files, a Delta table), a pandas or Polars frame, an Arrow table, "
            "dataset or stream, a pyiceberg table, a DuckDB relation, a Spark DataFrame or an "
            "Ibis table."
        ),
    ),
    "a candidate that is not there": (
        candidate("candidates.parquet"),
        "candidate: no file matches 'candidates.parquet'. Did you mean 'candidate.parquet'?",
    ),
    "a candidate in no directory": (
        candidate("policies/new.parquet"),
        "candidate: no file matches 'policies/new.parquet'. There is no directory 'policies'.",
    ),
    "a candidate with other columns": (
        candidate({"query": ["q"], "ranking": [[1, 2]]}),
        (
            "candidate: 2 named columns are not in the source: context='context', items='items'. "
            "It has the columns query, ranking. Did you mean context='query', items='ranking'? "
            "Name them: fc.Ranking(table, context=…, items=…)."
        ),
    ),
    "no common contexts": (
        candidate({"context": ["Q", "R"], "items": [[1, 2], [3, 4]]}),
        (
            "the candidate has no list for any context of the log: the log has 'q', 'r' (text), "
            "the candidate 'Q', 'R' (text). Write them alike; '7', '07' and '7 ' are different "
            "texts."
        ),
    ),
    "text against integers": (
        lambda _: fc.evaluate(NUMBERED, {"context": ["7"], "items": [[1, 2]]}),
        (
            "the contexts cannot match: the log has 7 (integer), the Ranking '7' (text). Make "
            "both integers or both text, for instance in pandas with astype('int64') or "
            "astype(str)."
        ),
    ),
    "items as text against integers": (
        candidate({"context": ["q", "r"], "items": [["1"], ["3"]]}),
        (
            "the items cannot match: the log has 1 (integer), the Ranking '1' (text). Make both "
            "integers or both text, for instance in pandas with astype('int64') or astype(str)."
        ),
    ),
    "a context without a list": (
        candidate({"context": ["q"], "items": [[2, 1]]}),
        (
            "the candidate has no list for 1 context of the log, for example 'r'. Say what they "
            "should count as: missing='production' (as they are today) or missing='drop' (leave "
            "them out of everything)."
        ),
    ),
    "two lists for a context": (
        candidate({"context": ["q", "q"], "items": [[1, 2], [2, 1]]}),
        (
            "candidate: context 'q' has 2 different lists (1 such case): a Ranking has one list "
            "for each context; for several with probabilities use Lists, for what was logged per "
            "request use Observed."
        ),
    ),
    "an item twice in a list": (
        candidate({"context": ["q", "r"], "items": [[1, 1], [3, 4]]}),
        (
            "candidate: 1 row breaks the rules of a policy:\n"
            "- an item twice in a list: 1 row, for example context='q' items=[1, 1]\n"
            "  remedy: keep the first of each item, or make the items distinct."
        ),
    ),
    "a misspelt score": (
        lambda _: fc.Ranking.from_scores(SCORES),
        (
            "score='score' is no column of the table. Did you mean 'scores'? It has the columns "
            "context, item, scores."
        ),
    ),
    "probabilities that do not sum to 1": (
        lambda _: fc.Lists(CANDIDATE | {"probability": [0.5, 1.0]}),
        (
            "the probabilities of context 'q' sum to 0.5 (1 such case): in every context they "
            "must sum to 1; add the lists that are missing, or divide by the sum."
        ),
    ),
    "a table of lists without probabilities": (
        lambda _: fc.Lists(CANDIDATE),
        (
            "probability='probability' is no column of the table. It has the columns context, "
            "items. For one list a context use Ranking."
        ),
    ),
    "candidates without names": (
        lambda log: fc.compare(log, CANDIDATE),
        "candidates is a table. Give them by name: {'a': …, 'b': …}.",
    ),
    "a comparison by two metrics": (
        lambda log: fc.compare(log, {"a": CANDIDATE}, metrics=["clicks@1", "clicks@2"]),
        "compare takes one metric, and was given 2: clicks@1, clicks@2. Compare by each in turn.",
    ),
    "a comparison without days or users": (
        lambda _: fc.compare(LOG, {"a": CANDIDATE}),
        (
            "the log has no period and no unit, so differences cannot be paired. Read it with "
            "period= or unit=; or compare one candidate with production by fc.evaluate."
        ),
    ),
    "a backtest without days": (
        lambda _: fc.backtest(LOG),
        (
            "a backtest holds out one period at a time, and the log was read without. Name the "
            "column of the day or week: read_log(…, period='…')."
        ),
    ),
    "propensities that were not read": (
        evaluate(logging="propensity"),
        (
            "logging='propensity', but the log was read without. Name their column: read_log(…, "
            "propensity='…')."
        ),
    ),
    "folds of a policy": (
        lambda log: fc.optimize(log, folds=0),  # type: ignore[call-arg]
        (
            "optimize has no option 'folds'. It has log, metrics, estimators, pessimism, "
            "min_shown, max_change, pinned, banned, deterministic, judge."
        ),
    ),
    "an effect in per cent": (
        lambda log: fc.explore(log, CANDIDATE, min_effect=2),
        "min_effect=2: give a share of production above 0 and up to 1. Did you mean 0.02?",
    ),
    "no tally": (
        lambda _: fc.read_tally("tallies/*.parquet"),
        "no tally: no file matches 'tallies/*.parquet'. Check the path.",
    ),
}


@pytest.fixture(scope="module")
def log() -> fc.Log:
    return fc.read_log(LOG, period="day", segments="device")


@pytest.mark.parametrize(("mistake", "message"), MISTAKES.values(), ids=MISTAKES)
def test_the_message_says_what_is_wrong_and_what_to_do(
    log: fc.Log, mistake: Mistake, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "candidate.parquet").touch()
    with pytest.raises(ForeclickError) as error:
        mistake(log)
    assert str(error.value) == message


def test_there_are_thirty_of_them():
    assert len(MISTAKES) >= 30


def test_messages_are_short_and_plain():
    for message in (message for _, message in MISTAKES.values()):
        assert len(message) < 430
        assert message[-1] in ".?"
        assert not any(
            word in message for word in ("SELECT", "foreclick_", "NoneType", "Traceback")
        )
