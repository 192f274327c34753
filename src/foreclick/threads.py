"""BLAS in one thread: products are tall and thin here, and more threads only cost CPU time.

Two threads took 1.6 times the CPU seconds of one for the default answer on 200,000 lists, and no
less time.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    import numpy  # noqa: F401, ICN001, PLC0415 - whose BLAS is held

    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[Any]:
    """While it is open, NumPy's BLAS has one thread; then as many as before."""
    limiter: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limiter
