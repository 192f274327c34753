"""Work that goes to other processes."""

import pytest

from foreclick.batches import pooled
from foreclick.errors import EngineError


def test_what_no_other_process_can_be_told_of_is_refused_before_one_starts():
    assert list(pooled(lambda part: part + 1, [1, 2, 3])) == [2, 3, 4]
    with pytest.raises(EngineError, match=r"workers=2: .* in a module rather than as a lambda"):
        list(pooled(lambda part: part + 1, [1, 2, 3], workers=2))
