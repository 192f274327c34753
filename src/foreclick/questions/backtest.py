"""`backtest`: which estimator would have been right on this very log."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from foreclick import inference
from foreclick.batches import Batches, Floats, batches_of
from foreclick.errors import BacktestError
from foreclick.estimate.holdout import FoldErrors, Folds, Protocol, fold_errors
from foreclick.estimators import EstimatorLike, parse_estimators
from foreclick.learn.curves import with_curves
from foreclick.logs import CONTEXT, N
from foreclick.metrics import USUAL_METRICS, Metric, parse_metrics
from foreclick.options import verb
from foreclick.question import check_metrics
from foreclick.results import Headline, Result, Value, format_value
from foreclick.rules import choice
from foreclick.tallies import LogLike
from foreclick.tallies.base import settle
from foreclick.words import number_of

Weight = Literal["pairs", "records"]
Block = int | Mapping[Any, Any] | Callable[[Any], Any] | None

_STEADY = "rctr"  # that nothing changes: every list of a context is worth the same
_FEW = 4  # periods; of fewer, a slope has no interval
_CONFIDENCE = 0.95
_ROUNDING = 1e-18
USUAL = ("ladder", "list", "ip", "item", "pbm", "rctr")
"""The ladder, and the estimators of the paper."""

_NOISE = 0.05  # a win that chance alone gives more rarely than this is called larger than its noise


class Hindsight(Result):
    """Predictions beside what came, whose errors a verdict can allow for."""

    past = "the backtest"

    def error(self, estimator: str, metric: str, clip: float, reach: float) -> float:
        """By how much further than its reach an interval should go."""
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class Backtest(Hindsight):
    """How far each estimator was off: one row per estimator × metric × clip.

    | column | meaning |
    |---|---|
    | rmse | root of the mean squared error of the predicted mean reward |
    | bias | the mean error; below 0 where it predicts too little |
    | floor | the RMSE that clicks' own randomness would leave to a perfect prediction |
    | mean_error | how far the mean over a period's traffic was off, beyond that randomness |
    | skill | how much of the periods' changes it predicted, over all contexts: 1 all, 0 nothing |
    | slope, slope_low, slope_high | how much changed where it predicted 1, with its interval |
    | folds, contexts | how many periods and contexts were predicted |
    | pairs, records | how many (context, period) pairs, and the records held out in them |

    Attributes:
        periods: the same by held-out period.
        weight: whether (context, period) pairs count alike, or by their held-out records.
    """

    periods: Result | None = None
    weight: Weight = "pairs"

    @property
    def headline(self) -> Headline:
        """The estimators by their errors, for each metric at its best M."""
        lines: list[tuple[str, ...]] = []
        for metric in dict.fromkeys(self["metric"]):
            best: dict[str, Mapping[str, Value]] = {}
            rows = [row for row in self.rows if row["metric"] == metric]
            for row in sorted(rows, key=lambda row: float(row["rmse"] or 0.0)):
                best.setdefault(str(row["estimator"]), row)
            start = len(lines)
            lines += [("" if i else metric, *_line(row)) for i, row in enumerate(best.values())]
            if len(lines) > start and rows[0]["floor"] is not None:
                floor = format_value("floor", rows[0]["floor"])
                lines.append(("", "(chance alone)", f"RMSE {floor}"))
        folds, pairs = max(self["folds"]), max(self["pairs"])
        title = (
            f"How far each estimator was off, over {folds:,} held-out periods and {pairs:,} pairs "
            "of a context and a period"
        )
        return Headline(title, tuple(lines))

    def error(self, estimator: str, metric: str, clip: float, reach: float = 0.0) -> float:  # noqa: ARG002
        """How far the mean over a period's traffic was off, beyond the noise of clicks.

        What a verdict is about is such a mean: errors of single contexts cancel in it, as far as
        they are independent.
        """
        for row in self.rows:
            if (row["estimator"], row["metric"], row["clip"]) == (estimator, metric, clip):
                return float(row["mean_error"] or 0.0)
        raise BacktestError(
            f"the backtest has no row for {estimator!r}, {metric!r} and clip {clip:g}. Ask it for "
            "the same estimators, metrics and clips."
        )


@verb(weight=choice("pairs", "records"))
def backtest(
    log: LogLike,
    *,
    metrics: str | Metric | Sequence[str | Metric] = USUAL_METRICS,
    estimators: EstimatorLike | Sequence[EstimatorLike] = USUAL,
    ranks: int | tuple[int, int] | None = None,
    min_records: float | None = None,
    min_held: float = 0,
    block: Block = None,
    forward: bool = False,
    weight: Weight = "pairs",
) -> Backtest:
    """Which estimator, and which M, would have been right on this log.

    The protocol of the paper (section 6.1): hold out one period at a time, take what it showed as
    the candidate, predict its mean reward in each context from the other periods, and compare with
    what it got. Pairs of a context and a period without held-out or without training records are
    skipped and counted. A few numbers that all contexts share are learnt from the whole log: the
    strengths of ladders, and how much positions are examined.

    Args:
        log: a Log or Tally with a period.
        metrics: spellings such as "clicks@3" and "dcg@10", or `Metric` values.
        estimators: names of click models, `ClickModel`s, "ladder" or a `Ladder`, or `Weighted`s:
            many M, ``Weighted("ip", clip=[1, 10, 100])``, cost about as much as one.
        ranks: only the most frequent contexts: ``100`` for the first hundred, ``(101, 1000)`` for
            those that follow them.
        min_records: only contexts with at least so many records.
        min_held: judge a context in a period only if it has at least so many records there.
        block: hold out several periods at once: 7 for blocks of seven days, or a mapping or a
            function from the period to its block.
        forward: predict a period from earlier ones only, as production would have to.
        weight: "pairs" counts every (context, period) alike, as the paper does; "records" by the
            held-out records.

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
    counted, where = settle(log)
    if not counted.shape.period:
        raise BacktestError(
            "a backtest holds out one period at a time, and the log was read without. Name the "
            "column of the day or week: read_log(…, period='…')."
        )
    asked = parse_metrics(metrics)
    check_metrics(counted.shape, asked)
    batches = batches_of(counted)
    labels, folds, undated = _folds(batches, block)
    protocol = Protocol(
        folds=folds,
        forward=forward,
        weight=weight,
        min_held=min_held,
        contexts=_chosen(batches, ranks, min_records),
    )
    wanted, assumed = with_curves(counted, parse_estimators(estimators), asked)
    steady = [] if any(e.name == _STEADY for e in wanted) else parse_estimators(_STEADY)
    added = len(steady) * len(asked)
    found = fold_errors(counted, [*wanted, *steady], asked, protocol)
    if not found.pairs.any():
        raise BacktestError(
            "no context was seen in two periods, so there is nothing to predict any of them from. "
            "Use a coarser context (a query class, or context=None) or longer blocks, block=7."
        )
    still = {e.target.metric: e for e in found.errors if e.target.model.name == _STEADY}
    errors = found.errors[: len(found.errors) - added]
    found = replace(found, errors=errors)
    rows = [_row(e, found) | _changes(e.error, still[e.target.metric].error, found) for e in errors]
    notes = where + [_winner(m, found, still) for m in asked]
    notes += [_foresight(m, rows) for m in asked]
    notes += assumed + _skipped(found, len(labels), undated, forward=forward)
    detail = [row for errors in found.errors for row in _by_period(errors, found, labels)]
    return Backtest(
        tuple(rows),
        tuple(rows[0]),
        tuple(notes),
        periods=Result(tuple(detail), tuple(detail[0])),
        weight=weight,
    )


# --- what is held out ---------------------------------------------------------------------------


def _folds(batches: Batches, block: Block) -> tuple[list[Any], dict[Any, int], float]:
    """The names of the folds in their order, the fold of each period, and records without one."""
    codes = batches.codebook.periods
    periods = [] if codes is None else codes.values.to_pylist()
    dated = [period for period in periods if period is not None]
    undated = 0.0
    if len(dated) < len(periods):  # no period comes last
        undated = sum(batch.n[batch.clusters["period"] == len(dated)].sum() for batch in batches)
    blocks = _blocks(dated, block)
    names = list(dict.fromkeys(blocks.values()))
    if len(names) < 2:
        raise BacktestError(
            f"the log has {number_of(len(dated), 'period')} in {number_of(len(names), 'block')}; a "
            "backtest needs two "
            "blocks at least, one to hold out and one to learn from. Read more days, or use "
            "shorter blocks."
        )
    folds = {period: names.index(name) for period, name in blocks.items()}
    return names, folds, undated


def _blocks(periods: list[Any], block: Block) -> dict[Any, Any]:
    """The name of each period's block: the period itself, the user's, or that of its first."""
    if block is None:
        return {period: period for period in periods}
    if isinstance(block, Mapping):
        return {period: block[period] for period in periods if period in block}
    if callable(block):
        return {period: block(period) for period in periods}
    if type(block) is not int or block < 1:
        raise BacktestError(
            f"block={block!r}: a number of periods, such as 7, or a mapping or function from the "
            "period to its block."
        )
    numbers = [_distance(periods[0], period, i) // block for i, period in enumerate(periods)]
    first: dict[int, Any] = {}
    return {p: first.setdefault(b, p) for p, b in zip(periods, numbers, strict=True)}


def _distance(first: Any, period: Any, order: int) -> int:  # noqa: ANN401 - periods are of any type
    """How many periods lie between: days between dates; for text, how many there are."""
    if isinstance(period, dt.date):
        return int((period - first).days)
    return int(period - first) if isinstance(period, int) else order


def _chosen(
    batches: Batches,
    ranks: int | tuple[int, int] | None,
    min_records: float | None,
) -> pa.Array | None:
    """The contexts that take part; None for all."""
    if ranks is None and min_records is None:
        return None
    low, high = (1, ranks) if isinstance(ranks, int) else ranks or (1, math.inf)
    if not 1 <= low <= high:
        raise BacktestError(f"ranks={ranks!r}: ranks count from 1, such as 100 or (101, 1000).")
    counts = pa.concat_tables(
        pa.table({CONTEXT: batch.contexts, N: batch.context_n}) for batch in batches
    ).sort_by([(N, "descending"), (CONTEXT, "ascending")])
    rank = np.arange(1, len(counts) + 1)
    taken = (rank >= low) & (rank <= high)
    if min_records is not None:
        taken &= counts[N].to_numpy() >= min_records
    if not taken.any():
        raise BacktestError(
            f"no context of the log is left by ranks={ranks!r}, min_records={min_records!r}. Ask "
            "for less."
        )
    return counts[CONTEXT].filter(pa.array(taken)).combine_chunks()


# --- results ------------------------------------------------------------------------------------


def _row(errors: FoldErrors, found: Folds) -> dict[str, Any]:
    weight = found.weight.sum()
    return {
        "estimator": errors.target.model.name,
        "metric": errors.target.metric.name,
        "clip": errors.target.clip,
        "rmse": _rmse(errors, found),
        "bias": errors.error.sum() / weight,
        "floor": _floor(found.noise[errors.target.metric].sum() / weight),
        "mean_error": _mean_error(errors, found),
        "folds": int((found.pairs > 0).sum()),
        "contexts": found.contexts,
        "pairs": int(found.pairs.sum()),
        "records": float(found.records.sum()),
    }


def _mean_error(errors: FoldErrors, found: Folds) -> float:
    """√(mean of e² − noise) over periods, by records; e is the error of a period's traffic."""
    n = np.where(found.records > 0, found.records, 1.0)
    noise = np.nan_to_num(found.traffic_noise[errors.target.metric]) / n**2
    beyond = float(found.records @ ((errors.traffic / n) ** 2 - noise))
    return math.sqrt(max(beyond, 0.0) / float(found.records.sum()))


def _changes(error: Floats, steady: Floats, found: Folds) -> dict[str, float | None]:
    """How well changes from period to period were predicted, all contexts of a period together.

    "Nothing changes" predicts every period by the mean of the others. Its error, with the sign
    turned, is what actually changed, and an estimator predicts that plus its own error.

    Args:
        error: Shape (T,): Σ weight × (predicted − actual) of an estimator, by fold.
        steady: the same of "nothing changes".
        found: the folds.
    """
    judged = found.pairs > 0
    weight = found.weight[judged]
    actual = -steady[judged] / weight
    predicted = error[judged] / weight + actual
    total = float(actual @ actual)
    missed = float((predicted - actual) @ (predicted - actual))
    skill = 1 - missed / total if total else None
    slope = _slope(predicted, actual)
    left = np.arange(len(actual))
    without = [_slope(predicted[left != d], actual[left != d]) for d in left]
    ends: tuple[float | None, float | None] = None, None
    if slope is not None and None not in without and len(without) > _FEW:
        told = inference.jackknife(slope, [w for w in without if w is not None], _CONFIDENCE)
        ends = told.low, told.high
    return {"skill": skill, "slope": slope, "slope_low": ends[0], "slope_high": ends[1]}


def _slope(predicted: Floats, actual: Floats) -> float | None:
    """Of the line through 0 that fits actual changes to predicted ones; None if there are none."""
    size = float(predicted @ predicted)
    return float(predicted @ actual) / size if size > _ROUNDING * float(actual @ actual) else None


def _foresight(metric: Metric, rows: list[dict[str, Any]]) -> str:
    """In one sentence: which estimator predicts how the means of periods change."""
    mine = [row for row in rows if row["metric"] == metric.name and row["slope"] is not None]
    best = max(mine, key=lambda row: row["skill"] or 0.0, default=None)
    whose = f"{metric.name}, changes of all contexts together:"
    if best is None or (best["skill"] or 0.0) <= 0:
        return (
            f"{whose} the means of periods changed in no way that an estimator predicted better "
            "than 'nothing changes'."
        )
    low, high = best["slope_low"], best["slope_high"]
    span = "" if low is None else f" ({low:.2f} to {high:.2f})"
    return (
        f"{whose} {best['estimator']} predicted {best['skill']:.0%} of them, and where it "
        f"predicted 1, {best['slope']:.2f}{span} came."
    )


def _line(row: Mapping[str, Value]) -> tuple[str, ...]:
    """An estimator, at its best M, its error, and how much of the changes it predicted."""
    clip = float(row["clip"] or math.inf)
    name = str(row["estimator"]) + (
        f", M = {format_value('clip', clip)}" if clip < math.inf else ""
    )
    error = f"RMSE {format_value('rmse', row['rmse'])}"
    if row["estimator"] == _STEADY:
        return name, error, "predicts no change: the one to beat"
    skill = float(row["skill"] or 0.0)
    foresees = f"predicts {skill:.0%} of changes" if skill > 0 else "predicts no changes"
    return name, error, foresees


def _by_period(errors: FoldErrors, found: Folds, labels: list[Any]) -> list[dict[str, Any]]:
    return [
        {
            "estimator": errors.target.model.name,
            "metric": errors.target.metric.name,
            "clip": errors.target.clip,
            "period": label,
            "rmse": math.sqrt(errors.squared[i] / found.weight[i]),
            "bias": errors.error[i] / found.weight[i],
            "floor": _floor(found.noise[errors.target.metric][i] / found.weight[i]),
            "truth": found.truth[errors.target.metric][i] / found.weight[i],
            "pairs": int(found.pairs[i]),
            "records": float(found.records[i]),
        }
        for i, label in enumerate(labels)
        if found.pairs[i]
    ]


def _floor(variance: float) -> float | None:
    return None if math.isnan(variance) else math.sqrt(variance)


def _winner(metric: Metric, found: Folds, steady: Mapping[Metric, FoldErrors]) -> str:
    """In one sentence: who won, by how much, and whether that is more than noise.

    Who predicts that nothing changes cannot tell one candidate from another, and does not win: it
    is whom the others have to beat.
    """
    mine = [e for e in found.errors if e.target.metric == metric and e.target.model.sees_items]
    whose = f"{metric.name}, levels of single contexts:"
    if not mine:
        return f"{whose} no estimator was asked for that sees what changes."
    best = min(mine, key=lambda e: e.squared.sum())
    rmse, still = _rmse(best, found), _rmse(steady[metric], found)
    if rmse >= still:
        return (
            f"{whose} no estimator predicted better than 'nothing changes' ({_STEADY}, RMSE "
            f"{format_value('rmse', still)}); the nearest was {_named(best)}, "
            f"{format_value('rmse', rmse)}."
        )
    others = [e for e in mine if e.target.model.name != best.target.model.name]
    second = min([*others, steady[metric]], key=lambda e: e.squared.sum())
    theirs = _rmse(second, found)
    won = f"{whose} {_named(best)} predicted best, RMSE {format_value('rmse', rmse)}"
    if theirs == rmse:
        return f"{won}, no better than {_named(second)}."
    less = format_value("share", 1 - rmse / theirs)
    won += f", {less} below {_named(second)} ({format_value('rmse', theirs)})"
    chance = _by_chance(best, second, found)
    if chance is None:
        return f"{won}; with so few periods nobody can say whether that is noise."
    over = f"over {int((found.pairs > 0).sum())} periods (p = {chance:.2g})"
    if chance < _NOISE:
        return f"{won}; the win is larger than its own noise {over}."
    so = "it may be luck" if second.target.model.name == _STEADY else "either will do"
    return f"{won}; the win is within its own noise {over}, so {so}."


def _rmse(errors: FoldErrors, found: Folds) -> float:
    return math.sqrt(errors.squared.sum() / found.weight.sum())


def _named(errors: FoldErrors) -> str:
    if errors.target.model.name == _STEADY:
        return "'nothing changes'"
    return errors.target.model.name + (
        f" (M = {errors.target.clip:g})" if math.isfinite(errors.target.clip) else ""
    )


def _by_chance(a: FoldErrors, b: FoldErrors, found: Folds) -> float | None:
    """How often periods like these would differ as much by chance: paired, with Student's t."""
    judged = found.pairs > 0
    count = int(judged.sum())
    if count < 3:
        return None
    weight = found.weight[judged]
    difference = (a.squared - b.squared)[judged]
    mean = difference.sum() / weight.sum()
    spread = difference - mean * weight
    error = math.sqrt(count / (count - 1) * float(np.sum(spread**2))) / weight.sum()
    if error == 0:
        return 0.0 if mean else 1.0
    return float(2 * inference.t_tail(abs(mean) / error, count - 1))


def _skipped(found: Folds, folds: int, undated: float, *, forward: bool) -> list[str]:
    notes = []
    asked, judged = found.selected * folds, int(found.pairs.sum())
    empty, small = asked - found.shown, found.shown - found.untrained - judged
    if asked > judged:
        source = "earlier" if forward else "other"
        causes = [
            f"{empty:,} without records in the period",
            f"{found.untrained:,} without records in {source} periods",
            *([f"{small:,} with too few held out"] if small else []),
        ]
        notes.append(
            f"Of {asked:,} pairs of a context and a period, {judged:,} were judged; skipped: "
            f"{', '.join(causes)}."
        )
    if undated:
        notes.append(f"Left out: {number_of(undated, 'record')} without a period.")
    return notes
