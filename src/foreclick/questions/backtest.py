"""`backtest`: which estimator would have been right on this very log."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from foreclick import inference
from foreclick.batches import Batches, Bools, Floats, batches_of, records_without_period
from foreclick.curves.learnt import with_curves
from foreclick.errors import BacktestError
from foreclick.estimators import EstimatorLike, parse_estimators
from foreclick.logs import CONTEXT, N
from foreclick.metrics import USUAL_METRICS, Metric, parse_metrics
from foreclick.options import verb
from foreclick.progress import planned, report_reached
from foreclick.question import check_metrics
from foreclick.questions.plan import HELD_OUT, backtest_stages
from foreclick.results import Headline, Result, format_value
from foreclick.run.holdout import FoldErrors, Folds, Protocol, fold_errors
from foreclick.tallies import LogLike, local_tally
from foreclick.words import number_of

USUAL = ("ladder", "list", "ip", "item", "pbm", "rctr")  # the ladder, and those of the paper
_STEADY = "rctr"  # that nothing changes: every list of a context is worth the same
_FEW = 4  # periods; of fewer, a slope has no interval
_CONFIDENCE = 0.95
_ROUNDING = 1e-18
_NOISE = 0.05  # a win that chance alone gives more rarely than this is called larger than its noise


@dataclass(frozen=True, repr=False)
class Backtest(Result):
    """The errors of estimators on held-out periods: one row per estimator × metric × clip.

    | column | meaning |
    |---|---|
    | rmse | root of the mean squared error of the predicted mean reward |
    | bias | the mean error; below 0 for predictions that are too small |
    | floor | the RMSE of a perfect prediction, from the randomness of clicks alone |
    | mean_error | the error of a period's mean over its traffic, beyond that randomness |
    | skill | the share of periods' changes that was predicted, over all contexts: 1 all, 0 none |
    | slope, slope_low, slope_high | the change measured per change predicted, with its interval |
    | folds, contexts | the numbers of predicted periods and contexts |
    | pairs, records | the number of (context, period) pairs, and of held-out records in them |

    Attributes:
        periods: the errors by held-out period.
        by_newness: for each estimator, metric and clip, errors by the share of new lists.
    """

    periods: Result | None = None
    by_newness: Mapping[tuple[str, str, float], Newness] = field(
        default_factory=dict, compare=False
    )
    past = "the backtest"

    @property
    def headline(self) -> Headline:
        """The estimators by their errors, for each metric at its best M."""
        lines: list[tuple[str, ...]] = []
        for metric in dict.fromkeys(self["metric"]):
            best: dict[str, Mapping[str, Any]] = {}
            rows = [row for row in self.rows if row["metric"] == metric]
            for row in sorted(rows, key=lambda row: float(row["rmse"] or 0.0)):
                best.setdefault(str(row["estimator"]), row)
            for i, (name, row) in enumerate(best.items()):
                clip = (
                    "" if row["clip"] == math.inf else f", M = {format_value('clip', row['clip'])}"
                )
                changes = "no changes"
                if name == _STEADY:
                    changes = "no change: the one to beat"
                elif (skill := float(row["skill"] or 0.0)) > 0:
                    changes = f"{skill:.0%} of changes"
                error = f"RMSE {format_value('rmse', row['rmse'])}"
                lines.append(("" if i else metric, name + clip, error, f"predicts {changes}"))
            if rows[0]["floor"] is not None:
                floor = format_value("floor", rows[0]["floor"])
                lines.append(("", "(chance alone)", f"RMSE {floor}"))
        folds, pairs = max(self["folds"]), max(self["pairs"])
        title = (
            f"How far each estimator was off, over {folds:,} held-out periods and {pairs:,} pairs "
            "of a context and a period"
        )
        return Headline(title, tuple(lines))

    def error(self, estimator: str, metric: str, clip: float, new: float | None = None) -> float:
        """The error of a period's mean over its traffic, beyond the randomness of clicks.

        Verdicts are about such means: errors of single contexts cancel in them, as far as they are
        independent.

        Args:
            estimator: the name of a row's estimator.
            metric: the name of its metric.
            clip: its M.
            new: restrict to lists with this share of new slots (an item at a position never shown
                before); by default all lists.

        Raises:
            BacktestError: there is no such row.
        """
        for row in self.rows:
            if (row["estimator"], row["metric"], row["clip"]) == (estimator, metric, clip):
                curve = self.by_newness.get((estimator, metric, clip))
                if new is None or curve is None:
                    return float(row["mean_error"] or 0.0)
                return curve.error(new)
        raise BacktestError(
            f"the backtest has no row for {estimator!r}, {metric!r} and clip {clip:g}. Ask it for "
            "the same estimators, metrics and clips."
        )


@dataclass(frozen=True, eq=False)
class Newness:
    """How the errors of an estimator depend on ν, the share of slots that training never showed.

    In each period, a mean a or a line a + b ν is fitted to the errors of contexts, by records; what
    the noise of clicks adds to its square is taken off.

    Attributes:
        weights: Shape (T, 2, 2): Σ n (1, ν)ᵀ (1, ν) of each period; `noise`: times the variance.
        errors: Shape (T, 2): Σ n (1, ν) error.
    """

    weights: Floats
    noise: Floats
    errors: Floats

    def error(self, new: float | None = None) -> float:
        """The root of the mean square of a + b ν over periods, by records; by default of a."""
        at = np.array([1.0] if new is None else [1.0, new])
        weights, noise = (of[:, : len(at), : len(at)] for of in (self.weights, self.noise))
        by = np.linalg.pinv(weights, hermitian=True) @ at
        noise = np.nan_to_num(np.einsum("ti,tij,tj->t", by, noise, by))
        beyond = np.einsum("ti,ti->t", by, self.errors[:, : len(at)]) ** 2 - noise
        records = self.weights[:, 0, 0]
        return math.sqrt(max(float(records @ beyond), 0.0) / float(records.sum()))


def _newness(errors: FoldErrors, folds: Folds) -> Newness:
    def squares(plain: Floats, powers: Floats) -> Floats:
        return np.moveaxis(np.array([[plain, powers[0]], [powers[0], powers[1]]]), 2, 0)

    metric = errors.target.metric
    _, traffic, *new = folds.noise(metric)
    return Newness(
        squares(folds.records, folds.metrics[metric].new),
        squares(traffic, np.stack(new)),
        np.stack([errors.traffic, errors.traffic_new], axis=1),
    )


@verb()
def backtest(
    log: LogLike,
    *,
    metrics: str | Metric | Sequence[str | Metric] = USUAL_METRICS,
    estimators: EstimatorLike | Sequence[EstimatorLike] = USUAL,
    ranks: int | tuple[int, int] | None = None,
    block: int = 1,
    forward: bool = False,
) -> Backtest:
    """Measure which estimator, and which M, would have been right on this log.

    The protocol of the paper (section 6.1): hold out one period at a time, take what it showed as
    the candidate, predict its mean reward in each context from the other periods, and compare with
    the mean that it earned. Pairs of a context and a period without held-out or without training
    records are skipped and counted. A few numbers that all contexts share are learnt from the whole
    log: the strengths of ladders, and the examination of positions.

    Args:
        log: a Log or Tally with a period.
        metrics: spellings such as "clicks@3" and "dcg@10", or `Metric` values.
        estimators: names of click models, `ClickModel`s, "ladder" or a `Ladder`, or `Weighted`s.
            Many M, ``Weighted("ip", clip=[1, 10, 100])``, take about as long as one.
        ranks: restrict to the most frequent contexts: ``100`` for the first hundred, ``(101,
            1000)`` for those after them.
        block: the number of periods that are held out together, such as 7 for blocks of seven days.
        forward: whether to predict a period from earlier ones only, as production would have to.

    Returns:
        A `Backtest`: one row per estimator × metric × clip, with its errors.

    Raises:
        BacktestError: the log has no period, fewer than two blocks, or no context in two of them.
        MetricError: a metric is misspelt or weighs a reward that the log does not have.
        ModelError: an estimator is misspelt or cannot be used here.

    Examples:
        >>> from foreclick import read_log
        >>> log = read_log(
        ...     {
        ...         "context": ["q"] * 6,
        ...         "items": [[1, 2], [2, 1]] * 3,
        ...         "clicks": [[1, 0], [1, 0], [0, 1], [1, 0], [0, 0], [1, 0]],
        ...         "period": [1, 1, 2, 2, 3, 3],
        ...     },
        ...     period="period",
        ... )
        >>> b = backtest(log, metrics="clicks@1", estimators=["ip", "rctr"])
        >>> [round(error, 3) for error in b["rmse"]]
        [0.354, 0.354]
    """
    return backtest_by(Protocol({}, forward), log, metrics, estimators, ranks, block)


def backtest_by(
    protocol: Protocol,
    log: LogLike,
    metrics: object,
    estimators: object,
    ranks: int | tuple[int, int] | None = None,
    block: int = 1,
) -> Backtest:
    """A backtest by any protocol, whose folds and contexts are those of the log.

    Every (context, period) counts alike, as in the paper; a protocol may count them by records.
    """
    tally, notes = local_tally(log)
    if not tally.shape.period:
        raise BacktestError(
            "a backtest holds out one period at a time, and the log was read without. Name the "
            "column of the day or week: read_log(…, period='…')."
        )
    wanted = parse_metrics(metrics)
    check_metrics(tally, wanted)
    batches = batches_of(tally)
    labels, folds = _folds(batches, block)
    protocol = replace(protocol, folds=folds, contexts=_most_frequent(batches, ranks))
    asked = parse_estimators(estimators)
    with planned(backtest_stages(tally, [e.name for e in asked])):
        learnt, assumed = with_curves(tally, asked, wanted)
        steady = [] if any(e.name == _STEADY for e in learnt) else parse_estimators(_STEADY)
        report_reached(HELD_OUT)
        every, results = fold_errors(tally, [*learnt, *steady], wanted, protocol)
    if not results.pairs.any():
        raise BacktestError(
            "no context was seen in two periods, so there is nothing to predict any of them from. "
            "Use a coarser context (a query class, or context=None) or longer blocks, block=7."
        )
    still = {e.target.metric: e for e in every if e.target.model.name == _STEADY}
    errors = every[: len(every) - len(steady) * len(wanted)]
    curves = [_newness(e, results) for e in errors]
    names = [(e.target.model.name, e.target.metric.name, e.target.clip) for e in errors]
    rows = [
        _measures(e, results)
        | {
            "mean_error": curve.error(),
            "folds": int((results.pairs > 0).sum()),
            "contexts": results.contexts,
            "pairs": int(results.pairs.sum()),
            "records": float(results.records.sum()),
        }
        | _changes(e.error, still[e.target.metric].error, results)
        for e, curve in zip(errors, curves, strict=True)
    ]
    detail = [
        _measures(e, results, i, period=label)
        | {
            "truth": results.metrics[e.target.metric].truth[i] / results.weight[i],
            "pairs": int(results.pairs[i]),
            "records": float(results.records[i]),
        }
        for e in errors
        for i, label in enumerate(labels)
        if results.pairs[i]
    ]
    notes += [_levels_note(m, errors, still[m], results) for m in wanted]
    notes += [_changes_note(m, rows) for m in wanted] + assumed
    undated = records_without_period(tally)
    notes += _skipped(results, len(labels), undated, forward=protocol.forward)
    return Backtest(
        tuple(rows),
        tuple(rows[0]),
        tuple(notes),
        periods=Result(tuple(detail), tuple(detail[0])),
        by_newness=dict(zip(names, curves, strict=True)),
    )


# --- what is held out ---------------------------------------------------------------------------


def _folds(batches: Batches, block: int) -> tuple[list[Any], dict[Any, int]]:
    """The names of the folds in their order, and the fold of each period."""
    codes = batches.codebook.periods
    periods = [] if codes is None else codes.values.to_pylist()
    dated = [period for period in periods if period is not None]
    first: dict[int, Any] = {}  # a block is named by its first period
    blocks: dict[Any, Any] = {}
    for order, period in enumerate(dated):  # of text, in periods; of dates, in days
        apart = period - dated[0] if isinstance(period, dt.date | int) and block > 1 else order
        distance = apart.days if isinstance(apart, dt.timedelta) else int(apart)
        blocks[period] = first.setdefault(distance // block, period)
    names = list(dict.fromkeys(blocks.values()))
    if len(names) < 2:
        raise BacktestError(
            f"the log has {number_of(len(dated), 'period')} in {number_of(len(names), 'block')}; a "
            "backtest needs two blocks at least, one to hold out and one to learn from. Read more "
            "days, or use shorter blocks."
        )
    return names, {period: names.index(name) for period, name in blocks.items()}


def _most_frequent(batches: Batches, ranks: int | tuple[int, int] | None) -> pa.Array | None:
    """The contexts that take part; None for all."""
    if ranks is None:
        return None
    low, high = (1, ranks) if isinstance(ranks, int) else ranks
    if not 1 <= low <= high:
        raise BacktestError(f"ranks={ranks!r}: ranks count from 1, such as 100 or (101, 1000).")
    counts = pa.concat_tables(
        pa.table({CONTEXT: batch.contexts, N: batch.context_n}) for batch in batches
    ).sort_by([(N, "descending"), (CONTEXT, "ascending")])
    if low > len(counts):
        raise BacktestError(
            f"ranks={ranks!r}: the log has {number_of(len(counts), 'context')}. Give lower ranks."
        )
    return counts[CONTEXT].slice(low - 1, high - low + 1).combine_chunks()


# --- results ------------------------------------------------------------------------------------


def _measures(
    errors: FoldErrors,
    folds: Folds,
    at: int | slice = slice(None),
    **segment: Any,  # noqa: ANN401
) -> dict[str, Any]:
    """Errors over all folds, or in one of them."""
    target, weight = errors.target, folds.weight[at].sum()
    noise = folds.noise(target.metric)[0, at].sum() / weight
    return {
        "estimator": target.model.name,
        "metric": target.metric.name,
        "clip": target.clip,
        **segment,
        "rmse": math.sqrt(errors.squared[at].sum() / weight),
        "bias": errors.error[at].sum() / weight,
        "floor": None if math.isnan(noise) else math.sqrt(noise),
    }


def _changes(error: Floats, steady: Floats, folds: Folds) -> dict[str, float | None]:
    """How well changes from period to period were predicted, all contexts of a period together.

    "Nothing changes" predicts every period by the mean of the others. Its error, with the sign
    turned, is what actually changed, and an estimator predicts that plus its own error.

    Args:
        error: Shape (T,): Σ weight × (predicted − actual) of an estimator, by fold.
        steady: the same of "nothing changes".
        folds: what came of every fold.
    """
    judged = folds.pairs > 0
    weight = folds.weight[judged]
    actual = -steady[judged] / weight
    predicted = error[judged] / weight + actual
    total = float(actual @ actual)
    missed = float((predicted - actual) @ (predicted - actual))

    def slope(some: Bools) -> float | None:
        """Of the line through 0 that fits actual changes to predicted ones; None without any."""
        x, y = predicted[some], actual[some]
        size = float(x @ x)
        return float(x @ y) / size if size > _ROUNDING * float(y @ y) else None

    periods = np.arange(len(actual))
    middle, without = slope(periods >= 0), [slope(periods != left) for left in periods]
    known = [each for each in without if each is not None]
    low = high = None
    if middle is not None and len(known) == len(periods) > _FEW:
        _, low, high = inference.jackknife(middle, known, _CONFIDENCE)
    skill = 1 - missed / total if total else None
    return {"skill": skill, "slope": middle, "slope_low": low, "slope_high": high}


def _changes_note(metric: Metric, rows: list[dict[str, Any]]) -> str:
    """In one sentence: which estimator predicts how the means of periods change."""
    sloped = [row for row in rows if row["metric"] == metric.name and row["slope"] is not None]
    best = max(sloped, key=lambda row: row["skill"] or 0.0, default=None)
    subject = f"{metric.name}, changes of all contexts together:"
    if best is None or (best["skill"] or 0.0) <= 0:
        return (
            f"{subject} no estimator predicted the means of periods better than 'nothing changes'."
        )
    low, high = best["slope_low"], best["slope_high"]
    span = "" if low is None else f" ({low:.2f} to {high:.2f})"
    return (
        f"{subject} {best['estimator']} predicted {best['skill']:.0%} of them; actual changes were "
        f"{best['slope']:.2f}{span} times the predicted ones."
    )


def _levels_note(
    metric: Metric, errors: Sequence[FoldErrors], steady: FoldErrors, folds: Folds
) -> str:
    """In one sentence: which estimator won, by how much, and whether that is more than noise.

    "Nothing changes" cannot tell one candidate from another, and does not win: it is what the
    others have to beat.
    """
    subject = f"{metric.name}, levels of single contexts:"
    seeing = [e for e in errors if e.target.metric == metric and e.target.model.sees_items]
    if not seeing:
        return f"{subject} all estimators ignore which items are shown."

    def rmse(e: FoldErrors) -> float:
        return math.sqrt(e.squared.sum() / folds.weight.sum())

    def named(e: FoldErrors) -> str:
        clip = f" (M = {e.target.clip:g})" if math.isfinite(e.target.clip) else ""
        return "'nothing changes'" if e is steady else e.target.model.name + clip

    best = min(seeing, key=rmse)
    others = [e for e in seeing if e.target.model.name != best.target.model.name]
    second = min([*others, steady], key=rmse)
    written, of_second, of_steady = (format_value("rmse", rmse(e)) for e in (best, second, steady))
    if rmse(best) >= rmse(steady):
        return (
            f"{subject} no estimator predicted better than 'nothing changes' ({_STEADY}, RMSE "
            f"{of_steady}); the nearest was {named(best)}, {written}."
        )
    less = format_value("share", 1 - rmse(best) / rmse(second) if rmse(second) else 0.0)
    won = (
        f"{subject} {named(best)} predicted best, RMSE {written}, {less} below {named(second)} "
        f"({of_second})"
    )
    # How often periods like these would differ as much by chance: paired, with Student's t.
    judged = folds.pairs > 0
    count, weight = int(judged.sum()), folds.weight[judged]
    if count < 3:
        return f"{won}; with so few periods, that may be noise."
    difference = (best.squared - second.squared)[judged]
    mean = difference.sum() / weight.sum()
    spread = float(np.sum((difference - mean * weight) ** 2))
    error = math.sqrt(count / (count - 1) * spread) / weight.sum()
    chance = (
        float(2 * inference.t_tail(abs(mean) / error, count - 1)) if error else float(mean == 0)
    )
    noise = "larger than" if chance < _NOISE else "within"
    return f"{won}; the difference is {noise} its noise over {count} periods (p = {chance:.2g})."


def _skipped(folds: Folds, count: int, undated: float, *, forward: bool) -> list[str]:
    """Notes on pairs of a context and a period that were not judged."""
    notes = []
    pairs, judged = folds.selected * count, int(folds.pairs.sum())
    if pairs > judged:
        others = "earlier periods" if forward else "other periods"
        notes.append(
            f"Of {pairs:,} pairs of a context and a period, {judged:,} were judged; skipped: "
            f"{pairs - folds.shown:,} without records in the period, {folds.untrained:,} without "
            f"records in {others}."
        )
    if undated:
        notes.append(f"Left out: {number_of(undated, 'record')} without a period.")
    return notes
