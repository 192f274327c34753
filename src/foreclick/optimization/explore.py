"""`explore`: what to show next, where and how long, until a candidate's change is detected.

Policies h and π show the lists A of a context x with other probabilities. A log in which they are
shown with probabilities m estimates their difference with a variance of

    v_x / n_x,    v_x = Σ_A (h_A − π_A)² s_A² / m_A,

for n_x records and rewards of variance s_A²: the influence of a record is (h − π) / m (f − f̄_A)
(STATISTICS, section 2). Here m = π + ε_x (h − π): a share ε_x of the traffic is shown h.

Of all ways to deal a share B of the traffic to contexts with shares q_x, the best is the one in
which a little more would help every context alike, −v_x'(ε_x) = λ. While shares are small, that is
Neyman's rule: ε_x in proportion to the standard deviation of what h shows.

Sizes: X contexts, L lists.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from foreclick.batches import (
    EMPTY,
    Candidate,
    CandidateSet,
    Floats,
    Ints,
    batches_of,
    count_periods,
    ratio,
    sums,
)
from foreclick.batches.arrays import value_of_each
from foreclick.engines import write_rows
from foreclick.errors import ModelError, PolicyError
from foreclick.estimation.columns import View
from foreclick.estimation.slots import row_credit
from foreclick.estimators import LADDERS, parse_estimators
from foreclick.inference import bisect, margins, sample_size
from foreclick.ladder.fit import checked, fit_candidates
from foreclick.ladder.score import score_ladder
from foreclick.logs import CONTEXT, ITEM, numbered
from foreclick.metrics import USUAL_METRICS, Metric, only_metric
from foreclick.optimization.optimize import as_lists
from foreclick.options import verb
from foreclick.policies import Lists, Observed, Policy, PolicyLike, policy_for
from foreclick.policies.base import Names
from foreclick.question import Clusters, Question, Target
from foreclick.questions.answers import Evaluation
from foreclick.questions.depth import compared_down
from foreclick.questions.evaluate import evaluate
from foreclick.questions.verdicts import BETTER, WORSE
from foreclick.results import Result, Value
from foreclick.rules import Number, choice
from foreclick.run.estimate import estimate
from foreclick.tallies import LogLike, Tally, local_tally, refuse_drawn
from foreclick.words import about, number_of

SHARE, MAX_SHARE = 0.1, 0.5
"""Of all traffic, the share that is shown the candidate by default; the most of any context."""

ROWS = 10
"""Contexts that have a row of their own; the others are summed up."""

FEW_FREEDOM = 10
"""Degrees of freedom that the variance of all contexts counts for, in each of them."""

_LEAST_EARNED = 0.01  # of production's mean: nothing is predicted to earn less
_ROUNDING = 1e-12
_GRID = 96  # shares at which the gain of a context is known; between them it is nearly a power
_LEAST_SHARE = 1e-7  # of a context
_MORE = 1 + 1e-6  # beyond rounding
_FEW = 5  # records of the candidate that a context needs, for its own mean to be used


@dataclass(frozen=True, repr=False)
class Explored(Result):
    """A plan of an experiment: one row per context, those with most of its traffic first.

    | column | meaning |
    |---|---|
    | context | the context; the last row is all others together |
    | records | its records in the log |
    | differs | the share of its requests that the candidate would answer with another list |
    | share | the share of its traffic to show the candidate |
    | part | its part of all traffic that is shown the candidate |
    | change | candidate − production, as the ladder predicts it |
    | se | the standard error of this change after `days` |

    Attributes:
        share: the share of all traffic that is shown the candidate.
        days: the duration in days; infinite if no duration is enough; None if the number of records
            per day is unknown.
        records: the number of records in that time.
        se: the standard error of the change after these records.
        effect: the change that they detect with `power` at `confidence`, as a share of production.
        policy: what to show: a mix of production and the candidate, with probabilities. Serve it by
            `Lists.serving`, and log the propensities.
        production: what production shows, to compare the candidate with: `evaluate(new_log,
            candidate, baseline=explored.production, estimators="list")`.
        evaluation: the evaluation of the candidate by the log at hand.
        names: the log's own column names, by role.
    """

    share: float = field(kw_only=True)
    days: float | None = field(kw_only=True)
    records: float = field(kw_only=True)
    se: float = field(kw_only=True)
    effect: float = field(kw_only=True)
    policy: Lists = field(kw_only=True, compare=False)
    production: Lists = field(kw_only=True, compare=False)
    evaluation: Evaluation = field(kw_only=True)
    names: Names = field(default_factory=dict, kw_only=True, compare=False)

    def write(self, path: str | Path) -> None:
        """Write the policy as Parquet or CSV, by the file's extension; `fc.Lists` reads it.

        The columns are the context and the list of items, named as in the log, and `probability`.

        Args:
            path: the file; an existing one is replaced.
        """
        write_rows(as_lists(self.policy.table, self.names), path)


@verb(
    missing=choice("error", "production"),
    min_effect=Number(
        "a share of production above 0 and up to 1", lambda v: 0 < v <= 1, "0.02", share=True
    ),
)
def explore(
    log: LogLike,
    candidate: PolicyLike,
    *,
    metrics: str | Metric | Sequence[str | Metric] = USUAL_METRICS[0],
    min_effect: float = 0.02,
    share: float | None = None,
    days: float | None = None,
    power: float = 0.8,
    confidence: float = 0.95,
    missing: Literal["error", "production"] = "error",
) -> Explored:
    """Plan an experiment: how much traffic, in which contexts and how long, to measure a change.

    A share ε_x of the requests of each context, at most a half, is shown the candidate, the others
    what production shows in the log, at random and with logged propensities. After n records, the
    change V(h) − V(π) has a standard error that follows from the influence of records on the
    estimator `list`, which assumes no click model:

        se² = 1/n Σ_x q_x (v_x + (Δ_x − Δ)²),    v_x = Σ_A (h − π)² s_A² / (π + ε_x (h − π))

    Shares minimise it: while they are small, they are proportional to the standard deviation of a
    context's rewards (Neyman, 1934). s² is estimated from the log; for lists that were never shown
    it grows with the reward that the ladder predicts.

    Args:
        log: a Log, a Tally, or anything `read_log` accepts with the default column names.
        candidate: a policy of whole lists.
        metrics: one metric.
        min_effect: the change to detect, as a share of production: 0.02 is 2 %.
        share: the largest share of all traffic that is shown the candidate. By default a tenth;
            with `days`, as much as is needed.
        days: the longest duration in days. By default as long as is needed.
        power: the probability of detecting a change of this size.
        confidence: the confidence level of the interval that detects it.
        missing: how to treat contexts without a list of the candidate: "error" or "production".

    Returns:
        An `Explored`: one row per context; `policy` is what to serve.

    Raises:
        PolicyError: the candidate does not give whole lists.
        ModelError: `days` is given, and the log has no period.

    Examples:
        >>> log = {
        ...     "context": ["q"] * 400,
        ...     "items": [[1, 2]] * 400,
        ...     "clicks": [[1, 0], [0, 0]] * 200,
        ... }
        >>> plan = explore(
        ...     log, {"context": ["q"], "items": [[2, 1]]}, metrics="clicks@2", min_effect=0.1
        ... )
        >>> round(plan.share, 3), plan.days is None
        (0.1, True)
        >>> print(plan.policy.serving())
        Picker(1 context, seed=0)
    """
    metric = only_metric(metrics, "traffic is planned for")
    tally, notes = local_tally(log)
    refuse_drawn(tally, "explore")
    policy = policy_for(tally, candidate)
    if not policy.complete:
        raise PolicyError(
            f"{type(policy).__name__} does not say which items stand together in a list, so it "
            "cannot be shown. Give whole lists with their probabilities, Lists(…)."
        )
    (wanted,), compared = compared_down(
        tally, {"the candidate": policy}, [metric], USUAL_METRICS[:1]
    )
    metric = only_metric(wanted, "traffic is planned for")
    now = evaluate(tally, policy, metrics=metric, missing=missing, confidence=confidence)
    arms = read_arms(tally, policy, Observed(tally), metric)
    per_day = None
    if tally.shape.period and (periods := count_periods(tally)):
        per_day = float(arms.n.sum()) / periods
    if days is not None and per_day is None:
        raise ModelError(
            "days= needs to know how many records a day has, and the log was read without a "
            "period. Read it with period=."
        )
    allowed = None if days is None or per_day is None else days * per_day
    traffic, goal = arms.traffic(MAX_SHARE), min_effect * arms.mean
    margin, q = margins(confidence, power), traffic.weight
    change = np.where(traffic.differs > 0, arms.candidate - arms.production, 0.0)
    between = float(q @ (change - q @ change) ** 2)

    def variance(shares: Floats) -> float:
        """Of the change, times records."""
        return float(q @ traffic.variances(shares)) + between

    if allowed is None or share is not None:
        shares = traffic.best(SHARE if share is None else share)
    else:  # the least traffic that is enough

        def too_small(share: float) -> bool:
            return sample_size(variance(traffic.best(share)), goal, margin) > allowed

        shares = traffic.best(bisect(too_small, 0.0, MAX_SHARE))
    records = sample_size(variance(shares), goal, margin) if allowed is None else allowed
    se = math.sqrt(variance(shares) / records) if records > 0 else 0.0
    effect = margin * se / arms.mean if arms.mean else math.inf
    duration = None if per_day is None else records / per_day
    total = float(q @ shares)
    test = sample_size(_ab_test_variance(arms, tally, policy, metric), goal, margin)
    rows = _rows(arms, traffic, change, shares, records)
    if not traffic.differs.any():
        title = "The candidate shows what production shows: there is nothing to explore."
    elif not goal:
        title = "Production earns nothing, so no share of it can be detected."
    else:
        later = f", and not yet of {min_effect:.2%}" if effect > min_effect * _MORE else ""
        size = "no number of lists is enough"
        if math.isfinite(records):
            size = f"about {about(total * records, 3)} of {about(records, 3)} lists"
        title = (
            f"Show the candidate to {total:.1%} of the traffic"
            f"{'' if duration is None else f' for {_days(duration)}'}: {size}. That detects a "
            f"change of {effect:.2%} in {metric.name} with {power:.0%} power at "
            f"{confidence:.0%} confidence{later}."
        )
    title = f"{title} {compared}".rstrip()
    return Explored(
        rows,
        tuple(rows[0]),
        (*notes, *_notes(now, q, shares, records, test, per_day)),
        title,
        share=total,
        days=duration,
        records=records,
        se=se,
        effect=effect,
        policy=Lists(arms.mixed(shares)),
        production=Lists(arms.mixed(np.zeros(len(shares)))),
        evaluation=now,
        names=tally.names,
    )


def _rows(
    arms: Arms, traffic: Traffic, change: Floats, shares: Floats, records: float
) -> tuple[dict[str, Value], ...]:
    """The contexts that take most of the candidate's traffic, and the others in one row."""
    q = traffic.weight
    order = np.lexsort((np.arange(len(q)), -q, -q * shares))
    size = min(ROWS + 1, len(q))
    row = np.empty(len(q), dtype=np.int64)
    row[order] = np.minimum(np.arange(len(q)), ROWS)
    total = sums(row, q, size)
    names = [str(arms.contexts[int(x)].as_py()) for x in order[:size]]
    if len(q) > size:
        names[-1] = f"{len(q) - ROWS:,} others"

    def mean(values: Floats) -> Floats:
        return sums(row, q / total[row] * values, size)

    variances = mean(traffic.variances(shares))
    columns: dict[str, Iterable[Value]] = {
        "context": names,
        "records": sums(row, arms.n, size),
        "differs": mean(traffic.differs),
        "share": mean(shares),
        "part": sums(row, q * shares, size) / (q @ shares or 1.0),
        "change": mean(change),
        "se": np.sqrt(variances / (records * total)) if records else [None] * size,
    }
    rows = zip(*columns.values(), strict=True)
    return tuple(dict(zip(columns, values, strict=True)) for values in rows)


def _ab_test_variance(arms: Arms, tally: Tally, policy: Policy, metric: Metric) -> float:
    """Of the difference of two means, times the records of a half; users are never divided."""
    q = arms.n / arms.n.sum()
    moved = arms.candidate - float(q @ arms.candidate)
    variance = arms.variance + float(q @ (arms.candidate_noise + moved**2))
    # How much more a mean varies from user to user than independent records would.
    of_mean = []
    kinds: tuple[Clusters, ...] = ("unit", "record") if tally.shape.unit else ()
    for kind in kinds:
        estimators = parse_estimators("rcm")
        question = Question([policy], estimators, (metric,), "production", clusters=(kind,))
        (mean,) = estimate(tally, question).of_candidate(0)
        of_mean.append(float(mean.covariance[1, 1]) if mean.has_variance else 0.0)
    return variance * (max(of_mean[0] / of_mean[1], 1.0) if of_mean and of_mean[1] else 1.0)


def _notes(
    now: Evaluation, q: Floats, shares: Floats, records: float, test: float, per_day: float | None
) -> Iterator[str]:
    """What else should be known; `test` is how many records each half of an A/B test needs."""
    if now["verdict"][0] in (BETTER, WORSE):
        yield f"If the click model holds, this log already has a verdict. {now.verdicts[0]}"
    used = shares > 0
    if used.any():
        yield (
            f"{int(used.sum()):,} of {len(q):,} contexts are randomised, with {q[used].sum():.1%} "
            "of the traffic; in the others the candidate shows what production shows, or too "
            "little would be learnt."
        )
    thin = used & (q * shares < _FEW / max(records, 1.0))
    if thin.any():
        yield (
            f"{number_of(int(thin.sum()), 'context')}, with {q[thin].sum():.1%} of the traffic, "
            f"will show the candidate less than {_FEW} times each, too seldom for a mean of their "
            "own. If that is a large share, evaluate with logging='propensity'."
        )
    if math.isfinite(test):
        days = "" if per_day is None else f" ({_days(2 * test / per_day)} with all the traffic)"
        size = f"{math.ceil(test):,} records in each arm{days}"
        yield f"An A/B test that detects as much needs {size}."


def _days(value: float) -> str:
    if math.isinf(value):
        return "ever"
    return f"{value:.1f} days" if value < 10 else f"{math.ceil(value):,} days"


# --- what two policies show and earn --------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Arms:
    """What production and a candidate show and earn, by context and by list.

    Attributes:
        contexts: their values.
        n: Shape (X,): records.
        mean, variance: of the reward of all records.
        production, candidate: Shape (X,): what each is predicted to earn a record.
        production_noise, candidate_noise: Shape (X,): s² of a record of one list, of each.
        lists: `context`, `item_1` …: those that either shows.
        list_context: Shape (L,): the context of each list.
        list_production, list_candidate: Shape (L,): how likely each is to show it.
        cell: Shape (L,): the number of the list as far as the metric counts.
    """

    contexts: pa.Array
    n: Floats
    mean: float
    variance: float
    production: Floats
    candidate: Floats
    production_noise: Floats
    candidate_noise: Floats
    lists: pa.Table
    list_context: Ints
    list_production: Floats
    list_candidate: Floats
    cell: Ints

    def mixed(self, share: Floats) -> pa.Table:
        """The lists of all contexts if each shows the candidate this share of the time.

        `context`, `item_1` …, `probability`; those of a context together, the likeliest first.
        """
        part = share[self.list_context]
        mass = (1 - part) * self.list_production + part * self.list_candidate
        order = np.lexsort((np.arange(len(mass)), -mass, self.list_context))
        order = order[mass[order] > 0]
        return self.lists.take(pa.array(order)).append_column("probability", pa.array(mass[order]))

    def traffic(self, most: float) -> Traffic:
        """Where the two differ, as far as the metric counts."""
        context = value_of_each(self.cell, self.list_context)
        h = sums(self.cell, self.list_candidate, len(context))
        pi = sums(self.cell, self.list_production, len(context))
        apart = np.flatnonzero(np.abs(h - pi) > _ROUNDING)
        context, h, pi = context[apart], h[apart], pi[apart]
        noise = np.where(h > pi, self.candidate_noise[context], self.production_noise[context])
        return Traffic(context, h, pi, noise, self.n / self.n.sum(), most)


def read_arms(tally: Tally, candidate: Policy, production: Policy, metric: Metric) -> Arms:
    """What the two policies show and earn.

    Args:
        tally: the log.
        candidate: the policy in question; where it has no list, production stays.
        production: what is shown today.
        metric: what is counted.
    """
    batches, depth = batches_of(tally), max(tally.shape.depth, metric.depth)
    ladder = LADDERS["ladder"]
    fits = fit_candidates(tally, ladder, [metric.reward], [candidate], depth, drop=False)
    fit = checked(fits[metric.reward])
    target = Target(ladder.model, metric, math.inf, ladder)
    values, tables, by_context, by_list, contexts_before, lists_before = [], [], [], [], 0, 0
    for batch in batches:
        view = View.of(batch, [candidate], depth)
        new = view.members[0]
        coding = new.coding
        credit = score_ladder(view, [target], fit, rows=False).value[0]
        f, n, count = row_credit(batch, metric), batch.n, batch.context_count
        reward = sums(batch.row_context, n * f, count)
        squares = sums(batch.row_context, n * f * f, count)
        # Σ (f − f̄_A)² within lists, as far as the metric counts, and its degrees of freedom.
        cell = batch.prefix[:, min(metric.depth, batch.depth) - 1][batch.row_list]
        owner = value_of_each(cell, batch.row_context)
        cell_n, cell_f = sums(cell, n, len(owner)), sums(cell, n * f, len(owner))
        within = squares - sums(owner, ratio(cell_f**2, cell_n), count)
        freedom = batch.context_n - sums(owner, 1.0 * (cell_n > 0), count)
        predicted = np.where(new.known, credit, reward) / batch.context_n
        by_context.append((batch.context_n, reward, squares, within, freedom, predicted))
        values.append(batch.contexts)
        both = CandidateSet([new, Candidate(coding, production)])
        lists, (h, pi) = both.lists, both.list_mass
        h = np.where(new.known[lists.context], h, pi)
        cell = lists.prefix[:, metric.depth - 1]
        by_list.append((lists.context + contexts_before, pi, h, cell + lists_before))
        table = {CONTEXT: batch.contexts.take(pa.array(lists.context))}
        for name, pairs in zip(numbered(ITEM, depth), lists.pairs.T, strict=True):
            items = pa.array(coding.items_of(pairs), mask=pairs == EMPTY)
            table[name] = coding.view.values.take(items)
        tables.append(pa.table(table))
        contexts_before, lists_before = contexts_before + count, lists_before + len(pi)
    n, reward, squares, within, freedom, predicted = map(
        np.concatenate, zip(*by_context, strict=True)
    )
    within, freedom = np.maximum(within, 0.0), np.maximum(freedom, 0.0)
    mean = float(reward.sum() / n.sum())
    # The best linear prediction of a context's next record, by a random effect of contexts: its
    # own mean, moved towards that of all as far as it has noise.
    means, earned = reward / n, np.full(len(n), mean)
    inside = float((squares - reward * means).sum()) / max(n.sum() - len(n), 1.0)
    between = float((n * (means - mean) ** 2).sum()) - (len(n) - 1) * inside
    between /= float(n.sum() - (n**2).sum() / n.sum()) or 1.0
    if between > 0:
        earned = mean + n / (n + inside / between) * (means - mean)
    # The variance of clicks grows with their mean. A context with few records has that of all
    # contexts, at its own mean; where rewards never varied, it is taken to be the mean.
    usual = float(within.sum() / max(freedom.sum(), 1.0)) / (mean or 1.0) or 1.0
    least = _LEAST_EARNED * (mean or 1.0)
    level = np.maximum(earned, least)
    noise = (within + FEW_FREEDOM * usual * level) / (freedom + FEW_FREEDOM)
    candidate_noise = noise * np.maximum(predicted, least) / level
    contexts, total = pa.concat_arrays(values), float(squares.sum() / n.sum()) - mean**2
    lists = pa.concat_tables(tables, promote_options="default")
    columns = map(np.concatenate, zip(*by_list, strict=True))
    return Arms(
        contexts, n, mean, total, earned, predicted, noise, candidate_noise, lists, *columns
    )


@dataclass(frozen=True, eq=False)
class Traffic:
    """How well contexts separate two policies, by the share of each that is shown the candidate.

    Attributes:
        context: Shape (L,): of the lists that the two show with unequal probabilities.
        candidate: Shape (L,): h.
        production: Shape (L,): π.
        variance: Shape (L,): s², of the reward of a record that shows the list.
        weight: Shape (X,): q_x, the share of the traffic that each context has.
        most: the share of a context that may be shown the candidate.
    """

    context: Ints
    candidate: Floats
    production: Floats
    variance: Floats
    weight: Floats
    most: float

    @property
    def differs(self) -> Floats:
        """Shape (X,): the share of requests that the two answer with another list."""
        more = np.maximum(self.candidate - self.production, 0.0)
        return sums(self.context, more, len(self.weight))

    def variances(self, share: Floats) -> Floats:
        """Shape (X,): v_x, if the candidate has this share of each context; inf if it is unseen."""
        apart = self.candidate - self.production
        with np.errstate(divide="ignore"):
            each = apart**2 * self.variance / (self.production + share[self.context] * apart)
        return sums(self.context, each, len(self.weight))

    @cached_property
    def _gains(self) -> tuple[Floats, Floats]:
        """Shape (grid,) and (X, grid): shares ε, and −v_x'(ε), what a little more would gain."""
        grid, apart = np.geomspace(_LEAST_SHARE, self.most, _GRID), self.candidate - self.production
        gains = np.empty((len(self.weight), len(grid)))
        for i, share in enumerate(grid):
            each = apart**3 * self.variance / (self.production + share * apart) ** 2
            gains[:, i] = sums(self.context, each, len(self.weight))
        # A gain falls as the share grows; rounding must not hide it.
        return grid, np.minimum.accumulate(gains, axis=1)

    def best(self, budget: float) -> Floats:
        """Shape (X,): the share of each context's traffic that should be shown the candidate.

        Args:
            budget: B, the share of all traffic that may be.
        """
        least = self._shares(0.0)
        if float(self.weight @ least) <= budget:
            return least

        def too_small(price: float) -> bool:
            return float(self.weight @ self._shares(math.exp(price))) > budget

        price = bisect(too_small, -800.0, math.log(float(self._gains[1].max())))
        return self._shares(math.exp(price))

    def _shares(self, price: float) -> Floats:
        """Shape (X,): the share at which the gain of each context falls to the price."""
        grid, gains = self._gains
        above = (gains > price).sum(axis=1)
        row = np.flatnonzero((above > 0) & (above < len(grid)))
        end = above[row]
        left, right = gains[row, end - 1], gains[row, end]
        powers = (right > 0) & (price > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(
                powers,
                (np.log(left) - np.log(price)) / (np.log(left) - np.log(right)),
                (left - price) / (left - right),
            )
        start, stop = grid[end - 1], grid[end]
        shares = np.where(above == len(grid), grid[-1], 0.0)
        shares[row] = np.where(
            powers, start * (stop / start) ** part, start + part * (stop - start)
        )
        return shares
