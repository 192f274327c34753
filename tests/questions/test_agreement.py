"""If this fails, an estimator seems to agree that was never compared."""

import re

import pytest

import foreclick as fc
from foreclick.cli.output import markdown
from foreclick.questions.agreement import AGREES, ALLOWS, DIFFERS, SAME_VERDICT, Beside, relation
from foreclick.results import format_value
from tests.questions.scenes import SMALL, shop_of

NEEDED = 0.9


def row(change, low, high, verdict="cannot tell", *, margin=0.0):
    found = {"change": change, "change_low": low, "change_high": high + margin}
    return found | {"verdict": verdict, "borrowed": 0.0, "margin": margin}


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (row(0.03, 0.01, 0.05, "better"), AGREES),
        (row(0.03, -0.01, 0.07), AGREES),
        # That it saw too little to exclude the answer is no agreement.
        (row(0.03, 0.025, 0.035, "better", margin=0.1), ALLOWS),
        # Nor is what points the other way, whatever its interval holds.
        (row(-0.01, -0.06, 0.05), ALLOWS),
        (row(-0.35, -0.8, 0.1), ALLOWS),
        (row(0.08, 0.05, 0.11, "better"), ALLOWS),  # the intervals have 0.05 in common
        (row(0.09, 0.07, 0.11, "better"), SAME_VERDICT),
        (row(-0.01, -0.03, 0.01), DIFFERS),
    ],
)
def test_agreement_is_of_sign_and_size(other, says):
    answer = row(0.04, 0.02, 0.05, "better")
    assert relation(Beside(answer, other, disputed=False)) == says


@pytest.fixture(scope="module", params=[1, 2, 3])
def shop(request):
    _, log, candidates = shop_of(SMALL, request.param)
    return log, {name: candidates[name] for name in ("better", "similar", "tweak")}


def test_nobody_agrees_who_points_the_other_way_or_was_not_compared(shop):
    tally, candidates = shop
    metrics, said = ["clicks@1", "clicks@5"], 0
    for candidate in candidates.values():
        found = fc.evaluate(tally, candidate, metrics=metrics, estimators="all")
        answers = {each["metric"]: each for each in found if each["estimator"] == "ladder"}
        agreeing = [s for s in found.headline.sentences if re.search(r"\bagrees?\b", s)]
        for each in (row for row in found if row["lift"] is not None):
            if each["lift"] * answers[each["metric"]]["lift"] < 0 or each["covered"] < NEEDED:
                said += 1
                number = format_value("lift", each["lift"])
                assert not any(number in sentence for sentence in agreeing), (each, agreeing)
    assert said > 3


def test_what_is_covered_too_little_says_so(shop):
    tally, candidates = shop
    seen = set()
    for candidate in candidates.values():
        found = fc.evaluate(tally, candidate, metrics="clicks@3")
        covered = found["covered"][found["estimator"].index("ip")]
        said = " ".join(found.headline.sentences)
        little = f"covers {100 * covered:.1f}% of it, so it was not compared (90% needed)." in said
        assert little == ("not compared" in said) == (covered < NEEDED)
        assert not (little and "agree" in said)
        assert "(same item, any position)." in said  # what of the candidate the log saw
        seen.add(little)
    assert seen == {True, False}


def test_an_estimator_that_is_compared_on_one_metric_is_not_on_the_other(shop):
    tally, candidates = shop
    found = fc.evaluate(tally, candidates["tweak"], metrics=["clicks@1", "dcg@5"], estimators="all")
    shares = {each["metric"]: each["covered"] for each in found if each["estimator"] == "list"}
    assert shares["dcg@5"] < NEEDED < shares["clicks@1"], "the test says little"
    said = found.headline.sentences
    assert any("list" in sentence and " on clicks@1" in sentence for sentence in said)
    assert any(re.search(r"list (covers )?[\d.]+% of it for dcg@5", sentence) for sentence in said)
    assert any("because it ignores the ranking: rctr" in sentence for sentence in said)


def test_a_comparison_says_what_was_checked(shop):
    tally, candidates = shop
    found = fc.compare(tally, candidates)
    said = " ".join(found.notes)
    assert "Seen means: same item, any position." in found.headline.sentences
    for name, candidate in candidates.items():
        rows = fc.evaluate(tally, candidate, metrics="clicks@3", estimators="ip")
        little = re.search(rf"covers .*% of {name}\b.*not compared \(90% needed\)\.", said)
        assert bool(little) == (rows["covered"][0] < NEEDED)
        enough = re.search(rf"answer on [^.]*\b{name}\b|disagree on .*\b{name}\b", said)
        assert bool(enough) != bool(little)


def test_a_gate_says_it_too(shop):
    tally, candidates = shop
    found = fc.evaluate(tally, candidates["similar"], metrics="clicks@3")
    assert "not compared" in markdown(found)
