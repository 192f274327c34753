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
from tests.tries import tries

CONTEXTS, ITEMS, K = 12, 6, 3
EXAMINED = np.array([1.0, 0.7, 0.5])


class Site:
    """A position-based world; production has a list a context and swaps its top sometimes."""

    def __init__(self, seed=5):
        rng = np.random.default_rng(seed)
        self.attraction = rng.uniform(0.02, 0.4, (CONTEXTS, ITEMS)) * rng.uniform(
            0.2, 1.5, (CONTEXTS, 1)
        )
        weight = 1 / np.arange(1, CONTEXTS + 1) ** 0.7
        self.weight = weight / weight.sum()
        noisy = self.attraction + rng.normal(0, 0.15, (CONTEXTS, ITEMS))
        self.production = np.argsort(-noisy, axis=1)[:, :K]
        self.candidate = np.argsort(-self.attraction, axis=1)[:, :K]

    def clicks(self, context, lists, rng):
        rates = self.attraction[context[:, None], lists] * EXAMINED
        return (rng.random((len(context), K)) < rates).astype(int)

    def log(self, records, seed, days=10, swaps=0.1):
        rng = np.random.default_rng(seed)
        context = rng.choice(CONTEXTS, records, p=self.weight)
        lists = self.production[context].copy()
        swapped = rng.random(records) < swaps
        lists[swapped] = lists[swapped][:, [1, 0, 2]]
        return self.table(context, lists, rng, day=rng.integers(0, days, records))

    def table(self, context, lists, rng, **columns):
        return pa.table(
            {
                "context": context,
                "items": lists.tolist(),
                "clicks": self.clicks(context, lists, rng).tolist(),
                **columns,
            }
        )

    @property
    def policy(self):
        return {"context": np.arange(CONTEXTS), "items": self.candidate.tolist()}

    def value(self, lists):
        rates = self.attraction[np.arange(CONTEXTS)[:, None], lists] * EXAMINED
        return float(self.weight @ rates.sum(axis=1))


@pytest.fixture(scope="module")
def site():
    return Site()


@pytest.fixture(scope="module")
def log(site):
    return fc.read_log(site.log(20_000, 1), period="day")


def served(site, plan, records, seed):
    """A log of the policy that the plan proposes, as `Picker` serves it."""
    rng = np.random.default_rng([11, seed])
    context = rng.choice(CONTEXTS, records, p=site.weight)
    requests = {"request": np.arange(records) + 10**6 * seed, "context": context}
    # In the order of requests: the order of a sample's rows is not promised.
    shown = plan.policy.sample(requests, seed=seed).sort_by("request")
    where = np.asarray(shown["context"])
    lists = np.array(shown["items"].to_pylist())
    table = site.table(where, lists, rng, propensity=shown["propensity"])
    return fc.read_log(table, propensity="propensity")


def test_the_standard_error_is_that_of_logs_of_the_plan(site, log):
    plan, logs = fc.explore(log, site.policy, min_effect=0.1), tries(14, 60)
    found = [
        fc.evaluate(
            served(site, plan, math.ceil(plan.records), seed),
            site.policy,
            baseline=plan.production,
            metrics="clicks@3",
            estimators="list",
            logging="frequency",
        )["change"][0]
        for seed in range(logs)
    ]
    # Of so many logs, a standard deviation is known to 1 / sqrt(2 logs): of 60 to 9 %.
    assert np.std(found) == pytest.approx(plan.se, rel=2.75 / math.sqrt(2 * logs))
    swapped = site.production[:, [1, 0, 2]]
    before = 0.9 * site.value(site.production) + 0.1 * site.value(swapped)
    assert np.mean(found) == pytest.approx(site.value(site.candidate) - before, abs=plan.se / 2)


def test_days_and_shares_are_two_ways_to_ask(site, log):
    plan: Any = fc.explore(log, site.policy, min_effect=0.1, share=0.05)
    assert plan.share == pytest.approx(0.05, rel=1e-4)
    assert plan.days == pytest.approx(plan.records / 2000)
    assert plan.effect == pytest.approx(0.1)
    back = fc.explore(log, site.policy, min_effect=0.1, days=plan.days)
    assert back.share == pytest.approx(0.05, rel=1e-3)
    assert back.effect == pytest.approx(plan.effect, rel=1e-3)
    short = fc.explore(log, site.policy, min_effect=0.1, days=plan.days / 4, share=0.05)
    assert short.effect == pytest.approx(2 * plan.effect, rel=1e-3)
    assert "not yet" in short.title
    assert "not yet" in fc.explore(log, site.policy, min_effect=0.001, days=1).title
    more = fc.explore(log, site.policy, min_effect=0.1, share=0.05, power=0.9)
    assert more.records > plan.records


def test_the_answer_comes_first(site, log):
    plan = fc.explore(log, site.policy, min_effect=0.1)
    said = str(plan)
    assert said.startswith("Show the candidate to 10.0% of the traffic for ")
    assert "about 825 of 8,250 lists" in plan.title
    assert "A/B test" in said
    assert plan["context"][-1] == "2 others"
    assert sum(plan["part"]) == pytest.approx(1)
    assert sum(plan["records"]) == 20_000


def test_the_policy_is_production_with_a_little_of_the_candidate(site, log, monkeypatch):
    monkeypatch.setattr("foreclick.optimization.explore.ROWS", CONTEXTS)
    plan = fc.explore(log, site.policy, min_effect=0.1)
    share = dict(zip(plan["context"], plan["share"], strict=True))
    rows = plan.policy.table.to_pylist()
    assert len({row["context"] for row in rows}) == CONTEXTS
    lists = {
        (row["context"], *(row[f"item_{k}"] for k in (1, 2, 3))): row["probability"] for row in rows
    }
    counted = fc.Observed(log)
    shown = fc.evaluate(log, counted, metrics="clicks@3", estimators="list", confidence=None)
    again = fc.evaluate(
        log, plan.production, metrics="clicks@3", estimators="list", confidence=None
    )
    assert again["value"] == pytest.approx(shown["value"], rel=1e-12)
    for x in range(CONTEXTS):
        own = (x, *site.candidate[x].tolist())
        if not set(map(tuple, (site.production[x], site.production[x][[1, 0, 2]]))) & {own[1:]}:
            assert lists[own] == pytest.approx(share[str(x)], rel=1e-9)
    shown_list, chance = plan.policy.serving()(7, 0)
    assert chance == pytest.approx(lists[0, *(shown_list or ())])


def half_of_an_ab_test(plan):
    (size,) = re.findall(r"needs ([\d,]+) records in each arm", str(plan.notes))
    return int(size.replace(",", ""))


def test_an_ab_test_of_this_size_has_the_power(site):
    """At the change that the candidate truly makes."""
    log = fc.read_log(site.log(40_000, 2, swaps=0.0), period="day")
    before, after = site.value(site.production), site.value(site.candidate)
    plan = fc.explore(log, site.policy, min_effect=(after - before) / before)
    size, told, logs = half_of_an_ab_test(plan), 0, 600
    for seed in range(logs):
        rng = np.random.default_rng([12, seed])
        context = rng.choice(CONTEXTS, (2, size), p=site.weight)
        a = site.clicks(context[0], site.production[context[0]], rng).sum(axis=1)
        b = site.clicks(context[1], site.candidate[context[1]], rng).sum(axis=1)
        told += abs(b.mean() - a.mean()) > 1.96 * math.sqrt((a.var() + b.var()) / size)
    assert told / logs == pytest.approx(0.8, abs=0.05)


def test_users_who_come_again_make_an_ab_test_larger(site):
    rng = np.random.default_rng(3)
    table = site.log(20_000, 4)
    user = rng.integers(0, 400, 20_000)
    eager = rng.random(400) < 0.5  # half of the users click on everything that others do, or not
    clicks = (np.array(table["clicks"].to_pylist()) * eager[user][:, None]).tolist()
    table = table.set_column(2, "clicks", pa.array(clicks)).append_column("user", pa.array(user))
    alone = fc.explore(fc.read_log(table, period="day"), site.policy)
    users = fc.explore(fc.read_log(table, period="day", unit="user"), site.policy)
    assert half_of_an_ab_test(users) > 2 * half_of_an_ab_test(alone)


def test_the_command(site, tmp_path, capsys):
    pq.write_table(site.log(5000, 1), tmp_path / "log.parquet")
    pq.write_table(pa.table(site.policy), tmp_path / "new.parquet")
    words = ["explore", str(tmp_path / "log.parquet"), str(tmp_path / "new.parquet")]
    words += ["--period", "day", "--min-effect", "0.1", "--share", "20%"]
    assert main([*words, "-o", str(tmp_path / "show.parquet"), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["title"].startswith("Show the candidate to 20.0% of the traffic")
    assert len(found["rows"]) == 11
    items, _ = fc.Lists(str(tmp_path / "show.parquet")).serving()("a", 0)
    assert len(items or ()) == K
