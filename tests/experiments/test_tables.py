"""Trivago and Open Bandit, as CSV and as Parquet."""

from __future__ import annotations

import datetime as dt

import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from experiments import datasets
from foreclick.errors import SourceError

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
