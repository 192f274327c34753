"""`examination` where one curve is not the truth: it says so, and its errors are wider."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.questions.examination import Examination

K, CONTEXTS, ITEMS, DAYS = 5, 40, 8, 14
EXAMINED = 1 / np.arange(1, K + 1) ** 0.7


def clicked(
    seed: int,
    *,
    records: int = 800,
    swaps: float = 0.2,
    trend: float = 0.0,
    kinds: bool = False,
    trust: bool = False,
    dated: bool = True,
) -> fc.Log:
    """Lists sorted by the attraction of the day, some items swapped, and their clicks."""
    rng = np.random.default_rng(seed)
    time = np.arange(DAYS) - (DAYS - 1) / 2
    start = 0.03 + 0.45 * rng.beta(0.8, 1.6, (CONTEXTS, ITEMS))
    sign = rng.choice([-1, 1], (CONTEXTS, ITEMS))
    attraction = start[:, :, None] * (1 + trend) ** (sign[:, :, None] * time)
    score = np.log(attraction) + 0.5 * rng.standard_normal((CONTEXTS, ITEMS, 1))
    context = np.repeat(np.arange(CONTEXTS), records)
    day = rng.integers(0, DAYS, len(context))
    lists = np.argsort(-score, axis=1)[context, :, day]
    row = np.flatnonzero(rng.random(len(lists)) < swaps)
    i = rng.integers(0, K, len(row))
    j = (i + 1 + rng.integers(0, ITEMS - 1, len(row))) % ITEMS
    lists[row, i], lists[row, j] = lists[row, j], lists[row, i]
    lists = lists[:, :K]
    examined = np.broadcast_to(EXAMINED, lists.shape)
    if kinds:
        steep = np.where(context % 2 == 0, 0.3, 1.2)[:, None]
        examined = np.arange(1.0, K + 1) ** -steep
    rates = attraction[context[:, None], lists, day[:, None]]
    if trust:  # what stands at the top is clicked whatever it is
        rates = rates * np.linspace(0.9, 0.6, K) + np.linspace(0.15, 0.02, K)
    clicks = (rng.random(rates.shape) < rates * examined).astype(np.int8)
    columns: dict[str, Any] = {"context": context, "items": list(lists), "clicks": list(clicks)}
    if not dated:
        return fc.read_log(pa.table(columns))
    return fc.read_log(pa.table(columns | {"day": day}), period="day")


def held(found: Examination) -> list[bool]:
    """Whether each interval has the truth."""
    return [
        row["low"] <= p <= row["high"] for row, p in zip(found.to_dicts(), EXAMINED, strict=True)
    ]


def said(found: Examination, words: str) -> bool:
    return any(words in note for note in found.notes)


@pytest.mark.parametrize("seed", [97_001, 97_002, 97_003])
def test_a_ranker_that_follows_trends_is_found_out(seed: int):
    """Items moved because their attraction did: of 10 such logs, no interval had the truth."""
    found = fc.examination(clicked(seed, trend=0.05, swaps=0.0))
    assert said(found, "taste that changed")
    assert all(held(found))


def test_moves_within_periods_are_preferred_where_click_rates_change():
    found = fc.examination(clicked(97_004, trend=0.05, swaps=0.02))
    assert said(found, "only moves within periods count")
    assert all(held(found))


def test_without_periods_it_says_that_changes_count_as_examination():
    log = clicked(97_005, dated=False)
    assert said(fc.examination(log), "The log has no periods")
    # Who asks for moves within a context knows.
    assert not said(fc.examination(log, within="context"), "The log has no periods")


@pytest.mark.parametrize("dated", [True, False])
def test_contexts_of_two_kinds_are_told_and_make_errors_wider(dated: bool):
    alike, differing = (
        fc.examination(clicked(97_006, kinds=kinds, dated=dated)) for kinds in (False, True)
    )
    assert said(differing, "Contexts are not looked at alike")
    assert not said(alike, "not looked at alike")
    assert differing["se"][4] > 1.3 * alike["se"][4]


def test_trust_in_the_top_is_told_from_a_curve():
    plain, trusting = (
        fc.examination(clicked(97_007, records=5000, trust=trust)) for trust in (False, True)
    )
    assert said(trusting, "Items are not looked at alike: at position 5 attractive items get more")
    assert not said(plain, "not looked at alike")
