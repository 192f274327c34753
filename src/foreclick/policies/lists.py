"""Policies that are tables of lists: one list a context, several with probabilities, or a log's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from foreclick.engines import (
    DUCKDB,
    Table,
    TableLike,
    Value,
    bring,
    default_engine,
    open_source,
)
from foreclick.engines.kinds import kind_of
from foreclick.errors import PolicyError
from foreclick.logs import CONTEXT, ITEM, Log, N, numbered, read_log
from foreclick.options import checked
from foreclick.policies.base import (
    NO_ITEM,
    ListRows,
    LogView,
    Policy,
    PolicyTable,
    policy_rows,
    refuse,
)
from foreclick.policies.runs import is_run, lists_of_run
from foreclick.policies.serving import ITEMS, Picker, sample
from foreclick.tallies import Tally, tally
from foreclick.words import no_column, number_of

TOLERANCE = 1e-6  # probabilities come from float32 softmaxes and from CSV files
_WORTH = "worth"  # a name that is free in a compressed table


@dataclass(frozen=True)
class Scores:
    """A table of scores, of which the `k` best items of each context make a list.

    With `rising`, the scores are positions: the item of the lowest stands first.
    """

    source: Table
    item: str
    score: str
    k: int | None
    rising: bool = False

    def __post_init__(self) -> None:
        if self.score not in self.source.columns:
            raise PolicyError(no_column("score", self.score, self.source.columns))

    def ranked(self, context: str | None) -> Table:
        """`context` and `items`: items by score or position; equal scores by the item itself."""
        say, item = self.source.engine.say, numbered(ITEM, 1)[0]
        called, order = ("position", "ASC") if self.rising else ("score", "DESC")
        worth = say.cast(say.column(self.score), "real")
        scored = self.source.with_column(_WORTH, worth, pa.float64())
        each = policy_rows(scored, context, [self.item], numbers={_WORTH: _WORTH})
        rows = bring(each.stored, default_engine())
        refuse(
            rows,
            f"SELECT * FROM {rows.rows} WHERE {_WORTH} IS NULL OR NOT isfinite({_WORTH})",
            lambda r: f"item {r[item]!r} of context {r[CONTEXT]!r} has the {called} {r[_WORTH]}",
            f"give every item a finite {called}",
        )
        refuse(
            rows,
            f"SELECT {CONTEXT}, {item}, sum({N}) AS n FROM {rows.rows} "
            f"GROUP BY {CONTEXT}, {item} HAVING sum({N}) > 1",
            lambda r: f"item {r[item]!r} stands {r['n']} times in context {r[CONTEXT]!r}",
            f"give each item one {called}",
        )
        if self.rising:
            refuse(
                rows,
                f"SELECT {CONTEXT}, {_WORTH}, sum({N}) AS n FROM {rows.rows} "
                f"GROUP BY {CONTEXT}, {_WORTH} HAVING sum({N}) > 1",
                lambda r: (
                    f"{r['n']} items stand at position {r[_WORTH]:g} of context {r[CONTEXT]!r}"
                ),
                "a context has one list; for several with probabilities use fc.Lists",
            )
        first = "" if self.k is None else f"[:{self.k}]"
        best = f"list({item} ORDER BY {_WORTH} {order}, {item}){first}"
        lists = Value(best, pa.list_(rows.kinds.field(item).type))
        return rows.grouped(rows.own([CONTEXT]), {ITEMS: lists})


class ListPolicy(Policy):
    """A policy whose lists and probabilities stand in a table."""

    _rows: Tally | Log  # context, item_1 …, n: the mass of each list, not yet a probability

    @property
    def _what(self) -> str:
        return type(self).__name__

    @cached_property
    def _arrow(self) -> PolicyTable:
        stored, keys = self._rows.stored, [CONTEXT, *self._rows.shape.items]
        if set(stored.columns) > {*keys, N}:  # of a log, with its clicks
            stored = stored.added(keys, N)
        return PolicyTable(stored.to_pyarrow(), self._what)

    @property
    def longest(self) -> float:
        """The length of the longest list of the table."""
        return len(self._arrow.items)

    def reaches(self, depth: int) -> bool:
        """Whether all lists have an item at a position."""
        table, items = self._arrow.table, self._arrow.items
        return depth <= len(items) and not table[items[depth - 1]].null_count

    def longest_in(self, view: LogView) -> float:
        """The length of the longest list in these contexts.

        Positions that are null in all lists of the table count: nothing is shown there on purpose.
        """
        items, whole = self._arrow.items, self._arrow.table
        here, _ = self._arrow.within(view)
        if not here.num_rows or whole[items[-1]].null_count == whole.num_rows:
            return self.longest
        filled = (k for k, name in enumerate(items, 1) if here[name].null_count < here.num_rows)
        return max(filled)

    def list_rows(self, view: LogView) -> ListRows:
        """The lists of the table, cut to the view's depth, with probabilities."""
        table, context = self._arrow.within(view)
        n = np.asarray(table[N], dtype=np.float64)
        mass = n / np.bincount(context, n, len(view.contexts))[context]
        items = np.full((len(n), view.depth), NO_ITEM)
        columns = [table[c].combine_chunks() for c in self._arrow.items[: view.depth]]
        items[:, : len(columns)] = view.item_numbers(columns)
        return ListRows(context, items, mass)


@dataclass(frozen=True, eq=False)
class Lists(ListPolicy):
    """A stochastic policy: several lists for each context, with probabilities that sum to 1.

    Args:
        table: anything `read_log` accepts.
        context: the column of the context; None: one context for all. If there is no column
            `context`, the default is the column named as the context of the log.
        items: the column with the list of items, or one column per position. If there is no column
            `items`, the default is `item_1`, `item_2`, …, or the columns named as the items of the
            log.
        probability: the column of the list's probability.

    Raises:
        PolicyError: a column is missing, or probabilities do not sum to 1.
        InvalidLogError: an item occurs twice in a list.

    Examples:
        >>> Lists({"context": ["q", "q"], "items": [[1, 2], [2, 1]], "probability": [0.9, 0.1]})
        Lists(1 context, lists of up to 2 items)
    """

    table: Any
    context: str | None = "context"
    items: str | Sequence[str] = "items"
    probability: str | None = "probability"

    @cached_property
    def _source(self) -> Table:
        if isinstance(self.table, Scores):
            return self.table.ranked(self.context)
        return super()._source

    @property
    def _columns(self) -> Sequence[str]:
        scored = isinstance(self.table, Scores)
        return self.table.source.columns if scored else self._source.columns

    @property
    def _roles(self) -> dict[str, Any]:
        if isinstance(self.table, Scores):
            return {CONTEXT: self.context}
        return {CONTEXT: self.context, ITEMS: listed_in(self._columns, self.items)}

    def __getstate__(self) -> dict[str, Any]:
        """As of every policy; what `optimize` chose stays so."""
        return super().__getstate__() | {"optimized": self.optimized}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """In another process, the table is its rows: lists with their probabilities."""
        rows = state["_arrow"]
        fields = {"table": rows.table, "context": CONTEXT, "items": rows.items, "probability": N}
        self.__dict__.update(fields | state)

    @cached_property
    def optimized(self) -> bool:
        """Whether `optimize` wrote this policy, and thus chose it by the clicks of some log."""
        return tuple(self._source.columns[2:]) == ("probability", "changed")

    @cached_property
    def _rows(self) -> Log:  # type: ignore[override]
        table = self._source
        if self.probability is not None:
            _check_likely(table, self.context, self.probability)
        items = listed_in(table.columns, self.items)
        if isinstance(items, str) and items in table.columns:
            table = _typed(table, items)
        context = CONTEXT if isinstance(self.table, Scores) else self.context
        return policy_rows(table, context, items, self.probability)

    def _check(self) -> None:
        stored, total = self._rows.stored, self._rows.stored.total(N).text
        refuse(
            stored,
            f"SELECT {CONTEXT}, {total} AS sum FROM {stored.rows} AS s "
            f"GROUP BY {CONTEXT} HAVING abs({total} - 1.0) > {TOLERANCE!r}",
            lambda row: f"the probabilities of context {row[CONTEXT]!r} sum to {row['sum']:.6g}",
            "in every context they must sum to 1; add the lists that are missing, or divide by "
            "the sum",
        )

    def sample(
        self,
        requests: TableLike,
        *,
        request: str = "request",
        context: str | None = "context",
        seed: int = 0,
    ) -> pa.Table:
        """Draw the list that each request is shown, in the policy's engine.

        A list is drawn by a hash of the request's id: u = the first seven hex digits of
        ``md5(f"foreclick:{seed}:{request}")``, over 16**7. The same request gets the same list on
        every engine and from `serving`, at any time; another seed draws anew. Lists occur with the
        policy's probabilities to within 16**-7; a rarer list may never be shown. Ids and contexts
        are compared as text, so 7 and "7" are the same.

        Args:
            requests: one row per request: anything `read_log` accepts.
            request: the column of the request's id, an integer or text. Requests with the same id
                get the same draw.
            context: the column of the context; None: one context for all.
            seed: the seed; use another one for another experiment on the same requests.

        Returns:
            An Arrow table in no particular order, with `request`, `context`, `items`, and
            `propensity`, the list's probability. With clicks joined to it, it is a log whose
            logging policy is known: ``read_log(shown, propensity="propensity")``. Where the policy
            has no list, items and propensity are null, and a warning counts them.

        Examples:
            >>> table = {"context": ["q", "q"], "items": [[1, 2], [2]], "probability": [0.7, 0.3]}
            >>> requests = {"request": [1, 2, 3], "context": ["q", "q", "q"]}
            >>> shown = Lists(table).sample(requests).sort_by("request")
            >>> shown["items"].to_pylist(), shown["propensity"].to_pylist()
            ([[2], [2], [1, 2]], [0.3, 0.3, 0.7])
            >>> clicked = shown.append_column("clicks", [[[1], [0], [0, 1]]])
            >>> from foreclick import read_log
            >>> read_log(clicked, propensity="propensity")
            <Log: 3 records of up to 2 items in duckdb; rewards: clicks; with list propensity>
        """
        return sample(self._rows, requests, request, context, seed)

    def serving(self, *, seed: int = 0) -> Picker:
        """Load the policy into memory, for a web process that shows its lists.

        Args:
            seed: as in `sample`, which draws the same lists with the same seed.

        Returns:
            A function of a request's id and context that returns a list and its probability.

        Examples:
            >>> picker = Ranking({"context": ["q"], "items": [[2, 1]]}).serving()
            >>> picker("a request", "q")
            ((2, 1), 1.0)
        """
        return Picker(self._rows, seed)

    def __repr__(self) -> str:
        if self._waits:
            return f"{self._what}(columns {', '.join(self._columns)})"
        rows = self._rows
        sql = f"SELECT count(DISTINCT {CONTEXT}) AS n FROM {rows.stored.rows} AS s"
        contexts = rows.engine.ask(sql)["n"][0].as_py()
        depth = number_of(rows.shape.depth, "item")
        return f"{self._what}({number_of(contexts, 'context')}, lists of up to {depth})"


@dataclass(frozen=True, eq=False, repr=False)
class Ranking(Lists):
    """A deterministic policy: one list for each context.

    Args:
        table: anything `read_log` accepts; ``{query: [item, …], …}``; or a run, as `from_trec`
            takes it: a file that ends in .run or .trec, or ``{query: {document: score}}``.
        context: the column of the context; None: one context for all. If there is no column
            `context`, the default is the column named as the context of the log.
        items: the column with the list of items, or one column per position. If there is no column
            `items`, the default is `item_1`, `item_2`, …, or the columns named as the items of the
            log.

    Raises:
        PolicyError: a column is missing, or a context has two different lists.
        InvalidLogError: an item occurs twice in a list.

    Examples:
        >>> Ranking({"context": ["q"], "items": [[2, 1]]})
        Ranking(1 context, lists of up to 2 items)
        >>> Ranking({"red shoes": ["boot", "sandal"], "hat": ["cap"]})
        Ranking(2 contexts, lists of up to 2 items)
        >>> Ranking({"q": {"1": 0.2, "2": 0.7}})
        Ranking(1 context, lists of up to 2 items)
    """

    probability: None = None

    def __post_init__(self) -> None:
        lists = None
        if is_run(self.table):
            lists = lists_of_run(self.table)
        elif is_listed(self.table, self.context):
            lists = {CONTEXT: list(self.table), ITEMS: [list(v) for v in self.table.values()]}
        if lists is not None:
            object.__setattr__(self, "table", lists)
            object.__setattr__(self, "context", CONTEXT)
            object.__setattr__(self, "items", ITEMS)
        super().__post_init__()

    def _check(self) -> None:
        stored = self._rows.stored
        refuse(
            stored,
            f"SELECT {CONTEXT}, count(*) AS lists FROM {stored.rows} AS s "
            f"GROUP BY {CONTEXT} HAVING count(*) > 1",
            lambda row: f"context {row[CONTEXT]!r} has {row['lists']} different lists",
            "a Ranking has one list for each context; for several with probabilities use Lists, "
            "for what was logged per request use Observed",
        )

    @classmethod
    def from_trec(cls, run: Any, *, depth: int | None = None) -> Ranking:  # noqa: ANN401 - any run
        """Read the run of a retrieval system: the documents of each query by falling score.

        Documents with equal scores are ordered by rising rank, if the run is a file; then by their
        id. Where ranks contradict scores, scores decide, as in trec_eval, and a warning appears.
        Ids that are all integers match the log's, whether these are integers or text.

        Args:
            run: the path of a TREC file (``query Q0 document rank score tag``, also .gz), or a dict
                ``{query: {document: score}}`` as in pytrec_eval.
            depth: the number of documents that a list shows; all by default, which is slow for runs
                of a thousand documents, and more than users see.

        Returns:
            A `Ranking`.

        Raises:
            SourceError: the file is missing, empty, or not a run.

        Examples:
            >>> Ranking.from_trec({"q": {"a": 0.2, "b": 0.7, "c": 0.1}}, depth=2)
            Ranking(1 context, lists of up to 2 items)
        """
        return cls(lists_of_run(run, depth))

    @classmethod
    @checked()
    def from_scores(
        cls,
        table: TableLike,
        *,
        k: int | None = None,
        context: str | None = "context",
        item: str = "item",
        score: str = "score",
    ) -> Ranking:
        """Rank the items of each context by falling score; equal scores by the item itself.

        Args:
            table: one row per (context, item): anything `read_log` accepts.
            k: the number of items that a list shows; all by default.
            context: the column of the context; None: one context for all.
            item: the column of the item.
            score: the column of the score.

        Returns:
            A `Ranking`.

        Raises:
            PolicyError: a column is missing.

        Examples:
            >>> scores = {"context": ["q", "q"], "item": [1, 2], "score": [0.2, 0.7]}
            >>> Ranking.from_scores(scores, k=10)
            Ranking(1 context, lists of up to 2 items)
        """
        return cls(Scores(open_source(table), item, score, k), context)


@dataclass(frozen=True, eq=False)
class Observed(ListPolicy):
    """The lists of a log with their frequencies, as a policy: another period, or shadow rankings.

    For personalised rankings, log for each request what the candidate *would* have shown, and read
    that column as a log with ``clicks=None``: the candidate is ``Observed`` of it.

    Args:
        log: a Log, a Tally, or anything `read_log` accepts with the default column names.

    Examples:
        >>> Observed({"context": ["q"], "items": [[1, 2]], "clicks": [[0, 1]]})
        Observed(<Tally of lists of up to 2 items in duckdb>)
    """

    log: Any

    @cached_property
    def _rows(self) -> Tally:  # type: ignore[override]
        if "log" not in self.__dict__:  # in another process: its lists, without their clicks
            items = self._arrow.items
            listed = read_log(self._arrow.table, items=items, clicks=None, count=N)
            object.__setattr__(self, "log", listed)
        return tally(self.log)

    @property
    def counted(self) -> Tally:
        """The tally from which the frequencies are counted."""
        return self._rows

    def records(self, view: LogView) -> NDArray[np.float64]:
        """Shape (X,): the number of records of each context of the view."""
        table, context = self._arrow.within(view)
        n = np.bincount(context, np.asarray(table[N], dtype=np.float64), len(view.contexts))
        return n.astype(np.float64)

    def __repr__(self) -> str:
        return f"Observed({self._rows!r})"


def listed_in(columns: Sequence[str], items: str | Sequence[str]) -> str | Sequence[str]:
    """The columns of the items: as named, or `item_1` … where only these are there."""
    if items != ITEMS or ITEMS in columns:
        return items
    return list(takewhile(lambda c: c in columns, numbered(ITEM, len(columns)))) or items


_WHOLE = "(null|-?(0|[1-9][0-9]{0,17}))"
_WHOLE_LIST = rf"^\[?\s*{_WHOLE}(\s*[,|]\s*{_WHOLE})*\s*\]?$"


def _typed(table: Table, items: str) -> Table:
    """A table whose lists are text, as in a CSV file: where all are of integers, lists of these.

    They match integers and text of a log; text would not match its integers.
    """
    if kind_of(table.kinds.field(items).type) != "text" or table.engine.name != "duckdb":
        return table
    text = DUCKDB.column(items)
    others = (
        f"count(CASE WHEN {DUCKDB.replaced(f'trim({text})', _WHOLE_LIST, '')} <> '' THEN 1 END)"
    )
    if table.aggregate({"others": Value(others)})["others"]:
        return table
    lists = f"TRY_CAST({DUCKDB.listed(text)} AS BIGINT[])"  # null is NULL
    columns = table.own(table.columns)
    return table.made(columns | {items: Value(lists, pa.list_(pa.int64()))})


def is_listed(source: object, *columns: str | None) -> bool:
    """Whether a source is ``{query: [item, …], …}``, and not columns by their names."""
    if not isinstance(source, Mapping) or not source:
        return False
    if {CONTEXT, ITEMS, numbered(ITEM, 1)[0], *columns} & source.keys():
        return False
    if not all(isinstance(items, list | tuple | np.ndarray) for items in source.values()):
        return False
    kinds = {type(item) for items in source.values() for item in items if item is not None}
    return any(all(issubclass(kind, one) for kind in kinds) for one in (str, int, np.integer))


def _check_likely(table: Table, context: str | None, probability: str) -> None:
    """A context in which no list is ever shown would vanish unnoticed."""
    if probability not in table.columns:
        raise PolicyError(
            f"{no_column('probability', probability, table.columns)} For one list a context use "
            "Ranking."
        )
    if context is not None and context in table.columns:
        column, most = (table.engine.say.name(c) for c in (context, probability))
        refuse(
            table,
            f"SELECT {column} AS {CONTEXT} FROM {table.rows} AS s "
            f"GROUP BY {column} HAVING max({most}) = 0",
            lambda row: f"all probabilities of context {row[CONTEXT]!r} are 0",
            "in every context they must sum to 1",
        )
