"""A policy as a file, and the file as a policy."""

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick.errors import SourceError
from foreclick.optimization.result import Optimized

ODD = 'it\'s "a|b", [c] d'  # what lists in a CSV cell could not hold
LOG = {
    "context": ["q, 1"] * 400 + ["r"] * 6,
    "items": [["b", ODD], [ODD, "b", "c"]] * 203,
    "clicks": [[0, 0], [1, 0, 0]] * 200 + [[0, 0], [0, 0, 0]] * 3,
}


@pytest.fixture(scope="module")
def best() -> Optimized:
    return fc.optimize(LOG, metrics="clicks@3", judge=None)


@pytest.mark.parametrize("ending", ["parquet", "csv", "CSV"])
def test_a_written_policy_is_read_again(best, tmp_path, ending):
    path = tmp_path / f"policy.{ending}"
    best.write(path)
    read = pyarrow.csv.read_csv(path) if ending != "parquet" else pq.read_table(path)
    assert read.column_names == ["context", "item_1", "item_2", "item_3", "probability", "changed"]
    wanted = best.policy.table.to_pylist()
    found = read.to_pylist()
    assert sorted(map(str, (_plain(row) for row in found))) == sorted(
        map(str, (_plain(row) for row in wanted))
    )
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    before, after = (
        fc.evaluate(LOG, policy, metrics="clicks@3", estimators="ip", confidence=None)["value"]
        for policy in (best.policy, fc.Lists(path))
    )
    assert after == pytest.approx(before, rel=1e-12)


def _plain(row):
    return {name: None if value in ("", None) else value for name, value in row.items()}


def test_lists_of_a_context_stand_together_and_the_likeliest_first(best, tmp_path):
    best.write(tmp_path / "policy.parquet")
    rows = pq.read_table(tmp_path / "policy.parquet").to_pylist()
    assert rows == sorted(rows, key=lambda row: (row["context"], -row["probability"]))
    assert {row["context"]: row["changed"] for row in rows} == {"q, 1": True, "r": False}


@pytest.mark.parametrize("path", ["policy.txt", "policy", "nowhere/policy.csv"])
def test_a_path_that_cannot_be_written_is_refused(best, tmp_path, path):
    with pytest.raises(SourceError, match="cannot be written"):
        best.write(tmp_path / path)


def test_items_in_columns_of_their_own_need_not_be_named():
    table = pa.table({"context": ["q"], "item_1": [2], "item_2": [1], "item_4": [9]})
    assert repr(fc.Ranking(table)) == "Ranking(1 context, lists of up to 2 items)"


@pytest.mark.parametrize(
    ("names", "fits"),
    [
        (["NULL", "a\nb"], True),
        (["", "b"], False),
        (["1e3", "2"], False),
        (["true", "false"], False),
    ],
    ids=["text", "empty text", "numbers", "truths"],
)
def test_items_that_a_csv_file_would_change_are_refused(tmp_path, names, fits):
    log = {
        "context": ["q"] * 40,
        "items": [names, names[::-1]] * 20,
        "clicks": [[1, 0], [0, 0]] * 20,
    }
    best = fc.optimize(log, metrics="clicks@2", judge=None)
    path = tmp_path / "policy.csv"
    if not fits:
        with pytest.raises(SourceError, match=r"would not be read again as it is.*\.parquet"):
            best.write(path)
        assert not list(tmp_path.iterdir())
        path = tmp_path / "policy.parquet"
    best.write(path)
    before, after = (
        fc.evaluate(log, policy, metrics="clicks@2", estimators="ip", confidence=None)["value"]
        for policy in (best.policy, fc.Lists(path))
    )
    assert after == before
