"""Random tallies as batches: every array, compared with loops over the rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from foreclick.batches import EMPTY, Batch, Codebook, decode
from foreclick.batches.encode import Codes, encode
from foreclick.logs import Shape

K = 3
FAR = 2**40  # beyond 32 bits
SHAPES = {
    "masks": Shape(K, ("clicks", "orders"), masks=("clicks", "orders")),
    "graded": Shape(K, ("clicks", "price"), ("shop",), masks=("clicks",)),
    "clusters": Shape(K, ("price",), period=True, unit=True),
    "slots": Shape(K, ("clicks",), ("shop", "kind"), period=True, propensity="slot"),
    "lists": Shape(K, ("clicks",), masks=("clicks",), unit=True, propensity="list"),
    "no rewards": Shape(K, (), ("shop",)),
}
Row = dict[str, Any]
CASES = [(name, text) for name in SHAPES for text in (False, True)]


def random_rows(shape: Shape, rng: np.random.Generator, *, text: bool) -> list[Row]:
    """Rows of some contexts, in canonical order, some of them twice."""

    def item(number: int) -> Any:  # noqa: ANN401 - integers or text
        return f"item {number}" if text else FAR + number

    found = []
    for _ in range(60):
        # Positions may be missing anywhere, and a list may show nothing at all.
        shown = [item(a) if rng.random() < 0.8 else None for a in rng.permutation(4)[:K]]
        row: Row = {"context": f"q{rng.integers(5)}" if text else -FAR * int(rng.integers(5))}
        row |= dict(zip(shape.items, shown, strict=True))
        if shape.period:
            row["period"] = None if rng.random() < 0.2 else int(rng.integers(3))
        row |= {name: ["a", "b", None][rng.integers(3)] for name in shape.segments}
        if shape.unit:
            row["bucket"] = int(rng.integers(4))
        for name in shape.rewards:
            row |= random_reward(shape, name, shown, rng)
        for k, name in enumerate(shape.propensities):
            row[name] = None if len(shape.propensities) > 1 and shown[k] is None else rng.random()
        found.append(row | {"n": int(rng.integers(1, 5))})
    twice = [found[i] | {"n": 7} for i in rng.integers(0, len(found), 10)]  # of an added tally
    return sorted(found + twice, key=lambda r: [_key(r[c]) for c in shape.order])


def random_reward(shape: Shape, name: str, shown: list[Any], rng: np.random.Generator) -> Row:
    if name in shape.masks:
        return {name: sum(int(rng.integers(2)) << k for k in range(K) if shown[k] is not None)}
    columns = zip(shape.reward(name), shown, strict=True)
    return {c: None if a is None else float(rng.choice([0, 0, 1, 2.5])) for c, a in columns}


def _key(value: Any) -> tuple[Any, ...]:  # noqa: ANN401
    return (0,) if value is None else (1, value)


def table_of(rows: list[Row], shape: Shape, *, text: bool) -> pa.Table:
    own = pa.string() if text else pa.int64()
    kinds: dict[str, pa.DataType] = dict.fromkeys(["context", *shape.items], own)
    kinds |= dict.fromkeys(["period", "bucket", "n", *shape.masks], pa.int64())
    kinds |= dict.fromkeys(shape.segments, pa.string())
    return pa.table(
        {c: pa.array([r[c] for r in rows], kinds.get(c, pa.float64())) for c in shape.stored}
    )


def codebook_of(table: pa.Table, shape: Shape) -> Codebook:
    periods = Codes.from_values(table["period"]) if shape.period else None
    return Codebook(periods, {name: Codes.from_values(table[name]) for name in shape.segments})


def make(name: str, *, text: bool, seed: int = 0) -> tuple[list[Row], Batch, Codebook, pa.Table]:
    shape = SHAPES[name]
    rows = random_rows(shape, np.random.default_rng(seed), text=text)
    table = table_of(rows, shape, text=text)
    codebook = codebook_of(table, shape)
    return rows, encode(table, shape, codebook), codebook, table


def counted(rows: list[Row], shape: Shape) -> Counter[Any]:
    """How many records there are of each kind, with one reward a position."""
    found: Counter[Any] = Counter()
    for row in rows:
        rewards = []
        for name in shape.rewards:
            if name in shape.masks:
                rewards += [float(row[name] >> k & 1) for k in range(K)]
            else:
                rewards += [row[c] or 0.0 for c in shape.reward(name)]
        keys = [c for c in shape.order if c not in {*_reward_columns(shape), *shape.propensities}]
        propensities = [row[c] or 0.0 for c in shape.propensities]
        found[(*(row[c] for c in keys), *rewards, *propensities)] += row["n"]
    return found


def _reward_columns(shape: Shape) -> set[str]:
    return {c for name in shape.rewards for c in shape.stored_reward(name)}


def read_back(batch: Batch, shape: Shape, codebook: Codebook) -> Counter[Any]:
    """The same, from the arrays of a batch."""
    found: Counter[Any] = Counter()
    for key, n in zip(row_keys(batch, shape, codebook), batch.n, strict=True):
        found[key] += n
    return found


def row_keys(batch: Batch, shape: Shape, codebook: Codebook) -> list[Any]:
    """What each row stands for, from the arrays of a batch, one row after the other."""
    found = []
    rewards = {name: np.zeros((len(batch.n), K)) for name in shape.rewards}
    for name, reward in batch.rewards.items():
        for row, position, value in zip(*reward, strict=True):
            rewards[name][row, position] = value
    for row in range(len(batch.n)):
        at = batch.row_list[row]
        context = batch.list_context[at]
        key = [batch.contexts[int(batch.context_value[context])].as_py()]
        for pair in batch.lists[at].tolist():
            assert pair == EMPTY or batch.pair_context[pair] == context
            key.append(None if pair == EMPTY else batch.items[int(batch.pair_item[pair])].as_py())
        if codebook.periods is not None:
            key.append(codebook.periods.values[int(batch.clusters["period"][row])].as_py())
        key += [
            codebook.segments[name].values[int(batch.segments[name][row])].as_py()
            for name in shape.segments
        ]
        if shape.unit:
            key.append(int(batch.clusters["unit"][row]))
        key += [value for name in shape.rewards for value in rewards[name][row].tolist()]
        if batch.propensity is not None:
            key += np.atleast_1d(batch.propensity[row]).tolist()
        found.append(tuple(key))
    return found


def assert_numbered(batch: Batch) -> None:
    """What the arrays promise of their order, and the counts that follow from them."""
    pairs = list(zip(batch.pair_context.tolist(), batch.pair_item.tolist(), strict=True))
    assert pairs == sorted(set(pairs))
    lists = [
        (int(x), *row) for x, row in zip(batch.list_context, batch.lists.tolist(), strict=True)
    ]
    assert len(set(lists)) == len(lists)
    assert (np.diff(batch.list_context) >= 0).all()
    assert (np.diff(batch.row_list) >= 0).all()
    shown: Counter[tuple[int, int]] = Counter()
    records: Counter[int] = Counter()
    prefixes: dict[Any, set[int]] = defaultdict(set)
    for at, (context, *row) in enumerate(lists):
        n = batch.n[batch.row_list == at].sum()
        assert batch.list_n[at] == n
        records[context] += n
        for k, pair in enumerate(row):
            prefixes[k, context, *row[: k + 1]].add(int(batch.prefix[at, k]))
            if pair != EMPTY:
                shown[pair, k] += n
    assert {(p, k): n for (p, k), n in np.ndenumerate(batch.shown) if n} == shown
    assert dict(enumerate(batch.context_n)) == records
    for k in range(K):
        own = [numbers for key, numbers in prefixes.items() if key[0] == k]
        assert all(len(numbers) == 1 for numbers in own)
        assert len(set.union(*own)) == len(own)


@pytest.mark.parametrize(("name", "text"), CASES)
def test_a_batch_holds_the_records_of_the_rows(name: str, text: bool):
    rows, batch, codebook, _ = make(name, text=text)
    shape = SHAPES[name]
    assert read_back(batch, shape, codebook) == counted(rows, shape)
    assert_numbered(batch)
    contexts = batch.contexts.to_pylist()
    assert contexts == sorted({row["context"] for row in rows})
    items = {row[c] for row in rows for c in shape.items} - {None}
    assert batch.items.to_pylist() == sorted(items)
    assert list(batch.clusters) == list(batch.cluster_count)


@pytest.mark.parametrize(("name", "text"), CASES)
def test_decoded_rows_are_encoded_to_the_same_arrays(name: str, text: bool):
    rows, batch, codebook, table = make(name, text=text, seed=1)
    shape = SHAPES[name]
    spread = replace(shape, masks=())  # one column a position
    kinds = {field.name: field.type for field in table.schema}
    schema = pa.schema([(c, kinds.get(c, pa.int64())) for c in shape.columns])
    again = decode(batch, shape, codebook, schema)
    assert again.num_rows == len(batch.n)
    found = encode(again, spread, codebook)
    assert read_back(found, spread, codebook) == counted(rows, shape)
    assert np.array_equal(found.lists, batch.lists)
    assert np.array_equal(found.row_list, batch.row_list)


@pytest.mark.parametrize(("name", "text"), CASES)
def test_parts_of_contexts_are_contexts(name: str, text: bool):
    _, batch, codebook, _ = make(name, text=text, seed=2)
    part = np.random.default_rng(3).integers(0, 3, len(batch.n))
    found = batch.split(part, 3)
    assert_numbered(found)
    whole: Counter[Any] = Counter()
    for number in range(3):
        rows = np.flatnonzero(part == number)
        mine = found.only(found.stratum == number)
        right = read_back(batch.take(rows, batch.n[rows]), SHAPES[name], codebook)
        assert read_back(mine, SHAPES[name], codebook) == right
        whole += right
    assert whole == read_back(batch, SHAPES[name], codebook)
    values = list(zip(found.context_value.tolist(), found.stratum.tolist(), strict=True))
    assert values == sorted(set(values))


@pytest.mark.parametrize(("name", "text"), CASES)
def test_a_part_is_the_batch_of_its_contexts(name: str, text: bool):
    rows, batch, codebook, _ = make(name, text=text, seed=6)
    shape = SHAPES[name]
    for first, last in ((0, 1), (1, 4), (0, batch.context_count)):
        part = batch.between(first, last)
        mine = set(batch.contexts.to_pylist()[first:last])
        right = counted([row for row in rows if row["context"] in mine], shape)
        assert read_back(part, shape, codebook) == right
        assert_numbered(part)
