"""Items predicted from features, against loops over items, and in worlds of a few numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick.batches import source
from foreclick.errors import ModelError, PolicyError
from foreclick.estimators.ladder import features
from foreclick.estimators.ladder.features import ItemCounts
from foreclick.estimators.ladder.fit import fitted
from foreclick.estimators.ladder.held_out import HeldOut
from foreclick.estimators.ladder.sample import sampled
from tests.answers import answer, close
from tests.tries import LONG
from tests.truth import features as slow
from tests.truth import ladder as oracle
from tests.truth.oracle import Policy, Record, clicks_at
from tests.truth.random_logs import DEEPEST, lists_table, log_table

STRENGTHS = {"list": (9.0, 7.0, 30.0, 8.0, 5.0), "ip": (30.0, 8.0, 5.0)}
P = (1.0, 0.7, 0.4, 0.3, 0.2, 0.1)
WIDTH = 3


class World:
    """Contexts whose items are worth what one of three features says, and as much that none does.

    Attributes:
        table: features by item; the last item has none.
        candidate: two items that were never shown, and one that was; in the last context none.
    """

    def __init__(self, contexts: int, seed: int = 0, *, shared: bool = False) -> None:
        rng = np.random.default_rng(seed)
        self.records: list[Record] = []
        self.candidate: Policy = {}
        self.table: dict[Any, Any] = {}
        for x in range(contexts):
            items = [f"{'all' if shared else x}/{a}" for a in range(8)]
            for item in items[:-1]:
                self.table.setdefault(item, rng.standard_normal(WIDTH))
            told = [self.table.get(item, np.zeros(WIDTH))[0] for item in items]
            worth = 0.4 * np.exp(0.4 * np.array(told) + 0.3 * rng.standard_normal(8))
            for _ in range(40):
                shown = rng.permutation(5)[:4]
                rate = np.minimum(worth[shown] * P[:4], 0.95)
                clicks = tuple((rng.random(4) < rate).astype(float))
                self.records.append(Record(f"q{x}", tuple(items[a] for a in shown), clicks))
            lists = {(items[5], items[0], items[7]): 0.4, (items[0], items[6]): 0.6}
            self.candidate[f"q{x}"] = lists
        self.candidate.pop(f"q{contexts - 1}")
        self.days = [i * 7 % 5 for i in range(len(self.records))]

    def log(self) -> fc.Log:
        return fc.read_log(log_table(self.records, day=self.days), period="day")

    def items(self) -> pa.Table:
        named = {f"f{j}": [f[j] for f in self.table.values()] for j in range(WIDTH)}
        return pa.table({"item": list(self.table)} | named)

    def ladder(self, top: Any = "ip", stopping: float = 0.0) -> fc.Ladder:  # noqa: ANN401
        return fc.Ladder(top, STRENGTHS[top], P, stopping=stopping, items=self.items())

    def lists(self) -> fc.Lists:
        return fc.Lists(lists_table(self.candidate))


def learnt_of(world: World, ladder: fc.Ladder) -> Any:  # noqa: ANN401
    return fitted(fc.tally(world.log()), ladder, "clicks", DEEPEST)


def truth_of(world: World, ladder: fc.Ladder) -> oracle.Truth:
    """The oracle, with the coefficients that the library has learnt."""
    fit = learnt_of(world, ladder)
    found = fit.features
    contexts = len({record.context for record in world.records})
    beta = {
        (f, g): found.coefficients[f % len(found.coefficients), g]
        for f in range(5)
        for g in range(5)
    }
    said = slow.Features(world.table, beta, contexts, found.limits, found.spread)
    return oracle.Truth(
        ladder.top,
        fit.strengths,
        P,
        None,
        fit.stopping,
        fit.base,
        fit.rounds,
        features=said,
    )


@pytest.mark.truth
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("contexts", [8, 34])
def test_coefficients_are_those_of_a_loop_over_items(contexts: int, *, shared: bool):
    """Of few contexts, items are left out alone; of many, contexts too."""
    world = World(contexts, shared=shared)
    found = learnt_of(world, world.ladder()).features
    truth = oracle.Truth("ip", STRENGTHS["ip"], P)
    counts = truth.item_counts(world.records, truth.examined(world.records, {}))
    right = slow.learnt(counts, world.table, STRENGTHS["ip"][1])
    for (f, g), beta in right.features.beta.items():
        np.testing.assert_allclose(found.coefficients[f, g], beta, rtol=1e-9)
    np.testing.assert_allclose(found.limits, right.features.limits, rtol=1e-9)
    np.testing.assert_allclose(found.covariance, right.covariance, rtol=1e-8)
    assert found.evidence.items == right.items
    assert close(found.evidence.explained, right.explained, 1e-9)
    assert close(found.spread, right.features.spread, 1e-9)
    assert 0 < found.evidence.least < found.evidence.explained


@pytest.mark.truth
@pytest.mark.parametrize(
    ("top", "stopping", "contexts"),
    # In many contexts the slow solution takes seconds to settle where readers stop.
    [("list", 0.0, 8), ("list", 0.7, 34 if LONG else 8), ("ip", 0.0, 34)],
)
def test_rates_fit_all_counts_best(top: str, stopping: float, contexts: int):
    world = World(contexts)
    ladder = world.ladder(top, stopping)
    row = answer(world.log(), world.lists(), ladder, "clicks@3", missing="drop", clusters=None)
    records = [r for r in world.records if r.context in world.candidate]
    right = truth_of(world, ladder).value(records, world.candidate, clicks_at(3))
    assert close(row["value"], right, 1e-10)
    without = replace(truth_of(world, ladder), features=None)
    assert not close(row["value"], without.value(records, world.candidate, clicks_at(3)), 1e-3)


@pytest.mark.parametrize(("top", "stopping"), [("list", 0.7), ("ip", 0.0)])
def test_the_interval_knows_what_features_leave_open(top: str, stopping: float):
    """Days, what is a cell's own, items around what features say of them, and coefficients."""
    world = World(8)
    ladder, theta = world.ladder(top, stopping), clicks_at(3)
    row = answer(world.log(), world.lists(), ladder, "clicks@3", missing="drop", clusters="period")
    truth = truth_of(world, ladder)
    truth = replace(truth, examination=truth.examined(world.records, world.candidate))
    said = truth.features
    assert said is not None

    def weighted(day: int, weight: float) -> list[Record]:
        dated = zip(world.records, world.days, strict=True)
        return [
            r._replace(weight=weight if d == day else 1.0)
            for r, d in dated
            if r.context in world.candidate
        ]

    # Mean features of contexts are taken as known, as strengths are: of clicks they know nothing.
    every = weighted(-1, 1.0)
    counts = truth.item_counts(every, truth.examination or {})
    shown = {(x, a) for x in world.candidate for items in world.candidate[x] for a in items}
    known = said.relative(counts, STRENGTHS[top][-2], shown)
    fixed = replace(truth, features=_Known(said, known))

    def moved(by: Any) -> float:  # noqa: ANN401
        beta = {fold: each + by for fold, each in said.beta.items()}
        free = replace(said, beta=beta, limits=(-math.inf, math.inf))
        return replace(truth, features=free).value(every, world.candidate, theta)

    step = 1e-4
    days = [
        (
            fixed.value(weighted(d, 1 + step), world.candidate, theta)
            - fixed.value(weighted(d, 1 - step), world.candidate, theta)
        )
        / (2 * step)
        for d in range(5)
    ]
    slopes = np.array([(moved(s) - moved(-s)) / (2 * step) for s in np.eye(WIDTH) * step])
    covariance = learnt_of(world, ladder).features.covariance
    rest = truth.unsettled(every, world.candidate, theta)
    learning = float(slopes @ covariance @ slopes)
    right = 5 / 4 * sum(m * m for m in days) + rest + learning
    assert close(row["se"], math.sqrt(right), 1e-5)
    assert learning > 0.001 * right


class _Known(slow.Features):
    """What was said of items, whatever the counts."""

    def __init__(self, said: slow.Features, known: dict[Any, float]) -> None:
        super().__init__(said.table, said.beta, said.contexts, said.limits, said.spread)
        object.__setattr__(self, "known", known)

    def relative(self, *_: Any) -> dict[Any, float]:  # noqa: ANN401
        return self.known  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize("stopping", [0.0, 0.7])
def test_a_backtest_is_a_loop_over_periods(stopping: float):
    world = World(6)
    ladder = world.ladder("list", stopping)
    found = fc.backtest(world.log(), estimators=[ladder], metrics="clicks@2")
    truth = truth_of(world, ladder)
    truth = replace(truth, examination=truth.examined(world.records, {}))
    assert truth.features is not None
    counts = truth.item_counts(world.records, truth.examination or {})
    known = truth.features.relative(counts, STRENGTHS["list"][-2], ())
    truth = replace(truth, features=_Known(truth.features, known))
    errors = []
    dated = list(zip(world.records, world.days, strict=True))
    for context in {record.context for record in world.records}:
        for day in range(5):
            own = [r for r, d in dated if d == day and r.context == context]
            others = [r for r, d in dated if d != day]
            shown = [r.items for r in own]
            h = {context: {a: shown.count(a) / len(shown) for a in set(shown)}}
            clicks = np.mean([sum(r.clicks[:2]) for r in own])
            errors.append(truth.value(others, h, clicks_at(2)) - clicks)
    assert close(found["rmse"][0], math.sqrt(np.mean(np.square(errors))), 1e-9)


# --- small worlds ---------------------------------------------------------------------------------


def exact_world(contexts: int = 40) -> tuple[fc.Log, fc.Lists, pa.Table]:
    """An item's click rate is .1 for each unit of its feature, exactly, in every context.

    The candidate shows a new item, one of four units, in half of the cases.
    """
    rows: dict[str, list[Any]] = {"context": [], "items": [], "clicks": [], "n": []}
    rng = np.random.default_rng(3)
    items, size = [], []
    for x in range(contexts):
        units = [*rng.permutation([1, 2, 3, 4, 5])[:3].tolist(), 4.0]
        for a, unit in enumerate(units):
            items.append(10 * x + a)
            size.append(float(unit))
            if a < 3:
                for click, share in ((1, unit), (0, 10 - unit)):
                    rows["context"].append(x)
                    rows["items"].append([10 * x + a])
                    rows["clicks"].append([click])
                    rows["n"].append(100 * int(share))
    log = fc.read_log(rows, count="n")
    lists = {
        "context": [x for x in range(contexts) for _ in "ab"],
        "items": [[10 * x + a] for x in range(contexts) for a in (0, 3)],
        "probability": [0.5] * (2 * contexts),
    }
    return log, fc.Lists(lists), pa.table({"item": items, "size": size})


def test_what_features_say_exactly_is_found():
    log, best, table = exact_world()
    plain, told = (
        fc.evaluate(log, best, metrics="clicks@1", estimators=fc.Ladder("ip", items=items))
        for items in (None, table)
    )
    truth = 0.05 * np.mean(table["size"].to_numpy()[::4]) + 0.5 * 0.4
    assert abs(told["value"][0] - truth) < 0.005
    assert abs(plain["value"][0] - truth) > 0.03
    assert told["se"][0] < 0.5 * plain["se"][0]
    assert told["low"][0] <= truth <= told["high"][0]
    width = [each["high"][0] - each["low"][0] for each in (told, plain)]
    assert width[0] < 0.5 * width[1]
    note = next(note for note in told.notes if "held out" in note)
    assert "Never shown in its context: 40 items, of which ladder-ip predicts 40" in note
    assert any("predicted from features" in each for each in told.notes)


def test_strengths_predict_best_together_with_what_features_say():
    world = World(8)
    tally, ladder = fc.tally(world.log()), fc.Ladder("ip", items=world.items())
    found = fitted(tally, ladder, "clicks")
    assert found.features is not None
    sample = sampled(tally, "clicks", items=found.features.items)
    tree = HeldOut(ladder, sample, sample.curve)
    pairs = sample.pair_row, sample.pair_context, sample.pair_fold
    counts = ItemCounts(*pairs, *tree.item_counts(found.strengths))
    tree.lean(found.features.of_sample(counts, found.strengths[tree.item_rung]))
    least = tree.loss(found.strengths)
    for factor in (10 ** (1 / 3), 10 ** (-1 / 3)):  # its neighbours on the grid
        other = list(found.strengths)
        other[tree.item_rung] *= factor
        assert tree.loss(other) > least


def test_evidence_is_by_how_much_clusters_differ():
    """Of errors 4, 4 and 2, features take away 3, 2 and 1: .6 of them, and not the same of each."""
    found = features._evidence(7, np.array([4.0, 4.0, 2.0, 0.0]), np.array([1.0, 2.0, 1.0, 0.0]))
    off = np.array([3 - 2.4, 2 - 2.4, 1 - 1.2])
    error = math.sqrt(3 / 2 * (off @ off)) / 10
    assert found is not None
    assert found.items == 7
    assert found.explained == pytest.approx(0.6)
    assert found.least == pytest.approx(0.6 - features._ONE_SIDED * error)


def test_one_context_learns_from_its_other_items():
    rng = np.random.default_rng(1)
    size = rng.uniform(0, 1, 60)
    rows: dict[str, list[Any]] = {"items": [], "clicks": [], "n": []}
    for a in range(50):
        clicks = round(1000 * (0.1 + 0.5 * size[a]))
        for click, n in ((1, clicks), (0, 1000 - clicks)):
            rows["items"].append([a])
            rows["clicks"].append([click])
            rows["n"].append(n)
    log = fc.read_log(rows, context=None, count="n")
    table = pa.table({"item": list(range(60)), "size": size})
    fit = fitted(fc.tally(log), fc.Ladder("ip", items=table), "clicks")
    assert fit.features is not None
    assert fit.features.evidence is not None
    assert fit.features.evidence.least > 0.8
    assert fit.features.coefficients.shape == (1, 5, 1)


def test_an_open_share_stays_open():
    """Both ends shrink by what features explained of held-out items, and by no more."""
    world = World(34)
    log, lists = world.log(), world.lists()
    fit = learnt_of(world, world.ladder())
    row = answer(log, lists, world.ladder(), "clicks@3", missing="drop", cap=0.9, clusters="period")
    plain = replace_items(world, {})
    bare = answer(log, lists, plain, "clicks@3", missing="drop", cap=0.9, clusters="period")
    doubt = math.sqrt(1 - fit.features.evidence.least)
    assert 0.3 < doubt < 0.95
    # Items 5 and 6 have features, item 7 has none: exposure .4, .6 and .4 in every context.
    assert close(row["borrowed"] + row["margin"], 0.9 * (1.0 * doubt + 0.4), 1e-9)
    assert close(bare["borrowed"] + bare["margin"], 0.9 * 1.4, 1e-9)
    assert row["covered"] == bare["covered"]


def replace_items(world: World, items: Any) -> fc.Ladder:  # noqa: ANN401
    ladder = world.ladder()
    return fc.Ladder(ladder.top, ladder.strengths, P, items=items or None)


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_noise_changes_little(seed: int):
    world = World(34, seed)
    rng = np.random.default_rng(seed)
    ids = [f"{x}/{a}" for x in range(34) for a in range(8)]
    noise = {"item": ids} | {f"f{j}": rng.standard_normal(len(ids)) for j in range(10)}
    log, lists = world.log(), world.lists()
    with_noise, without = (
        answer(
            log,
            lists,
            fc.Ladder("ip", items=items),
            "clicks@3",
            missing="drop",
            clusters="period",
        )
        for items in (noise, None)
    )
    assert abs(with_noise["value"] - without["value"]) < 0.25 * without["se"]
    assert with_noise["borrowed"] > 0.97 * without["borrowed"]


def test_features_of_no_use_are_not_used():
    world = World(34)
    same = {"item": list(world.table), "one": [1.0] * len(world.table)}
    found, plain = (
        fc.evaluate(
            world.log(),
            world.lists(),
            metrics="clicks@3",
            estimators=replace_items(world, items),
            missing="drop",
        )
        for items in (same, None)
    )
    for name in ("value", "se", "low", "high"):
        assert found[name] == plain[name]
    assert any("makes no use of the item table" in note for note in found.notes)


def test_missing_items_are_counted():
    world = World(34)
    found = fc.evaluate(
        world.log(), world.lists(), metrics="clicks@3", estimators=world.ladder(), missing="drop"
    )
    note = next(note for note in found.notes if "held out" in note)
    assert "99 items, of which ladder-ip predicts 66 from features (33 are not in" in note


# --- bits -----------------------------------------------------------------------------------------


def test_batches_change_no_bits():
    world = World(34)
    answers = []
    for slots, keep, workers in ((source.BATCH_SLOTS, None, 1), (300, None, 1), (700, 0, 2)):
        tally = fc.tally(world.log())
        batches = source.Batches(tally, slots, keep=keep)
        tally.learnt[source._key(tally)] = batches
        assert (len(list(batches)) > 1) == (slots < 1000)
        found = fc.evaluate(
            tally,
            world.lists(),
            estimators=fc.Ladder(items=world.items()),
            missing="drop",
            workers=workers,
        )
        answers.append(found.to_dicts())
    assert answers[0] == answers[1] == answers[2]


def test_features_may_depend_on_the_context():
    """Items have the same ids everywhere, and other features in every context."""
    world = World(34)
    rename = {
        item: item.split("/")[1] for x in range(34) for item in (f"{x}/{a}" for a in range(8))
    }
    records = [r._replace(items=tuple(rename[a] for a in r.items)) for r in world.records]
    log = fc.read_log(log_table(records, day=world.days), period="day")
    lists = {
        x: {tuple(rename[a] for a in items): h for items, h in found.items()}
        for x, found in world.candidate.items()
    }
    table = world.items()
    context = [f"q{item.split('/')[0]}" for item in table["item"].to_pylist()]
    table = table.set_column(0, "item", pa.array([rename[a] for a in table["item"].to_pylist()]))
    table = table.append_column("context", pa.array(context)).take(
        np.random.default_rng(0).permutation(len(table))
    )
    fit = fitted(fc.tally(log), fc.Ladder("ip", STRENGTHS["ip"], P, items=table), "clicks")
    assert fit.features is not None
    assert fit.features.evidence is not None
    assert fit.features.evidence.explained > 0.3
    found = answer(
        log,
        fc.Lists(lists_table(lists)),
        fc.Ladder("ip", STRENGTHS["ip"], P, items=table),
        "clicks@3",
        missing="drop",
    )
    right = answer(
        world.log(), world.lists(), world.ladder(), "clicks@3", missing="drop", clusters="period"
    )
    # Other folds of items, and otherwise the same.
    assert abs(found["value"] - right["value"]) < 0.2 * right["se"]


# --- tables ---------------------------------------------------------------------------------------


def test_a_table_may_hold_embeddings_in_a_file(tmp_path: Path):
    world = World(34)
    vectors = np.array(list(world.table.values()))
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), WIDTH)
    path = tmp_path / "items.parquet"
    pq.write_table(pa.table({"item": list(world.table), "vector": fixed}), path)
    one, other = fc.Items(path), fc.Items(world.items())
    np.testing.assert_array_equal(one.matrix, other.matrix)
    assert one == other
    assert hash(one) == hash(other)
    assert fc.Ladder(items=path) == fc.Ladder(items=other) != fc.Ladder()
    assert repr(one) == "Items(238 rows, features vector)"


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({"id": [1], "f": [1.0]}, "no column 'item', only id, f"),
        ({"item": [1, 2]}, "no features"),
        ({"item": [1, 2], "f": [1.0, math.nan]}, r"1 row .* a finite number in 'f'.* item 2"),
        ({"item": [1, 2], "f": [1.0, None]}, r"1 row .* a finite number in 'f'.* item 2"),
        ({"item": [1, 1], "f": [1.0, 2.0]}, "1 item with several rows.* item 1"),
        ({"item": [1, None], "f": [1.0, 2.0]}, "1 row .* without an item or context"),
        ({"item": [1, 2], "brand": ["a", "b"]}, "'brand' in the item table is string"),
        ({"item": [1, 2], "v": [[1.0], [1.0, 2.0]]}, "not of one length"),
    ],
)
def test_tables_that_make_no_sense_are_refused(table: dict[str, Any], complaint: str):
    with pytest.raises(ModelError, match=complaint):
        fc.Ladder(items=table)


def test_columns_are_named():
    with pytest.raises(ModelError, match="no column 'g', only item, f"):
        fc.Items({"item": [1], "f": [1.0]}, features=["g"])
    named = fc.Items({"sku": [1], "brand": ["a"], "f": [1.0]}, item="sku", features=["f"])
    assert named.columns == ("f",)


def test_ids_of_another_type_are_refused():
    log = {"context": ["q"] * 2, "items": [[1], [2]], "clicks": [[0], [1]]}
    ladder = fc.Ladder("ip", items={"item": ["1", "2"], "f": [1.0, 2.0]})
    with pytest.raises(PolicyError, match=r"\(integer\), the item table '.*' \(text\)"):
        fc.evaluate(log, {"context": ["q"], "items": [[2]]}, estimators=ladder)


def test_features_choose_no_policy():
    log, _, table = exact_world()
    with pytest.raises(ModelError, match="judge=Ladder"):
        fc.optimize(log, estimator=fc.Ladder("ip", items=table), metric="clicks@1")
