"""Plackett–Luce: items drawn one after another, in proportion to exp(score / temperature)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import ibis.expr.types as ir
import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from foreclick.engines import open_source
from foreclick.logs import CONTEXT, ITEM, Log
from foreclick.options import check
from foreclick.policies.base import (
    NO_ITEM,
    Ints,
    ListRows,
    LogView,
    Policy,
    Rows,
    SlotRows,
)
from foreclick.policies.race import list_probabilities, marginals
from foreclick.policies.scores import scored

Floats = npt.NDArray[np.float64]
UNSEEN = 2**31 - 1
"""The number of the one item that stands for all that the log never showed."""


@dataclass(frozen=True, eq=False)
class PlackettLuce(Policy):
    """A ranker's scores made stochastic: P(A) = Π_k w(a_k) / Σ_{a not yet shown} w(a).

    Probabilities of lists are exact, and so are those of item and position (by quadrature, to
    1e-10): nothing is sampled.

    Args:
        table: one row per (context, item): anything `read_log` accepts.
        temperature: w(a) = exp(score(a) / temperature); towards 0 the ranking by score.
        context: the column of the context; None: one context for all.
        item: the column of the item.
        score: the column of the score.
        k: how many items a list shows; all by default.

    Examples:
        >>> PlackettLuce({"context": ["q", "q"], "item": [1, 2], "score": [0.0, 1.0]})
        PlackettLuce(temperature=1.0)
    """

    table: Any
    temperature: float = 1.0
    context: str | None = "context"
    item: str = "item"
    score: str = "score"
    k: int | None = None

    _settings: ClassVar[tuple[str, ...]] = ("temperature", "k")

    def __post_init__(self) -> None:
        check(temperature=self.temperature, k=self.k)
        _ = self._scores

    def __repr__(self) -> str:
        return f"PlackettLuce(temperature={self.temperature})"

    @cached_property
    def _scores(self) -> tuple[Log, ir.Table]:
        engine, table = open_source(self.table)
        return scored(table, engine, self.context, self.item, self.score)

    @cached_property
    def _arrow(self) -> Rows:
        log, rows = self._scores
        return Rows(log.engine.fetch(rows.select(CONTEXT, ITEM, "score")), "PlackettLuce")

    @property
    def longest(self) -> float:
        """As many positions as the largest context has items, or as a list shows."""
        contexts = self._arrow.table[CONTEXT]
        most = pc.max(pc.value_counts(contexts).field("counts")).as_py() or 0
        return min(most, self.k or most)

    def slot_rows(self, view: LogView) -> SlotRows:
        """The exact marginals of each context."""
        parts = []
        for context, items, log_weights in self._by_context(view):
            depth = min(view.depth, len(items), self.k or len(items))
            mass = marginals(log_weights, depth)
            item, position = (index.ravel() for index in np.indices(mass.shape))
            parts.append((np.full(mass.size, context), items[item], position, mass.ravel()))
        if not parts:
            none = np.zeros(0, dtype=np.int64)
            return SlotRows(none, none, none, np.zeros(0))
        return SlotRows(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def list_rows(self, view: LogView) -> ListRows:
        """The policy seen from the log: whatever the log never showed is one unseen item.

        A logged list or prefix has its exact probability; where the policy leaves what was logged,
        the rest of its list is unseen, so that no probability is lost.
        """
        list_context, lists = view.logged()
        starts = np.searchsorted(list_context, np.arange(len(view.contexts) + 1))
        contexts, rows, masses = [], [], []
        for context, items, log_weights in self._by_context(view):
            depth = min(view.depth, len(items), self.k or len(items))
            logged = lists[starts[context] : starts[context + 1], :depth]
            beyond = (NO_ITEM,) * (depth - logged.shape[1])  # no logged list is as deep
            listed = [(*one, *beyond) for one in logged.tolist()]
            for prefix, mass in _pooled(items.tolist(), log_weights, listed, depth):
                row = [*prefix, *([UNSEEN] * (depth - len(prefix)))]
                rows.append(row + [NO_ITEM] * (view.depth - depth))
                contexts.append(context)
                masses.append(mass)
        items = np.array(rows, dtype=np.int64).reshape(len(rows), view.depth)
        return ListRows(np.array(contexts, dtype=np.int64), items, np.array(masses))

    def _by_context(self, view: LogView) -> Iterator[tuple[int, Ints, Floats]]:
        """(context, items, log w), in the numbers of the view."""
        table = self._arrow.of(view)
        context = view.context_numbers(table[CONTEXT].combine_chunks())
        item = view.item_numbers([table[ITEM].combine_chunks()])[:, 0]
        weight = np.asarray(table["score"].combine_chunks()) / self.temperature
        # Items stay in the order of their values: numbers depend on what else the view has.
        order = np.argsort(context, kind="stable")
        context, item, weight = context[order], item[order], weight[order]
        starts = np.searchsorted(context, np.arange(len(view.contexts) + 1))
        for x in np.flatnonzero(np.diff(starts)):
            mine = slice(starts[x], starts[x + 1])
            yield int(x), item[mine], weight[mine]


def _pooled(
    items: list[Any], log_weights: Floats, logged: list[tuple[Any, ...]], depth: int
) -> Iterator[tuple[tuple[Any, ...], float]]:
    """(prefix, mass): how likely the list follows a logged one for exactly this prefix."""
    number = {item: i for i, item in enumerate(items)}
    lists = sorted({tuple(number.get(a, -1) for a in one[:depth]) for one in logged})
    starts = np.asarray(lists, dtype=np.int64).reshape(len(lists), depth)
    chance = list_probabilities(log_weights, starts)
    reached: dict[tuple[int, ...], float] = {(): 1.0}
    for one, probabilities in zip(lists, chance, strict=True):
        for k in range(1, depth + 1):
            if probabilities[k - 1] > 0:
                reached[one[:k]] = float(probabilities[k - 1])
    left = dict(reached)
    for prefix, probability in reached.items():
        if prefix:
            left[prefix[:-1]] -= probability
    for prefix, mass in left.items():
        if mass > 0:
            yield tuple(items[i] for i in prefix), mass
