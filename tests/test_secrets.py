"""No secret leaves the program, in whatever form it is written; ordinary text stays as it is."""

from __future__ import annotations

import io
import pickle
import re
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick.cli import main
from foreclick.cli.output import show
from foreclick.errors import ForeclickWarning, OptionError, SourceError
from foreclick.progress import Progress
from foreclick.results import Result
from foreclick.secrets import masked, printable, visible

# HIDDEN stands for the secret.
URLS = """
https://HIDDEN@host/x
https://me:p@HIDDEN@h/x
git+https://HIDDEN@github.com/a/b.git
https://HIDDEN:x-oauth-basic@github.com/a
https://x-access-token:HIDDEN@github.com/a/b
https://me:a/HIDDEN@h/x
https://me:a?HIDDEN@h/x
https://me:a#HIDDEN@h/x
https://HIDDEN:@h:8080/x
wss://HIDDEN@h/socket
postgres://me:HIDDEN@h/db
postgres://me:p@HIDDEN@h
postgres://me:HIDDEN@host:5432/db?sslmode=require
postgresql+psycopg://me:HIDDEN@h/db
postgresql+psycopg://me:p@a@HIDDEN@h/db
postgres://me:p'HIDDEN@h/db
postgres://me:p"HIDDEN@h/db
postgres://me:p/HIDDEN@h/db
postgres://me:1234/HIDDEN@h/db
postgres://me:p:HIDDEN@h/db
postgres://me:p://HIDDEN@h/db
postgres://me:p HIDDEN@h/db
postgres://me:p%40HIDDEN@h/db
postgres://me@corp:HIDDEN@h/db
redis://:HIDDEN@h:6379/0
mongodb+srv://me:HIDDEN@h/db
amqp://me:HIDDEN@h//v
s3://key:HIDDEN@bucket/x.parquet
snowflake://me:HIDDEN@account/db
databricks://token:HIDDEN@h?http_path=x
mysql+pymysql://me:HIDDEN@h:3306/db
oracle+oracledb://scott:HIDDEN@h
clickhouse://me:HIDDEN@[::1]:9000/db
'postgres://me:HIDDEN@h/db' and 'postgres://you:HIDDEN@i/db'
postgres://me:HIDDEN@h/db,postgres://you:HIDDEN@i/db
"""
PARAMETERS = """
https://h/x?X-Amz-Algorithm=A&X-Amz-Credential=HIDDEN%2F2024&X-Amz-Date=2&X-Amz-Signature=HIDDEN
https://h/x?X-Amz-Security-Token=HIDDEN&x=1
https://h/x?AWSAccessKeyId=HIDDEN&Signature=HIDDEN%3D&Expires=1
https://storage.googleapis.com/b/x?X-Goog-Signature=HIDDEN&x=2
https://a.blob.core.windows.net/c/x?sv=2022&sp=r&sig=HIDDEN%3D
https://h/x?sig=HIDDEN
https://h/x?a=1&amp;sig=HIDDEN
https://h/x?token=HIDDEN#top
https://h/x#access_token=HIDDEN&y=1
https://h/x?key=HIDDEN
https://h/f?code=HIDDEN
https://h/x?api_key=HIDDEN
https://h/x?apikey=HIDDEN
https://h/x?next=https%3A%2F%2Fi%2F%3Ftoken%3DHIDDEN%26a%3D1
md:db?motherduck_token=HIDDEN
postgres://h/db?user=me&password=HIDDEN
('https://h/x?sig=HIDDEN', 5)
"""
DSNS = """
jdbc:postgresql://h/db?user=me&password=HIDDEN
jdbc:oracle:thin:scott/HIDDEN@h:1521:x
jdbc:oracle:thin:scott/HIDDEN@//h:1521/x
jdbc:sqlserver://h:1433;databaseName=d;user=sa;password=HIDDEN;encrypt=true
scott/HIDDEN@//h/x
me:HIDDEN@tcp(h:3306)/db
me:HIDDEN@h:5432/db
host=h password=HIDDEN dbname=d
host=h password='two HIDDEN words' dbname=d
host=h password='it\\'s HIDDEN' dbname=d
host=h password='it''s HIDDEN' dbname=d
host=h password="a HIDDEN" dbname=d
host=h password=a'HIDDEN dbname=d
host=h password=a/HIDDEN dbname=d
host=h password=a&HIDDEN dbname=d
host=h password=a@HIDDEN dbname=d
Driver={x};Server=h;UID=sa;PWD=HIDDEN;
Driver={x};Server=h;UID=sa;PWD={a;HIDDEN};Database=d
Server=h;Pwd=a;HIDDEN;Database=d
DefaultEndpointsProtocol=https;AccountName=a;AccountKey=HIDDEN==;EndpointSuffix=core
Endpoint=sb://x/;SharedAccessKeyName=k;SharedAccessKey=HIDDEN=
SharedAccessSignature=HIDDEN
"""
NAMES = """
password=HIDDEN
PASSWORD=HIDDEN
passwd=HIDDEN, x=1
pwd=HIDDEN;x
pass=HIDDEN
db_pass=HIDDEN
password = HIDDEN
password = 'HIDDEN'
password='cut HIDDEN off
(password=HIDDEN)
sslpassword=HIDDEN
passphrase=HIDDEN
PGPASSWORD=HIDDEN psql
MYSQL_PWD=HIDDEN mysql
export AWS_SECRET_ACCESS_KEY=HIDDEN
AWS_ACCESS_KEY_ID=HIDDEN
AWS_SESSION_TOKEN=HIDDEN
access_token=HIDDEN
refresh-token=HIDDEN
client_secret=HIDDEN
clientSecret=HIDDEN
api-key=HIDDEN
private_key=HIDDEN
signature=HIDDEN
credentials=HIDDEN
x-api-key: HIDDEN
connect(host='h', password='HIDDEN', port=1)
connect(host="h", token="HIDDEN")
{'user': 'me', 'password': 'HIDDEN'}
{"user": "me", "password": "HIDDEN", "x": 1}
{\\"password\\": \\"HIDDEN\\"}
--where="token = 'HIDDEN'"
--where 'password = HIDDEN'
'password = '"'"'HIDDEN'"'"''
token <> 'HIDDEN'
token LIKE 'HIDDEN%'
token NOT IN ('HIDDEN', 'HIDDEN')
"token" = 'HIDDEN'
`token`='HIDDEN'
[Password]='HIDDEN'
password: HIDDEN
secret_key: HIDDEN
password:HIDDEN
password => 'HIDDEN'
password := 'HIDDEN'
CREATE SECRET (TYPE s3, KEY_ID 'HIDDEN', SECRET 'HIDDEN')
ALTER USER me WITH PASSWORD 'HIDDEN'
CREATE USER me IDENTIFIED BY 'HIDDEN'
mysql --password HIDDEN -h h
foreclick x --token HIDDEN
foreclick x --api-key=HIDDEN
curl -u me:HIDDEN https://h
Authorization: Bearer HIDDEN
Authorization: Basic HIDDEN==
{'Authorization': 'Bearer HIDDEN'}
curl -H "Authorization: Bearer HIDDEN"
Bearer HIDDEN1x
"""
FORMS = [line for part in (URLS, PARAMETERS, DSNS, NAMES) for line in part.strip().splitlines()]

SHAPES = [
    "AKIA" + "IOSFODNN7EXAMPLE",
    "ghp_" + "0123456789" * 4,
    "glpat-" + "0123456789abcdef0123",
    "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxIn0.abc-def",
    "-----BEGIN RSA PRIVATE KEY-----\nabc\ndef\n" + "-----END RSA PRIVATE KEY-----",
]

ORDINARY = """
clip=5 and key=context stay, as does a://b/c
https://host/x?page=2&q=shoes
https://host:8080/x?mail=me@x.org
https://host:8080/@user
https://medium.com/@user/x
https://host/a:b@c
https://x.org/?key
http://[::1]:80/a@b
postgres://me@host/db
postgres://host:5432/db
postgres://me@host:5432/db
postgres://host:5432/db: ask me@x.org
abfss://container@account.dfs.core.windows.net/x.parquet
s3://bucket/part-?.parquet
s3://bucket/day=2024-01-01/x.parquet
s3://b/x.parquet, s3://b/y@2.parquet
s3://b/x?versionId=abc
gs://b/a@b/x
cannot reach https://host: ask me@x.org
me@x.org: hello
git@github.com:org/repo.git
ssh://git@github.com/org/repo
there is no column 'token'; it has token, password
context='token' is no column of the table.
wrong password: try again
the token is expired
token IS NOT NULL
token: str, x: int
query: "token"
{'context': 'token', 'n': 5}
country = 'NL' AND day > 3
monkey=5 turkey=6
compass=north bypass=1
tokens=5 max_tokens=7
key=context, primary_key=id
sig=0.05
signatures: 12
secretary=Ann
password
password=
password= and more
password=***
password='***'
passwords are masked
user=me host=h
unit=cookie
10:30@noon
12:30:45@x
ratio 3:4@k
ndcg@10:ip@3/4
model:ladder@2/x
pass@5 recall@10 dcg@10
a/b@c
@scope/pkg@1.0
--context token --by password -o x
bearer of good news
CREATE SECRET (TYPE s3, PROVIDER credential_chain)
lift +2.13% to +5.00%
C:\\Users\\me\\x.parquet
/data/secrets/log.parquet
secret.parquet cannot be read: IO Error
Did you mean context='query'?
author=Key
Notes: token
"""

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


@pytest.mark.parametrize("text", ORDINARY.strip().splitlines())
def test_ordinary_text_stays(text):
    assert masked(text) == text


def test_what_is_no_secret_can_still_be_read():
    for text, expected in {
        "postgres://me:HIDDEN@h:5432/db is down": "postgres://me:***@h:5432/db is down",
        "'https://h/x?v=1&sig=HIDDEN&w=2' is gone": "'https://h/x?v=1&sig=***&w=2' is gone",
        "host=h password='a b' dbname=d": "host=h password=*** dbname=d",
        "WHERE token = 'HIDDEN' AND day > 3": "WHERE token = *** AND day > 3",
        "PWD=HIDDEN;Database=d": "PWD=***;Database=d",
    }.items():
        assert masked(text) == expected


def test_secrets_of_the_environment(monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "HIDDEN")
    monkeypatch.setenv("OTHER_KEY", "word")
    assert masked("got HIDDEN, a word") == "got ***, a word"


@pytest.mark.parametrize(
    "part", ["a://b:", "http://", "password=", "password='", "token in (", "a:", ")", "me:x/", " @"]
)
def test_long_texts_take_no_time(part):
    start = time.perf_counter()
    masked(part * (20_000 // len(part)) + "@")
    assert time.perf_counter() - start < 5


# --- where text leaves the program ----------------------------------------------------------------


def test_errors_and_warnings():
    error = OptionError(f"cannot reach {URL}", 5)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301 - our own
    assert error.args == ("cannot reach https://localhost:1/x.parquet?a=1&X-Amz-Signature=***", 5)
    with pytest.warns(ForeclickWarning, match=r"Signature=\*\*\*"):
        warnings.warn(URL, ForeclickWarning, stacklevel=1)


def test_tracebacks_of_a_filter():
    for where in (
        f"no_column = 1 AND {WHERE}",
        f"context = 1 AND {WHERE} AND",
        f"context + {WHERE}",
    ):
        with pytest.raises(SourceError) as caught:
            fc.read_log(LOG, where=where)
        assert "HIDDEN" not in "".join(traceback.format_exception(caught.value))


def test_titles_notes_cells_and_pictures(tmp_path):
    result = Result(({"candidate": URL, "value": 1.0},), ("candidate", "value"), (URL,), URL)
    shown = [str(result), result.to_html(), result._repr_html_(), result.page()]
    written = str(result.to_json()).partition('"rows"')[0] + str(result.notes)
    assert "HIDDEN" not in "".join([*shown, written])
    policy = {"context": [1], "items": [[2, 1]]}
    compared = fc.compare(fc.read_log(LOG, unit="day"), {URL: policy, "b": policy})
    compared.save(tmp_path / "x.pdf", title=URL)
    chart = compared.plot(title=URL)
    drawn = [chart.svg(), repr(chart), *(mark.text for mark in chart.layout()[0])]
    assert "***" in drawn[0]
    assert "HIDDEN" not in "".join(drawn)


def test_progress():
    heard: list[str] = []
    Progress(heard.append)(f"\x1b[2JWriting {URL}")
    assert heard == ["\\x1b[2JWriting https://localhost:1/x.parquet?a=1&X-Amz-Signature=***"]


def test_the_command_of_a_report(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table(LOG), "log.parquet")
    pq.write_table(pa.table({"context": [1], "items": [[2, 1]]}), "new.parquet")
    words = ["report", "log.parquet", "new.parquet", "-o", "r.html", "--where", WHERE]
    assert main([*words, "--title", URL]) == 0
    page = Path("r.html").read_text(encoding="utf-8")
    assert "--where &#39;token &lt;&gt; ***&#39;" in page
    assert "HIDDEN" not in page + "".join(capsys.readouterr())


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("form", ["csv", "json", "answer", "table"])
def test_a_terminal_gets_no_control_characters(form, monkeypatch):
    text = "a\x1b[2J\x9b31m\r\x00\u202eb\u2066"
    result = Result(({"text": text},), ("text",), (text,), text)
    for stream in (_Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stdout", stream)
        show(result, form)
        lines = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue()).split("\n")  # colours are ours
        clean = all(visible(line) == line for line in lines)
        assert clean or (form in {"csv", "json"} and not stream.isatty())
    assert form != "csv" or text in stream.getvalue()  # a file has what the log has
    assert printable("a\nb\x1b") == "a\\nb\\x1b"
    assert printable("a\nb\x1b", lines=True) == "a\nb\\x1b"
