"""If this fails, an answer to some odd log is not what the formulas say of its records."""

import math
from functools import partial

import pandas as pd
import pytest

import foreclick as fc
from foreclick.errors import SourceError
from tests.cases.case import Measure, Row
from tests.cases.hostile import case_of
from tests.fuzz.judge import judge
from tests.fuzz.others import compared, judge_ladder
from tests.fuzz.ratios import judge_ratios
from tests.tries import tries
from tests.truth import oracle


@pytest.mark.parametrize("part", range(tries(1, 10)))
def test_random_logs_are_answered_as_the_oracles_do(part):
    found = [compared(seed) for seed in range(50 * part, 50 * part + tries(36, 50))]
    assert [(seed, wrong) for seed, _, wrong in found if wrong] == []
    assert sum(count for _, count, _ in found) > 200


@pytest.mark.parametrize("part", range(tries(1, 10)))
def test_so_they_are_through_the_public_api(part):
    found = [compared(seed, "public") for seed in range(900 + 20 * part, 920 + 20 * part)]
    assert [(seed, wrong) for seed, _, wrong in found if wrong] == []


def clicks_at(depth):
    return Measure(f"clicks@{depth}", oracle.clicks_at(depth))


# --- found by the fuzzer ------------------------------------------------------------------------


def test_the_answer_to_a_metric_does_not_depend_on_others():
    """The candidate's first item was never shown; its second was."""
    rows = [Row("q", ("a", "b"), (1.0, 0.0)), Row("q", ("b", "a"), (1.0, 1.0))]
    models = ("rctr", "rcm")
    policy = {"q": {("z", "a"): 1.0}}
    judge(case_of(rows, policy, models=models, measures=(clicks_at(1), clicks_at(2))))


@pytest.mark.parametrize(
    ("rows", "policy"),
    [
        (
            [
                Row(3, (1,), (1e6,), 1, "Monday"),
                Row(3, (1,), (1e6,), 10**6, "Monday"),
                Row(1, (1,), (0.0,), 1, "Sunday"),
                Row(1, (1,), (1.0,), 1, "Monday"),
            ],
            {1: {(1,): 0.5, (0,): 0.5}, 3: {(1,): 0.25, (9, 1): 0.75}},
        ),
        (
            [
                Row("q", ("b",), (0.0,), 1, 3),
                Row("q", ("a", "b"), (0.0, 0.0), 0.1, 3),
                Row("q", ("b",), (1.0,), 1, 0),
            ],
            {"q": {("b", "a"): 1 - 1e-9, ("a", "z"): 1e-9}},
        ),
        (
            [
                Row("q", (0, 1), (0.0, 0.0), 10**12, 1),
                Row("q", (0, 1), (0.0, 0.0), 2, 1),
                Row("q", (0, 1), (1.0, 1.0), 1, 2),
            ],
            {"q": {(0, 1): 0.25, (1, 0, 2): 0.75}},
        ),
        (
            [
                *(Row("q", ("a", "b"), (0.0, 0.0), 1, 1),) * 3,
                Row("q", ("a", "b"), (0.0, 1e-6), 1, 2),
                Row("r", ("c", "a", "b"), (1e6,) * 3, 1, 1),
            ],
            {"q": {("b", "a"): 0.3, ("c", "a", "b"): 0.7}, "r": {("b", "c", "a"): 1.0}},
        ),
    ],
    ids=["a context of large rewards", "less than a record", "nearly all on one day", "all scales"],
)
def test_the_variance_of_days_is_more_than_rounding(rows, policy):
    for theta in ((1.0, 1.0, 1.0), (0.1, 1.0, 0.3)):
        measures = (Measure(theta, theta),)
        judge(case_of(rows, policy, measures=measures, clusters="period"))


@pytest.mark.parametrize(
    ("lists", "shown", "theta"),
    [
        ([(7, 3, 0, 1, 9)], [(5, 7, 3), (6, 8)], (0.7, 0.8, 0.9, 0.7, 0.9)),
        (
            [(7, 2, 9, 8), (7, 4, 3, 2), (1, 5, 2, 6), (3, 2, 9, 1)],
            [(5, 8, 3), (7, 3)],
            (0.1, 0.4, 0.2, 1.0),
        ),
    ],
    ids=["a whole list", "items never shown"],
)
def test_what_else_a_batch_holds_changes_nothing(lists, shown, theta):
    """Sums along lists, and over items that only other contexts show."""
    chances = {1: (1.0,), 4: (0.1, 0.2, 0.3, 0.4)}[len(lists)]
    policy = {x: dict(zip(lists, chances, strict=True)) for x in "ab"}
    rows = [Row("b", lists[0], (1.0,) * 5), Row("b", shown[0], (1.0,) * 3)]
    rows += [Row("a", shown[1], (1.0,) * 2), Row("a", lists[-1], (1.0,) * 5)]
    rows = [row._replace(clicks=row.clicks[: len(row.items)]) for row in rows]
    judge(case_of(rows, policy, measures=(Measure(theta, theta),), clips=(0.7, math.inf), slots=1))


@pytest.mark.parametrize("model", ["ip", "ladder"])
def test_the_floor_of_a_backtest_does_not_depend_on_what_else_is_asked(model):
    """Lists that differ only below what a metric counts are different lists."""
    rows = [("a",), ("a", "b"), ("a", "c"), ("a",)] * 3
    clicks = [[i % 2, *[1] * (len(items) - 1)] for i, items in enumerate(rows)]
    days = [i // 6 for i in range(12)]
    log = fc.read_log(
        {"context": ["q"] * 12, "items": rows, "clicks": clicks, "day": days}, period="day"
    )
    alone, other = (
        fc.backtest(log, metrics=metrics, estimators=estimators)["floor"][0]
        for metrics, estimators in ((["clicks@1"], "ip"), (["clicks@1", "clicks@2"], ["ip", model]))
    )
    assert alone == other > 0


def test_a_ladder_tells_a_longer_list_from_a_logged_one():
    """Whichever metrics are asked; the candidate's list goes on where the logged one ends."""
    rows = [Row("q", (1, 0), (0.0, 0.0)), Row("q", (0, 1), (1.0, 1.0))]
    for seed in range(8):  # of the ladder
        case = case_of(rows, {"q": {(1, 0, 99): 1.0}}, seed=seed, measures=(clicks_at(2),))
        assert judge_ladder(case) == 1


def test_a_ratio_counts_what_is_shown_where_no_item_of_it_was_ever_shown():
    """The candidate's first item was never shown, its second was: one position is filled."""
    rows = [Row("q", ("a", "b"), (1.0, 1.0))] * 3
    shown = Measure("shown@1", oracle.clicks_at(1))
    case = case_of(rows, {"q": {("z", "b"): 1.0}}, models=("ip", "rcm"))
    assert judge_ratios(case, [(clicks_at(2), shown)]) == 2


@pytest.mark.parametrize("clusters", ["record", "period"])
def test_a_ratio_over_next_to_nothing_has_a_value_and_no_interval(clusters):
    """The square of 10⁻³⁰⁰ is 0."""
    rows = [Row("q", ("a", "b"), (1.0, 1.0), day=day) for day in range(3)]
    policy = {"q": {("a", "b"): 1e-300, ("z",): 1.0}}
    case = case_of(rows, policy, models=("ip",), clusters=clusters)
    assert judge_ratios(case, [(Measure((1.0, 0.5), (1.0, 0.5)), clicks_at(2))]) == 1


def test_a_lift_over_next_to_nothing_has_no_interval():
    """Its ends were one point, which the other is 10³⁰⁰ times as large as."""
    days = list(range(5))
    clicks = [[day % 2, 1] for day in days]
    table = {"context": ["q"] * 5, "items": [["a", "b"]] * 5, "clicks": clicks, "day": days}
    rare = {"context": ["q"] * 2, "items": [["a", "b"], ["z"]], "probability": [1e-300, 1.0]}
    found = fc.evaluate(
        fc.read_log(table, period="day"),
        {"context": ["q"], "items": [["a", "b"]]},
        baseline=fc.Lists(rare),
        metrics="clicks@2",
        estimators="ip",
    )
    assert found["change_low"][0] < found["change_high"][0]
    assert found["lift_low"] == found["lift_high"] == [None]


@pytest.mark.parametrize(
    "as_frame", [dict, partial(pd.DataFrame, dtype=object)], ids=["columns", "pandas"]
)
@pytest.mark.parametrize("odd", [2**64, -(2**63) - 1, "\ud800"], ids=["large", "small", "half"])
def test_what_arrow_cannot_hold_is_refused(as_frame, odd):
    """Integers of more than 64 bits, and half a character; before, errors of Arrow and Python."""
    columns = {"context": [odd], "items": [["a"]], "clicks": [[1]]}
    with pytest.raises(SourceError, match="cannot be turned into Arrow"):
        fc.read_log(as_frame(columns))


# --- what tests near by would not notice ----------------------------------------------------------


@pytest.mark.parametrize("seed", [5004449, 5005089, 6000605, 6002804])
def test_what_days_and_users_share_is_rounded_as_each_candidate_varies(seed):
    """The order of a pair, a candidate beside itself, and production, which varied 10¹² times more.

    By days and users at once.
    """
    assert compared(seed, "compare")[2] == ""
