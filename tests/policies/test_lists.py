"""Policies that are tables of lists: Ranking, Lists, Observed; and whose types meet a log's."""

import math
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.errors import InvalidLogError, OptionError, PolicyError, SourceError
from foreclick.policies.base import number_in
from tests.answers import SAME, answer, assert_as_oracle, clipped, log_of, repeated, settled
from tests.truth import oracle, random_logs
from tests.truth.oracle import Record
from tests.truth.paper import paper

RECORDS = [
    *repeated(((1, 2, 3), (1, 0, 1)), ((2, 1, 3), (1, 1, 0)), ((3, 1, 2), (0, 1, 0)), times=2),
    *repeated(((1, 2, 3), (0, 1, 0)), ((4, 5), (1, 0)), times=4, context="r"),
]
BOTH: dict[str, list[Any]] = {"context": ["q", "r"], "items": [[2, 1, 3], [1, 2, 3]]}


@pytest.fixture(scope="module")
def log():
    return log_of(RECORDS)


class TestRanking:
    def test_is_one_list_a_context(self, log):
        found = fc.evaluate(
            log,
            fc.Ranking(BOTH),
            estimators=["list", "ip", "item"],
            metrics="dcg@3",
            confidence=None,
        )
        assert_as_oracle(found, RECORDS, {"q": {(2, 1, 3): 1.0}, "r": {(1, 2, 3): 1.0}})

    def test_columns_may_have_any_name_or_be_one_a_position(self, log):
        named = fc.Ranking({"query": ["q", "r"], "shown": BOTH["items"]}, "query", "shown")
        wide = fc.Ranking(
            {"context": ["q", "r"], "a": [2, 1], "b": [1, 2], "c": [3, 3]}, items=["a", "b", "c"]
        )
        expected = answer(log, fc.Ranking(BOTH))
        assert answer(log, named) == expected
        assert answer(log, wide) == expected

    def test_two_lists_of_a_context_are_refused_with_count_example_and_remedy(self):
        table = {"context": ["b", "b", "a", "a", "c"], "items": [[1], [2], [1, 2], [2, 1], [1]]}
        message = r"context 'a' has 2 different lists \(2 such cases\).*use Lists.*use Observed"
        with pytest.raises(PolicyError, match=message):
            fc.Ranking(table)

    def test_the_same_list_twice_is_still_one_list(self, log):
        twice = {"context": ["q", "q", "r"], "items": [[2, 1, 3], [2, 1, 3], [1, 2, 3]]}
        assert answer(log, fc.Ranking(twice)) == answer(log, fc.Ranking(BOTH))

    def test_an_item_twice_in_a_list_is_refused(self):
        with pytest.raises(InvalidLogError, match="an item twice in a list: 1 row"):
            fc.Ranking({"context": ["q"], "items": [[1, 2, 1]]})

    def test_a_missing_column_is_named(self):
        with pytest.raises(SourceError, match="items='shown'"):
            fc.Ranking({"context": ["q"], "items": [[1]]}, items="shown")

    def test_says_how_large_it_is(self):
        assert repr(fc.Ranking(BOTH)) == "Ranking(2 contexts, lists of up to 3 items)"


class TestFromScores:
    SCORES: ClassVar[Any] = {
        "context": ["q"] * 4 + ["r"] * 2,
        "item": [1, 2, 3, 4, 2, 1],
        "score": [0.2, 0.9, -0.1, 0.5, 1.0, 3.0],
    }

    def lists(self, policy):
        """What the policy shows, context by context."""
        rows = policy._rows
        return {
            row["context"]: [row[c] for c in rows.shape.items if row[c] is not None]
            for row in rows.engine.rows(rows.table)
        }

    def test_sorts_by_falling_score(self):
        policy = fc.Ranking.from_scores(self.SCORES)
        assert self.lists(policy) == {"q": [2, 4, 1, 3], "r": [1, 2]}

    def test_k_cuts_the_lists(self):
        assert self.lists(fc.Ranking.from_scores(self.SCORES, k=2)) == {"q": [2, 4], "r": [1, 2]}
        assert self.lists(fc.Ranking.from_scores(self.SCORES, k=9))["q"] == [2, 4, 1, 3]

    @pytest.mark.parametrize(
        ("items", "expected"), [([3, 1, 2], [1, 2, 3]), (["c", "a", "b"], ["a", "b", "c"])]
    )
    def test_ties_go_by_the_item(self, items, expected):
        table = {"context": ["q"] * 3, "item": items, "score": [1, 1, 1]}
        assert self.lists(fc.Ranking.from_scores(table)) == {"q": expected}

    def test_columns_may_have_any_name(self):
        table = {"query": ["q", "q"], "doc": ["a", "b"], "s": [1, 2]}
        policy = fc.Ranking.from_scores(table, context="query", item="doc", score="s")
        assert self.lists(policy) == {"q": ["b", "a"]}

    def test_is_a_ranking_like_another(self, log):
        scores: dict[Any, Any] = {
            "context": ["q"] * 3 + ["r"] * 3,
            "item": [1, 2, 3] * 2,
            "score": [2.0, 3.0, 1.0, 3.0, 2.0, 1.0],
        }
        assert answer(log, fc.Ranking.from_scores(scores)) == answer(log, fc.Ranking(BOTH))

    @pytest.mark.parametrize("score", [None, math.nan])
    def test_a_missing_score_is_refused_with_its_item(self, score):
        table = {"context": ["q", "q"], "item": [1, 2], "score": [0.5, score]}
        with pytest.raises(
            PolicyError, match=r"item 2 of context 'q' has the score (None|nan) \(1 such"
        ):
            fc.Ranking.from_scores(table)

    @pytest.mark.parametrize("scores", [[1.0, 2.0, 3.0], [1.0, 1.0, 3.0]])
    def test_an_item_scored_twice_is_refused(self, scores):
        table = {"context": ["q"] * 3, "item": [7, 7, 8], "score": scores}
        with pytest.raises(PolicyError, match=r"item 7 stands 2 times in context 'q'.*once"):
            fc.Ranking.from_scores(table)

    def test_a_missing_column_is_named(self):
        with pytest.raises(PolicyError, match="score='score' is no column of the table"):
            fc.Ranking.from_scores({"context": ["q"], "item": [1]})

    def test_lists_of_no_items_are_refused(self):
        with pytest.raises(OptionError, match="k=0"):
            fc.Ranking.from_scores(self.SCORES, k=0)

    @pytest.mark.parametrize("name", ["weight", "n", "propensity"])
    def test_the_score_may_be_called_what_it_is(self, name):
        table = {"context": ["q", "q"], "item": [1, 2], name: [1.0, 2.0]}
        assert self.lists(fc.Ranking.from_scores(table, score=name)) == {"q": [2, 1]}


class TestLists:
    def test_weighs_each_list_by_its_probability(self, log):
        policy: dict[Any, Any] = {"q": {(2, 1, 3): 0.75, (1, 9, 2): 0.25}, "r": {(4, 5): 1.0}}
        found = fc.evaluate(
            log,
            fc.Lists(random_logs.lists_table(policy)),
            estimators=clipped(paper(["list", "prefix", "ip", "pbm"]), [1, math.inf]),
            metrics="clicks@3",
            confidence=None,
        )
        assert_as_oracle(found, RECORDS, policy)

    def test_sums_other_than_1_are_refused_with_count_example_and_remedy(self):
        table = {
            "context": ["a", "a", "b", "c"],
            "items": [[1], [2], [1], [1]],
            "probability": [0.4, 0.4, 0.9, 1.0],
        }
        message = r"context 'a' sum to 0\.8 \(2 such cases\).*must sum to 1.*divide by"
        with pytest.raises(PolicyError, match=message):
            fc.Lists(table)

    def test_the_rounding_of_a_softmax_in_float32_is_no_error(self, log):
        a, b = 0.3333333, 0.6666666
        table = {
            "context": ["q", "q", "r"],
            "items": [[1, 2, 3], [2, 1, 3], [4, 5]],
            "probability": [a, b, 1.0],
        }
        row = answer(log, fc.Lists(table), "list", "clicks@3")
        expected: dict[Any, Any] = {
            "q": {(1, 2, 3): a / (a + b), (2, 1, 3): b / (a + b)},
            "r": {(4, 5): 1.0},
        }
        assert row["value"] == pytest.approx(
            oracle.value("list", RECORDS, expected, (1, 1, 1)), rel=SAME
        )

    def test_rows_of_probability_0_are_fine_and_change_nothing(self, log):
        table = {"context": ["q", "r"], "items": BOTH["items"], "probability": [1.0, 1.0]}
        padded = {
            "context": ["q", "r", "q", "q"],
            "items": [*BOTH["items"], [3, 2, 1], [9, 8]],
            "probability": [1.0, 1.0, 0.0, 0.0],
        }
        plain = answer(log, fc.Lists(table), "list")
        assert answer(log, fc.Lists(padded), "list") == plain

    def test_a_list_given_in_parts_is_one_list(self, log):
        split = {
            "context": ["q", "q", "q", "r"],
            "items": [[2, 1, 3], [1, 2, 3], [2, 1, 3], [4, 5]],
            "probability": [0.25, 0.5, 0.25, 1.0],
        }
        policy: dict[Any, Any] = {"q": {(2, 1, 3): 0.5, (1, 2, 3): 0.5}, "r": {(4, 5): 1.0}}
        found = fc.evaluate(
            log, fc.Lists(split), estimators=["list", "ip"], metrics="clicks@3", confidence=None
        )
        assert_as_oracle(found, RECORDS, policy)

    def test_lists_that_differ_below_the_metric_are_one(self, log):
        policy: dict[Any, Any] = {"q": {(2, 1, 3): 0.5, (2, 1, 9): 0.5}, "r": {(4, 5): 1.0}}
        found = fc.evaluate(
            log,
            fc.Lists(random_logs.lists_table(policy)),
            estimators="list",
            metrics="clicks@2",
            confidence=None,
        )
        assert_as_oracle(found, RECORDS, policy)
        assert found["covered"] == [1.0]

    @pytest.mark.parametrize("wrong", [-0.5, math.nan, None])
    def test_a_probability_that_is_none_is_refused(self, wrong):
        table = {"context": ["q", "q"], "items": [[1], [2]], "probability": [1.0, wrong]}
        with pytest.raises(
            InvalidLogError, match="probability null, NaN, too large, or not above 0: 1 row"
        ):
            fc.Lists(table)

    def test_a_context_of_nothing_but_0_does_not_sum_to_1(self):
        with pytest.raises(PolicyError, match=r"probabilities of context .* are 0"):
            fc.Lists({"context": ["a", "b"], "items": [[1], [2]], "probability": [1.0, 0.0]})

    def test_a_missing_probability_is_called_by_its_role(self):
        with pytest.raises(PolicyError, match=r"\bprobability='probability'"):
            fc.Lists({"context": ["q"], "items": [[1]]})


class TestObserved:
    def test_is_the_frequencies_of_another_period(self):
        days = [1] * 7 + [2] * 7
        table = random_logs.log_table(RECORDS, day=days)
        today = fc.read_log(table, where="day = 2")
        yesterday = fc.read_log(table, where="day = 1")
        past = [record for record, day in zip(RECORDS, days, strict=True) if day == 1]
        now = [record for record, day in zip(RECORDS, days, strict=True) if day == 2]
        found = fc.evaluate(
            today,
            fc.Observed(yesterday),
            estimators=["list", "ip"],
            metrics="clicks@3",
            confidence=None,
        )
        assert_as_oracle(found, now, oracle.frequencies(past))

    def test_of_the_log_itself_is_production(self, log):
        found = fc.evaluate(
            log,
            fc.Observed(log),
            estimators=clipped(paper(oracle.MODELS), 1),
            metrics="dcg@3",
            confidence=None,
        )
        for row in settled(found):
            assert row["value"] == pytest.approx(oracle.production(RECORDS, oracle.dcg_at(3)))
            assert row["covered"] == 1
            assert row["clipped"] == pytest.approx(0, abs=SAME)
            assert row["ess"] == pytest.approx(len(RECORDS))

    def test_takes_shadow_rankings_without_clicks(self, log):
        shadow = [("q", (2, 1, 3)), ("q", (1, 2, 3)), ("q", (1, 2, 3)), ("r", (4, 5))]
        table = {
            "query": [context for context, _ in shadow],
            "would_show": [list(items) for _, items in shadow],
        }
        requests = fc.read_log(table, context="query", items="would_show", clicks=None)
        policy = oracle.frequencies(Record(c, items, ()) for c, items in shadow)
        found = fc.evaluate(
            log,
            fc.Observed(requests),
            estimators=["list", "item"],
            metrics="clicks@3",
            confidence=None,
        )
        assert_as_oracle(found, RECORDS, policy)

    def test_a_tally_and_a_sum_of_tallies_are_logs_too(self, log):
        half = len(RECORDS) // 2
        first, second = log_of(RECORDS[:half]), log_of(RECORDS[half:])
        expected = answer(log, fc.Observed(log), "list", "clicks@3")
        both = fc.tally(first) + fc.tally(second)
        assert answer(log, fc.Observed(both), "list", "clicks@3") == expected
        assert answer(both, both, "list", "clicks@3") == expected, "a tally as the candidate"

    def test_weights_count(self, log):
        table = {
            "context": ["q", "q", "r"],
            "items": [[2, 1, 3], [1, 2, 3], [4, 5]],
            "times": [3, 1, 10],
        }
        shown = fc.read_log(table, clicks=None, count="times")
        policy: dict[Any, Any] = {"q": {(2, 1, 3): 0.75, (1, 2, 3): 0.25}, "r": {(4, 5): 1.0}}
        found = fc.evaluate(
            log, fc.Observed(shown), estimators="ip", metrics="clicks@3", confidence=None
        )
        assert_as_oracle(found, RECORDS, policy)

    def test_a_table_with_the_default_columns_is_read_as_a_log(self, log):
        table = random_logs.log_table(RECORDS)
        assert answer(log, fc.Observed(table)) == answer(log, fc.Observed(log))


class TestOneContextForAll:
    RECORDS: ClassVar[Any] = repeated(((1, 2), (1, 0)), ((2, 1), (0, 1)), context=0)

    @pytest.mark.parametrize(
        "candidate",
        [
            lambda: fc.Ranking({"items": [[1, 2]]}, context=None),
            lambda: fc.Ranking.from_scores({"item": [2, 1], "score": [0.1, 0.2]}, context=None),
            lambda: fc.Lists({"items": [[1, 2]], "probability": [1.0]}, context=None),
            lambda: fc.Marginals(
                {"item": [1, 2], "position": [1, 2], "probability": [1.0, 1.0]}, context=None
            ),
        ],
        ids=["Ranking", "from_scores", "Lists", "Marginals"],
    )
    def test_works_for_every_policy(self, candidate):
        table = random_logs.log_table(self.RECORDS).drop_columns("context")
        log = fc.read_log(table, context=None)
        found = fc.evaluate(log, candidate(), estimators="ip", metrics="clicks@2", confidence=None)
        assert_as_oracle(found, self.RECORDS, {0: {(1, 2): 1.0}})

    def test_a_policy_without_contexts_must_say_so(self):
        with pytest.raises(SourceError, match="context='context'"):
            fc.Ranking({"items": [[1, 2]]})


class TestTypes:
    """What a log calls "7" a candidate may call 7; the other way round nothing would match."""

    TEXT = repeated((("1", "2"), (1, 0)), (("2", "1"), (0, 1)), context="5")
    NUMBERS = repeated(((1, 2), (1, 0)), ((2, 1), (0, 1)), context=5)

    def candidates(self, context, first, second):
        yield fc.Ranking({"context": [context], "items": [[first, second]]})
        yield fc.Marginals(
            {
                "context": [context] * 2,
                "item": [first, second],
                "position": [1, 2],
                "probability": [1.0, 1.0],
            }
        )

    def test_integers_are_cast_to_the_texts_of_the_log(self):
        log = log_of(self.TEXT)
        for candidate in self.candidates(5, 1, 2):
            row = answer(log, candidate)
            assert (row["value"], row["covered"]) == (pytest.approx(1.0), pytest.approx(1.0))

    def test_texts_against_integers_are_refused_with_both_types_and_a_remedy(self):
        log = log_of(self.NUMBERS)
        for candidate in self.candidates(5, "1", "2"):
            message = r"the log has \d+ \(integer\), the \w+ .* \(text\)\. Make both"
            with pytest.raises(PolicyError, match=message):
                answer(log, candidate)

    def test_contexts_of_text_against_integers_are_refused_too(self):
        candidate = fc.Ranking({"context": ["5"], "items": [[1, 2]]})
        with pytest.raises(PolicyError, match=r"\(integer\), the Ranking '.*' \(text\)"):
            answer(log_of(self.NUMBERS), candidate)

    def test_observed_texts_against_integers_are_refused_too(self):
        with pytest.raises(PolicyError, match=r"\(integer\), the Observed '.*' \(text\)"):
            answer(log_of(self.NUMBERS), fc.Observed(log_of(self.TEXT)))


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()])
def test_values_are_found_by_number_and_what_is_missing_is_not(kind):
    column, rising = (pa.array(x).cast(kind) for x in ([1, None, 0, 7], [0, 1]))
    assert number_in(column, rising).tolist() == [1, -1, 0, -1]
