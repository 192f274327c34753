"""`backtest` gives the numbers of the paper's protocol, done literally, on every engine."""

import datetime as dt
import math

import numpy as np
import pytest

import foreclick as fc
from tests.answers import clipped
from tests.tries import tries
from tests.truth import oracle, protocol, random_logs
from tests.truth.paper import paper
from tests.truth.protocol import Dated

# Errors are differences of means near 1; total − own and the steps over M lose a few digits.
SAME = 1e-9

METRICS = {
    "clicks@2": oracle.clicks_at(2),
    "clicks@3": oracle.clicks_at(3),
    "dcg@10": oracle.dcg_at(10),
}
CLIPS = (0.5, 1, 2.5, 100, math.inf)


def random_dates(seed: int, days: int, *, text: bool = False) -> list[Dated]:
    """A random log over a few days; contexts miss days, and some have one day only."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(4):
        case = random_logs.random_case(f"{seed}-{number}", rng, text=text)
        reach = int(rng.integers(1, days + 1))
        found += [Dated(int(rng.integers(reach)) + 1, record) for record in case.records]
    return found


def read(log, engine=None):
    table = random_logs.log_table([d.record for d in log], day=[d.day for d in log])
    return fc.read_log(engine.load(table) if engine else table, period="day")


def assert_same(found, expected, where):
    for column in ("rmse", "bias", "floor", "folds", "contexts", "pairs", "records"):
        right = getattr(expected, column)
        told = f"{column} of {where}: {found[column]} is not {right}"
        if right is None:
            assert found[column] is None, told
        else:
            assert math.isclose(found[column], right, rel_tol=SAME, abs_tol=SAME), told


def assert_backtest(log, table, *, models=oracle.MODELS, clips=CLIPS, literal=None, **how):
    result = fc.backtest(
        table, estimators=clipped(paper(models), list(clips)), metrics=list(METRICS), **how
    )
    assert len(result) == len(models) * len(METRICS) * len(clips)
    for row in result:
        expected = protocol.backtest(
            log, row["estimator"], METRICS[row["metric"]], row["clip"], **(literal or {})
        )
        assert_same(row, expected, f"{row['estimator']}, {row['metric']}, M={row['clip']}")
    return result


@pytest.mark.parametrize("seed", range(tries(4, 6)))
def test_leave_one_day_out(seed):
    log = random_dates(seed, days=2 + seed % 4, text=seed % 3 == 0)
    assert_backtest(log, read(log))


@pytest.mark.parametrize("seed", range(100, 100 + tries(2, 3)))
def test_forward_only(seed):
    log = random_dates(seed, days=4)
    assert_backtest(log, read(log), forward=True, literal={"forward": True})


@pytest.mark.parametrize("seed", range(200, 202))
@pytest.mark.parametrize("forward", [False, True])
def test_blocks_of_days_weighed_by_records(seed, forward):
    log = random_dates(seed, days=7)
    first = min(d.day for d in log)
    assert_backtest(
        log,
        read(log),
        block=3,
        forward=forward,
        weight="records",
        literal={
            "fold": lambda day: (day - first) // 3,
            "forward": forward,
            "by_records": True,
        },
    )


def test_every_engine(engine):
    log = random_dates(7, days=4)
    for forward in (False,) if engine.name == "spark" else (False, True):
        assert_backtest(
            log,
            read(log, engine),
            clips=(1, 2.5, math.inf),
            forward=forward,
            literal={"forward": forward},
        )


def test_weeks_of_dates():
    log = [Dated(dt.date(2026, 1, d.day), d.record) for d in random_dates(5, days=20)]
    assert_backtest(
        log,
        read(log),
        models=("ip",),
        block=lambda day: day.isocalendar().week,
        literal={"fold": lambda day: day.isocalendar().week},
    )


def test_pairs_with_few_records_are_left_to_train():
    log = random_dates(3, days=4)
    result = assert_backtest(
        log, read(log), models=("list", "ip"), min_held=3, literal={"fewest": 3}
    )
    assert any("too few held out" in note for note in result.notes)
