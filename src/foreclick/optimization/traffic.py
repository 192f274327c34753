"""What two policies show and earn in each context, and the best way to deal traffic to contexts.

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
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from foreclick.batches import EMPTY, Candidate, CandidateSet, Floats, Ints, batches_of, ratio, sums
from foreclick.batches.arrays import value_of_each
from foreclick.estimate.cells import row_credit
from foreclick.estimate.columns import View
from foreclick.estimate.fitting import fit_priors
from foreclick.estimate.prior import score_prior
from foreclick.estimators import LADDERS
from foreclick.inference import bisect
from foreclick.logs import CONTEXT, ITEM, numbered
from foreclick.metrics import Metric
from foreclick.policies import Policy
from foreclick.question import Target
from foreclick.tallies.base import Tally

FEW_FREEDOM = 10
"""Degrees of freedom that the variance of all contexts counts for, in each of them."""

_LEAST_EARNED = 0.01  # of production's mean: nothing is predicted to earn less
_ROUNDING = 1e-12
_GRID = 96  # shares at which the gain of a context is known; between them it is nearly a power
_LEAST_SHARE = 1e-7  # of a context


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
    fit = fit_priors(tally, ladder, [metric.reward], [candidate], depth, drop=False)[metric.reward]
    target = Target(ladder.model, metric, math.inf, ladder)
    values, tables, by_context, by_list, contexts_before, lists_before = [], [], [], [], 0, 0
    for batch in batches:
        view = View.of(batch, [candidate], depth, ())
        new = view.members[0]
        coding = new.coding
        credit = score_prior(view, [target], fit, rows=False).value[0]
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
        values.append(batch.contexts.take(pa.array(batch.context_value)))
        both = CandidateSet([new, Candidate(coding, production)])
        lists, (h, pi) = both.lists, both.list_mass
        h = np.where(new.known[lists.context], h, pi)
        cell = lists.prefix[:, metric.depth - 1]
        by_list.append((lists.context + contexts_before, pi, h, cell + lists_before))
        table = {CONTEXT: batch.contexts.take(pa.array(batch.context_value[lists.context]))}
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
