"""How many contexts a second are policies found for? `python -m benchmarks.optimize_solvers`.

One core, one run; 50 items, 10 positions, DCG. Each context was logged with 30 lists that noise
made of one ranking. The solvers see arrays only; what reading a log costs is not in here.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray

from foreclick.optimization.constraints import Limits, program
from foreclick.optimization.solvers import (
    assign,
    decode,
    greedy,
    knapsack,
    to_marginals,
    transport,
)

Floats = NDArray[np.float64]

LOGGED, NOISE = 30, 0.1
LISTS = 500


def logged(rng: np.random.Generator, items: int, positions: int) -> Floats:
    """The marginals of a context's logged lists."""
    scores = rng.random(items) + NOISE * rng.gumbel(size=(LOGGED, items))
    lists = np.argsort(-scores, axis=1)[:, :positions]
    masses = rng.dirichlet(np.full(LOGGED, 0.5))
    shown = np.zeros((items, positions))
    np.add.at(shown, (lists, np.arange(positions)), masses[:, None])
    return shown


def timed(name: str, contexts: int, solve: Callable[[], object], note: str = "") -> None:
    start = time.perf_counter()
    solve()
    rate = contexts / (time.perf_counter() - start)
    print(f"{name:<34}{rate:>12,.0f}   {note}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--contexts", type=int, default=500)
    parser.add_argument("--items", type=int, default=50)
    parser.add_argument("--positions", type=int, default=10)
    parser.add_argument("--clip", type=float, default=5.0)
    args = parser.parse_args()
    n, shape, clip = args.contexts, (args.items, args.positions), args.clip
    rng = np.random.default_rng(0)
    q = 1 / np.log2(2 + np.arange(args.positions))
    shown = np.stack([logged(rng, *shape) for _ in range(n)])
    by_item, by_slot = rng.random((n, args.items)), rng.random((n, *shape)) * q
    lists, masses = rng.random((n, LISTS)), rng.dirichlet(np.full(LISTS, 0.5), size=n)
    items = list(zip(by_item, clip * shown @ q, strict=True))
    exposures = [greedy(w, cap, q) for w, cap in items]
    free = np.zeros(shape, dtype=np.bool_)
    few = min(n, 50)
    pairs = list(zip(by_slot[:few], shown[:few], strict=True))
    capped = [transport(w, clip * p) for w, p in pairs]
    slots = np.eye(args.items * args.positions)

    def within(limits: Callable[[Floats], Limits]) -> None:
        for w, p in pairs:
            program(w.ravel(), clip * p.ravel(), slots, limits(p))

    said = [
        f"{np.mean([len(decode(to_marginals(y, q))[1]) for y in exposures[:few]]):.0f} lists each"
    ]
    said.append(f"{np.mean([len(decode(h)[1]) for h in capped]):.0f} lists each")
    print(f"{args.items} items, {args.positions} positions, M = {clip:g}: contexts per second\n")
    timed(
        f"knapsack, {LISTS} lists",
        n,
        lambda: [knapsack(w, cap) for w, cap in zip(lists, clip * masses, strict=True)],
    )
    timed("greedy", n, lambda: [greedy(w, cap, q) for w, cap in items])
    timed("to_marginals", n, lambda: [to_marginals(y, q) for y in exposures])
    timed("and decode", n, lambda: [decode(to_marginals(y, q)) for y in exposures], said[0])
    timed("assign", n, lambda: [assign(w) for w in by_slot])
    timed("transport", few, lambda: [transport(w, clip * p) for w, p in pairs])
    timed("decode, of transport", few, lambda: [decode(h) for h in capped], said[1])
    timed("program, no limits", few, lambda: within(lambda _: Limits(free)))
    timed("program, near production", few, lambda: within(lambda p: Limits(free, near=(p, 0.3))))
    timed(
        "program, one list near it",
        few,
        lambda: within(lambda p: Limits(free, near=(p, 0.9), whole=True)),
    )


if __name__ == "__main__":
    main()
