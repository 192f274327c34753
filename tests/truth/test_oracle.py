"""The oracle, held against hand calculation and against the enumeration of every possible log."""

import pytest

from tests.truth import oracle
from tests.truth.oracle import Record

# Only the order of a few dozen additions differs between the two sides.
ROUNDING = 1e-12

RECORDS = [
    Record("q", ("a", "b"), (1, 0)),
    Record("q", ("a", "b"), (0, 1)),
    Record("q", ("b", "a"), (1, 1)),
    Record("q", ("b", "c"), (0, 1)),
]
CANDIDATE = {"q": {("b", "a"): 0.5, ("a", "c"): 0.5}}


def close(expected):
    return pytest.approx(expected, rel=ROUNDING, abs=ROUNDING)


@pytest.mark.parametrize(
    ("model", "unclipped", "clipped"),
    [
        # π̂ is ab 1/2, ba 1/4, bc 1/4. Only ba is in both: 2 clicks, weight 2.
        ("list", (2 * 2) / 4, (2 * 1) / 4),
        # a 1/2 : 1/2; b 1/2 : 1/2; ba 1/2 : 1/4; ab and bc are not the candidate's.
        ("prefix", (1 + 1 + 2) / 4, (1 + 1 + 1) / 4),
        # a@1 and b@1 weigh 1; a@2 and c@2 1/2 : 1/4; b@2 0.
        ("ip", (1 + 1 + 2 + 2) / 4, (1 + 1 + 1 + 1) / 4),
        # a 1 : 3/4, b 1/2 : 1, c 1/2 : 1/4, with 2, 2 and 1 clicks.
        ("item", (2 * 4 / 3 + 2 * 1 / 2 + 2) / 4, (2 * 1 + 2 * 1 / 2 + 1) / 4),
        # with p = (1, 1/2): a 3/4 : 5/8, b 1/2 : 3/4, c 1/4 : 1/8.
        ("pbm", (2 * 6 / 5 + 2 * 2 / 3 + 2) / 4, (2 * 1 + 2 * 2 / 3 + 1) / 4),
        ("rctr", 5 / 4, 5 / 4),
        ("rcm", 5 / 4, 5 / 4),
    ],
)
def test_values_by_hand(model, unclipped, clipped):
    theta = oracle.clicks_at(2)
    assert oracle.value(model, RECORDS, CANDIDATE, theta) == close(unclipped)
    assert oracle.value(model, RECORDS, CANDIDATE, theta, 1) == close(clipped)


def test_what_the_value_rests_on_by_hand():
    row = oracle.evaluate("ip", RECORDS, CANDIDATE, oracle.clicks_at(2))
    # E = 2, 2, 1, 2, 1 and W = 1, 1, 2, 0, 2 for a@1, b@1, a@2, b@2, c@2
    assert row == close(
        oracle.Row(
            value=1.5,
            production=1.25,
            change=0.25,
            lift=0.2,
            covered=1,
            clipped=0,
            ess=4 * 8**2 / (8 * 12),
            contexts=1,
            records=4,
            missing_contexts=0,
        )
    )
    assert oracle.evaluate("ip", RECORDS, CANDIDATE, oracle.clicks_at(2), 1).clipped == close(0.25)
    assert oracle.evaluate("list", RECORDS, CANDIDATE, oracle.clicks_at(2)).covered == close(0.5)
    assert oracle.evaluate("prefix", RECORDS, CANDIDATE, oracle.clicks_at(2)).covered == close(0.75)


def test_lists_of_unequal_length_by_hand():
    records = [Record(0, (1, 2), (1, 1)), Record(0, (1,), (0,))]
    candidate = {0: {(1, 2): 1.0}}
    theta = oracle.clicks_at(2)
    # position 2 is filled in half of the records: its click counts double
    assert oracle.value("rctr", records, candidate, theta) == close((1 + 2) / 2)
    # 2 filled positions against 3/2: each click counts 4/3
    assert oracle.value("rcm", records, candidate, theta) == close((4 / 3 + 4 / 3) / 2)
    # (1,) and (1, 2) are one list where only the first position counts, and two where both do
    assert oracle.value("list", records, candidate, oracle.clicks_at(1)) == close(0.5)
    assert oracle.value("list", records, candidate, theta) == close(2)
