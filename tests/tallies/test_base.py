"""The tally adds, is an ordinary file, and leaves nothing behind."""

import gc
import json
import re
from typing import Any

import ibis
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick.errors import EngineError, TallyError
from tests.engines.looking import kept, without_spark
from tests.logs.samples import LISTS, Row, counted, reference, table


def rows(count: int, deep: int, seed: int = 0) -> list[Row]:
    """Lists of up to `deep` items, again and again, with every role."""
    return [
        {
            "context": f"q{(i * 7 + seed) % 3}",
            "items": [(i + k) % 5 + 10 * k for k in range(i % deep + 1)],
            "clicks": [(i >> k) & 1 for k in range(i % deep + 1)],
            "orders": [((i + 1) >> k) & 1 for k in range(i % deep + 1)],
            "p": 1 / (i % 3 + 1),
            "day": i % 2,
            "user": f"u{i % 11}",
            "land": [None, "NL", "BE"][i % 3],
            "times": i % 4 + 1,
        }
        for i in range(count)
    ]


ROLES: Row = {
    "period": "day",
    "unit": "user",
    "segments": "land",
    "count": "times",
    "propensity": "p",
    "rewards": {"orders": "orders"},
}


def test_halves_add_up_to_the_whole_exactly(engine):
    table = pa.Table.from_pylist(rows(120, 4))
    loaded = engine.load(table)
    first = fc.tally(fc.read_log(loaded, where="times > 2", **ROLES))
    second = fc.tally(fc.read_log(loaded, where="times <= 2", **ROLES))
    both = first + second
    whole = fc.tally(fc.read_log(table, **ROLES))  # in the DuckDB of this process
    assert both.to_arrow().equals(whole.to_arrow())
    assert both.engine == engine.scratch_engine
    schema = both.to_arrow().schema
    assert schema.field("n").type == schema.field("item_4").type == pa.int64()
    assert schema.field("clicks_1").type == schema.field("orders_2").type == pa.int64()
    assert schema.field("bucket").type == pa.int16()


def halved(rows: list[Row]) -> list[Row]:
    return [{**row, "clicks": [c / 2 for c in row["clicks"]]} for row in rows]


def truthy(rows: list[Row]) -> list[Row]:
    return [{**row, "clicks": [bool(c) for c in row["clicks"]]} for row in rows]


SUMS: dict[str, tuple[list[Any], Any]] = {
    "several": ([LISTS[:2], LISTS[2:3], LISTS[3:]], reference()),
    "boolean clicks": ([LISTS, truthy(LISTS)], reference(LISTS * 2)),
    "graded clicks": ([LISTS, halved(LISTS)], reference([*LISTS, *halved(LISTS)])),
    "graded clicks first": ([halved(LISTS), LISTS], reference([*LISTS, *halved(LISTS)])),
}


@pytest.mark.parametrize("name", SUMS)
def test_tallies_add(name):
    parts, expected = SUMS[name]
    first, *rest = (fc.tally(part) for part in parts)
    assert counted(sum(rest, first)) == expected
    assert counted(first) == reference(parts[0])


def test_counts_beyond_the_doubles_and_fractional_weights_add():
    big = fc.tally(fc.read_log(table(LISTS[:1]).append_column("w", [[2**61 + 1]]), count="w"))
    assert list(counted(big + big).values()) == [2**62 + 2]
    weighted = fc.read_log(table().append_column("w", [[0.5] * 7]), count="w")
    expected = {key: 1.5 * n for key, n in reference().items()}
    assert counted(fc.tally(LISTS) + fc.tally(weighted)) == expected


def test_a_tally_answers_as_its_log_does():
    log = fc.read_log([*LISTS] * 5)
    tally = fc.tally(log)
    assert fc.tally(tally) is tally is fc.tally(log)
    assert "lists of up to 3 items in duckdb" in repr(tally)
    ranking = {"context": ["jaguar", "zoë's 東京"], "items": [[3, 1], [2, 3, 1]]}
    shuffled = [LISTS[i] for i in (4, 2, 6, 0, 5, 1, 3)]  # the order of rows does not show
    half = fc.tally(shuffled * 2) + fc.tally([*LISTS] * 3)
    found, expected = (
        fc.evaluate(source, ranking, estimators=["list", "ip"], metrics="clicks@3").to_dicts()
        for source in (half, log)
    )
    assert found == expected


# --- files ----------------------------------------------------------------------------------------


@without_spark
def test_a_tally_goes_to_a_file_and_back(engine, tmp_path):
    twice = {**rows(1, 1)[0], "items": [7, 7], "clicks": [0, 0], "orders": [0, 0]}
    source = engine.load(pa.Table.from_pylist([*rows(20, 3), twice]))
    tally = fc.tally(fc.read_log(source, invalid="drop", **ROLES))
    path = tmp_path / "day.tally.parquet"
    fc.tally(LISTS).write_parquet(path)  # which is replaced
    tally.write_parquet(path)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    for back in (fc.read_tally(path), fc.read_tally(str(path))):
        assert back.to_arrow().equals(tally.to_arrow())
        assert back.shape == tally.shape
        assert (back.dropped, back.dropped_rows) == (tally.dropped, 1)


def test_the_file_is_ordinary_parquet_with_its_version(tmp_path):
    path = tmp_path / "tally.parquet"
    fc.tally(LISTS).write_parquet(path)
    file = pq.read_table(path)
    assert sum(file["n"].to_pylist()) == len(LISTS)
    meta = json.loads(pq.read_metadata(path).metadata[b"foreclick"])
    assert (meta["version"], meta["shape"]["depth"]) == (3, 3)
    assert (meta["rows"], meta["records"]) == (len(file), len(LISTS))
    assert meta["shape"]["masks"] == ["clicks"]
    assert file.column_names == ["context", "item_1", "item_2", "item_3", "clicks", "n"]


def test_what_is_no_tally_is_named(tmp_path):
    with pytest.raises(TallyError, match="no tally"):
        fc.read_tally(tmp_path)  # a directory without one
    for name in ("none.parquet", "*.parquet"):
        with pytest.raises(TallyError, match=rf"no tally: no file matches '.*/{re.escape(name)}'"):
            fc.read_tally(tmp_path / name)
    pq.write_table(table(), tmp_path / "log.parquet")
    with pytest.raises(TallyError, match=r"log\.parquet' is not a tally.*write_parquet"):
        fc.read_tally(tmp_path / "log.parquet")
    for text in ("context,items\n", ""):
        (tmp_path / "log.csv").write_text(text)
        with pytest.raises(TallyError, match=r"no tally: not all of '.*log\.csv' is Parquet"):
            fc.read_tally(tmp_path / "log.csv")


def test_a_failed_write_leaves_what_was_there(tmp_path):
    path = tmp_path / "t.parquet"
    fc.tally(LISTS).write_parquet(path)
    connection = ibis.duckdb.connect()
    gone = fc.tally(connection.create_table("log", table()))
    connection.disconnect()
    with pytest.raises(EngineError):
        gone.write_parquet(path)
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]
    assert counted(fc.read_tally(path)) == reference()


# --- nothing stays --------------------------------------------------------------------------------


def test_the_tables_go_with_the_tally(engine):
    gc.collect()
    before = kept(engine)
    source = engine.load(table())
    log = fc.read_log(source)
    tally = fc.tally(log)
    both = tally + tally
    keeps = engine.scratch_engine.far or engine.name == "duckdb"  # else the tally is here
    assert len(kept(engine)) == len(before) + 2 * keeps
    del log  # its tally still stands on its table
    gc.collect()
    assert counted(tally) == reference()
    del tally
    gc.collect()
    assert len(kept(engine)) == len(before) + keeps
    assert counted(both) == reference(LISTS * 2)
    del both
    gc.collect()
    assert kept(engine) == before
