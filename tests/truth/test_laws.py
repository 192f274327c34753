"""Laws that hold whatever was logged, and truths of first clicks in worlds that are enumerated."""

import math

import pytest

import foreclick as fc
from tests import drawn
from tests.answers import clipped
from tests.simulate import small
from tests.truth import firsts, oracle
from tests.truth.paper import paper

pytestmark = pytest.mark.filterwarnings("ignore::foreclick.errors.ForeclickWarning")

EXACT = 1e-12  # probabilities instead of counts: a few thousand terms below 1


@pytest.mark.parametrize("seed", range(3))
def test_what_was_logged_is_worth_what_production_is(seed):
    """For every model, with any M ≥ 1: no weight differs from one, also of a policy that is known.

    Of first clicks that is true of lists and prefixes.
    """
    records = drawn.drawn(seed, records=40, ragged=True, text=seed == 1).records
    log = fc.read_log(drawn.log_table(records))
    for logging in (None, fc.Observed(log)):
        for metric, models in (("dcg@3", oracle.MODELS), ("mrr@3", ("list", "prefix"))):
            for row in fc.evaluate(
                log,
                fc.Observed(log),
                estimators=clipped(paper(models), [2, math.inf]),
                metrics=metric,
                logging=logging,
                confidence=None,
            ):
                assert row["value"] == pytest.approx(row["production"], rel=EXACT)
                assert (row["covered"], row["clipped"]) == pytest.approx((1, 0), abs=EXACT)
                assert row["ess"] == pytest.approx(len(records), rel=EXACT)


HOLDS = {
    "pbm": ("list", "prefix", "ip", "pbm"),
    "dctr": ("list", "prefix", "ip", "item"),
    "ip": ("list", "prefix", "ip"),
    "cascade": ("list", "prefix", "ip", "item"),
    "dcm": ("list", "prefix", "ip", "item"),
    "dbn": ("list", "prefix"),
}
"""Where the estimate has no bias; DBN users also leave without a click, which bends hazards."""


@pytest.mark.parametrize("name", sorted(HOLDS))
def test_an_infinite_log_tells_the_truth_where_the_hazards_are_right(name):
    """A log in which every outcome stands with its probability is what an infinite log would be."""
    records = [
        oracle.Record(x, tuple(1000 * x + a for a in shown), clicks, 1e6 * chance * (1 + i % 3))
        for x in range(small.CONTEXTS)
        for i, shown in enumerate(small.every_list())
        for chance, clicks in small.outcomes(name, x, shown)
        if chance > 0
    ]
    log = fc.read_log(drawn.weighted_log_table(records), count="weight")
    shown = {(0, (2, 0, 3)): 0.4, (0, (3, 2, 1)): 0.6, (1, (1, 3, 0)): 1.0}
    policy: dict[int, dict[tuple[int, ...], float]] = {0: {}, 1: {}}
    for (x, items), mass in shown.items():
        policy[x][tuple(1000 * x + a for a in items)] = mass
    candidate = fc.Lists(drawn.lists_table(policy))
    sizes = [sum(r.weight for r in records if r.context == x) for x in range(small.CONTEXTS)]
    curve = small.EXAMINATION.tolist()
    models = [
        fc.Weighted(model, examination=curve if model == "pbm" else None) for model in HOLDS[name]
    ]
    for metric, theta in (("success@3", firsts.success_at(3)), ("mrr@3", firsts.mrr_at(3))):
        truth = sum(
            sizes[x] * mass * chance * next((t for t, c in zip(theta, got, strict=True) if c), 0.0)
            for (x, items), mass in shown.items()
            for chance, got in small.outcomes(name, x, items)
        ) / sum(sizes)
        exact = small.WORLDS[name].value(candidate, metric, sizes)
        assert exact == pytest.approx(truth, abs=EXACT)
        found = fc.evaluate(log, candidate, metrics=metric, estimators=models, confidence=None)
        assert found["value"] == pytest.approx([truth] * len(models), abs=EXACT)
