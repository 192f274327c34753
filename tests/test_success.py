"""A short version of `make success`: at least one click, against the truth of four worlds."""

import numpy as np
import pytest
from benchmarks import success


@pytest.mark.slow
@pytest.mark.parametrize("world", success.WORLDS)
def test_at_least_one_click_is_known_to_a_hundredth(world):
    found = success.errors(world, "stochastic", replications=10, records=10_000, depth=3)
    rmse = {name: float(np.sqrt(np.mean(errors**2))) for name, errors in found.items()}
    assert rmse["ip"] <= 0.01
    assert len(found["ip"]) == len(found[success.INDEPENDENT]) == 10
    if world != "PBM":  # whose clicks are independent
        assert rmse[success.INDEPENDENT] > 3 * rmse["ip"]
