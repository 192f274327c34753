"""If this fails, two keys share a number, and their clicks are added up."""

import numpy as np
import pytest

from foreclick.batches.arrays import numbered, ordered, summed, taken

SIZES = [60, 10_000_000, 2**62]  # of a table, of keys sorted with their places, of places sorted


@pytest.mark.parametrize("size", SIZES)
def test_keys_are_numbered_in_order(size):
    key = np.random.default_rng(1).integers(0, 50, 200) * (size // 60)
    distinct, number = numbered(key, size)
    values, inverse = np.unique(key, return_inverse=True)
    assert distinct.tolist() == values.tolist()
    assert number.tolist() == inverse.tolist()


@pytest.mark.parametrize("size", SIZES)
def test_equal_keys_stay_in_their_order(size):
    key = np.random.default_rng(2).integers(0, 50, 200) * (size // 60)
    rising, place = ordered(key, size)
    assert place.tolist() == np.argsort(key, kind="stable").tolist()
    assert rising.tolist() == np.sort(key).tolist()


@pytest.mark.parametrize("size", SIZES)
def test_sums_leave_out_zeros_and_keys_beyond_the_last(size):
    key = np.array([3, 1, 3, 2, 60]) * (size // 60)
    distinct, total = summed(key, np.array([1.0, 2.0, 4.0, 0.0, 8.0]), 60 * (size // 60))
    assert distinct.tolist() == [size // 60, 3 * (size // 60)]
    assert total.tolist() == [2.0, 5.0]


def test_no_keys_have_no_sums():
    distinct, total = summed(np.zeros(0, np.int64), np.zeros(0), 10**7)
    assert len(distinct) == len(total) == 0


def test_values_are_taken_along_the_last_axis():
    values, at = np.arange(12.0).reshape(3, 4), np.array([3, 0, 3])
    assert taken(values, at).tolist() == values[:, at].tolist()
