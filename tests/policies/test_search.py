"""Candidates from a search endpoint: requests to a real server on loopback, and their cache."""

import json
import os
import pickle
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick.errors import ForeclickWarning, SourceError
from foreclick.policies import search
from tests.answers import IBIS
from tests.policies.test_runs import lists

pytestmark = pytest.mark.filterwarnings(IBIS)

TEMPLATE = {"query": {"multi_match": {"query": "{{query}}", "fields": ["title", "{{query}}"]}}}
SECRET = "c2VjcmV0LXBhc3N3b3Jk"  # noqa: S105 - made up


class Endpoint:
    """An index, and what goes wrong with it.

    Attributes:
        hits: by query.
        trouble: by query, what each next answer is instead: a status, or a name of below.
        asked: bodies of requests, in the order in which they came.
        most: how many requests were open at once.
    """

    def __init__(self, hits):
        self.url, self.hits, self.trouble, self.asked = "", hits, {}, []
        self.headers, self.times, self.open, self.most = [], [], 0, 0
        self.lock, self.slow = threading.Lock(), 0.0

    def count(self):
        return Counter(body["query"]["multi_match"]["query"] for body in self.asked)

    def answer(self, body, headers):
        """The status, headers and text of an answer."""
        query = body["query"]["multi_match"]["query"]
        with self.lock:
            self.asked.append(body)
            self.headers.append(headers)
            self.times.append(time.monotonic())
            self.open += 1
            self.most = max(self.most, self.open)
            trouble = self.trouble.get(query, [])
            now = trouble.pop(0) if trouble else None
        time.sleep(1.0 if now == "slow" else self.slow)
        with self.lock:
            self.open -= 1
        found = {"hits": {"hits": self.hits.get(query, [])[: body["size"]]}, "timed_out": False}
        if now == "html":
            return 200, {}, "<html>try later</html>"
        if now == "partial":
            return 200, {}, json.dumps(found | {"_shards": {"failed": 2}})
        if now == "timed out":
            return 200, {}, json.dumps(found | {"timed_out": True})
        if now == "elsewhere":
            return 302, {"Location": "/other/_search"}, ""
        if isinstance(now, int):
            said = {"error": {"reason": f"no luck with {headers.get('Authorization')}"}}
            return now, {"Retry-After": "0"}, json.dumps(said)
        return 200, {}, json.dumps(found if now is None else now)


class Server(ThreadingHTTPServer):
    """A server of one endpoint."""

    endpoint: Endpoint


class Handler(BaseHTTPRequestHandler):
    """Passes requests on to the endpoint of its server."""

    server: Server

    def do_POST(self):
        """Answer a search."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status, headers, text = self.server.endpoint.answer(body, self.headers)
        with suppress(OSError):  # who gave up waiting does not read the answer
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text.encode())

    def log_message(self, *_):
        """Say nothing."""


def hit(number, **source):
    return {"_id": str(number), "_source": source}


@pytest.fixture
def endpoint():
    """A server with two queries that have hits."""
    found = Endpoint({"red shoe": [hit(3), hit(1), hit(2)], 'say "hi"\\': [hit(2), hit(9)]})
    server = Server(("127.0.0.1", 0), Handler)
    server.endpoint = found
    found.url = f"http://127.0.0.1:{server.server_port}/products/_search"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield found
    server.shutdown()
    server.server_close()
    thread.join()


QUERIES = ["red shoe", 'say "hi"\\']


def asked(endpoint, queries=QUERIES, template=TEMPLATE, **options):
    return fc.Ranking.from_search(
        endpoint.url, template, queries, **({"backoff": 0.001, "timeout": 5.0} | options)
    )


class TestRequests:
    def test_a_list_is_the_hits_in_their_order(self, endpoint):
        assert lists(asked(endpoint)) == {"red shoe": [3, 1, 2], 'say "hi"\\': [2, 9]}

    def test_the_query_is_filled_in_wherever_the_template_has_it(self, endpoint):
        asked(endpoint, ['say "hi"\\'], size=1)
        (body,) = endpoint.asked
        match = {"query": 'say "hi"\\', "fields": ["title", 'say "hi"\\']}
        assert body == {"query": {"multi_match": match}, "size": 1, "_source": False}

    def test_the_template_may_be_text_and_have_a_size(self, endpoint):
        text = json.dumps(TEMPLATE | {"size": 2})
        assert lists(asked(endpoint, template=text)) == {"red shoe": [3, 1], 'say "hi"\\': [2, 9]}

    def test_contexts_may_have_other_names_than_their_query(self, endpoint):
        found = asked(endpoint, {7: "red shoe", 8: 'say "hi"\\', 9: "red shoe"})
        assert lists(found) == {7: [3, 1, 2], 8: [2, 9], 9: [3, 1, 2]}
        assert endpoint.count() == dict.fromkeys(QUERIES, 1)

    @pytest.mark.parametrize(
        ("where", "source"),
        [("sku", {"sku": "a1"}), ("product.sku", {"product": {"sku": "a1"}}),
         ("product.sku", {"product.sku": "a1"}), ("_source.sku", {"sku": "a1"})],
    )  # fmt: skip
    def test_an_id_may_be_a_field(self, endpoint, where, source):
        endpoint.hits = {"red shoe": [hit(3, **source)]}
        assert lists(asked(endpoint, ["red shoe"], id=where)) == {"red shoe": ["a1"]}
        assert "_source" not in endpoint.asked[0]

    def test_an_id_may_be_among_fields_and_a_number(self, endpoint):
        endpoint.hits = {"red shoe": [{"_id": "x", "fields": {"sku": [17]}}]}
        assert lists(asked(endpoint, ["red shoe"], id="sku")) == {"red shoe": [17]}

    def test_so_many_at_a_time_and_no_more(self, endpoint):
        endpoint.slow = 0.02
        endpoint.hits = {f"q{i}": [hit(i)] for i in range(24)}
        assert lists(asked(endpoint, list(endpoint.hits), concurrency=3)) == {
            f"q{i}": [i] for i in range(24)
        }
        assert endpoint.most == 3

    def test_headers_are_sent(self, endpoint):
        asked(endpoint, headers={"Authorization": f"ApiKey {SECRET}"})
        assert {each["Authorization"] for each in endpoint.headers} == {f"ApiKey {SECRET}"}


class TestFailures:
    @pytest.mark.parametrize("trouble", [503, 429, "html", "partial", "timed out"])
    def test_what_may_pass_is_tried_again(self, endpoint, trouble):
        endpoint.trouble = {"red shoe": [trouble, 503]}
        assert lists(asked(endpoint)) == {"red shoe": [3, 1, 2], 'say "hi"\\': [2, 9]}
        assert endpoint.count() == {"red shoe": 3, 'say "hi"\\': 1}

    def test_a_server_that_does_not_answer_in_time_is_asked_again(self, endpoint):
        endpoint.trouble = {"red shoe": ["slow"]}
        assert lists(asked(endpoint, timeout=0.2))["red shoe"] == [3, 1, 2]
        assert endpoint.count()["red shoe"] == 2

    def test_pauses_double(self, endpoint):
        endpoint.trouble = {"red shoe": [503] * 3}
        asked(endpoint, ["red shoe"], backoff=0.05)
        first, second, third = (
            b - a for a, b in zip(endpoint.times, endpoint.times[1:], strict=False)
        )
        assert first >= 0.05
        assert second >= 0.1
        assert third >= 0.2

    @pytest.mark.parametrize(
        ("trouble", "said"),
        [
            (503, r"HTTP 503 \(no luck with None\)"),
            ("html", "no JSON: '<html>try later</html>'"),
            ("partial", r"in part \(2 shards failed\)"),
            ("timed out", r"in part \(the search timed out\)"),
            ("slow", "no answer in time"),
        ],
    )
    def test_retries_end(self, endpoint, trouble, said):
        endpoint.trouble = {"red shoe": [trouble] * 2}
        message = (
            rf"search for 'red shoe' failed 2 times, at last with .*{said}.* of 2 queries .*cache="
        )
        with pytest.raises(SourceError, match=message):
            asked(endpoint, retries=1, timeout=0.2)

    def test_a_server_that_is_not_there_is_said(self):
        with pytest.raises(SourceError, match=r"'a' failed once, at last with .*refused.*0 of 1"):
            fc.Ranking.from_search("http://127.0.0.1:9/x/_search", TEMPLATE, ["a"], retries=0)

    @pytest.mark.parametrize("status", [400, 401, 404])
    def test_what_will_not_pass_is_not_tried_again(self, endpoint, status):
        endpoint.trouble = {"red shoe": [status]}
        with pytest.raises(
            SourceError, match=f"'red shoe' was refused with HTTP {status} .no luck"
        ):
            asked(endpoint, ["red shoe"])
        assert len(endpoint.asked) == 1

    def test_redirects_are_not_followed(self, endpoint):
        endpoint.trouble = {"red shoe": ["elsewhere"]}
        with pytest.raises(SourceError, match="refused with HTTP 302"):
            asked(endpoint, ["red shoe"])
        assert len(endpoint.asked) == 1

    @pytest.mark.parametrize("answer", [{"took": 3}, [1], {"hits": {}}, {"hits": [1]}])
    def test_json_without_hits_is_refused(self, endpoint, answer):
        endpoint.trouble = {"red shoe": [answer]}
        with pytest.raises(SourceError, match=r"without hits.hits. Is the URL that of a _search"):
            asked(endpoint, ["red shoe"])

    def test_hits_without_the_id_are_counted(self, endpoint):
        with pytest.raises(SourceError, match=r"got 3 of 3 hits without the id 'sku'\. Name where"):
            asked(endpoint, ["red shoe"], id="sku")

    def test_an_item_twice_is_refused_at_once(self, endpoint):
        endpoint.hits = {"red shoe": [hit(1, sku="a"), hit(2, sku="a")]}
        with pytest.raises(SourceError, match=r"'red shoe' got 'a' twice.*collapse hits by 'sku'"):
            asked(endpoint, ["red shoe"], id="sku")

    def test_queries_without_hits_are_counted_and_have_no_list(self, endpoint):
        with pytest.warns(
            ForeclickWarning, match="2 of 3 queries have no hits, for example 'x'"
        ) as w:
            found = fc.Ranking.from_search(endpoint.url, TEMPLATE, ["red shoe", "x", "y"])
        assert w.pop(ForeclickWarning).filename == __file__
        assert lists(found) == {"red shoe": [3, 1, 2]}
        with pytest.raises(SourceError, match="none of the 2 queries has a hit, for example 'x'"):
            asked(endpoint, ["x", "y"])


class TestSecrets:
    def test_what_a_server_repeats_is_not_shown(self, endpoint):
        endpoint.trouble = {"red shoe": [401]}
        with pytest.raises(SourceError, match="no luck with … …") as caught:
            asked(endpoint, headers={"Authorization": f"ApiKey {SECRET}"})
        assert SECRET not in repr(caught.value)
        assert caught.value.__cause__ is None

    def test_a_value_that_cannot_be_sent_is_not_shown(self, endpoint):
        with pytest.raises(
            SourceError, match="the header 'Authorization' cannot be sent"
        ) as caught:
            asked(endpoint, headers={"Authorization": f"ApiKey {SECRET}\n"})
        assert SECRET not in str(caught.value)
        assert not endpoint.asked

    def test_a_password_in_the_url_is_refused_and_not_shown(self):
        url = f"https://user:{SECRET}@host/_search"
        with pytest.raises(SourceError, match="a user or a password") as caught:
            fc.Ranking.from_search(url, TEMPLATE, QUERIES)
        assert SECRET not in str(caught.value)

    def test_neither_the_ranking_nor_the_cache_has_them(self, endpoint, tmp_path):
        cache = tmp_path / "hits.parquet"
        found = asked(endpoint, headers={"X-Key": SECRET}, cache=cache)
        assert SECRET.encode() not in pickle.dumps(found) + cache.read_bytes()
        assert SECRET not in repr(found) + repr(vars(found))
        url, headers, tries = f"http://h/?key={SECRET}", {"X-Key": SECRET}, search.Tries(1, 0, 0)
        made = search.checked_search(url, TEMPLATE, None, "_id", headers, tries)
        assert SECRET not in repr(made)


class TestCache:
    def test_answers_are_kept(self, endpoint, tmp_path):
        cache = tmp_path / "hits.parquet"
        first = lists(asked(endpoint, cache=cache))
        assert lists(asked(endpoint, cache=cache)) == first
        assert len(endpoint.asked) == 2
        with pytest.warns(ForeclickWarning, match="1 of 3 queries have no hits"):
            asked(endpoint, [*QUERIES, "x"], cache=cache)
        assert endpoint.count()["x"] == 1

    def test_no_hits_are_an_answer(self, endpoint, tmp_path):
        cache = tmp_path / "hits.parquet"
        for _ in range(2):
            with pytest.warns(ForeclickWarning, match="have no hits"):
                asked(endpoint, ["red shoe", "x"], cache=cache)
        assert endpoint.count() == {"red shoe": 1, "x": 1}

    def test_a_failure_keeps_what_was_answered(self, endpoint, tmp_path):
        cache = tmp_path / "hits.parquet"
        endpoint.hits = {f"q{i}": [hit(i)] for i in range(9)}
        endpoint.trouble = {"q7": [400]}
        with pytest.raises(SourceError, match=r"7 of 9 .*kept in '.*hits.parquet': the same call"):
            asked(endpoint, list(endpoint.hits), cache=cache, concurrency=1)
        assert len(lists(asked(endpoint, list(endpoint.hits), cache=cache))) == 9
        assert endpoint.count() == dict.fromkeys(endpoint.hits, 1) | {"q7": 2}

    def test_goes_on_after_a_kill(self, endpoint, tmp_path):
        cache = tmp_path / "hits.parquet"
        endpoint.hits = {f"q{i}": [hit(i)] for i in range(40)}
        endpoint.slow = 0.01
        code = (
            "import foreclick as fc; from foreclick.policies import search; search._WRITTEN = 5;"
            f"fc.Ranking.from_search({endpoint.url!r}, {TEMPLATE!r}, {list(endpoint.hits)!r},"
            f" cache={str(cache)!r}, concurrency=1)"
        )
        process = subprocess.Popen([sys.executable, "-c", code], env=dict(os.environ))
        while not cache.exists() and process.poll() is None:
            time.sleep(0.005)
        process.kill()
        process.wait()
        kept = pq.read_table(cache)["query"].to_pylist()
        assert 5 <= len(kept) < 40
        before = Counter(endpoint.count())
        assert len(lists(asked(endpoint, list(endpoint.hits), cache=cache))) == 40
        after = endpoint.count() - before
        assert not set(after) & set(kept)
        assert set(after) | set(kept) == set(endpoint.hits)

    def test_is_written_while_answers_arrive(self, endpoint, tmp_path, monkeypatch):
        written = []
        monkeypatch.setattr(search, "_WRITTEN", 2)
        keep = search._write

        def write(cache, asked, found):
            written.append(len(found))
            keep(cache, asked, found)

        monkeypatch.setattr(search, "_write", write)
        endpoint.hits = {f"q{i}": [hit(i)] for i in range(5)}
        asked(endpoint, list(endpoint.hits), cache=tmp_path / "hits.parquet", concurrency=1)
        assert written == [2, 4, 5]

    @pytest.mark.parametrize(
        "other", [{"size": 2}, {"id": "sku"}, {"template": {"q": "{{query}}"}}]
    )
    def test_of_another_search_is_refused(self, endpoint, tmp_path, other):
        cache = tmp_path / "hits.parquet"
        asked(endpoint, cache=cache)
        with pytest.raises(SourceError, match="is of another search"):
            asked(endpoint, cache=cache, **other)

    def test_what_is_no_cache_is_refused(self, endpoint, tmp_path):
        cache = tmp_path / "hits.parquet"
        cache.write_text("something else")
        with pytest.raises(SourceError, match=r"cannot be read.*Remove it"):
            asked(endpoint, cache=cache)
        with pytest.raises(SourceError, match=r"ends in .parquet, in a directory that exists"):
            asked(endpoint, cache=tmp_path / "hits.csv")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"url": "ftp://host/_search"}, "no address of a search"),
        ({"url": "host/_search"}, "no address of a search"),
        ({"template": {"query": {"match_all": {}}}}, "no place for the query"),
        ({"template": {"{{query}}": 1}}, "no place for the query"),
        ({"template": "{"}, "the template is no JSON"),
        ({"queries": "red shoe"}, "is one text"),
        ({"queries": []}, "there are no queries"),
        ({"queries": {1: "a", 2: None, 3: 4}}, "2 of 3 queries are no text, for example None"),
        ({"size": 0}, "size=0"),
        ({"timeout": 0}, "timeout=0"),
        ({"retries": -1}, "retries=-1"),
        ({"concurrency": 0}, "concurrency=0"),
    ],
)
def test_options_are_checked_before_anything_is_asked(options, said):
    given = {"url": "http://127.0.0.1:9/_search", "template": TEMPLATE, "queries": QUERIES}
    with pytest.raises(fc.errors.ForeclickError, match=said):
        fc.Ranking.from_search(**(given | options))
