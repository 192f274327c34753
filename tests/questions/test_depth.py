"""If this fails, a candidate with shorter lists is charged for what its file lacks."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick.cli import main
from foreclick.errors import MetricError

ITEMS = np.arange(11, 23)
BEST = ITEMS[::-1][:10].tolist()
SHORT, WHOLE = BEST[:3], BEST
SENTENCE = (
    "Lists are compared down to position 3: those of the candidate at position 3 end there, and "
    "production's go on."
)


def log_of(depth: int = 10, records: int = 3_000) -> dict[str, Any]:
    """Lists in random order; later items are better, and lower positions are examined less."""
    rng = np.random.default_rng(4)
    items = np.array([rng.permutation(ITEMS)[:depth] for _ in range(records)])
    rates = 0.04 + 0.03 * (items - ITEMS[0])
    clicks = rng.random(items.shape) < rates / (1 + np.arange(depth) / 3)
    return {
        "context": rng.choice(["q", "r"], records).tolist(),
        "items": items.tolist(),
        "clicks": clicks.astype(int).tolist(),
        "period": rng.integers(0, 10, records).tolist(),
    }


LOG = log_of()


def lists(*each: list[Any]) -> dict[str, Any]:
    return {"context": ["q", "r"], "items": [*each, *each][:2]}


@pytest.fixture(scope="module")
def log():
    return fc.read_log(LOG, period="period")


def numbers(answer: fc.Evaluation, metric: str) -> list[float]:
    row: Any = next(r for r in answer.rows if r["metric"] == metric)
    return [float(row[name]) for name in ("value", "production", "lift", "lift_low", "lift_high")]


def test_the_usual_metrics_end_where_the_candidate_ends(log):
    answer = fc.evaluate(log, lists(SHORT))
    assert list(dict.fromkeys(answer["metric"])) == ["clicks@3", "dcg@3"]
    assert answer.headline.sentences[0] == SENTENCE
    assert {row["verdict"] for row in answer.rows} == {"better"}
    asked = fc.evaluate(log, lists(SHORT), metrics=["clicks@3", "dcg@3"])
    assert not asked.compared
    for metric in ("clicks@3", "dcg@3"):
        assert numbers(answer, metric) == pytest.approx(numbers(asked, metric), rel=1e-9)


def test_a_metric_that_was_chosen_is_refused_with_the_way_to_ask(log):
    for metrics in ("dcg@10", "ctr@10", "clicks@3/clicks@10", fc.Metric([1] * 5)):
        with pytest.raises(MetricError, match=r"below position 3.* Ask for"):
            fc.evaluate(log, lists(SHORT), metrics=metrics)
    with pytest.raises(MetricError, match="clicks@10 would count nothing"):
        fc.evaluate(log, lists(SHORT), guardrails={"clicks@10": 0.01})


def test_fewer_items_are_asked_for_by_positions_that_are_null(log):
    """Of ten positions seven are to be empty: fewer clicks, which is the answer."""
    answer = fc.evaluate(log, lists(SHORT + [None] * 7), metrics="clicks@10")
    assert not answer.compared
    cut = fc.evaluate(log, lists(SHORT), metrics="clicks@3")
    assert numbers(answer, "clicks@10")[0] == pytest.approx(numbers(cut, "clicks@3")[0], rel=0.01)
    assert float(answer["lift"][0] or 0) < 0 < float(cut["lift"][0] or 0)
    assert fc.evaluate(log, lists(SHORT), metrics="shown@10")["value"][0] == 3


def test_whole_lists_and_those_as_short_as_the_log_are_answered_as_asked(log):
    assert not fc.evaluate(log, lists(WHOLE)).compared
    assert not fc.evaluate(log, lists(WHOLE, SHORT)).compared  # in one context fewer are found
    short = fc.evaluate(log_of(3, 300), lists(SHORT), metrics=["clicks@3", "dcg@10"])
    assert "dcg@10" in short["metric"]
    assert not short.compared


def test_only_contexts_count_that_the_candidate_knows():
    """In `q` all lists are short, the candidate's and production's; of `r` it says nothing."""
    ends = [3 if context == "q" else 10 for context in LOG["context"]]
    lists_of = {name: zip(LOG[name], ends, strict=True) for name in ("items", "clicks")}
    ragged = LOG | {name: [row[:end] for row, end in rows] for name, rows in lists_of.items()}
    some = {"context": ["q"], "items": [SHORT]}
    answer = fc.evaluate(ragged, some, metrics="dcg@10", missing="drop")
    assert answer["metric"][0] == "dcg@10"
    with pytest.raises(MetricError, match=r"in 1 context \(50% of the records\), for example 'r'"):
        fc.evaluate(ragged, lists(SHORT), metrics="dcg@10")


def test_contexts_that_only_the_candidate_has_change_nothing(log):
    more = {"context": ["q", "r", "z"], "items": [SHORT, SHORT, WHOLE]}
    assert fc.evaluate(log, more).headline.sentences[0] == SENTENCE


def test_a_baseline_may_end_first(log):
    answer = fc.evaluate(log, lists(WHOLE), baseline=lists(SHORT))
    assert "those of the baseline at position 3" in answer.headline.sentences[0]
    assert not fc.evaluate(log, lists(WHOLE), baseline=fc.Observed(log)).compared


def test_items_at_positions_end_too(log):
    slots = {"context": ["q", "q", "r", "r"], "item": BEST[:2] * 2, "position": [1, 2] * 2}
    answer = fc.evaluate(log, fc.Marginals(slots | {"probability": [1.0] * 4}))
    assert list(dict.fromkeys(answer["metric"])) == ["clicks@2", "dcg@2"]


def test_several_candidates_are_compared_down_to_the_first_end(log):
    three = {"all": lists(WHOLE), "two": lists(BEST[:2]), "one": lists(BEST[:1])}
    answer = fc.compare(log, three)
    assert set(answer["metric"]) == {"clicks@1"}
    assert answer.headline.sentences[0] == (
        "Lists are compared down to position 1: those of 'two' at position 2 and 'one' at position "
        "1 end there, and production's go on."
    )
    with pytest.raises(MetricError, match="nothing of 'two' below position 2"):
        fc.compare(log, three, metrics="dcg@10")
    assert not fc.compare(log, {"all": three["all"]}, metrics="dcg@10").compared


def test_the_report_and_explore_say_it(log):
    report = fc.report(log, lists(SHORT), backtest=False)
    assert set(report.evaluation["metric"]) == {"clicks@3", "dcg@3"}
    assert SENTENCE.replace("'", "&#39;") in report.page()
    plan = fc.explore(log, lists(BEST[:2]))
    assert "clicks@2" in plan.title
    assert "compared down to position 2" in plan.title


def test_the_command_line_says_it(tmp_path, capsys):
    files = [str(tmp_path / name) for name in ("log.parquet", "new.parquet")]
    for path, table in zip(files, (LOG, lists(SHORT)), strict=True):
        pq.write_table(pa.table(table), path)
    assert main(["evaluate", *files, "--period", "period"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert SENTENCE in out
    assert "dcg@3" in out
    assert main(["evaluate", *files, "--period", "period", "-m", "dcg@10"]) == 2
    assert "Ask for 'dcg@3'" in " ".join(capsys.readouterr().err.split())
