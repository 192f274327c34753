"""What of a candidate the log sees, and where it does not: by cells and by contexts.

All of it comes from the same weighed cells as the estimates. It is asked with the log's own
frequencies, so a cell that was logged has a weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add, or_
from typing import Any

import ibis
import ibis.expr.types as ir

from foreclick.engines import real, total, unordered, whole, zero
from foreclick.logs import CONTEXT, N
from foreclick.models import MASS
from foreclick.sqlkernel.cells import Ask, told
from foreclick.sqlkernel.influence import Influence
from foreclick.sqlkernel.logged import RECORDS
from foreclick.sqlkernel.prepared import Code, Prepared, per
from foreclick.sqlkernel.question import Stratum
from foreclick.sqlkernel.repeated import repeated
from foreclick.sqlkernel.tail import Tail, tails
from foreclick.sqlkernel.weighed import Weighed, names

Row = dict[str, Any]


@dataclass(frozen=True)
class Sight:
    """What of a candidate the log sees, for one ask, clip and stratum.

    Attributes:
        repeated: the share of the covered exposure that was seen in several periods; None if the
            log has no periods, or sees nothing.
        contexts: how many contexts are out of sight: nothing is covered that is shown there.
        records: how many records they have.
        heaviest: the cells with the largest weights: context, cell, weight, exposure, records, and
            their share of Σ E W².
        darkest: the contexts that hold most of the uncovered exposure: context, records, covered,
            and their share of it.
        tail: the largest weights of all, None where none is above 0.
    """

    repeated: float | None
    contexts: int
    records: float
    heaviest: tuple[Row, ...]
    darkest: tuple[Row, ...]
    tail: Tail | None


class Look:
    """How far a prepared log sees.

    Args:
        log: the prepared log.
        strata: its parts.
    """

    def __init__(self, log: Prepared, strata: list[Stratum]) -> None:
        self.log, self.strata, self.top = log, strata, log.question.look
        self.days = Influence(log, strata, "period") if log.tally.shape.period else None

    def sights(self, weighed: Weighed) -> dict[tuple[Ask, float, Code], Sight]:
        """For every ask, clip and stratum."""
        log, asks = self.log, weighed.asks
        again = {}
        if self.days is not None:
            slots = self.days.slots(weighed)
            again = repeated(log, weighed, self.days.seen(weighed, slots, hides=False))
        contexts = log.keep(self._contexts(weighed), "sight")
        out = self._out(asks, contexts)
        dark = self._first(contexts, [f"dark_{i}" for i in range(len(asks))], [CONTEXT])
        cells = self._cells(weighed)
        scores = [f"ratio_{i}" for i in range(len(asks))]
        ends = tails(log, weighed)
        heavy = self._first(cells, scores, [CONTEXT, *weighed.cell])
        found = {}
        for stratum in self.strata:
            code = stratum.code
            row = out.get(code, {})
            for i, m in names(asks):
                ask = asks[i]
                found[ask, ask.clips[m], code] = Sight(
                    repeated=again.get((ask, code)),
                    contexts=row.get(f"out_{i}", 0),
                    records=row.get(f"lost_{i}", 0),
                    heaviest=tuple(
                        _heavy(weighed, r, i, row[f"squared_{i}_{m}"], m)
                        for r in heavy.get((code, i), ())
                    ),
                    darkest=tuple(_dark(r, i, row[f"dark_{i}"]) for r in dark.get((code, i), ())),
                    tail=ends.get((ask, code)),
                )
        return found

    def _contexts(self, weighed: Weighed) -> ir.Table:
        """(context, by) → the candidate's exposure, seen and dark, and Σ E W²."""
        rows, log = weighed.table, self.log
        n_x = rows[RECORDS].cast("float64")
        sums: dict[str, ir.Value] = {}
        for i in range(len(weighed.asks)):
            mass, seen = n_x * rows[f"{MASS}_{i}"], rows[f"log_{i}"] > 0
            sums[f"seen_{i}"] = seen.ifelse(mass, real(0)).sum()
            sums[f"dark_{i}"] = seen.ifelse(real(0), mass).sum()
        for i, m in names(weighed.asks):
            sums[f"squared_{i}_{m}"] = _squared(rows, i, m).sum()
        return rows.group_by([*log.keys, RECORDS]).aggregate(**sums)

    def _out(self, asks: Sequence[Ask], contexts: ir.Table) -> dict[Code, Row]:
        """By stratum: the contexts out of sight, their records, and what shares are shares of."""
        sums: dict[str, ir.Value] = {}
        records = contexts[RECORDS]
        for i in range(len(asks)):
            out = (contexts[f"seen_{i}"] <= 0) & (contexts[f"dark_{i}"] > 0)
            sums[f"out_{i}"] = total(out.ifelse(whole(1), whole(0)))
            sums[f"lost_{i}"] = total(out.ifelse(records, zero(records.type())))
            sums[f"dark_{i}"] = contexts[f"dark_{i}"].sum()
        for i, m in names(asks):
            sums[f"squared_{i}_{m}"] = contexts[f"squared_{i}_{m}"].sum()
        rows = self.log.engine.rows(per(contexts, self.log.by).aggregate(**sums))
        return {tuple(row[b] for b in self.log.by): row for row in rows}

    def _cells(self, weighed: Weighed) -> ir.Table:
        rows = weighed.table
        numbers = range(len(weighed.asks))
        kept = [f"{stem}_{i}" for i in numbers for stem in (MASS, N, "ratio")]
        squares = {f"squared_{i}_{m}": _squared(rows, i, m) for i, m in names(weighed.asks)}
        return rows.select(*self.log.keys, *weighed.cell, *kept, **squares)

    def _first(
        self, rows: ir.Table, scores: Sequence[str], key: Sequence[str]
    ) -> dict[tuple[Code, int], list[Row]]:
        """The rows that score highest, by stratum and number of the score.

        Of equals, engines would each choose others: their keys are ordered as no engine would, and
        a score is rounded, so that what is equal but for the last bit is equal.
        """
        tie = unordered(reduce(add, [rows[c].cast("string") + ibis.literal("|") for c in key]))
        ranks = {
            f"rank_{i}": ibis.row_number().over(
                group_by=self.log.by,
                order_by=[rows[score].cast("float32").desc(), tie],
            )
            for i, score in enumerate(scores)
        }
        ranked = rows.mutate(**ranks)
        among = reduce(or_, [(ranked[r] < self.top) for r in ranks])
        found: dict[tuple[Code, int], list[Row]] = {}
        for row in self.log.engine.rows(ranked.filter(among)):
            code = tuple(row[b] for b in self.log.by)
            for i, score in enumerate(scores):
                if row[f"rank_{i}"] < self.top and row[score] > 0:
                    found.setdefault((code, i), []).append(row)
        for (_, i), mine in found.items():
            mine.sort(key=lambda row, i=i: row[f"rank_{i}"])  # type: ignore[misc]
        return found


def _squared(rows: ir.Table, i: int, m: int) -> ir.Value:
    """E W² of a cell."""
    weight = rows[f"w_{i}_{m}"]
    return rows[f"p_{i}"] * weight * weight


def _heavy(weighed: Weighed, row: Row, i: int, squared: float, m: int) -> Row:
    return {
        CONTEXT: row[CONTEXT],
        "cell": told(weighed.asks[i].model, {c: row[c] for c in weighed.cell}),
        "weight": row[f"ratio_{i}"],
        "exposure": row[f"{MASS}_{i}"],
        RECORDS: row[f"{N}_{i}"],
        "share": row[f"squared_{i}_{m}"] / squared if squared else None,
    }


def _dark(row: Row, i: int, dark: float) -> Row:
    seen, here = row[f"seen_{i}"], row[f"dark_{i}"]
    return {
        CONTEXT: row[CONTEXT],
        RECORDS: row[RECORDS],
        "covered": seen / (seen + here),
        "share": here / dark,
    }
