"""If this fails, first clicks or samples of candidates are answered with wrong errors."""

import statistics

import pytest

import foreclick as fc
from tests.answers import answer
from tests.cases import plain, tables
from tests.truth import oracle

RECORD = fc.Confidence(clusters="record")
CASE = plain.drawn(4, records=400, contexts=2, items=4, depth=2)
ONE = {q: {next(iter(lists)): 1.0} for q, lists in CASE.shown.items()}
MARGINALS = fc.Marginals(tables.marginals_table(ONE))


@pytest.mark.parametrize(
    ("candidate", "estimator", "options"),
    [
        (MARGINALS, "rctr", {}),
        (fc.Lists(tables.lists_table(ONE)), fc.Weighted("list", 10), {}),
        (fc.Lists(tables.lists_table(ONE)), "list", {"logging": fc.Observed(CASE.log)}),
        (fc.Lists(tables.lists_table(ONE)), "ladder", {}),
    ],
)
def test_what_needs_no_hazards_is_not_refused(candidate, estimator, options):
    assert 0 < answer(CASE.log, candidate, estimator, "success@2", **options)["value"] <= 1


# --- what it rests on -----------------------------------------------------------------------------


def test_what_was_never_at_risk_counts_as_no_click_and_is_in_the_margin():
    """Item 3 was shown below item 1 alone, which everybody clicked."""
    log = {
        "context": ["q"] * 6,
        "items": [[1, 3], [2, 1]] * 3,
        "clicks": [[1, 1], [0, 1], [1, 0], [1, 0], [1, 1], [0, 1]],
    }
    row = answer(log, {"context": ["q"], "items": [[2, 3]]}, "ip", "success@2", confidence=RECORD)
    assert row["covered"] == pytest.approx(1 / 2)
    assert row["value"] == pytest.approx(1 / 3)
    # The best position is the second: few get there, and all of them click; of the first, 4 of 6.
    assert row["margin"] == pytest.approx(1)
    shown = answer(log, {"context": ["q"], "items": [[2, 3]]}, "ip", "clicks@2")
    assert shown["covered"] == 1


# --- candidates that are frequencies of another log, and sums over cells that tell little ---------


def test_the_other_sample_adds_its_variance_and_the_log_itself_none():
    """Σ_x (n_x / n)² Var_s(score) / m_x, over the records s of the other log."""
    log, other = CASE.taking(range(340)), CASE.taking(range(340, 400))
    read, metric = log.log, fc.Metric([1.0, 0.5])

    def variance(candidate):
        return answer(read, candidate, "ip", metric, confidence=RECORD)["se"] ** 2

    def exactly(case):
        """The same lists with the same probabilities, which are said to be exact."""
        return fc.Lists(tables.lists_table(oracle.frequencies(case.records)))

    added, here = 0.0, oracle.by_context(log.records)
    for x, own in oracle.by_context(other.records).items():
        worth = [oracle.value("ip", here[x], {x: {r.items: 1.0}}, metric.theta) for r in own]
        added += (len(here[x]) / log.size) ** 2 * statistics.variance(worth) / len(own)
    more = variance(fc.Observed(other.log)) - variance(exactly(other))
    assert more == pytest.approx(added, rel=1e-9)
    assert variance(fc.Observed(read)) == pytest.approx(variance(exactly(log)), rel=1e-9)


def test_a_cell_without_weight_hides_nothing():
    """Item 2 is shown by the candidate only where nobody looks: its clicks tell nothing."""
    candidate = {"context": ["q"], "items": [[1, 2]]}
    pbm = fc.Weighted("pbm", examination=(1.0, 0.0))

    def asked(of_2):
        log = {
            "context": ["q"] * 40,
            "items": [[1, 3]] * 20 + [[2, 1]] * 20,
            "clicks": [[c, 0] for c in [0, 1, 1, 1] * 5 + of_2],
        }
        return answer(log, candidate, pbm, confidence=RECORD)

    one, other = asked([0] * 20), asked([0, 1] * 10)
    assert one["se"] == other["se"] > 0
    assert one["value"] == other["value"]
