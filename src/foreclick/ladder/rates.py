"""Click rates of pairs, given coefficients: the Poisson-gamma regression of the ladder.

With the features x of a pair i in a context, in normal scores of rank (`features`),

    log m_i = β x_i + log L,    L ~ Γ(t, t),    α_i = m_i G_i,  G_i ~ Γ(a, a),

    α̂_i = (C_i + a) / (E_i + a / m_i),

of C clicks in E examined records. So the rate of a pair is a rung of strength a / m on top of a
rung of contexts of strength t, whose cells are exposed by m / L.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from foreclick.batches import Floats, Ints, sums
from foreclick.batches.arrays import taken
from foreclick.ladder.features import LOG_RATE_BOUNDS

LEVEL_ROUNDS = 60
"""Newton's steps that the levels of contexts may take: with more, they have not converged."""

_SAME = 1e-11


@dataclass(frozen=True, eq=False)
class RateParameters:
    """What the pairs of a log share.

    Attributes:
        beta: Shape (F,): β, the coefficients of features.
        p: Shape (K,): examination.
        a, t: the strength of a pair, and of a context.
    """

    beta: Floats
    p: Floats
    a: float
    t: float

    def moved(self, step: Floats) -> RateParameters:
        """With β and log p a step further."""
        f = len(self.beta)
        p, beta = self.p * np.exp(np.append(0.0, step[f:])), self.beta + step[:f]
        beta[0] = np.clip(beta[0], *LOG_RATE_BOUNDS)  # beyond them it moves no rate
        return replace(self, beta=beta, p=p)


class Rates(NamedTuple):
    """The rates of the pairs of a batch.

    Attributes:
        exposure: Shape (P,): E.
        m: Shape (P,): the prior mean; `prior_share`: the share of α̂ that it decides.
        alpha: Shape (P,): α̂.
        level: Shape (X,): L; `weight`: what log L is divided by; `settled`: whether all are found.
    """

    exposure: Floats
    m: Floats
    prior_share: Floats
    alpha: Floats
    level: Floats
    weight: Floats
    settled: bool


def rates(
    context: Ints,
    count: int,
    clicks: Floats,
    exposure: Floats,
    expected: Floats,
    parameters: RateParameters,
    start: Floats | None = None,
) -> Rates:
    """The rates of pairs.

    Args:
        context: Shape (P,): the context of each.
        count: how many contexts there are.
        clicks: Shape (P,): C.
        exposure: Shape (P,): E.
        expected: Shape (P,): exp(β x).
        parameters: a and t.
        start: Shape (X,): levels from where to start; None: 1.
    """
    a, t = parameters.a, parameters.t
    context = context.astype(np.intp, copy=False)
    level, exposed = np.ones(count) if start is None else start, exposure * expected
    spread, settled = exposed * (1 + clicks / a), False
    for _ in range(LEVEL_ROUNDS):  # Newton's steps: the residual falls with the level
        mean = exposed * taken(level, context)
        prior_share = a / (a + mean)
        residual = sums(context, prior_share * (clicks - mean), count) + t * (1 - level)
        slope = sums(context, prior_share * prior_share * spread, count) + t
        step = np.maximum(residual / slope, -0.9 * level)
        level = level + step
        settled = bool((np.abs(step) <= _SAME * level).all())
        if settled:
            break
    m = expected * taken(level, context)
    mean = exposure * m
    prior_share = a / (a + mean)
    alpha = (clicks + a) / (exposure + a / m)
    weight = sums(context, prior_share * mean, count) + t * level
    return Rates(exposure, m, prior_share, alpha, level, weight, settled)


def mean_jacobian(
    context: Ints, count: int, r: Rates, x: Floats, by_position: Floats, parameters: RateParameters
) -> Floats:
    """Shape (P, F + K − 1): the derivative of log m of each pair by β and log p.

    Args:
        context: Shape (P,): the context of each.
        count: how many contexts there are.
        r: the rates.
        x: Shape (P, F): the features.
        by_position: Shape (P, K): records at each position, as far as they count.
        parameters: by which the rates were found.
    """
    from scipy import sparse  # noqa: PLC0415 - slow to import

    f = x.shape[1]
    exposed = np.empty((len(x), f + by_position.shape[1] - 1))
    np.multiply(r.exposure[:, None], x, out=exposed[:, :f])
    np.multiply(by_position[:, 1:], parameters.p[1:], out=exposed[:, f:])
    own = r.prior_share * r.m, context, np.arange(len(context) + 1)
    levels = sparse.csc_array(own, shape=(count, len(context))) @ exposed
    levels = np.asarray(levels / -r.weight[:, None])
    jacobian = levels.take(context, axis=0, mode="clip")
    jacobian[:, :f] += x
    return np.asarray(jacobian)


def rate_jacobian(
    context: Ints, count: int, r: Rates, x: Floats, by_position: Floats, parameters: RateParameters
) -> Floats:
    """Shape (P, F + K − 1): the derivative of the rate of each pair, of what log m's is of."""
    of_mean = mean_jacobian(context, count, r, x, by_position, parameters)
    return jacobian_by_mean(r, of_mean, by_position, parameters)


def jacobian_by_mean(
    r: Rates, of_mean: Floats, by_position: Floats, parameters: RateParameters
) -> Floats:
    """Shape (P, F + K − 1): the derivative of the rate of each pair, of that of log m."""
    jacobian = of_mean * (r.alpha * r.prior_share)[:, None]
    own = (r.alpha / (r.exposure + parameters.a / r.m))[:, None]
    jacobian[:, len(parameters.beta) :] -= own * (by_position[:, 1:] * parameters.p[1:])
    return jacobian
