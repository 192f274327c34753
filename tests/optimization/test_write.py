"""If this fails, a policy that was written down shows other lists when it is read."""

import json
from typing import Any

import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick.errors import SourceError

ODD = 'it\'s "a|b", [c] d'
BEST: dict[str, Any] = {"metrics": "clicks@2", "estimators": "ip", "judge": None}
VALUE: dict[str, Any] = {"metrics": "clicks@3", "estimators": "ip", "confidence": None}


def written(best, path):
    """The rows of the file, lists as lists."""
    best.write(path)
    text = path.suffix != ".parquet"
    rows = (pyarrow.csv.read_csv(path) if text else pq.read_table(path)).to_pylist()
    lists = list(rows[0])[1]
    return [{**row, lists: json.loads(row[lists])} if text else row for row in rows]


def value(log, policy):
    return fc.evaluate(log, policy, **VALUE)["value"]


@pytest.mark.parametrize("ending", ["parquet", "csv", "CSV"])
def test_a_written_policy_is_read_again(tmp_path, ending):
    table = {
        "query": ["q, 1"] * 400 + ["r"] * 6,
        "docs": [["b", ODD], [ODD, "b", "c"]] * 203,
        "clicks": [[0, 0], [1, 0, 0]] * 200 + [[0, 0], [0, 0, 0]] * 3,
    }
    log = fc.read_log(table, context="query", items="docs")
    best, path = fc.optimize(log, metrics="clicks@3", judge=None), tmp_path / f"policy.{ending}"
    found = written(best, path)
    assert [*found[0]] == ["query", "docs", "probability", "changed"]
    for row, own in zip(found, best.policy.table.to_pylist(), strict=True):
        items = [own[f"item_{k}"] for k in (1, 2, 3) if own[f"item_{k}"] is not None]
        assert [*row.values()] == [own["context"], items, own["probability"], own["changed"]]
    assert [*tmp_path.iterdir()] == [path]
    assert value(log, fc.Lists(path)) == pytest.approx(value(log, best.policy), rel=1e-12)
    one, other = best.policy.serving(), fc.Lists(path, context="query", items="docs").serving()
    assert all(one(request, "q, 1") == other(request, "q, 1") for request in range(20))


@pytest.mark.parametrize(
    ("columns", "roles", "names"),
    [
        ({"query": "q"}, {"context": "query", "items": "docs"}, ["query", "docs"]),
        ({}, {"context": None, "items": "docs"}, ["context", "docs"]),
        ({"changed": "q"}, {"context": "changed", "items": "docs"}, ["context", "items"]),
        ({"items": "q"}, {"context": "items", "items": "docs"}, ["context", "items"]),
        (
            {"query": "q"},
            {"context": "query", "items": ["i1", "i2"], "clicks": ["c1", "c2"]},
            ["query", "items"],
        ),
    ],
    ids=["own names", "one context", "a name of another column", "names exchanged", "wide"],
)
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_columns_are_called_as_in_the_log(tmp_path, columns, roles, names, ending):
    table = {name: [value] * 40 for name, value in columns.items()}
    table |= {"docs": [[7, 3], [3, 7]] * 20, "clicks": [[1, 0], [0, 0]] * 20}
    table |= {"i1": [7, 3] * 20, "i2": [3, 7] * 20, "c1": [1, 0] * 20, "c2": [0] * 40}
    log, path = fc.read_log(table, **roles), tmp_path / f"policy.{ending}"
    best = fc.optimize(log, **BEST)
    (row,) = written(best, path)
    assert [*row] == [*names, "probability", "changed"]
    assert row[names[1]] == [7, 3]
    for candidate in (fc.Lists(path), fc.Ranking(path)):  # it has one list
        assert value(log, candidate) == value(log, best.policy)
    served = fc.Lists(path, context=names[0], items=names[1]).serving()
    assert served("r", "q" if columns else 0) == ((7, 3), 1.0)


def log_of(context, items):
    lists = {"items": [items, items[::-1]] * 20, "clicks": [[1, 0], [0, 0]] * 20}
    return {"context": [context] * 40, **lists}


@pytest.mark.parametrize(
    "names",
    [["NULL", "a\nb"], ["", "b"], ["1e3", "2"], ["true", "false"], ["1", "2"], ["07", "1"]],
    ids=["text", "empty text", "numbers", "truths", "digits", "zeros"],
)
def test_items_in_a_csv_file_stay_what_they_are(tmp_path, names):
    log = log_of("q", names)
    best = fc.optimize(log, **BEST)
    best.write(tmp_path / "policy.csv")
    read = fc.Lists(tmp_path / "policy.csv")
    assert read.serving()("r", "q") == (tuple(names), 1.0)
    assert value(log, read) == value(log, best.policy)


@pytest.mark.parametrize("context", ["", "1e3", "true"], ids=["empty text", "number", "truth"])
def test_contexts_that_a_csv_file_would_change_are_refused(tmp_path, context):
    best = fc.optimize(log_of(context, ["a", "b"]), **BEST)
    with pytest.raises(SourceError, match=r"would not be read again as it is.*\.parquet"):
        best.write(tmp_path / "policy.csv")
    assert not list(tmp_path.iterdir())
    best.write(tmp_path / "policy.parquet")
