"""What production and a candidate show and earn in every context, to plan what to show next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from foreclick.batches import EMPTY, Batch, Candidate, Coding, Floats, Ints, batches_of, sums
from foreclick.estimators.cells import row_credit
from foreclick.estimators.ladder.estimate import LadderEstimate
from foreclick.estimators.ladder.fit import fitted
from foreclick.estimators.ladder.spec import LADDERS
from foreclick.inference.planning import Differences
from foreclick.logs import CONTEXT, ITEM, numbered
from foreclick.metrics import Metric
from foreclick.policies import Policy
from foreclick.tallies.base import Tally

PROBABILITY = "probability"
FEW_FREEDOM = 10
"""Degrees of freedom that the variance of all contexts counts for, in each of them."""


class Shown(NamedTuple):
    """The lists of a batch that either policy shows, each once.

    Attributes:
        context: Shape (L,): among all contexts.
        candidate: Shape (L,): how likely each is, by the candidate.
        production: Shape (L,): by production.
        rows: `context`, `item_1` …: what they are.
        cell: Shape (L,): the number of the list as far as the metric counts.
    """

    context: Ints
    candidate: Floats
    production: Floats
    rows: pa.Table
    cell: Ints


@dataclass(frozen=True, eq=False)
class Arms:
    """Production and a candidate, by context; X contexts.

    Attributes:
        contexts: their values.
        n: Shape (X,): records.
        reward, squares: Shape (X,): Σ f and Σ f² over the records.
        within: Shape (X,): Σ (f − f̄_A)² within lists; `freedom`: its degrees of freedom.
        predicted: Shape (X,): what the ladder says of the candidate.
        lists: by batch.
    """

    contexts: pa.Array
    n: Floats
    reward: Floats
    squares: Floats
    within: Floats
    freedom: Floats
    predicted: Floats
    lists: Sequence[Shown]

    @property
    def weight(self) -> Floats:
        """Shape (X,): the share of the traffic that each context has."""
        return np.asarray(self.n / self.n.sum())

    @property
    def mean(self) -> float:
        """F, the mean reward of production."""
        return float(self.reward.sum() / self.n.sum())

    @property
    def production(self) -> Floats:
        """Shape (X,): the mean reward of each context, with as much of F as it has noise.

        By a random effect of contexts: the best linear prediction of the next record.
        """
        own, mean = self.reward / self.n, self.mean
        inside = float((self.squares - self.reward * own).sum())
        noise = inside / max(self.n.sum() - len(self.n), 1.0)
        between = float((self.n * (own - mean) ** 2).sum()) - (len(self.n) - 1) * noise
        between /= float(self.n.sum() - (self.n**2).sum() / self.n.sum()) or 1.0
        if between <= 0:
            return np.full(len(self.n), mean)
        return np.asarray(mean + self.n / (self.n + noise / between) * (own - mean))

    def variances(self) -> tuple[Floats, Floats]:
        """Shape (X,) each: s² of a record of one list, for what production and the candidate show.

        The variance of clicks grows with their mean. A context with few records has that of all
        contexts, at its own mean.
        """
        usual = float(self.within.sum() / max(self.freedom.sum(), 1.0)) / (self.mean or 1.0)
        mean = np.maximum(self.production, _LEAST * self.mean)
        own = (self.within + FEW_FREEDOM * usual * mean) / (self.freedom + FEW_FREEDOM)
        return own, own * np.maximum(self.predicted, _LEAST * self.mean) / mean

    def differences(self) -> Differences:
        """What the two show differently, as far as the metric counts."""
        production, candidate = self.variances()
        parts = []
        for shown in self.lists:
            size = int(shown.cell.max(initial=-1)) + 1
            first = np.zeros(size, dtype=np.int64)
            first[shown.cell] = shown.context
            parts.append(
                (
                    first,
                    sums(shown.cell, shown.candidate, size),
                    sums(shown.cell, shown.production, size),
                )
            )
        context, h, pi = (np.concatenate(column) for column in zip(*parts, strict=True))
        some = np.flatnonzero(np.abs(h - pi) > _ROUNDING)
        context, h, pi = context[some], h[some], pi[some]
        variance = np.where(h > pi, candidate[context], production[context])
        return Differences(context, h, pi, variance, len(self.n))

    def mixed(self, share: Floats) -> pa.Table:
        """The lists of all contexts if each shows the candidate this share of the time.

        `context`, `item_1` …, `probability`; those of a context together, the likeliest first.
        """
        tables = []
        for shown in self.lists:
            part = share[shown.context]
            mass = (1 - part) * shown.production + part * shown.candidate
            order = np.lexsort((np.arange(len(mass)), -mass, shown.context))
            order = order[mass[order] > 0]
            rows = shown.rows.take(pa.array(order))
            tables.append(rows.append_column(PROBABILITY, pa.array(mass[order])))
        return pa.concat_tables(tables, promote_options="default")


_LEAST = 0.01  # of production's mean: nothing is predicted to earn less
_ROUNDING = 1e-12


def arms_of(tally: Tally, candidate: Policy, production: Policy | None, metric: Metric) -> Arms:
    """What the two policies show and earn.

    Args:
        tally: the log.
        candidate: the policy in question; where it has no list, production stays.
        production: what is shown today; None: what the log shows, as often as it did.
        metric: what is counted.
    """
    batches, depth = batches_of(tally), max(tally.shape.depth, metric.depth)
    fit = fitted(tally, LADDERS["ladder"], metric.reward, depth)
    ladder = LadderEstimate(fit, [metric])
    for number, batch in enumerate(batches):
        ladder.count(number, batch)
    columns, lists, contexts, before = [], [], [], 0
    for number, batch in enumerate(batches):
        coding = Coding(batch, depth)
        new = Candidate(coding, candidate)
        earned = ladder.values(number, batch, new)["credit"][:, 0]
        columns.append(_earned(batch, metric, np.where(new.known, earned, np.nan)))
        old = None if production is None else Candidate(coding, production)
        lists.append(_shown(coding, new, old, metric.depth, before))
        contexts.append(batch.contexts.take(pa.array(batch.context_value)))
        before += batch.context_count
    each = {name: np.concatenate([c[name] for c in columns]) for name in columns[0]}
    return Arms(pa.concat_arrays(contexts), lists=lists, **each)


def _earned(batch: Batch, metric: Metric, credit: Floats) -> dict[str, Floats]:
    """Shape (X,) each: sums of rewards, and what the candidate is predicted to earn."""
    f, n, count = row_credit(batch, metric), batch.n, batch.context_count
    reward = sums(batch.row_context, n * f, count)
    squares = sums(batch.row_context, n * f * f, count)
    prefix = batch.prefix[:, min(metric.depth, batch.depth) - 1][batch.row_list]
    size = int(prefix.max(initial=-1)) + 1
    cell_n, cell_f = sums(prefix, n, size), sums(prefix, n * f, size)
    owner = np.zeros(size, dtype=np.int64)
    owner[prefix] = batch.row_context
    there = cell_n > 0
    fitted_ = np.divide(cell_f**2, cell_n, out=np.zeros(size), where=there)
    return {
        "n": batch.context_n,
        "reward": reward,
        "squares": squares,
        "within": np.maximum(squares - sums(owner, fitted_, count), 0.0),
        "freedom": np.maximum(batch.context_n - sums(owner, 1.0 * there, count), 0.0),
        "predicted": np.where(np.isnan(credit), reward, credit) / batch.context_n,
    }


def _shown(
    coding: Coding, new: Candidate, old: Candidate | None, counted: int, before: int
) -> Shown:
    """The lists of both policies in a batch; `counted` positions of them count."""
    batch, width = coding.batch, coding.depth
    if old is None:
        logged = np.full((len(batch.lists), width), EMPTY, dtype=np.int64)
        logged[:, : batch.depth] = batch.lists
        there = batch.list_n > 0
        context = batch.list_context[there].astype(np.int64)
        pairs = logged[there]
        mass = batch.list_n[there] / batch.context_n[context]
    else:
        context = old.lists.context.astype(np.int64)
        pairs, mass = old.lists.pairs.astype(np.int64), old.lists.mass
    own = new.lists
    # Without a list of the candidate, production stays.
    stays = ~new.known[context]
    contexts = np.concatenate([own.context, context, context[stays]])
    key = np.column_stack([contexts, np.concatenate([own.pairs, pairs, pairs[stays]])])
    found, number = np.unique(key, axis=0, return_inverse=True)
    number, size = number.ravel(), len(found)
    parts = np.split(number, [len(own.mass), len(own.mass) + len(mass)])
    h = sums(parts[0], own.mass, size) + sums(parts[2], mass[stays], size)
    pi = sums(parts[1], mass, size)
    cell = np.unique(found[:, : counted + 1], axis=0, return_inverse=True)[1].ravel()
    return Shown(found[:, 0] + before, h, pi, _rows(coding, found[:, 0], found[:, 1:]), cell)


def _rows(coding: Coding, context: Ints, pairs: Ints) -> pa.Table:
    batch = coding.batch
    columns = {CONTEXT: batch.contexts.take(pa.array(batch.context_value[context]))}
    for name, column in zip(numbered(ITEM, pairs.shape[1]), pairs.T, strict=True):
        there = column != EMPTY
        item = np.zeros(len(column), dtype=np.int64)
        item[there] = coding.items_of(column[there])
        columns[name] = coding.view.values.take(pa.array(item, mask=~there))
    return pa.table(columns)
