"""Statements are compiled once for all tables of the same columns, and still ask the right one."""

import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.engines import default_engine
from foreclick.errors import EngineError


def largest(_, table, column, times):
    return table.aggregate(most=table[column].max() * times)


def asked(table, column="a", times=1):
    return default_engine().ask(largest, table, column, times)["most"].to_pylist()


def shown(**columns):
    return default_engine().show(pa.table(columns))


def test_one_compilation_serves_all_tables_of_the_same_columns():
    compiled = []

    def most(engine, table):  # that no other test has asked before
        compiled.append(table)
        return largest(engine, table, "a", 1)

    one, other = shown(a=[1, 2], b=[9, 8]), shown(a=[5, 4], b=[0, 0])
    answers = [default_engine().ask(most, table).to_pylist() for table in (one, other, one)]
    assert answers == [[{"most": 2}], [{"most": 5}], [{"most": 2}]]
    assert len(compiled) == 1


@pytest.mark.parametrize(
    ("table", "column", "times", "expected"),
    [
        ({"a": [5, 4], "b": [7, 0]}, "b", 1, 7),
        ({"a": [5, 4], "b": [7, 0]}, "a", 3, 15),
        ({"a": [0.5, 0.25], "b": [7, 0]}, "a", 1, 0.5),
        ({"b": [7, 0], "a": [5, 4]}, "a", 1, 5),
    ],
)
def test_other_options_types_or_orders_are_other_statements(table, column, times, expected):
    asked(shown(a=[1, 2], b=[9, 8]))
    assert asked(shown(**table), column, times) == [expected]


def test_columns_that_were_selected_are_those_that_are_seen():
    table = shown(a=[1, 2], b=[9, 8])

    def all_of(_, some):
        return some

    found = default_engine().ask(all_of, table.select("b", "a"))
    assert found.column_names == ["b", "a"]
    assert default_engine().ask(all_of, table.select("b")).column_names == ["b"]
    renamed = table.select(a=table["b"])
    assert asked(renamed) == [9]


def test_what_is_made_is_a_table_of_its_own():
    def doubled(_, table):
        return table.select(a=table["a"] * 2)

    engine = default_engine()
    made = [engine.make("twice", doubled, shown(a=[n])) for n in (1, 2, 3)]
    assert [engine.rows(table)[0]["a"] for table in made] == [2, 4, 6]
    assert len({table.op().name for table in made}) == 3


def test_a_failure_shows_the_statement_about_the_table():
    def broken(_, table):
        return table.select(a=table["a"].cast("int64"))

    fine, wrong = shown(a=["1"]), shown(a=["one"])
    assert default_engine().ask(broken, fine)["a"].to_pylist() == [1]
    with pytest.raises(EngineError, match=wrong.op().name):
        default_engine().ask(broken, wrong)


def test_rewards_keep_the_order_in_which_they_were_named():
    table = {"context": ["q"], "items": [[1]], "clicks": [[1]], "a": [[1]], "b": [[0]]}
    for names in (["a", "b"], ["b", "a"]):
        log = fc.read_log(table, rewards={name: name for name in names})
        assert log.stored.columns[2:5] == ("clicks", *names)
        assert fc.tally(log).to_arrow().select(["a_1", "b_1"]).to_pylist() == [{"a_1": 1, "b_1": 0}]
