"""The options of `optimize`: checked, and constraints read from tables."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from foreclick.engines import open_source
from foreclick.errors import ModelError, PolicyError
from foreclick.estimate.spec import Ladder, Weighted, parse_estimators
from foreclick.logs import CONTEXT, ITEM, read_log
from foreclick.metrics import Metric, only_metric
from foreclick.optimization.constraints import Constraints
from foreclick.options import PART
from foreclick.policies import Observed
from foreclick.tallies.base import Tally
from foreclick.words import did_you_mean


def chosen_by(metric: object, estimator: object, clip: float) -> tuple[Metric, Any]:
    """The metric and the one estimator, if a policy can be chosen by them."""
    what = only_metric(metric, "a policy is the best by")
    if what.first:
        raise ModelError(
            f"{what.name} counts first clicks, which depend on all that stands above, so that the "
            "best list is not found slot by slot. Optimise clicks@K or dcg@K, and evaluate the "
            f"policy by {what.name}."
        )
    found = parse_estimators(estimator, clip)
    if len(found) > 1:
        raise ModelError(f"estimator={estimator!r}: a policy is the best by one of them.")
    by = found[0]
    if isinstance(by, Ladder):
        return what, _from_position(by)
    if callable(by.model.cell) or not by.model.sees_items or len(by.clip or ()) > 1:
        raise ModelError(
            f"{by.name!r} cannot choose a policy: it needs one clip, and a cell of 'item', of "
            "'item' and 'position', 'list' or 'prefix'. Use 'ladder-ip', 'ip', 'item', 'pbm' or "
            "'list'."
        )
    return what, by


def _from_position(ladder: Ladder) -> Ladder:
    """The rungs that know an item and its position alone: the best list is found by these."""
    if ladder.top == "ip":
        return ladder
    known = None if ladder.strengths is None else ladder.strengths[-3:]
    return Ladder("ip", known, ladder.examination)


def over_lists(by: Weighted | Ladder, lists: object) -> bool:
    """Whether a policy is chosen among lists, rather than among all orders of the items."""
    return lists is not None or (isinstance(by, Weighted) and by.model.over_lists)


def offered(lists: object) -> Observed | None:
    """The lists to choose from, if they are not those of the log."""
    if lists is None or (isinstance(lists, str) and lists == "logged"):
        return None
    return Observed(read_log(lists, clicks=None))


@dataclass(frozen=True)
class NamedItems:
    """Constraints that name items, as the user gave them.

    Attributes:
        pinned: a table of `context`, `item`, `position`.
        banned: items, or a table of `context` and `item`.
        at_least: items, and the least share of the slots that they get.
    """

    pinned: Any
    banned: Any
    at_least: Sequence[tuple[Iterable[Hashable], float]]

    def __bool__(self) -> bool:
        return self.pinned is not None or self.banned is not None or bool(self.at_least)

    def read(self, log: Tally, depth: int) -> Constraints:
        """The constraints, in the log's own types."""
        banned, banned_in = self._banned(log)
        groups = []
        for items, share in self.at_least:
            PART("at_least", share)
            groups.append((frozenset(_typed(item, log, ITEM) for item in items), share))
        return Constraints(
            pinned=self._pinned(log, depth),
            banned=banned,
            banned_in=banned_in,
            groups=tuple(groups),
        )

    def _pinned(self, log: Tally, depth: int) -> dict[Hashable, dict[int, Hashable]]:
        found: dict[Hashable, dict[int, Hashable]] = {}
        for row in _rows(self.pinned, (CONTEXT, ITEM, "position")):
            context, item = _typed(row[CONTEXT], log, CONTEXT), _typed(row[ITEM], log, ITEM)
            position = int(row["position"])
            if not 1 <= position <= depth:
                raise PolicyError(
                    f"pinned: position {position} for {item!r} in context {context!r}, but lists "
                    f"have {depth} positions. Pin it higher, or use a metric that counts further."
                )
            at = found.setdefault(context, {})
            if at.setdefault(position, item) != item:
                raise PolicyError(
                    f"pinned: {at[position]!r} and {item!r} are both to be at position {position} "
                    f"of context {context!r}. Pin one item there."
                )
        return found

    def _banned(
        self, log: Tally
    ) -> tuple[frozenset[Hashable], dict[Hashable, frozenset[Hashable]]]:
        if self.banned is None:
            return frozenset(), {}
        if isinstance(self.banned, list | tuple | set | frozenset):
            return frozenset(_typed(item, log, ITEM) for item in self.banned), {}
        found: dict[Hashable, set[Hashable]] = {}
        for row in _rows(self.banned, (CONTEXT, ITEM)):
            context = _typed(row[CONTEXT], log, CONTEXT)
            found.setdefault(context, set()).add(_typed(row[ITEM], log, ITEM))
        return frozenset(), {context: frozenset(items) for context, items in found.items()}


def _rows(source: object, columns: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of a small table of constraints."""
    if source is None:
        return []
    engine, table = open_source(source)
    missing = [c for c in columns if c not in table.columns]
    if missing:
        raise PolicyError(
            f"the table needs the columns {', '.join(columns)}, and {missing[0]!r} is not there."
            f"{did_you_mean(missing[0], table.columns)} It has {', '.join(table.columns)}."
        )
    return engine.rows(table.select(*columns))


def _typed(value: Hashable, log: Tally, column: str) -> Hashable:
    """As the log has it, text or a whole number: otherwise nothing would match."""
    kind = log.table[CONTEXT if column == CONTEXT else f"{ITEM}_1"].type()
    if kind.is_string():
        return str(value)
    try:
        return int(value)  # type: ignore[call-overload,no-any-return]
    except (TypeError, ValueError):
        raise PolicyError(
            f"{value!r} is no {column} of the log, whose {column}s are whole numbers."
        ) from None
