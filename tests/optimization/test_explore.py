"""If this fails, a plan of exploration promises more than a log of it gives."""

import json
import math
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick.cli import main
from foreclick.simulate import PBM, Simulation, Stationary, item_ids
from tests.tries import tries

CONTEXTS, ITEMS, K = 12, 6, 3
RNG = np.random.default_rng(5)
ATTRACTION = RNG.uniform(0.02, 0.4, (CONTEXTS, ITEMS)) * RNG.uniform(0.2, 1.5, (CONTEXTS, 1))
WORLD = PBM(ATTRACTION, [1.0, 0.7, 0.5])
EVERY = np.arange(CONTEXTS)
PRODUCTION = np.argsort(-ATTRACTION - RNG.normal(0, 0.15, ATTRACTION.shape), axis=1)[:, :K]
SWAPPED = PRODUCTION[:, [1, 0, 2]]
CANDIDATE = np.argsort(-ATTRACTION, axis=1)[:, :K]
NEW = {"query": EVERY, "items": item_ids(EVERY[:, None], CANDIDATE).tolist()}
POLICY = fc.Ranking(NEW, context="query")


def site(swaps=0.1, **users):
    """Production has a list a context and swaps its top sometimes."""
    lists, shares = np.concatenate([PRODUCTION, SWAPPED]), np.repeat([1 - swaps, swaps], CONTEXTS)
    shown = Stationary(np.tile(EVERY, 2), lists, shares, days=10)
    return Simulation(WORLD, shown, 20_000, (EVERY + 1) ** -0.7, **users)


SITE = site()
WEIGHT = np.asarray(SITE.frequencies)


def drawn(count, seed):
    """The contexts of so many requests."""
    rng = np.random.default_rng(seed)
    return rng.choice(CONTEXTS, count, p=WEIGHT), rng


@pytest.fixture(scope="module")
def log():
    return fc.read_log(SITE.sample(seed=1), context="query", period="day")


def served(plan, seed):
    """A log of the policy that the plan proposes, as `Picker` serves it."""
    context, rng = drawn(math.ceil(plan.records), [11, seed])
    requests = {"request": np.arange(len(context)) + 10**6 * seed, "context": context}
    # In the order of requests: the order of a sample's rows is not promised.
    shown = plan.policy.sample(requests, seed=seed).sort_by("request")
    where = np.asarray(shown["context"])
    lists = np.array(shown["items"].to_pylist()) - item_ids(where[:, None], np.zeros((1, K), int))
    clicks = WORLD.sample(where, lists, rng).astype(int).tolist()
    return fc.read_log(shown.append_column("clicks", [clicks]), propensity="propensity")


def test_the_standard_error_is_that_of_logs_of_the_plan(log):
    plan, logs = fc.explore(log, POLICY, min_effect=0.1), tries(14, 60)
    found = [
        fc.evaluate(
            served(plan, seed),
            POLICY,
            baseline=plan.production,
            metrics="clicks@3",
            estimators="list",
            logging="frequency",
        )["change"][0]
        for seed in range(logs)
    ]
    # Of so many logs, a standard deviation is known to 1 / sqrt(2 logs): of 60 to 9 %.
    assert np.std(found) == pytest.approx(plan.se, rel=2.75 / math.sqrt(2 * logs))
    change = SITE.value(POLICY, "clicks@3") - SITE.value(SITE.logging(), "clicks@3")
    assert np.mean(found) == pytest.approx(change, abs=plan.se / 2)


def test_days_and_shares_are_two_ways_to_ask(log):
    plan = fc.explore(log, POLICY, min_effect=0.1, share=0.05)
    assert plan.share == pytest.approx(0.05, rel=1e-4)
    assert plan.days == pytest.approx(plan.records / 2000)
    assert plan.days is not None
    assert plan.effect == pytest.approx(0.1)
    back = fc.explore(log, POLICY, min_effect=0.1, days=plan.days)
    assert [back.share, back.effect] == pytest.approx([0.05, plan.effect], rel=1e-3)
    short = fc.explore(log, POLICY, min_effect=0.1, days=plan.days / 4, share=0.05)
    assert short.effect == pytest.approx(2 * plan.effect, rel=1e-3)
    assert "not yet" in short.title
    assert "not yet" in fc.explore(log, POLICY, min_effect=0.001, days=1).title
    more = fc.explore(log, POLICY, min_effect=0.1, share=0.05, power=0.9)
    assert more.records > plan.records


def test_the_answer_comes_first(log):
    plan = fc.explore(log, POLICY, min_effect=0.1)
    assert str(plan).startswith("Show the candidate to 10.0% of the traffic for ")
    assert "about 796 of 7,960 lists" in plan.title
    assert "A/B test" in str(plan)
    assert plan["context"][-1] == "2 others"
    assert sum(plan["part"]) == pytest.approx(1)
    assert sum(plan["records"]) == 20_000


def test_the_policy_is_production_with_a_little_of_the_candidate(log, monkeypatch):
    monkeypatch.setattr("foreclick.optimization.explore.ROWS", CONTEXTS)
    plan = fc.explore(log, POLICY, min_effect=0.1)
    share = dict(zip(plan["context"], plan["share"], strict=True))
    rows = plan.policy.table.to_pylist()
    assert {row["context"] for row in rows} == {*range(CONTEXTS)}
    lists = {(row["context"], *(row[f"item_{k}"] for k in (1, 2, 3))): row for row in rows}
    asked: Any = {"metrics": "clicks@3", "estimators": "list", "confidence": None}
    shown, again = (
        fc.evaluate(log, each, **asked)["value"] for each in (fc.Observed(log), plan.production)
    )
    assert again == pytest.approx(shown, rel=1e-12)
    for x in range(CONTEXTS):
        if CANDIDATE[x].tolist() not in (PRODUCTION[x].tolist(), SWAPPED[x].tolist()):
            own = lists[x, *NEW["items"][x]]
            assert own["probability"] == pytest.approx(share[str(x)], rel=1e-9)
    shown_list, chance = plan.policy.serving()(7, 0)
    assert chance == pytest.approx(lists[0, *(shown_list or ())]["probability"])


def half_of_an_ab_test(plan):
    (size,) = re.findall(r"needs ([\d,]+) records in each arm", str(plan.notes))
    return int(size.replace(",", ""))


def test_an_ab_test_of_this_size_has_the_power():
    """At the change that the candidate truly makes."""
    calm = site(swaps=0.0)
    log = fc.read_log(calm.sample(40_000, seed=2), context="query", period="day")
    before = calm.value(calm.logging(), "clicks@3")
    effect = calm.value(POLICY, "clicks@3") / before - 1
    size, told, logs = half_of_an_ab_test(fc.explore(log, POLICY, min_effect=effect)), 0, 600
    for seed in range(logs):
        context, rng = drawn((2, size), [12, seed])
        a, b = (
            WORLD.sample(x, lists[x], rng).sum(axis=1)
            for x, lists in zip(context, (PRODUCTION, CANDIDATE), strict=True)
        )
        told += abs(b.mean() - a.mean()) > 1.96 * math.sqrt((a.var() + b.var()) / size)
    assert told / logs == pytest.approx(0.8, abs=0.05)


def test_users_who_come_again_make_an_ab_test_larger():
    table = site(user_sd=2.0, records_per_user=50).sample(seed=4)
    alone, users = (
        fc.explore(fc.read_log(table, context="query", period="day", unit=unit), POLICY)
        for unit in (None, "user")
    )
    assert half_of_an_ab_test(users) > 2 * half_of_an_ab_test(alone)


def test_the_command(tmp_path, capsys):
    log, new, shown = (str(tmp_path / f"{name}.parquet") for name in ("log", "new", "show"))
    pq.write_table(SITE.sample(5_000), log)
    pq.write_table(pa.table(NEW), new)
    words = ["explore", log, new, "--context", "query", "--period", "day", "--min-effect", "0.1"]
    assert main([*words, "--share", "20%", "-o", shown, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["title"].startswith("Show the candidate to 20.0% of the traffic")
    assert len(found["rows"]) == 11
    items, _ = fc.Lists(shown, context="query").serving()("a", 0)
    assert len(items or ()) == K
