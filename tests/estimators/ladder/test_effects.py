"""Items that many contexts show: what the others say of an item."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.batches import batches_of, context_hashes
from foreclick.estimators.ladder import effects
from foreclick.estimators.ladder.effects import item_effects
from foreclick.estimators.ladder.items import FOLDS, UNKNOWN
from foreclick.estimators.ladder.sample import sampled
from foreclick.tallies.base import settle

CONTEXTS, POOL, OLD, K = 40, 25, 5, 4
P = np.array([1.0, 0.7, 0.5, 0.4])
THETA = np.array(fc.Metric("dcg@4").theta)


class World:
    """Contexts that share items: most of what an item is worth goes with it wherever it is.

    Attributes:
        log: every context shows five items in changing orders.
        candidate: two items that are new to the context, the best of some, and two that are not.
    """

    def __init__(self, seed: int, records: int = 6000) -> None:
        rng = np.random.default_rng(seed)
        own = np.stack([rng.permutation(POOL)[: 2 * OLD] for _ in range(CONTEXTS)])
        effect = np.exp(0.5 * rng.standard_normal(POOL))
        worth = 0.2 * effect[own] * np.exp(0.2 * rng.standard_normal(own.shape))
        self.worth = np.minimum(worth, 0.9)
        context = rng.integers(0, CONTEXTS, records)
        shown = np.argsort(rng.random((records, OLD)), axis=1)[:, :K]
        rates = self.worth[context[:, None], shown] * P
        clicks = (rng.random(rates.shape) < rates).astype(np.int8)
        columns: dict[str, Any] = {
            "context": [f"q{x}" for x in context],
            "items": own[context[:, None], shown].tolist(),
            "clicks": list(clicks),
            "day": rng.integers(0, 8, records),
        }
        self.log = fc.tally(fc.read_log(pa.table(columns), period="day"))
        best = OLD + np.argsort(-effect[own[:, OLD:]], axis=1)[:, :2]
        self.lists = np.concatenate([best, np.tile([0, 1], (CONTEXTS, 1))], axis=1)
        items = np.take_along_axis(own, self.lists, axis=1).tolist()
        names = [f"q{x}" for x in range(CONTEXTS)]
        self.candidate = fc.Ranking({"context": names, "items": items})
        self.records = np.bincount(context, minlength=CONTEXTS)

    @property
    def truth(self) -> float:
        worth = np.take_along_axis(self.worth, self.lists, axis=1) * P @ THETA
        return float(self.records @ worth / self.records.sum())


@pytest.fixture(scope="module")
def world() -> World:
    return World(1)


def by_hand(log: fc.Tally, without: int) -> dict[int, tuple[float, ...]]:
    """What contexts of other folds say of each item, record by record."""
    (batch,) = batches_of(log)
    fold = dict(
        zip(batch.contexts.to_pylist(), (context_hashes(batch) % FOLDS).tolist(), strict=True)
    )
    p = sampled(log, "clicks").curve
    n: dict[tuple[str, int], float] = {}
    c: dict[tuple[str, int], float] = {}
    for row in log.to_arrow().to_pylist():
        for k in range(K):
            pair = row["context"], row[f"item_{k + 1}"]
            if fold[pair[0]] != without:
                n[pair] = n.get(pair, 0.0) + row["n"] * p[k]
                c[pair] = c.get(pair, 0.0) + row["n"] * row[f"clicks_{k + 1}"]
    contexts, items = {x for x, _ in n}, {a for _, a in n}
    clicks = {a: sum(c[pair] for pair in n if pair[1] == a) for a in items}
    effect = dict.fromkeys(items, 1.0)
    for _ in range(4):
        mean = {
            x: sum(c[pair] for pair in n if pair[0] == x)
            / sum(n[pair] * effect[pair[1]] for pair in n if pair[0] == x)
            for x in contexts
        }
        due = {a: sum(n[pair] * mean[pair[0]] for pair in n if pair[1] == a) for a in items}
        effect = {a: (clicks[a] + 10) / (due[a] + 10) for a in items}
    return {
        a: tuple((clicks[a] - due[a]) / (due[a] + s) for s in (1.0, 10.0, 100.0)) for a in items
    }


def test_effects_are_those_of_a_loop_over_records(world):
    tally, _ = settle(world.log)
    found = item_effects(tally, "clicks")
    (batch,) = batches_of(tally)
    fold = int(context_hashes(batch)[0]) % FOLDS
    right = by_hand(world.log, fold)
    row = found.rows(
        batch, batch.items, np.zeros(len(batch.items), int), np.arange(len(batch.items))
    )
    for item, at in zip(batch.items.to_pylist(), row.tolist(), strict=True):
        assert found.matrix[at] == pytest.approx(right[item], rel=1e-9)


def test_an_item_that_no_other_context_has_shown_is_unknown():
    rows = [("a", [1, 2]), ("b", [2, 3]), ("c", [2, 3])] * 4
    columns = {"context": [x for x, _ in rows], "items": [items for _, items in rows]}
    tally, _ = settle(fc.read_log(columns | {"clicks": [[1, 0], [0, 1]] * 6}))
    found = item_effects(tally, "clicks")
    (batch,) = batches_of(tally)
    assert batch.contexts.to_pylist() == ["a", "b", "c"]
    folds = (context_hashes(batch) % FOLDS).tolist()
    assert len(set(folds)) == len(folds)
    items = pa.array([1, 2, 3, 4])
    row = found.rows(batch, items, np.zeros(4, int), np.arange(4))
    assert (row == UNKNOWN).tolist() == [True, False, False, True]


def test_the_ids_of_items_halve_the_error_of_items_that_are_new_to_a_context(world):
    def asked(items):
        by = fc.Ladder(items=items)
        return fc.evaluate(world.log, world.candidate, metrics="dcg@4", estimators=by)

    without, by_id = asked(None), asked("id")
    off = [abs(found["value"][0] - world.truth) for found in (without, by_id)]
    assert off[1] < off[0] / 2
    assert by_id["low"][0] <= world.truth <= by_id["high"][0]
    assert by_id["high"][0] - by_id["low"][0] < without["high"][0] - without["low"][0]
    assert any("predicts 80 from other contexts" in note for note in by_id.notes)


def test_of_many_items_some_contexts_are_enough(world, monkeypatch):
    monkeypatch.setattr(effects, "MOST_PAIRS", 120)
    pairs = effects._gathered(settle(world.log)[0], "clicks")
    assert 30 < len(pairs.n) <= 120
    assert len(np.unique(pairs.context)) == len(pairs.n) // OLD
