"""If this fails, rows deleted from a Delta or Iceberg table come back."""

import json
import struct
import sys
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick.errors import MissingDependency, SourceError
from tests.lakes import needed
from tests.logs.samples import LISTS, counted, reference, table

deltalake = needed("deltalake")
pyroaring = needed("pyroaring")

LIVE = [row for row in LISTS if row["context"] == "jaguar"]
"""What is left when the other context is deleted."""


@pytest.fixture
def delta(tmp_path):
    """A table from which a context was deleted; its files still have the rows."""
    place = str(tmp_path / "delta")
    deltalake.write_deltalake(place, table(LISTS[:5]))
    deltalake.write_deltalake(place, table(LISTS[5:]), mode="append")
    deltalake.DeltaTable(place).delete("context <> 'jaguar'")
    files = Path(place).glob("*.parquet")
    assert sum(pq.read_metadata(file).num_rows for file in files) > len(LISTS)
    return place


@pytest.fixture
def iceberg(tmp_path):
    """The same in Iceberg."""
    catalog = needed("pyiceberg.catalog").load_catalog(
        "here", type="in-memory", warehouse=f"file://{tmp_path}/warehouse"
    )
    catalog.create_namespace("shop")
    made = catalog.create_table("shop.log", schema=table().schema)
    made.append(table(LISTS[:5]))
    made.append(table(LISTS[5:]))
    made.delete("context <> 'jaguar'")
    return made


# --- Delta ----------------------------------------------------------------------------------------


def test_deleted_rows_of_a_delta_table_stay_deleted_until_an_earlier_version_is_opened(delta):
    for source in (delta, f"{delta}/", Path(delta), deltalake.DeltaTable(delta)):
        assert counted(fc.read_log(source)) == reference(LIVE)
    assert counted(fc.read_log(deltalake.DeltaTable(delta, version=1))) == reference()


def _without_rows(place, rows):
    """Delete rows by a deletion vector, as Spark does; deltalake itself writes files anew."""
    log = max((place / "_delta_log").glob("*.json"))
    lines = map(json.loads, log.read_text().splitlines())
    added = next(line["add"] for line in lines if "add" in line)
    rows64 = struct.pack("<iqi", 1681511377, 1, 0) + pyroaring.BitMap(rows).serialize()
    stored = place / "vector.bin"  # a version, then the size of the vector, itself and its sum
    size, crc = (struct.pack(">I", number) for number in (len(rows64), zlib.crc32(rows64)))
    stored.write_bytes(b"\1" + size + rows64 + crc)
    vector = {"storageType": "p", "pathOrInlineDv": stored.as_uri(), "offset": 1}
    vector |= {"sizeInBytes": len(rows64), "cardinality": len(rows)}
    removed = {"path": added["path"], "deletionTimestamp": 1, "dataChange": True}
    actions = [{"remove": removed}, {"add": {**added, "deletionVector": vector}}]
    after = log.with_name(f"{int(log.stem) + 1:020}.json")
    after.write_text("\n".join(json.dumps(action) for action in actions))


def test_rows_that_a_deletion_vector_hides_stay_hidden(tmp_path):
    vectors = {"delta.enableDeletionVectors": "true"}
    deltalake.write_deltalake(str(tmp_path), table(), configuration=vectors)
    _without_rows(tmp_path, [0, 4, 6])
    kept = [LISTS[k] for k in (1, 2, 3, 5)]
    assert counted(fc.read_log(tmp_path)) == reference(kept)
    assert counted(fc.read_log(deltalake.DeltaTable(str(tmp_path)))) == reference(kept)


def test_files_of_a_delta_table_are_no_log(delta, tmp_path):
    file = next(Path(delta).glob("*.parquet"))
    for source in (file, f"{delta}/*.parquet", f"{tmp_path}/**/*.parquet", [file], tmp_path):
        with pytest.raises(SourceError, match=r"files of the Delta table .*read_log\('.*delta'\)"):
            fc.read_log(source)


def test_a_broken_delta_table_is_named(delta):
    for file in (Path(delta) / "_delta_log").iterdir():
        file.write_text("{")
    with pytest.raises(SourceError, match=r"the Delta table '.*delta' cannot be read"):
        fc.read_log(delta)


# --- Iceberg --------------------------------------------------------------------------------------


def test_deleted_rows_of_an_iceberg_table_stay_deleted(iceberg):
    assert counted(fc.read_log(iceberg)) == counted(fc.read_log(iceberg.scan())) == reference(LIVE)
    old = iceberg.scan(snapshot_id=iceberg.history()[1].snapshot_id)
    assert counted(fc.read_log(old)) == reference()
    place = iceberg.location().removeprefix("file://")
    with pytest.raises(SourceError, match=r"is an Iceberg table.*catalog\.load_table"):
        fc.read_log(place)
    for files in (f"{place}/data", f"{place}/**/*.parquet"):
        with pytest.raises(SourceError, match="files of the Iceberg table"):
            fc.read_log(files)


# --- both -----------------------------------------------------------------------------------------


def test_a_missing_package_is_named_with_its_extra(delta, monkeypatch):
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(MissingDependency, match=r"deltalake is not .*foreclick\[delta\]"):
        fc.read_log(delta)


@pytest.mark.filterwarnings("ignore::foreclick.errors.ForeclickWarning")  # seven records
def test_candidates_come_from_a_table_too(delta, tmp_path):
    place = str(tmp_path / "new")
    ranking = pa.table({"context": ["jaguar", "gone"], "items": [[3, 2, 1], [1, 2, 3]]})
    deltalake.write_deltalake(place, ranking)
    deltalake.DeltaTable(place).delete("context = 'gone'")
    found = fc.evaluate(delta, fc.Ranking(place), estimators="item")
    same = fc.evaluate(table(LIVE), fc.Ranking(ranking.slice(0, 1)), estimators="item")
    assert found.to_arrow().equals(same.to_arrow())


# --- streams and datasets of Arrow: scanned where they lie, or spooled if they come only once -----


class Once:
    """Anything that gives its rows once, as an Arrow stream."""

    def __init__(self, rows):
        self.reader = pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches())

    def __arrow_c_stream__(self, requested_schema=None):
        reader, self.reader = self.reader, None
        return reader.__arrow_c_stream__(requested_schema)


def viewed(rows):
    """Types that not every engine takes."""
    kinds = {"context": pa.string_view(), "items": pa.large_list(pa.int64())}
    return rows.cast(pa.schema(kinds | {"clicks": rows.schema.field("clicks").type}))


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(lambda: table().to_reader(), id="reader"),
        pytest.param(lambda: viewed(table()).to_reader(), id="reader of views"),
        pytest.param(lambda: Once(table()), id="stream"),
        pytest.param(lambda: table().combine_chunks().to_batches()[0], id="batch"),
        pytest.param(lambda: pads.dataset(table()), id="dataset in memory"),
        pytest.param(lambda: pads.dataset(table()).scanner(), id="scanner"),
    ],
)
def test_streams_and_datasets(source):
    assert counted(fc.read_log(source())) == reference()
