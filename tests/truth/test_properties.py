"""Laws that need no oracle: what must not matter does not, and what must grow does.

Each example is a log and a candidate drawn by Hypothesis and a few calls of `evaluate`; examples
are few because a call compiles a query, and the same in every run.
"""

import itertools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import foreclick as fc
from foreclick.errors import PolicyError
from tests.answers import clipped
from tests.truth import oracle, random_logs
from tests.truth.oracle import Record
from tests.truth.paper import paper

# The logs are tiny; that contexts hardly repeat is no news here.
pytestmark = pytest.mark.filterwarnings("ignore::foreclick.errors.ForeclickWarning")

# A few dozen terms, added up in another order.
SAME = 1e-12

few = settings(
    max_examples=3,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

ITEMS = range(1, 7)
CONTEXTS = ("jaguar", "python", "ruby")
METRICS = ("dcg@3",)  # lists have up to four items
CLIPS = (2, math.inf)
SLOT_MODELS = ("ip", "item", "pbm", "rctr", "rcm")
ITEM_MODELS = ("list", "prefix", "ip", "item", "pbm")

shown_lists = st.lists(st.sampled_from(ITEMS), min_size=1, max_size=4, unique=True).map(tuple)


@st.composite
def records_of(draw, context):
    """Some lists of one context, some of them more than once."""
    shown = draw(st.lists(shown_lists, min_size=1, max_size=3))
    order = draw(st.lists(st.sampled_from(shown), min_size=1, max_size=6))
    rewards = st.sampled_from([0.0, 1.0, 1.0, 0.5])
    return [Record(context, items, draw(st.tuples(*[rewards] * len(items)))) for items in order]


@st.composite
def logs(draw):
    """At least two records in one to three contexts."""
    contexts = CONTEXTS[: draw(st.integers(1, 3))]
    records = [record for context in contexts for record in draw(records_of(context))]
    return records if len(records) > 1 else records * 2


@st.composite
def policies(draw):
    """One or two lists for every context, with probabilities that add up to one."""
    policy = {}
    for context in CONTEXTS:
        lists = draw(st.lists(shown_lists, min_size=1, max_size=2, unique=True))
        first = draw(st.sampled_from([0.25, 0.5, 0.9])) if len(lists) > 1 else 1.0
        policy[context] = dict(zip(lists, (first, 1 - first), strict=False))
    return policy


def read(records):
    return fc.read_log(random_logs.log_table(records))


def lists(policy):
    return fc.Lists(random_logs.lists_table(policy))


def answer(log, candidate, clip=CLIPS, **options):
    """Rows by estimator, metric and clip."""
    asked: dict[str, Any] = {
        "estimators": clipped(paper(oracle.MODELS), list(clip)),
        "metrics": list(METRICS),
        **options,
    }
    rows = fc.evaluate(log, candidate, **asked, confidence=None).to_dicts()
    return {(row["estimator"], row["metric"], row["clip"]): row for row in rows}


def close(left, right):
    if left is None or right is None:
        return left is right
    return math.isclose(left, right, rel_tol=SAME, abs_tol=SAME)


def assert_same(left, right):
    """The same rows, and in them the same numbers; integers exactly."""
    assert left.keys() == right.keys()
    for name, row in left.items():
        for column in oracle.Row._fields:
            assert close(row[column], right[name][column]), (name, column)
        for column in ("contexts", "records", "missing_contexts"):
            assert row[column] == right[name][column], (name, column)


# --- the candidate is what was logged -------------------------------------------------------------


@few
@given(logs())
def test_what_was_observed_is_worth_what_production_is(records):
    """For every model, with any M ≥ 1: no weight differs from one."""
    log = read(records)
    for row in answer(log, fc.Observed(log)).values():
        assert close(row["value"], oracle.production(records, metric_theta(row["metric"])))
        assert close(row["value"], row["production"])
        assert close(row["change"], 0)
        assert close(row["covered"], 1)
        assert close(row["clipped"], 0)
        assert close(row["ess"], len(records))


def metric_theta(metric):
    return {"dcg@3": oracle.dcg_at(3)}[metric]


@few
@given(logs(), logs())
def test_another_log_is_the_lists_it_shows(records, others):
    """Observed needs no clicks, and is the Lists of its frequencies."""
    shadow = random_logs.log_table(others).drop_columns("clicks")
    observed = fc.Observed(fc.read_log(shadow, clicks=None))
    assert_same(
        answer(read(records), observed, missing="production"),
        answer(read(records), lists(oracle.frequencies(others)), missing="production"),
    )


# --- the clip -------------------------------------------------------------------------------------


@few
@given(logs(), policies())
def test_values_grow_with_the_clip(records, policy):
    clips = [0.5, 1, 2, 5, math.inf]
    found = answer(read(records), lists(policy), clip=clips)
    for model in oracle.MODELS:
        for metric in METRICS:
            rows = [found[model, metric, clip] for clip in clips]
            for less, more in itertools.pairwise(rows):
                assert close(less["covered"], more["covered"])
                assert less["clipped"] >= more["clipped"] - SAME
                if less["covered"] > 0:
                    assert less["value"] <= more["value"] + SAME
            assert rows[-1]["clipped"] == 0


# --- how the log is written down ------------------------------------------------------------------


@few
@given(st.data(), logs(), policies())
def test_the_order_of_rows_is_irrelevant(data, records, policy):
    shuffled = data.draw(st.permutations(records))
    assert_same(answer(read(records), lists(policy)), answer(read(shuffled), lists(policy)))


@few
@given(st.data(), logs(), policies())
def test_the_tallies_of_two_parts_add_up_to_the_whole(data, records, policy):
    cut = data.draw(st.integers(1, len(records) - 1))
    parts = fc.tally(read(records[:cut])) + fc.tally(read(records[cut:]))
    whole = answer(read(records), lists(policy))
    assert_same(whole, answer(parts, lists(policy)))
    assert_same(whole, answer(fc.tally(read(records)), lists(policy)))


@few
@given(logs(), policies())
def test_equal_rows_may_be_merged_into_one_with_a_weight(records, policy):
    counts = {record: float(records.count(record)) for record in records}
    merged = [record._replace(weight=n) for record, n in counts.items()]
    log = fc.read_log(random_logs.weighted_log_table(merged), count="weight")
    assert_same(answer(read(records), lists(policy)), answer(log, lists(policy)))


@few
@given(st.data(), logs(), policies())
def test_names_of_items_and_contexts_are_irrelevant(data, records, policy):
    """Integers become strings that sort otherwise; contexts become integers."""
    names = data.draw(st.permutations(["zebra", "Äpfel", "a", "10", "9", "two words"]))
    item = dict(zip(ITEMS, names, strict=True))
    context = dict(zip(CONTEXTS, data.draw(st.permutations([7, -1, 3])), strict=True))

    def renamed(items):
        return tuple(item[i] for i in items)

    others = [
        record._replace(context=context[record.context], items=renamed(record.items))
        for record in records
    ]
    other_policy = {
        context[c]: {renamed(items): p for items, p in draws.items()} for c, draws in policy.items()
    }
    assert_same(
        answer(read(records), lists(policy)),
        answer(read(others), lists(other_policy)),
    )


@few
@given(logs(), policies())
def test_array_long_and_wide_layouts_are_one_log(records, policy):
    expected = answer(read(records), lists(policy))
    assert_same(expected, answer(read_long(records), lists(policy)))
    assert_same(expected, answer(read_wide(records), lists(policy)))


def read_long(records):
    """One row an impression, bottom up."""
    rows = [
        {"context": record.context, "page": f"p{n}", "rank": k, "doc": item, "clicked": click}
        for n, record in enumerate(records)
        for k, (item, click) in enumerate(zip(record.items, record.clicks, strict=True), start=1)
    ]
    return fc.read_log(
        pa.Table.from_pylist(rows[::-1]),
        long=("page", "rank"),
        items="doc",
        clicks="clicked",
    )


def read_wide(records):
    """One column a position; short lists end in nulls."""
    depth = max(len(record.items) for record in records)
    columns: dict[str, Any] = {"context": [record.context for record in records]}
    for k in range(depth):
        columns[f"i{k + 1}"] = pa.array(
            [r.items[k] if k < len(r.items) else None for r in records], pa.int64()
        )
        columns[f"c{k + 1}"] = pa.array(
            [r.clicks[k] if k < len(r.clicks) else None for r in records], pa.float64()
        )
    return fc.read_log(
        pa.table(columns),
        items=[f"i{k + 1}" for k in range(depth)],
        clicks=[f"c{k + 1}" for k in range(depth)],
    )


# --- metrics --------------------------------------------------------------------------------------


@few
@given(logs(), policies(), st.sampled_from([0.125, 3.0, 40.0]))
def test_the_value_scales_with_the_weights_of_positions(records, policy, factor):
    """What is counted is scaled; what it rests on is not."""
    theta = np.array([1.0, 0.5, 0.0, 0.25])
    one = answer(read(records), lists(policy), metrics=[fc.Metric(theta.tolist())])
    scaled = answer(read(records), lists(policy), metrics=[fc.Metric((factor * theta).tolist())])
    for (first, row), (second, other) in zip(one.items(), scaled.items(), strict=True):
        assert (first[0], first[2]) == (second[0], second[2])
        for column in ("value", "production", "change"):
            expected = None if row[column] is None else factor * row[column]
            if expected is None:
                assert other[column] is None
            else:
                assert math.isclose(other[column], expected, rel_tol=SAME, abs_tol=factor * SAME)
        for column in ("covered", "clipped", "ess"):
            assert close(other[column], row[column])


# --- support --------------------------------------------------------------------------------------


@few
@given(logs())
def test_a_candidate_that_shares_no_item_with_its_contexts_gets_no_number(records):
    contexts = sorted({record.context for record in records})
    policy: dict[Any, Any] = {context: {(901, 902, 903): 1.0} for context in contexts}
    stranger = fc.Ranking(random_logs.ranking_table(policy))
    with pytest.raises(PolicyError, match="shows no item of the log"):
        fc.evaluate(read(records), stranger, estimators="ip", metrics=list(METRICS))
    policy["elsewhere"] = {(904,): 1.0}
    more = records[0]._replace(context="elsewhere", items=(901,), clicks=(0.0,))
    evaluation = fc.evaluate(
        read([*records, more]),
        fc.Ranking(random_logs.ranking_table(policy)),
        estimators=clipped(list(ITEM_MODELS), list(CLIPS)),
        metrics=list(METRICS),
        confidence=None,
    )
    rows = evaluation.to_dicts()
    assert len(rows) == len(ITEM_MODELS) * len(METRICS) * len(CLIPS)
    for row in rows:
        assert row["covered"] == 0
        assert row["ess"] == 0
        assert (row["value"], row["change"], row["lift"]) == (None, None, None)
        assert row["production"] is not None
    assert evaluation.notes
    assert all(evaluation.notes)
    assert str(evaluation)  # an answer without numbers prints all the same


@few
@given(logs(), policies())
def test_coarser_models_see_more(records, policy):
    """Covered mass grows along the lattice; a blind model sees every position ever filled."""
    found = answer(read(records), lists(policy))
    for metric in METRICS:
        share = {model: found[model, metric, math.inf]["covered"] for model in oracle.MODELS}
        for finer, coarser in [
            ("list", "prefix"),
            ("prefix", "ip"),
            ("ip", "item"),
            ("ip", "rctr"),
            ("item", "rcm"),
        ]:
            assert share[finer] <= share[coarser] + SAME
        assert close(share["rcm"], 1)


# --- policies -------------------------------------------------------------------------------------


@few
@given(logs(), policies())
def test_marginals_are_enough_for_models_of_a_slot(records, policy):
    marginals = fc.Marginals(random_logs.marginals_table(policy))
    assert_same(
        answer(read(records), lists(policy), estimators=list(SLOT_MODELS)),
        answer(read(records), marginals, estimators=list(SLOT_MODELS)),
    )


@pytest.mark.parametrize("model", ["list", "prefix"])
def test_marginals_cannot_answer_for_models_of_a_list(model):
    policy = {"jaguar": {(1, 2): 0.5, (2, 1): 0.5}}
    log = read([Record("jaguar", (1, 2), (1.0, 0.0))] * 5)
    marginals = fc.Marginals(random_logs.marginals_table(policy))
    with pytest.raises(fc.errors.ForeclickError, match=model):
        fc.evaluate(log, marginals, estimators=[model], metrics="clicks@2", confidence=None)


@few
@given(logs(), policies(), policies())
def test_a_known_logging_policy_takes_the_place_of_frequencies(records, policy, extra):
    """Half the log's own frequencies, half something else: nothing logged has probability 0."""
    logging = {}
    for context, shown in oracle.frequencies(records).items():
        mixed = {items: p / 2 for items, p in shown.items()}
        for items, p in extra[context].items():
            mixed[items] = mixed.get(items, 0.0) + p / 2
        logging[context] = mixed
    found = answer(read(records), lists(policy), logging=lists(logging))
    for (model, metric, clip), row in found.items():
        expected = oracle.evaluate(
            model, records, policy, metric_theta(metric), clip, logging=logging
        )
        for column, right in expected._asdict().items():
            assert close(row[column], right), (model, metric, clip, column)


@few
@given(logs(), policies())
def test_frequencies_given_as_the_logging_policy_change_nothing(records, policy):
    log = read(records)
    assert_same(
        answer(log, lists(policy)),
        answer(log, lists(policy), logging=fc.Observed(log)),
    )
