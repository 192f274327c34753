"""A log read in part: the same part everywhere, and intervals that know of the rest."""

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.errors import OptionError, SourceError


def log_of(contexts=60, seed=0, name="q", days=4):
    """Contexts of very different worth, production showing one of two lists."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(20, 60, contexts)
    of = np.repeat(np.arange(contexts), sizes)
    rate = rng.uniform(0.1, 0.9, contexts)[of]
    first = rng.random(len(of)) < 0.5
    return pa.table(
        {
            "context": [f"{name}{x}" for x in of],
            "items": [[1, 2] if f else [2, 1] for f in first],
            "clicks": (rng.random((len(of), 2)) < np.stack([rate, rate / 2], 1))
            .astype(int)
            .tolist(),
            "day": rng.integers(0, days, len(of)),
            "user": rng.integers(0, 500, len(of)),
        }
    )


def in_sample(text, share):
    digest = hashlib.md5(f"foreclick:{text}".encode()).hexdigest()  # noqa: S324 - no secret
    return int(digest[:7], 16) < share * 16**7


def contexts_of(log):
    return set(fc.tally(log).to_arrow()["context"].to_pylist())


def test_the_sample_is_drawn_by_a_hash():
    """On every engine: tests/engines/test_same_tally.py has samples of both kinds."""
    source = table = log_of()
    drawn = fc.read_log(source, period="day", sample=0.3)
    expected = {x for x in table["context"].to_pylist() if in_sample(x, 0.3)}
    assert contexts_of(drawn) == expected
    users = fc.read_log(source, unit="user", sample=0.25, sample_by="unit")
    assert users.rows == sum(in_sample(u, 0.25) for u in table["user"].to_pylist())


def test_a_larger_sample_holds_a_smaller_one():
    small, large = (contexts_of(fc.read_log(log_of(), sample=s)) for s in (0.2, 0.5))
    assert set() < small < large


def test_what_the_other_contexts_may_add_is_in_the_interval():
    """By hand, for a candidate that shows what was shown half the time."""
    log = fc.read_log(log_of(), period="day", sample=0.5)
    ranking = {"context": sorted(contexts_of(log)), "items": [[2, 1]] * len(contexts_of(log))}
    asked: dict[str, Any] = {"estimators": "ip", "metrics": "clicks@2"}
    e = fc.evaluate(log, ranking, **asked)
    rows = fc.tally(log).to_arrow().to_pylist()
    n = sum(r["n"] for r in rows)
    v = {}
    for x in {r["context"] for r in rows}:
        mine = [r for r in rows if r["context"] == x]
        n_x = sum(r["n"] for r in mine)
        value = 0.0
        for k, item in ((1, 2), (2, 1)):
            slots = [r for r in mine if r[f"item_{k}"] == item]
            value += sum(r["n"] * r[f"clicks_{k}"] for r in slots) / sum(r["n"] for r in slots)
        v[x] = (n_x, value)
    mean = sum(n_x * value for n_x, value in v.values()) / n
    m = len(v)
    between = 0.5 * m / (m - 1) * sum((n_x * (u - mean)) ** 2 for n_x, u in v.values()) / n**2
    whole = fc.tally(log)
    unaware = replace(whole, shape=replace(whole.shape, sample=None))
    alone = fc.evaluate(unaware, ranking, **asked)
    assert e["value"] == pytest.approx([mean], rel=1e-12)
    assert e["se"][0] ** 2 == pytest.approx(alone["se"][0] ** 2 + between, rel=1e-9)
    assert any(note.startswith("A sample: 0.5 of the log's contexts") for note in e.notes)


@pytest.mark.slow
def test_intervals_from_samples_hold_the_answer_of_all_contexts():
    held = 0
    for trial in range(16):
        table = log_of(contexts=80, seed=trial, name=f"{trial}-")
        names = sorted(set(table["context"].to_pylist()))
        ranking = {"context": names, "items": [[2, 1]] * len(names)}
        asked: dict[str, Any] = {"estimators": "ip", "metrics": "clicks@2", "clusters": "record"}
        truth = fc.evaluate(table, ranking, **asked, missing="drop")["value"][0]
        (row,) = fc.evaluate(fc.read_log(table, sample=0.3), ranking, **asked).to_dicts()
        held += row["low"] <= truth <= row["high"]
    assert held >= 13  # of 16; without what the contexts add it would be about half


def test_contexts_that_the_candidate_does_not_know_are_worth_what_they_were():
    log = fc.read_log(log_of(), period="day", sample=0.5)
    some = sorted(contexts_of(log))[::2]
    e = fc.evaluate(
        log,
        {"context": some, "items": [[2, 1]] * len(some)},
        missing="production",
        estimators="ip",
        metrics="clicks@2",
    )
    assert e["se"][0] > 0
    assert e["change_high"][0] - e["change_low"][0] < e["high"][0] - e["low"][0]


def test_what_cannot_be_drawn_is_refused():
    cases: list[tuple[dict[str, Any], str]] = [
        ({"sample": 1.5}, "sample=1.5: give a share above 0 and below 1"),
        ({"sample": 0.5, "sample_by": "day"}, "sample_by='day'"),
        ({"sample": 0.5, "sample_by": "unit"}, r"no unit\. Name its column"),
        ({"sample": 0.5, "context": None}, r"no context.*sample by unit"),
        ({"sample": 0.5, "context": "query"}, "context='query'"),
    ]
    for wrong, said in cases:
        with pytest.raises((SourceError, OptionError), match=said):
            fc.read_log(log_of(3), **wrong)


def test_samples_of_different_shares_do_not_add():
    half, third = (fc.tally(fc.read_log(log_of(), sample=s)) for s in (0.5, 0.3))
    with pytest.raises(fc.errors.TallyError, match="cannot be added"):
        half + third
