"""However a log is written down, and whatever its columns are called, it is the same log."""

import datetime as dt
import itertools
import math

import duckdb
import ibis
import pandas as pd
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.errors import InvalidLogError, OptionError, SourceError
from tests.engines.looking import bucket_of, only_postgres, without_spark
from tests.logs.samples import LISTS, WIDE, Row, counted, impressions, reference, table, wide

FEW = "ignore:the contexts hardly repeat:foreclick.errors.ForeclickWarning"


def columns(log):
    return fc.tally(log).to_arrow().schema


# --- three layouts --------------------------------------------------------------------------------


def test_arrays_wide_columns_and_impressions_are_one_log():
    logs = [
        fc.read_log(table()),
        fc.read_log(wide(), **WIDE),
        fc.read_log(impressions(), long=("list_id", "position")),
    ]
    first = fc.tally(logs[0]).to_arrow()
    assert counted(logs[0]) == reference()
    for log in logs[1:]:
        assert fc.tally(log).to_arrow().equals(first)
        assert (log.rows, log.shape) == (logs[0].rows, logs[0].shape)


@without_spark
def test_impressions_keep_their_positions_across_gaps(engine):
    seen = [row for row in impressions() if row["position"] != 2]
    log = fc.read_log(engine.load(pa.Table.from_pylist(seen)), long=("list_id", "position"))

    def with_gap(row):
        items, clicks = [*row["items"]], [*row["clicks"]]
        if len(items) > 1:
            items[1] = clicks[1] = None
        if len(items) == 2:
            items, clicks = items[:1], clicks[:1]
        return {**row, "items": items, "clicks": clicks}

    assert counted(log) == reference(map(with_gap, LISTS))
    assert log.shape.depth == 3
    assert log.rows == len(LISTS)


def test_a_null_within_an_array_is_a_gap_too():
    log = fc.read_log({"context": ["q"], "items": [[1, None, 2]], "clicks": [[0, None, 1]]})
    assert counted(log) == {("q", (1, None, 2), (0, None, 1)): 1}


def test_any_column_names():
    names: Row = {"context": "select", "items": "the Items", "clicks": "Klick's"}
    log = fc.read_log(table().rename_columns(list(names.values())), **names)
    assert fc.tally(log).to_arrow().equals(fc.tally(table()).to_arrow())


def test_any_column_names_of_impressions():
    renamed: Row = {"context": "n", "list_id": "length", "position": "weight", "item": "context"}
    frame = pd.DataFrame(impressions()).rename(columns={**renamed, "click": "item"})
    log = fc.read_log(frame, context="n", long=("length", "weight"), items="context", clicks="item")
    assert counted(log) == reference()


def test_without_a_context_all_is_one():
    log = fc.read_log(table(), context=None)
    assert counted(log) == reference([{**row, "context": 0} for row in LISTS])
    assert columns(log).field("context").type == pa.int64()


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint16()])
def test_integers_of_any_width_are_64_bit_items_and_contexts(kind):
    source = pa.table(
        {
            "context": pa.array([1, 2], kind),
            "items": pa.array([[1, 2], [3]], pa.list_(kind)),
            "clicks": [[1, 0], [0]],
        }
    )
    log = fc.read_log(source)
    assert counted(log) == {(1, (1, 2), (1, 0)): 1, (2, (3,), (0,)): 1}
    assert columns(log).field("context").type == columns(log).field("item_2").type == pa.int64()


def test_items_of_text():
    rows: list[Row] = [{"context": "q", "items": ["b", "ä", "東", ""], "clicks": [0, 0, 1, 0]}]
    assert counted(fc.read_log(rows)) == reference(rows)


def test_boolean_clicks_count_as_0_and_1():
    rows = [{**row, "clicks": [bool(c) for c in row["clicks"]]} for row in LISTS]
    log = fc.read_log(rows)
    assert counted(log) == reference()
    assert pa.types.is_integer(columns(log).field("clicks_1").type)


def test_graded_rewards_stay_what_they_are():
    rows = [
        {"context": "q", "items": [1, 2], "clicks": [0.1, 2.5]},
        {"context": "q", "items": [1, 2], "clicks": [0.1, 2.5]},
        {"context": "q", "items": [1, 2], "clicks": [0.30000000000000004, 0.0]},
    ]
    assert counted(fc.read_log(rows)) == reference(rows)


def test_a_log_without_clicks():
    for source, roles in (
        (table().drop_columns("clicks"), {}),
        (wide(), {"items": WIDE["items"]}),
        (impressions(), {"long": ("list_id", "position")}),
    ):
        log = fc.read_log(source, clicks=None, **roles)
        expected = {key[:2]: 0 for key in reference()}
        for key, n in reference().items():
            expected[key[:2]] += n
        assert counted(log) == expected
        assert log.shape.rewards == ()


def test_a_list_longer_than_any_of_the_first_rows():
    short: Row = {"context": "q", "items": [1, 2], "clicks": [0, 1]}
    longer: Row = {"context": "q", "items": [5, 4, 3, 2], "clicks": [0, 0, 0, 1]}
    log = fc.read_log(table([short] * 10_050 + [longer]), engine=ordered())
    assert log.shape.depth == 4
    assert counted(log) == reference([short] * 10_050 + [longer])


def test_impressions_deeper_than_any_of_the_first_rows():
    source = pa.table(
        {
            "context": ["q"] * 100_002,
            "list_id": [*range(100_001), 7],
            "position": [*[1] * 100_001, 3],
            "item": [*[1] * 100_001, 2],
            "click": [*[0] * 100_001, 1],
        }
    )
    log = fc.read_log(source, long=("list_id", "position"), engine=ordered())
    assert counted(log) == {("q", (1,), (0,)): 100_000, ("q", (1, None, 2), (0, None, 1)): 1}


def ordered():
    """A DuckDB that reads a table from its beginning, so that the first rows are the first."""
    return ibis.duckdb.connect()


def test_lists_of_a_hundred_items():
    row: Row = {"context": "q", "items": [*range(100)], "clicks": [k % 3 for k in range(100)]}
    assert counted(fc.read_log(table([row]))) == reference([row])


@only_postgres  # DuckDB has the longest ones, above; Spark takes seconds to compile them
def test_an_item_that_is_the_first_and_the_last_of_many(engine):
    row: Row = {"context": "q", "items": [*range(46)], "clicks": [0] * 46}
    twice: Row = {**row, "items": [*range(45), 0]}
    log = fc.read_log(engine.load(table([row, twice])), invalid="drop")
    assert counted(log) == reference([row])
    assert log.dropped == {"an item twice in a list": 1}


def test_longer_lists_are_refused_unless_it_is_said_how_many_positions_matter():
    items = [*range(1000, 1101)]
    names = [f"i{k}" for k in items]
    sources: list[tuple[Row, Row]] = [
        ({"context": ["q"], "items": [items], "clicks": [[0] * 101]}, {}),
        ({"context": ["q"], "items": [[7]], "clicks": [[0] * 101]}, {}),
        ({"context": ["q"]} | {i: [1] for i in names}, {"items": names, "clicks": None}),
        (
            {"context": ["q"], "list_id": [1], "position": [101], "item": [7], "click": [0]},
            {"long": ("list_id", "position")},
        ),
    ]
    for source, roles in sources:
        with pytest.raises(InvalidLogError, match=r"has 101 positions.* 100 at most.*depth=20"):
            fc.read_log(source, **roles)
    log = fc.read_log(sources[0][0], depth=3)
    assert counted(log) == {("q", (1000, 1001, 1002), (0, 0, 0)): 1}


@pytest.mark.parametrize(
    ("source", "roles"),
    [
        pytest.param(table, {}, id="array"),
        pytest.param(wide, WIDE, id="wide"),
        pytest.param(impressions, {"long": ("list_id", "position")}, id="long"),
    ],
)
def test_positions_beyond_the_depth_are_left_out(source, roles):
    for depth in (1, 2, 5):
        log = fc.read_log(source(), depth=depth, **roles)
        cut = [
            {**row, "items": row["items"][:depth], "clicks": row["clicks"][:depth]} for row in LISTS
        ]
        assert counted(log) == reference(cut)
        assert (log.shape.depth, log.rows) == (depth, len(LISTS))


def test_what_is_wrong_beyond_the_depth_does_not_matter():
    row = {"context": "q", "items": [1, 2, 1], "clicks": [1, 0, -1], "p": [0.5, 1.0, 7.0]}
    log = fc.read_log([row], depth=2, propensity="p")
    assert counted(log) == {("q", (1, 2), (1, 0), (0.5, 1.0)): 1}


@pytest.mark.parametrize("depth", [0, -1, 101])
def test_the_depth_is_from_1_to_100(depth):
    with pytest.raises(OptionError, match=rf"depth={depth}: .* from 1 to 100"):
        fc.read_log(table(), depth=depth)


def test_a_position_that_no_list_reaches():
    source = {"context": ["q"], "i1": ["a"], "i2": [None], "c1": [1], "c2": [None]}
    log = fc.read_log(source, items=["i1", "i2"], clicks=["c1", "c2"])
    assert counted(log) == {("q", ("a",), (1,)): 1}


def test_more_click_columns_than_item_columns():
    source = {"context": ["q"], "i1": ["a"], "c1": [0], "c2": [1]}
    with pytest.raises(InvalidLogError, match=r"items and clicks of different length.*: 1 row"):
        fc.read_log(source, items=["i1"], clicks=["c1", "c2"])


NULLABLE = "the first column's NOT NULL is taken as that of all"


@without_spark
@pytest.mark.parametrize("depth", [None, 3])
def test_columns_that_are_never_null_beside_others_that_may_be(engine, depth):
    connection, name = engine.connection, f"foreclick_test_{engine.name}"
    schema = {"context": "!string", "i1": "!int64", "i2": "int64", "c1": "!int32", "c2": "int32"}
    source = connection.create_table(name, schema=ibis.schema(schema), temp=True)
    try:
        connection.raw_sql(f"INSERT INTO {name} VALUES ('q', 1, 2, 0, 1), ('q', 1, NULL, 0, NULL)")
        log = fc.read_log(source, items=["i1", "i2"], clicks=["c1", "c2"], depth=depth)
        assert counted(log) == {("q", (1, 2), (0, 1)): 1, ("q", (1,), (0,)): 1}
    finally:
        connection.drop_table(name)


# --- roles ----------------------------------------------------------------------------------------

START = dt.datetime(2024, 2, 28, 22, 30, tzinfo=dt.UTC)


def everything():
    """Rows with every role, where hours, units and weights fall together in the tally."""
    days = [START + dt.timedelta(hours=5 * i) for i in range(len(LISTS))]
    countries = ["NL", None, "NL", "BE", "", None, None]
    units = ["anna", "bo", "anna", None, "zoë", "c", "c"]
    weights = [2, 1, 3, 1, 1, 5, 2**40]
    extra = zip(days, countries, units, weights, strict=True)
    return [
        {
            **row,
            "clicks": [bool(c) for c in row["clicks"]],
            "orders": [0.5 * c for c in row["clicks"]],
            "time": when.replace(tzinfo=None),
            "country": country,
            "user": unit,
            "weight": weight,
            "p": 1 / len(row["items"]),
        }
        for row, (when, country, unit, weight) in zip(LISTS, extra, strict=True)
    ]


def test_every_role_at_once_on_every_engine(engine):
    rows = everything()
    log = fc.read_log(
        engine.load(pa.Table.from_pylist(rows)),
        period="time",
        segments=["country"],
        unit="user",
        count="weight",
        propensity="p",
        rewards={"orders": "orders"},
        where="country IS NULL OR country <> 'BE'",
    )
    expected: dict[object, int] = {}
    for row in rows:
        if row["country"] != "BE":
            key = (
                row["context"],
                row["time"].date(),
                row["country"],
                bucket_of(row["user"]),
                row["p"],
                tuple(row["items"]),
                tuple(int(c) for c in row["clicks"]),
                tuple(row["orders"]),
            )
            expected[key] = expected.get(key, 0) + row["weight"]
    assert counted(log) == expected
    assert log.rows == 6
    assert columns(log).field("n").type == pa.int64()
    assert columns(log).field("period").type == pa.date32()
    told = repr(log)
    for word in ("6 records", "up to 3", "clicks, orders", "period", "unit", "country", "list"):
        assert word in told


def test_every_role_of_impressions_on_every_engine(engine):
    rows = [
        {**seen, "day": 3, "country": None, "user": seen["list_id"] % 2, "w": 0.5, "p": 0.25}
        | {"orders": seen["click"] * 2}
        for seen in impressions()
    ]
    wrong = {**rows[0], "list_id": 77, "position": 1}
    rows += [wrong, {**wrong, "position": 0}, {**wrong, "list_id": None}]
    source = pa.Table.from_pylist(rows)
    source = source.set_column(6, "country", source["country"].cast(pa.string()))
    log = fc.read_log(
        engine.load(source),
        long=("list_id", "position"),
        period="day",
        segments="country",
        unit="user",
        count="w",
        propensity="p",
        rewards={"orders": "orders"},
        where="day = 3",
        invalid="drop",
    )
    expected: dict[object, float] = {}
    for number, row in enumerate(LISTS):
        rewards = tuple(row["clicks"]), tuple(2 * c for c in row["clicks"])
        slots = (0.25,) * len(row["items"])
        unit = bucket_of(number % 2)
        key = (row["context"], 3, None, unit, tuple(row["items"]), *rewards, slots)
        expected[key] = expected.get(key, 0) + 0.5
    assert counted(log) == expected
    assert columns(log).field("n").type == pa.float64()
    assert log.rows == len(LISTS)
    assert log.dropped == {"a position twice in a list or below 1, or no list": 2}


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        ([1, 2, 1, 2, 1, 2, 1], [1, 2, 1, 2, 1, 2, 1]),
        (["mon", None, "tue", "mon", "mon", "mon", "mon"],) * 2,
        ([dt.date(2024, 2, 29)] * 6 + [dt.date(1969, 12, 31)],) * 2,
        (
            [START.replace(day=29, hour=hour, tzinfo=None) for hour in (0, 1, 5, 22, 23, 23, 23)],
            [dt.date(2024, 2, 29)] * 7,
        ),
    ],
)
def test_periods(values, kept):
    log = fc.read_log(table().append_column("day", [values]), period="day")
    rows = [{**row, "day": day} for row, day in zip(LISTS, kept, strict=True)]
    assert counted(log) == reference(rows, None, "day")


def test_several_segments_keep_names_types_and_nulls():
    platform = [True, False, None, True, True, False, None]
    country = ["NL", None, "NL", "BE", "", None, None]
    source = table().append_column("mobile", [platform]).append_column("Land", [country])
    log = fc.read_log(source, segments=("Land", "mobile"))
    extra = zip(LISTS, country, platform, strict=True)
    rows = [{**row, "Land": land, "mobile": mobile} for row, land, mobile in extra]
    assert counted(log) == reference(rows, None, "Land", "mobile")
    assert log.shape.segments == ("Land", "mobile")


def test_a_pre_aggregated_log_is_the_log_of_its_rows():
    times = [3, 1, 2, 1, 4, 1, 1]
    weighted = fc.read_log(table().append_column("times", [times]), count="times")
    repeated = itertools.chain(*([row] * n for row, n in zip(LISTS, times, strict=True)))
    assert fc.tally(weighted).to_arrow().equals(fc.tally(table([*repeated])).to_arrow())


def test_fractional_weights_add_up():
    weights = [0.5, 0.25, 10.0, 1e-3, 1.0, 0.125, 0.125]
    log = fc.read_log(table().append_column("w", [weights]), count="w")
    rows = [{**row, "w": w} for row, w in zip(LISTS, weights, strict=True)]
    assert counted(log) == reference(rows, "w")


def test_propensities_of_lists_and_of_slots():
    lists = [1 / len(row["items"]) for row in LISTS]
    slots = [[1 / k for k, _ in enumerate(row["items"], 1)] for row in LISTS]
    source = table().append_column("p", [lists]).append_column("ps", [slots])
    rows = [{**row, "p": p} for row, p in zip(LISTS, lists, strict=True)]
    log = fc.read_log(source, propensity="p")
    assert log.shape.propensity == "list"
    assert counted(log) == reference(rows, None, "p")
    log = fc.read_log(source, propensity="ps")
    assert log.shape.propensity == "slot"
    expected = {
        (*key, tuple(1 / k for k, _ in enumerate(key[1], 1))): n for key, n in reference().items()
    }
    assert counted(log) == expected


def test_propensities_in_wide_columns():
    source = {"context": ["q"], "i1": [7], "i2": [8], "c1": [1], "c2": [0], "p1": [0.5], "p2": [1]}
    log = fc.read_log(source, items=["i1", "i2"], clicks=["c1", "c2"], propensity=["p1", "p2"])
    assert counted(log) == {("q", (7, 8), (1, 0), (0.5, 1.0)): 1}


@pytest.mark.filterwarnings(FEW)
def test_orders_are_valued_like_clicks_in_every_layout():
    # ba was shown in one of two: its 3 orders count double; clicks are another matter
    shown = [([1, 2], [1, 0], [0, 0]), ([2, 1], [0, 1], [1, 2])]
    array = {
        "context": ["q", "q"],
        "items": [items for items, _, _ in shown],
        "clicks": [clicks for _, clicks, _ in shown],
        "bought": [orders for _, _, orders in shown],
    }
    columns = {"context": ["q", "q"], "i1": [1, 2], "i2": [2, 1], "c1": [1, 0], "c2": [0, 1]}
    rows = [
        {"context": "q", "list_id": n, "position": k + 1, "item": items[k], "click": clicks[k]}
        | {"bought": orders[k]}
        for n, (items, clicks, orders) in enumerate(shown)
        for k in range(2)
    ]
    log = fc.read_log(array, rewards={"orders": "bought"})
    others = [
        fc.read_log(rows, long=("list_id", "position"), rewards={"orders": "bought"}),
        fc.read_log(
            columns | {"o1": [0, 1], "o2": [0, 2]},
            items=["i1", "i2"],
            clicks=["c1", "c2"],
            rewards={"orders": ["o1", "o2"]},
        ),
    ]
    for other in others:
        assert fc.tally(other).to_arrow().equals(fc.tally(log).to_arrow())
    candidate = {"context": ["q"], "items": [[2, 1]]}
    answer = fc.evaluate(
        log, candidate, metrics=["orders@2", "clicks@2"], estimators=["list"], confidence=None
    )
    found = {row["metric"]: (row["value"], row["production"]) for row in answer.to_dicts()}
    assert found == {"orders@2": (3.0, 1.5), "clicks@2": (1.0, 1.0)}


# --- what cannot be read --------------------------------------------------------------------------


def test_missing_columns_are_all_named_with_those_there_are():
    with pytest.raises(SourceError) as error:
        fc.read_log(table(), context="query", items="items", clicks="klicks", segments=["land"])
    told = str(error.value)
    assert "3 named columns are not in the source" in told
    assert "context='query', clicks='klicks', segments='land'" in told
    assert "It has the columns context, items, clicks" in told
    with pytest.raises(SourceError, match=r"long='list_id', long='position'"):
        fc.read_log(table(), long=("list_id", "position"))


@pytest.mark.parametrize(
    ("change", "roles", "told"),
    [
        ({"items": [[1.5, 2.0]]}, {}, "items are of type float64; they must be integers or str"),
        ({"items": [3]}, {}, r"'items' is of type int64, not a list.*long=.*item_1"),
        ({"clicks": [1]}, {}, r"'clicks' is of type int64, not a list"),
        ({"clicks": [[dt.date(2024, 1, 1)] * 2]}, {}, "clicks must be numbers .*not date"),
        ({"w": ["2"]}, {"count": "w"}, "'w' must hold numbers, not string"),
        ({"w": [True]}, {"count": "w"}, "'w' must hold numbers, not boolean"),
        ({"context": [1.0]}, {}, r"contexts are of type float64.*integers or.*astype\('Int64'\)"),
        ({"u": [1.0]}, {"unit": "u"}, r"units are of type float64.*integers or.*astype\('Int64'\)"),
        ({}, {"rewards": {"a b": "clicks"}}, "rewards must have plain names"),
        ({}, {"rewards": {"clicks": "clicks"}}, r"clicks stands twice: in clicks= and in rewards="),
        ({}, {"items": None}, "name the column that holds the items"),
        ({}, {"items": []}, "name the column that holds the items"),
        ({}, {"long": "position"}, "long='position': give the column of the list's id and"),
        ({}, {"long": ("list_id",)}, "such as .'list_id', 'position'"),
        ({}, {"invalid": "ignore"}, "invalid='ignore'.*'error' or 'drop'"),
    ],
)
def test_wrong_types_and_roles_are_explained(change, roles, told):
    source = {"context": ["q"], "items": [[1, 2]], "clicks": [[0, 1]]} | change
    with pytest.raises((SourceError, OptionError), match=told):
        fc.read_log(source, **roles)


def test_a_position_must_be_an_integer():
    rows = [{**row, "position": float(row["position"])} for row in impressions()]
    with pytest.raises(SourceError, match="position must be an integer, not float64"):
        fc.read_log(rows, long=("list_id", "position"))


def test_integers_with_gaps_are_read_as_the_message_advises():
    users = [1, None, 2, 2, 1, None, 1]
    frame = pd.DataFrame([{**row, "user": user} for row, user in zip(LISTS, users, strict=True)])
    with pytest.raises(SourceError, match="units are of type float64"):
        fc.read_log(frame, unit="user")
    log = fc.read_log(frame.astype({"user": "Int64"}), unit="user")
    rows = [{**row, "b": bucket_of(user)} for row, user in zip(LISTS, users, strict=True)]
    assert counted(log) == reference(rows, None, "b")


def test_clicks_may_be_named_among_the_rewards():
    log = fc.read_log(table(), clicks=None, rewards={"clicks": "clicks"})
    assert counted(log) == reference()


OURS = "n rows records context period bucket item propensity weight bad_weight length repeated"
OTHERS = "position estimator value lift contexts dropped seen verdict margin examination share"


@pytest.mark.parametrize("name", [*OURS.split(), *OTHERS.split()])
def test_a_segment_or_reward_cannot_be_called_like_a_column_of_ours(name):
    source = table()
    if name not in source.column_names:
        source = source.append_column(name, [[7] * 7])
    told = rf"a segment or reward cannot be called '{name}'.*Give it another"
    with pytest.raises(SourceError, match=told):
        fc.read_log(source, segments=name)
    with pytest.raises(SourceError, match=told):
        fc.read_log(source, rewards={name: "clicks"})


@pytest.mark.parametrize("name", ["item_9", "clicks_1", "orders_3", "propensity_2"])
def test_a_segment_cannot_be_called_like_a_position_of_ours(name):
    source = table().append_column(name, [[7] * 7])
    with pytest.raises(SourceError, match=rf"a segment or reward cannot be called '{name}'"):
        fc.read_log(source, segments=name, rewards={"orders": "clicks"})


def test_a_segment_may_have_another_name():
    names = ["b0", "c0", "all", "any", "total", "orders", "clicks"]
    source = table().rename_columns(["context", "items", "k"])
    for name in names:
        source = source.append_column(name, [[7] * 7])
    log = fc.read_log(source, clicks="k", segments=names)
    rows = [{**row, **dict.fromkeys(names[:-1], 7)} for row in LISTS]
    expected = {(*key[:7], 7, *key[7:]): n for key, n in reference(rows, None, *names[:-1]).items()}
    assert counted(log) == expected


@pytest.mark.parametrize("roles", [{"segments": "_list"}, {"rewards": {"list": "click"}}])
def test_a_name_that_only_the_long_layout_uses(roles):
    rows = [{**row, "_list": 7} for row in impressions()]
    assert fc.read_log(rows, long=("list_id", "position"), **roles).rows == len(LISTS)


def test_a_count_is_of_equal_records():
    shown: Row = {
        "context": ["q"] * 40,
        "items": [[1, 2], [2, 1]] * 20,
        "clicks": [[1, 0], [0, 0], [0, 1], [1, 0]] * 10,
        "w": [10] * 40,
    }
    new: Row = {"context": ["q"], "items": [[2, 1]]}
    plain, counted = (
        fc.evaluate(
            fc.read_log(shown, count=count), new, metrics="clicks@2", estimators="ip"
        ).to_dicts()[0]
        for count in (None, "w")
    )
    assert counted["value"] == pytest.approx(plain["value"])
    assert counted["records"] == 400
    assert counted["se"] == pytest.approx(plain["se"] / math.sqrt(10), rel=0.05)


# --- what is said of how a log is read ------------------------------------------------------------

PLAIN = {"context": ["q"] * 4, "items": [[1, 2], [2, 1]] * 2}


def test_clicks_above_one_are_said(tmp_path):
    log = fc.read_log({**PLAIN, "clicks": [[3, 0], [1, 0], [0, 2], [0.5, 1]]})
    (note,) = log.notes
    assert note.startswith("2 records have clicks above 1, up to 3. They count as they are")
    fc.tally(log).write_parquet(tmp_path / "t.parquet")
    for same in (log, fc.read_tally(tmp_path / "t.parquet"), fc.tally(log) + fc.tally(log)):
        found = fc.evaluate(same, {"context": ["q"], "items": [[1, 2]]}, estimators="ladder")
        assert note in found.notes
    assert fc.read_log({**PLAIN, "clicks": [[0.5, 0]] * 4}).notes == ()


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_days_of_times_with_a_zone_are_those_of_utc(zone):
    times = pa.array([START, START + dt.timedelta(hours=2)] * 2, pa.timestamp("us", zone))
    table = pa.table({**PLAIN, "clicks": [[1, 0]] * 4, "at": times})
    for session in ("UTC", "Pacific/Auckland"):
        connection = duckdb.connect()
        connection.execute(f"SET TimeZone = '{session}'")
        log = fc.read_log(table, period="at", engine=connection)
        days = set(log.table.to_pyarrow()["period"].to_pylist())
        assert days == {dt.date(2024, 2, 28), dt.date(2024, 2, 29)}
        assert log.notes[0].startswith("Periods are days of UTC: 'at' has times with a zone")


def test_a_metric_deeper_than_the_lists_is_said():
    log = {**PLAIN, "clicks": [[1, 0]] * 4}
    candidate = {"context": ["q"], "items": [[1, 2]]}
    note = "Deeper than the lists of the log, which have up to 2 positions: clicks@5."
    found = fc.evaluate(log, candidate, metrics=["clicks@2", "clicks@5"], estimators="ladder")
    assert found.notes[0].startswith(note)
    assert not fc.evaluate(log, candidate, estimators="ladder").notes[0].startswith(note)
