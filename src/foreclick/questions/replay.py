"""`replay`: past A/B tests, predicted from the control's clicks beside what was measured.

The control's records are the log, the lists that the other arm showed are the candidate. With the
prediction L̂ = V̂(h) / V(control) − 1 and the measurement M = V(arm) / V(control) − 1, both of the
same days, the error of L̂ − M is that of one sum over clusters: what days do to both arms cancels.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from foreclick import inference
from foreclick.errors import ForeclickWarning, PolicyError, SourceError
from foreclick.estimate.covariance import errors_of, minus, variance_of
from foreclick.estimate.estimates import Estimate
from foreclick.estimate.work import estimate
from foreclick.estimators import parse_estimators
from foreclick.learn.above import ALARM
from foreclick.learn.clusters import clusters_of
from foreclick.learn.curves import with_curves
from foreclick.logs import CONTEXT, Log, N, read_log
from foreclick.metrics import USUAL_METRICS, AnyMetric, parse_any
from foreclick.options import verb
from foreclick.policies import Lists, Observed
from foreclick.progress import report_step
from foreclick.question import Question, check_metrics
from foreclick.questions.backtest import Hindsight
from foreclick.questions.check import traffic_notes
from foreclick.questions.evaluate import largest_slots, loggings_of, usual_estimators
from foreclick.questions.verdicts import BETTER, UNKNOWN, WORSE, Claims, Pair, judged
from foreclick.results import Headline, Result, format_value, span
from foreclick.rules import column
from foreclick.tallies import LogLike
from foreclick.tallies.base import Tally, counts, part, settle, with_text
from foreclick.words import few, number_of, one_of

CONTROLS = ("control", "a", "off", "baseline", "base", "production", "0", "false")
"""Names that an arm has if it is what was there before."""

ENOUGH = 1_000
"""Records that an arm needs for the other one to be predicted from it."""

_SHARED = 0.9  # of the control's records, in contexts that both arms have
_FEW = 5  # tests; of fewer, nobody can say how wide intervals should be
_LINES = 20  # tests that an answer lists; the table has them all


@dataclass(frozen=True, repr=False)
class Replay(Hindsight):
    """Past A/B tests: one row per test × direction × estimator × metric.

    | column | meaning |
    |---|---|
    | experiment, log, arm | the test, the arm whose clicks were known, and the one predicted |
    | predicted | the lift of the arm by the clicks of the log, with its interval and verdict |
    | measured | the lift of the arm by its own clicks, with its interval, and what the test said |
    | difference | predicted − measured, with its interval; `holds` is whether 0 is in it |
    | forward | whether the control was the log |
    | shared | the share of the log's records in contexts that both arms have |
    | records, arm_records | of the log, and of the arm |

    Each number has its standard error (`_se`) and the ends of its interval (`_low`, `_high`).
    Replays add up: those of two logs are one of all their tests.

    Attributes:
        confidence: of the intervals.
    """

    confidence: float = 0.95
    past = "past A/B tests"

    def __add__(self, other: Replay) -> Replay:
        """The tests of both."""
        notes = dict.fromkeys((*self.notes, *other.notes))
        return replace(self, rows=(*self.rows, *other.rows), notes=tuple(notes))

    @property
    def answering(self) -> str:
        """The estimator whose verdicts count."""
        return str(self["estimator"][0])

    @cached_property
    def summary(self) -> Result:
        """A row per estimator × metric, over the tests that were predicted from the control.

        How often 0 was held, bias and slope of measured on predicted, verdicts that came out right
        and wrong, and how much larger errors were than intervals say (`widening`).
        """
        rows = [row for row in self.rows if row["forward"] and row["difference_se"] is not None]
        of = dict.fromkeys((row["estimator"], row["metric"]) for row in rows)
        each = [[r for r in rows if (r["estimator"], r["metric"]) == key] for key in of]
        totals = [_total(some, self.confidence) for some in each]
        return Result(tuple(totals), tuple(totals[0]) if totals else ())

    @property
    def headline(self) -> Headline:
        """How many tests would have been called, and each of them."""
        metric = self["metric"][0]
        mine = [
            row
            for row in self.rows
            if row["forward"] and (row["metric"], row["estimator"]) == (metric, self.answering)
        ]
        plain = len({row["experiment"] for row in mine}) == len(mine) > 1
        lines = [
            (
                str(row["experiment"]) if plain else named(row),
                f"predicted {format_value('lift', row['predicted'])}",
                f"({span('lift', row['predicted_low'], row['predicted_high'])})",
                str(row["verdict"]),
                f"measured {format_value('lift', row['measured'])}",
                f"({span('lift', row['measured_low'], row['measured_high'])})",
            )
            for row in mine[:_LINES]
        ]
        total = self.total(self.answering, metric)
        if total is None:
            return Headline(f"No A/B test could be predicted ({metric})", tuple(lines))
        title = (
            f"Of {number_of(total['tests'], 'A/B test')}, {self.answering} would have called "
            f"{total['called']}: {total['right']} right, {total['wrong']} wrong, "
            f"{total['called'] - total['right'] - total['wrong']} left open by the test ({metric})"
        )
        ends = span("lift", total["bias_low"], total["bias_high"])
        said = [
            f"Predicted and measured agree within chance in {total['holds']} of {total['tests']}.",
            f"On average, predictions were off by {format_value('lift', total['bias'])} ({ends}).",
        ]
        if total["slope_low"] is not None:
            ends = f"{total['slope_low']:.2f} to {total['slope_high']:.2f}"
            said.append(f"Where 1 was predicted, {total['slope']:.2f} came ({ends}).")
        if total["widening"] is not None and total["tests"] >= _FEW:
            low, high = total["widening_low"], total["widening_high"]
            word = (
                "too short" if low > 1 else "too wide" if high < 1 else "as wide as they should be"
            )
            said.append(
                f"Intervals were {word}: errors were {low:.2f} to {high:.2f} times as large."
            )
        if len(mine) > _LINES:
            said.insert(0, f"The first {_LINES} of {len(mine):,}; the table has them all.")
        return Headline(title, tuple(lines), tuple(said))

    @property
    def shown(self) -> tuple[str, ...]:
        """Without what is the same everywhere."""
        dull = {c for c in ("experiment", "shared") if len(set(self[c])) == 1}
        dull |= {"forward", "records", *(c for c in self.columns if c.endswith("_se"))}
        return tuple(c for c in self.columns if c not in dull)

    def total(self, estimator: str, metric: str) -> Mapping[str, Any] | None:
        """The row of the summary; None if there is none."""
        of = (estimator, metric)
        return next((r for r in self.summary.rows if (r["estimator"], r["metric"]) == of), None)

    def error(self, estimator: str, metric: str, clip: float, reach: float) -> float:  # noqa: ARG002
        """By how much more than its reach an interval ought to reach: (f − 1) reach, from 0 on."""
        found = self.total(estimator, metric)
        if found is None:
            raise SourceError(
                f"the replay has no test of {metric!r} by {estimator!r}. Ask it for the same "
                "metrics, and evaluate by the default estimators."
            )
        return max(float(found["widening"] or 1.0) - 1.0, 0.0) * reach


def named(row: Mapping[str, Any]) -> str:
    """A test and its arm, in a word or two."""
    return f"{row['experiment']}, {row['arm']}" if row["experiment"] else str(row["arm"])


def _total(rows: Sequence[Mapping[str, Any]], confidence: float) -> dict[str, Any]:
    """What tests say together, of one estimator and metric."""
    predicted, measured, low, high = (
        np.array([row[c] for row in rows])
        for c in ("predicted", "measured", "predicted_low", "predicted_high")
    )
    own, other, joint = (
        np.array([row[f"{c}_se"] for row in rows]) ** 2
        for c in ("predicted", "measured", "difference")
    )
    difference, common = predicted - measured, (own + other - joint) / 2
    printed = ((high - low) / 2 / inference.quantile(confidence, math.inf)) ** 2
    told = {
        "bias": inference.mean_difference(difference, joint, confidence),
        "slope": inference.slope(predicted, measured, np.stack([own, other, common]), confidence),
        "widening": inference.widening(difference, printed, np.maximum(joint - own, 0), confidence),
    }
    calls = [(row["verdict"], row["outcome"]) for row in rows if row["verdict"] in (BETTER, WORSE)]
    found = {
        "estimator": rows[0]["estimator"],
        "metric": rows[0]["metric"],
        "tests": len(rows),
        "holds": sum(bool(row["holds"]) for row in rows),
        "called": len(calls),
        "right": sum(said == came for said, came in calls),
        "wrong": sum({said, came} == {BETTER, WORSE} for said, came in calls),
    }
    for name, number in told.items():
        keys = (name, f"{name}_low", f"{name}_high")
        found |= dict(zip(keys, number or (None, None, None), strict=True))
    return found


# --- the verb -------------------------------------------------------------------------------------


class _Arms(NamedTuple):
    """Two arms of a test: the records of the log, of both, and of the arm that is predicted."""

    experiment: str
    names: tuple[str, str]
    forward: bool
    log: Tally
    both: Tally
    arm: Tally


@verb(variant=column, experiment=column)
def replay(
    log: LogLike,
    *,
    variant: str = "variant",
    experiment: str | None = None,
    control: object = None,
    metrics: str | AnyMetric | Sequence[str | AnyMetric] = USUAL_METRICS,
    confidence: float = 0.95,
) -> Replay:
    """What would have been predicted of past A/B tests, beside what they measured.

    For each test, the control's clicks predict the lift of what the other arm showed, by the
    estimators that answer by default. The arm's own clicks measure it. Where both arms have 1,000
    records, the control is predicted from the arm as well. Contexts that only one arm has are left
    out of the prediction. Days before the test take no part: the tested model was trained on their
    clicks, and production was another one.

    Args:
        log: a log or tally with the lists and clicks of all arms, read with the columns below as
            `segments`, and with `period` and `unit` if there are any.
        variant: the column that names the arm; records without it are left out.
        experiment: the column that names the test, if there were several.
        control: the arm that was there before; by default the one called "control" or the like,
            else that with most records.
        metrics: spellings such as "clicks@3" and "dcg@10".
        confidence: of the intervals.

    Examples:
        >>> log = {
        ...     "context": ["q"] * 80,
        ...     "items": [[1, 2]] * 20 + [[2, 1]] * 20 + [[2, 1]] * 40,
        ...     "clicks": [[0, 0], [1, 0]] * 10 + [[1, 0], [1, 0]] * 10 + [[1, 0]] * 40,
        ...     "variant": ["control"] * 40 + ["new"] * 40,
        ... }
        >>> found = replay(log, metrics="clicks@1")
        >>> [round(found[c][1], 3) for c in ("predicted", "measured")]  # by `ip`
        [0.333, 0.333]
    """
    asked = parse_any(metrics)
    names = [name for name in (experiment, variant) if name is not None]
    if not isinstance(log, Log | Tally):
        log = read_log(log, segments=names)
    counted, notes = settle(log)
    if unread := [name for name in names if name not in counted.shape.segments]:
        raise SourceError(
            f"the log was read without the column {unread[0]!r}, which names the arm or the test. "
            f"Read it with it: read_log(…, segments={names!r})."
        )
    check_metrics(counted.shape, [part for each in asked for part in each.parts])
    counted = with_text(counted, names)
    rows: list[dict[str, Any]] = []
    for arms in _tests(counted, experiment, variant, control, notes):
        title = named({"experiment": arms.experiment, "arm": arms.names[1]})
        report_step(f"Predicting {title}")
        if arms.forward:
            notes += [f"{title}: {said}" for said in traffic_notes(arms.both, variant, arms.names)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ForeclickWarning)
            rows += _compared(arms, variant, asked, confidence, notes)
    return Replay(tuple(rows), tuple(rows[0]), tuple(dict.fromkeys(notes)), confidence=confidence)


# --- which tests there are ------------------------------------------------------------------------


def _tests(
    tally: Tally, experiment: str | None, variant: str, control: object, notes: list[str]
) -> Iterable[_Arms]:
    """The pairs of arms, in both directions where both have enough records."""
    sizes: dict[str, dict[str, float]] = {}
    for row in counts(tally, [*([experiment] if experiment else []), variant]).to_pylist():
        test = row[experiment] if experiment else ""
        if test is not None and row[variant] is not None:
            sizes.setdefault(test, {})[row[variant]] = row[N]
    alone = sorted(test for test, arms in sizes.items() if len(arms) < 2)
    if len(alone) == len(sizes):
        found = sorted({arm for arms in sizes.values() for arm in arms})
        raise SourceError(
            f"no test of the log has two arms: {variant!r} is "
            f"{few(list(map(repr, found))) or 'empty everywhere'}. Name the column of the arm, "
            "variant=…, and read the log with the records of all arms."
        )
    if alone:
        notes.append(f"Left out: {number_of(len(alone), 'test')} with one arm, {few(alone)}.")
    text = str(control).lower() if isinstance(control, bool) else str(control)
    chosen = None if control is None else text
    for test in sorted(sizes.keys() - set(alone)):
        arms = sizes[test]
        if chosen is not None and chosen not in arms:
            raise SourceError(
                f"control={control!r} is no arm of the test {test!r}: say {one_of(sorted(arms))}."
            )
        usual = [each for each in arms if each.lower() in CONTROLS]
        base = chosen or (usual or [max(arms, key=arms.__getitem__)])[0]
        here = part(tally, experiment, [test]) if experiment else tally
        old = part(here, variant, [base])
        for other in sorted(arms.keys() - {base}):
            both, new = part(here, variant, [base, other]), part(here, variant, [other])
            yield _Arms(test, (base, other), True, old, both, new)
            if min(arms[base], arms[other]) >= ENOUGH:
                yield _Arms(test, (other, base), False, new, both, old)


# --- one test -------------------------------------------------------------------------------------


def _compared(
    arms: _Arms, variant: str, asked: Sequence[AnyMetric], confidence: float, notes: list[str]
) -> Iterable[dict[str, Any]]:
    """A row for each estimator and metric of one direction."""
    items = arms.arm.shape.items
    lists = counts(arms.arm, [CONTEXT, *items])
    n, context = lists[N].to_numpy(), lists[CONTEXT].combine_chunks().dictionary_encode().indices
    number = np.asarray(context.fill_null(-1)) + 1
    lists = lists.set_column(lists.num_columns - 1, "share", [n / np.bincount(number, n)[number]])
    # Lists, not `Observed`: the candidate is what was shown, not a sample of what might have been.
    policy = Lists(lists, context=CONTEXT, items=items, probability="share")
    clusters, doubts = clusters_of(arms.log, "auto")
    notes += doubts
    parts = [part for each in asked for part in each.parts]
    wanted = parse_estimators(usual_estimators(arms.log, policy, None, parts))
    wanted, _ = with_curves(arms.log, wanted, asked, [policy])
    loggings = loggings_of(arms.log, wanted, parts, None)
    question = Question([policy], wanted, asked, "drop", loggings, clusters=clusters)
    by_arm = Question(
        [Observed(arms.both)], parse_estimators("rctr"), asked, by=(variant,), clusters=clusters
    )
    measured = {
        (one.stratum.segment[variant], one.metric): one
        for one in estimate(arms.both, by_arm).of_candidate()
    }
    row = {"experiment": arms.experiment, "log": arms.names[0], "arm": arms.names[1]}
    try:
        found = estimate(arms.log, question)
    except PolicyError:
        notes.append(
            f"{named(row)}: not predicted, because no context is in both arms. Read the log with a "
            "coarser context: a query class, or context=None."
        )
        words: list[Any] = [None] * len(wanted) * len(asked)
        pairs: list[Any] = words
    else:
        pairs = [Pair(one) for one in found.of_candidate()]
        stratum = pairs[0].estimate.stratum
        shared = stratum.records / (stratum.records + stratum.unknown.records)
        if shared < _SHARED:
            notes.append(
                f"{named(row)}: {shared:.0%} of the records of "
                f"{arms.names[0]!r} are in contexts that both arms have. The prediction is of "
                "these, the measurement of all. A coarser context has more of them."
            )
        if any(prior.reacting > ALARM for prior in found.priors):
            notes.append(
                f"{named(row)}: the rankers learn from their clicks. If {arms.names[1]!r} learnt "
                f"from those of {arms.names[0]!r} during the test, it is predicted too high."
            )
        largest = largest_slots(arms.log, [pair.estimate for pair in pairs])
        _, words = judged(pairs, Claims(confidence), largest)
    of = [(e.name, each) for e in wanted for each in asked]
    for (name, metric), pair, verdict in zip(of, pairs, words, strict=True):
        control, arm = (measured[each, metric] for each in arms.names)
        yield {
            **row,
            "metric": metric.name,
            "estimator": name,
            **_numbers(pair, control, arm, (arms.log, arms.both), confidence),
            "verdict": UNKNOWN if verdict is None else verdict.word,
            "forward": arms.forward,
            "arm_records": arm.stratum.records,
        }


def _numbers(
    pair: Pair | None,
    control: Estimate,
    arm: Estimate,
    tallies: tuple[Tally, Tally],
    confidence: float,
) -> dict[str, Any]:
    """Predicted, measured and their difference, with intervals."""
    keys = ("predicted", "measured", "difference")
    sides = ("", "_se", "_low", "_high")
    row: dict[str, Any] = {f"{key}{side}": None for key in keys for side in sides}
    row |= {"holds": None, "outcome": UNKNOWN, "shared": 0.0, "records": 0.0}
    base, value = control.production, arm.production
    if not base or value is None:
        return row
    of, (c, a) = control.of, (control.stratum.number, arm.stratum.number)
    whole, both = tallies
    mine, theirs = arm.design()[1] / base, -control.design()[1] * value / base**2
    by_records = "record" in of.question.clusters
    errors = minus(errors_of(of, a, mine, both), errors_of(of, c, -theirs, both))
    variance = sum(float(of.shown(s, d[None])[0, 0]) for s, d in ((a, mine), (c, theirs)))
    variance = variance if by_records else variance_of(errors)
    lift = value / base - 1
    reach = inference.quantile(confidence, min(of.freedom(c), of.freedom(a)))
    row |= _around("measured", lift, math.sqrt(variance), reach)
    low, high = row["measured_low"], row["measured_high"]
    row["outcome"] = BETTER if low > 0 else WORSE if high < 0 else UNKNOWN
    if pair is None or pair.estimate.value is None or not pair.production:
        return row
    one, production, worth = pair.estimate, pair.production, pair.estimate.value
    row["records"] = one.stratum.records
    row["shared"] = one.stratum.records / (one.stratum.records + one.stratum.unknown.records)
    ends = pair.ends(confidence, "sampling")
    predicted = worth / production - 1
    row |= {"predicted": predicted, "difference": predicted - lift}
    if not one.told:
        return row
    row |= {"predicted_low": ends["lift_low"], "predicted_high": ends["lift_high"]}
    s, jacobian = one.stratum.number, np.array([1.0, -1 - predicted]) / production
    total = float(jacobian @ one.covariance @ jacobian)
    shown = float(jacobian @ one.of.shown(s, one.design()) @ jacobian)
    if by_records:  # the log's mean is that of the control, to which both are compared
        apart = (one.design()[0] + (lift - predicted) * one.design()[1]) / production
        joint = float(one.of.shown(s, apart[None])[0, 0]) + float(of.shown(a, mine[None])[0, 0])
    else:
        joint = variance_of(minus(errors_of(one.of, s, jacobian @ one.design(), whole), errors))
    joint += total - shown  # what no record shows
    reach = inference.quantile(confidence, min(one.of.freedom(s), of.freedom(c), of.freedom(a)))
    row |= _around("difference", predicted - lift, math.sqrt(max(joint, 0.0)), reach)
    less, more = (unseen / production for unseen in one.unseen())
    row["difference_low"] -= less
    row["difference_high"] += more
    row["holds"] = row["difference_low"] <= 0 <= row["difference_high"]
    row["predicted_se"] = math.sqrt(max(total, 0.0))
    return row


def _around(name: str, middle: float, se: float, reach: float) -> dict[str, float]:
    low, high = middle - reach * se, middle + reach * se
    return {name: middle, f"{name}_se": se, f"{name}_low": low, f"{name}_high": high}
