"""What all formats share: files, failures, reports, progress, memory."""

from __future__ import annotations

import gzip
import tracemalloc
import warnings

import pyarrow.parquet as pq
import pytest

import foreclick as fc
from experiments import datasets
from experiments.datasets import conversion
from experiments.datasets.__main__ import main
from foreclick.errors import ForeclickWarning, SourceError

RECORD = "9_0\t1,2,3 : 2;"
ODD = f"{RECORD} 9_0\t1,2,3 : 2 , 2;"


def session(number: int) -> str:
    lists = "\t".join(f"{number + k},1" for k in range(10))
    return f"{number}\tM\t1\t{number}\n{number}\t0\tQ\t0\t{number % 7}\t1\t{lists}\n"


# --- files --------------------------------------------------------------------------------------


def test_a_directory_is_its_files_in_order_without_hidden_ones(write, tmp_path):
    write("b\t1 :;", "parts/b")
    write("a\t1 : 9;", "parts/deeper/a.gz")
    write("rubbish", "parts/.hidden")
    write("rubbish", "parts/_SUCCESS")
    done = datasets.convert("pyclick", tmp_path / "parts", tmp_path / "out.parquet")
    assert pq.read_table(done.path)["query"].to_pylist() == ["b", "a"]
    assert done["example"][-1] == "a.gz, record 1: item 9"


def test_a_glob(write, tmp_path):
    for name in ("x1", "x2", "y1"):
        write(f"{name}\t1 :;", name)
    done = datasets.convert("pyclick", f"{tmp_path}/x*", tmp_path / "out.parquet")
    assert pq.read_table(done.path)["query"].to_pylist() == ["x1", "x2"]


def test_gzip_is_told_by_its_content(write, tmp_path):
    path = write("", "log.txt")
    path.write_bytes(gzip.compress(RECORD.encode()))
    assert datasets.convert("pyclick", path, tmp_path / "out.parquet").records == 1


def test_no_such_file(tmp_path):
    with pytest.raises(SourceError, match="no file matches"):
        datasets.convert("pyclick", tmp_path / "nothing", tmp_path / "out.parquet")


# --- failures leave nothing behind --------------------------------------------------------------


@pytest.mark.parametrize("dataset", datasets.FORMATS)
@pytest.mark.parametrize("text", ["", "\n\n"])
def test_an_empty_file(write, tmp_path, dataset, text):
    with pytest.raises(SourceError, match=r"no records|lacks"):
        datasets.convert(dataset, write(text, "empty.csv"), tmp_path / "out.parquet")
    assert [file.name for file in tmp_path.iterdir()] == ["empty.csv"]


@pytest.mark.parametrize("dataset", ["yandex", "relevance_prediction", "pyclick"])
@pytest.mark.parametrize("lines", [3, 5_000])
def test_another_format_is_refused(write, tmp_path, dataset, lines):
    text = "".join(f"{n} once upon a time;\n" for n in range(lines))
    with pytest.raises(SourceError, match=r"not in this format: [\d,]+ of .* for example .*once"):
        datasets.convert(dataset, write(text), tmp_path / "out.parquet")
    assert [file.name for file in tmp_path.iterdir()] == ["source"]


def test_another_format_is_refused_early(write, tmp_path):
    text = "".join(f"{n}\tonce upon a time\n" for n in range(50_000))
    with pytest.raises(SourceError, match="1,000 of 1,000 lines"):
        datasets.convert("yandex", write(text), tmp_path / "out.parquet")


def test_a_cut_off_gzip_file(write, tmp_path):
    path = write("".join(session(n) for n in range(2_000)), "train.gz")
    path.write_bytes(path.read_bytes()[:-2_000])
    out = tmp_path / "out.parquet"
    out.write_text("what was there before")
    with pytest.raises(SourceError, match=r"damaged or cut off.*Fetch it again"):
        datasets.convert("yandex", path, out)
    assert out.read_text() == "what was there before"


@pytest.mark.parametrize("out", ["out.csv", "no/such/folder/out.parquet"])
def test_where_it_cannot_be_written(write, tmp_path, out):
    with pytest.raises(SourceError, match="Parquet file in a directory"):
        datasets.convert("pyclick", write(RECORD), tmp_path / out)


def test_what_is_no_dataset(write, tmp_path):
    with pytest.raises(SourceError, match="there are yandex, relevance_prediction"):
        datasets.convert("netflix", write(RECORD), tmp_path / "out.parquet")
    with pytest.raises(SourceError, match="day_length"):
        datasets.convert("pyclick", write(RECORD), tmp_path / "out.parquet", day_length=5)
    with pytest.raises(SourceError, match="day_length"):
        datasets.relevance_prediction(write(RECORD), day_length=0)


# --- reading ------------------------------------------------------------------------------------


def test_readers_warn_of_what_is_odd(write):
    path = write(ODD)
    with pytest.raises(ForeclickWarning, match=r"pyclick: repeated clicks: 1 \(counted once\)\."):
        datasets.pyclick(path)  # where warnings are errors, as here
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ForeclickWarning)
        log = datasets.pyclick(path)
    assert (log.rows, log.shape.depth) == (2, 3)


def test_readers_are_silent_of_clean_sources_and_keep_two_apart(write, tmp_path):
    one = datasets.pyclick(write(RECORD, "one"))
    two = datasets.pyclick(write(RECORD * 2, "two"), parquet=tmp_path / "kept.parquet")
    three = datasets.pyclick(write(RECORD * 3, "three"))
    assert [log.source_rows.to_pyarrow().num_rows for log in (one, two, three)] == [1, 2, 3]
    assert fc.read_log(str(tmp_path / "kept.parquet"), context="query").rows == 2


def test_the_note_says_how_to_read_it(convert):
    done = convert("pyclick", RECORD).done
    assert done.notes == (f"Read it with read_log({done.path!r}, context='query').",)


# --- streaming ----------------------------------------------------------------------------------


def test_memory_does_not_grow_with_the_source(write, tmp_path, monkeypatch):
    monkeypatch.setattr(conversion, "_BATCH", 100)
    monkeypatch.setattr(conversion, "_GROUP", 200)

    def peak(sessions: int) -> int:
        path = write("".join(session(n) for n in range(sessions)), f"train{sessions}.gz")
        tracemalloc.start()
        datasets.convert("yandex", path, tmp_path / "out.parquet")
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(500)  # imports and caches
    assert peak(10_000) < 2 * peak(1_000)


def test_row_groups_are_many_and_complete(write, tmp_path, monkeypatch):
    monkeypatch.setattr(conversion, "_BATCH", 100)
    monkeypatch.setattr(conversion, "_GROUP", 300)
    path = write("".join(session(n) for n in range(1_050)))
    done = datasets.convert("yandex", path, tmp_path / "out.parquet")
    written = pq.ParquetFile(done.path)
    assert [written.metadata.row_group(i).num_rows for i in range(4)] == [300, 300, 300, 150]
    assert written.read()["query"].to_pylist() == [n % 7 for n in range(1_050)]


def test_progress_reaches_the_end(write, tmp_path, monkeypatch):
    monkeypatch.setattr(conversion, "_BATCH", 1_000)
    monkeypatch.setattr(conversion, "_GROUP", 1_000)
    said: list[str] = []
    path = write("".join(session(n) for n in range(30_000)))
    datasets.convert("yandex", path, tmp_path / "out.parquet", progress=said.append)
    shares = [int(line.split("GB, ")[1].split("%")[0]) for line in said]
    assert shares == sorted(shares)
    assert shares[0] < 50
    assert shares[-1] == 100
    assert said[-1].startswith("Converting 0.0 GB, 100%")


# --- the command --------------------------------------------------------------------------------


def test_the_command(write, tmp_path, monkeypatch, capsys):
    path, out = str(write("0\t250\tQ\t1\t0\t11\n")), str(tmp_path / "out.parquet")
    words = ["datasets", "relevance_prediction", path, out, "--day-length", "100"]
    monkeypatch.setattr("sys.argv", words)
    main()
    assert "records" in capsys.readouterr().out
    assert pq.read_table(out)["day"].to_pylist() == [2]
