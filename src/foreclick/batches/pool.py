"""Work on many parts of a log, in this process or in several."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import chain, islice
from multiprocessing import get_context
from typing import TypeVar

Part = TypeVar("Part")
Answer = TypeVar("Answer")


def pooled(
    work: Callable[[Part], Answer], parts: Iterable[Part], workers: int = 1
) -> Iterator[Answer]:
    """What `work` makes of each part, in their order; a few parts are in memory at a time.

    Args:
        work: goes to other processes, and so do parts and answers: all must be picklable.
        parts: what is worked on.
        workers: how many processes work at a time; 1: this one.
    """
    rest = iter(parts)
    first = list(islice(rest, 2)) if workers > 1 else []
    if len(first) < 2:  # noqa: PLR2004 - a single one is done before a process has started
        yield from map(work, chain(first, rest))
        return
    # Forks of a process that has threads may hang, and an engine has threads.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        waiting: deque[Future[Answer]] = deque()
        for part in chain(first, rest):
            waiting.append(pool.submit(work, part))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        for future in waiting:
            yield future.result()
