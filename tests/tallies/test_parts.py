"""A log tallied part by part: the same as whole, whatever happens in between."""

import datetime as dt
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.killed import killed

import foreclick as fc
from foreclick.engines.files import machine
from foreclick.errors import OptionError, SourceError, TallyError
from tests.tries import tries

ROLES: dict[str, Any] = {"context": "query", "period": "day"}


def day(number, count=40, deep=3):
    rng = np.random.default_rng(number)
    return pa.table(
        {
            "query": rng.integers(0, 4, count),
            "items": [list(rng.permutation(5)[:deep]) for _ in range(count)],
            "clicks": rng.integers(0, 2, (count, deep)).tolist(),
            "day": [number] * count,
        }
    )


@pytest.fixture
def logs(tmp_path):
    """Four days, a file each, of which the third has longer lists."""
    directory = tmp_path / "logs"
    directory.mkdir()
    for number in range(4):
        pq.write_table(day(number, deep=4 if number == 2 else 3), directory / f"{number}.parquet")
    return directory


def whole(logs):
    return fc.tally(fc.read_log(logs, **ROLES)).to_arrow()


def names(paths):
    return [path.name for path in paths]


class TestParts:
    def test_the_files_of_a_log_add_up_to_it(self, logs, tmp_path):
        found = fc.write_tallies(logs, tmp_path / "tallies", **ROLES)
        assert names(found.made) == ["0.parquet", "1.parquet", "2.parquet", "3.parquet"]
        assert found.read().to_arrow().equals(whole(logs))
        assert fc.read_tally(tmp_path / "tallies").to_arrow().equals(whole(logs))
        assert str(found).endswith("tallies: 4 made now, 0 were there")

    def test_the_periods_of_a_table_are_its_parts(self, logs, tmp_path):
        table = pa.concat_tables([pq.read_table(f) for f in sorted(logs.glob("*"))])
        found = fc.write_tallies(table, tmp_path / "tallies", **ROLES)
        assert names(found.made)[0] == "period=0.parquet"
        assert found.read().to_arrow().equals(whole(logs))

    def test_timestamps_are_parted_by_day_and_a_filter_holds(self, tmp_path):
        hours = [dt.datetime(2026, 11, 1, tzinfo=dt.UTC) + dt.timedelta(hours=h) for h in range(48)]
        table = pa.table(
            {
                "context": ["q"] * 48,
                "items": [[1, 2]] * 48,
                "clicks": [[0, 1], [1, 0]] * 24,
                "at": hours,
            }
        )
        asked: dict[str, Any] = {"period": "at", "where": "clicks[1] = 1"}
        found = fc.write_tallies(table, tmp_path / "t", **asked)
        assert names(found.made) == ["period=2026-11-01.parquet", "period=2026-11-02.parquet"]
        assert found.read().to_arrow().equals(fc.tally(fc.read_log(table, **asked)).to_arrow())

    def test_files_in_directories_keep_their_names_apart(self, logs, tmp_path):
        for number in range(4):
            (logs / f"day={number}").mkdir()
            (logs / f"{number}.parquet").rename(logs / f"day={number}" / "part.parquet")
        found = fc.write_tallies(logs, tmp_path / "t", **ROLES)
        assert names(found.made)[1] == "day=1__part.parquet"
        assert found.read().to_arrow().num_rows == whole(logs).num_rows

    def test_on_every_engine(self, engine, tmp_path):
        source = engine.load(pa.concat_tables([day(0), day(1)]))
        found = fc.write_tallies(source, tmp_path / "t", **ROLES)
        expected = fc.tally(fc.read_log(pa.concat_tables([day(0), day(1)]), **ROLES))
        assert found.read().to_arrow().equals(expected.to_arrow())

    def test_a_single_table_without_periods_has_no_parts(self, tmp_path):
        with pytest.raises(SourceError, match=r"by its files or by its periods.*period="):
            fc.write_tallies(day(1), tmp_path, context="query")
        with pytest.raises(SourceError, match="period='month' is not among query, items"):
            fc.write_tallies(day(1), tmp_path, context="query", period="month")


class TestGoingOn:
    def test_what_is_there_is_kept(self, logs, tmp_path):
        fc.write_tallies(logs, tmp_path / "t", **ROLES)
        (tmp_path / "t" / "1.parquet").unlink()
        before = {p: p.stat().st_mtime_ns for p in (tmp_path / "t").iterdir()}
        said: list[str] = []
        found = fc.write_tallies(logs, tmp_path / "t", progress=said.append, **ROLES)
        assert (names(found.made), len(found.kept)) == (["1.parquet"], 3)
        assert said == ["Tallying part by part, 25%"]
        assert all(p.stat().st_mtime_ns == at for p, at in before.items())
        assert found.read().to_arrow().equals(whole(logs))

    def test_a_day_that_was_replaced_is_tallied_again(self, logs, tmp_path):
        fc.write_tallies(logs, tmp_path / "t", **ROLES)
        pq.write_table(day(3, count=50), logs / "3.parquet")
        found = fc.write_tallies(logs, tmp_path / "t", **ROLES)
        assert names(found.made) == ["3.parquet"]
        assert found.read().to_arrow().equals(whole(logs))

    def test_a_day_that_is_gone_is_named_and_not_read(self, logs, tmp_path):
        fc.write_tallies(logs, tmp_path / "t", **ROLES)
        (logs / "0.parquet").unlink()
        found = fc.write_tallies(logs, tmp_path / "t", **ROLES)
        assert names(found.others) == ["0.parquet"]
        assert "1 more are of no part of this log, for instance 0.parquet" in str(found)
        assert found.read().to_arrow().equals(whole(logs))

    def test_tallies_made_in_another_way_are_refused(self, logs, tmp_path):
        fc.write_tallies(logs, tmp_path / "t", **ROLES)
        with pytest.raises(TallyError, match=r"another way.*where='query > 1'.*another directory"):
            fc.write_tallies(logs, tmp_path / "t", where="query > 1", **ROLES)
        (tmp_path / "t" / "0.parquet").write_text("something")
        with pytest.raises(TallyError, match=r"0\.parquet' is in the way"):
            fc.write_tallies(logs, tmp_path / "t", **ROLES)

    def test_what_a_killed_process_left_is_swept_and_a_living_one_s_is_not(self, logs, tmp_path):
        fc.write_tallies(logs, tmp_path / "t", **ROLES)
        gone = subprocess.Popen([sys.executable, "-c", ""])
        gone.wait()
        host = machine()
        left = tmp_path / "t" / f"1.parquet.{host}.{gone.pid}.partial"
        own = tmp_path / "t" / f"1.parquet.{host}.{os.getppid()}.partial"
        for file in (left, own):
            file.write_text("half")
        fc.write_tallies(logs, tmp_path / "t", **ROLES)
        assert not left.exists()
        assert own.exists()


@pytest.mark.slow
def test_killed_at_any_moment_and_started_again_it_is_the_same(tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    for number in range(8):
        pq.write_table(day(number, count=2_000), logs / f"{number}.parquet")
    times = tries(2, 3)
    assert len(killed(logs, tmp_path, times=times)) == times


class TestWeights:
    def test_a_period_counts_as_often_as_it_weighs(self, logs):
        found = fc.tally(fc.read_log(logs, **ROLES)).weigh(weights={1: 3, 2: 0})
        days = [pq.read_table(logs / f"{n}.parquet") for n in (0, 1, 1, 1, 3)]
        twice = fc.tally(fc.read_log(pa.concat_tables(days), **ROLES))
        candidate = {"context": range(4), "items": [[0, 1, 2]] * 4}
        asked: dict[str, Any] = {"estimators": ["ip", "item"], "metrics": "clicks@3"}
        ours, theirs = (
            fc.evaluate(t, candidate, clusters=None, **asked).to_dicts() for t in (found, twice)
        )
        for mine, expected in zip(ours, theirs, strict=True):
            assert mine["value"] == pytest.approx(expected["value"], rel=1e-12)
            assert mine["records"] == expected["records"]
        thrice = fc.tally(fc.read_log(logs, **ROLES)).weigh(weights={1: 3})
        assert min(fc.evaluate(thrice, candidate, **asked)["se"]) > 0

    def test_half_lives_of_days_and_of_numbers(self, logs, tmp_path):
        fc.write_tallies(logs, tmp_path / "t", **ROLES)
        faded = fc.read_tally(tmp_path / "t", half_life=2)
        rows = faded.to_arrow().to_pylist()
        by_day = {n: sum(r["n"] for r in rows if r["period"] == n) for n in range(4)}
        assert by_day == pytest.approx({n: 40 * 0.5 ** ((3 - n) / 2) for n in range(4)})
        dates = [dt.date(2026, 10, 31), dt.date(2026, 11, 1)]
        two = {"context": ["q"] * 2, "items": [[1]] * 2, "clicks": [[1]] * 2, "day": dates}
        dated = fc.tally(fc.read_log(two, period="day")).weigh(half_life=1)
        assert dated.to_arrow()["n"].to_pylist() == [0.5, 1.0]
        steps = fc.tally(fc.read_log(two | {"day": [0.5, 1.75]}, period="day")).weigh(half_life=2.5)
        assert steps.to_arrow()["n"].to_pylist() == [0.5**0.5, 1.0]

    def test_added_to_a_tally_that_does_not_fade_it_still_does(self, logs):
        counted = fc.tally(fc.read_log(logs, **ROLES))
        faded = counted.weigh(half_life=1)
        assert not (counted + counted).decayed
        assert (counted + faded).decayed
        assert (faded + counted).decayed

    def test_it_survives_a_file(self, logs, tmp_path):
        fc.tally(fc.read_log(logs, **ROLES)).weigh(half_life=1).write_parquet(
            tmp_path / "t.parquet"
        )
        assert fc.read_tally(tmp_path / "t.parquet").decayed

    def test_what_cannot_be_weighed_is_refused(self, logs):
        counted = fc.tally(fc.read_log(logs, **ROLES))
        cases: list[tuple[dict[str, Any], str]] = [
            ({"weights": {9: 1}}, "9 is no period of the tally, which has for instance"),
            ({"weights": {1: -1}}, "-1 is no weight"),
            ({"weights": dict.fromkeys(range(4), 0)}, "nothing is left"),
            ({"half_life": 0}, "half_life=0: give a number"),
        ]
        for wrong, said in cases:
            with pytest.raises((TallyError, OptionError), match=said):
                counted.weigh(**wrong)
        with pytest.raises(TallyError, match="about periods"):
            fc.tally(fc.read_log(logs, context="query")).weigh(half_life=1)
        text = {"context": ["q"], "items": [[1]], "clicks": [[1]], "day": ["monday"]}
        with pytest.raises(TallyError, match=r"dates or numbers, not 'monday'.*weights="):
            fc.tally(fc.read_log(text, period="day")).weigh(half_life=1)

    def test_records_that_count_less_are_not_taken_for_fewer_records(self, logs):
        faded = fc.tally(fc.read_log(logs, **ROLES)).weigh(half_life=1)
        candidate = {"context": range(4), "items": [[0, 1, 2]] * 4}
        with pytest.raises(fc.errors.ModelError, match="do not vary alike"):
            fc.evaluate(faded, candidate, clusters="record")
        with pytest.raises(fc.errors.ModelError, match="do not count alike"):
            fc.evaluate(faded.weigh(weights={0: 0}), candidate)
