"""If this fails, an answer about a large log reads it more often than its three times.

| verb | passes | which |
|---|---|---|
| check, support | 1 | its own |
| evaluate, compare | 3 | facts, the fit's sample, the answer |
| evaluate, estimators="all" | 3 | the same: contexts for the curve are drawn beside the facts |
| backtest | 3 | facts, the periods held out, the fit's sample |
| report | 6 | those of the answer, two for single contexts, one for the backtest |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.batches import Batches, batches_of, source
from foreclick.curves import learnt
from foreclick.ladder.fit import fit_ladders
from foreclick.progress import Progress, working
from foreclick.questions import plan
from foreclick.run import estimate
from foreclick.run.estimate import BatchWork
from foreclick.tallies import Tally
from tests.cases.plain import drawn

DRAWN = drawn(8, records=900, contexts=40, items=6, depth=4, periods=7)
NAMES = sorted(set(DRAWN.columns["context"]))
ITEMS = sorted({item for items in DRAWN.columns["items"] for item in items})
CANDIDATES: dict[str, Any] = {
    name: {"context": NAMES, "items": [items[:4]] * len(NAMES)}
    for name, items in (("new", ITEMS[::-1]), ("old", ITEMS))
}
NEW = CANDIDATES["new"]

VERBS: dict[str, tuple[int, Callable[[Tally], Any]]] = {
    "check": (1, fc.check),
    "support": (1, lambda tally: fc.support(tally, NEW)),
    "evaluate": (3, lambda tally: fc.evaluate(tally, NEW)),
    "evaluate by all": (3, lambda tally: fc.evaluate(tally, NEW, estimators="all")),
    "compare": (3, lambda tally: fc.compare(tally, CANDIDATES)),
    "backtest": (3, fc.backtest),
    "report": (6, lambda tally: fc.report(tally, NEW)),
}


@pytest.fixture
def tally(monkeypatch: pytest.MonkeyPatch) -> Tally:
    """A log of many batches that does not stay in memory; a tenth of its contexts would."""
    log = DRAWN.log
    tally = fc.tally(log)
    slots = tally.row_count() * tally.shape.depth
    monkeypatch.setattr(source, "KEPT_SLOTS", slots // 2)
    monkeypatch.setattr(source, "PAIR_WEIGHT", 0)
    monkeypatch.setattr(learnt, "SAMPLE_RECORDS", 90)
    monkeypatch.setattr(learnt, "_sharp", lambda _: True)
    batches_of.put(tally, Batches(tally, slots // 8))
    return tally


class Told(Progress):
    """The shares that were told, each with the work that was done until then."""

    def __init__(self, work: list[float]) -> None:
        super().__init__(lambda _: None)
        self.work, self.shares = work, list[tuple[float, float]]()

    def __call__(self, step: str, share: float | None = None, of: str = "") -> None:
        self.step = step
        if self.plan is not None:
            self.shares.append((sum(self.work), self.plan.share))


@pytest.mark.parametrize("verb", VERBS)
def test_a_large_log_is_read_so_often_and_the_share_that_is_told_never_falls(
    tally, monkeypatch, verb
):
    passes, parts = [], Batches._parts

    def counted(self: Batches) -> Iterator[pa.Table]:
        if self is batches_of(tally):
            passes.append(self)
        return parts(self)

    monkeypatch.setattr(Batches, "_parts", counted)
    most, ask = VERBS[verb]
    with working(Told([])) as progress:
        ask(tally)
    assert len(passes) == most
    assert isinstance(progress, Told)
    shares = [share for _, share in progress.shares]
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert shares[-1] == 1
    assert len(set(shares)) > 8


@pytest.mark.parametrize("verb", ["evaluate", "evaluate by all", "compare", "support"])
def test_the_rest_that_is_told_is_right_to_a_factor_of_two(tally, monkeypatch, verb):
    """Work is what was sorted, read, fitted and scored, at the seconds that each takes."""
    work = [0.0]
    sort, read, fit, score = Batches._parts, Batches._read, fit_ladders, BatchWork.__call__
    slots = tally.row_count() * tally.shape.depth

    def sorting(self: Batches) -> Iterator[pa.Table]:
        work.append(plan._SORTED * plan._READ * slots)
        return sort(self)

    def reading(self: Batches) -> Iterator[Any]:
        for batch in read(self):
            if self is batches_of(tally):
                work.append((1 - plan._SORTED) * plan._READ * len(batch.n) * batch.depth)
            yield batch

    def fitting(tally: Tally, question: Any, depth: int) -> Any:  # noqa: ANN401
        found = fit(tally, question, depth)
        if any(found):
            work.append((plan._FIT_LOG + plan._FIT_CANDIDATES) * slots)
        return found

    def scoring(self: BatchWork, batch: Any) -> Any:  # noqa: ANN401
        one = plan._WEIGHTED if self.question.clusters else plan._SUPPORT
        each = (one if fit is None else plan._LADDER for fit in self.ladders)
        work.append(
            sum(each) * len(batch.n) * batch.depth * (1 + len(self.question.candidates)) / 2
        )
        return score(self, batch)

    monkeypatch.setattr(Batches, "_parts", sorting)
    monkeypatch.setattr(Batches, "_read", reading)
    monkeypatch.setattr(estimate, "fit_ladders", fitting)
    monkeypatch.setattr(BatchWork, "__call__", scoring)
    with working(Told(work)) as progress:
        VERBS[verb][1](tally)
    assert isinstance(progress, Told)
    whole = sum(work)
    later = [(done, share) for done, share in progress.shares if done > whole / 10]
    assert later
    assert all(whole / 2 <= done / share <= 2 * whole for done, share in later)
