"""The subtleties of STATISTICS.md, section 3, items 2 to 5: each with tests that name it."""

import math
from typing import Any, ClassVar

import pytest

import foreclick as fc
from foreclick.errors import ModelError, OptionError
from tests.answers import IBIS, SAME, answer, assert_as_oracle, clipped, log_of, repeated, values
from tests.truth import oracle, random_logs
from tests.truth.paper import paper


class TestItem2ALoggedCellOfProbability0:
    """Weight M if it is finite, else dropped; either way reported. 0/0 = 0."""

    RECORDS = repeated(((1, 2), (1, 0)), ((2, 1), (1, 1)))
    LOGGING = fc.Lists(
        {"context": ["q", "q"], "items": [[2, 1], [3, 4]], "probability": [0.5, 0.5]}
    )
    CANDIDATE = fc.Lists(
        {"context": ["q", "q"], "items": [[1, 2], [2, 1]], "probability": [0.75, 0.25]}
    )

    @pytest.fixture
    def log(self):
        return log_of(self.RECORDS)

    def test_weighs_m_where_m_is_finite(self, log):
        row = answer(log, self.CANDIDATE, clipped("list", 10), logging=self.LOGGING)
        # (1, 2) was logged 3 times with 1 click though it is called impossible: weight 10.
        # (2, 1) was logged 3 times with 2 clicks: weight .25 / .5.
        assert row["value"] == pytest.approx((3 * 1 * 10 + 3 * 2 * 0.5) / 6, rel=SAME)

    def test_is_left_out_where_m_is_infinite(self, log):
        row = answer(log, self.CANDIDATE, "list", logging=self.LOGGING)
        assert row["value"] == pytest.approx(3 * 2 * 0.5 / 6, rel=SAME)

    def test_weighs_nothing_where_the_candidate_does_not_show_it_either(self, log):
        """0/0 = 0, whatever M is."""
        candidate = {"context": ["q"], "items": [[2, 1]]}
        row = answer(log, candidate, clipped("list", 10), logging=self.LOGGING)
        assert row["value"] == pytest.approx(3 * 2 * 2 / 6, rel=SAME)

    @pytest.mark.parametrize("clip", [10, math.inf])
    def test_is_reported_in_a_note(self, log, clip):
        found = fc.evaluate(
            log,
            self.CANDIDATE,
            estimators=clipped("list", clip),
            metrics="clicks@2",
            logging=self.LOGGING,
            confidence=None,
        )
        (note,) = [note for note in found.notes if "probability 0" in note]
        assert ": list 3." in note
        assert "weigh M where it is finite and are left out where it is not" in note

    def test_is_counted_once_whatever_is_asked(self, log):
        found = fc.evaluate(
            log,
            self.CANDIDATE,
            estimators=clipped("list", [10, math.inf]),
            metrics=["clicks@2", "dcg@2"],
            logging=self.LOGGING,
            confidence=None,
        )
        (note,) = [note for note in found.notes if "probability 0" in note]
        assert ": list 3." in note

    def test_same_log_frequencies_never_meet_it(self, log):
        found = fc.evaluate(
            log,
            self.CANDIDATE,
            estimators=["list", "ip", "item"],
            metrics="clicks@2",
            confidence=None,
        )
        assert not any("probability 0" in note for note in found.notes)

    def test_agrees_with_the_oracle_in_every_model(self, log):
        found = fc.evaluate(
            log,
            self.CANDIDATE,
            estimators=clipped(["list", "prefix", "ip", "item"], [10, math.inf]),
            metrics="clicks@2",
            logging=self.LOGGING,
            confidence=None,
        )
        assert_as_oracle(
            found,
            self.RECORDS,
            {"q": {(1, 2): 0.75, (2, 1): 0.25}},
            logging={"q": {(2, 1): 0.5, (3, 4): 0.5}},
        )


class TestItem3MassOnUnloggedCells:
    """It counts as no clicks, so it is reported, always, and never silently."""

    RECORDS = repeated(((1, 2), (1, 1)), ((2, 1), (1, 1)), ((1, 3), (1, 1)))

    def test_covered_is_the_share_of_exposure_that_was_logged(self):
        candidate = {"context": ["q"], "items": [[1, 9]]}
        found = fc.evaluate(
            log_of(self.RECORDS),
            candidate,
            estimators=paper(["list", "ip", "pbm"]),
            metrics="clicks@2",
            confidence=None,
        )
        covered = dict(zip(found["estimator"], found["covered"], strict=True))
        assert covered == pytest.approx({"list": 0, "ip": 1 / 2, "pbm": 2 / 3}, rel=SAME)

    def test_little_coverage_gets_a_note_that_says_how_little(self):
        candidate = {"context": ["q"], "items": [[1, 9]]}
        found = fc.evaluate(
            log_of(self.RECORDS),
            candidate,
            estimators=["ip", "rctr"],
            metrics="clicks@2",
            confidence=None,
        )
        (note,) = found.notes
        assert note == "ip counts the 50% that it never saw as no clicks."

    def test_no_coverage_is_no_value(self):
        candidate = {"context": ["q"], "items": [[1, 9]]}
        found = fc.evaluate(
            log_of(self.RECORDS),
            candidate,
            estimators=["list", "ip"],
            metrics="clicks@2",
            confidence=None,
        )
        assert found["value"] == [None, pytest.approx(1.0)]

    def test_full_coverage_needs_no_note(self):
        candidate = {"context": ["q"], "items": [[2, 3]]}
        found = fc.evaluate(
            log_of(self.RECORDS),
            candidate,
            estimators=["ip", "item"],
            metrics="clicks@2",
            confidence=None,
        )
        assert found["covered"] == [1.0, 1.0]
        assert found.notes == ()

    def test_clipped_is_the_share_of_exposure_that_m_cut_off(self):
        candidate = {"context": ["q"], "items": [[2, 1]]}  # each slot was logged once in three
        found = fc.evaluate(
            log_of(self.RECORDS),
            candidate,
            estimators=clipped("ip", [1, 2, 3, math.inf]),
            metrics="clicks@2",
            confidence=None,
        )
        assert found["clipped"] == pytest.approx([2 / 3, 1 / 3, 0, 0], rel=SAME, abs=SAME)
        assert found["covered"] == [1.0] * 4


class TestItem4ThetaOf0:
    """Lists are compared up to the last position that counts, and no further."""

    RECORDS = repeated(
        ((1, 2, 3), (1, 0, 1)), ((1, 2, 4), (0, 1, 0)), ((2, 1, 3), (1, 1, 1)), times=2
    )
    CANDIDATE: ClassVar[Any] = {"context": ["q"], "items": [[1, 2, 9]]}

    @pytest.mark.parametrize("metric", ["clicks@2", fc.Metric([1, 1, 0]), fc.Metric([1, 1, 0, 0])])
    def test_behind_the_last_weight_lists_may_differ(self, metric):
        row = answer(log_of(self.RECORDS), self.CANDIDATE, "list", metric)
        # (1, 2, 3) and (1, 2, 4) both match: 2 + 2 clicks in 4 records.
        assert (row["value"], row["covered"]) == (pytest.approx(1.0, rel=SAME), 1.0)

    def test_before_the_last_weight_lists_must_agree(self):
        row = answer(log_of(self.RECORDS), self.CANDIDATE, "list", fc.Metric([1, 0, 1]))
        assert (row["value"], row["covered"]) == (None, 0)
        same = {"context": ["q"], "items": [[1, 2, 3]]}
        row = answer(log_of(self.RECORDS), same, "list", fc.Metric([1, 0, 1]))
        assert row["value"] == pytest.approx(2.0, rel=SAME)

    def test_metrics_of_different_depth_each_look_as_far_as_they_count(self):
        found = fc.evaluate(
            log_of(self.RECORDS),
            self.CANDIDATE,
            estimators="list",
            metrics=["clicks@1", "clicks@2", "clicks@3"],
            confidence=None,
        )
        assert found["covered"] == [1.0, 1.0, 0.0]
        assert found["value"] == [pytest.approx(0.5), pytest.approx(1.0), None]

    def test_a_position_that_counts_nothing_is_no_cell_of_ip(self):
        row = answer(log_of(self.RECORDS), self.CANDIDATE, "ip", fc.Metric([1, 0, 1]))
        theta = (1, 0, 1)
        expected = oracle.evaluate("ip", self.RECORDS, {"q": {(1, 2, 9): 1.0}}, theta)
        assert row["covered"] == pytest.approx(expected.covered, rel=SAME) == 0.5
        assert row["value"] == pytest.approx(expected.value, rel=SAME)


def propensity_log(rows, **roles):
    """Rows (context, items, clicks, propensity of the list, propensity of each slot)."""
    context, items, clicks, of_list, of_slot = zip(*rows, strict=True)
    table = {
        "context": context,
        "items": items,
        "clicks": clicks,
        "of_list": of_list,
        "of_slot": of_slot,
    }
    return fc.read_log(table, **roles)


class TestItem5FrequenciesOrPropensities:
    """By default frequencies where contexts repeat, propensities where they do not."""

    ONCE: ClassVar[Any] = [
        ("a", [1, 2], [1.0, 0.0], 0.5, [0.6, 0.5]),
        ("b", [2, 1], [1.0, 1.0], 0.25, [0.3, 0.25]),
        ("b", [2, 1], [0.0, 1.0], 0.2, [0.4, 0.2]),
        ("c", [1, 3], [1.0, 1.0], 0.1, [0.8, 0.125]),
        ("d", [3, 1], [1.0, 0.0], 0.7, [0.9, 0.7]),
    ]
    POLICY: ClassVar[Any] = {
        "a": {(1, 2): 0.5, (2, 1): 0.5},
        "b": {(2, 1): 0.25, (3, 1): 0.75},
        "c": {(1, 3): 1.0},
        "d": {(1, 3): 1.0},
    }
    OFTEN: ClassVar[Any] = [row for row in ONCE for _ in range(5)]

    @pytest.fixture
    def candidate(self):
        return fc.Lists(random_logs.lists_table(self.POLICY))

    def ips(self, side, *, clip=math.inf, slots):
        """1/n Σ Σ_k w_k min(h / propensity, M), from the raw rows."""
        total = 0.0
        for context, items, clicks, of_list, of_slot in self.ONCE:
            for k, click in enumerate(clicks, 1):
                h = side(self.POLICY[context], tuple(items), k)
                total += click * min(h / (of_slot[k - 1] if slots else of_list), clip)
        return total / len(self.ONCE)

    @staticmethod
    def whole(draws, items, k):
        return draws.get(items, 0.0)

    @staticmethod
    def prefix(draws, items, k):
        return oracle.probability(draws, lambda other: other[:k] == items[:k])

    @staticmethod
    def slot(draws, items, k):
        return oracle.shows(draws, items[k - 1], k)

    @pytest.mark.parametrize("logging", [None, "propensity"])
    def test_a_list_is_weighed_by_its_own_propensity_where_contexts_do_not_repeat(
        self, candidate, logging
    ):
        log = propensity_log(self.ONCE, propensity="of_list")
        found = fc.evaluate(
            log,
            candidate,
            estimators=clipped("list", [2, math.inf]),
            metrics="clicks@2",
            logging=logging,
            confidence=None,
        )
        expected = [self.ips(self.whole, clip=clip, slots=False) for clip in (2, math.inf)]
        assert found["value"] == pytest.approx(expected, rel=SAME)
        assert expected[0] < expected[1]

    @pytest.mark.parametrize("logging", [None, "propensity"])
    def test_slots_and_prefixes_are_weighed_by_theirs(self, candidate, logging):
        log = propensity_log(self.ONCE, propensity="of_slot")
        found = fc.evaluate(
            log,
            candidate,
            estimators=clipped(["ip", "prefix"], [2, math.inf]),
            metrics="clicks@2",
            logging=logging,
            confidence=None,
        )
        expected = [
            self.ips(side, clip=clip, slots=True)
            for side in (self.slot, self.prefix)
            for clip in (2, math.inf)
        ]
        assert found["value"] == pytest.approx(expected, rel=SAME)
        assert len(set(expected)) == 4

    @pytest.mark.parametrize("propensity", ["of_list", "of_slot"])
    def test_frequencies_are_used_where_contexts_repeat(self, candidate, propensity):
        log = propensity_log(self.OFTEN, propensity=propensity)
        found = fc.evaluate(
            log, candidate, estimators=["list", "ip"], metrics="clicks@2", confidence=None
        )
        records = [oracle.Record(c, tuple(i), tuple(w)) for c, i, w, _, _ in self.OFTEN]
        assert_as_oracle(found, records, self.POLICY)

    def test_propensities_can_be_asked_for_where_contexts_repeat(self, candidate):
        log = propensity_log(self.OFTEN, propensity="of_list")
        row = answer(log, candidate, "list", logging="propensity")
        assert row["value"] == pytest.approx(self.ips(self.whole, slots=False), rel=SAME)

    @pytest.mark.filterwarnings("ignore::foreclick.errors.ForeclickWarning")
    def test_frequencies_can_be_asked_for_where_contexts_do_not_repeat(self, candidate):
        log = propensity_log(self.ONCE, propensity="of_list")
        found = fc.evaluate(
            log,
            candidate,
            estimators="list",
            metrics="clicks@2",
            logging="frequency",
            confidence=None,
        )
        records = [oracle.Record(c, tuple(i), tuple(w)) for c, i, w, _, _ in self.ONCE]
        assert_as_oracle(found, records, self.POLICY)

    @pytest.mark.filterwarnings("ignore::foreclick.errors.ForeclickWarning")
    def test_models_that_propensities_cannot_answer_for_use_frequencies(self, candidate):
        log = propensity_log(self.ONCE, propensity="of_list")
        found = fc.evaluate(
            log, candidate, estimators=["item", "list"], metrics="clicks@2", confidence=None
        )
        records = [oracle.Record(c, tuple(i), tuple(w)) for c, i, w, _, _ in self.ONCE]
        assert values(found) == pytest.approx(
            {
                "item": oracle.value("item", records, self.POLICY, (1, 1)),
                "list": self.ips(self.whole, slots=False),
            },
            rel=SAME,
        )

    @pytest.mark.filterwarnings(IBIS)
    @pytest.mark.parametrize(
        "asked", [{"estimators": "list", "logging": "frequency"}, {"estimators": "item"}]
    )
    def test_frequencies_of_contexts_that_do_not_repeat_are_warned_of(self, candidate, asked):
        log = propensity_log(self.ONCE, propensity="of_list")
        with pytest.warns(fc.errors.ForeclickWarning, match="hardly repeat"):
            fc.evaluate(log, candidate, metrics="clicks@2", **asked, confidence=None)

    @pytest.mark.parametrize(
        ("propensity", "model"),
        [
            ("of_list", "ip"),
            ("of_list", "prefix"),
            ("of_list", "item"),
            ("of_slot", "list"),
            ("of_slot", "item"),
            ("of_slot", "pbm"),
            ("of_slot", "rctr"),
        ],
    )
    def test_propensities_of_something_else_are_refused_with_what_to_use(
        self, candidate, propensity, model
    ):
        log = propensity_log(self.ONCE, propensity=propensity)
        message = rf"cannot answer for '{model}'.*logging='frequency'.*logging=Lists"
        with pytest.raises(ModelError, match=message):
            answer(log, candidate, model, logging="propensity")

    def test_propensities_that_were_not_read_are_refused(self, candidate):
        with pytest.raises(ModelError, match=r"read without.*propensity="):
            answer(propensity_log(self.OFTEN), candidate, logging="propensity")

    def test_what_is_neither_is_refused(self, candidate):
        with pytest.raises(OptionError, match="say 'frequency' or 'propensity', give a policy"):
            answer(propensity_log(self.OFTEN), candidate, logging="guess")

    @pytest.mark.parametrize("model", ["list", "ip"])
    def test_a_list_longer_than_the_metric_is_not_counted_twice(self, model):
        """Both lists begin with 1, which the candidate shows always: its value is the mean."""
        rows: list[Any] = [
            ("q", [1, 2], [1.0, 0.0], 0.5, []),
            ("q", [1, 3], [0.0, 1.0], 0.5, []),
        ] * 3
        log = propensity_log(rows, propensity="of_list")
        candidate = {"context": ["q"], "items": [[1, 2]]}
        try:
            row = answer(log, candidate, model, "clicks@1", logging="propensity")
        except ModelError:
            return  # to refuse is honest too
        # h(A)/π(A) of whole lists gives 1/2 · 2, h(1)/π(1) gives 1/2; twice the mean is neither.
        weights = {"list": {0.5, 1.0}, "ip": {0.5}}[model]
        assert row["value"] in weights
        assert row["ess"] < 6 or row["value"] == 0.5


class TestItem5WithOnePosition:
    """A list of one item is its own slot, prefix and item: any propensity answers for all."""

    ROWS: ClassVar[Any] = [("a", [1], [1.0], 0.5, [0.5]), ("b", [2], [1.0], 0.2, [0.2])]
    CANDIDATE = fc.Lists(
        {"context": ["a", "b", "b"], "items": [[1], [2], [3]], "probability": [1.0, 0.5, 0.5]}
    )
    EXPECTED: ClassVar[Any] = (1 / 0.5 + 0.5 / 0.2) / 2

    def test_the_propensity_of_the_list_answers_for_every_model_of_items(self):
        log = propensity_log(self.ROWS, propensity="of_list")
        models = ["list", "prefix", "ip", "item", "pbm"]
        found = fc.evaluate(
            log, self.CANDIDATE, estimators=models, metrics="clicks@3", confidence=None
        )
        assert values(found) == pytest.approx(dict.fromkeys(models, self.EXPECTED), rel=SAME)

    def test_the_propensity_of_the_slot_does_too(self):
        log = propensity_log(self.ROWS, propensity="of_slot")
        models = ["prefix", "ip", "item", "pbm"]
        found = fc.evaluate(
            log, self.CANDIDATE, estimators=models, metrics="clicks@1", confidence=None
        )
        assert values(found) == pytest.approx(dict.fromkeys(models, self.EXPECTED), rel=SAME)

    def test_even_for_lists(self):
        log = propensity_log(self.ROWS, propensity="of_slot")
        row = answer(log, self.CANDIDATE, "list", "clicks@1")
        assert row["value"] == pytest.approx(self.EXPECTED, rel=SAME)

    def test_but_not_for_a_model_blind_to_items(self):
        log = propensity_log(self.ROWS, propensity="of_list")
        with pytest.raises(ModelError, match="cannot answer for 'rctr'"):
            answer(log, self.CANDIDATE, "rctr", "clicks@1", logging="propensity")
