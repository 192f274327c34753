"""If this fails, a candidate that counted the log's own clicks is called better."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick.batches import batches_of
from foreclick.cli import main
from foreclick.estimation.columns import View
from foreclick.estimation.fits import ALARM, ITEM_LEAKAGE, PAIR_LEAKAGE, Leakage, Slope
from foreclick.ladder.candidates import candidate_features
from foreclick.ladder.diagnostics import counted_clicks
from foreclick.ladder.features import rank_scores
from foreclick.ladder.fit import production_fit
from foreclick.ladder.log_chain import fitted_pairs
from foreclick.simulate import shop
from tests.ladder.scenes import drawn, ranking

SHOP = shop.Shop(records=20_000, queries=2_000, catalogue=2_000, days=14)
ASKED: Any = {"metrics": "clicks@3", "estimators": "ladder"}
ASSUMED = "Assumes that"
K = 10


class Case:
    """A log, an honest candidate, and two that count the log's clicks: of a pair, of an item."""

    def __init__(self, kind: shop.Shop = SHOP) -> None:
        self.found, self.tally = drawn(kind, 3)
        log, own = self.found.log, ["query", "item"]
        slots = pd.DataFrame(
            {
                "query": np.repeat(log["query"], K),
                "item": log["items"].combine_chunks().flatten(),
                "clicks": log["clicks"].combine_chunks().flatten(),
                "position": np.tile(np.arange(K), len(log)),
            }
        )
        self.slots, pairs = slots, slots.groupby(own, as_index=False)["clicks"].sum()
        items = pairs.groupby("item")["clicks"].transform("sum")
        luck = np.random.default_rng(1).normal(0, 0.5, len(pairs))
        self.lists = {}
        for name, clicks in (("pairs", pairs["clicks"]), ("items", items)):
            best = pairs.assign(score=-np.log1p(clicks) - luck).sort_values(["query", "score"])
            self.lists[name] = best.groupby("query").head(K).groupby("query")["item"].agg(list)
        honest = self.found.candidates["better"].to_pandas()
        self.lists["honest"] = honest.set_index("query")["items"]
        self.shown = pairs
        self.pairs, self.items, self.honest = (
            fc.Ranking({"query": each.index, "items": each.tolist()}, context="query")
            for each in self.lists.values()
        )


@pytest.fixture(scope="module")
def case() -> Case:
    return Case()


def pairs_of(tally: fc.Tally) -> Any:  # noqa: ANN401
    """The one batch, the fit to it, and its pairs."""
    (batch,), fit = batches_of(tally), production_fit(batches_of(tally), fc.Ladder(), "clicks")
    none = np.zeros((0, batch.pair_count, 2))
    return batch, fit, fitted_pairs(batch, fit).with_candidates(none)


def slopes(tally: fc.Tally, candidate: fc.Policy) -> tuple[Slope, Slope]:
    """What the library finds: on a pair, and on its item elsewhere."""
    batch, fit, part = pairs_of(tally)
    features = candidate_features(View.of(batch, [candidate], batch.depth))
    return counted_clicks([part], [features[:, : batch.pair_count]], fit.parameters)[0]


def clustered(x: Any, nu: Any, y: Any) -> Slope:  # noqa: ANN401
    """The coefficient of the last column, and its z by errors as if it were 0."""
    nu, residual = (v - x @ np.linalg.lstsq(x, v, rcond=None)[0] for v in (nu, y))
    sums = [(nu * residual).groupby(level).sum() for level in ("item", "query")]
    spread = max(np.sqrt((each**2).sum()) for each in sums)
    return Slope(float(nu @ y / (nu @ nu)), float(nu @ residual / spread))


def by_hand(case: Case, name: str) -> tuple[Slope, Slope]:
    """The formula of `diagnostics`, of all pairs."""
    batch, fit, part = pairs_of(case.tally)
    assert not fit.finer
    assert fit.stopping is None
    z, a, k = rank_scores(K), fit.parameters.a, case.slots["position"]
    slots = case.slots.assign(n=1, height=z[k], e=fit.parameters.p[k])
    pair = slots.groupby(["query", "item"])[["n", "height", "e", "clicks"]].sum()
    queries, items = np.asarray(batch.contexts), np.asarray(batch.items)
    keys = [queries[batch.pair_context], items[batch.pair_item]]
    m = pd.Series(part.rates(fit.parameters).m, keys).reindex(pair.index)
    n, e, c = pair["n"], pair["e"], pair["clicks"]
    r, records = (c + a) / (e + a / m), n.groupby("query").transform("sum") / K
    before, after, clicks = (
        each.groupby("item").transform("sum") - each for each in (e * m, e * r, c)
    )
    s, u = n / records, pair["height"] / records
    curves = [np.log(1 + before), np.log((1 + after) / (1 + before))]
    curves += [np.log(1 + e), np.log(1 + records), np.log(r / m)]
    known = [m * 0 + 1, s, u, s * s, *curves, *(x**2 for x in curves), np.log(m), np.log(r) ** 2]
    found = case.lists[name].explode()
    heights = pd.Series(
        z[found.groupby("query").cumcount()] + 0.4, [found.index, found.astype("int64")]
    )
    y, x = heights.reindex(pair.index, fill_value=0.0), np.column_stack(known)
    one, other = np.log((1 + c) / (1 + e * r)), np.log((1 + clicks) / (1 + after))
    return clustered(x, one, y), clustered(x, other, y)


@pytest.fixture(scope="module")
def small_case() -> Case:
    return Case(replace(SHOP, records=4_000, queries=400, catalogue=400))


@pytest.mark.parametrize("name", ["pairs", "items", "honest"])
def test_the_statistic_is_what_the_formula_says(small_case: Case, name: str) -> None:
    found = slopes(small_case.tally, getattr(small_case, name))
    np.testing.assert_allclose(found, by_hand(small_case, name), rtol=1e-5, atol=1e-6)


def test_an_honest_candidate_is_told_from_those_that_count(case: Case) -> None:
    pair, item = slopes(case.tally, case.honest)
    assert not Leakage(0.0, pair, item).alarm
    pair, _ = slopes(case.tally, case.pairs)
    assert pair.z > 2 * PAIR_LEAKAGE.z
    assert pair.size > PAIR_LEAKAGE.size
    _, item = slopes(case.tally, case.items)
    assert item.z > 2 * ITEM_LEAKAGE.z
    assert item.size > ITEM_LEAKAGE.size


def test_size_and_z_both_count() -> None:
    large, sure = Slope(1.0, 1.0), Slope(0.01, 30.0)
    assert not Leakage(0.0, large, large).alarm
    assert not Leakage(0.0, sure, sure).alarm
    assert not Leakage(ALARM).alarm
    assert Leakage(ALARM + 1).alarm == ALARM + 1
    assert Leakage(ALARM + 1, Slope(1.0, 30.0)).alarm == 30.0


@pytest.mark.parametrize("name", ["pairs", "items"])
def test_a_candidate_that_counts_the_clicks_is_not_judged(case: Case, name: str) -> None:
    answer = fc.evaluate(case.tally, getattr(case, name), **ASKED)
    assert answer["verdict"] == ["cannot tell"]
    (note,) = (note for note in answer.notes if "trained on these clicks" in note)
    assert note.startswith("Cannot tell")
    assert note.endswith("trained_until=…, or evaluate it on later days.")


def test_an_honest_answer_ends_with_what_it_assumes_which_before_settles(case: Case) -> None:
    plain = fc.evaluate(case.tally, case.honest, **ASKED)
    assert plain["verdict"] == ["better"]
    assert plain.headline.sentences[-1].startswith(ASSUMED)
    assert str(plain).count(ASSUMED) == 1
    settled = fc.evaluate(case.tally, case.honest, trained_until="before", **ASKED)
    assert (settled.rows, settled.notes) == (plain.rows, plain.notes)
    assert (settled.assumed, plain.assumed[: len(ASSUMED)]) == ("", ASSUMED)


def test_before_is_not_believed_of_a_candidate_that_follows_luck_far(case: Case) -> None:
    answer = fc.evaluate(case.tally, case.pairs, trained_until="before", **ASKED)
    assert answer["verdict"] == ["cannot tell"]
    assert "in spite of trained_until='before'" in str(answer.notes)


def test_before_is_believed_where_the_test_may_be_wrong(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = (Leakage(item=Slope(0.05, 6.0)),)
    monkeypatch.setattr("foreclick.ladder.fit._leakages", lambda *_: small)
    again = case.tally.with_rows(case.tally.stored)  # of which no fit is kept
    for until, verdict in ((None, "cannot tell"), ("before", "better")):
        answer = fc.evaluate(again, case.honest, trained_until=until, **ASKED)
        assert answer["verdict"] == [verdict]


def test_a_comparison_says_it_once(case: Case) -> None:
    found = fc.compare(case.tally, {"a": case.honest, "b": case.items}, **ASKED)
    assert any(note.startswith("b seems to have been trained") for note in found.notes)
    assert found.headline.sentences[-1].startswith(f"{ASSUMED} the other candidates were not")


def test_nothing_is_assumed_of_the_log_itself_or_of_chance(small_case: Case) -> None:
    """Chance shows every item that a query showed, at any position."""
    tally, some = small_case.tally, small_case.shown
    some = some.merge(pd.DataFrame({"position": [1, 2, 3]}), how="cross")
    count = some.groupby("query")["item"].transform("nunique")
    some["probability"] = 1 / np.maximum(count, K)
    for candidate in (fc.Observed(tally), fc.Marginals(some, context="query")):
        answer = fc.evaluate(tally, candidate, metrics="clicks@3", estimators="ladder-ip")
        assert ASSUMED not in str(answer)


def test_tiny_logs_are_not_tested() -> None:
    """Nor those of which the rates tell all that counts do."""
    found, tally = drawn(shop.Shop(300, 20, pool=12, catalogue=120, positions=4, days=2), 1)
    assert slopes(tally, ranking(found, "better")) == (Slope(), Slope())


def test_logs_without_periods_are_tested(case: Case) -> None:
    log = case.found.log.select(["query", "items", "clicks"])
    tally = fc.tally(fc.read_log(log, context="query"))
    assert fc.evaluate(tally, case.items, **ASKED)["verdict"] == ["cannot tell"]
    assert fc.evaluate(tally, case.honest, **ASKED).assumed.startswith(ASSUMED)


def test_the_command_line_takes_before(case: Case, tmp_path: Any, capsys: Any) -> None:  # noqa: ANN401
    case.tally.write_parquet(tmp_path / "log.parquet")
    pq.write_table(case.found.candidates["better"], tmp_path / "new.parquet")
    words = [str(tmp_path / "log.parquet"), str(tmp_path / "new.parquet"), "-m", "clicks@3"]
    assert main(["gate", *words, "--trained-until", "before"]) == 0
    assert ASSUMED not in capsys.readouterr().out
