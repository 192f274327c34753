"""The two formats of sessions: every line, and every oddity, by hand."""

from __future__ import annotations

import pytest

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
