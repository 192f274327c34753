"""If this fails, the mirrored score has a share where its instruments say nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import foreclick as fc
from foreclick.batches import batches_of
from foreclick.ladder.coefficients import solve
from foreclick.ladder.features import pair_days
from foreclick.ladder.fit import production_fit
from foreclick.ladder.fitted import LadderFit
from foreclick.ladder.mirror import instruments
from foreclick.simulate.shop import Shop, draw

QUIET = Shop(records=40_000, queries=400, pool=20, catalogue=400, positions=5, candidates=())


def log_of(shop: Shop, seed: int = 1) -> fc.Tally:
    return fc.tally(fc.read_log(draw(shop, seed).log, context="query", period="day"))


def fitted(tally: fc.Tally) -> LadderFit:
    return production_fit(batches_of(tally), fc.Ladder(), "clicks")


@pytest.fixture(scope="module")
def reacting() -> fc.Tally:
    return log_of(replace(QUIET, feedback=1.0))


def test_it_has_a_share_where_lists_react_and_else_none(reacting):
    assert fitted(log_of(QUIET)).mirror is None
    mirror = fitted(reacting).mirror
    assert mirror is not None
    assert 0.2 < mirror.share < 0.4


def test_its_answer_allows_for_the_distance_of_both_scores(reacting):
    other = fc.Ranking(
        draw(replace(QUIET, candidates=("better",)), 1).candidates["better"], context="query"
    )
    for tally, wider in ((reacting, True), (log_of(QUIET), False)):
        found = fc.evaluate(tally, other, metrics="clicks@3", estimators="ladder")
        errors = {row["source"]: row["lift_se"] for row in found.errors()}
        assert ("lists that react" in errors) is wider


def test_too_few_days_or_readers_who_stop_leave_it_out(reacting):
    assert production_fit(batches_of(reacting), fc.Ladder(stopping=0.3), "clicks").mirror is None
    few = fc.tally(fc.read_log(draw(replace(QUIET, days=4), 1).log, context="query", period="day"))
    assert fitted(few).mirror is None


def test_one_that_does_not_converge_is_left_out_and_that_is_said(reacting, monkeypatch):
    right, said = fitted(reacting), list[str]()

    def unsolved(*args: Any, **options: Any) -> Any:  # noqa: ANN401
        found = solve(*args, **options)
        mirrored = args[0][0].mirrored is not None
        return replace(found, report=found.report._replace(converged=not mirrored))

    monkeypatch.setattr("foreclick.ladder.fit.solve", unsolved)
    monkeypatch.setattr("foreclick.ladder.fit.report_detail", said.append)
    found = fitted(log_of(replace(QUIET, feedback=1.0)))
    assert found.mirror is None
    assert right.mirror is not None
    assert all(report.converged for report in found.reports)
    np.testing.assert_allclose(found.parameters.p, right.mirror.at.p, rtol=1e-9)
    assert any("did not converge" in each and "no share" in each for each in said)


def test_sums_of_instruments_over_days_are_those_of_the_last_day(reacting):
    (batch,) = batches_of(reacting)
    days = pair_days(batch, dated=True)
    rng = np.random.default_rng(1)
    exposure, strength = rng.uniform(0.1, 3, len(days.pair)), rng.uniform(5, 50, batch.pair_count)
    total = days.by_pair(exposure)
    mirrored = days.by_pair(instruments(days, exposure, strength) * exposure)
    right = days.whole_log * total / (1 + total / strength)
    np.testing.assert_allclose(mirrored, right, rtol=1e-9, atol=1e-12)
