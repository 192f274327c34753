"""If this fails, an estimator breaks a proposition of the paper, or misses an enumerated truth."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

import foreclick as fc
from tests.answers import answer, clipped
from tests.cases import plain, tables
from tests.simulate import small
from tests.tries import tries
from tests.truth import firsts, oracle
from tests.truth.oracle import Record
from tests.truth.paper import paper

pytestmark = pytest.mark.filterwarnings("ignore::foreclick.errors.ForeclickWarning")

EXACT = 1e-12  # probabilities instead of counts: a few thousand terms below 1


@pytest.mark.parametrize("seed", range(3))
def test_what_was_logged_is_worth_what_production_is(seed):
    """For every model, with any M ≥ 1: no weight differs from one, also of a policy that is known.

    Of first clicks that is true of lists and prefixes.
    """
    records = plain.drawn(seed, records=40, ragged=True, text=seed == 1).records
    log = fc.read_log(tables.log_table(records))
    for logging in (None, fc.Observed(log)):
        for metric, models in (("dcg@3", oracle.MODELS), ("mrr@3", ("list", "prefix"))):
            by = clipped(paper(models), [2, math.inf])
            asked: Any = {"estimators": by, "metrics": metric, "logging": logging}
            for row in fc.evaluate(log, fc.Observed(log), confidence=None, **asked):
                assert row["value"] == pytest.approx(row["production"], rel=EXACT)
                assert (row["covered"], row["clipped"]) == pytest.approx((1, 0), abs=EXACT)
                assert row["ess"] == pytest.approx(len(records), rel=EXACT)


HOLDS = {
    "pbm": ("list", "prefix", "ip", "pbm"),
    "dctr": ("list", "prefix", "ip", "item"),
    "ip": ("list", "prefix", "ip"),
    "cascade": ("list", "prefix", "ip", "item"),
    "dcm": ("list", "prefix", "ip", "item"),
    "dbn": ("list", "prefix"),
}
"""Where the estimate has no bias; DBN users also leave without a click, which bends hazards."""


@pytest.mark.parametrize("name", sorted(HOLDS))
def test_an_infinite_log_tells_the_truth_where_the_hazards_are_right(name):
    """A log in which every outcome stands with its probability is what an infinite log would be."""
    records = [
        oracle.Record(x, tuple(1000 * x + a for a in shown), clicks, 1e6 * chance * (1 + i % 3))
        for x in range(small.CONTEXTS)
        for i, shown in enumerate(small.every_list())
        for chance, clicks in small.outcomes(name, x, shown)
        if chance > 0
    ]
    log = fc.read_log(tables.weighted_log_table(records), count="weight")
    policy = {0: {(2, 0, 3): 0.4, (3, 2, 1): 0.6}, 1: {(1001, 1003, 1000): 1.0}}
    candidate = fc.Lists(tables.lists_table(policy))
    sizes = [oracle.count(r for r in records if r.context == x) for x in range(small.CONTEXTS)]
    curve = small.EXAMINATION.tolist()
    models = [
        fc.Weighted(model, examination=curve if model == "pbm" else None) for model in HOLDS[name]
    ]
    for metric, theta in (("success@3", firsts.success_at(3)), ("mrr@3", firsts.mrr_at(3))):
        truth = sum(
            sizes[x] * mass * chance * next((t for t, c in zip(theta, got, strict=True) if c), 0.0)
            for x, lists in policy.items()
            for items, mass in lists.items()
            for chance, got in small.outcomes(name, x, tuple(a % 1000 for a in items))
        ) / sum(sizes)
        exact = small.WORLDS[name].value(candidate, metric, sizes)
        assert exact == pytest.approx(truth, abs=EXACT)
        found = fc.evaluate(log, candidate, metrics=metric, estimators=models, confidence=None)
        assert found["value"] == pytest.approx([truth] * len(models), abs=EXACT)


# --- the paper's propositions, in worlds of which every list is enumerated ------------------------


# Both sides of an inequality are sums of at most 60 × 3 products of size 1.
ROUNDING = 1e-12
CLIPS = (0.5, 1, 2, 10, math.inf)
TRUE = {
    "list": ("list",),
    "cascade": ("list", "prefix"),
    "ip": ("list", "prefix", "ip"),
    "item": ("list", "prefix", "ip", "item"),
    "pbm": ("list", "prefix", "ip", "pbm"),
    "rctr": ("list", "prefix", "ip", "rctr"),
    "rcm": ("list", "prefix", "ip", "item", "rctr", "rcm"),
}
"""The models that hold in each kind of world."""
FINER = (
    *(("list", "prefix"), ("prefix", "ip"), ("ip", "item"), ("ip", "pbm"), ("ip", "rctr")),
    *(("item", "rcm"), ("rctr", "rcm")),
)
"""Pairs of models of which the first splits the cells of the second."""


class World:
    """Every list of three of 3 or 4 items, how often its slots are clicked, and two policies."""

    def __init__(self, kind, rng, *, full):
        self.kind, items = kind, int(rng.integers(3, 5))
        self.lists = lists = np.array(list(itertools.permutations(range(items), 3)))
        attraction, p = rng.uniform(0, 1, items), rng.uniform(0.2, 1) / np.arange(1, 4)
        passed = np.cumprod(1 - attraction[lists], axis=1)  # without a click
        self.clicks = {
            "list": lambda: rng.uniform(0, 1, lists.shape),
            "cascade": lambda: attraction[lists] * np.insert(passed[:, :-1], 0, 1.0, axis=1),
            "ip": lambda: rng.uniform(0, 1, (items, 3))[lists, np.arange(3)],
            "item": lambda: attraction[lists],
            "pbm": lambda: attraction[lists] * p,
            "rctr": lambda: np.tile(rng.uniform(0, 1, 3), (len(lists), 1)),
            "rcm": lambda: np.full(lists.shape, rng.uniform()),
        }[kind]()
        self.logging, far = (self.policy(rng, full=each) for each in (full, False))
        mix = float(rng.choice([0.1, 0.5, 1.0]))  # now unlike the logging policy, now close to it
        self.candidate = mix * far + (1 - mix) * self.logging

    def policy(self, rng, *, full):
        """Probabilities of the lists: all of them, or some, unevenly, as production rankers are."""
        if full:
            return rng.dirichlet(np.ones(len(self.lists)))
        count = int(rng.integers(1, len(self.lists) + 1))
        policy = np.zeros(len(self.lists))
        shown = rng.choice(len(self.lists), count, replace=False)
        policy[shown] = rng.dirichlet(np.full(count, 0.5))
        return policy

    def records(self, context):
        """One record a list: weighted by π(A), clicked as often as expected."""
        rows = zip(self.lists.tolist(), self.clicks.tolist(), self.logging.tolist(), strict=True)
        return [Record(context, tuple(a), tuple(c), weight) for a, c, weight in rows if weight > 0]

    def shown(self):
        """The candidate's lists, with probabilities."""
        rows = zip(map(tuple, self.lists.tolist()), self.candidate.tolist(), strict=True)
        return {a: p for a, p in rows if p > 0}


def at_most(left, right):
    return left <= right + ROUNDING * max(1.0, abs(right))


@pytest.mark.parametrize("full", [True, False], ids=["everything logged", "some lists logged"])
@pytest.mark.parametrize(
    "theta", [(1.0, 1.0, 1.0), (0.3, 0.0, 1.7), (0.9, 1.1, 0.0)], ids=["ones", "gap", "two"]
)
def test_the_library_obeys_the_propositions(theta, full):
    """Every kind of world in one log: one context and one segment for each."""
    made = {
        f"{kind} {number}": World(kind, np.random.default_rng([number, *kind.encode()]), full=full)
        for kind in TRUE
        for number in range(tries(6, 40))
    }
    records = [record for name, world in made.items() for record in world.records(name)]
    rows = fc.evaluate(
        fc.read_log(
            tables.weighted_log_table(records, world=[record.context for record in records]),
            count="weight",
            segments=("world",),
        ),
        fc.Lists(tables.lists_table({name: world.shown() for name, world in made.items()})),
        estimators=clipped(paper(oracle.MODELS), list(CLIPS)),
        metrics=[fc.Metric(theta)],
        by="world",
        confidence=None,
    ).to_dicts()
    found = {(row["world"], row["estimator"], row["clip"]): row["value"] or 0.0 for row in rows}
    bounded = len(oracle.MODELS) - len(oracle.BLIND)
    assert len(found) == len(made) * (bounded * len(CLIPS) + len(oracle.BLIND))
    for name, world in made.items():
        truth = float(world.candidate @ world.clicks @ np.array(theta))
        # The list estimator looks no further than the last position that counts, as if nothing
        # below moved a click above: not so where clicks depend on the whole list.
        holds = () if world.kind == "list" and theta[-1] == 0 else TRUE[world.kind]
        for clip in CLIPS:
            values = {
                model: found[name, model, math.inf if model in oracle.BLIND else clip]
                for model in oracle.MODELS
            }
            for finer, coarser in FINER:
                if {finer, coarser} <= {*TRUE[world.kind]}:
                    assert at_most(values[finer], values[coarser])
            for model in holds:
                assert at_most(values[model], truth)
                if full and math.isinf(clip):
                    assert at_most(truth, values[model])


def evaluated(world, by, clip, logging=None):
    """The row of an infinite log of a world."""
    log = fc.read_log(tables.weighted_log_table(world.records("q")), count="weight")
    candidate = fc.Lists(tables.lists_table({"q": world.shown()}))
    return answer(log, candidate, clipped(by, clip), "clicks@3", logging=logging)


@pytest.mark.parametrize("seed", range(tries(2, 4)))
@pytest.mark.parametrize("model", ["ip", "item", "pbm"])
def test_proposition_1_what_list_does_not_clip_no_structured_estimator_clips(model, seed):
    """So there it is unbiased, while `list` may be so on no more policies."""
    world = World(model, np.random.default_rng([31, seed]), full=True)
    bound = float((world.candidate / world.logging).max())
    truth = float((world.candidate @ world.clicks).sum())
    for by in dict.fromkeys(("list", "ip", *paper([model]))):
        row = evaluated(world, by, bound * (1 + ROUNDING))
        assert row["clipped"] == pytest.approx(0, abs=ROUNDING)
        assert row["value"] == pytest.approx(truth, rel=ROUNDING)
    beyond = [evaluated(world, by, 0.9 * bound)["clipped"] for by in ("list", "ip")]
    assert beyond[0] > 0
    assert beyond[1] <= beyond[0] + ROUNDING


@pytest.mark.parametrize("seed", range(tries(2, 4)))
@pytest.mark.parametrize("clip", [0.5, 2.0, 10.0])
@pytest.mark.parametrize("by", ["list", "ip"])
def test_the_lemmas_bound_the_estimate_by_an_estimated_logging_policy(by, clip, seed):
    """E G − M E F ≤ E V̂ ≤ V + M E F, where π̂ is fixed and is not π (section 4.4)."""
    rng = np.random.default_rng([32, seed])
    world = World("ip", rng, full=True)
    estimated = rng.dirichlet(50 * world.logging + 0.1)
    rows = zip(map(tuple, world.lists.tolist()), estimated.tolist(), strict=True)
    given = fc.Lists(tables.lists_table({"q": dict(rows)}))
    row = evaluated(world, by, clip, given)
    shown = world.lists[:, None] == np.arange(world.lists.max() + 1)[:, None]  # (list, item, slot)
    cells, rate = np.eye(len(shown)), world.clicks.sum(axis=1)
    if by == "ip":  # probabilities of an item at a position, for every slot
        cells = shown.reshape(len(shown), -1)
        rate = (shown * world.clicks[:, None]).max(axis=0).ravel()
    h, pi, pihat = (policy @ cells for policy in (world.candidate, world.logging, estimated))
    unclipped = h <= clip * pi
    f = float(rate @ (unclipped * np.abs(pihat - pi)))
    value, g = float(rate @ h), float(rate @ (unclipped * h))
    assert at_most(row["value"], value + clip * f)
    assert at_most(g - clip * f, row["value"])
