"""If this fails, a password is printed or saved."""

from __future__ import annotations

import io
import re
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick.cli import main
from foreclick.cli.output import show
from foreclick.errors import SourceError
from foreclick.rendering.files import plot
from foreclick.results import Result
from foreclick.secrets import masked, printable, visible
from tests.test_options import Terminal

_LINES = (Path(__file__).parent / "secrets.txt").read_text(encoding="utf-8")
FORMS, ORDINARY = (
    [line for line in part.splitlines() if not line.startswith("#")]
    for part in _LINES.split("# --- ordinary text, which stays as it is\n")
)

SHAPES = [
    "AKIA" + "IOSFODNN7EXAMPLE",
    "ghp_" + "0123456789" * 4,
    "glpat-" + "0123456789abcdef0123",
    "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxIn0.abc-def",
    "-----BEGIN RSA PRIVATE KEY-----\nabc\ndef\n" + "-----END RSA PRIVATE KEY-----",
]


URL = "https://localhost:1/x.parquet?a=1&X-Amz-Signature=HIDDEN"
WHERE = "token <> 'HIDDEN'"
LOG: dict[str, Any] = {
    "context": [1] * 8,
    "items": [[1, 2], [2, 1]] * 4,
    "clicks": [[1, 0]] * 8,
    "token": ["a"] * 8,
    "day": [*range(8)],
}


assert len(set(FORMS)) == len(FORMS) >= 100


@pytest.mark.parametrize("form", FORMS)
def test_a_form_is_masked_wherever_it_stands(form):
    for text in (form, f"see {form}\nthere", f"failed: {form}", f"{form!r} failed", f"<{form}>"):
        assert "HIDDEN" not in masked(text), text
    once = masked(form)
    assert "***" in once
    assert masked(once) == once


@pytest.mark.parametrize("shape", SHAPES)
def test_keys_are_known_by_their_shape(shape):
    assert masked(f"got {shape}, why?") == "got ***, why?"


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays(text):
    assert masked(text) == text


def test_secrets_of_the_environment(monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "HIDDEN")
    monkeypatch.setenv("OTHER_KEY", "word")
    assert masked("got HIDDEN, a word") == "got ***, a word"


@pytest.mark.parametrize(
    "part", ["a://b:", "http://", "password=", "password='", "token in (", "a:", ")", "me:x/", " @"]
)
def test_long_texts_take_no_time(part):
    start = time.process_time()
    masked(part * (20_000 // len(part)) + "@")
    assert time.process_time() - start < 5


# --- where text leaves the program ----------------------------------------------------------------


def test_tracebacks_of_a_filter():
    for text in ("no_column = 1 AND {}", "context = 1 AND {} AND", "context + {}"):
        with pytest.raises(SourceError) as caught:
            fc.read_log(LOG, where=text.format(WHERE))
        assert "HIDDEN" not in "".join(traceback.format_exception(caught.value))


def test_titles_notes_cells_and_pictures(tmp_path):
    result = Result(({"candidate": URL, "value": 1.0},), ("candidate", "value"), (URL,), URL)
    shown = [str(result), result.to_html(), result._repr_html_(), result.page()]
    written = str(result.to_json()).partition('"rows"')[0] + str(result.notes)
    assert "HIDDEN" not in "".join([*shown, written])
    policy = {"context": [1], "items": [[2, 1]]}
    compared = fc.compare(fc.read_log(LOG, unit="day"), {URL: policy, "b": policy})
    compared.save(tmp_path / "x.pdf", title=URL)
    chart = plot(compared, URL)
    drawn = [chart.svg(), repr(chart), *(mark.text for mark in chart.layout()[0])]
    assert "***" in drawn[0]
    assert "HIDDEN" not in "".join(drawn)


def test_the_command_of_a_report(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table(LOG), "log.parquet")
    pq.write_table(pa.table({"context": [1], "items": [[2, 1]]}), "new.parquet")
    words = ["report", "log.parquet", "new.parquet", "-o", "r.html", "--where", WHERE]
    assert main([*words, "--title", URL]) == 0
    page = Path("r.html").read_text(encoding="utf-8")
    assert "--where &#39;token &lt;&gt; ***&#39;" in page
    assert "HIDDEN" not in page + "".join(capsys.readouterr())


@pytest.mark.parametrize("form", ["csv", "json", "answer", "table"])
def test_a_terminal_gets_no_control_characters(form, monkeypatch):
    text = "a\x1b[2J\x9b31m\r\x00\u202eb\u2066"
    result = Result(({"text": text},), ("text",), (text,), text)
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stdout", stream)
        show(result, form, str)
        lines = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue()).split("\n")  # colours are ours
        clean = all(visible(line) == line for line in lines)
        assert clean or (form in {"csv", "json"} and not stream.isatty())
    assert form != "csv" or text in stream.getvalue()  # a file has what the log has
    assert printable("a\nb\x1b") == "a\\nb\\x1b"
    assert printable("a\nb\x1b", lines=True) == "a\nb\\x1b"
