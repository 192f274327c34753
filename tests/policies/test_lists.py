"""If this fails, a candidate's lists are read as others, or miss a log of other types."""

from typing import Any, ClassVar

import pytest

import foreclick as fc
from tests.answers import answer, assert_as_oracle, log_of, repeated
from tests.cases import tables
from tests.policies import shown_by

RECORDS = [
    *repeated(((1, 2, 3), (1, 0, 1)), ((2, 1, 3), (1, 1, 0)), ((3, 1, 2), (0, 1, 0)), times=2),
    *repeated(((1, 2, 3), (0, 1, 0)), ((4, 5), (1, 0)), times=4, context="r"),
]


@pytest.fixture(scope="module")
def log():
    return log_of(RECORDS)


def check(log, policy, lists, estimators=("list", "ip", "item"), records=RECORDS):
    """What the library says of a policy is what the oracle says of its lists."""
    asked: Any = {"estimators": list(estimators), "metrics": "clicks@3", "confidence": None}
    assert_as_oracle(fc.evaluate(log, policy, **asked), records, lists)


class TestRanking:
    def test_columns_may_have_any_name_be_one_a_position_or_repeat_a_list(self):
        lists = {"q": [2, 1, 3], "r": [1, 2, 3]}
        named = {"query": ["q", "r"], "shown": [*lists.values()]}
        wide = {"context": ["q", "r"], "a": [2, 1], "b": [1, 2], "c": [3, 3]}
        twice = {"context": ["q", "q", "r"], "items": [lists["q"], lists["q"], lists["r"]]}
        for policy in (
            fc.Ranking(named, "query", "shown"),
            fc.Ranking(wide, items=["a", "b", "c"]),
            fc.Ranking(twice),
        ):
            assert shown_by(policy) == lists


class TestFromScores:
    SCORES: ClassVar[Any] = {
        "context": ["q"] * 4 + ["r"] * 2,
        "item": [1, 2, 3, 4, 2, 1],
        "score": [0.2, 0.9, -0.1, 0.5, 1.0, 3.0],
    }
    TWO: ClassVar[Any] = {"context": ["q"] * 2, "item": ["a", "b"]}

    @pytest.mark.parametrize(
        ("table", "options", "expected"),
        [
            (SCORES, {}, {"q": [2, 4, 1, 3], "r": [1, 2]}),
            (SCORES, {"k": 2}, {"q": [2, 4], "r": [1, 2]}),
            (SCORES, {"k": 9}, {"q": [2, 4, 1, 3], "r": [1, 2]}),
            # Ties go by the item.
            ({"context": ["q"] * 3, "item": [3, 1, 2], "score": [1] * 3}, {}, {"q": [1, 2, 3]}),
            ({"context": ["q"] * 2, "item": ["b", "a"], "score": [1, 1]}, {}, {"q": ["a", "b"]}),
            (
                {"query": ["q", "q"], "doc": ["a", "b"], "s": [1, 2]},
                {"context": "query", "item": "doc", "score": "s"},
                {"q": ["b", "a"]},
            ),
            # Names that a tally has, too.
            (TWO | {"weight": [1.0, 2]}, {"score": "weight"}, {"q": ["b", "a"]}),
            (TWO | {"n": [1.0, 2]}, {"score": "n"}, {"q": ["b", "a"]}),
            (TWO | {"propensity": [1.0, 2]}, {"score": "propensity"}, {"q": ["b", "a"]}),
        ],
    )
    def test_sorts_by_falling_score(self, table, options, expected):
        assert shown_by(fc.Ranking.from_scores(table, **options)) == expected


class TestLists:
    def test_the_rounding_of_a_softmax_in_float32_is_no_error(self, log):
        a, b = 0.3333333, 0.6666666
        lists: dict[Any, Any] = {"q": {(1, 2, 3): a, (2, 1, 3): b}, "r": {(4, 5): 1.0}}
        table = tables.lists_table(lists)
        lists["q"] = {items: p / (a + b) for items, p in lists["q"].items()}
        check(log, fc.Lists(table), lists, ["list"])


class TestObserved:
    def test_takes_shadow_rankings_without_clicks_and_counts(self, log):
        table = {
            "query": ["q", "q", "r"],
            "would_show": [[2, 1, 3], [1, 2, 3], [4, 5]],
            "times": [3, 1, 10],
        }
        roles: Any = {"context": "query", "items": "would_show", "clicks": None}
        policy: Any = {"q": {(2, 1, 3): 0.75, (1, 2, 3): 0.25}, "r": {(4, 5): 1.0}}
        check(log, fc.Observed(fc.read_log(table, count="times", **roles)), policy)
        policy["q"] = dict.fromkeys(policy["q"], 0.5)
        check(log, fc.Observed(fc.read_log(table, **roles)), policy)

    def test_tables_tallies_and_sums_of_tallies_are_logs_too(self, log):
        half = len(RECORDS) // 2
        both = fc.tally(log_of(RECORDS[:half])) + fc.tally(log_of(RECORDS[half:]))
        expected = answer(log, fc.Observed(log), "list", "clicks@3")
        for source in (both, tables.log_table(RECORDS)):
            assert answer(log, fc.Observed(source), "list", "clicks@3") == expected
        assert answer(both, both, "list", "clicks@3") == expected, "a tally as the candidate"


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
        table = tables.log_table(self.RECORDS).drop_columns("context")
        log = fc.read_log(table, context=None)
        check(log, candidate(), {0: {(1, 2): 1.0}}, ["ip"], self.RECORDS)


def test_integers_are_cast_to_the_texts_of_the_log():
    """What a log calls "7" a candidate may call 7; the other way round nothing would match."""
    log = log_of(repeated((("1", "2"), (1, 0)), (("2", "1"), (0, 1)), context="5"))
    lists = {5: {(1, 2): 1.0}}
    for candidate in (
        fc.Ranking({"context": [5], "items": [[1, 2]]}),
        fc.Marginals(tables.marginals_table(lists)),
    ):
        row = answer(log, candidate)
        assert (row["value"], row["covered"]) == (pytest.approx(1.0), pytest.approx(1.0))
