"""Covariances of sums over clusters, against sums over pairs of records."""

import numpy as np
import pytest

from foreclick.estimators.spread import (
    ByCluster,
    clustered,
    joint_covariance,
    newey_west,
)

RNG = np.random.default_rng(12)
DAY, USER = RNG.integers(0, 12, 400), RNG.integers(0, 30, 400)
Z = RNG.normal(size=(400, 2))
Z -= Z.mean(axis=0)


def part(kind, code, values=Z):
    present, at = np.unique(code, return_inverse=True)
    sums = np.stack([np.bincount(at, column) for column in values.T], axis=1).astype(float)
    return ByCluster(kind, sums, present)


def parts(values, day=DAY, user=USER):
    """Sums by days, by users, and by both at once."""
    codes = [("period", day), ("unit", user), ("both", day * 30 + user)]
    return [part(kind, code, values) for kind, code in codes]


DAYS, USERS, BOTH = parts(Z)
HALF = clustered(parts(Z[:, [1, 1]] * [0.5, 1.0]))
"""A candidate that is half of production in every record."""


def pairs(share):
    """Σ z_t z_sᵀ over the pairs of records that share something."""
    return Z.T @ share.astype(float) @ Z


def test_one_kind_is_a_sum_over_pairs_of_records():
    found = clustered([DAYS])
    same = DAY[:, None] == DAY
    assert found.covariance == pytest.approx(pairs(same) * 12 / 11)
    assert (found.freedom, found.clusters, found.kind) == (11, 12, "period")


def test_two_kinds_count_pairs_that_share_either_once():
    found = clustered([DAYS, USERS, BOTH])
    day, user = DAY[:, None] == DAY, USER[:, None] == USER
    count = len(np.unique(DAY * 30 + USER))
    expected = (
        pairs(day) * 12 / 11 + pairs(user) * 30 / 29 - pairs(day & user) * count / (count - 1)
    )
    assert found.covariance == pytest.approx(expected)
    assert pairs(day | user) == pytest.approx(pairs(day) + pairs(user) - pairs(day & user))
    assert (found.freedom, found.clusters, found.kind) == (11, 12, "period")


def test_no_direction_has_a_negative_variance():
    """Days and users whose sums are 0, so that only what they share is left."""
    z = np.array([[1.0, 0.5], [-1.0, -0.5], [-1.0, -0.5], [1.0, 0.5]])
    day, user = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    assert clustered(parts(z, day, user)).covariance == pytest.approx(np.zeros((2, 2)))


def test_what_is_cut_does_not_depend_on_the_scale_of_an_estimate():
    rng = np.random.default_rng(5)
    day, user, z = rng.integers(0, 4, 40), rng.integers(0, 30, 40), rng.normal(size=(40, 2))
    z[:, 1] = z[:, 0] + 0.1 * z[:, 1]
    found = {}
    for scale in (1.0, 1e-9):
        values = (z - z.mean(axis=0)) * [scale, 1.0]
        kinds = parts(values, day, user)
        found[scale] = clustered(kinds).covariance / np.outer([scale, 1.0], [scale, 1.0])
        raw = sum(p.sign * p.sums.T @ p.sums * len(p.sums) / (len(p.sums) - 1) for p in kinds)
        assert np.linalg.eigvalsh(raw)[0] < 0  # so that there is something to cut
    assert found[1e-9] == pytest.approx(found[1.0], rel=1e-9)
    assert np.linalg.eigvalsh(found[1.0])[0] > -1e-12


def test_memory_is_newey_and_wests_of_days_in_order():
    s = DAYS.sums[:, 0] - DAYS.sums[:, 0].mean()
    expected = sum(max(1 - abs(i - j) / 5, 0) * s[i] * s[j] for i in range(12) for j in range(12))
    expected *= 12 / 11 / (1 - 2 / 3 * 5 / 12)
    assert newey_west(DAYS.sums[:, 0]) == pytest.approx(expected)
    found = clustered([DAYS])
    assert found.covariance[0, 0] + found.memory == pytest.approx(expected)
    assert found.memory_freedom == pytest.approx(1.5 * 12 / 5 - 1)


def test_a_few_days_say_nothing_of_memory():
    few = clustered([ByCluster("period", DAYS.sums[:9], DAYS.present[:9])])
    assert (few.memory, few.memory_freedom) == (0, 8)
    users = clustered([USERS])
    assert (users.memory, users.memory_freedom) == (0, 29)


def test_two_candidates_are_joined_over_all_kinds():
    mine = clustered([DAYS, USERS, BOTH])
    joint = joint_covariance([mine, HALF])
    assert joint[1] == pytest.approx(0.5 * joint[2])
    assert joint[np.ix_([0, 2], [0, 2])] == pytest.approx(mine.covariance)


def test_who_is_compared_twice_counts_once():
    mine = clustered([DAYS, USERS, BOTH])
    twice, once = joint_covariance([mine, HALF, mine]), joint_covariance([mine, HALF])
    assert (twice[np.ix_([0, 1, 3], [0, 1, 3])] == once).all()
    assert (twice[2] == twice[0]).all()
