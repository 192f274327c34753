"""If this fails, days that are added are not the whole, or tables are left behind."""

import datetime as dt
import gc
import json
import re
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick.errors import SourceError, TallyError
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


def test_a_log_has_one_tally():
    log = fc.read_log(LISTS)
    tally = fc.tally(log)
    assert fc.tally(tally) is tally is fc.tally(log)
    assert "lists of up to 3 items in duckdb" in repr(tally)


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
        assert pa.table(back).equals(tally.to_arrow())
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


# --- names of the log's columns -------------------------------------------------------------------


LOG: dict[str, Any] = {
    "query": ["q", "q", "r", "r"] * 5,
    "ranking": [[1, 2], [2, 1], [3, 4], [4, 3]] * 5,
    "clicks": [[1, 0], [0, 1], [0, 0], [1, 0]] * 5,
    "day": [day for day in range(5) for _ in range(4)],
}
NAMED: Any = {"context": "query", "items": "ranking"}
CANDIDATE = {"query": ["q", "r"], "ranking": [[2, 1], [4, 3]]}
PLAIN = {"context": ["q", "r"], "items": [[2, 1], [4, 3]]}


def answer(log, candidate, **asked):
    return fc.evaluate(log, candidate, metrics="clicks@1", estimators="ip", **asked)["value"]


@pytest.fixture
def log() -> fc.Log:
    return fc.read_log(LOG, **NAMED)


@pytest.fixture
def stored(log, tmp_path) -> fc.Tally:
    fc.tally(log).write_parquet(tmp_path / "tally.parquet")
    return fc.read_tally(tmp_path / "tally.parquet")


def test_a_candidate_may_call_its_columns_as_the_log_does(log, stored):
    named = fc.Ranking(CANDIDATE, **NAMED)
    expected = answer(log, named)
    for each in (log, stored, stored + stored, fc.tally(log)):
        assert answer(each, CANDIDATE) == expected
        assert answer(each, PLAIN) == expected


def test_every_verb_takes_it(stored):
    asked: Any = {"metrics": "clicks@1"}
    assert fc.support(stored, CANDIDATE, **asked)["covered"] == [1.0] * 4
    daily = fc.read_log(LOG, period="day", **NAMED)
    assert fc.compare(daily, {"a": CANDIDATE}, **asked)["candidate"] == ["a"]
    planned = fc.explore(daily, CANDIDATE, min_effect=0.5, **asked)
    assert planned.evaluation["metric"][0] == "clicks@1"
    assert answer(stored, PLAIN, baseline=CANDIDATE) == answer(stored, PLAIN)


def test_policies_take_the_names_of_the_log(log):
    """A policy is made before it meets a log: what it lacks is called as there."""
    expected, slots = answer(log, PLAIN), {"query": ["q", "q", "r", "r"], "item": [2, 1, 4, 3]}
    sure = {"probability": [1.0, 1.0]}
    for policy in (
        fc.Ranking(pa.table({**CANDIDATE, "model": ["new"] * 2})),
        fc.Ranking({"q": [2, 1], "r": [4, 3]}),
        fc.Lists({**CANDIDATE, **sure}),
        fc.Ranking.from_scores({**slots, "score": [2.0, 1.0, 2.0, 1.0]}),
        fc.Marginals({**slots, "position": [1, 2, 1, 2], "probability": [1.0] * 4}),
    ):
        assert answer(log, policy) == expected
        assert answer(log, policy, baseline=policy) == expected
    assert answer(log, {"q": [2, 1], "r": [4, 3]}) == expected
    logging = {"query": ["q", "q", "r", "r"], "ranking": LOG["ranking"][:4]}
    known = fc.Lists({**logging, "probability": [0.5] * 4})
    assert answer(log, CANDIDATE, logging=known) == expected


def test_a_column_that_nobody_knows_is_an_error(log):
    waiting = fc.Ranking(pa.table({"quest": ["q", "r"], "items": PLAIN["items"]}))
    assert repr(waiting) == "Ranking(columns quest, items)"
    with pytest.raises(SourceError, match=r"^candidate: .*context='context'.* quest, items"):
        answer(log, waiting)
    for call in (waiting.serving, lambda: fc.Ranking(pa.table({"items": PLAIN["items"]}))):
        with pytest.raises(SourceError, match="context='context'"):
            call()


# --- old days may count less ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("days", "half_life", "weights"),
    [
        (range(4), 2, [0.5**1.5, 0.5, 0.5**0.5, 1]),
        ([0.5, 1.75], 2.5, [0.5**0.5, 1]),
        ([dt.date(2026, 10, 31), dt.date(2026, 11, 1)], 1, [0.5, 1]),
    ],
    ids=["numbers", "fractions", "dates"],
)
def test_half_lives_of_days_and_of_numbers(days, half_life, weights, tmp_path):
    table = [{"context": "q", "items": [1], "clicks": [1], "day": day} for day in [*days] * 3]
    tally = fc.tally(fc.read_log(table, period="day"))
    tally.write_parquet(tmp_path / "t.parquet")
    for each in (tally, fc.read_tally(tmp_path / "t.parquet")):
        faded = each.weigh(half_life=half_life).to_arrow().sort_by("period")
        assert faded["period"].to_pylist() == [*days]
        assert faded["n"].to_pylist() == pytest.approx([3 * weight for weight in weights])


def test_records_that_count_less_are_not_taken_for_fewer_records():
    faded = fc.tally(fc.read_log(LOG, period="day", **NAMED)).weigh(half_life=1)
    with pytest.raises(fc.errors.ModelError, match="do not vary alike"):
        fc.evaluate(faded, CANDIDATE, confidence=fc.Confidence(clusters="record"))
    with pytest.raises(fc.errors.ModelError, match="do not count alike"):
        fc.evaluate(faded.split(1)[1], CANDIDATE)  # of three days
