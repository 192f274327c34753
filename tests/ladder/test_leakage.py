"""If this fails, a candidate that counted the log's own clicks is called better."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick.batches import Floats, batches_of
from foreclick.cli import main
from foreclick.estimation.columns import View
from foreclick.estimation.fits import ALARM, ITEM_LEAKAGE, PAIR_LEAKAGE, Leakage, Slope
from foreclick.ladder.candidates import candidate_features
from foreclick.ladder.diagnostics import counted_clicks
from foreclick.ladder.features import rank_scores
from foreclick.ladder.fit import production_fit
from foreclick.ladder.log_chain import fitted_pairs
from foreclick.simulate import shop

SHOP = shop.Shop(records=20_000, queries=2_000, catalogue=2_000, days=14)
ASKED: Any = {"metrics": "clicks@3", "estimators": "ladder"}
ASSUMED = "Assumes that"


class Case:
    """A log, an honest candidate, and two that count the log's clicks: of a pair, of an item."""

    def __init__(self, kind: shop.Shop = SHOP) -> None:
        drawn = shop.draw(kind, 3)
        rows = drawn.log.select(["query", "items", "clicks"]).to_pylist()
        pairs, items = Counter[Any](), Counter[Any]()
        for row in rows:
            for item, click in zip(row["items"], row["clicks"], strict=True):
                pairs[row["query"], item] += click
                items[item] += click
        shown = {(row["query"], item) for row in rows for item in row["items"]}
        lists = {name: dict[Any, list[Any]]() for name in ("pairs", "items", "honest")}
        for name, of in (("pairs", lambda q, i: pairs[q, i]), ("items", lambda _, i: items[i])):
            luck = np.random.default_rng(1).normal(0, 0.5, len(shown))
            scored = zip(sorted(shown), luck, strict=True)
            best = sorted((q, -np.log1p(of(q, i)) - chance, i) for (q, i), chance in scored)
            for query, _, item in best:
                if len(lists[name].setdefault(query, [])) < SHOP.positions:
                    lists[name][query].append(item)
        for row in drawn.candidates["better"].to_pylist():
            lists["honest"][row["query"]] = row["items"]
        self.lists = lists
        self.pairs, self.items, self.honest = (
            fc.Ranking({"query": list(each), "items": list(each.values())}, context="query")
            for each in lists.values()
        )
        self.rows = rows
        log = fc.read_log(drawn.log, context="query", period="day", unit="user")
        self.tally = fc.tally(log)


@pytest.fixture(scope="module")
def case() -> Case:
    return Case()


def slopes(tally: fc.Tally, candidate: fc.Policy) -> tuple[Slope, Slope]:
    """What the library finds: on a pair, and on its item elsewhere."""
    (batch,) = batches_of(tally)
    fit = production_fit(batches_of(tally), fc.Ladder(), "clicks")
    part = fitted_pairs(batch, fit).with_candidates(np.zeros((0, batch.pair_count, 2)))
    features = candidate_features(View.of(batch, [candidate], batch.depth))
    return counted_clicks([part], [features[:, : batch.pair_count]], fit.parameters)[0]


def clustered(x: Floats, y: Floats, clusters: list[list[Any]]) -> Slope:
    """The coefficient of the last column, and its z by errors as if it were 0."""
    nu = x[:, -1] - x[:, :-1] @ np.linalg.lstsq(x[:, :-1], x[:, -1], rcond=None)[0]
    residual = y - x[:, :-1] @ np.linalg.lstsq(x[:, :-1], y, rcond=None)[0]
    spreads = []
    for cluster in clusters:
        scores = Counter[Any]()
        for which, score in zip(cluster, nu * residual, strict=True):
            scores[which] += score
        spreads.append(np.sqrt(sum(score**2 for score in scores.values())))
    return Slope(float(nu @ y / (nu @ nu)), float(nu @ residual / max(spreads)))


def by_hand(case: Case, lists: dict[Any, list[Any]]) -> tuple[Slope, Slope]:
    """The formula of `diagnostics`, pair after pair."""
    fit = production_fit(batches_of(case.tally), fc.Ladder(), "clicks")
    assert not fit.finer
    assert fit.stopping is None
    (batch,) = batches_of(case.tally)
    part = fitted_pairs(batch, fit).with_candidates(np.zeros((0, batch.pair_count, 2)))
    queries, items = batch.contexts.to_pylist(), batch.items.to_pylist()
    numbers = zip(batch.pair_context, batch.pair_item, strict=True)
    keys = [(queries[x], items[j]) for x, j in numbers]
    prior = dict(zip(keys, part.rates(fit.parameters).m, strict=True))
    z, a = rank_scores(10), fit.parameters.a
    n, height, e, c = (Counter[Any]() for _ in range(4))
    records = Counter(row["query"] for row in case.rows)
    for row in case.rows:
        for k, (item, click) in enumerate(zip(row["items"], row["clicks"], strict=True)):
            key = row["query"], item
            n[key] += 1
            height[key] += z[k]
            e[key] += fit.parameters.p[k]
            c[key] += click
    alpha = {key: (c[key] + a) / (e[key] + a / prior[key]) for key in keys}
    before, after, clicks = Counter[Any](), Counter[Any](), Counter[Any]()
    for key in keys:
        before[key[1]] += e[key] * prior[key]
        after[key[1]] += e[key] * alpha[key]
        clicks[key[1]] += c[key]
    places = {(q, item): z[k] for q, items in lists.items() for k, item in enumerate(items)}
    x, counts, y = [], [], []
    for key in keys:
        q, j = key
        s, u, m, r = n[key] / records[q], height[key] / records[q], prior[key], alpha[key]
        mine = before[j] - e[key] * m, after[j] - e[key] * r, clicks[j] - c[key]
        curves = np.array(
            [
                np.log(1 + mine[0]),
                np.log((1 + mine[1]) / (1 + mine[0])),
                np.log(1 + e[key]),
                np.log(1 + records[q]),
                np.log(r / m),
            ]
        )
        x.append([1, s, u, s * s, *curves, *curves**2, np.log(m), np.log(r) ** 2])
        pair = np.log(1 + c[key]) - np.log(1 + e[key] * r)
        counts.append([pair, np.log(1 + mine[2]) - np.log(1 + mine[1])])
        y.append(places.get(key, 0.0) + 0.4 * (key in places))
    clusters = [[j for _, j in keys], [q for q, _ in keys]]
    known, nu, told = np.array(x), np.array(counts), np.array(y)
    pair, item = (clustered(np.column_stack([known, one]), told, clusters) for one in nu.T)
    return pair, item


@pytest.fixture(scope="module")
def small_case() -> Case:
    return Case(replace(SHOP, records=4_000, queries=400, catalogue=400))


@pytest.mark.parametrize("name", ["pairs", "items", "honest"])
def test_the_statistic_is_what_the_formula_says(small_case, name):
    case = small_case
    found, right = slopes(case.tally, getattr(case, name)), by_hand(case, case.lists[name])
    np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)


def test_an_honest_candidate_is_told_from_those_that_count(case):
    pair, item = slopes(case.tally, case.honest)
    assert not Leakage(0.0, pair, item).alarm
    pair, _ = slopes(case.tally, case.pairs)
    assert pair.z > 2 * PAIR_LEAKAGE.z
    assert pair.size > PAIR_LEAKAGE.size
    _, item = slopes(case.tally, case.items)
    assert item.z > 2 * ITEM_LEAKAGE.z
    assert item.size > ITEM_LEAKAGE.size


def test_size_and_z_both_count():
    large, sure = Slope(1.0, 1.0), Slope(0.01, 30.0)
    assert not Leakage(0.0, large, large).alarm
    assert not Leakage(0.0, sure, sure).alarm
    assert not Leakage(ALARM).alarm
    assert Leakage(ALARM + 1).alarm == ALARM + 1
    assert Leakage(ALARM + 1, Slope(1.0, 30.0)).alarm == 30.0


@pytest.mark.parametrize("name", ["pairs", "items"])
def test_a_candidate_that_counts_the_clicks_is_not_judged(case, name):
    answer = fc.evaluate(case.tally, getattr(case, name), **ASKED)
    assert answer["verdict"] == ["cannot tell"]
    (note,) = (note for note in answer.notes if "trained on these clicks" in note)
    assert note.startswith("Cannot tell")
    assert note.endswith("trained_until=…, or evaluate it on later days.")


def test_an_honest_answer_ends_with_what_it_assumes(case):
    answer = fc.evaluate(case.tally, case.honest, **ASKED)
    assert answer["verdict"] == ["better"]
    assert answer.headline.sentences[-1].startswith(ASSUMED)
    assert str(answer).count(ASSUMED) == 1


def test_before_settles_it(case):
    answer = fc.evaluate(case.tally, case.honest, trained_until="before", **ASKED)
    plain = fc.evaluate(case.tally, case.honest, **ASKED)
    assert answer.rows == plain.rows
    assert answer.notes == plain.notes
    assert (answer.assumed, plain.assumed[: len(ASSUMED)]) == ("", ASSUMED)


def test_before_is_not_believed_of_a_candidate_that_follows_luck_far(case):
    answer = fc.evaluate(case.tally, case.pairs, trained_until="before", **ASKED)
    assert answer["verdict"] == ["cannot tell"]
    assert any("in spite of trained_until='before'" in note for note in answer.notes)


def test_before_is_believed_where_the_test_may_be_wrong(case, monkeypatch):
    small = [Leakage(item=Slope(0.05, 6.0))]
    monkeypatch.setattr("foreclick.ladder.fit._leakages", lambda *_: tuple(small))
    again = case.tally.with_rows(case.tally.stored)  # of which no fit is kept
    assert fc.evaluate(again, case.honest, **ASKED)["verdict"] == ["cannot tell"]
    told = fc.evaluate(again, case.honest, trained_until="before", **ASKED)
    assert told["verdict"] == ["better"]


def test_a_comparison_says_it_once(case):
    found = fc.compare(case.tally, {"a": case.honest, "b": case.items}, **ASKED)
    assert any(note.startswith("b seems to have been trained") for note in found.notes)
    assert found.headline.sentences[-1].startswith(f"{ASSUMED} the other candidates were not")


def test_nothing_is_assumed_of_the_log_itself_or_of_chance(case):
    for candidate in (fc.Observed(case.tally), chances(case)):
        answer = fc.evaluate(case.tally, candidate, metrics="clicks@3", estimators="ladder-ip")
        assert ASSUMED not in str(answer)


def chances(case: Case) -> fc.Marginals:
    """Every item that a query showed, at any position."""
    rows = {(row["query"], item) for row in case.rows for item in row["items"]}
    count = Counter(query for query, _ in rows)
    table = [
        {"query": q, "item": i, "position": k, "probability": 1 / max(count[q], 10)}
        for q, i in sorted(rows)
        for k in range(1, 4)
    ]
    columns = {name: [row[name] for row in table] for name in table[0]}
    return fc.Marginals(columns, context="query")


def test_tiny_logs_are_not_tested():
    """Nor those of which the rates tell all that counts do."""
    kind = shop.Shop(records=300, queries=20, pool=12, catalogue=120, positions=4, days=2)
    drawn = shop.draw(kind, 1)
    tally = fc.tally(fc.read_log(drawn.log, context="query", period="day"))
    few = fc.Ranking(drawn.candidates["better"], context="query")
    assert slopes(tally, few) == (Slope(), Slope())


def test_logs_without_periods_are_tested(case):
    log = {name: [row[name] for row in case.rows] for name in ("query", "items", "clicks")}
    tally = fc.tally(fc.read_log(log, context="query"))
    assert fc.evaluate(tally, case.items, **ASKED)["verdict"] == ["cannot tell"]
    honest = fc.evaluate(tally, case.honest, **ASKED)
    assert honest.assumed.startswith(ASSUMED)


def test_the_command_line_takes_before(case, tmp_path, capsys):
    case.tally.write_parquet(tmp_path / "log.parquet")
    honest = case.lists["honest"]
    table = pa.table({"query": list(honest), "items": list(honest.values())})
    pq.write_table(table, tmp_path / "new.parquet")
    words = [str(tmp_path / "log.parquet"), str(tmp_path / "new.parquet"), "-m", "clicks@3"]
    assert main(["gate", *words, "--trained-until", "before"]) == 0
    assert ASSUMED not in capsys.readouterr().out
