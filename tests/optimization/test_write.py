"""If this fails, a policy that was written down shows other lists when it is read."""

import json
from typing import Any

import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick.errors import SourceError
from foreclick.optimization.optimize import Optimized

ODD = 'it\'s "a|b", [c] d'
CLICKS = [[0, 0], [1, 0, 0]] * 200 + [[0, 0], [0, 0, 0]] * 3
LOG = fc.read_log(
    {
        "query": ["q, 1"] * 400 + ["r"] * 6,
        "docs": [["b", ODD], [ODD, "b", "c"]] * 203,
        "clicks": CLICKS,
    },
    context="query",
    items="docs",
)


@pytest.fixture(scope="module")
def best() -> Optimized:
    return fc.optimize(LOG, metrics="clicks@3", judge=None)


@pytest.mark.parametrize("ending", ["parquet", "csv", "CSV"])
def test_a_written_policy_is_read_again(best, tmp_path, ending):
    path = tmp_path / f"policy.{ending}"
    best.write(path)
    read = pyarrow.csv.read_csv(path) if ending != "parquet" else pq.read_table(path)
    assert read.column_names == ["query", "docs", "probability", "changed"]
    found = [
        {**row, "docs": row["docs"] if ending == "parquet" else json.loads(row["docs"])}
        for row in read.to_pylist()
    ]
    items = ("item_1", "item_2", "item_3")
    assert found == [
        {
            "query": row["context"],
            "docs": [row[name] for name in items if row[name] is not None],
            "probability": row["probability"],
            "changed": row["changed"],
        }
        for row in best.policy.table.to_pylist()
    ]
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    before, after = (
        fc.evaluate(LOG, policy, metrics="clicks@3", estimators="ip", confidence=None)["value"]
        for policy in (best.policy, fc.Lists(path))
    )
    assert after == pytest.approx(before, rel=1e-12)
    pickers = (best.policy.serving(), fc.Lists(path, context="query", items="docs").serving())
    for request in range(20):
        assert len({picker(request, "q, 1") for picker in pickers}) == 1


BEST: dict[str, Any] = {"metrics": "clicks@2", "estimators": "ip", "judge": None}
VALUE: dict[str, Any] = {"metrics": "clicks@2", "estimators": "ip", "confidence": None}


@pytest.mark.parametrize(
    ("columns", "roles", "names"),
    [
        ({"query": "q"}, {"context": "query", "items": "docs"}, ["query", "docs"]),
        ({}, {"context": None, "items": "docs"}, ["context", "docs"]),
        ({"changed": "q"}, {"context": "changed", "items": "docs"}, ["context", "items"]),
        ({"items": "q"}, {"context": "items", "items": "docs"}, ["context", "items"]),
        ({"query": "q"}, {"context": "query", "items": ["i1", "i2"]}, ["query", "items"]),
    ],
    ids=["own names", "one context", "a name of another column", "names exchanged", "wide"],
)
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_columns_are_called_as_in_the_log(tmp_path, columns, roles, names, ending):
    table = {name: [value] * 40 for name, value in columns.items()}
    table |= {"docs": [[7, 3], [3, 7]] * 20, "clicks": [[1, 0], [0, 0]] * 20}
    table |= {"i1": [7, 3] * 20, "i2": [3, 7] * 20, "c1": [1, 0] * 20, "c2": [0] * 40}
    wide: dict[str, Any] = {"clicks": ["c1", "c2"]} if roles["items"] != "docs" else {}
    log = fc.read_log(table, **roles, **wide)
    best = fc.optimize(log, **BEST)
    path = tmp_path / f"policy.{ending}"
    best.write(path)
    read = pyarrow.csv.read_csv(path) if ending == "csv" else pq.read_table(path)
    assert read.column_names == [*names, "probability", "changed"]
    assert read[names[1]].to_pylist() == (["[7, 3]"] if ending == "csv" else [[7, 3]])
    wanted = fc.evaluate(log, best.policy, **VALUE)["value"]
    for candidate in (fc.Lists(path), fc.Ranking(path)):  # it has one list
        assert fc.evaluate(log, candidate, **VALUE)["value"] == wanted
    served = fc.Lists(path, context=names[0], items=names[1]).serving()
    assert served("r", "q" if columns else 0) == ((7, 3), 1.0)


@pytest.mark.parametrize(
    "names",
    [["NULL", "a\nb"], ["", "b"], ["1e3", "2"], ["true", "false"], ["1", "2"], ["07", "1"]],
    ids=["text", "empty text", "numbers", "truths", "digits", "zeros"],
)
def test_items_in_a_csv_file_stay_what_they_are(tmp_path, names):
    lists = {"items": [names, names[::-1]] * 20, "clicks": [[1, 0], [0, 0]] * 20}
    log = {"context": ["q"] * 40, **lists}
    best = fc.optimize(log, **BEST)
    best.write(tmp_path / "policy.csv")
    read = fc.Lists(tmp_path / "policy.csv")
    assert read.serving()("r", "q") == (tuple(names), 1.0)
    before, after = (fc.evaluate(log, one, **VALUE)["value"] for one in (best.policy, read))
    assert after == before


@pytest.mark.parametrize("context", ["", "1e3", "true"], ids=["empty text", "number", "truth"])
def test_contexts_that_a_csv_file_would_change_are_refused(tmp_path, context):
    lists = {"items": [["a", "b"], ["b", "a"]] * 20, "clicks": [[1, 0], [0, 0]] * 20}
    best = fc.optimize({"context": [context] * 40, **lists}, **BEST)
    with pytest.raises(SourceError, match=r"would not be read again as it is.*\.parquet"):
        best.write(tmp_path / "policy.csv")
    assert not list(tmp_path.iterdir())
    best.write(tmp_path / "policy.parquet")
