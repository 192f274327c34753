"""If this fails, a candidate's lists are read as others, or miss a log of other types."""

from typing import Any, ClassVar

import pytest

import foreclick as fc
from tests.answers import answer, assert_as_oracle, log_of, repeated
from tests.cases import tables

RECORDS = [
    *repeated(((1, 2, 3), (1, 0, 1)), ((2, 1, 3), (1, 1, 0)), ((3, 1, 2), (0, 1, 0)), times=2),
    *repeated(((1, 2, 3), (0, 1, 0)), ((4, 5), (1, 0)), times=4, context="r"),
]
BOTH: dict[str, list[Any]] = {"context": ["q", "r"], "items": [[2, 1, 3], [1, 2, 3]]}


@pytest.fixture(scope="module")
def log():
    return log_of(RECORDS)


def check(
    log, policy, lists, estimators=("list", "ip", "item"), metric="clicks@3", records=RECORDS
):
    """What the library says of a policy is what the oracle says of its lists."""
    asked: Any = {"estimators": list(estimators), "metrics": metric, "confidence": None}
    found = fc.evaluate(log, policy, **asked)
    assert_as_oracle(found, records, lists)
    return found


class TestRanking:
    def test_columns_may_have_any_name_be_one_a_position_or_repeat_a_list(self, log):
        wide = {"context": ["q", "r"], "a": [2, 1], "b": [1, 2], "c": [3, 3]}
        twice = {"context": ["q", "q", "r"], "items": [[2, 1, 3], [2, 1, 3], [1, 2, 3]]}
        for policy in (
            fc.Ranking({"query": ["q", "r"], "shown": BOTH["items"]}, "query", "shown"),
            fc.Ranking(wide, items=["a", "b", "c"]),
            fc.Ranking(twice),
        ):
            assert answer(log, policy) == answer(log, fc.Ranking(BOTH))


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
            for row in rows.stored.to_pylist()
        }

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
            *(
                (
                    {"context": ["q"] * 2, "item": [1, 2], name: [1.0, 2]},
                    {"score": name},
                    {"q": [2, 1]},
                )
                for name in ("weight", "n", "propensity")
            ),
        ],
    )
    def test_sorts_by_falling_score(self, table, options, expected):
        assert self.lists(fc.Ranking.from_scores(table, **options)) == expected


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
        found = fc.evaluate(log, candidate(), estimators="ip", metrics="clicks@2", confidence=None)
        assert_as_oracle(found, self.RECORDS, {0: {(1, 2): 1.0}})


class TestTypes:
    """What a log calls "7" a candidate may call 7; the other way round nothing would match."""

    TEXT = repeated((("1", "2"), (1, 0)), (("2", "1"), (0, 1)), context="5")

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
