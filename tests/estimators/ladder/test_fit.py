"""What a ladder learns: the sample, the error of held-out parts, strengths and examination."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import foreclick as fc
from foreclick.batches import EMPTY
from foreclick.estimators.ladder import sample as sampling
from foreclick.estimators.ladder.fit import HeldOut, examination_curve, fitted
from foreclick.estimators.ladder.sample import Sample, dealt, sampled
from foreclick.estimators.ladder.spec import Ladder
from foreclick.sqlkernel import climb as in_sql
from tests.truth.random_logs import log_table, random_case

P = np.array([1.0, 0.7, 0.4, 0.3, 0.2, 0.1])


def made(seed: int, **roles: Any) -> fc.Tally:  # noqa: ANN401
    rng = np.random.default_rng(seed)
    records = [r for j in range(6) for r in random_case(f"c{j}", rng, text=seed % 2 == 0).records]
    kinds = [f"class {int(record.context[-1]) % 2}" for record in records]
    days, users = rng.integers(0, 5, len(records)), rng.integers(0, 30, len(records))
    table = log_table(records, kind=kinds, day=days.tolist(), user=users.tolist())
    return fc.tally(fc.read_log(table, segments=("kind",), **roles))


def path(sample: Sample, ladder: Ladder, row: int, k: int) -> list[Any]:
    """The cells of a slot, finest first."""
    at = int(sample.row_list[row])
    items = tuple(sample.lists[at].tolist())
    context, kind = int(sample.context[at]), sample.classes[:, at].tolist()
    coarse = [(items[k], k), items[k], context, *kind, None]
    finest = {"prefix": [(context, *items[: k + 1])], "list": [(context, items, k)], "ip": []}
    return [(j, cell) for j, cell in enumerate([*finest[ladder.top], *coarse])]


def predicted(
    sample: Sample, ladder: Ladder, strengths: tuple[float, ...], part: int
) -> dict[Any, float]:
    """The rates of a part's slots from the records of the other parts, one cell after the other."""
    slots = [(r, int(k)) for r in range(len(sample.n)) for k in _filled(sample, r)]
    n: dict[Any, float] = defaultdict(float)
    c: dict[Any, float] = defaultdict(float)
    below: dict[Any, Any] = {}
    exposed: dict[Any, float] = {}
    at_position = ladder.rungs.index("position")
    for r, k in slots:
        cells = path(sample, ladder, r, k)
        below |= dict(pairwise(cells))
        exposed[cells[at_position]] = P[k]
        if sample.part[r] != part:
            n[cells[0]] += sample.n[r]
            c[cells[0]] += sample.clicks[r, k]
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


@pytest.mark.parametrize("top", ["prefix", "list", "ip"])
def test_the_error_is_that_of_predicting_each_part_from_the_others(top: Any):  # noqa: ANN401
    ladder = Ladder(top, segments="kind")
    sample = sampled(made(1, period="day"), "clicks", ladder.segments)
    tree = HeldOut(ladder, sample, P)
    for some in ((3.0, 2.0, 1.0, 5.0, 2.0), (3.0, 7.0, 1.0, 5.0, 2.0), (9.0, 2.0, 1.0, 5.0, 4.0)):
        strengths = some[-len(ladder.rungs) + 1 :]
        right = 0.0
        for part in np.unique(sample.part):
            rates = predicted(sample, ladder, strengths, part)
            right += sum(
                (sample.n[r] * rate - 2 * sample.clicks[r, k]) * rate
                for (r, k), rate in rates.items()
            )
        assert tree.loss(strengths) == pytest.approx(right, rel=1e-10)


@pytest.mark.parametrize("limit", [60_000, 40])
@pytest.mark.parametrize("roles", [{"period": "day"}, {"unit": "user"}, {}])
def test_it_learns_what_the_engine_learnt(
    roles: dict[str, str], limit: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sampling, "SAMPLE_ROWS", limit)
    monkeypatch.setattr(in_sql, "SAMPLE_ROWS", limit)
    tally = made(2, **roles)
    for ladder in (Ladder(), Ladder("list"), Ladder("ip", segments="kind")):
        here, there = fitted(tally, ladder, "clicks"), in_sql.fitted(tally, ladder, "clicks")
        assert here.strengths == there.strengths
        np.testing.assert_allclose(here.examined, there.examined, rtol=1e-9)


def test_what_is_learnt_stays_with_the_tally():
    tally = made(3)
    assert fitted(tally, Ladder(), "clicks") is fitted(tally, Ladder(), "clicks")


def test_records_are_dealt_out_evenly():
    n = np.array([3.0, 25.0, 10.0])
    row, part, times = dealt(np.arange(3), n)
    assert np.bincount(row, times).tolist() == n.tolist()
    shares = np.zeros((3, 10))
    shares[row, part] = times
    assert (np.ptp(shares, axis=1) <= 1).all()
    assert part[row == 0].tolist() == [0, 1, 2]
    assert shares[1].argmax() == 1


def test_examination_is_that_of_a_position_model():
    rng = np.random.default_rng(0)
    lists = np.array([rng.permutation(6) for _ in range(40)])
    attraction = rng.uniform(0.1, 0.6, 6)
    ones = np.zeros(40, dtype=np.int64)
    sample = Sample(
        lists=lists,
        prefix=lists,
        context=ones,
        classes=np.zeros((0, 40), dtype=np.int64),
        row_list=np.arange(40),
        part=ones,
        n=np.full(40, 100.0),
        clicks=100 * attraction[lists] * P,
    )
    np.testing.assert_allclose(examination_curve(sample), P, rtol=1e-8)
