"""Short versions of `make bench-scale`: ours and its twin in hand-written SQL give the same."""

import pytest
from benchmarks import scale

MEMORY = "1GB"


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("scale") / "log"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scale, "QUERIES", 50)
        scale.write_log(path, 20_000)
    return str(path)


@pytest.mark.slow
def test_the_tally_is_that_of_the_twin(log):
    assert scale.tally(log, MEMORY) == scale.bare_tally(log, MEMORY)


@pytest.mark.slow
def test_values_are_those_of_the_twin(log):
    mine, theirs = scale.evaluate(log, MEMORY), scale.bare_evaluate(log, MEMORY)
    for name in ("ip", "pbm", "list"):
        assert mine[name] == pytest.approx(theirs[name], rel=1e-12)


@pytest.mark.slow
def test_parts_and_backtests_run(log):
    assert scale.parts(log, MEMORY)["answers"] == 15
    assert scale.backtest(log, MEMORY)["answers"] == 400
