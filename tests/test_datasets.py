"""If this fails, lines of a public log are lost without a word."""

from __future__ import annotations

import datetime as dt
import gzip
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick import datasets
from foreclick.cli import main
from foreclick.errors import ForeclickError, SourceError

OTHER = "lines that are neither a list nor a click of the log"


@pytest.fixture
def write(tmp_path: Path):
    """Writes a source, compressed if its name says so; its path."""

    def put(text: str, name: str = "source") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        content = text.encode()
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
        return path

    return put


def rows(log: fc.Log | fc.Tally) -> list[tuple[Any, ...]]:
    """Context, items, clicks, and what else was counted of each record, but for the user."""
    found = []
    for row in fc.tally(log).to_arrow().to_pylist():
        items, clicks = (
            [row.pop(f"{name}_{k}") for k in range(1, log.shape.depth + 1)]
            for name in ("item", "clicks")
        )
        n, context = row.pop("n"), row.pop("context")
        row.pop("bucket", None)
        found += [(context, items, clicks, *row.values())] * int(n)
    return found


def facts(log: fc.Log) -> dict[str, int]:
    return {row["fact"]: row["found"] for row in log.ledger}


# --- Kaggle's log of Yandex -----------------------------------------------------------------------

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
    (100, [11, 12, 13], [0, 1, 0], 4),
    (100, [13, 11, None], [1, 1, None], 5),
    (101, [21, 22, None], [0, 0, None], 4),
]


def session(*lines: str) -> str:
    """A session of user 7 on day 4 with a list 11, 12, 13 on SERP 0, and these lines."""
    shown = "M\t4\t7", "0\tQ\t0\t100\t1\t11,1\t12,1\t13,1"
    return "".join(f"0\t{line}\n" for line in (*shown, *lines))


@pytest.mark.parametrize("name", ["train", "train.gz", "parts/train"])
def test_yandex_plain_gzip_and_a_directory(write, name):
    path = write(CLEAN, name)
    if name.startswith("parts"):
        write("rubbish", "parts/_SUCCESS")
        path = path.parent
    log = datasets.yandex(path)
    assert rows(log) == CLEAN_ROWS
    assert log.shape.unit
    counts = {"lines": 8, OTHER: 2, "impressions": 7, "actions": 3, "clicks": 3, "records": 3}
    assert facts(log) == counts
    assert rows(datasets.yandex(write(CLEAN.replace("\n", "\r\n")))) == CLEAN_ROWS


NO_LIST, NOT_SHOWN = "clicks without a list", "clicks on items that their list did not show"


@pytest.mark.parametrize(
    ("lines", "clicks", "losses"),
    [
        (["2\tC\t5\t11"], [0, 0, 0], {NO_LIST: 1}),
        (["2\tC\t0\t99"], [0, 0, 0], {NOT_SHOWN: 1}),
        (["2\tC\t0\t12", "3\tC\t0\t12"], [0, 1, 0], {"clicks, repeated": 1}),
        (["1\tT\t1\t102\t1\t1,1"], [0, 0, 0], {}),
        (["1\tZ\t0\t11"], [0, 0, 0], {}),
        (["1\tC\t0\t1x"], [0, 0, 0], {"clicks without a list or an item": 1}),
    ],
)
def test_yandex_leaves_out_and_counts(write, lines, clicks, losses):
    log = datasets.yandex(write(session(*lines)))
    assert rows(log) == [(100, [11, 12, 13], clicks, 4)]
    assert log.ledger.losses == losses
    other = sum(line.split("\t")[1] in "TZ" for line in lines)
    assert facts(log)[OTHER] == 1 + other


def test_yandex_whose_click_it_is(write):
    # A click belongs to its SERP, not to the last list; and SERPs are of their session.
    two = session("1\tQ\t1\t101\t1\t11,1\t12,1\t13,1", "2\tC\t0\t11")
    log = datasets.yandex(write(two + "1\tM\t4\t7\n1\t0\tC\t1\t12\n"))
    assert [row[2] for row in rows(log)] == [[1, 0, 0], [0, 0, 0]]
    assert log.ledger.losses == {NO_LIST: 1}
    # Written before its query.
    early = "0\tM\t4\t7\n0\t1\tC\t0\t12\n0\t0\tQ\t0\t100\t1\t11,1\t12,1\n"
    assert rows(datasets.yandex(write(early))) == [(100, [11, 12], [0, 1], 4)]
    # Without its M line, the day of a list is unknown.
    log = datasets.yandex(write(session() + "2\t0\tQ\t0\t100\t1\t11,1\n2\t1\tC\t0\t11\n"))
    assert rows(log) == [(100, [11, 12, 13], [0, 0, 0], 4)]
    assert (facts(log)[OTHER], log.ledger.losses) == (2, {NO_LIST: 1})


def test_days_whose_clicks_were_withheld_are_left_out(write):
    later = CLEAN.replace("M\t4", "M\t28").replace("M\t5", "M\t30")
    path = write(CLEAN + "".join(f"2{line}\n" for line in later.splitlines()))
    assert rows(datasets.yandex(path)) == CLEAN_ROWS
    counts = datasets.yandex_counts(path).to_pylist()
    assert sorted(tuple(row.values()) for row in counts) == [(100, 2), (101, 1)]


def test_some_queries_alone_have_the_clicks_of_their_own_lists(write):
    log = datasets.yandex(write(CLEAN), queries=[101, 5])
    assert rows(log) == [(101, [21, 22], [0, 0], 4)]
    assert log.ledger.losses == {}
    assert rows(datasets.yandex(write(CLEAN), queries=range(100, 102))) == CLEAN_ROWS


def test_an_item_twice_keeps_its_first_place_and_moves_nothing(write):
    text = "0\tM\t4\t7\n0\t0\tQ\t0\t1\t1\t11,1\t12,1\t11,1\t13,1\n0\t1\tC\t0\t11\n0\t1\tC\t0\t13\n"
    log = datasets.yandex(write(text))
    assert rows(log) == [(1, [11, 12, None, 13], [1, 0, None, 1], 4)]
    assert log.ledger.losses == {"further places of an item in a list": 1}


def test_the_command_line_tallies_a_public_log(write, tmp_path, capsys):
    out = str(tmp_path / "tally.parquet")
    assert main(["tally", str(write(CLEAN)), "--tracker", "yandex", "-o", out]) == 0
    assert "neither a list nor a click" in capsys.readouterr().out
    assert rows(fc.read_tally(out)) == CLEAN_ROWS


# --- the format of 2011 ---------------------------------------------------------------------------


def test_2011_queries_clicks_padding_and_days(write):
    text = "3\t0\tQ\t100\t0.0\t11\t12\n3\t5\tC\t12\t\t\t\n4\t209\tQ\t101\t2\t21\t22\t\t\n"
    log = datasets.relevance_prediction(write(text))
    assert (log.shape.segments, log.shape.unit, log.shape.period) == (("region",), True, False)
    assert rows(log) == [(100, [11, 12], [0, 1], "0.0"), (101, [21, 22], [0, 0], "2")]
    dated = datasets.relevance_prediction(write(text), day_length=100)
    assert [row[3] for row in rows(dated)] == [0, 2]


UNKNOWN = "clicks without a list or an item"


@pytest.mark.parametrize(
    ("lines", "clicks", "losses"),
    [
        # The last list before the click that has the item, in the session.
        (["Q\t1\t0\t11\t12", "Q\t2\t0\t11", "C\t11"], [[0, 0], [1, None]], {}),
        (["Q\t1\t0\t11\t12", "Q\t2\t0\t11", "C\t12"], [[0, 1], [0, None]], {}),
        (["Q\t1\t0\t11", "C\t11", "Q\t2\t0\t11"], [[1], [0]], {}),
        (["Q\t1\t0\t11", "C\t22", "Q\t2\t0\t22"], [[0], [0]], {UNKNOWN: 1}),
        (["C\t11", "Q\t1\t0\t11"], [[0]], {UNKNOWN: 1}),
        (["Q\t1\t0\t11", "C\t12"], [[0]], {UNKNOWN: 1}),
        (["Q\t1\t0\t11", "C\t11", "C\t11", "C\t11"], [[1]], {"clicks, repeated": 2}),
        (["Q\t1\t0\t11", "C", "X\t1", "C\t11"], [[1]], {}),
    ],
)
def test_2011_whose_click_it_is(write, lines, clicks, losses):
    text = "".join(f"0\t{time}\t{line}\n" for time, line in enumerate(lines))
    log = datasets.relevance_prediction(write(text))
    assert [row[2] for row in rows(log)] == clicks
    assert log.ledger.losses == losses


# --- PyClick's sample -----------------------------------------------------------------------------


def test_pyclicks_records_end_in_semicolons(write):
    text = "9_0\t1,2,3 : 2 , 1; 9_0\t1,2,3 :;\n 8_1\t3,1\n : 3 , 3 , 7; 8_1 3,1 :; "
    log = datasets.pyclick(write(text))
    assert rows(log) == [
        ("8_1", [3, 1, None], [1, 0, None]),
        ("9_0", [1, 2, 3], [0, 0, 0]),
        ("9_0", [1, 2, 3], [1, 1, 0]),
    ]
    assert (facts(log)["lines"], facts(log)[OTHER]) == (4, 1)
    assert log.ledger.losses == {NOT_SHOWN: 1, "clicks, repeated": 1}


# --- trivago and Open Bandit ----------------------------------------------------------------------

HEAD = "user_id,session_id,timestamp,step,action_type,reference,platform,city,device,impressions\n"
CLICKOUT = 'u,s,1541600000,1,clickout item,12,BE,"Ghent, Belgium",mobile,11|12|13\n'
ANOTHER = 'u,s,1541600001,2,search for poi,Port,BE,"Ghent, Belgium",mobile,\n'
GHENT = ("Ghent, Belgium", [11, 12, 13], [0, 1, 0], dt.date(2018, 11, 7), "BE", "mobile")


def test_trivagos_lists_are_clickouts_in_csv_and_parquet(write, tmp_path):
    withheld = CLICKOUT.replace("12,BE", ",BE")
    log = datasets.trivago(write(HEAD + ANOTHER + CLICKOUT + withheld, "train.csv"))
    assert rows(log) == [GHENT]
    assert (facts(log)["lines"], facts(log)[OTHER]) == (3, 2)
    path = tmp_path / "train.parquet.snappy"
    pq.write_table(pyarrow.csv.read_csv(tmp_path / "train.csv"), path)
    assert rows(datasets.trivago(path)) == [GHENT]
    off = write(HEAD + CLICKOUT.replace("12,BE", "99,BE"), "train.csv.gz")
    assert datasets.trivago(off).ledger.losses == {NOT_SHOWN: 1}


def test_open_bandit_is_one_item_at_a_position_of_a_policy(write, tmp_path):
    head = ",timestamp,item_id,position,click,propensity_score,user_feature_0\n"
    shown = "0,2019-11-24 08:00:00.5+00:00,9,3,0,0.25,a\n1,2019-11-25 23:59:59+00:00,2,1,1,0.5,b\n"
    for policy in ("random", "bts"):
        write(head + shown, f"obd/{policy}/men.csv.gz")
    write("not a table", "obd/README.txt")
    log = datasets.open_bandit(tmp_path / "obd")
    first, second = dt.date(2019, 11, 24), dt.date(2019, 11, 25)
    assert rows(log) == [
        (1, [2], [1], second, "bts", 0.5),
        (1, [2], [1], second, "random", 0.5),
        (3, [9], [0], first, "bts", 0.25),
        (3, [9], [0], first, "random", 0.25),
    ]
    write(head + shown, "obd/bts/women.csv")
    with pytest.raises(SourceError, match=r"2 campaigns \(men, women\)"):
        datasets.open_bandit(tmp_path / "obd")
    assert rows(datasets.open_bandit(write(head + shown, "men.csv")))[0][4] == "unknown"


# --- what is no such log --------------------------------------------------------------------------


@pytest.mark.parametrize("name", datasets.READERS)
def test_another_file_is_refused(write, name):
    message = r"(?s)source' .* (as|of) .*Check |none of 3 impressions"
    with pytest.raises(ForeclickError, match=message):
        datasets.READERS[name](write("once upon a time;\n" * 3))
    with pytest.raises(SourceError, match="no file matches"):
        datasets.READERS[name]("nowhere")


def test_a_cut_off_gzip_file(write):
    path = write("".join(session() for _ in range(9_000)), "train.gz")
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(SourceError, match=r"train.gz' is gzip, but damaged or cut off"):
        datasets.yandex(path)
