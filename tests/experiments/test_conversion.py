"""What all formats share: files, failures, reports, progress, memory."""

from __future__ import annotations

import gzip
import warnings

import pyarrow.parquet as pq
import pytest

import foreclick as fc
from experiments import datasets
from experiments.datasets.__main__ import main
from foreclick.errors import ForeclickWarning, SourceError

RECORD = "9_0\t1,2,3 : 2;"
ODD = f"{RECORD} 9_0\t1,2,3 : 2 , 2;"


def session(number: int) -> str:
    lists = "\t".join(f"{number + k},1" for k in range(10))
    return f"{number}\tM\t1\t{number}\n{number}\t0\tQ\t0\t{number % 7}\t1\t{lists}\n"


def test_a_directory_and_a_glob_are_their_files_in_order_without_hidden_ones(write, tmp_path):
    write("b\t1 :;", "parts/b")
    write("a\t1 : 9;", "parts/deeper/a.gz")
    for hidden in ("parts/.hidden", "parts/_SUCCESS"):
        write("rubbish", hidden)
    out = tmp_path / "out.parquet"
    done = datasets.convert("pyclick", tmp_path / "parts", out)
    assert pq.read_table(done.path)["query"].to_pylist() == ["b", "a"]
    assert done["example"][-1] == "a.gz, record 1: item 9"
    assert datasets.convert("pyclick", f"{tmp_path}/parts/b*", out).records == 1
    path = write("", "log.txt")
    path.write_bytes(gzip.compress(RECORD.encode()))  # told by its content
    assert datasets.convert("pyclick", path, out).records == 1


@pytest.mark.parametrize("dataset", ["yandex", "relevance_prediction", "pyclick"])
@pytest.mark.parametrize(("lines", "read"), [(3, "3 of 3"), (5_000, "1,000 of 1,000")])
def test_another_format_is_refused_early(write, tmp_path, dataset, lines, read):
    text = "".join(f"{n} once upon a time;\n" for n in range(lines))
    with pytest.raises(SourceError, match=rf"not in this format: {read}.* for example .*once"):
        datasets.convert(dataset, write(text), tmp_path / "out.parquet")
    assert [file.name for file in tmp_path.iterdir()] == ["source"]


def test_a_cut_off_gzip_file(write, tmp_path):
    path = write("".join(session(n) for n in range(2_000)), "train.gz")
    path.write_bytes(path.read_bytes()[:-2_000])
    out = tmp_path / "out.parquet"
    out.write_text("what was there before")
    with pytest.raises(SourceError, match=r"damaged or cut off.*Fetch it again"):
        datasets.convert("yandex", path, out)
    assert out.read_text() == "what was there before"


def test_readers_warn_of_what_is_odd_and_keep_sources_apart(write, tmp_path):
    with pytest.raises(ForeclickWarning, match=r"pyclick: repeated clicks: 1 \(counted once\)\."):
        datasets.pyclick(write(ODD))  # where warnings are errors, as here
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ForeclickWarning)
        assert datasets.pyclick(write(ODD)).shape.depth == 3
    one = datasets.pyclick(write(RECORD, "one"))
    two = datasets.pyclick(write(RECORD * 2, "two"), parquet=tmp_path / "kept.parquet")
    assert [log.source_rows.to_pyarrow().num_rows for log in (one, two)] == [1, 2]
    assert fc.read_log(str(tmp_path / "kept.parquet"), context="query").rows == 2


def test_the_command(write, tmp_path, monkeypatch, capsys):
    path, out = str(write("0\t250\tQ\t1\t0\t11\n")), str(tmp_path / "out.parquet")
    words = ["datasets", "relevance_prediction", path, out, "--day-length", "100"]
    monkeypatch.setattr("sys.argv", words)
    main()
    said = " ".join(capsys.readouterr().out.split())  # a long path wraps
    assert "Read it with read_log('" in said
    assert pq.read_table(out)["day"].to_pylist() == [2]
