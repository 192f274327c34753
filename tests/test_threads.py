"""If this fails, more threads of BLAS cost processor time, and save none of the clock's."""

from threadpoolctl import threadpool_info, threadpool_limits

import foreclick as fc
from foreclick.options import verb


def blas() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@verb()
def ask() -> set[int]:
    return blas()


def test_a_verb_works_with_one_thread_of_blas_and_gives_back_the_others():
    assert fc.evaluate.__name__ == "evaluate"  # NumPy, whose BLAS it is, is loaded
    with threadpool_limits(2, user_api="blas"):
        before = blas()
        assert 1 in ask()
        assert blas() == before
