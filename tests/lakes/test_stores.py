"""If this fails, a log in an object store cannot be read, or its credentials are shown."""

import gc
import json
import logging
import sys
import traceback
from pathlib import Path
from typing import Any

import ibis
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick.cli import main
from foreclick.engines import files as stores
from foreclick.errors import MissingDependency, SourceError
from tests.lakes import KEY, SECRET, needed
from tests.logs.samples import LISTS, counted, reference, table

fsspec = needed("fsspec")
deltalake = needed("deltalake")

pytestmark = pytest.mark.xdist_group("stores")  # one server, which takes seconds to import

DAYS = [1, 1, 1, 2, 2, 3, 3]
WARNED = "ignore::foreclick.errors.ForeclickWarning"  # seven records


def put(rows, url, writer=pq.write_table):
    store = fsspec.filesystem("s3", use_listings_cache=False)
    with store.open(url, "wb") as file:
        writer(rows, file)


@pytest.fixture
def days(bucket):
    """A file a day, in partitions."""
    for day in (1, 2, 3):
        rows = [row for row, mine in zip(LISTS, DAYS, strict=True) if mine == day]
        put(table(rows), f"{bucket}/log/day={day}/part.parquet")
    return f"{bucket}/log"


# --- reading --------------------------------------------------------------------------------------


def test_files_globs_directories_partitions_and_lists_of_urls(days):
    for source, rows in (
        (f"{days}/day=1/part.parquet", LISTS[:3]),
        (f"{days}/day=[12]/*.parquet", LISTS[:5]),
        (f"{days}/day=?/*.parquet", LISTS),
        (f"{days}/", LISTS),
        (Path(days), LISTS),  # which has lost a slash
        ([f"{days}/day=1/part.parquet", f"{days}/day=3/*.parquet"], LISTS[:3] + LISTS[5:]),
    ):
        assert counted(fc.read_log(source)) == reference(rows)
    assert counted(fc.read_log(days, where="day = 2")) == reference(LISTS[3:5])
    connection = ibis.duckdb.connect()
    log = fc.read_log(days, engine=connection)
    assert log.engine.connection is connection.con
    put(table(LISTS[:2]), f"{days}/day=4/part.parquet")  # which came later
    assert fc.read_log(days).rows == len(LISTS) + 2


def test_csv_and_json(bucket):
    lines = "\n".join(map(json.dumps, LISTS)).encode()
    put(lines, f"{bucket}/log.jsonl", lambda rows, file: file.write(rows))
    assert counted(fc.read_log(f"{bucket}/log.jsonl")) == reference()
    plain = pa.table({"context": ["q"], "items": ["1|2"], "clicks": ["0|1"]})
    put(plain, f"{bucket}/log.csv", pyarrow.csv.write_csv)
    assert fc.read_log(f"{bucket}/log.csv").rows == 1
    for url in (f"{bucket}/none.parquet", f"{bucket}/*.parquet", "s3://nobody/*.csv"):
        with pytest.raises(SourceError, match=r"no file matches 's3://"):
            fc.read_log(url)


def test_a_delta_table(bucket):
    place = f"{bucket}/delta"
    deltalake.write_deltalake(place, table())
    deltalake.DeltaTable(place).delete("context <> 'jaguar'")
    assert counted(fc.read_log(place)) == reference(LISTS[:4])
    with pytest.raises(SourceError, match="files of the Delta table"):
        fc.read_log(f"{place}/*.parquet")


@pytest.mark.long
def test_an_iceberg_table(bucket, endpoint):
    settings = {"type": "in-memory", "warehouse": bucket, "s3.endpoint": endpoint}
    catalog = needed("pyiceberg.catalog").load_catalog("here", **settings)
    catalog.create_namespace("shop")
    made = catalog.create_table("shop.log", schema=table().schema)
    made.append(table())
    made.delete("context <> 'jaguar'")
    assert made.location().startswith("s3://")
    with pytest.raises(SourceError, match="is an Iceberg table"):
        fc.read_log(made.location())
    assert counted(fc.read_log(made)) == reference(LISTS[:4])


# --- writing --------------------------------------------------------------------------------------


def test_tallies_there_and_back(days, bucket, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tally = fc.tally(fc.read_log(days, period="day"))
    tally.write_parquet(f"{bucket}/tally.parquet")
    for url in (f"{bucket}/t*.parquet", [f"{bucket}/tally.parquet"]):
        back = fc.read_tally(url)
        assert back.to_arrow().equals(tally.to_arrow())
        assert next(back.sorted_batches()).num_rows == back.row_count() == len(tally.to_arrow())
        copy = Path(next(iter(back.files)))
        assert copy.exists()
    del back
    gc.collect()
    assert not copy.exists()
    for day in (1, 2, 3):
        files = [f"{days}/day={day}/part.parquet", "-o", f"{bucket}/tallies/{day}.parquet"]
        assert main(["tally", *files, "--period", "day"]) == 0
    assert "s3://" in capsys.readouterr().out
    assert fc.read_tally(f"{bucket}/tallies").to_arrow().equals(tally.to_arrow())
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings(WARNED)
def test_candidates_and_results(days, bucket):
    ranking = pa.table({"context": ["jaguar"], "items": [[3, 2, 1]]})
    options: dict[str, Any] = {"estimators": "item", "missing": "production"}
    put(ranking, f"{bucket}/new.parquet")
    found = fc.evaluate(days, fc.Ranking(f"{bucket}/new.parquet"), **options)
    same = fc.evaluate(table(), fc.Ranking(ranking), **options)
    assert found.to_arrow().equals(same.to_arrow())
    for ending in ("json", "csv", "parquet", "html", "svg"):
        found.save(f"{bucket}/out/answer.{ending}")
    with stores.opened(f"{bucket}/out/answer.parquet") as file:
        assert pq.read_table(file).equals(found.to_arrow())


def test_what_is_written_to_this_machine_only_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    world = fc.simulate.yandex_like(records=100, queries=1)
    for path in ("s3://bucket/log", Path("s3://bucket/log.parquet")):
        with pytest.raises(SourceError, match="this machine only"):
            world.write_parquet(path)
    assert not list(tmp_path.iterdir())


# --- what is missing, and what must not be said ---------------------------------------------------


@pytest.mark.parametrize(("extra", "package"), [("s3", "s3fs"), ("gs", "gcsfs"), ("az", "adlfs")])
def test_a_missing_package_is_named_with_its_extra(extra, package, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    url, tally = f"{extra}://bucket/log.parquet", fc.tally(table())
    for work in (
        lambda: fc.read_log(url),
        lambda: fc.read_tally(url),
        lambda: tally.write_parquet(url),
        lambda: fc.check(tally).save(url),
    ):
        with pytest.raises(MissingDependency, match=rf"{package} is not .*foreclick\[{extra}\]"):
            work()
    assert not list(tmp_path.iterdir())


def _said(error):
    return "".join(traceback.format_exception(error.value)) + repr(error.value)


def test_credentials_are_never_shown(days, bucket, caplog, capsys, monkeypatch):
    caplog.set_level(logging.DEBUG, logger="foreclick")
    log = fc.read_log(days)
    fc.tally(log).write_parquet(f"{bucket}/tally.parquet")
    found = fc.read_tally(f"{bucket}/tally.parquet")
    shown = [repr(log), repr(log.engine), str(log.stored), repr(found)]
    with stores.opened(f"{bucket}/tally.parquet") as file:
        shown.append(file.read().decode("latin1"))
    with pytest.raises(SourceError) as error:
        fc.read_log(f"s3://{KEY}:{SECRET}@bucket/log.parquet")
    shown.append(_said(error))
    for raised in (f"no {SECRET} here", f"https://x/y?X-Amz-Signature={SECRET}&a=b failed"):
        with pytest.raises(SourceError, match="cannot be reached") as error, stores.explained(days):
            raise PermissionError(raised)
        shown.append(_said(error))
    shown += [caplog.text, *capsys.readouterr()]
    assert not [text for text in shown if SECRET in text or KEY in text]
