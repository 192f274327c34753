"""An optimised policy: its numbers, its words, and where to find the rest."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

import ibis
import ibis.expr.types as ir

from foreclick._evaluate import Evaluation
from foreclick.engines import Engine, real
from foreclick.logs import CONTEXT, ITEM
from foreclick.metrics import Metric
from foreclick.optimize.answers import ALL, CHANGED, FOLD, IMPOSSIBLE, PROBABILITY, UNSURE
from foreclick.policies import Lists
from foreclick.results import Result, Value
from foreclick.sqlkernel import Ladder, Weighted

_WHY = {
    UNSURE: "nothing is sure to be better",
    IMPOSSIBLE: "no policy keeps to the limits, with what was seen",
}


@dataclass(frozen=True, repr=False)
class Optimized(Result):
    """The best policy that a log supports.

    | column | meaning |
    |---|---|
    | value, se, low, high | what it is worth, judged by records that had no say in choosing it |
    | naive | what the estimate it was chosen by says of it, which flatters |
    | production | the mean reward of the log |
    | change, lift | value − production, and that divided by production, with paired intervals |
    | covered | the share of its exposure that was ever logged |
    | contexts, changed, kept | how many there are, got a new policy, and stay as they are |
    | lists | how many lists the changed contexts have |
    | verdict | better, worse, no difference (worth having), or cannot tell |

    Printed, it leaves out what follows from the rest; the columns are all there.

    Attributes:
        policy: the policy, with production's own lists where production stays.
        evaluation: how it was judged.
        gains: where the gain comes from: contexts sorted by it, in 200 rows at most.
        where: the engine with the answers by context; `answers`: their table there.
    """

    policy: Lists = field(kw_only=True, compare=False)
    evaluation: Evaluation | None = field(kw_only=True)
    gains: Result = field(kw_only=True)
    where: Engine = field(kw_only=True, compare=False)
    answers: ir.Table = field(kw_only=True, compare=False)

    @property
    def shown(self) -> tuple[str, ...]:
        """Without what follows from the rest."""
        dull = {"se", "change", "change_low", "change_high", "contexts"}
        dull |= {"lists"} if self["lists"] == self["changed"] else set()  # one each
        return tuple(c for c in self.columns if c not in dull)

    @property
    def value(self) -> float:
        """What the policy is worth, honestly; NaN if the judge sees nothing of it."""
        found = self["value"][0]
        return math.nan if found is None else float(found)

    @property
    def naive(self) -> float:
        """What the estimate it was chosen by says of it."""
        return float(self["naive"][0])

    @property
    def production(self) -> float:
        """What production earns today."""
        return float(self["production"][0])

    @property
    def contexts(self) -> ir.Table:
        """By context: why it was changed or not, its records, and what it earns and would earn.

        `naive` is the estimate of the new policy, `sure` the same after pessimism, `se` its
        standard error, and `se_next` that after as many records again, of the new policy; these
        two are of the ladder.
        """
        return by_context(self.answers)

    def write(self, path: str | Path) -> None:
        """Write the policy, as Parquet or CSV by the ending of the name; `fc.Lists` reads it.

        The columns are `context`, `item_1` …, `probability`, and whether the context is `changed`;
        the lists of a context stand together, the likeliest first.
        """
        table = self.policy.table
        items = [c for c in table.columns if c.startswith(f"{ITEM}_")]
        self.where.write(table.order_by([CONTEXT, ibis.desc(PROBABILITY), *items]), path)


_JUDGED = ("value", "se", "low", "high")
_PAIRED = ("change", "change_low", "change_high", "lift", "lift_low", "lift_high")


def summed_up(
    home: Engine,
    answers: ir.Table,
    judged: Evaluation | None,
    what: Metric,
    by: Weighted | Ladder,
    explore: float,
    folds: int,
) -> dict[str, Value]:
    """The one row: what all contexts earn together, by the naive estimate and honestly."""
    contexts = by_context(answers)
    changed = contexts["why"] == CHANGED
    n = contexts["records"]
    sums = home.rows(
        contexts.aggregate(
            records=n.sum(),
            production=(n * contexts["production"]).sum(),
            naive=(n * contexts["naive"]).sum(),
            contexts=contexts.count(),
            changed=changed.sum(),
            lists=contexts["lists"].sum(),
        )
    )[0]
    records = sums["records"] or 1.0
    production = (sums["production"] or 0.0) / records
    naive = (sums["naive"] or 0.0) / records
    honest = judged.to_dicts()[0] if judged else {}
    left = 1 - explore

    def mixed(value: Value, start: float) -> Value:
        """Of what is shown a share `left` of the time, and production otherwise."""
        return None if value is None else left * float(value) + explore * start

    start = honest.get("production", production)
    # Who found nothing sure in any part of the log was not rewarded there, but as production is.
    alone = naive if folds == 1 else production
    ends: dict[str, Value] = {
        c: mixed(honest.get(c, alone if c == "value" else None), float(start or 0.0))
        for c in _JUDGED
        if c != "se"
    }
    return {
        "estimator": by.name,
        "metric": what.name,
        "value": ends["value"],
        "se": mixed(honest.get("se"), 0.0),
        "low": ends["low"],
        "high": ends["high"],
        "naive": left * naive + explore * production,
        "production": production,
        **{c: mixed(honest.get(c), 0.0) for c in _PAIRED},
        "covered": honest.get("covered"),
        "contexts": int(sums["contexts"] or 0),
        "changed": int(sums["changed"] or 0),
        "kept": int((sums["contexts"] or 0) - (sums["changed"] or 0)),
        "lists": int(sums["lists"] or 0),
        "verdict": honest.get("verdict"),
    }


def worded(
    row: dict[str, Value],
    home: Engine,
    answers: ir.Table,
    judged: Evaluation | None,
    explore: float,
    folds: int,
) -> list[str]:
    """In words: what was changed, why the rest was not, and what flattery was taken away."""
    kept = answers.filter((answers[FOLD] == ALL) & (answers["why"] != CHANGED))
    reasons = home.rows(kept.group_by("why").aggregate(n=kept.count()))
    notes = [
        f"{row['changed']:,} of {row['contexts']:,} contexts get a new policy."
        + "".join(
            f" {r['n']:,} stay as they are: {_WHY[r['why']]}."
            for r in sorted(reasons, key=lambda r: -r["n"])
        )
    ]
    if judged is None:
        if folds == 1:
            notes.append(
                "The policy was not judged by records of its own, so value is the naive one, which "
                "flatters. Use folds=2."
            )
        elif row["changed"]:
            notes.append(
                "Parts of the log alone are sure of nothing, so there is nothing to judge, and "
                "value is production's. More records would tell."
            )
        return notes + _learnt(home, answers, explore)
    notes.append(
        f"The estimate that it was chosen by says {row['naive']:.4g}; records that had no say in "
        f"it say {_number(row['value'])}, and production earns {row['production']:.4g}."
    )
    alone = "Without exploring: " if explore else ""
    return [*notes, *(alone + note for note in judged.notes), *_learnt(home, answers, explore)]


def _number(value: Value) -> str:
    return "nothing" if value is None else f"{float(value):.4g}"


def _learnt(home: Engine, answers: ir.Table, explore: float) -> list[str]:
    """What the next log would tell, if production is explored."""
    if not explore:
        return []
    new = answers.filter((answers[FOLD] == ALL) & (answers["why"] == CHANGED))
    contexts = new.filter(new["se"] > 0).select(CONTEXT, "se", "se_next").distinct()
    left = contexts["se_next"] / contexts["se"]
    sums = contexts.aggregate(n=contexts.count(), mean=left.mean(), half=(left < real(0.5)).sum())
    row = home.rows(sums)[0]
    if not row["n"]:
        return []
    said = (
        f"Production is shown {explore:.0%} of the time. As many records again would shrink the "
        f"standard errors of the changed contexts to {row['mean']:.0%} on average, and those of "
        f"{row['half']:,} to less than half: column se_next of `contexts`."
    )
    return [said]


def by_context(answers: ir.Table) -> ir.Table:
    """What was said of each context, and how many lists it has."""
    rows = answers.filter(answers[FOLD] == ALL)
    said = ["why", "records", "production", "naive", "sure", "se", "se_next"]
    return rows.group_by([CONTEXT, *said]).aggregate(lists=rows[PROBABILITY].count())
