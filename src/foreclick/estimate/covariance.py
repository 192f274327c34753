"""The covariance of columns, and of any question about them, from sums over a log.

Records of one cluster (a day, a bucket of users) vary together, clusters do not. With the sums s_c
of ψ over the records of cluster c, divided by all n records, and any question as a Jacobian J over
columns (a value, a change, a lift, a ratio, a pair of candidates),

    Cov = G / (G − 1) Σ_c (J s_c)(J s_c)ᵀ        of G clusters.

**Two kinds at once.** Records of one day vary together, and so do those of one user. A pair of
records counts if it shares the day or the user, so the sums over days and over users count the
pairs that share both twice (Cameron, Gelbach and Miller, 2011): Cov_day + Cov_user − Cov_both.

**Days with memory.** If a good day is followed by good days, neighbouring days vary together, too.
Newey and West's variance with L lags counts them, by weights that fall to 0 (1987). It has few
degrees of freedom, 3/2 G / (L + 1) − 1. A change against production on the same days hardly has
memory: what makes a day good for one makes it good for both.

**What no record shows** is added: what small cells hide, what shrinkage takes from cells, errors of
an examination that was learnt, and of a candidate that is itself a sample. Two candidates share
these errors exactly; those of two metrics are as alike as what records show of them.

**What cells hide.** A click rate follows the records it was fitted to. What is left of them varies
less than records do: of a cell g, the share h_c of its exposure that cluster c has is also the
share of that cluster's variance that does not show,

    E u_gc² ≈ (1 − h_c) v_gc,    u_gc = Σ_{t in c} (c_g(t) − r_g e_g(t)).

A cell that was seen once shows nothing, and nor does one that was seen on a single day, however
often. The errors of a cell are (W, 1) times one number: W for a candidate, 1 for production as far
as the candidate shows the same, so that a candidate that shows what production did differs from it
by nothing. Two candidates share the error of a cell, each with its own weight. Each of them has its
own estimate h of how much that error varies, for its own cells tell the usual variance. Of their
difference, a cell that both show hides the mean of the two,

    D = Σ_g (h_g + h'_g) / 2 (W_g − W'_g)²,

so that nothing is hidden where they show the same. A cell that one of them shows hides its h W².

The usual variance s² of a record is pooled over the cells of a context; contexts with few degrees
of freedom take that of all contexts, which is known only when all batches are summed. All sums are
linear in it and in the shock τ², so each is kept in three *ranks*: a constant, a factor of s², a
factor of τ².
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from foreclick.batches import Batch, Bools, Cluster, Floats, Ints, batches_of, ratio, sums
from foreclick.batches.arrays import numbered
from foreclick.engines import BUCKETS
from foreclick.estimate.cells import CellEntries, cell_entries, group_sums
from foreclick.estimate.columns import Totals, along
from foreclick.estimate.sources import KINDS, SEGMENT, SharedErrors
from foreclick.estimate.weighted import WeighedCells
from foreclick.learn.allowances import (
    NEWEY_WEST_LAGS,
    POOLING_FREEDOM,
    PSEUDO_RECORDS,
    SEGMENT_TOLERANCE,
)
from foreclick.question import Question
from foreclick.tallies.base import Tally

ENOUGH_PERIODS = 5
"""In so many periods a cell must have been seen for its click rate to be more than theirs."""

BOTH = "both"
"""The kind of clusters that share a period and a unit."""

_ENOUGH = 10  # periods; fewer say nothing of how they follow each other
_ROUNDING = 1e-12  # the part of a sum that a difference must have to be more than rounding


class Covariance:
    """The covariance of all columns of a question.

    Args:
        question: what was asked.
        totals: sums over the log.

    Attributes:
        count: how many candidates there are.
        width: how many columns; production's come first, one for each metric.
        filled: which clusters have records, by part and kind.
    """

    def __init__(self, question: Question, totals: Totals) -> None:
        self.question, self.totals, self.count = question, totals, len(question.candidates)
        slopes = [totals.sums.get((g, "slope")) for g in range(len(question.groups))]
        widths = [
            len(targets) * self.count + (0 if slope is None else slope.shape[1])
            for targets, slope in zip(question.groups, slopes, strict=True)
        ]
        self._starts = np.cumsum([len(question.parts), *widths])
        self.width = int(self._starts[-1])
        self.filled: dict[tuple[int, str], Bools] = {}

    # --- what records show ------------------------------------------------------------------------

    @cached_property
    def _influence(self) -> dict[int, Any]:
        """By part: the covariance of means of independent records, or sums over clusters."""
        return {}

    def _rows(self, s: int) -> tuple[list[tuple[str, Floats]], Floats | None]:
        """Kinds of clusters with Σψ / n of each, shape (clusters, columns); or of records, Cov."""
        if s in self._influence:
            return self._influence[s]  # type: ignore[no-any-return]
        n = float(self.totals.get(("all", "records"), s))
        turn, centre = np.eye(self.width), np.zeros(self.width)
        parts = self.question.parts
        for m, metric in enumerate(parts):
            earned = self.totals.sums["all", "reward", metric][s]
            centre[m] = along(metric.theta, earned) / n
        for g in range(len(self.question.groups)):
            value = self.totals.sums[g, "value"][s]
            start, end = int(self._starts[g]), int(self._starts[g + 1])
            centre[start : start + len(value)] = value / n
            slope = self.totals.sums.get((g, "slope"))
            if slope is not None:
                turn[start : start + len(value), start + len(value) : end] = slope[s].T
        kinds: list[tuple[str, Floats]] = []
        covariance = None
        counts = len(parts)  # the column after production's counts records
        others = [c for c in range(self.width + 1) if c != counts]
        if "record" in self.question.clusters:
            raw = self.totals.sums["record"][s]
            mean = raw[others, counts] / n
            centred = raw[np.ix_(others, others)] - n * np.outer(mean, mean)
            covariance = turn @ centred @ turn.T / (n * max(n - 1, 1))
        for kind in ("period", "unit", BOTH):
            if (kind, -1) not in self.totals.sums:
                continue
            numbers = [-1, *range(len(self.question.groups))]
            each = np.concatenate([self.totals.sums[kind, g][s] for g in numbers], axis=1)
            self.filled[s, kind] = each[:, counts] > 0
            each = each[self.filled[s, kind]]
            rows = each[:, others] - each[:, [counts]] * centre
            kinds.append((kind, rows @ turn.T / n))
        self._influence[s] = kinds, covariance
        return kinds, covariance

    def freedom(self, s: int) -> float:
        """Degrees of freedom of Student's t; infinite for independent records."""
        rows, _ = self._rows(s)
        return min((len(each) - 1 for kind, each in rows if kind != BOTH), default=math.inf)

    def clusters(self, s: int) -> tuple[str, float]:
        """Whose records vary together, of several kinds the first, and how many of them."""
        rows, _ = self._rows(s)
        if not rows:
            return "record", float(self.totals.get(("all", "records"), s))
        return rows[0][0], float(len(rows[0][1]))

    def of_clusters(self, s: int, design: Floats) -> dict[str, float]:
        """The variance of a question, shape (columns,), that each kind of cluster shows.

        What two kinds have in common is in both.
        """
        rows, covariance = self._rows(s)
        if covariance is not None:
            return {"record": float(design @ covariance @ design)}
        return {
            kind: float(_outer((each @ design)[:, None])[0, 0])
            for kind, each in rows
            if kind != BOTH
        }

    def shown(self, s: int, design: Floats) -> Floats:
        """Shape (Q, Q): the covariance of Q questions, Jacobians (Q, columns), that records show.

        Of two kinds of clusters, no variance is below 0: where one would be, eigenvalues below 0
        are cut, with all questions scaled alike before.
        """
        covariance, size = self._added_up(s, design)
        return covariance if size is None else _cut(covariance, size)

    def _added_up(self, s: int, design: Floats) -> tuple[Floats, Floats | None]:
        """The same before eigenvalues are cut; and, shape (Q,), the scale of each question."""
        rows, covariance = self._rows(s)
        if covariance is not None:
            return np.asarray(design @ covariance @ design.T), None
        outer = [(-1.0 if kind == BOTH else 1.0, _outer(each @ design.T)) for kind, each in rows]
        added = np.asarray(np.sum([sign * each for sign, each in outer], axis=0))
        if len(outer) == 1:
            return added, None
        size = np.sqrt(np.sum([np.diag(each) for sign, each in outer if sign > 0], axis=0))
        return added, np.where(size > 0, size, 1.0)

    def by_cluster(self, s: int, design: Floats) -> dict[str, tuple[Ints, Floats]]:
        """By kind: the numbers of clusters with records, and the errors of a question there."""
        rows, _ = self._rows(s)
        return {kind: (np.flatnonzero(self.filled[s, kind]), each @ design) for kind, each in rows}

    def paired(self, s: int, design: Floats) -> Floats:
        """The covariance of questions, of which differences are as if only two had been asked.

        What is cut of all questions together depends on each of them.
        """
        covariance, size = self._added_up(s, design)
        if size is None:
            return covariance
        i, j = np.triu_indices(len(covariance), 1)
        both = np.stack([i, j], axis=1)
        pairs = _cut(covariance[both[:, :, None], both[:, None, :]], size[both])
        own = np.maximum(np.diag(covariance), 0.0)
        apart = pairs[:, 0, 0] + pairs[:, 1, 1] - 2 * pairs[:, 0, 1]
        result = np.diag(own)
        result[i, j] = result[j, i] = (own[i] + own[j] - apart) / 2
        return result

    def memory(self, s: int, design: Floats) -> tuple[float, float]:
        """What a question, shape (columns,), varies besides if neighbouring periods vary together.

        It may be below 0. And the degrees of freedom with it.
        """
        rows, freedom = self._rows(s)[0], self.freedom(s)
        if not rows or rows[0][0] != "period" or len(rows[0][1]) < _ENOUGH:
            return 0.0, freedom
        days = rows[0][1] @ design
        lasting = newey_west(days) - float(_outer(days[:, None])[0, 0])
        return lasting, min(1.5 * len(days) / (NEWEY_WEST_LAGS + 1) - 1, freedom)

    # --- what no record shows ---------------------------------------------------------------------

    def _group(self, column: int) -> tuple[int, int, int]:
        """The group of a column, the target in it, and the candidate."""
        g = int(np.searchsorted(self._starts, column, side="right")) - 1
        a, c = divmod(column - int(self._starts[g]), self.count)
        return g, a, c

    def of_small_cells(self, s: int, column: int, other: int | None = None) -> Floats:
        """Shape (2, 2): the variance of value and production that small cells hide.

        With another candidate's column of the same target, shape (1, 1): the covariance of the two.
        """
        if other is not None:  # each by its own estimate of how much cells vary
            return (self._of_cells(s, column, other) + self._of_cells(s, other, column)) / 2
        variance = self._of_cells(s, column)
        return root_of(variance) @ root_of(variance) if self.partial(s) else variance

    def partial(self, s: int) -> bool:
        """Whether a part of independent records takes no less than 0 from what cells hide.

        A cell whose records vary more than usual is taken to vary less than they do. Which part
        they are in, the sums over cells do not know: nothing may be left of the part's variance.
        A part that is a whole context has all records of its cells.
        """
        kinds = self.question.clusters
        return bool(self.question.by) and s < self.totals.strata - 1 and "record" in kinds

    def _of_cells(self, s: int, column: int, other: int | None = None) -> Floats:
        g, a, c = self._group(column)
        covariance = np.zeros((2, 2) if other is None else (1, 1))
        pool = self.totals.sums.get((g, "pool"))
        if pool is None:
            return covariance
        n = float(self.totals.get(("all", "records"), s))
        at = a * self.count + c
        scale = [1.0, float(pool[s, 0, at] / pool[s, 1, at]) if pool[s, 1, at] > 0 else 0.0, 0.0]
        # What few periods hide and what few units hide are different things. Of both together,
        # which are many, hardly anything is hidden.
        for kind in self.question.clusters:
            tau = self.totals.sums.get((g, kind, "tau"))
            scale[2] = 0.0
            if tau is not None:
                known, pooled, under = tau[s, :, at].tolist()
                over = known + scale[1] * pooled
                # A difference of equal numbers, which large rewards would make large.
                rounding = _ROUNDING * (abs(known) + abs(scale[1] * pooled))
                scale[2] = over / under if over > rounding and under > 0 else 0.0
            for rank, by in enumerate(scale):
                if (g, kind, rank, "vf") not in self.totals.sums:
                    continue
                vv = self.totals.sums[g, kind, rank, "vv", a][s]
                if other is not None:
                    covariance[0, 0] += by * vv[c, self._group(other)[2]]
                    continue
                vf, ff = (self.totals.sums[g, kind, rank, name][s, at] for name in ("vf", "ff"))
                covariance += by * np.array([[vv[c, c], vf], [vf, ff]])
        return covariance / n**2

    def of_shrinkage(self, s: int, column: int, other: int | None = None) -> float:
        """The variance that shrinkage hides, or the covariance with another column of a ladder."""
        g = self._group(column)[0]
        loose = self.totals.sums.get((g, "loose"))
        if loose is None:
            return 0.0
        start = int(self._starts[g])
        i, j = column - start, (column if other is None else other) - start
        slope, across = (self.totals.sums[g, name][s] for name in ("slope", "loose across"))
        last = self.totals.sums[g, "loose last"]
        variance = loose[s, i, j] + slope[:, i] @ across[j] + slope[:, j] @ across[i]
        n = float(self.totals.get(("all", "records"), s))
        return float(variance + slope[:, i] @ last @ slope[:, j]) / n**2

    def of_sample(self, s: int, column: int) -> float:
        """The variance of a candidate that is itself a sample."""
        g, a, c = self._group(column)
        sample = self.totals.sums.get((g, "sample", c))
        if sample is None:
            return 0.0
        own, squares, freedom, alone = sample[s, :, a].tolist()
        usual = squares / freedom if freedom else 0.0
        return float(own + usual * alone) / float(self.totals.get(("all", "records"), s)) ** 2

    @property
    def _records(self) -> Floats:
        """Shape (S,): of the parts, and of the whole."""
        return np.asarray(self.totals.sums["all", "records"])

    def of_prior(self, s: int, column: int) -> float:
        """The part of `of_shrinkage` that coefficients have from what was known beforehand."""
        g = self._group(column)[0]
        known = self.totals.sums.get((g, "known"))
        if known is None:
            return 0.0
        slope = self.totals.sums[g, "slope"][s][:, column - int(self._starts[g])]
        return float(slope @ known @ slope) / float(self.totals.get(("all", "records"), s)) ** 2

    def off_by(self, s: int, column: int) -> SharedErrors:
        """How far errors that contexts share put a column off; of a part, rates that all share."""
        g = self._group(column)[0]
        n, at = float(self.totals.get(("all", "records"), s)), column - int(self._starts[g])
        errors = {
            source: self.totals.sums[g, "off by", source][s, :, at] / n
            for source in KINDS
            if (g, "off by", source) in self.totals.sums
        }
        shift, se = self.own_clicks(s, column)
        if shift:
            apart = math.sqrt(max(shift**2 - (SEGMENT_TOLERANCE * se) ** 2, 0.0))
            errors[SEGMENT] = np.array([math.copysign(apart, shift)])
        return SharedErrors(errors)

    def own_clicks(self, s: int, column: int) -> tuple[float, float]:
        """How far a part's own clicks put a column off from rates that all parts share, and its se.

        A score test by part: 0 on average if the part's items are clicked as they are elsewhere.
        """
        g = self._group(column)[0]
        at, whole, found = column - int(self._starts[g]), len(self._records) - 1, [(0.0, 0.0)]
        if s == whole:
            return found[0]
        for kind in self.question.clusters:
            totals = self.totals.sums.get(("unshared", kind, g))
            if totals is None:
                continue
            if kind == "record":
                total, square = totals[s, 0, at], totals[s, 1, at]
                shift = total / self._records[s] - totals[whole, 0, at] / self._records[whole]
                found.append((float(shift), math.sqrt(square) / self._records[s]))
                continue
            each = totals[s, :, at] / self._records[s] - totals[whole, :, at] / self._records[whole]
            there = each[each != 0]
            count = len(there)
            spread = math.sqrt(count * there.var()) if count > 1 else math.inf
            found.append((float(each.sum()), spread * math.sqrt(count / max(count - 1, 1))))
        return max(found, key=lambda one: one[1])


def _cut(covariance: Floats, size: Floats) -> Floats:
    """Covariances (…, Q, Q) of questions of these sizes (…, Q), without eigenvalues below 0."""
    values, vectors = np.linalg.eigh(covariance / size[..., None, :] / size[..., :, None])
    root = size[..., :, None] * vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
    some = np.asarray(values[..., :1, None] < 0)
    return np.where(some, root @ np.swapaxes(root, -1, -2), covariance)


def root_of(covariance: Floats) -> Floats:
    """The symmetric square root; what is below 0 counts as 0."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def _outer(rows: Floats) -> Floats:
    return np.asarray(rows.T @ rows * (len(rows) / max(len(rows) - 1, 1)))


def newey_west(values: Floats, lags: int = NEWEY_WEST_LAGS) -> float:
    """The variance of the total of values in order, of which neighbours vary together.

    Args:
        values: Shape (G,): they add up to about 0.
        lags: how far back one of them may remember.
    """
    count = len(values)
    centred = values - values.mean()
    variance = float(centred @ centred)
    for lag in range(1, lags + 1):
        variance += 2 * (1 - lag / (lags + 1)) * float(centred[lag:] @ centred[:-lag])
    lost = 1 - 2 / 3 * (lags + 1) / count
    return max(variance, 0.0) * count / (count - 1) / lost


# --- several logs: their clusters are the same days and users -------------------------------------

Errors: TypeAlias = dict[str, dict[Any, float]]
"""By kind of cluster and by cluster."""


def errors_of(of: Covariance, s: int, design: Floats, tally: Tally) -> Errors:
    """By kind of cluster: the error of a question in each, by the period, bucket, or both."""
    codes, by_kind = batches_of(tally).codebook.periods, {}
    periods = [] if codes is None else codes.values.to_pylist()
    for kind, (numbers, errors) in of.by_cluster(s, design).items():
        keys: list[Any] = numbers.tolist()
        if kind != "unit":
            size = BUCKETS if kind == BOTH else 1
            keys = [(periods[key // size], key % size) for key in keys]
        by_kind[kind] = dict(zip(keys, errors.tolist(), strict=True))
    return by_kind


def minus(one: Errors, other: Errors) -> Errors:
    """The errors of a difference: what both have of a cluster is together."""
    return {
        kind: {
            key: first.get(key, 0.0) - other[kind].get(key, 0.0) for key in {**first, **other[kind]}
        }
        for kind, first in one.items()
    }


def variance_of(errors: Errors) -> float:
    """As `Covariance` has it; of two kinds of clusters, not below that of both together."""
    by_kind = {}
    for kind, each in errors.items():
        squares = sum(error**2 for error in each.values())
        by_kind[kind] = squares * len(each) / max(len(each) - 1, 1)
    both = by_kind.pop(BOTH, 0.0)
    return max(sum(by_kind.values()) - both, both, 0.0) if both else sum(by_kind.values())


# --- sums of what cells hide ----------------------------------------------------------------------

_NOTHING = 1e-14
"""What is left of squares that cancel: rewards that are all alike vary by nothing."""


def entries_of(
    w: WeighedCells, kinds: Sequence[str], *, dated: bool, rows: bool
) -> dict[Cluster, CellEntries]:
    """What clusters have of the cells, as far as it is needed: see `add_hidden`.

    Args:
        w: the cells.
        kinds: whose records vary together.
        dated: whether it matters in how many periods cells were seen.
        rows: whether ψ is wanted of rows; else sums of it over clusters come from these entries.
    """
    hides = bool(kinds) and not w.known and w.targets[0].model.sees_items
    needed = cluster_kinds(kinds) if hides or not rows else []
    if dated and "period" not in needed:
        needed = ["period", *needed]
    shown = w.wanted.max(axis=(0, 1), initial=0.0) > 0
    return {kind: cell_entries(w.cells, kind, w.targets, shown) for kind in needed}


def add_hidden(
    totals: Totals,
    name: int,
    w: WeighedCells,
    kinds: Sequence[str],
    entries: dict[Cluster, CellEntries],
    *,
    dated: bool,
) -> None:
    """Add what the cells of a group hide, under its number.

    Args:
        totals: the sums.
        name: the number of the group.
        w: its cells.
        kinds: whose records vary together.
        entries: what clusters have of the cells.
        dated: whether it matters in how many periods cells were seen.
    """
    cells, context = w.cells, w.cells.context
    if dated:
        _add_repeated(totals, name, w, entries["period"])
    if w.known or not kinds or not w.targets[0].model.sees_items:
        return
    counts = cells.counts
    rewards = [cells.reward_counts(target) for target in w.targets]
    shown = counts.n(rewards[0])[cells.slot]
    earned, squares = (
        np.stack([counts.earned(each, power)[cells.slot] for each in rewards]) for power in (1, 2)
    )
    q = cells.by_cell(squares * w.theta**2)
    x = cells.by_cell(earned * w.theta * w.exposure)
    y = cells.by_cell(shown * w.exposure**2)
    left = q - w.rate * (2 * x - w.rate * y)
    left = np.where(left > _NOTHING * q, left, 0.0)[:, None]  # (A, 1, G)
    n = w.n[:, None]
    there = (w.wanted > 0) & (n > 0)  # (A, C, G)
    left = np.where(there, left, 0.0)
    free = np.where(there, np.maximum(n - 1, 0.0), 0.0)  # of records that count less than 1
    pool = np.stack([w.by_context(left), w.by_context(free)])  # (2, E, X)
    totals.add((name, "pool"), pool)
    own = pool[1] >= POOLING_FREEDOM
    shape = w.wanted.shape
    usual = np.where(own, ratio(pool[0], pool[1]), 0.0)[:, context].reshape(shape)
    more = PSEUDO_RECORDS  # of the usual variance, as if they had been seen in each cell
    pooled = np.where(own[:, context].reshape(shape), 0.0, more * n / (n - 1 + more))
    weight, there_too = w.weight, np.where(w.weight > 0, 1.0, 0.0)
    if "record" in kinds:
        known = (more * n * usual - (more - 1) * left) / (n - 1 + more)
        _products(totals, (name, "record", 0), context, known, weight, there_too)
        _products(totals, (name, "record", 1), context, pooled, weight, there_too)
    known = n * (left + more * usual) / (n - 1 + more)  # n_g σ_g², but for the pooled s²
    for kind in cluster_kinds(kinds):
        _few_clusters(totals, (name, kind), w, entries[kind], there, known, pooled)


def _few_clusters(
    totals: Totals,
    name: tuple[int, Cluster],
    w: WeighedCells,
    entries: CellEntries,
    there: Any,  # noqa: ANN401 - booleans
    known: Floats,
    pooled: Floats,
) -> None:
    """What cells hide that were seen in few clusters.

    The variance of a cluster in a cell is taken to be that of its records, n_gc σ_g², and that of
    a shock which moves all click rates of a context by a share of themselves, τ² (r_g e_gc)².
    τ² = over / under is what the residuals u have left over, all cells together.

        Σ_gc (W, 1)² n_g σ_g² h_c²  +  τ² Σ_xc (A_xc A_xcᵀ − B_xc B_xcᵀ),
        A_xc = Σ_g (W, 1) r_g e_gc,    B_xc = Σ_g (W, 1) r_g e_gc √(1 − h_c)
    """
    batch, context, cell = w.cells.batch, w.cells.context, entries.cell
    exposed = entries.exposed
    whole = entries.by_cell(exposed)[:, cell]
    # Not 1 − e/whole, of which rounding leaves little where one cluster has nearly all.
    others = ratio(np.maximum(whole - exposed, 0.0), whole)
    square = exposed * exposed
    expected = w.rate[:, cell] * exposed
    ee, spared, apart, left = (
        entries.by_cell(each)
        for each in (square, square * others, exposed * others, (entries.earned - expected) ** 2)
    )
    shared = ratio(ee, w.exposed**2)[:, None]  # Σ h²
    unshared = ratio(apart, w.exposed)[:, None]  # Σ h (1 − h) = 1 − Σ h²
    tau = [
        there * (left[:, None] - known * unshared),
        -1.0 * there * pooled * unshared,
        there * (w.rate**2 * spared)[:, None],
    ]
    totals.add((*name, "tau"), np.stack([w.by_context(each) for each in tau]))
    weight, f = w.weight, np.where(w.weight > 0, 1.0, 0.0)
    _products(totals, (*name, 0), context, known * shared, weight, f)
    _products(totals, (*name, 1), context, pooled * shared, weight, f)
    clusters = batch.cluster_count[name[1]]
    key = context[cell].astype(np.int64) * clusters + entries.cluster
    at, group = numbered(key, batch.context_count * clusters)
    of, f = (at // clusters).astype(np.int64), np.where(w.ratio > 0, 1.0, 0.0)
    all_ = [expected[:, None] * factor[:, :, cell] for factor in (weight, f)]
    root = np.sqrt(others)[:, None]
    part = [each * root for each in all_]
    there = None
    for sign, moved in ((1.0, all_), (-1.0, part)):
        v, f = (group_sums(group, each, len(at)) for each in moved)
        there = np.where(v > 0, 1.0, 0.0) if there is None else there
        _products(totals, (*name, 2), of, sign, v, f, there)


def _products(
    totals: Totals,
    name: tuple[Any, ...],
    context: Ints,
    hidden: Floats | float,
    v: Floats,
    f: Floats,
    there: Floats | None = None,
) -> None:
    """Add (W, 1)(W, 1)ᵀ × hidden: of all pairs of candidates, and of each with production.

    Of candidates i and j, with t for what each of them shows, half of what they share by h of i:

        Q_ij = Σ h_i (v_i v_j + (v_i² t_j − v_j²) / 2),    Q_ii + Q_jj − (Q_ij + Q_ji) = D.

    Args:
        totals: the sums.
        name: what they are called.
        context: Shape (N,).
        hidden: Shape (A, C, N): h.
        v: Shape (A, C, N): W.
        f: Shape (A, C, N): production's, as far as the candidate shows the same.
        there: Shape (A, C, N): t; None: where f is.
    """
    t, left = f if there is None else there, v * hidden
    for a in range(len(v)):
        rows, columns, of = left[a], v[a], context
        if v.shape[1] > 1:
            own = (hidden * t)[a]
            rows = np.concatenate([rows, left[a] * v[a] / 2, -own / 2], axis=1)
            columns = np.concatenate([columns, t[a], v[a] ** 2], axis=1)
            of = np.tile(context, 3)
        totals.gram((*name, "vv", a), of, rows, columns)
    flat = (v.shape[0] * v.shape[1], v.shape[2])
    totals.add((*name, "vf"), (left * f).reshape(flat), context)
    totals.add((*name, "ff"), (hidden * f * f).reshape(flat), context)


def _add_repeated(totals: Totals, name: int, w: WeighedCells, entries: CellEntries) -> None:
    """Add the covered exposure, and that of cells seen in `ENOUGH_PERIODS` or more.

    Days differ. What a cell earned that was seen on few of them may be a day effect, and no number
    of records on the same days tells.
    """
    seen = entries.exposed > 0
    periods = entries.by_cell(np.where(seen, 1.0, 0.0))
    if w.by_row:  # rows of one cell may be of one period
        own, shown = w.cells.key, np.flatnonzero(seen[0])
        pairs = np.stack([own[entries.cell[shown]], entries.cluster[shown]])
        pairs = np.unique(pairs, axis=1)
        size = int(own.max(initial=-1)) + 1
        periods = sums(pairs[0], np.ones(pairs.shape[1]), size)[own][None]
    covered = np.where(w.logged[:, None] > 0, w.wanted * (w.records * w.share), 0.0)
    often = np.where((periods >= ENOUGH_PERIODS)[:, None], covered, 0.0)
    totals.add((name, "repeated"), np.stack([w.by_context(covered), w.by_context(often)]))


def cluster_kinds(kinds: Sequence[str]) -> list[Cluster]:
    """Those of the kinds that are clusters of records."""
    return [kind for kind in ("period", "unit") if kind in kinds]


def clusters_of_rows(batch: Batch, kinds: Sequence[str]) -> list[tuple[str, Ints, int]]:
    """Kinds of clusters: name, the cluster of each row, and how many there are.

    Where periods and units count both, a bucket of users in a period is a cluster too.
    """
    kinds_of_clusters: list[tuple[str, Ints, int]] = [
        (str(kind), batch.clusters[kind].astype(np.int64), batch.cluster_count[kind])
        for kind in cluster_kinds(kinds)
    ]
    if len(kinds_of_clusters) > 1:
        (_, period, periods), (_, unit, units) = kinds_of_clusters
        kinds_of_clusters.append((BOTH, period * units + unit, periods * units))
    return kinds_of_clusters
