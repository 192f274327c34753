"""If this fails, a retrieval run is ranked otherwise than trec_eval does."""

import gzip

import pytest

import foreclick as fc
from foreclick.errors import ForeclickWarning, SourceError
from tests.answers import IBIS, answer, log_of, repeated
from tests.policies import shown_by

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


@pytest.fixture
def written(tmp_path):
    """A function that writes a run into a file, and gives its path."""

    def write(text):
        path = tmp_path / "a.run"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def file(written):
    return written(
        "".join(f"{q} Q0 {d}\t0  {s} bm25\n" for q, of in SCORES.items() for d, s in of.items())
    )


def test_all_forms_are_the_same_lists_and_depth_cuts_them(file, tmp_path):
    """A file may have any name and be compressed."""
    (tmp_path / "output.txt").write_text(file.read_text())
    with gzip.open(tmp_path / "bm25.trec.gz", "wt") as text:
        text.write(file.read_text())
    forms = [fc.Ranking(form) for form in (file, str(file), SCORES, tmp_path / "bm25.trec.gz")]
    forms.append(fc.Ranking.from_trec(tmp_path / "output.txt"))
    assert [shown_by(form) for form in forms] == [LISTS] * len(forms)
    assert shown_by(fc.Ranking.from_trec(file, depth=2)) == {7: [1, 2], 8: [4, 2]}


def test_a_file_breaks_ties_by_rank_then_by_id(written):
    path = written("q Q0 b 3 1.0 t\nq Q0 c 2 1.0 t\nq Q0 d 2 1.0 t\nq Q0 a 9 0.5 t\n")
    assert shown_by(fc.Ranking(path)) == {"q": ["c", "d", "b", "a"]}


def test_scores_decide_where_ranks_contradict_them(written):
    message = r"1 document .* for 'q', 'a' has rank 2 and the score 9, 'b' rank 1 and 8.*−rank"
    with pytest.warns(ForeclickWarning, match=message):
        found = fc.Ranking(written("q Q0 a 2 9 t\nq Q0 b 1 8 t\nq Q0 c 3 7 t\n"))
    assert shown_by(found) == {"q": ["a", "b", "c"]}
    fc.Ranking(written("q Q0 a 1 9 t\nq Q0 b 2 8 t\nr Q0 b 1 8 t\n"))  # ranks agree: no warning


def test_integers_meet_text_and_integers(file):
    text = [r._replace(context=str(r.context), items=tuple(map(str, r.items))) for r in RECORDS]
    run = fc.Ranking(file)
    assert answer(log_of(RECORDS), run) == answer(log_of(text), run)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "q Q0 a 1 9 t\nq a 9\n\nq Q0 b x 8 t\nq Q0 a b 3 7 t\nq Q0 c 1 1 my tag\n",
            r"4 lines of '.*a.run' are not of a TREC run, for example line 2: 'q a 9'. A li",
        ),
        ("\n", "the run is empty"),
    ],
)
def test_what_is_wrong_in_a_file_is_counted_with_an_example(written, text, message):
    with pytest.raises(SourceError, match=message):
        fc.Ranking(written(text))


def test_a_missing_file_is_said():
    with pytest.raises(SourceError, match="no file matches"):
        fc.Ranking("none.run")
