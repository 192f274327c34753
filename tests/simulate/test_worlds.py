"""If this fails, simulated worlds tell a wrong truth, and every study with them."""

import numpy as np
import pytest

import foreclick as fc
from foreclick.errors import PolicyError
from foreclick.simulate import DCTR, PBM, ListSpecific, item_ids
from tests.simulate.small import (
    CONTEXTS,
    ITEMS,
    POSITIONS,
    WORLDS,
    every_list,
    expected,
    outcomes,
    steps,
)

EXACT = 1e-12
"""A handful of products in another order."""

SIGMAS = 5.0
"""Over a few thousand slots, one false alarm in about a thousand runs; the seed is fixed."""

MODELLED = sorted(WORLDS.keys() - {"list"})
FREQUENCIES = np.array([3.0, 1.0])
THETA = {"clicks@2": np.array([1, 1, 0]), "dcg@10": 1 / np.log2(np.arange(2, 5))}
LISTS = {(0, (2, 0, 3)): 0.3, (0, (1, 2)): 0.7, (1, (3,)): 0.5, (1, (0, 1, 2)): 0.5}
RANKING = {(0, (2, 0, 3)): 1.0, (1, (1, 3, 0)): 1.0}


def everything():
    """All lists in all contexts: contexts (n,), lists (n, K)."""
    lists = np.array(every_list() * CONTEXTS)
    return np.repeat(np.arange(CONTEXTS), len(every_list())), lists


@pytest.mark.parametrize("effect", [1.0, 0.6, 1.7])
@pytest.mark.parametrize("name", MODELLED)
def test_clicks_equal_the_enumeration_of_every_outcome(name, effect):
    contexts, lists = everything()
    found = WORLDS[name].clicks(contexts, lists, effect)
    for x, shown, clicks in zip(contexts, lists, found, strict=True):
        assert clicks == pytest.approx(expected(steps(name, x, shown, effect)), abs=EXACT)


@pytest.mark.parametrize("name", MODELLED)
def test_first_clicks_equal_the_enumeration_of_every_outcome(name):
    contexts, lists = everything()
    found = WORLDS[name].first_clicks(contexts, lists)
    for x, shown, first in zip(contexts, lists, found, strict=True):
        right = np.zeros(len(shown))
        for chance, clicks in outcomes(name, x, shown):
            if any(clicks):
                right[clicks.index(1)] += chance
        assert first == pytest.approx(right, abs=EXACT)


@pytest.mark.parametrize("effect", [1.0, 1.4])
@pytest.mark.parametrize("name", sorted(WORLDS))
def test_samples_agree_with_the_exact_clicks(name, effect):
    contexts, lists = everything()
    times, rng = 20_000, np.random.default_rng(11)
    exact = WORLDS[name].clicks(contexts, lists, effect)
    counts = np.zeros(lists.shape)
    for _ in range(times // 1000):
        many = np.repeat(np.arange(len(lists)), 1000)
        drawn = WORLDS[name].sample(contexts[many], lists[many], rng, effect)
        counts += drawn.reshape(len(lists), 1000, POSITIONS).sum(axis=1)
    sd = np.sqrt(exact * (1 - exact) / times)
    assert (np.abs(counts / times - exact) <= SIGMAS * sd + EXACT).all()


def test_samples_of_readers_have_the_joint_distribution():
    """Means alone would not notice a cascade in which a second click is possible."""
    world = WORLDS["cascade"]
    contexts, lists = everything()
    many = np.tile(np.arange(len(lists)), 200)
    drawn = world.sample(contexts[many], lists[many], np.random.default_rng(2))
    assert drawn.sum(axis=1).max() == 1


def test_a_list_specific_rate_depends_on_the_whole_list_the_context_and_the_seed():
    contexts, lists = everything()
    rates = WORLDS["list"].clicks(contexts, lists)
    assert len(np.unique(rates)) == rates.size
    np.testing.assert_array_equal(rates, WORLDS["list"].clicks(contexts, lists))
    other = ListSpecific(CONTEXTS, ITEMS, [1.0, 0.6, 0.3], seed=4).clicks(contexts, lists)
    assert not np.isclose(rates, other).any()


# --- V(h) -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", sorted(THETA))
@pytest.mark.parametrize("name", sorted(WORLDS))
class TestValue:
    @pytest.mark.parametrize(("kind", "shown"), [(fc.Lists, LISTS), (fc.Ranking, RANKING)])
    def test_of_lists_also_short_ones(self, name, metric, kind, shown):
        """Σ_x q(x) Σ_A h(A|x) Σ_k θ_k w̄, from {(x, list): probability}."""
        total = 0.0
        for (x, items), mass in shown.items():
            clicks = WORLDS[name].clicks(np.array([x]), np.array([items]))[0]
            q = FREQUENCIES[x] / FREQUENCIES.sum()
            total += q * mass * float(clicks @ THETA[metric][: len(items)])
        table = {
            "context": [x for x, _ in shown],
            "items": [item_ids(np.array(x), np.array(items)).tolist() for x, items in shown],
        }
        table |= {"probability": [*shown.values()]} if kind is fc.Lists else {}
        found = WORLDS[name].value(kind(table), metric, FREQUENCIES)
        assert found == pytest.approx(total, abs=EXACT)


def test_a_context_that_does_not_occur_needs_no_list():
    world = DCTR([[0.5], [0.1]], positions=1)
    assert world.value({"context": [0], "items": [[0]]}, "clicks@1", [1, 0]) == pytest.approx(0.5)
    with pytest.raises(PolicyError, match="no list for 1 context"):
        world.value({"context": [0], "items": [[0]]}, "clicks@1")


def test_one_click_or_more_depends_on_the_list_even_where_clicks_do_not():
    world = PBM([[0.5, 0.2]], [1.0, 0.5])
    lists = fc.Lists({"context": [0, 0], "items": [[0, 1], [1]], "probability": [0.4, 0.6]})
    both, alone = 1 - 0.5 * 0.9, 0.2
    assert world.value(lists, "success@2") == pytest.approx(0.4 * both + 0.6 * alone)
    assert world.value(lists, "mrr@2") == pytest.approx(0.4 * (0.5 + 0.5 * 0.1 / 2) + 0.6 * 0.2)
    marginals = fc.Marginals({"context": [0], "item": [0], "position": [1], "probability": [1.0]})
    with pytest.raises(PolicyError, match="does not say how likely whole lists are"):
        world.value(marginals, "success@2")
