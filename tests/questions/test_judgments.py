"""If this fails, judgments are not the rates of their items, or a file is misread."""

import json
import math
from collections import Counter, defaultdict
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.judgments import covered
from scipy.special import gammaincinv

import foreclick as fc
from foreclick.batches import batches_of
from foreclick.errors import ReportError
from foreclick.ladder.features import rank_scores
from foreclick.ladder.fit import production_covariance, production_fit
from tests.questions.scenes import counted

CURVE = (1.0, 0.5, 0.25)

# Ends of intervals; what moves them is a difference quotient here. They were 3e-5 apart.
QUOTIENT = 1e-4


def log(records=900, contexts=3):
    """Lists of unequal length with clicks by position and item; context q0 is never clicked."""
    rng, rows = np.random.default_rng(0), []
    for _ in range(records):
        context = int(rng.integers(0, contexts))
        shown = rng.permutation(5)[: rng.integers(1, 4)].tolist()
        chance = [0.08 * a * CURVE[k] * (context > 0) for k, a in enumerate(shown)]
        rows.append((f"q{context}", shown, [int(rng.random() < c) for c in chance]))
    columns = map(list, zip(*rows, strict=True))
    return dict(zip(("context", "items", "clicks"), columns, strict=True))


def by_loops(tally, rows, tail=0.025):
    """The same by loops over contexts, given what the log says of production's ranks."""
    batches = batches_of(tally)
    fit = production_fit(batches, fc.Ladder(examination=CURVE), "clicks")
    theta, shared = fit.parameters, production_covariance(batches, fit)
    counts: Any = defaultdict(lambda: np.zeros(4))  # records, height, examined, clicks
    for context, items, clicks in zip(*rows.values(), strict=True):
        for k, (item, click) in enumerate(zip(items, clicks, strict=True)):
            counts[context, item] += [1, rank_scores(len(CURVE))[k], CURVE[k], click]
    asked = Counter(rows["context"])

    def posterior(beta):
        """Rates of all pairs, and their variance but for what contexts share."""
        found: Any = {}
        for context, records in asked.items():
            mine = [pair for pair in counts if pair[0] == context]
            n, height, examined, clicks = np.array([counts[pair] for pair in mine]).T
            share, height = n / records, height / records
            expected = np.exp(np.stack([np.ones_like(n), share, height, share**2], axis=1) @ beta)
            level = lean = 1.0
            for _ in range(1000):  # until it is solved
                lean = 1 / (1 + examined * expected * level / theta.a)
                weight = theta.t + lean @ (examined * expected)
                level = (lean @ clicks + theta.t) / weight
            strength = examined + theta.a / (expected * level)
            alpha = (clicks + theta.a) / strength
            variance = alpha / strength + (alpha * lean) ** 2 / (level * weight)
            found |= dict(zip(mine, zip(alpha, variance, strict=True), strict=True))
        return found

    rates, slopes = posterior(theta.beta), []
    for step in 1e-5 * np.eye(4):
        more, less = posterior(theta.beta + step), posterior(theta.beta - step)
        slopes.append({pair: (more[pair][0] - less[pair][0]) / 2e-5 for pair in rates})
    found = {}
    for pair, (alpha, own) in rates.items():
        moved = np.array([slope[pair] for slope in slopes])
        variance = own + moved @ shared[:4, :4] @ moved
        shape = alpha**2 / variance
        low, high = gammaincinv(shape, [tail, 1 - tail]) * alpha / shape
        n, _, examined, clicks = counts[pair]
        found[pair] = [alpha, low, high, examined, clicks, n, None]
    for context in asked:
        mine = [row for pair, row in sorted(found.items()) if pair[0] == context]
        best = max(mine, key=lambda row: row[1])
        for row in mine:
            if (row[2] - row[1]) / 2 <= best[0] / 3:
                row[6] = math.floor(min(3 * row[0] / best[0], 3) + 0.5)
    return found


def rows_of(found):
    return {(row.pop("context"), row.pop("item")): list(row.values()) for row in found.to_pylist()}


def test_rates_are_those_of_loops():
    rows = log(records=3000)
    tally = fc.tally(fc.read_log(rows))
    found = rows_of(fc.judgments(tally, examination=CURVE).items)
    expected = by_loops(tally, rows)
    assert found.keys() == expected.keys()
    for pair, row in expected.items():
        assert found[pair] == pytest.approx(row, rel=QUOTIENT), pair
    assert len({row[6] for row in expected.values()}) > 2


@pytest.mark.parametrize(("swaps", "given"), [(False, False), (True, False), (True, True)])
def test_intervals_hold_the_attraction(swaps, given):
    found = covered(12, 1000, 5, swaps=swaps, given=given)
    # About 900 intervals of 95 %, whose errors of p are shared within a log.
    assert np.mean([row["held"] for row in found]) > 0.93
    assert np.mean([row["right"] for row in found if row["graded"]]) > 0.95


def test_it_counts_grades_and_says_so_first():
    found = fc.judgments(log(), examination=CURVE)
    grades = found.items["grade"].to_pylist()
    assert found["grade"] == ["3", "2", "1", "0", "none"]
    assert found["pairs"] == [grades.count(g) for g in (3, 2, 1, 0, None)]
    assert sum(found["records"]) == sum(len(items) for items in log()["items"])
    graded = sum(g is not None for g in grades)
    assert found.notes[0].startswith(f"{graded} of {len(grades)} items of contexts have a grade, ")
    assert 2 < graded < len(grades)
    assert "The others may be more than 1 grade off" in found.notes[0]


def test_the_best_item_is_one_that_is_known_to_be_good():
    rows = counted(([1], [1], 200), ([1], [0], 300), ([2], [1], 1))
    found = rows_of(fc.judgments(rows, examination=[1.0]).items)
    assert [row[6] for row in found.values()] == [3, None]


# --- files -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found():
    return fc.judgments(log(records=3000), examination=CURVE)


def graded(found):
    table = found.items.select(["context", "item", "grade"]).to_pylist()
    return [tuple(row.values()) for row in table if row["grade"] is not None]


@pytest.mark.parametrize("name", ["a.qrels", "a.txt"])
def test_trec(found, tmp_path, name):
    found.write(tmp_path / name)
    lines = [line.split(" ") for line in (tmp_path / name).read_text().splitlines()]
    assert [(q, int(d), int(g)) for q, _, d, g in lines] == graded(found)
    assert {zero for _, zero, _, _ in lines} == {"0"}


def test_opensearch(found, tmp_path):
    found.write(tmp_path / "shop.json")
    body = json.loads((tmp_path / "shop.json").read_text())
    assert (body["name"], body["type"]) == ("shop", "IMPORT_JUDGMENT")
    assert [
        (each["query"], int(rating["docId"]), int(rating["rating"]))
        for each in body["judgmentRatings"]
        for rating in each["ratings"]
    ] == graded(found)
    assert len(body["judgmentRatings"]) == 2


def test_text_queries_meet_runs_in_trec(tmp_path):
    """Judged by the file alone, a run of the same queries finds all of its documents."""
    texts = ["", "50% off\u3000now", "a%20b", "plain%", "red shoes"]  # q0 is never clicked
    rows = log(records=5000, contexts=5)
    rows["context"] = [texts[int(context[1:])] for context in rows["context"]]
    found = fc.judgments(rows, examination=CURVE)
    found.write(tmp_path / "a.qrels")
    fields = [line.split() for line in (tmp_path / "a.qrels").read_text().splitlines()]
    assert {len(each) for each in fields} == {4}
    assert "50%25%20off%E3%80%80now" in {q for q, _, _, _ in fields}
    decoded = [(q if q == "plain%" else unquote(q), int(d), int(g)) for q, _, d, g in fields]
    assert decoded == graded(found)
    run = "".join(f"{q} Q0 {d} {n} {-n} us\n" for n, (q, _, d, _) in enumerate(fields, 1))
    (tmp_path / "a.run").write_text(run)
    asked = fc.Ranking(str(tmp_path / "a.run"))
    shown = {row["context"] for row in asked._rows.stored.to_pylist()}
    assert shown == {context for context, _, _ in graded(found)} == set(texts[1:])


def test_what_a_trec_file_cannot_hold_is_refused(tmp_path):
    rows = log(records=3000)
    empty = rows | {"context": [c if c != "q1" else "" for c in rows["context"]]}
    spaced = rows | {"items": [[f"no {i}" for i in items] for items in rows["items"]]}
    for table, what in ((empty, "an empty context.*''"), (spaced, "a blank in the item.*'no ")):
        found = fc.judgments(table, examination=CURVE)
        with pytest.raises(ReportError, match=rf"judgments have {what}.*\.json"):
            found.write(tmp_path / "a.qrels")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.json", "a.qrels"])
def test_to_save_is_to_write(found, tmp_path, name):
    (tmp_path / "saved").mkdir()
    found.write(tmp_path / name)
    found.save(tmp_path / "saved" / name)
    assert (tmp_path / name).read_bytes() == (tmp_path / "saved" / name).read_bytes()
    found.save(tmp_path / "page.html", title="Grades")
    assert "Grades" in (tmp_path / "page.html").read_text()


def test_tables_have_the_names_of_the_log(tmp_path):
    rows = log(records=3000)
    names = ("request", "query", "place", "sku", "click")
    long = [
        dict(zip(names, (n, context, k, item, click), strict=True))
        for n, (context, items, clicks) in enumerate(zip(*rows.values(), strict=True))
        for k, (item, click) in enumerate(zip(items, clicks, strict=True), start=1)
    ]
    read = fc.read_log(
        pa.Table.from_pylist(long), context="query", items="sku", long=("request", "place")
    )
    found = fc.judgments(read, examination=CURVE)
    found.save(tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.column_names[:2] == ["query", "sku"]
    assert table.rename_columns(found.items.column_names).equals(found.items)
    clash = rows | {"grade": rows["context"]}
    other = fc.judgments(fc.read_log(clash, context="grade"), examination=CURVE)
    other.write(tmp_path / "b.parquet")
    assert pq.read_table(tmp_path / "b.parquet").column_names[:2] == ["context", "item"]
