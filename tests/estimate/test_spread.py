"""Covariances of sums over clusters, against sums over pairs of records."""

import numpy as np
import pytest

import foreclick as fc
from foreclick.estimate.covariance import newey_west
from foreclick.estimate.estimates import Estimates

RNG = np.random.default_rng(12)
DAY, USER = RNG.integers(0, 12, 400), RNG.integers(0, 30, 400)
Z = RNG.normal(size=(400, 2))
Z -= Z.mean(axis=0)
BOTH_COLUMNS = np.eye(2)


class Known(Estimates):
    """Estimates of which nothing is known but sums over clusters."""

    def __init__(self, *rows):
        self._known = list(rows)

    def _rows(self, s):
        return self._known, None


def part(kind, code, values=Z):
    at = np.unique(code, return_inverse=True)[1]
    return kind, np.stack([np.bincount(at, column) for column in values.T], axis=1).astype(float)


def parts(values, day=DAY, user=USER):
    """Sums by days, by users, and by both at once."""
    codes = [("period", day), ("unit", user), ("both", day * 30 + user)]
    return [part(kind, code, values) for kind, code in codes]


DAYS, USERS, BOTH = parts(Z)


def pairs(share):
    """Σ z_t z_sᵀ over the pairs of records that share something."""
    return Z.T @ share.astype(float) @ Z


def test_one_kind_is_a_sum_over_pairs_of_records():
    found = Known(DAYS)
    same = DAY[:, None] == DAY
    assert found.shown(0, BOTH_COLUMNS) == pytest.approx(pairs(same) * 12 / 11)
    assert (found.freedom(0), found.clusters(0)) == (11, ("period", 12))


def test_two_kinds_count_pairs_that_share_either_once():
    found = Known(DAYS, USERS, BOTH)
    day, user = DAY[:, None] == DAY, USER[:, None] == USER
    count = len(np.unique(DAY * 30 + USER))
    expected = (
        pairs(day) * 12 / 11 + pairs(user) * 30 / 29 - pairs(day & user) * count / (count - 1)
    )
    assert found.shown(0, BOTH_COLUMNS) == pytest.approx(expected)
    assert pairs(day | user) == pytest.approx(pairs(day) + pairs(user) - pairs(day & user))
    assert (found.freedom(0), found.clusters(0)) == (11, ("period", 12))


def test_no_direction_has_a_negative_variance():
    """Days and users whose sums are 0, so that only what they share is left."""
    z = np.array([[1.0, 0.5], [-1.0, -0.5], [-1.0, -0.5], [1.0, 0.5]])
    day, user = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    found = Known(*parts(z, day, user)).shown(0, BOTH_COLUMNS)
    assert found == pytest.approx(np.zeros((2, 2)))


def test_what_is_cut_does_not_depend_on_the_scale_of_an_estimate():
    rng = np.random.default_rng(5)
    day, user, z = rng.integers(0, 4, 40), rng.integers(0, 30, 40), rng.normal(size=(40, 2))
    z[:, 1] = z[:, 0] + 0.1 * z[:, 1]
    found = {}
    for scale in (1.0, 1e-9):
        values = (z - z.mean(axis=0)) * [scale, 1.0]
        kinds = parts(values, day, user)
        covariance = Known(*kinds).shown(0, BOTH_COLUMNS)
        found[scale] = covariance / np.outer([scale, 1.0], [scale, 1.0])
        raw = sum(
            (-1 if kind == "both" else 1) * sums.T @ sums * len(sums) / (len(sums) - 1)
            for kind, sums in kinds
        )
        assert np.linalg.eigvalsh(raw)[0] < 0  # so that there is something to cut
    assert found[1e-9] == pytest.approx(found[1.0], rel=1e-9)
    assert np.linalg.eigvalsh(found[1.0])[0] > -1e-12


def test_memory_is_newey_and_wests_of_days_in_order():
    days = DAYS[1][:, 0]
    s = days - days.mean()
    expected = sum(max(1 - abs(i - j) / 5, 0) * s[i] * s[j] for i in range(12) for j in range(12))
    expected *= 12 / 11 / (1 - 2 / 3 * 5 / 12)
    assert newey_west(days) == pytest.approx(expected)
    found = Known(DAYS)
    memory, freedom = found.memory(0, BOTH_COLUMNS[0])
    assert found.shown(0, BOTH_COLUMNS)[0, 0] + memory == pytest.approx(expected)
    assert freedom == pytest.approx(1.5 * 12 / 5 - 1)


def test_a_few_days_say_nothing_of_memory():
    assert Known(("period", DAYS[1][:9])).memory(0, BOTH_COLUMNS[0]) == (0, 8)
    assert Known(USERS).memory(0, BOTH_COLUMNS[0]) == (0, 29)


def test_questions_are_joined_over_all_kinds():
    """The second is half of the third in every record."""
    found = Known(DAYS, USERS, BOTH)
    joint = found.shown(0, np.array([[1.0, 0.0], [0.0, 0.5], [0.0, 1.0]]))
    assert joint[1] == pytest.approx(0.5 * joint[2])
    assert joint[np.ix_([0, 2], [0, 2])] == pytest.approx(found.shown(0, BOTH_COLUMNS))


@pytest.mark.parametrize("estimator", ["ip", "ladder"])
def test_who_is_compared_twice_counts_once(estimator):
    rng = np.random.default_rng(2)
    log = fc.read_log(
        {
            "context": rng.integers(0, 3, 200).tolist(),
            "items": [rng.permutation(3).tolist() for _ in range(200)],
            "clicks": rng.integers(0, 2, (200, 3)).tolist(),
            "day": rng.integers(0, 6, 200).tolist(),
            "user": rng.integers(0, 40, 200).tolist(),
        },
        period="day",
        unit="user",
    )
    a = {"context": [0, 1, 2], "items": [[1, 2, 0], [2, 0, 1], [0, 1, 2]]}
    b = {"context": [0, 1, 2], "items": [[2, 1, 0], [2, 1, 0], [0, 2, 1]]}

    def pairs_of(candidates):
        found = fc.compare(log, candidates, estimators=estimator, metrics="clicks@2").to_dicts()
        return {(row["candidate"], row["against"]): row for row in found}

    once, twice = pairs_of({"a": a, "b": b}), pairs_of({"a": a, "b": b, "again": a})
    assert once.keys() <= twice.keys()
    for pair, row in once.items():
        assert twice[pair]["se"] == pytest.approx(row["se"], rel=1e-12)
    assert (twice["a", "again"]["change"], twice["a", "again"]["se"]) == (0, 0)
