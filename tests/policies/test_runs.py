"""If this fails, a retrieval run is ranked otherwise than trec_eval does."""

import gzip
import warnings
from typing import Any

import pytest

import foreclick as fc
from foreclick.errors import ForeclickWarning, SourceError
from tests.answers import IBIS, answer, log_of, repeated

pytestmark = pytest.mark.filterwarnings(IBIS)

RECORDS = [
    *repeated(((1, 2, 3), (1, 0, 1)), ((2, 1, 3), (1, 1, 0)), times=2, context=7),
    *repeated(((1, 2, 3), (0, 1, 0)), ((4, 5), (1, 0)), times=4, context=8),
]
SCORES: dict[str, dict[str, float]] = {
    "7": {"3": 0.5, "1": 2.5, "2": 2.5},
    "8": {"5": -1.0, "4": 3e2, "1": 0.0, "2": 1.0},
}
LISTS = {7: [1, 2, 3], 8: [4, 2, 1, 5]}  # equal scores by id


def lists(policy: fc.Ranking) -> dict[Any, list[Any]]:
    """What a policy shows, context by context."""
    rows = policy._rows
    return {
        row["context"]: [row[c] for c in rows.shape.items if row[c] is not None]
        for row in rows.stored.to_pylist()
    }


def lines(scores):
    return "".join(
        f"{q} Q0 {d}\t0  {s} bm25\n" for q, found in scores.items() for d, s in found.items()
    )


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "bm25.run"
    path.write_text(lines(SCORES))
    return path


class TestForms:
    def test_all_forms_are_the_same_lists(self, file):
        forms = [file, str(file), SCORES]
        assert [lists(fc.Ranking(form)) for form in forms] == [LISTS] * len(forms)

    def test_a_file_may_have_any_name_and_be_compressed(self, file, tmp_path):
        other = tmp_path / "output.txt"
        other.write_text(file.read_text())
        packed = tmp_path / "bm25.trec.gz"
        with gzip.open(packed, "wt") as text:
            text.write(file.read_text())
        assert lists(fc.Ranking.from_trec(other)) == lists(fc.Ranking(packed)) == LISTS


class TestOrder:
    def test_a_file_breaks_ties_by_rank_then_by_id(self, tmp_path):
        path = tmp_path / "ties.run"
        path.write_text("q Q0 b 3 1.0 t\nq Q0 c 2 1.0 t\nq Q0 d 2 1.0 t\nq Q0 a 9 0.5 t\n")
        assert lists(fc.Ranking(path)) == {"q": ["c", "d", "b", "a"]}

    def test_depth_cuts_every_list(self, file):
        assert lists(fc.Ranking.from_trec(file, depth=2)) == {7: [1, 2], 8: [4, 2]}

    def test_scores_decide_where_ranks_contradict_them(self, tmp_path):
        path = tmp_path / "odd.run"
        path.write_text("q Q0 a 2 9 t\nq Q0 b 1 8 t\nq Q0 c 3 7 t\n")
        message = r"1 document .* for 'q', 'a' has rank 2 and the score 9, 'b' rank 1 and 8.*−rank"
        with pytest.warns(ForeclickWarning, match=message):
            found = fc.Ranking(path)
        assert lists(found) == {"q": ["a", "b", "c"]}
        path.write_text("q Q0 a 1 9 t\nq Q0 b 2 8 t\nr Q0 b 1 8 t\n")  # ranks agree
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fc.Ranking(path)


class TestIds:
    def test_integers_meet_text_and_integers(self, file):
        text = [r._replace(context=str(r.context), items=tuple(map(str, r.items))) for r in RECORDS]
        run = fc.Ranking(file)
        assert answer(log_of(RECORDS), run) == answer(log_of(text), run)


class TestComplaints:
    def test_wrong_lines_are_counted_with_an_example(self, tmp_path):
        path = tmp_path / "bad.run"
        path.write_text("q Q0 a 1 9 t\nq a 9\n\nq Q0 b x 8 t\nq Q0 a b 3 7 t\nq Q0 c 1 1 my tag\n")
        message = r"4 lines of '.*bad.run' are not of a TREC run, for example line 2: 'q a 9'. A li"
        with pytest.raises(SourceError, match=message):
            fc.Ranking(path)

    def test_a_missing_or_empty_file_is_said(self, tmp_path):
        with pytest.raises(SourceError, match="no file matches"):
            fc.Ranking(tmp_path / "none.run")
        (tmp_path / "empty.run").write_text("\n")
        with pytest.raises(SourceError, match="the run is empty"):
            fc.Ranking(tmp_path / "empty.run")
