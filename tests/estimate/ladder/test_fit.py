"""What a ladder learns: the sample, the error of held-out parts, strengths and examination."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import foreclick as fc
from foreclick import simulate
from foreclick.batches import EMPTY, Floats, Ints
from foreclick.estimators import Ladder
from foreclick.learn import fit
from foreclick.learn.fit import HeldOut, Sample, fitted, learnt, sampled
from tests.answers import close
from tests.truth import ladder as oracle
from tests.truth.oracle import Record
from tests.truth.random_logs import DEEPEST, log_table, random_case

LADDERS = (Ladder(), Ladder("ip"))
STRENGTHS = {"list": (4.0, 7.0, 3.0, 2.0, 1.5), "ip": (3.0, 2.0, 1.5)}
P = np.array([1.0, 0.7, 0.4, 0.3, 0.2, 0.1])
NEAR = 1e-3  # the last round of strengths had the examination of the round before


def made(seed: int, **roles: Any) -> fc.Tally:  # noqa: ANN401
    rng = np.random.default_rng(seed)
    records = [r for j in range(6) for r in random_case(f"c{j}", rng, text=seed % 2 == 0).records]
    days, users = rng.integers(0, 5, len(records)), rng.integers(0, 30, len(records))
    table = log_table(records, day=days.tolist(), user=users.tolist())
    return fc.tally(fc.read_log(table, **roles))


def path(sample: Sample, ladder: Ladder, row: int, k: int) -> list[Any]:
    """The cells of a slot, finest first."""
    at = int(sample.row_list[row])
    items = tuple(sample.lists[at].tolist())
    context = int(sample.context[at])
    coarse = [(items[k], k), items[k], context, None]
    fine = {"list": (context, items, k), "prefix": (context, *items[: k + 1])}
    finest = [fine[name] for name in ladder.rungs if name in fine]
    return [(j, cell) for j, cell in enumerate([*finest, *coarse])]


def predicted(
    sample: Sample, ladder: Ladder, strengths: tuple[float, ...], part: int
) -> dict[Any, float]:
    """The rates of a part's slots from all records but the part's own, one cell after the other.

    A row stands for so many parts that are alike: all but one of them are others.
    """
    slots = [(r, int(k)) for r in range(len(sample.n)) for k in _filled(sample, r)]
    n: dict[Any, float] = defaultdict(float)
    c: dict[Any, float] = defaultdict(float)
    below: dict[Any, Any] = {}
    exposed: dict[Any, float] = {}
    for r, k in slots:
        cells = path(sample, ladder, r, k)
        below |= dict(pairwise(cells))
        exposed[cells[ladder.exposing]] = P[k]
        others = sample.times[r] - (sample.part[r] == part)
        n[cells[0]] += others * sample.n[r]
        c[cells[0]] += others * sample.clicks[r, k]
    for j, s in enumerate(strengths):
        for cell in [cell for cell in list(n) if cell[0] == j]:
            n[below[cell]] += n[cell] * s / (n[cell] + s) * exposed.get(cell, 1.0)
            c[below[cell]] += c[cell] * s / (n[cell] + s)

    def rate(cell: Any) -> float:  # noqa: ANN401
        if cell[0] == len(strengths):
            return c[cell] / n[cell] if n[cell] > 0 else 0.0
        s = strengths[cell[0]]
        return float((c[cell] + s * rate(below[cell]) * exposed.get(cell, 1.0)) / (n[cell] + s))

    return {(r, k): rate(path(sample, ladder, r, k)[0]) for r, k in slots if sample.part[r] == part}


def _filled(sample: Sample, row: int) -> Any:  # noqa: ANN401
    return np.flatnonzero(sample.lists[sample.row_list[row]] != EMPTY)


DATED: dict[str, str] = {"period": "day"}
KEYED: dict[str, str] = {"unit": "user"}


@pytest.mark.parametrize("roles", [DATED, KEYED, {}])
@pytest.mark.parametrize("top", STRENGTHS)
def test_the_error_is_that_of_predicting_each_part_from_the_others(
    top: Any,  # noqa: ANN401
    roles: dict[str, str],
):
    """Parts are days or buckets of users; or, without either, single records."""
    ladder = Ladder(top)
    tally = made(1, **roles)
    sample = sampled(tally, "clicks")
    assert (sample.n * sample.times).sum() == sum(tally.to_arrow()["n"].to_pylist())
    assert sample.times.max() == 1 if roles else (sample.n == 1).all()
    tree = HeldOut(ladder, sample, P)
    for some in (
        (6.0, 3.0, 2.0, 1.0, 5.0),
        (6.0, 3.0, 7.0, 1.0, 5.0),
        (2.0, 9.0, 2.0, 1.0, 4.0),
    ):
        strengths = some[-len(ladder.rungs) + 1 :]
        right = 0.0
        for part in np.unique(sample.part):
            rates = predicted(sample, ladder, strengths, part)
            right += sum(
                sample.times[r] * (sample.n[r] * rate - 2 * sample.clicks[r, k]) * rate
                for (r, k), rate in rates.items()
            )
        assert tree.loss(strengths) == pytest.approx(right, rel=1e-10)


def test_it_learns_of_slots_what_it_learnt_before():
    """Recorded: strengths by their step on the grid .1, .1 · 10^(1/3), …, and the last p_k."""
    found = fitted(made(2, **DATED), Ladder("ip"), "clicks")
    np.testing.assert_allclose(found.strengths, [0.1 * 10 ** (j / 3) for j in (18, 8, 18)])
    assert found.examined[-1] == pytest.approx(2.03403855069, rel=1e-9)


@pytest.mark.parametrize("roles", [DATED, KEYED, {}])
def test_of_a_large_log_it_takes_some_contexts_whole(
    roles: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    whole = sampled(made(2, **roles), "clicks")
    monkeypatch.setattr(fit, "SAMPLE", len(whole.n) // 3)
    some = sampled(made(2, **roles), "clicks")
    assert 0 < len(some.n) < len(whole.n)
    records = {  # by context, in any order
        id(sample): np.bincount(
            sample.context[sample.row_list], sample.n * sample.times, whole.context.max() + 1
        )
        for sample in (whole, some)
    }
    drawn = records[id(some)] > 0
    assert (records[id(some)][drawn] == records[id(whole)][drawn]).all()


@pytest.mark.parametrize("roles", [DATED, KEYED, {}])
def test_no_neighbour_on_the_grid_predicts_better(roles: dict[str, str]):
    tally = made(2, **roles)
    for ladder in LADDERS:
        found = fitted(tally, ladder, "clicks")
        sample = sampled(tally, "clicks")
        assert sample.dated == (roles == DATED)
        by_part, by_list = (
            HeldOut(ladder, parts, sample.curve, fixed=False)
            for parts in (sample, sample if sample.dated else sample.by_list())
        )
        for held_out in (by_part, by_list):
            held_out.examine(found.strengths, found.stopping)
            np.testing.assert_allclose(held_out.p, found.examined)
        for rung, factor in itertools.product(range(len(found.strengths)), (1 / 3, -1 / 3)):
            # A list that is held out says nothing of itself; its records do of each other.
            held_out = by_part if ladder.rungs[rung] == "list" else by_list
            least = held_out.loss(found.strengths)
            other = list(found.strengths)
            other[rung] *= 10**factor
            if 0.099 < other[rung] < 1.01e5:
                assert held_out.loss(tuple(other)) >= least - NEAR * abs(least)


def test_what_is_learnt_stays_with_the_tally():
    tally = made(3)
    assert fitted(tally, Ladder(), "clicks") is fitted(tally, Ladder(), "clicks")


def test_examination_is_that_of_a_position_model():
    rng = np.random.default_rng(0)
    lists = np.array([rng.permutation(6) for _ in range(40)])
    attraction = rng.uniform(0.1, 0.6, 6)
    ones = np.zeros(40, dtype=np.int64)
    sample = Sample(
        lists=lists,
        prefix=lists,
        context=ones,
        row_list=np.arange(40),
        part=ones,
        n=np.full(40, 100.0),
        clicks=100 * attraction[lists] * P,
        times=np.ones(40),
    )
    np.testing.assert_allclose(sample.curve, P, rtol=1e-8)


# --- samples made by hand -------------------------------------------------------------------------


def sample_of(context: Ints, part: Ints, items: Ints, n: Floats, clicks: Floats) -> Sample:
    """One row for each list in each part; items by number, -1 where nothing is shown."""
    keys, row_list = np.unique(np.column_stack([context, items]), axis=0, return_inverse=True)
    of, shown = keys[:, 0], keys[:, 1:]
    begins = [
        np.unique(keys[:, : k + 2], axis=0, return_inverse=True)[1] for k in range(shown.shape[1])
    ]
    return Sample(
        lists=np.where(shown == EMPTY, EMPTY, of[:, None] * (int(items.max()) + 1) + shown),
        prefix=np.stack(begins, axis=1),
        context=of,
        row_list=row_list,
        part=part,
        n=n,
        clicks=clicks,
        times=np.ones(len(n)),
    )


def of_records(records: list[Record], parts: list[int]) -> Sample:
    contexts = {c: i for i, c in enumerate(sorted({r.context for r in records}))}
    items = {a: i for i, a in enumerate(sorted({a for r in records for a in r.items}))}
    shown = np.full((len(records), DEEPEST), EMPTY)
    clicks = np.zeros((len(records), DEEPEST))
    for i, record in enumerate(records):
        shown[i, : len(record.items)] = [items[a] for a in record.items]
        clicks[i, : len(record.items)] = record.clicks
    codes = np.array([contexts[r.context] for r in records])
    return sample_of(codes, np.array(parts), shown, np.ones(len(records)), clicks)


@pytest.mark.parametrize("stopping", [0.0, 0.6])
@pytest.mark.parametrize("top", STRENGTHS)
def test_the_fit_predicts_as_the_oracle_does(top: Any, stopping: float):  # noqa: ANN401
    records = random_case("fit", np.random.default_rng(3)).records * 2
    parts = [i * 7 % 3 for i in range(len(records))]
    stopping = 0.0 if top == "ip" else stopping
    tree = HeldOut(Ladder(top), of_records(records, parts), P)
    tree.examine(STRENGTHS[top], stopping)
    # Its rates of items are tied to the sample's own base, which moves with the examination.
    truth = oracle.Truth(
        top,
        STRENGTHS[top],
        P.tolist(),
        stopping=stopping,
        rounds=tree.rounds,
        own_base=True,
    )
    truth = replace(truth, examination=truth.examined(records, {}))
    right = 0.0
    for part in range(3):
        own = [r for r, p in zip(records, parts, strict=True) if p == part]
        others = [r for r, p in zip(records, parts, strict=True) if p != part]
        asked = {c: {r.items: 1.0 for r in own if r.context == c} for c in {r.context for r in own}}
        assert {r.context for r in own} <= {r.context for r in others}
        rate = truth.solve(others, asked).rate
        for r in own:
            for k in range(1, len(r.items) + 1):
                own_rate = rate[truth.cells(r.context, r.items, k)[0]]
                right += own_rate * own_rate - 2 * own_rate * r.clicks[k - 1]
    assert close(tree.loss(STRENGTHS[top]), right, 1e-9)


def test_without_periods_lists_are_predicted_from_other_lists():
    """Lists that are always shown alike say what they earn, and nothing of other lists."""
    rng = np.random.default_rng(5)
    world = simulate.ListSpecific(20, 5, np.full(5, 0.6), 4)
    lists = np.array([rng.permutation(5) for _ in range(6)])
    of, which = rng.integers(0, 20, 20_000), rng.integers(0, 6, 20_000)
    clicks = world.sample(of, lists[which], rng).astype(float)
    parts = rng.integers(0, 10, 20_000)
    sample = sample_of(of, parts, lists[which], np.ones(20_000), clicks)
    undated = learnt(Ladder(), sample)
    dated = learnt(Ladder(), replace(sample, dated=True))
    assert undated.strengths[0] < 30
    assert dated.strengths[0] < 30
    # Of a day nearly all is known from the same lists on other days: that tells nothing of items.
    assert undated.strengths[3] > 10 * dated.strengths[3] or undated.strengths[3] >= 1000


def drawn(world: simulate.World, seed: int, records: int = 20_000) -> Sample:
    rng = np.random.default_rng(seed)
    contexts, _, positions = world.size
    of = rng.integers(0, contexts, records)
    # A base list with two neighbours exchanged: what production looks like.
    lists = np.tile(np.arange(positions), (records, 1))
    for _ in range(2):
        at = rng.integers(0, positions - 1, records)
        row = np.arange(records)
        lists[row, at], lists[row, at + 1] = lists[row, at + 1].copy(), lists[row, at].copy()
    clicks = world.sample(of, lists, rng).astype(float)
    return sample_of(of, rng.integers(0, 10, records), lists, np.ones(records), clicks)


def test_strengths_and_stopping_find_the_click_model():
    rng = np.random.default_rng(1)
    attraction = rng.uniform(0.05, 0.6, (20, 5))
    p = 1 / np.arange(1, 6)
    pbm = learnt(Ladder(), drawn(simulate.PBM(attraction, p), 1))
    table = np.clip(attraction[:, :, None] * p * rng.uniform(0.2, 1.8, (20, 5, 5)), 0, 1)
    slots = learnt(Ladder(), drawn(simulate.ItemPosition(table), 2))
    cascade = learnt(Ladder(), drawn(simulate.Cascade(attraction, 5), 3))
    lists = learnt(Ladder(), drawn(simulate.ListSpecific(20, 5, np.full(5, 0.6), 4), 4))
    assert min(pbm.strengths[:3]) >= 1000  # neither the list, nor the prefix, nor the position
    assert pbm.stopping <= 0.15
    assert slots.strengths[2] < 100 < min(slots.strengths[:2])  # the position tells more
    assert cascade.stopping >= 0.9  # every click ends the reading
    assert min(cascade.strengths[:3]) >= 100
    np.testing.assert_allclose(cascade.examined, 1, atol=0.1)
    assert pbm.rounds < 4 < cascade.rounds  # who stops at every click is followed for longer
    assert lists.strengths[0] < 30  # the list tells more


def test_what_is_given_is_not_learnt():
    sample = drawn(simulate.PBM(np.full((3, 5), 0.4), 1 / np.arange(1, 6)), 1, 500)
    found = learnt(Ladder("list", (9, 7, 3, 2, 1), stopping=0.35), sample, P)
    assert found.strengths == (9.0, 7.0, 3.0, 2.0, 1.0)
    assert found.stopping == 0.35
    assert list(found.examined) == P.tolist()


def test_the_base_is_the_rate_of_the_whole_sample():
    """Nothing but contexts has a rate of its own: two of 200 slots, with 40 and with 120 clicks."""
    shown, zeros = np.array([[0, 1], [0, 1]]), np.zeros(2, dtype=np.int64)
    clicks = np.array([[20.0, 20.0], [60.0, 60.0]])
    sample = sample_of(np.arange(2), zeros, shown, np.full(2, 100.0), clicks)
    ladder = Ladder("list", (np.inf, np.inf, np.inf, np.inf, 5), stopping=0)
    assert learnt(ladder, sample, np.ones(2)).base == pytest.approx(160 / 400)


@given(
    mu=st.lists(st.floats(0.05, 0.9), min_size=3, max_size=3),
    p=st.lists(st.floats(0.05, 1), min_size=2, max_size=2),
    seed=st.integers(0, 100),
)
@settings(max_examples=25)
def test_examination_of_exact_counts_is_exact(mu: list[float], p: list[float], seed: int):
    rng = np.random.default_rng(seed)
    examination = np.array([1.0, *p])
    items = np.array([rng.permutation(3) for _ in range(6)] + [[0, 1, 2], [1, 2, 0], [2, 0, 1]])
    n = rng.integers(1, 50, len(items)).astype(float)
    clicks = n[:, None] * np.array(mu)[items] * examination
    zeros = np.zeros(len(items), dtype=np.int64)
    found = sample_of(zeros, zeros, items, n, clicks).curve
    np.testing.assert_allclose(found, examination, rtol=1e-6)


def test_its_examination_is_that_of_the_whole_log_s_own_fit():
    """Two ways to one maximum: in turn, of a sample by Newton's steps, of the whole log."""
    rng = np.random.default_rng(6)
    world = simulate.PBM(rng.uniform(0.1, 0.8, (4, 5)), 1 / np.arange(1, 5))
    shown = simulate.Drifting(4, 5, 4, simulate.Drift(days=5, variants=(4, 6)), 1)
    table = simulate.Simulation(world, shown, 4000).sample(seed=3)
    log = fc.read_log(table, context="query", period="day")
    mine = fitted(fc.tally(log), Ladder("ip"), "clicks").examined
    theirs = fc.examination(log, within="context").curve
    np.testing.assert_allclose(mine, theirs, rtol=1e-6)


def test_a_given_examination_ends_where_the_log_and_the_metric_do():
    """A candidate's longer list is no reason to ask for more numbers."""
    log = {"context": ["q"] * 4, "items": [[1, 2], [2, 1]] * 2, "clicks": [[1, 0], [0, 1]] * 2}
    longer = {"context": ["q"], "items": [[1, 2, 3]]}
    ladder = fc.Ladder(examination=(1.0, 0.5))
    asked: dict[str, Any] = {"metrics": "clicks@2", "estimators": ladder, "clusters": None}
    assert 0 < fc.evaluate(fc.read_log(log), longer, **asked)["value"][0] < 2
