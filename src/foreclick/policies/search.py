"""What a search engine answers to queries: requests to a ``_search`` endpoint, and their cache."""

from __future__ import annotations

import hashlib
import json
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from http.client import HTTPException
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from foreclick.engines import whole_file
from foreclick.errors import SourceError
from foreclick.progress import working

PLACEHOLDER = "{{query}}"
"""Where the template has the text of the query."""

_SIZE = 10
_MARK = b"foreclick.search"
_PASSING = (408, 425, 429, 500, 502, 503, 504)  # what may be over at the next try
_LONGEST = 60.0  # seconds between two tries
_SHOWN = 200  # characters of what a server says
_WRITTEN = 200  # answers after which the cache is written; later, when it grew by a tenth
_SECRET = 4  # shorter words of a header are no secret, but part of every message


class _Failed(Exception):  # noqa: N818 - never leaves this module
    """A request that would fail again."""


class _Passing(_Failed):
    """A request that may succeed if it is made again, at the earliest after some seconds."""

    def __init__(self, said: str, after: float = 0.0) -> None:
        super().__init__(said)
        self.after = after


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows nobody: credentials are for the server that was named."""

    def redirect_request(self, *_: Any) -> None:  # noqa: ANN401 - as in the parent
        return None


class Tries(NamedTuple):
    """How often a request is made.

    Attributes:
        timeout: of a request, in seconds.
        retries: how often a request that failed is made again.
        backoff: seconds before the second try, doubled each time.
    """

    timeout: float
    retries: int
    backoff: float


@dataclass(frozen=True, eq=False)
class Search:
    """An endpoint and how it is asked.

    Attributes:
        url: of the endpoint.
        template: the request as parsed JSON, with `PLACEHOLDER` in some text.
        id_field: where a hit has its id.
        headers: sent with every request; perhaps credentials.
        tries: how often it is asked.
    """

    url: str = field(repr=False)
    template: Any = field(repr=False)
    id_field: str
    headers: Mapping[str, str] = field(repr=False)
    tries: Tries
    stopped: threading.Event = field(default_factory=threading.Event, repr=False)

    @property
    def fingerprint(self) -> bytes:
        """What answers depend on, beside the query: headers are not part of it."""
        said = json.dumps([self.url, self.template, self.id_field], sort_keys=True)
        return hashlib.sha256(said.encode()).hexdigest().encode()

    def ask(self, query: str) -> list[str]:
        """The ids of the hits for a query, best first."""
        for attempt in range(self.tries.retries + 1):
            try:
                return self._hits(self._once(query))
            except _Passing as problem:
                pause = min(max(self.tries.backoff * 2**attempt, problem.after), _LONGEST)
                if attempt == self.tries.retries or self.stopped.wait(pause):
                    tries = "once" if attempt == 0 else f"{attempt + 1} times"
                    raise _Failed(f"failed {tries}, at last with {problem}") from None
        raise AssertionError  # the last attempt returns or raises

    def _once(self, query: str) -> Any:  # noqa: ANN401 - JSON
        body = json.dumps(_filled(self.template, query)).encode()
        headers = {**self.headers, "Content-Type": "application/json"}
        request = urllib.request.Request(self.url, body, headers, method="POST")  # noqa: S310 - http
        opener = urllib.request.build_opener(_NoRedirect)
        try:
            with opener.open(request, timeout=self.tries.timeout) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise self._refused(error) from None
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            said = "no answer in time" if isinstance(reason, TimeoutError) else self._safe(reason)
            raise _Passing(said) from None
        try:
            return json.loads(text)
        except ValueError:
            raise _Passing(
                f"an answer that is no JSON: {self._safe(text.decode('latin-1'))!r}"
            ) from None

    def _refused(self, error: urllib.error.HTTPError) -> _Failed:
        with error:
            try:
                text = error.read().decode("utf-8", "replace")
            except (OSError, HTTPException):
                text = ""
        said = f"HTTP {error.code}" + (f" ({self._safe(_reason(text))})" if text.strip() else "")
        if error.code not in _PASSING:
            return _Failed(f"was refused with {said}")
        after = error.headers.get("Retry-After", "")
        return _Passing(said, float(after) if after.isdecimal() else 0.0)

    def _safe(self, said: object) -> str:
        """What somebody else says, without credentials that it may repeat, and not at length."""
        text = " ".join(str(said).split())
        for value in self.headers.values():
            for word in value.split():
                text = text.replace(word, "…") if len(word) >= _SECRET else text
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"

    def _hits(self, answer: Any) -> list[str]:  # noqa: ANN401 - JSON
        outer = answer.get("hits") if isinstance(answer, dict) else None
        hits = outer.get("hits") if isinstance(outer, dict) else None
        if not isinstance(hits, list):
            raise _Failed("got an answer without hits.hits. Is the URL that of a _search endpoint?")
        failed = (answer.get("_shards") or {}).get("failed", 0)
        if answer.get("timed_out") or failed:
            raise _Passing(
                f"an answer in part ({failed} shards failed)"
                if failed
                else "an answer in part (the search timed out)"
            )
        found = [_found(hit, self.id_field) for hit in hits]
        lost = sum(each is None for each in found)
        if lost:
            raise _Failed(
                f"got {lost:,} of {len(hits):,} hits without the id {self.id_field!r}. Name where "
                "a hit has it: id='_id', or a field of _source, such as id='product.sku'"
            )
        ids = [each for each in found if each is not None]
        twice = next((each for i, each in enumerate(ids) if each in ids[:i]), None)
        if twice is not None:
            raise _Failed(
                f"got {twice!r} twice. A list shows an item once: collapse hits by "
                f"{self.id_field!r} in the template"
            )
        return ids


def _reason(text: str) -> str:
    """The reason that Elasticsearch and OpenSearch give for an error, or all of what is said."""
    try:
        error = json.loads(text)["error"]
        return str(error["reason"] if isinstance(error, dict) else error)
    except (ValueError, KeyError, TypeError):
        return text


def _found(hit: Any, where: str) -> str | None:  # noqa: ANN401 - JSON
    """The id of a hit: at a path of the hit if it begins with _, else in _source or in fields."""
    if not isinstance(hit, dict):
        return None
    places = [hit] if where.startswith("_") else [hit.get("_source"), hit.get("fields")]
    for place in places:
        value = _at(place, where)
        if isinstance(value, list) and len(value) == 1:  # `fields` are lists
            value = value[0]
        if isinstance(value, str) or type(value) is int:
            return str(value)
    return None


def _at(place: Any, path: str) -> Any:  # noqa: ANN401 - JSON
    """The value at a path, whose dots may be part of a name."""
    if not isinstance(place, dict):
        return None
    if path in place:
        return place[path]
    first, dot, rest = path.partition(".")
    return _at(place.get(first), rest) if dot else None


def _filled(template: Any, query: str) -> Any:  # noqa: ANN401 - JSON
    """The template with the query in it; it stays what it is in JSON, whatever the query says."""
    if isinstance(template, str):
        return template.replace(PLACEHOLDER, query)
    if isinstance(template, dict):
        return {key: _filled(value, query) for key, value in template.items()}
    if isinstance(template, list):
        return [_filled(value, query) for value in template]
    return template


# --- many queries ---------------------------------------------------------------------------------


def answers(
    search: Search, queries: Sequence[str], cache: Path | None, concurrency: int
) -> dict[str, list[str]]:
    """The hits of every query, from the cache or from the endpoint."""
    found = {} if cache is None else _read(cache, search)
    todo = [query for query in dict.fromkeys(queries) if query not in found]
    known = written = len(found)
    with working() as say, ThreadPoolExecutor(concurrency) as pool:
        try:
            for query, ids in _asked(search, todo, pool, concurrency):
                found[query] = ids
                say(f"Searching {len(todo):,} queries", (len(found) - known) / len(todo))
                if cache and len(found) - written >= max(_WRITTEN, written // 10):
                    _write(cache, search, found)
                    written = len(found)
        except _Unanswered as problem:
            rest = f"{len(found) - known:,} of {len(todo):,} queries were answered"
            kept = (
                f" and are kept in {str(cache)!r}: the same call goes on from there"
                if cache
                else "; with cache='hits.parquet' they would be kept"
            )
            raise SourceError(f"the search for {problem}. {rest}{kept}.") from None
        finally:
            search.stopped.set()
            if cache and len(found) > written:
                _write(cache, search, found)
    return found


class _Unanswered(Exception):  # noqa: N818 - never leaves this module
    """A query that got no answer, and why."""


def _asked(
    search: Search, queries: Sequence[str], pool: ThreadPoolExecutor, at_once: int
) -> Iterator[tuple[str, list[str]]]:
    """Queries and their hits, as they arrive; those that arrived before a failure come first."""
    waiting = iter(queries)
    running: dict[Future[list[str]], str] = {
        pool.submit(search.ask, query): query for query in islice(waiting, at_once)
    }
    while running:
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in sorted(done, key=lambda each: each.exception() is not None):
            query = running.pop(future)
            try:
                ids = future.result()
            except _Failed as problem:
                raise _Unanswered(f"{query!r} {problem}") from None
            yield query, ids
            running |= {pool.submit(search.ask, query): query for query in islice(waiting, 1)}


def _read(cache: Path, search: Search) -> dict[str, list[str]]:
    if not cache.exists():
        return {}
    try:
        table = pq.read_table(cache)
    except (pa.ArrowException, OSError) as error:
        raise SourceError(
            f"the cache {str(cache)!r} cannot be read: {error}. Remove it, or name another file."
        ) from error
    if (table.schema.metadata or {}).get(_MARK) != search.fingerprint:
        raise SourceError(
            f"the cache {str(cache)!r} is of another search: its url, template, size or id are "
            "not the same. Remove it, or name another file."
        )
    return dict(zip(table["query"].to_pylist(), table["items"].to_pylist(), strict=True))


def _write(cache: Path, search: Search, found: Mapping[str, list[str]]) -> None:
    kinds = pa.schema([("query", pa.string()), ("items", pa.list_(pa.string()))])
    columns = {"query": list(found), "items": list(found.values())}
    table = pa.table(columns, kinds.with_metadata({_MARK: search.fingerprint}))
    with whole_file(cache) as file:
        pq.write_table(table, file, compression="zstd")


# --- options --------------------------------------------------------------------------------------


def checked_search(
    url: str,
    template: Any,  # noqa: ANN401 - JSON
    size: int | None,
    id_field: str,
    headers: Mapping[str, str] | None,
    tries: Tries,
) -> Search:
    """The search that the options say; no message repeats the URL's query or a header's value."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SourceError(
            "the url is no address of a search: give one such as 'https://host:9200/index/_search'."
        )
    if parts.username is not None or parts.password is not None:
        raise SourceError(
            "the url has a user or a password in it. Hand them over as a header, for instance "
            "headers={'Authorization': 'ApiKey …'}; headers are never shown or kept."
        )
    if isinstance(template, str):
        try:
            template = json.loads(template)
        except ValueError as error:
            raise SourceError(f"the template is no JSON: {error}.") from None
    if not isinstance(template, dict) or _filled(template, "") == template:
        raise SourceError(
            f"the template has no place for the query. Write {PLACEHOLDER} where its text should "
            f"be, for instance {{'query': {{'match': {{'title': '{PLACEHOLDER}'}}}}}}."
        )
    if size is not None and size < 1:
        raise SourceError(f"size={size}: ask for at least one hit.")
    if tries.timeout <= 0 or tries.retries < 0 or tries.backoff < 0:
        raise SourceError(
            f"timeout={tries.timeout}, retries={tries.retries}, backoff={tries.backoff}: give a "
            "timeout above 0, and retries and backoff of 0 or more."
        )
    asked = template | {"size": size or template.get("size", _SIZE)}
    if id_field == "_id":
        asked = {"_source": False} | asked  # nothing else is needed of a hit
    return Search(url, asked, id_field, _checked_headers(headers), tries)


def _checked_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Headers that can be sent; http.client would repeat the value of one that cannot."""
    found = dict(headers or {})
    for name, value in found.items():
        try:
            fine = all(text.isascii() and text.isprintable() for text in (name, value))
        except AttributeError:  # no text
            fine = False
        if not fine:
            raise SourceError(
                f"the value of the header {name!r} cannot be sent: it must be one line of ASCII "
                "text. Perhaps it ends in a line break."
            )
    return found
