"""An optimised policy: its numbers, its words, and the policy as a file has it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.engines import write_rows
from foreclick.logs import CONTEXT, ITEM
from foreclick.optimization.choice import CHANGED, IMPOSSIBLE, PROBABILITY, UNSURE
from foreclick.policies import Lists
from foreclick.policies.base import Names
from foreclick.policies.serving import ITEMS
from foreclick.questions.answers import Evaluation, line_of
from foreclick.results import Headline, Result, Value, format_value
from foreclick.words import number_of

_WHY = {
    UNSURE: "nothing is sure to be better",
    IMPOSSIBLE: "no policy keeps to the constraints, with what was shown",
}


class Chosen(Lists):
    """Lists that `optimize` chose. Their probabilities sum to 1, and are not looked at again."""

    def __getstate__(self) -> dict[str, Any]:
        """With the table that is written, which says which contexts are changed."""
        names = ("table", "context", "items", "probability")
        return super().__getstate__() | {name: self.__dict__[name] for name in names}

    @property
    def _what(self) -> str:
        return Lists.__name__

    @cached_property
    def optimized(self) -> bool:
        """Whether `optimize` chose it: always."""
        return True

    def _check(self) -> None:
        """Nothing: reading a policy that lies in a file would fill the memory."""


@dataclass(frozen=True, repr=False)
class Optimized(Result):
    """The best policy that a log supports.

    | column | meaning |
    |---|---|
    | value, se, low, high | what it is worth, judged by records that it was not chosen by |
    | naive | the estimate that it was chosen by, which flatters |
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
        contexts: an Arrow table, by context: why it was changed or not, its records, and what it
            earns and would earn. `naive` is the estimate of the new policy, `sure` the same after
            pessimism, and `se` its standard error by the ladder.
        names: what the columns of the log are called, by their roles.
    """

    policy: Lists = field(kw_only=True, compare=False)
    evaluation: Evaluation | None = field(kw_only=True)
    contexts: pa.Table = field(kw_only=True, compare=False)
    names: Names = field(default_factory=dict, kw_only=True, compare=False)

    @property
    def shown(self) -> tuple[str, ...]:
        """Without what follows from the rest."""
        dull = {"se", "change", "change_low", "change_high", "contexts"}
        dull |= {"lists"} if self["lists"] == self["changed"] else set()  # one each
        return tuple(c for c in self.columns if c not in dull)

    @property
    def headline(self) -> Headline:
        """What the policy is worth, by records that it was not chosen by."""
        row = self.rows[0]
        if row["covered"] is None:  # nobody judged it
            worth = (format_value("value", row["production"]), format_value("value", row["value"]))
            line: tuple[str, ...] = (str(row["metric"]), "not judged", " → ".join(worth))
        else:
            line = line_of(row)
        title = f"The policy chosen by {row['estimator']}, against production"
        return Headline(title, (line,))

    @property
    def value(self) -> float:
        """What the policy is worth, honestly; NaN if the judge sees nothing of it."""
        value = self["value"][0]
        return math.nan if value is None else float(value)

    @property
    def naive(self) -> float:
        """The estimate that it was chosen by."""
        return float(self["naive"][0])

    @property
    def production(self) -> float:
        """What production earns today."""
        return float(self["production"][0])

    def write(self, path: str | Path) -> None:
        """Write the policy, as Parquet or CSV by the ending of the name; `fc.Lists` reads it.

        The columns are the context and the list of items, called as in the log, `probability`, and
        whether the context is `changed`. The lists of a context stand together, the likeliest
        first. In CSV a list is JSON, for instance ``[7, 3]``.
        """
        write_rows(as_lists(self.policy.table, self.names), path)


def summary(
    contexts: pa.Table, judged: Evaluation | None, names: tuple[str, str], *, held_out: bool
) -> tuple[dict[str, Value], list[str]]:
    """What all contexts earn together, by the naive estimate and honestly: one row, and notes.

    Args:
        contexts: see `Optimized`.
        judged: how the policies of halves were judged, if they were.
        names: of the estimator and the metric.
        held_out: whether records were held out to judge by.
    """
    n = np.asarray(contexts["records"])
    production, naive = (
        float(n @ np.asarray(contexts[c])) / (float(n.sum()) or 1.0)
        for c in ("production", "naive")
    )
    changed = int(pc.sum(pc.equal(contexts["why"], CHANGED)).as_py() or 0)
    # Where no half has a sure improvement, nothing was judged, and production would stay.
    honest: dict[str, Value] = {"value": production if held_out else naive}
    honest |= judged.to_dicts()[0] if judged else {}
    paired = ("change", "change_low", "change_high", "lift", "lift_low", "lift_high")
    row: dict[str, Value] = {
        "estimator": names[0],
        "metric": names[1],
        **{column: honest.get(column) for column in ("value", "se", "low", "high")},
        "naive": naive,
        "production": production,
        **{column: honest.get(column) for column in paired},
        "covered": honest.get("covered"),
        "contexts": contexts.num_rows,
        "changed": changed,
        "kept": contexts.num_rows - changed,
        "lists": int(np.asarray(contexts["lists"]).sum()),
        "verdict": honest.get("verdict"),
    }
    reasons = contexts["why"].value_counts().to_pylist()
    stay = (
        f" {one['counts']:,} stay as they are: {_WHY[one['values']]}."
        for one in sorted(reasons, key=lambda one: -one["counts"])
        if one["values"] != CHANGED
    )
    notes = [f"{changed:,} of {contexts.num_rows:,} contexts get a new policy." + "".join(stay)]
    if judged is not None:
        value = "nothing" if row["value"] is None else f"{float(row['value']):.4g}"
        notes.append(
            f"The estimate that it was chosen by says {naive:.4g}; records that had no say in it "
            f"say {value}, and production earns {production:.4g}."
        )
        notes += judged.notes
    elif not held_out:
        notes.append(
            "No records were held out to judge the policy (judge=None), so `value` is the estimate "
            "that chose it, which is too high."
        )
    elif changed:
        notes.append(
            "Half of the log is too small to find an improvement, so this policy was not tested, "
            f"and value is production's. Next: log {number_of(float(n.sum()), 'more record')}."
        )
    return row, notes


def as_lists(policy: pa.Table, names: Mapping[str, str | None]) -> pa.Table:
    """A policy as a file has it: columns called as in the log, and each list in one column.

    Args:
        policy: `context`, `item_1` …, `probability`, and perhaps `changed`.
        names: what the log's columns are called, by their roles. Where one is called as another
            column of the policy, both keep the names of their roles.
    """
    context, items = names.get(CONTEXT) or CONTEXT, names.get(ITEMS) or ITEMS
    others = {PROBABILITY, "changed"}
    if {context, items} & others or context in {ITEMS, items} or items == CONTEXT:
        context, items = CONTEXT, ITEMS
    slots = [name for name in policy.column_names if name.startswith(f"{ITEM}_")]
    rest = [name for name in policy.column_names if name in others]
    tables = []
    for batch in policy.to_batches():
        columns = [batch[name] for name in slots]
        shown = np.stack([np.asarray(column.is_valid()) for column in columns], axis=1)
        position = np.arange(1, len(slots) + 1)
        length = (shown * position).max(axis=1, initial=0)
        row, at = np.nonzero(position <= length[:, None])
        values = pa.concat_arrays(columns).take(pa.array(at * len(batch) + row))
        lists = pa.ListArray.from_arrays(np.append(0, np.cumsum(length)).astype(np.int32), values)
        arrays = {context: batch[CONTEXT], items: lists} | {name: batch[name] for name in rest}
        tables.append(pa.table(arrays))
    return pa.concat_tables(tables)
