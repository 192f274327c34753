"""`evaluate` gives the oracle's numbers: every model, metric and clip, on a hundred logs.

Many logs travel as one, told apart by a segment, so that a call answers for all of them. Each has
contexts of its own, so how they are packed changes nothing.
"""

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from tests.answers import clipped
from tests.tries import tries
from tests.truth import oracle, parts, random_logs
from tests.truth.oracle import Record
from tests.truth.paper import paper
from tests.truth.random_logs import Case, random_case

# The lists are few and short by design; that contexts hardly repeat is no news here.
pytestmark = pytest.mark.filterwarnings("ignore::foreclick.errors.ForeclickWarning")

# Engines add and multiply in another order than the oracle. The sums have at most a few hundred
# terms of size 1 to 100, each exact to 1e-16, so 1e-12 leaves room for the order and nothing else.
SAME = 1e-12

METRICS = {
    "clicks@2": oracle.clicks_at(2),
    "clicks@3": oracle.clicks_at(3),
    "dcg@10": oracle.dcg_at(10),
}
CLIPS = (1, 5, 100, math.inf)
EVERYTHING: Mapping[str, Any] = {
    "estimators": clipped(paper(oracle.MODELS), list(CLIPS)),
    "metrics": list(METRICS),
}


def assert_row(found, expected, where):
    for column, right in expected._asdict().items():
        told = f"{column} of {where}: {found[column]} is not {right}"
        if right is None:
            assert found[column] is None, told
        else:
            assert found[column] is not None, told
            assert math.isclose(found[column], right, rel_tol=SAME, abs_tol=SAME), told


def assert_case(rows, case, missing, **known):
    """All rows of one log, and no others, as the oracle has them."""
    assert len(rows) == len(oracle.MODELS) * len(METRICS) * len(CLIPS)
    by_name = {(row["estimator"], row["metric"], row["clip"]): row for row in rows}
    for model in oracle.MODELS:
        for metric, theta in METRICS.items():
            for clip in CLIPS:
                expected = oracle.evaluate(
                    model, case.records, case.candidate, theta, clip, missing=missing, **known
                )
                where = f"{model}, {metric}, M={clip}, {missing}, {case}"
                assert_row(by_name[model, metric, clip], expected, where)


def make_cases(count, seed, *, text, deterministic):
    rng = np.random.default_rng(seed)
    return [
        random_case(f"{seed}-{i}", rng, text=text, deterministic=deterministic)
        for i in range(count)
    ]


def candidate_table(cases, *, deterministic):
    policy = random_logs.merged(case.candidate for case in cases)
    if deterministic:
        return random_logs.ranking_table(policy)
    return random_logs.lists_table(policy)


def assert_packed(cases, log, candidate, missing):
    """One call with `by`, held against the oracle log by log."""
    log = fc.read_log(log, segments=("log",))
    evaluation = fc.evaluate(
        log, candidate, by="log", missing=missing, **EVERYTHING, confidence=None
    )
    rows: dict[str, list[dict[str, Any]]] = {case.name: [] for case in cases}
    for row in evaluation.to_dicts():
        rows[row["log"]].append(row)
    for case in cases:
        assert_case(rows[case.name], case, missing)


@pytest.mark.parametrize("missing", ["production", "drop"])
@pytest.mark.parametrize("deterministic", [False, True], ids=["lists", "ranking"])
@pytest.mark.parametrize("text", [False, True], ids=["integers", "strings"])
def test_many_logs(text, deterministic, missing):
    """Ten logs for each of the eight combinations; two hundred logs in a long run."""
    seed = 100 + 4 * text + 2 * deterministic + (missing == "drop")
    cases = make_cases(tries(10, 25), seed, text=text, deterministic=deterministic)
    policy = fc.Ranking if deterministic else fc.Lists
    candidate = policy(candidate_table(cases, deterministic=deterministic))
    assert_packed(cases, random_logs.packed_log_table(cases), candidate, missing)


def test_some_logs_on_every_engine(engine):
    cases = make_cases(tries(8, 20), 200, text=True, deterministic=False)
    log = engine.load(random_logs.packed_log_table(cases))
    candidate = fc.Lists(engine.load(candidate_table(cases, deterministic=False)))
    assert_packed(cases, log, candidate, "production")


def test_a_candidate_in_memory_for_a_log_on_any_engine(engine):
    """Nobody uploads a candidate by hand to a warehouse to learn what it is worth."""
    case = random_case("memory", np.random.default_rng(250), deterministic=True)
    log = fc.read_log(engine.load(random_logs.log_table(case.records)))
    candidate = fc.Ranking(random_logs.ranking_table(case.candidate))
    found = fc.evaluate(
        log,
        candidate,
        estimators=clipped(["ip"], 5),
        metrics=["dcg@10"],
        missing="drop",
        confidence=None,
    )
    (row,) = found.to_dicts()
    expected = oracle.evaluate(
        "ip", case.records, case.candidate, METRICS["dcg@10"], 5, missing="drop"
    )
    assert_row(row, expected, str(case))


@pytest.mark.parametrize("seed", range(300, 300 + tries(5, 10)))
def test_a_log_of_its_own(seed):
    """Without segments; contexts are integers in every other log."""
    rng = np.random.default_rng(seed)
    deterministic = seed % 4 < 2
    case = random_case("alone", rng, text=seed % 3 == 0, deterministic=deterministic)
    if seed % 2:
        case = with_integer_contexts(case)
    missing: Literal["production", "drop"] = "production" if seed % 5 < 3 else "drop"
    log = fc.read_log(random_logs.log_table(case.records))
    table = candidate_table([case], deterministic=deterministic)
    candidate = fc.Ranking(table) if deterministic else fc.Lists(table)
    evaluation = fc.evaluate(log, candidate, missing=missing, **EVERYTHING, confidence=None)
    assert_case(evaluation.to_dicts(), case, missing)


def with_integer_contexts(case):
    names = sorted({record.context for record in case.records} | case.candidate.keys())
    number = {name: 10 + i for i, name in enumerate(names)}
    records = [record._replace(context=number[record.context]) for record in case.records]
    return Case(case.name, records, {number[c]: lists for c, lists in case.candidate.items()})


def test_segments_that_share_contexts_share_their_rates():
    """By a segment, weights are those of the whole log; a part is what its records stand for."""
    rng = np.random.default_rng(400)
    items = np.arange(5)
    halves = {
        name: [r for c in "xyz" for r in random_logs.random_records(c, items, rng)]
        for name in ("web", "app")
    }
    records = [record for half in halves.values() for record in half]
    segments = [name for name, half in halves.items() for _ in half]
    policy = {
        context: random_logs.random_lists(context, items, records, rng, deterministic=False)
        for context in "xy"
    }
    log = fc.read_log(random_logs.log_table(records, log=segments), segments=("log",))
    candidate = fc.Lists(random_logs.lists_table(policy))
    found = fc.evaluate(log, candidate, by="log", missing="drop", **EVERYTHING, confidence=None)
    used = [(name, r) for name, r in zip(segments, records, strict=True) if r.context in policy]
    for row in found.to_dicts():
        if row["clip"] == 1:
            continue  # rounding decides which weights are clipped
        inside, theta = [name == row["log"] for name, _ in used], METRICS[row["metric"]]
        asked = row["estimator"], [r for _, r in used]
        own = parts.of_cells(*asked, policy, theta, row["clip"])
        right = parts.evaluate(*asked, inside, policy, theta, row["clip"])
        right["value"] = parts.mean(own, asked[1], inside).worth
        mine = [r for r in halves[row["log"]] if r.context in policy]
        right["production"], right["records"] = oracle.production(mine, theta), len(mine)
        for column, value in right.items():
            where = f"{column} of {row['estimator']}, {row['metric']}, M={row['clip']}"
            assert row[column] == pytest.approx(value, rel=1e-11, abs=1e-11), where
    whole = Case("both", records, dict(policy))
    assert_case([dict(row) for row in found.whole], whole, "drop")
    rows = fc.evaluate(log, candidate, missing="drop", **EVERYTHING, confidence=None).to_dicts()
    assert_case(rows, whole, "drop")


@pytest.mark.parametrize("gaps", [False, True], ids=["all logged lists", "some never shown"])
@pytest.mark.parametrize("seed", [500, 501])
def test_a_known_logging_policy(seed, gaps):
    """STATISTICS 3.2: a logged cell with π = 0 weighs M if that is finite, else it is dropped."""
    rng = np.random.default_rng(seed)
    case = random_case("known", rng)
    logging = random_logging(case, rng, gaps=gaps)
    evaluation = fc.evaluate(
        fc.read_log(random_logs.log_table(case.records)),
        fc.Lists(random_logs.lists_table(case.candidate)),
        logging=fc.Lists(random_logs.lists_table(logging)),
        missing="drop",
        **EVERYTHING,
        confidence=None,
    )
    assert_case(evaluation.to_dicts(), case, "drop", logging=logging)


def random_logging(case, rng, *, gaps):
    """A policy over the logged lists and some others, with or without holes."""
    logging = {}
    for context, shown in oracle.frequencies(case.records).items():
        known = {*shown, *sorted(case.candidate.get(context, {}))[:1], (100, 107)}
        if gaps:
            known.remove(min(shown))
        chances = rng.dirichlet(np.ones(len(known)))
        logging[context] = dict(zip(sorted(known), chances.tolist(), strict=True))
    return logging


@pytest.mark.parametrize("theta", [(1.0, 0.5, 0.25), (0.0, 1.0), (1.0, 0.0, 2.0, 0.0)])
def test_weights_of_your_own(theta):
    """Zeros in front, between and behind; the list model compares no further than the last > 0."""
    case = random_case("theta", np.random.default_rng(600))
    rows = fc.evaluate(
        fc.read_log(random_logs.log_table(case.records)),
        fc.Lists(random_logs.lists_table(case.candidate)),
        estimators=clipped(paper(oracle.MODELS), [2, math.inf]),
        metrics=[fc.Metric(theta)],
        missing="production",
        confidence=None,
    ).to_dicts()
    assert len(rows) == 2 * len(oracle.MODELS)
    for row in rows:
        expected = oracle.evaluate(
            row["estimator"], case.records, case.candidate, theta, row["clip"]
        )
        assert_row(row, expected, f"{row['estimator']}, M={row['clip']}, {theta}")


def test_an_examination_of_your_own():
    case = random_case("examined", np.random.default_rng(700))
    p = (0.9, 0.7, 0.65, 0.2, 0.1, 0.05)
    theta = oracle.clicks_at(6)
    mine = fc.ClickModel("mine", cell=("item",), examination=p)
    (row,) = fc.evaluate(
        fc.read_log(random_logs.log_table(case.records)),
        fc.Lists(random_logs.lists_table(case.candidate)),
        estimators=clipped([fc.Weighted(mine)], 3),
        metrics=["clicks@6"],
        missing="production",
        confidence=None,
    ).to_dicts()
    expected = oracle.evaluate("pbm", case.records, case.candidate, theta, 3, p=p)
    assert_row(row, expected, "an examination of your own")


def test_weighted_rows_count_as_often_as_they_stand_for():
    rng = np.random.default_rng(800)
    case = random_case("weighted", rng)
    weights = rng.choice([0.5, 1.0, 2.0, 10.0], len(case.records)).tolist()
    records = [r._replace(weight=w) for r, w in zip(case.records, weights, strict=True)]
    case = Case(case.name, records, case.candidate)
    evaluation = fc.evaluate(
        fc.read_log(random_logs.weighted_log_table(records), count="weight"),
        fc.Lists(random_logs.lists_table(case.candidate)),
        missing="production",
        **EVERYTHING,
        confidence=None,
    )
    assert_case(evaluation.to_dicts(), case, "production")


def test_a_log_without_clicks_is_worth_nothing_and_has_no_lift():
    records = [Record("q", (1, 2), (0.0, 0.0))] * 6
    candidate = fc.Ranking(pa.table({"context": ["q"], "items": [[2, 1]]}))
    log = fc.read_log(random_logs.log_table(records))
    rows = fc.evaluate(
        log, candidate, estimators=["item", "rctr"], metrics="clicks@2", confidence=None
    ).to_dicts()
    for row in rows:
        assert (row["value"], row["production"], row["change"]) == (0, 0, 0)
        assert row["lift"] is None
