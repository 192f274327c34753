"""The best policy of every context, from its counts, within constraints.

What a policy is worth is, of each cell of the click model, its click rate, lowered by its errors,
times how much the policy exposes it; with a clip M, up to M times as much as the log did.

By the ladder, what was never shown at a position has a rate too, from the rungs below, and the rate
α of an item leans on how production places it (`ladder.coefficients`). A rate r of a cell with n
records, on a rung of strength s, has the variance

    r / (n + s) + (s / (n + s))² · the variance of the rung below,

of which the last is that of the level of the context. Errors of what all contexts share, γ = (β,
log p), come on top: where items hardly moved, the ratios of p are hardly known, and an
item that would be moved is a guess however often it was shown. To first order a rate r_ak has, from
these errors alone, the variance

    dᵀ Σ d,    d_j = ∂ r_ak / ∂ γ_j.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from foreclick.allowances import SHARED_ERROR_WEIGHT
from foreclick.batches import EMPTY, Bools, Floats, Ints, ratio, sums
from foreclick.ladder.features import expected_rates, powers, rank_scores
from foreclick.ladder.fitted import LadderFit
from foreclick.ladder.rates import rate_jacobian, rates
from foreclick.ladder.rungs import Rung, RungChain
from foreclick.logs import CONTEXT, ITEM, numbered
from foreclick.optimization.counts import ALL, Counts, fold_number
from foreclick.optimization.solvers import Cells, Limits, best_choices, decode, marginals

# Why a context has the policy that it has: a new one, or production's.
CHANGED, UNSURE, IMPOSSIBLE = "changed", "nothing sure", "not possible"

Cell = Literal["list", "ip", "item"]
PROBABILITY = "probability"
ANY = ()  # the context of items that are banned everywhere
_TINY = 1e-9


class ItemRates(NamedTuple):
    """Click rates of items at positions, and how they depend on γ.

    The derivative of a rate is lent_ak (slope_aj + alpha_a ∂ log p_k / ∂ γ_j).

    Attributes:
        rate: Shape (P, K).
        variance: Shape (P, K): by the noise of clicks and the errors of what contexts share.
        step: Shape (P, K): how far one click of the item moves the rate, at the position and by
            what was shown elsewhere; it may be all that a rate rests on.
        alpha: Shape (P,): the click rate of an item where it is examined, α_a.
        slope: Shape (P, N): ∂ α_a / ∂ γ_j.
        lent: Shape (P, K): how much of p_k α_a the rate borrows, p_k s / (n + s).
    """

    rate: Floats
    variance: Floats
    step: Floats
    alpha: Floats
    slope: Floats
    lent: Floats

    def gradient(self, h: Floats) -> Floats:
        """Shape (N,): the derivative of Σ_a Σ_k h_ak r_ak, for weights h of shape (P, K)."""
        weight = h * self.lent
        by_gamma = np.asarray(weight.sum(axis=1) @ self.slope)
        by_gamma[self.slope.shape[1] - h.shape[1] + 1 :] += (self.alpha @ weight)[1:]
        return by_gamma


@dataclass(frozen=True, eq=False)
class LadderRates:
    """A fitted ladder over items at positions.

    Attributes:
        fit: of `Ladder("ip")`, by production's rank features.
        covariance: Shape (N, N): of γ, β and log p.
    """

    fit: LadderFit
    covariance: Floats

    def rates(self, owner: Ints, n: Floats, c: Floats, records: Floats) -> ItemRates:
        """The rate of every item at every position, and how far to trust it.

        Args:
            owner: Shape (P,): the context of each item.
            n: Shape (P, K): how many records show the item at the position.
            c: Shape (P, K): their clicks there.
            records: Shape (X,): records of each context.
        """
        at, unit, (pairs, depth) = self.fit.parameters, self.fit.spec.unit, n.shape
        p, (s,) = at.p, self.fit.strengths
        pair, e = np.repeat(np.arange(pairs), depth), np.tile(p, pairs)
        chain = RungChain((Rung(s, n.ravel(), c.ravel() / unit, pair, pairs, e),))
        exposure, clicks = chain.climb()
        features = np.stack([n.sum(axis=1), n @ rank_scores(depth)])
        features = features / np.maximum(records, 1e-300)[owner]
        x = powers(features).T
        expected = expected_rates(x, at.beta)
        r = rates(owner, len(records), clicks, exposure, expected, at)
        rate = chain.rates(r.alpha)[0].rate.reshape(n.shape)
        lent, weight = (
            each.reshape(n.shape) for each in (chain.finest.borrowed(), chain.finest.own_weight())
        )
        item_own = 1 / (r.exposure + at.a / r.m)
        variance = r.alpha * item_own + (r.alpha * r.prior_share) ** 2 / r.weight[owner]
        variance = rate * weight + lent**2 * (variance[:, None] * p * p)
        by_item = np.where(r.exposure > 0, item_own, 0.0)
        step = np.where(n > 0, weight, 0.0) + lent * p * by_item[:, None]
        slope = rate_jacobian(owner, len(records), r, x, n * lent, at)
        moved, first = slope @ self.covariance, slope.shape[1] - depth + 1
        quadratic = np.repeat((moved * slope).sum(axis=1)[:, None], depth, axis=1)
        quadratic[:, 1:] += 2 * r.alpha[:, None] * moved[:, first:]
        quadratic[:, 1:] += r.alpha[:, None] ** 2 * np.diag(self.covariance)[first:]
        variance = variance + np.maximum(quadratic, 0.0) * (lent * p) ** 2
        return ItemRates(
            rate * unit, variance * unit**2, step * unit, r.alpha * unit, slope * unit, lent * p
        )

    def se(self, gradient: Floats) -> float:
        """The standard error, by the errors of γ, of a sum of rates with this gradient by γ."""
        return math.sqrt(max(float(gradient @ self.covariance @ gradient), 0.0))


@dataclass(frozen=True)
class Constraints:
    """What a policy must keep to.

    Attributes:
        pinned: by context, the item at a position.
        banned: by context, or for `ANY` of them, items that are not shown there.
        max_change: the share of the slots that may differ from production's.
        deterministic: whether a context has one list.
        min_shown: how often a cell must have been shown to be used.
        fallback: whether production stays where no policy is better after pessimism.
    """

    pinned: Mapping[Hashable, Mapping[int, Hashable]] = field(default_factory=dict)
    banned: Mapping[Hashable, Collection[Hashable]] = field(default_factory=dict)
    max_change: float | None = None
    deterministic: bool = False
    min_shown: float = 0.0
    fallback: bool = True

    def forbidden(self, one: Counts, depth: int) -> Bools:
        """Shape (L + 1, K): which items must not be where; but for `min_shown`.

        The last row, which `EMPTY` is the index of, is for nothing: a pinned position is not empty.
        """
        forbidden = np.zeros((len(one.n) + 1, depth), dtype=np.bool_)
        if self.pinned or self.banned:
            context, items = one.contexts[0].as_py(), one.items.to_pylist()

            def among(wanted: Collection[Hashable]) -> Bools:
                return np.array([*(item in wanted for item in items), False])

            for where in (ANY, context):
                forbidden[among(self.banned.get(where, ()))] = True
            for position, item in self.pinned.get(context, {}).items():
                row = among({item})
                others = np.where(row, forbidden[:, position - 1], True)
                forbidden[row] = True
                forbidden[:, position - 1] = others
        return forbidden


class BestPolicy(NamedTuple):
    """The policy of a context.

    Attributes:
        lists: Shape (m, D): items by number; none if production stays.
        masses: Shape (m,): their probabilities.
        production: what production earns.
        naive: the estimate of the policy.
        sure: the same after pessimism.
        why: `CHANGED`, or why production stays.
    """

    lists: Ints
    masses: Floats
    production: float
    naive: float
    sure: float
    why: str = CHANGED


@dataclass(frozen=True, eq=False)
class Solver:
    """Finds the best policy of every context.

    Attributes:
        cell: what the estimator that policies are chosen by has cells of.
        theta: Shape (D,): θ_1, θ_2, …, as deep as lists are made.
        q: Shape (D,): how much each position exposes an item, θ_k p_k.
        clip: M.
        ladder: the ladder's rates; None for an estimator of the paper.
        pessimism: by how many standard errors rates are lowered; a ladder's by as many clicks too,
            as those of a few lucky records are known to no standard error.
        constraints: what policies must keep to.
        folds: how many there are; if 2, policies are chosen without each of them too.
    """

    cell: Cell
    theta: Floats
    q: Floats
    clip: float
    ladder: LadderRates | None
    pessimism: float
    constraints: Constraints
    folds: int

    @property
    def by_list(self) -> bool:
        """Whether lists of the log are chosen; otherwise items at positions."""
        return self.cell == "list"

    def __call__(self, counts: Counts) -> tuple[pa.Table, pa.Table, pa.Table, int]:
        """The policies of some contexts.

        Returns:
            A row for each context, see `Optimized.contexts`; the lists of all contexts, with
            production's where it stays: `context`, `item_1` …, `probability`, `changed`; those of
            policies chosen without a fold, if they are new, where a context is called as in
            `fold_number`; and how many rows of the log they come from.
        """
        whole = counts.without(ALL)
        rates, choices, new = self._choose(counts, whole, ALL)
        held_out = []
        for fold in range(self.folds if self.folds > 1 else 0):
            _, _, lists = self._choose(counts, counts.without(fold), fold)
            number = fold_number(counts.first + lists[0], fold, self.folds)
            held_out.append(_table(counts, pa.array(number), *lists[1:]))
        # New lists, and production's where it stays; by context, the likeliest first.
        changed = np.zeros(len(whole.records), dtype=np.bool_)
        changed[new[0]] = True
        stays = (whole.list_n > 0) & ~changed[whole.list_context]
        context = whole.list_context[stays]
        records = sums(whole.list_context, whole.list_n, len(changed))
        mass = np.concatenate([whole.list_n[stays] / records[context], new[2]])
        context = np.concatenate([context, new[0]])
        pairs = np.concatenate([whole.lists[stays], new[1]])
        order = np.lexsort((*pairs.T[::-1], -mass, context))
        names = counts.contexts.take(pa.array(context[order]))
        policy = _table(counts, names, pairs[order], mass[order])
        # One row for each context.
        x = np.array(list(choices), dtype=np.int64)
        columns = {
            CONTEXT: counts.contexts.take(pa.array(x)),
            "why": pa.array([choice.why for choice in choices.values()], pa.string()),
            "records": pa.array(whole.records[x]),
        }
        for name in ("production", "naive", "sure"):
            values = [getattr(choice, name) for choice in choices.values()]
            columns[name] = pa.array(values, pa.float64())
        se = np.zeros(len(changed))
        if rates is not None:  # errors of the ladder's estimates
            h = marginals(new[1], new[2], len(whole.n)) * self.theta
            by_item = (h**2 * rates.variance[:, : len(self.theta)]).sum(axis=1)
            se = np.sqrt(sums(whole.pair_context, by_item, len(changed)))
        columns["se"] = pa.array(se[x], mask=~changed[x] | (rates is None))
        columns["lists"] = pa.array(np.bincount(new[0], minlength=len(changed))[x], pa.int64())
        return (
            pa.table(columns),
            policy.append_column("changed", pa.array(changed[context[order]])),
            pa.concat_tables(held_out or [policy.slice(0, 0)]),
            counts.rows,
        )

    def _choose(
        self, counts: Counts, others: Counts, fold: int
    ) -> tuple[ItemRates | None, dict[int, BestPolicy], tuple[Ints, Ints, Floats]]:
        """The choice in each context, by its number, and the lists of those that are changed.

        Contexts without records are left out, and so are those without records in the fold, by
        which nothing would be judged.

        Args:
            counts: of some contexts.
            others: the same without the fold.
            fold: what is left out, or `ALL`.

        Returns:
            The ladder's rates; the choices; and context, shape (m,), pairs, (m, D), and
            probability, (m,), of lists.
        """
        slots = others.pair_context, others.n, others.c, others.records
        rates = self.ladder.rates(*slots) if self.ladder else None
        start = others.pair_starts
        some = (others.records > 0) & (np.diff(start) > 0)
        if fold != ALL:
            some &= counts.records[fold] > 0
        choices = {}
        new = [(np.zeros(0, np.int64), others.lists[:0].astype(np.int64), np.zeros(0))]
        for x in np.flatnonzero(some).tolist():
            pairs = slice(start[x], start[x + 1])
            its_rates = rates and ItemRates(*(of[pairs] for of in rates))
            one = others.only(x, by_list=self.by_list)
            choices[x] = choice = self.best(one, its_rates)
            lists = np.where(choice.lists == EMPTY, EMPTY, choice.lists + start[x])
            new.append((np.full(len(lists), x), lists, choice.masses))
        context, lists, masses = map(np.concatenate, zip(*new, strict=True))
        return rates, choices, (context, lists, masses)

    def cells(self, one: Counts, rates: ItemRates | None) -> Cells:
        """What there is to choose in a context, and what it is worth."""
        depth, count, records = len(self.theta), len(one.n), one.records[0]
        if rates is not None:
            theta = np.tile(self.theta, count)
            rate, variance, step = (of[:, :depth].ravel() for of in rates[:3])
            sure = theta * (rate - self.pessimism * (np.sqrt(variance) + step))
            return Cells.of_choices(rate * theta, sure)
        choice, known = one.choice, one.chance is not None
        chance = self.shown(one) / records if one.chance is None else one.chance
        cell = choice // depth if self.cell == "item" else np.arange(len(choice))
        exposure = np.ones(len(choice)) if self.by_list else np.tile(self.q, count)[choice]
        size = int(cell.max(initial=-1)) + 1
        group = np.arange(size) if self.cell == "item" else choice
        counted = exposure * chance, one.credit, one.noise
        logged, credit, noise = (sums(cell, of, size) for of in counted)
        each = ratio(np.ones(size), records * logged)
        rate, se = credit * each, np.sqrt(noise) * each
        # Cells that differ by the propensities of their records are lowered together.
        groups = int(group.max(initial=-1)) + 1
        mean, error = sums(group, rate, groups), np.sqrt(sums(group, se**2, groups))
        # What is worth less than nothing is worth nothing: it need not be shown to be counted.
        lowered = ratio(np.maximum(mean - self.pessimism * error, 0.0), mean)
        cap = self.clip * logged if math.isfinite(self.clip) else np.full(size, np.inf)
        void = known & (logged <= 0) & (credit > 0)
        return Cells(choice, cell, exposure, rate, rate * lowered[group], cap, void)

    def shown(self, one: Counts) -> Floats:
        """Shape (V,): how many records show each list, or each item at each position."""
        return one.list_n if self.by_list else one.n[:, : len(self.theta)].ravel()

    def limits(self, one: Counts, forbidden: Bools, cells: Cells) -> Limits:
        """What the policy of a context must keep to; see `Constraints.forbidden`."""
        rules, depth = self.constraints, len(self.theta)
        shown = one.n[:, :depth]
        near = shown / one.records[0], 1.0 if rules.max_change is None else rules.max_change
        often = self.shown(one)
        if self.cell == "item":
            often = np.repeat(shown.sum(axis=1), depth)
        bad = often < rules.min_shown
        bad[cells.choice[cells.void[cells.cell]]] = True
        if self.by_list:
            bad |= forbidden[one.lists, np.arange(depth)].any(axis=1)
            return Limits(bad, near, rules.deterministic, one.lists)
        return Limits(forbidden[:-1] | bad.reshape(shown.shape), near, rules.deterministic)

    def best(self, one: Counts, rates: ItemRates | None) -> BestPolicy:
        """The best policy of a context, or that production stays."""
        rules, depth, records = self.constraints, len(self.theta), float(one.records[0])
        shown, cells = one.n[:, :depth], self.cells(one, rates)
        production = float(np.sum(one.c[:, :depth] @ self.theta)) / records
        # Production is promised what the estimator says of it: by M < 1, or a logging policy that
        # is known, that is not what it earned.
        today = production
        if rates is None:
            today = float(cells.rate @ cells.credited(self.shown(one) / records))
        none = np.empty((0, depth), np.int64), np.empty(0)
        stays = BestPolicy(*none, production, today, today, IMPOSSIBLE)
        forbidden = rules.forbidden(one, depth)
        # Production may stay if it keeps to the constraints itself.
        may_stay = rules.fallback and not shown[forbidden[:-1]].any()
        limits = self.limits(one, forbidden, cells)
        chosen = best_choices(cells, limits, production + _TINY if may_stay else -math.inf)
        if chosen is None:
            return stays
        if limits.lists is None:
            lists, masses = decode(chosen.reshape(shown.shape))
        else:
            lists, masses = one.lists[chosen > 0], chosen[chosen > 0]
        # Lists with holes that production has not, for want of what was seen, are none.
        most = min(depth, len(one.n))
        full = one.n[:, :most].sum(axis=0) >= records - _TINY
        if full.all() and np.any(np.sum(lists != EMPTY, axis=1) < most):
            return stays
        if limits.lists is None:  # as decoded
            chosen = marginals(lists, masses, len(shown)).ravel()
        credited = cells.credited(chosen)
        naive, sure = float(cells.rate @ credited), float(cells.sure @ credited)
        if self.ladder and rates and not (may_stay and sure <= production + _TINY):
            weight = np.zeros(one.n.shape)
            weight[:, :depth] = chosen.reshape(shown.shape) * self.theta
            error = SHARED_ERROR_WEIGHT * self.ladder.se(rates.gradient(weight))
            sure = min(sure, naive - self.pessimism * error)
        if may_stay and sure <= production + _TINY:
            return stays._replace(why=UNSURE)
        return BestPolicy(lists, masses, production, naive, sure)


def _table(counts: Counts, contexts: pa.Array, pairs: Ints, mass: Floats) -> pa.Table:
    """Lists with their items, and their contexts as they are called."""
    columns = {CONTEXT: contexts}
    for name, of in zip(numbered(ITEM, pairs.shape[1]), pairs.T, strict=True):
        columns[name] = counts.items.take(pa.array(of, mask=of == EMPTY))
    return pa.table(columns | {PROBABILITY: pa.array(mass)})
