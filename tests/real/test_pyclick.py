"""A real Yandex log (PyClick's sample of WSCD): read, evaluated, held against the oracle."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import foreclick as fc
from experiments import datasets
from tests import drawn
from tests.answers import assert_as_oracle
from tests.real import DATA
from tests.truth import oracle
from tests.truth.oracle import Record
from tests.truth.paper import paper

SAMPLE = DATA / "pyclick_wscd" / "trainSample"
# Thirty-five thousand terms are added in another order than the oracle's.
MANY = 1e-11

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SAMPLE.exists(), reason=f"no {SAMPLE}"),
]


def read_records(path: Path) -> list[Record]:
    """What the oracle sees: the sample parsed all at once, by other code than the package's."""
    records = []
    for text in path.read_text().split(";"):
        if not text.strip():
            continue
        query, _, rest = text.strip().partition("\t")
        shown, _, clicked = rest.partition(":")
        items = tuple(int(url) for url in shown.split(","))
        clicks = {int(url) for url in clicked.split(",") if url.strip()}
        records.append(Record(query, items, tuple(float(item in clicks) for item in items)))
    return records


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return read_records(SAMPLE)


@pytest.fixture(scope="module")
def packed(records: list[Record]) -> list[Record]:
    """The same records, each different one once with its count: the oracle is slow."""
    return [r._replace(weight=float(n)) for r, n in Counter(records).items()]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> fc.Log:
    out = tmp_path_factory.mktemp("pyclick") / "log.parquet"
    return datasets.convert("pyclick", SAMPLE, out).log()


def most_frequent(records: list[Record]) -> dict[str, dict[tuple[int, ...], float]]:
    """For each query the list that was shown most."""
    shown = oracle.frequencies(records)
    return {query: {max(lists, key=lambda one: lists[one]): 1.0} for query, lists in shown.items()}


def test_the_log_is_the_published_one(records, log):
    assert len(records) == log.rows == 35_064
    assert len({record.context for record in records}) == 20
    check = {(r["section"], r["fact"]): r["found"] for r in fc.check(log).to_dicts()}
    assert check["size", "records"] == 35_064
    assert check["size", "contexts"] == 20
    assert check["size", "different lists"] == 951
    assert check["size", "longest list"] == 10
    rates: list[Any] = [check["clicks by position", f"position {k}"] for k in range(1, 11)]
    published = [0.257, 0.249, 0.170, 0.154, 0.106, 0.073, 0.069, 0.047, 0.050, 0.045]
    assert rates == pytest.approx(published, abs=0.0005)
    assert sum(rates) == pytest.approx(1.218, abs=0.001)


@pytest.mark.long
def test_the_most_frequent_list_of_each_query_by_every_model(packed, log):
    policy = most_frequent(packed)
    found = fc.evaluate(
        log,
        fc.Ranking(drawn.ranking_table(policy)),
        estimators=paper(oracle.MODELS),
        metrics="clicks@3",
        confidence=None,
    )
    assert_as_oracle(found, packed, policy, MANY)
    assert found["records"] == [35_064] * 7
    assert found["covered"] == pytest.approx([1] * 7)
