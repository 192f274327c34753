"""Short versions of `make bench-scale`: ours and its twin in hand-written SQL give the same."""

import numpy as np
import pytest
from benchmarks import scale, success

MEMORY = "1GB"


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("scale") / "log"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scale, "QUERIES", 50)
        scale.write_log(path, 20_000)
    return str(path)


@pytest.mark.slow
def test_tallies_and_values_are_those_of_the_twin(log):
    assert scale.tally(log, MEMORY) == scale.bare_tally(log, MEMORY)
    ours, theirs = scale.evaluate(log, MEMORY), scale.bare_evaluate(log, MEMORY)
    for name in ("ip", "pbm", "list"):
        assert ours[name] == pytest.approx(theirs[name], rel=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("world", success.WORLDS)
def test_at_least_one_click_is_known_to_a_hundredth(world):
    """A short version of `make success`."""
    found = success.errors(world, "stochastic", replications=10, records=10_000, depth=3)
    rmse = {name: float(np.sqrt(np.mean(errors**2))) for name, errors in found.items()}
    assert rmse["ip"] <= 0.01
    if world != "PBM":  # whose clicks are independent
        assert rmse[success.INDEPENDENT] > 3 * rmse["ip"]
