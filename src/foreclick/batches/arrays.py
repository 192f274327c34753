"""Array types, and the few array operations that every package above shares."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

S = TypeVar("S", bound=np.generic)
Floats = NDArray[np.float64]
Ints = NDArray[np.integer[Any]]
Bools = NDArray[np.bool_]
Numbers = NDArray[np.number[Any]] | Bools

_TABLE = 8  # a table of all keys is used up to so many times the keys that there are


def ratio(part: NDArray[Any], whole: NDArray[Any]) -> Floats:
    """Part / whole, and 0 where the whole is 0."""
    part, whole = np.broadcast_arrays(part, whole)
    out = np.zeros(part.shape)
    np.divide(part, whole, out=out, where=whole > 0)
    return out


def narrowest(most: int) -> Any:  # noqa: ANN401 - a type of NumPy's
    """Integers that hold numbers up to this: slots are many, and stay in memory."""
    return np.int32 if most < 2**31 else np.int64


def sums(group: Ints, values: NDArray[Any], count: int) -> Floats:
    """Shape (count,): the sum of the values of each group, added in their order."""
    return np.asarray(np.bincount(group.ravel(), values.ravel(), count)[:count], np.float64)


def accumulate(totals: Floats, group: Ints, values: NDArray[Any]) -> None:
    """Add rows of values, shape (N, …), to the totals of their groups, shape (G, …), in place.

    Rows are added one after the other, so batch after batch gives the same bits as all at once.
    """
    size = totals[0].size
    if len(totals) == 1 and size > 1:
        # NumPy pairs up what it adds along the last axis only; along the first it adds row by row.
        both = np.empty((len(values) + 1, size))
        both[0], both[1:] = totals.ravel(), values.reshape(len(values), size)
        totals[:] = np.add.reduce(both, axis=0).reshape(totals.shape)
        return
    at = group.astype(np.intp)[:, None] * size + np.arange(size)
    np.add.at(totals.reshape(-1), at.ravel(), values.astype(np.float64, copy=False).ravel())


def taken(values: NDArray[S], at: Ints) -> NDArray[S]:
    """Shape (…, N): the values at places of the last axis, shape (N,), from 0 to below its size.

    NumPy does not look whether they are, which makes it several times faster than `values[:, at]`.
    """
    return values.take(at, axis=-1, mode="clip")


def starts_of(sorted_groups: Ints, count: int) -> Ints:
    """Shape (count + 1,): where each group of a sorted column begins; its end is the next."""
    return np.searchsorted(sorted_groups, np.arange(count + 1))


def numbered(key: Ints, size: int) -> tuple[Ints, Ints]:
    """The distinct keys in order, and the number of each one's; keys are below `size`."""
    rises = key[1:] >= key[:-1]
    if rises.all():
        new = np.ones(len(key), dtype=np.bool_)
        np.greater(key[1:], key[:-1], out=new[1:])
        return key[new], np.cumsum(new) - 1
    if size <= _TABLE * len(key) + 1024:  # a table of all keys is faster than sorting them
        there = np.zeros(size, dtype=np.bool_)
        there[key] = True
        distinct = np.flatnonzero(there)
        number = np.empty(size, dtype=np.int32)  # read only where it is written
        number[distinct] = np.arange(len(distinct), dtype=np.int32)
        return distinct, number[key].astype(np.int64)
    rising, order = ordered(key, size)
    values, of_rising = numbered(rising, size)
    number_of_each: Ints = np.empty(len(key), dtype=np.int64)
    number_of_each[order] = of_rising
    return values, number_of_each


def ordered(key: Ints, size: int) -> tuple[Ints, Ints]:
    """Keys below `size` in order, and the place of each; equal ones stay in their order.

    Key and place are sorted as one number, which is several times faster than sorting places.
    """
    bits = len(key).bit_length()
    if int(size).bit_length() + bits >= 63:  # bits of a positive integer
        order = np.argsort(key, kind="stable")
        return key[order], order
    both = (key.astype(np.int64) << bits) + np.arange(len(key))
    both.sort()
    return both >> bits, both & ((1 << bits) - 1)


def summed(key: Ints, values: Floats, size: int) -> tuple[Ints, Floats]:
    """The distinct keys below `size` in order, and the sum of the values of each, if not 0."""
    if size <= _TABLE * len(key) + 1024:
        total = sums(key, values, size)
        there = np.flatnonzero(total != 0)  # of booleans it is found faster than of numbers
        return there, total[there]
    rising, order = ordered(key, size)
    end = np.searchsorted(rising, size)
    rising, values = rising[:end], values[order[:end]]
    start = np.flatnonzero(np.diff(rising, prepend=-1))
    total = np.add.reduceat(values, start) if end else np.zeros(0)
    some = total != 0
    return rising[start[some]], total[some]


def parted(key: Ints, count: int) -> tuple[Ints, Ints]:
    """Quotient and remainder; several times faster than `np.divmod`."""
    whole = key // count
    return whole, key - whole * count


def value_of_each(group: Ints, values: NDArray[Any], count: int | None = None) -> NDArray[Any]:
    """Shape (groups,): the value of each group, all of whose members have the same; or 0.

    Without `count`, there are as many groups as the last that has a member.
    """
    if count is None:
        count = int(group.max(initial=-1)) + 1
    each = np.zeros(count, dtype=values.dtype)
    each[group] = values
    return each


def expanded(start: Ints, size: Ints) -> Ints:
    """The numbers start, start + 1, … of every range, one range after the other."""
    before = np.cumsum(size) - size
    return np.asarray(np.arange(int(size.sum())) + np.repeat(start - before, size))


def padded(values: Any, length: int) -> Floats:  # noqa: ANN401 - any sequence of numbers
    """Shape (length,): the values, cut or followed by zeros."""
    padded_values = np.zeros(length)
    some = np.asarray(values, dtype=np.float64)[:length]
    padded_values[: len(some)] = some
    return padded_values
