"""What a ladder says of a candidate: its value, where that came from, and what would move it.

The value is Σ_x n_x Σ_g H_g r_g over the candidate's slots. Strengths given, a rate moves with the
counts of its own cell and with the rate of the rung below, which moves with all of its cells,

    dr = (dc − r dn + s dr') / (n + s),        dr' = Σ_g s / (n_g + s) (dc_g − r_g dn_g) / … + …

so what moves is, at every rung, the same residuals of the top's cells. Summed over all ways that
lead from a cell to the candidate, V moves by A_g (c_g(t) − r_g n_g(t)) for a record t: the
influence function of a weighted estimator, with A for the weight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import ibis.expr.types as ir

from foreclick.engines import real
from foreclick.logs import N
from foreclick.models import MASS, POSITION, stacked
from foreclick.sqlkernel.cells import Ask, looked_up
from foreclick.sqlkernel.climb import CREDIT, RATE, Climb, classes_of, fitted, own, told
from foreclick.sqlkernel.hazard import LIST
from foreclick.sqlkernel.ladder import Ladder
from foreclick.sqlkernel.logged import RECORDS
from foreclick.sqlkernel.prepared import KNOWN, Code, Prepared, per
from foreclick.sqlkernel.weighed import Weighed

EXPECTED = "expected"


@dataclass(frozen=True)
class Rated:
    """One ladder, its asks of one reward, and the log and candidate they are asked about.

    Attributes:
        asks: for metrics of the same reward; by `list`, also of the same depth.
    """

    log: Prepared
    ladder: Ladder
    asks: list[Ask]

    @cached_property
    def climb(self) -> Climb:
        """The ladder, fitted, over the log."""
        log, metric = self.log, self.asks[0].metric
        fit = fitted(log.tally, self.ladder, metric.reward, log.depth)
        depth = metric.depth if self.ladder.top == "list" else log.depth
        classes = classes_of(log.tally, self.ladder)
        return Climb(fit, log.keys, log.by, depth, log.keep, classes)

    @cached_property
    def _log(self) -> tuple[list[str], list[ir.Table]]:
        """The columns that name a cell of the top, and the rungs of the log."""
        log, lists = self.log, self.log.lists
        if log.question.missing == "drop":  # from everything, so from the rungs too
            lists = lists.semi_join(log.contexts.filter(log.contexts[KNOWN]), log.keys)
        cell, cells = self.climb.cells(lists, log.keys, self._counts)
        return cell, self.climb.climb(cells)

    def slots(self, lists: ir.Table, keys: Sequence[str]) -> ir.Table:
        """Lists of the log spread over their slots, with the records and credit of each."""
        return self.climb.slots(lists, keys, self._counts)[1]

    @property
    def _counts(self) -> dict[str, str]:
        return {N: N, CREDIT: self.asks[0].metric.reward}

    @cached_property
    def _candidate(self) -> ir.Table:
        """The candidate's cells with their rates, and h_i, the exposure that metric i counts."""
        log, keys = self.log, [*self.log.keys, RECORDS]
        if self.ladder.top == "ip":
            cells = log.policy_slots(MASS)
        else:
            _, cells = self.climb.cells(log.policy_lists(MASS), keys, {MASS: MASS})
        cell, rungs = self._log
        rows = self.climb.beside(cells.filter(cells[MASS] > 0), rungs, cell)
        shown = rows[RECORDS].cast("float64") * rows[MASS]
        counted = {
            f"h_{i}": shown * looked_up(rows[POSITION], ask.metric.theta)
            for i, ask in enumerate(self.asks)
        }
        return log.keep(rows.mutate(**counted), "rated")

    def sums(self) -> dict[Code, dict[str, Any]]:
        """By stratum, for ask i: credit_i, mass_i, covered_i, and share_i_j of rung j."""
        rows, nothing = self._candidate, real(0)
        item = rows[f"{N}_{self.ladder.rungs.index('item')}"]
        shares = self.climb.shares(rows)
        sums: dict[str, ir.Value] = {}
        for i in range(len(self.asks)):
            h = rows[f"h_{i}"]
            sums |= {
                f"credit_{i}": (h * rows[RATE]).sum(),
                f"mass_{i}": h.sum(),
                f"covered_{i}": (item > 0).ifelse(h, nothing).sum(),
                f"cells_{i}": (h > 0).ifelse(real(1), nothing).sum(),
                f"seen_{i}": ((h > 0) & (rows[f"{N}_0"] > 0)).ifelse(real(1), nothing).sum(),
                **{f"share_{i}_{j}": (h * share).sum() for j, share in enumerate(shares)},
            }
        return self._by_code(per(rows, self.log.by).aggregate(**sums))

    def _by_code(self, table: ir.Table) -> dict[Code, dict[str, Any]]:
        return {tuple(row[b] for b in self.log.by): row for row in self.log.engine.rows(table)}

    # --- what moves it ----------------------------------------------------------------------------

    @cached_property
    def moved(self) -> Weighed:
        """Every cell of the log with a_i = A and b_i = A r, and by context Σ h r."""
        table, cell, numbers = self._steps[0], self._log[0], range(len(self.asks))
        found = table.select(
            *self._keys[0],
            N,
            **{f"a_{i}_0": table[f"a_{i}"] for i in numbers},
            **{f"b_{i}_0": table[f"a_{i}"] * table[RATE] for i in numbers},
        )
        return Weighed(self.asks, cell, self.log.keep(found, "moved"), self.scored, self)

    @cached_property
    def _steps(self) -> list[ir.Table]:
        """The rungs of the log from the top, each cell with its rate and a_i, how it moves V.

        All but the last also with slip_i: how far V is off for each click that a cell has more
        than the rung below tells of it. The candidate's slots there miss s / (n + s) of it, and the
        rung below takes it for its own.
        """
        _, rungs = self._log
        keys, last, numbers = self._keys, len(rungs) - 1, range(len(self.asks))
        reaching = self._reaching()
        bottom = _with(rungs[last], reaching[last], keys[last])
        there = bottom[N] > 0
        each = there.ifelse(real(1) / there.ifelse(bottom[N], real(1)), real(0))
        table = bottom.select(
            *keys[last],
            **{RATE: bottom[CREDIT] * each},
            **{f"a_{i}": bottom[f"h_{i}"] * each for i in numbers},
        )
        found = [table]
        for j in reversed(range(last)):
            s, on = self.climb.fit.strengths[j], keys[j + 1]
            cells = _with(rungs[j], reaching[j], keys[j])
            below = table.rename({f"below_{c}": c for c in table.columns if c not in on})
            joined = cells.join(below, on) if on else cells.cross_join(below)
            keeps, passes = own(joined[N], s), told(joined[N], s)
            expected = joined[f"below_{RATE}"] * self.climb.exposed(joined, j)
            table = joined.select(
                *keys[j],
                N,
                **{RATE: joined[CREDIT] * keeps + expected * passes, EXPECTED: expected},
                **{
                    f"a_{i}": joined[f"h_{i}"] * keeps + joined[f"below_a_{i}"] * passes
                    for i in numbers
                },
                **{
                    f"slip_{i}": (joined[f"h_{i}"] - joined[f"below_a_{i}"] * joined[N]) * passes
                    for i in numbers
                },
            )
            found.append(table)
        return found[::-1]

    @property
    def _keys(self) -> list[list[str]]:
        """The columns that name the cells of each rung."""
        return [[*self.log.keys, *self._log[0]], *self.climb.rung_keys[1:]]

    def _reaching(self) -> list[ir.Table]:
        """By the cells of each rung: how much of the candidate looks up its rate there."""
        rows = self._candidate
        return [per(rows, on).aggregate(**reach) for on, reach in self._reach(rows)]

    def _reach(self, rows: ir.Table) -> list[tuple[list[str], dict[str, ir.Value]]]:
        """By rung: its keys, and of rows of the candidate, what of h_i is looked up there."""
        left: ir.Value = real(1)
        found = []
        for j, on in enumerate(self._keys):
            sums = {f"h_{i}": (rows[f"h_{i}"] * left).sum() for i in range(len(self.asks))}
            found.append((on, sums))
            if j < len(self.climb.fit.strengths):
                passes = told(rows[f"{N}_{j}"], self.climb.fit.strengths[j])
                left = left * passes * self.climb.exposed(rows, j)
        return found

    def unsettled(self) -> dict[Code, dict[str, Any]]:
        """By stratum, rest_i: the variance of credit_i that no record of this log would show.

        What a cell has of its own and shrinkage takes from it is wrong in every log alike. By the
        ladder's own account a cell is off the rung below by a variance of r'/s, so this is
        Σ slip² r'/s over the cells of all rungs, those that only the candidate has included.
        """
        candidate, climb, by = self._candidate, self.climb, self.log.by
        numbers, parts = range(len(self.asks)), []
        for j, s in enumerate(climb.fit.strengths):
            if math.isinf(s):
                continue
            rows = candidate.filter(candidate[f"{N}_{j}"] == real(0))
            on, reach = self._reach(rows)[j]
            expected = climb.rates(rows)[j + 1] * climb.exposed(rows, j)
            new = per(rows, on).aggregate(**{EXPECTED: expected.max()}, **reach)
            for cells, stem in ((new, "h"), (self._steps[j], "slip")):
                varies = cells[EXPECTED] / real(s)
                squares = {f"rest_{i}": cells[f"{stem}_{i}"] ** 2 * varies for i in numbers}
                parts.append(cells.select(*by, **squares))
        if not parts:
            return {}
        every = stacked(parts)
        sums = {f"rest_{i}": every[f"rest_{i}"].sum() for i in numbers}
        return self._by_code(per(every, by).aggregate(**sums))

    def by_context(self, stem: str) -> ir.Table:
        """By context, {stem}_i_0 = Σ h r: its value times its records."""
        rows = self._candidate
        sums = {f"{stem}_{i}_0": (rows[f"h_{i}"] * rows[RATE]).sum() for i in range(len(self.asks))}
        return rows.group_by(self.log.keys).aggregate(**sums)

    def scored(self) -> ir.Table:
        """The candidate's lists, each with its probability and z_i_0, what it is worth."""
        log = self.log
        lists = log.keep(log.engine.identified(log.policy_lists(MASS), LIST), "scored")
        cell, slots = self.climb.slots(lists, [*log.keys, LIST], {})
        on = [*log.keys, *cell]
        joined = slots.join(self._candidate.select(*on, RATE), on)
        worth = joined.group_by(LIST).aggregate(
            **{
                f"z_{i}_0": (joined[RATE] * looked_up(joined[POSITION], ask.metric.theta)).sum()
                for i, ask in enumerate(self.asks)
            }
        )
        return worth.join(lists.select(*log.keys, LIST, RECORDS, MASS), LIST)

    def effective(self) -> dict[Code, dict[str, Any]]:
        """By stratum, for ask i: weighted_i = Σ n A and squared_i = Σ n A²."""
        table = self.moved.table
        sums: dict[str, ir.Value] = {}
        for i in range(len(self.asks)):
            weighted = table[N] * table[f"a_{i}_0"]
            sums |= {
                f"weighted_{i}": weighted.sum(),
                f"squared_{i}": (weighted * table[f"a_{i}_0"]).sum(),
            }
        return self._by_code(per(table, self.log.by).aggregate(**sums))


def _with(rung: ir.Table, reaching: ir.Table, on: list[str]) -> ir.Table:
    """A rung with what of the candidate reaches its cells, 0 where nothing does."""
    joined = rung.left_join(reaching, on) if on else rung.cross_join(reaching)
    new = {c: joined[c].fill_null(real(0)) for c in reaching.columns if c not in on}
    return joined.select(*rung.columns, **new)
