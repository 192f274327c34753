"""`replay`: past A/B tests, predicted from the control's clicks beside what was measured.

The control's records are the log, the lists that the other arm showed are the candidate. With the
prediction L̂ = V̂(h) / V(control) − 1 and the measurement M = V(arm) / V(control) − 1, both of the
same days, the error of L̂ − M is that of one sum over clusters: what days do to both arms cancels.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from foreclick import inference
from foreclick.errors import ForeclickWarning, PolicyError, SourceError
from foreclick.estimation.clusters import clusters_of
from foreclick.estimation.covariance import errors_of, minus, variance_of
from foreclick.estimation.estimates import Estimate
from foreclick.logs import CONTEXT, Log, N, read_log
from foreclick.logs.roles import MissingColumnsError
from foreclick.metrics import USUAL_METRICS, AnyMetric, parse_any
from foreclick.options import verb
from foreclick.policies import Lists, Observed
from foreclick.progress import report_step
from foreclick.question import check_metrics
from foreclick.questions.asked import largest_slots, make_question
from foreclick.questions.check import traffic_notes
from foreclick.questions.intervals import Pair
from foreclick.questions.verdicts import BETTER, UNKNOWN, WORSE, judge_pairs
from foreclick.results import Headline, Result, format_value, span
from foreclick.rules import column
from foreclick.run.estimate import estimate
from foreclick.tallies import LogLike
from foreclick.tallies.base import Tally, local_tally, part, with_text
from foreclick.words import few, number_of, one_of

# Names that an arm has if it is what was there before.
CONTROLS = ("control", "a", "off", "baseline", "base", "production", "0", "false")
ENOUGH = 1_000  # records that an arm needs for the other one to be predicted from it
_SHARED = 0.9  # of the control's records, in contexts that both arms have
_NUMBERS = ("predicted", "measured", "difference")
_ENDS = ("", "_se", "_low", "_high")
_FEW = 5  # tests; of fewer, nobody can say how wide intervals should be


@dataclass(frozen=True, repr=False)
class Replay(Result):
    """Past A/B tests: one row per test × direction × estimator × metric.

    | column | meaning |
    |---|---|
    | experiment, log, arm | the test, the arm whose clicks predict, and the arm that is predicted |
    | predicted | the lift of the arm by the clicks of the log, with its interval and verdict |
    | measured | the lift of the arm by its own clicks, with its interval and verdict |
    | difference | predicted − measured, with its interval; `holds`: whether that contains 0 |
    | forward | whether the control predicts |
    | shared | the share of the log's records in contexts that both arms have |
    | records, arm_records | the records of the log and of the arm |

    Each number has its standard error (`_se`) and the ends of its interval (`_low`, `_high`). The
    sum of two replays has the tests of both.

    Attributes:
        confidence: the confidence level of intervals.
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

    def tests(self, metric: str) -> list[Mapping[str, Any]]:
        """The rows of the estimator that answers, of tests predicted from the control."""
        key = metric, self.answering
        return [
            row for row in self.rows if row["forward"] and (row["metric"], row["estimator"]) == key
        ]

    @cached_property
    def summary(self) -> Result:
        """One row per estimator × metric, over the tests predicted from the control.

        It has the share of differences whose interval contains 0, the bias and the slope of
        measured on predicted lifts, the numbers of right and wrong verdicts, and `widening`, by
        which factor errors exceed what intervals allow.
        """
        groups: dict[object, list[Mapping[str, Any]]] = {}
        for row in self.rows:
            if row["forward"] and row["difference_se"] is not None:
                groups.setdefault((row["estimator"], row["metric"]), []).append(row)
        totals = [_total(rows, self.confidence) for rows in groups.values()]
        return Result(tuple(totals), tuple(totals[0]) if totals else ())

    def total(self, estimator: str, metric: str) -> Mapping[str, Any] | None:
        """The row of the summary for an estimator and a metric; None if there is none."""
        rows = self.summary.rows
        return next((r for r in rows if (r["estimator"], r["metric"]) == (estimator, metric)), None)

    @property
    def headline(self) -> Headline:
        """How many tests would have been called right, and each of them."""
        metric, answering = self["metric"][0], self.answering
        rows = self.tests(metric)
        plain = len({row["experiment"] for row in rows}) == len(rows) > 1
        lines = []
        for row in rows:
            predicted, measured = (
                (f"{c} {format_value('lift', row[c])}", f"({span('lift', *_ends(row, c))})")
                for c in ("predicted", "measured")
            )
            name = str(row["experiment"]) if plain else test_name(row["experiment"], row["arm"])
            lines.append((name, *predicted, str(row["verdict"]), *measured))
        total = self.total(answering, metric)
        if total is None:
            return Headline(f"No A/B test could be predicted ({metric})", tuple(lines))
        tests, called, right, wrong = (total[c] for c in ("tests", "called", "right", "wrong"))
        title = (
            f"Of {number_of(tests, 'A/B test')}, {answering} would have called {called}: {right} "
            f"right, {wrong} wrong, {called - right - wrong} left open by the test ({metric})"
        )
        bias = f"{format_value('lift', total['bias'])} ({span('lift', *_ends(total, 'bias'))})"
        sentences = [
            f"Predicted and measured agree within chance in {total['holds']} of {tests}.",
            f"On average, predictions were off by {bias}.",
        ]
        if total["slope_low"] is not None:
            low, high = _ends(total, "slope")
            times = f"{total['slope']:.2f} ({low:.2f} to {high:.2f}) times"
            sentences.append(f"Measured lifts were {times} the predicted ones.")
        if total["widening"] is not None and tests >= _FEW:
            low, high = _ends(total, "widening")
            fit = (
                "too wide" if high < 1 else "too short" if low > 1 else "as wide as they should be"
            )
            sentences.append(
                f"Intervals were {fit}: errors were {low:.2f} to {high:.2f} times what they allow."
            )
        return Headline(title, tuple(lines), tuple(sentences))

    @property
    def shown(self) -> tuple[str, ...]:
        """The columns that the table prints, without those that are the same in all rows."""
        dull = {c for c in ("experiment", "shared") if len(set(self[c])) == 1}
        dull |= {"forward", "records", *(c for c in self.columns if c.endswith("_se"))}
        return tuple(c for c in self.columns if c not in dull)

    def error(self, estimator: str, metric: str, clip: float, reach: float) -> float:  # noqa: ARG002
        """By how much to extend an interval to both sides: (f − 1) · reach, with f the widening.

        Raises:
            SourceError: the replay has no test by this estimator and metric.
        """
        total = self.total(estimator, metric)
        if total is None:
            raise SourceError(
                f"the replay has no test of {metric!r} by {estimator!r}. Ask it for the same "
                "metrics, and evaluate by the default estimators."
            )
        return max(float(total["widening"] or 1.0) - 1.0, 0.0) * reach


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
    """Predict past A/B tests from the control's clicks, beside what the tests measured.

    For each test, the control's clicks predict the lift of what the other arm showed, by the
    estimators that answer by default; the arm's own clicks measure it. Where both arms have 1,000
    records, the control is also predicted from the arm. The prediction leaves out contexts that
    only one arm has, and days before the test: the tested model was trained on their clicks, and
    production was another one.

    Args:
        log: a Log or Tally with the lists and clicks of all arms, read with the columns below as
            `segments`, and with `period` and `unit` if there are any.
        variant: the segment that names the arm; records without a value are left out.
        experiment: the segment that names the test, if the log has several.
        control: the value of production's arm; by default the arm called "control" or the like,
            else that with most records.
        metrics: spellings such as "clicks@3" and "dcg@10", or `Metric` and `Ratio` values.
        confidence: the confidence level of intervals.

    Returns:
        A `Replay`: one row per test × direction × estimator × metric.

    Raises:
        SourceError: the log lacks a segment, has fewer than two arms, or no arm is called so.

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
    wanted = parse_any(metrics)
    names = [name for name in (experiment, variant) if name is not None]
    if not isinstance(log, Log | Tally):
        try:
            log = read_log(log, segments=names)
        except MissingColumnsError as error:
            raise error.by_option(variant=variant, experiment=experiment) from None
    tally, notes = local_tally(log)
    if unread := [name for name in names if name not in tally.shape.segments]:
        raise SourceError(
            f"the log was read without the column {unread[0]!r}, which names the arm or the test. "
            f"Read the log again: read_log(…, segments={names!r})."
        )
    check_metrics(tally, [part for metric in wanted for part in metric.parts])
    rows: list[dict[str, Any]] = []
    for arms in _tests(with_text(tally, names), experiment, variant, control, notes):
        title = test_name(arms.experiment, arms.names[1])
        report_step(f"Predicting {title}")
        remarks = traffic_notes(arms.both, variant, arms.names) if arms.forward else []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ForeclickWarning)
            rows += _rows(arms, variant, wanted, confidence, notes, remarks)
        notes += [f"{title}: {remark}" for remark in remarks]
    return Replay(tuple(rows), tuple(rows[0]), tuple(dict.fromkeys(notes)), confidence=confidence)


class _Arms(NamedTuple):
    """Two arms of a test: the records of the log, of both, and of the arm that is predicted."""

    experiment: str
    names: tuple[str, str]
    forward: bool
    log: Tally
    both: Tally
    arm: Tally


def _tests(
    tally: Tally, experiment: str | None, variant: str, control: object, notes: list[str]
) -> Iterator[_Arms]:
    """The pairs of arms, in both directions where both have enough records."""
    sizes: dict[str, dict[str, float]] = {}
    columns = [*([experiment] if experiment else []), variant]
    for row in tally.stored.added(columns, N).to_pylist():
        test = row[experiment] if experiment else ""
        if test is not None and row[variant] is not None:
            sizes.setdefault(test, {})[row[variant]] = row[N]
    alone = sorted(test for test, arms in sizes.items() if len(arms) < 2)
    if len(alone) == len(sizes):
        every = few(sorted({repr(arm) for arms in sizes.values() for arm in arms}))
        raise SourceError(
            f"no test of the log has two arms: {variant!r} is {every or 'empty everywhere'}. Name "
            "the column of the arm, variant=…, and read the log with the records of all arms."
        )
    if alone:
        notes.append(f"Left out: {number_of(len(alone), 'test')} with one arm, {few(alone)}.")
    chosen = str(control).lower() if isinstance(control, bool) else str(control)
    for test in sorted(sizes.keys() - set(alone)):
        arms = sizes[test]
        if control is not None and chosen not in arms:
            raise SourceError(
                f"control={control!r} is no arm of the test {test!r}: say {one_of(sorted(arms))}."
            )
        usual = [arm for arm in arms if arm.lower() in CONTROLS]
        base = chosen if control is not None else [*usual, max(arms, key=arms.__getitem__)][0]
        here = part(tally, experiment, [test]) if experiment else tally
        old = part(here, variant, [base])
        for other in sorted(arms.keys() - {base}):
            both, new = part(here, variant, [base, other]), part(here, variant, [other])
            yield _Arms(test, (base, other), True, old, both, new)
            if min(arms[base], arms[other]) >= ENOUGH:
                yield _Arms(test, (other, base), False, new, both, old)


# --- one test -------------------------------------------------------------------------------------


def _rows(
    arms: _Arms,
    variant: str,
    metrics: Sequence[AnyMetric],
    confidence: float,
    notes: list[str],
    remarks: list[str],
) -> Iterator[dict[str, Any]]:
    """A row for each estimator and metric of one direction; adds notes, and remarks on the test."""
    base, other = arms.names
    lists = arms.arm.stored.added([CONTEXT, *arms.arm.shape.items], N).to_pyarrow()
    n, context = lists[N].to_numpy(), lists[CONTEXT].combine_chunks().dictionary_encode().indices
    number = np.asarray(context.fill_null(-1)) + 1
    lists = lists.set_column(lists.num_columns - 1, "share", [n / np.bincount(number, n)[number]])
    # Lists, not `Observed`: the candidate is what was shown, not a sample of what might have been.
    policy = Lists(lists, context=CONTEXT, items=arms.arm.shape.items, probability="share")
    clusters, doubts = clusters_of(arms.log, "auto")
    notes += doubts
    question, _ = make_question(arms.log, [policy], metrics, missing="drop", clusters=clusters)
    by_arm, _ = make_question(
        arms.both,
        [Observed(arms.both)],
        metrics,
        "rctr",
        logging="frequency",
        by=(variant,),
        clusters=clusters,
    )
    measured = {
        (one.stratum.segment[variant], one.metric): one
        for one in estimate(arms.both, by_arm).of_candidate()
    }
    keys = [(e.name, metric) for e in question.estimators for metric in metrics]
    pairs, verdicts = dict[Any, Pair](), dict[Any, str]()
    try:
        estimates = estimate(arms.log, question)
    except PolicyError:
        remarks.append(
            "not predicted, because no context is in both arms. Read the log with a coarser "
            "context: a query class, or context=None."
        )
    else:
        ones = estimates.of_candidate()
        if (shared := _shared(ones[0])) < _SHARED:
            remarks.append(
                f"{shared:.0%} of the records of {base!r} are in contexts that both arms have. "
                "Only these are predicted; all are measured. A coarser context has more of them."
            )
        if any(fit.feedback for fit in estimates.fits):
            remarks.append(
                f"the rankers learn from their clicks. If {other!r} learnt from those of {base!r} "
                "during the test, it is predicted too high."
            )
        pairs = dict(zip(keys, map(Pair, ones), strict=True))
        largest = largest_slots(arms.log, ones)
        _, judged = judge_pairs(list(pairs.values()), largest, confidence)
        verdicts = {key: verdict.word for key, verdict in zip(keys, judged, strict=True)}
    for key in keys:
        control, arm = (measured[each, key[1]] for each in arms.names)
        yield {
            "experiment": arms.experiment,
            "log": base,
            "arm": other,
            "metric": key[1].name,
            "estimator": key[0],
            **_numbers(pairs.get(key), control, arm, (arms.log, arms.both), confidence),
            "verdict": verdicts.get(key, UNKNOWN),
            "forward": arms.forward,
            "arm_records": arm.stratum.records,
        }


def _shared(one: Estimate) -> float:
    """The share of the log's records in contexts that both arms have."""
    return one.stratum.records / (one.stratum.records + float(one.stratum.unknown.records))


def _numbers(
    pair: Pair | None,
    control: Estimate,
    arm: Estimate,
    tallies: tuple[Tally, Tally],
    confidence: float,
) -> dict[str, Any]:
    """Predicted, measured and their difference, with intervals."""
    row: dict[str, Any] = {f"{name}{end}": None for name in _NUMBERS for end in _ENDS}
    row |= {"holds": None, "outcome": UNKNOWN, "shared": 0.0, "records": 0.0}

    def fill(name: str, middle: float, variance: float, freedom: float) -> None:
        se = math.sqrt(max(variance, 0.0))
        reach = inference.quantile(confidence, freedom) * se
        numbers = (middle, se, middle - reach, middle + reach)
        row.update({f"{name}{end}": n for end, n in zip(_ENDS, numbers, strict=True)})

    base, value, (log, both) = control.production, arm.production, tallies
    if not base or value is None:
        return row
    measures, c, a = control.estimates, control.stratum.number, arm.stratum.number
    of_arm, of_control = arm.design()[1] / base, -control.design()[1] * value / base**2
    by_records = "record" in measures.question.clusters
    errors = minus(errors_of(measures, a, of_arm, both), errors_of(measures, c, -of_control, both))
    arm_variance, control_variance = (
        float(measures.shown(s, d[None])[0, 0]) for s, d in ((a, of_arm), (c, of_control))
    )
    variance = arm_variance + control_variance if by_records else variance_of(errors)
    freedom, lift = min(measures.freedom(c), measures.freedom(a)), value / base - 1
    fill("measured", lift, variance, freedom)
    low, high = row["measured_low"], row["measured_high"]
    row["outcome"] = BETTER if low > 0 else WORSE if high < 0 else UNKNOWN
    if pair is None or pair.estimate.value is None or not pair.production:
        return row
    one, production = pair.estimate, pair.production
    predicted = pair.estimate.value / production - 1
    row |= {"predicted": predicted, "difference": predicted - lift}
    row |= {"records": one.stratum.records, "shared": _shared(one)}
    if not one.has_variance:
        return row
    ends = pair.ends(confidence)
    row |= {"predicted_low": ends["lift_low"], "predicted_high": ends["lift_high"]}
    s, design = one.stratum.number, one.design()
    jacobian = np.array([1.0, -1 - predicted]) / production
    total = float(jacobian @ one.covariance @ jacobian)
    row["predicted_se"] = math.sqrt(max(total, 0.0))
    if by_records:  # the log's mean is that of the control, to which both are compared
        apart = (design[0] + (lift - predicted) * design[1]) / production
        joint = float(one.estimates.shown(s, apart[None])[0, 0]) + arm_variance
    else:
        joint = variance_of(minus(errors_of(one.estimates, s, jacobian @ design, log), errors))
    shown = float(jacobian @ one.estimates.shown(s, design) @ jacobian)
    joint += total - shown  # what no record shows
    if not by_records:
        joint += float(jacobian @ one.estimates.of_drawing(s, design) @ jacobian)
    fill("difference", predicted - lift, joint, min(one.estimates.freedom(s), freedom))
    less, more = (unseen / production for unseen in one.unseen())
    row["difference_low"] -= less
    row["difference_high"] += more
    row["holds"] = row["difference_low"] <= 0 <= row["difference_high"]
    return row


# --- all tests ------------------------------------------------------------------------------------


def test_name(experiment: object, arm: object) -> str:
    """A test and its arm, in a word or two."""
    return f"{experiment}, {arm}" if experiment else str(arm)


def _ends(row: Mapping[str, Any], name: str) -> tuple[Any, Any]:
    return row[f"{name}_low"], row[f"{name}_high"]


def _total(rows: Sequence[Mapping[str, Any]], confidence: float) -> dict[str, Any]:
    """What tests say together, of one estimator and metric."""
    values = {c: np.array([row[c] for row in rows]) for c in rows[0] if c.startswith(_NUMBERS)}
    predicted, measured = values["predicted"], values["measured"]
    of_predicted, of_measured, of_both = (values[f"{name}_se"] ** 2 for name in _NUMBERS)
    difference, rest = predicted - measured, np.maximum(of_both - of_predicted, 0)
    covariance = np.stack([of_predicted, of_measured, (of_predicted + of_measured - of_both) / 2])
    printed = (values["predicted_high"] - values["predicted_low"]) / 2
    printed = (printed / inference.quantile(confidence, math.inf)) ** 2
    calls = [(row["verdict"], row["outcome"]) for row in rows if row["verdict"] in (BETTER, WORSE)]
    total = {
        "estimator": rows[0]["estimator"],
        "metric": rows[0]["metric"],
        "tests": len(rows),
        "holds": sum(bool(row["holds"]) for row in rows),
        "called": len(calls),
        "right": sum(verdict == outcome for verdict, outcome in calls),
        "wrong": sum(set(call) == {BETTER, WORSE} for call in calls),
    }
    for name, number in (
        ("bias", inference.mean_difference(difference, of_both, confidence)),
        ("slope", inference.slope(predicted, measured, covariance, confidence)),
        ("widening", inference.widening(difference, printed, rest, confidence)),
    ):
        total[name], total[f"{name}_low"], total[f"{name}_high"] = number or (None, None, None)
    return total
