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
these errors exactly; those of two metrics have the correlation that records show.

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
from collections.abc import Hashable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from foreclick.allowances import NEWEY_WEST_LAGS, SEGMENT_TOLERANCE
from foreclick.batches import Floats, Ints, batches_of
from foreclick.engines import BUCKETS
from foreclick.estimation.parts import BOTH, kinds_of_clusters
from foreclick.estimation.sources import SEGMENT, SharedErrors
from foreclick.estimation.sums import GroupSums, HiddenByClusters, LogSums, along
from foreclick.question import Question
from foreclick.tallies.base import Tally

ENOUGH_PERIODS = 5
"""In so many periods a cell must have been seen for its click rate to be more than theirs."""


_ENOUGH = 10  # periods; from fewer, no autocovariance is estimated
_ROUNDING = 1e-12  # the part of a sum that a difference must have to be more than rounding


class ClusterErrors(NamedTuple):
    """Clusters of one kind that have records.

    Attributes:
        kind: whose records vary together.
        number: Shape (clusters,): of each, among all of the log.
        error: Shape (clusters, columns): Σψ / n.
    """

    kind: str
    number: Ints
    error: Floats


class Covariance:
    """The covariance of all columns of a question.

    Args:
        question: what was asked.
        found: sums over the log.

    Attributes:
        count: how many candidates there are.
        width: how many columns; production's come first, one for each metric.
    """

    def __init__(self, question: Question, found: LogSums) -> None:
        self.question, self.found, self.count = question, found, len(question.candidates)
        widths = [
            group.value.shape[1] + (0 if group.errors is None else len(group.errors.coefficients))
            for group in found.groups
        ]
        self._starts = np.cumsum([len(question.parts), *widths])
        self.width = int(self._starts[-1])
        self._shown: dict[int, tuple[list[ClusterErrors], Floats | None]] = {}

    # --- what records show ------------------------------------------------------------------------

    @property
    def _records(self) -> Floats:
        """Shape (S,): of the parts, and of the whole."""
        return self.found.all.records

    def _rows(self, s: int) -> tuple[list[ClusterErrors], Floats | None]:
        """The errors of clusters by kind; or the covariance of independent records."""
        if s not in self._shown:
            self._shown[s] = self._centred(s)
        return self._shown[s]

    def _centred(self, s: int) -> tuple[list[ClusterErrors], Floats | None]:
        n = float(self._records[s])
        jacobian, centre = self._centre(s)
        counts = len(self.question.parts)  # the column after production's counts records
        others = [c for c in range(self.width + 1) if c != counts]
        if self.found.products is not None:
            raw = self.found.products[s]
            mean = raw[others, counts] / n
            centred = raw[np.ix_(others, others)] - n * np.outer(mean, mean)
            if self.found.drawing is not None:  # products have the squares of sampling weights
                across = np.outer(raw[others, counts], centre)
                centred = raw[np.ix_(others, others)] - across - across.T
                centred += raw[counts, counts] * np.outer(centre, centre)
            return [], jacobian @ centred @ jacobian.T / (n * max(n - 1, 1))
        kinds = []
        of_groups = zip(*(group.influence for group in self.found.groups), strict=True)
        names = kinds_of_clusters(self.question.clusters)
        for kind, own, of_kind in zip(names, self.found.production, of_groups, strict=True):
            each = np.concatenate([own[s], *(group[s] for group in of_kind)], axis=1)
            number = np.flatnonzero(each[:, counts] > 0)
            each = each[number]
            rows = each[:, others] - each[:, [counts]] * centre
            kinds.append(ClusterErrors(kind, number, rows @ jacobian.T / n))
        return kinds, None

    def _centre(self, s: int) -> tuple[Floats, Floats]:
        """Shape (columns, columns): how coefficients move columns; (columns,): means of records."""
        jacobian, centre, n = np.eye(self.width), np.zeros(self.width), float(self._records[s])
        for m, metric in enumerate(self.question.parts):
            centre[m] = along(metric.theta, self.found.all.rewards[metric][s]) / n
        for start, end, group in zip(
            self._starts, self._starts[1:], self.found.groups, strict=False
        ):
            value = group.value[s]
            centre[start : start + len(value)] = value / n
            if group.errors is not None:
                jacobian[start : start + len(value), start + len(value) : end] = (
                    group.errors.sensitivity[s].T
                )
        return jacobian, centre

    def of_drawing(self, s: int, design: Floats) -> Floats:
        """Shape (Q, Q): the covariance that the drawing of contexts adds; 0 if none were drawn."""
        if self.found.drawing is None:
            return np.zeros((len(design), len(design)))
        n, counts = float(self._records[s]), len(self.question.parts)
        jacobian, centre = self._centre(s)
        centred = np.insert(np.eye(self.width), counts, -centre, axis=1)
        columns = design @ jacobian @ centred / n
        return np.asarray(columns @ self.found.drawing[s] @ columns.T)

    def freedom(self, s: int) -> float:
        """Degrees of freedom of Student's t; infinite for independent records."""
        rows, _ = self._rows(s)
        sizes = (len(each.number) for each in rows if each.kind != BOTH)
        return min((size - 1 for size in sizes), default=math.inf)

    def clusters(self, s: int) -> tuple[str, float]:
        """Whose records vary together, of several kinds the first, and how many of them."""
        rows, _ = self._rows(s)
        if not rows:
            return "record", float(self._records[s])
        return rows[0].kind, float(len(rows[0].number))

    def of_clusters(self, s: int, design: Floats) -> dict[str, float]:
        """The variance of a question, shape (columns,), that each kind of cluster shows.

        What two kinds have in common is in both.
        """
        rows, covariance = self._rows(s)
        if covariance is not None:
            return {"record": float(design @ covariance @ design)}
        return {
            each.kind: float(_outer((each.error @ design)[:, None])[0, 0])
            for each in rows
            if each.kind != BOTH
        }

    def shown(self, s: int, design: Floats) -> Floats:
        """Shape (Q, Q): the covariance of Q questions, Jacobians (Q, columns), that records show.

        Of two kinds of clusters, no variance is below 0: where one would be, eigenvalues below 0
        are cut, with all questions scaled to a variance of 1 before.
        """
        covariance, size = self._added_up(s, design)
        return covariance if size is None else _cut(covariance, size)

    def _added_up(self, s: int, design: Floats) -> tuple[Floats, Floats | None]:
        """The same before eigenvalues are cut; and, shape (Q,), the scale of each question."""
        rows, covariance = self._rows(s)
        drawn = self.of_drawing(s, design)
        if covariance is not None:
            return np.asarray(design @ covariance @ design.T) + drawn, None
        outer = [
            (-1.0 if each.kind == BOTH else 1.0, _outer(each.error @ design.T)) for each in rows
        ]
        added = np.asarray(np.sum([sign * each for sign, each in outer], axis=0)) + drawn
        if len(outer) == 1:
            return added, None
        size = np.sqrt(np.sum([np.diag(each) for sign, each in outer if sign > 0], axis=0))
        return added, np.where(size > 0, size, 1.0)

    def by_cluster(self, s: int, design: Floats) -> dict[str, tuple[Ints, Floats]]:
        """By kind: the numbers of clusters with records, and the errors of a question there."""
        rows, _ = self._rows(s)
        return {each.kind: (each.number, each.error @ design) for each in rows}

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
        if not rows or rows[0].kind != "period" or len(rows[0].number) < _ENOUGH:
            return 0.0, freedom
        days = rows[0].error @ design
        lasting = newey_west(days) - float(_outer(days[:, None])[0, 0])
        return lasting, min(1.5 * len(days) / (NEWEY_WEST_LAGS + 1) - 1, freedom)

    # --- what no record shows ---------------------------------------------------------------------

    def _sums_of(self, column: int) -> tuple[GroupSums, int]:
        """The sums of a column's group, and its number in the group."""
        g = int(np.searchsorted(self._starts, column, side="right")) - 1
        return self.found.groups[g], column - int(self._starts[g])

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
        return bool(self.question.by) and s < len(self._records) - 1 and "record" in kinds

    def _of_cells(self, s: int, column: int, other: int | None = None) -> Floats:
        group, at = self._sums_of(column)
        hidden, (a, c) = group.hidden, divmod(at, self.count)
        covariance = np.zeros((2, 2) if other is None else (1, 1))
        if hidden is None:
            return covariance
        squares, freedom = hidden.pool[s, :, at].tolist()
        usual = squares / freedom if freedom > 0 else 0.0
        # What few periods hide and what few units hide are different things. Of both together,
        # which are many, hardly anything is hidden.
        for kind in hidden.kinds:
            ranks = [(1.0, kind.constant), (usual, kind.usual)]
            if kind.shock is not None:
                ranks.append((_shock(kind, s, at, usual), kind.shock))
            for by, products in ranks:
                of = products.candidates[s, a, c]
                if other is not None:
                    covariance[0, 0] += by * of[self._sums_of(other)[1] % self.count]
                    continue
                across, production = products.across[s, at], products.production[s, at]
                covariance += by * np.array([[of[c], across], [across, production]])
        return covariance / float(self._records[s]) ** 2

    def of_shrinkage(self, s: int, column: int, other: int | None = None) -> float:
        """The variance that shrinkage hides, or the covariance with another column of a ladder."""
        group, i = self._sums_of(column)
        errors, j = group.errors, i if other is None else self._sums_of(other)[1]
        if errors is None:
            return 0.0
        slope, across = errors.sensitivity[s], errors.across[s]
        variance = errors.columns[s, i, j] + slope[:, i] @ across[j] + slope[:, j] @ across[i]
        variance += slope[:, i] @ errors.coefficients @ slope[:, j]
        return float(variance) / float(self._records[s]) ** 2

    def of_sample(self, s: int, column: int) -> float:
        """The variance of a candidate that is itself a sample."""
        group, at = self._sums_of(column)
        a, c = divmod(at, self.count)
        if c not in group.samples:
            return 0.0
        own, squares, freedom, pooled = group.samples[c][s, :, a].tolist()
        usual = squares / freedom if freedom else 0.0
        return float(own + usual * pooled) / float(self._records[s]) ** 2

    def of_prior(self, s: int, column: int) -> float:
        """The part of `of_shrinkage` that coefficients have from what was known beforehand."""
        group, at = self._sums_of(column)
        if group.errors is None:
            return 0.0
        slope = group.errors.sensitivity[s][:, at]
        return float(slope @ group.errors.known @ slope) / float(self._records[s]) ** 2

    def shared_errors(self, s: int, column: int) -> SharedErrors:
        """How far errors that contexts share put a column off; of a part, rates that all share."""
        (group, at), n = self._sums_of(column), float(self._records[s])
        errors = {source: each[s, :, at] / n for source, each in group.shared_errors.items()}
        shift, se = self.own_clicks(s, column)
        if shift:
            apart = math.sqrt(max(shift**2 - (SEGMENT_TOLERANCE * se) ** 2, 0.0))
            errors[SEGMENT] = np.array([math.copysign(apart, shift)])
        return SharedErrors(errors)

    def own_clicks(self, s: int, column: int) -> tuple[float, float]:
        """How far a part's own clicks put a column off from rates that all parts share, and its se.

        A score test by part: 0 on average if the part's items are clicked as they are elsewhere.
        """
        group, at = self._sums_of(column)
        whole, found = len(self._records) - 1, [(0.0, 0.0)]
        if s == whole:
            return found[0]
        for sums_of_kind in group.own_clicks[: len(self.question.clusters)]:
            own, all_ = sums_of_kind[s, :, at], sums_of_kind[whole, :, at]
            if "record" in self.question.clusters:
                shift = own[0] / self._records[s] - all_[0] / self._records[whole]
                found.append((float(shift), math.sqrt(own[1]) / self._records[s]))
                continue
            each = own / self._records[s] - all_ / self._records[whole]
            there = each[each != 0]
            count = len(there)
            spread = math.sqrt(count * there.var()) if count > 1 else math.inf
            found.append((float(each.sum()), spread * math.sqrt(count / max(count - 1, 1))))
        return max(found, key=lambda one: one[1])


def _shock(hidden: HiddenByClusters, s: int, at: int, usual: float) -> float:
    """τ² of a column, given s²."""
    assert hidden.shocks is not None  # noqa: S101 - it comes with what it multiplies
    known, pooled, under = hidden.shocks[s, :, at].tolist()
    over = known + usual * pooled
    # A difference of equal numbers, which large rewards would make large.
    rounding = _ROUNDING * (abs(known) + abs(usual * pooled))
    return float(over / under) if over > rounding and under > 0 else 0.0


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
        lags: the lag length L.
    """
    count = len(values)
    centred = values - values.mean()
    variance = float(centred @ centred)
    for lag in range(1, lags + 1):
        variance += 2 * (1 - lag / (lags + 1)) * float(centred[lag:] @ centred[:-lag])
    lost = 1 - 2 / 3 * (lags + 1) / count
    return max(variance, 0.0) * count / (count - 1) / lost


# --- several logs: their clusters are the same days and users -------------------------------------

Errors: TypeAlias = dict[str, dict[Hashable, float]]
"""By kind of cluster and by cluster."""


def errors_of(of: Covariance, s: int, design: Floats, tally: Tally) -> Errors:
    """By kind of cluster: the error of a question in each, by the period, bucket, or both."""
    codes, by_kind = batches_of(tally).codebook.periods, {}
    periods = [] if codes is None else codes.values.to_pylist()
    for kind, (numbers, errors) in of.by_cluster(s, design).items():
        keys: Sequence[Hashable] = numbers.tolist()
        if kind != "unit":
            size = BUCKETS if kind == BOTH else 1
            keys = [(periods[number // size], number % size) for number in numbers.tolist()]
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
