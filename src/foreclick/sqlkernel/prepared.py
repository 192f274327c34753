"""A log prepared for one question: relations that the estimators share, each made once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import ibis
import ibis.expr.types as ir

from foreclick._tally import Tally, largest_rewards
from foreclick.engines import Engine, real, total, zero
from foreclick.errors import PolicyError
from foreclick.logs import BUCKET, CONTEXT, ITEM, PERIOD, PROPENSITY, N, numbered, numbered_all
from foreclick.metrics import Metric
from foreclick.models import MASS, POSITION, ClickModel
from foreclick.policies import Policy, View
from foreclick.sqlkernel.cells import CLUSTER, Ask, grouped_cells, prefixes_of
from foreclick.sqlkernel.ladder import Ladder
from foreclick.sqlkernel.logged import RECORDS, SHOWN, Keep, Logged
from foreclick.sqlkernel.question import Clusters, Part, Question, Stratum

Code = tuple[str, ...]
"""The values of the `by` columns, coded as text."""

KNOWN, LOGGING = "known", "logging"
_EXAMPLES = 3


class Prepared:
    """A tally prepared for one question: its lists and contexts, and the policies beside them."""

    def __init__(self, tally: Tally, question: Question, keep: Keep) -> None:
        self.engine: Engine = tally.engine
        self.question, self.keep, self.tally = question, keep, tally
        self.propensity = self._propensity()
        # The probability of a whole list is for the whole list, however little a metric counts;
        # one position more tells a longer list from it.
        whole_list = self.propensity == "list"
        # A ladder learns from all positions, whichever a metric counts.
        climbs = any(isinstance(e, Ladder) for e in question.estimators)
        self.depth = max(
            question.depth,
            tally.shape.depth + 1 if whole_list else 0,
            tally.shape.depth if climbs else 0,
        )
        self.by = [f"by_{i}" for i in range(len(question.by))]
        self.keys = [CONTEXT, *self.by]
        self._clustered: dict[Clusters, Logged] = {}
        # Where clusters are few, what they keep apart is no larger than the log's lists by much,
        # and the lists come from it rather than from the tally.
        whole = [c for c in question.clusters if c != "record"]
        if question.look and tally.shape.period:
            whole.append("period")
        self.log = self.clustered(whole[0]).without(CLUSTER) if whole else self._logged({})
        self.lists = self.log.lists
        self.view = View(self.engine, self.depth, self.lists, keep)
        self.policies: dict[str, Policy] = {MASS: question.candidate}
        if isinstance(question.logging, Policy):
            self.policies[LOGGING] = question.logging
        self.contexts = keep(self._contexts(), "contexts")
        self._kept: dict[str, ir.Table] = {}

    def kept(self, step: str, make: Callable[[], ir.Table]) -> ir.Table:
        """A step that several models share, made once."""
        if step not in self._kept:
            self._kept[step] = self.keep(make(), step)
        return self._kept[step]

    def clustered(self, clusters: Clusters) -> Logged:
        """The log with clusters kept apart, made once."""
        if clusters not in self._clustered:
            table = self.tally.table
            if clusters == "record":
                table = self.keep(self.engine.identified(table, CLUSTER), "identified")
            else:
                table = table.mutate(**{CLUSTER: table[PERIOD if clusters == "period" else BUCKET]})
            self._clustered[clusters] = self._logged({CLUSTER: table[CLUSTER]}, table)
        return self._clustered[clusters]

    def _logged(self, apart: dict[str, ir.Value], table: ir.Table | None = None) -> Logged:
        table = self.tally.table if table is None else table
        return Logged(
            self.tally,
            self.question.rewards,
            self.depth,
            self.keep,
            self.coded(table) | apart,
            table=table,
            propensity=self.propensity,
            squares=self._squares if self.question.spread else ((), ()),
        )

    def coded(self, table: ir.Table) -> dict[str, ir.Value]:
        """The values of the `by` columns of a tally's rows, as the engine compares them."""
        return {b: code_of(table[c]) for b, c in zip(self.by, self.question.by, strict=True)}

    @property
    def cell_depth(self) -> int | None:
        """Where the lists of `list` cells end, if not where their metric does."""
        return self.depth if self.propensity else None

    def key_depth(self, asks: list[Ask]) -> int:
        """How many positions the key of a prefix has, or of a list, whose end is its metric's."""
        own = asks[0].metric.depth if asks[0].model.cell == "list" else self.depth
        return self.cell_depth or own

    @cached_property
    def _squares(self) -> tuple[list[str], list[Metric]]:
        """The rewards that are not only 0 and 1, and the metrics that `list` is asked for."""
        shape, table = self.tally.shape, self.tally.table
        rewards = self.question.rewards
        whole = [r for r in rewards if table[shape.reward(r)[0]].type().is_integer()]
        largest = largest_rewards(self.tally, whole)
        graded = [r for r in rewards if r not in largest or largest[r] > 1]
        lists = any(e.model.cell == "list" for e in self.question.estimators)
        return graded, list(self.question.metrics) if lists else []

    def _propensity(self) -> str | None:
        """What the propensities that are used belong to; of a single slot, also to its list."""
        if self.question.logging != "propensity":
            return None
        shape = self.tally.shape
        return "list" if shape.depth == 1 else shape.propensity

    def _contexts(self) -> ir.Table:
        """(context, by) → records, what each position showed and earned, and who knows it."""
        marked = self._mark(self.log.summed(), self.policies[MASS], KNOWN)
        if self.question.beside is None or self.question.missing != "drop":
            return marked
        both = self._mark(marked, self.question.beside, "both")
        return both.mutate(**{KNOWN: both[KNOWN] & both["both"]}).drop("both")

    def _mark(self, contexts: ir.Table, policy: Policy, name: str) -> ir.Table:
        answered = policy.contexts(self.view).mutate(**{name: ibis.literal(True)})
        joined = contexts.left_join(answered, CONTEXT)
        return joined.select(*contexts.columns, **{name: joined[name].fill_null(False)})

    # --- what the estimate rests on -----------------------------------------------------------

    def strata(self) -> list[Stratum]:
        """The parts of the log, after the rule for missing contexts."""
        contexts = self.contexts
        columns = [*numbered_all(self.question.rewards, self.depth), *numbered(SHOWN, self.depth)]
        rows = self.engine.rows(
            contexts.group_by([*self.by, KNOWN]).aggregate(
                contexts=contexts.count(), **{c: total(contexts[c]) for c in (RECORDS, *columns)}
            )
        )
        parts = {(tuple(row[b] for b in self.by), row[KNOWN]): self._part(row) for row in rows}
        names = self.segments
        codes = sorted({code for code, _ in parts}, key=lambda code: order_of(names[code]))
        none = self._part({})
        strata = [
            Stratum(
                segment=names[code],
                code=code,
                known=parts.get((code, True), none),
                unknown=parts.get((code, False), none),
                used=self.question.missing == "production",
            )
            for code in codes
        ]
        self._refuse_missing(strata)
        return strata

    def _part(self, row: dict[str, Any]) -> Part:
        def listed(stem: str) -> list[float]:
            return [row.get(c, 0) for c in numbered(stem, self.depth)]

        return Part(
            contexts=row.get("contexts", 0),
            records=row.get(RECORDS, 0),
            shown=listed(SHOWN),
            rewards={reward: listed(reward) for reward in self.question.rewards},
        )

    @cached_property
    def segments(self) -> dict[Code, dict[str, Any]]:
        """The values of the `by` columns behind their codes."""
        return segments_of(self.tally, self.question.by)

    def ignored_contexts(self) -> int:
        """How many contexts only the candidate has."""
        theirs = self.policies[MASS].contexts(self.view)
        only = theirs.anti_join(self.contexts, CONTEXT)
        return int(self.engine.rows(only.aggregate(n=only.count()))[0]["n"])

    def blind(self, strata: list[Stratum]) -> set[Code]:
        """Strata in which the log shows no item of the candidate.

        A model that is blind to items (rctr, rcm), or a logging policy that could have shown them,
        would give an answer there all the same.
        """
        slots = self.policy_slots(MASS)
        shared = slots.filter(slots[MASS] > 0).semi_join(self.log.slots(), [*self.keys, ITEM])
        found = self.engine.rows(per(shared, self.by).aggregate(shared=shared.count()))
        seeing = {tuple(row[b] for b in self.by) for row in found if row["shared"]}
        seeing |= {s.code for s in strata if s.used and s.unknown.contexts}
        return {s.code for s in strata} - seeing

    @cached_property
    def logging_shown(self) -> dict[Code, list[float]]:
        """By stratum and position: Σ n_x times the chance that the logging policy fills it."""
        slots = self.policy_slots(LOGGING)
        filled = slots[RECORDS].cast("float64") * slots[LOGGING]
        rows = self.engine.rows(slots.group_by([*self.by, POSITION]).aggregate(sum=filled.sum()))
        found: dict[Code, list[float]] = {}
        for row in rows:
            positions = found.setdefault(tuple(row[b] for b in self.by), [0.0] * self.depth)
            positions[row[POSITION] - 1] = row["sum"]
        return found

    def _refuse_missing(self, strata: list[Stratum]) -> None:
        """A context without a list is an error, unless the user says what to do with it."""
        if LOGGING in self.policies:
            logged = self._mark(self.contexts, self.policies[LOGGING], LOGGING)
            self._complain(logged.filter(~logged[LOGGING]), "the logging policy has no list for")
        unknown = self.contexts.filter(~self.contexts[KNOWN])
        if not any(s.known.contexts for s in strata):
            self._complain(unknown, "the candidate has no list for any of the")
        if self.question.missing == "error" and any(s.unknown.contexts for s in strata):
            self._complain(
                unknown,
                "the candidate has no list for",
                " Say what they should count as: missing='production' (as they are today) or "
                "missing='drop' (leave them out of everything).",
            )

    def _complain(self, contexts: ir.Table, what: str, remedy: str = "") -> None:
        found = contexts.select(CONTEXT).distinct()
        count = self.engine.rows(found.aggregate(n=found.count()))[0]["n"]
        if count:
            some = self.engine.rows(found.order_by(CONTEXT).limit(_EXAMPLES))
            examples = ", ".join(repr(row[CONTEXT]) for row in some)
            raise PolicyError(
                f"{what} {count:,} contexts of the log, for example {examples}.{remedy}"
            )

    # --- rows that cells are made of ----------------------------------------------------------

    def _beside(self, rows: ir.Table, name: str) -> ir.Table:
        """A policy's rows, once for every stratum that has the context, with its records."""
        known = self.contexts.filter(self.contexts[KNOWN]).select(*self.keys, RECORDS)
        named = rows.rename({name: MASS}) if name != MASS else rows
        columns = [c for c in named.columns if c != CONTEXT]
        return known.join(named, CONTEXT).select(*self.keys, RECORDS, *columns)

    def policy_slots(self, name: str) -> ir.Table:
        """(by, context), records and the slots of a policy, with how likely each is."""
        policy = self.policies[name]
        return self.kept(f"{name}_slots", lambda: self._beside(policy.slots(self.view), name))

    def policy_lists(self, name: str) -> ir.Table:
        """(by, context), records and the lists of a policy, with how likely each is."""
        policy = self.policies[name]
        return self.kept(f"{name}_lists", lambda: self._beside(policy.lists(self.view), name))

    # --- cells ----------------------------------------------------------------------------------

    def cells(self, asks: list[Ask]) -> tuple[list[str], ir.Table]:
        """The candidate's cells by a model, with what the log knows of each.

        Returns:
            The names of the cell's columns, and the cells: by, `records`, `n`, and for ask i:
            mass_i, p_i, c_i and, if the logging policy is given, logging_i; all summed over the
            cell's slots.
        """
        cell, candidate = self._grouped(asks, [*self.keys, RECORDS], MASS)
        key = [*self.keys, *cell]
        own = [*self.keys, *([PROPENSITY] if self.propensity else [])]
        _, logged = self._grouped(asks, own, "log", within=candidate.select(*key))
        found = _beside_each(candidate, logged, key)
        if LOGGING in self.policies:
            _, theirs = self._grouped(asks, self.keys, LOGGING)
            found = _beside_each(found, theirs, key)
        if self.propensity:  # which part of its cell's records a row stands for
            all_n = found[N].sum().over(ibis.window(group_by=key))
            share = found[N].cast("float64") / (all_n > 0).ifelse(all_n, 1).cast("float64")
            found = found.mutate(share=(all_n > 0).ifelse(share, real(1)))
        return cell, found

    def _grouped(
        self, asks: list[Ask], keys: list[str], side: str, within: ir.Table | None = None
    ) -> tuple[list[str], ir.Table]:
        """One side's cells; of the log, only those that the candidate shows."""
        model = asks[0].model
        rows = (
            self.log.rows(model, self.contexts) if side == "log" else self._policy_rows(model, side)
        )
        spread = side == "log" and self.question.spread
        return grouped_cells(rows, asks, keys, side, within, self.cell_depth, spread=spread)

    def _policy_rows(self, model: ClickModel, side: str) -> ir.Table:
        if not model.over_lists:
            return self.policy_slots(side)
        lists = self.policy_lists(side)
        if model.cell == "list":
            return lists
        return prefixes_of(lists, self.depth, self.depth, [*self.keys, RECORDS], [side])


def _beside_each(cells: ir.Table, others: ir.Table, key: list[str]) -> ir.Table:
    """Cells with what another side knows of them, 0 where it knows nothing."""
    joined = cells.left_join(others, key)
    new = [c for c in others.columns if c not in key]
    filled = {
        c: joined[c] if c == PROPENSITY else joined[c].fill_null(zero(others[c].type()))
        for c in new
    }
    return joined.select(*cells.columns, **filled)


def code_of(segment: ir.Column) -> ir.StringValue:
    """A segment's value as text that is never NULL, another for each value."""
    text = ibis.literal("=") + segment.cast("string")
    return text.fill_null("")


def segments_of(tally: Tally, by: Sequence[str]) -> dict[Code, dict[str, Any]]:
    """The values of some columns of a tally behind their codes."""
    if not by:
        return {(): {}}
    table, names = tally.table, [f"by_{i}" for i in range(len(by))]
    coded = {name: code_of(table[b]) for name, b in zip(names, by, strict=True)}
    rows = tally.engine.rows(table.select(*by, **coded).distinct())
    return {tuple(row[c] for c in names): {b: row[b] for b in by} for row in rows}


def order_of(segment: dict[str, Any]) -> tuple[tuple[bool, Any], ...]:
    """What segments are sorted by; those without a value come last."""
    return tuple((value is None, value) for value in segment.values())


def per(table: ir.Table, keys: list[str]) -> Any:  # noqa: ANN401 - a table, grouped or not
    """A group-by that may be by nothing."""
    return table.group_by(keys) if keys else table
