"""What a product of hazards refuses, what it rests on, and what moves it besides the records."""

import pytest

import foreclick as fc
from tests.answers import answer

LOG = {
    "context": ["q"] * 8,
    "items": [[1, 2, 3], [2, 1, 3]] * 4,
    "clicks": [
        [0, 1, 1],
        [1, 0, 0],
        [0, 0, 1],
        [0, 1, 0],
        [1, 1, 0],
        [0, 0, 0],
        [0, 0, 1],
        [0, 0, 0],
    ],
}
CANDIDATE = {"context": ["q"], "items": [[2, 1, 3]]}


# --- refusals -------------------------------------------------------------------------------------


MARGINALS = fc.Marginals(
    {"context": ["q"] * 2, "item": [1, 2], "position": [1, 2], "probability": [1.0, 1.0]}
)
KNOWN = fc.Observed(LOG)


@pytest.mark.parametrize(
    ("candidate", "estimator", "options"),
    [
        (MARGINALS, "rctr", {}),
        (CANDIDATE, fc.Weighted("list", 10), {}),
        (CANDIDATE, "list", {"logging": KNOWN}),
        (CANDIDATE, "ladder", {}),
    ],
)
def test_what_needs_no_hazards_is_not(candidate, estimator, options):
    assert 0 < answer(LOG, candidate, estimator, "success@2", **options)["value"] <= 1


@pytest.mark.filterwarnings("ignore::foreclick.errors.ForeclickWarning")
def test_propensities_are_not_chosen_for_it():
    """Contexts that do not repeat would get them, and then be refused what nobody asked for."""
    n = 6
    log = fc.read_log(
        {
            "context": list(range(n)),
            "items": [[1, 2]] * n,
            "clicks": [[0, 1]] * n,
            "p": [[0.5, 0.5]] * n,
        },
        propensity="p",
    )
    candidate = {"context": list(range(n)), "items": [[1, 2]] * n}
    found = fc.evaluate(
        log, candidate, estimators=["ip", "prefix"], metrics=["success@2"], confidence=None
    )
    assert found["value"] == pytest.approx([1.0, 2.0])  # 1/π for prefix, rates for ip


# --- what it rests on -----------------------------------------------------------------------------


def test_what_was_never_at_risk_counts_as_no_click_and_is_in_the_margin():
    """Item 3 was shown below item 1 alone, which everybody clicked."""
    log = {
        "context": ["q"] * 6,
        "items": [[1, 3], [2, 1]] * 3,
        "clicks": [[1, 1], [0, 1], [1, 0], [1, 0], [1, 1], [0, 1]],
    }
    row = answer(
        log,
        {"context": ["q"], "items": [[2, 3]]},
        "ip",
        "success@2",
        confidence=fc.Confidence(clusters="record"),
    )
    assert row["covered"] == pytest.approx(1 / 2)
    assert row["value"] == pytest.approx(1 / 3)
    # The best position is the second: few get there, and all of them click; of the first, 4 of 6.
    assert row["margin"] == pytest.approx(1)
    shown = answer(log, {"context": ["q"], "items": [[2, 3]]}, "ip", "clicks@2")
    assert shown["covered"] == 1
