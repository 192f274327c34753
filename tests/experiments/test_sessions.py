"""The two formats of sessions: every line, and every oddity, by hand."""

from __future__ import annotations

import datetime as dt

import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from experiments import datasets
from experiments.datasets import _pyclick
from foreclick.errors import SourceError

CLEAN = """\
0\tM\t4\t7
0\t0\tQ\t0\t100\t1,2\t11,1\t12,1\t13,2
0\t5\tC\t0\t12
0\t9\tQ\t1\t101\t1\t21,1\t22,1
1\tM\t5\t8
1\t0\tQ\t0\t100\t1,2\t13,2\t11,1
1\t3\tC\t0\t11
1\t4\tC\t0\t13
"""
CLEAN_ROWS = [
    {"query": 100, "items": [11, 12, 13], "clicks": [0, 1, 0], "day": 4, "user": 7},
    {"query": 101, "items": [21, 22], "clicks": [0, 0], "day": 4, "user": 7},
    {"query": 100, "items": [13, 11], "clicks": [1, 1], "day": 5, "user": 8},
]


def yandex(*lines: str) -> str:
    """A session of user 7 on day 4 with a list 11, 12, 13 on SERP 0, and these lines."""
    return "".join(
        f"0\t{line}\n" for line in ("M\t4\t7", "0\tQ\t0\t100\t1\t11,1\t12,1\t13,1", *lines)
    )


@pytest.mark.parametrize("name", ["train", "train.gz"])
def test_yandex_plain_and_gzip(convert, name):
    rows, oddities, done = convert("yandex", CLEAN, name)
    assert (rows, oddities, done.records) == (CLEAN_ROWS, {}, 3)
    assert dict(zip(done["fact"], done["found"], strict=True)) == {
        "lines read": 8,
        "records": 3,
        "clicks": 3,
    }
    for text in (CLEAN.rstrip(), CLEAN.replace("\n", "\r\n").rstrip() + "\r\n\r\n"):
        assert convert("yandex", text).rows == CLEAN_ROWS


NOWHERE, LEFT_OUT = "clicks on no list of their session", "clicks on lists that are left out"
WITHHELD, MALFORMED = "test queries, whose clicks are withheld", "malformed lines"


@pytest.mark.parametrize(
    ("lines", "clicks", "oddity", "example"),
    [
        (["2\tC\t5\t11"], [0, 0, 0], NOWHERE, "line 3: item 11"),
        (["2\tC\t0\t99"], [0, 0, 0], "clicks on items not in the list", "line 3: item 99"),
        (["2\tC\t0\t12", "3\tC\t0\t12"], [0, 1, 0], "repeated clicks", "line 4: item 12"),
        (["1\tT\t1\t102\t1\t1,1"], [0, 0, 0], WITHHELD, "line 3"),
        *(
            ([line], [0, 0, 0], MALFORMED, "line 3")
            for line in (
                *("1\tQ\t1\t102", "1\tQ\t1\t102\t1\t", "1\tQ\t1\t102\t1\t1,2\t3"),
                *("1\tQ\t1\t102\t1\tx,2", "1\tQ\t1\tx\t1\t1,2", "1\tC\t0", "1\tC\t0\t1x"),
                *("1\tZ\t0\t11", "1", "M\t5\t8", "1\tQ\t0\t102\t1\t1,2"),
            )
        ),
    ],
)
def test_yandex_oddities_are_counted_and_the_rest_stays(convert, lines, clicks, oddity, example):
    rows, oddities, done = convert("yandex", yandex(*lines))
    assert [row["clicks"] for row in rows] == [clicks]
    assert rows[0]["day"] == 4
    assert oddities == {oddity: 1}
    assert done["example"][-1].startswith(example)


@pytest.mark.parametrize(
    ("text", "clicks", "oddities"),
    [
        # A click belongs to its SERP, not to the last list.
        (yandex("1\tQ\t1\t101\t1\t11,1\t12,1", "2\tC\t0\t11"), [[1, 0, 0], [0, 0]], {}),
        # SERPs are of their session.
        (yandex() + "1\tM\t4\t7\n1\t0\tC\t0\t11\n", [[0, 0, 0]], {NOWHERE: 1}),
        (
            "0\tM\t4\t7\n0\t1\tC\t0\t12\n0\t0\tQ\t0\t100\t1\t11,1\t12,1\n",
            [[0, 1]],
            {"clicks written before their query": 1},
        ),
        (
            yandex("1\tT\t1\t102\t1\t1,1", "2\tC\t1\t1"),
            [[0, 0, 0]],
            {WITHHELD: 1, LEFT_OUT: 1},
        ),
        (
            yandex() + "2\t0\tQ\t0\t100\t1\t11,1\n2\t1\tC\t0\t11\n",
            [[0, 0, 0]],
            {"queries of a session without its M line": 1, LEFT_OUT: 1},
        ),
    ],
)
def test_yandex_whose_click_it_is(convert, text, clicks, oddities):
    written = convert("yandex", text)
    assert [row["clicks"] for row in written.rows] == clicks
    assert written.oddities == oddities


def test_an_item_twice_keeps_its_first_place_and_moves_nothing(convert):
    text = (
        "0\tM\t4\t7\n0\t0\tQ\t0\t100\t1\t11,1\t12,1\t11,1\t13,1\n0\t1\tC\t0\t11\n0\t1\tC\t0\t13\n"
    )
    rows, oddities, done = convert("yandex", text)
    assert rows[0]["items"] == [11, 12, None, 13]
    assert rows[0]["clicks"] == [1, 0, None, 1]
    assert oddities == {"lists with an item twice": 1}
    log = done.log()  # a gap is a list's right, an item twice is not
    assert (log.rows, log.dropped_rows, log.shape.depth) == (1, 0, 4)


# --- the format of 2011 -------------------------------------------------------------------------


def test_2011_queries_clicks_and_padding(convert):
    text = "3\t0\tQ\t100\t0.0\t11\t12\n3\t5\tC\t12\t\t\t\n4\t9\tQ\t101\t2\t21\t22\t\t\n"
    rows, oddities, done = convert("relevance_prediction", text)
    assert rows == [
        {"query": 100, "items": [11, 12], "clicks": [0, 1], "region": "0.0", "session": 3},
        {"query": 101, "items": [21, 22], "clicks": [0, 0], "region": "2", "session": 4},
    ]
    assert oddities == {}
    assert done.log().shape.segments == ("region",)


def test_2011_days(convert):
    text = "0\t99\tQ\t1\t0\t11\n1\t100\tQ\t1\t0\t11\n2\t250\tQ\t1\t0\t11\n"
    rows, _, done = convert("relevance_prediction", text, day_length=100)
    assert [row["day"] for row in rows] == [0, 1, 2]
    assert done.log().shape.period


@pytest.mark.parametrize(
    ("lines", "clicks", "oddities"),
    [
        # The last list before the click that has the item, in the session.
        (["Q\t1\t0\t11\t12", "Q\t2\t0\t11", "C\t11"], [[0, 0], [1]], {}),
        (
            ["Q\t1\t0\t11\t12", "Q\t2\t0\t11", "C\t12"],
            [[0, 1], [0]],
            {"clicks on another list than the last one": 1},
        ),
        (["Q\t1\t0\t11", "C\t11", "Q\t2\t0\t11"], [[1], [0]], {}),
        (
            ["Q\t1\t0\t11", "C\t22", "Q\t2\t0\t22"],
            [[0], [0]],
            {"clicks before their query": 1},
        ),
        (["C\t11", "Q\t1\t0\t11"], [[0]], {"clicks before their query": 1}),
        (["Q\t1\t0\t11", "C\t12"], [[0]], {"clicks on no list of their session": 1}),
        (["Q\t1\t0\t11", "C\t11", "C\t11", "C\t11"], [[1]], {"repeated clicks": 2}),
        (["Q\t1\t0\t11", "Q\t2\t0", "C\t11"], [[1]], {"malformed lines": 1}),
        (["Q\t1\t0\t11", "Q\t2\t0\t1\t\t2", "C\t11"], [[1]], {"malformed lines": 1}),
        (["Q\t1\t0\t11", "C", "C\t11"], [[1]], {"malformed lines": 1}),
        (["Q\t1\t0\t11", "X\t1", "C\t11"], [[1]], {"malformed lines": 1}),
    ],
)
def test_2011_whose_click_it_is(convert, lines, clicks, oddities):
    text = "".join(f"0\t{time}\t{line}\n" for time, line in enumerate(lines))
    written = convert("relevance_prediction", text)
    assert [row["clicks"] for row in written.rows] == clicks
    assert written.oddities == oddities


# --- pyClick's records between semicolons ---------------------------------------------------------


TEXT = "9_0\t1,2,3 : 2 , 1; 9_0\t1,2,3 :;\n 8_1\t3,1\n : 3 , 3 , 7; "


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_records_wherever_lines_and_chunks_end(convert, monkeypatch, chunk):
    monkeypatch.setattr(_pyclick, "_CHUNK", max(chunk, 40))
    rows, oddities, done = convert("pyclick", TEXT)
    assert rows == [
        {"query": "9_0", "items": [1, 2, 3], "clicks": [1, 1, 0]},
        {"query": "9_0", "items": [1, 2, 3], "clicks": [0, 0, 0]},
        {"query": "8_1", "items": [3, 1], "clicks": [1, 0]},
    ]
    assert oddities == {"clicks on items not in the list": 1, "repeated clicks": 1}
    assert done["example"][-1] == "record 3: item 3"


@pytest.mark.parametrize("bad", ["8_1\t3,1", "8_1 3,1 :", "8_1\t3,,1 :", "8_1\t3,1 : x", "8\t : 1"])
def test_malformed_records(convert, bad):
    rows, oddities, _ = convert("pyclick", f"{TEXT}{bad};")
    assert len(rows) == 3
    assert oddities["malformed lines"] == 1


# --- trivago and Open Bandit, as CSV and as Parquet -----------------------------------------------


HEAD = "user_id,session_id,timestamp,step,action_type,reference,platform,city,device,impressions\n"
CLICKOUT = 'u,s,1541600000,1,clickout item,12,BE,"Ghent, Belgium",mobile,11|12|13\n'
OTHER = 'u,s,1541600001,2,search for poi,Port,BE,"Ghent, Belgium",mobile,\n'
GHENT = {
    "city": "Ghent, Belgium",
    "items": [11, 12, 13],
    "clicks": [0, 1, 0],
    "day": dt.date(2018, 11, 7),
    "user": "u",
    "platform": "BE",
    "device": "mobile",
}
BANDIT = ",timestamp,item_id,position,click,propensity_score,user_feature_0\n"
IMPRESSIONS = (
    "0,2019-11-24 08:00:00.5+00:00,9,3,0,0.25,a\n1,2019-11-25 23:59:59+00:00,2,1,1,0.5,b\n"
)


def test_trivago_lists_are_clickouts_in_csv_and_parquet(convert, tmp_path):
    rows, oddities, done = convert("trivago", HEAD + OTHER + CLICKOUT, "train.csv")
    assert (rows, oddities, done["found"]) == ([GHENT], {}, [2, 1, 1])
    shape = done.log().shape
    assert (shape.segments, shape.period, shape.unit) == (("platform", "device"), True, True)
    source, out = tmp_path / "train.parquet.snappy", tmp_path / "out.parquet"
    pq.write_table(pyarrow.csv.read_csv(tmp_path / "train.csv"), source)
    assert datasets.convert("trivago", source, out)["found"] == [2, 1, 1]
    assert pq.read_table(out).to_pylist() == [GHENT]


@pytest.mark.parametrize(
    ("row", "clicks", "oddity", "example"),
    [
        (CLICKOUT.replace("12,BE", "99,BE"), [0, 0, 0], "clicks on items not in the list", "99"),
        (
            CLICKOUT.replace("12,BE", ",BE"),
            None,
            "test queries, whose clicks are withheld",
            "row 2",
        ),
        (CLICKOUT.replace("11|", "|"), None, "malformed lines", "row 2"),
        (CLICKOUT.replace("12,BE", "no,BE"), None, "malformed lines", "row 2"),
        (CLICKOUT.replace("1541600000", "then"), None, "malformed lines", "row 2"),
        (CLICKOUT.replace("u,s,", "u,"), None, "malformed lines", "row 2"),
        (CLICKOUT.replace("|13", "|11"), [0, 1, None], "lists with an item twice", "row 2"),
    ],
)
def test_trivago_oddities(convert, row, clicks, oddity, example):
    rows, oddities, done = convert("trivago", HEAD + CLICKOUT + row, "train.csv.gz")
    assert rows[0] == GHENT
    assert [r["clicks"] for r in rows[1:]] == ([] if clicks is None else [clicks])
    assert oddities == {oddity: 1}
    assert example in done["example"][-1]


def test_open_bandit_is_one_item_at_a_position(convert):
    rows, oddities, done = convert("open_bandit", BANDIT + IMPRESSIONS, "bts/men.csv.gz")
    day = dt.date(2019, 11, 24)
    assert rows[0] == {
        "position": 3,
        "items": [9],
        "clicks": [0],
        "day": day,
        "propensity": 0.25,
        "policy": "bts",
    }
    assert rows[1]["day"] == dt.date(2019, 11, 25)
    assert rows[1]["clicks"] == [1]
    assert oddities == {}
    assert done.log().shape.propensity == "list"


def test_open_bandit_policies_are_directories_and_campaigns_do_not_mix(write, convert, tmp_path):
    assert convert("open_bandit", BANDIT + IMPRESSIONS, "men.csv").rows[0]["policy"] == "unknown"
    for policy in ("random", "bts"):
        write(BANDIT + IMPRESSIONS, f"obd/{policy}/men.csv")
    write("not a table", "obd/README.txt")
    done = datasets.convert("open_bandit", tmp_path / "obd", tmp_path / "out.parquet")
    assert pq.read_table(done.path)["policy"].to_pylist() == ["bts", "bts", "random", "random"]
    write(BANDIT + IMPRESSIONS, "obd/bts/women.csv")
    with pytest.raises(SourceError, match=r"2 campaigns \(men, women\)"):
        datasets.convert("open_bandit", tmp_path / "obd", tmp_path / "out.parquet")


@pytest.mark.parametrize("dataset", ["trivago", "open_bandit"])
def test_another_table_is_refused_by_its_columns(write, tmp_path, dataset):
    with pytest.raises(SourceError, match=r"lacks \d of the columns .*Its own are a, b"):
        datasets.convert(dataset, write("a,b\n1,2\n", "men.csv"), tmp_path / "out.parquet")
