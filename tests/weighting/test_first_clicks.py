"""If this fails, "at least one click" is answered where it cannot be known."""

from collections import Counter

import numpy as np
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


# --- candidates that are frequencies of another log, and sums over cells that tell little ---------


METRIC = fc.Metric([1.0, 0.5])


def records(rng, size, contexts=2):
    items = np.array([[1, 2], [2, 1], [1, 3]])[rng.integers(0, 3, size)]
    return {
        "context": rng.integers(0, contexts, size),
        "items": items.tolist(),
        "clicks": (rng.random((size, 2)) < 0.4).astype(int).tolist(),
    }


def score(log, context, shown):
    """Σ_k θ_k r(a_k, k), with r the item-position click rate of the log's context."""
    found = 0.0
    for k, (item, theta) in enumerate(zip(shown, METRIC.theta, strict=True)):
        clicks = [
            c[k]
            for x, a, c in zip(log["context"], log["items"], log["clicks"], strict=True)
            if x == context and a[k] == item
        ]
        found += theta * float(np.mean(clicks))
    return found


def added(log, other):
    """Σ_x (n_x / n)² Var_s(score) / m_x, over the records s of the other log."""
    total = 0.0
    for context in np.unique(log["context"]):
        share = np.mean(np.asarray(log["context"]) == context)
        scores = [
            score(log, context, a)
            for x, a in zip(other["context"], other["items"], strict=True)
            if x == context
        ]
        total += share**2 * np.var(scores, ddof=1) / len(scores)
    return total


def se_of(log, candidate):
    return fc.evaluate(
        log, candidate, metrics=METRIC, estimators="ip", confidence=fc.Confidence(clusters="record")
    )["se"][0]


def exactly(log):
    """The same lists with the same probabilities, which are said to be exact."""
    shown = Counter((int(x), *a) for x, a in zip(log["context"], log["items"], strict=True))
    of = Counter(int(x) for x in log["context"])
    return fc.Lists(
        {
            "context": [x for x, *_ in shown],
            "items": [list(a) for _, *a in shown],
            "probability": [n / of[x] for (x, *_), n in shown.items()],
        }
    )


def test_the_other_sample_adds_its_variance_and_the_log_itself_none():
    rng = np.random.default_rng(4)
    log, other = records(rng, 400), records(rng, 60)
    more = se_of(log, fc.Observed(other)) ** 2 - se_of(log, exactly(other)) ** 2
    assert more == pytest.approx(added(log, other), rel=1e-9)
    read = fc.read_log(log)
    assert se_of(read, fc.Observed(read)) == pytest.approx(se_of(read, exactly(log)), rel=1e-9)


def test_a_cell_without_weight_hides_nothing():
    """Item 2 is shown by the candidate only where nobody looks: its clicks tell nothing."""
    clicks = np.random.default_rng(8).integers(0, 2, 20).tolist()
    candidate = {"context": ["q"], "items": [[1, 2]]}
    pbm = fc.Weighted("pbm", examination=(1.0, 0.0))

    def asked(of_2):
        log = {
            "context": ["q"] * 40,
            "items": [[1, 3]] * 20 + [[2, 1]] * 20,
            "clicks": [[c, 0] for c in clicks] + [[c, 0] for c in of_2],
        }
        return answer(log, candidate, pbm, "clicks@2", confidence=fc.Confidence(clusters="record"))

    one, other = asked([0] * 20), asked([0, 1] * 10)
    assert one["se"] == other["se"] > 0
    assert one["value"] == other["value"]
