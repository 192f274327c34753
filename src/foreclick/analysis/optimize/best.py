"""`optimize`: the best policy that a log supports, and what it is honestly worth."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from foreclick.analysis.curves import with_curves
from foreclick.questions.evaluate import Evaluation, evaluate
from foreclick.analysis.optimize.counts import ALL, Counting, Counts, with_lists
from foreclick.analysis.optimize.folds import SLOTS, Folds
from foreclick.analysis.optimize.gains import gains
from foreclick.analysis.optimize.optimized import Chosen, Optimized, summed_up, worded
from foreclick.analysis.optimize.options import (
    NamedItems,
    chosen_by,
    offered,
    over_lists,
)
from foreclick.analysis.optimize.widening import widened
from foreclick.estimate.trend import ITEMS_CHANGE, drift_of
from foreclick.batches import Batches, Floats, Totals, batches_of, pooled, ratio
from foreclick.engines import TableLike
from foreclick.errors import PolicyError
from foreclick.estimate.fit import fitted, sample_counts, sampled
from foreclick.estimate.question import check_metrics
from foreclick.estimate.spec import EstimatorLike, Ladder, Weighted, parse_estimators
from foreclick.estimators.examination import curve_information
from foreclick.logs import ITEM, numbered
from foreclick.metrics import USUAL_METRICS, Metric
from foreclick.optimization.cells import Model
from foreclick.optimization.examination import ExaminationError, examination_covariance
from foreclick.optimization.ladder import LadderRates
from foreclick.options import checked
from foreclick.policies import Policy
from foreclick.progress import Say, Voice, working
from foreclick.questions.curves import with_curves
from foreclick.tallies import LogLike
from foreclick.tallies.base import Tally, settle

if TYPE_CHECKING:
    from foreclick.analysis.optimize.answers import Answers, Found, Solving


@checked()
def optimize(  # noqa: PLR0913 - constraints are of many kinds; all but one are keywords
    log: LogLike,
    *,
    metric: str | Metric | Sequence[str | Metric] = USUAL_METRICS[1],
    estimator: EstimatorLike | Sequence[EstimatorLike] = "ladder-ip",
    pessimism: float = 1.0,
    clip: float = math.inf,
    min_shown: float = 0,
    fallback: bool = True,
    max_change: float | None = None,
    pinned: TableLike | None = None,
    banned: Iterable[Hashable] | TableLike | None = None,
    at_least: Iterable[tuple[Iterable[Hashable], float]] = (),
    lists: TableLike | None = None,
    max_lists: int | None = None,
    deterministic: bool = False,
    explore: float = 0.0,
    judge: EstimatorLike = "ladder",
    folds: int = 2,
    confidence: float = 0.95,
    workers: int = 1,
    metrics: str | Metric | Sequence[str | Metric] | None = None,
    estimators: EstimatorLike | Sequence[EstimatorLike] | None = None,
    progress: Say | None = None,  # noqa: ARG001 - `checked` heeds it
) -> Optimized:
    """The ranking policy that would earn most, as far as the log can tell.

    In every context, among all policies, the one with the largest estimate (Li et al., KDD 2018,
    section 4.3), where each click rate is lowered by `pessimism` standard errors: whoever takes the
    best of many estimates takes their errors too. For the same reason its value is not that
    estimate: the records are dealt to `folds`, a policy is chosen without each of them, and judged
    by it. So `value` is that of policies chosen from a part of the log: the policy itself, chosen
    from all of it, is rather better.

    Args:
        log: a Log, a Tally, or anything `read_log` accepts with the default column names.
        metric: what is to be large. Lists are as long as it counts, or as those of the log.
        estimator: "ladder-ip" (which other ladders stand for too: the best list is found by what
            an item earns at a position), or one of the paper's with a cell of items, positions or
            lists: "ip", "item", "pbm", "list", "prefix", or a `ClickModel` of that kind.
        pessimism: by how many standard errors rates are lowered; 0 for the paper's plain optimum.
        clip: M of the paper's estimators.
        min_shown: how often an item must have been shown (at the position, if the estimator tells
            positions apart; the list, by "list") to be shown.
        fallback: whether a context stays as it is unless the new policy is better than production
            even after pessimism. Where production breaks a constraint, for example shows what is
            banned, it does not stay.
        max_change: the share of a context's slots that may differ from production's, for a careful
            first step.
        pinned: a table of `context`, `item`, `position`: what must be where.
        banned: items that must not be shown; or a table of `context` and `item`.
        at_least: items and the least share of the slots that they get together, in every context
            which has any of them: ``[(new_items, 0.1)]``.
        lists: which lists there are to choose from: "logged" for those of the log, or a table of
            `context` and `items`; contexts that it leaves out stay as they are. By default, every
            order of a context's items.
        max_lists: how many lists a context has at most.
        deterministic: one list a context.
        explore: how often production's own list is shown instead, so that the next log still sees
            what this one saw.
        judge: the estimator that says what the policy is worth.
        folds: in how many parts the records are. More choose by more records, and judge by fewer.
            1: the policy is not judged, and `value` is the naive one.
        confidence: of the intervals.
        workers: how many processes solve at a time. In a script, more than one need the usual
            ``if __name__ == "__main__":``.
        metrics: the same as `metric`.
        estimators: the same as `estimator`.
        progress: called with what is being done; by default it is shown on a terminal.

    Examples:
        >>> log = {
        ...     "context": ["q"] * 400,
        ...     "items": [[1, 2], [2, 1]] * 200,
        ...     "clicks": [[0, 1], [1, 0]] * 100 + [[0, 0], [1, 0]] * 100,
        ... }
        >>> best = optimize(log, metric="clicks@1")
        >>> best.policy.table.to_pylist()
        [{'context': 'q', 'item_1': 2, 'probability': 1.0, 'changed': True}]
        >>> best.production, round(best.value, 2)
        (0.5, 1.0)
    """
    # Solvers are slow to import.
    from foreclick.analysis.optimize.answers import Solving  # noqa: PLC0415
    from foreclick.optimization.context import Solver  # noqa: PLC0415

    what, by = chosen_by(
        metric if metrics is None else metrics,
        estimator if estimators is None else estimators,
        clip,
    )
    named = NamedItems(pinned, banned, tuple(at_least))
    if explore and named:
        raise PolicyError(
            "explore= shows production's own lists, which need not keep to pinned=, banned= and "
            "at_least=. Leave one of them out."
        )
    counted, notes = settle(log)
    check_metrics(counted.shape, [what])
    (by,), assumed = with_curves(counted, [by], [what])
    notes += assumed
    depth = min(counted.shape.depth, what.depth)
    constraints = replace(
        named.read(counted, depth),
        max_change=max_change,
        max_lists=1 if deterministic else max_lists,
        min_shown=min_shown,
        fallback=fallback,
        explore=explore,
    )
    with working() as say:
        say("Counting")
        batches = batches_of(counted)
        parts = Folds.of_log(batches, folds)
        model = _model(batches, what, by, by.clip[0] if by.clip else clip, pessimism)
        counting = Counting(what.reward, depth, folds, over_lists(by, lists), SLOTS)
        counts = _counts(batches, parts, counting, offered(lists))
        solving = Solving(Solver(model, constraints), folds, counting.by_list)
        answers = _solved(solving, counts, workers, batches.rows, say)
        say("Judging")
        judged = None
        if len(answers.held_out):
            by_judge = _judging(batches.tally, judge, what)
            judged = _judged(parts.split(batches), answers.held_out, what, by_judge, confidence)
            judged = _allowing(judged, model, answers, judge)
        if model.ladder is not None:
            notes += drift_of(batches, what.reward, np.array(model.ladder.examined)).notes()
    row = summed_up(answers.contexts, judged, (by.name, what.name), explore, folds)
    return Optimized(
        (row,),
        tuple(row),
        (*notes, *worded(row, answers.contexts, judged, explore, folds)),
        policy=Chosen(answers.policy, items=numbered(ITEM, depth)),
        evaluation=judged,
        gains=gains(answers.contexts, 1 - explore),
        contexts=answers.contexts,
    )


def _model(
    batches: Batches, metric: Metric, estimator: Weighted | Ladder, clip: float, pessimism: float
) -> Model:
    """The estimator in numbers."""
    depth = min(batches.shape.depth, metric.depth)
    theta = metric.theta[:depth]
    if isinstance(estimator, Weighted):
        model = estimator.model
        cell = str(model.cell) if model.over_lists else "ip" if model.pins_position else "item"
        return Model(cell, theta, model.examined(depth), clip, None, pessimism)
    fit = fitted(batches.tally, estimator, metric.reward, metric.depth)
    error = None
    if estimator.examination is None:
        error = _examination_error(batches.tally, metric.reward, np.array(fit.examined))
    of_position, of_item, of_context = fit.strengths
    ladder = LadderRates((of_position, of_item, of_context), fit.examined)
    ladder = ladder._replace(base=_base_rate(batches, metric.reward, ladder))
    return Model("ip", theta, (1.0,) * depth, math.inf, ladder, pessimism, error)


def _examination_error(tally: Tally, reward: str, p: Floats) -> ExaminationError:
    """How uncertain the examination is that a ladder has learnt."""
    n, w = sample_counts(sampled(tally, reward))
    clicks = w.sum(axis=0)
    covariance = examination_covariance(curve_information(n, w, p))
    return ExaminationError(covariance, ratio(clicks, clicks.sum()))


def _base_rate(batches: Batches, reward: str, ladder: LadderRates) -> float:
    """The click rate on the last rung of a ladder, that of the whole log."""
    totals = Totals()
    counting = Counting(reward, batches.shape.depth, 1, by_list=False, slots=SLOTS)
    for batch in batches:
        for counts in counting.parts(batch, np.zeros(len(batch.n), dtype=np.int64)):
            n, c = ladder.passed_on(counts.slots(ALL))
            totals.add("n", n, counts.pair_context)
            totals.add("c", c, counts.pair_context)
    return float(ratio(totals.sum("c"), totals.sum("n"))[0])


def _counts(
    batches: Batches, folds: Folds, counting: Counting, given: Policy | None
) -> Iterator[Counts]:
    """The counts of the whole log, some contexts at a time; `given` are lists to choose from."""
    before = 0
    for whole in batches:
        extended, lists = (whole, None) if given is None else with_lists(whole, given)
        batch, fold = folds.of(extended)
        yield from counting.parts(batch, fold, lists, before)
        before += whole.context_count


def _solved(
    solving: Solving, counts: Iterator[Counts], workers: int, rows: int, say: Voice
) -> Found:
    """The policies of all contexts, and how far the work is while it goes on."""
    from foreclick.analysis.optimize.answers import joined  # noqa: PLC0415 - slow to import

    def parts() -> Iterator[Answers]:
        done = 0
        for part in pooled(solving, counts, workers):
            yield part
            done += part.rows
            say("Choosing the best lists", min(done / max(rows, 1), 1))

    return joined(parts())


def _judging(tally: Tally, judge: EstimatorLike, metric: Metric) -> EstimatorLike:
    """The judge.

    A ladder learns from the whole log what contexts share, and from a fold the rates by which its
    policies are judged.
    """
    (by,), _ = with_curves(tally, parse_estimators(judge, math.inf), [metric])
    if isinstance(by, Ladder):
        fitted(tally, by, metric.reward, metric.depth)  # stays with the tally
    return by


def _allowing(judged: Evaluation, model: Model, answers: Found, judge: EstimatorLike) -> Evaluation:
    """The judgement with the errors of the examination in its intervals, if the judge uses it.

    The ladder that judges learns the same examination as the one that chooses.
    """
    (by,) = parse_estimators(judge, math.inf)
    learns = isinstance(by, Ladder) and by.examination is None
    if model.examination is None or not learns:
        return judged
    se = model.examination.se(answers.lever / answers.records)
    return widened(
        judged,
        se,
        f"How much positions are examined is itself an estimate, which adds {se:.2g} to the "
        "standard error.",
    )


def _judged(
    split: Tally, policies: Policy, metric: Metric, judge: EstimatorLike, confidence: float
) -> Evaluation:
    """What policies are worth to the records that they were not chosen from.

    A fold of a context is a context of its own, whose policy was chosen without it: so this is one
    evaluation like any other.
    """
    found = evaluate(
        split,
        policies,
        metrics=metric,
        estimators=judge,
        missing="production",
        confidence=confidence,
    )
    # What is said of trends is said of the whole log.
    notes = tuple(note for note in found.notes if not note.startswith(ITEMS_CHANGE))
    return replace(found, notes=notes)
