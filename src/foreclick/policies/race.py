"""Plackett–Luce as a race: exact probabilities of lists and of (item, position) pairs.

Item i arrives at an exponential time T_i ~ Exp(w_i), independently of the others, with
log w_i = score_i / temperature, and the list is the order of arrival. That is the Plackett–Luce
policy: the next item is i with probability w_i / (sum of the weights not yet placed).

Everything takes *log*-weights, because exp(score / temperature) overflows at low temperatures.

References:
    R. L. Plackett, "The Analysis of Permutations", Applied Statistics 24 (1975).
    J. I. Yellott, "The relationship between Luce's choice axiom, Thurstone's theory of comparative
    judgment, and the double exponential distribution", J. Math. Psychology 15 (1977): the race.
    L. N. Trefethen and J. A. C. Weideman, "The Exponentially Convergent Trapezoidal Rule",
    SIAM Review 56 (2014): the quadrature.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.integer[Any]]

UNKNOWN = -1
"""Marks a slot after the end of a list, or an item the policy does not know."""

_STEP_ERROR = 1e-15
"""Bound of the trapezoidal rule's relative error; rounding dominates below it."""

_TAIL = 40.0
"""An event of probability below exp(-40) = 4e-18 is taken not to happen."""

_LONG_AGO = 10.0
"""Log of a time x, in units of 1/w_i, at which e^{-x} is 0 to the last bit: later is the same."""

_STEP_GRAIN = 2.0**-12
"""Steps are multiples of a power of two, so every node j · step is exact, however large j is."""

_NODES_PER_BLOCK = 512
"""Many nodes share the cost of a NumPy call; few keep the block's arrays in the cache."""

_CELLS_PER_CHUNK = 1 << 20
"""Bounds the memory of `list_probabilities` to a few arrays of 8 MB."""


def list_probabilities(log_weights: ArrayLike, lists: ArrayLike) -> Floats:
    r"""Probability that the policy's list starts as each given list does, for every length.

    Formula:
        P(first k items are a_1 … a_k) = Π_{j ≤ k} w_{a_j} / (w_{a_j} + w_{a_{j+1}} + … + rest),

    where `rest` is the weight of the items that are not in the list. The denominators are *sums of
    what remains*, taken in logs from the end of the list to its start; no weight is ever
    subtracted, so a dominating item leaves the others' probabilities with full relative accuracy:
    about 1e-15 · (1 + |log P|) (checked against 60-digit arithmetic).

    Args:
        log_weights: Shape (n,): score / temperature of each item; finite.
        lists: Shape (m, d): indices of items, `UNKNOWN` (-1) where the list has ended or the item
            is not among the n.

    Returns:
        Shape (m, d): entry [j, k] is the probability of the first k + 1 items of list j. It is 0
        from the first unknown item on, and from an item's second appearance on.

    Raises:
        ValueError: A log-weight is not finite, a shape is wrong, or an index is out of range.

    Example:
        >>> list_probabilities(np.log([2.0, 1.0, 1.0]), [[0, 1, 2], [1, -1, -1]]).round(3).tolist()
        [[0.5, 0.25, 0.25], [0.25, 0.0, 0.0]]
    """
    weights = _checked_weights(log_weights)
    indices = _checked_lists(lists, len(weights))
    probabilities = np.zeros(indices.shape)
    rows = max(1, _CELLS_PER_CHUNK // (len(weights) + 1))
    for start in range(0, len(indices), rows):
        chunk = indices[start : start + rows]
        probabilities[start : start + rows] = _chunk_probabilities(weights, chunk)
    return probabilities


def marginals(log_weights: ArrayLike, positions: int) -> Floats:
    r"""Probability of every item at every position, without enumerating or sampling lists.

    Formula:
        P(item i at position k) = ∫ w_i e^{-w_i t} Pr[exactly k-1 of the others arrived by t] dt.

    With t = e^s this is an integral over the whole line, for which the trapezoidal rule converges
    geometrically. Turning the line by an angle φ < π/2 in the complex plane multiplies the
    integrand's total by at most (cos φ)^{-k}, because |1 - e^{-wz}| ≤ (1 - e^{-w|z| cos φ}) / cos φ
    for z = |z| e^{iφ}. So the rule with step h errs by at most 2 (cos φ)^{-k} e^{-2πφ/h}, relative
    to the probability itself and whatever the weights are; h is the largest step for which that
    is below 1e-15. The number of others that arrived is a Poisson-binomial count, truncated at
    `positions`; the counts 'without i' come from a divide and conquer that only ever multiplies
    and adds positive numbers.

    The line is cut where nothing happens: an item matters only around its own time scale 1/w_i,
    and nothing matters once `positions` items have arrived. Weights may therefore differ by
    thousands of orders of magnitude; towards temperature 0 the result is the sorted order, with
    tied items sharing their positions equally.

    The absolute error is below 1e-12 (seen: 1e-14 against enumeration of all lists for n ≤ 6, equal
    weights and half the step for n ≤ 300; the log-weights themselves are only as accurate as their
    last digit, 2e-12 at ±1e4). Probabilities below 1e-16 have no relative accuracy and may be 0.
    Work: O(n log n · positions^1.5), times the number of separate time scales among the first
    `positions` items.

    Args:
        log_weights: Shape (n,): score / temperature of each item; finite.
        positions: d, the length of the list; may exceed n.

    Returns:
        Shape (n, d): entry [i, k] is the probability that item i is at position k + 1. The columns
        sum to 1 up to column min(n, d), and are 0 beyond.

    Raises:
        ValueError: A log-weight is not finite, or `positions` is negative.

    Example:
        >>> marginals(np.log([2.0, 1.0, 1.0]), positions=2).round(4).tolist()
        [[0.5, 0.3333], [0.25, 0.3333], [0.25, 0.3333]]
    """
    weights = _checked_weights(log_weights)
    if positions < 0:
        raise ValueError(f"positions must not be negative, got {positions}")
    depth = min(positions, len(weights))
    result = np.zeros((len(weights), positions))
    if depth:
        # Sorted, the items that have arrived, are about to, and are still far are three slices.
        order = np.argsort(-weights, kind="stable")
        descending = weights[order] - weights[order[0]]
        result[order, :depth] = _integrate(descending, depth, _step(depth))
    return result


# --- lists --------------------------------------------------------------------------------------


def _chunk_probabilities(weights: Floats, lists: Integers) -> Floats:
    """Prefix probabilities of a few lists at once."""
    possible = np.logical_and.accumulate((lists != UNKNOWN) & ~_repeats(lists), axis=1)
    # Items that follow an impossible slot are not placed: their weight belongs to the rest.
    placed = np.where(possible, lists, len(weights))
    listed = np.append(weights, -np.inf)[placed]
    columns = np.column_stack([listed, _log_rest(weights, placed)])
    remaining = np.logaddexp.accumulate(columns[:, ::-1], axis=1)[:, :0:-1]
    log_steps = np.where(possible, listed, 0.0) - np.where(possible, remaining, 0.0)
    return np.where(possible, np.exp(np.cumsum(log_steps, axis=1)), 0.0)


def _log_rest(weights: Floats, placed: Integers) -> Floats:
    """Log of the weight outside each list; -inf where the list holds every item."""
    outside = np.tile(np.append(weights, -np.inf), (len(placed), 1))
    np.put_along_axis(outside, placed, -np.inf, axis=1)
    largest = outside.max(axis=1)
    shift = np.where(np.isfinite(largest), largest, 0.0)
    with np.errstate(divide="ignore"):  # log 0 is meant: nothing is outside
        logs: Floats = np.log(np.exp(outside - shift[:, None]).sum(axis=1)) + shift
    return logs


def _repeats(lists: Integers) -> NDArray[np.bool_]:
    """True where an item already stands earlier in its list."""
    order = np.argsort(lists, axis=1, kind="stable")
    ordered = np.take_along_axis(lists, order, axis=1)
    same = np.zeros(lists.shape, dtype=np.bool_)
    same[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    repeats = np.empty_like(same)
    np.put_along_axis(repeats, order, same, axis=1)
    return repeats


# --- marginals ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Arrivals:
    """The items in play at a block of nodes (rows: items, columns: nodes)."""

    yes: Floats  # 1 - e^{-x}: has arrived, with x = w_i e^s
    no: Floats  # e^{-x}: has not
    now: Floats  # x e^{-x}: density of arriving, on the scale of s


def _integrate(descending: Floats, depth: int, step: float) -> Floats:
    """Marginals of items sorted by falling log-weight, by the trapezoidal rule."""
    result = np.zeros((len(descending), depth))
    for nodes in _blocks(_nodes(descending[:depth], step)):
        s = nodes * step
        # Items before `first` have arrived at all nodes of the block, items from `last` on at none.
        first = int(np.count_nonzero(descending + s[0] > math.log(_TAIL)))
        last = int(np.count_nonzero(descending + s[-1] > -_TAIL))
        if first >= depth:
            break
        x = np.exp(np.minimum(descending[first:last, None] + s, _LONG_AGO))
        arrivals = _Arrivals(yes=-np.expm1(-x), no=np.exp(-x), now=step * x * np.exp(-x))
        nobody = np.ones((1, len(s)))
        for item, others in _all_but_one(arrivals, nobody, (0, last - first), depth - first):
            result[first + item, first : first + len(others)] += others @ arrivals.now[item]
    return result


def _nodes(top: Floats, step: float) -> NDArray[np.int64]:
    """Multiples j of the step at which the integrand matters, in rising order.

    An item matters from e^{-40} of its time scale to 40 times it. Only the first `depth` items
    count: once they have arrived the list is full, so that the others matter nowhere else.
    """
    start = np.floor((-top - _TAIL) / step).astype(np.int64)
    stop = np.ceil((-top + math.log(_TAIL)) / step).astype(np.int64) + 1
    # Neighbours overlap; each item adds only what its predecessor did not cover.
    start[1:] = np.maximum(start[1:], stop[:-1])
    return np.concatenate([np.arange(a, b) for a, b in zip(start, stop, strict=True)])


def _blocks(nodes: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """The nodes in runs short enough to work on."""
    for start in range(0, len(nodes), _NODES_PER_BLOCK):
        yield nodes[start : start + _NODES_PER_BLOCK]


def _all_but_one(
    arrivals: _Arrivals, counts: Floats, items: tuple[int, int], depth: int
) -> Iterator[tuple[int, Floats]]:
    """Distribution of the number of arrivals among all items but one, for each one of `items`.

    Divide and conquer: `counts` already holds every item outside `items`; add one half of them and
    recurse into the other. Dividing the item out of the full product would be faster and unstable.

    Yields:
        The item, and its counts with shape (up to `depth`, nodes).
    """
    first, last = items
    if last - first == 1:
        yield first, counts
        return
    middle = (first + last) // 2
    for mine, others in (((first, middle), (middle, last)), ((middle, last), (first, middle))):
        more = counts
        for item in range(*others):
            more = _with_item(more, arrivals.yes[item], arrivals.no[item], depth)
        yield from _all_but_one(arrivals, more, mine, depth)


def _with_item(counts: Floats, yes: Floats, no: Floats, depth: int) -> Floats:
    """The counts after one more item, without those that would overfill the list."""
    rows = min(len(counts) + 1, depth)
    more = np.empty((rows, counts.shape[1]))
    np.multiply(counts, no, out=more[: len(counts)])
    more[len(counts) :] = 0.0
    more[1:] += counts[: rows - 1] * yes
    return more


def _step(depth: int) -> float:
    """The largest step whose error bound 2 (cos φ)^{-depth} e^{-2πφ/h}, best φ, is small enough."""
    phi = np.linspace(0.0, math.pi / 2, 1_000)[1:-1]
    steps = 2 * math.pi * phi / (math.log(2 / _STEP_ERROR) - depth * np.log(np.cos(phi)))
    return max(1.0, math.floor(float(steps.max()) / _STEP_GRAIN)) * _STEP_GRAIN


# --- checks -------------------------------------------------------------------------------------


def _checked_weights(log_weights: ArrayLike) -> Floats:
    weights = np.asarray(log_weights, dtype=np.float64)
    if weights.ndim != 1:
        raise ValueError(f"log_weights must have shape (n,), got {weights.shape}")
    bad = np.flatnonzero(~np.isfinite(weights))
    if len(bad):
        raise ValueError(
            f"{len(bad)} of {len(weights)} log-weights are not finite, for example "
            f"{weights[bad[0]]} of item {bad[0]}; leave out items that are never shown"
        )
    return weights


def _checked_lists(lists: ArrayLike, items: int) -> Integers:
    indices: NDArray[Any] = np.asarray(lists)
    if indices.ndim != 2:  # noqa: PLR2004 - a matrix
        raise ValueError(f"lists must have shape (m, d), got {indices.shape}")
    if not indices.size:
        return indices.astype(np.int64)
    if not np.issubdtype(indices.dtype, np.integer):
        raise ValueError(f"lists must hold indices of items, got {indices.dtype}")
    smallest, largest = int(indices.min()), int(indices.max())
    if smallest < UNKNOWN or largest >= items:
        raise ValueError(
            f"lists must hold indices from {UNKNOWN} to {items - 1}, got {smallest} to {largest}"
        )
    return indices
